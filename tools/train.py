"""Train a retriever, then test the checkpoint that was best on val.

python tools/train.py CONFIG [--work-dir DIR] [--resume] [--cfg-options key=value ...]
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
from functools import partial
from pathlib import Path
from typing import Any, Optional

from mmengine.config import Config

from mmvtr.command_line import Parser, cfg_words, tool
from mmvtr.signals import Ending, check_writable, next_steps
from mmvtr.utils import load_config


def parse_args() -> argparse.Namespace:
    parser = Parser(__doc__)
    add = parser.add_argument
    add('config', help='config file')
    add('--work-dir', help='for logs and checkpoints; default work_dirs/<config name>')
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
    add('--auto-scale-lr', action='store_true', help='scale the learning rate to the batch size')
    add(
        '--no-persistent-workers',
        action='store_true',
        help='start the data workers anew for each epoch',
    )
    add('--seed', type=int, help="default: the config's randomness.seed")
    add('--diff-rank-seed', action='store_true', help='another seed for each process')
    add('--deterministic', action='store_true', help='deterministic cuDNN algorithms')
    parser.add_cfg_options()
    parser.add_launcher()
    return parser.parse_args()


def apply_args(cfg: Config, args: argparse.Namespace) -> None:
    """The flags' changes to the config."""
    if args.no_validate:
        cfg.val_cfg = cfg.val_dataloader = cfg.val_evaluator = None
    if args.best_on_test:
        if args.no_validate:
            raise SystemExit('error: --best-on-test validates, --no-validate does not')
        choose_on_test(cfg)
    if args.amp:
        use_amp(cfg, args.amp)
    if args.auto_scale_lr:
        if cfg.get('auto_scale_lr', {}).get('base_batch_size') is None:
            raise SystemExit(
                f'error: --auto-scale-lr: {cfg.filename} has no auto_scale_lr.base_batch_size'
            )
        cfg.auto_scale_lr.enable = True
    for loader in ('train_dataloader', 'val_dataloader', 'test_dataloader'):
        if cfg.get(loader) and args.no_persistent_workers:
            cfg[loader].persistent_workers = False
    randomness = dict(seed=args.seed, deterministic=args.deterministic or None)
    randomness['diff_rank_seed'] = args.diff_rank_seed or None
    for key, value in randomness.items():
        if value is not None:
            cfg.merge_from_dict({f'randomness.{key}': value})


def choose_on_test(cfg: Config) -> None:
    """The field's protocol: every epoch is tested and kept, the best of them is the result."""
    if cfg.get('test_dataloader') is None:
        raise SystemExit(f'error: --best-on-test: {cfg.filename} has no test_dataloader')
    for part in ('dataloader', 'evaluator', 'cfg'):
        cfg[f'val_{part}'] = copy.deepcopy(cfg[f'test_{part}'])
    cfg.train_cfg.val_interval = 1
    keep = cfg.default_hooks.checkpoint
    keep.update(interval=1, max_keep_ckpts=-1)
    metrics = cfg.test_evaluator if isinstance(cfg.test_evaluator, list) else [cfg.test_evaluator]
    if any(not metric.get('v2t_protocols', True) for metric in metrics):  # texts alone ask
        keep.save_best = keep.save_best.replace('retrieval/rsum', 'retrieval/t2v_SumR')


#: By precision, the wrapper that trains in it and its arguments.
WRAPPERS = dict(
    bf16=dict(type='mmvtr.AutocastOptimWrapper'),
    fp16=dict(type='AmpOptimWrapper', dtype='float16', loss_scale='dynamic'),
)


