"""Fixtures of all tests of this repository, its projects included."""

import gc
import os
import re

import pytest

# One thread a process: tests are many small products, and threads of several workers wait for each
# other (up to 20 times the CPU time on two cores). Set before anything imports numpy or torch.
os.environ.setdefault('OMP_NUM_THREADS', '1')

pytest_plugins = ['common_fixtures']


def pytest_configure(config):
    """Tests run on the CPU, also where there is a GPU; those marked ``cuda`` alone use it."""
    if not re.search(r'(?<!not )\bcuda\b', config.getoption('markexpr')):
        os.environ['CUDA_VISIBLE_DEVICES'] = ''
    # Asking for devices by NVML leaves a process free to fork children that use them.
    os.environ.setdefault('PYTORCH_NVML_BASED_CUDA_CHECK', '1')


def pytest_collection_finish() -> None:
    """Tests and modules stay: no search for garbage looks through their million objects again."""
    gc.collect()
    gc.freeze()
    # A forked data worker leaves the garbage of this process alone: encoders of tests, for whose
    # threads, which a fork lacks, PyAV 19 would wait without end.
    os.register_at_fork(after_in_child=gc.freeze)


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """With ``-n`` a file's tests are one worker's: what they share is made once."""
    if getattr(config.option, 'numprocesses', None) and config.option.dist == 'no':
        config.option.dist = 'loadfile'
