"""The planted corpus: real mp4 clips of moving shapes, with captions whose truth is known.

It is generated on first use.  Truth and relevance are for metrics and oracles, never for a method.
"""

from __future__ import annotations

from dataclasses import fields
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Mapping, Optional, Sequence

import numpy as np
from mmengine.dist import barrier, is_main_process

from mmvtr.datasets.planted_corpus.experts import Experts, check_experts, make_experts
from mmvtr.datasets.planted_corpus.grammar import MEANING, Truth, false_negative_share
from mmvtr.datasets.planted_corpus.store import (
    make_corpus,
    open_corpus,
    publish_vocabulary,
    read_truth,
)
from mmvtr.datasets.planted_corpus.world import FPS, SPLITS, Knobs
from mmvtr.datasets.video_text import VideoTextDataset, steps_of
from mmvtr.datasets.videos.transforms import LoadFeatures
from mmvtr.functional.values import check_one_of
from mmvtr.registry import DATASETS


def _numbered(meanings: Mapping[str, tuple[str, ...]]) -> dict[str, int]:
    """Return the number of each phrase's meaning; synonyms share it."""
    distinct = list(dict.fromkeys(meanings.values()))
    return {phrase: distinct.index(meaning) for phrase, meaning in meanings.items()}


#: kind -> phrase -> class: 15 verbs, of which 5 are hypernyms ('moves sideways'; classes of their
#: own, as in human annotations), and 6 nouns, the shapes ('thing' and 'object' have no class).
CLASSES = dict(verb=_numbered(MEANING['action']), noun=_numbered(MEANING['shape']))


