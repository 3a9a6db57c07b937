"""The shell launchers hand everything on to launch.py (stand-ins for srun and python), and it ends
as the process that failed first."""

import os
import subprocess
import sys

import pytest

from children import ROOT, free_port

TOOLS = ROOT / 'tools'


@pytest.fixture
def launch(tmp_path):
    stand_ins = dict(
        python='printf "%s\\n" "$@"',
        scontrol='printf "node7\\nnode8\\n"',
        srun="""echo "srun ${*/bash*/}" >&2
while [ "$1" != bash ]; do shift; done
SLURM_NNODES=2 SLURM_NODEID=1 SLURM_JOB_NODELIST=node[7-8] exec "$@" """,
    )
    for name, script in stand_ins.items():
        (tmp_path / name).write_text(f'#!/usr/bin/env bash\n{script}\n')
        (tmp_path / name).chmod(0o755)

    def run(script, *arguments, **env):
        done = subprocess.run(
            [str(TOOLS / script), *arguments],
            env=dict(os.environ, PATH=f'{tmp_path}:{os.environ["PATH"]}', **env),
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.splitlines(), done.stderr

    return run


def test_dist_train(launch):
    words, _ = launch('dist_train.sh', 'c.py', '4', '--cfg-options', 'a=b c', NNODES='2', PORT='77')
    assert words[0] == f'{TOOLS}/launch.py'
    assert '--nnodes=2' in words and '--nproc_per_node=4' in words and '--master_port=77' in words
    assert '--node_rank=0' in words and '--master_addr=127.0.0.1' in words
    script = words.index(f'{TOOLS}/train.py')
    assert words[script + 1 :] == ['c.py', '--launcher', 'pytorch', '--cfg-options', 'a=b c']


def test_dist_test(launch):
    words, _ = launch('dist_test.sh', 'c.py', 'c.pth', '2', '--amp')
    assert '--nproc_per_node=2' in words
    script = words.index(f'{TOOLS}/test.py')
    assert words[script + 1 :] == ['c.py', 'c.pth', '--launcher', 'pytorch', '--amp']


def test_slurm_train(launch):
    words, srun = launch('slurm_train.sh', 'gpus', 'name', 'c.py', '--work-dir', 'a b', GPUS='16')
    for flag in ('--partition=gpus', '--job-name=name', '--nodes=2', '--gres=gpu:8'):
        assert flag in srun
    assert '--nnodes=2' in words and '--node_rank=1' in words and '--nproc_per_node=8' in words
    assert '--master_addr=node7' in words
    script = words.index(f'{TOOLS}/train.py')
    assert words[script + 1 :] == ['c.py', '--launcher', 'pytorch', '--work-dir', 'a b']


def test_slurm_test(launch):
    words, srun = launch('slurm_test.sh', 'gpus', 'name', 'c.py', 'c.pth', GPUS='2')
    assert '--nodes=1' in srun and '--gres=gpu:2' in srun
    script = words.index(f'{TOOLS}/test.py')
    assert words[script + 1 :] == ['c.py', '--launcher', 'pytorch', 'c.pth']


@pytest.mark.parametrize(
    ('script', 'status', 'said'),
    [
        (
            "import sys\nprint('error: no such file', file=sys.stderr)\nsys.exit(3)",
            3,
            'no such file',
        ),
        pytest.param(
            'import os\nos.kill(os.getpid(), 9)',
            1,
            'process 0 was ended by SIGKILL; if nobody sent it, likely for memory',
            marks=pytest.mark.nightly,
        ),
        pytest.param(
            'import os\nos.abort()',
            1,
            'process 0 was ended by SIGABRT; its last lines above say more',
            marks=pytest.mark.nightly,
        ),
    ],
)
def test_an_error_is_said_once(tmp_path, script, status, said):
    """Without the report that torchrun adds below it."""
    (tmp_path / 'fails.py').write_text(script)
    given = ['--nproc_per_node=1', f'--master_port={free_port()}', tmp_path / 'fails.py']
    done = subprocess.run(
        [sys.executable, TOOLS / 'launch.py', *given], capture_output=True, text=True
    )
    assert done.returncode == status
    assert done.stderr.count('error: ') == 1 and said in done.stderr
    assert 'Traceback' not in done.stderr and 'FAILED' not in done.stderr


def test_missing_data_are_said_before_any_process_starts(tmp_path):
    config = tmp_path / 'c.py'
    config.write_text(
        f"_base_ = ['{ROOT}/configs/c2v_planted_features.py']\n"
        'train_dataloader = dict(dataset=dict(num_train=8, num_val=4, num_test=4))\n'
    )
    words = ['--nproc_per_node', '4', '--master_port', free_port()]
    command = [sys.executable, TOOLS / 'launch.py', *words, TOOLS / 'train.py', config]
    env = {**os.environ, 'PYTHONPATH': str(ROOT), 'TORCH_CPP_LOG_LEVEL': 'INFO'}
    done = subprocess.run(
        [*map(str, command), '--launcher', 'pytorch'], cwd=tmp_path, env=env, capture_output=True,
        text=True,
    )  # fmt: skip
    assert done.returncode == 1 and [*tmp_path.iterdir()] == [config]  # no clip is rendered either
    script = ROOT / 'projects/lab/evidence/planted_features.py'
    assert f': python {script} clips' in done.stderr and done.stderr.count('error: ') == 1
