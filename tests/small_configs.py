"""The tools on miniatures of the configs that they are given: a second each, no download, no data.

Published sets are simulated (simulation) with a dozen items; the planted corpus
has a dozen clips.  A miniature has everything else of its config: model, losses, hooks, metrics,
what it is chosen by.
"""

from __future__ import annotations

import copy
import itertools
import os
import runpy
import sys
from functools import partial
from pathlib import Path
from typing import Any, Callable, Mapping, Optional, Sequence

import numpy as np
import open_clip
import torch
from mmengine.config import Config

import mmvtr.engine.before
import mmvtr.engine.checks.config_checks
import mmvtr.studies.reading
import mmvtr.studies.running
import mmvtr.utils
from children import in_child, tool_file
from mmvtr.registry import DATASETS, bare_name
from simulation.simulated import simulate
from simulation.simulated_model import Size, retrievers

load_config = mmvtr.utils.load_config
check_config = mmvtr.engine.checks.config_checks.check_config
TINY = Size(width=16, batch=4, frames=4, layers=1)
VIDEOS, TEXTS, EPOCHS = 12, 24, 2
_NUMBERS = itertools.count()


#: Of the planted corpus: clips of a split, and what a caption says.
PLANTED = dict(num_train=12, num_val=4, num_test=8, captions=2)
#: A CLIP of one layer in place of a pretrained one.
CLIP = dict(
    embed_dim=512,
    vision_cfg=dict(image_size=224, layers=1, width=64, patch_size=112),
    text_cfg=dict(context_length=77, vocab_size=49408, width=64, heads=2, layers=1),
)
BERT = dict(
    model_type='bert',
    hidden_size=64,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=64,
)


def small_config(
    path: str, options: Optional[dict[str, Any]] = None, work_dir: Optional[str] = None
) -> Config:
    """As :func:`mmvtr.utils.load_config`, which reads and checks it first; then its miniature."""
    cfg = load_config(path, options, work_dir)
    check_config(cfg, options or {})
    return miniature(cfg)


def miniature(cfg: Config) -> Config:
    """A config that trains and is tested in a second."""
    if cfg.get('train_dataloader') is None:
        return zero_shot(cfg)
    made = planted(cfg) if bare_name(cfg.test_dataloader.dataset) == 'PlantedDataset' else None
    cfg = made or simulated(cfg)
    if (cfg.get('auto_scale_lr') or {}).get('base_batch_size') is not None:
        cfg.auto_scale_lr.base_batch_size = cfg.train_dataloader.batch_size
    cfg.train_cfg.max_epochs = EPOCHS
    cfg.param_scheduler = []
    return cfg


