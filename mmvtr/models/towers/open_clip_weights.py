"""open_clip models by name or config, with weights from a tag or a local file.

All errors are raised here, before training starts: unknown names and tags, QuickGELU mismatches, no
network, checkpoints of another model.
"""

from __future__ import annotations

import logging
import os
import ssl
import urllib.error
import urllib.request
import warnings
import zipfile
from pathlib import Path
from typing import Literal, NamedTuple, Optional

import torch
from huggingface_hub import constants, try_to_load_from_cache
from mmengine.logging import print_log
from torch import Tensor, nn

from mmvtr.errors import UserError, refusing_code
from mmvtr.open_clip_configs import FOLDER, model_config, preprocessings, tag_config
from mmvtr.storage.weights import check_weights, read_checkpoint, refuse_not_finite, unwrapped

_HUB_FILES = ('open_clip_model.safetensors', 'open_clip_pytorch_model.bin')
#: open_clip's names of weight files in a folder; the first that exists is loaded.
_FOLDER_FILES = (
    'open_clip_model.safetensors', 'open_clip_pytorch_model.safetensors',
    'open_clip_pytorch_model.bin', 'open_clip_pytorch_model.pth',
    'model.safetensors', 'pytorch_model.bin', 'pytorch_model.pth', 'model.pth',
)  # fmt: skip
_FILE_SUFFIXES = ('.pt', '.pth', '.bin', '.safetensors', '.npz')


class OpenCLIP(NamedTuple):
    """A CLIP with separate towers ``clip.visual`` and ``clip.text``, float32, on the CPU.

    ``mean`` and ``std``: per RGB channel, for values in 0-1, normalisation of the frames; None for
    a local file if the tags of its model's name differ in them.
    """

    clip: nn.Module
    embed_dim: int
    mean: Optional[tuple[float, ...]]
    std: Optional[tuple[float, ...]]


def build_open_clip(model: str | dict, pretrained: str | Literal[False] | None = None) -> OpenCLIP:
    """Build a CLIP and load its weights.

    Args:
        model: see :func:`~mmvtr.open_clip_configs.model_config`.
        pretrained: tag of that model (``'openai'``), local checkpoint of a whole CLIP (in
            open_clip's or OpenAI's own format), or None: the weights in the folder of
            ``local-dir:FOLDER``, like ``open_clip.create_model``, and random ones for any other
            model.  False: random ones, for a folder too.

    Raises:
        ValueError: unknown model or tag, QuickGELU mismatch, or weights of another model.
        FileNotFoundError: ``pretrained`` looks like a file but does not exist; a folder without
            weights.
        RuntimeError: the tag, or the config of a text tower of transformers, cannot be downloaded.
    """
    config = model_config(model)
    path, tag = pretrained or None, None
    if pretrained is None and isinstance(model, str) and model.startswith(FOLDER):
        path = str(folder_weights(Path(model.removeprefix(FOLDER))))
    elif path is not None and not os.path.isfile(path):
        tag = _checked_tag(model, path, config)
        path = _fetch(model, path, tag)
    clip = _build(config)
    if path is not None:
        if is_torchscript(path) and not config.get('quick_gelu', False):
            raise ValueError(f"{path} is OpenAI's, trained with QuickGELU: use a quickgelu model")
        load_file(clip, path, name=model if isinstance(model, str) else 'the given config')
    return OpenCLIP(clip, config['embed_dim'], *_mean_and_std(model, tag, weights=path is not None))


def folder_weights(folder: Path) -> Path:
    """Return the weight file in a folder that ``open_clip.create_model`` loads.

    Raises:
        FileNotFoundError: the folder has none.
        ValueError: there are several, and none has a name that open_clip knows.
    """
    for name in _FOLDER_FILES:
        if (folder / name).is_file():
            return folder / name
    ends = ('.safetensors', '.bin', '.pth')
    files = sorted(path for path in folder.iterdir() if path.suffix in ends)
    if not files:
        raise FileNotFoundError(
            f'{folder} has a config and no weights ({", ".join(_FOLDER_FILES[:3])} ...): put them '
            "there, name a file of them (pretrained='FILE'), or ask for random weights "
            '(pretrained=False)'
        )
    if len(files) > 1:
        names = ', '.join(path.name for path in files[:3])
        raise ValueError(
            f'{folder} has several files of weights, {names}{", ..." * (len(files) > 3)}: name one '
            f"of them (pretrained='{files[0]}'), or call it {_FOLDER_FILES[0]}"
        )
    return files[0]


def _mean_and_std(
    model: str | dict, tag: Optional[dict], *, weights: bool
) -> tuple[Optional[tuple[float, ...]], Optional[tuple[float, ...]]]:
    if tag is not None:
        return tuple(tag['mean']), tuple(tag['std'])
    both = list(dict.fromkeys((x.mean, x.std) for x in preprocessings(model)))
    return (None, None) if weights and len(both) > 1 else both[0]


def _build(config: dict) -> nn.Module:
    """Return both towers of a config, with random weights."""
    import open_clip  # takes seconds

    config = {key: value for key, value in config.items() if key != 'custom_text'}
    name = config['text_cfg'].get('hf_model_name')
    if name:
        # Otherwise it downloads weights that those of the whole CLIP replace.
        config['text_cfg'] = {**config['text_cfg'], 'hf_model_pretrained': False}
    kind = open_clip.CoCa if 'multimodal_cfg' in config else open_clip.CustomTextCLIP
    try:
        if name:  # open_clip would ask whether to run the tower's own code
            from transformers import AutoConfig

            with refusing_code(name):
                AutoConfig.from_pretrained(name, trust_remote_code=False)
        return kind(**config)
    except TypeError as error:
        raise ValueError(f'open_clip cannot build {str(config)[:200]}: {error}') from error
    except OSError as error:
        raise UserError(
            f'the config of the text tower {name!r} is neither in the Hugging Face cache '
            f'({constants.HF_HUB_CACHE}) nor can it be downloaded: {str(error)[:80]} ... Either\n'
            '  - fill the cache on a machine with network, and copy it here\n'
            "  - or set text_cfg.hf_model_name of the model's config to a local folder\n"
            '  - or choose a model whose text tower is not of transformers'
        ) from error


