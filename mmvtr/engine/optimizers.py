"""Optimizers of the methods: CLIP4Clip's and MS-SL's BertAdam, CE's Ranger."""

from __future__ import annotations

from typing import Any, Callable, Iterable, Optional

import torch
from torch import Tensor, nn
from torch.optim import Optimizer, RAdam

from mmvtr.functional.values import check_range
from mmvtr.registry import OPTIMIZERS


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
