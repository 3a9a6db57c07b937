"""Queries that change after the biases were fitted: what it costs, and what re-fitting recovers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from judging.drawn import WHOLE, draws, gain, measured
from judging.real_sets import CONDITIONS, HALVINGS, Part, Side, clap_pairs, part_of
from judging.real_transforms import Auto, by_retrieve

REFITS = ('stale', 'fresh', 'refit', 'elsewhere')


def drift(folder: Path) -> dict[str, Any]:
    """Sounds ask for captions: each disturbance's raw R@1 and gains, with intervals.

    Where served queries have their own items in the gallery, re-fitting holds these items back, and
    the others, whose queries are asked, are found more easily.  ``elsewhere`` is the control: its
    served queries have no own item in the gallery.
    """
    clean = clap_pairs(folder, 'clean')
    found = {}
    for condition in [x for x in CONDITIONS if x != 'clean']:
        parts, scores = [], {name: [] for name in ('raw', *REFITS)}
        texts, sounds = clap_pairs(folder, condition)
        for seed in range(HALVINGS):
            order = np.random.default_rng(seed).permutation(len(texts))
            halves = [torch.from_numpy(np.sort(x)) for x in np.array_split(order, 2)]
            for own, other in (halves, halves[::-1]):
                mixed = torch.from_numpy(np.random.default_rng(seed).permutation(len(own)))
                for asked in (mixed[::2], mixed[1::2]):
                    served = own[mixed[~torch.isin(mixed, asked)]]
                    part = _asked(texts, sounds, own, asked)
                    before = (clean[1][other], texts[other])
                    stale = by_retrieve(*part.test, before)
                    fresh = by_retrieve(*part.test, (sounds[other], texts[other]))
                    again = (
                        _with(stale, part, sounds[some]) for some in (served, other[: len(served)])
                    )
                    parts.append(part)
                    made = (part.scores, stale.scores, fresh.scores, *again)
                    for name, one in zip(scores, made, strict=True):
                        scores[name].append(one)
        drawn = draws(parts)
        values = {name: measured(one, parts, drawn)['R1'] for name, one in scores.items()}
        found[condition] = dict(
            raw=round(float(values['raw'][WHOLE]), 2),
            **{name: gain(values[name], values['raw']) for name in REFITS},
            cost=gain(values['fresh'], values['stale']),
            recovered=gain(values['refit'], values['stale']),
            recovered_elsewhere=gain(values['elsewhere'], values['stale']),
        )
        print(f'drift, {condition}: {found[condition]}', flush=True)
    return found


def _with(chosen: Auto, part: Part, served: torch.Tensor) -> torch.Tensor:
    """Scores by a choice that stays, with biases of served queries."""
    if chosen.transform is None:
        return chosen.scores
    return by_retrieve(*part.test, served, chosen.transform, **chosen.options).scores


def _asked(
    texts: torch.Tensor, sounds: torch.Tensor, own: torch.Tensor, asked: torch.Tensor
) -> Part:
    """Some sounds of a half ask for its captions."""
    part = part_of(Side(sounds[own[asked]], texts[own]), None, own)
    return part._replace(own=asked, queries=own[asked])
