"""The debiased contrastive loss as a loss of sentence-transformers."""

from __future__ import annotations

import warnings
from functools import partial
from types import SimpleNamespace
from typing import Any, Iterable, Mapping, Optional, Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn

from mmvtr.dist import gather_levels, gather_rows, sum_processes, world_size
from mmvtr.functional.losses.negative_weights import RULES
from mmvtr.functional.values import check_one_of, check_range
from mmvtr.models.blocks import losses_in_blocks, whole_needed
from mmvtr.models.combined import CombinedSupervision
from mmvtr.models.gradient_watch import GradientWatch, why_nothing
from mmvtr.models.losses import ContrastiveLoss, KLDistillationLoss
from mmvtr.models.similarities.cosine import CosineSimilarity
from mmvtr.models.supervisions.guide import GuideSupervision
from mmvtr.models.supervisions.stored_vectors import PREFIX
from mmvtr.models.supervisions.teachers import StoredTeachers
from mmvtr.models.target import Target, check_read
from mmvtr.registry import build
from mmvtr.sentence_transformers.guide import LEVEL, Reader
from mmvtr.sentence_transformers.labels import NOBODY, Labels, checked_labels, warn_of_few
from mmvtr.structures import Embedding, Levels

try:
    from sentence_transformers.base.losses.gradcache import (
        CachedLossMixin,
        has_static_embedding_input,
    )
    from sentence_transformers.base.losses.merged_forward import embed_columns
except ImportError as error:
    raise ImportError(
        'sentence-transformers 6.2 or newer is not installed: '
        "pip install -e '.[sentence-transformers]' in a checkout of mmvtr"
    ) from error

#: Minimum rows of the score matrix computed at a time with gradient caching.
ROWS = 64
#: Name of the level that the Gaussian heads provide and some supervisions read.
GAUSSIAN = 'gaussian'
#: Weight and softness of the divergence from teachers (docs/recipe.md).
DISTILLATION = dict(temperature=4.0, loss_weight=4.0)


