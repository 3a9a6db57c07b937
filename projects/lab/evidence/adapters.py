"""Small adapters on frozen vectors of real encoders: does a debiased loss help there?

    python projects/lab/evidence/adapters.py DATA [--sets ...] [--methods ...]

What was written down before: pages/real_scores_plan.md, part 3.  DATA is that of
real_scores.py.  Trained is a linear map a side, begun as the identity.  The learning rate is chosen
for each method by R@1 on a tenth of the train pairs (seed 0); then seeds 1 to 5 train on all.
Seconds a run; runs that are there are not done again.  Writes cells/adapters.json and
pages/adapters.md.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import zlib
from pathlib import Path
from typing import Any, Callable, Iterable, Iterator, NamedTuple, Optional, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from judging.real_sets import Side, captions_of, clap_pairs, roles
from judging.transforms import reach
from study_parts.flickr8k import read_captions
from study_parts.image_judgments import read_flickr8k_crowd
from torch import Tensor, nn

from mmvtr.datasets import CaptionImplication
from mmvtr.datasets.annotation_files import read_ids
from mmvtr.functional import (
    average_precision,
    condensed,
    contrastive,
    guide_weights,
    hardness_weights,
    ranks,
    sinkhorn_scores,
)
from mmvtr.models.heads import HierarchicalGaussianHead
from mmvtr.models.losses.matrix import ContrastiveLoss, NormalizedContrastiveLoss
from mmvtr.models.supervisions.dvtr import DVTRSupervision
from mmvtr.models.supervisions.relative_scores import ImplicationSupervision
from mmvtr.models.target import Annotation, Target
from mmvtr.storage import write_atomically
from mmvtr.structures import Embedding

HERE = Path(__file__).resolve().parent
RATES, SEEDS = (1e-3, 3e-4, 1e-4), (1, 2, 3, 4, 5)
BATCH, EPOCHS, TEMPERATURE = 256, 15, 0.05
#: Of MiniLM on Flickr8k's half for choosing (cells/judged_guides.json).
CALIBRATED = dict(rule='threshold', margin=0.71, softness=0.091)
#: Transformed scores that a training is tested with, too: Sinkhorn at .11 of the reach.
SHARE = 0.11


class Trained(NamedTuple):
    """Pairs of a set: vectors to train on and to be tested on, and what is known of both.

    Attributes:
        train, test: row i of both sides is a pair.
        implied: float [N, N], log of how surely train texts hold for train items; None = one
            caption an item.
        grades: float64 [M, M], of the test; NaN = not judged; None = nobody was asked.
    """

    train: Side
    test: Side
    implied: Optional[Tensor] = None
    grades: Optional[Tensor] = None


HEAD = """# Adapters on real vectors

`python projects/lab/evidence/adapters.py DATA` makes this page; what was written down before is
part 3 of [the plan](real_scores_plan.md). A linear map a side, begun as the identity, on frozen
vectors: MiniLM on Flickr8k (1,500 train images, 1,000 judged ones) and CLAP on AudioCaps (each
half of the sounds is trained on once). Five seeds. Levels of InfoNCE, and differences to it with
95 % intervals over seeds and queries; **bold** where it is resolved after Holm over the methods.
`bank R@1` is with Sinkhorn at .11 of the reach at test time, the train pairs being the bank. A
method helps if it gains in a measure of raw scores and loses in none. A low rate stays near the
frozen vectors, so where rates differ a difference is of both. The calibrated guide's two numbers
were fitted to people's judgments of half of the test images (`judged_guides.py`); nothing else has
seen these."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add('data', type=Path, metavar='DATA', help='folder of the sets')
    add('--sets', nargs='+', choices=SETS, default=list(SETS))
    add('--methods', nargs='+', choices=METHODS, default=list(METHODS))
    add('--runs', type=Path, default=Path('work_dirs/adapters'), help='folder of the runs')
    add('--out', type=Path, default=HERE, help='folder of cells/ and pages/')
    args = parser.parse_args()
    torch.set_num_threads(1)
    for name in args.sets:
        for method in args.methods:
            run_all(args, name, method)
    found = summary(args.runs)
    (args.out / 'cells').mkdir(parents=True, exist_ok=True)
    (args.out / 'pages').mkdir(parents=True, exist_ok=True)
    for path, text in (
        ('cells/adapters.json', json.dumps(found, indent=1) + '\n'),
        ('pages/adapters.md', page(found)),
    ):
        write_atomically(args.out / path, lambda file, text=text: file.write(text.encode()))


