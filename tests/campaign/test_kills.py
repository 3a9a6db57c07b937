"""A small share of the kills, and a look at what the comparison sees."""

import pytest

from campaign import kills
from campaign.trial import count


@pytest.mark.nightly
def test_a_killed_run_ends_as_if_nothing_had_happened(tmp_path, monkeypatch):
    monkeypatch.setattr(kills, 'FAMILIES', dict(ncl=kills.FAMILIES['ncl']))
    trials = kills.run(1, 4, tmp_path)
    assert len(trials) == 1 and count(trials)['ncl, 0 workers']['right'] == 1, trials


@pytest.mark.nightly
@pytest.mark.parametrize('family', ['accumulated', 'longer'])
def test_a_killed_run_of_other_values(tmp_path, monkeypatch, family):
    monkeypatch.setattr(kills, 'FAMILIES', {family: kills.FAMILIES[family]})
    trials = kills.run(2, 5, tmp_path)
    assert [trial.verdict for trial in trials] == ['right', 'right'], trials


@pytest.fixture(scope='module')
def ended(tmp_path_factory):
    """How a tiny training ends."""
    folder = tmp_path_factory.mktemp('kills')
    return kills.uninterrupted(folder / 'whole', folder / 'data', 'ncl', 0).end


@pytest.mark.nightly
def test_all_that_a_run_leaves_is_compared(ended):
    for part in (
        'last.state_dict.', 'best.state_dict.', 'last.optimizer.state.', 'last.param_schedulers',
        'last.random_states.python', 'last.random_states.torch', 'last.query_queue',
        'last.message_hub.runtime_info.best_score', 'best.meta.chosen.value', 'files',
        'last.meta.epoch',
        'test.sinkhorn/retrieval/rsum',
    ):  # fmt: skip
        assert any(name.startswith(part) for name in ended), part


def test_any_difference_is_seen(ended):
    assert kills.differences(dict(ended), ended) == []
    name = next(name for name in ended if name.startswith('last.optimizer.state'))
    assert kills.differences({**ended, name: 'other'}, ended) == [name]
    assert kills.differences({k: v for k, v in ended.items() if k != name}, ended) == [name]
    assert kills.differences({**ended, 'more': None}, ended) == ['more']
