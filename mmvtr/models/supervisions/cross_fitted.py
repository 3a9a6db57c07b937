"""Cross-fitting: weights of a pair from a model that was not trained on it.

Two models are trained, each on one half of the items, and the weight of a pair of one half comes
from the model of the other half, which cannot have memorised it.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any, Callable, Optional, Sequence

import torch
from torch import Tensor, nn

from mmvtr.models.blocks import Pairs
from mmvtr.models.similarities.cosine import token_levels
from mmvtr.models.supervisions.early_teacher import PARTS, PREFIX, EarlyTeacher
from mmvtr.models.target import Filled, Target, each_way
from mmvtr.registry import MODELS
from mmvtr.storage.weights import check_weights, read_checkpoint
from mmvtr.structures import Embedding, Levels, drop_tokens, under

#: Name of the level with the half of each item: float [N, 1], 0 or 1.
HALF = 'half'


@MODELS.register_module()
class CrossFittedTeachers(EarlyTeacher):
    """Target with weights from two models, each trained on a half of the items.

    A pair of one half gets its weight from the model of the other half; a pair across the halves,
    on which neither was trained, the mean of both.  They act from the first step on, at full ramp,
    in evaluation mode and without gradient.  As in an :class:`EarlyTeacher`, the losses that train
    the supervision are those of the model itself, ``down_weighted_share`` and the related figures
    are logged, and figures of the model's own supervision are ``live_<name>``.

    The training set, and that of either half, needs the record transform
    :class:`~mmvtr.datasets.Halves`, which tells a batch its halves.  Encoder, heads and supervision
    of the two are read from their checkpoints when a training begins or is resumed, and are not
    part of the trained model: its optimizer and checkpoints do not include them, and inference does
    not need them.

    It works with supervisions that fill weights only (DVTR, PCME, relative scores).

    Memory: encoder, heads and supervision twice more, without gradients and optimizer state, and
    their vectors of a joint batch; time: two more forward passes a step, and two trainings before.

    Args:
        halves: checkpoints of the models trained on half 0 and on half 1, of the same config.
        share: share of false negatives among the unannotated pairs, see :class:`EarlyTeacher`.

    Raises:
        ValueError: ``halves`` are not two different files; a retriever without a supervision, with
            one of sets or columns, or with memory banks; in training: a batch without halves, a
            supervision that fills more than weights, a model whose parameters are sharded.
        FileNotFoundError, RuntimeError: at the beginning of a training: a checkpoint that is
            missing, damaged, or of another model (names the weights).
    """

    def __init__(self, *, halves: Sequence[str], share: Optional[float] = None) -> None:
        super().__init__(at=0.0, share=share)
        names = [] if isinstance(halves, str) else [str(name) for name in halves]
        if len({*names}) != 2 or len(names) != 2:
            raise ValueError(
                'halves must be two different checkpoints, of the models trained on half 0 and on '
                f'half 1, not {str(halves)[:160]}'
            )
        self.halves = names
        # In a list they are not submodules, and so are neither trained nor saved.
        self._copies: list[nn.Module] = []

    def of(self, model: nn.Module) -> None:
        super().of(model)
        for part, method in ((model.supervision, 'refresh'), (model, 'follow')):
            if hasattr(part, method):
                what = 'sets of pairs' if method == 'refresh' else 'pairs with the rows of a bank'
                raise ValueError(
                    f'{type(part).__name__} has {what}, which CrossFittedTeachers do not '
                    'cover: take an EarlyTeacher'
                )

    # -- the two models --------------------------------------------------------------------------

    def init_weights(self) -> None:
        """Read the checkpoints; mmengine calls this before the first step of a training."""
        len(self.copies)

    @property
    def copies(self) -> list[nn.Module]:
        """Encoder, heads and supervision of the two, frozen and at full ramp."""
        if not self._copies:
            self._copies = [self._read(path) for path in self.halves]
        return self._copies

    def _read(self, path: str) -> nn.Module:
        prefixes = tuple(f'{name}.' for name in PARTS)
        if any(hasattr(weight, 'device_mesh') for weight in self._model.parameters()):
            raise ValueError(
                'CrossFittedTeachers copy whole weights, but those of the model are sharded: '
                'leave model_wrapper_cfg out'
            )
        weights = read_checkpoint(path)['state_dict']
        weights = check_weights(self._model, weights, path, prefixes)
        copy = nn.Module()
        for name in PARTS:
            copy.add_module(name, deepcopy(getattr(self._model, name)))
        copy.load_state_dict({n: x for n, x in weights.items() if n.startswith(prefixes)})
        for module in copy.modules():
            if hasattr(module, 'progress'):
                module.progress = 1.0
        return copy.requires_grad_(False).eval()

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> nn.Module:
        """Apply ``fn`` (a move to a device or dtype) to the two as well, if they are loaded."""
        for copy in self._copies:
            copy._apply(fn)
        return super()._apply(fn, recurse)

    # -- overridden: two copies instead of one ---------------------------------------------------

    @property
    def acts(self) -> bool:
        """Whether the two models make the weights."""
        return self._model.stage != 'uncertainty'

    def _copied_supervision(self) -> Judges:
        return Judges([copy.supervision for copy in self.copies])

    @torch.no_grad()
    def own_levels(self, inputs: dict[str, Tensor], data_samples: dict) -> tuple[Levels, Levels]:
        """Return both models' levels of this process' texts and videos, ``'teacher.<k>.<name>'``,
        and their halves, ``'teacher.half'``."""
        if not self.acts:
            return {}, {}
        sides, keep = [], token_levels(self._model.similarity)
        for side in ('text', 'video'):
            halves = data_samples.get(f'{side}_half')
            if halves is None:
                raise ValueError(
                    'the batch does not say in which half its items are: give the set records=dict('
                    "half=dict(type='Halves')), with the seed of the trainings on halves"
                )
            levels = {}
            for k, copy in enumerate(self.copies):
                encoded = drop_tokens(self._model.encoded_by(copy, inputs, side), keep=keep)
                levels.update({f'{PREFIX}{k}.{name}': level for name, level in encoded.items()})
            like = next(iter(levels.values())).mean
            levels[PREFIX + HALF] = Embedding(halves[:, None].to(like))
            sides.append(levels)
        return sides[0], sides[1]


class Judges:
    """Combine the supervisions of two models into one that sets only weights, without figures.

    Args:
        each: supervisions of the models trained on half 0 and on half 1.  They read the levels
            ``'<k>.<name>'`` of model k; the level :data:`HALF` holds the half of each item.
    """

    def __init__(self, each: Sequence[nn.Module]) -> None:
        self.each = each

    def __call__(self, texts: Levels, videos: Levels, target: Target) -> Filled:
        """Return the target of the joint batch with weights [T, V]."""
        each = [
            judge(_of(texts, k), _of(videos, k), target)[0] for k, judge in enumerate(self.each)
        ]
        return self._joined(each, target, _halves(texts), _halves(videos)), {}

    def begin(self, texts: Levels, videos: Levels, pairs: Pairs) -> dict[str, Any]:
        """Prepare the blocks of both."""
        begun = [
            judge.begin(_of(texts, k), _of(videos, k), pairs) for k, judge in enumerate(self.each)
        ]
        return dict(each=begun, texts=_halves(texts), videos=_halves(videos))

    def block(self, begun: dict[str, Any], rows: slice, target: Target) -> Filled:
        """Return the target of the texts ``rows``."""
        each = [judge.block(own, rows, target)[0] for judge, own in zip(self.each, begun['each'])]
        return self._joined(each, target, begun['texts'][rows], begun['videos']), {}

    def finish(self, begun: dict[str, Any], sums: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return an empty dict of figures."""
        return {}

    def _joined(
        self, targets: Sequence[Target], annotated: Target, of_texts: Tensor, of_videos: Tensor
    ) -> Target:
        for judge, target in zip(self.each, targets):
            pairs = zip(Target._fields, target, annotated) if isinstance(target, Target) else ()
            changed = [name for name, mine, theirs in pairs if mine is not theirs]
            if changed != ['weights']:
                raise ValueError(
                    f'{type(judge).__name__} fills {changed or "several targets"}, but '
                    'CrossFittedTeachers combines only weights: use EarlyTeacher'
                )

        def joined(zero: Tensor, one: Tensor) -> Tensor:
            held_out = torch.where(of_texts[:, None] == 0, one, zero)
            return torch.where(of_texts[:, None] == of_videos, held_out, (zero + one) / 2)

        return annotated._replace(weights=each_way(joined, *(target.weights for target in targets)))


def _of(levels: Levels, k: int) -> Levels:
    """Return the levels with those of model k under their own names."""
    return {**levels, **under(f'{k}.', levels)}


def _halves(levels: Levels) -> Tensor:
    """Return the half of each item, float [N], 0 or 1."""
    return levels[HALF].mean[:, 0]
