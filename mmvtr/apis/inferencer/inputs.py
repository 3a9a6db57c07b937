"""Users' queries and galleries - texts, videos, vectors - in one form."""

from __future__ import annotations

import copy
import os
from collections import Counter
from pathlib import Path
from typing import Any, Mapping, NamedTuple, Optional, Sequence, Union

import torch
from mmengine.config import Config
from torch import Tensor

from mmvtr.datasets.annotation_values import Place, name_of, shown
from mmvtr.datasets.folders import spelt_as_there, visible
from mmvtr.datasets.problems import Problems
from mmvtr.datasets.tables.files import FEATURES, VIDEOS, Wanted, open_sources
from mmvtr.engine.loops.evaluation import Encoded

Texts = Union[str, Sequence[str], Mapping[str, str]]
Videos = Union[str, Path, Sequence[Union[str, Path]], Mapping[str, Union[str, Path]]]
Vectors = Union[Encoded, Tensor]


class Inputs(NamedTuple):
    """N texts or videos with their ids.

    Attributes:
        kind: 'text' or 'video'.
        ids: N ids.
        sources: N texts, or files of videos; None if unknown.
        vectors: levels of encoded items, or their vectors, float [N, D'].
        store: a folder of features to read instead of the config's.
    """

    kind: str
    ids: list[str]
    sources: list[Optional[str]]
    vectors: Optional[Vectors] = None
    store: Optional[str] = None

    def keep(self, ids: Sequence[str]) -> Inputs:
        """Return the inputs that were encoded, without broken videos."""
        source = dict(zip(self.ids, self.sources))
        return self._replace(ids=list(ids), sources=[source[name] for name in ids])


def text_inputs(texts: Texts) -> Inputs:
    """Return texts by id; a string or list gets the ids '0', '1' ...

    Raises:
        TypeError: something else.
        ValueError: no text, or an empty one.
    """
    if isinstance(texts, str):
        texts = [texts]
    listed = _listed(texts, 'texts', 'a text, a list of texts or a dict id -> text')
    for name, text in listed.items():
        if not isinstance(text, str):
            raise TypeError(f'texts: a string expected, item {name!r} is a {type(text).__name__}')
        if not text.strip():
            raise ValueError(f'texts: item {name!r} is empty')
    return Inputs('text', list(listed), list(listed.values()))


def video_inputs(videos: Videos, cfg: Config) -> Inputs:
    """Return videos in the form that the test set's pipeline reads.

    Args:
        videos: a file; a folder of videos of any depth; a list of files, whose ids are their names
            without suffix; a dict id -> file. If the pipeline reads features or stored frames: a
            list of ids, or a folder of npy files.
        cfg: config of the retriever.

    Raises:
        FileNotFoundError: a file is missing (names the first ones and how many).
        TypeError: something else.
        ValueError: no video, a repeated id, a folder of another kind or without videos.
    """
    first = str(cfg.test_dataloader.dataset.video_pipeline[0]['type']).rpartition('.')[2]
    from_files = first not in ('LoadFeatures', 'LoadFrames', 'LoadExperts')
    if isinstance(videos, (str, Path)):
        if os.path.isdir(videos):
            return _of_folder(Path(videos), first)
        videos = [videos]
    listed = _listed(videos, 'videos', 'a file, a folder, a list of files or a dict id -> file')
    for name, path in listed.items():
        if not isinstance(path, (str, Path)) or not str(path):
            raise TypeError(
                f'videos: a path expected, item {name!r} is {shown(path)} ({type(path).__name__})'
            )
    if from_files:
        listed = {name: spelt_as_there(str(path)) for name, path in listed.items()}
    if not isinstance(videos, Mapping):
        names = [visible(Path(path).stem) if from_files else str(path) for path in listed.values()]
        name, count = Counter(names).most_common(1)[0]
        if count > 1:
            raise ValueError(
                f'videos: {count} are called {name[:80]!r}; give them ids: a dict id -> file'
            )
        listed = dict(zip(names, listed.values()))
    if not from_files:
        return Inputs('video', list(listed), [None] * len(listed))
    missing = [str(path) for path in listed.values() if not os.path.isfile(path)]
    if missing:
        raise FileNotFoundError(
            f'{len(missing)} of {len(listed)} videos do not exist: '
            f'{", ".join(name_of(path, 100) for path in missing[:3])}'
        )
    return Inputs('video', list(listed), [str(path) for path in listed.values()])


