"""Direct encoding of texts: tokenizer, tower, head; without dataset, loader or loop."""

from __future__ import annotations

from typing import Any, Optional, Sequence

import torch
from mmengine.config import Config
from mmengine.dataset import Compose
from mmengine.dist import is_main_process
from mmengine.logging import MMLogger
from torch import nn

from mmvtr.cli.progress import show_progress
from mmvtr.datasets.annotation_values import Place
from mmvtr.datasets.items import ItemKey, seeded, text_item
from mmvtr.datasets.records import check_texts
from mmvtr.datasets.sampling.collate import collate_of
from mmvtr.datasets.video_text import steps_of
from mmvtr.datasets.words.cut_texts import count_cut, cut_tokens
from mmvtr.engine.loops.evaluation import Encoded, encode_batch
from mmvtr.engine.loops.evaluation_loop import joined

#: Name of the texts in errors.
ORIGIN = 'the given texts'


class TextEncoder:
    """Text encoder with the test set's pipeline, built once for many queries.

    Use it from one thread at a time.  Each of several processes encodes all of its own texts.

    Args:
        model: a retriever in eval mode.
        cfg: its config.

    Raises:
        ValueError: the config reads stored word features, which free texts do not have.

    Example:
        ::

            >>> encode = TextEncoder(model, cfg)
            >>> vectors(model, encode(['a dog runs']).levels)  # float32 [1, D]
    """

    def __init__(self, model: nn.Module, cfg: Config) -> None:
        refuse_stored_words(cfg)
        self.model = model
        loader = cfg.test_dataloader
        self._steps = steps_of(loader.dataset.text_pipeline)
        self._pipeline = Compose(self._steps)
        self._collate = collate_of(loader)
        self._batch_size = loader.get('batch_size', 1)

    def cut(self, texts: Sequence[str]) -> list[int]:
        """Return how many trailing tokens of each of T texts are dropped; 0: none."""
        return [cut_tokens(self._steps, record) for record in _records(texts)]

    @torch.no_grad()
    def __call__(
        self,
        texts: Sequence[str],
        *,
        batch_size: Optional[int] = None,
        progress: bool = False,
        warn: bool = False,
    ) -> Encoded:
        """Return T encoded items of T texts, in order, with ids '0', '1' ...

        Args:
            texts: T texts.
            batch_size: texts encoded at a time; default that of the config.
            progress: show a bar.
            warn: log the number of truncated texts.

        Raises:
            ValueError: no texts, an empty one, or a model in training mode.
            TypeError: one string instead of several.
            KeyError: a word that a closed vocabulary lacks.
        """
        if isinstance(texts, str):
            raise TypeError(f'a list of strings expected, not the string {texts!r}')
        if self.model.training:
            raise ValueError('the retriever is in training mode: call model.eval() first')
        records = self._checked(_records(texts), warn)
        size, parts = batch_size or self._batch_size, []
        starts = range(0, len(records), size)
        shown = progress and is_main_process()
        with show_progress('batches of texts encoded', len(starts), shown=shown) as advance:
            for start in starts:
                some = range(start, min(start + size, len(records)))
                batch = self._collate([self._item(t, records[t]) for t in some])
                parts.append(encode_batch(self.model, 'text', batch, amp=False))
                advance()
        return joined(parts)

    def _checked(self, records: list[dict[str, Any]], warn: bool) -> list[dict[str, Any]]:
        if not records:
            raise ValueError('nothing to encode: no text')
        check_texts(records, 1, Place(ORIGIN))
        for step in self._steps:
            if hasattr(step, 'check'):
                step.check(records)
        cut = count_cut(self._steps, records) if warn else None
        if cut is not None:
            MMLogger.get_current_instance().warning(f'{ORIGIN}: {cut}.')
        return records

    def _item(self, t: int, record: dict[str, Any]) -> dict[str, Any]:
        """Return the item that a dataset would return for the text, including its random draws."""
        with seeded(ItemKey(0, 0, t)):
            return text_item(t, record, self._pipeline)


def encode_texts(
    model: nn.Module, cfg: Config, texts: Sequence[str], *, progress: bool = False
) -> Encoded:
    """Encode texts like those of the test set; a warning counts truncated texts.

    Args:
        model: a retriever in eval mode.
        cfg: its config.
        texts: T texts.
        progress: show a bar.

    Returns:
        T items in that order; their ids are '0', '1' ...

    Raises:
        ValueError, TypeError, KeyError: see :class:`TextEncoder`.
    """
    return TextEncoder(model, cfg)(texts, progress=progress, warn=True)


def refuse_stored_words(cfg: Config) -> None:
    """Raise ValueError if the pipeline looks up texts by id: a free text has none."""
    steps = cfg.test_dataloader.dataset.text_pipeline if cfg.get('test_dataloader') else []
    if any('LoadTextFeatures' in str(step['type']) for step in steps):
        raise ValueError(
            f'{cfg.filename} reads stored word features, which free texts do not have: take a '
            'config with a text tower'
        )


def _records(texts: Sequence[str]) -> list[dict[str, Any]]:
    """Return text records that all belong to one video that is never read."""
    return [dict(text_id=str(i), text=text, video_idx=[0]) for i, text in enumerate(texts)]
