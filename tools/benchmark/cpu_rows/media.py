"""Real towers and video reading beside a bare loop of open_clip and the readers of others."""

from __future__ import annotations

import importlib.util
import tempfile
from functools import partial
from pathlib import Path
from typing import Any, Callable

import av
import cv2
import numpy as np
import open_clip
import torch
import torch.nn.functional as F
from av.video.reformatter import VideoReformatter
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from cpu_rows.papers import TEACHERS, Step, taught
from cpu_rows.steps import collated, contrast
from cpu_rows.timing import Call, Row, beside
from mmvtr.datasets.videos.frame_sampling import uniform
from mmvtr.datasets.videos.video_io import read_frames

TOWER, VIDEOS, FRAMES, WORDS, KEPT = 'ViT-B-32-quickgelu', 4, 4, 77, 12
ENCODER = dict(
    encoder=dict(
        type='mmvtr.CLIP4Clip',
        frames=dict(type='mmvtr.OpenCLIPFrames', model=TOWER, pretrained=None),
        text=dict(type='mmvtr.OpenCLIPText', model=TOWER, pretrained=None),
    )
)


def media(quick: bool, repeats: int) -> list[Row]:
    """A step of ViT-B/32, and 12 frames of clips with one and with many key frames."""
    size = (64, 48, 20) if quick else (640, 360, 250)
    rows = [] if quick else _of_a_tower(repeats)
    with tempfile.TemporaryDirectory() as folder:
        for name, group in (('one key frame', size[2]), ('a key frame in 12', 12)):
            path = str(Path(folder) / f'{group}.mp4')
            write_clip(path, size, group)
            rows += _of_a_clip(f'{KEPT} frames of {size[2]}, {name}', path, repeats)
        long = str(Path(folder) / 'long.mp4')
        write_clip(long, (*size[:2], 20 if quick else 500), 50)
        rows += _of_workers(long, 2 if quick else 8, repeats)
    return rows


def _of_a_tower(repeats: int) -> list[Row]:
    generator = torch.Generator().manual_seed(0)
    shape = (VIDEOS, FRAMES, 3, 224, 224)
    frames = torch.randint(0, 255, shape, dtype=torch.uint8, generator=generator)
    words = torch.randint(1, 40_000, (VIDEOS, WORDS), generator=generator)
    words[:, 0], words[:, -1] = 49_406, 49_407
    data = collated(frames, words)
    rows = beside(f'a step of ViT-B/32, {VIDEOS} x {FRAMES} frames', Step(ENCODER, data),
                  {'open_clip in a loop': _bare_tower(frames, words)}, repeats)  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        student = Step({**ENCODER, **taught(folder, VIDEOS)}, data)
        work = f'the same of a student of {TEACHERS}'
        return rows + beside(work, student, {'without teachers': Step(ENCODER, data)}, repeats)


def _bare_tower(frames: Tensor, words: Tensor) -> Call:
    model = open_clip.create_model(TOWER, pretrained=None).train()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-5)
    mean, std = (
        255 * torch.tensor(x).view(3, 1, 1)
        for x in (open_clip.OPENAI_DATASET_MEAN, open_clip.OPENAI_DATASET_STD)
    )

    def call() -> None:
        pictures = ((frames.float() - mean) / std).flatten(0, 1)
        of_frames = F.normalize(model.encode_image(pictures), dim=-1).unflatten(0, (VIDEOS, -1))
        videos = F.normalize(of_frames.mean(1), dim=-1)
        texts = F.normalize(model.encode_text(words), dim=-1)
        contrast(model.logit_scale.exp() * texts @ videos.t()).backward()
        optimizer.step()
        optimizer.zero_grad()

    return call


def write_clip(path: str, size: tuple[int, int, int], group: int) -> None:
    """A picture that moves: width, height, frames; H.264, a key frame in so many."""
    width, height, count = size
    noise = np.random.default_rng(0).integers(0, 255, (height, width + count, 3), dtype=np.uint8)
    noise = cv2.GaussianBlur(noise, (0, 0), 5)
    with av.open(path, 'w') as file:
        stream = file.add_stream('libx264', rate=25, options=dict(g=str(group)))
        stream.width, stream.height, stream.pix_fmt = width, height, 'yuv420p'
        for i in range(count):
            picture = np.ascontiguousarray(noise[:, i : i + width])
            file.mux(stream.encode(av.VideoFrame.from_ndarray(picture)))
        file.mux(stream.encode())


