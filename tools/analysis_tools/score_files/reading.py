"""Read scores of T texts and V videos from .npy, .npz and TREC run files."""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path
from typing import NamedTuple, Optional, Sequence

import numpy as np
import torch
from torch import Tensor

from mmvtr import storage
from mmvtr.datasets.annotation_values import Place, string
from mmvtr.datasets.pair_values import PairValues, read_qrels, read_run
from mmvtr.functional.similarities.tiles import refuse_non_finite
from mmvtr.structures import Directed
from score_files.foreign import refuse_foreign

#: Text ids and video ids.
Ids = tuple[Sequence[str], Sequence[str]]


class ScoreFile(NamedTuple):
    """Scores read from a file.

    Attributes:
        scores: float [T, V] of both directions; NaN = not in the run.
        ids: ids of rows and columns; numbers from 0 if the file has none.
        named: whether the file has ids.
    """

    scores: Directed
    ids: Ids
    named: bool


def read_score_file(path: Path, positives: Optional[PairValues] = None) -> ScoreFile:
    """Read scores of any supported format.

    Args:
        path: ``.npy``: [T, V]; ``.npz``: ``scores``, or ``t2v`` and ``v2t``, [T, V] each, and
            ``text_ids`` and ``video_ids`` or neither; any other suffix: a TREC run.
        positives: matches, which define the texts of a run.

    Raises:
        FileNotFoundError: no such file.
        ValueError: a file of another format (with a command that converts it, if known, see
            :mod:`score_files.foreign`), scores that are not finite or all equal, a wrong number of
            ids, a run without ``positives``; names the file.
    """
    if path.suffix == '.npy':
        scores = read_matrix(path)
        return ScoreFile(Directed(scores, scores), numbered(scores), False)
    if path.suffix == '.npz':
        return _read_archive(path)
    refuse_foreign(path)
    run = read_run(path)
    if positives is None:
        raise ValueError(f'{path} is a run: give the matches as qrels, --positives FILE')
    texts, videos = dict.fromkeys(positives.texts), [*run.videos, *positives.videos]
    ids = ([*texts], [*dict.fromkeys(videos)])
    scores = torch.from_numpy(run.matrix(*ids))
    if not scores.isnan().any():
        refuse_constant(path, scores)
    return ScoreFile(Directed(scores, scores), ids, True)


def read_matrix(path: Path, empty: str = '') -> Tensor:
    """Return a matrix of finite scores in its own precision, at least float32.

    Args:
        path: a .npy file.
        empty: explanation for the error if the matrix is empty.

    Raises:
        FileNotFoundError, ValueError: see :func:`read_score_file`.
    """
    return _checked(path, read_array(path), empty)


def read_array(path: Path) -> np.ndarray:
    """Return the array of an .npy file.

    Raises:
        FileNotFoundError, ValueError: see :func:`read_score_file`.
    """
    refuse_foreign(path)
    if path.suffix == '.npz':
        raise ValueError(f'{path} is an archive of several arrays, expected one .npy array')
    return storage.read_array(path)


def read_positives(path: Optional[Path], scores: Tensor) -> Tensor:
    """Return matches, bool [T, V], from an .npy file or the diagonal of a square matrix.

    Raises:
        FileNotFoundError, ValueError: see :func:`read_score_file`; no file although the matrix is
            not square, another shape, a text without a video.
    """
    texts, videos = scores.shape
    if path is None:
        if texts != videos:
            raise ValueError(
                f'{texts} texts and {videos} videos are not pairs: give the matches, --positives'
            )
        return torch.eye(texts, dtype=torch.bool)
    array = read_array(path)
    if array.shape == (texts,) and array.dtype.kind in 'iu':
        wrong = np.flatnonzero((array < 0) | (array >= videos))
        if len(wrong):
            raise ValueError(
                f'{path}[{wrong[0]}] is {array[wrong[0]]}, expected a video of 0 to {videos - 1}'
            )
        return torch.arange(videos) == torch.from_numpy(array.astype(np.int64))[:, None]
    if array.shape != (texts, videos) or not np.isin(array, (0, 1)).all():
        raise ValueError(
            f'{path} must be bool or 0-1 {[texts, videos]}, or int {[texts]} (the video of each '
            f'text), not {array.dtype} {list(array.shape)}'
        )
    positives = torch.from_numpy(array.astype(bool))
    alone = (~positives.any(1)).nonzero().flatten().tolist()
    if alone:
        raise ValueError(
            f'{path}: text {alone[0]} has no video ({len(alone)} of {texts} texts have none)'
        )
    return positives


def named_positives(path: Path, pairs: PairValues, ids: Ids) -> Tensor:
    """Return matches, bool [T, V], from qrels with grades above 0.

    Args:
        path: the qrels file, for errors.
        pairs: content of the file.
        ids: ids of the texts and videos.

    Raises:
        ValueError: unknown ids, a text without a video.
    """
    positives = torch.from_numpy(pairs.matrix(*ids)) > 0
    alone = (~positives.any(1)).nonzero().flatten().tolist()
    if alone:
        raise ValueError(
            f'{path}: text {ids[0][alone[0]]!r:.80} has no video ({len(alone)} of '
            f'{len(positives)} texts have none)'
        )
    return positives


