"""Losses in blocks equal those of the whole matrix, on one process and on several."""

import copy

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile

import children  # noqa: F401 - the server that forks the processes has imported all
from mmvtr.models.blocks import BlockSupervision, whole_needed
from mmvtr.models.losses.matrix import ContrastiveLoss, NormalizedContrastiveLoss, RINCELoss
from mmvtr.models.losses.ranking import EgoNCELoss, RankingLoss
from mmvtr.models.retriever import VideoTextRetriever
from mmvtr.models.similarities.cosine import CosineSimilarity
from mmvtr.models.supervisions.dvtr import DVTRSupervision
from mmvtr.models.supervisions.guide import GuideSupervision, HardnessSupervision
from mmvtr.models.supervisions.pcme import PCMESupervision
from mmvtr.models.supervisions.relative_scores import (
    ImplicationSupervision,
    RelativeScoreSupervision,
)
from mmvtr.models.supervisions.weights import RelevanceSupervision
from mmvtr.models.temperature import Temperature
from mmvtr.structures import Embedding

D, T, V = 6, 11, 9


class Linear(nn.Module):
    """Two levels, each a linear map of an item's numbers."""

    dim = D
    level_names = ('global', 'aligned')

    def __init__(self):
        super().__init__()
        self.maps = nn.ModuleDict({name: nn.Linear(4, D) for name in ('va', 'vb', 'ta', 'tb')})

    def _levels(self, x, side):
        x = x.mean(1)
        means = [self.maps[f'{side}{which}'](x) for which in 'ab']
        return {name: Embedding(mean) for name, mean in zip(self.level_names, means)}

    def encode_video(self, video, frame_mask):
        return self._levels(video, 'v')

    def encode_text(self, text, text_mask):
        return self._levels(text, 't')


SUPERVISIONS = dict(
    none=lambda: None,
    dvtr=lambda: DVTRSupervision(sharpness=2.0, floor=0.05),
    dvtr_text=lambda: DVTRSupervision(reference='text', ramp=(0.0, 0.5)),
    pcme=lambda: PCMESupervision(num_samples=3),
    relative=lambda: RelativeScoreSupervision(
        levels=('global', 'aligned'), slack=0.1, agreement=0.2, softness=0.3, ramp=(0, 0)
    ),
    relevance=lambda: RelevanceSupervision(negatives_below=0.5),
    self_mask=lambda: GuideSupervision(
        guide='scores', rule='self', margin=0.05, levels=('global', 'aligned')
    ),
    guide=lambda: GuideSupervision(guide='agreement', margin=0.5, softness=0.2),
    hardness=lambda: HardnessSupervision(alpha=4.0, over='t2v'),
    soft=lambda: GuideSupervision(
        guide='agreement', rule='threshold', margin=1.0, softness=0.7, treat='positive'
    ),
)

LOSSES = dict(
    pooled=lambda: ContrastiveLoss(reads=('global', 'aligned')),
    outer=lambda: ContrastiveLoss(form='outer_sum', weighted='v2t', loss_weight=0.7),
    own=lambda: ContrastiveLoss(form='own_pair', direction='v2t'),
    ncl=lambda: NormalizedContrastiveLoss(reads=('aligned',), iterations=3),
    ncl_shares=lambda: NormalizedContrastiveLoss(marginals='positives'),
    egonce=lambda: EgoNCELoss(),
    rince=lambda: RINCELoss(q=0.3, density=0.1, weighted='t2v'),
)


#: What reads soft positives, too.
SOFT = ('pooled', 'outer', 'own', 'rince')


def make_model(supervision, losses=None, block_rows=None):
    torch.manual_seed(0)
    losses = (SOFT if supervision == 'soft' else LOSSES) if losses is None else losses
    made = SUPERVISIONS[supervision]() if isinstance(supervision, str) else supervision
    model = VideoTextRetriever(
        encoder=Linear(),
        similarity=CosineSimilarity(levels=('global', 'aligned'), weights=(0.3, 0.7)),
        temperature=Temperature(init=0.2, learnable=True),
        heads=dict(type='mmvtr.GaussianHead'),
        detach_heads=False,
        supervision=made,
        losses={
            name if isinstance(name, str) else 'loss': LOSSES[name]()
            if isinstance(name, str)
            else name
            for name in losses
        },
        block_rows=block_rows,
    )
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.1 * torch.randn_like(p))
    return model.double()


