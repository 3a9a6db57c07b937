"""Mixup of videos within a batch, and soft labels for it (PCME++)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from mmvtr.dist import rank
from mmvtr.functional.losses.pairwise import mixed_labels
from mmvtr.functional.values import check_range
from mmvtr.models.data_preprocessor import VideoTextDataPreprocessor
from mmvtr.models.target import Filled, Target
from mmvtr.registry import MODELS
from mmvtr.structures import Embedding, Levels


@MODELS.register_module()
class MixupDataPreprocessor(VideoTextDataPreprocessor):
    """Data preprocessor that mixes training videos with others of this process' batch by frame.

    Video i becomes ``lambda x_i + (1 - lambda) x_j`` with j = V - 1 - i where both have a frame;
    lambda is drawn from Beta(alpha, alpha) for a ``mixed`` share of the videos, else 1.
    ``data_samples['video_mix']``, float [V, 2], has lambda and j - i for ``MixupSupervision``;
    lambda is 1 outside of training.
    Draws depend only on the number of the training step and the process.
    Only frames are mixed: a batch with further data of its videos (experts and seconds of rows,
    stored vectors) is refused, as these would not match the mixed videos.

    Args:
        alpha: parameter of the Beta distribution.
        mixed: share of the videos that is mixed, in [0, 1].
        **kwargs: see :class:`VideoTextDataPreprocessor`.

    Raises:
        ValueError: ``alpha`` is not positive, ``mixed`` out of range, or ``normalise=False``, with
            which frames are lists; in training: a batch that has more data of its videos than
            frames.
    """

    def __init__(self, *, alpha: float = 1.0, mixed: float = 0.25, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        check_range('(0, inf]', alpha=alpha)
        check_range('[0, 1]', mixed=mixed)
        if not self.normalise:
            raise ValueError('normalise=False leaves frames as uint8, which are not mixed')
        self.alpha = alpha
        self.mixed = mixed
        self.register_buffer('step', torch.zeros((), dtype=torch.long))

    def forward(self, data: dict, training: bool = False) -> dict:
        data = super().forward(data, training)
        inputs, samples = data['inputs'], data['data_samples']
        if training:
            _only_frames(inputs, samples)
        videos = len(samples['video_idx'])
        share = self._shares(videos) if training else torch.ones(videos)
        place = torch.arange(videos)
        away = videos - 1 - 2 * place
        if training and 'video' in inputs:
            inputs['video'] = mixed_videos(
                inputs['video'], inputs['frame_mask'], share, place + away
            )
        mix = torch.stack([share, away.to(share.dtype)], 1)
        return dict(inputs=inputs, data_samples={**samples, 'video_mix': mix})

    def _shares(self, videos: int) -> Tensor:
        """Draw lambda for V videos, float [V]."""
        draw = np.random.default_rng([int(self.step), rank()])
        self.step += 1
        share = draw.beta(self.alpha, self.alpha, videos)
        share[draw.random(videos) >= self.mixed] = 1
        return torch.from_numpy(share).float()


def _only_frames(inputs: dict[str, Tensor], samples: dict[str, Any]) -> None:
    """Raise ValueError if a batch has more data of its videos than frames; names the data."""
    further = [name for name in inputs if name.startswith('video_')]
    further += [name for name in ('video_vectors', 'video_frame_vectors') if name in samples]
    if further:
        raise ValueError(
            f'MixupDataPreprocessor mixes frames alone, but the batch has {further} of its videos, '
            'too, which would stay as they are: leave out what loads them, or take '
            "data_preprocessor=dict(type='VideoTextDataPreprocessor')"
        )


def mixed_videos(video: Tensor, mask: Tensor, share: Tensor, partner: Tensor) -> Tensor:
    """Mix each video with another one where both have a frame.

    Args:
        video: float [V, F, ...].
        mask: bool [V, F].
        share: float [V], weight of the video itself.
        partner: int64 [V].

    Returns:
        float [V, F, ...].

    Example:
        The second frame of video 0 has no partner. ::

            >>> video, mask = torch.tensor([[4.0, 4.0], [0.0, 0.0]]), torch.tensor([[1, 1], [1, 0]])
            >>> share, partner = torch.tensor([0.75, 1.0]), torch.tensor([1, 0])
            >>> mixed_videos(video, mask.bool(), share, partner)
            tensor([[3., 4.],
                    [0., 0.]])
    """
    share, partner = share.to(video), partner.to(video.device)
    weight = torch.where(mask & mask[partner], share[:, None], share.new_ones(()))
    weight = weight.view(*mask.shape, *[1] * (video.dim() - 2))
    return weight * video + (1 - weight) * video[partner]


@MODELS.register_module()
class MixupSupervision(nn.Module):
    """Supervision with soft labels for mixed videos (``MixupDataPreprocessor``, ``SigmoidLoss``).

    A text's label is lambda with its own video, and 1 - lambda with the video that its own was
    mixed into.  It puts ``labels``, float [T, V], beside the target; positives stay as annotated.

    Args:
        smoothing: amount by which labels move from 0 and 1 towards 1/2 before they are mixed.

    Raises:
        ValueError: ``smoothing`` outside [0, 1/2); another data preprocessor.
    """

    fills = 'labels'  # models/target.py: check_read

    def __init__(self, *, smoothing: float = 0.0) -> None:
        super().__init__()
        check_range('[0, 0.5)', smoothing=smoothing)
        self.smoothing = smoothing

    def sees(self, preprocessor: nn.Module) -> None:
        """Check the retriever's data preprocessor, which the retriever passes in.

        Raises:
            ValueError: it is not a MixupDataPreprocessor.
        """
        if not isinstance(preprocessor, MixupDataPreprocessor):
            raise ValueError(
                'MixupSupervision reads what was mixed: give the model '
                "data_preprocessor=dict(type='MixupDataPreprocessor'), not "
                f'{type(preprocessor).__name__}'
            )

    def own_levels(
        self, inputs: dict[str, Tensor], data_samples: dict, device: torch.device
    ) -> tuple[Levels, Levels]:
        """Return this process' mixing data: no level of texts, level ``'mix'`` of videos."""
        return {}, {'mix': Embedding(data_samples['video_mix'].to(device))}

    @torch.no_grad()
    def forward(self, texts: Levels, videos: Levels, target: Target) -> Filled:
        """Return the joint batch's target with ``labels``, and the mean lambda for the log."""
        share, away = videos['mix'].mean.unbind(1)
        partner = torch.arange(len(away), device=away.device) + away.long()
        labels = mixed_labels(target.positives, share, partner, smoothing=self.smoothing)
        return target.put(labels=labels), {'mix': share.sum() / max(len(share), 1)}
