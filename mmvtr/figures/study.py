"""A model's evaluation in hand, as a figure needs it: run as tools/test.py runs it."""

from __future__ import annotations

import copy
import itertools
from pathlib import Path
from typing import Any, NamedTuple, Optional, Sequence

from mmengine.config import Config
from mmengine.hooks import Hook
from mmengine.runner import Runner
from torch import Tensor, nn

from mmvtr.apis import as_tested
from mmvtr.datasets import VideoTextDataset
from mmvtr.engine import ToolRunner
from mmvtr.engine.launch.testing import runner_of_test
from mmvtr.engine.loop.evaluation import Evaluation
from mmvtr.engine.transforms.score_transforms import TransformHook
from mmvtr.storage.weights import read_checkpoint
from mmvtr.structures import Directed

_RUNS = itertools.count()


class Study(NamedTuple):
    """A tested model.

    Attributes:
        name: how a picture calls it.
        cfg: its config.
        checkpoint: its weights, or None: as the config builds it.
        evaluation: encoded set, scores and relation.
        dataset: of the set.
        transforms: names of its transformed scores that are test-time transforms.
        numbers: the results of the test, ``'retrieval/t2v_R1'`` and so on.
        epoch: of the checkpoint, or None.
    """

    name: str
    cfg: Config
    checkpoint: Optional[str]
    evaluation: Evaluation
    dataset: VideoTextDataset
    transforms: Sequence[str] = ()
    numbers: dict[str, float] = {}
    epoch: Optional[int] = None

    @property
    def model(self) -> nn.Module:
        return self.evaluation.model

    @property
    def scores(self) -> Tensor:
        """float32 [T, V], raw."""
        return self.evaluation.matrices['scores']

    def best_scores(self) -> Directed:
        """The scores that the config means: after its first transform, else raw."""
        name = next(iter(self.transforms), None)
        return (
            Directed(self.scores, self.scores)
            if name is None
            else self.evaluation.transformed[name]
        )

    def text(self, row: int) -> dict[str, Any]:
        """The record of a text."""
        return self.dataset.texts[int(self.evaluation.texts.index[row])]

    def video(self, column: int) -> dict[str, Any]:
        """The record of a video."""
        return self.dataset.videos[int(self.evaluation.videos.index[column])]


class Asked(NamedTuple):
    """What a figure is made of.

    Attributes:
        models: tested models, one a checkpoint, in the order given; the last is *the* model.
        against: what it is compared with, or None.
        queries: ids of texts, or how many to choose.
        top: hits of a query, or None: the figure's own.
        seed: of all draws.
        method: of a two-dimensional picture, 'pca' or 'tsne'.
        out: folder, for what is more than pictures.
        said: lines to print beside the pictures; figures add to it.
    """

    models: Sequence[Study]
    against: Optional[Study]
    queries: Any
    top: Optional[int]
    seed: int
    method: str
    out: Path
    said: list[str]

    @property
    def model(self) -> Study:
        return self.models[-1]


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
        FileNotFoundError, RuntimeError, SystemExit: see
            :func:`~mmvtr.engine.launch.testing.runner_of_test`.
    """
    checkpoint = checkpoint or cfg.get('load_from')
    runner = runner_of_test(cfg, [checkpoint] if checkpoint else [], random=random)
    for hook in hooks:
        runner.register_hook(hook)
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
    known = read_checkpoint(checkpoint).get('meta', {}) if checkpoint else {}
    return Study(
        Path(checkpoint).stem if checkpoint else 'as built',
        cfg,
        checkpoint,
        evaluation,
        runner.test_loop.dataloader.dataset,
        [name for name in names if name in evaluation.transformed],
        dict(numbers),
        known.get('epoch'),
    )
