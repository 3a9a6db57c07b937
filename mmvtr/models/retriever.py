"""The retriever: two encoders, a similarity, and losses and supervision of their score matrix."""

from __future__ import annotations

import logging
import math
from typing import Any, Callable, Collection, Optional, Sequence

import torch
from mmengine.logging import print_log
from mmengine.model import BaseModel
from mmengine.structures import BaseDataElement
from torch import Tensor, nn

from mmvtr.dist import gather_levels
from mmvtr.functional.uncertainty.gaussian import geometric_sigma
from mmvtr.functional.values import check_one_of, check_range
from mmvtr.models.annotation import JointIds, own_match
from mmvtr.models.blocks import losses_in_blocks, whole_needed
from mmvtr.models.gradient_cache import encode_in_parts, refuse_dependence_on_batch
from mmvtr.models.gradient_watch import GradientWatch, why_nothing
from mmvtr.models.layers.pooling import empty_levels
from mmvtr.models.similarities.cosine import token_levels
from mmvtr.models.supervisions.columns import check_columns
from mmvtr.models.target import LocalBatch, Matrices, Target, Targets, check_read, check_readable
from mmvtr.registry import MODELS, build
from mmvtr.structures import Levels, drop_tokens, of_side

#: Number of scores of a joint batch above which the log warns about the whole matrix: 1 GiB.
LARGE = 2**28


class RetrievalSample(BaseDataElement):
    """Prediction of one text against the videos of its batch.


    Meta fields: ``text_id`` str, ``video_ids`` list of V str.  Data field: ``scores`` float [V];
    with probabilistic heads also ``text_sigma`` 0-dim and ``video_sigma`` float [V].
    """


