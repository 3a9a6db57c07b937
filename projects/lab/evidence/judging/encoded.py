"""Captions as the vectors of a trained retriever, for corpora that are not its own."""

from __future__ import annotations

from typing import Any, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from judging.words import Groups
from mmvtr.apis import encode_set, vectors
from mmvtr.datasets import VideoTextDataset


class Encoder:
    """From groups of captions to unit vectors, those that ask as texts, the others as items.

    Each is encoded once, however often it is asked for.

    Args:
        model: in eval mode, whose scores are inner products.
        config: its config; the pipelines of its test set are used.
    """

    def __init__(self, model: nn.Module, config: Any) -> None:
        self.model = model
        self.loader = config.test_dataloader
        self._known: dict[tuple[str, tuple[str, ...]], Tensor] = {}

    def __call__(self, groups: Groups) -> dict[str, Tensor]:
        """Float32 [items, D] of each group but 'learn'; those named 'text...' ask."""
        return {
            name: self._encoded('text' if name.startswith('text') else 'video', items)
            for name, items in groups.items()
            if name != 'learn'
        }

    def _encoded(self, kind: str, items: Sequence[Sequence[str]]) -> Tensor:
        items = [tuple(item) for item in items]
        new = [item for item in dict.fromkeys(items) if (kind, item) not in self._known]
        if new:
            of_test = self.loader.dataset
            dataset = _Items(
                new, video_pipeline=of_test.video_pipeline, text_pipeline=of_test.text_pipeline
            )
            loader = dict(
                dataset=dataset, batch_size=500, collate_fn=dict(type='mmvtr.collate_retrieval')
            )
            levels = encode_set(self.model, loader, kinds=[kind])[kind].levels
            units = F.normalize(vectors(self.model, levels), dim=1)
            self._known.update({(kind, item): unit for item, unit in zip(new, units)})
        return torch.stack([self._known[kind, item] for item in items])


class _Items(VideoTextDataset):
    """Items of captions; the first caption of each asks."""

    def __init__(self, items: Sequence[tuple[str, ...]], **kwargs: Any) -> None:
        self._items = items
        super().__init__(**kwargs)

    def load_annotations(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        videos = [
            dict(video_id=str(n), path='', captions=[*item]) for n, item in enumerate(self._items)
        ]
        texts = [
            dict(text_id=str(n), text=item[0], video_idx=[n]) for n, item in enumerate(self._items)
        ]
        return videos, texts
