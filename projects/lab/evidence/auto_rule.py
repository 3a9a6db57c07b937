"""Which transform ``transform='auto'`` takes: the rule judged on sets that did not make it.

    python projects/lab/evidence/auto_rule.py DATA

For each set, and for each corpus, all of the rule is chosen on the others: which temperatures and
marginal penalties are tried (any range of a grid that is wider than mmvtr.arrays.choice's), which
of them is taken unless another is clearly better, by how many standard errors, and from which gain
on.  DATA has the folders real_scores/ and real_features/.  Writes cells/auto_rule.json, which
pages/auto_rule.md shows.  What was written down before the first numbers: pages/auto_plan.md.
"""

from __future__ import annotations

import argparse
import itertools
import json
from pathlib import Path
from typing import Any, Callable, Iterator, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from mmvtr.arrays import choice
from mmvtr.functional import ranks
from mmvtr.functional.transforms.item_biases import fit_biases

HERE = Path(__file__).resolve().parent
CONDITIONS = ('original', 'lowpass_4000Hz', 'highpass_1000Hz', 'noisy_snr10dB', 'pitch_shift')
CORPORA = ('clap', 'clotho', 'flickr8k')
SPLITS, HALVINGS = 2, 2
#: The grid; of a marginal_penalty of 1 it is Sinkhorn.
TEMPERATURES, PENALTIES = ('3%', '6.7%', '11%', '20%', '30%', '50%'), (1.0, 0.8, 0.5, 0.25)
TRIED = [(t, s) for s in PENALTIES for t in TEMPERATURES]
#: Standard errors by which another setting must gain more than the usual one, None: the best is
#: always taken; and by which the gain of what is taken must exceed 0.
OTHER, RAW = (None, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0), (-2.0, 0.0, 1.0, 2.0)


class Rule(NamedTuple):
    """What a bank with pairs is asked by: positions of :data:`TRIED`, and standard errors."""

    grid: tuple[int, ...]
    usual: int
    other: float | None
    raw: float


class Cell(NamedTuple):
    """One direction of one split.

    Attributes:
        set, direction: of it.
        seen: gains in R@1 of all that is tried, [S].
        mean: what the bank's pairs say of them: gains in mean reciprocal rank, [S].
        clear: by how many standard errors each gains more than each, [S, S], and
        above: than nothing, [S].
    """

    set: str
    direction: str
    seen: np.ndarray
    mean: np.ndarray
    clear: np.ndarray
    above: np.ndarray


def sets(data: Path) -> Iterator[tuple[str, Tensor, Tensor]]:
    folder = data / 'real_scores'
    clap = folder / 'clap_audiocaps'
    texts = np.load(clap / 'outputs_embeddings_text_embeddings.npy')
    clean = np.load(clap / 'outputs_embeddings_audio_emb_original.npy')
    first = np.sort(np.unique(clean, axis=0, return_index=True)[1])  # some have several texts
    for name in CONDITIONS:
        sounds = np.load(clap / f'outputs_embeddings_audio_emb_{name}.npy')
        yield f'clap {name}', unit(texts[first]), unit(sounds[first])
    for name in ('clotho_evaluation', 'clotho_validation', 'flickr8k_crowd'):
        found = np.load(folder / 'minilm' / f'{name}.npy').astype('f4').reshape(-1, 5, 384)[:1000]
        yield f'minilm {name}', unit(found[:, 0]), unit(found[:, 1:].mean(1))
    yield 'clip flickr8k', *mapped(data)


def mapped(data: Path) -> tuple[Tensor, Tensor]:
    """Captions by a ridge map that 400 pairs fitted, and images: 600 pairs."""
    images = np.load(data / 'real_features/flickr8k_train1000_clip_vitb32_image.npz')
    vectors = next(images[x] for x in images.files if images[x].ndim == 2)
    rows = np.load(data / 'real_scores/minilm/flickr8k_bank.npy').astype('f8')
    captions = rows.reshape(-1, 5, 384)[:1000, 0]
    y = vectors.astype('f8') / np.linalg.norm(vectors.astype('f8'), axis=1, keepdims=True)
    x, mean = captions[:400], y[:400].mean(0)
    weights = np.linalg.solve(x.T @ x + 2.0 * np.eye(384), x.T @ (y[:400] - mean))
    return unit(captions[400:] @ weights + mean), unit(y[400:])


