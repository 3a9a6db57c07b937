"""Zero-shot models: list their random parts, and reject these unless they are requested."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any, Iterator

from mmengine.config import Config
from mmengine.logging import print_log
from mmengine.runner import Runner
from torch import nn

from mmvtr.engine.hooks.score_transforms import TransformHook
from mmvtr.engine.loops.evaluation import bare
from mmvtr.errors import UserError
from mmvtr.models.towers.open_clip_weights import folder_weights
from mmvtr.open_clip_configs import FOLDER
from mmvtr.registry import bare_name

#: Towers that are pretrained if ``model`` is a name or a folder, and random if it is a dict.
_BY_NAME = (
    'SentenceTransformerEncoder',
    'TransformersDualText',
    'TransformersFrames',
    'TransformersText',
    'XCLIPEncoder',
)
#: Parts that no embedding, score or spread depends on.
_OF_TRAINING = ('temperature', 'losses', 'objectives', 'supervision', 'banks', 'key_encoder')


def pretrained_parts(model: Any, path: str = '') -> Iterator[str]:
    """Yield where a model's config names pretrained weights: ``'encoder.frames'`` ...

    Members of a BackdoorRetriever are not distinguished: their index is left out.
    """
    if isinstance(model, dict):
        by_name = bare_name(model) in _BY_NAME and isinstance(model['model'], str)
        if by_name or _reads_folder(model) or isinstance(model.get('pretrained'), str):
            # No file has its projection to another width.
            projected = bare_name(model) == 'TransformersText' and model.get('dim') is not None
            yield _without_members(f'{path}.transformer' if projected else path)
        for key, part in model.items():
            yield from pretrained_parts(part, f'{path}.{key}' if path else str(key))
    elif isinstance(model, (list, tuple)):
        for i, part in enumerate(model):
            yield from pretrained_parts(part, f'{path}.{i}')


def untrained_parts(model: nn.Module, pretrained: set[str]) -> list[str]:
    """Return the parts of a model that no pretrained weights fill, two or three names deep.

    Parts used only in training are ignored.

    Args:
        model: a retriever.
        pretrained: see :func:`pretrained_parts`.
    """
    names = [_without_members(name) for name, _ in model.named_parameters()]
    names = [name for name in names if name.split('.')[0] not in _OF_TRAINING]
    filled = tuple(f'{part}.' for part in pretrained)
    left = [name.split('.') for name in names if not name.startswith(filled)]
    # One level deeper if the rest of the part is pretrained.
    deep = {tuple(part.split('.')[:2]) for part in pretrained if part.count('.') > 1}
    return list(dict.fromkeys('.'.join(n[: 2 + (tuple(n[:2]) in deep)]) for n in left))


def refuse_random(model: nn.Module, cfg: Config, *, within: str = '') -> None:
    """Raise unless a model without a checkpoint is fully pretrained.

    Args:
        model: a retriever.
        cfg: config of the model.
        within: the part that is used, ``'encoder.frames'``; default all.

    Raises:
        ValueError: parts of it are random (names them, with a remedy).
    """
    left = untrained_parts(model, set(pretrained_parts(cfg.model)))
    left = [part for part in left if part.startswith(within)]
    if left:
        raise ValueError(
            f'{cfg.filename or "the config"} names no pretrained weights for '
            f'{", ".join(left[:3])}{", ..." * (len(left) > 3)}, so that without a checkpoint they '
            'would be random: give a checkpoint (CHECKPOINT, weights=FILE), or pretrained weights '
            f'of the towers (--cfg-options {pretrained_options(cfg)}), or ask for random ones '
            '(--random-weights, random_weights=True)'
        )


def admit_random(model: Any) -> None:
    """Give random weights to towers that name an open_clip folder without weights."""
    if isinstance(model, dict):
        if _reads_folder(model):
            try:
                folder_weights(Path(model['model'].removeprefix(FOLDER)))
            except OSError:
                model['pretrained'] = False
            except ValueError:
                pass  # several files: the tower raises the error
        for part in model.values():
            admit_random(part)
    elif isinstance(model, (list, tuple)):
        for part in model:
            admit_random(part)


def pretrained_options(cfg: Config) -> str:
    """Return the option that gives a local file of weights: ``'pretrained=FILE'``."""
    for name, keys in (cfg.get('shortcuts') or {}).items():
        if any(re.fullmatch(r'model\..*\.pretrained', key) for key in keys):
            return f'{name}=FILE'
    return 'model.encoder.frames.pretrained=FILE model.encoder.text.pretrained=FILE'


def state_zero_shot(runner: Runner, *, random: bool = False) -> None:
    """Record for the protocol line that no checkpoint was loaded and what is random.

    Transforms that read the train queue, which is empty, are left out with a warning.

    Args:
        runner: runner with a built model.
        random: whether a model with random parts may be tested.

    Raises:
        UserError: parts of the model are random, and ``random`` is False.
    """
    model = bare(runner.model)
    if not random:
        try:
            refuse_random(model, runner.cfg)
        except ValueError as error:
            raise UserError(str(error)) from error
    stated = 'weights as the config builds them'
    left = untrained_parts(model, set(pretrained_parts(runner.cfg.model)))
    if left:
        stated += f', random in {", ".join(left[:3])}' + (', ...' if len(left) > 3 else '')
        print_log(f'No pretrained weights for {", ".join(left)}', 'current', logging.WARNING)
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


def _reads_folder(model: dict[str, Any]) -> bool:
    """Return whether a tower loads its weights from an open_clip folder."""
    named = isinstance(model.get('model'), str) and model['model'].startswith(FOLDER)
    return named and model.get('pretrained') is None


def _without_members(name: str) -> str:
    return re.sub(r'^(?:member\.|members\.\d+\.)+', '', name)