@MODELS.register_module()
class VideoTextRetriever(BaseModel):
    """Retriever that encodes V videos and T texts, and trains on the matrix of all processes.

    Args:
        encoder: dual encoder with ``encode_video`` and ``encode_text``.
        similarity: maps levels of texts and videos to matrices [T, V].
        losses: dict name -> loss; each is logged as ``loss_<name>``.
        temperature: divides the scores in the losses.
        heads: config of a probabilistic head, built once for videos and once for texts, or None;
            its ``dim`` is the encoder's by default.  Heads read level ``head_reads`` and write
            level ``'gaussian'``.
        head_reads: see ``heads``.
        detach_heads: heads get detached features, so that they never move the encoders.
        supervision: fills weights, margins and further positives of the target (or of one target
            per matrix, by name), or None.  A method ``own_levels(inputs, data_samples, device)``
            returns its own levels of this process' texts and videos, which are gathered and passed
            to it beside the encoder's.
        teacher: an :class:`~mmvtr.models.supervisions.early_teacher.EarlyTeacher`, which makes the
            target from an earlier state of this model, or
            :class:`~mmvtr.models.supervisions.cross_fitted.CrossFittedTeachers`, from two others;
            None: the current model makes it.
        objectives: dict name -> module for losses beyond a score matrix (captioning, KL);
            called as ``objective(texts, videos, target, batch)``: levels and target of the joint
            batch (the annotated one if a supervision makes one per matrix), and this process' own
            :class:`~mmvtr.models.target.LocalBatch`; returns a dict of losses, logged as
            ``<name>_<key>``.
        micro_batch: train in the memory of this many videos (or texts): they are encoded in parts,
            and each part again in the backward pass (:mod:`mmvtr.models.gradient_cache`).  Loss and
            gradients stay those of the whole batch.  None: all at once.
        block_rows: compute the score matrix of the joint batch in blocks of this many texts, each
            process its share (:mod:`mmvtr.models.blocks`): memory grows linearly with the batch,
            not quadratically.  Losses and gradients stay the same.  Only contrastive losses support
            it; with another one the whole matrix is made, which the log states once.  None: the
            whole matrix, in each process.
        data_preprocessor, init_cfg: as in mmengine.

    Components are dicts for the registry or built modules.

    Raises:
        ValueError: ``micro_batch`` or ``block_rows`` below 1; a supervision of weights, margins,
            hinges or teachers that no loss reads; in training: an encoder that does not support
            ``micro_batch``.

    ``stage`` selects one half of DVTR's Algorithm 1 (the AlternatingTrainLoop sets it):
    ``'uncertainty'`` trains heads and supervision (and the encoders unless ``detach_heads``),
    ``'retrieval'`` the encoders on the debiased loss; None does both in one step.
    """

    #: Why a subclass does not support ``block_rows``; '' if it does.
    no_blocks = ''

    def __init__(
        self,
        *,
        encoder: dict | nn.Module,
        similarity: dict | nn.Module,
        losses: dict[str, dict | nn.Module],
        temperature: dict | nn.Module = dict(type='mmvtr.Temperature'),
        heads: Optional[dict] = None,
        head_reads: str = 'global',
        detach_heads: bool = True,
        supervision: Optional[dict | nn.Module] = None,
        teacher: Optional[dict | nn.Module] = None,
        objectives: Optional[dict[str, dict | nn.Module]] = None,
        micro_batch: Optional[int] = None,
        block_rows: Optional[int] = None,
        data_preprocessor: Optional[dict] = None,
        init_cfg: Optional[dict] = None,
    ) -> None:
        super().__init__(data_preprocessor=data_preprocessor, init_cfg=init_cfg)
        self.micro_batch = micro_batch
        self.block_rows = block_rows
        self._reported = False
        self.encoder = build(encoder)
        if hasattr(self.data_preprocessor, 'normalise_as'):
            self.data_preprocessor.normalise_as(getattr(self.encoder, 'frames', None))
        self.similarity = build(similarity)
        self.temperature = build(temperature)
        self.losses = nn.ModuleDict({name: build(loss) for name, loss in losses.items()})
        self.heads = nn.ModuleDict()
        if heads is not None:
            for side in ('video', 'text'):
                self.heads[side] = build(heads, dim=self.encoder.dim)
        self.head_reads = head_reads
        self.detach_heads = detach_heads
        self.supervision = None if supervision is None else build(supervision)
        check_read(self.supervision, self.losses)
        check_columns(self.supervision, self.similarity, self.losses)
        if hasattr(self.supervision, 'sees'):
            self.supervision.sees(self.data_preprocessor)
        self.teacher = None if teacher is None else build(teacher)
        if self.teacher is not None:
            self.teacher.of(self)
        self.objectives = nn.ModuleDict(
            {name: build(objective) for name, objective in (objectives or {}).items()}
        )
        self.watchers: list[Callable[[Levels, Levels, dict], None]] = []
        self._gradient_watch = GradientWatch()
        self._stage: Optional[str] = None
        self._trainable = {name for name, p in self.named_parameters() if p.requires_grad}

    @property
    def judge(self) -> Optional[nn.Module]:
        """The module that makes the target in training: the teacher if there is one."""
        return self.supervision if self.teacher is None else self.teacher

    # -- encoding and scoring -------------------------------------------------------------

    def encode_video(self, inputs: dict[str, Tensor]) -> Levels:
        """Encode ``video`` float [V, F, ...], ``frame_mask`` bool [V, F] -> levels of V videos.

        Further inputs (``video_<name>``) are passed to the encoder as ``<name>=``.  Without
        ``video`` (all videos of a batch were broken and skipped): levels of zero videos.
        """
        return self.encoded_by(self, inputs, 'video')

    def encode_text(self, inputs: dict[str, Tensor]) -> Levels:
        """Encode ``text`` int64 [T, L] and ``text_mask`` bool [T, L] -> levels of T texts."""
        return self.encoded_by(self, inputs, 'text')

    def encoded_by(self, parts: nn.Module, inputs: dict[str, Tensor], side: str) -> Levels:
        """Encode the ``'video'`` or the ``'text'`` of ``inputs`` by the ``encoder`` and ``heads``
        of ``parts``."""
        encode = video_levels if side == 'video' else text_levels
        levels = encode(parts.encoder, inputs)
        if not parts.heads:
            return levels
        features = levels[self.head_reads]
        if self.detach_heads:
            features = features.map(torch.Tensor.detach)
        return {**levels, 'gaussian': parts.heads[side](features)}

    def score(
        self, texts: Levels, videos: Levels, names: Optional[Collection[str]] = None
    ) -> dict[str, Tensor]:
        """Return matrices [T, V]: ``'scores'`` (fused), one per level, and the supervision's own.

        Args:
            texts, videos: levels of T texts and of V videos.
            names: names of the matrices needed; those of the supervision are made only if the
                similarity lacks one of them, or for None.
        """
        matrices = self.similarity(texts, videos)
        if hasattr(self.supervision, 'matrices') and (names is None or {*names} - matrices.keys()):
            matrices.update(self.supervision.matrices(texts, videos))
        return matrices

    # -- mmengine's three modes -----------------------------------------------------------

    def forward(
        self, inputs: dict[str, Tensor], data_samples: Optional[dict] = None, mode: str = 'tensor'
    ) -> dict | list[RetrievalSample] | tuple[Levels, Levels]:
        """Return a dict of losses (``'loss'``), one sample per text (``'predict'``), or levels of
        texts and of videos (``'tensor'``).  ``inputs`` come from the data preprocessor."""
        check_one_of(('loss', 'predict', 'tensor'), mode=mode)
        if mode == 'loss' and self.micro_batch is not None:
            texts, videos = self._encode_in_parts(inputs)
        else:
            texts, videos = self.encode_text(inputs), self.encode_video(inputs)
        if mode == 'tensor':
            return texts, videos
        if mode == 'loss':
            return self._loss(inputs, texts, videos, data_samples)
        return self._predict(texts, videos, data_samples)

    def _encode_in_parts(self, inputs: dict[str, Tensor]) -> tuple[Levels, Levels]:
        """Encode texts and videos in the memory of ``micro_batch`` of them."""
        with refuse_dependence_on_batch(self):
            return (
                encode_in_parts(self.encode_text, of_side(inputs, 'text'), self.micro_batch),
                encode_in_parts(self.encode_video, of_side(inputs, 'video'), self.micro_batch),
            )

    def _loss(
        self, inputs: dict[str, Tensor], own_texts: Levels, own_videos: Levels, data_samples: dict
    ) -> dict[str, Tensor]:
        texts, videos = (
            gather_levels(drop_tokens(side, keep=token_levels(self.similarity)))
            for side in (own_texts, own_videos)
        )
        device = next(iter(texts.values())).mean.device
        joint = JointIds(data_samples, device)
        self._show(texts, videos, data_samples)
        if hasattr(self.supervision, 'own_levels'):
            further = self.supervision.own_levels(inputs, data_samples, device)
            for side, levels in zip((texts, videos), further):
                side.update(gather_levels(levels))
        if self.teacher is not None and self.stage != 'uncertainty':
            of_teacher = self.teacher.own_levels(inputs, data_samples)
            for side, levels in zip((texts, videos), of_teacher):
                side.update(gather_levels(levels))
        if self._in_blocks(joint.shape):
            target = None
            options = dict(rows=self.block_rows, retrieval=self.stage != 'uncertainty')
            losses = losses_in_blocks(self, texts, videos, joint, **options)
        else:
            local = LocalBatch(inputs, own_texts, own_videos, own_match(data_samples, device))
            target, losses = self._losses_of_matrix(texts, videos, joint, local)
        figures = {name: x.detach() for name, x in losses.items() if 'loss' not in name}
        self._gradient_watch(
            (texts, videos), lambda: why_nothing(joint.target(), target, self.supervision, figures)
        )
        if self.stage == 'retrieval':
            alone = {f'loss_{name}' for name in self.losses}
            losses = {k: v for k, v in losses.items() if k in alone or 'loss' not in k}
        if self.stage != 'uncertainty':
            losses['temperature'] = self.temperature().detach()
        for side, head in self.heads.items():
            if hasattr(head, 'clamped'):
                items = dict(text=own_texts, video=own_videos)[side]
                losses[f'clamped_{side}'] = head.clamped(items['gaussian'])
        check_finite(losses, data_samples)
        return losses

    def _losses_of_matrix(
        self, texts: Levels, videos: Levels, joint: JointIds, local: LocalBatch
    ) -> tuple[Targets, dict[str, Tensor]]:
        """Return the target of the joint batch, and all losses and figures of its matrices."""
        annotated = joint.target()
        target, losses, shared = annotated, {}, {}
        if getattr(self.judge, 'reads_matches', False) and hasattr(
            self.similarity, 'frame_matches'
        ):
            shared = dict(matches=self.similarity.frame_matches(texts, videos))
        if self.judge is not None:
            target, losses = self.judge(texts, videos, target, **shared)
        losses = dict(losses)
        if self.stage != 'uncertainty':
            temperature = self.temperature()
            matrices, read = self._compared(texts, videos, target, joint, local, **shared)
            for name, loss in self.losses.items():
                losses[f'loss_{name}'] = loss(matrices, read, temperature)
            single = target if isinstance(target, Target) else annotated
            for name, objective in self.objectives.items():
                check_readable(single, objective)
                values = objective(texts, videos, single, local)
                losses.update({f'{name}_{key}': value for key, value in values.items()})
        return target, losses

    def _compared(
        self,
        texts: Levels,
        videos: Levels,
        target: Targets,
        joint: JointIds,
        local: LocalBatch,
        **shared: Any,
    ) -> tuple[Matrices, Targets]:
        """Return the inputs of the losses: matrices by name, and their target (or one each).

        ``shared``: what the similarity has already made for the supervision.
        """
        return self.similarity(texts, videos, **shared), target

    def _in_blocks(self, shape: tuple[int, int]) -> bool:
        """Return whether losses use blocks; log once why not if asked to or if the matrix is large.


        Args:
            shape: (T, V) of the joint batch.
        """
        requested, entries = self.block_rows is not None, math.prod(shape)
        reason = self.no_blocks or whole_needed(self)
        blocks = requested and not reason
        if not self._reported and not blocks and (requested or entries >= LARGE):
            self._reported = True
            effect = f'block_rows={self.block_rows} has no effect: ' if requested else ''
            size = f'{list(shape)} scores, {4e-9 * entries:.1f} GB a matrix'
            print_log(
                f'{effect}{reason or "block_rows is not set"} ({size})', 'current', logging.WARNING
            )
        return blocks

    def _show(self, texts: Levels, videos: Levels, data_samples: dict) -> None:
        """Pass a training batch to the watchers."""
        if self.training:
            texts, videos = (
                {name: level.map(Tensor.detach) for name, level in side.items()}
                for side in (texts, videos)
            )
            for watch in self.watchers:
                watch(texts, videos, data_samples)

    def _predict(self, texts: Levels, videos: Levels, data_samples: dict) -> list[RetrievalSample]:
        scores = self.score(texts, videos, ['scores'])['scores']
        samples = [
            RetrievalSample(
                metainfo=dict(text_id=text_id, video_ids=data_samples['video_ids']), scores=row
            )
            for text_id, row in zip(data_samples['text_ids'], scores)
        ]
        if 'gaussian' in texts:
            text_sigma, video_sigma = (
                geometric_sigma(side['gaussian'].log_std) for side in (texts, videos)
            )
            for sample, sigma in zip(samples, text_sigma):
                sample.set_data(dict(text_sigma=sigma, video_sigma=video_sigma))
        return samples

    @property
    def micro_batch(self) -> Optional[int]:
        """Number of items encoded at a time in training; None: all."""
        return self._micro_batch

    @micro_batch.setter
    def micro_batch(self, size: Optional[int]) -> None:
        if size is not None:
            check_range('[1, inf]', micro_batch=size)
        self._micro_batch = size

    @property
    def block_rows(self) -> Optional[int]:
        """Number of texts per block of the score matrix in training; None: all."""
        return self._block_rows

    @block_rows.setter
    def block_rows(self, rows: Optional[int]) -> None:
        if rows is not None:
            check_range('[1, inf]', block_rows=rows)
        if rows is not None and self.no_blocks:
            raise ValueError(
                f'block_rows={rows}: {self.no_blocks}; leave it away (micro_batch saves memory '
                'here, too)'
            )
        self._block_rows = rows

    # -- DVTR's Algorithm 1 ---------------------------------------------------------------

    @property
    def stage(self) -> Optional[str]:
        return self._stage

    @stage.setter
    def stage(self, stage: Optional[str]) -> None:
        check_one_of((None, 'uncertainty', 'retrieval'), stage=stage)
        self._stage = stage
        for name, parameter in self.named_parameters():
            uncertainty = name.startswith(('heads.', 'supervision.'))
            if stage is None:
                trains = True
            elif stage == 'retrieval':
                trains = not uncertainty
            else:
                trains = uncertainty or (name.startswith('encoder.') and not self.detach_heads)
            parameter.requires_grad_(trains and name in self._trainable)


