"""Collation of items to a batch of V videos and T texts, with their ids.

Items of equal shape are stacked here, in the worker: otherwise the training process would rebuild
one tensor per item.  Others are padded by the model's preprocessor.  Nothing is deduplicated: two
captions of one video give two columns, and the ids show that both are positives.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Callable, Mapping, Optional, Sequence

import torch
from torch import Tensor
from torch.utils.data import default_collate

from mmvtr.registry import FUNCTIONS


@FUNCTIONS.register_module()
def collate_retrieval(
    items: Sequence[dict[str, Any]], *, _scope_: Optional[str] = None
) -> dict[str, Any]:
    """Collate dataset items, or the halves that ``dataset.view`` gives.

    In a config: ``collate_fn=dict(type='mmvtr.collate_retrieval')`` (mmengine looks a collate
    function up in its root registry, so the scope is needed).

    Args:
        items: dicts from :class:`~mmvtr.datasets.VideoTextDataset` or its views.
        _scope_: unused; mmengine passes it for a base config that is inherited as ``mmvtr::NAME``.

    Returns:
        ``inputs``: ``video``, V of uint8 [F, 3, H, W] or float32 [F, D], and ``text``, T of int64
        [L] or float32 [L, D]: one tensor if all have one shape, else a list; a key is absent if
        there is no such half.  The contents of the pipelines' ``video_extra`` and ``text_extra``:
        likewise under ``video_<name>``, ``text_<name>``.
        ``data_samples``: ``video_idx`` int64 [V], ``video_ids``, ``text_idx`` int64 [T],
        ``text_ids``, ``text_captions`` (of datasets of this package), ``text_videos`` int64 [T, M]
        (padded with -1), ``broken`` = list of (video_id, reason) of skipped videos.  If the dataset
        knows them: ``environment`` int64 [V]; ``text_classes`` and ``video_classes``, a dict from
        kind to int64 [T, A] or [V, A] (padded with -1); ``text_agreement`` float32 [T, D] and
        ``video_agreement`` [V, D]; ``text_half`` int64 [T] and ``video_half`` [V], 0 or 1;
        ``text_true_videos`` int64 [T, M], like ``text_videos``, from an oracle.  From LoadVectors:
        ``text_vectors`` and ``video_vectors``, float32 [T, E, D] and [V, E, D] by name.  From
        LoadFrameVectors: ``video_frame_vectors``, a list of V float32 [F, D] by name.

    Raises:
        ValueError: vectors of one name have different shapes.
    """
    whole = [item for item in items if 'broken' not in item]
    videos = [_video(item) for item in whole if 'video' in item or 'frames' in item]
    texts = [text for item in whole for text in _texts(item)]
    inputs = {}
    if videos:
        inputs['video'] = _together([video['frames'] for video in videos])
    if texts:
        inputs['text'] = _together([text['tokens'] for text in texts])
    for side, halves in (('video', videos), ('text', texts)):
        for name in halves[0].get('extra', ()) if halves else ():
            inputs[f'{side}_{name}'] = _together([half['extra'][name] for half in halves])
    return dict(
        inputs=inputs,
        data_samples=dict(
            **_known(items, videos, texts),
            **_vectors('video', videos),
            **_vectors('text', texts),
            **_frame_vectors(videos),
            video_idx=_int64([video['video_idx'] for video in videos]),
            video_ids=[video['video_id'] for video in videos],
            text_idx=_int64([text['text_idx'] for text in texts]),
            text_ids=[text['text_id'] for text in texts],
            text_captions=[text['caption'] for text in texts if 'caption' in text],
            text_videos=_padded([text['video_idx'] for text in texts]),
            broken=[item['broken'] for item in items if 'broken' in item],
        ),
    )


def collate_of(loader: Mapping[str, Any]) -> Callable[[Sequence[dict[str, Any]]], dict[str, Any]]:
    """Return the collate function that a dataloader's config names.

    Args:
        loader: config whose ``collate_fn`` is a dict with the name and options of a function;
            default :func:`collate_retrieval`.

    Raises:
        TypeError: it is no such dict.
    """
    config = loader.get('collate_fn') or dict(type='collate_retrieval')
    if not isinstance(config, Mapping) or 'type' not in config:
        raise TypeError(f'collate_fn: a dict with a type expected, found {str(config)[:80]!r}')
    options = {key: x for key, x in config.items() if key not in ('type', '_scope_')}
    function = config['type']
    function = FUNCTIONS.get(function) if isinstance(function, str) else function
    return partial(function, **options)


def _video(item: dict[str, Any]) -> dict[str, Any]:
    return item.get('video', item)


def _texts(item: dict[str, Any]) -> list[dict[str, Any]]:
    return item.get('texts', [item] if 'tokens' in item else [])


def _known(
    items: Sequence[dict[str, Any]], videos: list[dict[str, Any]], texts: list[dict[str, Any]]
) -> dict[str, Any]:
    """Return environments, classes, agreement, halves and true videos, if the dataset has them.

    Broken items also carry these keys: a batch of broken items only still gets (empty) tensors,
    since processes exchange them.
    """
    annotations: dict[str, Any] = {}
    if any('environment' in video for video in videos):
        annotations['environment'] = _int64([video['environment'] for video in videos])
    if any('true_videos' in half for half in (*texts, *items)):
        annotations['text_true_videos'] = _padded([text['true_videos'] for text in texts])
    all_halves = (*videos, *texts, *items)
    kinds = next((half['classes'] for half in all_halves if 'classes' in half), ())
    vectors = [half['agreement'] for half in all_halves if 'agreement' in half]
    divided = any('half' in half for half in all_halves)
    for side, halves in (('video', videos), ('text', texts)):
        if kinds:
            annotations[f'{side}_classes'] = {
                kind: _padded([half['classes'][kind] for half in halves]) for kind in kinds
            }
        if divided:
            annotations[f'{side}_half'] = _int64([half['half'] for half in halves])
        if vectors:
            rows = [torch.as_tensor(half['agreement']) for half in halves]
            annotations[f'{side}_agreement'] = (
                torch.stack(rows) if rows else torch.empty(0, len(vectors[0]))
            )
    return annotations


def _vectors(side: str, halves: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the stored vectors of all videos or texts by name, if any item has them."""
    stacked = {}
    for name in halves[0].get('vectors', ()) if halves else ():
        rows = [half['vectors'][name] for half in halves]
        for row, half in zip(rows, halves):
            if row.shape != rows[0].shape:
                first = halves[0][f'{side}_id']
                raise ValueError(
                    f'vectors {name!r} must have one shape: those of {side} '
                    f'{half[f"{side}_id"]!r} are {list(row.shape)}, those of {first!r} '
                    f'{list(rows[0].shape)}'
                )
        stacked[name] = torch.stack(rows)
    return {f'{side}_vectors': stacked} if stacked else {}


def _frame_vectors(videos: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the stored frame vectors of all videos by name, if any item has them."""
    names = videos[0].get('frame_vectors', ()) if videos else ()
    listed = {name: [video['frame_vectors'][name] for video in videos] for name in names}
    return {'video_frame_vectors': listed} if listed else {}


def _together(items: list[Tensor]) -> Tensor | list[Tensor]:
    """Return items of one shape and dtype stacked to a tensor [N, ...], which a worker puts into
    shared memory; return other items unchanged."""
    first = items[0]
    if any(x.shape != first.shape or x.dtype != first.dtype for x in items):
        return items
    return default_collate(items)


def _int64(values: Sequence) -> Tensor:
    return torch.tensor(values, dtype=torch.int64)


def _padded(rows: Sequence[Sequence[int]]) -> Tensor:
    if not rows:
        return torch.empty(0, 0, dtype=torch.int64)
    width = max(map(len, rows))
    return _int64([[*row, *[-1] * (width - len(row))] for row in rows])
