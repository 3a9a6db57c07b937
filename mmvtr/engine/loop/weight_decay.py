"""Which parameters decay, and at which learning rate each moves."""

from __future__ import annotations

import inspect
from typing import Any, Optional

from mmengine.logging import print_log
from mmengine.optim import DefaultOptimWrapperConstructor
from mmengine.registry import OPTIMIZERS
from torch import nn

from mmvtr.registry import OPTIM_WRAPPER_CONSTRUCTORS

#: Parts of names: tables added to tokens (where or what a token is) and tokens of the model's own.
SPARED = {
    'cls_emb',
    'cls_token',
    'class_embedding',
    'expert_embedding',
    'pos_embed',
    'position',
    'position_embedding',
    'position_embeddings',
    'positional_embedding',
    'relative_attention_bias',
    'time_embedding',
    'token_type',
    'token_type_embeddings',
    'tokens',
    'type_embedding',
}


def decays(name: str, parameter: nn.Parameter) -> bool:
    """Return whether a parameter gets weight decay: a weight matrix or a word table.

    Not what has fewer than two dimensions (biases, norms, class tokens, temperatures, a
    supervision's slope and bias), nor what is named one of :data:`SPARED`.
    """
    return parameter.ndim >= 2 and SPARED.isdisjoint(name.split('.'))


@OPTIM_WRAPPER_CONSTRUCTORS.register_module()
class MatrixDecayConstructor(DefaultOptimWrapperConstructor):
    """mmengine's constructor with weight decay for matrices alone (:func:`decays`).

    As CLIP trains ("all weights that are not gains or biases"), which leaves out
    position tables too.  CLIP4Clip and its kin leave out what is named ``bias`` or
    ``LayerNorm.weight``; CLIP's norms are named otherwise, so that its code lets them decay, and
    the logit scale with them.

    Parameters of one learning rate and decay make one group of the optimizer.

    Args:
        optim_wrapper_cfg: as for mmengine's.
        paramwise_cfg: None, or ``custom_keys`` alone: part of a name -> dict of ``lr_mult`` and
            ``decay_mult``; of several that fit a name, the longest.  A ``decay_mult`` is for those
            that decay.

    Raises:
        ValueError: another option, or a key that is in no parameter's name.
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
        """The whole model's parameters that are trained, in groups, to ``params``."""
        names = dict(module.named_parameters())
        self._check_keys(list(names))
        groups: dict[tuple, dict[str, Any]] = {}
        for name, parameter in names.items():
            if parameter.requires_grad:
                options = self._options(name, parameter)
                group = groups.setdefault(tuple(options.values()), dict(params=[], **options))
                group['params'].append(parameter)
        params += groups.values()
        for group in params:
            own = [f'{key} {value:g}' for key, value in group.items() if key != 'params']
            print_log(f'{len(group["params"])} parameters: {", ".join(own)}', logger='current')

    def _check_keys(self, names: list[str]) -> None:
        for key in self.paramwise_cfg['custom_keys']:
            if not any(key in name for name in names):
                tops = sorted({'.'.join(name.split('.')[:2]) for name in names})
                raise ValueError(
                    f'optim_wrapper.paramwise_cfg.custom_keys: no parameter of the model has '
                    f'{key!r} in its name; names begin with {", ".join(tops)}'
                )

    def _options(self, name: str, parameter: nn.Parameter) -> dict[str, float]:
        """Return learning rate and weight decay, each if the optimizer has one."""
        keys = [key for key in self.paramwise_cfg['custom_keys'] if key in name]
        # Of several the longest, of equally long ones the first by alphabet: mmengine's order.
        key = min(keys, key=lambda key: (-len(key), key), default=None)
        own = self.paramwise_cfg['custom_keys'].get(key, {})
        options = {}
        if self.base_lr is not None:
            options['lr'] = self.base_lr * own.get('lr_mult', 1.0)
        if self.base_wd is not None:
            wanted = self.base_wd * own.get('decay_mult', 1.0)
            options['weight_decay'] = wanted if decays(name, parameter) else 0.0
        return options
