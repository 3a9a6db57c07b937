"""Records of videos and their captions as a dataset makes them, and words as the witnesses do."""

from __future__ import annotations

import re
from typing import Any, Sequence

#: Clips with captions: of several, of one, of none; with words that stand in other clips.
CLIPS = [
    ['A red star hops.', 'something bounces', 'the crimson star'],
    ['the blue box falls', 'a box drops'],
    ['a red star bounces', 'the star hops, hops'],
    ["it's a blue box"],
    [],
    ['the crimson box drops', 'a red box falls'],
]


def records(
    clips: Sequence[Sequence[str]] = CLIPS,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Videos and texts."""
    videos = [dict(video_id=f'v{v}') for v in range(len(clips))]
    texts = [
        dict(text_id=f'{v}#{n}', text=caption, video_idx=[v])
        for v, captions in enumerate(clips)
        for n, caption in enumerate(captions)
    ]
    return videos, texts


def words_of(caption: str) -> list[str]:
    """The different words, sorted."""
    return sorted(set(re.findall(r"[a-z']+", caption.lower())))
