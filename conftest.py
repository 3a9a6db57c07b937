"""Fixtures of all tests of this repository, its projects included."""

import os

# One thread a process: tests are many small products, and threads of several workers wait for each
# other (up to 20 times the CPU time on two cores). Set before anything imports numpy or torch.
os.environ.setdefault('OMP_NUM_THREADS', '1')

pytest_plugins = ['common_fixtures']
