"""A study from its file to its tables: on miniatures, killed, side by side, with a control."""

import csv
import json
import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from mmengine.runner import EpochBasedTrainLoop

from children import ROOT, tool_file
from mmvtr.engine.rows import Row
from mmvtr.errors import UserError
from mmvtr.evaluation.results import Results
from mmvtr.evaluation.seeds import of_seeds_and_queries
from mmvtr.studies.reading import read_study
from mmvtr.studies.running import check_data
from mmvtr.studies.tables import heading, table
from small_configs import run_small
from tiny_sets import of_planted

CONFIG = f"""
_base_ = ['{ROOT}/configs/c2v_planted.py']
custom_hooks = [dict(type='SinkhornHook', queries='test')]
"""
STUDY = """
config = 'c.py'
metrics = {'retrieval/rsum': 'rsum', 'semantic/t2v_mAP': 't2v mAP', 'retrieval/t2v_MdR': 'MdR'}
before = dict(first=dict(options={'model.temperature.init': 0.06}, export=True))
rows = {
    'plain': dict(),
    'from first': dict(options={'load_from': '{first}/best.pth'}),
    'taught': dict(
        options={
            'model.supervision': dict(type='StoredTeachers', teachers=dict(a='{first}/teacher')),
            'model.losses.kl': dict(type='KLDistillationLoss', temperature=4.0),
        }
    ),
    'both': dict(of=['plain', 'from first']),
    'Sinkhorn': dict(of='plain', prefix='sinkhorn_oracle/'),
}
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / 'c.py').write_text(CONFIG)
    (tmp_path / 's.py').write_text(STUDY)
    return tmp_path


def study(folder, *arguments, before=None):
    return run_small(folder, 'study.py', 's.py', '--work', 'w', *arguments, before=before)


def weights(folder):
    file = (folder / 'last_checkpoint').read_text().strip()
    return torch.load(folder / Path(file).name, weights_only=True)['state_dict']


def die(row, epoch):
    """Called in a training's process; the row's ends in that epoch as if it were killed."""
    run = EpochBasedTrainLoop.run_epoch

    def once(loop):
        if row in loop.runner.work_dir and loop.epoch == epoch:
            os._exit(9)
        run(loop)

    EpochBasedTrainLoop.run_epoch = once


@pytest.mark.parametrize(
    'compared, finished',
    [
        (('from first', 'Sinkhorn'), 10),
        pytest.param(('from first', 'taught', 'both', 'Sinkhorn'), 16, marks=pytest.mark.nightly),
    ],
)
def test_a_study_from_its_file_to_its_tables(folder, compared, finished):
    asked = ('--seeds', '0', '1', '--control', 'plain', '--within', '500')
    asked += ('--only', 'plain', *compared)
    code, printed = study(folder, *asked)
    assert code == 0, printed[-3000:]
    rows = json.loads((folder / 'w/results.json').read_text())['rows']
    counts = {name: len(results) for name, results in rows.items() if results}
    assert counts == dict.fromkeys(('plain', *compared), 2)
    # a row of the same seed was read
    for seed in (0, 1):
        made = json.loads((folder / f'w/from_first_{seed}/command.json').read_text())
        assert f'load_from=w/first_{seed}/best.pth' in made['command'] and made['finished']
    assert any(
        not torch.equal(a, b)
        for a, b in zip(
            weights(folder / 'w/plain_0').values(), weights(folder / 'w/plain_1').values()
        )
    )
    # tables: levels, differences of the best and of the last epoch
    lines = (folder / 'w/table.md').read_text().splitlines()
    assert sum(line.startswith('| row | rsum | t2v mAP | MdR |') for line in lines) == 1
    (level,) = [line for line in lines if line.startswith('| plain |')]
    mean = np.mean([row['retrieval/rsum'] for row in rows['plain']])
    assert f'| {mean:.4g} +- ' in level
    assert 'Holm' in printed and 'within 500 by two one-sided tests' in printed
    best = [*csv.DictReader((folder / 'w/differences.csv').open())]
    assert [row['system'] for row in best[::3]] == [*compared]
    assert [row['over'] for row in best[:3]] == ['seeds, queries', 'seeds, queries', 'seeds']
    assert (folder / 'w/differences_last.csv').is_file()
    assert (folder / 'w/differences.png').stat().st_size > 5000
    # the interval is that of the stored values of queries
    arrays = []
    for name in ('from_first', 'plain'):
        files = [sorted(folder.glob(f'w/{name}_{s}/*/queries.npz'))[-1] for s in (0, 1)]
        loaded = [np.load(file) for file in files]
        arrays.append(
            [
                [np.asarray(x[f'retrieval/rsum of {side}'], float) for x in loaded]
                for side in ('t2v', 'v2t')
            ]
        )
    fields = [np.stack(a) - np.stack(b) for a, b in zip(*arrays)]
    groups = [loaded[0][f'groups of {side}'] for side in ('t2v', 'v2t')]
    expected = of_seeds_and_queries(fields, groups)
    assert float(best[0]['mean']) == pytest.approx(expected.mean, abs=1e-4)
    assert float(best[0]['low']) == pytest.approx(expected.interval[0], abs=1e-3)
    gains = [
        a['retrieval/rsum'] - b['retrieval/rsum'] for a, b in zip(rows['from first'], rows['plain'])
    ]
    assert float(best[0]['mean']) == pytest.approx(np.mean(gains), abs=1e-4)
    # nothing is made again; another protocol is refused
    before = {path: path.stat().st_mtime_ns for path in folder.rglob('*.pth')}
    code, again = study(folder, *asked)
    assert code == 0 and again.count(': finished, in') == finished, again[-3000:]
    assert before == {path: path.stat().st_mtime_ns for path in folder.rglob('*.pth')}
    code, other = study(folder, '--best-on-test', '--only', 'plain')
    assert code == 1 and 'nothing in place of --best-on-test' in other
    # the tables of what is done
    shown_of = ('--only', 'plain', *compared, '--seeds', '0', '1', '--control', compared[0])
    code, shown = study(folder, '--table', *shown_of)
    assert code == 0 and 'best epoch, over from first' in shown and 'finished, in' not in shown


@pytest.mark.nightly
def test_killed_twice_it_ends_as_if_it_were_not(folder):
    """Once in a row that comes before, once in one that reads it; others go on."""
    how = ('--only', 'from first', 'plain')
    asked = (*how, '--control', 'from first')
    code, printed = study(folder, *asked, before=partial(die, 'first_0', 1))
    assert code == 1 and 'from_first_0: not begun, as it needs first_0' in printed
    assert 'no differences: the row from first is not finished' in printed
    assert (folder / 'w/plain_0/last_checkpoint').is_file(), 'it does not need the one that failed'
    code, printed = study(folder, *how, before=partial(die, 'from_first_0', 1))
    assert code == 1 and 'from_first_0: train.py ended with 9' in printed
    code, printed = study(folder, *how)
    assert code == 0 and printed.count('finished, in') == 2, printed[-2000:]
    (folder / 'whole').mkdir()
    for name in ('c.py', 's.py'):
        (folder / 'whole' / name).write_text((folder / name).read_text())
    assert study(folder / 'whole', *how)[0] == 0
    ours, theirs = (weights(place / 'w/from_first_0') for place in (folder, folder / 'whole'))
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(x, theirs[name]) for name, x in ours.items())


def note_devices():
    """Called in a training's process: writes the device that it may use."""
    run = EpochBasedTrainLoop.run

    def noted(loop):
        place = Path(loop.runner.work_dir, 'device.txt')
        place.write_text(os.environ.get('CUDA_VISIBLE_DEVICES', 'none'))
        return run(loop)

    EpochBasedTrainLoop.run = noted


