"""Calibration on pairs that people graded (CBVS)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from mmvtr.functional import fit_calibration, reliability

SPLITS = 10


def calibration(folder: Path) -> dict[str, Any]:
    """Fitted on half of the queries, judged on the others; means of ten splits in two.

    A pair of grade 1 or 2 matches.
    """
    lines = (folder / 'inference_result.txt').read_text(encoding='utf-8').splitlines()
    rows = [line.split('\t') for line in lines]
    graded = (folder / 'cbvs20k.txt').read_text(encoding='utf-8').splitlines()
    grades = {(q, v): int(grade) for q, v, _, grade in (x.split('\t') for x in graded)}
    names = {q: n for n, q in enumerate(dict.fromkeys(row[1] for row in rows))}
    query = torch.tensor([names[row[1]] for row in rows])
    cosine = torch.tensor([float(row[3]) for row in rows])
    match = torch.tensor([grades[row[1], row[2]] > 0 for row in rows])
    found: dict[str, Any] = dict(
        pairs=len(rows), queries=len(names), match=round(100 * float(match.double().mean()), 1)
    )
    for method in ('platt', 'isotonic'):
        errors = []
        for seed in range(SPLITS):
            half = torch.zeros(len(names), dtype=torch.bool)
            half[np.random.default_rng(seed).permutation(len(names))[: len(names) // 2]] = True
            for fitted in (half[query], ~half[query]):
                fit = fit_calibration(cosine[fitted], match[fitted], method=method, draws=2)
                asked = ~fitted
                seen = reliability(fit.probabilities(cosine[asked]), match[asked])
                shown = fit.accepts(cosine[asked], precision=0.9)
                right = float(match[asked][shown].double().mean())
                errors.append((seen.error, seen.noise, float(shown.double().mean()), right))
        error, noise, shown, right = np.mean(errors, axis=0)
        found[method] = dict(
            error=round(float(error), 4),
            by_chance=round(float(noise), 4),
            shown=round(100 * float(shown), 1),
            right_of_shown=round(100 * float(right), 1),
        )
    print(f'CBVS: {found}', flush=True)
    return found
