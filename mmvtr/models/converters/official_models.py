"""Building the retriever of an official checkpoint from the shapes of its tensors."""

from __future__ import annotations

from typing import Any, Mapping

from torch import Tensor, nn

from mmvtr.models.encoders.clip2video import CLIP2Video
from mmvtr.models.encoders.clip4clip import CLIP4Clip
from mmvtr.models.encoders.uatvr import UATVR
from mmvtr.models.retriever import VideoTextRetriever
from mmvtr.models.similarities.cosine import CosineSimilarity
from mmvtr.models.similarities.token import TokenSimilarity
from mmvtr.models.temperature import Temperature
from mmvtr.models.towers.open_clip import OpenCLIPFrames
from mmvtr.models.towers.open_clip_text import OpenCLIPText

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
    parts = METHODS[method](encoder, towers, **untold)
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
METHODS = {'clip4clip': _clip4clip, 'clip2video': _clip2video, 'uatvr': _uatvr}


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
