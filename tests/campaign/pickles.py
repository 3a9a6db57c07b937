"""Files that would run code when they are read: none does, and each is refused in words.

All this with TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=1, which stands in for the default of torch 2.5.
"""

from __future__ import annotations

import os
import pickle
import random
import sys
from collections import OrderedDict
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Callable, Iterator
from unittest import mock

import numpy as np
import torch
from mmengine.config import Config
from mmengine.runner import Runner
from mmengine.runner.checkpoint import CheckpointLoader
from torch import nn

import children
import toy
from campaign.trial import Trial
from mmvtr.apis import load_retriever
from mmvtr.datasets.annotation_values import Place
from mmvtr.datasets.formats.msvd import _with_ids
from mmvtr.datasets.pickles import read_pickle
from mmvtr.datasets.videos.feature_stores import NpyFolder
from mmvtr.engine.hooks.members import MembersHook
from mmvtr.engine.hooks.stored_queries import read_bank
from mmvtr.models.backdoor import BackdoorRetriever
from mmvtr.models.towers.features import WordVectors
from mmvtr.models.towers.open_clip_weights import build_open_clip
from mmvtr.storage import read_plain
from mmvtr.storage.weights import read_checkpoint

SWITCH = 'TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD'
#: In the name of the file that a payload would write.
MARK = 'payload_ran'


