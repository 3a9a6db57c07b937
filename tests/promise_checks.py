"""Does a command do what its page promises?  Run on miniatures (tests/small_configs.py)."""

from __future__ import annotations

import json
import math
import pickle
import re
import shlex
from pathlib import Path
from typing import Any, Callable, NamedTuple, Optional

import numpy as np
import torch

import miniatures
from children import ROOT
from conftest import render
from mmvtr.registry import MODELS
from mmvtr.utils import forget_pretrained, register_all_modules
from promises import Command, columns, table_of
from small_configs import as_it_is, run_small, small_config, small_towers

#: How a tool's configs become small; default: :func:`small_config`.
READERS = {
    'sweep.py': as_it_is,  # its commands are miniatures
    'preflight.py': as_it_is,
    'rehearse.py': as_it_is,
    'analysis_tools/cost.py': small_towers,
    'analysis_tools/token_attention.py': small_towers,
    'dataset_converters/check_dataset.py': as_it_is,
    'dataset_converters/expert_pickles.py': as_it_is,
    'dataset_converters/word_vocabulary.py': as_it_is,
}
#: What a page writes CONFIG for, by tool.
CONFIG = {
    'analysis_tools/ambiguity.py': 'arl_planted_features',
    'analysis_tools/length_bias.py': 'hgr_epic',
    'analysis_tools/token_attention.py': 'uatvr_vitb16_msrvtt',
    'dataset_converters/check_dataset.py': 'dvtr_c2v_msrvtt',
    'export_index.py': 'ncl_clip4clip_planted',
    'find_moments.py': 'arl_planted',
}
#: Checkpoints by the names that pages give them.
CHECKPOINTS = {
    'DVTR.pth': 'dvtr_c2v_planted_features',
    'BASELINE.pth': 'c2v_planted_features',
    'SHORT.pth': 'hgr_epic_short',
    'LONG.pth': 'hgr_epic_long',
}
#: What a page would have run for hours, and what is enough here.
SHORTER = {'rehearse.py': ['--steps', '2', '--out', 'rehearsal']}
#: Where nothing can be drawn of a dozen items, the words that say so.
NOTHING_TO_DRAW = {'causal_b': 'has no failure that may come from lengths'}
NUMBER = re.compile(r'-?\d[\d.]*(e[-+]\d+)?')


class Room(NamedTuple):
    """A folder like a clone's, with a few files of each set, where commands are run.

    Attributes:
        folder: it.
        before: called in the process of each command, before it starts.
    """

    folder: Path
    before: Optional[Callable[[], None]] = None

    def run(self, tool: str, *arguments: str) -> tuple[int, str]:
        reader = READERS.get(tool, small_config)
        return run_small(self.folder, tool, *arguments, reader=reader, before=self.before)

    def trained(self, config: str, tool: str) -> str:
        """A checkpoint of a config's miniature, which is trained where there is none yet."""
        place = self.folder / 'work_dirs' / config
        if not (place / 'last_checkpoint').is_file():
            reader = READERS.get(tool, small_config)
            options = ['--best-on-test'] if config == 'uatvr_planted_features' else []
            given = (f'configs/{config}.py', *options)
            code, said = run_small(self.folder, 'train.py', *given, reader=reader)
            assert code == 0, said[-2000:]
        best = place / 'best.pth'
        last = place / Path((place / 'last_checkpoint').read_text()).name
        return str((best if best.is_file() else last).relative_to(self.folder))