def run_all(args: argparse.Namespace, name: str, method: str) -> None:
    """The rate on seed 0, then all seeds; what is there stays."""
    parts = SETS[name](args.data)
    if METHODS[method].reads == 'implied' and parts[0].implied is None:
        return
    if METHODS[method].reads == 'MiniLM' and name == 'CLAP':
        return
    path = args.runs / f'{name}_{zlib.crc32(method.encode()):08x}.npz'
    if path.exists():
        return
    if method == FROZEN:
        values = {key: [x] * len(SEEDS) for key, x in _joined(map(as_they_are, parts)).items()}
        save(args.runs, path, dict(set=name, method=method, rate=0.0), values)
        return
    scores = {rate: np.mean([chosen_by(x, method, rate) for x in parts]) for rate in RATES}
    rate = max(RATES, key=scores.__getitem__)
    values: dict[str, list[np.ndarray]] = {}
    for seed in SEEDS:
        made = (tested(part, train(part, method, rate, seed)) for part in parts)
        for key, x in _joined(made).items():
            values.setdefault(key, []).append(x)
    save(args.runs, path, dict(set=name, method=method, rate=rate), values)


def as_they_are(part: Trained) -> dict[str, np.ndarray]:
    return tested(part, Fitted(nn.ModuleList([nn.Identity(), nn.Identity()]), part.train))


