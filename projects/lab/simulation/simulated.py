"""Prepare a config for a rehearsal by replacing its towers and datasets, and nothing else.

The model behind its towers, its losses, hooks, samplers, parameter groups, schedule and number of
steps are the config's own.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, NamedTuple, Optional

from mmengine.config import Config, ConfigDict

from mmvtr.datasets.formats.epic import EPICKitchensDataset
from mmvtr.datasets.formats.prvr import PRVRDataset
from mmvtr.datasets.formats.published import PublishedDataset
from mmvtr.datasets.tables.dataset import FRACTIONS, TableDataset
from mmvtr.engine.checks.key_checks import default_hooks
from mmvtr.engine.checks.schedule_checks import warmup_fault
from mmvtr.registry import DATASETS, bare_name
from simulation.simulated_model import (
    Inputs,
    Size,
    Unknown,
    retrievers,
    shrink,
    simulate_model,
)

#: Number of a test set's first video, larger than that of any training video.
TEST_FIRST = 10_000_000
TEST_VIDEOS = 300
#: Clips per recording in EPIC-KITCHENS-100: 67,217 of 495.
RECORDING = 136
#: Width of a frame teacher's vectors, that of CLIP ViT-B/32.
TEACHER = 512
#: Size of a user's table that does not exist yet: its videos, and texts per video.
OWN_VIDEOS, OWN_TEXTS = 200, 2


class Simulated(NamedTuple):
    """A config for training on simulated data, and a description of the changes."""

    cfg: Config
    notes: list[str]


def simulate(cfg: Config, size: Size) -> Simulated:
    """Return the config with simulated towers and datasets.

    Raises:
        Unknown: an unknown encoder, tower or dataset, nothing to train, or a training no longer
            than its warm-up.
    """
    cfg = copy.deepcopy(cfg)
    if cfg.get('model') is None or cfg.get('train_dataloader') is None:
        raise Unknown(f'{cfg.filename} has no model and train_dataloader: nothing to rehearse')
    _check_hooks(cfg)
    notes: list[str] = []
    found = list(retrievers(cfg.model))
    if not found:
        raise Unknown(
            f'{cfg.filename}: {cfg.model.get("type")} is no retriever with an encoder; rehearse a '
            'config whose model, or whose members, have `encoder=dict(type=...)`'
        )
    fault = warmup_fault(cfg)
    if fault:
        raise Unknown(fault)
    share = _shrink_batch(cfg.train_dataloader, size, notes)
    for retriever in found:
        inputs = simulate_model(retriever, size)
        shrink(retriever, share, notes)
    _simulate_data(cfg, inputs, size, notes, share * size.items)
    _quiet(cfg, notes)
    return Simulated(cfg, [*dict.fromkeys(notes)])


def _check_hooks(cfg: Config) -> None:
    """Raise Unknown for a hook that reads a file of the real data, or names its items."""
    custom = enumerate(cfg.get('custom_hooks') or [])
    hooks = {f'custom_hooks[{number}]': hook for number, hook in custom}
    hooks |= {f'default_hooks.{name}': hook for name, hook in cfg.get('default_hooks', {}).items()}
    for where, hook in hooks.items():
        for key, value in (hook or {}).items():
            if key.endswith('_file') and value:
                wants, other = 'reads', "train queries (queries='train_queue')"
            elif key == 'queries' and bare_name(hook) == 'PicturesHook' and type(value) is not int:
                wants, other = 'names', 'a number of queries'
            else:
                continue
            raise Unknown(
                f'{where}, {hook.type}, {wants} {key}={value!r}, which belongs to the real data; '
                f'rehearse the config without it, or with {other}'
            )


def _shrink_batch(loader: ConfigDict, size: Size, notes: list[str]) -> float:
    """Shrink the batch to the rehearsal's size; return its share of the real batch."""
    share = min(1.0, (size.batch or loader.batch_size) / loader.batch_size)
    if share < 1:
        notes.append(f'batch {size.batch} in place of {loader.batch_size}, the set in proportion')
        loader.batch_size = size.batch
    return share


def _simulate_data(cfg: Config, inputs: Inputs, size: Size, notes: list[str], share: float) -> None:
    train, tested = cfg.train_dataloader, cfg.get('test_dataloader')
    train.dataset = _dataset(train.dataset, inputs, size, notes, share=share)
    if tested is not None:
        tested.dataset = _dataset(tested.dataset, inputs, size, notes, first=TEST_FIRST)
    for loader in filter(None, (train, tested)):
        loader.update(num_workers=0, persistent_workers=False, pin_memory=False)
    for metric in _listed(cfg.get('test_evaluator')):
        if 'train' in metric:
            metric.train = train.dataset


def _listed(value: Any) -> list[ConfigDict]:
    return list(value) if isinstance(value, (list, tuple)) else [value] if value else []