def make_batch(videos=slice(0, V), texts=slice(0, T)):
    """Videos with several captions, one twice in the batch, and a text whose video is missing."""
    generator = torch.Generator().manual_seed(1)

    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    video, text, text_agreement, video_agreement = (
        draw(V, 3, 4),
        draw(T, 3, 4),
        draw(T, 5),
        draw(V, 5),
    )
    video_idx = torch.tensor([0, 1, 2, 3, 4, 5, 6, 7, 0])
    owner = torch.tensor([0, 0, 1, 2, 3, 4, 5, 6, 7, 5, 99])
    classes = {
        side: {
            kind: torch.randint(0, 3, (count, 2), generator=generator) for kind in ('noun', 'verb')
        }
        for side, count in (('text', T), ('video', V))
    }
    true = torch.stack([owner, (owner + 1) % 8], 1)
    inputs = dict(
        video=video[videos],
        frame_mask=torch.ones(V, 3, dtype=torch.bool)[videos],
        text=text[texts],
        text_mask=torch.ones(T, 3, dtype=torch.bool)[texts],
    )
    if not len(inputs['video']):
        del inputs['video'], inputs['frame_mask']
    if not len(inputs['text']):
        del inputs['text'], inputs['text_mask']
    samples = dict(
        text_idx=torch.arange(T)[texts],
        video_idx=video_idx[videos],
        text_videos=owner[texts, None],
        text_true_videos=true[texts],
        text_agreement=text_agreement[texts],
        video_agreement=video_agreement[videos],
        text_classes={kind: sets[texts] for kind, sets in classes['text'].items()},
        video_classes={kind: sets[videos] for kind, sets in classes['video'].items()},
        video_ids=[str(i) for i in video_idx[videos].tolist()],
        text_ids=[str(i) for i in range(T)][texts],
    )
    return inputs, samples


def run(model, batch):
    module = getattr(model, 'module', model)
    losses = model(*batch, mode='loss')
    sum(value for name, value in losses.items() if 'loss' in name).backward()
    # What nobody reads has a gradient of 0 in blocks, and none in the matrix.
    grads = {n: p.grad for n, p in module.named_parameters() if p.grad is not None and p.grad.any()}
    steps = {name: x.clone() for name, x in module.named_buffers() if 'step' in name}
    return {name: value.detach() for name, value in losses.items()}, grads, steps


def same(found, expected):
    for mine, theirs in zip(found, expected):
        assert mine.keys() == theirs.keys()
        for name, x in theirs.items():
            torch.testing.assert_close(mine[name], x, rtol=1e-11, atol=1e-12, msg=name)


@pytest.mark.parametrize('rows', [1, 4, 100])
@pytest.mark.parametrize('supervision', SUPERVISIONS)
def test_blocks_equal_the_matrix(supervision, rows):
    expected = run(make_model(supervision), make_batch())
    model = make_model(supervision, block_rows=rows)
    assert whole_needed(model) == ''
    same(run(model, make_batch()), expected)
    assert all(g.abs().max() > 0 for n, g in expected[1].items() if n.startswith('encoder'))


def test_a_batch_without_a_pair_and_one_stage_only():
    lonely = make_batch(videos=slice(0, 4), texts=slice(10, 11))
    same(
        run(make_model('dvtr', block_rows=2), lonely),
        run(make_model('dvtr'), copy.deepcopy(lonely)),
    )
    for stage in ('uncertainty', 'retrieval'):
        found, expected = make_model('dvtr', block_rows=4), make_model('dvtr')
        found.stage = expected.stage = stage
        same(run(found, make_batch()), run(expected, make_batch()))


SPLITS = [
    (slice(0, 2), slice(0, 7)),
    (slice(2, 2), slice(7, 7)),  # all videos of this process are broken
    (slice(2, 9), slice(7, 11)),
]


def worker(rank, folder):
    dist.init_process_group(
        'gloo', init_method=f'file://{folder}/store', rank=rank, world_size=len(SPLITS)
    )
    try:
        results = {}
        for name in SUPERVISIONS:
            model = make_model(name, block_rows=2)
            model = DistributedDataParallel(model, find_unused_parameters=True)
            results[name] = run(model, make_batch(*SPLITS[rank]))
        torch.save(results, f'{folder}/rank{rank}.pt')
        dist.barrier()
    finally:
        dist.destroy_process_group()


