"""Hubs of token-wise scores on real sets, raw and debiased.

    python projects/lab/evidence/real/late_interaction.py
    python projects/lab/evidence/real/late_interaction.py --page

Rows: F's images as one token each, by the towers of token_towers.py, where these are
(``work_dirs/real/tokens_*.npz``); MSR-VTT's frames as several, asked by captions that a ridge map
takes to them; words
of captions with words of other captions of the same video (``work_dirs/real/msrvtt_words.npz`` of
encode_words.py).  Both directions, by mmvtr.fit with a bank of pairs that fitted nothing, but F's,
on which its towers were trained.  Writes ``cells/late_interaction.json``; ``--page`` writes its
table into ``pages/late_interaction.md``.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, Iterator, NamedTuple

import numpy as np
import torch
from sets import msrvtt, whitening

import mmvtr
from mmvtr import Tokens
from mmvtr.functional import k_occurrence, ranks, skewness

HERE = Path(__file__).resolve().parent.parent
WORK = Path('work_dirs/real')
ROWS = dict(
    one=('Flickr8k images, one token each', 'maxsim', 'maxsim_of_items'),
    frames=('MSR-VTT, a caption and the frames', 'maxsim', 'maxsim_of_items'),
    words=('MSR-VTT, words of two captions', 'maxsim', 'maxsim_of_items'),
    both=('the same words, both ways', 'token_wise', 'token_wise'),
)
TRANSFORMS = (None, 'auto', 'sinkhorn', 'nnn')
#: Principal components of frames, ridge, frames a video at most, pairs of words.
WIDTH, RIDGE, FRAMES, PAIRS = 128, 2.0, 12, 400


class Pairs(NamedTuple):
    """Texts and videos of the test set and of the bank, row i of both one pair."""

    texts: Tokens
    videos: Tokens
    bank_texts: Tokens
    bank_videos: Tokens
    own: torch.Tensor


def tokens(held: Any, part: str, side: str) -> Tokens:
    """Texts or videos of the test set or of the bank."""
    name = f'{part}_{side}_'
    weights = held[name + 'weights'].astype('f4') if name + 'weights' in held else None
    return Tokens(held[name + 'vectors'].astype('f4'), held[name + 'mask'], weights)


def of_towers(path: Path) -> Pairs:
    """What token_towers.py wrote."""
    held = dict(np.load(path))
    known = tokens(held, 'bank', 'video')[held['bank_own']]
    of = [tokens(held, 'test', 'text'), tokens(held, 'test', 'video')]
    return Pairs(*of, tokens(held, 'bank', 'text'), known, torch.tensor(held['test_own']))


def of_frames() -> Pairs:
    """Captions mapped to frames; half of the training videos fit the map, the rest is the bank."""
    raw = msrvtt()
    split = {row.video: row.split for row in raw.rows if row.split != '1ka'}
    caption = {row.video: raw.sentences[row.text_id] for row in reversed(raw.rows)}
    train, test = ([x for x in split if split[x] == part] for part in ('train', 'test'))
    fitted, bank = train[::2], train[1::2]
    change = whitening(np.concatenate([raw.features[x] for x in fitted]))
    frames = {x: change(raw.features[x][:FRAMES])[:, :WIDTH] for x in (*train, *test)}
    means = np.stack([unit(frames[x]).mean(0) for x in fitted])
    texts = np.stack([caption[x] for x in fitted]).astype('f8')
    inner = texts.T @ texts + RIDGE * np.eye(texts.shape[1])
    weights = np.linalg.solve(inner, texts.T @ (means - means.mean(0)))

    def asked(names: list[str]) -> Tokens:
        rows = np.stack([caption[x] for x in names]).astype('f8')
        return Tokens((rows @ weights + means.mean(0))[:, None].astype('f4'))

    sides = (asked(test), Tokens.of([frames[x] for x in test]))
    known = (asked(bank), Tokens.of([frames[x] for x in bank]))
    return Pairs(*sides, *known, torch.arange(len(test)))


def of_words() -> Pairs:
    """MiniLM's word vectors of two captions of a video; nothing is trained."""
    with np.load(WORK / 'msrvtt_words.npz') as held:
        keys, vectors = held['key'].astype(str), held['vec']
    starts = np.flatnonzero(np.r_[True, keys[1:] != keys[:-1]])
    words = dict(zip(keys[starts], np.split(vectors, starts[1:])))
    videos = list(dict.fromkeys(key.partition('#')[0] for key in words))
    both = [x for x in videos if f'{x}#0' in words and f'{x}#1' in words]
    chosen = np.random.default_rng(0).permutation(both)[: 2 * PAIRS]
    sides = [Tokens.of([words[f'{x}#{n}'] for x in chosen]) for n in (0, 1)]
    test, bank = slice(PAIRS), slice(PAIRS, None)
    parts = (sides[0][test], sides[1][test], sides[0][bank], sides[1][bank])
    return Pairs(*parts, torch.arange(PAIRS))


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def measured(row: str, pairs: Pairs, seed: int = 0) -> Iterator[dict[str, Any]]:
    """Both directions, a row a transform."""
    _, *geometries = ROWS[row]
    match = pairs.own[:, None] == torch.arange(len(pairs.videos))
    for direction, geometry in zip(('t2v', 'v2t'), geometries):
        sides = (pairs.texts, pairs.videos), (pairs.bank_texts, pairs.bank_videos)
        (ask, find), known = sides if direction == 't2v' else (x[::-1] for x in sides)
        positives = match if direction == 't2v' else match.t()
        for name in TRANSFORMS:
            start = time.process_time()
            fitted = mmvtr.fit(find, None if name is None else known, name, geometry=geometry)
            seconds = time.process_time() - start
            scores = torch.from_numpy(fitted.scores(ask))
            found, lists = ranks(scores, positives), k_occurrence(scores, k=10)
            yield dict(
                row=row,
                seed=seed,
                direction=direction,
                transform=str(name),
                chosen=fitted.transform_ or 'raw',
                r1=100 * float((found <= 1).double().mean()),
                r10=100 * float((found <= 10).double().mean()),
                skewness=float(skewness(lists)),
                most=100 * float(lists.max()) / len(scores),
                never=100 * float((lists == 0).double().mean()),
                fit_seconds=round(seconds, 1),
            )


