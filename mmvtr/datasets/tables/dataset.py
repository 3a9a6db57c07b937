"""Videos and captions of one's own: a table beside a folder of videos, or of their features."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, Mapping, Optional, Sequence

from mmengine.logging import MMLogger

from mmvtr.datasets.annotation_values import Place, cut, name_of, problem, shown
from mmvtr.datasets.tables.division import check_fractions, divide
from mmvtr.datasets.tables.files import Sources, Wanted, file_key, open_sources
from mmvtr.datasets.tables.records import (
    Pair,
    check_division,
    make_texts,
    make_videos,
    span_of,
    told_durations,
    with_text_ids,
)
from mmvtr.datasets.tables.rows import read_rows, some
from mmvtr.datasets.video_text import Transform, VideoTextDataset
from mmvtr.datasets.videos.durations import duration_of
from mmvtr.datasets.videos.missing import SKIP_ADVICE, LeftOut
from mmvtr.datasets.videos.video_io import BrokenVideoError
from mmvtr.registry import DATASETS, bare_name

#: Share of the videos of each split, where the table has no column 'split'.
FRACTIONS = dict(train=0.7, val=0.1, test=0.2)
#: The name of all splits together.
ALL = 'all'


@DATASETS.register_module()
class TableDataset(VideoTextDataset):
    """One split of the videos and texts that a table tells of: a row, a text of a video.

    Columns: ``video``, a file of ``videos`` by its name with or without suffix, or by its path in
    that folder; ``text``; optionally ``start`` and ``end`` (seconds: the video is that part of the
    file), ``text_id``, ``split``, ``duration`` (seconds of the whole file).  Rows of one video are
    its captions.  Rows of one ``text_id`` and one text are one text of several videos; without that
    column each row is a text of its own, with the id ``VIDEO_ID#N``.

    The id of a video is its path in the folder without suffix; that of a part of a file ends in
    ``_START_END``.  Precomputed features have these names, as tools/extract_features.py gives them.

    Without a column ``split`` the videos are divided at random, see
    :mod:`mmvtr.datasets.tables.division`.  A file that is in two splits of the column is an error.

    Args:
        split: a name in the column ``split``, or in ``fractions``; 'all' = the whole table.
        table: a .csv, .tsv (any of ``, ; tab``), .jsonl or .parquet file.
        videos: a folder of videos, or features as ``LoadFeatures`` reads them.
        columns: what the table calls its columns, where it is not as above:
            ``dict(video='filename', text='caption')``.
        fractions: of the videos by split, where the table has no column ``split``.
        seed: which videos these are.
        read_durations: read the seconds of files that the table does not tell, for results of
            moments; opens each video once.
        **kwargs: of :class:`VideoTextDataset`.

    Raises:
        BrokenVideoError: ``read_durations``, and a file is no video and ``on_broken='raise'``.
        FileNotFoundError: the table, the folder or videos are missing.
        ImportError: a parquet file without pyarrow.
        ValueError: a row or a folder that is not as above, or a split without any row.
    """

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
        super().__init__(video_pipeline, **kwargs)

    def load_annotations(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Videos and texts of the split in the table's order."""
        rows, has = read_rows(self.table, self.columns)
        sources = open_sources(self.root)
        self._check_kind(sources)
        wanted = [Wanted(row.video, span_of(row)) for row in rows]
        found = sources.find({one: row.place for one, row in zip(wanted, rows)})
        pairs = with_text_ids(
            [
                Pair(row, one, found.get(one), file_key(row.video, self.root, row.place))
                for row, one in zip(rows, wanted)
            ]
        )
        chosen = self._of_split(pairs, drawn='split' not in has)
        gone = [pair for pair in chosen if pair.source is None]
        if gone:
            self._leave_rows(gone, chosen, sources)
        here = [pair for pair in chosen if pair.source is not None]
        if not here:
            raise problem(Place(self.table), f'of split {shown(self.split)} no row is left')
        records = make_videos(here, self._seconds(here))
        texts = make_texts(here)
        self._say(records, texts, sources.others(found.values()))
        return records, texts

    def origin(self) -> str:
        """The split and its table."""
        return f'{type(self).__name__} {self.split} by {name_of(self.table)}'

    def protocol(self) -> dict[str, Any]:
        """As of the base, with how the split was drawn."""
        return dict(super().protocol(), table=self.table.name, splits=self._drawn)

    def _check_kind(self, sources: Sources) -> None:
        """Say it in words where the pipeline reads another kind than there is."""
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
                'features with tools/extract_features.py, or take a config that reads videos',
            )

    def _of_split(self, pairs: list[Pair], *, drawn: bool) -> list[Pair]:
        """The pairs of the split, by the column or by lot."""
        if self.split == ALL:
            return pairs
        if drawn:
            told = ((pair.key, pair.row.text_id) for pair in pairs)
            lots = divide(told, self.fractions, self.seed)
            names = [lots[pair.key] for pair in pairs]
            self._drawn = f'drawn by video, seed {self.seed}'
        else:
            names = [str(pair.row.split) for pair in pairs]
            check_division(pairs)
        chosen = [pair for pair, name in zip(pairs, names) if name == self.split]
        if not chosen:
            counts = ', '.join(f'{name} {n} rows' for name, n in Counter(names).most_common(5))
            by = 'drawn at random' if drawn else "by its column 'split'"
            what = f'no row of split {shown(self.split)}; {by} it has {counts[:200]}'
            raise problem(Place(self.table), what)
        return chosen

    def _leave_rows(self, gone: list[Pair], chosen: list[Pair], sources: Sources) -> None:
        """Refuse the rows of files that are missing, or let the base say what is left out."""
        videos = {pair.name: pair.wanted for pair in reversed(gone)}
        names = [one.name + one.span for one in reversed(videos.values())]
        total = len({(pair.name, pair.source is None) for pair in chosen})
        if self.missing == 'raise':
            begin = f'{name_of(self.table, 90)}, split {shown(self.split, 40)}'
            raise FileNotFoundError(
                f'{begin}: {len(videos)} of {total} videos are not in {name_of(self.root, 90)}: '
                f'{some(names)} (first in {gone[0].row.place.inside}){sources.hint(gone[0].wanted)}'
                f'; {SKIP_ADVICE}'
            )
        texts = {pair.row.text_id for pair in chosen}
        lost = texts - {pair.row.text_id for pair in chosen if pair.source is not None}
        self.left_out = LeftOut(tuple(names), len(lost), total, len(texts))

    def _seconds(self, pairs: list[Pair]) -> dict[str, float]:
        """Seconds of whole files, by the table or else by the files."""
        seconds = told_durations(pairs)
        if not self.read_durations:
            return seconds
        paths = {pair.source.file: pair.source.path for pair in pairs if pair.source.path}
        broken = []
        for file in [file for file in paths if file not in seconds]:
            try:
                seconds[file] = duration_of(paths[file])
            except BrokenVideoError as error:
                broken.append(str(error))
        if broken and self.on_broken == 'raise':  # else they are left out and counted when read
            first = '; '.join(cut(one, 120) for one in broken[:2])
            raise BrokenVideoError(
                f'{len(broken)} of {len(paths)} files are no videos: {first}'
                f"{', ...' if broken[2:] else ''}; on_broken='skip' leaves them out"
            )
        return seconds

    def _say(self, videos: list[dict], texts: list[dict], unnamed: list[str]) -> None:
        counts = Counter(v for text in texts for v in text['video_idx'])
        pairs = sum(counts.values())
        low, high = min(counts.values()), max(counts.values())
        captions = f'{low}' if low == high else f'{low} to {high}'
        said = (
            f'{self.table}, {self.split}: {len(videos)} videos, {len(texts)} texts, {pairs} pairs, '
            f'captions a video {captions}'
        )
        said += f'; splits {self._drawn}' if self._drawn else ''
        if unnamed:
            said += f'; {len(unnamed)} files of {self.root} that no row names: {some(unnamed)}'
        MMLogger.get_current_instance().info(f'{said}.')
