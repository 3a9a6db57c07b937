"""What embedders share that tokenise and scale by themselves: texts and frames as they are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Sequence

from torch import Tensor, nn

from mmvtr.structures import Levels


class RawItemsEncoder(nn.Module, ABC):
    """An encoder that hands texts and frames to an embedder as they were read.

    Texts come as UTF-8 bytes (``TextBytes``) and frames as they were decoded
    (``VideoTextDataPreprocessor(normalise=False)``).  Frames are sampled by the video pipeline.

    Attributes:
        dim: D.
        prompts: put before texts and said of videos, by ``'text'`` and ``'video'``; None: none.
    """

    level_names = ('global',)
    token_levels = ()
    dim: int
    prompts: dict[str, Any]

    def encode_video(self, video: Sequence[Tensor], frame_mask: Tensor) -> Levels:
        """Encode V videos.

        Args:
            video: V tensors uint8 [F, 3, H, W], each of a size of its own.
            frame_mask: bool [V, F].

        Returns:
            level ``'global'``: mean float [V, D] of unit length.

        Raises:
            ValueError: frames that were normalised.
        """
        if not len(video):
            return self._nothing(frame_mask)
        if any(x.is_floating_point() for x in video):
            raise ValueError(
                f'{type(self).__name__} reads frames as they were decoded: set '
                'data_preprocessor=dict(normalise=False)'
            )
        frames = [x[: int(mask.sum())].cpu().numpy() for x, mask in zip(video, frame_mask)]
        return self._embed(frames, 'video')

    def encode_text(self, text: Tensor, text_mask: Tensor) -> Levels:
        """Encode T texts.

        Args:
            text: int64 [T, L], UTF-8 bytes.
            text_mask: bool [T, L].

        Returns:
            as ``encode_video``.
        """
        if not text.shape[0]:
            return self._nothing(text_mask)
        rows = [row[mask].tolist() for row, mask in zip(text, text_mask)]
        return self._embed([bytes(row).decode() for row in rows], 'text')

    def protocol(self) -> dict[str, str]:
        """What a result must state of it."""
        said = {kind: prompt for kind, prompt in self.prompts.items() if prompt}
        return dict(prompt=', '.join(f'{k} {p!r}' for k, p in said.items()) or 'none')

    @abstractmethod
    def _embed(self, items: list[Any], kind: str) -> Levels:
        """Vectors of strings, or of numpy arrays uint8 [F, 3, H, W]."""

    @abstractmethod
    def _nothing(self, mask: Tensor) -> Levels:
        """Levels of no items; mask: bool [0, L]."""
