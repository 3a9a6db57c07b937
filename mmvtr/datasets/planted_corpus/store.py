"""Files of a planted corpus: created whole or not at all, and checked when opened.

A folder holds ``corpus.json`` (knobs, videos with their facts, texts with their meaning),
``truth.npz`` (``<split>_holds`` as packed bits, ``<split>_relevance``), ``vocab.txt`` (all words of
the grammar, one per line), ``videos/<split>_<number>.mp4`` and ``README.md``, a data card.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import time
import uuid
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Iterator, Mapping

import av
import cv2
import numpy as np
from mmengine.logging import print_log

from mmvtr.cli.progress import show_progress
from mmvtr.datasets.annotation_files import read_json
from mmvtr.datasets.planted_corpus.drawing import draw
from mmvtr.datasets.planted_corpus.grammar import (
    Truth,
    caption_counts,
    draw_captions,
    false_negative_share,
    judge,
    vocabulary,
)
from mmvtr.datasets.planted_corpus.world import (
    FPS,
    GENERATOR_VERSION,
    SPLITS,
    Knobs,
    draw_clip,
    num_frames,
    stream,
)
from mmvtr.errors import UserError
from mmvtr.storage import read_arrays, write_atomically

Records = list[dict[str, Any]]

_CHECKED = ('truth.npz', 'vocab.txt')
_MAX_PROCESSES = 8


@contextmanager
def drafted(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder that is renamed to ``folder`` if the block succeeds.

    Safe against interruption (no ``folder`` then) and concurrent writers (the first to finish wins,
    the others discard their copies).
    """
    draft = folder.parent / f'.{folder.name}.{uuid.uuid4().hex[:8]}'
    draft.mkdir(parents=True)
    try:
        yield draft
        try:
            os.replace(draft, folder)
        except OSError:
            if not folder.is_dir():
                raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def make_corpus(folder: Path, knobs: Knobs) -> None:
    """Create a corpus.

    Args:
        folder: the corpus, which must not exist; see :func:`drafted`.
        knobs: knobs of the corpus.
    """
    clips = sum(knobs.num_clips(split) for split in SPLITS)
    print_log(f'Making the planted corpus {folder}: {clips} clips, {knobs}', logger='current')
    started = time.monotonic()
    with drafted(folder) as draft:
        _write(draft, knobs)
    seconds = time.monotonic() - started
    print_log(f'Made the planted corpus {folder} in {seconds:.1f} s', logger='current')


def publish_vocabulary(data_root: Path) -> None:
    """Copy ``vocab.txt``, the same for all corpora, into ``data_root``, where configs expect it."""
    target, text = data_root / 'vocab.txt', _vocabulary_text()
    if not target.is_file() or target.read_text() != text:
        write_atomically(target, lambda file: file.write(text.encode()))


def draw_split(knobs: Knobs, split: str) -> tuple[Records, Records]:
    """Return the videos and texts of one split, as :func:`open_corpus` does."""
    videos, texts = [], []
    for v, count in enumerate(caption_counts(knobs, split)):
        name = f'{split}_{v:04d}'
        moments = draw_clip(knobs, split, v)
        frames = sum(num_frames(moments))
        path = f'videos/{name}.mp4'
        videos.append(dict(video_id=name, path=path, num_frames=frames, moments=moments))
        for k, caption in enumerate(draw_captions(knobs, split, v, moments, count)):
            texts.append(dict(text_id=f'{name}#{k}', video_idx=[v], **caption))
    return videos, texts


def open_corpus(folder: Path, knobs: Knobs, split: str) -> tuple[Records, Records]:
    """Return the videos and texts of one split, read from its files.

    Args:
        folder: the corpus, from ``make_corpus``.
        knobs: the knobs that it is expected to have.
        split: 'train', 'val' or 'test'.

    Returns:
        Videos, as dict(video_id, path, num_frames, moments: see ``world.draw_clip``), and texts,
        as dict(text_id, video_idx, and the keys of ``grammar.draw_captions``).

    Raises:
        FileNotFoundError: a file is missing; the message names it.
        RuntimeError: a file has another version or was changed; the message names it.
    """
    try:
        corpus = read_json(_present(folder, 'corpus.json'), ('sha256', 'splits'))
    except ValueError as error:
        raise UserError(f'{error}; {_advice(folder)}') from error
    for name, expected in dict(version=GENERATOR_VERSION, knobs=knobs.identity).items():
        if corpus.get(name) != expected:
            problem = f'{name} is {corpus.get(name)}, expected {expected}'
            raise UserError(f'{folder / "corpus.json"}: {problem}; {_advice(folder)}')
    for name in _CHECKED:
        if _sha256(_present(folder, name)) != corpus['sha256'][name]:
            raise UserError(f'{folder / name} was changed after its making; {_advice(folder)}')
    videos, texts = corpus['splits'][split]['videos'], corpus['splits'][split]['texts']
    for video in videos:
        video['path'] = str(_present(folder, video['path']))
    return videos, texts


def read_truth(folder: Path, split: str, num_videos: int) -> Truth:
    """Return the result of ``grammar.judge`` for the texts and videos of one split."""
    names = f'{split}_holds', f'{split}_relevance'
    packed, relevance = read_arrays(folder / 'truth.npz', names).values()
    return Truth(np.unpackbits(packed, axis=1, count=num_videos).astype(bool), relevance)


