"""How good scores are: paired recall, and what a bank of training items makes of them."""

from __future__ import annotations

import base64
from typing import Any, Callable, Mapping, NamedTuple, Optional

import numpy as np
from torch import Tensor

import mmvtr
from mmvtr import functional as fn
from mmvtr.functional.transforms.transform_table import TRANSFORMS

PLACES = (1, 5, 10)


class Ranks(NamedTuple):
    """Ranks from 1, of texts among videos and of videos among texts (the best own caption)."""

    t2v: Tensor
    v2t: Tensor


class Both(NamedTuple):
    """Scores [T, V] with which texts ask, and those with which videos ask."""

    t2v: Tensor
    v2t: Tensor


def ranks(both: Both, positives: Tensor) -> Ranks:
    """By the project's rule: ties count half."""
    return Ranks(fn.ranks(both.t2v, positives), fn.ranks(both.v2t.t(), positives.t()))


def recalls(found: Ranks) -> dict[str, float]:
    """R@1, R@5, R@10 of both directions in percent, their sum, and t2v SumR with R@100."""
    values = {
        f'{direction}_R{k}': 100 * float((getattr(found, direction) <= k).double().mean())
        for direction in ('t2v', 'v2t')
        for k in PLACES
    }
    values['rsum'] = sum(values.values())
    hundred = 100 * float((found.t2v <= 100).double().mean())
    values['t2v_SumR'] = hundred + sum(values[f't2v_R{k}'] for k in PLACES)
    return values


def hits(found: Ranks) -> dict[str, str]:
    """Which queries find their own at once (``t2v``) and within 5 and 10 (``t2v_R5``), as bits in
    hexadecimal.
    """
    return {
        name if k == 1 else f'{name}_R{k}': np.packbits((ranks <= k).numpy()).tobytes().hex()
        for name, ranks in found._asdict().items()
        for k in PLACES
    }


def bits(text: str, count: Optional[int] = None) -> np.ndarray:
    """What :func:`hits` made of queries, float64, padded with zeros unless counted."""
    return np.unpackbits(np.frombuffer(bytes.fromhex(text), np.uint8), count=count).astype(float)


def by_query(said: Mapping[str, str], key: str, counts: Mapping[str, int]) -> list[np.ndarray]:
    """Values of single queries, float64 [Q] by direction, whose means add up to R@1 or rsum.

    Args:
        said: see :func:`hits`.
        key: 'rsum', 't2v_R1' or 'v2t_R1'.
        counts: queries by direction.

    Returns:
        None at all of older results, which have R@1 alone.
    """
    if not all(f'{name}_R5' in said for name in counts):
        return []
    if key != 'rsum':
        name = key.removesuffix('_R1')
        return [100 * bits(said[name], counts[name])]
    keys = {name: (name, f'{name}_R5', f'{name}_R10') for name in counts}
    return [sum(100 * bits(said[k], counts[name]) for k in keys[name]) for name in counts]


def packed(values: np.ndarray) -> str:
    """Values as float16 in base 64."""
    return base64.b64encode(values.astype('<f2').tobytes()).decode()


def unpacked(text: str) -> np.ndarray:
    """What :func:`packed` made of values, float64."""
    return np.frombuffer(base64.b64decode(text), '<f2').astype(float)


def sure_first(scores: Tensor, implied: Any, sure: float) -> Both:
    """Videos ask for the best text that surely holds first, texts as before.

    Args:
        scores: float [T, V].
        implied: how surely each text of the gallery implies each, [T, T].
        sure: how surely a first text has to hold.
    """
    truth = fn.expected_truth(scores.t(), implied)
    return Both(scores, fn.sure_first(scores.t(), truth, sure=sure).t())


class Bank(NamedTuple):
    """Scores of training texts with a gallery of videos [K, V], of training videos with texts."""

    texts: Tensor
    videos: Tensor


def score_gap(scores: Tensor) -> float:
    """How far a query's best score lies above its mean."""
    return float((scores.amax(1) - scores.mean(1)).mean())


#: Three settings each; temperatures are shares of the score gap of the bank's scores.
SETTINGS: Mapping[str, tuple[dict[str, float], ...]] = dict(
    sinkhorn=tuple(dict(share=x) for x in (0.045, 0.11, 0.22)),
    unbalanced_sinkhorn=tuple(dict(share=x) for x in (0.045, 0.11, 0.22)),
    inverted_softmax=tuple(dict(share=x) for x in (0.045, 0.11, 0.22)),
    qb_norm=tuple(dict(share=x) for x in (0.045, 0.11, 0.22)),
    csls=tuple(dict(neighbours=k) for k in (5, 10, 20)),
    nnn=tuple(dict(alpha=x) for x in (0.5, 0.75, 1.0)),
)


def transformed(name: str, setting: Mapping[str, float], scores: Tensor, bank: Bank) -> Both:
    """Scores [T, V] after a transform with the bank, direction by direction."""
    return Both(
        _one(name, setting, scores, bank.texts), _one(name, setting, scores.t(), bank.videos).t()
    )


def _one(name: str, setting: Mapping[str, float], scores: Tensor, bank: Tensor) -> Tensor:
    options: dict[str, Any] = dict(setting)
    if 'share' in options:
        options['temperature'] = options.pop('share') * score_gap(bank)
    if name in ('csls', 'nnn'):  # tiny sets have fewer neighbours
        options['neighbours'] = min(options.get('neighbours', 16), *bank.shape)
    return TRANSFORMS[name].function(scores, bank, **options)


def best_setting(name: str, scores: Tensor, bank: Bank, positives: Tensor) -> dict[str, float]:
    """The setting of the highest rsum on val."""

    def rsum(setting: Mapping[str, float]) -> float:
        return recalls(ranks(transformed(name, setting, scores, bank), positives))['rsum']

    return max(SETTINGS[name], key=rsum)


def chosen_alone(
    vectors: Callable[[str, str], Tensor], own: Tensor, scores: Tensor, bank: Bank
) -> tuple[Both, dict[str, str]]:
    """What ``transform='auto'`` chooses from the bank alone, each direction for itself.

    Args:
        vectors: (part, side) -> unit vectors, part 'bank' or 'test'.
        own: int64, the bank video of each bank text.
    """
    parts, said = [], {}
    for name, ask, find, given, know in (
        ('t2v', 'text', 'video', scores, bank.texts),
        ('v2t', 'video', 'text', scores.t(), bank.videos),
    ):
        texts, videos = vectors('bank', 'text'), vectors('bank', 'video')
        pairs = (texts, videos[own]) if name == 't2v' else (videos[own], texts)
        found = mmvtr.retrieve(
            vectors('test', ask)[:1], vectors('test', find), k=1, bank=pairs, transform='auto'
        )
        said[name] = found.transform or 'raw'
        if found.transform:
            given = TRANSFORMS[found.transform].function(given, know, **found.options)
        parts.append(given)
    return Both(parts[0], parts[1].t()), said
