"""Frames per second of decoding rendered clips on the CPU, and of frame towers on the device."""

from __future__ import annotations

import tempfile
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Callable

import torch

from gpu_check.report import Part, Row, Table
from gpu_check.setting import Setting
from gpu_check.timing import Figure, free, measure, mebibytes
from mmvtr.datasets.planted_corpus.store import make_corpus
from mmvtr.datasets.planted_corpus.world import Knobs
from mmvtr.datasets.videos.video_io import read_frames
from mmvtr.models.towers.open_clip import OpenCLIPFrames

#: A tower small enough for a smoke run.
TINY = dict(
    embed_dim=32,
    vision_cfg=dict(layers=1, width=32, head_width=16, patch_size=16, image_size=64),
    text_cfg=dict(context_length=8, vocab_size=50, width=32, heads=2, layers=1),
)


def decode(setting: Setting) -> Part:
    """Time decoding in one thread, on clips rendered for the planted corpus."""
    clips = 2 if setting.smoke else 64
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder) / 'corpus'
        make_corpus(corpus, Knobs(num_train=clips, num_val=1, num_test=1))
        files = sorted(map(str, corpus.glob('videos/*.mp4')))
        rates = {
            'all frames': _rate(lambda path: len(_whole(path)), files),
            '12 of a clip': _rate(lambda path: len(read_frames(path, _twelve)), files),
        }
    rows = [(name, f'{rate:,.0f}') for name, rate in rates.items()]
    about = f'{len(files)} clips of the planted corpus (64 x 64 pixels, H.264), one CPU thread.'
    return Part('Decoding', [about], [Table(('frames', 'a second'), rows)], values=rates)


def _whole(path: str) -> list:
    return list(read_frames(path, lambda times: torch.arange(len(times)).numpy()))


def _twelve(times: Any) -> Any:
    return torch.linspace(0, len(times) - 1, min(12, len(times))).round().long().numpy()


def _rate(read: Callable[[str], int], files: list[str]) -> float:
    read(files[0])
    start = time.perf_counter()
    frames = sum(map(read, files))
    return frames / (time.perf_counter() - start)


def towers(setting: Setting) -> Part:
    """Time ViT-B/32 and ViT-B/16 with random weights, eager and autocast, without gradients."""
    names = {'tiny ViT': TINY}
    if not setting.smoke:
        names = {'ViT-B/32': 'ViT-B-32-quickgelu', 'ViT-B/16': 'ViT-B-16-quickgelu'}
    rows: list[Row] = []
    values: dict[str, Any] = {}
    for title, model in names.items():
        torch.manual_seed(0)
        tower = OpenCLIPFrames(model).to(setting.device).eval()
        count = 4 if setting.smoke else 256
        generator = torch.Generator(setting.device).manual_seed(0)
        size = (count, 3, *tower.image_size)
        frames = torch.randn(size, generator=generator, device=setting.device)
        calls = {'float32': _pass(tower, frames, None)}
        for dtype in setting.low:
            calls[str(dtype).removeprefix('torch.')] = _pass(tower, frames, dtype)
        for how, figure in measure(calls, setting.device, repeats=setting.repeats).items():
            rows.append((title, how, frames_a_second(figure, count), mebibytes(figure)))
            values[f'{title}, {how}'] = dict(frames=count, **figure._asdict())
        del tower, frames, calls
        free(setting.device)
    return Part(
        'Frame towers',
        ['Forward passes of a batch of frames that is on the device.'],
        [Table(('tower', 'precision', 'frames a second', 'peak MiB'), rows)],
        values=values,
    )


def frames_a_second(figure: Figure, count: int) -> str:
    """Return the frames per second as a table cell."""
    return figure.note or f'{count / figure.seconds:,.0f}'


def _pass(tower: Any, frames: torch.Tensor, dtype: Any) -> Callable[[], Any]:
    @torch.no_grad()
    def call() -> Any:
        with nullcontext() if dtype is None else torch.autocast(frames.device.type, dtype):
            return tower(frames)

    return call