def furnish(folder: Path) -> Path:
    """Configs, annotations and videos of small sets, and the files that pages name."""
    for name in ('configs', 'tools'):
        (folder / name).symlink_to(ROOT / name)
    sets = dict(msrvtt='mp4', msvd='avi', epic='', youcook2='', tvr='')
    for name in sets:
        (folder / 'data' / name / 'videos').mkdir(parents=True)
    miniatures.write_msrvtt(folder / 'data/msrvtt')
    miniatures.write_msvd(folder / 'data/msvd')
    miniatures.write_epic(folder / 'data/epic')
    miniatures.write_youcook2(folder / 'data/youcook2', miniatures.youcook2_database())
    greys = range(0, 100, 10)
    for number in range(5):
        render(folder / f'data/msrvtt/videos/video{number}.mp4', greys)
    for name in miniatures.MSVD_CAPTIONS:
        render(folder / f'data/msvd/videos/{name}.avi', greys)
    for name in ('a', 'b', 'new'):
        render(folder / f'{name}.mp4', greys, size=(64, 64))
    write_tvr(folder)
    write_tbn(folder)
    for name in ('s3d', 'vggish', 'senet154'):
        features = {f'video{n}': np.ones((2, 4), np.float32) for n in range(5)}
        (folder / f'{name}.pickle').write_bytes(pickle.dumps(features, protocol=2))
    (folder / 'glove.42B.300d.txt').write_text('take 1 2 3\ncup 4 5 6\n')
    draws = np.random.default_rng(0)
    for name in ('scores', 'SCORES', 'train_texts_x_videos', 'texts_x_train_videos'):
        np.save(folder / f'{name}.npy', draws.normal(size=(12, 12)).astype(np.float32))
    np.save(folder / 'POSITIVES.npy', np.eye(12, dtype=bool))
    return folder


def write_tvr(folder: Path) -> None:
    """Two videos a split, with frames and words at the widths that the configs of TVR read."""
    from mmvtr.datasets import TVRDataset

    for split, videos in (('train', 'cd'), ('test', 'ab')):
        miniatures.write_prvr(folder / 'data/tvr', TVRDataset, split, videos)


def write_tbn(folder: Path) -> None:
    """Pickles of TBN features, a row for each line of the annotations that the page fetches."""
    place = folder / 'data/epic/retrieval_annotations'
    place.mkdir(exist_ok=True)
    for part in ('train', 'test'):
        file = place / f'EPIC_100_retrieval_{part}.csv'
        rows = len(file.read_text().splitlines()) - 1
        arrays = {
            name: np.ones((rows, 5, width), np.float32)
            for name, width in dict(RGB=4, Flow=3, Audio=2).items()
        }
        (folder / f'features_{part}.pkl').write_bytes(pickle.dumps(arrays))


# -- a command ---------------------------------------------------------------------------------


def check(command: Command, room: Room) -> None:
    """Run it, and see that it gives what its row and its tool promise.

    Raises:
        AssertionError: it does not; says the command and what it printed.
    """
    tool = command.tool
    arguments = filled(command, room)
    if tool == 'dist_train.sh':  # the processes' joint batch is checked where it is read
        tool, arguments = 'train.py', [arguments[0], *arguments[2:]]
    code, printed = room.run(tool, *arguments)
    told = f'{command.place}: {command.line}\n{printed[-2500:]}'
    CHECKS.get(tool, ended_well)(Done(command, room, arguments, code, printed, told))


class Done(NamedTuple):
    """A command that was run: with which words, how it ended, and what it printed."""

    command: Command
    room: Room
    arguments: list[str]
    code: int
    printed: str
    told: str

    def after(self, option: str) -> list[str]:
        """The words behind an option, up to the next one."""
        if option not in self.arguments:
            return []
        rest = self.arguments[self.arguments.index(option) + 1 :]
        ends = [i for i, word in enumerate(rest) if word.startswith('--')]
        return rest[: ends[0]] if ends else rest


