"""ARL's supervision against the paper's equations written with loops, and on two processes."""

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.functional import cosine_similarity as cos
from torch.nn.functional import normalize
from torch.nn.parallel import DistributedDataParallel

import children  # noqa: F401 - the server that forks the two processes has imported all
from mmvtr.functional.losses.contrastive import contrastive
from mmvtr.functional.losses.ranking import margin_ranking
from mmvtr.functional.similarities.best_frames import best_frames
from mmvtr.models.losses.matrix import ContrastiveLoss
from mmvtr.models.losses.ranking import RankingLoss
from mmvtr.models.retriever import VideoTextRetriever, own_match
from mmvtr.models.similarities.best_frame import BestFrameSimilarity
from mmvtr.models.similarities.token import TokenSimilarity
from mmvtr.models.supervisions import arl
from mmvtr.models.supervisions.arl import ARLSupervision, Statistics, _own_frames
from mmvtr.models.target import Annotation, Target
from mmvtr.structures import Embedding

T, V, F, D = 9, 4, 5, 6
OWNERS = [0, 0, 0, 1, 1, 2, 2, 3, 3]
POSITIVES = torch.tensor(OWNERS)[:, None] == torch.arange(V)
MASK = torch.arange(F) < torch.tensor([5, 3, 4, 2])[:, None]


