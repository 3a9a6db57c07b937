"""``fit`` and ``retrieve``: debiased retrieval from arrays of vectors."""

from __future__ import annotations

from typing import Any, Optional

from mmvtr.arrays.debiaser import Array, Debiaser
from mmvtr.arrays.inputs import Geometry
from mmvtr.arrays.retrieved import Retrieved
from mmvtr.functional.uncertainty.calibration import Calibration


def fit(
    videos: Any,
    bank: Any = None,
    transform: Optional[str] = 'auto',
    *,
    ids: Any = None,
    geometry: Geometry = 'cosine',
    seed: int = 0,
    **options: Any,
) -> Debiaser:
    """Return a gallery fitted to a bank of queries, which corrects the ranks of hubs.

    Args:
        videos: numpy or torch, float [N, D]; may be memory-mapped, and is not copied; or a file or
            table (:func:`mmvtr.arrays.read_rows`).  None: the gallery is given later, and the bank
            is kept for it.
        bank: queries seen before, float [B, D], or a file or table of them.  With their own items,
            ``(texts, videos)``, row i of both one pair, transforms are tried and P(right) can be
            calibrated.  Training captions are a bank; the test queries themselves are not
            (transductive).
        transform: ``'auto'``, None = raw, or a transform's name, see :class:`Debiaser`.
        ids: ids of the videos.
        geometry: ``'cosine'`` or ``'inner_product'``; ``'maxsim'``, ``'maxsim_of_items'`` or
            ``'token_wise'`` if all inputs are :class:`Tokens`.
        seed: random seed.
        **options: options of the transform.  A ``temperature`` is in units of scores, or as a text
            such as ``'20%'``, its default, a share of how far a query's best score exceeds its
            mean.

    Raises:
        TypeError, ValueError: see :class:`Debiaser` and :meth:`Debiaser.fit`.

    Example:
        ::

            >>> import numpy as np, mmvtr
            >>> fitted = mmvtr.fit(np.eye(3, dtype='float32'), ids=['cat', 'dog', 'owl'])
            >>> fitted.search(np.eye(3, dtype='float32')[:2], k=1).ids.tolist()
            [['cat'], ['dog']]
    """
    return Debiaser(transform, geometry=geometry, seed=seed, **options).fit(videos, bank, ids=ids)


def retrieve(
    texts: Array,
    videos: Array,
    bank: Any = None,
    transform: Optional[str] = 'auto',
    k: int = 10,
    ids: Any = None,
    *,
    geometry: Geometry = 'cosine',
    calibration: Optional[Calibration] = None,
    seed: int = 0,
    **options: Any,
) -> Retrieved:
    """Return the best videos of each text: :func:`mmvtr.fit` and one search.

    Any embeddings will do; to retrieve texts for videos, swap the two.  For several searches keep
    the fitted object, which this call builds anew each time.

    Args:
        texts: numpy or torch, float [Q, D].
        videos, bank, transform, ids, geometry, seed, options: see :func:`mmvtr.fit`.
        k: videos a text; all if there are fewer.
        calibration: a calibration of pairs, which gives P(match); fitted on raw scores if the
            transform is raw, else on debiased ones.  P of a place in a list:
            :meth:`mmvtr.arrays.Debiaser.calibrate`.

    Raises:
        TypeError, ValueError: see :func:`mmvtr.fit` and :meth:`mmvtr.arrays.Debiaser.search`.

    Example:
        ::

            >>> import numpy as np, mmvtr
            >>> texts, videos = np.eye(3, dtype='float32')[:2], np.eye(3, dtype='float32')
            >>> mmvtr.retrieve(texts, videos, k=1, ids=['cat', 'dog', 'owl']).ids.tolist()
            [['cat'], ['dog']]
    """
    fitted = Debiaser(transform, geometry=geometry, seed=seed, **options)
    return fitted.fit(videos, bank, ids=ids).search(texts, k, calibration=calibration)
