"""Construction of a runner that trains a config, from its checks to the test of the best epoch."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, Optional, Sequence, Union

import torch
from mmengine.config import Config
from mmengine.dist import barrier
from mmengine.hooks import Hook
from mmengine.runner import Runner

from mmvtr.engine import launching
from mmvtr.engine.checks.metric_checks import check_metrics
from mmvtr.engine.checks.schedule_checks import check_joint_batch, linear_rule
from mmvtr.engine.checks.set_checks import check_banks, check_halves, check_sizes
from mmvtr.engine.loops import resuming
from mmvtr.engine.loops.checkpoint import latest_checkpoint, local_file, read_matching
from mmvtr.engine.loops.evaluation import bare
from mmvtr.engine.loops.facts import choice_of, trainings_of
from mmvtr.engine.loops.facts_of_run import state_choice, state_trainings
from mmvtr.engine.runner import ToolRunner
from mmvtr.errors import UserError
from mmvtr.evaluation.metric import listed_metrics
from mmvtr.registry import bare_name
from mmvtr.storage.weights import check_weights, read_checkpoint, unwrapped

#: Optimizer wrapper and its arguments by precision.
WRAPPERS = dict(
    bf16=dict(type='mmvtr.AutocastOptimWrapper'),
    fp16=dict(type='AmpOptimWrapper', dtype='float16', loss_scale='dynamic'),
)


def choose_on_test(cfg: Config) -> None:
    """Validate on the test set and keep every epoch, so that the best one is the result.

    Raises:
        UserError: the config has no test set, or counts its training in steps.
    """
    if cfg.get('test_dataloader') is None:
        raise UserError(f'--best-on-test: {cfg.filename} has no test_dataloader')
    loop = cfg.get('train_cfg') or {}
    if bare_name(loop).startswith('Iter') or not loop.get('by_epoch', True):
        raise UserError(f'--best-on-test: {cfg.filename} counts its training in steps, not epochs')
    for part in ('dataloader', 'evaluator', 'cfg'):
        cfg[f'val_{part}'] = copy.deepcopy(cfg.get(f'test_{part}'))
    cfg.train_cfg.val_interval = 1
    keep = cfg.default_hooks.checkpoint
    keep.update(interval=1, max_keep_ckpts=-1)
    metrics = listed_metrics(cfg.get('test_evaluator'))
    text_only = any(not metric.get('v2t_protocols', True) for metric in metrics)
    if text_only and keep.get('save_best') is not None:
        keep.save_best = keep.save_best.replace('retrieval/rsum', 'retrieval/t2v_SumR')


def use_amp(cfg: Config, precision: str) -> None:
    """Make the optimizer wrapper run in a low precision: 'bf16', or 'fp16' with loss scaling.

    Raises:
        UserError: float16 without a GPU, or an unknown wrapper.
    """
    if precision == 'fp16' and not torch.cuda.is_available():
        raise UserError(
            '--amp fp16 trains with loss scaling, which needs a GPU, and there is none: '
            'take --amp bf16'
        )
    kind = bare_name(cfg.optim_wrapper.setdefault('type', 'OptimWrapper'))
    if kind not in ('OptimWrapper', 'AutocastOptimWrapper', 'AmpOptimWrapper'):
        raise UserError(f'--amp does not know how to change optim_wrapper.type={kind!r}')
    for key in ('dtype', 'loss_scale'):
        cfg.optim_wrapper.pop(key, None)
    cfg.optim_wrapper.update(WRAPPERS[precision])


def scale_rates(cfg: Config) -> None:
    """Scale the learning rates with the batch size.

    Raises:
        UserError: the config does not state the batch size of its rates.
    """
    if cfg.get('auto_scale_lr', {}).get('base_batch_size') is None:
        raise UserError(f'--auto-scale-lr: {cfg.filename} has no auto_scale_lr.base_batch_size')
    cfg.auto_scale_lr.enable = True


def runner_of_training(
    cfg: Config, *, resume: Optional[str] = None, seed: Optional[int] = None
) -> ToolRunner:
    """Return a runner with checked data, weights and metrics, new or resumed.

    Args:
        cfg: changed in place; its folder is locked (:func:`.launching.claim`).
        resume: a checkpoint, or 'auto' for the newest one in the folder; None: the config's own
            ``resume``.
        seed: the user's seed, which must be that of the checkpoint.

    Raises:
        UserError: data, weights or a schedule that do not fit the config; names them.
        FileNotFoundError, RuntimeError, ValueError: no such checkpoint, or a damaged one.
    """
    if resume or cfg.get('resume'):
        resuming.resume(cfg, resume or cfg.get('load_from') or 'auto', seed=seed)
    check_joint_batch(cfg)
    launching.pin_memory(cfg)
    runner = ToolRunner.from_cfg(cfg)
    for remark in check_sizes(cfg, runner.datasets):
        runner.logger.info(remark)
    runner.auto_scale_lr = linear_rule(cfg)
    if cfg.resume:
        path = cfg.load_from
        checkpoint = read_matching(runner.model, path)
        runner.rescale = resuming.check_resume(runner, checkpoint, path)
        (runner.trained_before,) = trainings_of(checkpoint, path)
    else:
        start_from(runner, cfg)
    check_metrics(runner)
    check_banks(runner)
    check_halves(runner)
    return runner


def train_and_test(runner: ToolRunner) -> Optional[str]:
    """Train, then test the best checkpoint on val, or else that of the last epoch; return its path.

    Return None if the training has written no checkpoint.
    """
    runner.train()
    barrier()  # rank 0 may still be writing
    if runner.cfg.get('test_dataloader') is not None:
        best = runner.message_hub.get_info('best_ckpt')
        if best is None:
            runner.logger.info('Testing the last epoch: no checkpoint was chosen on val')
        else:
            _load_best(runner, best)
        runner.test()
    barrier()  # rank 0 holds the folder's lock until all are finished
    return runner.message_hub.get_info('best_ckpt') or latest_checkpoint(runner.work_dir)


def _load_best(runner: Runner, path: Union[str, Path]) -> None:
    """Load the weights of the best checkpoint into the model after a training.

    Raises:
        FileNotFoundError, RuntimeError: the file is missing or damaged.
    """
    checkpoint = read_checkpoint(path)
    # An EMAHook would treat it as a training to resume; state_dict has the averaged weights.
    checkpoint.pop('ema_state_dict', None)
    runner._resume = False  # it would miss them after a resumed training
    runner.call_hook('after_load_checkpoint', checkpoint=checkpoint)
    bare(runner.model).load_state_dict(checkpoint['state_dict'])
    choice = choice_of(checkpoint)
    state_choice(runner, [choice])
    state_trainings(runner, trainings_of(checkpoint, path))
    runner.logger.info(f'Testing the weights of {path}')
    if choice is not None:
        runner.logger.info(f'chosen by {choice.in_words()}')


def gives_vectors(runner: Any) -> bool:
    """Return whether the model gives one vector per item, so that a gallery can be built."""
    return hasattr(getattr(bare(runner.model), 'similarity', None), 'flat')


def start_from(runner: Runner, cfg: Config) -> None:
    """Raise unless ``cfg.load_from`` fits the model, or the requested parts of it.

    ``load_from_prefixes`` of the config names them: a list of prefixes of weight names, such as
    ``['encoder.frames.', 'encoder.text.']`` for the towers alone.  All weights of the model under
    them come from the checkpoint, all others keep their initial values.

    Raises:
        FileNotFoundError, RuntimeError: no such checkpoint, or a damaged one.
        UserError: one of another model (names what differs), or a prefix that matches no weight.
    """
    path, prefixes = cfg.load_from, cfg.get('load_from_prefixes')
    if prefixes is not None:
        prefixes = [prefixes] if isinstance(prefixes, str) else prefixes
        listed = isinstance(prefixes, (list, tuple)) and len(prefixes) > 0
        if not listed or not all(isinstance(prefix, str) and prefix for prefix in prefixes):
            raise UserError(
                'load_from_prefixes is a list of beginnings of weight names, such as '
                f"['encoder.frames.'], not {str(prefixes)[:80]}"
            )
    if path is None:
        if prefixes is not None:
            raise UserError('load_from_prefixes needs a load_from')
        return
    try:
        path = local_file(path)
    except (OSError, ValueError) as error:
        raise UserError(f'load_from: {error}') from error
    model = bare(runner.model)
    weights = read_checkpoint(path)['state_dict']
    weights = unwrapped(weights, model.state_dict().__contains__, path)
    counts = {
        prefix: sum(name.startswith(prefix) for name in weights) for prefix in prefixes or ['']
    }
    vain = [prefix for prefix, count in counts.items() if not count]
    if vain:
        raise UserError(
            f'{path} holds no weight {vain[0][:80]}*; its weights are '
            f'{", ".join(sorted({".".join(name.split(".")[:2]) for name in weights}))[:250]}'
        )
    try:
        check_weights(model, weights, path, list(counts))
    except RuntimeError as error:
        advice = '' if prefixes else '\nA part of it can be loaded: see load_from_prefixes'
        raise UserError(f'{error}{advice}') from error
    if prefixes:
        runner.register_hook(PartHook(list(counts)), 'HIGHEST')
        parts = ', '.join(f'{count} {prefix}*' for prefix, count in counts.items())
        runner.logger.info(f'From {path}: {parts}; all other weights keep their initial values')


class PartHook(Hook):
    """Hook that keeps only the weights with some prefixes of a training's initial checkpoint."""

    def __init__(self, prefixes: Sequence[str]) -> None:
        self.prefixes = tuple(prefixes)
        self.done = False

    def after_load_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        if self.done:  # the best checkpoint, which is tested at the end
            return
        weights = checkpoint['state_dict']
        selected = {name: x for name, x in weights.items() if name.startswith(self.prefixes)}
        checkpoint.clear()  # also removes queues, averages etc.
        checkpoint.update(state_dict=selected, prefixes=self.prefixes)
        self.done = True
