"""Official CLIP4Clip and CLIP2Video checkpoints in our names, strictly.

Layout of ``pytorch_model.bin.N``: a bare state dict; ``clip.*`` in OpenAI's names, partly fp16.
"""

from __future__ import annotations

import re
from typing import Mapping

from torch import Tensor, nn

from .clip2video import CLIP2Video
from .clip4clip import CLIP4Clip
from .open_clip_towers import OpenCLIPFrames, OpenCLIPText

_CLIP = {'clip.visual.': 'frames.visual.', 'clip.': 'text.'}

#: method -> official prefix -> prefix in our encoder; the first that fits is taken.
PREFIXES = {
    'clip4clip': {
        **_CLIP,
        'frame_position_embeddings.': 'position.',
        'transformerClip.': 'temporal.',
    },
    'clip2video': {
        **_CLIP,
        'frame_position_embeddings.': 'difference.position.',
        'type_position_embeddings.': 'difference.token_type.',
        'frame2t_attention.': 'difference.attention.',
        'trans_layernorm.': 'difference.norm.',
        'transformerClip.': 'temporal.',
        'actionClip.': 'action.',
        'weight_center': 'align.weight_center',
        'emb_center': 'align.emb_center',
    },
}


def convert_checkpoint(state: Mapping[str, Tensor], method: str) -> dict[str, Tensor]:
    """Rename an official state dict for :class:`~mmvtr.models.VideoTextRetriever`.

    Args:
        state: official names; floating tensors of any precision.
        method: ``'clip4clip'`` (meanP or seqTransf) or ``'clip2video'``.

    Returns:
        ``encoder.*`` and ``temperature.log_scale``, in float32.

    Raises:
        ValueError: keys that are unknown, missing or of another shape, all of them listed.
    """
    encoder, log_scale = load_official(state, method)
    converted = {f'encoder.{key}': value for key, value in encoder.state_dict().items()}
    return {**converted, 'temperature.log_scale': log_scale}


def load_official(state: Mapping[str, Tensor], method: str) -> tuple[nn.Module, Tensor]:
    """Build the encoder that an official state dict is for, and fill it.

    Args:
        state, method: as in :func:`convert_checkpoint`.

    Returns:
        the encoder, and CLIP's ``logit_scale`` = log(1 / temperature), float32 0-dim.

    Raises:
        ValueError: see :func:`convert_checkpoint`.
    """
    if method not in PREFIXES:
        raise ValueError(f'method must be one of {sorted(PREFIXES)}, not {method!r}')
    renamed, unknown = _rename(state, method)
    log_scale = renamed.pop('text.logit_scale', None)
    _refuse(method, missing=['clip.logit_scale'] if log_scale is None else [], unknown=unknown)
    try:
        encoder = _build(renamed, method)
    except KeyError as error:
        _refuse(method, missing=[_official(error.args[0], method)])
    expected = encoder.state_dict()
    shared = sorted(expected.keys() & renamed.keys())
    _refuse(
        method,
        missing=[_official(key, method) for key in sorted(expected.keys() - renamed.keys())],
        unknown=[_official(key, method) for key in sorted(renamed.keys() - expected.keys())],
        shapes=[
            f'{_official(key, method)} {list(renamed[key].shape)}, not {list(expected[key].shape)}'
            for key in shared
            if renamed[key].shape != expected[key].shape
        ],
    )
    encoder.load_state_dict(renamed)
    return encoder, log_scale


def clip_config(state: Mapping[str, Tensor]) -> dict:
    """open_clip config of the CLIP whose towers are in ``state``.

    Args:
        state: our names (``frames.visual.*``, ``text.*``) of a ViT or ResNet CLIP by OpenAI.

    Raises:
        KeyError: a tensor that tells the architecture is missing.
    """
    context_length, _ = state['text.positional_embedding'].shape
    vocab_size, width = state['text.token_embedding.weight'].shape
    text = dict(
        context_length=context_length,
        vocab_size=vocab_size,
        width=width,
        heads=max(1, width // 64),
        layers=_count(state, 'text.transformer.resblocks.'),
    )
    return dict(
        embed_dim=state['text.text_projection'].shape[1],
        vision_cfg=_vision_config(state),
        text_cfg=text,
        quick_gelu=True,
    )


def _vision_config(state: Mapping[str, Tensor]) -> dict:
    if 'frames.visual.attnpool.positional_embedding' in state:
        cells = len(state['frames.visual.attnpool.positional_embedding']) - 1
        return dict(
            layers=[_count(state, f'frames.visual.layer{i}.') for i in range(1, 5)],
            width=len(state['frames.visual.conv3.weight']),
            image_size=32 * round(cells**0.5),
        )
    width, _, patch, _ = state['frames.visual.conv1.weight'].shape
    cells = len(state['frames.visual.positional_embedding']) - 1
    return dict(
        layers=_count(state, 'frames.visual.transformer.resblocks.'),
        width=width,
        patch_size=patch,
        image_size=patch * round(cells**0.5),
    )


def _build(state: Mapping[str, Tensor], method: str) -> nn.Module:
    config = clip_config(state)
    towers = OpenCLIPFrames(config), OpenCLIPText(config)
    if method == 'clip4clip' and not any(key.startswith('temporal.') for key in state):
        return CLIP4Clip(*towers)
    layers = _count(state, 'temporal.resblocks.')
    if method == 'clip2video':
        return CLIP2Video(
            *towers,
            temporal_layers=layers,
            num_centers=len(state['align.weight_center']),
            max_frames=len(state['difference.position.weight']),
        )
    return CLIP4Clip(
        *towers,
        aggregator='transformer',
        temporal_layers=layers,
        max_frames=len(state['position.weight']),
    )


def _rename(state: Mapping[str, Tensor], method: str) -> tuple[dict[str, Tensor], list[str]]:
    """State in our names and float32, and the keys that have none."""
    prefixes = PREFIXES[method]
    renamed, unknown = {}, []
    for key, value in state.items():
        prefix = next((p for p in prefixes if key.startswith(p)), None)
        if prefix is None:
            unknown.append(key)
            continue
        name = prefixes[prefix] + key[len(prefix) :]
        # TensorFlow's words for LayerNorm, which the official loader renames as well.
        name = re.sub(r'\.gamma$', '.weight', re.sub(r'\.beta$', '.bias', name))
        renamed[name] = value.float() if value.is_floating_point() else value
    return renamed, unknown


def _official(key: str, method: str) -> str:
    """The official name of one of ours."""
    for official, ours in PREFIXES[method].items():
        if key.startswith(ours):
            return official + key[len(ours) :]
    return key


def _count(state: Mapping[str, Tensor], prefix: str) -> int:
    """Number of layers ``<prefix><i>.*``, at least one, so that their absence is noticed."""
    return len({key[len(prefix) :].split('.')[0] for key in state if key.startswith(prefix)}) or 1


def _refuse(method: str, **problems: list[str]) -> None:
    found = {name: keys for name, keys in problems.items() if keys}
    if found:
        lines = [f'  {name}: {", ".join(keys)}' for name, keys in found.items()]
        raise ValueError('\n'.join([f'not a {method} checkpoint that we know:', *lines]))
