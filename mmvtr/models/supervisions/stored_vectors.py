"""Levels of vectors that the dataset reads beside the items, for supervisions."""

from __future__ import annotations

from typing import Any, Optional, Sequence

import torch
from torch import Tensor, nn

from mmvtr.dist import gather_rows, world_size
from mmvtr.functional.losses.distillation import item_draws
from mmvtr.functional.losses.schedules import epoch_at
from mmvtr.functional.similarities.best_frames import sentence_frame_scores
from mmvtr.functional.values import check_range
from mmvtr.models.data_preprocessor import pad
from mmvtr.models.target import Filled, Target
from mmvtr.registry import MODELS
from mmvtr.structures import Embedding, Levels

#: Prefix of the level that holds the vectors of a name, flattened, from ``LoadVectors``.
PREFIX = 'vectors.'


def stored_levels(
    data_samples: dict[str, Any], side: str, names: Sequence[str], device: torch.device, reader: str
) -> Levels:
    """Return stored vectors of this process' own items as levels, to be gathered.

    Args:
        data_samples: data samples of this process.
        side: ``'text'`` or ``'video'``.
        names: names of the vectors to read.
        device: device of the result.
        reader: name of the reading class, for the error.

    Returns:
        ``'vectors.<name>'`` -> Embedding of float32 [N, E D], E rows of D numbers each.

    Raises:
        ValueError: the batch has no such vectors.
    """
    stored = data_samples.get(f'{side}_vectors', {})
    count = len(data_samples[f'{side}_ids'])
    levels = {}
    for name in names:
        vectors = stored.get(name)
        if vectors is None and count:
            raise ValueError(
                f'{reader} reads the vectors {name!r} of {side}s, but the training set has '
                f'{sorted(stored)}: add dict(type="LoadVectors", side={side!r}, '
                f'stores=dict({name}=...)) to its {side}_pipeline'
            )
        width = _width(vectors, device)
        flat = torch.zeros(0, width) if vectors is None or not count else vectors.flatten(1)
        levels[f'{PREFIX}{name}'] = Embedding(flat.to(device, torch.float32))  # in every process
    return levels


def check_widths(texts: Tensor, videos: Tensor, whose: str) -> None:
    """Raise ValueError if vectors [T, D] and [V, D'], where there are both, differ in width."""
    if len(texts) and len(videos) and texts.shape[1] != videos.shape[1]:
        raise ValueError(
            f'{whose}: texts have {texts.shape[1]} numbers, videos {videos.shape[1]}: their stores '
            'are of different models'
        )


def read_level(name: str, vectors: Optional[Tensor], device: torch.device) -> Levels:
    """Return vectors from another source, float [T, D] or None without texts, as a named level."""
    width = _joint_width(0 if vectors is None else vectors.shape[1], device)
    rows = torch.zeros(0, width) if vectors is None else vectors
    return {f'{PREFIX}{name}': Embedding(rows.to(device, torch.float32))}


def stored_frames(
    inputs: dict[str, Tensor],
    data_samples: dict[str, Any],
    name: str,
    device: torch.device,
    reader: str,
) -> Levels:
    """Return stored vectors of the frames of this process' own videos, to be gathered.

    Args:
        inputs: the student's inputs: ``frame_mask`` bool [V, F] if there are videos.
        data_samples: data samples of this process.
        name: name of the vectors.
        device: device of the result.
        reader: name of the reading class, for the error.

    Returns:
        ``'vectors.<name>'`` -> Embedding of tokens float32 [V, F, D], mask bool [V, F] and their
        means [V, D].

    Raises:
        ValueError: the batch has no such vectors, or other frames than the student (the video is
            named).
    """
    stored, ids = data_samples.get('video_frame_vectors', {}), data_samples['video_ids']
    rows = stored.get(name)
    if rows is None and ids:
        raise ValueError(
            f'{reader} reads the vectors {name!r} of frames, but the training set has '
            f'{sorted(stored)}: add dict(type="LoadFrameVectors", stores=dict({name}=...)) to its '
            'video_pipeline'
        )
    rows = rows if ids else []
    for video, row, mask in zip(ids, rows, inputs.get('frame_mask', ())):
        if len(row) != int(mask.sum()):
            raise ValueError(
                f'{reader}: video {str(video)[:80]!r} has {len(row)} frames of teacher {name!r} '
                f'and {int(mask.sum())} of the student: LoadFrameVectors has to be the last step '
                'that knows of frames'
            )
    width = _joint_width(rows[0].shape[-1] if rows else 0, device)
    if not rows:
        tokens, mask = torch.zeros(0, 1, width), torch.zeros(0, 1, dtype=torch.bool)
    else:
        tokens, mask = pad([row.float() for row in rows])
    means = tokens.sum(1) / mask.sum(1, keepdim=True).clamp_min(1)
    return {f'{PREFIX}{name}': Embedding(means, tokens, mask).map(lambda x: x.to(device))}


