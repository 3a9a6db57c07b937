"""Which transform ``transform='auto'`` takes: the rule judged on sets that did not make it.

    python projects/lab/evidence/auto_rule.py DATA

What was written down before: pages/auto_plan.md.  DATA has the folders
real_scores/ and real_features/.  Writes cells/auto_rule.json, which pages/auto_rule.md shows.
"""

from __future__ import annotations

import argparse
import itertools
import json
from pathlib import Path
from typing import Iterator, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from mmvtr.arrays.choice import USUAL, candidates
from mmvtr.functional import ranks
from mmvtr.functional.transforms.item_biases import fit_biases

HERE = Path(__file__).resolve().parent
CONDITIONS = ('original', 'lowpass_4000Hz', 'highpass_1000Hz', 'noisy_snr10dB', 'pitch_shift')
SPLITS, HALVINGS = 2, 2
#: Standard errors: of the rule of before, by which the best gain must exceed 0; of the new one, by
#: which another setting must gain more than the usual one, and by which that must exceed 0.
ERRORS, OTHER, RAW = (0.5, 1.0, 1.5, 2.0), (0.0, 0.5, 1.0, 1.5, 2.0, 3.0), (-2.0, 0.0, 1.0, 2.0)
ALONE = [('raw', None), *((f'{t} {s}', (t, s)) for t in ('11%', '20%', '30%') for s in (0.5, 0.8))]


class Cell(NamedTuple):
    """One direction of one split: gains in R@1 of all candidates, and what a bank says of them."""

    set: str
    direction: str
    seen: np.ndarray
    gains: np.ndarray
    alone: dict[str, float]


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
    seen = [first(scores + fit_biases(t, known, **o).items) - raw for t, o in candidates()]
    alone = {
        label: 0.0
        if how is None
        else first(
            scores
            + fit_biases('unbalanced_sinkhorn', known, temperature=how[0], strictness=how[1]).items
        )
        - raw
        for label, how in ALONE
    }
    return Cell(name, direction, np.array(seen), held_out(texts[bank], items[bank]), alone)


def held_out(texts: Tensor, own: Tensor) -> np.ndarray:
    """What each candidate adds to 1 / rank of each text on held-out halves, float64 [S, q]."""
    random = torch.Generator().manual_seed(0)
    gains = torch.zeros(len(candidates()), len(texts), dtype=torch.float64)
    for _ in range(HALVINGS):
        half = torch.rand(len(texts), generator=random).argsort() < len(texts) // 2
        for asked, held in ((half, ~half), (~half, half)):
            mine, bank = texts[asked] @ own[asked].T, texts[held] @ own[asked].T
            for i, (name, options) in enumerate(candidates()):
                after = 1 / ranks(mine + fit_biases(name, bank, **options).items)
                gains[i, asked] += (after - 1 / ranks(mine)) / HALVINGS
    return gains.numpy()


def pick(one: Cell, other: float | None, raw: float) -> float:
    """Gain in R@1 of what a rule takes; other None: the best, of whatever gain."""
    best, taken = int(one.gains.mean(1).argmax()), candidates().index(USUAL)
    further = one.gains[best] - one.gains[taken]
    if other is None or further.mean() > other * error(further):
        taken = best
    gain = one.gains[taken]
    return float(one.seen[taken]) if gain.mean() > raw * error(gain) else 0.0


def error(x: np.ndarray) -> float:
    return float(x.std() / len(x) ** 0.5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('data', type=Path)
    parser.add_argument('--out', type=Path, default=HERE)
    args = parser.parse_args()
    found = list(cells(args.data))
    names = list(dict.fromkeys(one.set for one in found))
    rules = [*((None, x) for x in ERRORS), *itertools.product(OTHER, RAW)]
    groups: dict[tuple[str, str], list[Cell]] = {}
    for one in found:
        groups.setdefault((one.set, one.direction), []).append(one)
    best = {key: max(np.mean([c.seen for c in group], 0).max(), 0) for key, group in groups.items()}
    by_rule = {
        rule: {key: np.mean([pick(c, *rule) for c in group]) for key, group in groups.items()}
        for rule in rules
    }
    by_alone = {
        label: {key: np.mean([c.alone[label] for c in group]) for key, group in groups.items()}
        for label, _ in ALONE
    }
    rows, taken = [], dict(pairs=[], texts=[])
    for name in names:
        others = [key for key in groups if key[0] != name]
        row = {}
        for kind, table in (('pairs', by_rule), ('texts', by_alone)):
            rule = max(table, key=lambda r: score([table[r][k] for k in others]))
            taken[kind].append(str(rule))
            row[kind] = {key[1]: table[rule][key] for key in groups if key[0] == name}
        row['best'] = {key[1]: best[key] for key in groups if key[0] == name}
        rows.append((name, row))
    report = dict(
        best=best_mean(best),
        rules={str(r): summary(by_rule[r], best) for r in rules},
        alone={label: summary(x, best) for label, x in by_alone.items()},
        left_out={
            kind: summary({(n, d): row[kind][d] for n, row in rows for d in row[kind]}, best)
            for kind in ('pairs', 'texts')
        },
        taken=taken,
        sets={name: row for name, row in rows},
    )
    text = json.dumps(report, indent=1, default=lambda x: round(float(x), 3))
    (args.out / 'cells/auto_rule.json').write_text(text + '\n')
    print(text)


def score(gains: list[float]) -> float:
    """What a rule is chosen by: its mean gain, where losses count four times more."""
    return float(np.mean(gains) + 4 * np.mean(np.minimum(gains, 0)))


def best_mean(best: dict) -> float:
    return float(np.mean(list(best.values())))


def summary(gains: dict, best: dict) -> dict[str, float]:
    values = list(gains.values())
    share = 100 * np.mean(values) / best_mean({k: best[k] for k in gains})
    return dict(gain=float(np.mean(values)), share=float(share), worst=float(np.min(values)))


if __name__ == '__main__':
    main()
