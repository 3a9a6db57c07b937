"""LSMDC (Rohrbach et al., IJCV 2017): movie clips, each described by a sentence.

The annotation files have no header and no quoting, and have irregularities that published loaders
treat differently.  Here each irregular row is recorded with its reason: :class:`Irregular`.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any, Iterator, NamedTuple, Optional, Sequence, Union

from mmengine.logging import MMLogger

from mmvtr.datasets.annotation_files import read_ids, read_text
from mmvtr.datasets.annotation_values import (
    Place,
    caption,
    identifier,
    name_of,
    problem,
    shown,
    unique,
    wrong,
)
from mmvtr.datasets.folders import file_of
from mmvtr.datasets.formats.published import Annotations, Captions, PublishedDataset, Split
from mmvtr.datasets.videos.missing import LeftOut
from mmvtr.registry import DATASETS

#: Splits by name; sizes are rows: no paper prints how many ids repeat, so there may be fewer clips.
SPLITS = {
    'train': Split('LSMDC16_annos_training.csv', None, 101079, 101079),
    'val': Split('LSMDC16_annos_val.csv', None, 7408, 7408),
    'test': Split('LSMDC16_challenge_1000_publictect.csv', None, 1000, 1000),
}
#: Suffix that later releases add to the names of the files.
LATER = '_someone'

#: Fields of a row: id, four times (start and end of sentence and clip), sentence.
FIELDS = 6
#: Video suffixes that are stripped from ids; ids contain dots, so no others are recognised.
VIDEO_SUFFIXES = ('.avi', '.mp4', '.mkv', '.mov', '.webm')

#: Reasons why a row is irregular; rows with one of the last two are dropped.
QUOTED = 'a stray double quote in front, removed'
BLANKS = 'blanks around the id, removed'
SUFFIX = 'a suffix behind the id, removed'
AGAIN = 'one more sentence of a clip, kept'
SILENT = 'no sentence, dropped'
SKIPPED = 'of a clip in the skip list, left out'

_TIME = re.compile(r'[0-9]+([.:][0-9]+)+')


class Irregular(NamedTuple):
    """A row with one kind of irregularity and how it was handled; a row may have several.

    Attributes:
        file: the name of the annotation file.
        line: number in the file, from 1.
        clip: the clip's id after clean-up.
        reason: one of this module's constants.
    """

    file: str
    line: int
    clip: str
    reason: str


class _Row(NamedTuple):
    """A row of an annotation file; ``sentence`` is None if it has none."""

    line: int
    clip: str
    sentence: Optional[str]


@DATASETS.register_module()
class LSMDCDataset(PublishedDataset):
    """LSMDC, tested on the 1,000 clips of its retrieval challenge.

    The TAB-separated files are those with ``_someone`` in their names if there are no others.
    Sentences of one id are texts of one video; sentence n of a clip has the id ``CLIP#n``.  A
    clip's file is
    ``MOVIE/CLIP.avi``, where MOVIE is the id up to its last underscore.  Times are not read: a clip
    is a file of its own.

    Args:
        split: 'train', 'val' (all 7,408) or 'test' (the 1,000).
        skip: clips to leave out, e.g. because they do not decode: their ids, or a file with one id
            per line.  Ids of other splits are ignored.  A result states what is left out, as with
            ``missing='skip'``.
        **kwargs: arguments of :class:`PublishedDataset`.

    Attributes:
        irregular: all irregular rows of the split's file, in its order.
        counts: numbers for the split's file: ``rows`` (non-empty lines), one count for each reason
            of :class:`Irregular` that occurs, and the remaining ``clips`` and ``texts``.

    Raises:
        FileNotFoundError: see :class:`PublishedDataset`; no such skip list.
        ValueError: see :class:`PublishedDataset`; a row with other fields, an id without
            underscore, a malformed skip list.
    """

    title = 'LSMDC'
    splits = SPLITS
    layout = f'{", ".join(split.table for split in SPLITS.values())}, or the same with {LATER}.csv'
    example = '1006_Slumdog_Millionaire_01.25.49.077-01.25.54.718'
    root = 'data/lsmdc'
    suffix = '.avi'

    def __init__(
        self,
        split: str,
        *,
        skip: Union[str, Path, Sequence[str]] = (),
        **kwargs: Any,
    ) -> None:
        self._skip = _read_skip(skip)
        self.irregular: tuple[Irregular, ...] = ()
        self.counts: dict[str, int] = {}
        super().__init__(split, **kwargs)

    def read_split(self) -> Annotations:
        """Return the clips in the order of their first sentence."""
        path = self._present(self.split) or self.file(self.splits[self.split].table)
        rows, irregular = _read_rows(path)
        captions: Captions = {}
        for row in rows:
            if row.sentence is not None:
                texts = captions.setdefault(row.clip, [])
                texts.append((f'{row.clip}#{len(texts)}', row.sentence))
                if len(texts) > 1:
                    irregular.append(Irregular(path.name, row.line, row.clip, AGAIN))
                if row.clip in self._skip:
                    irregular.append(Irregular(path.name, row.line, row.clip, SKIPPED))
        kept = {clip: texts for clip, texts in captions.items() if clip not in self._skip}
        self._keep_account(path, len(rows), irregular, captions, kept)
        return Annotations(path.name, list(kept), kept, [path.name])

    def held_out(self) -> Iterator[tuple[str, list[str]]]:
        """Return the clips of the val and test files that exist."""
        for split in ('val', 'test'):
            path = self._present(split)
            if path is not None:
                yield path.name, [row.clip for row in _read_rows(path)[0]]

    def video_record(self, name: str) -> dict[str, Any]:
        """Return the record of a clip's file in the folder of its movie."""
        movie = name.rpartition('_')[0]
        return dict(
            video_id=name, path=str(file_of(self.video_dir, f'{movie}/{name}', self.video_suffix))
        )

    def _present(self, split: str) -> Optional[Path]:
        """Return a split's file under either name; None if there is none."""
        plain = self.ann_root / self.splits[split].table
        later = plain.with_name(f'{plain.stem}{LATER}.csv')
        return next((path for path in (plain, later) if path.is_file()), None)

    def _keep_account(
        self,
        path: Path,
        rows: int,
        irregular: list[Irregular],
        captions: Captions,
        kept: Captions,
    ) -> None:
        """Log and store the irregularities."""
        self.irregular = tuple(sorted(irregular, key=lambda row: row.line))
        reasons = Counter(row.reason for row in self.irregular)
        texts = sum(map(len, kept.values()))
        self.counts = dict(rows=rows, **reasons, clips=len(kept), texts=texts)
        remarks = [
            f'{count:,} x {reason} ({self._lines(reason)})' for reason, count in reasons.items()
        ]
        log = MMLogger.get_current_instance()
        log.info(
            f'{self.title} {self.split}: {path.name} has {rows:,} rows; '
            f'{"; ".join([*remarks, ""])}{len(kept):,} clips and {texts:,} texts are left.'
        )
        skipped = [clip for clip in captions if clip in self._skip]
        if skipped:
            whole = sum(map(len, captions.values()))
            self.left_out = LeftOut(tuple(skipped), whole - texts, len(captions), whole)
            log.warning(
                f'{self.title} {self.split}: {self.left_out} are left out, as skip lists them '
                f'({shown(skipped[:3])}). Results without them are not those of the whole set.'
            )

    def _lines(self, reason: str) -> str:
        lines = [str(row.line) for row in self.irregular if row.reason == reason]
        more = ', ...' if len(lines) > 5 else ''
        return f'{"lines" if len(lines) > 1 else "line"} {", ".join(lines[:5])}{more}'

    def _compare_with_published(self, videos: int, texts: int) -> None:
        """Compare the number of rows with the published one; clip counts are not published."""
        rows, published = self.counts['rows'], self.splits[self.split].texts
        if rows < published:
            self._short = f'{rows:,} of {published:,} rows'
        if rows != published:
            MMLogger.get_current_instance().warning(
                f'{self.title} {self.split} has {rows} rows here ({videos} videos and {texts} '
                f'texts), published: {published}: results cannot be compared.'
            )