def numbered(scores: Tensor) -> Ids:
    """Return numbers from 0 as ids."""
    texts, videos = ([str(i) for i in range(size)] for size in scores.shape)
    return texts, videos


def refuse_constant(path: Path, scores: Tensor) -> None:
    """Raise ValueError if all scores are equal."""
    if (scores == scores[0, 0]).all():
        raise ValueError(
            f'{path} {list(scores.shape)} is all one value ({scores[0, 0]:g}): nothing to rank'
        )


def _checked(path: Path, array: np.ndarray, empty: str = '') -> Tensor:
    if array.ndim != 2 or array.dtype.kind not in 'fiu':
        raise ValueError(
            f'{path} must be 2-d scores [texts, videos], not {array.dtype} {list(array.shape)}'
        )
    if not array.size:
        raise ValueError(f'{path} {list(array.shape)} is empty{empty}')
    short = array.dtype.kind == 'f' and array.dtype.itemsize <= 4
    scores = torch.from_numpy(array.astype(np.float32 if short else np.float64))
    refuse_non_finite(scores, name=str(path))
    refuse_constant(path, scores)
    return scores


def _read_archive(path: Path) -> ScoreFile:
    refuse_foreign(path)
    there = {*storage.array_names(path)}
    directed = {'t2v', 'v2t'} <= there
    names = ('t2v', 'v2t') if directed else ('scores', 'scores')
    named = not directed or {'text_ids', 'video_ids'} <= there
    wanted = {*names, 'text_ids', 'video_ids'} if named else {*names}
    missing = sorted(wanted - there)
    if missing:
        raise ValueError(f'{path} is an archive of several arrays, but has no {missing}')
    arrays = storage.read_arrays(path, sorted(wanted))
    matrices = [_checked(path, arrays[name]) for name in dict.fromkeys(names)]
    matrices = (matrices[0], matrices[-1])
    if matrices[0].shape != matrices[1].shape:
        raise ValueError(f'{path}: t2v and v2t must be both [texts, videos]')
    ids = numbered(matrices[0])
    if named:
        sizes = dict(zip(('text_ids', 'video_ids'), matrices[0].shape))
        ids = tuple(_ids(path, name, arrays[name], size) for name, size in sizes.items())
    return ScoreFile(Directed(*matrices), ids, named)


def _ids(path: Path, name: str, array: np.ndarray, size: int) -> list[str]:
    """Return ids as distinct strings; numbers are converted."""
    if array.shape != (size,):
        raise ValueError(f'{path}: {name} must be {size} ids that differ, not {list(array.shape)}')
    try:
        as_text = np.char.decode(array, 'utf-8') if array.dtype.kind == 'S' else array.astype(str)
        ids = [string(one, Place(path, name)) for one in as_text.tolist()]
    except UnicodeDecodeError as error:
        raise ValueError(f'{path}: {name} are not UTF-8: {error.reason}') from error
    if len(set(ids)) < size:
        twice = Counter(ids).most_common(1)[0][0]
        raise ValueError(
            f'{path}: {name} must be {size} ids that differ, {twice!r:.80} is repeated'
        )
    return ids


def add_truth(parser: argparse.ArgumentParser, positives: str) -> None:
    """Add the options --positives (with the help ``positives``), --judgments and --at-least."""
    parser.add_argument('--positives', type=Path, metavar='P', help=positives)
    parser.add_argument(
        '--judgments', type=Path, metavar='QRELS', help='judged pairs, query 0 item grade'
    )
    parser.add_argument(
        '--at-least',
        type=float,
        default=1.0,
        metavar='X',
        help='the lowest grade of --judgments that is right (default: 1)',
    )


def read_matches(path: Optional[Path]) -> Optional[PairValues]:
    """Return the qrels that --positives names, or None if it names something else.

    Raises:
        FileNotFoundError, ValueError: see :func:`~mmvtr.datasets.read_qrels`.
    """
    return None if path is None or path.suffix == '.npy' else read_qrels(path)


def positives_of(
    path: Optional[Path], matches: Optional[PairValues], scores: Tensor, ids: Ids
) -> Tensor:
    """Return the matches of --positives, bool [T, V].

    Args:
        path: value of the option.
        matches: result of :func:`read_matches` for it.
        scores: float [T, V].
        ids: ids of rows and columns.

    Raises:
        FileNotFoundError, ValueError: see :mod:`~score_files.reading`.
    """
    if matches is None:
        return read_positives(path, scores)
    return named_positives(path, matches, ids)


def read_judgments(path: Path, ids: Ids) -> PairValues:
    """Return judged pairs, which must all be of these texts and videos.

    Raises:
        FileNotFoundError, ValueError: see :func:`~mmvtr.datasets.read_qrels`; pairs of other
            texts or videos.
    """
    pairs = read_qrels(path)
    pairs.matrix(*ids)
    return pairs
