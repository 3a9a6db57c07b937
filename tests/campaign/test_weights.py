"""A share of the weights, and that a lax loader is seen."""

from __future__ import annotations

import random

import pytest
import torch
from torch import nn

from campaign import weights
from campaign.trial import BAD

WHOLE = dict(nn.Linear(3, 2).state_dict())


def test_weights_of_wrong_keys_are_refused(tmp_path):
    trials = weights.run(3 * len(weights.WAYS), 1, tmp_path)
    assert [trial for trial in trials if trial.verdict in BAD] == []
    assert {trial.verdict for trial in trials} == {'refused', 'right'}


def lax(path):
    """Takes what fits."""
    model, found = nn.Linear(3, 2), torch.load(path)
    own = model.state_dict()
    fits = {k: v for k, v in found.items() if k in own and v.shape == own[k].shape}
    model.load_state_dict(fits, strict=False)
    return model


@pytest.mark.parametrize('way', weights.WAYS)
def test_a_lax_loader_is_seen(tmp_path, way):
    (tmp_path / 'a').mkdir()
    reader = weights.Reader(WHOLE, weights._bare, lax)
    trial = weights.attempt('x', reader, way, random.Random(0), tmp_path / 'a')
    assert trial.verdict == ('right' if way == 'whole' else 'silent')


@pytest.mark.parametrize(
    'error, verdict',
    [
        (RuntimeError('{path} lacks weight'), 'refused'),
        (RuntimeError('a lacks weight'), 'nameless'),
        (RuntimeError('{path}: ' + 600 * 'x'), 'long'),
        (TypeError('{path}'), 'raw'),
    ],
)
def test_errors_are_judged(tmp_path, error, verdict):
    (tmp_path / 'a').mkdir()

    def load(path):
        raise type(error)(str(error).format(path=path))

    reader = weights.Reader(WHOLE, weights._bare, load)
    trial = weights.attempt('x', reader, 'one lost', random.Random(0), tmp_path / 'a')
    assert trial.verdict == verdict
    trial = weights.attempt('x', reader, 'whole', random.Random(0), tmp_path / 'a')
    assert trial.verdict == ('raw' if verdict == 'raw' else 'lost')
