"""Values of some (text, video) pairs, and TREC files that hold them.

Grades of judged pairs are *qrels* (``query 0 item grade``), scores of a ranking a *run*
(``query Q0 item rank score tag``); fields are separated by spaces or tabs.  The query is the text,
or with ``query='video'`` the video.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Iterable, Iterator, Literal, Mapping, NamedTuple, Optional, Sequence, Union

import numpy as np
from mmengine.logging import MMLogger

from mmvtr.datasets.annotation_files import read_lines
from mmvtr.datasets.annotation_values import Place, problem, shown, wrong
from mmvtr.functional.values import check_one_of
from mmvtr.registry import TASK_UTILS
from mmvtr.storage import write_atomically

Query = Literal['text', 'video']
#: Fields of a line, as error messages show them.
QRELS, RUN = 'query 0 item grade', 'query Q0 item rank score tag'


class PairValues(NamedTuple):
    """N distinct pairs with values; all other pairs are unknown.

    Attributes:
        texts: N ids.
        videos: N ids.
        values: float64 [N], grades or scores.
        origin: where they come from, for messages.
        by_caption: whether ``texts`` are captions instead of ids.
    """

    texts: Sequence[str]
    videos: Sequence[str]
    values: np.ndarray
    origin: str = ''
    by_caption: bool = False

    def matrix(
        self, text_ids: Sequence[str], video_ids: Sequence[str], *, others: str = 'raise'
    ) -> np.ndarray:
        """Return values, float64 [T, V]; NaN where unknown.

        Args:
            text_ids, video_ids: T and V ids, of rows and columns.
            others: for pairs of other ids: 'raise' an error, or 'left_out'.

        Raises:
            ValueError: repeated ids, another option, pairs of other ids, or no pair is left.
        """
        check_one_of(('raise', 'left_out'), others=others)
        rows, columns = _positions('text', text_ids), _positions('video', video_ids)
        t = np.array([rows.get(text, -1) for text in self.texts], dtype=np.int64)
        v = np.array([columns.get(video, -1) for video in self.videos], dtype=np.int64)
        inside = (t >= 0) & (v >= 0)
        place = Place(self.origin or 'pairs')
        if not inside.any():
            raise problem(
                place,
                f'none of {len(t)} pairs belongs to these texts ({shown(list(text_ids[:3]))}) and '
                f'videos ({shown(list(video_ids[:3]))})',
            )
        if others == 'raise' and not inside.all():
            first = int(np.flatnonzero(~inside)[0])
            kind = 'text' if t[first] < 0 else 'video'
            name = (self.texts if t[first] < 0 else self.videos)[first]
            raise problem(
                place,
                f'unknown {kind} {shown(name)} ({(~inside).sum()} of {len(t)} pairs are unknown)',
            )
        table = np.full((len(rows), len(columns)), np.nan)
        table[t[inside], v[inside]] = self.values[inside]
        return table

    def of_texts(self, text_ids: Sequence[str], captions: Sequence[str]) -> PairValues:
        """Return the pairs by text id; a pair of a caption applies to each text with that caption.

        Args:
            text_ids, captions: T each; space around a caption is ignored.

        Raises:
            ValueError: the pairs are already by id.
        """
        if not self.by_caption:
            raise ValueError(f'{self.origin}: these pairs have ids, not captions')
        ids: dict[str, list[str]] = {}
        for name, caption in zip(text_ids, captions):
            ids.setdefault(caption.strip(), []).append(name)
        rows = [
            (name, video, value)
            for caption, video, value in zip(self.texts, self.videos, self.values.tolist())
            for name in ids.get(caption, [f'the caption {shown(caption)}'])
        ]
        texts, videos, values = zip(*rows)
        return PairValues(texts, videos, np.array(values), self.origin)

    @classmethod
    def of_matrix(
        cls, table: np.ndarray, text_ids: Sequence[str], video_ids: Sequence[str]
    ) -> PairValues:
        """Return the entries of a [T, V] table that are not NaN, row by row.

        Raises:
            ValueError: the numbers of ids and of rows and columns differ.
        """
        if table.shape != (len(text_ids), len(video_ids)):
            raise ValueError(
                f'{len(text_ids)} text ids and {len(video_ids)} video ids do not fit '
                f'{list(table.shape)}'
            )
        t, v = np.nonzero(~np.isnan(table))
        return cls(
            [text_ids[i] for i in t], [video_ids[i] for i in v], table[t, v].astype(np.float64)
        )


def read_qrels(path: Union[str, Path], *, query: Query = 'text') -> PairValues:
    """Return the judgments of a qrels file; a pair judged not relevant has grade 0.

    Args:
        path: a file of lines ``query 0 item grade``, grades whole or decimal.
        query: what the queries are, 'text' or 'video'.

    Raises:
        FileNotFoundError: no such file.
        ValueError: another number of fields (another delimiter), a grade that is not a finite
            number, a repeated pair, no line at all; names file and line.
    """
    return _read(Path(path), QRELS, 3, query)


def read_run(path: Union[str, Path], *, query: Query = 'text') -> PairValues:
    """Return the scores of a run. Ranks are ignored: as in trec_eval, the scores define the order.

    Args:
        path: a file of lines ``query Q0 item rank score tag``.
        query: what the queries are, 'text' or 'video'.

    Raises:
        FileNotFoundError, ValueError: see :func:`read_qrels`.
    """
    return _read(Path(path), RUN, 4, query)


def write_qrels(path: Union[str, Path], pairs: PairValues, *, query: Query = 'text') -> None:
    """Write judgments, whole grades without a decimal point (trec_eval reads no other).

    Raises:
        ValueError: an id that contains a space, or a value that is not finite; nothing is written.
    """
    lines = (f'{q} 0 {item} {grade:.17g}' for q, item, grade in _checked(pairs, query))
    _write(path, [f'{line}\n' for line in lines])


def write_run(
    path: Union[str, Path], pairs: PairValues, *, query: Query = 'text', tag: str = 'mmvtr'
) -> None:
    """Write a run, queries in their order, each query's best items first; scores in full precision.

    Raises:
        ValueError: see :func:`write_qrels`, or a tag that contains a space.
    """
    if tag.split() != [tag]:
        raise ValueError(f'tag must be a word without spaces, not {shown(tag)}')
    by_query: dict[str, list[tuple[str, float]]] = {}
    for q, item, score in _checked(pairs, query):
        by_query.setdefault(q, []).append((item, score))
    lines = [
        f'{q} Q0 {item} {rank} {score:.17g} {tag}\n'
        for q, items in by_query.items()
        for rank, (item, score) in enumerate(sorted(items, key=lambda x: -x[1]), 1)
    ]
    _write(path, lines)


def collect(rows: Iterator[tuple[Place, str, str, float]], origin: Union[str, Path]) -> PairValues:
    """Return the PairValues of rows (place, text, video, value).

    Raises:
        ValueError: a repeated pair, or none at all.
    """
    values: dict[tuple[str, str], float] = {}
    for place, text, video, value in rows:
        if (text, video) in values:
            raise problem(place, f'a second line of text {shown(text)} and video {shown(video)}')
        values[text, video] = value
    if not values:
        raise problem(Place(origin), 'has no pair at all')
    texts, videos = zip(*values)
    return PairValues(texts, videos, np.array([*values.values()]), str(origin))


class Judgments(NamedTuple):
    """Human judgments of pairs by direction; both are the same object if pairs were judged once.

    Attributes:
        t2v: judgments for text queries.
        v2t: judgments for video queries.
    """

    t2v: PairValues
    v2t: PairValues

    @classmethod
    def of(cls, given: Union[Mapping[str, Any], PairValues, Judgments]) -> Judgments:
        """Return the judgments that a config names.

        Args:
            given: config of a reader (``dict(type='read_qrels', path=...)``) or its result; a dict
                of 't2v' and 'v2t' if the two directions were judged separately.

        Raises:
            FileNotFoundError, ValueError: those of the reader.
        """
        if isinstance(given, Judgments):
            return given
        if not isinstance(given, PairValues) and given.keys() == {'t2v', 'v2t'}:
            return cls(_pairs(given['t2v']), _pairs(given['v2t']))
        pairs = _pairs(given)
        return cls(pairs, pairs)

    def grades(
        self,
        text_ids: Sequence[str],
        video_ids: Sequence[str],
        captions: Optional[Sequence[str]] = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return judgments by direction, float64 [T, V]; NaN = not judged; logs dropped pairs.

        Args:
            text_ids, video_ids: T and V ids.
            captions: those of the T texts, for judgments that name captions.

        Raises:
            ValueError: no judged pair is of these texts and videos, or ``captions`` are needed and
                missing.
        """
        t2v = _grades(self.t2v, text_ids, video_ids, captions)
        same = self.v2t is self.t2v
        return t2v, t2v if same else _grades(self.v2t, text_ids, video_ids, captions)

    def __str__(self) -> str:
        both = dict.fromkeys(f'{len(x.texts)} pairs of {Path(x.origin).name}' for x in self)
        return ' and '.join(both)


