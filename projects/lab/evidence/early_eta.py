"""Does sparing false negatives raise paired recall where their share is that of real sets?

    python projects/lab/evidence/early_eta.py run OUT.jsonl --seeds 10 11 12 [--minutes 20] [--also]
    python projects/lab/evidence/early_eta.py page

Planted clips, captions and truth, seen through noisy vectors of facts in place of pixels, so that a
training takes seconds.  Conditions: the share of unannotated pairs that are true (.05, .2, 1 %,
as on real sets; 8 % as in the comparison), trained long (500 steps) and short (100).  One learning
rate for all, the one of the study before; seeds from 10 on, on which nothing was chosen.  The best
epoch on val, and the last.  ``permuted``: early eta's weights, of other pairs.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from functools import lru_cache
from pathlib import Path
from typing import Any, Iterator, Mapping, Optional, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmvtr.datasets.planted_corpus.grammar import vocabulary
from mmvtr.datasets.planted_corpus.knobs import Knobs
from mmvtr.datasets.planted_corpus.store import draw_split
from mmvtr.datasets.planted_corpus.truth import judge
from mmvtr.datasets.planted_corpus.world import BACKGROUNDS, OBJECT
from mmvtr.evaluation.retrieval import RetrievalMetric
from mmvtr.functional.transforms.sinkhorn import sinkhorn
from mmvtr.models import VideoTextRetriever
from mmvtr.models.supervisions.belief import Belief
from mmvtr.models.target import Target
from mmvtr.structures import Embedding, Levels, Relation

HERE = Path(__file__).parent
CELLS, PAGE = HERE / 'cells/early_eta.jsonl', HERE / 'pages/early_eta.md'
WIDTH, HIDDEN, INPUT, NOISE, BATCH, RATE = 48, 128, 96, 0.35, 64, 5e-3
STEPS = dict(long=500, short=100)
#: Knobs of the corpora, by the share that they aim at.
CONDITIONS: Mapping[str, Mapping[str, Any]] = {
    '.05 %': dict(general=0.0, medium=0.05, near_duplicates=2),
    '.2 %': dict(general=0.0, medium=0.35, near_duplicates=2),
    '1 %': dict(general=0.0, near_duplicates=7),
    'general': dict(general=0.6),
}
DVTR = dict(type='DVTRSupervision', sharpness=2.0, floor=0.0, ramp=(0.33, 0.67))
PCME = {**DVTR, 'type': 'PCMESupervision'}
SCORES = dict(type='RelativeScoreSupervision')
EARLY = dict(type='Belief', at=0.15)
#: Supervision and belief of each row.
METHODS: Mapping[str, tuple[Optional[dict], Any]] = {
    'InfoNCE': (None, None),
    'oracle, weight 0': (dict(type='OracleSupervision', treat='ignore'), None),
    'DVTR': (DVTR, None),
    'DVTR, early': (DVTR, EARLY),
    'DVTR, early, permuted': (DVTR, 'permuted'),
    'DVTR, early, calibrated': (DVTR, 'calibrated'),
    'DVTR, slow average': (DVTR, dict(type='Belief', at=0.15, momentum=0.99)),
    'PCME': (PCME, None),
    'PCME, early': (PCME, EARLY),
    'relative scores': (SCORES, None),
    'relative scores, early': (SCORES, EARLY),
    'guide: own scores': (dict(type='GuideSupervision', guide='scores'), None),
    'hardness': (dict(type='HardnessSupervision'), None),
    'NCL': (None, None),
}
MAIN = [*METHODS][:5]
#: Rows that are tested with a bank of their training queries, too.
BANKED = ('InfoNCE', 'NCL')
FIGURES = ('t2v_R1', 'v2t_R1', 'rsum')
#: Student's t for 95 %, by number of seeds.
T = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 7: 2.45, 8: 2.36}


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

    def __init__(self, knobs: Knobs, split: str, rng: np.random.Generator, mixing: list) -> None:
        videos, texts = draw_split(knobs, split)
        facts = np.stack([facts_of(video['moments']) for video in videos])
        if not mixing:
            mixing.append(rng.normal(size=(facts.shape[1], INPUT)) / 6)
        seen = facts @ mixing[0]
        number = {word: i for i, word in enumerate(vocabulary())}
        said = np.zeros((len(texts), len(number)))
        for row, text in enumerate(texts):
            said[row, [number[word] for word in text['text'].split()]] = 1
        self.video = torch.tensor(seen + NOISE * rng.normal(size=seen.shape)).float()
        self.text = torch.tensor(said).float()
        self.owner = torch.tensor([text['video_idx'][0] for text in texts])
        self.truth = torch.tensor(judge(texts, [video['moments'] for video in videos]).holds)
        self.positives = self.owner[:, None] == torch.arange(len(videos))

    @property
    def share(self) -> float:
        """Of the unannotated pairs, how many are true."""
        return float((self.truth & ~self.positives).sum() / (~self.positives).sum())

    def batch(self, videos: Tensor, texts: Tensor, oracle: bool) -> tuple[dict, dict]:
        inputs = dict(text=self.text[texts][:, None], video=self.video[videos][:, None])
        inputs.update(text_mask=torch.ones(len(texts), 1).bool())
        inputs.update(frame_mask=torch.ones(len(videos), 1).bool())
        samples = dict(text_idx=texts, video_idx=videos, text_videos=self.owner[texts][:, None])
        samples.update({f'{s}_ids': [*map(str, x.tolist())] for s, x in _sides(texts, videos)})
        if oracle:
            true = [row.nonzero()[:, 0] for row in self.truth[texts]]
            samples['text_true_videos'] = nn.utils.rnn.pad_sequence(true, True, -1)
        return inputs, samples


def _sides(texts: Tensor, videos: Tensor) -> Iterator[tuple[str, Tensor]]:
    yield from (('text', texts), ('video', videos))


@lru_cache(maxsize=1)
def splits_of(condition: str, seed: int) -> dict[str, Split]:
    """The three splits of a corpus."""
    sizes = dict(num_train=400, num_val=400, num_test=400, captions=2)
    knobs = Knobs(seed=seed, **sizes, **CONDITIONS[condition])
    rng, mixing = np.random.default_rng(seed), []
    return {name: Split(knobs, name, rng, mixing) for name in ('train', 'val', 'test')}


def build(method: str, share: float) -> VideoTextRetriever:
    """The model of a row."""
    supervision, belief = METHODS[method]
    if belief == 'permuted':
        belief = PermutedBelief(at=EARLY['at'])
    elif belief == 'calibrated':
        belief = {**EARLY, 'share': share}
    kind = 'NormalizedContrastiveLoss' if method == 'NCL' else 'ContrastiveLoss'
    heads = dict(PCME='PCMEGaussianHead', DVTR='HierarchicalGaussianHead').get(method[:4])
    return VideoTextRetriever(
        encoder=Facts(len(vocabulary())),
        similarity=dict(type='CosineSimilarity', levels=('global',)),
        temperature=dict(type='Temperature', init=0.07, learnable=True),
        heads=None if heads is None else dict(type=heads),
        losses=dict(contrastive=dict(type=kind, reads=('global',))),
        supervision=supervision,
        belief=belief,
    )


def run(method: str, condition: str, length: str, seed: int) -> Iterator[dict[str, Any]]:
    """Train once; a record, and for plain scores another one with a bank of training queries."""
    splits = splits_of(condition, seed)
    train, steps = splits['train'], STEPS[length]
    torch.manual_seed(seed)
    model = build(method, train.share).train()
    parts = dict(encoder=RATE, temperature=RATE, heads=1e-3, supervision=1e-2)
    groups = [
        dict(params=[*getattr(model, name).parameters()], lr=lr, first=lr)
        for name, lr in parts.items()
        if getattr(model, name) is not None and [*getattr(model, name).parameters()]
    ]
    optimizer = torch.optim.AdamW(groups, weight_decay=0.05)
    draw = torch.Generator().manual_seed(seed)
    best: dict[str, dict] = {}
    figures: dict[str, float] = {}
    started = time.time()
    for step in range(steps):
        videos = torch.randperm(len(train.video), generator=draw)[:BATCH]
        texts = 2 * videos + torch.randint(2, (BATCH,), generator=draw)  # two captions a clip
        for part in model.modules():
            if hasattr(part, 'progress'):
                part.progress = step / steps
        falling = 0.5 * (1 + np.cos(np.pi * step / steps))
        for group in optimizer.param_groups:
            group['lr'] = group['first'] * min(1.0, (step + 1) / (0.1 * steps)) * falling
        losses = model(*train.batch(videos, texts, 'oracle' in method), mode='loss')
        optimizer.zero_grad()
        sum(value for name, value in losses.items() if 'loss' in name).backward()
        optimizer.step()
        figures = {n: float(x) for n, x in losses.items() if n.startswith('spared')}
        if (step + 1) % (steps // 10) == 0:
            model.eval()
            for name, scored in scores_of(model, splits, bank=method in BANKED).items():
                val, test = (measured(scored[x], splits[x]) for x in ('val', 'test'))
                found = dict(val=val['rsum'], best=test, at=(step + 1) / steps)
                if name not in best or val['rsum'] > best[name]['val']:
                    best[name] = found
                best[name]['last'] = test
            model.train()
    shares = {f'share_{name}': 100 * split.share for name, split in splits.items()}
    facts = dict(condition=condition, length=length, seed=seed, **shares, **figures)
    for name, found in best.items():
        row = method if name == 'raw' else f'{method}, bank'
        yield dict(method=row, **facts, **found, seconds=time.time() - started)
    if method == 'InfoNCE':
        test = splits['test']
        yield dict(method='limits', **facts, **limits(test))


@torch.no_grad()
def scores_of(
    model: VideoTextRetriever, splits: Mapping[str, Split], *, bank: bool
) -> dict[str, dict]:
    """``raw`` and, if asked for, ``bank`` -> split -> scores by direction."""
    vectors = {}
    for name, split in splits.items():
        everything = torch.arange(len(split.video)), torch.arange(len(split.text))
        texts, videos = model(split.batch(*everything, False)[0], mode='tensor')
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


# -- the page --------------------------------------------------------------------------------------


def page(records: Sequence[dict[str, Any]]) -> str:
    """Tables of all conditions: the limits, InfoNCE, and differences to it with intervals."""
    lines = [
        '# Sparing false negatives at real shares\n',
        'Made by `early_eta.py`, which says what was trained; nobody edits it. Differences to '
        'InfoNCE with 95 % t-intervals over paired seeds; resolved ones bold. A row of one or two '
        'seeds says which way to look, and no more.\n',
    ]
    for condition in CONDITIONS:
        for length in STEPS:
            some = [r for r in records if (r['condition'], r['length']) == (condition, length)]
            if any(r['method'] == 'InfoNCE' for r in some):
                lines += [*_table(condition, length, some), '']
    return '\n'.join(lines)


def _table(condition: str, length: str, records: Sequence[dict]) -> Iterator[str]:
    by = {(r['method'], r['seed']): r for r in records}
    rows = list(dict.fromkeys(r['method'] for r in records))
    base = {seed: r for (row, seed), r in by.items() if row == 'InfoNCE'}
    train, test = (
        statistics.mean(r[f'share_{split}'] for r in base.values()) for split in ('train', 'test')
    )
    name = 'general captions (60 %)' if condition == 'general' else f'about {condition}'
    yield f'## {name}, {length} training\n'
    yield (
        f'{train:.3f} % of the unannotated training pairs are true, {test:.3f} % of those of the '
        f'test. Seeds: {", ".join(map(str, sorted(base)))}.\n'
    )
    heads = ['t2v R@1', 'v2t R@1', 'rsum']
    heads = ['row', 'seeds', *(f'{w}: {h}' for w in ('best', 'last') for h in heads)]
    yield '| ' + ' | '.join([*heads, 'spared a text']) + ' |'
    yield '|---|---|---|---|---|---|---|---|---|'
    for name, words in (
        ('alike', 'limit: true pairs alike'),
        ('paired', 'limit: best paired scorer'),
    ):
        found = [r[name] for r in records if r['method'] == 'limits']
        cells = [f'{statistics.mean(r[k] for r in found):.1f}' for k in FIGURES]
        yield f'| {words} | {len(found)} | ' + ' | '.join([*cells, '', '', '', '']) + ' |'
    cells = [
        f'{statistics.mean(r[when][k] for r in base.values()):.1f}'
        for when in ('best', 'last')
        for k in FIGURES
    ]
    yield f'| InfoNCE | {len(base)} | ' + ' | '.join(cells) + ' | |'
    for row in rows:
        both = [seed for seed in base if (row, seed) in by]
        if row in ('InfoNCE', 'limits') or not both:
            continue
        cells = [
            _difference([by[row, s][when][k] - base[s][when][k] for s in both])
            for when in ('best', 'last')
            for k in FIGURES
        ]
        spared = [by[row, s]['spared_per_text'] for s in both if 'spared_per_text' in by[row, s]]
        cells.append(f'{statistics.mean(spared):.2f}' if spared else '')
        yield f'| {row} | {len(both)} | ' + ' | '.join(cells) + ' |'


def _difference(values: Sequence[float]) -> str:
    mean = statistics.mean(values)
    if len(values) < 2:
        return f'{mean:+.1f}'
    half = T.get(len(values), 2.3) * statistics.stdev(values) / len(values) ** 0.5
    cell = f'{mean:+.1f} ± {half:.1f}'
    return f'**{cell}**' if abs(mean) > half else cell


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('what', choices=('run', 'page'))
    parser.add_argument('out', nargs='?', type=Path, default=CELLS)
    parser.add_argument('--seeds', nargs='+', type=int, default=[10, 11, 12, 13])
    parser.add_argument('--lengths', nargs='+', choices=[*STEPS], default=[*STEPS])
    parser.add_argument('--conditions', nargs='+', choices=[*CONDITIONS], default=[*CONDITIONS])
    parser.add_argument('--minutes', type=float, default=1e9)
    parser.add_argument('--also', action='store_true', help='all rows, not the first five')
    args = parser.parse_args()
    done = [json.loads(line) for line in args.out.open()] if args.out.exists() else []
    if args.what == 'page':
        PAGE.write_text(page(done))
        return
    have = {(r['method'], r['condition'], r['length'], r['seed']) for r in done}
    torch.set_num_threads(1)
    end = time.time() + 60 * args.minutes
    jobs = [
        (method, condition, length, seed)
        for seed in args.seeds
        for length in args.lengths
        for condition in args.conditions
        for method in (METHODS if args.also else MAIN)
    ]
    with args.out.open('a') as file:
        for job in jobs:
            if job not in have and time.time() < end:
                for record in run(*job):
                    file.write(json.dumps(record) + '\n')
                    file.flush()


if __name__ == '__main__':
    main()
