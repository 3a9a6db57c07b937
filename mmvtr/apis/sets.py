"""Encoding of all texts and videos of a dataset."""

from __future__ import annotations

import copy
import logging
from typing import Any, Mapping, Optional, Sequence, Union

import torch
from mmengine.config import Config
from mmengine.dist import all_gather_object, is_main_process
from mmengine.logging import print_log
from torch import Tensor, nn
from torch.utils.data import Dataset, Subset

from mmvtr.cli.errors import without_workers
from mmvtr.cli.progress import show_progress
from mmvtr.engine.loops.evaluation import Encoded, check_levels, encode_batch
from mmvtr.engine.loops.evaluation_loop import TwoPassLoader, gather
from mmvtr.functional.uncertainty.gaussian import geometric_sigma
from mmvtr.structures import Levels


@torch.no_grad()
def encode_set(
    model: nn.Module,
    data: Union[Dataset, PartOfSet, dict[str, Any]],
    *,
    kinds: Sequence[str] = ('text', 'video'),
    progress: bool = False,
) -> dict[str, Encoded]:
    """Encode every text and every video of a set, each once.

    Broken videos that the dataset skips are missing from the result, and a warning names them.
    Under a distributed launcher the processes share the work and all get the whole result.

    Args:
        model: a retriever in eval mode.
        data: a dataset, a part of one, or the config of a dataloader that does not shuffle, such as
            ``cfg.test_dataloader``.
        kinds: what to encode.
        progress: show a bar.

    Returns:
        For each kind its :class:`.Encoded` items in the dataset's order.

    Raises:
        ValueError: a model in training mode, or nothing to encode.
        BrokenVideoError: a broken video, of a dataset with ``on_broken='raise'``.

    Example:
        ::

            >>> videos = encode_set(model, cfg.test_dataloader, kinds=['video'])['video']
            >>> dict(zip(videos.ids, videos.levels['global'].mean))  # id -> float32 [D]
    """
    if model.training:
        raise ValueError('the retriever is in training mode: call model.eval() first')
    loader = TwoPassLoader(data if isinstance(data, dict) else dict(dataset=data, batch_size=32))
    loaders = dict(zip(('video', 'text'), loader.loaders))
    parts: dict[str, list[Encoded]] = {kind: [] for kind in kinds}
    broken: list[tuple[str, str]] = []
    shown = progress and is_main_process()
    for kind in kinds:
        batches = loaders[kind]
        words = f'batches of {kind}s encoded'
        with show_progress(words, len(batches), shown=shown) as advance, without_workers():
            for batch in batches:
                broken += batch['data_samples']['broken']
                if kind in batch['inputs']:  # unless all videos of the batch are broken
                    parts[kind].append(encode_batch(model, kind, batch, amp=False))
                advance()
    broken = sum(all_gather_object(broken), [])
    if broken:
        names = ''.join(f'\n  {video_id}: {reason}' for video_id, reason in broken)
        print_log(f'{len(broken)} broken videos are left out:{names}', 'current', logging.WARNING)
    return {kind: gather(parts[kind], kind) for kind in kinds}


class PartOfSet:
    """Some items of a dataset, for :func:`encode_set`.

    Args:
        dataset: the whole dataset.
        rows: by kind, ``'text'`` and ``'video'``: positions of the items, in ascending order.
    """

    def __init__(self, dataset: Dataset, rows: Mapping[str, Sequence[int]]) -> None:
        self.dataset, self.rows = dataset, rows

    def view(self, kind: str) -> Dataset:
        return Subset(self.dataset.view(kind), self.rows[kind])


def as_tested(cfg: Config, split: str) -> dict[str, Any]:
    """Return a dataloader config for a split's items, read like the test set's, without randomness.

    Args:
        cfg: config of a retriever.
        split: 'train', 'val' or 'test'.

    Raises:
        ValueError: the config has no dataloader for that split, or none for the test set.
    """
    for name in (f'{split}_dataloader', 'test_dataloader'):
        if cfg.get(name) is None:
            raise ValueError(f'{cfg.filename} has no {name}')
    loader = copy.deepcopy(cfg.test_dataloader)
    pipelines = {key: loader.dataset[key] for key in ('video_pipeline', 'text_pipeline')}
    loader.dataset = copy.deepcopy(cfg[f'{split}_dataloader'].dataset)
    loader.dataset.update(pipelines)
    return loader


def vectors(model: nn.Module, levels: Levels) -> Tensor:
    """Return one vector per item whose inner products are the model's scores, for vector stores.

    Args:
        model: a retriever.
        levels: levels of N encoded texts or videos.

    Returns:
        float32 [N, D'].

    Raises:
        ValueError: the similarity has no such vectors, or the items lack a level that it reads.
    """
    refuse_without_vectors(model)
    check_levels(model, levels, 'the items')
    return model.similarity.flat(levels).float()


def sigmas(levels: Levels) -> Optional[list[float]]:
    """Return a probabilistic model's uncertainty of N items (UATVR Fig. 3), or None."""
    if 'gaussian' not in levels:
        return None
    return geometric_sigma(levels['gaussian'].log_std).tolist()


def refuse_without_vectors(model: nn.Module) -> None:
    """Raise ValueError if scores are not inner products but compare tokens, or in stages."""
    similarity = model.similarity
    if not hasattr(similarity, 'flat') or not getattr(similarity, 'exact', True):
        offer = ''
        if hasattr(similarity, 'shortlist'):
            offer = (
                '; a large gallery it ranks in two stages: model.similarity.shortlist=100 scores '
                "each text's 100 best videos of the cheap first stage (tools/test.py)"
            )
        raise ValueError(
            f'the scores of {type(similarity).__name__} are not inner products with one vector '
            f'per item, which an index of nearest neighbours needs{offer}'
        )
