"""Fixtures of all tests of this repository, its projects included."""

import os

import pytest

# One thread a process: tests are many small products, and threads of several workers wait for each
# other (up to 20 times the CPU time on two cores). Set before anything imports numpy or torch.
os.environ.setdefault('OMP_NUM_THREADS', '1')

pytest_plugins = ['common_fixtures']


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """With ``-n`` a file's tests are one worker's: what they share is made once."""
    if getattr(config.option, 'numprocesses', None) and config.option.dist == 'no':
        config.option.dist = 'loadfile'
