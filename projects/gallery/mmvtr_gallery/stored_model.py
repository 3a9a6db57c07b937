"""Loads the retriever that made the vectors of a gallery."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Optional, Protocol, Union

from mmengine.config import Config
from torch import nn

import mmvtr_gallery.clips  # noqa: F401 - registers towers of stored models
import mmvtr_gallery.remote  # noqa: F401 - and its encoder
from mmvtr.apis.loading import fingerprint, load_retriever
from mmvtr.apis.plain_config import from_data
from mmvtr.engine.checks.zero_shot import pretrained_parts
from mmvtr.errors import UserError
from mmvtr.registry import bare_name
from mmvtr.utils import load_config


class Stored(Protocol):
    """Description of a gallery's vectors, as :class:`mmvtr_gallery.store.GalleryStore` gives it.

    Attributes:
        about: source of the vectors; its ``checkpoint`` is the file of their model.
        config: file of the model's config; None: not stored.
        model: fingerprint of the model; None: unknown.
    """

    @property
    def about(self) -> dict[str, Any]: ...

    @property
    def config(self) -> Optional[Path]: ...

    @property
    def model(self) -> Optional[str]: ...


def load_stored_retriever(
    location: Union[str, Path],
    store: Stored,
    *,
    config: Optional[Union[str, Path]] = None,
    checkpoint: Optional[Union[str, Path]] = None,
) -> tuple[nn.Module, Config]:
    """Return the retriever that made a store's vectors, and its config.

    A store's folder is not trusted: its config is read as plain data, and runs no code. The test
    set is decoded in this process (:func:`decode_here`).

    Args:
        location: location of the store.
        store: the opened store.
        config: a config of your own, which is executed like any config; default: the store's, or
            ``config.json`` in its folder.
        checkpoint: default: the one that the store names.

    Raises:
        FileNotFoundError: there is no such config or checkpoint.
        RuntimeError: the checkpoint has other weights than when the vectors were made, or no model
            can be built from the config.
        ValueError: the store's config is invalid, or would execute code.
    """
    cfg = load_config(str(config)) if config else _stored_config(location, store)
    checkpoint = checkpoint or store.about.get('checkpoint')
    if checkpoint is None and not without_weights(cfg):
        raise FileNotFoundError(f'{location} does not say which checkpoint its vectors are of')
    if not isinstance(checkpoint, (str, Path, type(None))):
        raise ValueError(f'{location}: its checkpoint is {str(checkpoint)[:80]!r}, not a file')
    try:
        model, cfg = load_retriever(cfg, checkpoint)
    except (AssertionError, AttributeError, KeyError, TypeError) as error:
        # The config has an argument, or a value, that this version does not know.
        raise UserError(
            f'{location}: its model cannot be built of {cfg.filename or "its config"}: '
            f'{str(error)[:200]}'
        ) from error
    decode_here(cfg)
    if store.model is not None and fingerprint(model) != store.model:
        named = checkpoint or cfg.filename or 'the config'
        raise UserError(f'{named} has other weights than those that {location} is made of')
    return model, cfg


def names_model(location: Union[str, Path], store: Stored) -> bool:
    """Return whether a store says which retriever made its vectors; else they come from
    elsewhere."""
    told = store.about.keys() & {'checkpoint', 'weights'}
    return bool(told) or _config_file(location, store).is_file()


def without_weights(cfg: Config) -> bool:
    """Return whether a config's model runs on an embedding server and needs no checkpoint, as none
    of its parts reads weights from a file or the hub.
    """
    encoder = cfg.model.get('encoder')
    remote = isinstance(encoder, dict) and bare_name(encoder) == 'RemoteEncoder'
    return remote and not list(pretrained_parts(cfg.model))


def refuse_own_weights(cfg: Config) -> None:
    """Raise ValueError if a gallery needs a checkpoint for its model."""
    if not without_weights(cfg):
        raise ValueError(
            f'{cfg.filename or "the config"} builds a model with weights of its own: a gallery '
            'needs their CHECKPOINT'
        )


def decode_here(cfg: Config) -> None:
    """Make the test set decode in this process, as a store's threads do not survive a fork.

    Args:
        cfg: modified in place.
    """
    loader = cfg.get('test_dataloader') or {}
    for key in ('num_workers', 'persistent_workers', 'prefetch_factor', 'multiprocessing_context'):
        loader.pop(key, None)


def _stored_config(location: Union[str, Path], store: Stored) -> Config:
    """Return the config stored beside a store's vectors."""
    path = _config_file(location, store)
    if not path.is_file():
        raise FileNotFoundError(
            f'the config of {location} is missing: {path}; --config FILE (config=) names another'
        )
    try:
        data = json.loads(path.read_bytes())
        if not isinstance(data, dict):
            raise ValueError(f'expected a config, found a {type(data).__name__}')
    except (ValueError, RecursionError) as error:
        raise ValueError(f'{path} is damaged: {str(error)[:80]}; export again') from error
    try:
        return from_data(data, None, name=str(path))
    except ValueError as error:
        raise ValueError(
            f'{error}; --config FILE (config=) names a config of yours, which is trusted'
        ) from error


def _config_file(location: Union[str, Path], store: Stored) -> Path:
    return Path(store.config or Path(location, 'config.json'))
