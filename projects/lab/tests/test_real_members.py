"""Members that are kept are those of the data and the number of epochs that are asked for."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from torch import nn

HERE = Path(__file__).resolve().parents[1] / 'evidence/real'


@pytest.fixture
def parts(monkeypatch):
    """The modules members and run, and the seeds that are trained."""
    monkeypatch.syspath_prepend(str(HERE))
    import members
    import run
    from training import Trained

    trained = []

    def fit(place, name, config, data, rate, seed):
        trained.append(seed)
        return Trained(nn.Linear(2, 2), {}, [], 0.0)

    monkeypatch.setattr(run, 'fit', fit)
    monkeypatch.setattr(members, 'dataset', lambda *given: None)
    monkeypatch.setattr(members, 'MODELS', SimpleNamespace(build=lambda config: nn.Linear(2, 2)))
    yield members, run, trained
    for name in [x for x, one in sys.modules.items() if HERE in Path(_file(one)).parents]:
        del sys.modules[name]


def _file(module):
    return getattr(module, '__file__', None) or '/'


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
