"""Contributions of words, frames and extra tokens to a model's score (UATVR Fig. 4, 5)."""

from __future__ import annotations

from typing import Any, NamedTuple, Sequence

import torch
from torch import nn

from mmvtr.engine.loops.evaluation import to_device
from mmvtr.structures import Levels
from paper_figures.token_strips import Pair, Token

SHOWN = 3  # number of words and of frames that are printed for a pair


class Item(NamedTuple):
    """An encoded text or video, as a batch of one, and the names of its tokens (padding: '')."""

    levels: Levels
    names: list[str]


def refuse_without_matches(model: nn.Module) -> None:
    """Raise ValueError unless scores are made of words and frames."""
    similarity = getattr(model, 'similarity', None)
    if not hasattr(similarity, 'matches'):
        raise ValueError(
            f'the scores of {type(similarity).__name__} are not made of words and frames: the '
            'config needs a TokenSimilarity, as UATVR has'
        )


def pieces_of(pipeline: Sequence[Any], text: dict[str, Any]) -> list[str]:
    """Return the tokens, as strings, that a text pipeline makes of a text.

    Args:
        pipeline: built transforms.
        text: its record, or only ``text`` and ``text_id``.

    Raises:
        ValueError: the pipeline reads stored features, not words.
    """
    named = [step for step in pipeline if hasattr(step, 'pieces')]
    if not named:
        raise ValueError('the config reads texts that are no words: it needs a tokenizer')
    results: dict[str, Any] = dict(text)
    for step in pipeline:
        results = step(results)
    return named[-1].pieces(results['token_ids'].tolist())


def name_tokens(model: nn.Module, levels: Levels, own: Sequence[str], extra: str) -> Item:
    """Name all tokens of an item: its own first; the last valid ones are extra tokens."""
    level = levels[model.similarity.level]
    count = getattr(getattr(model.encoder, extra, None), 'count', 0)
    names = [*own, *[''] * (level.tokens.shape[1] - len(own))]
    # If it was encoded with longer items, there is padding before and behind its extra tokens.
    places = level.mask[0].nonzero().flatten().tolist()
    for number, place in enumerate(places[len(places) - count :], 1):
        names[place] = f'+{number}'
    return Item(levels, names)


@torch.no_grad()
def compare(model: nn.Module, text: str, words: Item, video: Item) -> Pair:
    """Return the share of each token in the score of a text with a video."""
    device = model.data_preprocessor.device
    levels = [to_device(item.levels, device) for item in (words, video)]
    matches = model.similarity.matches(*levels)
    names = dict(words=words.names, frames=video.names)
    masks = [side[model.similarity.level].mask[0].tolist() for side in levels]
    sides = {}
    for (side, own), (other, _), mask in zip(names.items(), reversed(names.items()), masks):
        found = matches.get(side)
        sides[side] = [] if found is None else tokens(own, names[other], found, mask)
    score = sum(token.share for side in sides.values() for token in side)
    return Pair(text, score, **sides)


def tokens(own: Sequence[str], others: Sequence[str], found: Any, mask: Sequence[bool]) -> list:
    """Return the valid tokens of one side, in matches of a single pair."""
    shares, partners = (x[0, 0].tolist() for x in (found.share, found.partner))
    return [
        Token(name, share, others[partner] if partner >= 0 else '')
        for name, share, partner, valid in zip(own, shares, partners, mask)
        if valid
    ]


def describe(pair: Pair) -> str:
    """Return two lines: the score, and the tokens that contribute most."""
    parts = []
    for side in (pair.words, pair.frames):
        best = sorted(side, key=lambda token: -token.share)[:SHOWN]
        parts += [', '.join(f'{t.name} <- {t.partner} {t.share:.4f}' for t in best)]
    return f'  {pair.score:.4f}  {pair.text}\n          ' + ';  '.join(filter(None, parts))
