"""The committed results of rehearsals: of the configs as they are now, and as the page says."""

import json

import pytest

from children import ROOT, WITHIN_MINUTES
from mmvtr.rehearsal.report import fingerprint, page
from mmvtr.utils import load_config

FOLDER = ROOT / 'docs' / 'rehearsal'
RESULTS = {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob('*.json'))}


def rehearsed() -> list[str]:
    """Names of the configs that have a training, and none that is over in minutes."""
    names = []
    for path in sorted((ROOT / 'configs').glob('*.py')):
        if not any(word in path.stem for word in (*WITHIN_MINUTES, 'zeroshot')):
            names.append(path.stem)
    return names


def test_every_real_config_has_been_rehearsed():
    assert list(RESULTS) == rehearsed()


@pytest.mark.parametrize('name', RESULTS)
def test_as_it_is_now(name):
    """Whoever changes a config rehearses it again: ``tools/rehearse.py``."""
    assert RESULTS[name]['sha'] == fingerprint(load_config(str(ROOT / 'configs' / f'{name}.py')))


def test_none_fails():
    failed = {name: c for name, one in RESULTS.items() for c in one['checks'] if c[1] is False}
    assert failed == {}


def test_the_page_is_made_of_them():
    drawn = [f'rehearsal/{path.name}' for path in sorted(FOLDER.glob('*.png'))]
    assert (ROOT / 'docs' / 'rehearsal.md').read_text() == page(list(RESULTS.values()), (), drawn)
