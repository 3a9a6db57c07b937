"""Strict conversion of official CLIP4Clip, CLIP2Video, UATVR and CE checkpoints to our names.

Layout of ``pytorch_model.bin.N``: a bare state dict; ``clip.*`` in OpenAI's names, partly fp16.
A CE checkpoint is read for its state dict only (``ce.py``).
"""

from __future__ import annotations

import re
from typing import Any, Mapping

import torch
from torch import Tensor, nn

from mmvtr.models.encoders.clip2video import CLIP2Video
from mmvtr.models.encoders.clip4clip import CLIP4Clip
from mmvtr.models.encoders.uatvr import UATVR
from mmvtr.models.retriever import VideoTextRetriever
from mmvtr.models.similarities.cosine import CosineSimilarity
from mmvtr.models.similarities.token import TokenSimilarity
from mmvtr.models.temperature import Temperature
from mmvtr.models.towers.open_clip import OpenCLIPFrames, OpenCLIPText
from mmvtr.storage.weights import refuse_not_finite, unwrapped
from official_checkpoints.ce import build_ce, ce_prefixes

_CLIP = {
    'clip.logit_scale': 'temperature.log_scale',
    'clip.visual.': 'encoder.frames.visual.',
    'clip.': 'encoder.text.',
}


def _uatvr_side(side: str) -> dict[str, str]:
    """Return UATVR's prefixes for one side, ``'text'`` or ``'video'``."""
    mean, spread = f'pie_net_{side}', f'uncertain_net_{side}'
    return {
        f'{mean}.attention.w_1.': f'heads.{side}.mean_attention.score.0.',
        f'{mean}.attention.w_2.': f'heads.{side}.mean_attention.score.2.',
        f'{mean}.fc.': f'heads.{side}.mean_local.',
        f'{mean}.layer_norm.': f'heads.{side}.norm.',
        f'{spread}.attention.w_1.': f'heads.{side}.log_std_attention.score.0.',
        f'{spread}.attention.w_2.': f'heads.{side}.log_std_attention.score.2.',
        f'{spread}.fc.': f'heads.{side}.log_std_local.',
        f'{spread}.fc2.': f'heads.{side}.log_std_global.',
        f'{side}_weight_fc.': f'similarity.weighers.{side}.',
    }


#: method -> official prefix -> prefix in our retriever; the first match is taken.
PREFIXES = {
    'clip4clip': {
        **_CLIP,
        'frame_position_embeddings.': 'encoder.position.',
        'transformerClip.': 'encoder.temporal.',
    },
    'clip2video': {
        **_CLIP,
        'frame_position_embeddings.': 'encoder.difference.position.',
        'type_position_embeddings.': 'encoder.difference.token_type.',
        'frame2t_attention.': 'encoder.difference.attention.',
        'trans_layernorm.': 'encoder.difference.norm.',
        'transformerClip.': 'encoder.temporal.',
        'actionClip.': 'encoder.action.',
        'weight_center': 'encoder.align.weight_center',
        'emb_center': 'encoder.align.emb_center',
    },
    'uatvr': {
        **_CLIP,
        'frame_position_embeddings.weight': 'encoder.frame_extra.position',
        'word_position_embeddings.weight': 'encoder.word_extra.position',
        'transformerClip.': 'encoder.transformer.',
        **_uatvr_side('text'),
        **_uatvr_side('video'),
    },
}

#: Supported methods; the names of CE depend on its experts.
METHODS = (*PREFIXES, 'ce')

#: Counters of training steps that the losses and objectives of our configs add to the weights.
STEPS = {'uatvr': ('objectives.dua.step', 'objectives.kl.step'), 'ce': ('losses.ranking.step',)}


