"""The planted corpus: real mp4 clips of moving shapes, with captions whose truth is known.

It is made on first use.  Truth and relevance are for metrics and oracles, never for a method.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Sequence

import numpy as np
from mmengine.dist import barrier, is_main_process

from mmvtr.datasets.planted_corpus.knobs import SPLITS, Knobs
from mmvtr.datasets.planted_corpus.store import (
    make_corpus,
    open_corpus,
    publish_vocabulary,
    read_truth,
)
from mmvtr.datasets.planted_corpus.truth import Truth
from mmvtr.datasets.planted_corpus.world import FPS
from mmvtr.datasets.video_text import EpochUnit, VideoTextDataset
from mmvtr.registry import DATASETS


@DATASETS.register_module()
class PlantedDataset(VideoTextDataset):
    """One split of a planted corpus.

    The knobs say which corpus; one that does not exist yet under ``data_root`` is made by rank 0
    while the other ranks wait.  A *sister* corpus is one of another seed: independent clips and
    captions of the same world.  Beside the usual keys, a video holds ``num_frames``, ``duration``
    and ``moments`` (its facts) and a text holds ``level`` ('specific', 'medium', 'general'),
    ``moment``, ``start``, ``end``, ``says`` and ``background`` (its meaning).

    Args:
        video_pipeline: see :class:`VideoTextDataset`.
        text_pipeline: see :class:`VideoTextDataset`.
        split: 'train', 'val' or 'test'.
        data_root: folder of all planted corpora.
        epoch_unit: see :class:`VideoTextDataset`.
        on_broken: see :class:`VideoTextDataset`.
        **knobs: see :class:`Knobs`.

    Attributes:
        folder: of the corpus.
        vocab_file: ``<data_root>/vocab.txt``, the closed vocabulary of all corpora.

    Raises:
        ValueError: unknown split, or a knob out of its range.
        TypeError: unknown knob.
        FileNotFoundError: a file of the corpus is missing.
        RuntimeError: a file of the corpus is of another version or was changed.
    """

    def __init__(
        self,
        video_pipeline: Sequence[Any],
        text_pipeline: Sequence[Any],
        *,
        split: Literal['train', 'val', 'test'],
        data_root: str = 'data/planted',
        epoch_unit: EpochUnit = 'text',
        on_broken: Literal['raise', 'skip'] = 'raise',
        **knobs: Any,
    ) -> None:
        if split not in SPLITS:
            raise ValueError(f'planted corpus: split must be one of {SPLITS}, got {split!r}')
        self.split = split
        self.knobs = Knobs(**knobs)
        self.folder = Path(data_root) / self.knobs.key
        super().__init__(video_pipeline, text_pipeline, epoch_unit=epoch_unit, on_broken=on_broken)

    @property
    def vocab_file(self) -> Path:
        return self.folder.parent / 'vocab.txt'

    def load_annotations(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        if is_main_process():
            if not self.folder.exists():
                make_corpus(self.folder, self.knobs)
            publish_vocabulary(self.folder.parent)
        barrier()
        videos, texts = open_corpus(self.folder, self.knobs, self.split)
        for video in videos:
            video['duration'] = video['num_frames'] / FPS
        return videos, texts

    def truth(self) -> np.ndarray:
        """Bool [T, V]: the text truly holds for the clip."""
        return self._truth.holds

    def relevance(self) -> np.ndarray:
        """Float16 [T, V] in [0, 1]: share of the text's predicates that hold; 1 iff all do."""
        return self._truth.relevance

    def protocol(self) -> dict[str, Any]:
        """That of :class:`VideoTextDataset`, and the name of the corpus."""
        return {**super().protocol(), 'corpus': self.folder.name}

    @cached_property
    def _truth(self) -> Truth:
        return read_truth(self.folder, self.split, len(self.videos))