@DATASETS.register_module()
class PlantedDataset(VideoTextDataset):
    """One split of a planted corpus.

    The knobs identify the corpus; if it does not exist under ``data_root``, rank 0 generates it
    while the other ranks wait.  A *sister* corpus has another seed: independent clips and captions
    of the same world.  In addition to the usual keys, a video holds ``num_frames``, ``duration``
    and ``moments`` (its facts) and a text holds ``level`` ('specific', 'medium', 'general'),
    ``moment``, ``start``, ``end``, ``says`` and ``background`` (its meaning).

    Both hold ``classes`` (kinds 'verb' and 'noun', numbered in ``CLASSES``) and ``actions`` ((verb,
    noun) of each object whose verb and noun are both named).  They come from the captions, never
    from what only the clips show: a text has those that it names, a video those of all its texts.

    Args:
        video_pipeline: see :class:`VideoTextDataset`.
        text_pipeline: see :class:`VideoTextDataset`.
        split: 'train', 'val' or 'test'.
        data_root: folder of all planted corpora.
        oracle: for oracle rows only, never for a method: texts, and batches, also have
            ``true_videos``, the positions of all videos for which a text truly holds.
        graded_by: definition of relevance: ``'predicates'`` (the share that hold), or
            ``'classes'``: the overlap of the captions' verbs and nouns (mean IoU), all that is
            available for EPIC-KITCHENS-100 or MSR-VTT, and so the measure of papers on RAN.
        experts: create, unless they exist, stores of experts for ``LoadExperts`` (``PATH/audio``,
            ``PATH/object``, ``PATH/scene`` and ``PATH/speech``) and of the words of captions for
            ``LoadTextFeatures`` (``PATH/words``): ``dict(path=PATH)`` and other options of
            :class:`~mmvtr.datasets.planted_corpus.experts.Experts`.
        **options: knobs, see :class:`Knobs`, and further options of :class:`VideoTextDataset`.

    Attributes:
        folder: folder of the corpus.
        vocab_file: ``<data_root>/vocab.txt``, the closed vocabulary of all corpora.

    Raises:
        ValueError: unknown split or ``graded_by``; a knob or an option of experts out of its range.
        TypeError: an option that is neither.
        FileNotFoundError: a file of the corpus is missing; or frame features, before it is made.
        RuntimeError: a file of the corpus has another version or was changed; experts of another
            corpus or with other options.
    """

    #: Constructor arguments beyond its parameters (engine/checks/arguments.py).
    option_names = tuple(field.name for field in fields(Knobs))

    def __init__(
        self,
        video_pipeline: Sequence[Any],
        text_pipeline: Sequence[Any],
        *,
        split: Literal['train', 'val', 'test'],
        data_root: str = 'data/planted',
        oracle: bool = False,
        graded_by: Literal['predicates', 'classes'] = 'predicates',
        experts: Optional[Mapping[str, Any]] = None,
        **options: Any,
    ) -> None:
        check_one_of(SPLITS, split=split)
        check_one_of(('predicates', 'classes'), graded_by=graded_by)
        self.graded_by = graded_by
        self.split = split
        chosen = {field.name for field in fields(Knobs)} & options.keys()
        self.knobs = Knobs(**{name: options.pop(name) for name in chosen})
        self.folder = Path(data_root) / self.knobs.key
        self.experts = None if experts is None else Experts(**experts)
        if not self.folder.exists():  # missing features are said before clips are rendered
            with self._naming_origin():
                for step in steps_of(video_pipeline):
                    if isinstance(step, LoadFeatures):
                        step.check([])
        super().__init__(video_pipeline, text_pipeline, **options)
        if oracle:  # positions among the videos that record transforms have kept
            for text, holds in zip(self.texts, self.truth()):
                text['true_videos'] = np.flatnonzero(holds).tolist()

    @property
    def vocab_file(self) -> Path:
        return self.folder.parent / 'vocab.txt'

    def load_annotations(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        if is_main_process():
            if not self.folder.exists():
                make_corpus(self.folder, self.knobs)
            publish_vocabulary(self.folder.parent)
            if self.experts is not None:
                make_experts(self.experts, self.knobs)
        barrier()
        if self.experts is not None:
            check_experts(self.experts, self.knobs)
        videos, texts = open_corpus(self.folder, self.knobs, self.split)
        for video in videos:
            video['duration'] = video['num_frames'] / FPS
        _add_classes(videos, texts)
        self._rows = _positions(texts, 'text_id'), _positions(videos, 'video_id')
        return videos, texts

    def truth(self) -> np.ndarray:
        """Return which texts truly hold for which clips, bool [T, V]."""
        return self._truth.holds

    def relevance(self) -> np.ndarray:
        """Return relevance, float [T, V] in [0, 1]: the share of the text's predicates that hold
        (float16; 1 iff all do), or the overlap of the captions' classes, see ``graded_by``."""
        return super().relevance() if self.graded_by == 'classes' else self._truth.relevance

    def protocol(self) -> dict[str, Any]:
        """Return the protocol of :class:`VideoTextDataset`, the name of the corpus, and the share
        of true pairs among the unannotated ones (between .06 and 1.6 % on real sets)."""
        share = 100 * false_negative_share(self.truth(), self.positives())
        more = {'corpus': self.folder.name, 'unannotated pairs that are true': f'{share:.3f} %'}
        return {**super().protocol(), **more}

    @cached_property
    def _truth(self) -> Truth:
        """Return the truth of the texts and videos that record transforms have kept."""
        text_rows, video_rows = self._rows
        truth = read_truth(self.folder, self.split, len(video_rows))
        left = np.ix_(
            [text_rows[text['text_id']] for text in self.texts],
            [video_rows[video['video_id']] for video in self.videos],
        )
        return Truth(*(matrix[left] for matrix in truth))


def _positions(records: list[dict[str, Any]], key: str) -> dict[str, int]:
    return {record[key]: row for row, record in enumerate(records)}


def _add_classes(videos: list[dict[str, Any]], texts: list[dict[str, Any]]) -> None:
    """Give the records their ``classes`` and ``actions``."""
    facts_of: list[list[dict[str, str]]] = [[] for _ in videos]
    for text in texts:
        text.update(_classes(text['says']))
        for v in text['video_idx']:
            facts_of[v] += text['says']
    for video, says in zip(videos, facts_of):
        video.update(_classes(says))


def _classes(says: list[dict[str, str]]) -> dict[str, Any]:
    """Return ``classes`` and ``actions`` of object descriptions, one dict per object."""
    pairs = [
        (CLASSES['verb'].get(thing.get('action')), CLASSES['noun'].get(thing.get('shape')))
        for thing in says
    ]
    verbs, nouns = ({pair[kind] for pair in pairs} - {None} for kind in (0, 1))
    return dict(
        classes=dict(verb=sorted(verbs), noun=sorted(nouns)),
        actions=sorted({pair for pair in pairs if None not in pair}),
    )
