"""MS-SL's scores: the best of 528 proposals, and frames attended to by that proposal."""

from __future__ import annotations

from typing import Iterator, NamedTuple, Sequence

import torch
from torch import Tensor, nn

from mmvtr.functional.similarities.best_frames import proposal_pooling, proposal_windows
from mmvtr.functional.values import at_least_float32, product, recomputed
from mmvtr.models.layers.pooling import check_mask
from mmvtr.registry import MODELS
from mmvtr.structures import Levels, pad_tokens, with_tokens

#: Smallest length that divides, as in ``torch.nn.functional.normalize``.
EPSILON = 1e-12


class MSSLGallery(NamedTuple):
    """Precomputed vectors of V videos, for a search with any text.

    Attributes:
        clips: float [V, K, D].
        lengths: float [V, P], of the P = K (K + 1) / 2 proposals.
        attended: float [V, P, D], the frame vector pooled with each proposal's attention.
        attended_lengths: float [V, P].
    """

    clips: Tensor
    lengths: Tensor
    attended: Tensor
    attended_lengths: Tensor


@MODELS.register_module()
class MSSLSimilarity(nn.Module):
    """Clip and frame scores of MS-SL (Dong et al., ACM MM 2022), and their weighted mean.

    Clip score: the best cosine of the text with a proposal, the mean of a run of clips.  Frame
    score: the cosine with frames pooled by key-clip-guided attention,

        sum_f softmax_f(<K f, p>) V f,    p the pair's best proposal, not normalised.

    A proposal's attention does not depend on the text: it is computed for all 528 proposals of a
    video, and a pair uses that of its best one.  Pooling is linear: a text is compared with 32
    clips, not 528 proposals.

    Args:
        dim: D, width of the maps K and V, which have no bias.
        clips: K.
        weights: of clip and frame score (Charades: .5 each), normalised to sum to 1.
        entries: largest number of entries in memory beyond the results (at least those of one
            video, or of one text and all videos in :meth:`search`).

    Raises:
        ValueError: not two weights, or weights without a positive sum.
    """

    needs_tokens = True
    levels = ('clip', 'frame')

    def __init__(
        self,
        *,
        dim: int = 384,
        clips: int = 32,
        weights: Sequence[float] = (0.7, 0.3),
        entries: int = 2**24,
    ) -> None:
        super().__init__()
        if len(weights) != 2 or not sum(weights) > 0:
            raise ValueError(
                f'two weights (clip, frame) with a positive sum expected, got {weights}'
            )
        self.weights = tuple(weight / sum(weights) for weight in weights)
        self.entries = entries
        self.key, self.value = (nn.Linear(dim, dim, bias=False) for _ in range(2))
        for linear in (self.key, self.value):
            nn.init.normal_(linear.weight, std=0.02)
        self.register_buffer('pooling', proposal_pooling(clips), persistent=False)
        self.register_buffer('windows', proposal_windows(clips), persistent=False)

    def forward(self, texts: Levels, videos: Levels) -> dict[str, Tensor]:
        """Map levels ``'clip'`` and ``'frame'`` of T texts and V videos to matrices.

        Returns:
            float [T, V] each, at least float32: cosines ``'clip'`` and ``'frame'``, ``'scores'``;
            inner products ``'clip_dot'`` (the largest over proposals) and ``'frame_dot'``, which
            MS-SL contrasts.

        Raises:
            ValueError: a level of the videos carries no tokens, another number of clips, or a video
                has no valid frame.
        """
        queries = at_least_float32(texts['clip'].mean)

        def scores(*tile: Tensor) -> tuple[Tensor, ...]:
            return self._compare(queries, self._gallery(*tile))

        # Checkpointed: the intermediate values of a tile are recomputed in the backward pass.
        parts = [recomputed(scores, *tile) for tile in self._tiles(videos, len(queries))]
        return self._named([torch.cat(matrix, 1) for matrix in zip(*parts)])

    @torch.no_grad()
    def gallery(self, videos: Levels) -> MSSLGallery:
        """Return the data of V videos for :meth:`search`: 0.86 MB per video at D = 384."""
        parts = [self._gallery(*tile) for tile in self._tiles(videos, 0)]
        return MSSLGallery(*(torch.cat(field) for field in zip(*parts)))

    @torch.no_grad()
    def search(self, texts: Levels, gallery: MSSLGallery) -> Tensor:
        """Return ``'scores'`` [T, V] of :meth:`forward`, from a gallery."""
        queries = at_least_float32(texts['clip'].mean)
        rows = max(1, self.entries // max(gallery.lengths.numel(), 1))
        parts = [self._compare(part, gallery) for part in queries.split(rows)]
        return self._named([torch.cat(matrix) for matrix in zip(*parts)])['scores']

    @torch.no_grad()
    def matched_spans(self, texts: Levels, videos: Levels) -> Tensor:
        """Return begin and end of the best proposal, shares of the video, float [T, V, 2]."""
        queries = at_least_float32(texts['clip'].mean)
        best = [
            self._proposals(queries, clips, self._lengths(clips))[1].max(-1).indices
            for clips, *_ in self._tiles(videos, len(queries))
        ]
        return self.windows[torch.cat(best, 1)] / self.pooling.shape[1]

    # -- one tile -------------------------------------------------------------------------

    def _gallery(self, clips: Tensor, frames: Tensor, mask: Tensor) -> MSSLGallery:
        with torch.autocast(clips.device.type, enabled=False):
            # <K f, c> = <f, K' c>, and there are fewer clips than frames; proposals average both.
            logits = self.pooling @ ((clips @ self.key.weight) @ frames.mT)
            logits = logits.masked_fill(~mask[:, None], torch.finfo(logits.dtype).min)
            attended = logits.softmax(-1) @ self.value(frames)
        return MSSLGallery(clips, self._lengths(clips), attended, _length(attended))

    def _lengths(self, clips: Tensor) -> Tensor:
        """Return the lengths of the proposals, float [V, P]."""
        return _length(product(self.pooling, clips))

    def _proposals(self, queries: Tensor, clips: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Return inner products with proposals, and these over the lengths, [T, V, P]."""
        with torch.autocast(clips.device.type, enabled=False):
            dots = (queries @ clips.flatten(0, 1).t()).unflatten(1, clips.shape[:2])
            dots = dots @ self.pooling.t()
        return dots, dots / lengths

    def _compare(self, queries: Tensor, gallery: MSSLGallery) -> tuple[Tensor, ...]:
        """Return clip cosines, frame cosines, clip dots and frame dots, [T, V] each."""
        clips, lengths, attended, attended_lengths = gallery
        dots, scaled = self._proposals(queries, clips, lengths)
        clip, best = scaled.max(-1)
        video = torch.arange(len(clips), device=best.device)
        frame_dot = (attended[video, best] * queries[:, None]).sum(-1)
        length = _length(queries)[:, None]
        frame = frame_dot / attended_lengths[video, best]
        return clip / length, frame / length, dots.max(-1).values, frame_dot

    def _named(self, matrices: Sequence[Tensor]) -> dict[str, Tensor]:
        named = dict(zip(('clip', 'frame', 'clip_dot', 'frame_dot'), matrices))
        named['scores'] = self.weights[0] * named['clip'] + self.weights[1] * named['frame']
        return named

    def _tiles(self, videos: Levels, texts: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Yield some videos at a time: clips [v, K, D], frames [v, F, D] and the mask of frames."""
        clips = with_tokens(videos['clip'], 'clip', 'videos').tokens
        _, frames, mask, _ = with_tokens(videos['frame'], 'frame', 'videos')
        count = self.pooling.shape[1]
        if not len(clips):
            clips = pad_tokens(clips, count)
        if clips.shape[1] != count:
            raise ValueError(
                f'MSSLSimilarity takes {count} clips per video, the encoder gives {clips.shape[1]}'
            )
        check_mask(mask, 'mask of frames')
        size = len(self.pooling) * (texts + mask.shape[1] + clips.shape[2])
        whole = at_least_float32(clips), at_least_float32(frames), mask
        yield from zip(*(x.split(max(1, self.entries // size)) for x in whole))


def _length(x: Tensor) -> Tensor:
    return x.norm(dim=-1).clamp(min=EPSILON)
