"""A training step, one under bfloat16 and an evaluation of real configs in miniature on XLA.

``python tests/environments/second_device.py RESULTS.json [CONFIG ...]`` needs torch_xla and the
package.  XLA's device (``PJRT_DEVICE=CPU``) is none of the CPU's, so what mixes the two stops here
as it would on CUDA.  Of configs whose parts are the same one runs; the others are named beside it.
Towers and data are those of a rehearsal.  Random numbers are drawn on the CPU for both devices.
"""

from __future__ import annotations

import copy
import json
import multiprocessing
import os
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any, Iterator

os.environ.setdefault('PJRT_DEVICE', 'CPU')

import torch
from mmengine.config import Config
from mmengine.logging import MMLogger
from mmengine.registry import init_default_scope
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from mmvtr.models.supervisions.arl import ARLSupervision
from mmvtr.simulation.simulated import simulate
from mmvtr.simulation.simulated_model import NARROW, Unknown

ROOT = Path(__file__).resolve().parents[2]
#: Of a gradient's largest entry, or of a thousandth of the largest of all gradients.
NEAR = 1e-4
#: A bfloat16 has 8 bits, and the two devices do not cast the same operations.
NEAR_BF16 = 0.1
RANDOM = (
    'rand', 'randn', 'randint', 'randperm', 'rand_like', 'randn_like', 'randint_like', 'normal',
    'bernoulli', 'multinomial', 'normal_', 'uniform_', 'bernoulli_', 'exponential_', 'random_',
    'dropout',
)  # fmt: skip


class DrawnOnCPU(TorchFunctionMode):
    """Random numbers of the CPU's generator, whatever the device."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = getattr(function, '__name__', '')
        if name == 'numpy' and args[0].device.type != 'cpu':
            raise TypeError(f'.numpy() of a tensor on {args[0].device.type}')
        if name not in RANDOM:
            return function(*args, **kwargs)
        device = kwargs.pop('device', None)
        given = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
        device = torch.device(device or (given[0].device if given else 'cpu'))
        there = tree_map(lambda x: x.cpu() if isinstance(x, Tensor) else x, (args, kwargs))
        drawn = function(*there[0], **there[1])
        if name.endswith('_'):
            with torch.no_grad():
                return args[0].copy_(drawn)
        return drawn.to(device)


class Apart(TorchDispatchMode):
    """Refuses an operation on tensors of both devices, as CUDA does: no more than a scalar."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = str(function)
        tensors = [x for x in tree_leaves((args, kwargs or {})) if isinstance(x, Tensor)]
        kinds = {x.device.type for x in tensors if x.dim()}
        if len(kinds) > 1 and not any(w in name for w in ('copy', 'aten.index', 'aten.set_')):
            shapes = [f'{x.device.type} {list(x.shape)}' for x in tensors]
            raise RuntimeError(f'{name} on tensors of two devices: {", ".join(shapes)}')
        return function(*args, **(kwargs or {}))


def parts_of(value: Any) -> Any:
    """What a config consists of, without its numbers."""
    if isinstance(value, dict):
        return {key: parts_of(x) for key, x in value.items() if parts_of(x) not in (None, {}, [])}
    if isinstance(value, (list, tuple)):
        return [parts_of(x) for x in value]
    return value if isinstance(value, (str, bool)) else None


def families(paths: list[Path]) -> dict[str, list[str]]:
    """A config of each kind, and those that have the same parts; none without a training."""
    found: dict[str, list[str]] = {}
    for path in paths:
        cfg = Config.fromfile(path)
        if cfg.get('model') is None or cfg.get('train_dataloader') is None:
            continue
        model = copy.deepcopy(cfg.model)
        for tower in filter(lambda x: isinstance(x, dict), model.get('encoder', {}).values()):
            tower.pop('model', None)
            tower.pop('pretrained', None)
        about = parts_of([model, cfg.get('test_evaluator'), cfg.get('custom_hooks')])
        found.setdefault(json.dumps(about, sort_keys=True), []).append(path.stem)
    return {names[0]: names[1:] for names in found.values()}


def without_dropout(model: nn.Module) -> None:
    """Dropout inside of attention draws on the device itself."""
    for module in model.modules():
        for name in ('p', 'dropout', 'attention_dropout', 'dropout_rate'):
            if isinstance(getattr(module, name, None), float) and name in vars(module):
                setattr(module, name, 0.0)
        if isinstance(module, ARLSupervision):  # past its warm-up: with ambiguous sets
            module.ready.fill_(True)
            module.progress = 1.0


def to(device: torch.device, value: Any) -> Any:
    """Tensors of nested values on a device."""
    return tree_map(lambda x: x.to(device) if isinstance(x, Tensor) else x, value)


