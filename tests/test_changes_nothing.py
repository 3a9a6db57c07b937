"""Importing, registering, training and searching change nothing of another package."""

import os
import subprocess
import sys

import toy
from children import ROOT

#: A program that has imported what mmvtr imports; it prints what each step has changed.
PROGRAM = '''
import gc
import signal
import sys
from types import ModuleType

import av, mmcv, numpy, open_clip, safetensors.torch, torch, torchvision, transformers
import mmengine.hub, mmengine.runner, mmengine.visualization, mmengine._strategy
import mmengine.model, mmengine.optim, torch.distributed.fsdp
from mmengine import registry as roots
from mmengine.config.utils import MODULE2PACKAGE

torch.optim.SGD([torch.ones(1, requires_grad=True)], 1.0)  # the first one replaces its own step
OURS = ('mmvtr', 'toy', '__main__')  # and the test's own parts
PATCHED = (type, ModuleType, staticmethod, classmethod, property)


def foreign():
    """Modules of all other packages, by name."""
    return {n: m for n, m in sys.modules.items() if n.partition('.')[0] not in OURS}


def attributes():
    """Attributes of their modules, and of the classes that each defines."""
    found = {}
    for name, module in foreign().items():
        for key, value in vars(module).copy().items():
            found[f'{name}.{key}'] = value
            if isinstance(value, type) and value.__module__ == name:
                found.update({f'{name}.{key}.{k}': v for k, v in vars(value).items()})
    return found


def registries():
    known = {k: r for k, r in vars(roots).items() if isinstance(r, roots.Registry)}
    return {
        **{
            f'{k} {name}': one
            for k, r in known.items()
            for name, one in r.module_dict.items()
            if one.__module__ != 'toy'
        },
        **{f'{k} child {name}': r for k, r in known.items() for name, r in r.children.items()},
    }


def settings():
    signals = {f'signal {n}': signal.getsignal(n) for n in signal.valid_signals()}
    hooks = {'meta_path': [*sys.meta_path], 'path_hooks': [*sys.path_hooks]}
    collector = (gc.isenabled(), gc.get_threshold(), gc.get_freeze_count(), [*gc.callbacks])
    return {**signals, **hooks, 'collector': collector, 'packages': {**MODULE2PACKAGE}}


def ours(value):
    return str(getattr(value, '__module__', '')).partition('.')[0] == 'mmvtr'


def replaced(before, after):
    for name, value in after.items():
        old = before.get(name, value)
        if old is not value and any(callable(x) or isinstance(x, PATCHED) for x in (old, value)):
            yield f'replaced: {name}'
        elif name not in before and (ours(value) or ours(type(value))):
            yield f'added: {name}'


def faked(before, after):
    for name, module in after.items():
        if before.get(name) is module or 'expat.' in name:  # whose parts are made in C
            continue
        loader = getattr(getattr(module, '__spec__', None), 'loader', None)
        if before.get(name, module) is not module:
            yield f'other module: {name}'
        elif ours(type(module)) or ours(type(loader)) or loader is None:
            yield f'no module of its own: {name}'
    yield from (f'module gone: {name}' for name in before.keys() - after.keys())


def changes(step, run):
    before = foreign(), attributes(), registries(), settings()
    run()
    found = [*faked(before[0], foreign()), *replaced(before[1], attributes())]
    for old, new in zip(before[2:], (registries(), settings())):
        differ = (k for k in old.keys() | new.keys() if old.get(k) != new.get(k))
        found += [f'changed: {name}' for name in differ]
    for one in sorted(found):
        print(f'{step}: {one}', flush=True)


def imported():
    import mmvtr
    import mmvtr.apis.inferencer
    import mmvtr.engine
    import mmvtr.registry
    import mmvtr.utils


def registered():
    mmvtr.registry.register_all_modules()


def trained():
    cfg = mmvtr.utils.load_config('config.py')
    cfg.work_dir = 'run'
    mmvtr.engine.ToolRunner.from_cfg(cfg).train()


def searched():
    inferencer = mmvtr.apis.inferencer.VideoRetrievalInferencer
    find = inferencer('config.py', 'run/epoch_3.pth', 'cpu', show_progress=False, gallery='.')
    assert len(find('a', topk=2)['predictions'][0]['hits']) == 2


for run in (imported, registered, trained, searched):
    if run is registered:
        import mmvtr.registry
    changes(run.__name__, run)
print('end')
'''


def test_nothing_of_another_package_changes(tmp_path, write_video):
    """But for the scope's registries, and mmengine's table of packages, which gets our name."""
    for n, name in enumerate('abcd'):
        write_video(tmp_path / f'{name}.mp4', [60 * n, 90, 10, 200])
    (tmp_path / 'config.py').write_text(toy.RETRIEVAL)
    (tmp_path / 'program.py').write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, 'program.py'],
        cwd=tmp_path,
        env={**os.environ, 'PYTHONPATH': f'{ROOT}:{ROOT}/tests'},
        capture_output=True,
        text=True,
    )
    found = [line for line in done.stdout.splitlines() if line.startswith(STEPS)]
    assert not done.returncode and done.stdout.endswith('end\n'), done.stderr[-3000:]
    children = [line for line in found if line.endswith(' child mmvtr')]
    assert len(children) > 10 and all(line.startswith('imported: changed: ') for line in children)
    assert [line for line in found if line not in children] == ['imported: changed: packages']


STEPS = ('imported: ', 'registered: ', 'trained: ', 'searched: ')
