"""The site: ``pip install -e '.[docs]' && python -m sphinx -W docs build/site``."""

from __future__ import annotations

import json
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import yaml
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
    'sphinx.ext.autosummary',
    'sphinx.ext.napoleon',
    'sphinx.ext.viewcode',
    'sphinx_copybutton',
    'sphinx_design',
]
autosummary_generate = False

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
    short = name.rpartition('.')[2]
    equation = equations().get(short) if name.startswith('mmvtr.functional.') else None
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


#: The pages of mmvtr-gallery, which :func:`copy_gallery` copies.
GALLERY = Path(__file__).parents[1] / 'projects/gallery/docs'


def copy_gallery(app: Any) -> None:
    """Copy the gallery's pages to ``docs/gallery``, which git ignores."""
    folder = Path(app.srcdir) / 'gallery'
    folder.mkdir(exist_ok=True)
    for path in GALLERY.glob('*.md'):
        text = path.read_text().replace('](../../../docs/', '](../')
        text = re.sub(r'\]\((?:\.\./)+(README|lab/|deploy)', r'](../../projects/gallery/\1', text)
        page = folder / path.name
        if not page.is_file() or page.read_text() != text:
            page.write_text(text)


def no_mail(app: Any, tree: nodes.document) -> None:
    """docutils takes ``R@50`` for an address."""
    for node in [*tree.findall(nodes.reference)]:
        if node.get('refuri', '').startswith('mailto:'):
            node.replace_self(nodes.Text(node.astext()))


def keep_sections(app: Any, tree: nodes.document) -> None:
    """Keep the sections of a page, as the search reads them, with Sphinx's environment.

    ``<!-- search: parquet, Arrow -->`` below a heading gives its section further names.
    """
    rows = []
    for section in tree.findall(nodes.section):
        titles, names, text, above = [], [], [], section
        while isinstance(above, nodes.section):
            titles.append(above[0].astext())
            above = above.parent
        for part in section[1:]:
            found = re.fullmatch(r'\s*<!-- search: (.*?) -->\s*', part.astext(), flags=re.DOTALL)
            if found:
                names += re.split(r',\s+', found[1])
            elif not isinstance(part, nodes.section):
                text.append(part.astext())
        rows.append([app.env.docname, section['ids'][0], titles, names, ' '.join(text)])
    app.env.sections = {**getattr(app.env, 'sections', {}), app.env.docname: rows}


def unknown_pages(app: Any, env: Any, *_: Any) -> set[str]:
    """Pages that an earlier build read without keeping their sections."""
    return env.found_docs - getattr(env, 'sections', {}).keys()


def set_search(app: Any, name: str, *_: Any) -> None:
    """The page of the search gets the sections and the script that ranks them."""
    if name == 'search':
        rows = [row for page in sorted(app.env.found_docs) for row in app.env.sections[page]]
        folder = Path(app.outdir) / '_static'
        folder.mkdir(parents=True, exist_ok=True)
        (folder / 'sections.js').write_text(f'const SECTIONS = {json.dumps(rows)};\n')
        for script in ('sections.js', 'search.js'):
            app.add_js_file(script, loading_method='defer')  # after Sphinx's, before the search


def name_projects(app: Any, name: str, source: list[str]) -> None:
    """Link to the copies of the gallery's pages; links to other files of projects/, configs/ and
    mmvtr/, no part of the site, become names of files."""
    up = '../' * name.count('/')
    copied = re.compile(r'\]\((?:\.\./)+projects/gallery/docs/(\w+\.md)')
    source[0] = copied.sub(rf'](./{up}gallery/\1', source[0])
    link = re.compile(r'(?<!!)\[([^\]]+)\]\((?:\.\./)+((?:projects|configs)/[^)#]*)[^)]*\)')
    source[0] = link.sub(r'\1 (`\2`)', source[0])
    source[0] = re.sub(r'\[(`[^`]+`)\]\((?:\.\./)+mmvtr/[^)]+\)', r'\1', source[0])


#: What of ``mmvtr`` a page of the reference shows; other pages show the package of their name.
ROOMS = dict(users=('arrays', 'sentence_transformers', 'apis', 'utils'))


def modules_of(room: str) -> list[str]:
    """``mmvtr.<room>``, or all modules in it, sorted."""
    base = Path(__file__).parents[1]
    place = base / 'mmvtr' / room
    files = place.rglob('*.py') if place.is_dir() else [place.with_suffix('.py')]
    names = [file.relative_to(base).with_suffix('').parts for file in files]
    return sorted('.'.join(x) for x in names if x[-1] not in ('__init__', '__main__'))


def by_task(room: str) -> dict[str, list[str]]:
    """Functions and classes that ``mmvtr.<room>`` defines and exports, by the part they are in."""
    package = import_module(f'mmvtr.{room}')
    groups: dict[str, list[str]] = {}
    for name in sorted(getattr(package, '__all__', ())):
        thing = getattr(package, name)
        module = getattr(thing, '__module__', '')
        if not callable(thing) or not module.startswith(package.__name__):
            continue
        inner = module.removeprefix(package.__name__).strip('.').split('.')
        folder = Path(__file__).parents[1] / 'mmvtr' / room / inner[0]
        groups.setdefault(inner[0] if folder.is_dir() else '', []).append(name)
    return dict(sorted(groups.items()))


