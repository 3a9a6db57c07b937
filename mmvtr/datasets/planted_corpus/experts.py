"""Experts of a planted corpus: features that each carry a part of what a clip shows.

A folder holds a store for each expert, ``EXPERT/VIDEO_ID.npy``, one of the words of all captions,
``words/TEXT_ID.npy``, and ``experts.json``, which records the options.  Features are computed from
the facts, not from the pixels, and are the same on every machine.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from mmvtr.datasets.annotation_files import read_json
from mmvtr.datasets.planted_corpus.grammar import EXACT, vocabulary
from mmvtr.datasets.planted_corpus.store import drafted, draw_split
from mmvtr.datasets.planted_corpus.world import (
    BACKGROUNDS,
    OBJECT,
    SPLITS,
    Facts,
    Knobs,
    draw_clip,
    num_frames,
    one_of,
    stream,
)
from mmvtr.errors import UserError

#: Increase it whenever the same knobs would give other features.
EXPERTS_VERSION = 1

#: Width of each expert's rows, and of a word.
WIDTHS = dict(audio=32, object=64, scene=32, speech=64)
WORD_WIDTH = WIDTHS['speech']

#: Frames per row of the audio expert: half a second.
HEARD = 4
#: Maximum noise, at which the signal of a row is drowned.
MOST_NOISE = 100

#: Minimum and maximum rows of speech, and the share of spoken words that are fillers.
SPOKEN, IDLE = (3, 6), 0.3


@dataclass(frozen=True)
class Experts:
    """Options of the planted experts.

    Attributes:
        path: folder of the stores, which belong to one corpus and one set of options.
        lacking: share of the clips that lack an expert, by its name; drawn independently for each
            expert. A clip that would lack all of them keeps its scene.
        noise: length of the noise on a row, relative to a signal of length 1.

    Raises:
        ValueError: if one is out of its range; the message names it.
    """

    path: str
    lacking: Mapping[str, float] = field(
        default_factory=lambda: dict(object=0.1, audio=0.3, speech=0.5)
    )
    noise: float = 0.5

    def __post_init__(self) -> None:
        if not isinstance(self.path, str) or not self.path:
            raise ValueError(f'planted experts: path must be a folder, got {str(self.path)[:80]!r}')
        unknown = sorted(set(self.lacking) - set(WIDTHS))
        if unknown:
            raise ValueError(
                f'planted experts: lacking names {unknown[:5]}, expected some of {list(WIDTHS)}'
            )
        ranges = {f'lacking of {name}': (share, 1) for name, share in self.lacking.items()}
        for name, (value, most) in {**ranges, 'noise': (self.noise, MOST_NOISE)}.items():
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if not number or not 0 <= value <= most:
                raise ValueError(
                    f'planted experts: {name} must lie in [0, {most}], got {str(value)[:80]!r}'
                )

    def made_of(self, knobs: Knobs) -> dict[str, Any]:
        """Return all that determines the experts' numbers."""
        choice = dict(lacking=dict(sorted(self.lacking.items())), noise=self.noise)
        return dict(version=EXPERTS_VERSION, knobs=knobs.identity, **choice)


def make_experts(experts: Experts, knobs: Knobs) -> None:
    """Create the stores in a temporary folder, then rename it; do nothing if they exist."""
    folder = Path(experts.path)
    if folder.exists():
        return
    with drafted(folder) as draft:
        for name in (*WIDTHS, 'words'):
            (draft / name).mkdir()
        for split in SPLITS:
            videos, texts = draw_split(knobs, split)
            for v, video in enumerate(videos):
                for name, rows in rows_of_clip(experts, knobs, split, v).items():
                    np.save(draft / name / f'{video["video_id"]}.npy', rows)
            for text in texts:
                np.save(draft / 'words' / f'{text["text_id"]}.npy', rows_of_words(text['text']))
        (draft / 'experts.json').write_text(json.dumps(experts.made_of(knobs)))


def check_experts(experts: Experts, knobs: Knobs) -> None:
    """Raise unless the stores belong to this corpus and these options.

    Raises:
        RuntimeError: they do not, or the folder is something else.
    """
    path = Path(experts.path) / 'experts.json'
    try:
        card = read_json(path, ())
    except (OSError, ValueError):
        card = None
    if card != experts.made_of(knobs):
        what = 'is missing or not json' if card is None else 'is of other knobs or another version'
        raise UserError(
            f'{str(path)[-200:]} {what}: choose another path for these experts, or delete the '
            'folder and they are made again'
        )


