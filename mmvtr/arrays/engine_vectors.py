"""Rows and queries of one more dimension, whose inner products are debiased scores: for FAISS,
Qdrant, LanceDB, pgvector or Elasticsearch."""

from __future__ import annotations

from typing import Any, Optional, Union

import numpy as np
import torch
from torch import Tensor

from mmvtr.arrays.inputs import Geometry, as_rows, check_width, read_vectors
from mmvtr.arrays.saved import check_gallery
from mmvtr.arrays.state import ABSENT, State
from mmvtr.arrays.tokens import SIDES, engine_items, engine_queries
from mmvtr.functional.transforms.item_biases import ItemBiases
from mmvtr.functional.transforms.transform_table import TRANSFORMS


def as_vectors(
    state: State,
    geometry: Geometry,
    rows: Any,
    videos: Any,
    out: Optional[np.ndarray],
    dtype: Any,
) -> Union[np.ndarray, list[np.ndarray]]:
    """Return items as [n, D + 1]; see :meth:`mmvtr.arrays.Debiaser.as_vectors`."""
    check_additive(state.fitted, geometry)
    chosen = torch.arange(len(state.biases))[as_rows(rows)]
    biases = state.biases.cpu()[chosen]
    if state.gallery is None:
        if videos is None:
            raise ValueError(f'{ABSENT}: give the vectors of these rows (videos=)')
        vectors = read_vectors(videos, 'videos', geometry)
        check_width(vectors, state.width, 'videos')
        check_gallery(vectors, state.absent.traces[chosen], 'these rows')
    elif videos is not None:
        raise ValueError('the gallery is here, so its vectors are not given again (videos=)')
    else:
        vectors = state.gallery
    as_they_are = rows is None or state.gallery is None
    if geometry in SIDES:
        if out is not None:
            raise ValueError('items of several vectors have different shapes: leave out= away')
        some = vectors.unit(slice(None) if as_they_are else chosen)
        return [x.astype(dtype) for x in engine_items(some, biases)]
    shape = (len(chosen), vectors.width + 1)
    if out is None:
        out = np.empty(shape, dtype=dtype)
    elif out.shape != shape:
        raise ValueError(f'out must have the shape {list(shape)}, not {list(out.shape)}')
    for start in range(0, len(chosen), 2**14):
        part = slice(start, min(start + 2**14, len(chosen)))
        out[part, :-1] = vectors.unit(part if as_they_are else chosen[part]).cpu().numpy()
    out[:, -1] = biases.numpy()
    return out


def as_queries(
    state: State, geometry: Geometry, queries: Tensor, last: float
) -> Union[np.ndarray, list[np.ndarray]]:
    """Return queries as float32 [Q, D + 1]; see :meth:`mmvtr.arrays.Debiaser.query`."""
    check_additive(state.fitted, geometry)
    if geometry in SIDES:
        return engine_queries(queries, last)
    rows = queries.cpu().numpy()
    return np.concatenate([rows, np.full((len(rows), 1), last, np.float32)], axis=1)


def check_additive(fitted: Optional[ItemBiases], geometry: Geometry) -> None:
    """Raise ValueError unless one number per item makes the scores."""
    if geometry in SIDES and SIDES[geometry] != 'words':
        raise ValueError(f"no search engine ranks by {geometry!r}, only by 'maxsim'")
    if fitted is not None and TRANSFORMS[fitted.transform].form != 'additive':
        raise ValueError(
            f'{fitted.transform} does not add one number per item, so one more dimension '
            'cannot hold it: search with the Debiaser itself, or fit another transform'
        )