class DebiasedContrastiveLoss(CachedLossMixin, nn.Module):
    """Contrastive loss of texts and documents with positives by label and weighted negatives.

    Columns: a text, its document (text, image, video: whatever the model embeds), and further
    documents that are hard negatives of it; an integer column ``label`` states which texts and
    documents match (:func:`~mmvtr.sentence_transformers.with_labels`); without it each row is a
    separate pair.  The loss is :func:`mmvtr.functional.contrastive` of the cosines.

    Args:
        model: the SentenceTransformer that is trained.
        supervision: which negatives are excluded: a supervision of :mod:`mmvtr.models` that reads
            vectors (``DVTRSupervision``, ``RelativeScoreSupervision`` ...), its config or its name;
            None: plain InfoNCE.
        guide: a model with ``encode`` for texts, with any tokenizer.  Documents that it finds about
            as near to a text as the text's own document are not negatives; it judges videos and
            images by their texts (:class:`~mmvtr.models.supervisions.guide.GuideSupervision`).
        guide_margin, guide_strategy: ``margin`` and ``rule`` of GuideSupervision. As in
            sentence-transformers' GISTEmbedLoss the margin is 0 by default: a wider one excludes
            every negative if the guide's cosines are close together.
        teachers: models with ``encode`` for texts, with any tokenizer and width.  The mean of their
            cosines divided by a temperature is followed by a
            :class:`~mmvtr.models.losses.KLDistillationLoss`, which is added.
        teacher_temperatures: one for each; default ``temperature``.
        distillation: arguments of KLDistillationLoss; default temperature and weight 4.
        temperature: divides the cosines, 1 / ``scale`` of sentence-transformers.
        form, direction, weighted: see :class:`~mmvtr.models.losses.ContrastiveLoss`; the losses of
            sentence-transformers use only texts as queries, ``direction='t2v'``.
        heads: config of the Gaussian heads that a supervision of level ``'gaussian'`` reads;
            default ``HierarchicalGaussianHead``.  They get detached vectors and train with the
            loss; they have the model's width, so a MatryoshkaLoss cannot wrap them.
        mini_batch_size: rows that the model embeds at a time, with gradient caching: a large batch
            in the memory of a small one. None: the whole batch at once.
        gather_across_devices: compute the loss of the joint batch of all processes, with exact
            gradients.

    Attributes:
        figures: name -> 0-dim tensor, the supervision's figures for the last batch.

    Raises:
        ValueError: an argument outside of its range; in training: fewer than two columns, labels
            that are not integers, vectors of another width than the heads, a supervision that reads
            more than vectors, one with its own weights in several processes without
            ``gather_across_devices``.
    """

    def __init__(
        self,
        model: Any,
        *,
        supervision: Optional[nn.Module | dict | str] = None,
        guide: Optional[Any] = None,
        guide_margin: float = 0.0,
        guide_strategy: str = 'absolute',
        teachers: Sequence[Any] = (),
        teacher_temperatures: Optional[Sequence[float]] = None,
        distillation: Mapping[str, float] = DISTILLATION,
        temperature: float = 0.05,
        form: str = 'pooled',
        direction: str = 'both',
        weighted: str = 'both',
        heads: Optional[dict] = None,
        mini_batch_size: Optional[int] = None,
        gather_across_devices: bool = False,
    ) -> None:
        super().__init__()
        check_range('(0, inf]', temperature=temperature)
        check_one_of(RULES, guide_strategy=guide_strategy)
        if mini_batch_size is not None:
            check_range('[1, inf]', mini_batch_size=mini_batch_size)
        if mini_batch_size is not None and has_static_embedding_input(model):
            raise ValueError(
                'a StaticEmbedding cannot be embedded in parts: leave mini_batch_size out'
            )
        self.model = model
        self.temperature = temperature
        self.mini_batch_size = mini_batch_size
        self.uses_gradient_cache = mini_batch_size is not None
        self.gather_across_devices = gather_across_devices
        self.similarity = CosineSimilarity()
        self.loss = self._loss(form=form, direction=direction, weighted=weighted)
        self.guide = None if guide is None else Reader(guide, model.tokenizer)
        self.losses = nn.ModuleDict(dict(contrastive=self.loss))
        own = None if supervision is None else _supervision(supervision)
        rule = GuideSupervision(margin=guide_margin, rule=guide_strategy)
        self.teachers = {f'teacher{n}': Reader(x, model.tokenizer) for n, x in enumerate(teachers)}
        taught = None
        if self.teachers:
            by = teacher_temperatures or [temperature] * len(self.teachers)
            taught = StoredTeachers(teachers=[*self.teachers], temperatures=by)
            self.losses['distillation'] = KLDistillationLoss(**distillation)
        self.supervision = _joined(own=own, guide=rule if guide is not None else None, teach=taught)
        check_read(self.supervision, self.losses)
        self.heads = nn.ModuleDict()
        if heads is not None or getattr(own, 'level', None) == GAUSSIAN:
            heads = heads or dict(type='HierarchicalGaussianHead')
            self._width = dim = model.get_embedding_dimension()
            self.heads.update({side: build(heads, dim=dim) for side in ('text', 'document')})
        self.figures: dict[str, Tensor] = {}
        self._further: dict[str, list[Tensor]] = {}
        self._gradient_watch = GradientWatch(warn=warnings.warn)
        self._few_labels = False
        self._own_gradients: list[tuple[nn.Parameter, Tensor]] = []
        self._alike = False

    def _loss(self, **how: Any) -> ContrastiveLoss:
        return ContrastiveLoss(**how)

    def forward(
        self, sentence_features: Iterable[dict[str, Tensor]], labels: Optional[Tensor]
    ) -> Tensor:
        """Return the loss, 0-dim, of features of C columns, and labels int64 [B] or None."""
        columns = [dict(column) for column in sentence_features]
        if len(columns) < 2:
            raise ValueError(
                f'two columns or more expected, a text and its document, not {len(columns)}'
            )
        self._start_alike()
        self._further = {} if self.guide is None else {LEVEL: self.guide.read(columns)}
        for name, teacher in self.teachers.items():
            vectors = teacher.read(columns, texts_only='a teacher')
            self._further[f'{PREFIX}{name}'] = [nn.functional.normalize(x, dim=-1) for x in vectors]
        if not self.uses_gradient_cache:
            return self._compute(embed_columns(self.model, columns), labels)
        self._own_gradients = []
        loss = self.forward_cached(columns, labels)
        if loss.requires_grad:
            loss.register_hook(partial(_add_gradients, self._own_gradients))
        return loss

    def calculate_loss(
        self,
        reps: list[list[Tensor]],
        labels: Optional[Tensor] = None,
        *,
        with_backward: bool = False,
    ) -> Tensor:
        """Return the loss (0-dim) of each column's embeddings in parts; see ``CachedLossMixin``.

        With ``with_backward`` the parts get their gradients.  Those of the loss's own weights are
        kept until the backward pass provides their factor.
        """
        loss = self._compute([torch.cat(parts) for parts in reps], labels)
        if not with_backward:
            return loss
        parts = [part for column in reps for part in column]
        parameters = [p for p in self._own_parameters() if p.requires_grad]
        gradients = torch.autograd.grad(loss, [*parts, *parameters], allow_unused=True)
        for part, gradient in zip(parts, gradients):
            part.grad = gradient if part.grad is None else part.grad + gradient
        self._own_gradients += [  # a MatryoshkaLoss calls this once per width
            (p, self._joint(gradient))
            for p, gradient in zip(parameters, gradients[len(parts) :])
            if gradient is not None
        ]
        return loss.detach()

    # -- from vectors to the loss ----------------------------------------------------------------

    def _compute(self, columns: list[Tensor], labels: Optional[Tensor]) -> Tensor:
        """Return the loss, 0-dim, of the columns' vectors, float [B, D], and labels int64 [B]."""
        labels = self._joint_labels(labels, len(columns[0]), columns[0].device)
        nobody = torch.full_like(labels, NOBODY)
        self._few_labels = self._few_labels or warn_of_few(labels)
        vectors = [self._levels(column, number) for number, column in enumerate(columns)]
        texts, documents = vectors[0], _cat(vectors[1:])
        joint = Labels(labels, torch.cat([labels, *[nobody] * (len(columns) - 2)]))
        self._see(texts, documents)
        for side, levels in (('text', texts), ('document', documents)):
            if side in self.heads:
                self._check_width(levels['global'].mean.shape[1])
                levels[GAUSSIAN] = self.heads[side](_one_token(levels['global'].mean.detach()))
        target, losses = self._losses(texts, documents, joint)
        self.figures = figures = {name: x.detach() for name, x in losses.items()}
        self._gradient_watch(
            [{'global': side['global']} for side in (texts, documents)],
            lambda: why_nothing(joint.target(), target, self.supervision, figures),
        )
        return sum(value for name, value in losses.items() if 'loss' in name)

    def _losses(
        self, texts: Levels, documents: Levels, joint: Labels
    ) -> tuple[Optional[Target], dict[str, Tensor]]:
        """Return the joint batch's target (None if made in blocks), losses and log figures."""
        temperature = torch.as_tensor(self.temperature, device=texts['global'].mean.device)
        parts = SimpleNamespace(
            temperature=lambda: temperature,
            similarity=self.similarity,
            supervision=self.supervision,
            judge=self.supervision,
            losses=dict(self.losses),
            objectives={},
        )
        shared = world_size() == 1 or self.gather_across_devices
        rows = max(self.mini_batch_size or joint.shape[0], ROWS)
        if shared and joint.shape[0] > rows and not whole_needed(parts):
            return None, losses_in_blocks(parts, texts, documents, joint, rows=rows)
        target, losses = joint.target(), {}
        if self.supervision is not None:
            target, losses = self.supervision(texts, documents, target)
        matrices = self.similarity(texts, documents)
        values = {
            f'loss_{name}': loss(matrices, target, temperature)
            for name, loss in self.losses.items()
        }
        return target, {**losses, **values}

    def _check_width(self, width: int) -> None:
        if width != self._width:
            raise ValueError(
                f'vectors have {width} numbers, but the Gaussian heads of the supervision have '
                f'the width {self._width}: a MatryoshkaLoss takes a supervision without heads, '
                'such as RelativeScoreSupervision'
            )

    def _levels(self, vectors: Tensor, column: int) -> Levels:
        """Return a column's levels of the joint batch."""
        levels = {'global': Embedding(vectors)}
        for name, columns in self._further.items():
            levels[name] = Embedding(columns[column])
        return gather_levels(levels) if self.gather_across_devices else levels

    def _joint_labels(self, labels: Optional[Tensor], count: int, device: torch.device) -> Tensor:
        local = checked_labels(labels, count, device)
        if not self.gather_across_devices:
            return local
        joint = gather_rows(local)
        return joint if labels is not None else torch.arange(len(joint), device=device)

    def _see(self, texts: Levels, documents: Levels) -> None:
        """Hook for subclasses: gets the levels of a joint batch before they are compared."""

    # -- weights of its own ----------------------------------------------------------------------

    def _own_parameters(self) -> list[nn.Parameter]:
        """Return the parameters of supervision and heads."""
        parts = [self.heads] + ([] if self.supervision is None else [self.supervision])
        return [p for part in parts for p in part.parameters()]

    def _start_alike(self) -> None:
        """Broadcast the loss's own weights to all processes, which no wrapper of the model does."""
        if self._alike or world_size() == 1:
            return
        weights = self._own_parameters()
        if weights and not self.gather_across_devices:
            raise ValueError(
                f'{type(self.supervision).__name__} has weights of its own, which {world_size()} '
                'processes would train apart: set gather_across_devices=True'
            )
        for parameter in weights:
            dist.broadcast(parameter.data, 0)
        self._alike = True

    def _joint(self, gradient: Tensor) -> Tensor:
        """Return the mean over processes: each has its share's gradient times their number."""
        return sum_processes(gradient) / world_size() if self.gather_across_devices else gradient

    # -- what sentence-transformers asks for -----------------------------------------------------

    def get_config_dict(self) -> dict[str, Any]:
        """Return the settings for the model card."""
        return dict(
            temperature=self.temperature,
            supervision=None if self.supervision is None else type(self.supervision).__name__,
            form=self.loss.form,
            direction=self.loss.direction,
            weighted=self.loss.weighted,
            mini_batch_size=self.mini_batch_size,
            gather_across_devices=self.gather_across_devices,
        )


