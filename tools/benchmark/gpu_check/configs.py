"""Each config in miniature: a training step and a test on the device, compared with the CPU."""

from __future__ import annotations

import copy
import multiprocessing
import os
import tempfile
import traceback
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import torch
from mmengine.config import Config
from mmengine.logging import MMLogger
from mmengine.registry import init_default_scope
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map

from gpu_check.models import step
from gpu_check.report import Part, Table, Verdict, brief
from gpu_check.setting import ROOT, Setting
from gpu_check.steps import BAR, differences

#: Pairs of a batch; the training before the test has three batches.
PAIRS = 8
#: Configs of a smoke run.
SMOKE = ('arl_tvr_clip', 'dvtr_c2v_msrvtt', 'ncl_clip4clip_msrvtt')
#: Columns of the table.
WAYS = ('float32', 'bfloat16', 'test', 'stopped')
#: Allowed difference of a metric in points, as two close scores may swap ranks.
METRICS = 1.0
#: Functions that draw random numbers.
RANDOM = (
    'rand', 'randn', 'randint', 'randperm', 'rand_like', 'randn_like', 'randint_like', 'normal',
    'bernoulli', 'multinomial', 'normal_', 'uniform_', 'bernoulli_', 'exponential_', 'random_',
)  # fmt: skip


