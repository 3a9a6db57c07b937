"""Similarity of a text and a video from several experts, some of which may be missing."""

from __future__ import annotations

from torch import Tensor, nn

from mmvtr.functional.values import at_least_float32, product
from mmvtr.models.layers.pooling import check_mask, masked
from mmvtr.registry import MODELS
from mmvtr.structures import Embedding, Levels, pad_tokens, with_tokens


@MODELS.register_module()
class ExpertSimilarity(nn.Module):
    """Expert-wise similarity, weighted by the text (MMT, Gabeur et al., ECCV 2020).

        s(t, v) = sum_e w_e(t) <phi_e(t), psi_e(v)> / sum_e w_e(t),    e among the experts of v

    Tokens of level ``'global'`` are experts: psi_e for a video, w_e phi_e for a text, with phi_e of
    unit length, so that w_e is the token's length.  Sums over the experts of a video are sums over
    all experts with zeros for missing ones: two matrix products, of vectors of length E D and of
    length E.
    """

    needs_tokens = True
    levels = ('global',)

    def forward(self, texts: Levels, videos: Levels) -> dict[str, Tensor]:
        """Map levels of T texts and V videos -> ``'scores'`` float [T, V], at least float32.

        Raises:
            ValueError: no tokens, different numbers of experts, or a video without any expert.
        """
        t, v = texts['global'], videos['global']
        phrases, vectors, available = _tokens(t, v)
        weights = product(phrases.norm(dim=-1), available.to(phrases.dtype).t())
        return {'scores': product(phrases.flatten(1), vectors.flatten(1).t()) / weights}

    def experts(self, items: Levels) -> Tensor:
        """Return the vectors stored to teach another model, float [N, E, D], zero if missing.

        Sums over the experts of inner products are the scores if no expert is missing; otherwise
        they lack the division by sum_e w_e(t).
        """
        tokens, mask = items['global'].tokens, items['global'].mask
        return masked(at_least_float32(tokens), mask)


def _tokens(t: Embedding, v: Embedding) -> tuple[Tensor, Tensor, Tensor]:
    """Return w phi [T, E, D], psi [V, E, D], zero for missing experts, and the mask [V, E]."""
    for side, embedding in dict(texts=t, videos=v).items():
        with_tokens(embedding, 'global', side)
    count = max(t.tokens.shape[1], v.tokens.shape[1])
    # Levels of zero items have one token, whatever the encoder.
    phrases, vectors, available = (
        x if len(x) else pad_tokens(x, count) for x in (t.tokens, v.tokens, v.mask)
    )
    if phrases.shape[1:] != vectors.shape[1:]:
        raise ValueError(
            f'texts have {phrases.shape[1]} experts of {phrases.shape[2]} dimensions, videos '
            f'{vectors.shape[1]} of {vectors.shape[2]}: they are of different models'
        )
    check_mask(available, 'experts')
    return at_least_float32(phrases), masked(vectors, available), available
