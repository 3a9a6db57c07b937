"""Tested models, requests for pictures of them, and registration of pictures in a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Callable, NamedTuple, Optional, Sequence, Union

import numpy as np
from mmengine.config import Config
from torch import Tensor, nn

from mmvtr.datasets import VideoTextDataset
from mmvtr.datasets.videos.film_strip import NO_FRAMES, film_strip
from mmvtr.engine.loops.evaluation import Evaluation
from mmvtr.engine.loops.facts import Training
from mmvtr.structures import Directed
from mmvtr.visualization import SheetItem, canvas


class TestedModel(NamedTuple):
    """A tested model, or the scores of one.

    Attributes:
        evaluation: encoded set, scores, relation and dataset; ``model`` may be None if only scores
            exist.
        transforms: names of its transformed scores that are test-time transforms.
        name: its name in pictures.
        cfg: its config.
        checkpoint: its weights, or None: as the config builds it.
        numbers: the results of the test, ``'retrieval/t2v_R1'`` and so on.
        trainings: facts of its trainings, from the checkpoint; empty: not trained here.
    """

    evaluation: Evaluation
    transforms: Sequence[str] = ()
    name: str = ''
    cfg: Optional[Config] = None
    checkpoint: Optional[str] = None
    numbers: dict[str, float] = {}
    trainings: Sequence[Training] = ()

    @property
    def epoch(self) -> Optional[int]:
        """Number of epochs that the weights were trained; None: unknown, or several models."""
        return self.trainings[0].done if len(self.trainings) == 1 else None

    @property
    def model(self) -> nn.Module:
        return self.evaluation.model

    @property
    def dataset(self) -> VideoTextDataset:
        return self.evaluation.dataset

    @property
    def scores(self) -> Tensor:
        """Return the raw scores, float32 [T, V]."""
        return self.evaluation.matrices['scores']

    @property
    def temperature(self) -> Tensor:
        return self.evaluation.matrices['temperature']

    def best_scores(self) -> Directed:
        """Return the config's scores: after its first transform, else raw."""
        for name in self.transforms:
            return self.evaluation.transformed[name]
        return Directed(self.scores, self.scores)

    def text(self, row: int) -> dict[str, Any]:
        """Return the record of a text."""
        return self.dataset.texts[int(self.evaluation.texts.index[row])]

    def video(self, column: int) -> dict[str, Any]:
        """Return the record of a video."""
        return self.dataset.videos[int(self.evaluation.videos.index[column])]

    def frames(self, column: int, **options: Any) -> dict[str, Any]:
        """Return a dict with ``frames`` of a video, or with ``lacking``, why there are none."""
        pipeline = self.dataset.video_pipeline.transforms
        return film_strip(self.video(column), pipeline, **options)._asdict()

    def hit(self, row: int, column: int, *, text: bool = False, **numbers: Any) -> SheetItem:
        """Return a sheet's entry for a pair: the video as a hit of the text, or with ``text`` the
        text as a hit of the video."""
        relation = self.evaluation.relation
        truly = relation.truth is not None and bool(relation.truth[row, column])
        right = 'annotated' if relation.positives[row, column] else 'judged' if truly else 'other'
        score = float(self.scores[row, column])
        if text:
            return SheetItem(self.text(row)['text'], NO_FRAMES, score, right, **numbers)
        video = dict(title=self.video(column)['video_id'], **self.frames(column))
        return SheetItem(**video, score=score, right=right, **numbers)


