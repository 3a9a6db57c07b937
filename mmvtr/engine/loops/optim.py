"""Optimization: mixed precision on any device, CLIP4Clip's optimizer and schedule, CE's
optimizer."""

from __future__ import annotations

import inspect
import math
from contextlib import contextmanager
from typing import Any, Callable, Iterable, Iterator, Mapping, Optional

import torch
from mmengine.device import get_device
from mmengine.model import BaseModel
from mmengine.optim import DefaultOptimWrapperConstructor, OptimWrapper
from mmengine.optim.scheduler.lr_scheduler import LRSchedulerMixin
from mmengine.optim.scheduler.param_scheduler import _ParamScheduler
from mmengine.registry import OPTIMIZERS as MMENGINE_OPTIMIZERS
from torch import Tensor, nn
from torch.optim import Optimizer, RAdam

from mmvtr.functional.values import check_range
from mmvtr.registry import OPTIM_WRAPPER_CONSTRUCTORS, OPTIM_WRAPPERS, OPTIMIZERS, PARAM_SCHEDULERS


@OPTIM_WRAPPERS.register_module()
class AutocastOptimWrapper(OptimWrapper):
    """Optimizer wrapper that runs the forward pass under ``torch.autocast``, on CPU and on CUDA.

    mmengine's AmpOptimWrapper rejects a CPU.  bfloat16 has float32's range, so there is no loss
    scaling here; float16 needs it and is rejected.

    Args:
        dtype: name of the low-precision type.
        kwargs: as for OptimWrapper (``optimizer``, ``clip_grad``, ``accumulative_counts``).

    Raises:
        ValueError: another dtype than bfloat16.
    """

    def __init__(self, *, dtype: str = 'bfloat16', **kwargs: Any) -> None:
        if dtype != 'bfloat16':
            raise ValueError(
                f"AutocastOptimWrapper: dtype must be 'bfloat16', got {dtype!r}"
                ' (float16 needs loss scaling: use AmpOptimWrapper on CUDA)'
            )
        super().__init__(**kwargs)

    @contextmanager
    def optim_context(self, model: nn.Module) -> Iterator[None]:
        with super().optim_context(model), torch.autocast(get_device(), torch.bfloat16):
            yield