def _supervision(part: nn.Module | dict | str) -> nn.Module:
    """Return a part built from a module, a config or a name.

    Raises:
        ValueError: one that reads fields which only the datasets of this package have.
    """
    built = build(dict(type=part) if isinstance(part, str) else part)
    if hasattr(built, 'own_levels'):
        raise ValueError(
            f'{type(built).__name__} reads more than the vectors of a batch, which '
            'sentence-transformers does not hand over: take a guide instead'
        )
    return built


def _joined(**parts: Optional[nn.Module]) -> Optional[nn.Module]:
    """Return the only supervision of several, their combination, or None."""
    some = {name: part for name, part in parts.items() if part is not None}
    if len(some) < 2:
        return next(iter(some.values()), None)
    return CombinedSupervision(parts=some, combine='product')


def _cat(parts: list[Levels]) -> Levels:
    return {name: Embedding(torch.cat([part[name].mean for part in parts])) for name in parts[0]}


def _one_token(vectors: Tensor) -> Embedding:
    """Return an embedding of unit vectors [N, D], each also as its only token for the heads."""
    unit = nn.functional.normalize(vectors, dim=1)
    mask = torch.ones(len(unit), 1, dtype=torch.bool, device=unit.device)
    return Embedding(unit, unit[:, None], mask)


def _add_gradients(gradients: list[tuple[nn.Parameter, Tensor]], factor: Tensor) -> None:
    for parameter, gradient in gradients:
        gradient = gradient * factor
        parameter.grad = gradient if parameter.grad is None else parameter.grad + gradient
