"""Two arrays, one call: which videos answer each text."""

from __future__ import annotations

from typing import Any, Optional

from mmvtr.arrays.debiaser import Debiaser
from mmvtr.arrays.inputs import Geometry
from mmvtr.arrays.results import Array, Retrieved
from mmvtr.functional.uncertainty.calibration import Calibration


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
    """Return the best videos of each text: :func:`mmvtr.fit` and one search of it.

    Any embeddings will do; for videos that ask for texts, swap the two.  Who asks more than once
    keeps the fitted object, which this makes anew each time.

    Args:
        texts: numpy or torch, float [Q, D].
        videos, bank, transform, ids, geometry, seed, options: of :func:`mmvtr.fit`.
        k: videos a text; all if there are fewer.
        calibration: of pairs, gives P(match), fitted on raw scores where the transform is raw and
            on debiased ones where it is not.  P of a place in a list:
            :meth:`mmvtr.arrays.Debiaser.calibrate`.

    Raises:
        TypeError, ValueError: as of :func:`mmvtr.fit` and :meth:`mmvtr.arrays.Debiaser.search`.

    Example:
        ::

            >>> import numpy as np, mmvtr
            >>> texts, videos = np.eye(3, dtype='float32')[:2], np.eye(3, dtype='float32')
            >>> mmvtr.retrieve(texts, videos, k=1, ids=['cat', 'dog', 'owl']).ids.tolist()
            [['cat'], ['dog']]
    """
    fitted = Debiaser(transform, geometry=geometry, seed=seed, **options)
    return fitted.fit(videos, bank, ids=ids).search(texts, k, calibration=calibration)
