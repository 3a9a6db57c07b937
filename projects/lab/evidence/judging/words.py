"""Scores of captions for items that are known by their other captions: text only, no pixel."""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import Any, Callable, Mapping, Optional, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from mmvtr.datasets import CaptionAgreement

WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")

#: Name of a group -> its items, each a list of captions; what the vectors are learnt from has the
#: name 'learn'.
Groups = Mapping[str, Sequence[Sequence[str]]]


def tfidf(groups: Groups) -> dict[str, Tensor]:
    """Unit vectors: counts of an item's words times ``log((1 + N) / (1 + n)) + 1``.

    N captions of 'learn', of which n have the word; words that none has are left out.  An item of
    several captions is as their concatenation.

    Returns:
        float32 [items, words] of each group but 'learn'.
    """
    captions = [caption for item in groups['learn'] for caption in item]
    counts = Counter(word for caption in captions for word in {*words(caption)})
    place = {word: n for n, word in enumerate(counts)}
    idf = torch.tensor([math.log((1 + len(captions)) / (1 + n)) + 1 for n in counts.values()])
    found = {}
    for name, items in groups.items():
        if name == 'learn':
            continue
        bags = torch.zeros(len(items), len(place))
        for row, item in zip(bags, items):
            for word, times in Counter(w for c in item for w in words(c)).items():
                if word in place:
                    row[place[word]] = times
        found[name] = F.normalize(bags * idf, dim=1)
    return found


def agreement(groups: Groups) -> dict[str, Tensor]:
    """Vectors of :class:`~mmvtr.datasets.CaptionAgreement` (dim 512), learnt from 'learn'.

    Those of items and of captions that ask differ: a product is one of each.  So groups whose name
    begins with 'text' ask, and the others are asked.

    Returns:
        float32 [items, 512] of each group but 'learn'.
    """
    videos: list[dict[str, Any]] = []
    texts: list[dict[str, Any]] = []
    for name, items in groups.items():
        for item in items:
            for n, caption in enumerate(item):
                # outside 'learn' each caption is alone with a video, and so teaches no word
                if n == 0 or name != 'learn':
                    videos.append({})
                texts.append(dict(text=caption, video_idx=[len(videos) - 1]))
    CaptionAgreement(dim=512)(videos, texts)
    found, captions = {}, iter(texts)
    for name, items in groups.items():
        own = [[next(captions) for _ in item] for item in items]
        if name != 'learn':
            asks = name.startswith('text')
            found[name] = torch.stack([_mean(item, None if asks else videos) for item in own])
    return found


def _mean(captions: Sequence[dict], videos: Optional[Sequence[dict]]) -> Tensor:
    """Of the vectors of captions, or of the videos that they are alone with."""
    records = captions if videos is None else [videos[c['video_idx'][0]] for c in captions]
    return torch.stack([torch.as_tensor(record['agreement']) for record in records]).mean(0)


def words(caption: str) -> list[str]:
    return WORD.findall(caption.lower())


#: How captions are scored.
KINDS: Mapping[str, Callable[[Groups], dict[str, Tensor]]] = dict(tfidf=tfidf, agreement=agreement)
