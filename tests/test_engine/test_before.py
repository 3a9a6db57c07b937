"""What is trained again of the trainings that come before another one, and what is refused."""

from argparse import Namespace
from pathlib import Path

import pytest
from mmengine.config import Config

from mmvtr.engine import before
from mmvtr.engine.rows import Row

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
        how = dict(seed=0, said='before', resume=resume)
        try:
            before.train_row(row, ARGS, Path('train.py'), load, **how)
        except SystemExit as error:
            if error.code != 9:
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
    with pytest.raises(SystemExit, match='holds a training by another command or config'):
        train(0.2)


def test_one_that_has_no_checkpoint_is_begun_with_other_options(train):
    train(0.1, killed=None)
    assert train(0.2)
    with pytest.raises(SystemExit, match='holds a training'):
        train(0.1)


def test_one_that_is_trained_anew_is_unfinished_until_its_end(train):
    train(0.1)
    assert train(0.1, killed=True, resume=False) is False
    assert train(0.1) is True
