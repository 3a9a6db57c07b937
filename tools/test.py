"""Test a checkpoint, and print the same table as at the end of its training.

    python tools/test.py CONFIG CHECKPOINT [--out metrics.json] [--dump scores.pkl]
    python tools/test.py CONFIG CHECKPOINT CHECKPOINT ... [--fusion .7 .3]
    python tools/test.py CONFIG                      # zero-shot: the pretrained model, untrained

The scores of several checkpoints of one config (from other splits or seeds) are added, and each
one's own metrics are printed as well: member_0, member_1 ...

Without a checkpoint the pretrained weights that the config names are tested as they are, untrained
(zero-shot).  A model with parts that have no pretrained weights needs --random-weights; the log
then says which parts are random.
"""

from __future__ import annotations

import argparse
import os

from mmvtr.cli.start import tool

from mmengine.config import Config

from mmvtr.cli import Parser, output_file, read_fusion
from mmvtr.utils import load_config


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
    add(
        '--random-weights', action='store_true', help='no checkpoint is needed: parts may be random'
    )
    add(
        '--fusion',
        nargs='+',
        metavar='WEIGHT',
        help="for several checkpoints: 'sum' (default: equal weights), or one weight each",
    )
    add('--work-dir', help='folder for the log; default work_dirs/<config name>')
    add(
        '--out',
        type=output_file,
        metavar='FILE',
        help='write the metrics, and their protocol, to this .json, .yaml or .pkl file',
    )
    add(
        '--dump',
        type=output_file,
        metavar='FILE',
        help="write each text's scores of all videos to this .pkl file (mmengine's DumpResults)",
    )
    parser.add_amp('encode (scores stay float32)')
    parser.add_cfg_options()
    parser.add_launcher()
    return parser.parse_args()


def check_args(args: argparse.Namespace, cfg: Config) -> None:
    """Exit with an error if the arguments cannot be tested, before anything slow."""
    for path in args.checkpoints:
        if not os.path.isfile(path):
            raise SystemExit(f'error: checkpoint {path} does not exist')
    if args.fusion is not None and len(args.checkpoints) < 2:
        raise SystemExit('error: --fusion is for several checkpoints')
    if args.random_weights and (args.checkpoints or cfg.get('load_from')):
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

    # Import here what takes seconds.
    from mmengine.dist import is_main_process
    from mmengine.fileio import dump

    from mmvtr.engine.checks.config_checks import check_config
    from mmvtr.engine.launching import stop_processes
    from mmvtr.engine.testing import checkpoints_of, runner_of_test
    from mmvtr.evaluation.metric import listed_metrics
    from mmvtr.evaluation.results import Results

    if args.dump:
        dumping = dict(type='DumpResults', out_file_path=str(args.dump))
        cfg.test_evaluator = [*listed_metrics(cfg.get('test_evaluator')), dumping]
    check_config(cfg, args.cfg_options, training=False)
    runner = runner_of_test(
        cfg,
        checkpoints_of(cfg, args.checkpoints),
        fusion=read_fusion(args.fusion),
        random=args.random_weights,
        launcher=args.launcher,
    )
    metrics = runner.test()
    if args.out and is_main_process():
        protocol = getattr(runner.test_loop, 'protocol', None)
        dump(Results(metrics, protocol).as_dict(), args.out)
    stop_processes()


if __name__ == '__main__':
    main()