def _dataset(
    dataset: ConfigDict,
    inputs: Inputs,
    size: Size,
    notes: list[str],
    *,
    share: float = 1.0,
    first: int = 0,
) -> ConfigDict:
    kind, records = DATASETS.get(dataset.type), dataset.get('records') or {}
    split = _size_of(kind, dataset, notes)
    videos, texts = max(2, round(split.videos * share)), max(2, round(split.texts * share))
    if first:  # a small gallery with as many captions per video
        videos, texts = min(videos, TEST_VIDEOS), texts * min(videos, TEST_VIDEOS) // videos
        texts = min(texts, 5 * videos)
    made = ConfigDict(
        type='SimulatedDataset',
        name=f'{getattr(kind, "title", kind.__name__)} {dataset.split}',
        videos=videos,
        texts=max(texts, 2),
        width=inputs.width,
        frames=_frames(dataset, size, notes),
        first=first,
        extra=inputs.extra,
        has_classes=records.get('classes') is not None or issubclass(kind, EPICKitchensDataset),
    )
    teachers = [s for s in dataset.video_pipeline if bare_name(s) == 'LoadFrameVectors']
    if teachers:
        (name,) = teachers[0].stores
        made.teacher = (name, size.width or TEACHER)
    if issubclass(kind, PRVRDataset):
        made.moments = 4
    if issubclass(kind, EPICKitchensDataset):
        made.recording = RECORDING
    if inputs.experts is not None:
        made.update(experts=inputs.experts, expert_rows=2 if size.width else 8)
    if inputs.vectors is not None and not first:
        made.vectors = inputs.vectors
    if split.texts < split.videos and not first:
        made.group = round(split.videos / split.texts)
    for key in ('epoch_unit', 'related'):
        if dataset.get(key) is not None:
            made[key] = dataset[key]
    if records.get('environments') is not None:
        environments = _environments(records['environments'], made, notes)
        made.records = dict(environments=environments)
    return made


class Count(NamedTuple):
    """Numbers of videos and texts of a dataset."""

    videos: int
    texts: int


def _size_of(kind: Optional[type], dataset: ConfigDict, notes: list[str]) -> Count:
    """Return the published counts, or those of an existing table."""
    if kind is not None and issubclass(kind, PublishedDataset):
        split = kind.splits[dataset.split]
        return Count(split.videos, split.texts)
    if kind is None or not issubclass(kind, TableDataset):
        raise Unknown(
            f'the simulator takes the size of a set from a published split or from a table; '
            f'{dataset.type!r} has neither: it knows subclasses of PublishedDataset and of '
            'TableDataset'
        )
    if Path(dataset.table).is_file():
        unread = dict(video_pipeline=[], text_pipeline=[], read_durations=False)
        made = DATASETS.build(ConfigDict({**dataset, **unread}))
        return Count(len(made.videos), len(made.texts))
    videos = round(OWN_VIDEOS * dataset.get('fractions', FRACTIONS).get(dataset.split, 1))
    notes.append(f'{videos} videos of {OWN_TEXTS} texts in place of {dataset.table}, not there')
    return Count(videos, OWN_TEXTS * videos)


def _environments(component: ConfigDict, train: ConfigDict, notes: list[str]) -> ConfigDict:
    """Point parts that read a test set to a simulated one with its own classes."""
    component = copy.deepcopy(component)
    for part in (component, component.get('like') or {}):
        if part.get('action') is not None:
            notes.append(f'all classes are thinned out in place of {tuple(part.action)}')
            part.action = None
        if part.get('test') is not None:
            part.test = ConfigDict(
                {**train, 'first': TEST_FIRST, 'videos': train.videos // 7 + 2},
                texts=train.texts // 7 + 2,
            )
    return component


def _frames(dataset: ConfigDict, size: Size, notes: list[str]) -> int:
    """Return the number of frames that the pipeline returns per video."""
    counts = [step.num_frames for step in dataset.video_pipeline if step.get('num_frames')]
    count = min(counts) if counts else 12
    if size.frames and count > size.frames:
        notes.append(f'{size.frames} frames in place of {count}')
        return size.frames
    return count


def _quiet(cfg: Config, notes: list[str]) -> None:
    """Disable validation and all files but the log; the rehearsal evaluates by itself."""
    cfg.val_dataloader = cfg.val_cfg = cfg.val_evaluator = None
    cfg.default_hooks = {**default_hooks(cfg.get('default_hooks')), 'checkpoint': None}
    cfg.load_from, cfg.resume = None, False
    for hook in cfg.get('custom_hooks') or []:
        if bare_name(hook) == 'MembersHook' and hook.get('init_from') is not None:
            notes.append(f'members that start untrained in place of {hook.init_from}')
            hook.init_from = None
    cfg.custom_imports = dict(
        imports=[*(cfg.get('custom_imports') or {}).get('imports', []), 'rehearsal'],
        allow_failed_imports=False,
    )
    cfg.visualizer = None