@pytest.mark.nightly
def test_side_by_side_on_devices(folder):
    code, printed = study(
        folder, '--devices', '4', '7', '--only', 'taught', 'plain', before=note_devices
    )
    assert code == 0, printed[-2000:]
    devices = {path.parent.name: path.read_text() for path in folder.glob('w/*/device.txt')}
    assert devices.keys() == {'first_0', 'plain_0', 'taught_0'}
    assert {devices['first_0'], devices['plain_0']} == {'4', '7'}


@pytest.mark.nightly
def test_members_of_a_config_are_rows_of_the_graph(folder):
    """A student's members are made before it, each once, and it finds them finished."""
    (folder / 's.py').write_text(
        f"config = '{ROOT}/configs/student_c2v_planted.py'\nrows = dict(student=dict())\n"
    )
    code, printed = study(folder, '--jobs', '2')
    assert code == 0, printed[-3000:]
    numbers = re.findall(r'(\d) of 4: (\S+): ', printed)
    assert [name for _, name in numbers][-1] == 'student_0'
    assert {name for _, name in numbers[:3]} == {f'student_0/member{n}' for n in (1, 2, 3)}
    log = (folder / 'w/student_0/printed.txt').read_text()
    assert log.count('finished, in w/student_0/member') == 3
    assert (folder / 'w/student_0/member2/teacher/text.npz').is_file()