def _read_rows(path: Path) -> tuple[list[_Row], list[Irregular]]:
    """Return all rows of a file and the irregularities of each."""
    rows, irregular = [], []
    # Split at line ends only: quotes have no meaning, and a sentence may hold other breaks.
    for number, line in enumerate(re.split('\r\n|\n|\r', read_text(path)), 1):
        if line.strip():
            row, reasons = _row(number, line, Place(path, f'line {number}'))
            rows.append(row)
            irregular += [Irregular(path.name, number, row.clip, reason) for reason in reasons]
    return rows, irregular


def _row(number: int, line: str, place: Place) -> tuple[_Row, list[str]]:
    """Return a line as a row, and its irregularities."""
    fields = line.split('\t')
    name, reasons = _clip(fields[0], place)
    # A program that strips lines leaves five fields of a row without a sentence.
    silent = len(fields) == FIELDS - 1 or len(fields) == FIELDS and not fields[-1].strip()
    if len(fields) != FIELDS and not (silent and _TIME.fullmatch(fields[-1].strip())):
        expected = f'{FIELDS} fields between tabs (id, four times, sentence), found {len(fields)}'
        raise problem(place, f'expected {expected}: {shown(line)}')
    if silent:
        return _Row(number, name, None), [*reasons, SILENT]
    return _Row(number, name, caption(fields[-1].strip(), place)), reasons


def _clip(text: str, place: Place) -> tuple[str, list[str]]:
    """Return the cleaned id of a clip, and its irregularities in the file."""
    reasons, name = [], text
    if name.lstrip().startswith('"'):
        reasons.append(QUOTED)
        name = name.replace('"', '', 1)
    if name != name.strip():
        reasons.append(BLANKS)
        name = name.strip()
    if name.lower().endswith(VIDEO_SUFFIXES):
        reasons.append(SUFFIX)
        name = name.rpartition('.')[0]
    movie, _, times = identifier(name, place).rpartition('_')
    if not movie or not times:
        raise wrong(place, 'an id MOVIE_TIMES', text)
    identifier(f'{movie}/{name}', place)  # its file's path must be valid
    return name, reasons


def _read_skip(skip: Any) -> frozenset[str]:
    """Return the ids of clips to leave out."""
    if isinstance(skip, (str, Path)):
        path = Path(skip)
        if not path.is_file():
            raise FileNotFoundError(f'LSMDC: no list of clips to skip at {name_of(path)}')
        return frozenset(_clip(name, Place(path))[0] for name in read_ids(path))
    place = Place('LSMDC: skip')
    if not isinstance(skip, (list, tuple, set, frozenset)):
        raise wrong(place, 'ids of clips or the path of a file of them', skip)
    names = ((_clip(_string(name, place), place)[0], place) for name in skip)
    return frozenset(unique(names, 'clip'))


def _string(name: Any, place: Place) -> str:
    if not isinstance(name, str):
        raise wrong(place, 'an id, which is a string', name)
    return name
