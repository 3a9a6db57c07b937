"""NCL as a loss of sentence-transformers, with the queue of queries that its test needs."""

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

    The last ``queue`` embeddings of texts stay in :meth:`bank`, with the weights of their step: by
    them scores are normalised at test time
    (``DebiasedEvaluator(bank=loss)``, :class:`~mmvtr.sentence_transformers.LossCallback`).  Inside
    of a MatryoshkaLoss it takes the queries at the model's full width alone, once a step; of a
    MatryoshkaLoss without the full width it stays empty.

    Args:
        model: the SentenceTransformer that is trained.
        queue: K.  Longer than the training set, it would hold texts twice: a LossCallback
            shortens it.
        iterations, marginals, differentiable: see
            :class:`~mmvtr.models.losses.NormalizedContrastiveLoss`.
        **kwargs: see :class:`~mmvtr.sentence_transformers.DebiasedContrastiveLoss`.

    Raises:
        ValueError: a queue below 1, and as there; in training: vectors wider than the model says.
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
        """Keep no more than ``count`` queries: a training set has no more."""
        if self.queue.size > count:
            logger.warning('queue=%d is longer than the data: it keeps %d', self.queue.size, count)
            self.queue = MemoryBank(count, {'global': self._width}).to(self.queue.pushed.device)

    def _see(self, texts: Levels, documents: Levels) -> None:
        width = texts['global'].mean.shape[1]
        if width > self._width:
            raise ValueError(
                f'vectors have {width} numbers, and the model says {self._width} '
                '(get_embedding_dimension), of which the queue is'
            )
        if self.training and torch.is_grad_enabled() and width == self._width:
            unit = self.similarity.prepare({'global': texts['global']})
            rows = unit['global'].mean
            nobody = torch.full((len(rows),), -1, device=rows.device)
            self.queue.push(unit, nobody)
