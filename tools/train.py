"""Train a retriever, then test the checkpoint that was best on val.

python tools/train.py CONFIG [--work-dir DIR] [--resume] [--cfg-options key=value ...]
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path

from mmvtr.cli.start import tool

from mmengine.config import Config

from mmvtr.cli import Parser, cfg_words
from mmvtr.cli.errors import USER_ERRORS
from mmvtr.cli.signals import Ending, next_steps
from mmvtr.utils import load_config


def parse_args() -> argparse.Namespace:
    parser = Parser(__doc__)
    add = parser.add_argument
    add('config', help='config file')
    add('--work-dir', help='folder for logs and checkpoints; default work_dirs/<config name>')
    add(
        '--resume',
        nargs='?',
        const='auto',
        metavar='CHECKPOINT',
        help='continue from this checkpoint, by default the newest one of the work dir',
    )
    parser.add_amp('train')
    add('--no-validate', action='store_true', help='no validation; the last epoch is tested')
    add(
        '--best-on-test',
        action='store_true',
        help='validate on the test set, keep every epoch and report the best one, as papers do',
    )
    add(
        '--against',
        metavar='CONFIG',
        help='a baseline: trained first, in WORK_DIR/baseline, with the same seed, flags and '
        'processes, and those --cfg-options that its config has; ends with both results in one '
        'table, what the trainings differ in, and a picture',
    )
    add(
        '--devices',
        nargs='+',
        metavar='N',
        help="GPUs on which rows of the config's before that do not need each other are made side "
        'by side, one on each',
    )
    add('--auto-scale-lr', action='store_true', help='scale the learning rate to the batch size')
    add('--no-persistent-workers', action='store_true', help='new data workers for each epoch')
    add('--seed', type=int, help="default: the config's randomness.seed")
    add('--diff-rank-seed', action='store_true', help='another seed for each process')
    add('--deterministic', action='store_true', help='deterministic cuDNN algorithms')
    parser.add_cfg_options()
    parser.add_launcher()
    return parser.parse_args()


def apply_args(cfg: Config, args: argparse.Namespace) -> None:
    """Change the config according to the flags."""
    from mmvtr.engine import training  # takes seconds to import

    if args.no_validate:
        cfg.val_cfg = cfg.val_dataloader = cfg.val_evaluator = None
    if args.best_on_test:
        if args.no_validate:
            raise SystemExit(
                'error: --best-on-test validates, --no-validate does not: give one of them'
            )
        training.choose_on_test(cfg)
    if args.amp:
        training.use_amp(cfg, args.amp)
    if args.auto_scale_lr:
        training.scale_rates(cfg)
    for loader in ('train_dataloader', 'val_dataloader', 'test_dataloader'):
        if cfg.get(loader) and args.no_persistent_workers:
            cfg[loader].persistent_workers = False
    for key in ('seed', 'deterministic', 'diff_rank_seed'):
        value = getattr(args, key)
        if value is not None and value is not False:
            cfg.merge_from_dict({f'randomness.{key}': value})


@tool
def main() -> None:
    args = parse_args()
    cfg = load_config(args.config, args.cfg_options, args.work_dir)
    apply_args(cfg, args)
    if args.against:
        from mmvtr.engine.against import train_baseline

        train_baseline(cfg, args, Path(__file__), load_config)
    if cfg.get('before'):
        from mmvtr.engine.before import train_rows

        train_rows(cfg, args, Path(__file__), load_config)
    elif args.devices:
        raise SystemExit(f'error: --devices: {args.config} has no trainings that come before it')
    with Ending(cfg.work_dir, sys.argv, launched=args.launcher != 'none') as ending:
        train(cfg, args, ending)


def train(cfg: Config, args: argparse.Namespace, ending: Ending) -> None:
    """Train by a checked config, then test and print the table."""
    from mmengine.dist import is_main_process

    from mmvtr.engine import against, launching, training
    from mmvtr.engine.checks.config_checks import check_training

    check_training(cfg, args.cfg_options)
    launching.start_processes(cfg, args.launcher)
    is_new = not os.path.exists(cfg.work_dir)
    with launching.claim(cfg.work_dir) as lock:  # before anything in it is read
        ending.release = lock.release
        stated = args.seed is not None or 'randomness.seed' in args.cfg_options
        seed = cfg.randomness.seed if stated else None
        try:
            runner = training.runner_of_training(cfg, resume=args.resume, seed=seed)
        except USER_ERRORS:  # missing data, say: a refused training leaves no folder
            if is_new and is_main_process():
                lock.release()
                shutil.rmtree(cfg.work_dir)
            raise
        checkpoint = training.train_and_test(runner)
        if is_main_process():
            if args.against:
                here = Path(__file__)
                print(against.compared(cfg, args, checkpoint, here, load_config), end='\n\n')
            if checkpoint is None:
                print(f'no checkpoint was written to {runner.work_dir}')
            else:
                searched = training.gives_vectors(runner)
                words = cfg_words(args.cfg_options)
                print(next_steps(args.config, checkpoint, words, searched=searched))
    launching.stop_processes()


if __name__ == '__main__':
    main()
