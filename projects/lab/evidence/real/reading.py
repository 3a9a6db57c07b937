"""Sets as the product reads them: datasets for trainings, and whole sets for evaluations."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, Mapping, NamedTuple, Sequence

import numpy as np
import torch
from sets import shared
from torch import Tensor
from towers import KeptTable

from mmvtr.datasets import CaptionImplication
from mmvtr.models.data_preprocessor import VideoTextDataPreprocessor

#: Frames that a video keeps at most, by set (else 12), and words that a text does.
FRAMES, WORDS = dict(T=6, U=48), 24
#: Where environments are by length: MSR-VTT's category whose lengths differ most between train and
#: test, and Algorithm 1's least number of clips and difference in seconds.
WORST, LEAST, DELTA = 15, 20, 0.1


def records_of(folder: Path) -> dict[str, dict[str, Any]]:
    """Record transforms by the name that a method reads them by."""
    facts = dict(type='VideoFacts', path=str(folder / 'made.json'))
    split = dict(type='LengthSplit', parts=2, unit='seconds')
    removal = dict(
        type='RemoveByLength',
        alpha=LEAST,
        delta=DELTA,
        unit='seconds',
        test=dict(
            type='KeptTable',
            split='test',
            table=str(folder / 'captions.csv'),
            videos=str(folder / 'features.h5'),
            video_pipeline=[],
            text_pipeline=[],
            records=dict(facts=facts),
        ),
    )
    return dict(
        classes=dict(type='CaptionClasses', parser='rules'),
        agreement=dict(type='CaptionImplication'),
        truth=dict(type='JudgedTruth', data=str(shared())),
        wrong_truth=dict(type='JudgedTruth', data=str(shared()), wrong=True),
        facts=facts,
        by_length=split,
        at_random=dict(type='RandomSplit', like=split),
        rmv_all=removal,
        rmv_one=dict(removal, action=(0, WORST)),
        rmv_rand=dict(type='RemoveRandom', like=removal),
    )


class Whole(NamedTuple):
    """A whole split: inputs of a model, and who belongs to whom.

    Attributes:
        inputs: as a retriever takes them, texts and videos.
        positives: bool [T, V].
        own: int64 [T], the video of each text.
        texts, videos: ids.
        captions: of the texts.
    """

    inputs: Mapping[str, Any]
    positives: Tensor
    own: Tensor
    texts: list[str]
    videos: list[str]
    captions: list[str]


@cache
def about(folder: Path) -> Mapping[str, Any]:
    """What :func:`sets.prepare` has written of a set."""
    return json.loads((folder / 'made.json').read_text())


@cache
def dataset(
    folder: Path,
    split: str,
    text: str,
    reads: Sequence[str] = (),
    unit: str = 'video',
    table: str = 'captions',
) -> KeptTable:
    """One split of a prepared set, read by the project's own dataset and stores.

    Args:
        text: 'minilm', 'words' (ids) or 'word_vectors'.
        reads: see :class:`methods.Method`, and 'halves_SEED'.
    """
    from mmengine.registry import init_default_scope

    init_default_scope('mmvtr')
    frames = FRAMES.get(about(folder)['name'], 12)
    video_steps = [dict(type='LoadFeatures', path=str(folder / 'features.h5'), num_frames=frames)]
    text_steps = [
        dict(
            both=dict(
                type='WordsAndSentence',
                words=str(folder / 'vocabulary'),
                path=str(folder / 'sentences.h5'),
                max_words=WORDS,
            ),
            minilm=dict(type='LoadTextFeatures', path=str(folder / 'sentences.h5')),
            word_vectors=dict(
                type='LoadTextFeatures', path=str(folder / 'words.h5'), max_words=WORDS
            ),
            words=dict(type='CaptionWords', words=str(folder / 'vocabulary'), max_words=WORDS),
        )[text]
    ]
    text_stores = dict(guide='sentences.h5', teacher=f'teacher_of_{text}_text.h5')
    video_stores = dict(means='means.h5', teacher=f'teacher_of_{text}_video.h5')
    for steps, side, stores in (
        (text_steps, 'text', text_stores),
        (video_steps, 'video', video_stores),
    ):
        wanted = {
            'guide' if name == 'means' else name: str(folder / stores[name])
            for name in reads
            if name in stores
        }
        if wanted:
            steps.append(dict(type='LoadVectors', side=side, stores=wanted))
    known = records_of(folder)
    records = {name: known[name] for name in reads if name in known}
    for name in reads:
        if name.startswith('halves_'):
            records['half'] = dict(type='Halves', seed=int(name.removeprefix('halves_')))
    return KeptTable(
        split,
        table=str(folder / f'{table}.csv'),
        videos=str(folder / 'features.h5'),
        video_pipeline=video_steps,
        text_pipeline=text_steps,
        epoch_unit=unit,
        records=records or None,
    )


def whole(
    data: KeptTable, texts: Sequence[int] | None = None, videos: Sequence[int] | None = None
) -> Whole:
    """All videos and texts of a dataset, or some of each."""
    texts = range(len(data.texts)) if texts is None else texts
    videos = range(len(data.videos)) if videos is None else videos
    batch = VideoTextDataPreprocessor()(data.rows(videos, texts))
    place = {v: n for n, v in enumerate(videos)}
    own = torch.tensor([place[data.texts[t]['video_idx'][0]] for t in texts])
    return Whole(
        batch['inputs'],
        own[:, None] == torch.arange(len(videos)),
        own,
        [data.texts[t]['text_id'] for t in texts],
        [data.videos[v]['video_id'] for v in videos],
        [data.texts[t]['text'] for t in texts],
    )


@cache
def evaluated(folder: Path, split: str, text: str) -> Whole:
    """A split to be evaluated; '1ka' of MSR-VTT has a table of its own."""
    table = 'captions' if split in ('val', 'test') else f'captions_{split}'
    return whole(dataset(folder, split, text, table=table))


@cache
def implication(folder: Path, text: str) -> CaptionImplication:
    """What training captions say of which words imply which."""
    data, found = dataset(folder, 'train', text), CaptionImplication()
    found.learn(data.videos, data.texts)
    return found


@cache
def bank(folder: Path, text: str, size: int = 2000) -> Whole:
    """A text each of so many training videos, and these videos, drawn once."""
    data = dataset(folder, 'train', text)
    draw = np.random.default_rng(0)
    videos = sorted(draw.permutation(data.videos_with_text)[:size].tolist())
    return whole(data, [int(draw.choice(data.texts_of[v])) for v in videos], videos)
