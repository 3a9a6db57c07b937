"""Hook that draws an evaluation in TensorBoard, WandB, MLflow or a folder."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Iterator, Optional, Sequence, Union

from mmengine.hooks import Hook
from mmengine.runner import BaseLoop, EpochBasedTrainLoop, Runner

from mmvtr.engine.hooks.pictures import PICTURES, check_pictures, lacking
from mmvtr.engine.hooks.score_transforms import TransformHook
from mmvtr.engine.hooks.tested_model import FigureRequest, TestedModel, drawn, refuse_unknown_ids
from mmvtr.engine.loops.evaluation import Evaluation, bare, checked_modes
from mmvtr.functional.values import check_range
from mmvtr.registry import HOOKS
from mmvtr.visualization import canvas, save, show

#: Maximum number of queries whose hits are drawn at an evaluation.
MOST = 50


@HOOKS.register_module()
class PicturesHook(Hook):
    """Hook that draws pictures of each evaluation with the runner's visualizer (docs/pictures.md).

    Pictures that the model does not support are left out, which is logged when a run starts.  Names
    are ``val_hubs``, ``test_sheet_0`` and so on; the step is the epoch, or the iteration if a
    training counts iterations.

    Args:
        pictures: names, some of :data:`mmvtr.engine.hooks.pictures.PICTURES`.
        queries: ids of the texts whose hits are drawn, or how many texts to draw by ``seed``.
        interval: draw every N-th validation; the last one of a training is always drawn.
        modes: evaluations to draw, some of 'val' and 'test'.
        top: hits per query.
        seed: seed of the random choices: queries, the part of the score matrix, points.
        out: folder for png files instead of the visualizer.

    Raises:
        ValueError: an unknown picture or mode, an argument outside its range; (before a run) a
            query that is in no evaluated set.
    """

    priority = 'LOWEST'  # after the hooks that transform scores

    def __init__(
        self,
        *,
        pictures: Sequence[str] = tuple(PICTURES),
        queries: Union[int, Sequence[str]] = 3,
        interval: int = 1,
        modes: Sequence[str] = ('val', 'test'),
        top: int = 5,
        seed: int = 0,
        out: Optional[str] = None,
    ) -> None:
        self.pictures = check_pictures(pictures)
        self.queries = checked_queries(queries)
        for name, value, most in (('interval', interval, None), ('top', top, 20)):
            if value < 1 or (most and value > most):
                limit = f'1 to {most}' if most else 'at least 1'
                raise ValueError(f'PicturesHook: {name} must be {limit}, not {value}')
        check_range('[0, inf]', **{'PicturesHook.seed': seed})
        self.interval = interval
        self.modes = checked_modes(modes, 'PicturesHook')
        self.top = top
        self.seed = seed
        self.out = None if out is None else Path(out)
        self._reported = False

    def before_run(self, runner: Runner) -> None:
        left_out = lacking(bare(runner.model))
        missing = [f'{name} (needs {left_out[name]})' for name in self.pictures if name in left_out]
        if missing and not self._reported:
            self._reported = True
            runner.logger.info(f'pictures left out: {", ".join(missing)}')
        loops = [x for x in (runner._val_loop, runner._test_loop) if isinstance(x, BaseLoop)]
        if loops and not isinstance(self.queries, int):
            texts = [text for loop in loops for text in loop.dataloader.dataset.texts]
            refuse_unknown_ids(self.queries, [text['text_id'] for text in texts])

    def after_scoring(self, runner: Runner, evaluation: Evaluation) -> None:
        """Draw the pictures; called on rank 0."""
        if evaluation.mode not in self.modes or not self._due(runner, evaluation.mode):
            return
        start = time.perf_counter()
        hooks = [hook for hook in runner.hooks if isinstance(hook, TransformHook)]
        transforms = [hook.name for hook in hooks if hook.name in evaluation.transformed]
        study = TestedModel(evaluation, transforms)
        request = request_for(study, self.queries, top=self.top, seed=self.seed)
        names = []
        for name, figure in figures(request, self.pictures, runner.logger.warning):
            names.append(name)
            if self.out is not None:
                save(figure, self.out / f'{name}.png')
            else:
                show(runner.visualizer, f'{evaluation.mode}_{name}', figure, step(runner))
        took = time.perf_counter() - start
        runner.logger.info(f'{len(names)} pictures in {took:.1f} s: {", ".join(names)}')

    def _due(self, runner: Runner, mode: str) -> bool:
        loop = runner._train_loop
        if mode == 'test' or not isinstance(loop, BaseLoop):
            return True
        done, epochs = step(runner), isinstance(loop, EpochBasedTrainLoop)
        last = runner.max_epochs if epochs else runner.max_iters
        return done >= last or done // loop.val_interval % self.interval == 0


def checked_queries(queries: Union[int, str, Sequence[Union[int, str]]]) -> Union[int, list[str]]:
    """Return a checked number of texts, or the ids of some.

    Raises:
        ValueError: fewer than 1 or more than ``MOST``, or a repeated id.
    """
    if isinstance(queries, str):
        queries = [queries]
    ids = queries if isinstance(queries, int) else [str(query) for query in queries]
    count = ids if isinstance(ids, int) else len(ids)
    if not 1 <= count <= MOST:
        raise ValueError(
            f'queries must be 1 to {MOST}, not {count} (give ids of texts as a list, [7010])'
        )
    if not isinstance(ids, int) and len(set(ids)) < count:
        raise ValueError(f'queries: an id occurs twice in {ids!r:.80}')
    return ids


def request_for(
    study: TestedModel, queries: Union[int, Sequence[str]], *, top: int = 5, seed: int = 0
) -> FigureRequest:
    """Return an evaluation and the texts to draw; see :class:`PicturesHook`.

    Ids of texts of another set are left out; a number of texts is drawn at random, the same for all
    pictures.
    """
    ids = study.evaluation.texts.ids
    request = FigureRequest([study], None, queries, top, seed, method='pca', out=Path(), notes=[])
    if isinstance(queries, int):
        return request._replace(queries=[ids[row] for row in request.drawn(queries, len(ids))])
    in_set = set(ids)
    return request._replace(queries=[query for query in queries if query in in_set])


def figures(
    request: FigureRequest, pictures: Sequence[str], warn
) -> Iterator[tuple[str, 'canvas.Figure']]:
    """Yield (name, figure) of each picture; call ``warn`` with the error of one that fails.

    A collapsed model, for example, should be logged and not end its training.
    """
    evaluation = request.model.evaluation
    left_out = lacking(evaluation.model, exact=evaluation.exact)
    chosen = [PICTURES[name] for name in pictures if name not in left_out]
    return drawn(
        chosen, request, lambda picture, error: warn(f'picture {picture.name} is left out: {error}')
    )


def step(runner: Runner) -> int:
    """Return the epochs done, or iterations if the training counts these; 0 without one."""
    loop = runner._train_loop
    if not isinstance(loop, BaseLoop):
        return 0
    return runner.epoch if isinstance(loop, EpochBasedTrainLoop) else runner.iter
