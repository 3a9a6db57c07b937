"""Stored queries of a train queue or a bank file, and their captions and pairs."""

from __future__ import annotations

from functools import partial
from typing import Mapping, Optional, Sequence, Union

import torch
from mmengine.runner import Runner
from torch import Tensor, nn

from mmvtr.arrays.choice import Pairs
from mmvtr.datasets.record_transforms import without
from mmvtr.datasets.video_text import VideoTextDataset
from mmvtr.engine.hooks.query_queue import Queries, QueryQueueHook
from mmvtr.engine.loops.evaluation import bank_tiles, check_levels, item_tiles
from mmvtr.errors import UserError
from mmvtr.functional.similarities.tiles import Tiles
from mmvtr.registry import DATASETS
from mmvtr.storage import read_plain
from mmvtr.structures import Levels, take

OTHER = dict(text='video', video='text')

#: Record transforms of a training set that only add keys to its captions, and are skipped here.
NOT_READ = ('agreement', 'classes')


def check_source(
    value: str, allowed: Sequence[str], *, bank_file: Optional[str], name: str = 'queries'
) -> None:
    """Raise ValueError unless an argument called ``name`` has a known value, and 'bank' comes with
    a bank file and no other value does."""
    if value not in allowed:
        raise ValueError(f'{name} must be one of {tuple(allowed)}, not {value!r}')
    if (value == 'bank') != (bank_file is not None):
        raise ValueError(f"bank_file belongs to {name}='bank'; got {value!r}, {bank_file!r}")


def stored_queries(
    runner: Runner, source: str, *, bank_file: Optional[str], name: str
) -> dict[str, Queries]:
    """Return a bank of queries, by kind.

    Args:
        runner: runner whose QueryQueueHook has them, for ``'train_queue'``.
        source: ``'train_queue'`` or ``'bank'``.
        bank_file: for ``'bank'``.
        name: name of the caller, for errors.

    Raises:
        RuntimeError: no queue, or one that was never filled; see :func:`read_bank`.
    """
    if source == 'bank':
        return read_bank(bank_file)
    hooks = [hook for hook in runner.hooks if isinstance(hook, QueryQueueHook)]
    if not hooks:
        raise UserError(f"{name}: 'train_queue' needs a QueryQueueHook")
    stored = {kind: queue.queries() for kind, queue in hooks[0].queues.items()}
    empty = [kind for kind, queries in stored.items() if queries is None]
    if empty:
        raise UserError(
            f'{name}: the train queue of {" and ".join(empty)} queries was never filled: '
            "no training step has run and the checkpoint holds no 'query_queue'; train with "
            "the QueryQueueHook, or write a bank (tools/export_bank.py) and take 'bank'"
        )
    return stored


def read_bank(path: str) -> dict[str, Queries]:
    """Return the queries of a bank file, by kind.

    Raises:
        FileNotFoundError, RuntimeError: no such file, or not a bank.
        ValueError: an empty bank, or one with numbers that are not finite (names the query).
    """
    content = read_plain(path, kind='bank')
    if not isinstance(content, dict) or not {'text', 'video'} <= content.keys():
        keys = sorted(map(str, content)) if isinstance(content, dict) else type(content).__name__
        raise UserError(f"{path} is not a bank: it holds {str(keys)[:80]}, not 'text' and 'video'")
    try:
        stored = {kind: Queries.of(content[kind]) for kind in ('text', 'video')}
        for kind, queries in stored.items():
            for name, level in queries.levels.items():
                level.map(partial(_finite, name=f'{path}: level {name!r:.80} of {kind} queries'))
    except (KeyError, TypeError, AttributeError) as error:
        raise UserError(f'{path} is not a bank: its queries have another form') from error
    for kind, queries in stored.items():
        if not len(queries.index):
            raise ValueError(f'{path}: the bank holds no {kind} queries')
    return stored


def _finite(x: Tensor, name: str) -> Tensor:
    """Return the numbers after checking that they are finite."""
    wrong = (~x.isfinite()).nonzero()
    if len(wrong):
        raise ValueError(
            f'{name}: query {int(wrong[0, 0])} is not finite ({len(wrong[:, 0].unique())} of '
            f'{len(x)} are not); make the bank again, from a checkpoint with finite weights'
        )
    return x