def test_dry(folder):
    code, printed = study(folder, '--dry', '--only', 'both', '--seeds', '3', '--gpus', '2')
    assert code == 0, printed
    lines = printed.strip().splitlines()
    tools = [re.search(r'(\w+)\.py c\.py|(\w+)\.py \S*/c\.py', line) for line in lines]
    assert len(lines) == 4 and 'launch.py --standalone --nproc_per_node=2' in lines[0]
    assert '--seed 3' in lines[1] and lines[1].endswith('--resume') and all(tools)
    assert 'w/plain_3/best.pth w/from_first_3/best.pth --work-dir w/both_3' in lines[3]
    code, printed = study(folder, '--dry', '--srun', '-p gpu --gres=gpu:1', '--only', 'plain')
    assert printed.startswith('srun --ntasks=1 -p gpu --gres=gpu:1 ')
    code, printed = study(folder, '--dry', '--gpus', '3', '--only', 'plain')
    assert code == 1 and 'cannot be shared out to 3 processes' in printed


#: Slurm's srun for a step of one task: options, then the command, with a step's variables.
SRUN = """#!/bin/bash
echo "$*" >> srun.txt
[ -f full ] && { echo 'srun: error: Unable to allocate resources: QOSMaxSubmit' >&2; exit 1; }
until [[ $1 == /* ]]; do shift; done
export SLURM_JOB_ID=7 SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_NTASKS=1 SLURM_STEP_NODELIST=n1
exec "$@"
"""


@pytest.mark.nightly
def test_slurm_starts_each_command(tmp_path):
    """Real processes, through an srun on PATH; one without resources is told, and made anew."""
    (tmp_path / 'srun').write_text(SRUN)
    (tmp_path / 'srun').chmod(0o755)
    (tmp_path / 'c.py').write_text(of_planted('c2v_planted', max_epochs=1, val_interval=1))
    (tmp_path / 's.py').write_text(
        "config = 'c.py'\nrows = dict(a=dict(), b=dict(seed=1), both=dict(of=['a', 'b']))\n"
    )
    environ = {**os.environ, 'PATH': f'{tmp_path}:{os.environ["PATH"]}'}
    words = [sys.executable, tool_file('study.py'), 's.py', '--work', 'w', '--jobs', '2']
    words.append('--srun=-p gpu --gres=gpu:1')

    def run():
        done = subprocess.run(words, cwd=tmp_path, env=environ, capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    (tmp_path / 'full').touch()
    code, printed = run()
    assert code == 1 and 'a_0: train.py ended with 1' in printed, printed[-3000:]
    assert 'QOSMaxSubmit' in (tmp_path / 'w/a_0/printed.txt').read_text()
    for name in ('full', 'srun.txt'):
        (tmp_path / name).unlink()
    code, printed = run()
    assert code == 0, printed[-3000:]
    said = (tmp_path / 'srun.txt').read_text().splitlines()
    begin = f'--ntasks=1 -p gpu --gres=gpu:1 {sys.executable} '
    assert [line.startswith(begin) for line in said] == 3 * [True]
    assert [line.removeprefix(begin).split()[0].rpartition('/')[2] for line in said] == [
        'train.py', 'train.py', 'test.py'
    ]  # fmt: skip
    rows = json.loads((tmp_path / 'w/results.json').read_text())['rows']
    assert [len(rows[name]) for name in ('a', 'b', 'both')] == [1, 1, 1]


def test_missing_data_of_rows_that_read_no_other_are_said_at_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sizes = ('num_train', 'num_val', 'num_test')
    options = {f'{x}_dataloader.dataset.{n}': 8 for x in ('train', 'val', 'test') for n in sizes}
    row = Row('a', 'c2v_planted_features', Path('a'), options)
    with pytest.raises(UserError, match='planted_features.py clips'):
        check_data([row])
    check_data([row._replace(options={**options, 'load_from': '{b}/best.pth'})])
    check_data([row._replace(of=('b', 'c')), row._replace(run=('a',), config='')])


def test_the_heading_says_in_what_rows_differ():
    tested = dict(set='Set test', ids='ab', texts=4, videos=4)

    def result(tested=tested, **facts):
        return Results({}, dict(line='', tested=tested, training=[dict(batch=8, seed=0, **facts)]))

    rows = dict(
        a=result(), b=result(optimizer='SGD'), c=result({**tested, 'ids': 'cd'}), d=result()
    )
    differs, other = heading(rows)
    assert differs == 'differs in optimizer: SGD in b, unknown in a'
    assert other.startswith(
        'results on different test sets stand in one table (ids differs): c: Set'
    )
    assert f'\n- {differs}\n\n| row |' in table(read_study('arl_tab5'), {}, [differs])
    assert heading({}) == heading(dict(a=result())) == []