@OPTIMIZERS.register_module()
class BertAdam(Optimizer):
    """Adam without bias correction, clipped per parameter, with decoupled weight decay.

    For each parameter w of gradient g, after scaling g to a norm of at most ``max_grad_norm``::

        m = b1 m + (1 - b1) g,    v = b2 v + (1 - b2) g^2
        w = w - lr (m / (sqrt(v) + eps) + weight_decay w)

    as in pytorch-pretrained-BERT, whose defaults these are; MS-SL and its followers take them,
    CLIP4Clip and its followers ``betas=(0.9, 0.98)`` and ``weight_decay=0.2``.  The schedules that
    the official class contains are :class:`WarmupCosineLR` and :class:`WarmupLinearLR`.  The clip
    per parameter is applied in addition to any ``clip_grad`` of the optimizer wrapper.

    Args:
        params: parameters or parameter groups.
        lr: learning rate, >= 0.
        betas: decay of the first and the second moment, in [0, 1).
        eps: added to the root of the second moment.
        weight_decay: decoupled from the gradient, multiplied by ``lr``.
        max_grad_norm: norm to which each single parameter's gradient is clipped; 0 = no clipping.

    Raises:
        ValueError: a value outside its range.
    """

    def __init__(
        self,
        params: Iterable,
        lr: float,
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.01,
        max_grad_norm: float = 1.0,
    ) -> None:
        check_range('[0, inf]', lr=lr, eps=eps, weight_decay=weight_decay)
        for beta in betas:
            check_range('[0, 1)', betas=beta)
        super().__init__(
            params,
            dict(
                lr=lr,
                betas=tuple(betas),
                eps=eps,
                weight_decay=weight_decay,
                max_grad_norm=max_grad_norm,
            ),
        )

    @torch.no_grad()
    def step(self, closure: Optional[Callable[[], Tensor]] = None) -> Optional[Tensor]:
        """Update every parameter that has a gradient (whose values are clipped in place)."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for w in group['params']:
                if w.grad is not None:
                    self._update(w, group)
        return loss

    def _update(self, w: Tensor, group: dict[str, Any]) -> None:
        if group['max_grad_norm'] > 0:
            nn.utils.clip_grad_norm_(w, group['max_grad_norm'])
        state = self.state[w]
        if not state:
            state['m'], state['v'] = torch.zeros_like(w), torch.zeros_like(w)
        b1, b2 = group['betas']
        state['m'].mul_(b1).add_(w.grad, alpha=1 - b1)
        state['v'].mul_(b2).addcmul_(w.grad, w.grad, value=1 - b2)
        update = state['m'] / (state['v'].sqrt() + group['eps'])
        w.sub_(update.add_(w, alpha=group['weight_decay']), alpha=group['lr'])


@OPTIMIZERS.register_module()
class Ranger(RAdam):
    """RAdam with Lookahead: weights are interpolated with slow weights every k steps, as in CE.

    The inner optimizer is torch's RAdam with decoupled weight decay; its rectification begins when
    the approximated length of the average passes 5, the same as Ranger's ``N_sma_threshhold``.
    Slow weights s are initialised with the weights w before their first step; after every k-th
    step::

        s = s + alpha (w - s),    w = s

    A parameter's steps are those at which it had a gradient.  State of a parameter: RAdam's, and
    ``slow``.

    Args:
        params: parameters or parameter groups.
        lr, eps: > 0.
        alpha: share of the way to the fast weights, in [0, 1].
        k: steps between interpolations, at least 1.
        betas: decay of the first and the second moment, in [0, 1).
        weight_decay: decoupled from the gradient, multiplied by ``lr``, >= 0.

    Raises:
        ValueError: a value outside its range.
    """

    def __init__(
        self,
        params: Iterable,
        lr: float = 1e-3,
        *,
        alpha: float = 0.5,
        k: int = 6,
        betas: tuple[float, float] = (0.95, 0.999),
        eps: float = 1e-5,
        weight_decay: float = 0.0,
    ) -> None:
        check_range('[0, 1]', alpha=alpha)
        check_range('[1, inf]', k=k)
        check_range('(0, inf]', lr=lr, eps=eps)
        super().__init__(
            params,
            lr=lr,
            betas=tuple(betas),
            eps=eps,
            weight_decay=weight_decay,
            decoupled_weight_decay=True,
        )
        self.defaults.update(alpha=alpha, k=k)
        for group in self.param_groups:
            group.setdefault('alpha', alpha)
            group.setdefault('k', k)

    @torch.no_grad()
    def step(self, closure: Optional[Callable[[], Tensor]] = None) -> Optional[Tensor]:
        """Update every parameter that has a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        moved = [(w, g) for g in self.param_groups for w in g['params'] if w.grad is not None]
        # RAdam accepts any existing state of a parameter: the slow weights are added after its own.
        new = {w: w.clone() for w, _ in moved if w not in self.state}
        super().step()
        for w, slow in new.items():
            self.state[w]['slow'] = slow
        for w, group in moved:
            state = self.state[w]
            if int(state['step']) % group['k'] == 0:
                state['slow'].add_(w - state['slow'], alpha=group['alpha'])
                w.copy_(state['slow'])
        return loss


def warmup_cosine(progress: float, warmup: float, *, whole: bool = True) -> float:
    """Return CLIP4Clip's learning-rate factor.

    Linear from 0 to 1 in the warm-up, then ``(1 + cos(pi progress)) / 2`` with the progress of the
    *whole* run: at the end of a warm-up of 0.1 the factor falls from 1 to 0.976.

    Args:
        progress: completed share of the run, in [0, 1].
        warmup: share of the run that is warm-up, in [0, 1).
        whole: False: with the progress after the warm-up, without that fall (X-Pool, transformers).
    """
    if progress < warmup:
        return progress / warmup
    if not whole:
        progress = (progress - warmup) / (1 - warmup)
    return 0.5 * (1 + math.cos(math.pi * progress))


