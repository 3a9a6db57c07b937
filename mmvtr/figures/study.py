"""A model's evaluation in hand, as a figure needs it: run as tools/test.py runs it."""

from __future__ import annotations

import copy
import itertools
from pathlib import Path
from typing import Optional, Sequence

from mmengine.config import Config
from mmengine.hooks import Hook
from mmengine.runner import Runner

from mmvtr.apis import as_tested
from mmvtr.engine import ToolRunner
from mmvtr.engine.hooks.study import Study
from mmvtr.engine.launch import launching as launch
from mmvtr.engine.launch.zero_shot import admit_random, state_zero_shot
from mmvtr.engine.loop.evaluation import Evaluation
from mmvtr.engine.transforms.score_transforms import TransformHook
from mmvtr.utils import forget_pretrained

_RUNS = itertools.count()


class KeepHook(Hook):
    """Keeps what an evaluation has in hand."""

    priority = 'LOWEST'  # after the hooks that transform scores

    def __init__(self) -> None:
        self.evaluation: Optional[Evaluation] = None

    def after_scoring(self, runner: Runner, evaluation: Evaluation) -> None:
        """Called on rank 0."""
        self.evaluation = evaluation


def tested(
    cfg: Config, checkpoint: Optional[str], hooks: Sequence[Hook], *, random: bool = False
) -> tuple[ToolRunner, dict[str, float]]:
    """Test a model as tools/test.py does, with further hooks.

    Args:
        cfg: changed in place: which checkpoint, its seed.
        checkpoint: weights of the whole model; None: the config's ``load_from``, else as the config
            builds it.
        hooks: registered before the test.
        random: whether parts of the model may be random.

    Returns:
        The runner, and the results.

    Raises:
        SystemExit: a checkpoint that cannot be read or is of another model, data that is missing,
            or random weights that nobody asked for.
    """
    checkpoint = checkpoint or cfg.get('load_from')
    cfg.load_from, cfg.resume = checkpoint, False
    if checkpoint:
        seed = launch.read_or_exit(checkpoint).get('meta', {}).get('seed')
        if seed is not None:
            cfg.merge_from_dict({'randomness.seed': seed})  # the protocol line states it
        forget_pretrained(cfg.model)
    elif random:
        admit_random(cfg.model)
    launch.check_datasets(cfg, ['test_dataloader'])
    launch.pin_memory(cfg)
    runner = ToolRunner.from_cfg(cfg)
    for hook in hooks:
        runner.register_hook(hook)
    if checkpoint:
        launch.check_or_exit(runner.model, checkpoint)
    else:
        state_zero_shot(runner, random=random)
    return runner, runner.test()


def study(
    cfg: Config, checkpoint: Optional[str], *, split: str = 'test', random: bool = False
) -> Study:
    """Test a model and keep what the test had in hand.

    Args:
        cfg: its config; left as it is.
        checkpoint: weights of the whole model, or None: as the config builds it.
        split: 'train', 'val' or 'test'; another than 'test' is read as the test set is, and
            measured by recall alone.
        random: whether random weights will do.

    Raises:
        ValueError: the config has no such split, or the similarity ranks a shortlist, of which
            most scores are none.
    """
    cfg = copy.deepcopy(cfg)
    if split != 'test':
        cfg.test_dataloader = as_tested(cfg, split)
        cfg.test_dataloader.dataset.on_broken = 'raise'
        cfg.test_evaluator = dict(type='mmvtr.RetrievalMetric')
    # mmengine keeps loggers by name, and names runs by the second.
    stem = Path(cfg.filename).stem if cfg.filename else 'figures'
    cfg.experiment_name = f'{stem}_figures_{next(_RUNS)}'
    keep = KeepHook()
    runner, numbers = tested(cfg, checkpoint, [keep], random=random)
    evaluation = keep.evaluation
    if not evaluation.exact:
        raise ValueError(f'{cfg.filename}: its similarity ranks a shortlist: set shortlist=None')
    names = [hook.name for hook in runner.hooks if isinstance(hook, TransformHook)]
    if runner.message_hub.runtime_info.get('left_out_transforms'):
        names = []  # an oracle alone would stand for what the config means
    known = launch.read_or_exit(checkpoint).get('meta', {}) if checkpoint else {}
    return Study(
        evaluation,
        runner.test_loop.dataloader.dataset,
        [name for name in names if name in evaluation.transformed],
        Path(checkpoint).stem if checkpoint else 'as built',
        cfg,
        checkpoint,
        dict(numbers),
        known.get('epoch'),
    )
