"""What a result must state of its test and its model, for the protocol line.

What it states of the training is :mod:`mmvtr.engine.loop.facts`.
"""

from __future__ import annotations

from typing import Any, Mapping, Optional, Union

from mmengine.config import Config
from mmengine.runner import BaseLoop
from torch import nn

from mmvtr.registry import bare_name

#: What the first step of a video pipeline reads.
SOURCES = dict(
    LoadVideo='video',
    LoadClips='video',
    LoadFrames='JPEG',
    LoadFeatures='features',
    LoadExperts='features of experts',
)


def optimizer_in_words(cfg: Mapping[str, Any]) -> Optional[str]:
    """Return 'AdamW, lr 0.0001' as a config plans it; None without or with several optimizers."""
    optimizer = (cfg.get('optim_wrapper') or {}).get('optimizer')
    if not optimizer or 'type' not in optimizer:
        return None
    rate = optimizer.get('lr')
    return bare_name(optimizer) + ('' if rate is None else f', lr {rate:g}')


def precision(amp: Union[bool, str], trained: Optional[str]) -> str:
    """Return the precision of encoding, and that of training if it differs.

    Args:
        amp: how they were encoded, as of :class:`~mmvtr.engine.RetrievalLoop`.
        trained: the precision of the training; None: of none, or unknown.
    """
    tested = amp if isinstance(amp, str) else 'bf16' if amp else 'fp32'
    return tested if trained in (None, tested) else f'{tested}, trained in {trained}'


def frames_from(loader: Optional[Mapping[str, Any]]) -> Optional[str]:
    """Return 'video', 'JPEG' or 'features', what a loader's config reads; None if unknown."""
    steps = ((loader or {}).get('dataset') or {}).get('video_pipeline')
    if not isinstance(steps, (list, tuple)) or not steps or 'type' not in steps[0]:
        return None
    name = bare_name(steps[0])
    return SOURCES.get(name, name)


def embedder_protocol(model: nn.Module, loader: Optional[Mapping[str, Any]]) -> dict[str, Any]:
    """Return prompts and frames of an encoder that states them, else nothing."""
    encoder = getattr(model, 'encoder', None)
    if not hasattr(encoder, 'protocol'):
        return {}
    steps = ((loader or {}).get('dataset') or {}).get('video_pipeline') or [{}]
    kind, most = steps[0].get('sampling', 'uniform'), steps[0].get('num_frames')
    rate = 'one a second' if kind == 'per_second' else kind
    sampled = rate if most is None else f'{rate}, at most {most}'
    return dict(encoder.protocol(), sampled=sampled)


def models_in_words(model: nn.Module, members: Optional[list[str]]) -> str:
    """Return 'single', 'ensemble of 2', or the number of jointly trained parts.

    Args:
        model: without a distributed wrapper.
        members: origins of an ensemble's checkpoints.
    """
    if members:
        return f'ensemble of {len(members)}'
    parts = getattr(model, 'members', None)
    return 'single' if parts is None else f'single, {len(parts)} members'


def checkpoint_in_words(runner: Any) -> Optional[str]:
    """Return by what and on which set the weights were chosen, or which they are.

    None where none was loaded, as in a zero-shot test.
    """
    info = runner.message_hub.get_info
    if info('chosen_on'):
        by = info('chosen_by')
        return f'chosen on {info("chosen_on")}' + (f' by {by}' if by else '')
    if info('zero_shot'):
        return None
    loop = getattr(runner, '_train_loop', None)
    return f'epoch {loop.epoch}' if isinstance(loop, BaseLoop) else 'as given'


def selection(cfg: Config) -> str:
    """Return, before a training, which of its checkpoints will be tested."""
    if cfg.get('val_dataloader') is None:
        return 'the last epoch'
    by = (cfg.default_hooks.get('checkpoint') or {}).get('save_best')
    return f'best on val by {by}' if by else 'the last epoch'


def in_words(component: dict) -> str:
    """Return 'LengthSplit(parts=2)', and for splits that read the test set that they do."""
    given = [
        f'{name}={in_words(value) if isinstance(value, dict) else value}'
        for name, value in component.items()
        if name not in ('type', '_scope_', 'test')
    ]
    source = ' with test statistics' if 'test' in component else ''
    return f'{bare_name(component)}({", ".join(given)}){source}'