def finite(value: str, what: str, place: Place) -> float:
    """Return a finite number parsed from its digits.

    Raises:
        ValueError: it is not a number, or not finite.
    """
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise wrong(place, f'{what}, a finite number', value)
    return number


def check_query(query: Any) -> None:
    """Raise ValueError unless it is 'text' or 'video'."""
    check_one_of(('text', 'video'), query=query)


def fields_of(
    path: Path, form: str, separator: Optional[str] = None
) -> Iterator[tuple[Place, list[str]]]:
    """Yield place and fields of each line; ``form`` names the fields in a ValueError.

    They are separated by ``separator``, or by spaces.
    """
    count, between = len(form.split()), 'spaces' if separator is None else 'tabs'
    for place, line in read_lines(path):
        fields = line.split(separator)
        if len(fields) != count:
            raise wrong(place, f"{count} fields separated by {between}, '{form}'", line)
        yield place, fields


def _pairs(pairs: Union[Mapping[str, Any], PairValues]) -> PairValues:
    return pairs if isinstance(pairs, PairValues) else TASK_UTILS.build(dict(pairs))


def _grades(
    pairs: PairValues,
    text_ids: Sequence[str],
    video_ids: Sequence[str],
    captions: Optional[Sequence[str]],
) -> np.ndarray:
    if pairs.by_caption and captions is None:
        raise ValueError(
            f'{pairs.origin}: these judgments name captions, which a metric does not see: give '
            'them to the dataset, judgments=dict(type=...)'
        )
    if pairs.by_caption:
        pairs = pairs.of_texts(text_ids, captions)
    grades = pairs.matrix(text_ids, video_ids, others='left_out')
    left = len(pairs.texts) - int((~np.isnan(grades)).sum())
    if left:
        MMLogger.get_current_instance().warning(
            f'judgments: {left} of {len(pairs.texts)} pairs are of texts or videos that the set '
            'does not have, and are left out'
        )
    return grades


