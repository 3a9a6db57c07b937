"""Faults that are planted in our own code turn the campaign red; the code as it is does not."""

from __future__ import annotations

from functools import lru_cache, partial

import pytest

from campaign import planted, players
from campaign.planted import COUNTS, FAULTS, AnchorError, Edit, bad_trials, copy_code, with_fault
from campaign.trial import BAD

#: By the kinds of videos that show them; planted where these are read, in every run of the tests.
QUICK = {
    'a mirrored picture is only turned': ['mirrored'],
    'flags of key frames are trusted': ['all keys', 'no key list'],
    'the first timestamp is taken for zero': ['late picture'],
}


@pytest.fixture(scope='module')
def copy(tmp_path_factory):
    """Of the code."""
    return copy_code(tmp_path_factory.mktemp('copy'))


@pytest.mark.parametrize('name', FAULTS)
def test_every_fault_can_be_planted(name):
    for edit in FAULTS[name].edits:
        assert planted.planted((planted.ROOT / edit.file).read_text(), edit, name)


@pytest.mark.parametrize('name', QUICK)
def test_faults_of_reading_videos_are_seen(tmp_path, monkeypatch, name):
    kinds = {kind: players.BADLY[kind] for kind in QUICK[name]}
    monkeypatch.setattr(players, 'WELL', kinds)
    monkeypatch.setattr(players, 'BADLY', kinds)
    count = 6 if len(kinds) == 1 else 10
    assert [trial for trial in players.run(count, 1, tmp_path) if trial.verdict in BAD] == []
    trials = players.run(count, 1, tmp_path, partial(planted.plant_here, name))
    assert [trial for trial in trials if trial.verdict in BAD]


def test_a_text_that_is_gone_or_doubled_is_an_error():
    for source in ('b = 1', 'a = 1; a = 1'):
        with pytest.raises(AnchorError, match='my fault: x.py has [02] times'):
            planted.planted(source, Edit('x.py', 'a = 1', 'a = 2'), 'my fault')


@pytest.fixture(scope='module')
def without_faults(copy):
    """The bad trials of a part in the code as it is; each part is run once."""
    return lru_cache(lambda part: bad_trials(copy, part))


@pytest.mark.nightly
@pytest.mark.parametrize('name', FAULTS)
def test_a_planted_fault_is_seen(copy, without_faults, name):
    before = without_faults(FAULTS[name].part)
    with with_fault(copy, name):
        assert len(bad_trials(copy, FAULTS[name].part)) > len(before)


@pytest.mark.nightly
@pytest.mark.parametrize('part', COUNTS)
def test_without_a_fault_nothing_is_seen(without_faults, part):
    assert without_faults(part) == []
