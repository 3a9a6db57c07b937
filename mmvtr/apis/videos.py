"""Encoding of video files like those of the test set."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Optional, Sequence, Union

import torch
from mmengine.config import Config
from torch import nn

from mmvtr.apis.sets import encode_set
from mmvtr.arrays.inputs import in_order
from mmvtr.datasets.folders import visible
from mmvtr.datasets.sampling.collate import collate_of
from mmvtr.datasets.video_text import VideoTextDataset
from mmvtr.datasets.videos.missing import OnBroken
from mmvtr.engine.loops.evaluation import Encoded, encode_batch

Span = tuple[Optional[float], Optional[float]]


def encode_videos(
    model: nn.Module,
    cfg: Config,
    paths: Sequence[Union[str, Path]],
    *,
    ids: Optional[Sequence[str]] = None,
    spans: Optional[Sequence[Span]] = None,
    on_broken: OnBroken = 'raise',
    progress: bool = False,
) -> Encoded:
    """Encode video files like those of the test set.

    Args:
        model: a retriever in eval mode.
        cfg: its config.
        paths: V files.
        ids: one per file; default the file names without suffix.
        spans: start and end of each in its file, in seconds; None for its begin or end.
        on_broken: 'raise', or 'skip': videos that cannot be read are missing from the result, and a
            warning names them.
        progress: show a bar.

    Returns:
        V items in that order.

    Raises:
        ValueError: no paths, a repeated id, not one id or span per path, or no readable video.
        TypeError: one string instead of several.
        FileNotFoundError: a file is missing.
        BrokenVideoError: a video cannot be read and ``on_broken='raise'``.
    """
    if isinstance(paths, str):
        raise TypeError(f'a list of strings expected, not the string {paths!r}')
    paths = in_order(paths, 'paths')
    if not paths:
        raise ValueError('nothing to encode: no video')
    ids = [visible(Path(path).stem) for path in paths] if ids is None else in_order(ids, 'ids')
    if len(ids) != len(paths):
        raise ValueError(f'one id per video expected: {len(paths)} paths, {len(ids)} ids')
    spans = [(None, None)] * len(paths) if spans is None else list(spans)
    if len(spans) != len(paths):
        raise ValueError(f'one span per video expected: {len(paths)} paths, {len(spans)} spans')
    videos = [_record(*row) for row in zip(ids, paths, spans)]
    dataset = _Files(videos, cfg, on_broken)
    loader = dict(cfg.test_dataloader, dataset=dataset)
    return encode_set(model, loader, kinds=['video'], progress=progress)['video']


class VideoEncoder:
    """:func:`encode_videos` for servers: any thread reads files, the model's thread encodes them.

    Args:
        model: a retriever in eval mode.
        cfg: its config.

    Example:
        ::

            >>> encode = VideoEncoder(model, cfg)
            >>> levels = encode(encode.read('one.mp4', start=3.0)).levels
    """

    def __init__(self, model: nn.Module, cfg: Config) -> None:
        self.model, self._cfg = model, cfg

    def read(
        self,
        path: Union[str, Path],
        *,
        start: Optional[float] = None,
        end: Optional[float] = None,
    ) -> dict[str, Any]:
        """Return a batch of one video or a part of it in seconds; safe from several threads.

        Raises:
            BrokenVideoError: the video cannot be read.
            FileNotFoundError: the file is missing.
        """
        dataset = _Files([_record('video', path, (start, end))], self._cfg, 'raise')
        return collate_of(self._cfg.test_dataloader)([dataset.load_video(0)])

    @torch.no_grad()
    def __call__(self, batch: dict[str, Any]) -> Encoded:
        """Return one encoded item of a read batch; one thread at a time."""
        return encode_batch(self.model, 'video', batch, amp=False)


class _Files(VideoTextDataset):
    """Dataset of the given videos without texts, read like the test set's."""

    def __init__(self, videos: list[dict[str, Any]], cfg: Config, on_broken: OnBroken) -> None:
        self._given = videos
        steps = cfg.test_dataloader.dataset.video_pipeline
        super().__init__(steps, [], on_broken=on_broken)

    def load_annotations(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        return self._given, []

    def origin(self) -> str:
        return 'the given videos'


def _record(name: str, path: Union[str, Path], span: Span) -> dict[str, Any]:
    times = {key: x for key, x in zip(('start', 'end'), span) if x is not None}
    return dict(video_id=name, path=str(path), **times)