def make_levels(seed=0):
    generator = torch.Generator().manual_seed(seed)

    def randn(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    texts = {level: Embedding(randn(T, D)) for level in 'ab'}
    videos = {level: Embedding(randn(V, D), randn(V, F, D), MASK) for level in 'ab'}
    return texts, videos


def statistics_of(texts, videos, parts=(slice(None),)):
    """Those of the whole set, met in parts of texts."""
    found = {level: Statistics.empty(D, torch.device('cpu')) for level in 'ab'}
    for level, statistics in found.items():
        for part in parts:
            statistics.add(Embedding(texts[level].mean[part]), videos[level], POSITIVES[part])
    return found


def ready(**kwargs):
    """A supervision after its warm-up, with the means of the batch itself."""
    texts, videos = make_levels()
    supervision = ARLSupervision(dim=D, **kwargs).double()
    supervision.refresh(statistics_of(texts, videos))
    supervision.progress = 1.0
    return supervision, texts, videos


def by_loops(texts, videos, level, *, rule, cap=None, u_spread=0.0, all_pairs=False):
    """Eq. 2-7 one number at a time: the set [T, V] and the thresholds."""
    q, v = texts[level].mean, videos[level].tokens
    frames = [(j, k) for j in range(V) for k in range(F) if MASK[j, k]]
    u_q = [float(torch.stack([cos(q[i], v[j, k], 0) for j, k in frames]).mean()) for i in range(T)]
    u_v = {f: float(torch.stack([cos(q[i], v[f], 0) for i in range(T)]).mean()) for f in frames}
    s, u = torch.zeros(T, V), torch.zeros(T, V)
    for i in range(T):
        for j in range(V):
            scores = {k: float(cos(q[i], v[j, k], 0)) for k in range(F) if MASK[j, k]}
            best = max(scores, key=scores.get)
            s[i, j], u[i, j] = scores[best], (u_q[i] + u_v[j, best]) / 2
    over = u[torch.ones_like(POSITIVES) if all_pairs else POSITIVES]
    tau_u = float(over.mean() + u_spread * over.std(correction=0))
    mean_s = float(s[POSITIVES].mean())
    found = torch.zeros(T, V, dtype=torch.bool)
    for i in range(T):
        tau_s = mean_s if rule == 'mean' else max(float(x) for x in s[i][POSITIVES[i]])
        row = [j for j in range(V) if s[i, j] > tau_s and u[i, j] > tau_u and not POSITIVES[i, j]]
        row.sort(key=lambda j: -s[i, j])
        found[i, row[:cap]] = True
    return found, mean_s, tau_u


@pytest.mark.parametrize('all_pairs', [False, True])
@pytest.mark.parametrize(
    ('rule', 'cap', 'u_spread'),
    [('mean', None, 0.0), ('own', None, 0.0), ('own', 1, 0.0), ('mean', None, 0.5)],
)
def test_sets_and_thresholds(rule, cap, u_spread, all_pairs):
    supervision, texts, videos = ready(rule=rule, cap=cap, u_spread=u_spread)
    if all_pairs:
        supervision.refresh_from_sample(texts, videos)
    targets, _ = supervision(texts, videos, Target(POSITIVES))
    for level, other in ('ab', 'ba'):
        found, tau_s, tau_u = by_loops(
            texts, videos, level, rule=rule, cap=cap, u_spread=u_spread, all_pairs=all_pairs
        )
        assert found.any() and torch.equal(supervision.found[level], found)
        # Cross-model detection: the other branch learns from this set.
        assert torch.equal(targets[other].ambiguous, found)
        branch = supervision.branches[level]
        assert float(branch.tau_s) == pytest.approx(tau_s) and float(branch.tau_u) == pytest.approx(
            tau_u
        )
    assert targets['scores'].ambiguous is None


def test_statistics_add_up():
    texts, videos = make_levels()
    whole = statistics_of(texts, videos)['a']
    halves = [statistics_of(texts, videos, [part])['a'] for part in (slice(0, 4), slice(4, 9))]
    for total, first, second in zip(whole.totals(), *(h.totals() for h in halves)):
        twice = total is whole.frames.totals  # both halves have met all frames
        torch.testing.assert_close(first + second, 2 * total if twice else total)


def test_self_training_keeps_its_own_set():
    supervision, texts, videos = ready(exchange=False, rule='mean', cap=None)
    targets, _ = supervision(texts, videos, Target(POSITIVES))
    assert torch.equal(targets['a'].ambiguous, supervision.found['a'])
    assert not torch.equal(supervision.found['a'], supervision.found['b'])


def test_strategies_of_table_6():
    for strategy in ('positive', 'ignore'):
        supervision, texts, videos = ready(strategy=strategy, rule='mean', cap=None)
        targets, _ = supervision(texts, videos, Target(POSITIVES))
        found = supervision.found['b']
        if strategy == 'positive':
            assert torch.equal(targets['a'].positives, POSITIVES | found)
        else:
            assert torch.equal(targets['a'].weights == 0, found)
        assert targets['a'].ambiguous is None


def test_nothing_before_the_warmup_and_the_first_refresh():
    supervision, texts, videos = ready(warmup=0.5)
    supervision.progress = 0.49
    targets, losses = supervision(texts, videos, Target(POSITIVES))
    assert not losses and not supervision.found and targets['a'].ambiguous is None
    fresh = ARLSupervision(dim=D).double()
    fresh.progress = 0.9
    assert fresh(texts, videos, Target(POSITIVES))[1] == {}


@pytest.mark.parametrize('pushed', ['all', 'hardest', 'semi_hard'])
@pytest.mark.parametrize('spreads', [(0.0, None), (1.5, 0.0), (0.0, -0.5)])
def test_text_frame_losses(spreads, pushed):
    """Eq. 8-12 on the dense matrix of pairs x all frames, weight 0 outside the own video."""
    u_spread, own_spread = spreads
    supervision, texts, videos = ready(
        rule='own',
        frame_slack=0.3,
        frame_negatives=pushed,
        exchange=False,
        u_spread=u_spread,
        frame_u_spread=own_spread,
    )
    _, losses = supervision(texts, videos, Target(POSITIVES))
    rows, columns = POSITIVES.nonzero(as_tuple=True)
    total = 0.0
    for level in 'ab':
        q, frames = normalize(texts[level].mean, dim=-1), normalize(videos[level].tokens, dim=-1)
        scores = (q @ frames.flatten(0, 1).t()).view(T, V, F)[rows]
        own = torch.zeros(len(rows), V, F, dtype=torch.bool)
        own[torch.arange(len(rows)), columns] = True
        own &= MASK
        best = scores.masked_fill(~own, -9).flatten(1).argmax(1)
        positives = torch.zeros(len(rows), V * F, dtype=torch.bool)
        positives[torch.arange(len(rows)), best] = True
        u_q = (q @ frames[MASK].mean(0))[rows][:, None]
        u_v = (frames @ q.mean(0)).flatten()
        tau_s = scores.flatten(1).gather(1, best[:, None]) - 0.3
        found = (scores.flatten(1) > tau_s) & own.flatten(1) & ~positives
        u = (u_q + u_v) / 2
        of_pairs = u[torch.arange(len(rows)), best]  # at k-hat: what tau_u is the mean of
        spread = u_spread if own_spread is None else own_spread
        found &= u > float(of_pairs.mean() + spread * of_pairs.std(correction=0))
        assert found.any()
        # Columns: matched frames only, each against the texts of its own video.
        used = positives.any(0)
        for direction, keep in (('t2v', slice(None)), ('v2t', used)):
            matrix = scores.flatten(1)[:, keep]
            arguments = dict(
                positives=positives[:, keep],
                weights=own.flatten(1)[:, keep].double(),
                ambiguous=found[:, keep],
                direction=direction,
            )
            total += 0.05 * contrastive(matrix, **arguments, temperature=0.07, form='own_pair')
            how = dict(margin=0.2, ambiguous_margin=0.1, average='anchors', negatives=pushed)
            total += margin_ranking(matrix, **arguments, **how)
    torch.testing.assert_close(losses['loss_frame'], total / 2)


def test_frames_have_a_threshold_of_their_own():
    """Those of pairs stay, and without it a checkpoint has the keys that it always had."""
    plain, texts, videos = ready()
    own, *_ = ready(frame_u_spread=0.0)
    added = own.state_dict().keys() - plain.state_dict().keys()
    assert added == {f'branches.{level}.frame_tau_u' for level in 'ab'}
    for _ in range(2):
        for level in 'ab':
            one, two = plain.branches[level], own.branches[level]
            assert torch.equal(one.tau_u, two.tau_u)
            assert one.tau_u_of_frames is one.tau_u and two.tau_u_of_frames < two.tau_u
        for supervision in (plain, own):
            supervision.refresh_from_sample(texts, videos)


def test_an_empty_batch():
    supervision, texts, videos = ready()
    texts = {level: e.map(lambda x: x[:0]) for level, e in texts.items()}
    targets, losses = supervision(texts, videos, Target(POSITIVES[:0]))
    assert set(targets) == {'a', 'b', 'scores'} and not losses


def test_bad_arguments():
    with pytest.raises(ValueError, match="rule must be one of .*'own', 'mean'"):
        ARLSupervision(dim=D, rule='median')
    with pytest.raises(ValueError, match='strategy must be one of'):
        ARLSupervision(dim=D, strategy='drop')
    for pushed in ('random', 'none', ''):
        with pytest.raises(ValueError, match=f"frame_negatives must be one of .*, not '{pushed}'"):
            ARLSupervision(dim=D, frame_negatives=pushed)
    with pytest.raises(ValueError, match='exchange needs two levels'):
        ARLSupervision(dim=D, levels=('a',))
    for warmup in (1, 5, -0.1, float('nan')):  # "a few epochs" is no share of the training
        with pytest.raises(ValueError, match=rf'share of the training, in \[0, 1\), not {warmup}'):
            ARLSupervision(dim=D, warmup=warmup)
    with pytest.raises(ValueError, match='one of warmup and warmup_epochs, got 0.2 and 5'):
        ARLSupervision(dim=D, warmup=0.2, warmup_epochs=5)
    with pytest.raises(ValueError, match='warmup_epochs must not be negative, got -1'):
        ARLSupervision(dim=D, warmup_epochs=-1)


class Encoder(nn.Module):
    """Two linear branches on [N, L, D] inputs; texts are means of their words."""

    dim = D
    level_names = ('a', 'b')

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(D, D), nn.Linear(D, D)

    def encode_video(self, video, frame_mask):
        tokens = {name: getattr(self, name)(video) * frame_mask[..., None] for name in 'ab'}
        return {name: Embedding(x.sum(1), x, frame_mask) for name, x in tokens.items()}

    def encode_text(self, text, text_mask):
        return {name: Embedding(getattr(self, name)(text).mean(1)) for name in 'ab'}


def make_model():
    torch.manual_seed(0)
    return VideoTextRetriever(
        encoder=Encoder(),
        similarity=BestFrameSimilarity(levels=('a', 'b')),
        supervision=ARLSupervision(dim=D, rule='mean', cap=2),
        losses=dict(
            nce=ContrastiveLoss(reads=('a', 'b'), form='own_pair'),
            triplet=RankingLoss(reads=('a', 'b'), negatives='random', average='anchors'),
        ),
    ).double()


def make_batch(videos, texts):
    generator = torch.Generator().manual_seed(3)
    video = torch.randn(V, F, D, generator=generator, dtype=torch.float64)
    text = torch.randn(T, 2, D, generator=generator, dtype=torch.float64)
    longest = int(MASK[videos].sum(1).max()) if len(MASK[videos]) else 1
    inputs = dict(
        video=video[videos][:, :longest],  # a process pads to its own longest video
        frame_mask=MASK[videos][:, :longest],
        text=text[texts],
        text_mask=torch.ones(T, 2, dtype=torch.bool)[texts],
    )
    samples = dict(
        text_idx=torch.arange(T)[texts],
        video_idx=torch.arange(V)[videos],
        text_videos=torch.tensor(OWNERS)[texts][:, None],
        text_ids=[''] * len(torch.arange(T)[texts]),
        video_ids=[''] * len(torch.arange(V)[videos]),
    )
    return inputs, samples


def step(tau_u=None, **settings):
    """Losses and gradients of a step with every threshold at ``tau_u``; None: unsupervised."""
    model = make_model()
    model.supervision = None
    if tau_u is not None:
        model.supervision = ARLSupervision(dim=D, rule='mean', cap=None, **settings).double()
        model.supervision.ready.fill_(True)
        model.supervision.progress = 1.0
        for branch in model.supervision.branches.values():
            branch.tau_s.fill_(tau_u)
            branch.tau_u.fill_(tau_u)
    torch.manual_seed(0)  # of the random negatives
    losses = model(*make_batch(slice(None), slice(None)), mode='loss')
    sum(value for name, value in losses.items() if 'loss' in name).backward()
    assert all(torch.isfinite(value) for value in losses.values())
    grads = {name: p.grad for name, p in model.encoder.named_parameters()}
    assert all(torch.isfinite(grad).all() for grad in grads.values())
    return losses, grads, model.supervision


@pytest.mark.parametrize('strategy', ['ours', 'positive', 'ignore'])
@pytest.mark.parametrize('frame_weight', [0.0, 1.0])
def test_a_batch_in_which_every_pair_is_ambiguous(strategy, frame_weight):
    """There is no negative: the contrast is 0, and what moves is below the smaller margin."""
    losses, grads, supervision = step(-10.0, strategy=strategy, frame_weight=frame_weight)
    assert all(torch.equal(found, ~POSITIVES) for found in supervision.found.values())
    assert losses['ambiguous_per_text'] == V - 1
    assert losses['loss_nce'].item() == pytest.approx(0, abs=1e-12)
    assert (losses['loss_triplet'].item() > 0) == (strategy == 'ours')
    assert ('loss_frame' in losses) == bool(frame_weight)
    moves = any(grad.abs().max() > 1e-9 for grad in grads.values())
    assert moves == (strategy == 'ours' or bool(frame_weight))


@pytest.mark.parametrize('strategy', ['ours', 'positive', 'ignore'])
def test_a_batch_without_an_ambiguous_pair_is_the_annotated_one(strategy):
    losses, grads, supervision = step(10.0, strategy=strategy, frame_weight=0.0)
    assert not any(found.any() for found in supervision.found.values())
    assert losses.pop('ambiguous_per_text') == 0
    expected, plain, _ = step()
    for got, want in ((losses, expected), (grads, plain)):
        assert got.keys() == want.keys()
        for name, value in want.items():
            torch.testing.assert_close(got[name], value, msg=name)
    with_frames, grads, _ = step(10.0, strategy=strategy)  # no frame is ambiguous either
    assert with_frames['loss_frame'] > 0 and any(grad.any() for grad in grads.values())


def run(batch, wrap=lambda model: model):
    """Thresholds, sets, losses and gradients of a step; all reduced as AmbiguityHook does."""
    module = make_model()
    inputs, samples = batch
    with torch.no_grad():
        texts, videos = module(inputs, mode='tensor')
        found = {level: Statistics.empty(D, torch.device('cpu')) for level in 'ab'}
        for level, statistics in found.items():
            positives = own_match(samples, torch.device('cpu'))
            statistics.add(texts[level], videos[level], positives)
            for total in statistics.totals() if dist.is_initialized() else ():
                dist.all_reduce(total)
    module.supervision.refresh(found)
    module.supervision.progress = 1.0
    model = wrap(module)  # lives until its backward pass is done
    losses = model(inputs, samples, mode='loss')
    sum(value for name, value in losses.items() if 'loss' in name).backward()
    return (
        {name: value.detach() for name, value in losses.items()},
        {name: p.grad for name, p in module.named_parameters() if p.requires_grad},
        {name: x.clone() for name, x in module.supervision.state_dict().items()},
        dict(module.supervision.found),
    )


def worker(rank, folder, split):
    dist.init_process_group('gloo', init_method=f'file://{folder}/store', rank=rank, world_size=2)
    try:
        result = run(make_batch(*split[rank]), DistributedDataParallel)
        torch.save(result, f'{folder}/rank{rank}.pt')
        dist.barrier()
    finally:
        dist.destroy_process_group()


def test_two_processes_equal_one(tmp_path):
    """Different numbers of texts, and videos padded to each process' own longest."""
    batch = make_batch(slice(0, 4), slice(0, 9))
    split = [(slice(0, 2), slice(0, 5)), (slice(2, 4), slice(5, 9))]
    mp.start_processes(worker, (tmp_path, split), nprocs=2, start_method='forkserver')
    expected = run(batch)
    assert all(g.abs().max() > 0 for g in expected[1].values())
    assert all(found.any() for found in expected[3].values())
    for rank in range(2):
        got = torch.load(tmp_path / f'rank{rank}.pt')
        same(got, expected)
        for level, found in got[3].items():
            assert torch.equal(expected[3][level], found)


def same(got, expected):
    for part, other in zip(expected[:3], got):
        assert part.keys() == other.keys()
        for name, value in part.items():
            torch.testing.assert_close(other[name], value, rtol=1e-11, atol=1e-12, msg=name)


def test_the_best_frame_of_the_teacher_is_no_negative_of_the_student():
    supervision, texts, videos = ready(frame_slack=0.05)
    for branch in supervision.branches.values():
        branch.tau_u.fill_(-9.0)
    rows, columns = POSITIVES.nonzero(as_tuple=True)
    units = {
        level: (
            normalize(texts[level].mean, dim=-1),
            normalize(videos[level].tokens, dim=-1),
            MASK,
        )
        for level in 'ab'
    }
    for level in 'ab':
        found = supervision.frame_sets(level, units, rows, columns)
        q, frames, _ = units[level]
        scores = torch.einsum('pd,pfd->pf', q[rows], frames[columns])
        best = scores.masked_fill(~MASK[columns], -9).argmax(1)
        assert found[torch.arange(len(rows)), best].all()
        assert not found[~MASK[columns]].any()


def test_what_other_losses_read_stays_in_the_target():
    supervision, texts, videos = ready()
    relevance = torch.rand(T, V)
    target = Target(POSITIVES, known=Annotation(relevance=relevance, overlap=relevance > 0.5))
    targets, _ = supervision(texts, videos, target)
    for level in ('a', 'b', 'scores'):
        known = targets[level].known
        assert known.relevance is relevance and known.overlap is not None


def test_frame_scores_are_float32_under_autocast():
    q, frames = torch.randn(5, 8), torch.randn(3, 4, 8)
    rows, columns = torch.tensor([0, 4]), torch.tensor([2, 0])
    with torch.autocast('cpu', torch.bfloat16):
        scores = _own_frames(q, frames, rows, columns)
    assert scores.dtype == torch.float32
    torch.testing.assert_close(scores, (q[rows][:, None] * frames[columns]).sum(-1))


def test_the_best_frames_of_the_similarity_are_those_of_the_sets(monkeypatch):
    """The similarity has them already: none is looked for twice, and nothing else changes."""
    sought = []
    monkeypatch.setattr(arl, 'best_frames', lambda *x: sought.append(x) or best_frames(*x))
    shared, grads, supervision = step(-0.1)
    assert not sought and supervision.found['a'].any() and supervision.found['b'].any()
    monkeypatch.setattr(ARLSupervision, 'reads_matches', False)
    alone, others, without = step(-0.1)
    assert len(sought) == 2
    for level, found in without.found.items():
        assert torch.equal(found, supervision.found[level])
    for got, want in ((shared, alone), (grads, others)):
        assert got.keys() == want.keys()
        for name, value in want.items():
            torch.testing.assert_close(got[name], value, rtol=0, atol=1e-12, msg=name)


def test_beside_a_similarity_that_matches_words_and_frames():
    class WithWords(Encoder):
        def encode_text(self, text, text_mask):
            words = {name: getattr(self, name)(text) for name in 'ab'}
            return {name: Embedding(x.mean(1), x, text_mask) for name, x in words.items()}

    model = VideoTextRetriever(
        encoder=WithWords(),
        similarity=TokenSimilarity(level='a'),
        supervision=ARLSupervision(dim=D, levels=('a',), exchange=False),
        losses=dict(nce=ContrastiveLoss()),
    ).double()
    model.supervision.ready.fill_(True)
    losses = model(*make_batch(slice(None), slice(None)), mode='loss')
    assert losses['loss_nce'] > 0 and torch.isfinite(losses['loss_nce'])
