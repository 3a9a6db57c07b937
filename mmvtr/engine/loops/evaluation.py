"""State of an evaluation between scoring and measuring, to which hooks may add."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple, Optional, Sequence, Union

import numpy as np
import torch
from mmengine.model import is_model_wrapper
from torch import Tensor, nn
from torch.utils.data import Dataset

from mmvtr.functional.similarities.tiles import Tiles, inner_products
from mmvtr.models.similarities.cosine import token_levels
from mmvtr.structures import Directed, Levels, Relation, drop_tokens, take


class Encoded(NamedTuple):
    """N encoded texts or videos.

    Attributes:
        index: int64 [N], positions in the dataset.
        ids: their N ids.
        levels: their embeddings, float32 on the CPU.
        lengths: int64 [N], number of tokens of a text or of frames of a video.
    """

    index: Tensor
    ids: list[str]
    levels: Levels
    lengths: Tensor

    def rows(self, rows: Tensor) -> 'Encoded':
        """Return the items at these positions."""
        ids = np.array(self.ids, dtype=object)[rows.numpy()].tolist()
        return Encoded(self.index[rows], ids, take(self.levels, rows), self.lengths[rows])


@dataclass
class Evaluation:
    """The encoded set and its scores, on rank 0; argument of the hook point ``after_scoring``.

    Attributes:
        model: the retriever, without distributed wrapper.
        device: device of the model.
        texts, videos: T encoded texts and V encoded videos.
        matrices: float32 [T, V] on the CPU by name; ``'temperature'``, 0-dim; and, of a model with
            probabilistic heads, ``'text_sigma'`` [T] and ``'video_sigma'`` [V].
        relation: annotations of the set.
        transformed: further scores by name; every metric that reads scores also reports them.
        transductive: names of those that use all test queries at once.
        notes: a note for readers about each of them.
        numbers: further results, ``prefix/name``.
        exact: whether ``'scores'`` are the similarity's for every pair; a similarity with a
            shortlist ranks the rest of each row below it.
        mode: 'val' or 'test'.
        dataset: dataset of the set; None: not known.
        about: the set (``tested``) and the facts of the trainings (``training``), in the form of
            results (:mod:`mmvtr.evaluation.results`).
    """

    model: nn.Module
    device: torch.device
    texts: Encoded
    videos: Encoded
    matrices: dict[str, Tensor]
    relation: Relation
    transformed: dict[str, Directed] = field(default_factory=dict)
    transductive: set[str] = field(default_factory=set)
    notes: dict[str, str] = field(default_factory=dict)
    numbers: dict[str, float] = field(default_factory=dict)
    exact: bool = True
    mode: str = 'test'
    dataset: Optional[Dataset] = None
    about: dict[str, Any] = field(default_factory=dict)

    def bank_scores(self, kind: str, queries: Levels) -> Tiles:
        """Return scores of K further queries with the items of this set.

        Args:
            kind: ``'text'``: queries are texts and the gallery the V videos; ``'video'``: queries
                are videos and the gallery the T texts.
            queries: their levels.

        Returns:
            float32 [K, V] or [K, T], computed in tiles on ``device``.

        Raises:
            ValueError: the queries lack a level that the similarity reads, or have another width.
        """
        return bank_tiles(self.model, self.device, kind, queries, self.gallery(kind))

    def gallery(self, kind: str) -> Levels:
        """Return the levels of the gallery that queries of a kind search."""
        return (self.videos if kind == 'text' else self.texts).levels


def checked_modes(modes: Union[str, Sequence[str]], hook: str) -> tuple[str, ...]:
    """Return the evaluations in which a hook takes part.

    Raises:
        ValueError: none, or another than 'val' and 'test'.
    """
    modes = (modes,) if isinstance(modes, str) else tuple(modes)
    if not modes or not set(modes) <= {'val', 'test'}:
        raise ValueError(f"{hook}: modes must be some of ('val', 'test'), not {modes!r:.80}")
    return modes


def bare(model: nn.Module) -> nn.Module:
    """Return a model without its distributed wrapper."""
    return model.module if is_model_wrapper(model) else model


def check_levels(
    model: nn.Module, levels: Levels, name: str, gallery: Optional[Levels] = None
) -> None:
    """Raise ValueError if encoded items do not fit this model, or a gallery's items.

    Args:
        model: a retriever.
        levels: levels of the items.
        name: name of the items in errors.
        gallery: levels with which they are compared.
    """
    similarity = model.similarity
    for level in similarity.levels:
        if level not in levels:
            raise ValueError(
                f'{name}: they have the levels {sorted(levels)}, but {type(similarity).__name__} '
                f'reads {level!r}: they are of another model'
            )
        if gallery is None:
            continue
        width, other = (x[level].mean.shape[1] for x in (levels, gallery))
        if width != other:
            raise ValueError(
                f'{name} are {width} wide at level {level!r}, the gallery {other}: one of them is '
                'of another model'
            )


def bank_tiles(
    model: nn.Module, device: torch.device, kind: str, queries: Levels, gallery: Levels
) -> Tiles:
    """Return :func:`score_tiles` of queries from a bank, after checks.

    Raises:
        ValueError: see :func:`check_levels`.
    """
    check_levels(model, queries, f'{kind}s of the bank', gallery)
    return score_tiles(model, device, kind, queries, gallery)._replace(name=f'{kind} bank')


def score_tiles(
    model: nn.Module, device: torch.device, kind: str, queries: Levels, gallery: Levels
) -> Tiles:
    """Return scores of Q queries with N gallery items, every pair, computed in tiles.

    Args:
        model: a retriever.
        device: device of the tiles.
        kind: ``'text'``: queries are texts and the gallery is videos; ``'video'``: the other way.
        queries, gallery: their levels, on any device.

    Returns:
        float32 [Q, N].
    """
    queries = to_device(queries, device)

    def columns(part: slice) -> Tensor:
        items = to_device(take(gallery, part), device)
        if kind == 'text':
            return all_scores(model.similarity, queries, items)
        return all_scores(model.similarity, items, queries).t()

    count, size = (len(next(iter(side.values())).mean) for side in (queries, gallery))
    return Tiles.of((count, size), columns, device=device)


def item_tiles(model: nn.Module, device: torch.device, items: Levels, gallery: Levels) -> Tiles:
    """Return similarities of M items with N gallery items of the same kind, computed in tiles.

    Similarities are inner products of the vectors whose inner products with the other kind's are
    the scores.

    Args:
        model: a retriever.
        device: device of the tiles.
        items, gallery: their levels, on any device.

    Returns:
        float32 [M, N].

    Raises:
        ValueError: the similarity has no such vectors, or the items have another width.
    """
    similarity = model.similarity
    if not hasattr(similarity, 'flat') or not getattr(similarity, 'exact', True):
        raise ValueError(
            f'{type(similarity).__name__} compares texts with videos only: similarities of items '
            'with items need one vector per item'
        )
    flat = [similarity.flat(side).float() for side in (items, gallery)]
    return inner_products(*flat, device=device)._replace(name='item_bank')


def all_scores(similarity: Any, texts: Levels, videos: Levels) -> Tensor:
    """Return the scores [T, V] of every pair, even if the similarity ranks only a shortlist."""
    shortlist = getattr(similarity, 'shortlist', None)
    if shortlist is None:
        return similarity(texts, videos)['scores']
    similarity.shortlist = None
    try:
        return similarity(texts, videos)['scores']
    finally:
        similarity.shortlist = shortlist


def to_device(levels: Levels, device: torch.device) -> Levels:
    """Return the items on another device."""
    return {name: level.map(lambda x: x.to(device)) for name, level in levels.items()}


#: Low precisions by name.
PRECISIONS = dict(bf16=torch.bfloat16, fp16=torch.float16)


def encode_batch(
    model: nn.Module, kind: str, batch: dict[str, Any], *, amp: Union[bool, str]
) -> Encoded:
    """Return the embeddings of a collated batch of texts or videos.

    Args:
        model: the retriever, without distributed wrapper.
        kind: ``'text'`` or ``'video'``.
        batch: items of that kind, collated by ``collate_retrieval``.
        amp: encode under autocast: ``'bf16'``, ``'fp16'``, True = ``'bf16'``; False = without.
    """
    data = model.data_preprocessor(batch, False)
    encode = model.encode_video if kind == 'video' else model.encode_text
    precision = PRECISIONS['bf16' if isinstance(amp, bool) else amp]
    device = torch.device(model.data_preprocessor.device).type
    with torch.autocast(device, precision, enabled=bool(amp)):
        levels = encode(data['inputs'])
    levels = drop_tokens(levels, keep=token_levels(model.similarity))
    mask = data['inputs']['frame_mask' if kind == 'video' else 'text_mask']
    samples = batch['data_samples']
    return Encoded(
        index=samples[f'{kind}_idx'].cpu(),
        ids=list(samples[f'{kind}_ids']),
        levels={name: level.map(to_cpu) for name, level in levels.items()},
        lengths=mask.sum(1).cpu(),
    )


def to_cpu(x: Tensor) -> Tensor:
    """Return a compact copy on the CPU, since a view would keep (and pickle) its whole base."""
    return x.to('cpu', torch.float32 if x.is_floating_point() else x.dtype, copy=True)
