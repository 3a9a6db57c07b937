"""Optimizer wrappers: mixed precision on any device, weight decay of matrices, what one holds."""

from __future__ import annotations

import inspect
import math
from contextlib import contextmanager
from typing import Any, Iterator, Mapping, Optional, Sequence

import torch
from mmengine.device import get_device
from mmengine.model import BaseModel
from mmengine.optim import DefaultOptimWrapperConstructor, OptimWrapper, OptimWrapperDict
from mmengine.registry import OPTIMIZERS
from torch import nn

from mmvtr.registry import OPTIM_WRAPPER_CONSTRUCTORS, OPTIM_WRAPPERS

#: Short names of precisions.
SHORT = dict(float32='fp32', bfloat16='bf16', float16='fp16')


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
        allowed = dict(paramwise_cfg={'custom_keys'})
        stated = dict(paramwise_cfg=self.paramwise_cfg)
        for key, multipliers in self.paramwise_cfg['custom_keys'].items():
            allowed[f'custom_keys[{key!r}]'] = {'lr_mult', 'decay_mult'}
            stated[f'custom_keys[{key!r}]'] = multipliers
        for place, options in stated.items():
            if options.keys() - allowed[place]:
                raise ValueError(
                    f'MatrixDecayConstructor: {place} takes {sorted(allowed[place])}, not '
                    f'{sorted(options.keys() - allowed[place])}'
                )

    def _stated(self, option: str) -> Optional[float]:
        """Return an option of the optimizer, from the config or its class; None if it has none."""
        kind = self.optimizer_cfg['type']
        if isinstance(kind, str):
            with OPTIMIZERS.switch_scope_and_registry(None) as registry:
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
        multipliers = self.paramwise_cfg['custom_keys'].get(key, {})
        options = {}
        if self.base_lr is not None:
            options['lr'] = self.base_lr * multipliers.get('lr_mult', 1.0)
        if self.base_wd is not None:
            decay = self.base_wd * multipliers.get('decay_mult', 1.0)
            options['weight_decay'] = decay if decays(name, parameter) else 0.0
        return options


# -- what a built wrapper holds --------------------------------------------------------------------


def wrappers_of(wrapper: Any) -> list[OptimWrapper]:
    """Return the optimizer wrappers of a training, one or several; none if it is not built."""
    if isinstance(wrapper, OptimWrapperDict):
        return list(wrapper.values())
    return [wrapper] if isinstance(wrapper, OptimWrapper) else []


def rates_of(wrappers: Sequence[OptimWrapper]) -> list[list]:
    """Return [learning rate, parameters] of all groups that share a rate, before any schedule."""
    counts: dict[float, int] = {}
    for wrapper in wrappers:
        for group in wrapper.optimizer.param_groups:
            rate = float(group.get('initial_lr', group.get('lr', math.nan)))
            counts[rate] = counts.get(rate, 0) + len(group['params'])
    return [[rate, count] for rate, count in counts.items()]


def precision_of(wrapper: OptimWrapper) -> str:
    """Return 'fp32', 'bf16' or 'fp16', the precision of a wrapper's forward pass."""
    kind = type(wrapper).__name__
    default = dict(AutocastOptimWrapper='bfloat16', AmpOptimWrapper='float16').get(kind, 'float32')
    dtype = getattr(wrapper, 'cast_dtype', None) or default
    return SHORT.get(str(dtype).removeprefix('torch.'), str(dtype))
