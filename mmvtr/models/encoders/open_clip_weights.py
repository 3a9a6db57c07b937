"""open_clip models by name or config, with weights from a tag or a local file.

One place for what can go wrong before training starts: unknown names and tags, QuickGELU
mismatches, no network, checkpoints of another model.
"""

from __future__ import annotations

import copy
import difflib
import os
import urllib.error
import urllib.request
import zipfile
from typing import Optional

import open_clip
import torch
from huggingface_hub import constants, try_to_load_from_cache
from torch import nn

_WEIGHT_FILES = ('open_clip_model.safetensors', 'open_clip_pytorch_model.bin')


def build_open_clip(
    model: str | dict, pretrained: Optional[str] = None
) -> tuple[nn.Module, tuple[float, ...], tuple[float, ...]]:
    """A CLIP with separate ``visual`` and ``text`` towers, in float32 on the CPU.

    Args:
        model: any name in ``open_clip.list_models()``, or a config dict as open_clip's JSON files
            hold it (``embed_dim``, ``vision_cfg``, ``text_cfg``, ``quick_gelu``).
        pretrained: tag of that model (``'openai'``), a local checkpoint (open_clip's or OpenAI's
            own format), or None for random weights.

    Returns:
        the model, and the image mean and std (RGB, of values in 0-1) that its weights expect.

    Raises:
        ValueError: unknown model or tag, QuickGELU mismatch, or weights of another model.
        FileNotFoundError: ``pretrained`` looks like a file and is none.
        RuntimeError: the tag cannot be downloaded.
    """
    config = model_config(model)
    clip = _build(config)
    mean, std = open_clip.OPENAI_DATASET_MEAN, open_clip.OPENAI_DATASET_STD
    if pretrained is not None:
        path = pretrained
        if not os.path.isfile(pretrained):
            tag = _tag_config(model, pretrained, config)
            mean, std = tag.get('mean', mean), tag.get('std', std)
            path = _fetch(model, pretrained, tag)
        _load(clip, path, name=_label(model))
    return clip, tuple(mean), tuple(std)


def model_config(model: str | dict) -> dict:
    """open_clip's config of a named model, or a copy of the given one.

    Raises:
        ValueError: the name is unknown (the closest ones are listed) or the dict is incomplete.
    """
    if isinstance(model, str):
        name = model.replace('/', '-')
        if name not in open_clip.list_models():
            close = difflib.get_close_matches(name, open_clip.list_models(), n=5, cutoff=0.4)
            raise ValueError(f'open_clip has no model {model!r}; did you mean one of {close}?')
        return open_clip.get_model_config(name)
    missing = {'embed_dim', 'vision_cfg', 'text_cfg'} - set(model)
    if missing:
        raise ValueError(f'an open_clip config needs {sorted(missing)}, got {sorted(model)}')
    return {key: copy.deepcopy(value) for key, value in model.items()}


def _build(config: dict) -> nn.Module:
    if 'multimodal_cfg' in config:
        raise ValueError('CoCa models are not supported: take a CLIP model of open_clip')
    kwargs = {key: value for key, value in config.items() if key != 'custom_text'}
    if kwargs['text_cfg'].get('hf_model_name'):
        kwargs['text_cfg']['hf_model_pretrained'] = False
    try:
        return open_clip.CustomTextCLIP(**kwargs)
    except TypeError as error:
        raise ValueError(f'open_clip cannot build a model from {config}: {error}') from error


def _label(model: str | dict) -> str:
    return model if isinstance(model, str) else f'config with embed_dim {model["embed_dim"]}'


def _tag_config(model: str | dict, tag: str, config: dict) -> dict:
    """open_clip's entry of a pretrained tag, checked against the model."""
    if os.path.splitext(tag)[1] in ('.pt', '.pth', '.bin', '.safetensors', '.npz') or '/' in tag:
        raise FileNotFoundError(f'pretrained={tag!r}: there is no such file')
    if not isinstance(model, str):
        raise ValueError(f'pretrained={tag!r}: a config dict has no tags; give a local file')
    found = open_clip.get_pretrained_cfg(model.replace('/', '-'), tag)
    if not found:
        tags = open_clip.list_pretrained_tags_by_model(model.replace('/', '-'))
        raise ValueError(f'open_clip model {model!r} has no tag {tag!r}; it has {tags}')
    wants, has = found.get('quick_gelu', False), config.get('quick_gelu', False)
    if wants != has:
        other = f'{model}-quickgelu' if wants else model.replace('-quickgelu', '')
        raise ValueError(
            f'weights {tag!r} of {model!r} were trained {"with" if wants else "without"} '
            f'QuickGELU, the model has it {"not" if wants else "on"}: use model={other!r}')
    return found


def _fetch(model: str, tag: str, config: dict) -> str:
    """Path of a tag's weights: from the Hugging Face cache, else downloaded."""
    repository = os.path.dirname(config.get('hf_hub', ''))
    cached = [try_to_load_from_cache(repository, f) for f in _WEIGHT_FILES] if repository else []
    path = next((p for p in cached if isinstance(p, str)), None)
    if path is not None:
        return path
    try:
        _check_network(repository)
        return open_clip.download_pretrained(config)
    except Exception as error:
        source = repository or config.get('url')
        raise RuntimeError(
            f'open_clip: the weights {tag!r} of {model!r} ({source}) are neither in the Hugging '
            f'Face cache nor can they be downloaded ({error}). Do one of these:\n'
            f'  - on a machine with network: python -c "import open_clip; open_clip.create_model('
            f"'{model}', pretrained='{tag}')\", and copy {constants.HF_HUB_CACHE} here;\n"
            f"  - download the file by hand and set pretrained='/path/to/file' in frames and text;"
            f'\n  - set pretrained=None to start from random weights.') from error


def _check_network(repository: str) -> None:
    """One short request: the hub's own retries take a minute to give up."""
    if not repository:
        return
    request = urllib.request.Request(constants.ENDPOINT, method='HEAD')
    try:
        urllib.request.urlopen(request, timeout=10).close()
    except urllib.error.HTTPError:
        pass  # an answer is an answer


def _load(clip: nn.Module, path: str, *, name: str) -> None:
    try:
        if _is_torchscript(path):
            clip.load_state_dict(_openai_state(path))
        else:
            open_clip.load_checkpoint(clip, path)
    except (RuntimeError, KeyError, AttributeError) as error:
        raise ValueError(f'{path} does not hold the weights of {name}: {error}') from error


def _is_torchscript(path: str) -> bool:
    """OpenAI published its weights as TorchScript archives."""
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return any(name.endswith('/constants.pkl') for name in archive.namelist())


def _openai_state(path: str) -> dict[str, torch.Tensor]:
    state = torch.jit.load(path, map_location='cpu').state_dict()
    drop = ('input_resolution', 'context_length', 'vocab_size')
    return open_clip.model.convert_to_custom_text_state_dict(
        {key: value for key, value in state.items() if key not in drop})
