"""A retriever that re-scores hard pairs by fusion: TACo's cascade (Yang et al., ICCV 2021)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mmvtr.dist import gather_rows, rank, world_size
from mmvtr.functional.losses.set_contrast import hard_negatives
from mmvtr.functional.values import check_range
from mmvtr.models.annotation import JointIds
from mmvtr.models.retriever import VideoTextRetriever
from mmvtr.models.target import LocalBatch, Matrices, Target, Targets, check_readable
from mmvtr.registry import MODELS
from mmvtr.structures import Levels


@MODELS.register_module()
class CascadeRetriever(VideoTextRetriever):
    """Retriever that adds a matrix ``'fusion'`` of the pairs that are hard for the cheap scores.

    Pairs are ranked by the similarity's ``ranking``; each text takes its ``negatives`` best videos
    except its own, each video its best texts.  These and the annotated pairs are fused; elsewhere
    the matrix is 0 and its target has weight 0, so that a loss ignores it.  In a contrast of texts
    against videos (``direction='t2v'``, the paper's only one) a text's negatives are then the
    videos that it took and those that took it: the paper prints no loss for the hard texts of a
    video, so this is our choice, and ``direction='both'`` is the other reading.

    Each process fuses its share of the pairs of the joint batch; the loss and the gradients are
    those of one process.

    Args:
        negatives: K' (paper: 8).
        **kwargs: see :class:`VideoTextRetriever`; there is no ``block_rows``.  The similarity needs
            the methods ``first_stage``, ``ranking`` and ``fuse`` of a CascadeSimilarity.

    Raises:
        ValueError: ``negatives`` below 1, another similarity, ``block_rows``; (in training) a
            supervision with a target for each matrix.
    """

    no_blocks = 'a CascadeRetriever ranks all pairs of the joint batch to choose what it fuses'

    def __init__(self, *, negatives: int = 8, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        check_range('[1, inf]', negatives=negatives)
        lacking = [n for n in ('first_stage', 'ranking', 'fuse') if not hasattr(self.similarity, n)]
        if lacking:
            raise ValueError(
                f'{type(self.similarity).__name__} has no {lacking[0]}(): CascadeRetriever takes a '
                'CascadeSimilarity'
            )
        self.negatives = negatives

    def _compared(
        self, texts: Levels, videos: Levels, target: Targets, joint: JointIds, local: LocalBatch
    ) -> tuple[Matrices, dict[str, Target]]:
        """Return the first stage's matrices and ``'fusion'``, and a target for each."""
        if not isinstance(target, Target):
            raise ValueError(
                f'the supervision makes a target for each of {sorted(target)[:8]}, but '
                'CascadeRetriever needs one target for all matrices'
            )
        matrices = self.similarity.first_stage(texts, videos)
        matrices['scores'] = matrices['global'] + matrices['token']
        check_readable(target, self)
        candidates = ~target.positives
        weights = candidates.to(matrices['scores'].dtype)
        if target.weights is not None:
            candidates, weights = candidates & (target.weights > 0), target.weights
        ranking = self.similarity.ranking(texts, videos)
        hard = hard_negatives(ranking, candidates, self.negatives)
        targets = {name: target for name in matrices}
        matrices['fusion'] = self._fused(texts, videos, target.positives | hard)
        targets['fusion'] = target._replace(weights=weights * hard, columns=None)
        return matrices, targets

    def _fused(self, texts: Levels, videos: Levels, chosen: Tensor) -> Tensor:
        """Return fusion scores of the chosen pairs (bool [T, V]), 0 elsewhere: float [T, V]."""
        rows, columns = chosen.nonzero(as_tuple=True)
        share = slice(*(len(rows) * (rank() + step) // world_size() for step in (0, 1)))
        scores = self.similarity.fuse(texts, videos, rows[share], columns[share])
        scores = gather_rows(scores)
        return torch.zeros_like(chosen, dtype=scores.dtype).index_put((rows, columns), scores)