def use_amp(cfg: Config, precision: str) -> None:
    """Make the optimizer wrapper run in a low precision: 'bf16', or 'fp16' with loss scaling.

    Raises:
        SystemExit: float16 without a GPU, or a wrapper that is not known.
    """
    from mmvtr.registry import bare_name

    if precision == 'fp16':
        check_gpu()
    kind = bare_name(cfg.optim_wrapper.setdefault('type', 'OptimWrapper'))
    if kind not in ('OptimWrapper', 'AutocastOptimWrapper', 'AmpOptimWrapper'):
        raise SystemExit(f'error: --amp does not know how to change optim_wrapper.type={kind!r}')
    for key in ('dtype', 'loss_scale'):
        cfg.optim_wrapper.pop(key, None)
    cfg.optim_wrapper.update(WRAPPERS[precision])


def check_gpu() -> None:
    """Raise SystemExit without a GPU: float16 needs its loss scaling."""
    import torch

    if not torch.cuda.is_available():
        raise SystemExit(
            'error: --amp fp16 trains with loss scaling, which needs a GPU, and there is none: '
            'take --amp bf16'
        )


@tool
def main() -> None:
    args = parse_args()
    cfg = load_config(args.config, args.cfg_options, args.work_dir)
    apply_args(cfg, args)
    if args.against:
        train_baseline(cfg, args)
    with Ending(cfg.work_dir, sys.argv, launched=args.launcher != 'none') as ending:
        train(cfg, args, ending)


def train_baseline(cfg: Config, args: argparse.Namespace) -> None:
    """The training that this one is compared with, in processes of its own, one of each of ours.

    Raises:
        SystemExit: a fault of either config, or the baseline's training has failed.
        ValueError: the two are tested on different sets.
    """
    from mmvtr.engine.checks.config_checks import check_config
    from mmvtr.engine.launch import against
    from mmvtr.storage import write_text

    both, _ = against.divided(args.cfg_options, partial(load_config, args.against))
    base = load_config(args.against, both)
    if any(one.get('test_dataloader') is None for one in (cfg, base)):
        raise SystemExit('error: --against compares two tests: both configs need test_dataloader')
    check_config(cfg, args.cfg_options)  # before the baseline takes its time
    check_config(base, both)
    check_writable(cfg.work_dir)
    against.refuse_other_set(cfg, base, names_of(args))
    folder = Path(cfg.work_dir) / 'baseline'
    command = baseline_command(cfg, args, folder, both)
    done = folder / 'command.json'  # written when it is through
    same = done.is_file() and json.loads(done.read_text()) == command
    if args.resume and same and any(folder.glob(f'*/{against.RESULTS}')):
        return
    first = against.rank_of_launch() == 0
    if first:
        print(f'first the baseline: {args.against}, in {folder}', flush=True)
    against.call(Path(__file__), *command, environment=against.own_group())
    if first:
        write_text(done, json.dumps(command) + '\n')


def baseline_command(
    cfg: Config, args: argparse.Namespace, folder: Path, options: dict[str, Any]
) -> list[str]:
    """The arguments of the baseline's training: ours, but for the folder and some options."""
    seed = cfg.get('randomness', {}).get('seed') or 0
    flags = ['--work-dir', str(folder), '--seed', str(seed), '--launcher', args.launcher]
    names = ('no_validate', 'best_on_test', 'auto_scale_lr', 'deterministic', 'diff_rank_seed')
    for name in (*names, 'no_persistent_workers'):
        flags += [f'--{name.replace("_", "-")}'] * bool(getattr(args, name))
    flags += ['--amp', args.amp] if args.amp else []
    return [args.against, *flags, *cfg_words(options)]


def names_of(args: argparse.Namespace) -> tuple[str, str]:
    """Of the method and of the baseline."""
    return Path(args.config).stem, Path(args.against).stem


def compared(cfg: Config, args: argparse.Namespace, checkpoint: Optional[str]) -> str:
    """The table of both trainings, and where the picture is, or why there is none."""
    from mmvtr.engine.launch import against

    folder, names = Path(cfg.work_dir), names_of(args)
    both, alone = against.divided(args.cfg_options, partial(load_config, args.against))
    told = [
        f'{" ".join(cfg_words(some)[1:])} for {whom}'
        for some, whom in ((both, 'both'), (alone, f'{names[0]} alone'))
        if some
    ]
    options = f'options: {"; ".join(told)}' if told else ''
    table = against.beside(folder, folder / 'baseline', names, options)
    if checkpoint is None:
        return table
    options = cfg_words(args.cfg_options)
    draw = Path(__file__).with_name('analysis_tools') / 'draw.py'
    told = against.picture(draw, args.config, checkpoint, folder / 'pictures', *options)
    return f'{table}\n\npicture: {told}'