def unit(x: np.ndarray) -> Tensor:
    return normalize(torch.from_numpy(np.asarray(x, dtype='f4')), dim=1)


def first(scores: Tensor) -> float:
    return 100 * (ranks(scores) <= 1).double().mean().item()


def cells(data: Path) -> Iterator[Cell]:
    for name, a, b in sets(data):
        for direction, (texts, items) in (('t2v', (a, b)), ('v2t', (b, a))):
            for seed in range(SPLITS):
                order = torch.from_numpy(np.random.default_rng(seed).permutation(len(texts)))
                halves = order[: len(order) // 2], order[len(order) // 2 :]
                for test, bank in (halves, halves[::-1]):
                    yield cell(name, direction, texts, items, test, bank)


def cell(name: str, direction: str, texts: Tensor, items: Tensor, test: Tensor, bank: Tensor):
    scores, known = texts[test] @ items[test].T, texts[bank] @ items[test].T
    raw = first(scores)
    seen = np.array([first(scores + biases(known, one)) - raw for one in TRIED])
    gains = held_out(texts[bank], items[bank])
    between = gains[:, None] - gains[None]
    return Cell(name, direction, seen, gains.mean(1), errors(between), errors(gains))


def biases(bank: Tensor, setting: tuple[str, float]) -> Tensor:
    temperature, marginal_penalty = setting
    if marginal_penalty == 1:
        return fit_biases('sinkhorn', bank, temperature=temperature).items
    how = dict(temperature=temperature, marginal_penalty=marginal_penalty)
    return fit_biases('unbalanced_sinkhorn', bank, **how).items


def errors(gains: np.ndarray) -> np.ndarray:
    """Means in standard errors, over the last axis."""
    deviation = gains.std(-1) / gains.shape[-1] ** 0.5
    return np.divide(gains.mean(-1), deviation, out=np.zeros_like(deviation), where=deviation > 0)


def held_out(texts: Tensor, own: Tensor) -> np.ndarray:
    """What each setting adds to 1 / rank of each text on held-out halves, float64 [S, q]."""
    random = torch.Generator().manual_seed(0)
    gains = torch.zeros(len(TRIED), len(texts), dtype=torch.float64)
    for _ in range(HALVINGS):
        half = torch.rand(len(texts), generator=random).argsort() < len(texts) // 2
        for asked, held in ((half, ~half), (~half, half)):
            mine, bank = texts[asked] @ own[asked].T, texts[held] @ own[asked].T
            before = 1 / ranks(mine)
            for i, one in enumerate(TRIED):
                gains[i, asked] += (1 / ranks(mine + biases(bank, one)) - before) / HALVINGS
    return gains.numpy()


def rules() -> list[Rule]:
    """All that is chosen from."""
    found = []
    for first, last in itertools.combinations_with_replacement(range(len(TEMPERATURES)), 2):
        for top, bottom in itertools.combinations_with_replacement(range(len(PENALTIES)), 2):
            grid = tuple(
                s * len(TEMPERATURES) + t
                for s in range(top, bottom + 1)
                for t in range(first, last + 1)
            )
            for other, raw in itertools.product(OTHER, RAW):
                usual = grid[:1] if other is None else grid
                found += [Rule(grid, one, other, raw) for one in usual]
    return found


def shipped() -> Rule:
    """The rule of mmvtr.arrays.choice."""
    grid = tuple(
        TRIED.index((options['temperature'], options.get('marginal_penalty', 1.0)))
        for _, options in choice.candidates()
    )
    usual = choice.USUAL[1]['temperature'], choice.USUAL[1]['marginal_penalty']
    return Rule(grid, TRIED.index(usual), choice.OTHER, choice.RAW)


def picked(one: Cell, rule: Rule) -> float:
    """Gain in R@1 of what a rule takes."""
    best = max(rule.grid, key=lambda i: one.mean[i])
    clear = rule.other is None or one.clear[best, rule.usual] > rule.other
    taken = best if clear else rule.usual
    return float(one.seen[taken]) if one.above[taken] > rule.raw else 0.0


def table(kinds: list[Any], gain: Callable[[Cell, Any], float], found: list[Cell]) -> np.ndarray:
    """Gains of rules on cells, [R, C]: a cell is the mean of its splits."""
    names = list(dict.fromkeys((one.set, one.direction) for one in found))
    place = np.array([names.index((one.set, one.direction)) for one in found])
    every = np.array([[gain(one, rule) for one in found] for rule in kinds])
    return np.stack([every[:, place == i].mean(1) for i in range(len(names))], axis=1)


def corpus_of(name: str) -> str:
    """Sets of one corpus share clips or captions, so that one tells of the others."""
    return next(x for x in CORPORA if x in name)


def left_out(gains: np.ndarray, names: list[str]) -> tuple[np.ndarray, list[int]]:
    """Gains [C] of the rule that is best on cells of other names, and its number for each name."""
    found, chosen = np.zeros(len(names)), []
    for name in dict.fromkeys(names):
        own = np.array([one == name for one in names])
        others = gains[:, ~own]
        best = int((others.mean(1) + 4 * np.minimum(others, 0).mean(1)).argmax())
        found[own], chosen = gains[best, own], [*chosen, best]
    return found, chosen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('data', type=Path)
    parser.add_argument('--out', type=Path, default=HERE)
    args = parser.parse_args()
    found = list(cells(args.data))
    keys = list(dict.fromkeys((one.set, one.direction) for one in found))
    names = [name for name, _ in keys]
    settings: list[Any] = [None, *range(len(TRIED))]
    alone = table(settings, lambda one, i: 0.0 if i is None else float(one.seen[i]), found)
    best = alone.max(0)
    every, now = rules(), shipped()
    fixed = [x for x in every if x.grid == now.grid]
    report: dict[str, Any] = dict(cells=[' '.join(x) for x in keys], best=best, rules=len(every))
    report['pairs, shipped'] = summary(table([now], picked, found)[0], best)
    report['texts, shipped'] = summary(alone[1 + now.usual], best)
    for name, kinds, gains in (
        ('pairs, all chosen on the others', every, table(every, picked, found)),
        ('pairs, grid as shipped', fixed, table(fixed, picked, found)),
        ('texts, chosen on the others', settings, alone),
    ):
        for unit, held in (('set', names), ('corpus', [corpus_of(x) for x in names])):
            judged, chosen = left_out(gains, held)
            told = dict(zip(dict.fromkeys(held), [told_of(kinds[i]) for i in chosen]))
            report[f'{name}, one {unit} out'] = dict(summary(judged, best), chosen=told)
    text = json.dumps(report, indent=1, default=rounded)
    (args.out / 'cells/auto_rule.json').write_text(text + '\n')
    print(text)


def told_of(rule: Any) -> str:
    if not isinstance(rule, Rule):
        return 'raw' if rule is None else ' '.join(map(str, TRIED[rule]))
    (warm, strict), (cold, mild) = TRIED[rule.grid[0]], TRIED[rule.grid[-1]]
    usual = 'the best' if rule.other is None else f'{TRIED[rule.usual]} unless {rule.other}'
    return f'{warm} to {cold}, {strict} to {mild}; {usual}; raw unless above {rule.raw}'


def summary(gains: np.ndarray, best: np.ndarray) -> dict[str, Any]:
    share = 100 * gains.mean() / best.mean()
    means = dict(gain=gains.mean(), share=share, worst=gains.min())
    return {**{key: round(float(x), 2) for key, x in means.items()}, 'by_cell': gains}


def rounded(x: Any) -> Any:
    return [round(float(y), 2) for y in x]


if __name__ == '__main__':
    main()
