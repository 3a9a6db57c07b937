"""Queries that are not like the bank's: P as said and as it is, and how often it is noticed.

    python projects/lab/evidence/query_shift.py DATA [--banks 200]    # goes on where it was ended
    python projects/lab/evidence/query_shift.py --page

DATA has real_features/, real_scores/ and human_judgments/.  A bank is a random draw of pairs;
gallery and queries are drawn from the others.  Writes cells/query_shift.json, which
pages/query_shift.md shows.
"""

from __future__ import annotations

import argparse
import copy
import json
import re
from pathlib import Path
from typing import Any, Callable, Iterator, NamedTuple

import numpy as np
import torch

import mmvtr

HERE = Path(__file__).resolve().parent
CELLS, PAGE = HERE / 'cells/query_shift.json', HERE / 'pages/query_shift.md'
WAY = dict(transform='unbalanced_sinkhorn', temperature='11%')


class Set(NamedTuple):
    """Items, each with some queries.

    Attributes:
        items: float32 [N, D].
        queries: float32 [N, n, D].
        lengths: int64 [N, n], words of each query.
        bank, gallery: number of pairs of a bank, and of items of a gallery.
        precision: of the answers that a threshold is asked for.
    """

    items: np.ndarray
    queries: np.ndarray
    lengths: np.ndarray
    bank: int = 400
    gallery: int = 400
    precision: float = 0.8


class Draw(NamedTuple):
    """A bank, a calibrated gallery, and what is further there."""

    set: Set
    fitted: mmvtr.Debiaser
    bank: tuple[np.ndarray, np.ndarray]
    held: np.ndarray
    others: np.ndarray
    picked: np.ndarray
    random: np.random.Generator

    def asked(self, items: np.ndarray) -> np.ndarray:
        return self.set.queries[items, self.picked[items]]


#: A gallery, queries, and the place of each query's own item, -1 = not there.
Asked = tuple[mmvtr.Debiaser, np.ndarray, np.ndarray]


def same(draw: Draw) -> Asked:
    return draw.fitted, draw.asked(draw.held), np.arange(len(draw.held))


def noisy(draw: Draw, strength: float) -> Asked:
    """Noise of so many times the length of a query."""
    fitted, queries, own = same(draw)
    noise = draw.random.normal(size=queries.shape) / queries.shape[1] ** 0.5
    length = np.linalg.norm(queries, axis=1, keepdims=True)
    return fitted, (queries + strength * length * noise).astype('f4'), own


def of_length(draw: Draw, sign: int) -> Asked:
    """The longest or shortest query of each item."""
    chosen = (sign * draw.set.lengths[draw.held]).argmax(1)
    return draw.fitted, draw.set.queries[draw.held, chosen], np.arange(len(draw.held))


def not_there(draw: Draw) -> Asked:
    """Queries of items that are not in the gallery."""
    other = draw.others[: len(draw.held)]
    return draw.fitted, draw.asked(other), np.full(len(other), -1)