def filled(command: Command, room: Room) -> list[str]:
    """The words behind the tool, with real names in place of CONFIG, CHECKPOINT, DIR and so on."""
    tool = command.tool
    start = next(i for i, word in enumerate(command.words) if word.startswith('tools/'))
    words, config = list(command.words[start + 1 :]), CONFIG.get(tool)
    made = []
    for word in words:
        stem = word.removesuffix('.pth')
        if word == 'CONFIG':
            made.append(f'configs/{config}.py')
        elif word == 'CHECKPOINT':
            made.append(room.trained(config, tool))
        elif word in CHECKPOINTS:
            made.append(room.trained(CHECKPOINTS[word], tool))
        elif re.fullmatch(r'epoch_\d+\.pth', word):
            kept = room.trained(command.configs[0], tool)
            made.append(f'{Path(kept).parent}/{word}')
        elif word.endswith('best.pth'):
            room.trained('uatvr_vitb16_msrvtt', tool)  # the page trains it with --best-on-test
            made.append(room.trained(Path(word).parent.name, tool))
        elif word.endswith('.pth') and (ROOT / f'configs/{stem}.py').is_file():
            made.append(room.trained(stem, tool))
        elif word == 'FILE.bank':
            made.append(bank(room))
        else:
            made.append(dict(DIR='out', VERB='0', NOUN='54').get(word, word))
    if tool == 'search.py':
        made[made.index('out')] = gallery(room)
    if tool == 'export_index.py':
        made.append('--replace')
    if tool == 'find_moments.py':
        made = [dict(a='a').get(word, word) for word in made]
    if tool == 'rehearse.py':
        made = [w for i, w in enumerate(made) if '--steps' not in made[max(i - 1, 0) : i + 1]]
        made = [w for i, w in enumerate(made) if '--out' not in made[max(i - 1, 0) : i + 1]]
    return made + SHORTER.get(tool, [])


def bank(room: Room) -> str:
    """A bank of a trained config's queries."""
    config = CONFIG['export_index.py']
    given = (f'configs/{config}.py', room.trained(config, 'export_index.py'), '--out', 'train.bank')
    if not (room.folder / 'train.bank').is_file():
        code, printed = room.run('export_bank.py', *given)
        assert code == 0, printed[-2000:]
    return 'train.bank'


def gallery(room: Room) -> str:
    """A gallery of a trained config."""
    config = CONFIG['export_index.py']
    if not (room.folder / 'gallery').is_dir():
        given = (f'configs/{config}.py', room.trained(config, 'export_index.py'))
        code, printed = room.run('export_index.py', *given, '--out', 'gallery')
        assert code == 0, printed[-2000:]
    return 'gallery'


# -- by tool -----------------------------------------------------------------------------------


def ended_well(done: Done) -> None:
    """Status 0, and each file that ``--out`` or ``--plot`` names."""
    assert done.code == 0, done.told
    for option in ('--out', '--plot'):
        for name in done.after(option)[:1]:
            assert (done.room.folder / name).exists(), f'no {name}: {done.told}'


def gives_the_row(done: Done) -> None:
    """A training or a test: the table of the test has all columns of the paper's table."""
    assert done.code == 0, done.told
    results = results_of(done.room.folder, done.command.configs[0])
    section, table = table_of(done.command)
    for key in columns(section).of(table, done.command.configs[0]) if section else ():
        assert math.isfinite(results.get(key, math.nan)), f'no {key}: {done.told}'
    assert 'protocol: ' in done.printed, done.told
    if '--best-on-test' in done.arguments:
        chosen = re.search(r'chosen on test by (\S+)', done.printed.replace('\n          ', ' '))
        assert chosen, done.told
        assert chosen[1] in results, f'{chosen[1]} of {done.told}'


def results_of(folder: Path, config: str) -> dict[str, float]:
    """Of the newest test of a config."""
    logs = sorted((folder / 'work_dirs' / config).glob('*/*.json'))
    logs = [path for path in logs if path.stem == path.parent.name]
    return json.loads(logs[-1].read_text())


def fills_the_table(done: Done) -> None:
    """A sweep: every run has a number in every column; the commands of ``--dry`` name the
    checkpoints that trainings leave."""
    assert done.code == 0, done.told
    if '--list' in done.arguments:
        return
    if '--dry' in done.arguments:
        assert done.printed.count('train.py') > 2, done.told
        return
    lines = [line for line in done.printed.splitlines() if line.startswith('| ')]
    heads, *rows = [[cell.strip() for cell in line.strip('|').split('|')] for line in lines]
    ours = [i for i, head in enumerate(heads) if i and not head.endswith(', printed')]
    assert ours and rows, done.told
    for row in rows:
        for place in ours:
            assert NUMBER.match(row[place]), f'{row[0]}: no {heads[place]}: {done.told}'
    names_what_is_left(done)


