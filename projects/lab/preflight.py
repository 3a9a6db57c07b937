"""Show on one screen what a training needs and costs, before it runs.

    python projects/lab/preflight.py CONFIG [--gpus 8] [--amp] [--cfg-options key=value ...]

It reports available and missing files and weights, warnings from reading the datasets, the joint
batch, memory per GPU, steps and hours for the data found, the protocol and the paper's numbers.
Exit status 1, with what to do, if something is missing, a dataset is smaller than published, or
something does not fit.  Memory and hours are estimates: a few items go through the model on the
CPU, with random weights in its pretrained towers; their activations and FLOPs are scaled to the
batch.  If there is a GPU, the towers' memory is measured there at the whole batch.
"""

from __future__ import annotations

import argparse
import logging
import math
import os
import sys
import textwrap
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Iterator, Mapping, NamedTuple, Optional

from mmvtr.cli.start import tool

import torch
from mmengine.config import Config
from mmengine.fileio import load
from mmengine.logging import MMLogger
from mmengine.registry import init_default_scope
from mmengine.runner import Runner
from torch.utils.data import Dataset

from mmvtr.cli import Parser, count
from mmvtr.datasets import VideoTextDataset
from mmvtr.datasets.folders import visible
from mmvtr.engine.checks.schedule_checks import accumulated
from mmvtr.engine.loops.protocol import frames_from
from mmvtr.registry import DATASETS, bare_name
from mmvtr.utils import config_folder, load_config, register_all_modules
from simulation.footprint import (
    TRAINED,
    Need,
    behind_towers,
    peak_of_towers,
    towers_of,
    uncounted,
)
from simulation.simulated_model import Unknown

#: Page of the repository that says where files come from, with a heading per dataset.
SOURCES = 'docs/reproduce/sources.md'
WIDTH = 100
#: Assumed TFLOP/s of a training on an A100, in fp32 and in 16 bit.
REACHED = {False: 14.0, True: 120.0}
#: Frames per second that a data worker reads (docs/media.md, small public videos).
DECODED = dict(LoadVideo=42.0, LoadFrames=1400.0)
#: GB of a GPU if there is none here.
CARD = 80.0


def parse_args() -> argparse.Namespace:
    parser = Parser(__doc__)
    add = parser.add_argument
    here = torch.cuda.device_count()
    add('config', help='config file')
    add('--gpus', type=count, default=max(here, 1), help='cards (default: those here, or 1)')
    add('--amp', action='store_true', help='train in 16 bit, as tools/train.py --amp')
    add('--memory', type=count, metavar='GB', help='of a card (default: of those here, or 80)')
    add(
        '--tflops', type=float, help='TFLOP/s that a card reaches (default: 14, --amp 120: an A100)'
    )
    parser.add_cfg_options()
    args = parser.parse_args()
    if args.memory is None:
        args.memory = torch.cuda.get_device_properties(0).total_memory / 1e9 if here else CARD
    if args.tflops is None:
        args.tflops = REACHED[args.amp]
    if not args.tflops > 0:
        parser.error(f'--tflops must be above 0, not {args.tflops:g}')
    return args


@tool
def main() -> None:
    args = parse_args()
    register_all_modules()
    cfg = load_config(args.config, args.cfg_options)
    init_default_scope(cfg.get('default_scope', 'mmvtr'))
    if cfg.get('train_dataloader') is None:
        raise SystemExit(f'error: {args.config} has no train_dataloader: there is nothing to train')
    rows: list[tuple[str, str]] = []
    with warnings_of(MMLogger.get_current_instance()) as heard:
        built, to_do = files(cfg, rows, heard)
        to_do += weights(cfg, rows)
        share, faults = batch(cfg, args, rows)
        to_do += faults
        to_do += costs(cfg, args, share, batches_of(cfg, built.get('train')), rows)
    rows.append(('protocol', protocol(cfg)))
    rows.append(('paper', paper(Path(args.config).stem)))
    print(screen(f'preflight of {args.config}', rows, to_do))
    sys.exit(1 if to_do else 0)


def screen(title: str, rows: list[tuple[str, str]], to_do: list[str]) -> str:
    """Return rows and to-do list as text, 100 columns wide."""
    lines = [title, '']
    for name, said in rows:
        lines += textwrap.wrap(
            f'{name:<10}{visible(said)}', WIDTH, subsequent_indent=' ' * 10, break_on_hyphens=False
        )
    lines += ['', 'to do' if to_do else 'nothing is missing']
    for number, what in enumerate(to_do, 1):
        lines += textwrap.wrap(
            f'{number:>3}. {visible(what)}',
            WIDTH,
            subsequent_indent=' ' * 5,
            break_on_hyphens=False,
        )
    return '\n'.join(lines)


