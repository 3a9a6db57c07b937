"""Resolution of an inferencer's argument ``model``: a config, or a saved folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Optional

from mmengine.config import Config

from mmvtr.apis.pretrained import Saved, is_repo_id, local_folder, read_saved
from mmvtr.utils import named_config


def named_model(model: Any) -> tuple[Config, Optional[Saved]]:
    """Return a config, and the saved folder that it belongs to, or None.

    Args:
        model: the name of a config of the package, a config or its file, a saved folder, or the id
            of one on the hub.

    Raises:
        FileNotFoundError: no such file or folder.
        OSError: a file on the hub cannot be fetched.
        TypeError: something else.
        ValueError: an unknown name, or a config without a model or a test set.
    """
    cfg = saved = None
    if isinstance(model, Config):
        cfg = model
    elif not isinstance(model, (str, Path)):
        raise TypeError(
            'model: the name of a config, a config, its file, a saved folder or an id of the hub '
            f'expected, found a {type(model).__name__}'
        )
    elif os.path.isfile(model):
        cfg = _read(str(model))
    elif os.path.isdir(model):
        saved = read_saved(model)
    elif isinstance(model, Path) or model.endswith(('.py', '.json', '.yaml', '.yml')):
        raise FileNotFoundError(f'neither a config file nor a folder: {str(model)[-200:]}')
    elif is_repo_id(model):
        saved = read_saved(local_folder(model))
    else:
        cfg = _read(str(named_config(model)))
    cfg = saved.config if saved else cfg
    loader = cfg.get('test_dataloader')
    if cfg.get('model') is None or not loader or not loader.get('dataset'):
        raise ValueError(
            f'{cfg.filename or "the config"} has no model, or no test_dataloader whose dataset '
            'says how texts and videos are read'
        )
    return cfg, saved


def _read(path: str) -> Config:
    try:
        return Config.fromfile(path)
    except Exception as error:  # configs are code and can raise anything
        reason = f'{type(error).__name__}: {str(error)[:200]}'
        raise ValueError(f'config {path[-200:]} cannot be read: {reason}') from error
