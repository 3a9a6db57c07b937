"""Pages and messages are plain technical English: idioms that once stood there stay away."""

import ast
import re

import pytest

from children import ROOT

#: What readers stumbled over.
BANNED = re.compile(
    r'\bthe house\b|\bto be won\b|\bfor \d+(\.\d+)? of rsum\b|\bheard as\b|\bof unit length each\b|'
    r'\bwhat surely holds\b|\bspares\b|\bgalleries that are kept\b|\bwhat one sees\b|'
    r'\bfrom letter to sound\b|\bto the letter\b|\bfind the room\b|\bin sight of\b',
    flags=re.IGNORECASE,
)
PAGES = [
    *(ROOT / name for name in ('README.md', 'CONTRIBUTING.md')),
    *sorted(x for x in (ROOT / 'docs').rglob('*.md') if x.parent.name != 'generated'),
    *sorted((ROOT / 'projects').rglob('*.md')),
]
CODE = [path for part in ('mmvtr', 'tools') for path in sorted((ROOT / part).rglob('*.py'))]


@pytest.mark.parametrize('page', PAGES, ids=lambda path: f'{path.parent.name}-{path.name}')
def test_pages(page):
    found = [m[0] for m in BANNED.finditer(' '.join(page.read_text().split()))]
    assert not found


def test_messages_and_docstrings():
    wrong = []
    for path in CODE:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                wrong += [(path.name, m[0]) for m in BANNED.finditer(' '.join(node.value.split()))]
    assert not wrong


def test_pages_are_short():
    """A page has at most 4,000 words, and all pages 60,000."""
    lengths = {path: len(path.read_text().split()) for path in PAGES if 'docs' in path.parts}
    assert not {path.name: n for path, n in lengths.items() if n > 4000}
    assert sum(lengths.values()) <= 60_000
