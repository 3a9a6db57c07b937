"""A start fits on a screen, nothing is silent for long, and the log file has it all."""

import errno
import io
import logging
import os
import re
import time

import pytest
from mmengine.hooks import IterTimerHook
from mmengine.runner import Runner

import toy
from children import run_tool
from mmvtr.engine.hooks.console import (
    TimedLoggerHook,
    file_only,
    raise_on_full_disk,
)
from tiny_sets import of_planted

PLANTED = of_planted('dvtr_c2v_planted', max_epochs=2, val_interval=1)


@pytest.fixture(scope='module')
def planted(tmp_path_factory):
    folder = tmp_path_factory.mktemp('console')
    (folder / 'p.py').write_text(PLANTED)
    code, printed = run_tool(folder, 'train.py', 'p.py')
    assert code == 0, printed
    return folder, printed


def test_a_start_fits_on_a_screen(planted):
    _, printed = planted
    start = printed[: printed.index('Epoch(train)')].splitlines()
    lines = sum(-(-len(line) // 100) for line in start)
    assert lines <= 40, '\n'.join(start)
    for text in ('merged config:', 'log, environment and hooks:', 'AdamW for ', 'seed 0'):
        assert sum(text in line for line in start) == 1, text


def test_no_table_is_wider_than_a_screen(planted):
    """No row of what is printed and logged is longer."""
    folder, _ = planted
    printed = (folder / 'printed.txt').read_text()
    (log,) = (folder / 'work_dirs/p').glob('*/*.log')
    training = log.read_text().split('Epoch(train)', 1)[1]
    for line in (*printed.splitlines(), *training.splitlines()):
        message = ' - mmengine - ' in line or '/' in line or 'Warning: ' in line
        assert len(line) <= 100 or message, line


def test_nothing_warns_at_a_start_and_results_come_once(planted):
    folder, printed = planted
    assert 'WARNING' not in printed[: printed.index('Epoch(train)')]
    for text in ('FileClient', 'HardDiskBackend', 'log_scale is skipped', 'Exp name'):
        assert text not in printed
    assert printed.count('results on val') == 2 and printed.count('results on test') == 1
    assert 'retrieval/t2v_R1: ' not in printed


def test_the_file_has_it_all(planted):
    folder, printed = planted
    work_dir = folder / 'work_dirs/p'
    (log,) = work_dir.glob('*/*.log')
    text = log.read_text()
    assert str(log) in printed and str(work_dir / 'p.py') in printed
    assert (work_dir / 'p.py').is_file()
    for part in (
        'Hooks will be executed in the following order', 'FileClient', 'log_scale is skipped',
        'paramwise_options', 'results on test', 'retrieval/t2v_R1: ', 'Epoch(train) [2]',
    ):  # fmt: skip
        assert part in text, part
    assert re.search(r'Epoch\(test\) \[2/2\] (?: +\S+: \S+\s)+ +retrieval/rsum: ', text)
    scalars = (next(work_dir.glob('*/vis_data/scalars.json'))).read_text()
    assert scalars.count('"retrieval/rsum"') == 2


def test_the_file_has_environment_and_config(tmp_path, monkeypatch):
    """Which the tests' child processes leave out, as it takes half a second."""
    from mmengine.config import Config

    from mmvtr.engine import ToolRunner

    toy.write_config(tmp_path)
    cfg = Config.fromfile(tmp_path / 'toy_config.py')
    cfg.work_dir = str(tmp_path / 'w')
    cfg.visualizer.name = cfg.experiment_name = f'console{time.monotonic_ns()}'
    seen = []
    monkeypatch.setattr(logging.StreamHandler, 'emit', _keep(seen, logging.StreamHandler.emit))
    runner = ToolRunner.from_cfg(cfg)
    (log,) = (tmp_path / 'w').glob('*/*.log')
    text = log.read_text()
    assert 'System environment:' in text and "type='ToyRetriever'" in text
    assert len(seen) == 3 and not any('\n' in line for line in seen), seen
    assert isinstance(runner, Runner)


def test_a_hook_that_a_base_no_longer_has_can_be_taken_away(tmp_path):
    """As a config does that was written when the runtime had DVTR's monitor."""
    from mmengine.config import Config

    from mmvtr.engine import ProgressHook, ToolRunner

    toy.write_config(tmp_path)
    cfg = Config.fromfile(tmp_path / 'toy_config.py')
    cfg.work_dir = str(tmp_path / 'w')
    cfg.visualizer.name = cfg.experiment_name = f'taken_away{time.monotonic_ns()}'
    cfg.default_hooks.update(eta=None, progress=None, timer=None)
    hooks = ToolRunner.from_cfg(cfg).hooks
    assert not any(isinstance(hook, (IterTimerHook, ProgressHook)) for hook in hooks)


def _keep(seen, emit):
    def kept(handler, record):
        if not isinstance(handler, logging.FileHandler):
            seen.append(record.getMessage())
        else:
            emit(handler, record)

    return kept


class Clock:
    now = 0.0

    def monotonic(self):
        return self.now


@pytest.fixture
def hook(monkeypatch):
    """A hook, its runner, the clock that it reads, and the lines that it has said."""

    class Told(list):
        info = list.append

    class Fake:
        logger = Told()
        iter = 0
        train_dataloader = range(100)

        class log_processor:
            @staticmethod
            def get_log_after_iter(runner, batch_idx, mode):
                return {}, f'{mode} {batch_idx}'

        class visualizer:
            scalars = 0

            @classmethod
            def add_scalars(cls, *args, **kwargs):
                cls.scalars += 1

    clock = Clock()
    monkeypatch.setattr('mmvtr.engine.hooks.console.time', clock)
    made = TimedLoggerHook(interval=20, seconds=10)
    made.before_run(type('R', (), dict(timestamp='t')))
    return made, Fake, clock


def test_a_line_every_ten_seconds_of_training_encoding_and_scoring(hook):
    made, runner, clock = hook
    made.before_train_epoch(runner)
    for i in range(30):
        clock.now += 4
        made.after_train_iter(runner, i)
    # After 12 s, 24 ...; at the interval; and 12 s after that.
    assert runner.logger == [f'train {i}' for i in (2, 5, 8, 11, 14, 17, 19, 22, 25, 28)]
    assert runner.visualizer.scalars == 1  # of the interval
    runner.logger.clear()
    made.before_val_epoch(runner)
    for i in range(4):
        clock.now += 6
        made.after_val_iter(runner, i)
    clock.now += 11
    made.after_scored_tile(runner, done=512, total=9668)
    made.after_scored_tile(runner, done=1024, total=9668)
    assert runner.logger == ['val 1', 'val 3', 'scored 512 of 9,668 texts']


def test_a_silence_is_positive():
    with pytest.raises(ValueError, match='seconds must be positive, not 0'):
        TimedLoggerHook(seconds=0)


@pytest.fixture
def logger(tmp_path):
    made = logging.Logger('console')
    made.addHandler(logging.StreamHandler(io.StringIO()))
    made.addHandler(logging.FileHandler(tmp_path / 'x.log'))
    return made


def test_file_only(logger, tmp_path):
    with file_only(logger):
        logger.warning('hidden')
        logger.error('an error')
    logger.info('shown')
    assert logger.handlers[0].stream.getvalue() == 'an error\nshown\n'
    assert (tmp_path / 'x.log').read_text().splitlines() == ['hidden', 'an error', 'shown']


def test_a_log_on_a_full_disk_ends_the_run(logger):
    full = logging.FileHandler('/dev/full')
    logger.addHandler(full)
    raise_on_full_disk(logger)
    with pytest.raises(OSError, match='No space left on device') as error:
        logger.info('x')
    assert error.value.errno == errno.ENOSPC
    assert os.path.samefile(error.value.filename, '/dev/full')
    logger.removeHandler(full)
    full.stream = None