def _joined(parts: Iterable[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Queries of several tests, one after the other."""
    parts = [*parts]
    return {key: np.concatenate([x[key] for x in parts]) for key in parts[0]}


def save(
    folder: Path, path: Path, about: dict[str, Any], values: dict[str, list[np.ndarray]]
) -> None:
    """A run of all seeds, and its means for the log."""
    folder.mkdir(parents=True, exist_ok=True)
    arrays = {key: np.stack(x).astype(np.float32) for key, x in values.items()}
    write_atomically(path, lambda file: np.savez(file, about=json.dumps(about), **arrays))
    means = {key: round(float(np.nanmean(x)), 2) for key, x in arrays.items()}
    print(about, means, flush=True)


# -- sets ----------------------------------------------------------------------------------------


@functools.lru_cache
def flickr8k(data: Path) -> list[Trained]:
    minilm, judged = data / 'real_scores/minilm', data / 'human_judgments/flickr8k'
    images = read_ids(minilm / 'flickr8k_crowd_ids.txt')
    bank = read_ids(minilm / 'flickr8k_bank_ids.txt')
    captions = read_captions(judged / 'Flickr8k.token.txt')
    crowd = read_flickr8k_crowd(judged / 'CrowdFlowerAnnotations.txt')
    grades = crowd.matrix([f'{x}#2' for x in images], images)
    return [
        Trained(
            unit(roles(captions_of(minilm / 'flickr8k_bank.npy'), 2)),
            unit(roles(captions_of(minilm / 'flickr8k_crowd.npy'), 2)),
            implied([[text for _, text in captions[image]] for image in bank], 2),
            torch.from_numpy(grades),
        )
    ]


@functools.lru_cache
def clap(data: Path) -> list[Trained]:
    """Each half once the train pairs, once those of the test."""
    texts, sounds = clap_pairs(data / 'real_scores', 'clean')
    halves = np.array_split(np.random.default_rng(0).permutation(len(texts)), 2)
    sides = [unit(Side(texts[half], sounds[half])) for half in map(np.sort, halves)]
    return [Trained(*sides), Trained(*sides[::-1])]


SETS: dict[str, Callable[[Path], list[Trained]]] = dict(Flickr8k=flickr8k, CLAP=clap)


def unit(side: Side) -> Side:
    return Side(*(F.normalize(x.float(), dim=1) for x in side))


def implied(captions: Sequence[Sequence[str]], asks: int) -> Tensor:
    """Log of how surely the caption that asks holds for each item, float [N, N]."""
    videos: list[dict[str, Any]] = [{} for _ in captions]
    texts = [dict(text=c, video_idx=[n]) for n, own in enumerate(captions) for c in own]
    CaptionImplication()(videos, texts)
    asked = np.stack([text['agreement'] for text in texts[asks::5]])
    return torch.from_numpy(asked @ np.stack([video['agreement'] for video in videos]).T)


# -- training ------------------------------------------------------------------------------------


def linear(dim: int) -> nn.Module:
    made = nn.Linear(dim, dim, bias=False)
    nn.init.eye_(made.weight)
    return made


class Batch(NamedTuple):
    """What a loss reads: adapted and frozen unit vectors [B, D], and what is known of the pairs."""

    texts: Tensor
    items: Tensor
    frozen: Tensor
    implied: Optional[Tensor]
    progress: float

    @property
    def scores(self) -> Tensor:
        return self.texts @ self.items.T

    @property
    def positives(self) -> Tensor:
        return torch.eye(len(self.texts), dtype=torch.bool)


Loss = Callable[[Batch], Tensor]


def plain(batch: Batch, **options: Any) -> Tensor:
    return contrastive(batch.scores, batch.positives, temperature=TEMPERATURE, **options)


def arl(batch: Batch) -> Tensor:
    """After 30 % of the training the best item of a text that outranks its own is ambiguous."""
    scores = batch.scores.detach()
    others = scores.masked_fill(batch.positives, -torch.inf)
    best = F.one_hot(others.argmax(1), len(scores)).bool()
    found = best & (scores > scores.diagonal()[:, None])
    return plain(batch, form='own_pair', ambiguous=found if batch.progress >= 0.3 else None)


def guided(batch: Batch, **rule: Any) -> Tensor:
    return plain(batch, weights=guide_weights(batch.frozen, batch.frozen.diagonal(), **rule))


def permuted(batch: Batch) -> Tensor:
    """The calibrated weights of other pairs: as many, in the wrong places."""
    weights = guide_weights(batch.frozen, batch.frozen.diagonal(), **CALIBRATED)
    return plain(batch, weights=weights.roll((1, 2), (0, 1)))


def hard(batch: Batch) -> Tensor:
    return plain(batch, weights=hardness_weights(batch.scores, batch.positives, alpha=5.0))


def from_modules(
    loss: nn.Module, supervision: Optional[nn.Module] = None, heads: Optional[nn.ModuleList] = None
) -> Loss:
    """A loss and a supervision of the library, as they stand in a config."""

    def compute(batch: Batch) -> Tensor:
        target = Target(batch.positives, known=Annotation(agreement=batch.implied))
        levels = [{'global': Embedding(x)} for x in (batch.texts, batch.items)]
        total: Any = 0.0
        if heads is not None:
            for level, head in zip(levels, heads):
                x = level['global'].mean.detach()
                mask = torch.ones(len(x), 1, dtype=torch.bool)
                level['gaussian'] = head(Embedding(x, x[:, None], mask))
        if supervision is not None:
            supervision.progress = batch.progress
            target, logs = supervision(*levels, target)
            total = sum(value for key, value in logs.items() if key.startswith('loss'))
        return total + loss(dict(scores=batch.scores), target, TEMPERATURE)

    return compute


class Method(NamedTuple):
    """Of a width: the loss, and modules that are trained with it; ``reads`` what not all have."""

    make: Callable[[int], tuple[Loss, Sequence[nn.Module]]]
    reads: str = ''


def _fixed(loss: Loss) -> Callable[[int], tuple[Loss, Sequence[nn.Module]]]:
    return lambda dim: (loss, [])


def _dvtr(dim: int) -> tuple[Loss, Sequence[nn.Module]]:
    heads = nn.ModuleList([HierarchicalGaussianHead(dim, hidden=128) for _ in range(2)])
    how = dict(num_samples=7, sharpness=2.0, floor=0.4, ramp=(0.33, 0.67))
    supervision = DVTRSupervision(**how)
    return from_modules(ContrastiveLoss(), supervision, heads), [supervision, heads]


def _implied(dim: int) -> tuple[Loss, Sequence[nn.Module]]:
    rule = ImplicationSupervision(floor=0.15, specific=0.5)
    return from_modules(ContrastiveLoss(weighted='v2t'), rule), []


FROZEN = 'frozen vectors'
METHODS: dict[str, Method] = {
    FROZEN: Method(_fixed(plain)),
    'InfoNCE': Method(_fixed(plain)),
    'DVTR, floor .4': Method(_dvtr),
    "ARL's rule": Method(_fixed(arl)),
    'NCL': Method(_fixed(from_modules(NormalizedContrastiveLoss(iterations=4)))),
    'guide, GIST': Method(_fixed(functools.partial(guided, rule='absolute', margin=0.0))),
    'guide, calibrated': Method(_fixed(functools.partial(guided, **CALIBRATED)), 'MiniLM'),
    'guide, permuted (control)': Method(_fixed(permuted), 'MiniLM'),
    'hardness, alpha 5': Method(_fixed(hard)),
    'implied texts': Method(_implied, 'implied'),
}


class Fitted(NamedTuple):
    """Two adapters, and adapted train vectors, a bank."""

    adapters: nn.ModuleList
    bank: Side


def train(part: Trained, method: str, rate: float, seed: int) -> Fitted:
    """On all pairs of ``part.train``."""
    torch.manual_seed(seed)
    texts, items = part.train
    adapters = nn.ModuleList([linear(texts.shape[1]) for _ in range(2)])
    loss, further = METHODS[method].make(texts.shape[1])
    parameters = [*adapters.parameters(), *(p for m in further for p in m.parameters())]
    optimizer = torch.optim.AdamW(parameters, lr=rate, weight_decay=0.01)
    steps = EPOCHS * math.ceil(len(texts) / BATCH)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for step, rows in enumerate(batches(len(texts))):
        t, v = (F.normalize(a(x[rows]), dim=1) for a, x in zip(adapters, (texts, items)))
        known = None if part.implied is None else part.implied[rows][:, rows]
        batch = Batch(t, v, texts[rows] @ items[rows].T, known, step / steps)
        optimizer.zero_grad()
        loss(batch).backward()
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        return Fitted(adapters, unit(Side(adapters[0](texts), adapters[1](items))))


def batches(count: int) -> Iterator[Tensor]:
    for _ in range(EPOCHS):
        yield from torch.randperm(count).split(BATCH)


@torch.no_grad()
def chosen_by(part: Trained, method: str, rate: float) -> float:
    """R@1 of both directions on a tenth of the train pairs, of a training on the others."""
    order = torch.from_numpy(np.random.default_rng(0).permutation(len(part.train.queries)))
    out, rest = order[: len(order) // 10], order[len(order) // 10 :]
    known = None if part.implied is None else part.implied[rest][:, rest]
    inner = Trained(
        Side(*(x[rest] for x in part.train)), Side(*(x[out] for x in part.train)), known
    )
    with torch.enable_grad():
        fitted = train(inner, method, rate, 0)
    values = tested(inner, fitted)
    return float(np.mean([values['t2v_R1'].mean(), values['v2t_R1'].mean()]))


@torch.no_grad()
def tested(part: Trained, fitted: Fitted) -> dict[str, np.ndarray]:
    """Of each query, in percent; ``bank_R1`` with Sinkhorn from the train pairs as bank."""
    texts, items = unit(Side(*(a(x) for a, x in zip(fitted.adapters, part.test))))
    bank = fitted.bank
    found = {}
    for way, queries, gallery, asked, grades in (
        ('t2v', texts, items, bank.queries, part.grades),
        ('v2t', items, texts, bank.items, None if part.grades is None else part.grades.T),
    ):
        scores, seen = queries @ gallery.T, asked @ gallery.T
        own = torch.eye(len(scores), dtype=torch.bool)
        found[f'{way}_R1'] = 100.0 * (ranks(scores, own) <= 1).double()
        changed = sinkhorn_scores(scores, seen, temperature=SHARE * reach(seen))
        found[f'{way}_bank_R1'] = 100.0 * (ranks(changed, own) <= 1).double()
        if grades is not None:
            judged = ~grades.isnan()
            right = (grades > 0.5) | (own & ~judged)
            found[f'{way}_P1'] = 100 * right.gather(1, scores.argmax(1)[:, None])[:, 0].double()
            others, extra = judged & ~own, right & judged & ~own
            has = extra.any(1)
            precision = torch.full((len(scores),), torch.nan, dtype=torch.float64)
            listed = condensed(scores[has], others[has])
            precision[has] = 100.0 * average_precision(listed, extra[has]).double()
            found[f'{way}_AP'] = precision
    return {key: x.numpy() for key, x in found.items()}


# -- summary -------------------------------------------------------------------------------------


def summary(folder: Path) -> list[dict[str, Any]]:
    """Levels, and differences to InfoNCE of the same set, with intervals."""
    runs = {}
    for path in sorted(folder.glob('*.npz')):
        with np.load(path) as file:
            about = json.loads(str(file['about']))
            arrays = {key: file[key] for key in file.files if key != 'about'}
        runs[about['set'], about['method']] = (about, arrays)
    rows = []
    for name in SETS:
        for method in METHODS:
            if not {(name, method), (name, 'InfoNCE')} <= runs.keys():
                continue
            about, own = runs[name, method]
            other, base = runs[name, 'InfoNCE']
            levels = {key: round(float(np.nanmean(x)), 2) for key, x in own.items()}
            gains = {key: difference(x, base[key]) for key, x in own.items()}
            same = about['rate'] == other['rate']
            rows.append(dict(about, same_rate=same, levels=levels, minus_infonce=gains))
    return holm(rows)


def difference(ours: np.ndarray, theirs: np.ndarray) -> list[float]:
    """Mean difference of [seeds, queries], ends of its 95 % interval, and p.

    Seeds and queries are drawn, each with replacement; p is that of the interval's width.
    """
    gains = ours.astype(float) - theirs
    gains = gains[:, ~np.isnan(gains).any(0)]
    if not gains.any():
        return [0.0, 0.0, 0.0, 1.0]
    random, drawn = np.random.default_rng(0), []
    for _ in range(1000):
        seeds = random.integers(len(gains), size=len(gains))
        mean = gains[seeds].mean(0)
        drawn.append(mean[random.integers(len(mean), size=len(mean))].mean())
    ends = np.quantile(drawn, (0.025, 0.975))
    p = math.erfc(abs(gains.mean()) / max(np.std(drawn), 1e-9) / 2**0.5)
    return [round(float(x), 2) for x in (gains.mean(), *ends)] + [round(p, 4)]


def holm(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Adds ``resolved``, the measures in which a method differs, Holm over the methods."""
    for row in rows:
        row['resolved'] = []
    for name in dict.fromkeys(row['set'] for row in rows):
        own = [row for row in rows if row['set'] == name]
        own = [row for row in own if row['method'] not in (FROZEN, 'InfoNCE')]
        for key in own[0]['minus_infonce'] if own else ():
            order = sorted(own, key=lambda x: x['minus_infonce'][key][3])
            for n, row in enumerate(order):
                if row['minus_infonce'][key][3] * (len(order) - n) > 0.05:
                    break
                row['resolved'].append(key)
    return rows


def verdict(row: dict[str, Any]) -> str:
    """By what is resolved of raw scores: a gain in one measure must not be paid for in another.

    Where InfoNCE has another rate that may be why, which is said.
    """
    if row['method'] in (FROZEN, 'InfoNCE'):
        return ''
    signs = {row['minus_infonce'][key][0] > 0 for key in row['resolved'] if 'bank' not in key}
    names = {(True,): 'helps', (False,): 'harms', (False, True): 'a trade'}
    found = names.get(tuple(sorted(signs)), 'not resolved')
    return found if row['same_rate'] or not signs else f'{found}, at another rate'


def page(rows: Sequence[dict[str, Any]]) -> str:
    """The page, made from the cells."""
    lines = [HEAD]
    for name in dict.fromkeys(row['set'] for row in rows):
        own = [row for row in rows if row['set'] == name]
        keys = list(own[0]['levels'])
        heads = [key.replace('_', ' ').replace('R1', 'R@1').replace('P1', 'P@1') for key in keys]
        heads = [head.replace('AP', 'AP of EXTRA') for head in heads]
        lines += [
            '',
            f'## {name}',
            '',
            f'| method | rate | {" | ".join(heads)} | verdict |',
        ]
        lines.append('|---' * (3 + len(keys)) + '|')
        for row in own:
            cells = []
            for key in keys:
                mean, low, high, _ = row['minus_infonce'][key]
                text = f'{mean:+.1f} [{low:+.1f}, {high:+.1f}]'
                if row['method'] == 'InfoNCE':
                    text = f'{row["levels"][key]:.1f}'
                cells.append(f'**{text}**' if key in row['resolved'] else text)
            lines.append(
                f'| {row["method"]} | {row["rate"]:g} | {" | ".join(cells)} | {verdict(row)} |'
            )
    return '\n'.join(lines) + '\n'


if __name__ == '__main__':
    main()
