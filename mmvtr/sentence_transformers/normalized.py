"""NCL as a loss of sentence-transformers, with the query queue for test-time normalisation."""

from __future__ import annotations

import logging
from typing import Any, Optional

import torch
from torch import Tensor

from mmvtr.functional.values import check_range
from mmvtr.models import losses
from mmvtr.models.bank import MemoryBank
from mmvtr.sentence_transformers.contrastive import DebiasedContrastiveLoss
from mmvtr.structures import Levels

logger = logging.getLogger(__name__)


class NormalizedContrastiveLoss(DebiasedContrastiveLoss):
    """Sinkhorn-normalised contrastive loss (NCL; Park et al., 2022) with a queue of queries.

    The last ``queue`` text embeddings, with the weights of their step, are kept in :meth:`bank` and
    normalise scores at test time (``DebiasedEvaluator(bank=loss)``,
    :class:`~mmvtr.sentence_transformers.LossCallback`).  Inside a MatryoshkaLoss it stores queries
    only at the model's full width, once per step; it stays empty if the full width is not used.

    Args:
        model: the SentenceTransformer that is trained.
        queue: K.  If larger than the training set, it would hold repeated texts: a LossCallback
            shortens it.
        iterations, marginals, differentiable: see
            :class:`~mmvtr.models.losses.NormalizedContrastiveLoss`.
        **kwargs: see :class:`~mmvtr.sentence_transformers.DebiasedContrastiveLoss`.

    Raises:
        ValueError: a queue below 1, and those of the base class; in training: vectors wider than
            the model states.
    """

    def __init__(
        self,
        model: Any,
        *,
        queue: int = 16384,
        iterations: int = 4,
        marginals: str = 'uniform',
        differentiable: bool = False,
        **kwargs: Any,
    ) -> None:
        self._ncl = dict(iterations=iterations, marginals=marginals, differentiable=differentiable)
        super().__init__(model, **kwargs)
        self._width = model.get_embedding_dimension()
        check_range('[1, inf]', queue=queue)
        self.queue = MemoryBank(queue, {'global': self._width})

    def _loss(self, **how: Any) -> losses.ContrastiveLoss:
        return losses.NormalizedContrastiveLoss(**self._ncl, **how)

    def bank(self) -> Optional[Tensor]:
        """Return unit vectors of the queries in the queue, float [K, D]; None while it is empty."""
        filled = self.queue.levels['global'].mean[: len(self.queue)]
        return filled.clone() if len(filled) else None

    def shorten(self, count: int) -> None:
        """Keep at most ``count`` queries, the size of the training set."""
        if self.queue.size > count:
            logger.warning('queue=%d is longer than the data: it keeps %d', self.queue.size, count)
            self.queue = MemoryBank(count, {'global': self._width}).to(self.queue.pushed.device)

    def _see(self, texts: Levels, documents: Levels) -> None:
        width = texts['global'].mean.shape[1]
        if width > self._width:
            raise ValueError(
                f'vectors have {width} numbers, but the queue has {self._width}, as the model says '
                '(get_embedding_dimension)'
            )
        if self.training and torch.is_grad_enabled() and width == self._width:
            unit = self.similarity.prepare({'global': texts['global']})
            rows = unit['global'].mean
            nobody = torch.full((len(rows),), -1, device=rows.device)
            self.queue.push(unit, nobody)
