"""HGR's scores: sentence and video, verbs and nouns and their attended frames."""

from __future__ import annotations

import math
from typing import ClassVar, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmvtr.functional.values import product, recomputed
from mmvtr.models.layers.pooling import check_mask, masked, unit
from mmvtr.registry import MODELS
from mmvtr.structures import Levels, with_tokens

#: Smallest length that divides, as in ``torch.nn.functional.normalize``.
EPSILON = 1e-12


@MODELS.register_module()
class HGRSimilarity(nn.Module):
    """Cosine of sentences, scores of verbs and of nouns, and the mean of the three.

    HGR's code also takes the mean.  With the sum of the frame-length paper (Satar et al., BMVC
    2023, Eq. 3) a margin of .2 would act like .067.  A text without verbs has a verb score of 0
    with all videos, which still counts in the mean.

    Args:
        weights: of sentence, verbs and nouns, normalised to sum to 1.
        sharpness: sigma of :func:`phrase_scores`.
        entries: largest number of entries in memory, see :func:`phrase_scores`.

    Raises:
        ValueError: not three weights, or weights without a positive sum.
    """

    needs_tokens = True
    levels: ClassVar[tuple[str, ...]] = ('sentence', 'verb', 'noun')

    def __init__(
        self,
        *,
        weights: Sequence[float] = (1.0, 1.0, 1.0),
        sharpness: float = 4.0,
        entries: int = 2**22,
    ) -> None:
        super().__init__()
        if len(weights) != 3 or not sum(weights) > 0:
            raise ValueError(
                f'three weights (sentence, verb, noun) with a positive sum expected, got {weights}'
            )
        self.weights = {name: w / sum(weights) for name, w in zip(self.levels, weights)}
        self.sharpness = sharpness
        self.entries = entries

    def forward(self, texts: Levels, videos: Levels) -> dict[str, Tensor]:
        """Map levels of T texts, V videos -> ``'sentence'``, ``'verb'``, ``'noun'``, ``'scores'``.

        Returns:
            float [T, V] each, at least float32.

        Raises:
            ValueError: a level carries no tokens, or a video has no valid frame.
        """
        sentences, clips = unit(texts['sentence'].mean), unit(videos['sentence'].mean)
        matrices = {'sentence': product(sentences, clips.t())}
        for name in self.levels[1:]:
            _, nodes, node_mask, _ = with_tokens(texts[name], name, 'texts')
            _, frames, frame_mask, _ = with_tokens(videos[name], name, 'videos')
            matrices[name] = phrase_scores(
                nodes,
                node_mask,
                frames,
                frame_mask,
                sharpness=self.sharpness,
                entries=self.entries,
            )
        matrices['scores'] = sum(w * matrices[name] for name, w in self.weights.items())
        return matrices


def phrase_scores(
    nodes: Tensor,
    node_mask: Tensor,
    frames: Tensor,
    frame_mask: Tensor,
    *,
    sharpness: float = 4.0,
    entries: int = 2**22,
) -> Tensor:
    """Return the mean over a text's phrases n of the cosine of n and its attended video vector.

        c_f = max(0, cos(n, x_f)),    p = softmax(sigma c / |c|),    cos(n, sum_f p_f x_f)

    over valid frames f (HGR's code, 'embed').  The attended vector is never made: its inner product
    with n is sum_f p_f <n, x_f>, and its length follows from the inner products of frames.

    Args:
        nodes: float [T, N, D]; half precision is computed in float32.
        node_mask: bool [T, N]; a text may have no node.
        frames: float [V, F, D].
        frame_mask: bool [V, F].
        sharpness: sigma.
        entries: largest number of inner products in memory (at least those of one node and video).

    Returns:
        float [T, V]; 0 for a text without a node.

    Raises:
        ValueError: a video without a valid frame.
    """
    check_mask(frame_mask, 'mask of frames')
    owner, place = node_mask.nonzero(as_tuple=True)
    phrases = unit(nodes[owner, place])
    width = max(1, min(math.isqrt(entries) // max(frames.shape[1], 1), len(frames)))
    height = max(1, entries // max(width * frames.shape[1], 1))
    columns = list(zip(frames.split(width), frame_mask.split(width)))
    scores = phrases.new_zeros(len(nodes), len(frames))
    for rows, part in zip(owner.split(height), phrases.split(height)):
        # Checkpointed: the intermediate values of a tile are recomputed in the backward pass.
        tiles = [recomputed(_attend, part, *column, sharpness) for column in columns]
        scores = scores.index_add(0, rows, torch.cat(tiles, 1))
    return scores / node_mask.sum(1, keepdim=True).clamp(min=1)


def _attend(nodes: Tensor, frames: Tensor, mask: Tensor, sharpness: float) -> Tensor:
    """Return cosines [n, v] of unit vectors [n, D] with attended [v, F, D], mask bool [v, F]."""
    frames = masked(frames, mask)
    with torch.autocast(nodes.device.type, enabled=False):
        dots = (nodes @ frames.flatten(0, 1).t()).unflatten(1, mask.shape)
        cosines = dots / frames.norm(dim=-1).clamp(min=EPSILON)
        logits = sharpness * F.normalize(cosines.clamp(min=0), dim=-1)
        p = logits.masked_fill(~mask, -math.inf).softmax(-1)
        between = p.transpose(0, 1) @ (frames @ frames.mT)
        square = (between.transpose(0, 1) * p).sum(-1)
    return (p * dots).sum(-1) / square.clamp(min=EPSILON**2).sqrt()