def exported(room: str, title: str, names: list[str]) -> str:
    """A table of one line each; every name has a page of its own."""
    rows = [f'   ~mmvtr.{room}.{name}' for name in names]
    table = ['```{eval-rst}', '.. autosummary::', '   :nosignatures:', '', *rows, '```']
    listed = [f'generated/mmvtr.{room}.{name}' for name in names]
    return '\n'.join(['', f'## {title}', '', *table, '', *menu(listed)])


def menu(pages: list[str]) -> list[str]:
    """Pages below one, which no list shows."""
    return ['```{toctree}', ':hidden:', '', *pages, '```', '']


def set_reference(app: Any, name: str, source: list[str]) -> None:
    """A page of the reference lists all that its packages export, or else their modules."""
    page = name.removeprefix('api/')
    if page in (name, 'index') or '/' in page:
        return
    for room in ROOMS.get(page, (page,)):
        groups = by_task(room)
        for part, names in groups.items():
            title = (part if room == page and part else f'{room} {part}').strip()
            source[0] += exported(room, title.replace('_', ' ').capitalize(), names)
        if not groups:
            listed = [f'generated/{module}' for module in modules_of(room)]
            links = [f'- [{path.split(".", 1)[1]}]({path}.md)' for path in listed]
            title = room.replace('_', ' ').capitalize()
            source[0] += '\n'.join(['', f'## {title}', '', *links, '', *menu(listed)])


def reference() -> dict[str, str]:
    """Name -> its page: of each function and class that a package exports, of other modules."""
    pages = {}
    listed = {path.stem for path in (Path(__file__).parent / 'api').glob('*.md')} - {'index'}
    for room in (room for page in sorted(listed) for room in ROOMS.get(page, (page,))):
        groups = by_task(room)
        for name in (name for names in groups.values() for name in names):
            thing = getattr(import_module(f'mmvtr.{room}'), name)
            kind = 'class' if isinstance(thing, type) else 'function'
            members = '\n   :members:' if kind == 'class' else ''
            pages[f'mmvtr.{room}.{name}'] = f'.. auto{kind}:: mmvtr.{room}.{name}{members}'
        for module in [] if groups else modules_of(room):
            pages[module] = f'.. automodule:: {module}\n   :members:'
    return pages


def write_reference(app: Any) -> None:
    """``docs/api/generated``, which git ignores; a page that is as it was is not touched."""
    folder = Path(app.srcdir) / 'api/generated'
    folder.mkdir(exist_ok=True)
    pages = reference()
    for path in folder.glob('*.md'):
        if path.stem not in pages:
            path.unlink()
    for name, directive in pages.items():
        path = folder / f'{name}.md'
        text = f'# {name}\n\n```{{eval-rst}}\n{directive}\n```\n'
        if not path.is_file() or path.read_text() != text:
            path.write_text(text)


def row_of(model: dict[str, Any]) -> str:
    """A config's row of the model zoo: what its paper reports, of text to video and in all."""
    (result,) = model['Results']
    (source, numbers), *_ = ((k, v) for k, v in result['Metrics'].items() if k != 'ours')
    if isinstance(numbers, str):
        source, numbers = 'no number found', {}
    else:
        source = source.removeprefix('reported (').removesuffix(')')
    total = next((f'{k} {v:g}' for k, v in numbers.items() if k in ('rsum', 'SumR')), '')
    first = next((f'{k} {v:g}' for k, v in numbers.items() if k not in ('rsum', 'SumR')), '')
    reported = ', '.join(x for x in (first, total) if x)
    ours = result['Metrics']['ours']
    return f'| `{model["Name"]}` | {result["Dataset"]} | {reported} | {source} | {ours} |'


def set_zoo(app: Any, name: str, source: list[str]) -> None:
    """The page of the model zoo gets a table a metafile."""
    if name != 'model_zoo':
        return
    base, tables = Path(__file__).parents[1], ''
    for path in yaml.safe_load((base / 'model-index.yml').read_text())['Import']:
        content = yaml.safe_load((base / path).read_text())
        papers = content['Collections']
        titles = ', '.join(f'[{x["Name"]}]({x["Paper"]["URL"]}) ({x["Year"]})' for x in papers)
        head = '| config | dataset | reported | source | ours |\n|---|---|---|---|---|\n'
        rows = '\n'.join(row_of(model) for model in content['Models'])
        tables += f'## {papers[0]["Name"]}\n\n{titles}\n\n{head}{rows}\n\n'
    source[0] = source[0].replace('## Families', f'{tables}## Families')


def setup(app: Any) -> None:
    """Sphinx calls it."""
    app.connect('builder-inited', write_reference)
    app.connect('builder-inited', copy_gallery)
    app.connect('doctree-read', no_mail)
    app.connect('doctree-read', keep_sections)
    app.connect('env-get-outdated', unknown_pages)
    app.connect('html-page-context', set_search)
    app.connect('source-read', set_reference)
    app.connect('source-read', set_zoo)
    app.add_html_math_renderer('mathml', (set_inline, None), (set_display, None))
    app.connect('source-read', name_projects)
    app.connect('autodoc-process-docstring', set_equations, priority=50)
    app.connect('autodoc-process-docstring', set_formulas, priority=100)  # before napoleon
