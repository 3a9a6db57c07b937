"""Download from and upload to the hub with huggingface_hub's client."""

from __future__ import annotations

import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Optional, Union

import huggingface_hub
import torch
from mmengine.config import Config
from torch import nn

from mmvtr.apis import load_retriever
from mmvtr.apis.plain_config import FILES
from mmvtr.apis.pretrained.card import VERSION
from mmvtr.apis.pretrained.folder import (
    ABOUT,
    CARD,
    CONFIG,
    WEIGHTS,
    Saved,
    read_saved,
    save_pretrained,
)
from mmvtr.datasets.annotation_values import name_of
from mmvtr.engine.checks.config_checks import UnknownPart
from mmvtr.errors import UserError

#: Patterns of all files that are ever fetched.
_OURS = [ABOUT, CARD, CONFIG, WEIGHTS, f'{FILES}/*']
#: What a component may raise for an argument of another version.
_UNBUILT = (
    ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, UnknownPart,
)  # fmt: skip
_WORD = r'[A-Za-z0-9][\w.-]{0,95}'


def is_repo_id(name: str) -> bool:
    """Return whether a name may be a repository, ``'NAME/MODEL'``."""
    return re.fullmatch(f'{_WORD}/{_WORD}', name) is not None


def check_repo_id(name: str) -> None:
    """Raise ValueError unless a name may be that of a repository."""
    if not is_repo_id(name):
        raise ValueError(f"a repository 'NAME/MODEL' expected, found {name[:80]!r}")


def local_folder(source: Union[str, Path], *, revision: Optional[str] = None) -> Path:
    """Return a folder unchanged, and for a repository the folder it was fetched to.

    Raises:
        FileNotFoundError: neither a folder nor the id of a repository.
        OSError: see :func:`fetch`.
    """
    if Path(source).is_dir():
        return Path(source)
    if isinstance(source, Path) or not is_repo_id(source):
        raise FileNotFoundError(
            f"{str(source)[:200]!r} is neither a folder nor the id of a repository ('NAME/MODEL')"
        )
    return fetch(source, revision=revision)


def from_pretrained(
    source: Union[str, Path],
    *,
    device: Optional[Union[str, torch.device]] = None,
    revision: Optional[str] = None,
) -> tuple[nn.Module, Config]:
    """Return a retriever in eval mode and its config, saved by :func:`save_pretrained`.

    Args:
        source: the folder, or the id of a repository on the hub (``'NAME/MODEL'``).
        device: default a GPU if available.
        revision: revision of the repository: a branch, a tag or a commit.

    Raises:
        FileNotFoundError: no such folder, or a file of it is missing.
        OSError: the repository cannot be fetched (suggests alternatives).
        RuntimeError: weights that are damaged, were replaced, or are of another model; a folder of
            another version.
        ValueError: an invalid config, or one that loads code; a link out of the folder.
    """
    return load_saved(read_saved(local_folder(source, revision=revision)), device=device)


def load_saved(
    saved: Saved, *, device: Optional[Union[str, torch.device]] = None
) -> tuple[nn.Module, Config]:
    """Return the retriever of a folder checked by :func:`read_saved`, with the same errors."""
    try:
        return load_retriever(saved.config, saved.weights, device=device)
    except _UNBUILT as error:
        # An argument or value that this version does not know.
        raise UserError(
            f'{name_of(saved.weights.parent)}: its model cannot be built by mmvtr {VERSION}: '
            f'{" ".join(str(error).split())[:200]}'
        ) from error


def fetch(repo_id: str, *, revision: Optional[str] = None) -> Path:
    """Return the folder to which a repository is fetched, or was before.

    Raises:
        OSError: there is no such repository, or no network; suggests alternatives.
    """
    try:
        return Path(
            huggingface_hub.snapshot_download(repo_id, revision=revision, allow_patterns=_OURS)
        )
    except Exception as error:  # from the network, the file system, or the hub client
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise OSError(
            f'{repo_id} is not a folder here, and cannot be fetched from the hub: {reason[:80]} '
            '... Either\n'
            '  - look whether the id is right (and `hf auth login`, if it is private)\n'
            '  - or fill the cache on a machine with network (`hf download '
            f'{repo_id}`) and copy it here\n'
            '  - or copy the folder itself here, and give its path'
        ) from error


def push_to_hub(
    source: Union[str, Path, nn.Module],
    repo_id: str,
    *,
    cfg: Optional[Config] = None,
    private: Optional[bool] = None,
    message: str = 'Add a retriever of mmvtr',
    **card: Any,
) -> str:
    """Upload a folder of :func:`save_pretrained`, or a retriever, which is saved first.

    Only the retriever's files are uploaded, not other files in the folder.

    Args:
        source: the folder, or a retriever.
        repo_id: ``'NAME/MODEL'``; created if missing.
        cfg: config of a retriever.
        private: visibility of a created repository; default the account's own.
        message: message of the commit.
        **card: ``results``, ``protocol``, ``license`` and ``name`` (default ``repo_id``), see
            :func:`save_pretrained`.

    Returns:
        The address of the repository.

    Raises:
        FileNotFoundError, RuntimeError, ValueError: the folder is incomplete; a retriever without a
            config, a folder with one, or an invalid repository id.
        OSError: the hub rejects the upload, or cannot be reached.
    """
    check_repo_id(repo_id)
    if isinstance(source, nn.Module):
        if cfg is None:
            raise ValueError('push_to_hub needs the cfg of a retriever')
        with TemporaryDirectory() as folder:
            save_pretrained(source, cfg, folder, **{'name': repo_id, **card})
            return _upload(Path(folder), repo_id, private, message)
    if cfg is not None or card:
        redundant = sorted([*card, *(['cfg'] if cfg is not None else [])])
        raise ValueError(
            f'{", ".join(redundant)} can be given for a retriever, but {source} is a folder'
        )
    return _upload(Path(source), repo_id, private, message)


def _upload(folder: Path, repo_id: str, private: Optional[bool], message: str) -> str:
    files = read_saved(folder).files
    try:
        address = huggingface_hub.create_repo(repo_id, private=private, exist_ok=True)
        huggingface_hub.upload_folder(
            repo_id=repo_id,
            folder_path=folder,
            allow_patterns=files,
            commit_message=message,
        )
    except Exception as error:  # from the network, or the hub client
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise OSError(
            f'{repo_id}: the hub did not take it: {reason[:120]} ... Log in with `hf auth login`; '
            f'a folder that was saved can be uploaded by hand: `hf upload {repo_id} FOLDER`'
        ) from error
    return str(address)
