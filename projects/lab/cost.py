"""Measure parameters, FLOPs and time of a training step of any config, without its data or weights.

    python projects/lab/cost.py CONFIG [CONFIG ...] [--steps 5] [--out FILE.json]

Prints a row per config (frame-length paper Tab. 5, UATVR Tab. 2, ARL Tab. 3).  Published datasets
are simulated (simulation) at their own widths, with one stand-in layer for each pretrained tower,
whose parameters and FLOPs are excluded; towers of open_clip are measured separately, on random
frames and words.  Other datasets (planted, tables) are read.  FLOPs are counted by torch, two per
multiply-add: halve them to compare with counts of multiply-adds, such as thop's.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
import warnings
from pathlib import Path
from statistics import median
from typing import Any, Callable, Iterator, Optional

from mmvtr.cli.start import tool

import torch
from mmengine.config import Config
from mmengine.registry import init_default_scope
from mmengine.runner import Runner
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from mmvtr.cli import Parser, count, output_file
from mmvtr.models.towers import WordVectors
from mmvtr.registry import MODELS, TRANSFORMS, bare_name
from mmvtr.storage import write_text
from mmvtr.utils import forget_pretrained, load_config, register_all_modules
from simulation.simulated import simulate
from simulation.simulated_model import FULL, Unknown, retrievers
from simulation.towers import SimulatedFrames, SimulatedText

#: Columns of the table, and their headings.
COLUMNS = {
    'all_parameters': 'M parameters, with towers',
    'parameters': 'M parameters',
    'text_parameters': 'of texts',
    'video_parameters': 'of videos',
    'text_gflops': 'GFLOPs a text',
    'video_gflops': 'GFLOPs a video',
    'score_gflops': 'GFLOPs a pair',
    'tower_parameters': 'M of towers',
    'tower_gflops': 'GFLOPs of towers, a pair',
    'step_seconds': 's a step',
    'batch': 'batch',
    'epoch_seconds': 's an epoch',
}


def parse_args() -> argparse.Namespace:
    parser = Parser(__doc__)
    add = parser.add_argument
    add('config', nargs='+', help='config files, a row each')
    add(
        '--steps',
        type=count,
        default=5,
        help='training steps timed; the median counts (default: 5)',
    )
    add('--device', default='cuda' if torch.cuda.is_available() else 'cpu', help='default: a GPU')
    add('--no-towers', action='store_true', help='leave out pretrained towers')
    add('--out', type=output_file, metavar='FILE', help='write the numbers to this .json file, too')
    parser.add_cfg_options()
    return parser.parse_args()


@tool
def main() -> None:
    args = parse_args()
    register_all_modules()
    rows: dict[str, dict[str, float]] = {}
    for path in args.config:
        cfg = load_config(path, args.cfg_options)
        init_default_scope(cfg.get('default_scope', 'mmvtr'))
        rows[Path(path).stem] = measure(cfg, args)
    print(f'torch {torch.__version__}, {name_of(args.device)}\n\n{table(rows)}')
    if args.out:
        write_text(args.out, json.dumps(rows, indent=1) + '\n')


def table(rows: dict[str, dict[str, float]]) -> str:
    """Return a markdown table of the columns that some row has."""
    keys = [key for key in COLUMNS if any(key in row for row in rows.values())]
    lines = ['| config | ' + ' | '.join(COLUMNS[key] for key in keys) + ' |']
    lines.append('|---' * (len(keys) + 1) + '|')
    for name, row in rows.items():
        cells = [f'{row[key]:.4g}' if key in row else '' for key in keys]
        lines.append(f'| `{name}` | ' + ' | '.join(cells) + ' |')
    return '\n'.join(lines)


def measure(cfg: Config, args: argparse.Namespace) -> dict[str, float]:
    """Return the measurements of a config.

    Raises:
        ValueError: the config has no training, or a dataset that is neither published nor
            available.
    """
    if cfg.get('train_dataloader') is None:
        raise ValueError(f'{cfg.filename} has no train_dataloader')
    towers = {} if args.no_towers else towers_of(cfg)
    words = word_rows(cfg)
    try:
        cfg, _ = simulate(cfg, FULL)
    except Unknown:  # not a published dataset: use its own data
        forget_pretrained(cfg.model)
        cfg.train_dataloader.update(num_workers=0, persistent_workers=False)
    torch.manual_seed(0)
    model = MODELS.build(cfg.model).to(args.device)
    loader = Runner.build_dataloader(cfg.train_dataloader, seed=0)
    batch = next(iter(loader))
    sizes = sizes_of(model, words)
    row = dict(
        parameters=sum(sizes.values()) / 1e6,
        **sides(model, batch, sizes),
        step_seconds=step_time(model, itertools.cycle([batch]), args),
        batch=float(cfg.train_dataloader.get('batch_size') or len(batch['data_samples'])),
        **towers,
    )
    row['epoch_seconds'] = row['step_seconds'] * len(loader)
    if towers:
        row['all_parameters'] = row['parameters'] + row['tower_parameters']
    return row


def word_rows(cfg: Config) -> Optional[int]:
    """Return the size of the word table that a config trains (a simulated one is smaller)."""
    texts = (one.encoder.get('text') or {} for one in retrievers(cfg.model))
    return next((text.words for text in texts if 'words' in text), None)


def sizes_of(model: nn.Module, words: Optional[int]) -> dict[nn.Parameter, int]:
    """Return the sizes of the parameters in the config's model, outside pretrained towers."""
    sizes = {parameter: parameter.numel() for parameter in model.parameters()}
    for module in model.modules():
        if isinstance(module, (SimulatedFrames, SimulatedText)):
            sizes.update(dict.fromkeys(module.parameters(), 0))
        elif isinstance(module, WordVectors) and words is not None:
            sizes[module.table.weight] = words * module.dim
    return sizes


