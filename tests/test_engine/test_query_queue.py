"""The queue of train queries: the last K, in checkpoints, read-only for the gradient."""

import copy
from types import SimpleNamespace

import pytest
import torch

from mmvtr.datasets import collate_retrieval
from mmvtr.engine.hooks.checkpoint_hook import plain
from mmvtr.engine.hooks.query_queue import Queries, QueryQueue, QueryQueueHook
from mmvtr.structures import Embedding
from tests.test_dist import make_batch, make_model

ALL = slice(0, 5), slice(0, 7)


def queries(index):
    index = torch.tensor(index)
    return Queries({'global': Embedding(index[:, None].float())}, index, index // 2)


@pytest.mark.parametrize('size', [1, 3, 4, 100])
def test_the_last_queries_in_order(size):
    queue, everything = QueryQueue(size), []
    for batch in ([0, 1], [2, 3, 4], [5], [6, 7, 8, 9, 10, 11]):
        queue.push(queries(batch))
        everything += batch
        kept = queue.queries()
        assert kept.index.tolist() == everything[-size:] and len(queue) == len(kept.index)
        assert kept.video.tolist() == [i // 2 for i in kept.index.tolist()]
        assert kept.levels['global'].mean[:, 0].tolist() == kept.index.tolist()


def test_an_empty_queue():
    assert QueryQueue(3).queries() is None
    with pytest.raises(ValueError, match='size >= 1, got 0'):
        QueryQueueHook(size=0)


def test_distinct_counts_items():
    assert queries([4, 4, 7]).item_count == 2


@pytest.fixture
def trained():
    """A hook that has seen one training batch of a model."""
    model, hook = make_model(literal=False), QueryQueueHook(size=6)
    runner = SimpleNamespace(model=model, iter=0)
    hook.before_train(runner)
    model(*make_batch(*ALL), mode='loss')
    return model, hook, runner


def test_what_a_training_step_leaves(trained):
    model, hook, _ = trained
    stored = {kind: queue.queries() for kind, queue in hook.queues.items()}
    assert stored['text'].index.tolist() == [1, 2, 3, 4, 5, 6]
    assert stored['text'].video.tolist() == [3, 1, 4, 9, 1, 7]
    assert stored['video'].index.tolist() == [3, 1, 4, 3, 9]
    texts, videos = model(*make_batch(*ALL), mode='tensor')
    for kind, levels, kept in (('text', texts, slice(1, 7)), ('video', videos, slice(0, 5))):
        # What the similarity reads: neither the Gaussian level nor tokens.
        assert set(stored[kind].levels) == {'global', 'aligned'}
        for name, level in stored[kind].levels.items():
            assert level.tokens is None and not level.mean.requires_grad
            torch.testing.assert_close(level.mean, levels[name].mean.detach()[kept])


def test_evaluation_leaves_nothing(trained):
    model, hook, runner = trained
    before = copy.deepcopy(hook.queues['text'].queries())
    model.eval()(*make_batch(*ALL), mode='loss')
    torch.testing.assert_close(hook.queues['text'].queries().index, before.index)
    hook.after_train(runner)
    model.train()(*make_batch(*ALL), mode='loss')
    torch.testing.assert_close(hook.queues['text'].queries().index, before.index)


def test_it_travels_in_the_checkpoint(trained, tmp_path):
    _, hook, runner = trained
    checkpoint = {}
    hook.before_save_checkpoint(runner, checkpoint)
    torch.save(plain(checkpoint, 'checkpoint'), tmp_path / 'c.pth')
    content = torch.load(tmp_path / 'c.pth', weights_only=True)
    other = QueryQueueHook(size=6)
    other.after_load_checkpoint(runner, content)
    for kind, queue in hook.queues.items():
        torch.testing.assert_close(other.queues[kind].queries().state(), queue.queries().state())
    shorter = QueryQueueHook(size=2)
    shorter.after_load_checkpoint(runner, content)
    assert shorter.queues['text'].queries().index.tolist() == [5, 6]


def test_a_checkpoint_without_queues_changes_nothing(trained):
    _, hook, runner = trained
    hook.after_load_checkpoint(runner, {})
    assert len(hook.queues['text']) == 6


def test_a_batch_whose_videos_are_all_broken(trained):
    """As the collate makes it."""
    _, hook, _ = trained
    samples = collate_retrieval([dict(broken=('a', 'no stream'))])['data_samples']
    before = hook.queues['text'].queries().index
    nothing = {n: Embedding(torch.zeros(0, 8).double()) for n in ('global', 'aligned')}
    hook.push(nothing, nothing, samples)
    torch.testing.assert_close(hook.queues['text'].queries().index, before)


def test_weights_of_another_training_bring_no_queries(trained):
    """``load_from`` fills the queues, too; a training that starts empties them."""
    model, hook, runner = trained
    checkpoint = {}
    hook.before_save_checkpoint(runner, checkpoint)
    for iteration, kept in ((0, 0), (7, 6)):
        other = QueryQueueHook(size=6)
        other.after_load_checkpoint(runner, checkpoint)
        other.before_train(SimpleNamespace(model=model, iter=iteration))
        assert len(other.queues['text']) == kept


def test_a_batch_without_texts(trained):
    model, hook, _ = trained
    model(*make_batch(slice(0, 5), slice(7, 7)), mode='loss')
    assert hook.queues['text'].queries().index.tolist() == [1, 2, 3, 4, 5, 6]
    assert hook.queues['video'].queries().index.tolist() == [9, 3, 1, 4, 3, 9]
