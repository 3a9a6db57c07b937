"""What is trained again of the trainings that come before another one, and what is refused."""

from argparse import Namespace
from pathlib import Path

import pytest
from mmengine.config import Config

from mmvtr.engine import before
from mmvtr.engine.rows import Row
from mmvtr.errors import UserError

FLAGS = ('no_validate', 'best_on_test', 'auto_scale_lr', 'deterministic', 'diff_rank_seed')
ARGS = Namespace(launcher='none', amp=None, no_persistent_workers=False, **dict.fromkeys(FLAGS))


@pytest.fixture
def train(tmp_path, monkeypatch):
    """A function that trains a row with a learning rate, and whether it is killed after its first
    checkpoint (None: before); returns the flags of its command."""
    ran = []

    def run_child(command, *, environment, log):
        ran.append(command)
        killed = ran[0]
        if killed is not None:
            (tmp_path / 'last_checkpoint').write_text(str(tmp_path / 'epoch_1.pth'))
        return 9 if killed is not False else 0

    def trained(rate, killed=False, resume=True):
        ran[:] = [killed]
        row = Row('half', 'half.py', tmp_path, dict(lr=rate))
        load = lambda config, options, folder: Config(dict(options, work_dir=folder))  # noqa: E731
        how = dict(seed=0, title='before', resume=resume)
        try:
            before.train_row(row, ARGS, Path('train.py'), load, **how)
        except UserError as error:
            if getattr(error, 'status', None) != 9:
                raise
        return ran[1:] and '--resume' in ran[1]

    monkeypatch.setattr(before, 'run_child', run_child)
    return trained


def test_a_finished_one_stays_and_an_interrupted_one_is_resumed(train, capsys):
    assert train(0.1, killed=True) and train(0.1)
    assert train(0.1) == [] and 'finished, in' in capsys.readouterr().out


@pytest.mark.parametrize('killed', [True, False])
def test_one_by_other_options_is_not_continued(train, killed):
    train(0.1, killed=killed)
    with pytest.raises(UserError, match='holds a training by another command or config'):
        train(0.2)


def test_one_that_has_no_checkpoint_is_begun_with_other_options(train):
    train(0.1, killed=None)
    assert train(0.2)
    with pytest.raises(UserError, match='holds a training'):
        train(0.1)


def test_one_that_is_trained_anew_is_unfinished_until_its_end(train):
    train(0.1)
    assert train(0.1, killed=True, resume=False) is False
    assert train(0.1) is True


def test_a_command_is_run_once_and_again_where_it_failed_or_has_changed(tmp_path, capsys):
    script = tmp_path / 'count.py'
    script.write_text(
        'import sys\nfrom pathlib import Path\n'
        'file = Path(sys.argv[1])\n'
        'file.write_text((file.read_text() if file.exists() else "") + "x")\n'
        'raise SystemExit(int(sys.argv[2]))\n'
    )

    def make(status):
        folder = tmp_path / 'row'
        row = Row('row', '', folder, run=(str(script), str(folder / 'made'), str(status)))
        how = dict(seed=0, title='row', start=before.Start(log=before.log_of(row)))
        before.make_row(row, ARGS, Path('train.py'), None, **how)

    for _ in range(2):
        with pytest.raises(UserError, match='count.py ended with 4'):
            make(4)
    for _ in range(2):
        make(0)
    assert (tmp_path / 'row/made').read_text() == 'xxx'
    assert 'row: finished, in' in capsys.readouterr().out
    with pytest.raises(UserError, match='0 in place of 3: remove that folder'):
        make(3)


def test_one_process_of_a_launcher_runs_the_command(tmp_path, monkeypatch):
    script, folder = tmp_path / 'say.py', tmp_path / 'row'
    script.write_text(f'open({str(tmp_path / "said")!r}, "a").write("x")')
    row = Row('row', '', folder, run=(str(script),))

    def make(rank):
        monkeypatch.setenv('RANK', str(rank))
        before.make_row(row, ARGS, Path('train.py'), None, seed=0, title='row')

    def waits(seconds):
        make(0)  # meanwhile the first process gets there

    monkeypatch.setattr(before.time, 'sleep', waits)
    make(1)
    assert (tmp_path / 'said').read_text() == 'x' and before.is_finished(folder)


def test_a_tool_is_named_and_a_script_is_a_file(tmp_path):
    tool = Row('a', '', tmp_path, run=('mine_negatives', '--k', '3'))
    assert before.command_words(tool) == ['-m', 'mmvtr', 'mine_negatives', '--k', '3']
    here = Row('a', '', tmp_path, run=(__file__, '3'))
    assert before.command_words(here) == [__file__, '3']
