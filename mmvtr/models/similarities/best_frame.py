"""Similarity of a sentence and the best frame of a video (partially relevant retrieval)."""

from __future__ import annotations

import math
from typing import Mapping, NamedTuple, Optional, Sequence

import torch
from torch import Tensor, nn

from mmvtr.functional.similarities.best_frames import (
    BestFrames,
    best_frames,
    paired_best_frames,
)
from mmvtr.functional.values import at_least_float32, product
from mmvtr.models.layers.pooling import unit
from mmvtr.models.similarities.cosine import level_weights
from mmvtr.registry import MODELS
from mmvtr.structures import Levels, with_tokens


class Frames(NamedTuple):
    """Frame vectors of videos that a search compares with texts.

    Attributes:
        vectors: float [V, L, D'], at least float32.
        mask: bool [V, L].
    """

    vectors: Tensor
    mask: Tensor


class Matches(NamedTuple):
    """Matched frames of P pairs of a text and a video.

    Attributes:
        frame: int64 [P], place among the video's valid frames.
        span: float64 [P, 2], begin and end of that frame as shares of the video.
    """

    frame: Tensor
    span: Tensor


@MODELS.register_module()
class BestFrameSimilarity(nn.Module):
    """Cosine of a text with the best frame of a video (ARL Eq. 3), level by level, and their mean.

    With the levels ``('a', 'b')`` of ``TwoBranches`` the mean is ARL's Eq. 13, of two maxima that
    may be at different frames.  With ``shared_frame`` both branches are read at one frame, the one
    of largest mean cosine: the score is then one inner product per frame, of concatenated vectors.
    It is at most the mean of the maxima, and equal if both branches prefer the same frame.

    A level may have one token (GMMFormer's ``'frame'``): its cosine does not depend on the frame,
    and the other levels stay exact.

    Args:
        levels: the levels to compare.
        weights: one per level, default equal; normalised to sum to 1.
        shared_frame: see above; changes ``'scores'`` only, not the matrices of the levels.
        dots: also return inner products of unnormalised vectors, as ``'<level>_dot'``: MS-SL and
            GMMFormer use them in the contrastive loss, and cosines in the triplet loss.
        entries: maximal number of cosines at a time (at least those of one pair).

    Raises:
        ValueError: not one weight per level, or weights without a positive sum.
    """

    needs_tokens = True

    def __init__(
        self,
        *,
        levels: Sequence[str] = ('global',),
        weights: Sequence[float] | None = None,
        shared_frame: bool = False,
        dots: bool = False,
        entries: int = 2**22,
    ) -> None:
        super().__init__()
        self.weights = level_weights(levels, weights)
        self.shared_frame = shared_frame
        self.dots = dots
        self.entries = entries

    @property
    def levels(self) -> tuple[str, ...]:
        """The levels that it reads."""
        return tuple(self.weights)

    def forward(
        self, texts: Levels, videos: Levels, matches: Optional[Mapping[str, BestFrames]] = None
    ) -> dict[str, Tensor]:
        """Return a matrix per level and ``'scores'`` of T texts and V videos.

        Args:
            texts, videos: levels of T texts and of V videos.
            matches: :meth:`frame_matches` of these, if they are known.

        Returns:
            float [T, V] each, at least float32.

        Raises:
            ValueError: a level of the videos carries no tokens, or a video no valid one.
        """
        matches = self.frame_matches(texts, videos) if matches is None else matches
        matrices = {name: match.scores for name, match in matches.items()}
        if self.dots:
            for name in self.weights:
                match = self._best(texts[name].mean, *self._frames(name, videos))
                matrices[f'{name}_dot'] = match.scores
        if self.shared_frame:
            flat = self._flat(videos)
            matrices['scores'] = self._best(self.flat_texts(texts), *flat).scores
        else:
            matrices['scores'] = sum(w * matrices[name] for name, w in self.weights.items())
        return matrices

    def frame_matches(self, texts: Levels, videos: Levels) -> dict[str, BestFrames]:
        """Return the best frame of each video for each text and its cosine, [T, V], by level."""
        found = {}
        for name in self.weights:
            vectors, mask = self._frames(name, videos)
            found[name] = self._best(unit(texts[name].mean), unit(vectors), mask)
        return found

    def _best(self, sentences: Tensor, frames: Tensor, mask: Tensor) -> BestFrames:
        return best_frames(sentences, frames, mask, normalize=False, entries=self.entries)

    # -- search ---------------------------------------------------------------------------

    def gallery(self, videos: Levels) -> dict[str, Frames]:
        """Return the frames of V videos for :meth:`search`, made once for any number of texts."""
        if self.shared_frame:
            return {'scores': self._flat(videos)}
        frames = {name: self._frames(name, videos) for name in self.weights}
        return {name: Frames(unit(vectors), mask) for name, (vectors, mask) in frames.items()}

    def search(self, texts: Levels, gallery: dict[str, Frames]) -> Tensor:
        """Return ``'scores'`` [T, V] of :meth:`forward`, without gradient or copies of frames."""
        if self.shared_frame:
            return largest(self.flat_texts(texts), gallery['scores'], entries=self.entries)
        return sum(
            w * largest(unit(texts[name].mean), gallery[name], entries=self.entries)
            for name, w in self.weights.items()
        )

    @torch.no_grad()
    def matched_frames(self, texts: Levels, videos: Levels) -> Tensor:
        """Return the best frame of each video for each text, int64 [T, V].

        With several levels, it is the frame of largest weighted mean of cosines; ties go to the
        first frame.

        Raises:
            ValueError: levels with different numbers of frames.
        """
        flat = self._flat(videos)
        return best_frames(self.flat_texts(texts), *flat, entries=self.entries).index

    @torch.no_grad()
    def matched_spans(self, texts: Levels, videos: Levels) -> Tensor:
        """Return begin and end of the matched frame as shares of the video, [T, V, 2] in [0, 1].

        Frame k of n valid ones spans k / n to (k + 1) / n, as frames that are pooled from, or
        spread evenly over, the whole video do.
        """
        mask = self._flat(videos).mask
        place = (mask.cumsum(1) - 1).gather(1, self.matched_frames(texts, videos).t()).t()
        return torch.stack([place, place + 1], -1) / mask.sum(1)[:, None]

    @torch.no_grad()
    def paired_matches(
        self, texts: Levels, videos: Levels, rows: Tensor, columns: Tensor
    ) -> Matches:
        """Return :meth:`matched_frames` and :meth:`matched_spans` of P chosen pairs only.

        Args:
            texts, videos: levels of T texts and of V videos.
            rows: int64 [P], the text of each pair.
            columns: int64 [P], its video.
        """
        frames, mask = self._flat(videos)
        words = self.flat_texts(texts)
        index = paired_best_frames(words, frames, mask, rows, columns, entries=self.entries).index
        place = (mask.cumsum(1) - 1)[columns, index]
        count = mask.sum(1)[columns, None].double()
        return Matches(place, torch.stack([place, place + 1], -1) / count)

    @torch.no_grad()
    def frame_scores(self, texts: Levels, videos: Levels) -> Tensor:
        """Return the weighted mean of cosines with each frame, as :meth:`matched_frames` uses it.

        Returns:
            float [T, V, L], -inf at padding; the matched frame has the largest.
        """
        frames, mask = self._flat(videos)
        scores = torch.einsum('td,vld->tvl', self.flat_texts(texts), frames)
        return scores.masked_fill(~mask, -math.inf)

    def flat_texts(self, texts: Levels) -> Tensor:
        """Return one vector per text, to be compared with :meth:`flat_frames`, float [T, D']."""
        parts = [unit(texts[name].mean) * weight**0.5 for name, weight in self.weights.items()]
        return torch.cat(parts, -1)

    def flat_frames(self, videos: Levels) -> Frames:
        """Return one vector per frame for a nearest-neighbour index; the maximum of its inner
        products with :meth:`flat_texts` over frames is the score.

        Raises:
            ValueError: the scores are a mean of maxima, of several levels with several frames each
                and without ``shared_frame``.
        """
        many = [name for name in self.weights if videos[name].mask.shape[1] > 1]
        if len(many) > 1 and not self.shared_frame:
            raise ValueError(
                f'the scores are means of the maxima of {many}, each at a frame of its own, and no '
                'maximum over frames: set shared_frame=True for one inner product a frame'
            )
        return self._flat(videos)

    def _flat(self, videos: Levels) -> Frames:
        frames = {name: self._frames(name, videos) for name in self.weights}
        lengths = {name: mask.shape[1] for name, (_, mask) in frames.items()}
        longest = max(frames.values(), key=lambda level: level.mask.shape[1])
        if {*lengths.values()} - {1, longest.mask.shape[1]}:
            raise ValueError(
                f'levels must have the same number of frames to share a frame, got {lengths}'
            )
        parts = [
            (unit(vectors) * self.weights[name] ** 0.5).expand(-1, longest.mask.shape[1], -1)
            for name, (vectors, _) in frames.items()
        ]
        return Frames(torch.cat(parts, -1), longest.mask)

    def _frames(self, name: str, videos: Levels) -> Frames:
        _, tokens, mask, _ = with_tokens(videos[name], name, 'videos')
        return Frames(at_least_float32(tokens), mask)


@torch.no_grad()
def largest(texts: Tensor, frames: Frames, *, entries: int = 2**22) -> Tensor:
    """Return the largest inner product with a valid frame of each video, one product per tile.

    Args:
        texts: float [T, D].
        frames: of V videos, each with a valid one.
        entries: largest number of inner products in memory, at least those of one text.

    Returns:
        float [T, V].
    """
    vectors, mask = frames
    rows = max(1, entries // max(mask.numel(), 1))
    parts = []
    for part in texts.split(rows):
        products = product(part, vectors.flatten(0, 1).t()).unflatten(1, mask.shape)
        parts.append(products.masked_fill_(~mask, -math.inf).amax(-1))
    return torch.cat(parts)
