"""Where scores are inner products: the one vector an item, and how uncertain its model is of it."""

from __future__ import annotations

from typing import Optional

from torch import Tensor, nn

from mmvtr.engine.loop.evaluation import check_levels
from mmvtr.functional.uncertainty.gaussian import geometric_sigma
from mmvtr.structures import Levels


def vectors(model: nn.Module, levels: Levels) -> Tensor:
    """Return one vector per item whose inner products are the model's scores, for vector stores.

    Args:
        model: a retriever.
        levels: of N encoded texts or videos.

    Returns:
        float32 [N, D'].

    Raises:
        ValueError: the similarity has no such vectors, or the items lack a level that it reads.
    """
    refuse_without_vectors(model)
    check_levels(model, levels, 'the items')
    return model.similarity.flat(levels).float()


def sigmas(levels: Levels) -> Optional[list[float]]:
    """Return a probabilistic model's uncertainty of N items (UATVR Fig. 3); None of others."""
    if 'gaussian' not in levels:
        return None
    return geometric_sigma(levels['gaussian'].log_std).tolist()


def refuse_without_vectors(model: nn.Module) -> None:
    """Raise ValueError where scores are no inner products: they compare tokens, or in stages."""
    similarity = model.similarity
    if not hasattr(similarity, 'flat') or not getattr(similarity, 'exact', True):
        offer = ''
        if hasattr(similarity, 'shortlist'):
            offer = (
                '; a large gallery it ranks in two stages: model.similarity.shortlist=100 scores '
                "each text's 100 best videos of the cheap first stage (tools/test.py)"
            )
        raise ValueError(
            f'the scores of {type(similarity).__name__} are no inner products of one vector an '
            f'item, which an index of nearest neighbours needs{offer}'
        )