def convert_checkpoint(
    state: Mapping[str, Tensor], method: str, **untold: Any
) -> dict[str, Tensor]:
    """Rename an official state dict for :class:`~mmvtr.models.VideoTextRetriever`.

    Args:
        state: official names; floating tensors of any precision.
        method: ``'clip4clip'`` (meanP or seqTransf), ``'clip2video'``, ``'uatvr'`` or ``'ce'``.
        **untold: see :func:`official_retriever`.

    Returns:
        ``encoder.*`` and ``temperature.log_scale``, in float32; for UATVR also ``heads.*``,
        ``similarity.*`` and ``objectives.*.step`` = 0: the model of
        ``configs/uatvr/uatvr_vitb{16,32}_msrvtt_official.py``; for CE also ``losses.ranking.step``
        = 0: the model of ``configs/_base_/ce.py`` with ``sequential`` and ``padded``.

    Raises:
        RuntimeError: weights that are not finite, or names with different wrapper prefixes.
        ValueError: keys that are unknown, missing or of another shape, all of them listed.
    """
    steps = {name: torch.zeros((), dtype=torch.long) for name in STEPS.get(method, ())}
    return {**official_retriever(state, method, **untold).state_dict(), **steps}


def official_retriever(
    state: Mapping[str, Tensor], method: str, **untold: Any
) -> VideoTextRetriever:
    """Build the retriever for an official state dict, and load it.

    Its ``score`` gives the official logits times the temperature; for CLIP2Video only
    if no video is padded (``encoders/clip2video.py`` explains and quantifies the difference).

    Args:
        state, method: as in :func:`convert_checkpoint`.
        **untold: settings that no tensor tells: for ``'uatvr'`` ``max_frames=12``, ``max_words=32``
            (lengths that official code pads to), ``extra_frames=2`` and ``extra_words=2`` (C_v,
            C_t); for ``'ce'`` those of :func:`~official_checkpoints.ce.build_ce`.

    Raises:
        RuntimeError, ValueError: see :func:`convert_checkpoint`; too few position rows; names that
            are not those of CE's experts.
    """
    if method not in METHODS:
        raise ValueError(f'method must be one of {sorted(METHODS)}, not {method!r}')
    official = ('ce.', 'pooling.', 'text_pooling.') if method == 'ce' else tuple(PREFIXES[method])
    source = f'the {method} checkpoint'
    state = unwrapped(state, lambda name: name.startswith(official), source)
    refuse_not_finite(state, source)
    if method == 'ce':
        prefixes = ce_prefixes(state, untold.get('experts'))
    else:
        prefixes = PREFIXES[method]
    renamed, unknown = _rename(state, prefixes)
    _refuse(method, unknown=unknown)
    try:
        if method == 'ce':
            retriever = build_ce(renamed, **untold)
        else:
            retriever = build_official(renamed, method, **untold)
    except KeyError as error:
        _refuse(method, missing=[_official(f'encoder.{error.args[0]}', prefixes)])
    expected = retriever.state_dict()
    if method == 'ce':  # has no temperature
        expected = {key: x for key, x in expected.items() if key.startswith('encoder.')}
    _refuse(
        method,
        missing=[_official(key, prefixes) for key in sorted(expected.keys() - renamed.keys())],
        unknown=[_official(key, prefixes) for key in sorted(renamed.keys() - expected.keys())],
        shapes=[
            f'{_official(key, prefixes)} {list(value.shape)}, not {list(expected[key].shape)}'
            for key, value in sorted(renamed.items(), key=lambda item: item[0])
            if key in expected and value.shape != expected[key].shape
        ],
    )
    retriever.load_state_dict({**retriever.state_dict(), **renamed})
    return retriever


def _rename(
    state: Mapping[str, Tensor], prefixes: Mapping[str, str]
) -> tuple[dict[str, Tensor], list[str]]:
    """Return the state in our names and float32, and the keys without a name of ours."""
    renamed, unknown = {}, []
    for key, value in state.items():
        prefix = next((p for p in prefixes if key.startswith(p)), None)
        if prefix is None:
            unknown.append(key)
            continue
        name = prefixes[prefix] + key[len(prefix) :]
        # LayerNorm parameters in TensorFlow's naming, which the official loader renames too.
        name = re.sub(r'\.gamma$', '.weight', re.sub(r'\.beta$', '.bias', name))
        renamed[name] = value.float() if value.is_floating_point() else value
    return renamed, unknown