def train(cfg: Config, args: argparse.Namespace, ending: Ending) -> None:
    """From a config to the table of its test."""
    check_writable(cfg.work_dir)

    # Only now what takes seconds to import.
    from mmengine.dist import is_main_process

    from mmvtr.engine import ToolRunner
    from mmvtr.engine.checks.config_checks import check_config
    from mmvtr.engine.checks.metric_checks import check_metrics
    from mmvtr.engine.checks.schedule_checks import check_joint_batch, check_warmup, linear_rule
    from mmvtr.engine.checks.size_checks import check_sizes
    from mmvtr.engine.hooks.momentum import check_banks
    from mmvtr.engine.launch import launching as launch
    from mmvtr.engine.launch.starting_weights import start_from
    from mmvtr.engine.loop.facts import trainings_of

    check_config(cfg, args.cfg_options)
    check_warmup(cfg)
    launch.start_processes(cfg, args.launcher)
    with launch.claim(cfg.work_dir) as lock:  # before anything in it is read
        ending.release = lock.release
        if args.resume or cfg.get('resume'):
            launch.resume(cfg, args.resume or cfg.get('load_from') or 'auto', seed=args.seed)
        check_joint_batch(cfg)
        remarks = check_sizes(cfg, launch.check_datasets(cfg))
        launch.pin_memory(cfg)
        runner = ToolRunner.from_cfg(cfg)
        for remark in remarks:
            runner.logger.info(remark)
        runner.auto_scale_lr = linear_rule(cfg)
        if cfg.resume:
            checkpoint = launch.read_matching(runner.model, cfg.load_from)
            launch.check_order(runner, checkpoint, cfg.load_from)
            launch.check_optimizer(runner, checkpoint, cfg.load_from)
            (runner.trained_before,) = trainings_of(checkpoint, cfg.load_from)
        else:
            start_from(runner, cfg)
        check_metrics(runner)
        check_banks(runner)
        train_and_test(runner)
        if is_main_process():
            if args.against:
                print(compared(cfg, args, checkpoint_of(runner)), end='\n\n')
            print(last_words(runner, args))
    launch.stop_processes()


def train_and_test(runner: Any) -> None:
    """Train; then the checkpoint that was best on val, or else the last epoch, is tested."""
    from mmengine.dist import barrier

    from mmvtr.engine.launch import launching as launch

    runner.train()
    barrier()  # rank 0 may still be writing
    if runner.cfg.get('test_dataloader') is not None:
        best = runner.message_hub.get_info('best_ckpt')
        if best is None:
            runner.logger.info('Testing the last epoch: no checkpoint was chosen on val')
        else:
            launch.load_best(runner, best)
        runner.test()
    barrier()  # rank 0 holds the folder until all are through


def checkpoint_of(runner: Any) -> Optional[str]:
    """The checkpoint that was best on val, or else the last one; None where there is none."""
    from mmvtr.engine.loop.checkpoint import latest_checkpoint

    return runner.message_hub.get_info('best_ckpt') or latest_checkpoint(runner.work_dir)


def last_words(runner: Any, args: argparse.Namespace) -> str:
    """Where the checkpoint is, and what can be done with it."""
    from mmvtr.engine.loop.evaluation import bare

    found = checkpoint_of(runner)
    if found is None:
        return f'no checkpoint was written to {runner.work_dir}'
    searched = hasattr(getattr(bare(runner.model), 'similarity', None), 'flat')
    return next_steps(args.config, found, cfg_words(args.cfg_options), searched=searched)


if __name__ == '__main__':
    main()