def sides(
    model: nn.Module, batch: dict[str, Any], sizes: dict[nn.Parameter, int]
) -> dict[str, float]:
    """Return parameters and FLOPs of each side, for one member if there are several."""
    one = next(iter(model.members)) if hasattr(model, 'members') else model
    one.eval()
    if getattr(one, 'data_preprocessor', None) is None:
        one.data_preprocessor = model.data_preprocessor
    data = model.data_preprocessor(batch, False)['inputs']
    levels, row = {}, {}
    for kind in ('text', 'video'):
        one.zero_grad(set_to_none=True)
        # oneDNN's recurrent layers are one operation, which the FLOP counter does not know.
        with warnings.catch_warnings(), torch.backends.mkldnn.flags(enabled=False):
            warnings.simplefilter('ignore')  # the flags also warn about Intel GPUs
            flops, made = counted(lambda kind=kind: getattr(one, f'encode_{kind}')(data), one)
        sum(level.mean.float().sum() for level in made.values()).backward()
        reached = (sizes[p] for p in one.parameters() if p.grad is not None)
        count = len(next(iter(made.values())).mean)
        row[f'{kind}_parameters'] = sum(reached) / 1e6
        row[f'{kind}_gflops'] = flops / count / 1e9
        levels[kind] = {name: level.map(Tensor.detach) for name, level in made.items()}
    with torch.no_grad():
        flops, made = counted(lambda: one.similarity(levels['text'], levels['video']))
    row['score_gflops'] = flops / made['scores'].numel() / 1e9
    one.zero_grad(set_to_none=True)
    return row


def counted(run: Callable[[], Any], model: Optional[nn.Module] = None) -> tuple[float, Any]:
    """Return the FLOPs of a call, without those of the model's stand-ins, and its result."""
    counter, own = FlopCounterMode(display=False), 0

    def before(*_: Any) -> None:
        nonlocal own
        own -= counter.get_total_flops()

    def after(*_: Any) -> None:
        nonlocal own
        own += counter.get_total_flops()

    hooks = []
    for module in model.modules() if model is not None else ():
        if isinstance(module, (SimulatedFrames, SimulatedText)):
            hooks += [module.register_forward_pre_hook(before), module.register_forward_hook(after)]
    with counter:
        made = run()
    for hook in hooks:
        hook.remove()
    return counter.get_total_flops() - own, made


def step_time(model: nn.Module, batches: Iterator[Any], args: argparse.Namespace) -> float:
    """Return the median seconds of forward, loss, backward and Adam step, after a warm-up."""
    model.train()
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.0)
    times = []
    for _, batch in zip(range(args.steps + 1), batches):
        start = time.perf_counter()
        data = model.data_preprocessor(batch, True)
        losses, _ = model.parse_losses(model(**data, mode='loss'))
        optimizer.zero_grad()
        losses.backward()
        optimizer.step()
        if args.device.startswith('cuda'):
            torch.cuda.synchronize()
        if hasattr(model, 'follow'):  # a momentum retriever requires this after each step
            model.follow()
        times.append(time.perf_counter() - start)
    return median(times[1:])


def towers_of(cfg: Config) -> dict[str, float]:
    """Return parameters and FLOPs of open_clip's towers, for a video's frames and a text."""
    encoder = (cfg.model.get('member') or cfg.model).get('encoder') or {}
    kinds = {side: encoder.get(side) for side in ('frames', 'text')}
    kinds = {side: kind for side, kind in kinds.items() if kind and 'OpenCLIP' in bare_name(kind)}
    if not kinds:
        return {}
    cfg = cfg.copy()
    forget_pretrained(kinds)
    frames = [
        s.num_frames for s in cfg.train_dataloader.dataset.video_pipeline if s.get('num_frames')
    ]
    parameters = flops = 0.0
    for side, kind in kinds.items():
        tower = MODELS.build(kind).eval()
        parameters += sum(p.numel() for p in tower.parameters()) / 1e6
        with torch.no_grad():
            if side == 'frames':
                image = torch.randn(1, 3, *tower.image_size)
                count, _ = counted(lambda tower=tower, image=image: tower(image))
                flops += count * (frames[0] if frames else 12)
            else:
                ids = full_text(tower, cfg.train_dataloader.dataset.text_pipeline)
                count, _ = counted(lambda tower=tower, ids=ids: tower(ids, ids > 0))
                flops += count
    return dict(tower_parameters=parameters, tower_gflops=flops / 1e9)


def full_text(tower: nn.Module, pipeline: list[dict[str, Any]]) -> Tensor:
    """Return an int64 [1, L] text of the tokenizer's maximal length, without padding."""
    steps = [TRANSFORMS.build(step) for step in pipeline]
    (length,) = (step.limit for step in steps if hasattr(step, 'limit'))
    ids = torch.full((1, length), 2)  # padding is 0 or 1 in every tower
    ids[0, -1] = getattr(tower, 'eos_id', None) or 2
    return ids


def name_of(device: str) -> str:
    """Return the GPU's name, or the number of CPU threads."""
    if device.startswith('cuda'):
        return torch.cuda.get_device_name(device)
    return f'CPU, {torch.get_num_threads()} threads'


if __name__ == '__main__':
    main()
