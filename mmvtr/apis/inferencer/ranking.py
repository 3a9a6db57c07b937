"""A gallery and its ranking for each query: scores in tiles, biases, moments, uncertainty."""

from __future__ import annotations

from typing import Iterator, NamedTuple, Optional, Union

import torch
from mmengine.structures import BaseDataElement
from torch import Tensor, nn

from mmvtr.apis import refuse_without_vectors, vectors
from mmvtr.apis.inferencer.inputs import Inputs
from mmvtr.arrays import Debiaser
from mmvtr.engine.hooks.moments_hook import matches_of
from mmvtr.engine.hooks.query_queue import Queries
from mmvtr.engine.loops.evaluation import Encoded, check_levels, score_tiles
from mmvtr.functional.metrics.first_places import expected_truth, sure_first
from mmvtr.functional.similarities.distinct import asked_before
from mmvtr.functional.similarities.tiles import Tiles, inner_products, top_of_rows
from mmvtr.functional.uncertainty.calibration import Calibration
from mmvtr.functional.uncertainty.gaussian import geometric_sigma
from mmvtr.structures import Levels, take

#: Queries scored at a time, and gallery items on the device at a time.
QUERIES, ITEMS = 512, 4096

#: Levels of items encoded by a model, or given vectors.
Items = Union[Levels, Tensor]


class Gallery(NamedTuple):
    """A gallery: encoded items with their ids and transforms.

    Attributes:
        given: the N items.
        items: their levels, or flat vectors float [N, D'].
        flat: float32 [N, D'], for a model whose scores are inner products: computed once, as
            normalising all items for each query takes longer than scoring them.
        debiaser: a test-time transform fitted to a bank.
        bank: the queries of that bank.
        surely: for texts, the implications that tell how surely they hold of a video; texts that
            hold are ranked first.
        calibration: maps raw or debiased scores to P(match).
    """

    given: Inputs
    items: Items
    flat: Optional[Tensor] = None
    debiaser: Optional[Debiaser] = None
    bank: Optional[Queries] = None
    surely: Optional[Surely] = None
    calibration: Optional[Calibration] = None

    def asked_before(self, model: nn.Module, queries: Items) -> str:
        """Return a note if most queries, of two or more, are in the bank, else ``''``."""
        if self.bank is None or length(queries) < 2:
            return ''
        if isinstance(queries, Tensor):
            flat = flat_of(model, self.bank.levels)
            return asked_before(flat, queries, 'queries')
        return self.bank.asked_before(queries, 'queries')


class Surely(NamedTuple):
    """Implications between texts and a gallery's texts, with the required certainty.

    Attributes:
        implied: in [0, 1], [A, N]: how surely each of A texts implies each of the gallery; a
            matrix, or tiles if that would be large.
        written: the A texts, one of which could have been written for a video; None = the gallery.
        temperature: temperature of the softmax over them; None = a share of how far each
            video's best score lies above its mean.
        sure: in [0, 1], the required certainty.
    """

    implied: Union[Tensor, Tiles]
    written: Optional[Items]
    temperature: Optional[float]
    sure: float

    def truth(self, model: nn.Module, queries: Items, raw: Tensor) -> Tensor:
        """Return how surely each text holds of Q videos with scores ``raw``, float32 [Q, N]."""
        written = raw if self.written is None else score(model, 'video', queries, self.written)
        written = written.to(model.data_preprocessor.device)
        return expected_truth(written, self.implied, temperature=self.temperature).cpu()


class RankingSample(BaseDataElement):
    """The K best gallery items for one query, best first.

    Meta fields: ``query_id``, ``query`` (text or file; None where unknown), ``kind`` of the
    query ('text' or 'video'), ``ids`` of the K items, ``sources`` (their texts or files).  Data
    fields: ``scores`` float [K]; with a bank also ``raw_scores`` [K], and if the transform adds a
    number per item ``biases`` [K]; with ``surely`` also ``raw_scores`` and ``truths`` [K], in
    [0, 1]; with a calibration ``probabilities`` float64 [K]; if the model has them ``sigma``
    (0-dim, of the query) and ``item_sigma`` [K], and ``moments`` float64 [K, 2]: begin and end of
    the match as shares of the video.
    """


def items_of(inputs: Inputs, encoded: Optional[Encoded]) -> Items:
    """Return the levels or flat vectors to score."""
    source = inputs.vectors if encoded is None else encoded
    return source.levels if isinstance(source, Encoded) else source


@torch.no_grad()
def flat_of(model: nn.Module, items: Items) -> Optional[Tensor]:
    """Return one vector per item whose inner products are the scores, if the model has such."""
    if isinstance(items, Tensor):
        return items
    similarity = model.similarity
    has = hasattr(similarity, 'flat') and getattr(similarity, 'exact', True)
    return vectors(model, items) if has else None


def length(items: Items) -> int:
    """Return the number of items."""
    return len(items if isinstance(items, Tensor) else next(iter(items.values())).mean)


def rows_of(items: Items, rows: slice) -> Items:
    """Return the items at these positions."""
    return items[rows] if isinstance(items, Tensor) else take(items, rows)


def check_items(model: nn.Module, items: Items, name: str, gallery: Optional[Items] = None) -> None:
    """Raise ValueError if given encoded items do not fit this model, or the gallery."""
    if isinstance(items, Tensor):
        refuse_without_vectors(model)
        return
    check_levels(model, items, name, None if isinstance(gallery, Tensor) else gallery)


