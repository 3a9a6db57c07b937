"""The site: ``pip install -e '.[docs]' && python -m sphinx -W docs build/site``."""

from __future__ import annotations

from importlib.metadata import version as version_of
from typing import Any

project = 'mmvtr'
author = copyright = 'the mmvtr authors'
release = version = version_of('mmvtr')

extensions = [
    'myst_parser',
    'sphinx.ext.autodoc',
    'sphinx.ext.napoleon',
    'sphinx.ext.viewcode',
    'sphinx_copybutton',
    'sphinx_design',
]
exclude_patterns = ['benchmark', 'rehearsal', 'reliability']  # records and pictures

html_theme = 'furo'
html_title = 'mmvtr'

myst_enable_extensions = ['colon_fence', 'dollarmath']
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


def setup(app: Any) -> None:
    """Sphinx calls it."""
    app.connect('autodoc-process-docstring', set_formulas, priority=100)  # before napoleon
