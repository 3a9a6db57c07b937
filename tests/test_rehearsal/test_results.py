"""The committed results of rehearsals: of the configs as they are now, and as the page says."""

import pytest

from children import ROOT, WITHIN_MINUTES
from mmvtr.rehearsal import report
from mmvtr.utils import load_config

FOLDER = ROOT / 'docs' / 'rehearsal'
RESULTS = report.read_results(FOLDER / report.RESULTS)


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
    """Whoever changes a config rehearses it: ``tools/rehearse.py CONFIG --out docs/rehearsal``."""
    config = load_config(str(ROOT / 'configs' / f'{name}.py'))
    assert RESULTS[name]['sha'] == report.fingerprint(config)


def test_none_fails():
    unmet = {
        f'{name}: {check}'
        for name, one in RESULTS.items()
        for check, (passed, _) in one['checks'].items()
        if passed is False
    }
    assert unmet == set()


def test_they_are_all_that_is_kept():
    """Pictures are drawn on demand."""
    assert [path.name for path in FOLDER.iterdir() if path.suffix in ('.json', '.png')] == []


def test_the_page_is_made_of_them():
    assert (ROOT / 'docs' / 'rehearsal.md').read_text() == report.page(RESULTS.values())
