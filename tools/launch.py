"""Start several processes with torchrun's options, and show only the processes' own error messages.

python tools/launch.py --nproc_per_node 2 tools/train.py CONFIG --launcher pytorch

torchrun itself would add its traceback and a report of each process below an error's one sentence.
Before a training starts its processes, its config is checked and its data are built once, so that
what is missing is said once and at once.
"""

from __future__ import annotations

import argparse
import logging
import runpy
import signal
import sys
from pathlib import Path
from typing import Sequence

from mmvtr.cli.start import tool

from torch.distributed import run
from torch.distributed.elastic.multiprocessing import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError


def parse_args() -> argparse.Namespace:
    parser = run.get_args_parser()
    parser.description, parser.formatter_class = __doc__, argparse.RawDescriptionHelpFormatter
    return parser.parse_args()


def check_training(script: str, words: Sequence[str]) -> None:
    """Raise if a training of ``train.py`` cannot start: its config, its data.

    What a training of its ``before`` or a baseline reads is checked in their own time.

    Raises:
        SystemExit, UserError: names the fault.
    """
    if Path(script).name != 'train.py':
        return
    from mmvtr.engine import launching
    from mmvtr.engine.checks import config_checks
    from mmvtr.utils import load_config

    sys.argv, before = [script, *words], sys.argv
    parsed = runpy.run_path(script)  # not as __main__
    args = parsed['parse_args']()
    cfg = load_config(args.config, args.cfg_options, args.work_dir)
    parsed['apply_args'](cfg, args)
    config_checks.check_training(cfg, args.cfg_options)
    if not cfg.get('before'):
        launching.check_datasets(cfg)
    sys.argv = before


@tool
def main() -> None:
    logging.getLogger('torch.distributed.elastic.multiprocessing.api').setLevel(logging.CRITICAL)
    args = parse_args()
    check_training(args.training_script, args.training_script_args)
    try:
        run.run(args)
    except SignalException as error:  # torchrun has forwarded it to the processes
        raise SystemExit(128 + error.sigval) from None
    except ChildFailedError as error:
        rank, first = error.get_first_failure()
        if first.exitcode >= 0:
            raise SystemExit(first.exitcode) from None
        raise SystemExit(
            f'error: process {rank} was ended by {ended_by(-first.exitcode)}'
        ) from None


def ended_by(number: int) -> str:
    """Return the name of a signal, with its likely cause."""
    try:
        name = signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f'signal {number}'
    if name == 'SIGKILL':
        return (
            f'{name}; if nobody sent it, likely for memory (the kernel log of its machine says so)'
        )
    if name == 'SIGBUS':
        return f'{name}, likely because shared memory (/dev/shm) is full'
    return f'{name}; its last lines above say more'


if __name__ == '__main__':
    main()
