"""Test a checkpoint: the same table as at the end of its training.

    python tools/test.py CONFIG CHECKPOINT [--out metrics.json] [--cfg-options key=value ...]
    python tools/test.py CONFIG CHECKPOINT CHECKPOINT ... [--fusion .7 .3]
    python tools/test.py CONFIG                      # zero-shot: the pretrained model, untrained

Of several checkpoints of one config (trained on other splits, with other seeds) the scores are
added, and each one's own numbers stand beside: member_0, member_1 ...

Without a checkpoint the pretrained weights that the config names are tested as they are, untrained
(zero-shot).  A model that no such weights are for, in whole or in part, needs --random-weights; the
log then says which parts are random.
"""

from __future__ import annotations

import argparse
import os
from typing import Any, Optional, Sequence

from mmengine.config import Config

from mmvtr.command_line import Parser, output_file, tool
from mmvtr.utils import forget_pretrained, load_config


def parse_args() -> argparse.Namespace:
    parser = Parser(__doc__)
    add = parser.add_argument
    add('config', help='config file')
    add(
        'checkpoints',
        nargs='*',
        metavar='CHECKPOINT',
        help='files of the same model; none: as the config builds it, with its pretrained weights',
    )
    add('--random-weights', action='store_true', help='without a checkpoint: parts may be random')
    add(
        '--fusion',
        nargs='+',
        metavar='WEIGHT',
        help="of several checkpoints: 'sum' (default: equal weights), or one weight each",
    )
    add('--work-dir', help='for the log; default work_dirs/<config name>')
    add(
        '--out',
        type=output_file,
        metavar='FILE',
        help='write the metrics to this .json, .yaml or .pkl file',
    )
    parser.add_amp('encode (scores stay float32)')
    parser.add_cfg_options()
    add(
        '--launcher',
        choices=['none', 'pytorch', 'slurm', 'mpi'],
        default='none',
        help='who has started the processes (default: none, a single one)',
    )
    add('--local_rank', '--local-rank', type=int, default=0, help='set by launchers')
    args = parser.parse_args()
    os.environ.setdefault('LOCAL_RANK', str(args.local_rank))
    return args


def check_args(args: argparse.Namespace, cfg: Config) -> None:
    """Refuse what cannot be tested, before anything slow."""
    if not args.checkpoints and cfg.get('load_from'):
        args.checkpoints = [cfg.load_from]
    for path in args.checkpoints:
        if not os.path.isfile(path):
            raise SystemExit(f'error: checkpoint {path} does not exist')
    if args.fusion is not None and len(args.checkpoints) < 2:
        raise SystemExit('error: --fusion is for several checkpoints')
    if args.random_weights and args.checkpoints:
        raise SystemExit('error: --random-weights is for a test without a checkpoint')
    if cfg.get('test_dataloader') is None:
        raise SystemExit(f'error: {args.config} has no test_dataloader')


@tool
def main() -> None:
    args = parse_args()
    cfg = load_config(args.config, args.cfg_options, args.work_dir)
    check_args(args, cfg)
    if args.amp:
        cfg.test_cfg.amp = args.amp

    # Only now what takes seconds to import.
    from mmengine.dist import is_main_process
    from mmengine.fileio import dump

    from mmvtr.engine import ToolRunner
    from mmvtr.engine.checks.config_checks import check_config
    from mmvtr.engine.launch import launching as launch
    from mmvtr.engine.launch.zero_shot import admit_random, state_zero_shot
    from mmvtr.engine.loop.evaluation import bare

    check_config(cfg, args.cfg_options)
    seeds, choices = zip(*map(origin, args.checkpoints)) if args.checkpoints else ((), ())
    if seeds and seeds[0] is not None:
        cfg.merge_from_dict({'randomness.seed': seeds[0]})  # the protocol line states it
    cfg.load_from, cfg.resume = args.checkpoints[0] if len(seeds) == 1 else None, False
    if len(seeds) > 1:
        fuse(cfg, args, seeds)  # load_members fills them
    if seeds:
        forget_pretrained(cfg.model)
    elif args.random_weights:
        admit_random(cfg.model)
    launch.start_processes(cfg, args.launcher)
    launch.check_datasets(cfg, ['test_dataloader'])
    launch.pin_memory(cfg)
    runner = ToolRunner.from_cfg(cfg)
    if len(seeds) > 1:
        load_members(bare(runner.model), args.checkpoints)
    elif seeds:
        launch.read_matching(runner.model, args.checkpoints[0])
    else:
        state_zero_shot(runner, random=args.random_weights)
    launch.state_choice(runner, choices)
    metrics = runner.test()
    if args.out and is_main_process():
        dump(metrics, args.out)
    launch.stop_processes()


def origin(path: str) -> tuple[Optional[int], Optional[Any]]:
    """Seed of a checkpoint's training, and its :class:`~mmvtr.engine.loop.choice.Choice`."""
    from mmvtr.engine.loop.choice import choice_of
    from mmvtr.storage.weights import read_checkpoint

    checkpoint = read_checkpoint(path)
    return checkpoint.get('meta', {}).get('seed'), choice_of(checkpoint)


def fuse(cfg: Config, args: argparse.Namespace, seeds: Sequence[Optional[int]]) -> None:
    """Make the config's model one of as many members as there are checkpoints."""
    from mmvtr.engine.hooks.members import fuse_config, read_fusion

    origins = [
        path if seed is None else f'{path} (seed {seed})'
        for path, seed in zip(args.checkpoints, seeds)
    ]
    fuse_config(cfg, origins, read_fusion(args.fusion))


def load_members(model: Any, paths: Sequence[str]) -> None:
    """Each member's weights, from its own file."""
    from mmvtr.engine.launch import launching as launch

    for member, path in zip(model.members, paths):
        member.load_state_dict(launch.read_matching(member, path)['state_dict'])


if __name__ == '__main__':
    main()