def rows_of_clip(experts: Experts, knobs: Knobs, split: str, clip: int) -> dict[str, np.ndarray]:
    """Return each expert's features of a clip, float32 [F, width]; F = 1 for scene and object."""
    moments = draw_clip(knobs, split, clip)
    rng = stream(knobs, split, clip, 4)
    lacks = {name: rng.random() < experts.lacking.get(name, 0) for name in WIDTHS}
    if all(lacks.values()):
        lacks['scene'] = False
    signal = dict(
        audio=_audio(moments),
        object=_object(moments)[None],
        scene=_scene(moments)[None],
        speech=_speech(moments, rng),
    )
    spread = {name: experts.noise / math.sqrt(width) for name, width in WIDTHS.items()}
    noisy = {name: x + spread[name] * rng.standard_normal(x.shape) for name, x in signal.items()}
    return {name: x.astype(np.float32) for name, x in noisy.items() if not lacks[name]}


def rows_of_words(text: str) -> np.ndarray:
    """Return the word vectors of a caption, float32 [L, WORD_WIDTH]."""
    return np.stack([_words()[word] for word in text.split()]).astype(np.float32)


def _scene(moments: list[Facts]) -> np.ndarray:
    """Return the unordered backgrounds, [D]."""
    codes = _codes('background', len(BACKGROUNDS), WIDTHS['scene'])
    return np.mean([codes[BACKGROUNDS.index(m['background'])] for m in moments], axis=0)


def _object(moments: list[Facts]) -> np.ndarray:
    """Return the objects' looks, [D]: combined, and by colour, shape and size."""
    width = WIDTHS['object']
    seen = []
    for moment in moments:
        for thing in moment['objects']:
            size, colour, shape = (
                OBJECT[slot].index(thing[slot]) for slot in ('size', 'colour', 'shape')
            )
            whole = len(OBJECT['shape']) * colour + shape
            parts = dict(size=size, colour=colour, shape=shape, whole=whole)
            counts = {slot: len(OBJECT[slot]) for slot in ('size', 'colour', 'shape')}
            counts['whole'] = counts['colour'] * counts['shape']
            seen.append(
                sum(_codes(slot, counts[slot], width)[value] for slot, value in parts.items()) / 2
            )
    return np.mean(seen, axis=0)


def _audio(moments: list[Facts]) -> np.ndarray:
    """Return the objects' actions in turn, [F, D], a row every half second."""
    codes = _codes('action', len(OBJECT['action']), WIDTHS['audio'])
    rows = []
    for moment, frames in zip(moments, num_frames(moments)):
        things = moment['objects']
        for k in range(max(len(things), frames // HEARD)):
            rows.append(codes[OBJECT['action'].index(things[k % len(things)]['action'])])
    return np.array(rows)


def _speech(moments: list[Facts], rng: np.random.Generator) -> np.ndarray:
    """Return the speech of an observer of the clip, word vectors [F, D] with fillers."""
    words = []
    for _ in range(rng.integers(SPOKEN[0], SPOKEN[1] + 1)):
        thing = one_of(rng, one_of(rng, moments)['objects'])
        slot = one_of(rng, list(OBJECT))
        phrase = one_of(rng, EXACT[slot][thing[slot]])
        idle = rng.random() < IDLE
        words.append(one_of(rng, ('something', 'thing')) if idle else one_of(rng, phrase.split()))
    return np.array([_words()[word] for word in words])


@cache
def _words() -> dict[str, np.ndarray]:
    """Return the vector of each word of the grammar."""
    words = vocabulary()
    return dict(zip(words, _codes('word', len(words), WORD_WIDTH)))


@cache
def _codes(kind: str, count: int, width: int) -> np.ndarray:
    """Return unit vectors for a kind's values, float64 [count, width]; equal in every corpus."""
    codes = np.random.default_rng(list(kind.encode())).standard_normal((count, width))
    return codes / np.linalg.norm(codes, axis=1, keepdims=True)
