"""Frames that show what is in a video, from stored frames or its file."""

from __future__ import annotations

from functools import partial
from typing import Any, Callable, NamedTuple, Sequence

import numpy as np

from mmvtr.datasets.videos.frame_sampling import uniform
from mmvtr.datasets.videos.resizing import resize_short_side
from mmvtr.datasets.videos.transforms import LoadFrames
from mmvtr.datasets.videos.video_io import BrokenVideoError, read_frames

NO_FRAMES = np.zeros((0, 1, 1, 3), dtype=np.uint8)


class FilmStrip(NamedTuple):
    """Frames spread evenly over a video.

    Attributes:
        frames: uint8 [F, H, W, 3]; none (F = 0) if they cannot be read.
        lacking: why there are none: 'broken' or 'no frames'; '' if there are some.
    """

    frames: np.ndarray
    lacking: str


def film_strip(
    video: dict[str, Any],
    pipeline: Sequence[Callable],
    *,
    num_frames: int = 6,
    height: int = 112,
) -> FilmStrip:
    """Return frames that show a video's content.

    They come from stored frames if the pipeline reads them, else from the video file, even for a
    model that reads only features, if the files exist.

    Args:
        video: its record, see :meth:`VideoTextDataset.load_annotations`.
        pipeline: the transforms of its dataset.
        num_frames: F, if the video has as many.
        height: short side in pixels to which larger frames are scaled.
    """
    select = partial(uniform, num_frames=num_frames)
    stores = [step.store for step in pipeline if isinstance(step, LoadFrames)]
    try:
        if stores:
            frames = stores[0].read(video, select)
        elif 'path' in video:
            clip = {key: video[key] for key in ('start', 'end') if key in video}
            frames = read_frames(str(video['path']), select, **clip)
        else:
            return FilmStrip(NO_FRAMES, 'no frames')
    except FileNotFoundError:
        return FilmStrip(NO_FRAMES, 'no frames')
    except BrokenVideoError:
        return FilmStrip(NO_FRAMES, 'broken')
    if min(frames[0].shape[:2]) > height:
        frames = resize_short_side(frames, height)
    return FilmStrip(np.stack(frames), '')
