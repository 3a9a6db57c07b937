import csv
import logging
from types import SimpleNamespace

import pytest
import torch

from mmvtr.engine.evaluation import Encoded, Evaluation
from mmvtr.engine.sigma import SigmaFileHook
from mmvtr.structures import Relation
from tests.test_dist import make_batch, make_model


def evaluation_of(matrices):
    texts, videos = (
        Encoded(torch.arange(2), [f'{kind}0', f'{kind}1'], {}, torch.ones(2))
        for kind in ('text', 'video')
    )
    relation = Relation(torch.eye(2).bool())
    return Evaluation(None, torch.device('cpu'), texts, videos, matrices, relation, mode='val')


def test_the_most_uncertain_first(tmp_path):
    runner = SimpleNamespace(work_dir=str(tmp_path), logger=logging.getLogger('sigma'))
    sigma = dict(text_sigma=torch.tensor([0.1, 0.5]), video_sigma=torch.tensor([0.3, 0.25]))
    SigmaFileHook().after_scoring(runner, evaluation_of(sigma))
    with open(tmp_path / 'sigma_val.csv', newline='') as file:
        rows = list(csv.reader(file))
    assert [row[:2] for row in rows] == [
        ['kind', 'id'],
        ['text', 'text1'],
        ['text', 'text0'],
        ['video', 'video0'],
        ['video', 'video1'],
    ]
    assert float(rows[1][2]) == 0.5
    with pytest.raises(ValueError, match='no probabilistic heads'):
        SigmaFileHook().after_scoring(runner, evaluation_of({}))


def test_predictions_carry_sigma():
    model, batch = make_model(literal=False), make_batch(slice(0, 5), slice(0, 7))
    samples = model(*batch, mode='predict')
    texts, videos = model(*batch, mode='tensor')
    for sample, log_std in zip(samples, texts['gaussian'].log_std):
        torch.testing.assert_close(sample.text_sigma, log_std.mean().exp())
        expected = videos['gaussian'].log_std.mean(1).exp()
        torch.testing.assert_close(sample.video_sigma, expected)