class Call:
    """Pickles as a call of a function, which happens when the pickle is read."""

    def __init__(self, function: Callable, *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> tuple[Callable, tuple]:
        return self.call


class Odd:
    """Of a state that pickle passes over and torch's check stumbles on."""

    def __reduce__(self) -> tuple[type, tuple, tuple]:
        return OrderedDict, (), (None, {})


class Module(nn.Module):
    """A whole model instead of its weights, as torch.save(model) writes it."""

    def __setstate__(self, state: dict) -> None:
        Path(state['file']).touch()


def payloads(target: Path) -> dict[str, Any]:
    """Objects that would write ``target``."""
    code = f'open({str(target)!r}, "w").close()'
    module = Module()
    module.__dict__['file'] = str(target)
    return dict(
        system=Call(os.system, f'touch {target}'),
        eval=Call(eval, f'__import__("builtins").{code}'),
        exec=Call(exec, code),
        open=Call(open, str(target), 'w'),
        module=module,
        # Refused with a TypeError: who then tries again without the check runs what follows.
        retried=[Odd(), Call(exec, code)],
    )


def nestings(payload: Any) -> dict[str, Any]:
    """A payload at several places of what looks like a checkpoint."""
    weights = {'encoder.weight': torch.zeros(4, 3)}
    meta = dict(epoch=1, iter=3, seed=0)
    state = dict(meta=meta, message_hub={}, param_schedulers=[])
    groups = dict(state={}, param_groups=[dict(params=[0])])
    return dict(
        alone=payload,
        weight=dict(state, state_dict=dict(weights, w=payload), optimizer=groups),
        optimizer=dict(
            state, state_dict=weights, optimizer=dict(groups, state={0: dict(exp_avg=payload)})
        ),
        meta=dict(state, state_dict=weights, optimizer=groups, meta=dict(meta, x=[payload])),
        bank=dict(text=dict(levels=payload), video={}),
    )  # fmt: skip


def write(content: Any, path: Path, layout: str) -> None:
    """In a format of torch.save, or as a plain pickle or an array of objects."""
    if layout == 'pickle':
        path.write_bytes(pickle.dumps(content, protocol=2))
    elif layout == 'npy':
        with open(path, 'wb') as file:
            np.save(file, np.array([content, None], dtype=object), allow_pickle=True)
    else:
        torch.save(content, path, _use_new_zipfile_serialization=layout == 'zip')


def with_code(target: Path) -> dict[str, Any]:
    """A checkpoint of the toy with a config whose text writes ``target``."""
    meta = dict(epoch=1, iter=3, seed=0, config=f'open({str(target)!r}, "w").close()')
    return dict(state_dict=toy.ToyRetriever().state_dict(), meta=meta, message_hub={})


LAYOUTS = ('zip', 'legacy', 'pickle', 'npy')
_CLIP = dict(
    embed_dim=8,
    vision_cfg=dict(layers=1, width=8, head_width=8, patch_size=8, image_size=16),
    text_cfg=dict(context_length=4, vocab_size=8, width=8, heads=1, layers=1),
)


def _toy_config(folder: Path) -> Config:
    return Config.fromfile(toy.write_config(folder))


def _runner() -> Any:
    """As much of a Runner as reads a checkpoint."""
    runner = mock.Mock(model=toy.ToyRetriever(), param_schedulers=None, _randomness_cfg={})
    runner.train_dataloader.dataset = object()
    runner.load_checkpoint = partial(Runner.load_checkpoint, runner)
    return runner


def _members(path: Path, folder: Path) -> None:
    runner = mock.Mock(iter=0, train_dataloader=mock.Mock(dataset=object()))
    runner.model = BackdoorRetriever.__new__(BackdoorRetriever)
    nn.Module.__init__(runner.model)
    runner.model.members = nn.ModuleList([toy.ToyRetriever()])
    MembersHook(init_from=str(path)).before_train(runner)


def _store(path: Path, folder: Path) -> None:
    """Features as a file of a folder."""
    name = path.with_suffix('.npy')
    name.write_bytes(path.read_bytes())
    NpyFolder(path.parent).read(path.stem)


def _vectors(path: Path, folder: Path) -> None:
    name = path.with_suffix('.npy')
    name.write_bytes(path.read_bytes())
    WordVectors(8, 4, pretrained=str(name))


#: name -> a call that reads a file of (path, folder); of the engine and the parts of models.
READERS: dict[str, Callable[[Path, Path], Any]] = {
    'read_plain': lambda path, folder: read_plain(path, kind='file'),
    'read_checkpoint': lambda path, folder: read_checkpoint(path),
    'read_bank': lambda path, folder: read_bank(str(path)),
    'load_retriever': lambda path, folder: load_retriever(_toy_config(folder), path, device='cpu'),
    'MembersHook': _members,
    'word vectors': lambda path, folder: WordVectors(8, 4, pretrained=str(path)),
    'word vectors, npy': _vectors,
    'open_clip': lambda path, folder: build_open_clip(_CLIP, str(path)),
    'features, npy': _store,
    'MSVD': lambda path, folder: _with_ids(read_pickle(path, 'captions'), Place(path)),
    "mmengine's loader": lambda path, folder: CheckpointLoader.load_checkpoint(str(path), 'cpu'),
    'Runner, load_from': lambda path, folder: _runner().load_checkpoint(str(path)),
    'Runner, resume': lambda path, folder: Runner.resume(_runner(), str(path)),
}
#: name -> arguments of a tool that reads the file ``{path}``.
TOOLS = {
    'train.py load_from': ('train.py', 'toy_config.py', '--cfg-options', 'load_from={path}'),
    'train.py --resume': ('train.py', 'toy_config.py', '--resume', '{path}'),
    'test.py': ('test.py', 'toy_config.py', '{path}'),
    'convert.py': ('model_converters/convert.py', 'uatvr', '{path}', 'out.pth'),
    'fuse.py': ('model_converters/fuse.py', 'toy_config.py', '{path}', '{path}', '--out', 'out'),
    'export_index.py': (
        *('export_index.py', 'toy_config.py', '{path}', '--out', 'out'),
        *('--transform', 'sinkhorn', '--bank', '{path}'),
    ),
    'expert_pickles.py': ('dataset_converters/expert_pickles.py', 'videos', 'out.h5', '{path}'),
    'export_bank.py': ('export_bank.py', 'toy_config.py', '{path}', '--out', 'bank.pth'),
}


def run(count: int, seed: int, folder: Path) -> list[Trial]:
    """Read ``count`` files with payloads; every tenth one through a tool, in a process of its own.

    Readers, payloads, their places and the formats are drawn; each reader has its row.
    """
    draw = random.Random(seed)
    readers, tools = list(READERS), list(TOOLS)
    draw.shuffle(readers)
    draw.shuffle(tools)
    trials = []
    for number in range(count):
        here = folder / str(number)
        here.mkdir(parents=True)
        target, path = here / MARK, here / 'evil.pth'
        kind = draw.choice(list(payloads(target)))
        place = draw.choice(list(nestings(None)))
        layout = draw.choice(LAYOUTS)
        tool = number % 10 == 9
        if draw.random() < 0.1 and not tool:
            # Nothing but text, which mmengine would run; a reader may well read the rest.
            kind, place, layout = 'text', 'config', 'zip'
            torch.save(with_code(target), path)
        else:
            write(nestings(payloads(target)[kind])[place], path, layout)
        repeat = f'{kind} in {place}, {layout}, {path}'
        with switched_off():
            if tool:
                row = tools[number // 10 % len(tools)]
                trials.append(through_tool(row, path, here, repeat))
            else:
                row = readers[number % len(readers)]
                trials.append(through(row, path, here, repeat))
        if place == 'config' and trials[-1].verdict == 'silent':
            trials[-1] = Trial(row, 'right')
        if target.exists():
            trials[-1] = Trial(row, 'lost', repeat)
    return trials


@contextmanager
def switched_off() -> Iterator[None]:
    """Torch's own check is off where a call does not ask for it."""
    with mock.patch.dict(os.environ, {SWITCH: '1'}):
        yield


def through(row: str, path: Path, folder: Path, repeat: str) -> Trial:
    """Read a file in this process."""
    try:
        READERS[row](path, folder)
    except (ValueError, RuntimeError, FileNotFoundError) as error:
        return judge(row, str(error), path, repeat)
    except Exception as error:
        return Trial(row, 'raw', f'{repeat}: {type(error).__name__}: {str(error)[:300]}')
    return Trial(row, 'silent', repeat)


def through_tool(row: str, path: Path, folder: Path, repeat: str) -> Trial:
    """Give a file to a tool."""
    toy.write_config(folder)
    arguments = [argument.format(path=path) for argument in TOOLS[row]]
    child = children.start_tool(folder, *arguments, environ={SWITCH: '1'})
    child.join(120)
    if child.exitcode is None:
        child.kill()
        return Trial(row, 'hang', repeat)
    said = children.log_of(folder, child).read_text()
    if child.exitcode == 0:
        return Trial(row, 'silent', f'{repeat}: {said}')
    if 'Traceback' in said:
        return Trial(row, 'raw', f'{repeat}: {said}')
    return judge(row, said.partition('error: ')[2], path, repeat)


def judge(row: str, words: str, path: Path, repeat: str) -> Trial:
    """Whether a refusal says what it should, and does not say how to run the payload."""
    if 'weights_only' in words or 'torch.load' in words:
        return Trial(row, 'silent', f'{repeat}: advises to switch the check off: {words}')
    if path.stem not in words:
        return Trial(row, 'nameless', f'{repeat}: {words}')
    if len(words) > 500 + 2 * len(str(path)):
        return Trial(row, 'long', f'{repeat}: {words}')
    return Trial(row, 'refused')


def payload_works(folder: Path) -> bool:
    """Whether every payload would run, read by a reader that does not look."""
    for kind in payloads(folder):
        target, path = folder / f'{kind}_{MARK}', folder / f'{kind}.pth'
        write(nestings(payloads(target)[kind])['optimizer'], path, 'zip')
        with switched_off(), open(os.devnull, 'w') as nowhere:
            stderr, sys.stderr = sys.stderr, nowhere
            try:
                torch.load(path, weights_only=False)
            except Exception:
                pass
            finally:
                sys.stderr = stderr
        if not target.exists():
            return False
    return True