def files(
    cfg: Config, rows: list[tuple[str, str]], heard: list[str]
) -> tuple[dict[str, Dataset], list[str]]:
    """Add a row for each dataset: its counts and warnings, or why it cannot be built.

    Args:
        cfg: the config.
        rows: rows of the screen, extended here.
        heard: list of warnings, which grows as they occur.

    Returns:
        The datasets by part, and the to-do list.
    """
    built: dict[str, Dataset] = {}
    to_do: list[str] = []
    for part in ('train', 'val', 'test'):
        if not cfg.get(f'{part}_dataloader'):
            continue
        dataset = cfg[f'{part}_dataloader'].dataset
        title = getattr(DATASETS.get(dataset.type), 'title', None)
        source = f'{SOURCES}#{anchor(title)} says where it comes from; ' if title else ''
        before = len(heard)
        try:
            made = built[part] = DATASETS.build(dataset)
        except (OSError, ImportError, ValueError, KeyError, RuntimeError) as error:
            rows.append((part, f'MISSING: {" ".join(str(error).split())}'))
            gone = [path for path in paths_in(dataset) if not os.path.exists(path)]
            rows += [('', f'its config names as well, and not here: {", ".join(gone)}')] * bool(
                gone
            )
            to_do.append(f'files of {title or dataset.type}: {source}docs/data.md, where it goes')
        else:
            lacking = made.lacks() if isinstance(made, VideoTextDataset) else None
            counts = f'{len(made.videos):,} videos, {len(made.texts):,} texts'
            rows.append((part, f'INCOMPLETE: {lacking}' if lacking else f'there: {counts}'))
            if lacking:
                to_do.append(
                    f'{part} set of {title or dataset.type}: {lacking}: complete its files, or '
                    f'compare with no result on the whole set; {source}docs/data.md'
                )
        rows += [('', said) for said in heard[before:]]
    return built, [*dict.fromkeys(to_do)]


def paths_in(part: Any, key: str = '') -> Iterator[str]:
    """Yield the files in a dataset's config: values of ``path``, ``..._file`` and ``..._dir``."""
    if isinstance(part, dict):
        for name, inner in part.items():
            yield from paths_in(inner, name if isinstance(name, str) else key)
    elif isinstance(part, (list, tuple)):
        for inner in part:
            yield from paths_in(inner, key)
    elif isinstance(part, str) and (key == 'path' or key.endswith('_file')):
        yield part


def batches_of(cfg: Config, train: Optional[Dataset]) -> Optional[int]:
    """Return the dataset's batches per epoch at the config's batch size; None without one."""
    if train is None:
        return None
    loader = dict(cfg.train_dataloader, dataset=train, num_workers=0)
    for key in ('persistent_workers', 'prefetch_factor'):
        loader.pop(key, None)
    return len(Runner.build_dataloader(loader, seed=0))


def anchor(title: str) -> str:
    """Return the anchor of a heading, without brackets: 'Charades-STA' -> 'charades-sta'."""
    return title.partition(' (')[0].lower().replace(' ', '-')


def weights(cfg: Config, rows: list[tuple[str, str]]) -> Iterator[str]:
    """Add a row on the initial weights; yield what to do about missing ones."""
    found = dict(started_from(cfg.model))
    if cfg.get('load_from'):
        found[cfg.load_from] = os.path.isfile(cfg.load_from)
    missing = [name for name, there in found.items() if not there]
    said = [f'{name} {"there" if there else "MISSING"}' for name, there in found.items()]
    rows.append(('weights', '; '.join(said) or 'none: all starts at random'))
    if missing:
        yield (
            f'weights {", ".join(missing)}: neither a file nor in the Hugging Face cache. With a '
            f'network the training fetches them; {SOURCES}#weights says how without'
        )


def started_from(part: Any) -> Iterator[tuple[str, bool]]:
    """Yield names of pretrained weights in a model's config, and whether they are available."""
    from huggingface_hub import try_to_load_from_cache

    if isinstance(part, (list, tuple)):
        for inner in part:
            yield from started_from(inner)
    if not isinstance(part, dict):
        return
    kind, given = bare_name(part) if 'type' in part else '', part.get('pretrained')
    if isinstance(given, str) and kind.startswith('OpenCLIP') and not Path(given).suffix:
        yield in_hub(part.model, given)
    elif isinstance(given, str):
        yield given, os.path.isfile(given)
    elif kind.startswith('Transformers') and isinstance(part.get('model'), str):
        cached = try_to_load_from_cache(part.model, 'config.json')
        yield part.model, os.path.isdir(part.model) or isinstance(cached, str)
    for inner in part.values():
        yield from started_from(inner)


