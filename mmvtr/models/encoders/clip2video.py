"""CLIP2Video (Fang et al., arXiv:2106.11097): temporal difference and temporal alignment blocks.

Written from the behaviour of the official code, with two changes, so that no result depends on the
rest of the batch or on the length of the padding.  Every head uses the padding mask of its own
sample (see ``clip4clip.py``); and no difference between a frame and padding is used, while the
official transformers read the one from the last frame to the first padded one.

So an official checkpoint scores videos shorter than the padded length differently here: with random
weights of CLIP's width and 12 frames, the second change alone alters scores by a fifth of their
standard deviation over videos if 2 frames are valid, by a twentieth at 9, and not at all at 12
(``test_clip2video.py``).  At ``max_frames`` valid frames the scores are the official ones.
"""

from __future__ import annotations

from typing import Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmvtr.functional.values import at_least_float32
from mmvtr.models.encoders.clip4clip import CLIPDualEncoder, FramePositions, TemporalTransformer
from mmvtr.models.layers.pooling import masked, mean_of_units, unit
from mmvtr.registry import MODELS
from mmvtr.structures import Embedding, Levels


class TemporalDifference(nn.Module):
    """Module that inserts the difference of two successive frames as a token between them.

        d_t = 2 sigmoid(LN(Attn(f_{t+1} - f_t + pos_{t+1}))) - 1
        f_1 + pos_1 + frame, d_1 + pos_1 + diff, f_2 + pos_2 + frame, d_2 + pos_2 + diff, ...

    Attn is one block over the valid differences of a video; d_t is valid if both its frames are.
    In the official code it is valid as a key of Attn if f_{t+1} is, but as an output if f_t is:
    the last frame of a padded video has a difference to padding.  The official code has no d_T;
    here there is one, always invalid, so that one-frame videos need no special case.

    Args:
        text: text tower, whose first block and positions are the initial weights.
        dim: D.
        rows: rows of the position table; None: as many as the text tower's.
    """

    def __init__(self, text: nn.Module, dim: int, *, rows: Optional[int]) -> None:
        super().__init__()
        self.position = FramePositions.like(text, dim, rows=rows)
        # Of differences and of frames: as the code, CLIP's first two text positions.
        self.token_type = nn.Embedding.from_pretrained(
            FramePositions.like(text, dim, rows=2).weight.detach(), freeze=False
        )
        self.attention = TemporalTransformer.like(text, dim, layers=1)
        self.norm = nn.LayerNorm(dim)

    def forward(self, frames: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Interleave frames with their differences.

        Args:
            frames: float [V, F, D], not normalised.
            mask: bool [V, F].

        Returns:
            float [V, 2F, D] with the frames at even places, and their mask bool [V, 2F].
        """
        position = self.position(frames.shape[1])
        change = F.pad(frames[:, 1:] - frames[:, :-1], (0, 0, 0, 1))
        changed = F.pad(mask[:, 1:] & mask[:, :-1], (0, 1))
        # d_t attends with the position of its later frame, but is inserted with that of its
        # earlier one; the row that roll brings to d_T is never seen.
        change = self.attention(change + position.roll(-1, 0), changed)
        change = 2 * self.norm(change).sigmoid() - 1
        difference_type, frame_type = self.token_type.weight
        tokens = torch.stack(
            [frames + position + frame_type, change + position + difference_type], dim=2
        )
        return tokens.flatten(1, 2), torch.stack([mask, changed], dim=2).flatten(1, 2)


class TemporalAlignment(nn.Module):
    """Pooling of tokens around centres that video and text share.

        a_i = softmax_k(w_k . x_i)    c_k = sum_i a_ik (x_i - e_k)    unit(mean_k unit(c_k))

    with the sums over valid tokens; like NetVLAD, but a mean over the centres.

    Args:
        dim: D.
        num_centers: K.
    """

    def __init__(self, dim: int, *, num_centers: int) -> None:
        super().__init__()
        self.weight_center = nn.Parameter(torch.randn(num_centers, dim) / 8)
        self.emb_center = nn.Parameter(torch.randn(num_centers, dim) / 8)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """Pool float [N, L, D] with mask bool [N, L] -> float [N, D] of unit length."""
        tokens = at_least_float32(tokens)
        # A residual is the small difference of two sums, so it needs float32.
        with torch.autocast(tokens.device.type, enabled=False):
            assign = (tokens @ self.weight_center.t()).softmax(-1) * mask[..., None]
            residual = assign.transpose(1, 2) @ tokens - assign.sum(1)[..., None] * self.emb_center
            return unit(unit(residual).mean(1))


@MODELS.register_module()
class CLIP2Video(CLIPDualEncoder):
    """CLIP2Video's encoder, with two levels of a video and of a text.

    Level ``'global'``: interleaved frames and differences through a transformer; its outputs at
    the frames, plus the frames, are the tokens; units, masked mean, unit.  The text is its EOT
    token; its tokens are all words.

    Level ``'aligned'``: every second frame (1st, 3rd, ...; of an odd number F one more than half)
    goes through the same difference block and a transformer of one block, with the same
    residual.  These tokens and the F raw frames are pooled around shared centres; the text's
    words without SOT around the same ones.

    The official score is the mean of both cosine similarities.  All transformers and positions
    start from CLIP's text tower if the widths agree.

    Args:
        frames, text: towers, see :class:`~mmvtr.models.encoders.clip4clip.CLIPDualEncoder`.
        temporal_layers: blocks of the global transformer.
        num_centers: K, centres of the alignment.
        max_frames: rows of the frame position table; None: as many as the text tower's (77).
    """

    level_names = ('global', 'aligned')

    def __init__(
        self,
        frames: dict | nn.Module,
        text: dict | nn.Module,
        *,
        temporal_layers: int = 4,
        num_centers: int = 5,
        max_frames: Optional[int] = None,
    ) -> None:
        super().__init__(frames, text)
        self.difference = TemporalDifference(self.text, self.dim, rows=max_frames)
        self.temporal = TemporalTransformer.like(self.text, self.dim, layers=temporal_layers)
        self.action = TemporalTransformer.like(self.text, self.dim, layers=1)
        self.align = TemporalAlignment(self.dim, num_centers=num_centers)

    def _pool_frames(self, frames: Tensor, mask: Tensor) -> Levels:
        tokens = self._add_change(frames, mask, self.temporal)
        slow_mask = mask[:, ::2]
        slow = self._add_change(frames[:, ::2], slow_mask, self.action)
        aligned = self.align(torch.cat([frames, slow], 1), torch.cat([mask, slow_mask], 1))
        return {
            'global': Embedding(mean_of_units(tokens, mask), tokens, mask),
            'aligned': Embedding(aligned),
        }

    def _add_change(self, frames: Tensor, mask: Tensor, transformer: nn.Module) -> Tensor:
        mixed = transformer(*self.difference(frames, mask))
        return masked(frames + mixed[:, ::2], mask)

    def _pool_words(self, tokens: Tensor, pooled: Tensor, mask: Tensor) -> Levels:
        words = mask.clone()
        words[:, 0] = False  # SOT is the same for every text
        return {
            **super()._pool_words(tokens, pooled, mask),
            'aligned': Embedding(self.align(tokens, words)),
        }