def vector_inputs(vectors: Any, kind: str) -> Inputs:
    """Return items that are already encoded.

    Args:
        vectors: :class:`~mmvtr.engine.loops.evaluation.Encoded` items, as ``encode_texts`` and
            ``encode_videos`` give them, or their flat vectors, float [N, D'], as
            :func:`mmvtr.apis.vectors` makes them.
        kind: kind of the items, 'text' or 'video'.

    Raises:
        TypeError: something else.
        ValueError: no item, a repeated id, or vectors that are not finite float [N, D'].
    """
    if isinstance(vectors, Encoded):
        ids = list(vectors.ids)
    elif isinstance(vectors, Tensor):
        if vectors.dim() != 2 or not vectors.is_floating_point():
            raise ValueError(
                f'vectors: float [N, D] expected, found {vectors.dtype} {list(vectors.shape)}'
            )
        if not torch.isfinite(vectors).all():
            row = int((~vectors.isfinite().all(1)).nonzero()[0])
            raise ValueError(f'vectors: the vector of item {row} is not finite')
        ids = [str(i) for i in range(len(vectors))]
    else:
        raise TypeError(
            'vectors: Encoded items (mmvtr.apis.encode_texts, encode_videos) or a float tensor '
            f'[N, D] expected, found a {type(vectors).__name__}'
        )
    if not ids:
        raise ValueError('vectors: at least one expected, got none')
    name, count = Counter(ids).most_common(1)[0]
    if count > 1:
        raise ValueError(f'vectors: {count} have the id {name[:80]!r}')
    return Inputs(kind, ids, [None] * len(ids), vectors)


def reading_config(cfg: Config, inputs: Inputs, batch_size: Optional[int]) -> Config:
    """Return a retriever's config for reading these videos, optionally with a batch size."""
    cfg = Config(dict(test_dataloader=copy.deepcopy(cfg.test_dataloader)))
    loader = cfg.test_dataloader
    if batch_size is not None:
        loader.batch_size = batch_size
    batches = -(-len(inputs.ids) // loader.setdefault('batch_size', 1))
    loader.num_workers = min(loader.get('num_workers', 0), batches) if batches > 1 else 0
    if not loader.num_workers:  # these settings need workers
        loader.pop('persistent_workers', None)
        loader.pop('prefetch_factor', None)
    if inputs.store is not None:
        loader.dataset.video_pipeline[0].path = inputs.store
    return cfg


def check_counts(**numbers: int) -> None:
    """Raise ValueError unless all are integers of 1 or more."""
    for name, number in numbers.items():
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise ValueError(f'{name} must be an integer of 1 or more, not {str(number)[:80]!r}')


def refuse_paths(texts: Inputs) -> None:
    """Raise ValueError if a text is the path of a video, which was probably meant as a video."""
    for text in texts.sources:
        if Path(text).suffix.lower() in VIDEOS and os.path.isfile(text):
            raise ValueError(f'{text[:200]!r} is a file, not a text: give it as videos=...')


def _listed(items: Any, name: str, expected: str) -> dict[str, Any]:
    """Return items by id: the keys of a dict, or positions in a list."""
    if isinstance(items, Mapping):
        strange = [key for key in items if not isinstance(key, str)]
        if strange:
            raise TypeError(f'{name}: ids are strings, found {shown(strange[0])}')
        listed = dict(items)
    elif isinstance(items, (list, tuple)):
        listed = {str(i): item for i, item in enumerate(items)}
    else:
        raise TypeError(f'{name}: expected {expected}, found a {type(items).__name__}')
    if not listed:
        raise ValueError(f'{name}: at least one expected, got none')
    return listed


def _of_folder(folder: Path, first: str) -> Inputs:
    """Return all videos or features in a folder; ids are relative paths without suffix."""
    sources = open_sources(folder)
    expected = dict(LoadVideo='clips', LoadFeatures='features').get(first)
    if sources.kind != expected:
        raise ValueError(
            f'{name_of(folder)} holds {sources.kind}, but the video pipeline of the config '
            f'begins with {first}'
        )
    names = sources.others([])
    if expected == 'features':
        ids = [name.removesuffix(FEATURES) for name in names]
        return Inputs('video', ids, [None] * len(ids), store=str(folder))
    problems = Problems(name_of(folder))
    pairs = sources.find({Wanted(name): Place(folder) for name in names}, problems)
    problems.refuse()
    ordered = [pairs[Wanted(name)] for name in names]
    return Inputs('video', [video.video_id for video in ordered], [video.path for video in ordered])
