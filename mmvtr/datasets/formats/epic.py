"""EPIC-KITCHENS-100 multi-instance retrieval (Damen et al., IJCV 2022) from its official csv files.

A narration fits every clip of the same verb and nouns, so pairs are graded by classes. Texts are
rows, known by their narration_id: 7 of the test sentences repeat another one's words.
"""

from __future__ import annotations

import ast
import random
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Iterator, NamedTuple, Optional

import numpy as np
from torch import Tensor

from mmvtr.datasets.annotation_files import read_column, read_table
from mmvtr.datasets.annotation_values import (
    MOST,
    Place,
    caption,
    field,
    identifier,
    number,
    problem,
    seconds,
    shown,
    unique_in,
    wrong,
)
from mmvtr.datasets.folders import file_of
from mmvtr.datasets.formats.published import PublishedDataset, Split
from mmvtr.datasets.records import Records, class_table
from mmvtr.functional.metrics.graded_relevance import class_relevance
from mmvtr.registry import DATASETS

FOLDER = 'retrieval_annotations'
TRAIN, TEST = (f'{FOLDER}/EPIC_100_retrieval_{name}.csv' for name in ('train', 'test'))
TRAIN_SENTENCES, TEST_SENTENCES = (name.replace('.csv', '_sentence.csv') for name in (TRAIN, TEST))
SPLITS = {
    'train': Split(TRAIN, None, 67217, 67217),
    'train_sentences': Split(TRAIN, TRAIN_SENTENCES, 67217, 15989),
    'test': Split(TEST, TEST_SENTENCES, 9668, 3842),
}
COLUMNS = (
    *('narration_id', 'start_timestamp', 'stop_timestamp', 'start_frame', 'stop_frame'),
    *('narration', 'verb', 'verb_class', 'noun_class', 'all_nouns', 'all_noun_classes'),
)


class Clip(NamedTuple):
    """A row of a clip csv; times in seconds, ``frames`` of the original video (50 or 60 fps).

    ``noun_class`` is the first of ``noun_classes``: with the verb's class, the action of a clip.
    """

    name: str
    start: float
    end: float
    frames: int
    narration: str
    verb: str
    nouns: tuple[str, ...]
    verb_class: int
    noun_class: int
    noun_classes: tuple[int, ...]

    @property
    def labels(self) -> dict[str, Any]:
        """Return the record keys that a clip and its narration share."""
        return dict(
            classes=dict(verb=[self.verb_class], noun=list(dict.fromkeys(self.noun_classes))),
            actions=[(self.verb_class, self.noun_class)],
        )

    @property
    def meaning(self) -> tuple[int, frozenset[int]]:
        """Return a key that is equal for clips of relevance 1 to each other."""
        return self.verb_class, frozenset(self.noun_classes)


@DATASETS.register_module()
class EPICKitchensDataset(PublishedDataset):
    """EPIC-KITCHENS-100: clips and the narrations of their actions.

    In training every clip has its own narration: 67,217 pairs, as in the official code and HGR. In
    testing the queries are the 3,842 sentences of the sentence csv; each belongs to all clips of
    relevance 1 (16.28 on average). 'train_sentences' relates the training clips to their 15,989
    sentences in the same way. The id of a video or a text is its narration_id. Records have
    ``classes``, ``actions`` and, a text, ``verb`` and ``nouns`` as the csv of the clips has them at
    its narration_id; a video has ``start``, ``end`` and ``duration`` in seconds and ``num_frames``.

    Args:
        split: 'train', 'train_sentences' or 'test'.
        ann_root: a copy of the repository epic-kitchens-100-annotations.
        video_dir: folder of ``P01/videos/P01_01.MP4`` ..., the untrimmed videos.
        related: with ``epoch_unit='video'``, pair a clip with any text of relevance above this,
            drawn uniformly, instead of one of its own (EgoVLP: .1).  The pair is then a positive of
            the batch, graded by its relevance.  None: its own texts.
        **kwargs: arguments of :class:`PublishedDataset`.

    Raises:
        ValueError: see :class:`PublishedDataset`; a clip that ends before it begins, a malformed
            list; names the row.
    """

    title = 'EPIC-KITCHENS-100'
    splits = SPLITS
    layout = ', '.join(dict.fromkeys(f for s in SPLITS.values() for f in s[:2] if f))
    example = 'P01_01_0'
    root = 'data/epic'
    suffix = '.MP4'

    def __init__(
        self,
        split: str,
        *,
        video_dir: str = 'EPIC-KITCHENS',
        related: Optional[float] = None,
        **kwargs: Any,
    ) -> None:
        if related is not None and not 0 <= related < 1:
            raise ValueError(f'EPICKitchensDataset: related={related} must lie in [0, 1)')
        if related is not None and kwargs.get('epoch_unit') != 'video':
            raise ValueError(f"EPICKitchensDataset: related={related} needs epoch_unit='video'")
        self.related = related
        self._related_texts: dict[Any, np.ndarray] = {}
        super().__init__(split, video_dir=video_dir, **kwargs)

    def load_annotations(self) -> tuple[Records, Records]:
        """Return the split's clips in the csv's order, and its texts."""
        table, sentences = self.splits[self.split][:2]
        clips = read_clips(self.file(table))
        self._files = (table, sentences or table)
        self._refuse_leak(table, [clip.name for clip in clips])
        if sentences is None:
            texts = [_text(clip, clip.narration, [v]) for v, clip in enumerate(clips)]
        else:
            texts = _sentences(self.file(sentences), clips, table)
        self._refuse_empty(clips, texts)
        self._compare_with_published(len(clips), len(texts))
        return [{**self.video_record(clip.name), **_facts(clip)} for clip in clips], texts

    def _choose(self, index: int) -> tuple[int, list[int]]:
        if self.related is None:
            return super()._choose(index)
        v = self.videos_with_text[index]
        return v, [int(random.choice(self._texts_related_to(v)))]

    def _texts_related_to(self, v: int) -> np.ndarray:
        """Return texts of sufficient relevance for a clip, int64 [n]; cached by classes."""
        classes = self.videos[v]['classes']
        key = tuple(frozenset(classes[kind]) for kind in classes)
        if key not in self._related_texts:
            clip = {kind: class_table([self.videos[v]], kind) for kind in classes}
            relevance = class_relevance(self._text_classes, clip)[:, 0]
            self._related_texts[key] = (relevance > self.related).nonzero()[:, 0].numpy()
        return self._related_texts[key]

    @cached_property
    def _text_classes(self) -> dict[str, Tensor]:
        return {kind: class_table(self.texts, kind) for kind in self.texts[0]['classes']}

    def video_record(self, name: str) -> dict[str, Any]:
        """Return a clip's record; its name begins with its video's: P01_01_0 is in P01_01."""
        video = name.rpartition('_')[0]
        folder = f'{self.video_dir}/{video.partition("_")[0]}/videos'
        return dict(video_id=name, path=str(file_of(folder, video, self.video_suffix)))

    def held_out(self) -> Iterator[tuple[str, list[str]]]:
        """Return the clips of the test split."""
        path = self.ann_root / TEST
        if path.is_file():
            yield TEST, read_column(path, 'narration_id')