def names_what_is_left(done: Done) -> None:
    """Each checkpoint that ``--dry`` names is one that the sweep's trainings have left."""
    name = done.arguments[0]
    code, printed = run_small(
        done.room.folder, 'sweep.py', name, '--dry', '--work', 'dry', before=done.room.before
    )
    assert code == 0, printed[-2000:]
    for line in printed.splitlines():
        if '/test.py' not in line:
            continue
        for word in shlex.split(line):
            if word.startswith('dry/') and word.endswith('.pth'):
                left = done.room.folder / 'work_dirs/sweeps' / name / word.removeprefix('dry/')
                assert left.is_file(), f'--dry names {word}, which no training leaves: {line}'


def draws(done: Done) -> None:
    """Every figure that was asked for, as a picture that is there."""
    if '--list' in done.arguments:
        return ended_well(done)
    named = done.after('--figure')
    (lacks,) = [NOTHING_TO_DRAW.get(name) for name in named] if len(named) == 1 else [None]
    if lacks is not None and done.code:
        assert lacks in done.printed, done.told
        return
    assert done.code == 0 and 'is left out' not in done.printed.partition('protocol: ')[2], done.told
    pictures = [path.name for path in (done.room.folder / done.after('--out')[0]).glob('*.png')]
    by_tool = ('causal2', 'arl4')  # another tool's pictures, by its names
    for name in named:
        assert any(p.startswith(name) for p in pictures) or (name in by_tool and pictures), done.told


def counts(done: Done) -> None:
    """A row a config, whose parameters are those of the model that is built."""
    assert done.code == 0, done.told
    rows = [
        [cell.strip() for cell in line.strip('|').split('|')]
        for line in done.printed.splitlines()
        if line.startswith('| ')
    ]
    heads, found = rows[0], {row[0].strip('`'): dict(zip(rows[0], row)) for row in rows[1:]}
    assert {'M parameters', 's a step'} < set(heads), done.told
    register_all_modules()
    for config in done.command.configs:
        cfg = small_towers(str(ROOT / f'configs/{config}.py'))
        forget_pretrained(cfg.model)
        with torch.device('meta'):
            built = sum(p.numel() for p in MODELS.build(cfg.model).parameters()) / 1e6
        row = found[config]
        stated = float(row.get('M parameters, with towers') or row['M parameters'])
        assert abs(stated / built - 1) < 1e-3, f'{config}: {stated} M, built {built:.4g}: {done.told}'


def says_what_is_missing(done: Done) -> None:
    """Without weights and features: status 1, and every row."""
    assert done.code == 1, done.told
    for row in ('train', 'weights', 'batch', 'memory', 'steps', 'hours', 'protocol', 'paper'):
        assert f'\n{row} ' in done.printed, f'no {row}: {done.told}'
    assert '\nto do\n' in done.printed, done.told


def counts_what_is_there(done: Done) -> None:
    """Each split is there, or is named as missing with the status for that."""
    splits = re.findall(r'^(train|val|test): (dataset|MISSING)', done.printed, re.MULTILINE)
    assert {split for split, _ in splits} >= {'train', 'test'}, done.told
    assert done.code == any(how == 'MISSING' for _, how in splits), done.told


def writes_a_store(done: Done) -> None:
    assert done.code == 0 and Path(done.room.folder, done.arguments[-2]).exists(), done.told


CHECKS: dict[str, Any] = {
    'train.py': gives_the_row,
    'test.py': gives_the_row,
    'sweep.py': fills_the_table,
    'analysis_tools/figures.py': draws,
    'analysis_tools/cost.py': counts,
    'preflight.py': says_what_is_missing,
    'dataset_converters/check_dataset.py': counts_what_is_there,
}