def score(model: nn.Module, kind: str, queries: Items, gallery: Items) -> Tensor:
    """Return the raw scores of every pair.

    Args:
        model: a retriever.
        kind: kind of the queries, 'text' or 'video'.
        queries: Q queries, levels or flat vectors.
        gallery: N items of the other kind.

    Returns:
        float32 [Q, N] on the CPU.

    Raises:
        ValueError: widths that differ, or a score that is not finite.
    """
    device = torch.device(model.data_preprocessor.device)
    if isinstance(queries, Tensor) or isinstance(gallery, Tensor):
        sides = (x if isinstance(x, Tensor) else vectors(model, x) for x in (queries, gallery))
        tiles = inner_products(*sides, device=device)
    else:
        tiles = score_tiles(model, device, kind, queries, gallery)
    tiles = tiles._replace(width=min(tiles.width, ITEMS), name='scores').finite()
    scores = torch.empty(tiles.shape)
    for part, tile in tiles.parts():
        scores[:, part] = tile.cpu()
    return scores


@torch.no_grad()
def rank(
    model: nn.Module, inputs: Inputs, queries: Items, gallery: Gallery, topk: int
) -> Iterator[RankingSample]:
    """Return the best gallery items for each query.

    Args:
        model: a retriever.
        inputs: the Q queries, of the other kind than the gallery.
        queries: their levels or flat vectors.
        gallery: the gallery to search.
        topk: number of hits; all items if there are fewer.
    """
    item_sigma = sigma(gallery.items)
    debiaser = gallery.debiaser
    biases = None
    if debiaser is not None and debiaser.transform_ is not None and debiaser.additive_:
        biases = debiaser.biases_.cpu()
    searched = gallery.items if gallery.flat is None else gallery.flat
    for start in range(0, length(queries), QUERIES):
        rows = slice(start, start + QUERIES)
        some = rows_of(queries, rows)
        raw = score(model, inputs.kind, some, searched)
        final = raw if debiaser is None else debiaser.transform_scores(raw)
        if gallery.surely is not None:
            truth = gallery.surely.truth(model, some, raw)
            final = sure_first(raw, truth, sure=gallery.surely.sure)
        values, places = top_of_rows(final, topk)
        p = probabilities(gallery, raw, final, places)
        spans = moments(model, inputs.kind, some, gallery.items, places)
        own_sigma = sigma(some)
        for q, columns in enumerate(places):
            data = dict(scores=values[q])
            if debiaser is not None:
                data.update(raw_scores=raw[q, columns])
            if biases is not None:
                data.update(biases=biases[columns])
            if gallery.surely is not None:
                data.update(raw_scores=raw[q, columns], truths=truth[q, columns])
            if p is not None:
                data.update(probabilities=p[q])
            if own_sigma is not None:
                data.update(sigma=own_sigma[q])
            if item_sigma is not None:
                data.update(item_sigma=item_sigma[columns])
            if spans is not None:
                data.update(moments=spans[q])
            meta = dict(
                query_id=inputs.ids[start + q],
                query=inputs.sources[start + q],
                kind=inputs.kind,
                ids=[gallery.given.ids[c] for c in columns.tolist()],
                sources=[gallery.given.sources[c] for c in columns.tolist()],
            )
            yield RankingSample(metainfo=meta, **data)


def probabilities(
    gallery: Gallery, raw: Tensor, final: Tensor, columns: Tensor
) -> Optional[Tensor]:
    """Return P(match) of each query's best items, float64 [Q, K]; None without a calibration.

    Args:
        gallery: the gallery to search.
        raw, final: float [Q, N], scores without and with its transform.
        columns: int64 [Q, K].
    """
    fit = gallery.calibration
    if fit is None:
        return None
    scores = final if fit.debiased else raw
    log_sums = None
    if fit.method == 'temperature':
        log_sums = (scores.double() / fit.temperature).logsumexp(1)
    best = scores.gather(1, columns)
    return fit.probabilities(best, log_sums=log_sums, candidates=scores.shape[1])


def sigma(items: Items) -> Optional[Tensor]:
    """Return a probabilistic model's uncertainty of each item, float [N] (UATVR Fig. 3)."""
    if isinstance(items, Tensor) or 'gaussian' not in items:
        return None
    return geometric_sigma(items['gaussian'].log_std).cpu()


def moments(
    model: nn.Module, kind: str, queries: Items, gallery: Items, columns: Tensor
) -> Optional[Tensor]:
    """Return where in the video each of Q K pairs matches, as shares of its length.

    Args:
        model: a retriever.
        kind: kind of the queries.
        queries, gallery: their items.
        columns: int64 [Q, K], positions in the gallery.

    Returns:
        float64 [Q, K, 2], or None for a model that compares whole videos.
    """
    flat = isinstance(queries, Tensor) or isinstance(gallery, Tensor)
    if flat or not hasattr(model.similarity, 'paired_matches'):
        return None
    rows = torch.arange(len(columns)).repeat_interleave(columns.shape[1])
    pairs = (rows, columns.flatten())
    if kind == 'video':
        queries, gallery, pairs = gallery, queries, pairs[::-1]
    return matches_of(model, queries, gallery, *pairs).span.view(*columns.shape, 2)