def step(model: nn.Module, batch: Any, device: torch.device, amp: bool) -> dict[str, Tensor]:
    """Losses, figures and gradients of a training step, on the CPU."""
    model = copy.deepcopy(model).to(device)
    torch.manual_seed(1)
    with DrawnOnCPU(), Apart():
        with torch.autocast(device.type, torch.bfloat16, enabled=amp):
            losses = model(**model.data_preprocessor(copy.deepcopy(batch), True), mode='loss')
        total = sum(value for key, value in losses.items() if 'loss' in key)
        total.backward()
    found = {key: torch.as_tensor(value).detach().cpu() for key, value in losses.items()}
    for name, weight in model.named_parameters():
        if weight.grad is not None:
            found[f'd {name}'] = weight.grad.cpu()
    return found


def steps_apart(model: nn.Module, batch: Any, devices: Any, amp: bool, near: float) -> list[str]:
    """What differs of a training step between two devices."""
    return apart(*(step(model, batch, device, amp) for device in devices), near)


def evaluation(runner: Any, device: torch.device) -> dict[str, float]:
    """The metrics of a test, with all transforms of the config."""
    runner.model.to(device)
    torch.manual_seed(2)
    with DrawnOnCPU(), Apart():
        return runner.test()


def apart(one: dict[str, Any], other: dict[str, Any], near: float) -> list[str]:
    """What differs by more than ``near`` of its scale."""
    if one.keys() != other.keys():
        return [f'only on one device: {sorted(one.keys() ^ other.keys())}']
    one, other = ({k: torch.as_tensor(x).double() for k, x in x.items()} for x in (one, other))
    grads = [float(x.abs().max()) for key, x in one.items() if key.startswith('d ') and x.numel()]
    floor = max(grads, default=0.0) / 1e3
    found = []
    for key, x in one.items():
        gap = float((x - other[key]).abs().max()) if x.numel() else 0.0
        scale = max(
            float(x.abs().max()) if x.numel() else 0.0, floor if key.startswith('d ') else 1e-3
        )
        if not gap <= near * scale:
            found.append(f'{key}: {gap / scale:.1e} of its scale')
    return found


def check(path: Path, folder: Path) -> dict[str, Any]:
    """What agrees of a config, and what does not, in words."""
    import torch_xla

    from mmvtr.engine.launch.runner import ToolRunner

    cpu, xla = torch.device('cpu'), torch_xla.device()
    init_default_scope('mmvtr')
    cfg = simulate(Config.fromfile(path), NARROW).cfg
    cfg.train_dataloader.batch_size = 8
    cfg.work_dir, cfg.log_level = str(folder), 'ERROR'
    cfg.val_dataloader = cfg.val_cfg = cfg.val_evaluator = None
    cfg.setdefault('test_dataloader', None)
    torch.manual_seed(0)
    runner = ToolRunner.from_cfg(cfg)
    MMLogger.get_current_instance().setLevel('ERROR')
    batch = next(iter(runner.build_dataloader(cfg.train_dataloader, seed=0)))
    without_dropout(runner.model)
    results = {}
    for name, amp, near in (('step', False, NEAR), ('bf16', True, NEAR_BF16)):
        results[name] = said(partial(steps_apart, runner.model, batch, (cpu, xla), amp, near))
    if cfg.test_dataloader is not None:
        results['test'] = said(lambda: apart(*(evaluation(runner, d) for d in (cpu, xla)), NEAR))
    return results


def said(compared: Any) -> str:
    """'agrees', or what is said of it."""
    try:
        return '; '.join(compared()[:4]) or 'agrees'
    except Exception as error:
        import traceback

        places = [f for f in traceback.extract_tb(error.__traceback__) if 'mmvtr/' in f.filename]
        where = f' ({Path(places[-1].filename).name}:{places[-1].lineno})' if places else ''
        return f'{type(error).__name__}: {str(error).strip().splitlines()[0][:200]}{where}'


def _child(path: Path, out: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        try:
            found = check(path, Path(folder))
        except Unknown as error:
            found = dict(step=f'not simulated: {error}')
        except BaseException as error:
            found = dict(step=f'{type(error).__name__}: {error}')
    out.write_text(json.dumps(found))


def results(paths: list[Path], limit: float) -> Iterator[tuple[str, dict[str, Any]]]:
    """Check one config of each family, each in a process of its own."""
    context = multiprocessing.get_context('fork')  # before XLA has started in this one
    for name, alike in families(paths).items():
        (path,) = [p for p in paths if p.stem == name]
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder, 'found.json')
            child = context.Process(target=_child, args=(path, out))
            child.start()
            child.join(limit)
            if child.is_alive():
                child.kill()
                child.join()
            found = json.loads(out.read_text()) if out.is_file() else None
        yield name, dict(found or dict(step=f'no end after {limit:.0f} s'), alike=alike)


def main() -> None:
    out, names = Path(sys.argv[1]), sys.argv[2:]
    every = sorted((ROOT / 'configs').glob('*.py'))
    chosen = [p for p in every if not names or p.stem in names]
    table = json.loads(out.read_text()) if out.is_file() else {}
    for name, found in results(chosen, limit=float(os.environ.get('LIMIT', 600))):
        table[name] = found
        out.write_text(json.dumps(table, indent=1))
        print(
            name, {k: v for k, v in found.items() if k != 'alike'}, len(found['alike']), flush=True
        )


if __name__ == '__main__':
    main()