def configs(setting: Setting) -> Part:
    """Check all configs with a training, with simulated towers and data as in a rehearsal."""
    paths = sorted((ROOT / 'configs').glob('*.py'))
    if setting.smoke:
        paths = [path for path in paths if path.stem in SMOKE]
    workers = min(len(paths), max(1, (os.cpu_count() or 2) * 3 // 4))
    with ProcessPoolExecutor(workers, multiprocessing.get_context('spawn'), _one_thread) as pool:
        found = dict(zip((p.stem for p in paths), pool.map(partial(check, setting), paths)))
    ran = {name: x for name, x in found.items() if 'skipped' not in x}
    failed = [name for name, x in ran.items() if not agrees(x)]
    rows = [(name, *(cell(x.get(way, '')) for way in WAYS)) for name, x in ran.items()]
    return Part(
        'Configs',
        [
            f'{len(ran)} configs of {len(found)}; the others have no training, or nothing that '
            'can be simulated.  After three steps on the device: relative difference of the loss '
            f'and of the gradients (over the largest entry of all; bar {BAR:g}) in float32, the '
            'same under bfloat16 autocast '
            '(no bar: the two devices cast other operations), and the largest difference of a '
            f'retrieval metric of the test, transforms included (bar {METRICS:g}).'
        ],
        [Table(('config', *WAYS), rows)],
        [Verdict('configs agree', not failed, '; '.join(failed) or f'all {len(ran)}')],
        found,
    )


def cell(found: Any) -> str:
    """Return numbers with their names, or the text, as a table cell."""
    if isinstance(found, str):
        return found
    return ', '.join(f'{name} {value:g}' for name, value in found.items())


def agrees(found: dict[str, Any]) -> bool:
    """Return whether a config is within all bars."""
    if 'stopped' in found:
        return False
    within = all(x <= BAR for x in found['float32'].values())
    finite = all(x < float('inf') for x in found['bfloat16'].values())
    return within and finite and all(x <= METRICS for x in found['test'].values())


def check(setting: Setting, path: Path) -> dict[str, Any]:
    """Compare a config with the CPU; ``skipped`` or ``stopped`` is the reason of a failure."""
    from simulation.simulated import simulate
    from simulation.simulated_model import NARROW, Unknown

    init_default_scope('mmvtr')
    try:
        cfg = simulate(Config.fromfile(path), NARROW).cfg
        with tempfile.TemporaryDirectory() as folder:
            return compared(cfg, folder, setting.device)
    except Unknown as error:
        return dict(skipped=brief(error))
    except Exception as error:
        places = [f for f in traceback.extract_tb(error.__traceback__) if 'mmvtr' in f.filename]
        where = f' ({Path(places[-1].filename).name}:{places[-1].lineno})' if places else ''
        return dict(stopped=brief(error) + where)


def compared(cfg: Config, folder: str, device: torch.device) -> dict[str, Any]:
    """Compare a float32 step, a bfloat16 step and a test on the device with the CPU."""
    from mmvtr.engine.runner import ToolRunner

    cfg.train_dataloader.batch_size = PAIRS
    cfg.train_dataloader.dataset.indices = 3 * PAIRS
    cfg.train_cfg.max_epochs, cfg.fit_warmup = 1, True
    cfg.work_dir, cfg.log_level = folder, 'ERROR'
    cfg.val_dataloader = cfg.val_cfg = cfg.val_evaluator = None
    torch.manual_seed(0)
    runner = ToolRunner.from_cfg(cfg)
    MMLogger.get_current_instance().setLevel('ERROR')
    batch = next(iter(runner.build_dataloader(cfg.train_dataloader, seed=0)))
    runner.train()  # fills losses' queues, and hooks store what the test may need
    model = copy.deepcopy(runner.model)
    without_random_layers(model)
    places = (device, torch.device('cpu'))
    found: dict[str, Any] = {}
    for way in ('float32', 'bfloat16'):
        steps = [step_on(place, model, batch, way == 'bfloat16') for place in places]
        found[way] = {name: float(f'{x:.1e}') for name, x in differences(*steps).items()}
    found['test'] = {}
    if cfg.get('test_dataloader') is not None:
        mine, other = (tested(place, runner) for place in places)
        if mine.keys() != other.keys():
            raise ValueError(f'metrics on one device only: {sorted(mine.keys() ^ other.keys())}')
        gaps = {x: abs(mine[x] - other[x]) for x in mine if x.split('/')[-2] == 'retrieval'}
        wrong = [x for x, gap in gaps.items() if gap != gap]  # NaN compares as larger than nothing
        name = wrong[0] if wrong else max(gaps, key=gaps.__getitem__)
        found['test'] = {name: round(gaps[name], 4)}
    return found


def step_on(
    place: torch.device, model: nn.Module, batch: Any, amp: bool
) -> tuple[Tensor, dict[str, Tensor]]:
    """Return loss and gradients of a copy of the model on one device."""
    model = copy.deepcopy(model).to(place).train()
    torch.manual_seed(1)
    with DrawnOnCPU(), torch.autocast(place.type, torch.bfloat16, enabled=amp):
        return step(model, model.data_preprocessor(copy.deepcopy(batch), True))


def tested(place: torch.device, runner: Any) -> dict[str, float]:
    """Return the metrics of the config's test."""
    runner.model.to(place)
    torch.manual_seed(2)
    with DrawnOnCPU():
        return runner.test()


class DrawnOnCPU(TorchFunctionMode):
    """Draws random numbers with the CPU's generator, whatever the device."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = getattr(function, '__name__', '')
        if name not in RANDOM:
            return function(*args, **kwargs)
        asked = kwargs.pop('device', None)
        given = [x.device for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
        there = tree_map(lambda x: x.cpu() if isinstance(x, Tensor) else x, (args, kwargs))
        drawn = function(*there[0], **there[1])
        if name.endswith('_'):
            with torch.no_grad():
                return args[0].copy_(drawn)
        return drawn.to(asked or (given[0] if given else 'cpu'))


def without_random_layers(model: nn.Module) -> None:
    """Disable dropout, and set ARL past its warm-up, with ambiguous sets."""
    from mmvtr.models.supervisions.arl import ARLSupervision

    for module in model.modules():
        for name in ('p', 'dropout', 'attention_dropout', 'dropout_rate'):
            if isinstance(vars(module).get(name), float):
                setattr(module, name, 0.0)
        if isinstance(module, ARLSupervision):
            module.ready.fill_(True)
            module.progress = 1.0


def _one_thread() -> None:
    torch.set_num_threads(1)
    torch.set_float32_matmul_precision('highest')
    torch.backends.cudnn.allow_tf32 = False
