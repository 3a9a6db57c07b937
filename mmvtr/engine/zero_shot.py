"""Testing a model as its config builds it: what of it is pretrained, and that the log says it."""

from __future__ import annotations

import logging
import re
from typing import Any, Iterator

from mmengine.logging import print_log
from mmengine.runner import Runner
from torch import nn

from mmvtr.engine.launch import bare
from mmvtr.engine.score_transforms import TransformHook
from mmvtr.registry import bare_name

#: Towers that are pretrained where ``model`` is a name or a folder, and random where it is a dict.
_BY_NAME = ('TransformersText', 'TransformersFrames', 'TransformersDualText', 'XCLIPEncoder')


def pretrained_parts(model: Any, path: str = '') -> Iterator[str]:
    """Where in a model's config pretrained weights are named: ``'encoder.frames'`` ...

    The members of a BackdoorRetriever are one: their number is left out.
    """
    if isinstance(model, dict):
        by_name = bare_name(model) in _BY_NAME
        if isinstance(model.get('pretrained'), str) or (
            by_name and isinstance(model['model'], str)
        ):
            yield _without_members(path)
        for key, part in model.items():
            yield from pretrained_parts(part, f'{path}.{key}' if path else str(key))
    elif isinstance(model, (list, tuple)):
        for i, part in enumerate(model):
            yield from pretrained_parts(part, f'{path}.{i}')


def untrained_parts(model: nn.Module, pretrained: set[str]) -> list[str]:
    """Parts of a model with parameters that no pretrained weights fill, two names deep.

    Args:
        model: a retriever.
        pretrained: see :func:`pretrained_parts`.
    """
    names = [_without_members(name) for name, _ in model.named_parameters()]
    # A temperature ranks nothing.
    names = [name for name in names if not name.startswith('temperature')]
    filled = tuple(f'{part}.' for part in pretrained)
    left = ['.'.join(name.split('.')[:2]) for name in names if not name.startswith(filled)]
    return list(dict.fromkeys(left))


def state_zero_shot(runner: Runner, *, random: bool = False) -> None:
    """Let the protocol line say that no checkpoint was loaded, and what of the model is random.

    Transforms that read the train queue, which nothing has filled, are left out with a warning.

    Args:
        runner: with its model built.
        random: a model of which nothing is pretrained may be tested.

    Raises:
        SystemExit: nothing is, the model has weights, and ``random`` is False.
    """
    pretrained = set(pretrained_parts(runner.cfg.model))
    left = untrained_parts(bare(runner.model), pretrained)
    if left and not pretrained and not random:
        raise SystemExit(
            f'error: {runner.cfg.filename} names no pretrained weights, so without a checkpoint '
            f'{", ".join(left[:3])} would be random. Give a CHECKPOINT, or set pretrained of the '
            'towers (--cfg-options model.encoder.frames.pretrained=/path/to/weights, and the same '
            'for text), or ask for it: --random-weights'
        )
    stated = 'weights as the config builds them'
    if left:
        stated += f', random in {", ".join(left[:3])}' + (', ...' if len(left) > 3 else '')
        print_log(f'Nothing pretrained fills {", ".join(left)}', 'current', logging.WARNING)
    runner.message_hub.update_info('zero_shot', stated)
    _leave_out_readers_of_the_queue(runner)


def _leave_out_readers_of_the_queue(runner: Runner) -> None:
    names = []
    for hook in list(runner.hooks):
        if isinstance(hook, TransformHook) and hook.source == 'train_queue':
            runner.hooks.remove(hook)
            names.append(hook.name)
    if names:
        verb = 'is' if len(names) == 1 else 'are'
        print_log(
            f'{", ".join(names)} {verb} left out: the train queue is filled by a training, and '
            'none has been; give a CHECKPOINT',
            'current',
            logging.WARNING,
        )
    runner.message_hub.update_info('left_out_transforms', names)


def _without_members(name: str) -> str:
    return re.sub(r'^(?:member\.|members\.\d+\.)+', '', name)
