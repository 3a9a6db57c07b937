"""The planted world: what a clip can show, and how its facts are drawn.

A clip is a row of moments (one, unless untrimmed).  A moment has one or two objects, each
with a size, a colour, a shape and an action, on a background.  Facts are plain dicts of
strings, so that ``corpus.json`` can be read without this library.
"""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from mmvtr.datasets.planted_corpus.knobs import SPLITS, Knobs

#: What an object is and does: slot -> values.
OBJECT = dict(
    size=('small', 'large'),
    colour=('red', 'orange', 'yellow', 'green', 'cyan', 'blue', 'purple', 'white'),
    shape=('triangle', 'square', 'star', 'cross', 'heart', 'crescent'),
    action=(
        *('left', 'right', 'up', 'down', 'circle', 'bounce'),
        *('spin', 'grow', 'shrink', 'blink'),
    ),
)
BACKGROUNDS = ('stripes', 'checks', 'dots', 'waves', 'sand')

#: Actions that ``length_confound`` ties to long clips; the other half is tied to short ones.
LONG_ACTIONS = ('left', 'up', 'circle', 'spin', 'grow')

FPS = 8
#: Frames of a moment, both ends included.  Moments of untrimmed clips are nearly equally long,
#: so that 8 frames a moment, sampled uniformly from the clip, leave at least 6 to each.
SHORT, LONG, MOMENT = (16, 24), (32, 40), (20, 24)

Facts = dict[str, Any]


def stream(knobs: Knobs, split: str, clip: int, purpose: int) -> np.random.Generator:
    """Return the random generator of one clip for one purpose.

    With streams of its own a clip stays the same when another clip or a knob changes.

    Args:
        knobs: of the corpus.
        split: 'train', 'val' or 'test'.
        clip: index of the clip in its split.
        purpose: 0 facts, 1 captions, 2 pixels, 3 caption counts, 4 experts, 5 how a near-duplicate
            differs.
    """
    return np.random.default_rng((knobs.seed, SPLITS.index(split), clip, purpose))


def one_of(rng: np.random.Generator, options: Sequence[Any]) -> Any:
    """Return one of the options, drawn uniformly."""
    return options[rng.integers(len(options))]


def draw_clip(knobs: Knobs, split: str, clip: int) -> list[Facts]:
    """Draw the facts of one clip.

    Args:
        knobs: of the corpus.
        split: 'train', 'val' or 'test'.
        clip: index of the clip in its split.

    Returns:
        A list of moments: dict(start, end: seconds from the start of the clip; background: str;
        objects: list of dict(size, colour, shape, action)).
    """
    first = clip - clip % knobs.near_duplicates
    rng = stream(knobs, split, first, 0)
    moments, start = [], 0
    for _ in range(knobs.untrimmed):
        scene = _draw_scene(rng)
        frames = _draw_length(rng, knobs, split, scene['objects'][0]['action'])
        span = dict(start=start / FPS, end=(start + frames) / FPS)
        moments.append({**span, **scene})
        start += frames
    if clip != first:
        rng = stream(knobs, split, clip, 5)
        for moment in moments:
            others = [one for one in BACKGROUNDS if one != moment['background']]
            moment['background'] = one_of(rng, others)
    return moments


def num_frames(moments: list[Facts]) -> list[int]:
    """Return the frames of each moment."""
    return [round(FPS * (moment['end'] - moment['start'])) for moment in moments]


def _draw_scene(rng: np.random.Generator) -> Facts:
    objects = [
        {slot: one_of(rng, values) for slot, values in OBJECT.items()}
        for _ in range(rng.integers(1, 3))
    ]
    return dict(background=one_of(rng, BACKGROUNDS), objects=objects)


def _draw_length(rng: np.random.Generator, knobs: Knobs, split: str, action: str) -> int:
    expected = rng.random() < knobs.length_confound
    as_tied = expected != (split == 'test')
    is_long = as_tied == (action in LONG_ACTIONS)
    low, high = MOMENT if knobs.untrimmed > 1 else LONG if is_long else SHORT
    return int(rng.integers(low, high + 1))
