"""LAD before each epoch: thresholds of the whole training set, and what the log says."""

import logging
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.functional import cosine_similarity as cos
from torch.utils.data import DataLoader, Dataset

import children  # noqa: F401 - the server that forks the processes has imported all
from mmvtr.engine.hooks.ambiguity_hook import AmbiguityHook
from tests.test_models.test_supervisions.test_arl_supervision import (
    OWNERS,
    POSITIVES,
    V,
    make_batch,
    make_model,
)

EVERYTHING = slice(0, V), slice(0, len(OWNERS))


class Videos(Dataset):
    """Each video with all its texts; remembers which halves were asked for."""

    def __init__(self, truth, broken=()):
        self._truth = truth
        self.broken = broken
        self.asked = dict(text=[], video=[])

    def __len__(self):
        return V

    def __getitem__(self, index):
        return index

    def truth(self):
        return self._truth

    def view(self, kind):
        return Half(self, kind)


class Half(Dataset):
    def __init__(self, whole, kind):
        self.whole, self.kind = whole, kind

    def __len__(self):
        return V if self.kind == 'video' else len(OWNERS)

    def __getitem__(self, index):
        self.whole.asked[self.kind].append(index)
        return self.kind, index, self.kind == 'video' and index in self.whole.broken


def collate_halves(items):
    """Texts or videos alone; no input of a kind that is absent."""
    kind, index = items[0][0], [index for _, index, broken in items if not broken]
    inputs, samples = make_batch(*((index, []) if kind == 'video' else ([], index)))
    names = (kind, 'frame_mask' if kind == 'video' else 'text_mask')
    return dict(inputs={n: inputs[n] for n in names} if index else {}, data_samples=samples)


def collate(videos):
    if isinstance(videos[0], tuple):
        return collate_halves(videos)
    texts = [t for t, owner in enumerate(OWNERS) if owner in videos]
    inputs, samples = make_batch(videos, texts)
    return dict(inputs=inputs, data_samples=samples)


def make_runner(sample=None, broken=(), batch_size=3, seed=5):
    model = make_model()
    model.supervision.warmup = 0.5
    model.supervision.sample = sample
    truth = (POSITIVES | (torch.arange(V) == 0)).numpy()  # video 0 truly fits every text
    loader = DataLoader(Videos(truth, broken), batch_size=batch_size, collate_fn=collate)
    logger = logging.getLogger('ambiguity')
    logger.setLevel(logging.INFO)
    return SimpleNamespace(
        model=model,
        train_dataloader=loader,
        logger=logger,
        iter=50,
        max_iters=100,
        max_epochs=50,
        seed=seed,
    )


@pytest.fixture
def runner():
    return make_runner()


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


@pytest.mark.parametrize('warmup, warned', [(0.5, False), (0.6, True)])
def test_a_warmup_that_no_epoch_begins_after(runner, caplog, warmup, warned):
    """Two epochs, of iterations 0-1 and 2-3."""
    runner.max_iters, runner.model.supervision.warmup = 4, warmup
    AmbiguityHook().before_train(runner)
    assert ('none begins after the warm-up (60% of the training)' in caplog.text) == warned


@pytest.mark.parametrize('batches', [1, 2, 71, 137])
@pytest.mark.parametrize('epochs', [1, 3, 7, 29])
def test_a_warmup_in_epochs_ends_with_an_epoch(runner, batches, epochs):
    """Of 100: hook and supervision begin with the same step, whatever floating point says."""
    supervision = runner.model.supervision
    supervision.warmup_epochs = epochs
    runner.max_epochs, runner.max_iters = 100, 100 * batches
    hook = AmbiguityHook()
    hook.before_train(runner)
    runner.iter = (epochs - 1) * batches
    hook.before_train_epoch(runner)
    assert not supervision.ready and (epochs * batches - 1) / runner.max_iters < supervision.warmup
    runner.iter = epochs * batches
    hook.before_train_epoch(runner)
    assert supervision.ready and not runner.iter / runner.max_iters < supervision.warmup


def test_a_warmup_of_all_epochs_is_warned_of(runner, caplog):
    runner.model.supervision.warmup_epochs = runner.max_epochs
    AmbiguityHook().before_train(runner)
    assert 'none begins after the warm-up (100% of the training)' in caplog.text


