"""The site: ``pip install -e '.[docs]' && python -m sphinx -W docs build/site``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from docutils import nodes
from math_core import LatexToMathML

from mmvtr import __version__

project = 'mmvtr'
author = copyright = 'the mmvtr authors'
release = version = __version__

mathml = LatexToMathML().convert_with_local_state  # an error in an equation ends the build

extensions = [
    'myst_parser',
    'sphinx.ext.autodoc',
    'sphinx.ext.napoleon',
    'sphinx.ext.viewcode',
    'sphinx_copybutton',
    'sphinx_design',
]
exclude_patterns = ['rehearsal']  # records

viewcode_follow_imported_members = False  # else it lists builtins, which have no page

html_theme = 'furo'
html_title = 'mmvtr'
html_static_path = ['_static']
html_css_files = ['custom.css']
html_show_sphinx = False
html_math_renderer = 'mathml'  # set when the site is built: no script, no font, no network

myst_enable_extensions = ['colon_fence', 'dollarmath', 'amsmath']
myst_heading_anchors = 4

autodoc_member_order = 'bysource'
autodoc_typehints = 'description'
autodoc_typehints_description_target = 'documented'
napoleon_use_ivar = True  # a NamedTuple's attributes are fields already
napoleon_use_rtype = False
# Attributes of many classes are called texts, and a list of attributes does not say whose it means.
suppress_warnings = ['ref.python']


def set_formulas(
    app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]
) -> None:
    """Formulas stand indented below a paragraph: shown as they are, not as a quotation."""
    done: list[str] = []
    for line in lines:
        before = next((other for other in reversed(done) if other.strip()), '')
        if line.startswith('    ') and done and not done[-1].strip() and not before.startswith(' '):
            if not before.rstrip().endswith('::'):
                done += ['::', '']
        done.append(line)
    lines[:] = done


def equations() -> dict[str, str]:
    """Those of equations.md, by the name of the function."""
    page = (Path(__file__).parent / 'equations.md').read_text()
    return dict(re.findall(r'^### (\w+)\n.*?^\$\$\n(.*?)\n\$\$', page, flags=re.DOTALL | re.M))


def set_equations(
    app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]
) -> None:
    """The equation of a function of mmvtr.functional below the first paragraph of its docstring."""
    module, _, short = name.rpartition('.')
    equation = equations().get(short) if module.startswith('mmvtr.functional.') else None
    if equation and what in ('function', 'class'):
        end = lines.index('') if '' in lines else len(lines)
        lines[end:end] = ['', '.. math::', '', *('   ' + x for x in equation.splitlines()), '']


def set_inline(visitor: Any, node: nodes.math) -> None:
    """Inline math as MathML, which browsers set by themselves."""
    visitor.body.append(mathml(node.astext(), displaystyle=False))
    raise nodes.SkipNode


def set_display(visitor: Any, node: nodes.math_block) -> None:
    r"""Display math as MathML; a line that begins with \qquad is a formula of its own."""
    parts = re.split(r'\n\\qquad ', node.astext())
    visitor.body += ['<div class="equation">', *(mathml(x, displaystyle=True) for x in parts)]
    visitor.body.append('</div>')
    raise nodes.SkipNode


def name_projects(app: Any, name: str, source: list[str]) -> None:
    """Links to projects/ and mmvtr/, which are no part of the site, become names of files."""
    link = re.compile(r'(?<!!)\[([^\]]+)\]\((?:\.\./)+(projects/[^)#]*)[^)]*\)')
    source[0] = link.sub(r'\1 (`\2`)', source[0])
    source[0] = re.sub(r'\[(`[^`]+`)\]\((?:\.\./)+mmvtr/[^)]+\)', r'\1', source[0])


#: Rooms of ``mmvtr`` on a page of the reference; any other page holds the room of its name.
ROOMS = dict(
    users=(
        *(
            'apis',
            'arrays',
            'figures',
            'hard_negatives',
            'inferencer',
            'normaliser',
            'plain_config',
        ),
        *('pretrained', 'sentence_transformers', 'utils'),
    )
)


def modules_of(room: str) -> list[str]:
    """``mmvtr.<room>``, or all modules in it, sorted."""
    base = Path(__file__).parents[1]
    place = base / 'mmvtr' / room
    files = place.rglob('*.py') if place.is_dir() else [place.with_suffix('.py')]
    names = [file.relative_to(base).with_suffix('').parts for file in files]
    return sorted('.'.join(x) for x in names if x[-1] not in ('__init__', '__main__'))


def set_reference(app: Any, name: str, source: list[str]) -> None:
    """A page of the reference gets all modules of its rooms."""
    page = name.removeprefix('api/')
    if page in (name, 'index'):
        return
    for module in (x for room in ROOMS.get(page, (page,)) for x in modules_of(room)):
        title = module.removeprefix('mmvtr.')
        directive = f'.. automodule:: {module}\n   :members:'
        source[0] += f'\n## {title}\n\n```{{eval-rst}}\n{directive}\n```\n'


def setup(app: Any) -> None:
    """Sphinx calls it."""
    app.connect('source-read', set_reference)
    app.add_html_math_renderer('mathml', (set_inline, None), (set_display, None))
    app.connect('source-read', name_projects)
    app.connect('autodoc-process-docstring', set_equations, priority=50)
    app.connect('autodoc-process-docstring', set_formulas, priority=100)  # before napoleon