class FigureRequest(NamedTuple):
    """Data from which pictures are drawn.

    Attributes:
        models: tested models, one per checkpoint, in the given order; the last is *the* model. None
            for pictures made by a separate tool.
        against: the model to compare with, or None.
        queries: ids of texts, or how many to choose.
        top: hits per query, or None: the picture's default.
        seed: seed of all random choices.
        method: projection of a two-dimensional picture, 'pca' or 'tsne'.
        out: folder for output other than pictures.
        notes: lines to print under the pictures; drawing appends to it.
        cfg: the config, read for a separate tool.
        line: arguments of that tool: config and checkpoint, if there is one.
        options: ``--cfg-options`` and its words, or nothing.
    """

    models: Sequence[TestedModel]
    against: Optional[TestedModel]
    queries: Union[int, Sequence[str]]
    top: Optional[int]
    seed: int
    method: str
    out: Path
    notes: list[str]
    cfg: Optional[Config] = None
    line: Sequence[str] = ()
    options: Sequence[str] = ()

    @property
    def model(self) -> TestedModel:
        return self.models[-1]

    @property
    def both(self) -> list[TestedModel]:
        """Return the compared models, before and after, or the model alone."""
        return [study for study in (self.against, self.model) if study is not None]

    def drawn(self, count: int, of: int) -> list[int]:
        """Return up to ``count`` of ``of`` positions, drawn by the seed."""
        return np.random.default_rng((self.seed, of)).permutation(of)[:count].tolist()

    def rows(self, candidates: Sequence[int] = (), *, among: str = 'texts') -> list[int]:
        """Return rows of texts given by id, else a random choice of ``candidates``.

        Raises:
            ValueError: an id that the set lacks, no id, or no candidate.
        """
        if not isinstance(self.queries, int):
            ids = self.model.evaluation.texts.ids
            refuse_unknown_ids(self.queries, ids)
            if not self.queries:
                raise ValueError('the set has none of the queries')
            return [ids.index(query) for query in self.queries]
        if not len(candidates):
            raise ValueError(f'the set has no {among}: nothing to draw')
        drawn = np.random.default_rng(self.seed).permutation(np.asarray(candidates))
        return drawn[: self.queries].tolist()


def refuse_unknown_ids(queries: Sequence[str], ids: Sequence[str]) -> None:
    """Raise ValueError for unknown ids of texts."""
    in_set = set(ids)
    unknown = [query for query in queries if query not in in_set]
    if unknown:
        some = ', '.join(sorted(in_set)[:3])
        raise ValueError(
            f'queries: no text has the id {unknown[0]!r:.80}; the {len(in_set):,} known ones: '
            f'{some:.120} ...'
        )


class Picture(NamedTuple):
    """A row of a table of pictures.

    Attributes:
        name: its name on the command line and of the file.
        paper: paper and figure number; '' = not from a paper.
        draw: function from a request to a figure, or to (suffix of the name, figure) of several.
        shows: description of the picture.
        needs: its requirements on the model, the config or the command line.
        has: whether a model meets them; None = not known before drawing.
        all_scores: whether it needs all scores, not just those of a shortlist.
        by_tool: whether a separate tool makes it, without testing a model.
    """

    name: str
    paper: str
    draw: Callable[[FigureRequest], Any]
    shows: str
    needs: str
    has: Optional[Callable[[nn.Module], bool]] = None
    all_scores: bool = True
    by_tool: bool = False

    def make(self, request: FigureRequest) -> Iterator[tuple[str, 'canvas.Figure']]:
        """Yield (name, figure) of each figure that it draws."""
        drawing = self.draw(request)
        if isinstance(drawing, Iterator):
            yield from ((f'{self.name}_{suffix}', figure) for suffix, figure in drawing)
        else:
            yield self.name, drawing


def picture(
    name: str, paper: str = '', *, needs: str = '', **options: Any
) -> Callable[..., Picture]:
    """Return a decorator that makes a table row, described by the docstring's first line."""

    def row(draw: Callable[[FigureRequest], Any]) -> Picture:
        shows = draw.__doc__.partition('\n')[0].rstrip('.')
        return Picture(name, paper, draw, shows, needs, **options)

    return row


def table(*modules: Any) -> dict[str, Picture]:
    """Return the pictures defined in some modules by name, in order."""
    members = [member for module in modules for member in vars(module).values()]
    return {member.name: member for member in members if isinstance(member, Picture)}


def drawn(
    pictures: Iterable[Picture],
    request: FigureRequest,
    refuse: Callable[[Picture, Exception], None],
) -> Iterator[tuple[str, 'canvas.Figure']]:
    """Yield (name, figure) of each picture; call ``refuse`` with those that fail."""
    for row in pictures:
        try:
            yield from row.make(request)
        except (ValueError, ImportError) as error:
            refuse(row, error)