@PARAM_SCHEDULERS.register_module()
class WarmupCosineLR(LRSchedulerMixin, _ParamScheduler):
    """:func:`warmup_cosine` as a scheduler: ``dict(type='WarmupCosineLR', by_epoch=False)``.

    The first step has a learning rate of 0, as in CLIP4Clip.

    Args:
        warmup: share of the run that is warm-up, in [0, 1).
        whole: see :func:`warmup_cosine`.
        args, kwargs: as for mmengine's schedulers (``begin``, ``end``: the Runner fills in the
            whole run, ``by_epoch``).
    """

    def __init__(self, *args: Any, warmup: float = 0.1, whole: bool = True, **kwargs: Any) -> None:
        check_range('[0, 1)', warmup=warmup)
        self.warmup, self.whole = warmup, whole
        super().__init__(*args, **kwargs)

    @classmethod
    def build_iter_from_epoch(
        cls, *args: Any, begin: int = 0, end: int, epoch_length: int, **kwargs: Any
    ) -> 'WarmupCosineLR':
        """Build the schedule in iterations (mmengine's ``convert_to_iter_based=True``)."""
        kwargs.pop('by_epoch', None)
        begin, end = begin * epoch_length, end * epoch_length
        return cls(*args, begin=begin, end=end, by_epoch=False, **kwargs)

    def _get_value(self) -> list[float]:
        progress = self.last_step / (self.end - self.begin)
        factor = warmup_cosine(progress, self.warmup, whole=self.whole)
        return [base * factor for base in self.base_values]


@PARAM_SCHEDULERS.register_module()
class WarmupLinearLR(WarmupCosineLR):
    """Schedule that rises linearly from 0 in the warm-up, then falls linearly to 0.

    As in TACo, MS-SL and pytorch-pretrained-BERT.

    Args:
        warmup, args, kwargs: see :class:`WarmupCosineLR`.
    """

    def _get_value(self) -> list[float]:
        progress = self.last_step / (self.end - self.begin)
        rising = progress / self.warmup if progress < self.warmup else 1.0
        return [base * min(rising, (1 - progress) / (1 - self.warmup)) for base in self.base_values]


#: Name parts of embeddings added to tokens (position or type), and of the model's own tokens.
NO_DECAY = frozenset(
    'cls_emb cls_token class_embedding expert_embedding pos_embed position position_embedding '
    'position_embeddings positional_embedding relative_attention_bias time_embedding token_type '
    'token_type_embeddings tokens type_embedding'.split()
)


def decays(name: str, parameter: nn.Parameter) -> bool:
    """Return whether a parameter gets weight decay: a weight matrix or a word table.

    Excluded are parameters of fewer than two dimensions (biases, norms, class tokens, temperatures,
    a supervision's slope and bias), and names with a part in :data:`NO_DECAY`.
    """
    return parameter.ndim >= 2 and NO_DECAY.isdisjoint(name.split('.'))


def check_custom_keys(paramwise_cfg: Optional[Mapping[str, Any]], model: nn.Module) -> None:
    """Raise ValueError for a key of ``custom_keys`` that matches no parameter.

    Accepted are keys of parts that a config may leave out: arguments that have a default, of the
    model or of one in it.

    Args:
        paramwise_cfg: of an optimizer wrapper, or None.
        model: whose parameters are optimized.

    Raises:
        ValueError: names the key, and how names begin.
    """
    names = [name for name, _ in model.named_parameters()]
    kinds = {type(module) for module in model.modules() if isinstance(module, BaseModel)}
    arguments = [x for kind in kinds for x in inspect.signature(kind).parameters.values()]
    optional = {x.name for x in arguments if x.default is not x.empty}
    for key in (paramwise_cfg or {}).get('custom_keys') or ():
        if not any(key in name for name in names) and key.partition('.')[0] not in optional:
            tops = sorted({'.'.join(name.split('.')[:2]) for name in names})
            raise ValueError(
                f'optim_wrapper.paramwise_cfg.custom_keys: no parameter of the model has {key!r} '
                f'in its name; names begin with {", ".join(tops)}'
            )


