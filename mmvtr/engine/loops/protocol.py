"""Facts of a test and its model that a result must state, for the protocol line.

Those of the training are in :mod:`mmvtr.engine.loops.facts`.
"""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple, Optional, Sequence, Union

from mmengine.runner import BaseLoop
from torch import nn
from torch.utils.data import Dataset

from mmvtr.datasets.videos.missing import LeftOut
from mmvtr.registry import bare_name
from mmvtr.structures import Relation

#: Source of the frames by the first step of a video pipeline.
SOURCES = dict(
    LoadVideo='video',
    LoadClips='video',
    LoadFrames='JPEG',
    LoadFeatures='features',
    LoadExperts='features of experts',
)


def precision(amp: Union[bool, str], trained: Optional[str]) -> str:
    """Return the precision of encoding, and that of training if it differs.

    Args:
        amp: precision of encoding, see :class:`~mmvtr.engine.RetrievalLoop`.
        trained: the precision of the training; None: no training, or unknown.
    """
    tested = amp if isinstance(amp, str) else 'bf16' if amp else 'fp32'
    return tested if trained in (None, tested) else f'{tested}, trained in {trained}'


def frames_from(loader: Optional[Mapping[str, Any]]) -> Optional[str]:
    """Return 'video', 'JPEG' or 'features', the source in a loader's config; None if unknown."""
    steps = ((loader or {}).get('dataset') or {}).get('video_pipeline')
    if not isinstance(steps, (list, tuple)) or not steps or 'type' not in steps[0]:
        return None
    name = bare_name(steps[0])
    return SOURCES.get(name, name)


def embedder_protocol(model: nn.Module, loader: Optional[Mapping[str, Any]]) -> dict[str, Any]:
    """Return prompts and frames of an encoder that states them, else {}."""
    encoder = getattr(model, 'encoder', None)
    if not hasattr(encoder, 'protocol'):
        return {}
    steps = ((loader or {}).get('dataset') or {}).get('video_pipeline') or [{}]
    kind, most = steps[0].get('sampling', 'uniform'), steps[0].get('num_frames')
    rate = 'one a second' if kind == 'per_second' else kind
    sampled = rate if most is None else f'{rate}, at most {most}'
    return dict(encoder.protocol(), sampled=sampled)


def models_in_words(model: nn.Module, members: Optional[list[str]]) -> str:
    """Return 'single', 'ensemble of 2', or the number of jointly trained parts.

    Args:
        model: model without a distributed wrapper.
        members: origins of an ensemble's checkpoints.
    """
    if members:
        return f'ensemble of {len(members)}'
    parts = getattr(model, 'members', None)
    return 'single' if parts is None else f'single, {len(parts)} members'


def checkpoint_in_words(runner: Any) -> Optional[str]:
    """Return the metric and set by which the weights were chosen, or the name of the weights.

    Return None if none was loaded, as in a zero-shot test.
    """
    info = runner.message_hub.get_info
    if info('chosen_on'):
        by = info('chosen_by')
        return f'chosen on {info("chosen_on")}' + (f' by {by}' if by else '')
    if info('zero_shot'):
        return None
    loop = getattr(runner, '_train_loop', None)
    return f'epoch {loop.epoch}' if isinstance(loop, BaseLoop) else 'as given'


def component_in_words(component: dict) -> str:
    """Return e.g. 'LengthSplit(parts=2)', with a note for splits that read the test set."""
    arguments = [
        f'{name}={component_in_words(value) if isinstance(value, dict) else value}'
        for name, value in component.items()
        if name not in ('type', '_scope_', 'test')
    ]
    source = ' with test statistics' if 'test' in component else ''
    return f'{bare_name(component)}({", ".join(arguments)}){source}'


class Part(NamedTuple):
    """The part of a set that a result covers, if not the whole.

    Attributes:
        videos, texts: numbers of videos in the gallery, and of texts with a video there.
        of_videos, of_texts: numbers of the whole set.
        broken, missing: videos that are not in the gallery; with ``videos`` they sum to
            ``of_videos``.
    """

    videos: int
    of_videos: int
    texts: int
    of_texts: int
    broken: int
    missing: int

    def in_words(self) -> str:
        """Return e.g. '941 of 1,000 clips and 941 of 1,000 texts'."""
        return (
            f'{self.videos:,} of {self.of_videos:,} clips and '
            f'{self.texts:,} of {self.of_texts:,} texts'
        )

    def numbers(self) -> dict[str, float]:
        """Return the counts as results, by key."""
        counts = dict(
            videos=self.videos,
            videos_broken=self.broken,
            videos_missing=self.missing,
            texts=self.texts,
            texts_without_video=self.of_texts - self.texts,
        )
        return {f'set/{name}': float(count) for name, count in counts.items()}


def part_of(
    dataset: Dataset, relation: Relation, broken: Sequence[tuple[str, str]]
) -> Optional[Part]:
    """Return which part of the whole set is in the relation; None if all of it is."""
    left_out = left_out_of(dataset)
    missing = len(left_out.names) if left_out else 0
    if not broken and not missing:
        return None
    # A text of broken videos stays in the set, without a match; one of missing videos is left out.
    answerable, without = int(relation.positives.any(1).sum()), left_out.texts if left_out else 0
    videos = len(relation.video_ids)
    return Part(
        videos=videos,
        of_videos=videos + len(broken) + missing,
        texts=answerable,
        of_texts=len(relation.text_ids) + without,
        broken=len(broken),
        missing=missing,
    )


def left_out_of(dataset: Dataset) -> Optional[LeftOut]:
    """Return what a dataset left out as missing."""
    return getattr(dataset, 'left_out', None)


def counted(names: Sequence[str]) -> Optional[str]:
    """Return e.g. '4 videos (a, b, c, ...): not the whole set'; None without names."""
    some = ', '.join([*names[:3], *['...'] * (len(names) > 3)])
    return f'{len(names)} videos ({some}): not the whole set' if names else None