def read_clips(path: Path) -> list[Clip]:
    """Return the clips of a csv.

    Raises:
        FileNotFoundError: no such file.
        ValueError: a column is missing, or a row is malformed.
    """
    rows = read_table(path, COLUMNS)
    unique_in(rows, 'narration_id', 'clip', _clip_id)
    return [_clip(row, place) for place, row in rows]


def _clip_id(value: str, place: Place) -> str:
    """Return the id of a clip, which must contain its video's id."""
    if not all(identifier(value, place).rpartition('_')[0].partition('_')):
        raise wrong(place, "an id 'PARTICIPANT_VIDEO_NUMBER'", value)
    return value


def _clip(row: dict[str, str], place: Place) -> Clip:
    place = place.at(row['narration_id'])
    start, end = (field(row, f'{edge}_timestamp', _clock, place) for edge in ('start', 'stop'))
    first, last = (field(row, f'{edge}_frame', number, place) for edge in ('start', 'stop'))
    if last <= first or end <= start:
        raise problem(
            place,
            f'the clip ends before it begins: frames {first} to {last}, '
            f'{row["start_timestamp"]} to {row["stop_timestamp"]}',
        )
    return Clip(
        name=row['narration_id'],
        start=start,
        end=end,
        frames=last - first,
        narration=field(row, 'narration', caption, place),
        verb=field(row, 'verb', caption, place),
        nouns=field(row, 'all_nouns', _strings, place),
        verb_class=field(row, 'verb_class', number, place),
        noun_class=field(row, 'noun_class', number, place),
        noun_classes=field(row, 'all_noun_classes', _numbers, place),
    )


def _facts(clip: Clip) -> dict[str, Any]:
    return dict(
        start=clip.start,
        end=clip.end,
        duration=clip.end - clip.start,
        num_frames=clip.frames,
        **clip.labels,
    )


def _sentences(path: Path, clips: list[Clip], table: str) -> Records:
    """Return the texts of a sentence csv; each belongs to all clips of the same meaning."""
    by_name = {clip.name: clip for clip in clips}
    same: dict[tuple[int, frozenset[int]], list[int]] = {}
    for v, clip in enumerate(clips):
        same.setdefault(clip.meaning, []).append(v)
    rows = read_table(path, ('narration_id', 'narration'))
    unique_in(rows, 'narration_id', 'text')
    texts = []
    for place, row in rows:
        clip = by_name.get(row['narration_id'])
        if clip is None:
            raise problem(place, f'{table} has no clip {shown(row["narration_id"])}')
        texts.append(_text(clip, field(row, 'narration', caption, place), list(same[clip.meaning])))
    return texts


def _text(clip: Clip, text: str, video_idx: list[int]) -> dict[str, Any]:
    return dict(
        text_id=clip.name,
        text=text,
        video_idx=video_idx,
        verb=clip.verb,
        nouns=list(clip.nouns),
        **clip.labels,
    )


def _clock(clock: str, place: Place) -> float:
    """Return a time ``HH:MM:SS.ss`` in seconds."""
    parts = clock.split(':')
    if len(parts) != 3:
        raise wrong(place, 'a time HH:MM:SS.ss', clock)
    hours, minutes, rest = (seconds(part, place) for part in parts)
    return seconds(3600 * hours + 60 * minutes + rest, place)


def _strings(text: str, place: Place) -> tuple[str, ...]:
    values = _parse_list(text)
    if not values or not all(type(v) is str and v.isprintable() and v.strip() for v in values):
        raise wrong(place, 'a list of strings, not empty', text)
    return values


def _numbers(text: str, place: Place) -> tuple[int, ...]:
    values = _parse_list(text)
    if not values or not all(type(value) is int and 0 <= value < MOST for value in values):
        raise wrong(place, 'a list of numbers from 0, not empty', text)
    return values


@lru_cache(maxsize=10_000)
def _parse_list(text: str) -> tuple[Any, ...]:
    """Parse a Python list literal without running code; return () if it is not one."""
    try:
        values = ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        return ()
    return tuple(values) if isinstance(values, list) else ()