def test_precision_and_recall_of_the_sets(runner, caplog):
    hook = AmbiguityHook(min_lift=1e9)
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
    assert 'the sets hardly tell them apart' in caplog.text


def refreshed(**kwargs):
    """The runner after the hook has looked at its training set."""
    runner, hook = make_runner(**kwargs), AmbiguityHook()
    hook.before_train(runner)
    hook.before_train_epoch(runner)
    return runner


def asked(runner):
    return runner.train_dataloader.dataset.asked


def tau_u_by_loops(model, level, rows, columns):
    """Mean and 1.5 deviations of Eq. 5 over all pairs of some texts and videos."""
    branch = model.supervision.branches[level]
    inputs, _ = make_batch(*EVERYTHING)
    with torch.no_grad():
        texts, videos = (side[level] for side in model(inputs, mode='tensor'))
    found = []
    for text in texts.mean[rows]:
        for frames, mask in zip(videos.tokens[columns], videos.mask[columns]):
            best = max(frames[mask], key=lambda frame: float(cos(text, frame, 0)))
            found.append((unit(text) @ branch.frame_mean + unit(best) @ branch.text_mean) / 2)
    found = torch.stack(found)
    return float(found.mean() + 1.5 * found.std(correction=0))


def unit(x):
    return x / x.norm()


def test_tau_u_of_a_sample():
    """Over all pairs of the texts and videos that were drawn, means over the whole set."""
    runner = refreshed(sample=3)
    rows, columns = asked(runner)['text'], asked(runner)['video']
    for drawn, count in ((rows, len(OWNERS)), (columns, V)):
        assert len(drawn) == len(set(drawn)) == 3 and set(drawn) <= set(range(count))
    whole = refreshed().model.supervision
    for level, branch in runner.model.supervision.branches.items():
        expected = tau_u_by_loops(runner.model, level, rows, columns)
        assert float(branch.tau_u) == pytest.approx(expected)
        assert abs(float(branch.tau_u) - float(whole.branches[level].tau_u)) > 1e-3
        for name in ('tau_s', 'text_mean', 'frame_mean'):
            assert torch.equal(getattr(branch, name), getattr(whole.branches[level], name))


def test_a_sample_larger_than_the_set_is_the_set():
    runner = refreshed(sample=100)
    assert sorted(asked(runner)['text']) == list(range(len(OWNERS)))
    assert sorted(asked(runner)['video']) == list(range(V))
    for level, branch in runner.model.supervision.branches.items():
        expected = tau_u_by_loops(runner.model, level, slice(None), slice(None))
        assert float(branch.tau_u) == pytest.approx(expected)


def test_the_sample_is_drawn_by_the_seed():
    draws = [asked(refreshed(sample=3, seed=seed, batch_size=b)) for seed, b in ((5, 3), (5, 2))]
    assert draws[0] == draws[1]
    others = [asked(refreshed(sample=3, seed=seed)) for seed in range(6, 9)]
    assert all(other != draws[0] for other in others)
    assert asked(refreshed()) == dict(text=[], video=[]), 'nothing is drawn without a sample'


@pytest.mark.parametrize('batch_size', [1, 3], ids=['batches of none', 'in a batch'])
def test_broken_videos_leave_the_sample(batch_size):
    runner = refreshed(sample=100, broken=(2,), batch_size=batch_size)
    for level, branch in runner.model.supervision.branches.items():
        expected = tau_u_by_loops(runner.model, level, slice(None), [0, 1, 3])
        assert float(branch.tau_u) == pytest.approx(expected)


def worker(rank, folder):
    dist.init_process_group('gloo', init_method=f'file://{folder}/store', rank=rank, world_size=2)
    runner = refreshed(sample=3)
    torch.save((asked(runner), runner.model.supervision.state_dict()), f'{folder}/rank{rank}.pt')
    dist.destroy_process_group()


def test_two_processes_draw_one_sample(tmp_path):
    mp.start_processes(worker, (str(tmp_path),), nprocs=2, start_method='forkserver')
    expected = refreshed(sample=3)
    (first, state), (second, again) = (torch.load(tmp_path / f'rank{r}.pt') for r in (0, 1))
    assert first == second == asked(expected)
    for name, value in expected.model.supervision.state_dict().items():
        assert torch.equal(state[name], again[name]), name
        torch.testing.assert_close(state[name], value, msg=name)
