"""What tools that measure score files share: who matches, and what people have judged."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Optional

from torch import Tensor

from mmvtr.datasets.pair_values import PairValues, read_qrels
from mmvtr.evaluation.score_files import Ids, named_positives, read_positives


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
        FileNotFoundError, ValueError: as of :func:`~mmvtr.datasets.read_qrels`.
    """
    return None if path is None or path.suffix == '.npy' else read_qrels(path)


def positives_of(
    path: Optional[Path], matches: Optional[PairValues], scores: Tensor, ids: Ids
) -> Tensor:
    """Return the matches of --positives, bool [T, V].

    Args:
        path: what the option names.
        matches: what :func:`read_matches` has read of it.
        scores: float [T, V].
        ids: of rows and columns.

    Raises:
        FileNotFoundError, ValueError: as of :mod:`~mmvtr.evaluation.score_files`.
    """
    if matches is None:
        return read_positives(path, scores)
    return named_positives(path, matches, ids)


def read_judgments(path: Path, ids: Ids) -> PairValues:
    """Return judged pairs, which must all be of these texts and videos.

    Raises:
        FileNotFoundError, ValueError: as of :func:`~mmvtr.datasets.read_qrels`, or of others.
    """
    pairs = read_qrels(path)
    pairs.matrix(*ids)
    return pairs