def _of_a_clip(work: str, path: str, repeats: int) -> list[Row]:
    """The readers of others are asked for the same frames."""
    anchors = {name: partial(read, path) for name, read in _readers().items()}
    return beside(work, partial(_by_mmvtr, path), anchors, repeats, _same_pictures)


class Clips(Dataset):
    """A clip so many times, each read anew."""

    def __init__(self, read: Callable[[str], Any], path: str, count: int) -> None:
        self.read, self.path, self.count = read, path, count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Tensor:
        return torch.from_numpy(np.stack([*self.read(self.path)]))


def _of_workers(path: str, count: int, repeats: int) -> list[Row]:
    """A pass of a loader with two workers, whose start counts, too."""

    def passed(read: Callable[[str], Any]) -> Call:
        loader = DataLoader(Clips(read, path, count), batch_size=4, num_workers=2)
        return lambda: [picture for batch in loader for picture in batch.flatten(0, 1).numpy()]

    anchors = {name: passed(read) for name, read in _readers().items()}
    work = f'{KEPT} frames of each of {count} clips of 20 s, 2 workers'
    return beside(work, passed(_by_mmvtr), anchors, repeats, _same_pictures)


def _by_mmvtr(path: str) -> list[np.ndarray]:
    return read_frames(path, lambda t: uniform(t, KEPT))


def _readers() -> dict[str, Callable[[str], Any]]:
    """Those of others that are installed; imported here, as their memory is not the call's."""
    readers = {'PyAV, all frames': _decoded, 'OpenCV, grab': _grabbed}
    if importlib.util.find_spec('decord'):
        importlib.import_module('decord')
        readers['decord'] = _by_decord
    if importlib.util.find_spec('torchcodec'):
        importlib.import_module('torchcodec.decoders')
        readers['torchcodec'] = _by_torchcodec
    return readers


def _same_pictures(one: Any, other: Any) -> str:
    pairs = [(a.astype(int), np.asarray(b).astype(int)) for a, b in zip(one, other)]
    return f'within {max(float(np.abs(a - b).mean()) for a, b in pairs):.1g} of 255'


def _wanted(count: int) -> list[int]:
    return np.linspace(0, count - 1, KEPT, dtype=np.int64).tolist()


def _decoded(path: str) -> list[np.ndarray]:
    with av.open(path) as file:
        stream = file.streams.video[0]
        stream.codec_context.thread_count = 1
        wanted = {*_wanted(stream.frames)}
        frames = enumerate(file.decode(stream))
        # In PyAV 19 the threads of its shared converter are gone in a forked worker, which waits.
        convert = partial(VideoReformatter().reformat, format='rgb24', threads=1)
        return [convert(frame).to_ndarray() for i, frame in frames if i in wanted]


def _grabbed(path: str) -> list[np.ndarray]:
    video = cv2.VideoCapture(path, cv2.CAP_FFMPEG, [cv2.CAP_PROP_N_THREADS, 1])
    count, found = int(video.get(cv2.CAP_PROP_FRAME_COUNT)), []
    wanted = {*_wanted(count)}
    for i in range(count):
        video.grab()
        if i in wanted:
            found.append(cv2.cvtColor(video.retrieve()[1], cv2.COLOR_BGR2RGB))
    return found


def _by_decord(path: str) -> Any:
    import decord

    reader = decord.VideoReader(path, num_threads=1)
    return reader.get_batch(_wanted(len(reader))).asnumpy()


def _by_torchcodec(path: str) -> Any:
    from torchcodec.decoders import VideoDecoder

    reader = VideoDecoder(path, num_ffmpeg_threads=1, dimension_order='NHWC')
    return reader.get_frames_at(_wanted(len(reader))).data.numpy()