def table(rows: list[dict[str, Any]]) -> str:
    """Markdown, means over seeds."""
    groups = defaultdict(list)
    for row in rows:
        groups[row['row'], row['direction'], row['transform']].append(row)
    lines = [
        '| set | direction | ranked by | R@1 | R@10 | hubness | in most lists | in none |',
        '|---|---|---|---|---|---|---|---|',
    ]
    for (row, direction, name), some in groups.items():
        mean = {key: np.mean([x[key] for x in some]) for key in ('r1', 'r10', 'skewness', 'most')}
        never = np.mean([x['never'] for x in some])
        said = 'raw' if name == 'None' else f'`{name}`'
        if name == 'auto':
            said += ' (' + ', '.join(sorted({x['chosen'] for x in some})) + ')'
        lines.append(
            f'| {ROWS[row][0]} | {direction} | {said} | {mean["r1"]:.1f} | {mean["r10"]:.1f} | '
            f'{mean["skewness"]:.1f} | {mean["most"]:.1f} % | {never:.1f} % |'
        )
    return '\n'.join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--page', action='store_true', help='the table from the cells')
    parser.add_argument('--rows', nargs='+', choices=ROWS)
    args = parser.parse_args()
    cells, page = HERE / 'cells/late_interaction.json', HERE / 'pages/late_interaction.md'
    rows = json.loads(cells.read_text()) if cells.exists() else []
    if args.page:
        text = page.read_text()
        mark = r'(<!-- table -->\n\n).*?(\n\n<!-- /table -->)'
        page.write_text(re.sub(mark, lambda m: m[1] + table(rows) + m[2], text, flags=re.S))
        return
    torch.set_num_threads(1)
    towers = {('one', int(x.stem[-1])): x for x in sorted(WORK.glob('tokens_F_one_?.npz'))}
    made = dict(frames=of_frames, words=of_words, both=of_words)
    done = {(row['row'], row['seed']) for row in rows}
    for row, seed in (*towers, *((name, 0) for name in made)):
        if (row, seed) in done or (args.rows and row not in args.rows):
            continue
        pairs = of_towers(towers[row, seed]) if row == 'one' else made[row]()
        for one in measured(row, pairs, seed):
            rows.append(one)
            print(one, flush=True)
        cells.write_text(json.dumps(rows, indent=1) + '\n')


if __name__ == '__main__':
    main()