def tiles_read(
    reads: Sequence[str],
    model: nn.Module,
    device: torch.device,
    kind: str,
    stored: Mapping[str, Queries],
    gallery: Levels,
) -> dict[str, Tiles]:
    """Return a transform's inputs from a bank, by the names of the transform table.

    Args:
        reads: inputs of the transform, from the table of transforms.
        model: a retriever.
        device: device of the tiles.
        kind: kind of the queries, 'text' or 'video'.
        stored: K queries of that kind, and M of the other kind, the stored items.
        gallery: levels of the N gallery items.

    Returns:
        ``'bank'`` [K, N], and if needed ``'bank_gallery'`` [K, M] and ``'item_bank'`` [M, N].

    Raises:
        ValueError: queries of another model, or a similarity without one vector per item.
    """
    queries, items = stored[kind].levels, stored[OTHER[kind]].levels
    tiles = dict(bank=bank_tiles(model, device, kind, queries, gallery))
    if 'bank_gallery' in reads:
        tiles['bank_gallery'] = bank_tiles(model, device, kind, queries, items)
    if 'item_bank' in reads:
        check_levels(model, queries, f'{kind}s of the bank', items)
        tiles['item_bank'] = item_tiles(model, device, items, gallery)
    return tiles


def stored_pairs(texts: Queries, videos: Queries) -> Tensor:
    """Return positions of stored texts and of their videos, int64 [P, 2].

    If a video was stored several times the last one is used; a text whose video is not stored has
    no pair.
    """
    place = {video: i for i, video in enumerate(videos.index.tolist())}
    rows = [(i, place[video]) for i, video in enumerate(texts.video.tolist()) if video in place]
    return torch.tensor(rows, dtype=torch.int64).reshape(-1, 2)


def pairs_known(
    model: nn.Module, device: torch.device, kind: str, stored: Mapping[str, Queries]
) -> Pairs:
    """Return the matches of stored queries and items, by which ``'auto'`` chooses.

    Args:
        model, device, kind, stored: see :func:`tiles_read`.
    """
    pairs = stored_pairs(stored['text'], stored['video'])
    if kind == 'video':
        pairs = pairs.flip(1)
    queries, items = stored[kind].levels, stored[OTHER[kind]].levels

    def scores(query_rows: Tensor, item_rows: Tensor) -> Tensor:
        tiles = bank_tiles(model, device, kind, take(queries, query_rows), take(items, item_rows))
        return torch.cat([tile for _, tile in tiles.parts()], dim=1)

    return Pairs(pairs.unique(dim=0), scores)


def read_training_set(captions: Union[dict, VideoTextDataset]) -> VideoTextDataset:
    """Return the training set with its videos and captions in their order.

    Args:
        captions: config of the set, or the set itself. For a config only the annotations are read:
            no video or feature, unless ``missing='skip'`` leaves out missing videos, which shifts
            the positions of later ones; and no record transform that only adds keys
            (:data:`NOT_READ`).

    Raises:
        FileNotFoundError, KeyError, ValueError: those of the dataset.
    """
    if not isinstance(captions, dict):
        return captions
    config = {**without(captions, *NOT_READ), 'text_pipeline': []}
    config.pop('judgments', None)
    if config.get('missing') != 'skip':
        config['video_pipeline'] = []
    return DATASETS.build(config)


def captions_of(queries: Queries, data: VideoTextDataset, *, name: str) -> list[str]:
    """Return the captions of K stored texts.

    Args:
        queries: texts of a training set.
        data: that set.
        name: name of the caller or of a file, for errors.

    Raises:
        ValueError: a position that the set does not have, or one whose text belongs to another
            video. (Sets of the same layout, e.g. five captions per video, cannot be distinguished.)
    """
    for place, video in zip(queries.index.tolist(), queries.video.tolist()):
        owner = data.texts[place]['video_idx'][0] if place < len(data.texts) else None
        if owner != video:
            instead = (
                f'{len(data.texts)} texts' if owner is None else f'that of video {owner} there'
            )
            raise ValueError(
                f'{name}: the text at position {place} of its training set is of video {video}, '
                f'but captions= has {instead}: give the set that the model was trained on'
            )
    return [data.texts[place]['text'] for place in queries.index.tolist()]
