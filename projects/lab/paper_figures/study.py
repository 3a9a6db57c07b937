"""Inputs of figures: a tested model, or a tool that draws by itself."""

from __future__ import annotations

import copy
import itertools
import runpy
import sys
from pathlib import Path
from typing import Any, Optional

from mmengine.config import Config
from mmengine.hooks import Hook
from mmengine.runner import Runner

from mmvtr.apis import as_tested
from mmvtr.engine.hooks.score_transforms import TransformHook
from mmvtr.engine.hooks.tested_model import TestedModel
from mmvtr.engine.loops.evaluation import Evaluation
from mmvtr.engine.loops.facts_of_run import trainings_in
from mmvtr.engine.testing import runner_of_test
from mmvtr.utils import tool_folder

_RUNS = itertools.count()


class KeepHook(Hook):
    """A hook that stores an evaluation's results."""

    priority = 'LOWEST'  # after the hooks that transform scores

    def __init__(self) -> None:
        self.evaluation: Optional[Evaluation] = None

    def after_scoring(self, runner: Runner, evaluation: Evaluation) -> None:
        """Store the evaluation; called on rank 0."""
        self.evaluation = evaluation


def study(
    cfg: Config, checkpoint: Optional[str], *, split: str = 'test', random: bool = False
) -> TestedModel:
    """Test a model and return its results.

    Args:
        cfg: its config, not modified.
        checkpoint: weights of the whole model; None: as the config builds it.
        split: 'train', 'val' or 'test'; 'train' and 'val' are read like the test set, and only
            recall is measured.
        random: whether random weights are accepted.

    Raises:
        ValueError: the config has no such split, or the similarity ranks a shortlist, so that most
            scores are missing.
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
    checkpoint = checkpoint or cfg.get('load_from')
    runner = runner_of_test(cfg, [checkpoint] if checkpoint else [], random=random)
    runner.register_hook(keep)
    numbers = runner.test()
    evaluation = keep.evaluation
    if not evaluation.exact:
        raise ValueError(f'{cfg.filename}: its similarity ranks a shortlist: set shortlist=None')
    names = [hook.name for hook in runner.hooks if isinstance(hook, TransformHook)]
    if runner.message_hub.runtime_info.get('left_out_transforms'):
        names = []  # an oracle transform alone would be mistaken for the config's
    return TestedModel(
        evaluation,
        [name for name in names if name in evaluation.transformed],
        Path(checkpoint).stem if checkpoint else 'as built',
        cfg,
        checkpoint,
        dict(numbers),
        trainings_in(runner),
    )


def run_tool(name: str, *arguments: Any) -> None:
    """Run a tool of ``tools/analysis_tools``, or of this folder, in this process.

    Raises:
        ValueError: the tool ends with an error message.
        SystemExit: it ends without a message.
    """
    file = Path(__file__).parents[1] / f'{name}.py'
    if not file.is_file():
        file = tool_folder() / 'analysis_tools' / file.name
    before = sys.argv
    sys.argv = [str(file), *map(str, arguments)]
    try:
        runpy.run_path(str(file), run_name='__main__')
    except SystemExit as ended:
        if not isinstance(ended.code, str):
            raise
        raise ValueError(ended.code.removeprefix('error: ')) from ended
    finally:
        sys.argv = before
