"""Each extra brings what its pages start, and every extra of a page or of setup.cfg is tried."""

from __future__ import annotations

import ast
import configparser
import re
from importlib.metadata import PackageNotFoundError

import pytest

from children import ROOT
from environments import extras

PAGES = [*ROOT.glob('*.md'), *ROOT.glob('docs/**/*.md'), *ROOT.glob('projects/gallery/**/*.md')]
#: ``'.[hdf5]'``, ``'mmvtr[...]'``, ``'projects/gallery[serve,index]'``.
WITH_EXTRAS = re.compile(
    r'(mmvtr-gallery|projects/gallery|mmvtr|(?<=[\'"\s`])\.)\[([a-z][a-z,-]*)\]'
)
KEYS = {'mmvtr-gallery': 'gallery', 'projects/gallery': 'gallery', 'mmvtr': 'mmvtr', '.': 'mmvtr'}


def of_pages() -> dict[str, set[tuple[str, str]]]:
    """Page -> (distribution, extra) of all that it says to install."""
    found = {}
    for page in PAGES:
        said = {
            (KEYS[name], extra)
            for name, listed in WITH_EXTRAS.findall(page.read_text())
            for extra in listed.split(',')
            if extra not in extras.DEVELOPERS
        }
        if said and page.name != 'CHANGELOG.md':
            found[str(page.relative_to(ROOT))] = said
    return found


def of_rows() -> set[tuple[str, str]]:
    keys = [key for key, _, _ in extras.PARTS]
    return {(key, one) for row in extras.ROWS for key in keys for one in row.get(key) or ()}


def test_every_extra_of_a_page_is_tried():
    pages = of_pages()
    assert len(pages) >= 12
    listed = of_rows()
    assert {page: said - listed for page, said in pages.items() if said - listed} == {}


def test_every_extra_of_setup_cfg_is_tried():
    declared = set()
    for key, place in (('mmvtr', ROOT), ('gallery', ROOT / 'projects/gallery')):
        config = configparser.ConfigParser()
        config.read(place / 'setup.cfg')
        declared |= {(key, name) for name in config['options.extras_require']}
    developers = {one for one in declared if one[1] in extras.DEVELOPERS}
    assert declared - developers == of_rows()


def strings_of(source):
    return [
        node.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]


def test_messages_name_extras_of_a_checkout():
    """The project is on no package index: ``pip install 'mmvtr[...]'`` would fail."""
    said = {
        (str(path.relative_to(ROOT)), name, extra)
        for folder in ('mmvtr', 'tools', 'projects/gallery/mmvtr_gallery')
        for path in (ROOT / folder).rglob('*.py')
        if 'pip install' in (source := path.read_text())  # most files need no parsing
        for text in strings_of(source)
        if 'pip install' in text
        for name, listed in WITH_EXTRAS.findall(text)
        for extra in listed.split(',')
    }
    assert len(said) >= 10
    assert {one for one in said if one[1] not in ('.', 'projects/gallery')} == set()
    assert {one for one in said if (KEYS[one[1]], one[2]) not in of_rows()} == set()


@pytest.mark.parametrize('row', extras.ROWS, ids=extras.named)
def test_pages_say_what_is_tried(row):
    for page in row['pages']:
        text = (ROOT / page).read_text()
        for said in row.get('says') or ():
            assert said in text, (page, said)
        for extra in [*(row.get('mmvtr') or ()), *(row.get('gallery') or ())]:
            assert re.search(rf'\b{extra}\b', text), (page, extra)


#: Rows that the suite tries; the nightly tests try the others.
FIRST = ('mmvtr',)


@pytest.mark.parametrize(
    'row',
    [
        pytest.param(row, marks=() if extras.named(row) in FIRST else pytest.mark.nightly)
        for row in extras.ROWS
    ],
    ids=extras.named,
)
def test_an_extra_brings_what_it_starts(tmp_path, row):
    """Nothing else that is installed here is there."""
    wanted = [('mmvtr', tuple(row['mmvtr'])), ('mmvtr-gallery', tuple(row.get('gallery') or ()))]
    try:
        names = extras.closure(wanted) - {'mmvtr', 'mmvtr-gallery'}
    except PackageNotFoundError as error:
        pytest.skip(f'{error} is not installed')
    here = [ROOT, ROOT / 'projects/gallery']
    python = extras.linked(tmp_path / 'env', names, here=here)
    failed = extras.start(python, row['start'], tmp_path)
    assert failed is None, failed
    if not row['mmvtr'] and not row.get('gallery'):
        assert extras.start(python, extras.first_block(tmp_path), tmp_path) is None
        assert 'pyarrow' in extras.start(python, 'import pyarrow', tmp_path)


@pytest.mark.nightly
def test_each_install_for_real(tmp_path):
    found = list(extras.tried(extras.ROWS, tmp_path))
    assert len(found) > len(extras.ROWS)
    assert [one for one in found if one[2] is not None] == []
