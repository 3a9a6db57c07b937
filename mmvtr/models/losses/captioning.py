"""SSB's cross-captioning: each caption is generated from the other videos of the batch.

Patrick et al., Support-Set Bottlenecks for Video-Text Representation Learning, ICLR 2021.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmvtr.dist import gather_rows, world_size
from mmvtr.functional.values import at_least_float32, check_one_of, check_range
from mmvtr.models.layers.pooling import masked, unit
from mmvtr.models.target import LocalBatch, Target
from mmvtr.models.towers.base import check_text
from mmvtr.models.towers.transformers_weights import load_transformer
from mmvtr.registry import MODELS
from mmvtr.structures import Embedding, Levels


@MODELS.register_module()
class CrossCaptioning(nn.Module):
    """SSB's second loss: cross-entropy of a T5 decoder that generates captions from support sets.

    Caption i is generated, with teacher forcing, from the frames of the videos j of its support
    set S_i, weighted by their similarity with the text::


        e_i = sum over j in S_i of softmax_j(<t_i, v_j> / temperature) E_j

    with unit vectors t_i, v_j and the frame encodings E_j [F, D].  The query is the text (it could
    be the video v_i), so that the loss trains the retrieval scores and pulls a caption towards
    videos that help to generate it, which the ranking loss only pushes away.  Frames are mixed at
    equal index; a video adds nothing beyond its end.  Only videos of the same process can support a
    text.

    The bottleneck over the other videos and the comparison of supports are the paper's.  There is
    no public code, and the rest is our choice: all numbers, one mean over the tokens of the batch,
    a linear layer from D to the decoder's width, and a decoder without shared weights.

    Args:
        decoder: T5 whose decoder is used: name on the hub, local folder, or a dict for
            ``AutoConfig.for_model`` (random weights).  Its tokenizer must be the text tower's.
        dim: D, width of the video tokens.
        support: ``'cross'``: all videos of the batch except the text's own (and copies of them),
            ``'identity'``: its own (plain captioning), or ``'full'``: both.
        temperature: temperature of the softmax.
        loss_weight: lambda, for a ranking loss that is summed over the batch.

    Raises:
        ValueError: an unknown support, a temperature that is not positive, or a file that lacks
            weights of the decoder.
        RuntimeError: the decoder can be neither found nor downloaded.
    """

    def __init__(
        self,
        decoder: str | dict,
        *,
        dim: int,
        support: str = 'cross',
        temperature: float = 0.1,
        loss_weight: float = 10.0,
    ) -> None:
        super().__init__()
        check_one_of(('cross', 'identity', 'full'), support=support)
        check_range('(0, inf]', temperature=temperature)
        self.t5 = load_transformer(decoder, 'AutoModelForSeq2SeqLM', used=_without_encoder)
        _without_encoder(self.t5)
        self.projection = nn.Linear(dim, self.t5.config.d_model)
        self.support = support
        self.temperature = temperature
        self.loss_weight = loss_weight

    def forward(
        self, texts: Levels, videos: Levels, target: Target, batch: LocalBatch
    ) -> dict[str, Tensor]:
        """Compute the loss in nats per token over the captions that have a support set.

        Args:
            texts, videos, target: the joint batch, unused.
            batch: this process' own texts and videos, with tokens.

        Returns:
            ``{'loss': ...}``; its mean over processes is the mean over all their tokens.  0, with
            zero gradients, if no caption has a support set, as in a batch of one video.

        Raises:
            ValueError: a token id outside the decoder's vocabulary.
        """
        members = self.members(batch.positives)
        some = members.any(1)
        count = torch.zeros(1, device=some.device)
        total = torch.cat([p.flatten()[:0] for p in self.parameters()]).sum()
        if some.any():
            text, mask = batch.inputs['text'][some], batch.inputs['text_mask'][some]
            mixed = bottleneck(
                batch.texts['global'].mean[some],
                batch.videos['global'],
                members[some],
                temperature=self.temperature,
            )
            count = count + mask.sum()
            total = self._surprise(*mixed, text, mask)
        mean_count = gather_rows(count).sum() / world_size()
        return {'loss': self.loss_weight * total / mean_count.clamp(min=1)}

    def members(self, positives: Tensor) -> Tensor:
        """Return each text's support set: positives bool [T, V] -> bool [T, V]."""
        if self.support == 'full':
            return torch.ones_like(positives)
        return positives if self.support == 'identity' else ~positives

    def _surprise(self, frames: Tensor, frame_mask: Tensor, text: Tensor, mask: Tensor) -> Tensor:
        """Return the negative log-likelihood of texts [N, L] given frames [N, F, D], summed."""
        words = self.t5.config.vocab_size
        check_text(text, mask, positions=None, vocabulary=words, name='CrossCaptioning')
        start = torch.full_like(text[:, :1], self.t5.config.pad_token_id)  # T5 begins with a pad
        logits = self.t5(
            encoder_outputs=(self.projection(frames),),
            attention_mask=frame_mask.long(),
            decoder_input_ids=torch.cat([start, text[:, :-1]], 1),
            use_cache=False,
        ).logits
        labels = text.masked_fill(~mask, -100)  # cross_entropy ignores -100
        logits = at_least_float32(logits).flatten(0, 1)
        return F.cross_entropy(logits, labels.flatten(), reduction='sum')


def _without_encoder(t5: nn.Module) -> list[nn.Module]:
    t5.encoder = None  # replaced by the videos
    return [t5]


def bottleneck(
    queries: Tensor, videos: Embedding, members: Tensor, *, temperature: float
) -> tuple[Tensor, Tensor]:
    """Average the frames of the support set, weighted by similarity.

    Args:
        queries: float [N, D].
        videos: V videos with tokens [V, F, D] and mask [V, F].
        members: bool [N, V], a True in each row.
        temperature: temperature of the softmax over the members.

    Returns:
        float [N, F, D], at least float32, and bool [N, F], True where a member has a frame.
    """
    with torch.autocast(queries.device.type, enabled=False):
        scores = unit(queries) @ unit(videos.mean).t() / temperature
        weights = scores.masked_fill(~members, -torch.inf).softmax(1)
        frames = torch.einsum('nv,vfd->nfd', weights, masked(videos.tokens, videos.mask))
        return frames, members.float() @ videos.mask.float() > 0
