"""Test a checkpoint: the same table as at the end of its training.

python tools/test.py CONFIG CHECKPOINT [--out metrics.json] [--cfg-options key=value ...]
"""

from __future__ import annotations

import argparse
import os

from mmengine.config import DictAction

from mmvtr.utils import forget_pretrained, load_config


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add('config', help='config file')
    add('checkpoint', help='checkpoint file of the same model')
    add('--work-dir', help='for the log; default work_dirs/<config name>')
    add('--out', metavar='FILE', help='write the metrics to this .json, .yaml or .pkl file')
    add('--amp', action='store_true', help='encode in bfloat16 (scores stay float32)')
    add('--cfg-options', nargs='+', action=DictAction, metavar='KEY=VALUE', help='config changes')
    add('--launcher', choices=['none', 'pytorch', 'slurm', 'mpi'], default='none')
    add('--local_rank', '--local-rank', type=int, default=0, help='set by launchers')
    args = parser.parse_args()
    os.environ.setdefault('LOCAL_RANK', str(args.local_rank))
    return args


def main() -> None:
    args = parse_args()
    cfg = load_config(args.config, args.cfg_options, args.work_dir)
    if not os.path.isfile(args.checkpoint):
        raise SystemExit(f'error: checkpoint {args.checkpoint} does not exist')
    if cfg.get('test_dataloader') is None:
        raise SystemExit(f'error: {args.config} has no test_dataloader')
    if args.amp:
        cfg.test_cfg.amp = True

    # Only now what takes seconds to import.
    from mmengine.dist import is_main_process
    from mmengine.fileio import dump
    from mmengine.runner import Runner

    from mmvtr.engine import launch

    seed = launch.read_or_exit(args.checkpoint).get('meta', {}).get('seed')
    if seed is not None:
        cfg.merge_from_dict({'randomness.seed': seed})  # the protocol line states it
    cfg.load_from, cfg.resume = args.checkpoint, False
    forget_pretrained(cfg.model)
    launch.start_processes(cfg, args.launcher)
    launch.check_datasets(cfg, ['test_dataloader'])
    runner = Runner.from_cfg(cfg)
    launch.check_or_exit(runner.model, args.checkpoint)
    metrics = runner.test()
    if args.out and is_main_process():
        dump(metrics, args.out)
    launch.stop_processes()


if __name__ == '__main__':
    main()