def in_hub(model: Any, tag: str) -> tuple[str, bool]:
    """Return the name of open_clip weights, and whether the cache has them."""
    if not isinstance(model, str):
        return tag, os.path.isfile(tag)
    import open_clip
    from huggingface_hub import try_to_load_from_cache

    entry = open_clip.get_pretrained_cfg(model, tag) or {}
    repository = os.path.dirname(entry.get('hf_hub', ''))
    names = ('open_clip_model.safetensors', 'open_clip_pytorch_model.bin')
    cached = repository and any(
        isinstance(try_to_load_from_cache(repository, name), str) for name in names
    )
    return f'{model} {tag}', bool(cached)


def batch(
    cfg: Config, args: argparse.Namespace, rows: list[tuple[str, str]]
) -> tuple[int, list[str]]:
    """Return the items per GPU, and what to do if the GPUs do not make the joint batch."""
    base = (cfg.get('auto_scale_lr') or {}).get('base_batch_size')
    turns, own = accumulated(cfg), cfg.train_dataloader.batch_size
    asked = 'train_dataloader.batch_size' in args.cfg_options
    share = own if asked or base is None else max(base // (args.gpus * turns), 1)
    joint = share * args.gpus * turns
    said = f'{joint} a step = {args.gpus} x {share}' + f' x {turns} batches' * (turns > 1)
    if share != own:
        said += f' (train_dataloader.batch_size={share})'
    rows.append(('batch', said))
    if base in (None, joint):
        return share, []
    return share, [
        f'{joint} items a step, {base} are what the learning rate is for: '
        f'{remedy(base, args.gpus, turns)}'
    ]


def remedy(base: int, gpus: int, turns: int) -> str:
    """Return options that make a joint batch of ``base`` items, on as many GPUs as possible."""
    if base % turns:
        return f'{turns} batches a step do not divide it: optim_wrapper.accumulative_counts=1'
    fit = next(n for n in range(gpus, 0, -1) if not base % (n * turns))
    cards = f'--gpus {fit} ' if fit < gpus else ''
    return f'{cards}train_dataloader.batch_size={base // (fit * turns)}'


class Needs(NamedTuple):
    """What a training needs, measured on a few items.

    Attributes:
        cfg: the config.
        rest: bytes and FLOPs behind the pretrained towers, as
            :class:`~simulation.footprint.Growth`.
        towers: bytes and FLOPs of an item in the towers.
        fixed: bytes of the towers' parameters, gradients and moments.
        trained: trained parameters behind the towers.
        batches: batches of the config's own size per epoch, by the published size.
    """

    cfg: Config
    rest: Need
    towers: Need
    fixed: float
    trained: int
    batches: int

    @classmethod
    def of(cls, cfg: Config, amp: bool) -> Needs:
        """Measure them; Unknown if the config cannot be simulated."""
        rest, trained, batches = behind_towers(cfg)
        return cls(cfg, rest, *towers_of(cfg, amp), trained, batches)

    def micro(self, share: int) -> int:
        """Return the items of a GPU's share that are encoded at once."""
        return min(self.cfg.model.get('micro_batch') or share, share)

    def behind(self, share: int, joint: int) -> float:
        """Return the bytes on a GPU behind the towers."""
        return TRAINED * self.trained + self.rest.kept.of(share, joint)

    def memory(self, share: int, joint: int) -> float:
        """Return the bytes on a GPU."""
        return self.fixed + self.towers.kept * self.micro(share) + self.behind(share, joint)

    def hours(self, share: int, joint: int, steps: int, tflops: float) -> float:
        """Return the hours of computing of a training of so many steps."""
        flops = self.towers.flops * share + self.rest.flops.of(share, joint)
        return steps * flops / (tflops * 1e12) / 3600


def costs(
    cfg: Config,
    args: argparse.Namespace,
    share: int,
    found: Optional[int],
    rows: list[tuple[str, str]],
) -> Iterator[str]:
    """Add rows of memory, steps and hours; yield what to do if a GPU is too small.

    Steps are computed from the data, ``found`` batches of the config's own size per epoch, or else
    from the published size.
    """
    try:
        needs = Needs.of(cfg, args.amp)
    except Unknown as error:
        said = textwrap.shorten(' '.join(str(error).split()), 150, placeholder=' ...')
        rows.append(('memory', f'not estimated: {said}'))
        return
    joint = share * args.gpus
    kept, how = needs.memory(share, joint), 'an estimate'
    if torch.cuda.is_available():
        kept = peak_of_towers(cfg, needs.micro(share), args.amp) + needs.behind(share, joint)
        how = 'its towers measured on the card here'
    much, too_much = f'about {kept / 1e9:.3g}', f'about {kept / 1e9:.0f} GB'
    if math.isinf(kept):
        much, too_much = 'more than all', 'the towers of this batch'
    without = f', without {" and ".join(uncounted(cfg))}' if uncounted(cfg) else ''
    rows.append(
        (
            'memory',
            f'{much} of {args.memory:.3g} GB a card, {how}{without}',
        )
    )
    epochs = cfg.train_cfg.get('max_epochs') or 1
    counted, by = (needs.batches, 'published size') if found is None else (found, 'data found')
    batches = math.ceil(counted * cfg.train_dataloader.batch_size / joint)
    said = f'about {batches * epochs:,}: {epochs} epochs of {batches:,}, by the {by}'
    rows.append(('steps', said))
    if cfg.get('before'):
        rows.append(('before', f'{", ".join(cfg.before)} are trained first, each about as long'))
    computed = needs.hours(share, joint, batches * epochs, args.tflops)
    read, how = reading(cfg, batches * epochs * joint, args.gpus)
    cards = '1 card' if args.gpus == 1 else f'{args.gpus} cards'
    rows.append(
        (
            'hours',
            f'about {max(computed, read):.2g} on {cards}, an estimate: {computed:.2g} to compute '
            f'at {args.tflops:g} TFLOP/s a card{how}{without}; tests are not counted',
        )
    )
    if kept / 1e9 > args.memory:
        yield (
            f'memory: {too_much} do not fit into {args.memory:.0f}: more cards, '
            '--amp, model.encoder.frames.grad_checkpointing=True or model.micro_batch=N'
        )


def reading(cfg: Config, items: int, gpus: int) -> tuple[float, str]:
    """Return the hours that data workers take, and the calculation; 0 if frames are not decoded."""
    steps = cfg.train_dataloader.dataset.video_pipeline
    rate = DECODED.get(bare_name(steps[0])) if steps else None
    if rate is None:
        return 0.0, ''
    frames = min((step.num_frames for step in steps if step.get('num_frames')), default=12)
    workers = max(cfg.train_dataloader.get('num_workers', 0), 1) * gpus
    hours = items * frames / (rate * workers) / 3600
    return hours, f', {hours:.2g} to read {frames} frames an item, {workers} workers at {rate:g}/s'


def protocol(cfg: Config) -> str:
    """Return the protocol line as far as it is known before training."""
    loader = cfg.get('test_dataloader')
    tested = (loader or {}).get('dataset') or {}
    where = f'{bare_name(tested)} {tested.get("split", "")}'.strip() if tested else 'nothing'
    parts = [
        f'tested on {where}: {selection(cfg)}',
        f'frames from {frames_from(loader)}' if frames_from(loader) else '',
        optimizer_in_words(cfg) or '',
        '' if cfg.get('val_dataloader') else '--best-on-test takes the best epoch on test instead',
    ]
    return '; '.join(filter(None, parts))


def paper(name: str) -> str:
    """Return the numbers that a paper reports for this config."""
    found: Optional[str] = None
    for path in sorted(config_folder().glob('*/metafile.yml')):
        for model in load(path)['Models']:
            if model['Name'] == name:
                metrics = {k: v for k, v in model['Results'][0]['Metrics'].items() if k != 'ours'}
                found = '; '.join(f'{source}: {numbers(said)}' for source, said in metrics.items())
    return found or 'no number is known of this config'


def numbers(said: Any) -> str:
    if not isinstance(said, dict):
        return str(said)
    return ', '.join(f'{key} {value:g}' for key, value in said.items())


def optimizer_in_words(cfg: Mapping[str, Any]) -> Optional[str]:
    """Return 'AdamW, lr 0.0001' as a config plans it; None without or with several optimizers."""
    optimizer = (cfg.get('optim_wrapper') or {}).get('optimizer')
    if not optimizer or 'type' not in optimizer:
        return None
    rate = optimizer.get('lr')
    return bare_name(optimizer) + ('' if rate is None else f', lr {rate:g}')


def selection(cfg: Config) -> str:
    """Return which of a training's checkpoints will be tested."""
    if cfg.get('val_dataloader') is None:
        return 'the last epoch'
    by = (cfg.default_hooks.get('checkpoint') or {}).get('save_best')
    return f'best on val by {by}' if by else 'the last epoch'


class _Kept(logging.Handler):
    """Handler that collects distinct messages."""

    def __init__(self, kept: list[str]) -> None:
        super().__init__(logging.WARNING)
        self.kept = kept

    def emit(self, record: logging.LogRecord) -> None:
        message = ' '.join(record.getMessage().split())
        if message not in self.kept:
            self.kept.append(message)


@contextmanager
def warnings_of(logger: logging.Logger) -> Iterator[list[str]]:
    """Collect a logger's warnings within this context, each once."""
    kept: list[str] = []
    handlers, level = logger.handlers, logger.level
    logger.handlers = [_Kept(kept)]
    logger.setLevel(logging.WARNING)
    try:
        yield kept
    finally:
        logger.handlers = handlers
        logger.setLevel(level)


if __name__ == '__main__':
    main()
