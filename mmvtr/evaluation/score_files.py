"""Scores of T texts and V videos from the files that tools write: .npy, .npz and TREC runs."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, Optional, Sequence

import numpy as np
import torch
from torch import Tensor

from mmvtr.datasets.pair_values import PairValues, read_run
from mmvtr.functional.tiles import refuse_non_finite
from mmvtr.structures import Directed

#: Text ids and video ids.
Ids = tuple[Sequence[str], Sequence[str]]


class ScoreFile(NamedTuple):
    """Scores of a file.

    Attributes:
        scores: float [T, V] of both directions; NaN = not in the run.
        ids: of rows and columns; numbers from 0 where the file has none.
        named: whether the file has ids.
    """

    scores: Directed
    ids: Ids
    named: bool


def read_score_file(path: Path, positives: Optional[PairValues] = None) -> ScoreFile:
    """Read scores of any kind.

    Args:
        path: ``.npy``: [T, V]; ``.npz``: ``scores``, or ``t2v`` and ``v2t``, [T, V] each, and
            ``text_ids`` and ``video_ids`` or neither; any other suffix: a TREC run.
        positives: who matches, which names the texts of a run.

    Raises:
        FileNotFoundError: no such file.
        ValueError: a file of another kind, scores that are not finite or all one value, ids that
            are not as many as rows or columns, a run without ``positives``; the file is named.
    """
    if path.suffix == '.npy':
        scores = read_matrix(path)
        return ScoreFile(Directed(scores, scores), numbered(scores), False)
    if path.suffix == '.npz':
        return _read_archive(path)
    if positives is None:
        raise ValueError(f'{path} is a run: say who matches as qrels, --positives FILE')
    run = read_run(path)
    texts, videos = dict.fromkeys(positives.texts), [*run.videos, *positives.videos]
    ids = ([*texts], [*dict.fromkeys(videos)])
    scores = torch.from_numpy(run.matrix(*ids))
    if not scores.isnan().any():
        refuse_constant(path, scores)
    return ScoreFile(Directed(scores, scores), ids, True)


def read_matrix(path: Path, empty: str = '') -> Tensor:
    """A matrix of finite scores in its own precision, float32 at least.

    Args:
        path: of a .npy file.
        empty: what it means if there are none.

    Raises:
        FileNotFoundError, ValueError: as of :func:`read_score_file`.
    """
    return _checked(path, read_array(path), empty)


def read_array(path: Path) -> np.ndarray:
    """The one array of a .npy file.

    Raises:
        FileNotFoundError, ValueError: as of :func:`read_score_file`.
    """
    try:
        array = np.load(path, allow_pickle=False)
    except FileNotFoundError:
        raise FileNotFoundError(f'{path} does not exist') from None
    except (OSError, ValueError, EOFError) as error:
        raise ValueError(f'{path} is no .npy file of numbers: {error}') from error
    if not isinstance(array, np.ndarray):
        raise ValueError(f'{path} is an archive of several arrays, expected one .npy array')
    return array


def read_positives(path: Optional[Path], scores: Tensor) -> Tensor:
    """Bool [T, V]; from a .npy file, or the diagonal of a square matrix.

    Raises:
        FileNotFoundError, ValueError: as of :func:`read_score_file`; no file and no square, another
            form, a text without a video.
    """
    texts, videos = scores.shape
    if path is None:
        if texts != videos:
            raise ValueError(
                f'{texts} texts and {videos} videos are not pairs: say who matches, --positives'
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
        raise ValueError(f'{path}: text {alone[0]} has no video (so {len(alone)} of {texts} texts)')
    return positives


def named_positives(path: Path, pairs: PairValues, ids: Ids) -> Tensor:
    """Bool [T, V] from qrels, grades above 0.

    Args:
        path: where they come from, for an error.
        pairs: what stands there.
        ids: of the texts and videos.

    Raises:
        ValueError: unknown ids, a text without a video.
    """
    positives = torch.from_numpy(pairs.matrix(*ids)) > 0
    alone = (~positives.any(1)).nonzero().flatten().tolist()
    if alone:
        raise ValueError(
            f'{path}: text {ids[0][alone[0]]!r:.80} has no video (so {len(alone)} of '
            f'{len(positives)} texts)'
        )
    return positives


def numbered(scores: Tensor) -> Ids:
    """Numbers from 0 in the place of ids."""
    texts, videos = ([str(i) for i in range(size)] for size in scores.shape)
    return texts, videos


def refuse_constant(path: Path, scores: Tensor) -> None:
    """Raise ValueError where nothing is to be ranked."""
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
    try:
        with np.load(path, allow_pickle=False) as archive:
            directed = {'t2v', 'v2t'} <= set(archive.files)
            names = ('t2v', 'v2t') if directed else ('scores', 'scores')
            named = not directed or {'text_ids', 'video_ids'} <= set(archive.files)
            wanted = {*names, 'text_ids', 'video_ids'} if named else {*names}
            missing = sorted(wanted - set(archive.files))
            if missing:
                raise _Missing(f'{path} is an archive of several arrays, but has no {missing}')
            arrays = [archive[name] for name in dict.fromkeys(names)]
            ids = None
            if named:
                ids = tuple(archive[f'{k}_ids'].astype(str).tolist() for k in ('text', 'video'))
    except FileNotFoundError:
        raise FileNotFoundError(f'{path} does not exist') from None
    except _Missing as error:
        raise ValueError(str(error)) from None
    except (OSError, ValueError, EOFError) as error:
        raise ValueError(f'{path} is no .npz file of numbers and ids: {error}') from error
    matrices = [_checked(path, array) for array in arrays]
    if matrices[0].shape != matrices[-1].shape:
        raise ValueError(f'{path}: t2v and v2t must be both [texts, videos]')
    for kind, names, size in zip(('text', 'video'), ids or (), matrices[0].shape):
        if not isinstance(names, list) or len(names) != size or len(set(names)) < size:
            raise ValueError(f'{path}: {kind}_ids must be {size} ids that differ')
    return ScoreFile(Directed(matrices[0], matrices[-1]), ids or numbered(matrices[0]), named)


class _Missing(ValueError):
    """An archive without an array that is needed."""
