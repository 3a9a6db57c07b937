"""open_clip models by name or config, with weights from a tag or a local file.

One place for what can go wrong before training starts: unknown names and tags, QuickGELU
mismatches, no network, checkpoints of another model.
"""

from __future__ import annotations

import os
import ssl
import urllib.error
import urllib.request
import warnings
import zipfile
from typing import NamedTuple, Optional

import open_clip
import torch
from huggingface_hub import constants, try_to_load_from_cache
from open_clip.model import convert_to_custom_text_state_dict
from torch import Tensor, nn

from mmvtr.open_clip_configs import model_config, preprocessings, tag_config
from mmvtr.storage import read_plain

_HUB_FILES = ('open_clip_model.safetensors', 'open_clip_pytorch_model.bin')
#: Of formats that hold arrays only.
_SAFE_SUFFIXES = ('.safetensors', '.npz', '.npy')
_FILE_SUFFIXES = ('.pt', '.pth', '.bin', '.safetensors', '.npz')


class OpenCLIP(NamedTuple):
    """A CLIP with separate towers ``clip.visual`` and ``clip.text``, float32, on the CPU.

    ``mean`` and ``std``: per RGB channel, of values in 0-1, that the frames are normalised with;
    None of a local file, where the tags of its model's name differ in them.
    """

    clip: nn.Module
    embed_dim: int
    mean: Optional[tuple[float, ...]]
    std: Optional[tuple[float, ...]]


def build_open_clip(model: str | dict, pretrained: Optional[str] = None) -> OpenCLIP:
    """Build a CLIP and load its weights.

    Args:
        model: see :func:`~mmvtr.open_clip_configs.model_config`.
        pretrained: tag of that model (``'openai'``), local checkpoint of a whole CLIP (in
            open_clip's or OpenAI's own format), or None for random weights.

    Raises:
        ValueError: unknown model or tag, QuickGELU mismatch, or weights of another model.
        FileNotFoundError: ``pretrained`` looks like a file and is none.
        RuntimeError: the tag, or the config of a text tower of transformers, cannot be downloaded.
    """
    config = model_config(model)
    path, tag = pretrained, None
    if pretrained is not None and not os.path.isfile(pretrained):
        tag = _checked_tag(model, pretrained, config)
        path = _fetch(model, pretrained, tag)
    clip = _build(config)
    if path is not None:
        if _is_torchscript(path) and not config.get('quick_gelu', False):
            raise ValueError(f"{path} is OpenAI's, trained with QuickGELU: use a quickgelu model")
        _load(clip, path, name=model if isinstance(model, str) else 'the given config')
    return OpenCLIP(clip, config['embed_dim'], *_mean_and_std(model, tag, weights=path is not None))


def _mean_and_std(
    model: str | dict, tag: Optional[dict], *, weights: bool
) -> tuple[Optional[tuple[float, ...]], Optional[tuple[float, ...]]]:
    if tag is not None:
        return tuple(tag['mean']), tuple(tag['std'])
    known = list(dict.fromkeys((known.mean, known.std) for known in preprocessings(model)))
    return (None, None) if weights and len(known) > 1 else known[0]


def _build(config: dict) -> nn.Module:
    """Both towers of a config, with random weights."""
    config = {key: value for key, value in config.items() if key != 'custom_text'}
    if config['text_cfg'].get('hf_model_name'):
        # Else it downloads weights that those of the whole CLIP replace.
        config['text_cfg'] = {**config['text_cfg'], 'hf_model_pretrained': False}
    kind = open_clip.CoCa if 'multimodal_cfg' in config else open_clip.CustomTextCLIP
    try:
        return kind(**config)
    except TypeError as error:
        raise ValueError(f'open_clip cannot build {str(config)[:200]}: {error}') from error
    except OSError as error:
        name = config['text_cfg'].get('hf_model_name')
        raise RuntimeError(
            f'the config of the text tower {name!r} is neither in the Hugging Face cache '
            f'({constants.HF_HUB_CACHE}) nor can it be downloaded: {str(error)[:80]} ... Either\n'
            '  - fill the cache on a machine with network, and copy it here\n'
            "  - or set text_cfg.hf_model_name of the model's config to a local folder\n"
            '  - or choose a model whose text tower is not of transformers'
        ) from error


