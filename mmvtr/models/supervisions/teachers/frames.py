"""A teacher that knows the frames of a video and its sentences, from stored vectors (DL-DKD)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mmvtr.functional.losses.distillation import item_draws
from mmvtr.functional.losses.schedules import epoch_at
from mmvtr.functional.similarities.token_interaction import sentence_frame_scores
from mmvtr.models.supervisions.teachers.stored_vectors import PREFIX, stored_frames, stored_levels
from mmvtr.models.target import Target
from mmvtr.registry import MODELS
from mmvtr.structures import Embedding, Levels

#: The level that brings a number for each item.
DRAWS = 'draws'


@MODELS.register_module()
class StoredFrameTeacher(nn.Module):
    """Fills the slot ``teacher`` with what CLIP's stored vectors say of texts and videos (DL-DKD).

        teacher_tv = scale max over frames k of <text_t, frame_vk>

    of the vectors as they are, whose softmax the soft labels of a
    :class:`~mmvtr.models.losses.soft_labels.SoftLabelContrastiveLoss` are.  The vectors themselves
    are level ``'vectors.<name>'`` for objectives, which
    :class:`~mmvtr.models.losses.objectives.FrameDistillation` reads.  Nothing is learnt.

    Beside it the slot ``draws``: a number for each text and video that is a function of
    (seed, epoch, annotation row), from which that loss chooses its hard rows.

    Args:
        name: that both pipelines of the training set give the vectors:
            ``dict(type='LoadFrameVectors', stores={name: path})`` for videos, and for texts
            ``dict(type='LoadVectors', side='text', stores={name: path})``.
        scale: of its inner products: vectors that were stored with unit length have a softmax that
            tells nothing apart.  CLIP's are stored as they are, and DL-DKD++ has none.
        seed: of the draws.
        epochs: into which the training is divided for the draws.

    Attributes:
        progress: share of the training done; ProgressHook sets it, 1 without the hook.

    Raises:
        ValueError: a scale that is not positive; in training: the batch lacks the vectors, those of
            a video have other frames than the student's, or texts and videos are not equally wide.
    """

    def __init__(
        self, *, name: str = 'clip', scale: float = 1.0, seed: int = 0, epochs: int = 120
    ) -> None:
        super().__init__()
        if not scale > 0:
            raise ValueError(f'scale must be positive, not {scale}')
        self.name = name
        self.scale = scale
        self.seed = seed
        self.epochs = epochs
        self.progress = 1.0

    def own_levels(
        self, inputs: dict[str, Tensor], data_samples: dict, device: torch.device
    ) -> tuple[Levels, Levels]:
        """What the dataset has read beside this process' texts and videos, and their draws."""
        reader = type(self).__name__
        texts = stored_levels(data_samples, 'text', (self.name,), device, reader)
        videos = stored_frames(inputs, data_samples, self.name, device, reader)
        epoch = epoch_at(self.progress, self.epochs)
        for side, levels in (('text', texts), ('video', videos)):
            rows = data_samples[f'{side}_idx'].to(device)
            draws = item_draws(rows, seed=self.seed, epoch=epoch)
            levels[DRAWS] = Embedding(draws[:, None])
        return texts, videos

    @torch.no_grad()
    def forward(
        self, texts: Levels, videos: Levels, target: Target
    ) -> tuple[Target, dict[str, Tensor]]:
        """Levels of the joint batch -> target with a teacher [T, V] and draws, and figures."""
        sentences, frames = (side[f'{PREFIX}{self.name}'] for side in (texts, videos))
        if len(sentences.mean) and len(frames.mean):
            widths = sentences.mean.shape[1], frames.mean.shape[1]
            if widths[0] != widths[1]:
                raise ValueError(
                    f'teacher {self.name!r}: its texts have {widths[0]} numbers and its frames '
                    f'{widths[1]}: their stores are of different models'
                )
            both = sentences.mean, frames.tokens, frames.mask
            teacher = self.scale * sentence_frame_scores(*both, temperature=0)
        else:
            teacher = sentences.mean.new_zeros(target.positives.shape)
        draws = tuple(side[DRAWS].mean[:, 0] for side in (texts, videos))
        own = teacher[target.positives]
        figures = dict(
            teacher_match=own.sum() / max(own.numel(), 1),
            teacher_other=(teacher.sum() - own.sum()) / max(teacher.numel() - own.numel(), 1),
        )
        return target.put(teacher=teacher, draws=draws), figures