def _write(folder: Path, knobs: Knobs) -> None:
    (folder / 'videos').mkdir()
    splits, arrays, jobs, counts = {}, {}, [], {}
    for split in SPLITS:
        videos, texts = draw_split(knobs, split)
        truth = judge(texts, [video['moments'] for video in videos])
        arrays[f'{split}_holds'] = np.packbits(truth.holds, axis=1)
        arrays[f'{split}_relevance'] = truth.relevance
        annotated = np.array([text['video_idx'] for text in texts]) == np.arange(len(videos))
        share = 100 * false_negative_share(truth.holds, annotated)
        print_log(f'{split}: {share:.3f} % of the unannotated pairs are true', logger='current')
        splits[split] = dict(videos=videos, texts=texts)
        counts[split] = len(videos), len(texts), share
        jobs += [(folder, knobs, split, v, video) for v, video in enumerate(videos)]
    _render(jobs)
    np.savez_compressed(folder / 'truth.npz', **arrays)
    (folder / 'vocab.txt').write_text(_vocabulary_text())
    (folder / 'README.md').write_text(data_card(knobs, counts))
    corpus = dict(
        version=GENERATOR_VERSION,
        knobs=knobs.identity,
        sha256={name: _sha256(folder / name) for name in _CHECKED},
        splits=splits,
    )
    (folder / 'corpus.json').write_text(json.dumps(corpus))


def _vocabulary_text() -> str:
    return '\n'.join(vocabulary()) + '\n'


def _render(jobs: list[tuple]) -> None:
    processes = min(_MAX_PROCESSES, os.cpu_count() or 1)
    # A forked child draws at once; a spawned one would first import torch and the main script.  The
    # signal that ends the pool must end the child: an inherited handler of a tool
    # (mmvtr/cli/signals.py) waits for the next line of Python, which may never come in a child that
    # waits for work, and a signal that arrives before the child has reset the handler would be
    # lost.  So the signal is blocked from before the fork, and then ends the child.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        pool = get_context('fork').Pool(processes, _end_at_sigterm)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    with pool, show_progress('clips rendered', len(jobs)) as advance:
        for _ in pool.imap_unordered(_render_job, jobs, chunksize=4):
            advance()


def _end_at_sigterm() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})


def _render_job(job: tuple) -> None:
    _render_clip(*job)


def _render_clip(folder: Path, knobs: Knobs, split: str, v: int, video: dict[str, Any]) -> None:
    images = draw(video['moments'], stream(knobs, split, v, 2))
    write_mp4(folder / video['path'], images, FPS)


def _present(folder: Path, name: str) -> Path:
    path = folder / name
    if not path.is_file() or path.stat().st_size == 0:
        raise FileNotFoundError(f'{path} is missing or empty; {_advice(folder)}')
    return path


def _advice(folder: Path) -> str:
    return f'delete the folder {folder} and the planted corpus is made again'


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


_CARD = """---
license: apache-2.0
task_categories: [text-to-video, video-classification]
tags: [text-video-retrieval, synthetic]
pretty_name: Planted corpus of moving shapes
---

# Planted corpus of moving shapes

Rendered H.264 clips (64 x 64, 8 frames a second) of one or two moving shapes, with captions of
three levels of detail. Which caption is true of which clip is known for every pair.

| split | clips | captions | unannotated pairs that are true |
|---|---|---|---|
{splits}

- **Made by** generator version {version} of mmvtr, from these knobs alone: `{knobs}`. It has no
  person, no place and nobody else's material.
- **Files**: `corpus.json` (facts of each clip, captions and what they say), `truth.npz`
  (`<split>_holds`, packed bits [captions, clips]; `<split>_relevance`, float16), `vocab.txt`,
  `videos/<split>_<number>.mp4`.
- **For** measuring what a method does about false negatives, hubs, clip lengths and moments, where
  the truth is known. **Not for** claims about real videos: words, motion and pictures are far
  simpler, and the share of true unannotated pairs is a knob (real sets have .06 to 1.6 %).
- `truth.npz` is for metrics and oracles. A method that reads it in training is not comparable.
"""


def data_card(knobs: Knobs, counts: Mapping[str, tuple[int, int, float]]) -> str:
    """Return the text of ``README.md`` of a corpus.

    Args:
        knobs: knobs of the corpus.
        counts: split -> (clips, captions, percent of the unannotated pairs that are true).
    """
    rows = [
        f'| {split} | {clips:,} | {captions:,} | {share:.3f} % |'
        for split, (clips, captions, share) in counts.items()
    ]
    return _CARD.format(splits='\n'.join(rows), version=GENERATOR_VERSION, knobs=knobs.identity)


def write_mp4(path: Path, images: np.ndarray, fps: int) -> None:
    """Encode a clip with one thread, so that the same images give the same file.

    Args:
        path: the file to write.
        images: uint8 [F, H, W, 3] RGB, H and W even.
        fps: frames per second.
    """
    with av.open(f'file:{path}', 'w') as container:  # "file:" protects colons in a name
        options = dict(preset='veryfast', crf='28', bf='0')
        stream = container.add_stream('libx264', rate=fps, options=options)
        stream.height, stream.width = images.shape[1:3]
        stream.pix_fmt = 'yuv420p'
        stream.codec_context.thread_count = 1
        for image in images:
            yuv = cv2.cvtColor(image, cv2.COLOR_RGB2YUV_I420)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(yuv, format='yuv420p')))
        container.mux(stream.encode())
