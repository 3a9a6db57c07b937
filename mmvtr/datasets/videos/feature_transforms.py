"""Transforms of precomputed features: loading of text words, pooling of video frames."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
from mmcv.transforms import BaseTransform

from mmvtr.datasets.videos.feature_stores import broken_videos, open_store
from mmvtr.functional.values import check_one_of, check_range
from mmvtr.registry import TRANSFORMS

Results = dict[str, Any]


@TRANSFORMS.register_module()
class LoadTextFeatures(BaseTransform):
    """Load precomputed word features of a text as ``token_features``, float32 [L, D].

    They replace ``token_ids``.

    Args:
        path: an hdf5 file with a dataset per text id, or another store as in
            :class:`~mmvtr.datasets.LoadFeatures`; every array is float [L, D].
        max_words: maximum number of words; the first ones are kept.
        normalise: scale each word to unit length, see :func:`unit_rows`.
    """

    def __init__(self, path: str, *, max_words: int = 30, normalise: bool = False) -> None:
        check_range('[1, inf]', max_words=max_words)
        self.store = open_store(Path(path))
        self.max_words = max_words
        self.normalise = normalise

    def check(self, texts: list[Results]) -> None:
        """Raise FileNotFoundError or KeyError unless every text has its features."""
        self.store.check([text['text_id'] for text in texts], 'texts')

    def transform(self, results: Results) -> Results:
        """Set ``token_features`` from ``text_id``; ValueError if they cannot be read."""
        words = self.store.read(results['text_id'])[: self.max_words].astype(np.float32)
        results['token_features'] = unit_rows(words) if self.normalise else words
        return results


@TRANSFORMS.register_module()
class LoadVectors(BaseTransform):
    """Load stored vectors of an item for a supervision; no encoder sees them.

    They come from teachers (StoredTeachers) or from a frozen sentence encoder (CMGSDSupervision).

    Args:
        stores: by name an hdf5 file with a dataset for each id, or another store as in
            :class:`~mmvtr.datasets.LoadFeatures`; every array is float [E, D]: of E experts, or of
            the whole item with E = 1.
        side: 'text' or 'video', the kind of the pipeline.
        mean: average the rows, e.g. word features to a sentence vector.

    Raises:
        ValueError: no stores, another side.
    """

    def __init__(self, stores: dict[str, str], *, side: str, mean: bool = False) -> None:
        if not stores:
            raise ValueError('LoadVectors: stores must be a dict of paths by name, not empty')
        check_one_of(('text', 'video'), side=side)
        self.stores = {name: open_store(Path(path)) for name, path in stores.items()}
        self.side = side
        self.mean = mean

    def check(self, items: list[Results]) -> None:
        """Raise FileNotFoundError or KeyError unless every store has every item."""
        names = [item[self._key(item)] for item in items]
        for name, store in self.stores.items():
            store.check(names, f'{self.side}s (vectors {name!r})')

    def transform(self, results: Results) -> Results:
        """Set ``text_vectors`` or ``video_vectors``, float32 [E, D] by name, from the id.

        Raises:
            ValueError: vectors of a text cannot be read.
            BrokenVideoError: vectors of a video cannot be read.
        """
        item = results[self._key(results)]
        with broken_videos() if self.side == 'video' else nullcontext():
            read = {name: store.read(item) for name, store in self.stores.items()}
        read = {name: rows.astype(np.float32) for name, rows in read.items()}
        if self.mean:
            read = {name: rows.mean(0, keepdims=True) for name, rows in read.items()}
        key = f'{self.side}_vectors'
        results[key] = {**results.get(key, {}), **read}
        return results

    def _key(self, item: Results) -> str:
        key = f'{self.side}_id'
        if key not in item:
            raise ValueError(
                f'LoadVectors(side={self.side!r}) is in the pipeline of the other side'
            )
        return key


@TRANSFORMS.register_module()
class LoadFrameVectors(BaseTransform):
    """Load a teacher's vectors of the frames of a video, for a supervision (DL-DKD).

    They are resampled to the number of rows of ``features``, by means of consecutive rows as in
    PoolFeatures or by repetition: row k of both describes the same part of the video.  So this
    transform must follow those that change the number of frames.  (The official code first
    resamples the student's frames to the teacher's number, and then both to 128.)

    Args:
        stores: by name a store as in :class:`~mmvtr.datasets.LoadFeatures`; every array is float
            [F, D] of the whole video, in order.

    Raises:
        ValueError: no stores.
    """

    def __init__(self, stores: dict[str, str]) -> None:
        if not stores:
            raise ValueError('LoadFrameVectors: stores must be a dict of paths by name, not empty')
        self.stores = {name: open_store(Path(path)) for name, path in stores.items()}

    def check(self, videos: list[Results]) -> None:
        """Raise FileNotFoundError or KeyError unless every store has every video."""
        names = [video['video_id'] for video in videos]
        for name, store in self.stores.items():
            store.check(names, f'videos (frame vectors {name!r})')

    def transform(self, results: Results) -> Results:
        """Set ``video_frame_vectors``, float32 [F, D'] by name, from ``video_id`` and ``features``.

        Raises:
            BrokenVideoError: they cannot be read.
            ValueError: no previous step has set ``features``.
        """
        if 'features' not in results:
            raise ValueError(
                'LoadFrameVectors must come after LoadFeatures and PoolFeatures: the teacher has '
                'to know how many frames there are'
            )
        count = len(results['features'])
        read = {}
        for name, store in self.stores.items():
            with broken_videos():
                rows = store.read(results['video_id']).astype(np.float32)
            read[name] = rows if len(rows) == count else mean_pool(rows, count)
        results['video_frame_vectors'] = {**results.get('video_frame_vectors', {}), **read}
        return results


@TRANSFORMS.register_module()
class PoolFeatures(BaseTransform):
    """Shorten ``features`` [F, D] to at most ``num_frames`` rows, means of consecutive ones.

    A video of fewer rows is unchanged.

    Args:
        num_frames: rows to keep; MS-SL and its successors keep 128.
        normalise: scale each row to unit length afterwards, see :func:`unit_rows`.
    """

    def __init__(self, num_frames: int = 128, *, normalise: bool = False) -> None:
        check_range('[1, inf]', num_frames=num_frames)
        self.num_frames = num_frames
        self.normalise = normalise

    def transform(self, results: Results) -> Results:
        """Pool ``features``, float32 [F, D] -> [n, D]."""
        features = results['features']
        if len(features) > self.num_frames:
            features = mean_pool(features, self.num_frames)
        results['features'] = unit_rows(features) if self.normalise else features
        return results


@TRANSFORMS.register_module()
class TrimFeatures(BaseTransform):
    """Keep at most ``num_frames`` rows of ``features``, evenly spread, including both ends.

    Row i is the one nearest to i (F - 1) / (num_frames - 1), halves to even, as in HGR's choice of
    20 frames.  (``sampling='uniform'`` of LoadFeatures rounds down, like CLIP4Clip.)
    """

    def __init__(self, num_frames: int = 20) -> None:
        check_range('[1, inf]', num_frames=num_frames)
        self.num_frames = num_frames

    def transform(self, results: Results) -> Results:
        """Trim ``features``, float32 [F, D] -> [n, D]."""
        features = results['features']
        if len(features) > self.num_frames:
            rows = np.linspace(0, len(features) - 1, self.num_frames).round().astype(int)
            results['features'] = features[rows]
        return results


def mean_pool(x: np.ndarray, num: int) -> np.ndarray:
    """Return means of consecutive rows, float [F, D] -> [num, D], about equally many each.

    Row i is the mean of rows e[i] to e[i + 1] - 1, or row e[i] if there are none, with e[i] =
    min(round(i F / num), F - 1), halves to even.  So if F > num the last mean omits the very last
    row when it has others; this matches MS-SL's code, whose numbers papers compare.
    """
    edges = np.minimum(np.round(np.arange(num + 1) / num * len(x)).astype(int), len(x) - 1)
    starts = edges[:-1]
    # reduceat sums from one start to the next, and takes a single row if they are equal.
    sums = np.add.reduceat(x[: max(edges[-1], starts[-1] + 1)], starts)
    return sums / np.maximum(np.diff(edges), 1)[:, None].astype(x.dtype)


def unit_rows(x: np.ndarray, eps: float = 1e-5) -> np.ndarray:
    """Return rows divided by their length plus ``eps`` (MS-SL); zero rows stay zero."""
    return x / (np.linalg.norm(x, axis=-1, keepdims=True) + eps)