def _checked_tag(model: str | dict, tag: str, config: dict) -> dict:
    """Return open_clip's entry of a pretrained tag, after checks against the model."""
    if '/' in tag or os.path.splitext(tag)[1] in _FILE_SUFFIXES:
        raise FileNotFoundError(f'pretrained={tag!r}: there is no such file')
    entry = tag_config(model, tag)
    trained, built = entry.get('quick_gelu', False), config.get('quick_gelu', False)
    if trained != built:
        other = f'{model}-quickgelu' if trained else model.replace('-quickgelu', '')
        raise ValueError(
            f'weights {tag!r} were trained {"with" if trained else "without"} QuickGELU, '
            f'but {model!r} is built {"with" if built else "without"} it: use {other!r}'
        )
    return entry


def _fetch(model: str, tag: str, config: dict) -> str:
    """Return the path of a tag's weights: in the Hugging Face cache, or downloaded."""
    import open_clip  # takes seconds

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
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise UserError(
            f'the weights {tag!r} of {model!r} ({repository or config.get("url")}) are neither in '
            f'the Hugging Face cache ({constants.HF_HUB_CACHE}) nor can they be downloaded '
            f"({reason[:120]}): give a local file of them (pretrained='FILE.pt', of the frame and "
            'the text tower), or fill the cache on a machine with network and copy it here (python '
            f'-c "import open_clip; open_clip.create_model({model!r}, {tag!r})"), or set '
            'pretrained=None for random weights'
        ) from error


def _check_network() -> None:
    """Send one request to the hub: its own client retries for a minute before it fails."""
    request = urllib.request.Request(constants.ENDPOINT, method='HEAD')
    try:
        urllib.request.urlopen(request, timeout=10).close()
    except urllib.error.HTTPError:
        pass  # the hub answers: leave the error to the client
    except urllib.error.URLError as error:
        # The client may use other certificates.
        if not isinstance(error.reason, ssl.SSLError):
            raise


#: File suffixes of Google's big_vision (SigLIP).
_ARRAYS = ('.npz', '.npy')
#: Weights that no tower reads: a file may lack them.
_SCALES = ('logit_scale', 'logit_bias')
#: Prefixes of the names in MobileCLIP's own files.
_MOBILE = ('image_encoder.', 'text_encoder.')


def load_file(clip: nn.Module, path: str, *, name: str) -> None:
    """Load all weights of a CLIP from a file, like ``open_clip.load_checkpoint``.

    Position tables of another size are interpolated, which is logged.

    Args:
        clip: an open_clip model with separate towers.
        path: path of the file.
        name: name of the model, for the error.

    Raises:
        ValueError: weights of another model (names what differs), weights that are not finite, or
            none.
    """
    import open_clip  # takes seconds

    try:
        if path.endswith(_ARRAYS):
            open_clip.load_checkpoint(clip, path)
            refuse_not_finite(clip.state_dict(), path)
            return
        if is_torchscript(path):
            state = _torchscript_state(path)
        else:
            state = read_checkpoint(path, kind='pretrained')['state_dict']
        clip.load_state_dict(check_weights(clip, _converted(clip, state, path), path))
    except (RuntimeError, KeyError, AttributeError, AssertionError) as error:
        raise ValueError(f'{path} does not hold weights of {name}: {str(error)[:600]}') from error


def is_torchscript(path: str) -> bool:
    """Return whether a file is an archive like OpenAI's own ``ViT-B-16.pt``."""
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return any(name.endswith('/constants.pkl') for name in archive.namelist())


def _torchscript_state(path: str) -> dict[str, Tensor]:
    with warnings.catch_warnings():
        warnings.simplefilter('ignore', FutureWarning)  # from torch.jit.load
        state = torch.jit.load(path, map_location='cpu').state_dict()
    for key in ('input_resolution', 'context_length', 'vocab_size'):
        state.pop(key, None)
    return state


def _converted(clip: nn.Module, state: dict[str, Tensor], path: str) -> dict[str, Tensor]:
    """Return a file's weights under the names of a CLIP with separate towers, as open_clip does."""
    from open_clip.convert import convert_state_dict
    from open_clip.model import resize_pos_embed, resize_text_pos_embed

    own = clip.state_dict()

    def fits(name: str) -> bool:
        return name in own or f'text.{name}' in own or name.startswith(_MOBILE)

    state = convert_state_dict(clip, unwrapped(state, fits, path))
    # OpenAI's layout has no prefix text. for the text tower.
    state = {f'text.{k}' if f'text.{k}' in own and k not in own else k: x for k, x in state.items()}
    for key in _SCALES:
        if key in own:  # a number in some files, a vector of length 1 in others
            state[key] = state.get(key, own[key]).reshape(own[key].shape)
    # Position ids 0, 1, 2 ... that transformers stored before 4.31.
    state = {k: x for k, x in state.items() if k in own or not k.endswith('.position_ids')}
    before = {key: tuple(x.shape) for key, x in state.items()}
    resize_pos_embed(state, clip)
    resize_text_pos_embed(state, clip)
    for key, shape in before.items():
        if tuple(state[key].shape) != shape:
            message = f'{path}: {key} {shape} is interpolated to {tuple(state[key].shape)}'
            print_log(message, 'current', logging.WARNING)
    return state
