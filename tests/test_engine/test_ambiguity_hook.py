"""LAD before each epoch: thresholds of the whole training set, and what the log says."""

import logging
from types import SimpleNamespace

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from mmvtr.engine.ambiguity_hook import AmbiguityHook
from tests.test_models.test_arl_supervision import OWNERS, POSITIVES, V, make_batch, make_model

EVERYTHING = slice(0, V), slice(0, len(OWNERS))


class Videos(Dataset):
    """Each video with all its texts."""

    def __init__(self, truth):
        self._truth = truth

    def __len__(self):
        return V

    def __getitem__(self, index):
        return index

    def truth(self):
        return self._truth


def collate(videos):
    texts = [t for t, owner in enumerate(OWNERS) if owner in videos]
    inputs, samples = make_batch(videos, texts)
    return dict(inputs=inputs, data_samples=samples)


@pytest.fixture
def runner():
    model = make_model()
    model.supervision.warmup = 0.5
    truth = (POSITIVES | (torch.arange(V) == 0)).numpy()  # video 0 truly fits every text
    loader = DataLoader(Videos(truth), batch_size=3, collate_fn=collate)
    logger = logging.getLogger('ambiguity')
    logger.setLevel(logging.INFO)
    return SimpleNamespace(
        model=model, train_dataloader=loader, logger=logger, iter=50, max_iters=100
    )


def test_thresholds_of_the_whole_set_whatever_the_batches(runner, caplog):
    hook = AmbiguityHook()
    hook.before_train(runner)
    with caplog.at_level(logging.INFO):
        hook.before_train_epoch(runner)
    supervision = runner.model.supervision
    assert supervision.ready and runner.model.training
    inputs, _ = make_batch(*EVERYTHING)
    with torch.no_grad():
        texts, videos = runner.model(inputs, mode='tensor')
    for level, branch in supervision.branches.items():
        scores = runner.model.similarity(texts, videos)[level]
        assert float(branch.tau_s) == pytest.approx(float(scores[POSITIVES].mean()))
        units = torch.nn.functional.normalize(texts[level].mean, dim=-1)
        torch.testing.assert_close(branch.text_mean, units.mean(0))
    assert "branch 'a': tau_s" in caplog.text and "branch 'b': tau_s" in caplog.text


def test_nothing_during_the_warmup(runner):
    runner.iter = 49
    hook = AmbiguityHook()
    hook.before_train(runner)
    hook.before_train_epoch(runner)
    assert not runner.model.supervision.ready
    hook.after_train_epoch(runner)  # and nothing to report


def test_precision_and_recall_of_the_sets(runner, caplog):
    hook = AmbiguityHook(low_precision=1e9)
    hook.before_train(runner)
    hook.before_train_epoch(runner)
    runner.model.supervision.progress = 1.0
    inputs, samples = make_batch(*EVERYTHING)
    runner.model(inputs, samples, mode='loss')
    hook.after_train_iter(runner, 0, dict(data_samples=samples))
    with caplog.at_level(logging.INFO):
        hook.after_train_epoch(runner)
    found = torch.stack(list(runner.model.supervision.found.values()))
    soft = (torch.arange(V) == 0) & ~POSITIVES
    right = float((found & soft).sum())
    precision, recall = right / float(found.sum()), right / float(2 * soft.sum())
    base = float(soft.sum() / (~POSITIVES).sum())
    assert found.any() and right > 0
    assert (
        f'{found.sum() / 2 / len(OWNERS):.2f} a text, precision {precision:.3f} '
        f'(base rate {base:.3f}), recall {recall:.3f}'
    ) in caplog.text
    assert 'the sets say little' in caplog.text
