"""A share of the spoiled files of other formats, on every run; and that sloppy readers fail."""

import json

import numpy as np
import pytest

from campaign import formats
from campaign.formats import FORMATS, Format, run, trial
from campaign.trial import BAD, count


def test_spoiled_files_are_refused_in_words_or_read_as_sound(tmp_path):
    trials = run(180, 7, tmp_path)
    assert [one for one in trials if one.verdict in BAD] == []
    table = count(trials)
    assert list(table) == list(FORMATS) and not list(tmp_path.iterdir())
    refused, right = (sum(row[v] for row in table.values()) for v in ('refused', 'right'))
    assert refused > 100 and right > 5


def test_a_mutation_can_be_repeated(tmp_path):
    assert run(9, 3, tmp_path) == run(20, 3, tmp_path)[:9] != run(9, 4, tmp_path)


def write(folder):
    np.savez(folder / 'x.npz', a=np.ones(5))
    (folder / 'x.json').write_text(json.dumps(dict(a=[1.0, 2.0])))


SLOPPY = {
    'raw': Format('x.npz', write, lambda f: dict(a=np.load(f / 'x.npz')['a'])),
    'silent': Format(
        'x.json', write, lambda f: dict(a=json.loads((f / 'x.json').read_text())['a'])
    ),
    'nameless': Format('x.json', write, lambda f: nameless(f / 'x.json')),
}


def nameless(path):
    try:
        return json.loads(path.read_text())
    except Exception:
        raise ValueError('no json') from None


@pytest.mark.parametrize('verdict', SLOPPY)
def test_a_sloppy_reader_is_caught(tmp_path, verdict):
    trials = [trial('sloppy', SLOPPY[verdict], f'0-{n}', tmp_path) for n in range(60)]
    assert sum(one.verdict == verdict for one in trials) > 2


def test_a_reader_without_a_check_of_bytes_is_caught(tmp_path):
    """A format that says it has checksums must give what was written."""
    form = Format('x.npy', lambda f: np.save(f / 'x.npy', formats.SCORES), read_npy, True)
    trials = [trial('sloppy', form, f'0-{n}', tmp_path) for n in range(40)]
    assert any(one.verdict == 'silent' for one in trials)


def read_npy(folder):
    from mmvtr.storage import read_array

    return dict(a=read_array(folder / 'x.npy'))