def simulated(cfg: Config) -> Config:
    """Of a published set: a dozen items in its place."""
    plain = cfg
    cfg = simulate(plain, TINY).cfg
    cfg.default_hooks.checkpoint = copy.deepcopy(plain.default_hooks.checkpoint)
    for part in ('train', 'test'):
        dataset = cfg[f'{part}_dataloader'].dataset
        group = dataset.get('group', 1)
        dataset.update(videos=VIDEOS, texts=TEXTS if group == 1 else VIDEOS // group)
    for member in retrievers(cfg.model):
        if 'bank_size' in member:
            member.bank_size = TINY.batch
    if plain.get('val_dataloader') is not None:
        for key in ('val_cfg', 'val_evaluator'):
            cfg[key] = copy.deepcopy(plain[key])
        cfg.val_dataloader = copy.deepcopy(cfg.test_dataloader)
    return cfg


def planted(cfg: Config) -> Config:
    """Of the planted corpus: a dozen clips, and noise in place of stored features."""
    cfg = copy.deepcopy(cfg)
    for part in ('train', 'val', 'test'):
        loader = cfg.get(f'{part}_dataloader')
        if loader:
            loader.update(num_workers=0, persistent_workers=False, batch_size=TINY.batch)
            loader.pop('prefetch_factor', None)
            loader.dataset.update(PLANTED)
            _write_features(loader.dataset)
    for part in ('val', 'test'):
        listed = cfg.get(f'{part}_evaluator') or []  # of eight videos no caption is general
        cfg[f'{part}_evaluator'] = [m for m in listed if bare_name(m) != 'GeneralCaptionMetric']
    if 'warmup' in (cfg.model.get('supervision') or {}):
        cfg.model.supervision.warmup = 0.0
    return cfg


def _write_features(dataset: dict[str, Any]) -> None:
    """Float32 [6, 128] of each video, where a pipeline reads such."""
    paths = [step.path for step in dataset.video_pipeline if bare_name(step) == 'LoadFeatures']
    if not paths:
        return
    clips = DATASETS.build({**dataset, 'video_pipeline': [], 'text_pipeline': []}).videos
    generator = np.random.default_rng(0)
    for folder in map(Path, paths):
        folder.mkdir(parents=True, exist_ok=True)
        for clip in clips:
            frames = generator.normal(size=(6, 128)).astype(np.float32)
            np.save(folder / f'{clip["video_id"]}.npy', frames)


def zero_shot(cfg: Config) -> Config:
    """A CLIP of one layer, whose weights are those of a file."""
    file = Path('clip.pt').absolute()
    if not file.is_file():
        made = open_clip.model.CLIP(**CLIP)
        torch.save(made.state_dict(), file)
    for tower in (cfg.model.encoder.frames, cfg.model.encoder.text):
        tower.update(model=CLIP, pretrained=str(file))
    cfg.test_dataloader.update(num_workers=0, persistent_workers=False)
    return cfg


def small_towers(
    path: str, options: Optional[dict[str, Any]] = None, work_dir: Optional[str] = None
) -> Config:
    """The config as it is, in batches of two, but for CLIP and BERT, which are small and random."""
    cfg = load_config(path, options, work_dir)
    for member in retrievers(cfg.model):
        for tower in member.encoder.values():
            if isinstance(tower, dict) and 'pretrained' in tower and 'model' in tower:
                tower.update(model=CLIP, pretrained=None)
            elif isinstance(tower, dict) and bare_name(tower) == 'TransformersText':
                tower.model = BERT
    for part in ('train', 'val', 'test'):
        if cfg.get(f'{part}_dataloader'):
            cfg[f'{part}_dataloader'].update(batch_size=2, num_workers=0, persistent_workers=False)
    cfg.auto_scale_lr = None
    cfg.train_cfg.max_epochs = 1
    cfg.param_scheduler = []
    return cfg


def as_it_is(
    path: str, options: Optional[dict[str, Any]] = None, work_dir: Optional[str] = None
) -> Config:
    """The config itself: the tool builds no model, or makes it small by itself."""
    return load_config(path, options, work_dir)


def read_by(reader: Callable[..., Config]) -> None:
    """All of this process read configs so from now on, whoever has imported what."""
    for module in list(sys.modules.values()):
        if getattr(module, '__name__', __name__) == __name__:
            continue
        if getattr(module, 'load_config', None) is load_config:
            module.load_config = reader
        if getattr(module, 'check_config', None) is check_config and reader is small_config:
            module.check_config = _checked_before


def _checked_before(cfg: Config, options: dict[str, Any], **how: Any) -> None:
    """Options may be of parts that the miniature has not got: :func:`small_config` checks them."""
    check_config(cfg, {})


def _options_of_the_config(check: Callable[..., None]) -> Callable[..., None]:
    """A study's options are those of the config; the miniature has another pipeline."""
    reading = mmvtr.studies.reading

    def checked(row: Any) -> None:
        reader, reading.load_config = reading.load_config, load_config
        try:
            check(row)
        finally:
            reading.load_config = reader

    return checked


def run_small(
    folder: Path,
    tool: str,
    *arguments: Any,
    reader: Callable[..., Config] = small_config,
    before: Optional[Callable[[], None]] = None,
    tools: Optional[Path] = None,
) -> tuple[int, str]:
    """As :func:`children.run_tool`, on miniatures.

    Args:
        reader: how configs become small.
        before: called in the tool's process, before it starts.
        tools: where the tool is; None: where :func:`children.tool_file` finds it.
    """
    log = folder / f'printed_{next(_NUMBERS)}.txt'
    given = list(map(str, arguments))
    file = tool_file(tool) if tools is None else tools / tool
    code = in_child(log, _run, folder, str(file), given, reader, before)
    return code, log.read_text()


def _run(
    folder: Path,
    file: str,
    arguments: list[str],
    reader: Callable[..., Config],
    before: Optional[Callable[[], None]],
) -> None:
    os.chdir(folder)
    read_by(reader)
    mmvtr.engine.before.run_child = partial(run_small_child, before=before)
    if before is not None:
        before()
    sys.argv = [file, *arguments]
    if Path(file).name == 'study.py':
        reading = mmvtr.studies.reading
        reading._check_options = _options_of_the_config(reading._check_options)
        mmvtr.studies.running.check_data = lambda rows: None  # the data are those of miniatures
    runpy.run_path(file, run_name='__main__')


def run_small_child(
    command: Sequence[str],
    *,
    environment: Optional[Mapping[str, str]] = None,
    log: Optional[Path] = None,
    before: Optional[Callable[[], None]] = None,
) -> int:
    """As :func:`mmvtr.engine.side_by_side.run_child`, but tools run on miniatures, alone."""
    first, *given = [word for word in command[1:] if not word.startswith('--nproc')]
    if Path(first).name == 'launch.py':
        _, first, *given = given
        given[given.index('--launcher') + 1] = 'none'
    if log is None:
        log = Path.cwd() / f'inner_{len([*Path.cwd().glob("inner_*")])}.txt'
    first_of_all = partial(_in_environment, dict(environment or {}), before)
    return in_child(log.absolute(), _run, Path.cwd(), first, given, small_config, first_of_all)


def _in_environment(environ: Mapping[str, str], before: Optional[Callable[[], None]]) -> None:
    os.environ.update(environ)
    if before is not None:
        before()
