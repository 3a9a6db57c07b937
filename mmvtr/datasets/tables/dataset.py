"""Dataset of a user's own table of videos and captions, with a folder of videos or features."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any, Mapping, NoReturn, Optional, Sequence

from mmengine.logging import MMLogger

from mmvtr.cli.hints import option
from mmvtr.datasets.annotation_values import Place, name_of, problem, shown
from mmvtr.datasets.folders import one_spelling, visible
from mmvtr.datasets.problems import NAMED, Problems
from mmvtr.datasets.records import Records
from mmvtr.datasets.tables.division import check_fractions, divide
from mmvtr.datasets.tables.files import Sources, bare, open_sources
from mmvtr.datasets.tables.pairs import (
    Pair,
    check_pairs,
    make_texts,
    make_videos,
    pairs_of,
    repeated,
)
from mmvtr.datasets.tables.rows import read_rows, some
from mmvtr.datasets.tables.seen import Seen, look
from mmvtr.datasets.video_text import Transform, VideoTextDataset
from mmvtr.datasets.videos.missing import LeftOut, read_on_broken
from mmvtr.datasets.videos.video_io import BrokenVideoError
from mmvtr.registry import DATASETS, bare_name

#: Share of the videos in each split, if the table has no column 'split'.
FRACTIONS = dict(train=0.7, val=0.1, test=0.2)
#: Name of the union of all splits.
ALL = 'all'


@DATASETS.register_module()
class TableDataset(VideoTextDataset):
    """Dataset split read from a table: a row is a text of a video.

    Columns: ``video``, the name of a file in ``videos``, with or without suffix, or its path in
    that folder; ``text``; optionally ``start`` and ``end`` (seconds: the video is that part of the
    file), ``text_id``, ``split``, ``duration`` (seconds of the whole file).  Rows of one video are
    its captions.  Rows of one ``text_id`` and one text are one text of several videos; without that
    column each row is a separate text with the id ``VIDEO_ID#N``.

    The id of a video is its path in the folder without suffix; that of a part of a file ends in
    ``_START_END``.  Precomputed features have these names, as written by mmvtr extract_features.

    Without a column ``split`` the videos are divided at random, see
    :mod:`mmvtr.datasets.tables.division`.  A file that is in two splits of the column is an error.

    Args:
        split: a name in the column ``split``, or in ``fractions``; 'all' = the whole table.
        table: a .csv, .tsv (any of ``, ; tab``), .jsonl or .parquet file.
        videos: a folder of videos, or features as ``LoadFeatures`` reads them.
        columns: the table's column names that differ from those above: ``dict(video='filename',
            text='caption')``.
        fractions: share of the videos by split, if the table has no column ``split``.
        seed: seed of that division.
        read_durations: read durations that the table does not state from the files, for results of
            moments; opens each video once.
        **kwargs: arguments of :class:`VideoTextDataset`.

    Further columns are in the attribute ``more``: by video id, a dict for each of its rows.  An
    export to a gallery turns it into metadata.

    All problems of a table raise one error, with the count and first rows of each kind, over all
    splits.  If files are only missing it is a FileNotFoundError, if only broken a BrokenVideoError;
    its attribute ``videos`` has the records of those that exist.

    Raises:
        BrokenVideoError: with ``read_durations`` and ``on_broken='raise'``, files are not videos.
        FileNotFoundError: the table, the folder or videos are missing.
        ImportError: a parquet file without pyarrow.
        ValueError: malformed rows or folder, or a split without any row.
    """

    key_prefix = ''  # configs/_base_/own.py defines shortcuts for all sets

    def __init__(
        self,
        split: str,
        *,
        table: str,
        videos: str,
        columns: Optional[Mapping[str, str]] = None,
        fractions: Mapping[str, float] = FRACTIONS,
        seed: int = 0,
        read_durations: bool = False,
        video_pipeline: Sequence[Transform],
        **kwargs: Any,
    ) -> None:
        check_fractions(fractions)
        self.split = split
        self.table = Path(table)
        self.root = Path(videos)
        self.columns = dict(columns or {})
        self.fractions = dict(fractions)
        self.seed = seed
        self.read_durations = read_durations
        self._pipeline = video_pipeline
        self._drawn: Optional[str] = None
        self.more: dict[str, list[Mapping[str, Any]]] = {}
        super().__init__(video_pipeline, **kwargs)

    def load_annotations(self) -> tuple[Records, Records]:
        """Return the split's videos and texts in the table's order."""
        problems = Problems(name_of(self.table))
        rows, has = read_rows(self.table, self.columns, problems)
        sources = open_sources(self.root)
        self._check_kind(sources)
        pairs = pairs_of(rows, sources, self.root, problems)
        check_pairs(pairs, problems, divided='split' in has and self.split != ALL)
        chosen = pairs
        if not problems:
            chosen = self._of_split(pairs, drawn='split' not in has)
        seen = look(chosen, problems, seconds=self.read_durations)
        if problems or self._refused(seen):
            keys = {pair.key for pair in chosen}
            rest = [pair for pair in pairs if pair.key not in keys]
            seen += look(rest, problems, seconds=self.read_durations)
            self._refuse(problems, seen, sources, repeated(pairs))
        here = [pair for pair in chosen if pair.source is not None]
        if seen.gone:
            self._leave_rows(chosen, seen)
        if not here:
            raise problem(Place(self.table), f'no row of split {shown(self.split)} is left')
        records = make_videos(here, seen.seconds)
        texts = make_texts(here)
        for pair in here:
            self.more.setdefault(pair.source.video_id, []).append(pair.row.more)
        self._log_summary(
            records, texts, sources.others(pair.source for pair in pairs if pair.source)
        )
        if again := repeated(chosen):
            MMLogger.get_current_instance().warning(
                f'{self.origin()}: {len(again)} of {len(chosen)} rows repeat a video and its text, '
                f'and count twice: {"; ".join(again[:NAMED])}{"; ..." if again[NAMED:] else ""}'
            )
        return records, texts

    def origin(self) -> str:
        """Return the split and its table for messages."""
        return f'{type(self).__name__} {self.split} by {name_of(self.table)}'

    def protocol(self) -> dict[str, Any]:
        """Return the base class' protocol and how the split was drawn."""
        return dict(super().protocol(), table=self.table.name, splits=self._drawn)

    def _check_kind(self, sources: Sources) -> None:
        """Raise with a clear message if the pipeline reads another kind of input than exists."""
        first = self._pipeline[0] if self._pipeline else {}
        if not isinstance(first, dict):
            return
        kind = bare_name(first)
        if sources.kind == 'features' and kind in ('LoadVideo', 'LoadClips', 'LoadFrames'):
            raise problem(
                Place(self.root),
                f'holds features, but the video pipeline begins with {kind}: take a '
                'config that begins with LoadFeatures, such as configs/own_clip4clip_features.py',
            )
        if (
            sources.kind == 'clips'
            and kind == 'LoadFeatures'
            and first.get('path') == str(self.root)
        ):
            raise problem(
                Place(self.root),
                'holds videos, but the video pipeline begins with LoadFeatures: make '
                'features with mmvtr extract_features, or take a config that reads videos',
            )

    def _of_split(self, pairs: list[Pair], *, drawn: bool) -> list[Pair]:
        """Return the pairs of the split, as given by its column or drawn."""
        if self.split == ALL:
            return pairs
        if drawn:
            keys = ((pair.key, pair.text_id) for pair in pairs)
            lots = divide(keys, self.fractions, self.seed)
            names = [lots[pair.key] for pair in pairs]
            self._drawn = f'drawn by video, seed {self.seed}'
        else:
            names = [str(pair.row.split) for pair in pairs]
        chosen = [pair for pair, name in zip(pairs, names) if name == self.split]
        if not chosen:
            counts = ', '.join(f'{name} {n} rows' for name, n in Counter(names).most_common(5))
            by = 'drawn at random' if drawn else "by its column 'split'"
            what = f'no row of split {shown(self.split)}; {by} it has {counts[:200]}'
            raise problem(Place(self.table), what)
        return chosen

    def _refused(self, seen: Seen) -> bool:
        """Return whether files are missing or broken that no option leaves out."""
        return bool(self._missing(seen) or (seen.broken and self.on_broken == 'raise'))

    def _missing(self, seen: Seen) -> list[Pair]:
        """Return the missing files that are errors; files in ``on_broken`` lists are not needed."""
        if self.missing != 'raise':
            return []
        listed = {bare(one_spelling(name)) for name in read_on_broken(self.on_broken)}
        return [p for name, p in seen.gone.items() if listed.isdisjoint((name, p.key))]

    def _leave_out(self, listed: dict[str, str]) -> dict[str, str]:
        """Return broken videos, also if listed by file name or in another Unicode spelling."""
        reasons = {one_spelling(name): reason for name, reason in listed.items()}
        named = {}
        for video in self.videos if listed else ():
            file = os.path.relpath(video['path'], self.root) if 'path' in video else ''
            for name in (one_spelling(file), one_spelling(video['video_id'])):
                if name in reasons:
                    named[video['video_id']] = reasons[name]
        return super()._leave_out(named)

    def _refuse(
        self, problems: Problems, seen: Seen, sources: Sources, again: list[str]
    ) -> NoReturn:
        """Raise one error about all problems of the whole table, whatever its splits."""
        only: type[Exception] = ValueError
        remedies = []
        if gone := self._missing(seen):
            only = ValueError if problems else FileNotFoundError
            title = f'{len(gone)} of {seen.videos} videos are not in {name_of(self.root, 90)}'
            hint = (f'{_named(pair)}{sources.hint(pair.wanted)}' for pair in gone[:NAMED])
            problems.add(title, [*hint, *map(_named, gone[NAMED:])])
            remedies.append(f'{option("missing", "skip")} leaves out the rows of missing videos')
        if seen.broken and self.on_broken == 'raise':
            only = ValueError if problems else BrokenVideoError
            problems.add(f'{len(seen.broken)} of {seen.files} files are not videos', seen.broken)
            remedies.append(
                f'{option("on_broken.skip", "broken_videos.txt")} leaves out what is listed there: '
                'check_dataset --decode writes this list'
            )
        if again:  # not an error by itself: two people may say the same
            problems.add(f'{len(again)} rows repeat a video and its text', again)
        error = only(problems.text(remedies))
        error.videos = seen.videos_there()  # for callers that can tell what else is broken
        raise error

    def _leave_rows(self, chosen: list[Pair], seen: Seen) -> None:
        """Record the missing videos and their texts as left out."""
        names = [pair.wanted.name + pair.wanted.span for pair in seen.gone.values()]
        texts = {pair.text_id for pair in chosen}
        lost = texts - {pair.text_id for pair in chosen if pair.source is not None}
        self.left_out = LeftOut(tuple(names), len(lost), seen.videos, len(texts))

    def _log_summary(self, videos: list[dict], texts: list[dict], unnamed: list[str]) -> None:
        counts = Counter(v for text in texts for v in text['video_idx'])
        pairs = sum(counts.values())
        low, high = min(counts.values()), max(counts.values())
        captions = f'{low}' if low == high else f'{low} to {high}'
        summary = (
            f'{name_of(self.table)}, {self.split}: {len(videos)} videos, {len(texts)} texts, '
            f'{pairs} pairs, captions a video {captions}'
        )
        summary += f'; splits {self._drawn}' if self._drawn else ''
        if unnamed:
            summary += (
                f'; {len(unnamed)} files of {name_of(self.root)} that no row names: {some(unnamed)}'
            )
        MMLogger.get_current_instance().info(f'{summary}.')


def _named(pair: Pair) -> str:
    """Return the name and first row of a missing video."""
    return f'{visible(pair.wanted.name + pair.wanted.span)} in {pair.row.place.inside}'