def _write(path: Union[str, Path], lines: Iterable[str]) -> None:
    content = ''.join(lines).encode()  # check everything before a file is opened
    write_atomically(path, lambda file: file.write(content))


def _read(path: Path, form: str, value_at: int, query: Query) -> PairValues:
    names = form.split()
    check_query(query)

    def rows() -> Iterator[tuple[Place, str, str, float]]:
        for place, fields in fields_of(path, form):
            value = finite(fields[value_at], names[value_at], place)
            first, second = (fields[0], fields[2])[:: 1 if query == 'text' else -1]
            yield place, first, second, value

    return collect(rows(), path)


def _checked(pairs: PairValues, query: Query) -> Iterator[tuple[str, str, float]]:
    """Return query, item and value of each pair as the fields of a line."""
    ids = (pairs.texts, pairs.videos)
    for first, second, value in zip(*ids[:: 1 if query == 'text' else -1], pairs.values.tolist()):
        for name in (first, second):
            if name.split() != [name]:
                raise ValueError(f'an id in a TREC file must not have a space: {shown(name)}')
        if not math.isfinite(value):
            raise ValueError(f'{shown(first)} and {shown(second)}: {value} is not finite')
        yield first, second, value


def _positions(kind: str, ids: Sequence[str]) -> dict[str, int]:
    positions = {name: i for i, name in enumerate(ids)}
    if len(positions) < len(ids):
        twice = next(name for i, name in enumerate(ids) if positions[name] != i)
        raise ValueError(f'a second {kind} {shown(twice)} among the ids')
    return positions
