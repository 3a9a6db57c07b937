"""Collaborative Experts' parameter names mapped to ours, and the retriever for its tensors."""

from __future__ import annotations

import re
from typing import Mapping, Optional, Sequence

from torch import Tensor

from mmvtr.models.encoders.ce import CEEncoder
from mmvtr.models.retriever import VideoTextRetriever
from mmvtr.models.similarities.mmt import ExpertSimilarity
from mmvtr.models.towers.features import FeatureWords

State = Mapping[str, Tensor]

#: Experts of all released models except MSVD's, and settings of MSR-VTT that its tensors do not
#: tell.
NINE = (
    'audio', 'face', 'i3d.i3d.0', 'imagenet.resnext101_32x48d.0', 'imagenet.senet154.0', 'ocr',
    'r2p1d.r2p1d-ig65m.0', 'scene.densenet161.0', 'speech',
)  # fmt: skip
MAX_TOKENS = dict(text=37, ocr=49, audio=29, speech=32)

_MIXED = 'ce.moe_fc.weight'


def ce_prefixes(state: State, experts: Optional[Sequence[str]] = None) -> dict[str, str]:
    """Return official prefix -> prefix in our retriever, for a model with these experts.

    Args:
        state: the official tensors.
        experts: names of all experts; None: the nine of MSR-VTT.

    Raises:
        ValueError: the names do not fit the tensors.
    """
    names = _names(state, experts)
    pooled = {
        key.split('.clusters')[0] for key in state if re.match(r'pooling\..*\.clusters$', key)
    }
    unknown = sorted(pooled - {f'pooling.{name}' for name in names})
    if unknown:
        raise ValueError(
            f'not a ce checkpoint of these experts: it has {str(unknown)[:80]}, the experts are '
            f'{str(names)[:300]}'
        )
    alone = 'ce.video_GU.0.fc.weight' in state
    return {
        **{
            official: f'encoder.{ours}'
            for i, name in enumerate(names)
            for official, ours in _of_expert(i, name, alone).items()
        },
        **_vlad('text_pooling.', 'encoder.text_pool.'),
        'ce.moe_fc.': 'encoder.weigh.',
        'ce.dim_reduce.': 'encoder.gating.reduce.',
        'ce.g_reason_1.': 'encoder.gating.first.',
        **_layers(state, 'ce.g_reason_shared.', 'encoder.gating.deeper.'),
        **_layers(state, 'ce.h_reason.', 'encoder.gating.after.'),
    }


def build_ce(
    state: State,
    *,
    experts: Optional[Sequence[str]] = None,
    gating: Optional[str] = None,
    include_self: bool = True,
    max_tokens: Optional[Mapping[str, int]] = None,
) -> VideoTextRetriever:
    """Build the retriever for tensors under our names, with random weights and without losses.

    Its encoder computes as the released code does: one expert after the other, padding counted.

    Args:
        state: our names (``encoder.weigh.weight``, ...).
        experts: see :func:`ce_prefixes`.
        gating: mode of CollaborativeGating; None: inferred from the tensors, ``'pairwise'`` rather
            than ``'pairwise-star'``, whose tensors are the same.
        include_self: see CollaborativeGating.
        max_tokens: rows that the released code pads to, by name, including ``'text'``; None: those
            of MSR-VTT.

    Raises:
        KeyError: a tensor that determines the architecture is missing.
        ValueError: settings that do not fit the tensors.
    """
    encoder = {name.removeprefix('encoder.'): x for name, x in state.items()}
    names = _names({_MIXED: encoder['weigh.weight']}, experts)
    mixed = any(name.startswith('gating.') for name in encoder)
    clusters, widths = {}, {}
    for i, name in enumerate(names):
        if f'pools.{i}.centres' in encoder:
            _, widths[name], clusters[name] = encoder[f'pools.{i}.centres'].shape
        else:
            linear = f'project.{i}.weight' if mixed else f'project.{i}.linear.weight'
            widths[name] = encoder[linear].shape[1]
    _, words, kept = encoder['text_pool.centres'].shape
    lengths = MAX_TOKENS if max_tokens is None else max_tokens
    options = dict(gating=None, dim=None)
    if mixed:
        options = dict(
            gating=_mode(encoder) if gating is None else gating,
            dim=len(encoder['project.0.weight']),
            g_layers=1 + _count(encoder, 'gating.deeper.linears.'),
            h_layers=_count(encoder, 'gating.after.linears.'),
            include_self=include_self,
            sequential=True,
        )
    return VideoTextRetriever(
        encoder=CEEncoder(
            FeatureWords(words),
            experts=widths,
            clusters=clusters,
            text_clusters=kept,
            text_ghosts=encoder['text_pool.clusters'].shape[1] - kept,
            padded={name: lengths[name] for name in ('text', *clusters) if name in lengths},
            **options,
        ),
        similarity=ExpertSimilarity(),
        losses={},
    )


