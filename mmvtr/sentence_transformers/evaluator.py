"""Evaluator of an embedder's retrieval, both raw and debiased by a bank."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, Optional, Sequence

import numpy as np
import torch
from sentence_transformers.base.evaluation import BaseEvaluator
from torch import Tensor

from mmvtr.arrays.debiaser import Debiaser
from mmvtr.arrays.inputs import in_order
from mmvtr.functional import median_rank, ranks, recall_at

logger = logging.getLogger(__name__)

#: Default transform of a bank; a model's folder stores it with the bank.
DEFAULT = 'sinkhorn'


class DebiasedEvaluator(BaseEvaluator):
    """Evaluator of recall and median rank in a corpus, as ``raw_...`` and ``debiased_...``.

    The debiased ranks use scores with the corpus biases fitted to a bank of other queries
    (:func:`mmvtr.fit`): no test query affects another.

    ``primary_metric``, for a trainer's ``metric_for_best_model``, is ``NAME_debiased_recall@K``
    with the smallest K of ``ks``, or ``raw`` without a bank, whether debiasing helps or not.

    Args:
        queries: Q texts, or other inputs of the model.
        corpus: N items: texts, images, videos.
        relevant: for each query the positions of its items in the corpus, one or several; default:
            query i belongs to item i.
        bank: K other queries, which are encoded each time; their embeddings, float [K, D], a tensor
            or an array; or a loss with ``bank()``, which has the queue of its training; or two of
            these, ``(queries, items)``, whose rows i form a pair; or a Path, the folder of a saved
            model into which :meth:`mmvtr.Debiaser.save` has written (e.g. through
            :class:`.LossCallback`), with transform and options. While a loss has an empty queue the
            debiased figures equal the raw ones, with a warning.
        transform: see :class:`mmvtr.arrays.Debiaser`.
        ks: values of k for R@k, one or more.
        batch_size: batch size of ``encode``.
        name: prefix of the names of all figures.
        **options: options of the transform.

    Raises:
        ValueError: no queries, an empty corpus or bank, an unknown transform, invalid positions;
            called: a bank of another width, embeddings that are not finite.
    """

    def __init__(
        self,
        queries: Sequence[Any],
        corpus: Sequence[Any],
        relevant: Optional[Sequence[int | Sequence[int]]] = None,
        *,
        bank: Any = None,
        transform: Optional[str] = DEFAULT,
        ks: Sequence[int] = (1, 5, 10),
        batch_size: int = 32,
        name: str = '',
        **options: Any,
    ) -> None:
        super().__init__()
        queries, corpus = in_order(queries, 'queries'), in_order(corpus, 'corpus')
        if not queries or not corpus:
            raise ValueError(f'there are {len(queries)} queries and {len(corpus)} items')
        Debiaser(transform, **options)  # rejects unknown options
        if not len(ks) or min(ks) < 1:
            raise ValueError(f'ks must be ranks of 1 or more, not {ks}')
        if isinstance(bank, str):
            raise TypeError(
                f'bank must be queries, a loss, or a folder as a Path, not the text {bank[:80]!r}'
            )
        if isinstance(bank, Path):
            if options or transform != DEFAULT:
                raise ValueError(f'{bank} has its own transform and options: give none')
        elif bank is not None and not hasattr(bank, 'bank') and not len(bank):
            raise ValueError('the bank is empty: give queries of the training set')
        self.queries, self.corpus = queries, corpus
        self.positives = _positives(relevant, len(queries), len(corpus))
        self.bank = bank
        self.how = dict(transform=transform, **options)
        self.ks, self.batch_size, self.name = tuple(ks), batch_size, name
        kind = 'raw' if bank is None else 'debiased'
        self.primary_metric = f'{name}_{kind}_recall@{min(ks)}'.removeprefix('_')

    def __call__(
        self, model: Any, output_path: Optional[str] = None, epoch: int = -1, steps: int = -1
    ) -> dict[str, float]:
        """Return the metrics of a model, in [0, 1] except the median ranks."""
        queries, corpus = self._encode(model, self.queries), self._encode(model, self.corpus)
        metrics = self._figures('raw', Debiaser(None).fit(corpus).scores(queries))
        fitted = self._fitted(model, corpus)
        if fitted is not None:
            self._warn(fitted.asked_before(queries))
            metrics.update(self._figures('debiased', fitted.scores(queries)))
        elif self.bank is not None:
            self._warn('the loss has no bank yet: debiased figures are the raw ones')
            raw = metrics.items()
            metrics = {**metrics, **{key.replace('raw', 'debiased', 1): x for key, x in raw}}
        metrics = self.prefix_name_to_metrics(metrics, self.name)
        self.store_metrics_in_model_card_data(model, metrics, epoch, steps)
        return metrics

    def _warn(self, note: str) -> None:
        if note:
            logger.warning('%s: %s', self.name or type(self).__name__, note)

    def _fitted(self, model: Any, corpus: Tensor) -> Optional[Debiaser]:
        if isinstance(self.bank, Path):
            return Debiaser.load(self.bank, corpus)
        bank = self._bank(model)
        return None if bank is None else Debiaser(**self.how).fit(corpus, bank)

    def _bank(self, model: Any) -> Any:
        bank = self.bank.bank() if hasattr(self.bank, 'bank') else self.bank
        if bank is None:
            return None
        if isinstance(bank, tuple) and len(bank) == 2 and not isinstance(bank[0], str):
            return tuple(self._rows(model, x) for x in bank)
        return self._rows(model, bank)

    def _rows(self, model: Any, bank: Any) -> Tensor:
        """Return the embeddings of items, or given embeddings, as float32 [K, D]."""
        if isinstance(bank, np.ndarray) and np.issubdtype(bank.dtype, np.floating):
            bank = torch.from_numpy(bank.astype(np.float32))
        if isinstance(bank, Tensor) and bank.is_floating_point() and bank.ndim == 2:
            return bank.float().cpu()
        return self._encode(model, list(bank))

    def _encode(self, model: Any, items: list[Any]) -> Tensor:
        """Return embeddings, float32 [N, D], on the CPU."""
        vectors = model.encode(
            items, batch_size=self.batch_size, convert_to_tensor=True, show_progress_bar=False
        )
        return vectors.detach().float().cpu()

    def _figures(self, name: str, scores: Tensor) -> dict[str, float]:
        places = ranks(scores, self.positives)
        figures = {f'{name}_recall@{k}': float(recall_at(places, k)) for k in self.ks}
        return {**figures, f'{name}_median_rank': float(median_rank(places))}

    def get_config_dict(self) -> dict[str, Any]:
        """Return the settings for the model card."""
        return {} if isinstance(self.bank, Path) else dict(self.how)


def _positives(relevant: Optional[Sequence], queries: int, items: int) -> Tensor:
    """Return the relevant documents of each query, bool [Q, N]."""
    if relevant is None and queries != items:
        raise ValueError(
            f'there are {queries} queries and {items} items: give `relevant`, the items that '
            'belong to each query'
        )
    if relevant is not None and len(relevant) != queries:
        raise ValueError(f'relevant is for {len(relevant)} queries, but there are {queries}')
    positives = torch.zeros(queries, items, dtype=torch.bool)
    for row, places in enumerate(range(queries) if relevant is None else relevant):
        places = torch.as_tensor(places).flatten()
        if not len(places) or places.min() < 0 or places.max() >= items:
            raise ValueError(
                f'query {row} belongs to {places.tolist()[:8]}: positions are 0 to {items - 1}'
            )
        positives[row, places] = True
    return positives
