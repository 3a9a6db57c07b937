"""Two trainings that are started in one folder: one runs to its end, the other one is refused."""

from __future__ import annotations

import json
import multiprocessing
import random
import subprocess
import time
from pathlib import Path

import torch

import children
from campaign.trial import Trial
from mmvtr.engine.loops.checkpoint import latest_checkpoint
from mmvtr.engine.loops.facts import BEST
from mmvtr.storage.atomic import this_process
from mmvtr.storage.lock import NAME
from mmvtr.storage.weights import read_checkpoint

#: A planted config on six clips, three epochs.
CONFIG = f"""
_base_ = ['{children.ROOT}/configs/clip4clip_planted.py']
corpus = dict(num_train=6, num_val=2, num_test=2, data_root='{{data}}')
words = [dict(type='WordTokenize', vocab_file='{{data}}/vocab.txt')]
frames = [dict(type='LoadVideo', sampling='uniform', num_frames=2)]
loader = dict(batch_size=3, num_workers=0, persistent_workers=False)
data = dict(**corpus, video_pipeline=frames, text_pipeline=words)
train_dataloader = dict(**loader, dataset=data)
val_dataloader = dict(**loader, dataset=data)
test_dataloader = dict(**loader, dataset=data)
train_cfg = dict(max_epochs=3, val_interval=1)
"""
CONFIG_NAME = 'tiny.py'
#: Seconds that a training may take.
PATIENCE = 120.0
SEEDS = (0, 1)


def run(count: int, seed: int, folder: Path) -> list[Trial]:
    """Start two trainings of different seeds in one folder, ``count`` times.

    Half of the pairs start at the same moment, every other one of them where a killed run has left
    its lock; in the other half a ``--resume`` comes at any time beside a run that lives.  The one
    that runs must end with the very weights, best checkpoint and files of a run that was alone.
    """
    draw = random.Random(seed)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / CONFIG_NAME).write_text(CONFIG.format(data=folder / 'data'))
    first = start(folder, folder / 'alone_0', '--seed', 0)
    first.join(PATIENCE)
    if first.exitcode != 0:
        raise RuntimeError(f'the tiny training fails: {printed(folder, first)}')
    alone = {0: outcome(folder / 'alone_0')}
    kinds = (simultaneous, beside, on_a_stale_lock, beside)
    return [
        kinds[number % len(kinds)](folder, folder / f'pair_{number}', alone, draw)
        for number in range(count)
    ]


def simultaneous(folder: Path, work: Path, alone: dict, draw: random.Random) -> Trial:
    """Both at the same moment."""
    pair = [start(folder, work, '--seed', number) for number in SEEDS]
    return judge('start + start', folder, work, pair, dict(zip(pair, SEEDS)), alone)


def on_a_stale_lock(folder: Path, work: Path, alone: dict, draw: random.Random) -> Trial:
    """Both at the same moment, after a run that was killed."""
    work.mkdir()
    dead = subprocess.Popen(['true'])
    dead.wait()
    text = dict(this_process()._replace(pid=dead.pid)._asdict(), since='before', nonce='')
    (work / NAME).write_text(json.dumps(text))
    pair = [start(folder, work, '--seed', number) for number in SEEDS]
    return judge('start + start, stale lock', folder, work, pair, dict(zip(pair, SEEDS)), alone)


def beside(folder: Path, work: Path, alone: dict, draw: random.Random) -> Trial:
    """A ``--resume`` while the other one runs: before its first checkpoint, or at any time."""
    number = draw.choice(SEEDS)
    first = start(folder, work, '--seed', number)
    wanted = work / draw.choice([NAME, NAME, 'last_checkpoint'])
    while not wanted.exists() and first.exitcode is None:
        time.sleep(0.01)
    time.sleep(draw.uniform(0, 0.2))
    if first.exitcode is not None:
        return Trial('run + resume', 'raw', f'the run ended early: {printed(folder, first)}')
    pair = [first, start(folder, work, '--resume')]
    return judge('run + resume', folder, work, pair, {first: number}, alone)


def start(folder: Path, work: Path, *arguments) -> multiprocessing.Process:
    """tools/train.py in a process of its own."""
    return children.start_tool(
        folder, 'train.py', CONFIG_NAME, '--work-dir', work, *arguments
    )  # fmt: skip


def judge(row, folder, work, pair, seeds, alone) -> Trial:
    """How a pair went; ``seeds`` has those who may run, ``alone`` what each one leaves behind."""
    end = time.monotonic() + PATIENCE
    for process in pair:
        process.join(max(0.0, end - time.monotonic()))
    said = '\n'.join(printed(folder, process) for process in pair)
    if any(process.exitcode is None for process in pair):
        for process in pair:
            process.kill()
        return Trial(row, 'hang', said)
    ran = [process for process in pair if process.exitcode == 0]
    if len(ran) != 1 or ran[0] not in seeds:
        codes = [process.exitcode for process in pair]
        return Trial(row, 'lost', f'exit codes {codes}\n{said}')
    refused = next(process for process in pair if process is not ran[0])
    words = printed(folder, refused).strip()
    if 'Traceback' in words or not words.splitlines()[-1].startswith('error: '):
        return Trial(row, 'raw', words)
    if str(work) not in words or f'process {ran[0].pid} of ' not in words:
        return Trial(row, 'nameless', words)
    if len(words.splitlines()[-1]) > 500:
        return Trial(row, 'long', words)
    seed = seeds[ran[0]]
    if seed not in alone:
        start(folder, folder / f'alone_{seed}', '--seed', seed).join(PATIENCE)
        alone[seed] = outcome(folder / f'alone_{seed}')
    if outcome(work) != alone[seed]:
        return Trial(row, 'lost', f'other weights or files than alone\n{said}')
    return Trial(row, 'refused')


def printed(folder: Path, process: multiprocessing.Process) -> str:
    """What a process has printed."""
    return children.log_of(folder, process).read_text()


def outcome(work: Path) -> dict:
    """All that a finished run leaves behind but logs: names of files, weights, moments, score."""
    files = {path.name for path in work.iterdir() if path.is_file()}
    last = read_checkpoint(latest_checkpoint(work))
    hub = last['message_hub']['runtime_info']
    best = read_checkpoint(work / BEST)
    tensors = {f'last {name}': x for name, x in last['state_dict'].items()}
    tensors.update({f'best {name}': x for name, x in best['state_dict'].items()})
    for number, state in last['optimizer']['state'].items():
        tensors.update({f'{number} {name}': torch.as_tensor(x) for name, x in state.items()})
    values = {name: x.numpy().tobytes() for name, x in tensors.items()}
    return dict(values, files=files, seed=last['meta']['seed'], score=hub['best_score'])
