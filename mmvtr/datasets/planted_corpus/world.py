"""The planted world: what a clip can show, and how its facts are drawn.

A clip is a sequence of moments (one, unless untrimmed).  A moment has one or two objects, each with
a size, a colour, a shape and an action, on a background.  Facts are plain dicts of strings, so that
``corpus.json`` can be read without this library.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, fields
from typing import Any, Sequence

import numpy as np

from mmvtr.functional.values import check_range

#: Attributes of an object: slot -> values.
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
#: Frames of a moment, both ends included.  Moments of untrimmed clips have nearly equal lengths, so
#: that 8 frames per moment, sampled uniformly from the clip, leave at least 6 to each.
SHORT, LONG, MOMENT = (16, 24), (32, 40), (20, 24)

Facts = dict[str, Any]


def stream(knobs: Knobs, split: str, clip: int, purpose: int) -> np.random.Generator:
    """Return the random generator of one clip for one purpose.

    Separate streams keep a clip unchanged when another clip or a knob changes.

    Args:
        knobs: knobs of the corpus.
        split: 'train', 'val' or 'test'.
        clip: index of the clip in its split.
        purpose: 0 facts, 1 captions, 2 pixels, 3 caption counts, 4 experts, 5 differences of a
            near-duplicate.
    """
    return np.random.default_rng((knobs.seed, SPLITS.index(split), clip, purpose))


def one_of(rng: np.random.Generator, options: Sequence[Any]) -> Any:
    """Return one of the options, drawn uniformly."""
    return options[rng.integers(len(options))]


def draw_clip(knobs: Knobs, split: str, clip: int) -> list[Facts]:
    """Draw the facts of one clip.

    Args:
        knobs: knobs of the corpus.
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
            others = [name for name in BACKGROUNDS if name != moment['background']]
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


SPLITS = ('train', 'val', 'test')

#: Increase it whenever the same knobs would give other clips, captions or files.
GENERATOR_VERSION = 1

#: Later knobs.  At their defaults they are omitted from the identity, so that older corpora keep
#: their content and folder.
LATER = ('uneven', 'near_duplicates', 'medium')


@dataclass(frozen=True)
class Knobs:
    """Parameters of a planted corpus.

    Attributes:
        seed: corpora of different seeds are independent draws from the same world.
        num_train: training clips.
        num_val: validation clips.
        num_test: test clips.
        captions: captions per training clip (their mean, with ``imbalance``).
        test_captions: captions per validation and test clip.
        general: share of general captions, the source of soft positives; the rest is half
            specific, half medium.
        imbalance: 0 gives all training clips equally many captions; otherwise each has one, and the
            rest of the same total is distributed in proportion to rank ** -imbalance over a random
            ranking of the clips (0.5: the first of 1200 has about 18, 1: about 160).
        length_confound: probability that a training or validation clip whose first object
            acts as in ``world.LONG_ACTIONS`` is long, and that one with another action is
            short; on the test split it is the probability of the opposite.  0.5: no link.
        untrimmed: consecutive moments per clip, each described by its own captions.
        uneven: a validation or test clip has ``test_captions`` * (1 - uneven) to ``test_captions``
            * (1 + uneven) captions, drawn uniformly; at least one.
        near_duplicates: clips per scene: 1: each clip has its own scene; k: k consecutive clips
            share one scene, like several uploads of one event.  They show the same objects and
            actions, drawn anew, and differ in the background, which specific captions mention.
        medium: share of medium captions among those that are not general.  The fewer medium
            captions, the fewer unannotated pairs are true.

    Raises:
        ValueError: if a knob is out of its range; the message names the knob.
    """

    seed: int = 0
    num_train: int = 1200
    num_val: int = 150
    num_test: int = 400
    captions: int = 2
    test_captions: int = 1
    general: float = 0.3
    imbalance: float = 0.0
    length_confound: float = 0.5
    untrimmed: int = 1
    uneven: float = 0.0
    near_duplicates: int = 1
    medium: float = 0.5

    def __post_init__(self) -> None:
        least = dict.fromkeys(
            ('num_train', 'num_val', 'num_test', 'captions', 'test_captions', 'untrimmed'), 1
        )
        least.update(seed=0, near_duplicates=1)
        for name, low in least.items():
            value = getattr(self, name)
            if not isinstance(value, int) or value < low:
                raise ValueError(f'planted corpus: {name} must be an int >= {low}, got {value!r}')
        highest = dict(general=1, medium=1, length_confound=1, uneven=1, imbalance=float('inf'))
        for name, high in highest.items():
            value = getattr(self, name)
            check_range(f'[0, {high}]', **{name: value})
            object.__setattr__(self, name, float(value))  # 1 and 1.0 give the same corpus
        if self.imbalance > 0 and self.captions < 2:
            raise ValueError(
                'planted corpus: imbalance needs captions >= 2, since each clip has one'
            )
        if self.untrimmed > 1 and self.length_confound != 0.5:
            raise ValueError(
                'planted corpus: length_confound needs trimmed clips (untrimmed=1), since all '
                f'moments of an untrimmed clip are about equally long; got {self.length_confound}'
            )

    def num_clips(self, split: str) -> int:
        """Return the number of clips of ``split``."""
        return getattr(self, f'num_{split}')

    @property
    def identity(self) -> dict[str, Any]:
        """The knobs that identify a corpus, as its files store them."""
        untold = {f.name for f in fields(self) if getattr(self, f.name) == f.default} & {*LATER}
        return {name: value for name, value in asdict(self).items() if name not in untold}

    @property
    def key(self) -> str:
        """Folder name: two readable knobs, and a hash of all knobs and the version."""
        content = json.dumps([GENERATOR_VERSION, self.identity], sort_keys=True)
        digest = hashlib.sha256(content.encode()).hexdigest()[:8]
        return f'seed{self.seed}_general{round(100 * self.general)}_{digest}'
