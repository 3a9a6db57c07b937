"""Base class of embedders that do their own tokenising and scaling of raw texts and frames."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Sequence

from torch import Tensor, nn

from mmvtr.structures import Levels


class RawItemsEncoder(nn.Module, ABC):
    """An encoder that passes raw texts and frames to an embedder.

    Texts are UTF-8 bytes (``TextBytes``), frames are as decoded
    (``VideoTextDataPreprocessor(normalise=False)``) and sampled by the video pipeline.

    Attributes:
        dim: D.
        prompts: prompts of texts and videos, by ``'text'`` and ``'video'``; None: no prompt.
    """

    level_names = ('global',)
    token_levels = ()
    dim: int
    prompts: dict[str, Any]

    def encode_video(self, video: Sequence[Tensor], frame_mask: Tensor) -> Levels:
        """Encode V videos.

        Args:
            video: V tensors uint8 [F, 3, H, W], whose sizes may differ.
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
            the level of ``encode_video``, for T texts.
        """
        if not text.shape[0]:
            return self._nothing(text_mask)
        rows = [row[mask].tolist() for row, mask in zip(text, text_mask)]
        return self._embed([bytes(row).decode() for row in rows], 'text')

    def protocol(self) -> dict[str, str]:
        """Return the settings that a result must state."""
        prompts = {kind: prompt for kind, prompt in self.prompts.items() if prompt}
        return dict(prompt=', '.join(f'{k} {p!r}' for k, p in prompts.items()) or 'none')

    @abstractmethod
    def _embed(self, items: list[Any], kind: str) -> Levels:
        """Embed strings, or numpy arrays uint8 [F, 3, H, W]."""

    @abstractmethod
    def _nothing(self, mask: Tensor) -> Levels:
        """Return levels of zero items; mask: bool [0, L]."""