def _checked_tag(model: str | dict, tag: str, config: dict) -> dict:
    """open_clip's entry of a pretrained tag, checked against the model."""
    if '/' in tag or os.path.splitext(tag)[1] in _FILE_SUFFIXES:
        raise FileNotFoundError(f'pretrained={tag!r}: there is no such file')
    found = tag_config(model, tag)
    trained, built = found.get('quick_gelu', False), config.get('quick_gelu', False)
    if trained != built:
        other = f'{model}-quickgelu' if trained else model.replace('-quickgelu', '')
        raise ValueError(
            f'weights {tag!r} were trained {"with" if trained else "without"} QuickGELU, '
            f'but {model!r} is built {"with" if built else "without"} it: use {other!r}'
        )
    return found


def _fetch(model: str, tag: str, config: dict) -> str:
    """Path of a tag's weights: from the Hugging Face cache, else downloaded."""
    repository = os.path.dirname(config.get('hf_hub', ''))
    cached = [try_to_load_from_cache(repository, f) for f in _HUB_FILES] if repository else []
    for path in cached:
        if isinstance(path, str):
            return path
    try:
        if repository:
            _check_network()
        return open_clip.download_pretrained(config)
    except Exception as error:
        raise RuntimeError(
            f'the weights {tag!r} of {model!r} ({repository or config.get("url")}) are neither in '
            f'the Hugging Face cache ({constants.HF_HUB_CACHE}) nor can they be downloaded: '
            f'{error}. Either\n'
            '  - fill the cache on a machine with network, and copy it here: python -c "import '
            f'open_clip; open_clip.create_model({model!r}, {tag!r})"\n'
            "  - or set pretrained='/path/to/checkpoint' for the frame and the text tower\n"
            '  - or set pretrained=None for random weights'
        ) from error


def _check_network() -> None:
    """Ask the hub once: its own client takes a minute of retries to give up."""
    request = urllib.request.Request(constants.ENDPOINT, method='HEAD')
    try:
        urllib.request.urlopen(request, timeout=10).close()
    except urllib.error.HTTPError:
        pass  # it answers: let the client find out what it says
    except urllib.error.URLError as error:
        # The client may have certificates of its own.
        if not isinstance(error.reason, ssl.SSLError):
            raise


def _load(clip: nn.Module, path: str, *, name: str) -> None:
    try:
        if _is_torchscript(path):
            clip.load_state_dict(_torchscript_state(path))
        else:
            if not path.endswith(_SAFE_SUFFIXES):
                # open_clip reads it as plain data too, but where that raises a TypeError, again
                # without the check.  What passes here passes there.
                read_plain(path, kind='pretrained')
            open_clip.load_checkpoint(clip, path)
    except (RuntimeError, KeyError, AttributeError) as error:
        reason = str(error)[:300]  # it may list every key
        raise ValueError(f'{path} does not hold weights of {name}: {reason}') from error


def _is_torchscript(path: str) -> bool:
    """Whether a file is an archive like OpenAI's own ``ViT-B-16.pt``."""
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return any(name.endswith('/constants.pkl') for name in archive.namelist())


def _torchscript_state(path: str) -> dict[str, Tensor]:
    with warnings.catch_warnings():
        warnings.simplefilter('ignore', FutureWarning)  # of torch.jit.load
        state = torch.jit.load(path, map_location='cpu').state_dict()
    for key in ('input_resolution', 'context_length', 'vocab_size'):
        state.pop(key, None)
    return convert_to_custom_text_state_dict(state)
