import csv
import logging
from types import SimpleNamespace

import pytest
import torch

from mmvtr.engine.hooks.result_hooks import SigmaFileHook
from mmvtr.engine.loops.evaluation import Encoded, Evaluation
from mmvtr.structures import Relation
from tests.test_dist import make_batch, make_model


def evaluation_of(matrices, names=('{}0', '{}1')):
    texts, videos = (
        Encoded(torch.arange(2), [name.format(kind) for name in names], {}, torch.ones(2))
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


@pytest.mark.parametrize(
    'names',
    [('=1+1', '@x'), ('a,"b"', "it's; -2"), ('zwei\nZeilen', '日本'), ('00123', '1e5'), ('', ' x')],
)
def test_ids_are_exact(tmp_path, names):
    runner = SimpleNamespace(work_dir=str(tmp_path), logger=logging.getLogger('sigma'))
    sigma = dict(text_sigma=torch.tensor([0.5, 0.1]), video_sigma=torch.tensor([0.5, 0.1]))
    SigmaFileHook().after_scoring(runner, evaluation_of(sigma, names))
    with open(tmp_path / 'sigma_val.csv', newline='', encoding='utf-8') as file:
        rows = list(csv.reader(file))[1:]
    assert [row[1] for row in rows] == [*names, *names]


def test_a_file_is_whole_or_as_it_was(tmp_path, monkeypatch):
    runner = SimpleNamespace(work_dir=str(tmp_path), logger=logging.getLogger('sigma'))
    sigma = dict(text_sigma=torch.tensor([0.5, 0.1]), video_sigma=torch.tensor([0.5, 0.1]))
    path = tmp_path / 'sigma_val.csv'
    path.write_text('former')

    def full(descriptor):
        raise OSError(28, 'No space left on device')

    monkeypatch.setattr('os.fsync', full)
    with pytest.raises(OSError, match='No space'):
        SigmaFileHook().after_scoring(runner, evaluation_of(sigma))
    assert path.read_text() == 'former' and [p.name for p in tmp_path.iterdir()] == [path.name]


def test_predictions_carry_sigma():
    model, batch = make_model(literal=False), make_batch(slice(0, 5), slice(0, 7))
    samples = model(*batch, mode='predict')
    texts, videos = model(*batch, mode='tensor')
    for sample, log_std in zip(samples, texts['gaussian'].log_std):
        torch.testing.assert_close(sample.text_sigma, log_std.mean().exp())
        expected = videos['gaussian'].log_std.mean(1).exp()
        torch.testing.assert_close(sample.video_sigma, expected)
