"""Members that are kept are those of the data and the number of epochs that are asked for."""

import importlib
from types import SimpleNamespace

import pytest
from torch import nn


@pytest.fixture
def parts(real, monkeypatch):
    """The modules members and run, and the seeds that are trained."""
    members, run = importlib.import_module('members'), real['run']
    trained = []

    def fit(place, name, config, data, rate, seed):
        trained.append(seed)
        return real['training'].Trained(nn.Linear(2, 2), {}, [], 0.0)

    monkeypatch.setattr(run, 'fit', fit)
    monkeypatch.setattr(members, 'dataset', lambda *given: None)
    monkeypatch.setattr(members, 'MODELS', SimpleNamespace(build=lambda config: nn.Linear(2, 2)))
    return members, run, trained


def test_members_are_of_the_data_and_the_epochs(parts, tmp_path, monkeypatch):
    members, run, trained = parts
    monkeypatch.chdir(tmp_path)

    def asked(folder, epochs):
        (tmp_path / folder).mkdir(exist_ok=True)
        schedule = run.Schedule(epochs)
        place = SimpleNamespace(
            name='mine', text='words', about=dict(vocabulary=3, width=2), schedule=schedule
        )
        place.folder, place.config = tmp_path / folder, lambda method: None
        before = len(trained)
        members.member(place, 1e-3, 20)
        return len(trained) > before

    assert asked('one', 2) and not asked('one', 2)
    assert asked('one', 20) and asked('two', 2) and not asked('one', 2)
