"""Files of a whole CLIP, in open_clip's format and those that it knows how to convert."""

from __future__ import annotations

import logging
import warnings
import zipfile

import torch
from mmengine.logging import print_log
from torch import Tensor, nn

from mmvtr.storage.weights import check_weights, read_checkpoint, refuse_not_finite, unwrapped

#: Of Google's big_vision (SigLIP).
_ARRAYS = ('.npz', '.npy')
#: Which no tower reads: a file may be without them.
_SCALES = ('logit_scale', 'logit_bias')
#: How the names of MobileCLIP's own files begin.
_MOBILE = ('image_encoder.', 'text_encoder.')


def load_file(clip: nn.Module, path: str, *, name: str) -> None:
    """Fill a CLIP from a file, as ``open_clip.load_checkpoint`` does, from all of it.

    Position tables of another size are interpolated, which the log says.

    Args:
        clip: of open_clip, with separate towers.
        path: of the file.
        name: of the model, for the error.

    Raises:
        ValueError: weights of another model (names what differs), not finite ones, or no weights.
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
    return state


def _converted(clip: nn.Module, state: dict[str, Tensor], path: str) -> dict[str, Tensor]:
    """A file's weights by the names of a CLIP with separate towers, as open_clip converts them."""
    from open_clip.convert import convert_state_dict
    from open_clip.model import resize_pos_embed, resize_text_pos_embed

    own = clip.state_dict()

    def fits(name: str) -> bool:
        return name in own or f'text.{name}' in own or name.startswith(_MOBILE)

    state = convert_state_dict(clip, unwrapped(state, fits, path))
    # Of OpenAI's layout the text tower is not called text.
    state = {f'text.{k}' if f'text.{k}' in own and k not in own else k: x for k, x in state.items()}
    for key in _SCALES:
        if key in own:  # a number in some files, a vector of one in others
            state[key] = state.get(key, own[key]).reshape(own[key].shape)
    # Numbers 0, 1, 2 ... that transformers has stored before 4.31.
    state = {k: x for k, x in state.items() if k in own or not k.endswith('.position_ids')}
    before = {key: tuple(x.shape) for key, x in state.items()}
    resize_pos_embed(state, clip)
    resize_text_pos_embed(state, clip)
    for key, shape in before.items():
        if tuple(state[key].shape) != shape:
            message = f'{path}: {key} {shape} is interpolated to {tuple(state[key].shape)}'
            print_log(message, 'current', logging.WARNING)
    return state