def nothing(encoder: nn.Module, side: str) -> Levels:
    """Return levels of zero items of a side, by ``encoder.encode_nothing`` if it exists."""
    if hasattr(encoder, 'encode_nothing'):
        return encoder.encode_nothing(side)
    return empty_levels(encoder, 1)


def video_levels(encoder: nn.Module, inputs: dict[str, Tensor]) -> Levels:
    """Encode the videos of ``inputs``; return levels of zero videos if there are none."""
    if 'video' not in inputs:
        return nothing(encoder, 'video')
    return encoder.encode_video(inputs['video'], inputs['frame_mask'], **extras(inputs, 'video'))


def text_levels(encoder: nn.Module, inputs: dict[str, Tensor]) -> Levels:
    """Encode the texts of ``inputs``; return levels of zero texts if there are none."""
    if 'text' not in inputs:
        levels = nothing(encoder, 'text')
        if not getattr(encoder, 'text_tokens', True):  # the same as in other processes
            levels = drop_tokens(levels)
        return levels
    return encoder.encode_text(inputs['text'], inputs['text_mask'], **extras(inputs, 'text'))


def extras(inputs: dict[str, Tensor], side: str) -> dict[str, Tensor]:
    """Return the ``inputs`` named ``<side>_<name>``, by ``<name>``, except the mask."""
    start = f'{side}_'
    named = {key[len(start) :]: x for key, x in inputs.items() if key.startswith(start)}
    named.pop('mask', None)
    return named


def check_finite(losses: dict[str, Tensor], data_samples: dict) -> None:
    """Check that losses are finite, before a NaN reaches the weights.

    Raises:
        FloatingPointError: names the losses, and the texts and videos of this process' batch.
    """
    bad = [name for name, value in losses.items() if not torch.isfinite(value).all()]
    if bad:
        raise FloatingPointError(
            f'{", ".join(bad)} is not finite; batch of texts {_first(data_samples["text_ids"])} '
            f'and videos {_first(data_samples["video_ids"])}. The weights have not been updated.'
        )


def _first(ids: Sequence[str], limit: int = 5) -> str:
    return ', '.join(map(str, ids[:limit])) + (' ...' if len(ids) > limit else '')