def test_three_processes_equal_one(tmp_path):
    mp.start_processes(worker, (tmp_path,), nprocs=len(SPLITS), start_method='forkserver')
    for name in SUPERVISIONS:
        expected = run(make_model(name), make_batch())
        for rank in range(len(SPLITS)):
            found = torch.load(tmp_path / f'rank{rank}.pt')[name]
            same(found, expected)


def test_soft_positives_are_refused_by_what_reads_true_and_false():
    for name, loss in (('ncl', 'Normalized'), ('egonce', 'EgoNCE'), (RankingLoss(), 'Ranking')):
        for rows in (3, None):
            model = make_model('soft', ('pooled', name), rows)
            with pytest.raises(ValueError, match=f'{loss}.*takes positives that are true or false'):
                run(model, make_batch())
    with pytest.raises(ValueError, match='fills target.positives, which no loss reads'):
        make_model('soft', (RankingLoss(),))


class Squared(ContrastiveLoss):
    """Another dense form without blocks of its own."""

    def compute(self, scores, target, temperature):
        return super().compute(scores.square(), target, temperature)


class Tripled(ContrastiveLoss):
    """Another mean over the matrices."""

    def forward(self, matrices, target, temperature):
        return 3 * super().forward(matrices, target, temperature)


class Doubled(DVTRSupervision):
    """Likewise."""

    def forward(self, texts, videos, target):
        target, losses = super().forward(texts, videos, target)
        return target._replace(weights=target.weights / 2), losses


@pytest.mark.parametrize(
    'model, reason',
    [
        (lambda s: make_model('none', ('pooled', RankingLoss()), s), 'RankingLoss: it has no'),
        (lambda s: make_model('none', (Squared(),), s), 'Squared: it has no blocks'),
        (lambda s: make_model('none', (Tripled(),), s), 'Tripled: it has no blocks'),
        (lambda s: make_model(Doubled(), ('pooled',), s), 'Doubled: it has no blocks'),
        (lambda s: make_model(ImplicationSupervision(), ('own',), s), 'ImplicationSupervision: it'),
        (
            lambda s: make_model(
                RelevanceSupervision(negatives_below=None, quantile=0.9), ('own',), s
            ),
            'RelevanceSupervision: a quantile',
        ),
        (
            lambda s: make_model(HardnessSupervision(over='v2t'), ('own',), s),
            "HardnessSupervision: over='v2t'",
        ),
        (
            lambda s: make_model('none', (NormalizedContrastiveLoss(differentiable=True),), s),
            'NormalizedContrastiveLoss: differentiable=True',
        ),
    ],
)
def test_what_needs_the_matrix_gets_it_and_the_log_says_why(model, reason, monkeypatch):
    said = []
    monkeypatch.setattr('mmvtr.models.retriever.print_log', lambda text, *rest: said.append(text))
    made = model(3)
    same(run(made, make_batch()), run(model(None), make_batch()))
    made(*make_batch(), mode='loss')
    what, size = said[0].split(': ', 1)[0], f'([{T}, {V}] scores, 0.0 GB a matrix)'
    assert len(said) == 1 and what.startswith('block_rows=3 has no effect')
    assert reason.split(':')[0] in said[0] and reason.split(': ')[1] in said[0]
    assert said[0].endswith(size)


def test_a_large_matrix_is_told_of_once(monkeypatch):
    said = []
    monkeypatch.setattr('mmvtr.models.retriever.print_log', lambda text, *rest: said.append(text))
    monkeypatch.setattr('mmvtr.models.retriever.LARGE', T * V)
    for losses, rows, reason in (
        (('pooled',), None, 'block_rows is not set'),
        ((RankingLoss(),), None, 'RankingLoss makes the whole matrix: it has no blocks'),
        (('pooled',), 3, None),
    ):
        model = make_model('none', losses, rows)
        for _ in range(2):
            model(*make_batch(), mode='loss')
        expected = [] if reason is None else [f'{reason} ([{T}, {V}] scores, 0.0 GB a matrix)']
        assert said == expected
        said.clear()


def test_a_block_of_nothing():
    with pytest.raises(ValueError, match='block_rows must be at least 1, not 0'):
        make_model('none', block_rows=0)


class Stretched(CosineSimilarity):
    """Another dense form; blocks are made of it."""

    def forward(self, texts, videos):
        return {name: 2 * x for name, x in super().forward(texts, videos).items()}


class Rough(CosineSimilarity):
    """Scores in half precision."""

    def compare(self, texts, videos):
        return {name: x.bfloat16() for name, x in super().compare(texts, videos).items()}