def _official(key: str, prefixes: Mapping[str, str]) -> str:
    """Return the official name of one of our keys."""
    for official, ours in prefixes.items():
        if key.startswith(ours):
            return official + key[len(ours) :]
    return key


def _refuse(method: str, **problems: list[str]) -> None:
    listed = {name: keys for name, keys in problems.items() if keys}
    if listed:
        lines = [f'  {name}: {", ".join(keys)}' for name, keys in listed.items()]
        raise ValueError('\n'.join([f'not a {method} checkpoint that we know:', *lines]))


Towers = tuple[nn.Module, nn.Module]
State = Mapping[str, Tensor]


def build_official(state: State, method: str, **untold: Any) -> VideoTextRetriever:
    """Build the retriever of a method, with random weights and without losses.

    Args:
        state: official tensors under our names (``encoder.frames.visual.*``, ...).
        method: ``'clip4clip'``, ``'clip2video'`` or ``'uatvr'``.
        **untold: options of the encoder that no shape tells; they replace the official ones.

    Raises:
        KeyError: a tensor that determines the architecture is missing.
    """
    encoder = {name.removeprefix('encoder.'): x for name, x in state.items()}
    config = clip_config(encoder)
    towers = OpenCLIPFrames(config), OpenCLIPText(config)
    parts = BUILDERS[method](encoder, towers, **untold)
    return VideoTextRetriever(
        **parts, losses={}, temperature=Temperature(init=0.01, learnable=True)
    )


def _clip4clip(state: State, towers: Towers) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if any(name.startswith('temporal.') for name in state):
        options = dict(
            aggregator='transformer',
            temporal_layers=_count(state, 'temporal.resblocks.'),
            max_frames=len(state['position.weight']),
        )
    return dict(encoder=CLIP4Clip(*towers, **options), similarity=CosineSimilarity())


def _clip2video(state: State, towers: Towers) -> dict[str, Any]:
    # Padded videos score differently from the official code: see encoders/clip2video.py.
    encoder = CLIP2Video(
        *towers,
        temporal_layers=_count(state, 'temporal.resblocks.'),
        num_centers=len(state['align.weight_center']),
        max_frames=len(state['difference.position.weight']),
    )
    return dict(encoder=encoder, similarity=CosineSimilarity(levels=('global', 'aligned')))


def _uatvr(
    state: State, towers: Towers, *, extra_frames: int = 2, extra_words: int = 2, **lengths: int
) -> dict[str, Any]:
    encoder = UATVR(
        *towers,
        extra='positions',
        extra_frames=extra_frames,
        extra_words=extra_words,
        match_sot=extra_words > 0,
        temporal_layers=_count(state, 'transformer.resblocks.'),
        position_rows=len(state['frame_extra.position']),
        **lengths,
    )
    return dict(
        encoder=encoder,
        similarity=TokenSimilarity(weights='uatvr', dim=encoder.dim, official_mask=True),
        heads=dict(type='PCMEGaussianHead', use_mask=False, initial_log_std=0.0),
        head_reads='local',
        detach_heads=False,
    )


#: method -> function (encoder's tensors, towers) -> parts of a retriever.
BUILDERS = {'clip4clip': _clip4clip, 'clip2video': _clip2video, 'uatvr': _uatvr}


def clip_config(state: State) -> dict:
    """Return the open_clip config of the CLIP whose towers are in ``state``.

    Args:
        state: our names (``frames.visual.*``, ``text.*``) of a ViT or ResNet CLIP by OpenAI.

    Raises:
        KeyError: a tensor that determines the architecture is missing.
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


def _vision_config(state: State) -> dict:
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


def _count(state: State, prefix: str) -> int:
    """Return the number of layers ``<prefix><i>.*``, at least 1, so that their absence raises."""
    return len({key[len(prefix) :].split('.')[0] for key in state if key.startswith(prefix)}) or 1