def _width(vectors: Optional[Tensor], device: torch.device) -> int:
    """Return E D; a process without items takes that of the others."""
    width = 0 if vectors is None else vectors[0].numel() if len(vectors) else 0
    return _joint_width(width, device)


def _joint_width(width: int, device: torch.device) -> int:
    """Return the largest width of all processes."""
    if world_size() == 1:
        return width
    return int(gather_rows(torch.tensor([width], device=device)).max())


#: Level with a random number for each item.
DRAWS = 'draws'


@MODELS.register_module()
class StoredFrameTeacher(nn.Module):
    """Fills the slot ``teacher`` with CLIP's scores from stored vectors (DL-DKD).

        teacher_tv = scale max over frames k of <text_t, frame_vk>

    of the vectors as stored; the soft labels of a
    :class:`~mmvtr.models.losses.distillation.SoftLabelContrastiveLoss` are their softmax.  The
    vectors themselves are level ``'vectors.<name>'``, which the objective
    :class:`~mmvtr.models.losses.distillation.FrameDistillation` reads.  Nothing is learnt.

    It also fills the slot ``draws``: a number for each text and video that depends only on
    (seed, epoch, annotation row), from which that loss chooses its hard rows.

    Args:
        name: name of the vectors in both pipelines of the training set:
            ``dict(type='LoadFrameVectors', stores={name: path})`` for videos, and for texts
            ``dict(type='LoadVectors', side='text', stores={name: path})``.
        scale: factor of the inner products: with unit vectors their softmax would be nearly
            uniform.  CLIP's are stored unnormalised, and DL-DKD++ uses no factor.
        seed: random seed of the draws.
        epochs: number of epochs into which the training is divided for the draws.

    Attributes:
        progress: share of the training done; ProgressHook sets it, 1 without the hook.

    Raises:
        ValueError: a scale that is not positive; in training: the batch lacks the vectors, those of
            a video have other frames than the student's, or texts and videos differ in width.
    """

    def __init__(
        self, *, name: str = 'clip', scale: float = 1.0, seed: int = 0, epochs: int = 120
    ) -> None:
        super().__init__()
        check_range('(0, inf]', scale=scale)
        self.name = name
        self.scale = scale
        self.seed = seed
        self.epochs = epochs
        self.progress = 1.0

    def own_levels(
        self, inputs: dict[str, Tensor], data_samples: dict, device: torch.device
    ) -> tuple[Levels, Levels]:
        """Return stored vectors of this process' texts and videos, and their draws."""
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
    def forward(self, texts: Levels, videos: Levels, target: Target) -> Filled:
        """Map levels of the joint batch -> target with a teacher [T, V] and draws, and figures."""
        sentences, frames = (side[f'{PREFIX}{self.name}'] for side in (texts, videos))
        check_widths(sentences.mean, frames.mean, f'teacher {self.name!r}')
        if len(sentences.mean) and len(frames.mean):
            both = sentences.mean, frames.tokens, frames.mask
            teacher = self.scale * sentence_frame_scores(*both, temperature=0)
        else:
            teacher = sentences.mean.new_zeros(target.positives.shape)
        draws = tuple(side[DRAWS].mean[:, 0] for side in (texts, videos))
        hits = teacher[target.positives]
        figures = dict(
            teacher_match=hits.sum() / max(hits.numel(), 1),
            teacher_other=(teacher.sum() - hits.sum()) / max(teacher.numel() - hits.numel(), 1),
        )
        return target.put(teacher=teacher, draws=draws), figures