@OPTIM_WRAPPER_CONSTRUCTORS.register_module()
class MatrixDecayConstructor(DefaultOptimWrapperConstructor):
    """mmengine's constructor with weight decay for matrices only (:func:`decays`).

    This follows CLIP ("all weights that are not gains or biases"), which also excludes position
    tables.  CLIP4Clip and similar codes exclude names with ``bias`` or ``LayerNorm.weight``; CLIP's
    norms have other names, so their code decays them, and the logit scale too.

    Parameters with equal learning rate and decay form one group of the optimizer.

    Args:
        optim_wrapper_cfg: as for mmengine's constructor.
        paramwise_cfg: None, or ``custom_keys`` only: part of a name -> dict of ``lr_mult`` and
            ``decay_mult``; of several that match a name, the longest. A ``decay_mult`` applies only
            to parameters that decay.

    Raises:
        ValueError: another option, or a key that matches no parameter's name.
    """

    def __init__(self, optim_wrapper_cfg: dict, paramwise_cfg: Optional[dict] = None) -> None:
        super().__init__(optim_wrapper_cfg, {'custom_keys': {}, **(paramwise_cfg or {})})

    def _validate_cfg(self) -> None:
        self.base_lr = self._stated('lr')
        self.base_wd = self._stated('weight_decay')
        super()._validate_cfg()
        known = dict(paramwise_cfg={'custom_keys'})
        given = dict(paramwise_cfg=self.paramwise_cfg)
        for key, multipliers in self.paramwise_cfg['custom_keys'].items():
            known[f'custom_keys[{key!r}]'] = {'lr_mult', 'decay_mult'}
            given[f'custom_keys[{key!r}]'] = multipliers
        for place, options in given.items():
            if options.keys() - known[place]:
                raise ValueError(
                    f'MatrixDecayConstructor: {place} takes {sorted(known[place])}, not '
                    f'{sorted(options.keys() - known[place])}'
                )

    def _stated(self, option: str) -> Optional[float]:
        """Return an option of the optimizer, from the config or its class; None if it has none."""
        kind = self.optimizer_cfg['type']
        if isinstance(kind, str):
            with MMENGINE_OPTIMIZERS.switch_scope_and_registry(None) as registry:
                kind = registry.get(kind)
        parameters = inspect.signature(kind).parameters
        default = parameters[option].default if option in parameters else None
        return self.optimizer_cfg.get(
            option, None if default is inspect.Parameter.empty else default
        )

    def add_params(
        self, params: list[dict], module: nn.Module, prefix: str = '', is_dcn_module: Any = None
    ) -> None:
        """Add the whole model's trainable parameters to ``params``, in groups."""
        names = dict(module.named_parameters())
        groups: dict[tuple, dict[str, Any]] = {}
        for name, parameter in names.items():
            if parameter.requires_grad:
                options = self._options(name, parameter)
                group = groups.setdefault(tuple(options.values()), dict(params=[], **options))
                group['params'].append(parameter)
        params += groups.values()

    def _options(self, name: str, parameter: nn.Parameter) -> dict[str, float]:
        """Return learning rate and weight decay, each if the optimizer has it."""
        keys = [key for key in self.paramwise_cfg['custom_keys'] if key in name]
        # The longest match, the alphabetically first of equally long ones: mmengine's order.
        key = min(keys, key=lambda key: (-len(key), key), default=None)
        own = self.paramwise_cfg['custom_keys'].get(key, {})
        options = {}
        if self.base_lr is not None:
            options['lr'] = self.base_lr * own.get('lr_mult', 1.0)
        if self.base_wd is not None:
            wanted = self.base_wd * own.get('decay_mult', 1.0)
            options['weight_decay'] = wanted if decays(name, parameter) else 0.0
        return options
