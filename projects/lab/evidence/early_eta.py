"""Does sparing false negatives raise paired recall where their share is that of real sets?

    python projects/lab/evidence/early_eta.py main [--minutes 8]   # also: noise, others
    python projects/lab/evidence/early_eta.py page   # with what real/run.py has of seeds from 5 on

Planted clips, captions and truth, seen through noisy vectors of facts in place of pixels, so that a
training takes seconds.  Conditions: the share of unannotated pairs that are true (.05, .2, 1 %, as
on real sets), trained long (400 steps, 64 epochs) and short (100).  One learning rate for all, that
of the study before.  The best epoch on val, and the last.  ``permuted``: early eta's weights, of
other pairs; ``calibrated``: the share is stated.  Plan: pages/early_eta_plan.md.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import json
import time
from functools import lru_cache
from pathlib import Path
from typing import Any, Iterable, Iterator, Mapping, NamedTuple, Optional, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmvtr.datasets.planted_corpus.grammar import judge, vocabulary
from mmvtr.datasets.planted_corpus.store import draw_split
from mmvtr.datasets.planted_corpus.world import BACKGROUNDS, OBJECT, Knobs
from mmvtr.datasets.words.caption_classes import CaptionClasses
from mmvtr.evaluation.retrieval import RetrievalMetric
from mmvtr.functional.transforms.sinkhorn import sinkhorn
from mmvtr.models import VideoTextRetriever
from mmvtr.models.supervisions.belief import Belief
from mmvtr.models.target import Target
from mmvtr.structures import Embedding, Levels, Relation

HERE = Path(__file__).parent
CELLS, REAL = HERE / 'cells/early_eta.jsonl', HERE / 'cells/real'
WIDTH, HIDDEN, INPUT, BATCH, RATE = 48, 128, 96, 64, 5e-3
STEPS, LOOKS = dict(long=400, short=100), 5
#: Deviation of the noise on a clip's vector of facts: of the tables, and of the figure.
NOISE, NOISES = 0.35, (0.1, 0.35, 0.7)
#: Knobs of the corpora, by the share that they aim at.
CONDITIONS: Mapping[str, Mapping[str, Any]] = {
    '.05 %': dict(general=0.0, medium=0.05, near_duplicates=2),
    '.2 %': dict(general=0.0, medium=0.35, near_duplicates=2),
    '1 %': dict(general=0.0, near_duplicates=7),
}
#: On which other methods are trained, too: of the real sets' share.
TELLING = '.2 %'
DVTR = dict(type='DVTRSupervision', sharpness=2.0, floor=0.0, ramp=(0.33, 0.67))
PCME = {**DVTR, 'type': 'PCMESupervision'}
EARLY = dict(type='Belief', at=0.15)
SCORED = dict(type='ContrastiveLoss', reads=('global',))
HINGE = dict(type='RankingLoss', reads=('global',), margin=0.2)


class Method(NamedTuple):
    """A row: what it trains with, and the row that lacks its idea alone."""

    supervision: Optional[dict] = None
    belief: Any = None
    loss: Mapping[str, Any] = SCORED
    control: str = 'InfoNCE'
    heads: Optional[str] = None


GAUSSIAN = dict(heads='HierarchicalGaussianHead')
METHODS: Mapping[str, Method] = {
    'InfoNCE': Method(control=''),
    'oracle, weight 0': Method(dict(type='OracleSupervision', treat='ignore')),
    'DVTR': Method(DVTR, **GAUSSIAN),
    'DVTR, early': Method(DVTR, EARLY, **GAUSSIAN),
    'DVTR, early, permuted': Method(DVTR, 'permuted', **GAUSSIAN),
    'DVTR, early, calibrated': Method(DVTR, 'calibrated', **GAUSSIAN),
    'DVTR, slow average': Method(DVTR, dict(type='Belief', at=0.15, momentum=0.99), **GAUSSIAN),
    'PCME': Method(PCME, heads='PCMEGaussianHead'),
    'PCME, early': Method(PCME, EARLY, heads='PCMEGaussianHead'),
    'guide: words of captions': Method(
        dict(type='GuideSupervision', name='words', by='texts', margin=0.3)
    ),
    'NCL': Method(loss=dict(SCORED, type='NormalizedContrastiveLoss')),
    'triplet': Method(loss=HINGE, control=''),
    'RAN': Method(dict(type='RelevanceSupervision'), loss=HINGE, control='triplet'),
    'CMGSD': Method(
        dict(type='CMGSDSupervision', sentences='words', project=dict(in_dim=WIDTH)),
        loss=dict(type='SeveralHingesLoss', reads=('global',)),
        control='triplet',
    ),
}
MAIN = [*METHODS][:6]
#: Of the plan.
SEEDS = (20, 21, 22, 23, 24)
#: Rows that are tested with a bank of their training queries, too.
BANKED = ('InfoNCE', 'NCL')
FIGURES = ('t2v_R1', 'v2t_R1', 'rsum')
#: Rows of real/methods.py, sets, and the first seed that nothing was chosen on.
REAL_ROWS = dict(
    infonce='InfoNCE',
    oracle='oracle, weight 0',
    dvtr='DVTR',
    dvtr_early='DVTR, early',
    dvtr_early_permuted='DVTR, early, permuted',
    dvtr_early_calibrated='DVTR, early, calibrated',
    dvtr_crossed='DVTR, cross-fitted',
    ensemble='InfoNCE, mean of three',
)
FIRST_CONFIRMED = 5


class PermutedBelief(Belief):
    """The control: as much is spared, of pairs that are drawn."""

    def forward(self, texts: Levels, videos: Levels, target: Target) -> tuple[Target, dict]:
        made, logs = super().forward(texts, videos, target)
        if self.acts:
            weights, negatives = made.weights.clone(), ~target.positives
            drawn = weights[negatives]
            weights[negatives] = drawn[torch.randperm(len(drawn))]
            made = made._replace(weights=weights)
        return made, logs


class Facts(nn.Module):
    """MLPs on one vector a clip or a caption."""

    dim = WIDTH

    def __init__(self, words: int) -> None:
        super().__init__()
        self.video, self.text = (
            nn.Sequential(nn.Linear(n, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, WIDTH))
            for n in (INPUT, words)
        )

    def encode_video(self, video: Tensor, frame_mask: Tensor) -> Levels:
        return _levels(self.video(video[:, 0]))

    def encode_text(self, text: Tensor, text_mask: Tensor) -> Levels:
        return _levels(self.text(text[:, 0]))


def _levels(x: Tensor) -> Levels:
    unit = F.normalize(x, dim=-1)
    mask = torch.ones(len(x), 1, dtype=torch.bool)
    return {'global': Embedding(unit, unit[:, None], mask)}


def facts_of(clip: list[dict]) -> np.ndarray:
    """What a clip shows: counts of values and of pairs of values of its objects, background."""
    pairs = [(a, b) for a in ('colour', 'shape', 'size') for b in ('shape', 'action', 'colour')]
    found = []
    for slot in OBJECT:
        found.append([sum(o[slot] == x for o in clip[0]['objects']) for x in OBJECT[slot]])
    for a, b in pairs:
        if a != b:
            both = [(x, y) for x in OBJECT[a] for y in OBJECT[b]]
            found.append([sum((o[a], o[b]) == one for o in clip[0]['objects']) for one in both])
    found.append([clip[0]['background'] == x for x in BACKGROUNDS])
    return np.concatenate(found).astype(float)


class Split:
    """Inputs, owners and truth of one split."""

    def __init__(
        self, knobs: Knobs, split: str, noise: float, rng: np.random.Generator, mixing: list
    ) -> None:
        videos, texts = draw_split(knobs, split)
        facts = np.stack([facts_of(video['moments']) for video in videos])
        if not mixing:
            mixing.append(rng.normal(size=(facts.shape[1], INPUT)) / 6)
        seen = facts @ mixing[0]
        number = {word: i for i, word in enumerate(vocabulary())}
        said = np.zeros((len(texts), len(number)))
        for row, text in enumerate(texts):
            said[row, [number[word] for word in text['text'].split()]] = 1
        self.video = torch.tensor(seen + noise * rng.normal(size=seen.shape)).float()
        self.text = torch.tensor(said).float()
        self.owner = torch.tensor([text['video_idx'][0] for text in texts])
        self.truth = torch.tensor(judge(texts, [video['moments'] for video in videos]).holds)
        self.positives = self.owner[:, None] == torch.arange(len(videos))
        CaptionClasses(parser='rules')(videos, texts)
        self.classes = {
            side: {kind: _padded([x['classes'][kind] for x in some]) for kind in ('verb', 'noun')}
            for side, some in (('video', videos), ('text', texts))
        }

    @property
    def share(self) -> float:
        """Of the unannotated pairs, how many are true."""
        return float((self.truth & ~self.positives).sum() / (~self.positives).sum())

    def batch(self, videos: Tensor, texts: Tensor, *, truth: bool) -> tuple[dict, dict]:
        """Inputs, and what is known of them: truth (for oracles and figures), classes, words."""
        inputs = dict(text=self.text[texts][:, None], video=self.video[videos][:, None])
        inputs.update(text_mask=torch.ones(len(texts), 1).bool())
        inputs.update(frame_mask=torch.ones(len(videos), 1).bool())
        samples = dict(text_idx=texts, video_idx=videos, text_videos=self.owner[texts][:, None])
        samples.update({f'{s}_ids': [*map(str, x.tolist())] for s, x in _sides(texts, videos)})
        for side, some in _sides(texts, videos):
            samples[f'{side}_classes'] = {k: x[some] for k, x in self.classes[side].items()}
        samples['text_vectors'] = dict(words=self.text[texts])
        if truth:
            true = (row.nonzero()[:, 0] for row in self.truth[texts])
            samples['text_true_videos'] = _padded(true)
        return inputs, samples


def _sides(texts: Tensor, videos: Tensor) -> Iterator[tuple[str, Tensor]]:
    yield from (('text', texts), ('video', videos))


def _padded(rows: Iterable[Sequence[int] | Tensor]) -> Tensor:
    return nn.utils.rnn.pad_sequence([torch.as_tensor(x).long() for x in rows], True, -1)


@lru_cache(maxsize=1)
def splits_of(condition: str, seed: int, noise: float) -> dict[str, Split]:
    """The three splits of a corpus."""
    sizes = dict(num_train=400, num_val=400, num_test=400, captions=2)
    knobs = Knobs(seed=seed, **sizes, **CONDITIONS[condition])
    rng, mixing = np.random.default_rng(seed), []
    return {name: Split(knobs, name, noise, rng, mixing) for name in ('train', 'val', 'test')}


def build(row: Method, share: float) -> VideoTextRetriever:
    """The model of a row."""
    belief = row.belief
    if belief == 'permuted':
        belief = PermutedBelief(at=EARLY['at'])
    elif belief == 'calibrated':
        belief = {**EARLY, 'share': share}
    return VideoTextRetriever(
        encoder=Facts(len(vocabulary())),
        similarity=dict(type='CosineSimilarity', levels=('global',)),
        temperature=dict(type='Temperature', init=0.07, learnable=True),
        heads=None if row.heads is None else dict(type=row.heads),
        losses=dict(matching=dict(row.loss)),
        supervision=copy.deepcopy(row.supervision),
        belief=belief,
    )


class Weighed:
    """What a loss gave false and true negatives as weights, over the last fifth of a training."""

    def __init__(self, loss: nn.Module) -> None:
        self.sums = {True: [0.0, 0], False: [0.0, 0]}
        self.late = False
        loss.register_forward_pre_hook(self._see)

    def _see(self, _: nn.Module, args: tuple) -> None:
        target = args[1]
        if not self.late or target.weights is None or isinstance(target.weights, Mapping):
            return
        for false, sums in self.sums.items():
            some = target.weights[(target.known.truth == false) & ~target.positives]
            sums[0], sums[1] = sums[0] + float(some.sum()), sums[1] + some.numel()

    @property
    def means(self) -> dict[str, float]:
        names = {True: 'weight_false', False: 'weight_true'}
        return {names[x]: total / n for x, (total, n) in self.sums.items() if n}


def optimizer_of(model: VideoTextRetriever) -> torch.optim.Optimizer:
    """AdamW; heads and what supervisions learn have rates of their own."""
    parts = dict(encoder=RATE, temperature=RATE, heads=1e-3, supervision=1e-2)
    groups = [
        dict(params=[*getattr(model, name).parameters()], lr=lr, first=lr)
        for name, lr in parts.items()
        if getattr(model, name) is not None and [*getattr(model, name).parameters()]
    ]
    return torch.optim.AdamW(groups, weight_decay=0.05)


def run(
    method: str, condition: str, length: str, seed: int, noise: float
) -> Iterator[dict[str, Any]]:
    """Train once; a record, and for plain scores another one with a bank of training queries."""
    splits = splits_of(condition, seed, noise)
    train, steps = splits['train'], STEPS[length]
    torch.manual_seed(seed)
    model = build(METHODS[method], train.share).train()
    optimizer, weighed = optimizer_of(model), Weighed(model.losses['matching'])
    draw = torch.Generator().manual_seed(seed)
    best: dict[str, dict] = {}
    figures: dict[str, float] = {}
    started = time.process_time()
    for step in range(steps):
        videos = torch.randperm(len(train.video), generator=draw)[:BATCH]
        texts = 2 * videos + torch.randint(2, (BATCH,), generator=draw)  # two captions a clip
        for part in model.modules():
            if hasattr(part, 'progress'):
                part.progress = step / steps
        weighed.late = step >= 0.8 * steps
        known = weighed.late or 'oracle' in method
        falling = 0.5 * (1 + np.cos(np.pi * step / steps))
        for group in optimizer.param_groups:
            group['lr'] = group['first'] * min(1.0, (step + 1) / (0.1 * steps)) * falling
        losses = model(*train.batch(videos, texts, truth=known), mode='loss')
        optimizer.zero_grad()
        sum(value for name, value in losses.items() if 'loss' in name).backward()
        optimizer.step()
        figures = {n: float(x) for n, x in losses.items() if n.startswith('spared')}
        if (step + 1) % (steps // LOOKS) == 0:
            model.eval()
            for name, scored in scores_of(model, splits, bank=method in BANKED).items():
                val, test = (measured(scored[x], splits[x]) for x in ('val', 'test'))
                found = dict(val=val['rsum'], best=test, at=(step + 1) / steps)
                if name not in best or val['rsum'] > best[name]['val']:
                    best[name] = found
                best[name]['last'] = test
            model.train()
    shares = {f'share_{name}': 100 * split.share for name, split in splits.items()}
    facts = dict(condition=condition, length=length, noise=noise, seed=seed)
    facts.update(**shares, **figures, **weighed.means)
    for name, found in best.items():
        row = method if name == 'raw' else f'{method}, bank'
        yield dict(method=row, **facts, **found, seconds=time.process_time() - started)
    if method == 'InfoNCE':
        yield dict(method='limits', **facts, **limits(splits['test']))


@torch.no_grad()
def scores_of(
    model: VideoTextRetriever, splits: Mapping[str, Split], *, bank: bool
) -> dict[str, dict]:
    """``raw`` and, if asked for, ``bank`` -> split -> scores by direction."""
    vectors = {}
    for name, split in splits.items():
        everything = torch.arange(len(split.video)), torch.arange(len(split.text))
        texts, videos = model(split.batch(*everything, truth=False)[0], mode='tensor')
        vectors[name] = texts['global'].mean, videos['global'].mean
    found: dict[str, dict] = dict(raw={}, bank={}) if bank else dict(raw={})
    queries, items = vectors['train']
    how = dict(temperature=model.temperature())
    for name in ('val', 'test'):
        texts, videos = vectors[name]
        scores = texts @ videos.T
        found['raw'][name] = scores, scores
        if not bank:
            continue
        of_videos = sinkhorn(queries @ videos.T, **how).columns
        of_texts = sinkhorn(items @ texts.T, **how).columns
        found['bank'][name] = scores + of_videos, scores + of_texts[:, None]
    return found


def measured(scores: tuple[Tensor, Tensor], split: Split) -> dict[str, float]:
    """R@1 both ways and rsum; one caption a clip."""
    metric = RetrievalMetric()
    t2v, v2t = (metric({'scores': one}, Relation(split.positives)) for one in scores)
    rsum = sum(way[f'{d}_R{k}'] for way, d in ((t2v, 't2v'), (v2t, 'v2t')) for k in (1, 5, 10))
    return dict(t2v_R1=t2v['t2v_R1'], v2t_R1=v2t['v2t_R1'], rsum=rsum)


def limits(split: Split) -> dict[str, dict[str, float]]:
    """What the truth as the score gives, all true pairs alike, and the best paired scorer."""
    relation = Relation(split.positives, truth=split.truth)
    metric = RetrievalMetric()
    alike, paired = metric.alike(relation), metric.ceiling(relation)
    return {n: {k: x[k] for k in FIGURES} for n, x in (('alike', alike), ('paired', paired))}


# -- what is run -----------------------------------------------------------------------------------


def jobs(seeds: Iterable[int], what: str) -> Iterator[tuple[str, str, str, int, float]]:
    """Method, condition, length, seed and noise of each training: ``'main'``, ``'noise'`` of the
    figure, or ``'others'`` on :data:`TELLING`."""
    if what == 'main':
        order = [TELLING, *(c for c in CONDITIONS if c != TELLING)]
        each = itertools.product(order, seeds, MAIN, STEPS, [NOISE])
    elif what == 'noise':
        noises = [x for x in NOISES if x != NOISE]
        each = ((c, s, m, n, x) for c, s, x, m, n in itertools.product(
            [TELLING], seeds, noises, MAIN[:5], ['long']))  # fmt: skip
    else:
        each = itertools.product([TELLING], seeds, [*METHODS][len(MAIN) :], ['long'], [NOISE])
    for condition, seed, method, length, noise in each:
        yield method, condition, length, seed, noise


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('what', choices=('main', 'noise', 'others', 'page'))
    parser.add_argument('--out', type=Path, default=CELLS)
    parser.add_argument('--rows', nargs='+', choices=[*METHODS], default=[*METHODS])
    parser.add_argument('--conditions', nargs='+', choices=[*CONDITIONS], default=[*CONDITIONS])
    parser.add_argument('--lengths', nargs='+', choices=[*STEPS], default=[*STEPS])
    parser.add_argument('--seeds', nargs='+', type=int, default=[*SEEDS])
    parser.add_argument('--minutes', type=float, default=1e9, help='begin nothing after so long')
    args = parser.parse_args()
    done = read(args.out)
    if args.what == 'page':
        from early_eta_page import write

        write(done, list(confirmed(REAL)))
        return
    have = {tuple(r[k] for k in ('method', 'condition', 'length', 'seed', 'noise')) for r in done}
    torch.set_num_threads(1)
    end = time.time() + 60 * args.minutes
    with args.out.open('a') as file:
        for job in jobs(args.seeds, args.what):
            wanted = job[0] in args.rows and job[1] in args.conditions and job[2] in args.lengths
            if wanted and job not in have and time.time() < end:
                for record in run(*job):
                    file.write(json.dumps(record) + '\n')
                    file.flush()


def read(path: Path) -> list[dict[str, Any]]:
    """Records of a file of lines; none of a file that is not there."""
    return [json.loads(line) for line in path.open()] if path.exists() else []


def confirmed(folder: Path) -> Iterator[dict[str, Any]]:
    """What the page reads of the seeds from 5 on that real/run.py has written to a folder."""
    rows = [row for path in sorted(folder.glob('*.jsonl')) for row in read(path)]
    for name, shown in REAL_ROWS.items():
        for row in rows:
            if row['method'] == name and row['seed'] >= FIRST_CONFIRMED:
                kept = {
                    when: {k: x for k, x in row[when].items() if k in (*FIGURES, 'people')}
                    for when in ('best', 'last')
                }
                facts = {k: row[k] for k in ('set', 'seed', 'rate', 'epoch')}
                yield dict(method=shown, **facts, **kept)


if __name__ == '__main__':
    main()