@pytest.mark.parametrize('kind, within', [(Stretched, 1e-12), (Rough, 1e-5)])
def test_similarities_of_ones_own(kind, within):
    found = []
    for rows in (2, None):
        model = make_model('none', block_rows=rows)
        model.similarity = kind(levels=('global', 'aligned'), weights=(0.3, 0.7))
        found.append(model(*make_batch(), mode='loss'))
    for name, loss in found[1].items():
        torch.testing.assert_close(found[0][name], loss, rtol=within, atol=within, msg=name)


class Halves(BlockSupervision):
    """A supervision without figures, whose weights are wider than the scores."""

    def block(self, begun, rows, target):
        weights = torch.full(target.positives.shape, 0.5, dtype=torch.float64)
        return target._replace(weights=weights), {}


def floats(batch):
    """As float32."""
    return [
        {k: x.float() if getattr(x, 'dtype', None) == torch.float64 else x for k, x in part.items()}
        for part in batch
    ]


def test_a_supervision_without_figures_and_with_wide_weights():
    batch, names = floats(make_batch()), ('pooled', 'outer', 'own')
    found, expected = (run(make_model(Halves(), names, s).float(), batch)[0] for s in (3, None))
    exact = run(make_model(Halves(), names), make_batch())[0]
    for name, value in exact.items():
        for losses in (found, expected):
            torch.testing.assert_close(losses[name].double(), value.double(), rtol=1e-5, atol=1e-5)


def test_sums_over_a_batch_are_no_matter_of_autocast():
    batch, found = floats(make_batch()), []
    for rows in (2, None):
        model = make_model('dvtr', ('pooled',), rows).float()
        with torch.autocast('cpu', torch.bfloat16):
            found.append(model(*batch, mode='loss'))
    for name, value in found[1].items():
        assert found[0][name].dtype == value.dtype == torch.float32, name
        torch.testing.assert_close(found[0][name], value, rtol=1e-5, atol=1e-6, msg=name)


@pytest.mark.parametrize(
    'videos, texts',
    [
        (slice(0, 0), slice(0, 0)),
        (slice(0, 0), slice(0, 5)),
        (slice(0, V), slice(0, 1)),
    ],
    ids=['nothing', 'no video', 'videos without a text'],
)
def test_what_a_batch_may_lack(videos, texts):
    several = [name for name in LOSSES if name != 'ncl_shares']  # each video has a share there
    for name in SUPERVISIONS:
        losses = SOFT if name == 'soft' else several
        found, expected = (
            run(make_model(name, losses, s), make_batch(videos, texts)) for s in (2, None)
        )
        same(found, expected)
        assert all(g.isfinite().all() for g in found[1].values())


@pytest.mark.parametrize('name', LOSSES)
def test_a_nan_is_the_clear_error(name):
    inputs, samples = make_batch()
    inputs['video'][3] = torch.nan
    with pytest.raises(FloatingPointError, match=f'loss_{name} is not finite; batch of texts 0'):
        make_model('dvtr', (name,), 2)(inputs, samples, mode='loss')


def test_an_unknown_matrix_is_named():
    model = make_model('none', (NormalizedContrastiveLoss(reads=('globl',)),), 2)
    with pytest.raises(KeyError, match=r"reads \['globl'\], the model offers \['aligned"):
        model(*make_batch(), mode='loss')


@pytest.mark.nightly
def test_memory_grows_with_the_batch_only():
    size = 1024
    model = make_model('dvtr', ('pooled',)).float()
    torch.manual_seed(0)
    inputs = dict(video=torch.randn(size, 3, 4), text=torch.randn(size, 3, 4))
    masks = {f'{x}_mask': torch.ones(size, 3, dtype=torch.bool) for x in ('frame', 'text')}
    index = torch.arange(size)
    samples = dict(text_idx=index, video_idx=index, text_videos=index[:, None])
    samples.update(text_ids=['t'] * size, video_ids=['v'] * size)

    def peak(rows):
        model.block_rows = rows
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
            run(model, (dict(inputs, **masks), samples))
        events = [e for e in record.profiler.kineto_results.events() if e.name() == '[memory]']
        held = torch.tensor([e.nbytes() for e in sorted(events, key=lambda e: e.start_ns())])
        return int(held.cumsum(0).max())

    peak(64)  # gradients are there
    whole, blocks = peak(None), peak(32)
    assert blocks < 0.1 * whole, f'{blocks / 2**20:.1f} of {whole / 2**20:.1f} MiB'
