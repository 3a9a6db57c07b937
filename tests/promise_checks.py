"""Does a command do what its page promises?  Run on miniatures (tests/small_configs.py)."""

from __future__ import annotations

import copy
import functools
import json
import math
import pickle
import re
import runpy
import shlex
import shutil
from pathlib import Path
from typing import Any, Callable, NamedTuple, Optional
from unittest import mock

import numpy as np
import torch
from mmengine.config import Config

import miniatures
from children import ROOT, config_file, config_path, tool_file
from mmvtr.engine.checks.config_checks import check_config
from mmvtr.engine.checks.metric_checks import is_reported, reported_by_config
from mmvtr.models import TransformersText
from mmvtr.registry import DATASETS, MODELS
from mmvtr.studies.reading import batch_per_process, read_study
from mmvtr.utils import config_names, forget_pretrained, load_config, register_all_modules
from paper_figures import FIGURES
from promises import DRAWN, Command, columns, headings, table_of, table_of_study
from small_configs import as_it_is, run_small, small_config, small_towers

#: How a tool's configs become small; default: :func:`small_config`.
READERS = {
    'study.py': as_it_is,  # its commands are miniatures
    'preflight.py': as_it_is,
    'cost.py': small_towers,
    'token_attention.py': small_towers,
    'dataset_converters/check_dataset.py': as_it_is,
    'dataset_converters/expert_pickles.py': as_it_is,
    'dataset_converters/word_vocabulary.py': as_it_is,
}
#: What a page writes CONFIG for, by tool.
CONFIG = {
    'analysis_tools/ambiguity.py': 'arl_planted_features',
    'analysis_tools/length_bias.py': 'hgr_epic',
    'token_attention.py': 'uatvr_vitb16_msvd',
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
#: Tables whose configs serve others, too, and choose by those: the page says the option.
CHOSEN_BY_AN_OPTION = {('Frame length (causal intervention)', '7')}
#: Where nothing can be drawn of a dozen items, the words that say so.
NOTHING_TO_DRAW = {'causal_b': 'has no failure that may come from lengths'}
NUMBER = re.compile(r'-?\d[\d.]*(e[-+]\d+)?')


class Room(NamedTuple):
    """A folder like a clone's, with a few files of each set, where commands are run.

    Attributes:
        folder: it.
        known: of the commands that were run, their words, status and what they printed.
        before: called in the process of each command, before it starts.
        tools: the folder of the tools; None: where they are.
    """

    folder: Path
    known: dict[str, tuple[list[str], int, str]]
    before: Optional[Callable[[], None]] = None
    tools: Optional[Path] = None

    def run(self, tool: str, *arguments: str) -> tuple[int, str]:
        if tool == 'study.py' and arguments and '--dry' not in arguments:
            work = self.folder / 'work_dirs/studies' / arguments[0]  # of another protocol, maybe
            shutil.rmtree(work, ignore_errors=True)
        reader = READERS.get(tool, small_config)
        how = dict(reader=reader, before=self.before, tools=self.tools)
        return run_small(self.folder, tool, *arguments, **how)

    def trained(self, config: str, tool: str) -> str:
        """A checkpoint of a config's miniature, which is trained where there is none yet."""
        place = self.folder / 'work_dirs' / config
        if not (place / 'last_checkpoint').is_file():
            reader = READERS.get(tool, small_config)
            options = ['--best-on-test'] if config == 'uatvr_planted_features' else []
            given = (config_path(config), *options)
            code, said = run_small(self.folder, 'train.py', *given, reader=reader)
            assert code == 0, said[-2000:]
        best = place / 'best.pth'
        last = place / Path((place / 'last_checkpoint').read_text()).name
        return str((best if best.is_file() else last).relative_to(self.folder))


def furnish(folder: Path, write_video: Callable[..., Any]) -> Path:
    """Configs, annotations and videos of small sets, and the files that pages name."""
    for name in ('configs', 'tools'):
        (folder / name).symlink_to(ROOT / name)
    for name in ('msrvtt', 'msvd', 'vatex', 'lsmdc', 'epic', 'youcook2', 'tvr'):
        (folder / 'data' / name / 'videos').mkdir(parents=True)
    miniatures.write_msrvtt(folder / 'data/msrvtt')
    miniatures.write_msvd(folder / 'data/msvd')
    miniatures.write_vatex(folder / 'data/vatex')
    miniatures.write_lsmdc(folder / 'data/lsmdc')
    miniatures.write_epic(folder / 'data/epic')
    miniatures.write_youcook2(folder / 'data/youcook2', miniatures.youcook2_database())
    greys = range(0, 100, 10)
    for number in range(5):
        write_video(folder / f'data/msrvtt/videos/video{number}.mp4', greys)
    for name in miniatures.MSVD_CAPTIONS:
        write_video(folder / f'data/msvd/videos/{name}.avi', greys)
    for name in 'ef':
        write_video(folder / f'data/vatex/videos/{name}.mp4', greys)
    for movie in ('1006_T', '3011_U'):
        clip = folder / f'data/lsmdc/videos/{movie}/{movie}_00.00.01.000-00.00.02.000.avi'
        clip.parent.mkdir()
        write_video(clip, greys)
    for name in ('a', 'b', 'new'):
        write_video(folder / f'{name}.mp4', greys, size=(64, 64))
    write_tvr(folder)
    write_tbn(folder)
    for name in ('s3d', 'vggish', 'senet154'):
        features = {f'video{n}': np.ones((2, 4), np.float32) for n in range(5)}
        (folder / f'{name}.pickle').write_bytes(pickle.dumps(features, protocol=2))
    (folder / 'glove.42B.300d.txt').write_text('cup 1 2 3\nstep 4 5 6\ncaption 7 8 9\n')
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


# -- read, not run -----------------------------------------------------------------------------


def parsed(command: Command, tools: dict[str, Any]) -> Any:
    """The command line as its tool's own parser reads it, in the folder where it would be run.

    Raises:
        SystemExit, AssertionError: it does not take it; there is no such tool.
    """
    numbers = dict(VERB='0', NOUN='54')
    tool, arguments = command.tool, [numbers.get(word, word) for word in command.words[2:]]
    if tool == 'dist_train.sh':  # tools/dist_train.sh CONFIG GPUS ...
        assert arguments[1].isdigit(), command.line
        tool, arguments = 'train.py', [arguments[0], *arguments[2:]]
    assert tool_file(tool).is_file(), f'no {tool}: {command.line}'
    if tool not in tools:
        tools[tool] = runpy.run_path(str(tool_file(tool)))
    with mock.patch('sys.argv', [tool, *arguments]):
        return tools[tool]['parse_args']()


def check_read(command: Command, tools: dict[str, Any]) -> None:
    """The tool takes the command line, its configs and options are there, and what it will report
    has the columns of its table.

    Raises:
        AssertionError, SystemExit, UserError, ValueError: says what is wrong.
    """
    args = parsed(command, tools)
    for config in command.configs:
        assert config_file(config).is_file(), f'{command.place}: no {config}'
    if command.tool == 'study.py' and args.study:
        known = {run.name for run in read_study(args.study, config=args.config).rows}
        assert set(args.only or ()) <= known, command.line
    elif command.tool == 'figures.py':
        assert set(args.figure or ()) <= FIGURES.keys(), command.line
    elif command.tool in ('train.py', 'dist_train.sh', 'test.py'):
        config, *others = command.configs
        baseline = getattr(args, 'against', None)
        assert others == ([Path(baseline).stem] if baseline else []), command.line
        cfg = copy.deepcopy(whole(config, tuple(args.cfg_options.items())))
        if command.tool == 'dist_train.sh':
            share = batch_per_process(cfg, int(command.words[3]))
            assert cfg.train_dataloader.batch_size == share, f'{share} a process: {command.line}'
        if command.tool != 'test.py':
            tools['train.py']['apply_args'](cfg, args)
        check_columns(command, cfg)
    elif getattr(args, 'config', None) and 'CONFIG' not in command.words:
        for config in command.configs:
            whole(config, tuple(args.cfg_options.items()))


@functools.cache
def whole(config: str, options: tuple[tuple[str, Any], ...] = ()) -> Config:
    """A config with options, which something reads."""
    cfg = load_config(str(config_file(config)), dict(options))
    check_config(cfg, dict(options))
    return cfg


def check_columns(command: Command, cfg: Config) -> None:
    """The test reports the columns of the row's table, and what chooses the epoch is of them."""
    known = reported_by_config(cfg)
    section, table = table_of(command)
    config = command.configs[0]
    promised = columns(section).of(table, config) if section else []
    for key in promised:
        assert is_reported(key, known), f'{command.place}: {config} reports no {key}'
    if command.tool != 'test.py' and cfg.get('val_evaluator'):
        check_choice(cfg, prefix_of(config))
        kinds = {key.removeprefix(prefix_of(config)).partition('/')[0] for key in promised}
        chosen = cfg.default_hooks.checkpoint.save_best.removeprefix(prefix_of(config))
        if promised and (section, table) not in CHOSEN_BY_AN_OPTION:
            assert chosen.partition('/')[0] in kinds, f'{command.place}: chosen by {chosen}'


def prefix_of(config: str) -> str:
    """What stands before the numbers that a paper reports of a config."""
    return next(filter(None, (columns(section).prefix(config) for section in DRAWN)), '')


def scores_of(key: str) -> str:
    """``'sinkhorn/retrieval/rsum'`` -> ``'sinkhorn/'``; '' of the raw scores."""
    return ''.join(f'{part}/' for part in key.split('/')[:-2])


def check_choice(cfg: Config, prefix: str) -> None:
    """Among the epochs chooses a number that is reported, of the scores that the paper reports."""
    chosen = cfg.default_hooks.checkpoint.save_best
    known = reported_by_config(cfg, 'val')
    assert is_reported(chosen, known), f'{cfg.filename}: {chosen} is not reported'
    assert scores_of(chosen) == prefix, (
        f'{cfg.filename}: chosen by {chosen}, reported is {prefix or "raw"}'
    )


# -- a command ---------------------------------------------------------------------------------


def check(command: Command, room: Room) -> None:
    """Run it, and see that it gives what its row and its tool promise.

    Raises:
        AssertionError: it does not; says the command and what it printed.
    """
    tool = command.tool.replace('dist_train.sh', 'train.py')  # its joint batch is checked as read
    if command.line not in room.known:
        arguments = filled(command, room)
        if command.tool == 'dist_train.sh':
            arguments = [arguments[0], *arguments[2:]]
        room.known[command.line] = (arguments, *room.run(tool, *arguments))
    arguments, code, printed = room.known[command.line]
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
    start = next(
        i for i, word in enumerate(command.words) if word.startswith(('tools/', 'projects/lab/'))
    )
    words, config = list(command.words[start + 1 :]), CONFIG.get(tool)
    made = []
    for word in words:
        stem = word.removesuffix('.pth')
        if word == 'CONFIG':
            made.append(config_path(config))
        elif word == 'CHECKPOINT':
            of = command.configs[0] if command.configs else config
            made.append(room.trained(of, tool))
        elif word in CHECKPOINTS:
            made.append(room.trained(CHECKPOINTS[word], tool))
        elif re.fullmatch(r'epoch_\d+\.pth', word):
            kept = room.trained(command.configs[0], tool)
            made.append(f'{Path(kept).parent}/{word}')
        elif word.endswith('.pth') and stem in config_names():
            made.append(room.trained(stem, tool))
        elif word == 'FILE.bank':
            made.append(bank(room))
        else:
            made.append(dict(DIR='out', text='a star').get(word, word))
    if '--action' in made:
        place = made.index('--action') + 1
        made[place : place + 2] = action(command.configs[0])
    if tool == 'search.py':
        made[made.index('out')] = gallery(room)
    if tool == 'export_index.py':
        made.append('--replace')
    return made


def action(config: str) -> list[str]:
    """Verb and noun of an action that the train and the test set of a miniature have."""
    cfg = small_config(str(config_file(config)))
    found = [
        {
            action
            for video in DATASETS.build(cfg[f'{part}_dataloader'].dataset).videos
            for action in video['actions']
        }
        for part in ('train', 'test')
    ]
    return list(map(str, min(found[0] & found[1])))


def bank(room: Room) -> str:
    """A bank of a trained config's queries."""
    config = CONFIG['export_index.py']
    given = (config_path(config), room.trained(config, 'export_index.py'), '--out', 'train.bank')
    if not (room.folder / 'train.bank').is_file():
        code, printed = room.run('export_bank.py', *given)
        assert code == 0, printed[-2000:]
    return 'train.bank'


def gallery(room: Room) -> str:
    """A gallery of a trained config."""
    config = CONFIG['export_index.py']
    if not (room.folder / 'gallery').is_dir():
        given = (config_path(config), room.trained(config, 'export_index.py'))
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
        behind = prefix_of(done.command.configs[0])
        assert scores_of(chosen[1]) == behind, f'{chosen[1]}: {done.told}'


def results_of(folder: Path, config: str) -> dict[str, float]:
    """Of the newest test of a config."""
    logs = sorted((folder / 'work_dirs' / config).glob('*/*.json'))
    logs = [path for path in logs if path.stem == path.parent.name]
    return json.loads(logs[-1].read_text())


def fills_the_table(done: Done) -> None:
    """A study: every run has a number in every column; the commands of ``--dry`` name the
    checkpoints that trainings leave."""
    assert done.code == 0, done.told
    if '--list' in done.arguments:
        return
    if '--dry' in done.arguments:
        assert done.printed.count('train.py') > 2, done.told
        return
    study = read_study(done.arguments[0])
    section, table = table_of_study(study)
    lines = [line for line in done.printed.splitlines() if line.startswith('| ')]
    heads, *rows = [[cell.strip() for cell in line.strip('|').split('|')] for line in lines]
    ours = [i for i, head in enumerate(heads) if i and not head.endswith(', printed')]
    promised = headings(section, table).split() if table else study.metrics
    assert len(ours) == len(promised) and rows, f'{len(promised)} columns: {done.told}'
    for row in rows:
        for place in ours:
            assert NUMBER.match(row[place]), f'{row[0]}: no {heads[place]}: {done.told}'
    names_what_is_left(done)


def names_what_is_left(done: Done) -> None:
    """Each command that ``--dry`` prints is taken by its tool, and each checkpoint that it names is
    one that the study's trainings have left."""
    for reader in (as_it_is, small_config):  # the batches of the configs; what miniatures leave
        given = list(done.arguments)
        if reader is small_config and '--gpus' in given:
            place = given.index('--gpus')
            del given[place : place + 2]
        given += ['--dry', '--work', 'dry']
        how = dict(reader=reader, before=done.room.before, tools=done.room.tools)
        code, printed = run_small(done.room.folder, 'study.py', *given, **how)
        assert code == 0, printed[-2000:]
        for line in printed.splitlines():
            words = shlex.split(line)
            place = next(i for i, x in enumerate(words) if x.endswith(('/train.py', '/test.py')))
            tool = words[place].rpartition('/')[2]
            if reader is as_it_is and tool != 'test.py':
                config = config_path(Path(words[place + 1]).stem)
                start = ['python', f'tools/{tool}', config]
                several = [x.partition('=')[2] for x in words[:place] if x.startswith('--nproc')]
                if several:
                    start = ['bash', 'tools/dist_train.sh', config, *several]
                read = Command('study', '', (*start, *words[place + 2 :]))
                check_read(read, {})
            elif reader is small_config and tool == 'test.py':
                for word in words:
                    if word.startswith('dry/') and word.endswith('.pth'):
                        work = done.room.folder / 'work_dirs/studies' / done.arguments[0]
                        left = work / word.removeprefix('dry/')
                        assert left.is_file(), f'no training leaves {word}: {line}'


def draws(done: Done) -> None:
    """Every figure that was asked for, as a picture that is there."""
    if '--list' in done.arguments:
        return ended_well(done)
    named = done.after('--figure')
    (lacks,) = [NOTHING_TO_DRAW.get(name) for name in named] if len(named) == 1 else [None]
    if lacks is not None and done.code:
        assert lacks in done.printed, done.told
        return
    assert done.code == 0 and 'is left out' not in done.printed.partition('protocol: ')[2], (
        done.told
    )
    pictures = [path.name for path in (done.room.folder / done.after('--out')[0]).glob('*.png')]
    by_tool = ('causal2', 'arl4')  # another tool's pictures, by its names
    for name in named:
        assert any(p.startswith(name) for p in pictures) or (name in by_tool and pictures), (
            done.told
        )


def counts(done: Done) -> None:
    """A row a config, whose parameters are those of the built model, without towers of the hub."""
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
        cfg = small_towers(str(config_file(config)))
        forget_pretrained(cfg.model)
        with torch.device('meta'):
            model = MODELS.build(cfg.model)
        of_hub = {
            p for m in model.modules() if isinstance(m, TransformersText) for p in m.parameters()
        }
        built = sum(p.numel() for p in model.parameters() if p not in of_hub) / 1e6
        row = found[config]
        stated = float(row.get('M parameters, with towers') or row['M parameters'])
        assert abs(stated / built - 1) < 1e-3, (
            f'{config}: {stated} M, built {built:.4g}: {done.told}'
        )


def says_what_is_missing(done: Done) -> None:
    """Every row, and status 1 where weights or features are missing."""
    assert done.code == ('\nto do\n' in done.printed), done.told
    for row in ('train', 'weights', 'batch', 'memory', 'steps', 'hours', 'protocol', 'paper'):
        assert f'\n{row} ' in done.printed, f'no {row}: {done.told}'


def counts_what_is_there(done: Done) -> None:
    """Each split is there, or is named as missing with the status for that."""
    splits = re.findall(r'^(train|val|test): (dataset|MISSING)', done.printed, re.MULTILINE)
    assert {split for split, _ in splits} >= {'train', 'test'}, done.told
    assert done.code == any(how == 'MISSING' for _, how in splits), done.told


CHECKS: dict[str, Any] = {
    'train.py': gives_the_row,
    'test.py': gives_the_row,
    'study.py': fills_the_table,
    'figures.py': draws,
    'cost.py': counts,
    'preflight.py': says_what_is_missing,
    'dataset_converters/check_dataset.py': counts_what_is_there,
}
