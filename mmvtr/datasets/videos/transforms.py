"""Video transforms: from a file or a feature store to ``imgs`` or ``features``.

They follow mmcv's interface: ``transform(results: dict) -> dict``, ``imgs`` is a list of uint8 RGB
[H, W, 3] arrays. Randomness comes from numpy's global generator, which the dataset seeds.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Optional, Sequence, Union

import numpy as np
from mmcv.transforms import BaseTransform

from mmvtr.datasets.annotation_values import name_of
from mmvtr.datasets.folders import missing_files
from mmvtr.datasets.videos.feature_stores import broken_videos, open_store
from mmvtr.datasets.videos.frame_sampling import per_second_random, sampling_named
from mmvtr.datasets.videos.frame_store import FrameStore
from mmvtr.datasets.videos.resizing import resize, resize_short_side
from mmvtr.datasets.videos.video_io import MAX_BYTES, BrokenVideoError, read_frames
from mmvtr.registry import TRANSFORMS

Results = dict[str, Any]


@TRANSFORMS.register_module()
class LoadVideo(BaseTransform):
    """Decode frames of the file ``path`` to ``imgs``.

    A record may hold ``start`` and ``end`` (seconds): the clip of the file to sample from.

    Args:
        num_frames: maximum number of frames; a shorter clip keeps all of them.
        sampling: 'uniform', 'per_second', 'stride', 'per_second_random' or 'segment_random'
            (training; 'per_second' and 'segment_centre' are their test-time companions); see
            :mod:`mmvtr.datasets.videos.frame_sampling`.
        max_bytes: maximum memory of a video's chosen frames as decoded, 3 bytes per pixel; a video
            that exceeds it counts as broken. 4 GiB are 170 frames of 3840 x 2160.
    """

    def __init__(
        self, num_frames: int = 12, *, sampling: str = 'uniform', max_bytes: int = MAX_BYTES
    ) -> None:
        self.num_frames = num_frames
        self.select = sampling_named(sampling)
        self.max_bytes = max_bytes

    def check(self, videos: list[Results]) -> None:
        """Raise FileNotFoundError unless every video file exists (one listing per folder)."""
        missing = missing_files(Path(v['path']) for v in videos)
        if missing:
            raise FileNotFoundError(
                f'{len(missing)} of {len(videos)} video files are missing: '
                + ', '.join(name_of(path, 100) for path in missing[:3])
                + (', ...' if len(missing) > 3 else '')
            )

    def missing(self, videos: list[Results]) -> list[str]:
        """Return ids of the videos without a file."""
        missing = set(missing_files(Path(v['path']) for v in videos))
        return [v['video_id'] for v in videos if Path(v['path']) in missing]

    def transform(self, results: Results) -> Results:
        """Set ``imgs`` from ``path``; raises :class:`BrokenVideoError`."""
        results['imgs'] = read_frames(
            results['path'],
            lambda times: self.select(times, self.num_frames),
            start=results.get('start'),
            end=results.get('end'),
            max_bytes=self.max_bytes,
        )
        return results


@TRANSFORMS.register_module()
class LoadFrames(BaseTransform):
    """Load frames stored by tools/extract_frames.py as ``imgs``, instead of LoadVideo.

    The sampling applies to the stored frames: it gives those of LoadVideo if all frames are stored,
    or, for 'per_second', one per second (:func:`~mmvtr.datasets.videos.frame_sampling.at_rate`).

    Args:
        path: the folder of shards, see :mod:`mmvtr.datasets.videos.frame_store`.
        num_frames, sampling: as for :class:`LoadVideo`.
    """

    def __init__(self, path: str, num_frames: int = 12, *, sampling: str = 'uniform') -> None:
        self.store = FrameStore(Path(path))
        self.num_frames = num_frames
        self.select = sampling_named(sampling)

    def check(self, videos: list[Results]) -> None:
        """Raise FileNotFoundError, KeyError or ValueError unless all clips are stored whole.

        Also if they were stored with too few frames a second for a random begin.
        """
        self.store.check(videos)
        fps = self.store.settings.fps
        if self.select is per_second_random and fps is not None and fps < 3:
            raise ValueError(
                f'{self.store.path}: stored with {fps} frame{"s" * (fps > 1)} a second, of which '
                "sampling='per_second_random' would always take the same: store all "
                "(tools/extract_frames.py) or take sampling='per_second'"
            )

    def missing(self, videos: list[Results]) -> list[str]:
        """Return ids of videos that are not stored; FileNotFoundError if there is no store."""
        return self.store.missing(videos)

    def transform(self, results: Results) -> Results:
        """Set ``imgs`` and ``stored_size`` from ``video_id``; raises :class:`BrokenVideoError`."""
        results['imgs'] = self.store.read(
            results, lambda times: self.select(times, self.num_frames)
        )
        results['stored_size'] = self.store.settings.size
        return results


@TRANSFORMS.register_module()
class LoadFeatures(BaseTransform):
    """Load precomputed frame features of a video as ``features``, float32 [F, D].

    Rows of several stores are concatenated; D is the sum of their widths. Stores with other frame
    rates are each sampled to ``num_frames`` rows in the same way; rows are never repeated or cut
    off.

    Args:
        path: a folder with ``VIDEO_ID.npy`` files, one hdf5 file (``.h5``, ``.hdf5``) with a
            dataset per video id, or a BigFile folder (``feature.bin``, ``video2frames.txt`` ...);
            every array is float [F, D]. A list = several of them.
        num_frames: maximum number of rows, None = all.
        sampling: as in :class:`LoadVideo`; rows count as one second apart.
        columns: concatenated half-open ranges of the D columns to keep:
            ``[(0, 1024), (2048, 3072)]``; None = all.

    Raises:
        ValueError: no store, invalid columns; (transforming) columns beyond D.
    """

    def __init__(
        self,
        path: Union[str, Sequence[str]],
        *,
        num_frames: Optional[int] = None,
        sampling: str = 'uniform',
        columns: Optional[Sequence[tuple[int, int]]] = None,
    ) -> None:
        paths = [path] if isinstance(path, str) else path
        if not paths:
            raise ValueError('LoadFeatures: path is an empty list, at least one store expected')
        self.stores = [open_store(Path(path)) for path in paths]
        self.num_frames = num_frames
        self.select = sampling_named(sampling)
        if columns is not None and not (columns and all(0 <= a < b for a, b in columns)):
            raise ValueError(
                f'LoadFeatures: columns {columns}, expected pairs (first, last) with first < last'
            )
        self.columns = columns

    def check(self, videos: list[Results]) -> None:
        """Raise FileNotFoundError or KeyError unless every video has its features."""
        for store in self.stores:
            store.check([video['video_id'] for video in videos], 'videos')

    def missing(self, videos: list[Results]) -> list[str]:
        """Return ids of videos that a store lacks; FileNotFoundError if there is no store."""
        ids = [video['video_id'] for video in videos]
        lacking: set[str] = set()
        for store in self.stores:
            store.check([], 'videos')
            lacking.update(store.missing(ids))
        return [name for name in ids if name in lacking]

    def transform(self, results: Results) -> Results:
        """Set ``features`` from ``video_id``; raises :class:`BrokenVideoError`."""
        with broken_videos():
            parts = [store.read(results['video_id']) for store in self.stores]
        if self.num_frames is not None:
            # One random draw per length: stores with equal lengths keep the same frames.
            lengths = dict.fromkeys(len(part) for part in parts)
            rows = {n: self.select(np.arange(n), self.num_frames) for n in lengths}
            parts = [part[rows[len(part)]] for part in parts]
        if len({len(part) for part in parts}) > 1:
            raise BrokenVideoError(self._uneven(results['video_id'], parts))
        features = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
        if self.columns is not None:
            features = self._cut(features, results['video_id'])
        results['features'] = features.astype(np.float32)
        return results

    def _cut(self, features: np.ndarray, video_id: str) -> np.ndarray:
        last, width = max(b for _, b in self.columns), features.shape[1]
        if last > width:
            raise ValueError(
                f'LoadFeatures: columns go up to {last}, but the features of {video_id!r} are '
                f'{width} wide'
            )
        return np.concatenate([features[:, a:b] for a, b in self.columns], axis=1)

    def _uneven(self, video_id: str, parts: list[np.ndarray]) -> str:
        counts = ', '.join(f'{len(part)} in {s.path}' for s, part in zip(self.stores, parts))
        return (
            f'features of {video_id!r}: {counts} rows with num_frames={self.num_frames}; equally '
            'many expected: take a num_frames that every store reaches'
        )


@TRANSFORMS.register_module()
class ResizeShortSide(BaseTransform):
    """Scale ``imgs`` so that the short side is ``size``: bicubic with antialiasing, as in CLIP.

    Raises:
        ValueError: the frames were stored smaller than that (``stored_size``, of LoadFrames).
    """

    def __init__(self, size: int = 224) -> None:
        self.size = size

    def transform(self, results: Results) -> Results:
        """Scale ``imgs`` [H, W, 3] -> [H', W', 3], min(H', W') = size."""
        refuse_smaller_store(results, self.size, f'ResizeShortSide({self.size})')
        results['imgs'] = resize_short_side(results['imgs'], self.size)
        return results


@TRANSFORMS.register_module()
class CenterCrop(BaseTransform):
    """Keep the central ``size`` x ``size`` square of ``imgs``; a smaller image is an error."""

    def __init__(self, size: int = 224) -> None:
        self.size = size

    def transform(self, results: Results) -> Results:
        """Crop ``imgs`` [H, W, 3] -> [size, size, 3]."""
        height, width = results['imgs'][0].shape[:2]
        if min(height, width) < self.size:
            raise ValueError(f'CenterCrop({self.size}): the image is smaller, {height} x {width}')
        top, left = round((height - self.size) / 2), round((width - self.size) / 2)
        results['imgs'] = [
            img[top : top + self.size, left : left + self.size] for img in results['imgs']
        ]
        return results


@TRANSFORMS.register_module()
class RandomRoll(BaseTransform):
    """Shift all frames cyclically by one random offset: positions change, motion does not."""

    def transform(self, results: Results) -> Results:
        """Shift ``imgs`` by an offset drawn uniformly over the image."""
        shift = np.random.randint(results['imgs'][0].shape[:2])
        results['imgs'] = [np.roll(img, shift, axis=(0, 1)) for img in results['imgs']]
        return results


def refuse_smaller_store(results: Results, size: int, name: str) -> None:
    """Raise ValueError if frames stored smaller than ``size`` would be enlarged."""
    stored = results.get('stored_size')
    if stored is not None and stored < size:
        raise ValueError(
            f'{name}: the frames of {results["video_id"]!r} were stored with a short side of '
            f'{stored} pixels; extract them with --size {size}'
        )


@TRANSFORMS.register_module()
class OpenCLIPResize(BaseTransform):
    """Scale ``imgs`` to a model's input size, as open_clip does at test time.

    For CLIP the short side is scaled and the centre cropped; for SigLIP, PE and CLIPA the whole
    frame is squashed to a square.  The model also determines the interpolation.

    Args:
        model: name, ``local-dir:FOLDER`` or config dict, as for the frame tower.
        tag: tag of the weights, for models whose preprocessing depends on it (ViT-H-14).

    Raises:
        ValueError: an unknown model or tag, a missing tag of a model whose tags differ, or an
            unsupported resize mode.
    """

    def __init__(self, model: str | dict, tag: Optional[str] = None) -> None:
        # Importing takes seconds, so only on use.
        from mmvtr.open_clip_configs import preprocessing

        published = preprocessing(model, tag)
        self.size, self.mode = published.size, published.interpolation
        self.squash = published.resize_mode == 'squash'
        if published.resize_mode not in ('squash', 'shortest') or self.mode == 'random':
            raise ValueError(
                f'OpenCLIPResize knows no resize_mode={published.resize_mode!r} with interpolation='
                f'{self.mode!r}: take ResizeShortSide and CenterCrop'
            )
        if not self.squash and self.size[0] != self.size[1]:
            raise ValueError(f'OpenCLIPResize cuts squares only, not {self.size}')

    def transform(self, results: Results) -> Results:
        """Scale ``imgs`` [H, W, 3] -> [height, width, 3] of the model."""
        short = min(self.size)
        refuse_smaller_store(results, short, f'OpenCLIPResize to {list(self.size)}')
        if self.squash:
            results['imgs'] = resize(results['imgs'], self.size, mode=self.mode)
            return results
        results['imgs'] = resize_short_side(results['imgs'], short, mode=self.mode)
        return CenterCrop(short).transform(results)
