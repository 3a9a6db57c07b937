"""What a sigma fitted to frozen vectors knows of errors (the heads of `sigma_heads.fit_sigma`).

    python projects/lab/evidence/frozen_sigma.py DATA

DATA has clap_audiocaps/ (LAION-CLAP's vectors of 497 pairs, clean and disturbed) and minilm/
(a sentence encoder's vectors of five captions an image, [N, 5, D]: a caption is the text, the sum
of the four others the item).  Heads are trained on pairs that are not tested: of CLAP on a random
half, four times; of MiniLM on the bank's images, one caption in three.  Some minutes on one core.
Writes frozen_sigma.json.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any, Mapping, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from sigma_heads import FrozenSigma, fit_sigma
from torch import Tensor

from mmvtr.functional import auc, fit_calibration, ranks, rejection_ratio, reliability, spearman
from mmvtr.storage import write_atomically

CELLS = Path(__file__).resolve().parent / 'cells'
DISTURBED = ('noisy_snr10dB', 'pitch_shift', 'lowpass_4000Hz', 'highpass_1000Hz')
SPLITS = 4


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('data', type=Path, metavar='DATA', help='folder of the vectors')
    parser.add_argument('--out', type=Path, default=CELLS, help='folder to write')
    args = parser.parse_args()
    found = dict(clap=of_clap(args.data), minilm=of_minilm(args.data))
    text = json.dumps(found, indent=1) + '\n'
    write_atomically(args.out / 'frozen_sigma.json', lambda file: file.write(text.encode()))
    print(text)


def of_clap(data: Path) -> dict[str, Any]:
    """Means over splits; ``disturbed`` is the AUC of sigma, disturbed sounds against clean ones."""

    def read(name: str) -> Tensor:
        path = data / f'clap_audiocaps/outputs_embeddings_{name}.npy'
        return torch.from_numpy(np.load(path)).float()

    texts, sounds = read('text_embeddings'), read('audio_emb_original')
    others = {name: read(f'audio_emb_{name}') for name in DISTURBED}
    rows = []
    for split in range(SPLITS):
        order = torch.randperm(len(texts), generator=torch.Generator().manual_seed(split))
        train, test = order[: len(order) // 2], order[len(order) // 2 :]
        model = fit_sigma(texts[train], sounds[train], hidden=64, seed=split)
        row = of_sides(model, texts[test], sounds[test], seed=split)
        clean = model.sigma(sounds[test], 'video')
        row['disturbed'] = {
            name: float(auc(model.sigma(x[test], 'video'), clean)) for name, x in others.items()
        }
        rows.append(row)
    return means(rows)


def of_minilm(data: Path) -> dict[str, Any]:
    """Trained on the bank, tested on the first caption of each image of the other set."""
    bank, test = (
        torch.from_numpy(np.load(data / f'minilm/flickr8k_{name}.npy')).float()
        for name in ('bank', 'crowd')
    )
    texts, items = (x.flatten(0, 1)[::3] for x in caption_pairs(bank))
    model = fit_sigma(texts, items, hidden=64, epochs=60, patience=8)
    return means([of_sides(model, *(x[:, 0] for x in caption_pairs(test)), seed=0)])


def caption_pairs(vectors: Tensor) -> tuple[Tensor, Tensor]:
    """[N, 5, D] -> captions, and the sum of the four others, [N, 5, D] each."""
    return vectors, vectors.sum(1, keepdim=True) - vectors


def of_sides(model: FrozenSigma, texts: Tensor, items: Tensor, *, seed: int) -> dict[str, Any]:
    """Figures of texts and of items as queries; row i of both is a pair."""
    scores = F.normalize(texts, dim=1) @ F.normalize(items, dim=1).T
    found = dict(epochs=float(model.epochs))
    for side, own, partner, matrix in (
        ('text', texts, items, scores),
        ('video', items, texts, scores.T),
    ):
        sigma, best = model.sigma(own, side), matrix.amax(1)
        rank = ranks(matrix, torch.eye(len(matrix)).bool())
        wrong = (rank > 1).double()
        found[side] = dict(
            recall=100 * float(1 - wrong.mean()),
            distance=float(spearman(sigma, -matrix.diagonal())),
            rank=float(spearman(sigma, rank)),
            rank_of_score=float(spearman(-best, rank)),
            rejection=100 * float(rejection_ratio(sigma, wrong)),
            rejection_of_score=100 * float(rejection_ratio(-best, wrong)),
            **error(sigma, wrong == 0, seed=seed, name='sigma'),
            **error(best, wrong == 0, seed=seed, name='score'),
            **coverage(model, own, partner, side),
        )
    return found


def error(values: Tensor, right: Tensor, *, seed: int, name: str) -> dict[str, float]:
    """Of P(first answer is right) by Platt's line through half of the queries, on the others.

    Expected calibration error, what chance alone makes of it, and the AUC of P, in percent.
    """
    order = torch.randperm(len(values), generator=torch.Generator().manual_seed(seed))
    fit, judge = order[::2], order[1::2]
    p = fit_calibration(values[fit], right[fit], draws=1).probabilities(values[judge])
    found = reliability(p, right[judge])
    area = auc(p[right[judge]], p[~right[judge]])
    return {
        f'ece_{name}': 100 * found.error,
        f'ece_{name}_noise': 100 * found.noise,
        f'auc_{name}': 100 * float(area),
    }


def coverage(model: FrozenSigma, own: Tensor, partner: Tensor, side: str) -> dict[str, float]:
    """Percent of the partners' entries within the central 50 and 90 % of their distribution."""
    mean, log_alpha, beta = model.distribution(own, side)
    target = F.normalize(partner, dim=1) * partner.shape[1] ** 0.5
    x = ((mean - target).abs().clamp_min(1e-12).log() - log_alpha) * beta
    inside = torch.special.gammainc(1 / beta, x.exp())
    return {f'covered_{p}': 100 * float((inside <= p / 100).double().mean()) for p in (50, 90)}


def means(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Of equal dicts of numbers, rounded."""
    found = {}
    for key, value in rows[0].items():
        values = [row[key] for row in rows]
        found[key] = means(values) if isinstance(value, dict) else round(statistics.mean(values), 3)
    return found


if __name__ == '__main__':
    main()