def _names(state: State, experts: Optional[Sequence[str]]) -> list[str]:
    """Return all experts, sorted as in the released code."""
    names = sorted(NINE if experts is None else experts)
    if _MIXED in state and len(state[_MIXED]) != len(set(names)):
        raise ValueError(
            f'the ce checkpoint has {len(state[_MIXED])} experts, but does not hold their names: '
            f'name them all (experts), not {len(names)}: {str(names)[:300]}'
        )
    return names


def _of_expert(i: int, name: str, alone: bool) -> dict[str, str]:
    """Map the names of expert ``i``; ``alone``: MoEE, in which experts do not interact."""
    gate, opinion = f'gating.gates.{i}.linear.', f'gating.gates.{i}.norm_opinion.'
    if alone:
        gate, opinion = f'project.{i}.gate.', f'project.{i}.norm.'
    return {
        **_vlad(f'pooling.{name}.', f'pools.{i}.'),
        f'ce.video_dim_reduce.{i}.fc.': f'project.{i}.',
        f'ce.video_GU.{i}.fc.': f'project.{i}.linear.',
        f'ce.video_GU.{i}.cg.fc.': gate,
        f'ce.video_GU.{i}.cg.batch_norm.': opinion,
        f'ce.video_GU.{i}.cg.batch_norm2.': f'gating.gates.{i}.norm_own.',
        f'ce.g_reason_unshared_weights.{i}.g_reason_1_specific.': f'gating.own.{i}.0.',
        f'ce.g_reason_unshared_weights.{i}.g_reason_2_specific.': f'gating.own.{i}.2.',
        f'ce.text_GU.{i}.fc.': f'phrases.{i}.linear.',
        f'ce.text_GU.{i}.cg.fc.': f'phrases.{i}.gate.',
        f'ce.text_GU.{i}.cg.batch_norm.': f'phrases.{i}.norm.',
    }


def _vlad(official: str, ours: str) -> dict[str, str]:
    # The longer name first: the first matching prefix is taken.
    names = dict(clusters2='centres', clusters='clusters')
    names['batch_norm.'] = 'norm.'
    return {official + theirs: ours + mine for theirs, mine in names.items()}


def _layers(state: State, official: str, ours: str) -> dict[str, str]:
    """Map layers BN, Mish, Linear, repeated: 0, 1, 2, 3, ... in the released code."""
    layers = {}
    for n in range(_count(state, official)):
        kind = {0: 'norms', 2: 'linears'}.get(n % 3)
        if kind is not None:
            layers[f'{official}{n}.'] = f'{ours}{kind}.{n // 3}.'
    return layers


def _count(state: State, prefix: str) -> int:
    """Return one more than the largest number in ``<prefix><number>.*``; 0 if there is none."""
    numbers = [re.match(rf'{re.escape(prefix)}(\d+)\.', key) for key in state]
    return max([int(match[1]) + 1 for match in numbers if match], default=0)


def _mode(encoder: State) -> str:
    if any(name.startswith('gating.own.') for name in encoder):
        return 'pairwise-star-specific'
    if 'gating.reduce.weight' in encoder:
        return 'pairwise-star-tensor'
    dim, width = encoder['gating.first.weight'].shape
    return 'triplet' if width == 3 * dim else 'pairwise'
