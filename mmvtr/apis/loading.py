"""Loading of a trained retriever from its config and weights, and fingerprints of weights."""

from __future__ import annotations

import copy
import hashlib
import os
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Callable, Optional, Sequence, Union

import torch
from mmengine.config import Config
from mmengine.device import get_device
from mmengine.registry import init_default_scope
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from mmvtr.engine.checks.config_checks import refuse_unknown_parts
from mmvtr.engine.checks.zero_shot import admit_random, refuse_random
from mmvtr.engine.loops.facts import trainings_of
from mmvtr.registry import MODELS
from mmvtr.storage.weights import check_weights, read_checkpoint
from mmvtr.utils import forget_pretrained


def load_retriever(
    config: Union[str, Path, Config],
    checkpoint: Optional[Union[str, Path]],
    *,
    random_weights: bool = False,
    device: Optional[Union[str, torch.device]] = None,
) -> tuple[nn.Module, Config]:
    """Return a trained retriever in eval mode, and its config.

    The model of a checkpoint has the facts of its trainings in ``trainings``
    (:class:`~mmvtr.engine.loops.facts.Training`).

    Args:
        config: a config file, or its content.
        checkpoint: weights of the whole model; None: the pretrained ones that the config names.
        random_weights: without a checkpoint, parts that no pretrained weights fill may be random,
            with the config's seed.
        device: default a GPU if available.

    Raises:
        FileNotFoundError: no such config or checkpoint.
        RuntimeError: the checkpoint is damaged, or of another model (names what differs); weights
            that can be neither found nor downloaded.
        ValueError: without a checkpoint parts of the model would be random (names them); an
            unregistered type anywhere in the model, or an argument that its component lacks.

    Example:
        ::

            >>> model, cfg = load_retriever('configs/c2v_planted.py', 'epoch_10.pth')
            >>> texts = encode_texts(model, cfg, ['a cyan cross bounces'])
            >>> videos = encode_videos(model, cfg, ['one.mp4', 'two.mp4'])
            >>> scores = vectors(model, texts.levels) @ vectors(model, videos.levels).t()
    """
    cfg = copy.deepcopy(config) if isinstance(config, Config) else Config.fromfile(config)
    if checkpoint is not None:
        if not os.path.isfile(checkpoint):  # check before building a model in vain
            raise FileNotFoundError(f'checkpoint {checkpoint} does not exist')
        forget_pretrained(cfg.model)
    elif random_weights:
        admit_random(cfg.model)
    init_default_scope(cfg.get('default_scope', 'mmvtr'))
    refuse_unknown_parts(cfg)
    drawn = nullcontext() if checkpoint is None else Unfilled()
    with torch.random.fork_rng(devices=[]), drawn:
        torch.default_generator.manual_seed(cfg.get('randomness', {}).get('seed') or 0)
        model = MODELS.build(cfg.model)
    if checkpoint is not None:
        content = read_checkpoint(checkpoint)
        model.load_state_dict(check_weights(model, content['state_dict'], checkpoint))
        model.trainings = trainings_of(content, checkpoint)
    elif not random_weights:
        refuse_random(model, cfg)
    return model.to(device or get_device()).eval(), cfg


def fingerprint(module: nn.Module) -> str:
    """Return 16 hexadecimal digits of a module's weights and names, equal for any file format."""
    weights = hashlib.sha256()
    for name, value in module.state_dict().items():
        weights.update(name.encode())
        weights.update(value.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy())
    return weights.hexdigest()[:16]


def origin_of(module: nn.Module) -> str:
    """Return the class and weights' fingerprint, stored beside vectors and features."""
    return f'{type(module).__name__}, weights {fingerprint(module)}'


#: Functions that draw the weights of a new layer.
_DRAWS = {
    Tensor.normal_,
    Tensor.uniform_,
    nn.init.kaiming_normal_,
    nn.init.kaiming_uniform_,
    nn.init.normal_,
    nn.init.uniform_,
}


class Unfilled(TorchFunctionMode):
    """Context that skips the random initialisation of parameters, which keep uninitialised memory.

    All parameters must be loaded afterwards, which :func:`mmvtr.storage.weights.check_weights`
    verifies.  Buffers and constants (zeros, ones, computed ones) are filled as usual.

    Example:
        ::

            >>> with Unfilled():
            ...     layer = nn.Linear(512, 512)
            >>> layer.load_state_dict(weights)
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Any = None,
    ) -> Any:
        kwargs = kwargs or {}
        if func in _DRAWS:
            target = args[0] if args else kwargs.get('tensor')
            if isinstance(target, nn.Parameter):
                return target
        return func(*args, **kwargs)