def half(draw: Draw, *, all_asked: bool) -> Asked:
    """Half of the items are gone; the calibration is that of the whole."""
    kept = draw.held[: len(draw.held) // 2]
    fitted = mmvtr.fit(draw.set.items[kept], draw.bank, **WAY)
    fitted.keep(draw.fitted.calibration_)
    asked = draw.held if all_asked else kept
    return (
        fitted,
        draw.asked(asked),
        np.where(asked == draw.held[: len(asked)], np.arange(len(asked)), -1),
    )


def added(draw: Draw, times: int, *, asked: bool) -> Asked:
    """The gallery has grown; the new items are asked for, too, or not."""
    new = draw.others[: (times - 1) * len(draw.held)]
    fitted = copy.copy(draw.fitted).add(draw.set.items[new])
    every = np.concatenate([draw.held, new])
    places = np.arange(len(draw.held))
    if asked:
        places = draw.random.choice(len(every), len(draw.held), replace=False)
    return fitted, draw.asked(every[places]), places


CASES: dict[str, Callable[[Draw], Asked]] = {
    'like the bank': same,
    'noise, half of the length': lambda draw: noisy(draw, 0.5),
    'noise, as long as the query': lambda draw: noisy(draw, 1.0),
    'the shortest of each item': lambda draw: of_length(draw, -1),
    'the longest of each item': lambda draw: of_length(draw, 1),
    'items that are not there': not_there,
    'gallery of half': lambda draw: half(draw, all_asked=False),
    'half is removed, all are asked for': lambda draw: half(draw, all_asked=True),
    'as many items added, all are asked for': lambda draw: added(draw, 2, asked=True),
    'gallery of ten times': lambda draw: added(draw, 10, asked=False),
}


def sets(data: Path) -> Iterator[tuple[str, Set, list[str]]]:
    """Sets, and the cases that they are large enough for."""
    tokens = (data / 'human_judgments/flickr8k/Flickr8k.token.txt').read_text('utf8')
    said = dict(line.split('\t')[:2] for line in tokens.splitlines())
    with np.load(data / 'real_features/flickr8k_captions_minilm.npz') as stored:
        words = [len(said[str(key)].split()) for key in stored['key']]
        vectors = stored['vec'].astype('f4').reshape(-1, 5, 384)
    yield 'Flickr8k captions, MiniLM', _first_is_item(vectors, np.reshape(words, (-1, 5))), [*CASES]
    with np.load(data / 'real_features/msrvtt_captions_minilm.npz') as stored:
        names = [str(key).split('#')[0] for key in stored['key']]
        order = np.argsort(names, kind='stable')
        ordered = np.array(names)[order]
        first = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
        rows = order[first[:, None] + np.arange(4)]
        words = np.array([len(str(text).split()) for text in stored['caption']])
        msrvtt = _first_is_item(stored['vec'].astype('f4')[rows], words[rows])
    yield 'MSR-VTT captions, MiniLM', msrvtt._replace(precision=0.6), [*CASES]
    folder = data / 'real_scores/clap_audiocaps'
    texts, sounds = (
        np.load(folder / f'outputs_embeddings_{name}.npy').astype('f4')
        for name in ('text_embeddings', 'audio_emb_original')
    )
    kept = np.sort(np.unique(sounds, axis=0, return_index=True)[1])  # some have several texts
    queries = texts[kept, None]
    clap = Set(sounds[kept], queries, np.ones(queries.shape[:2], int), bank=200, gallery=105)
    large = [name for name in CASES if name.startswith(('like', 'noise', 'items'))]
    yield 'AudioCaps, CLAP', clap, large


def _first_is_item(vectors: np.ndarray, words: np.ndarray) -> Set:
    """The first caption stands for its item, the others ask for it."""
    return Set(vectors[:, 0], vectors[:, 1:], words[:, 1:])


def drawn(some: Set, seed: int) -> Draw:
    random = np.random.default_rng(seed)
    order = random.permutation(len(some.items))
    bank, rest = order[: some.bank], order[some.bank :]
    picked = random.integers(some.queries.shape[1], size=len(some.items))
    pairs = some.queries[bank, picked[bank]], some.items[bank]
    held, others = rest[: some.gallery], rest[some.gallery :]
    fitted = mmvtr.fit(some.items[held], pairs, **WAY).calibrate()
    return Draw(some, fitted, pairs, held, others, picked, random)


def of_bank(some: Set, cases: list[str], seed: int) -> dict[str, list[float]]:
    """Of each case: P said of the first places and true, the share answered, right of these, the
    precision asked for, whether the shift is noticed, largest distance over what chance allows."""
    draw, found = drawn(some, seed), {}
    least = draw.fitted.calibration_.answers(some.precision).threshold
    for name in cases:
        fitted, queries, own = CASES[name](draw)
        hits = fitted.search(queries, 1)
        p, right = hits.probabilities[:, 0], hits.ids[:, 0] == own
        shown = p >= least
        precise = float(right[shown].mean()) if shown.any() else float('nan')
        shift = hits.shift
        over = max(shift.distances) / shift.chance
        found[name] = [
            p.mean(),
            right.mean(),
            shown.mean(),
            precise,
            some.precision,
            shift.noticed,
            over,
        ]
    return found


def table(cells: dict[str, Any]) -> str:
    lines = [
        '| set | queries | P said | true | answered at a precision | right of these | '
        'banks below | noticed |',
        '|---' * 8 + '|',
    ]
    for name, banks in cells.items():
        for case in banks[0]:
            x = np.array([bank[case] for bank in banks], float)
            said, true, answered, _, precision, noticed, _ = x.mean(0)
            some = x[np.isfinite(x[:, 3])]
            right, below = '', f'0 of {len(x)}'
            if len(some):
                right = f'{(some[:, 2] * some[:, 3]).sum() / some[:, 2].sum():.3f}'
                below = f'{(some[:, 3] < precision).sum()} of {len(x)}'
            lines.append(
                f'| {name} | {case} | {said:.3f} | {true:.3f} | {answered:.0%} at {precision:g} | '
                f'{right} | {below} | {noticed:.1%} |'
            )
    return '\n'.join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('data', type=Path, nargs='?')
    parser.add_argument('--banks', type=int, default=200)
    parser.add_argument('--page', action='store_true', help='the table from the cells')
    args = parser.parse_args()
    cells = json.loads(CELLS.read_text()) if CELLS.exists() else {}
    if args.page:
        mark = r'(<!-- table -->\n\n).*?(\n\n<!-- /table -->)'
        made = table(cells)
        PAGE.write_text(re.sub(mark, lambda m: m[1] + made + m[2], PAGE.read_text(), flags=re.S))
        return
    if args.data is None:
        parser.error('name DATA')
    torch.set_num_threads(1)
    for name, some, cases in sets(args.data):
        banks = cells.setdefault(name, [])
        while len(banks) < args.banks:
            found = of_bank(some, cases, len(banks))
            banks.append({case: [round(float(x), 4) for x in row] for case, row in found.items()})
            if len(banks) % 10 == 0:
                CELLS.write_text(json.dumps(cells) + '\n')
        print(table({name: banks}), flush=True)


if __name__ == '__main__':
    main()
