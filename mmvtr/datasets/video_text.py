"""A dataset is a list of videos, a list of texts and the relation between them.

Subclasses read one annotation format; this base checks it, runs the two pipelines and makes every
random choice a function of (seed, epoch, item), whatever the number of workers.
"""

from __future__ import annotations

import random
from contextlib import contextmanager
from typing import Any, Callable, Iterator, Literal, Mapping, Optional, Sequence, Union, get_args

import numpy as np
from mmengine.dataset import Compose
from mmengine.logging import MMLogger
from torch.utils.data import Dataset

from mmvtr.cli.hints import option
from mmvtr.datasets.annotation_values import (
    LONGEST,
    Place,
    cut,
    problem,
    shown,
)
from mmvtr.datasets.folders import visible
from mmvtr.datasets.items import (
    ItemKey,
    item_key,
    kept_keys,
    seeded,
    text_item,
    true_videos_of,
    video_item,
)
from mmvtr.datasets.pair_values import Judgments, PairValues
from mmvtr.datasets.record_transforms import RecordTransform, RecordTransforms
from mmvtr.datasets.records import (
    Records,
    Unit,
    check_records,
    class_table,
    environments_of,
    ids_hash,
    lengths,
    moment_ratio,
    texts_of,
)
from mmvtr.datasets.videos.missing import (
    LeftOut,
    Missing,
    OnBroken,
    check_missing,
    leave,
    not_there,
    read_on_broken,
    skip_advice,
    subset,
)
from mmvtr.datasets.videos.video_io import BrokenVideoError
from mmvtr.datasets.words.cut_texts import CutTexts, count_cut
from mmvtr.functional.metrics.graded_relevance import class_relevance
from mmvtr.functional.values import check_one_of
from mmvtr.registry import TRANSFORMS

Transform = Union[dict, Callable[[dict], dict]]
#: Sources of judgments that a dataset itself provides for all its pairs.
KNOWN = ('truth', 'relevance')
EpochUnit = Literal['text', 'video', 'video_with_all_texts']


class VideoTextDataset(Dataset):
    """Base class of datasets: videos, texts and their relation.

    If a transform has a method ``check(records)``, it is called with all videos (or texts) at
    construction, to report early what would be missing later (files, words).

    Args:
        video_pipeline: transforms (configs or callables) from a video record to ``imgs`` (list of
            uint8 RGB [H, W, 3], all of one size), ``clips`` (uint8 [F, L, 3, H, W], F windows of L
            frames) or ``features`` (float32 [F, D]).
        text_pipeline: transforms from a text record to ``token_ids`` (int64 [L], no padding) or
            ``token_features`` (float32 [L, D]).
        epoch_unit: 'text' = an epoch visits every text (with a random one of its videos), 'video'
            = every video that has a text (with a random one of its texts), 'video_with_all_texts'
            = every such video with all of its texts: a batch holds more texts than videos.
        on_broken: 'raise' a :class:`BrokenVideoError`, or 'skip' the item and report it in the
            batch's ``data_samples['broken']``; ``dict(skip=FILE)`` skips the videos listed in a
            file (:mod:`mmvtr.datasets.videos.missing`) without reading them, and raises for any
            other.
        missing: 'raise' if the video pipeline finds no file (or no features) of a video, or 'skip'
            it, and texts without any other video: the log, a result's protocol and its numbers
            state how many.  Videos that ``on_broken`` lists are not looked up.
        records: record transforms by name, configs or callables, ``(videos, texts) -> (videos,
            texts)``: they add keys that a method or a metric reads, or remove records, in their
            written order, with those that learn from the remaining records last
            (:class:`~mmvtr.datasets.CaptionClasses`, :class:`~mmvtr.datasets.LengthSplit`,
            :class:`~mmvtr.datasets.CaptionAgreement`, :class:`~mmvtr.datasets.DrawableCaptions`,
            :class:`~mmvtr.datasets.Halves`).  ``missing`` is a separate option, since it depends on
            the pipeline, and so is ``judgments``, which concerns pairs.
        judgments: human judgments of pairs, for :class:`~mmvtr.evaluation.JudgedMetric`: config of
            a reader (``dict(type='read_qrels', path=...)``) or its result; a dict of 't2v' and
            'v2t' if the two directions were judged separately. Or 'truth' or 'relevance': values
            that the set itself has for all pairs.
        indices: videos to keep, for a trial on a few: N = the first N, ``-N`` = the last N, or a
            list of positions; their texts are kept.  The protocol of a result states it.

    Attributes:
        record_transforms: the transforms of ``records``, by name.
        environments: int64 [V], the ``environment`` of each video's record, or None.
        not_chosen: ids of the videos that ``indices`` leaves out.
        known_broken: reasons by video id for the videos that ``on_broken`` lists.
        left_out: videos and texts left out by ``missing='skip'``; None = none.
        cut_texts: texts that the text pipeline truncates; None = no text.

    Raises:
        FileNotFoundError: no such list of broken videos; videos are missing; from ``records``.
        KeyError: features of videos are missing; from ``records``.
        ValueError: all videos are missing, or processes miss different ones; no video, duplicate
            ids, an id that is not a string, empty caption, caption without or of an unknown video,
            a malformed list of broken videos; from ``records``.
    """

    #: Prefix of its options on the command line, for errors; PART: train, val or test.
    key_prefix = 'PART_dataloader.dataset.'

    def __init__(
        self,
        video_pipeline: Sequence[Transform],
        text_pipeline: Sequence[Transform],
        *,
        epoch_unit: EpochUnit = 'text',
        on_broken: OnBroken = 'raise',
        missing: Missing = 'raise',
        records: Optional[Mapping[str, Union[dict, RecordTransform, None]]] = None,
        judgments: Union[dict, PairValues, str, None] = None,
        indices: Union[int, Sequence[int], None] = None,
    ) -> None:
        check_one_of(get_args(EpochUnit), epoch_unit=epoch_unit)
        listed = read_on_broken(on_broken)
        check_missing(missing)
        transforms = RecordTransforms(records)
        self.record_transforms = transforms.parts
        self.epoch_unit = epoch_unit
        self.on_broken = on_broken
        self.missing = missing
        self.left_out: Optional[LeftOut] = None
        self.videos, self.texts = self.load_annotations()
        place = Place(self.origin())
        if not self.videos:
            raise problem(place, 'no video at all')
        check_records(self.videos, self.texts, place)
        self._transform(transforms, whole_set=True)
        self.indices, self.not_chosen = indices, frozenset[str]()
        if indices is not None:
            before = {video['video_id'] for video in self.videos}
            self.videos, self.texts, self.left_out = subset(
                self.videos, self.texts, indices, self.left_out, self.origin()
            )
            self.not_chosen = frozenset(before - {video['video_id'] for video in self.videos})
        steps = steps_of(video_pipeline)
        if missing == 'skip':
            looked_for = [video for video in self.videos if video['video_id'] not in listed]
            with self._naming_origin():
                gone = not_there(steps, looked_for)
            self.videos, self.texts, self.left_out = leave(
                self.videos, self.texts, gone, self.left_out, self.origin()
            )
        self._transform(transforms, whole_set=False)
        self._notes = transforms.notes
        self.environments: Optional[np.ndarray] = environments_of(self.videos, place)
        self.texts_of = texts_of(self.texts, len(self.videos))
        self.known_broken = self._leave_out(listed)
        self.videos_with_text = [v for v, texts in enumerate(self.texts_of) if texts]
        read = [video for video in self.videos if video['video_id'] not in self.known_broken]
        with self._naming_origin(lambda: _advice(steps, read, self.key_prefix)):
            self.video_pipeline = _checked(steps, read)
        with self._naming_origin():
            self.text_pipeline = _checked(steps_of(text_pipeline), self.texts)
        self.cut_texts: Optional[CutTexts] = count_cut(self.text_pipeline.transforms, self.texts)
        if self.cut_texts is not None:
            MMLogger.get_current_instance().warning(f'{self.origin()}: {self.cut_texts}.')
        if isinstance(judgments, str) and judgments not in KNOWN:
            raise ValueError(
                f'judgments must be a reader or one of {KNOWN}, not {shown(judgments)}'
            )
        if not isinstance(judgments, str) and judgments is not None:
            judgments = Judgments.of(judgments)
        self._judgments: Union[Judgments, str, None] = judgments

    def load_annotations(self) -> tuple[Records, Records]:
        """Return the records of the annotation files.

        Returns:
            Videos: dicts of ``video_id`` (str), ``path`` (str), optionally ``start`` and ``end``
            (seconds, a clip inside the file), ``duration`` (seconds), ``num_frames`` (native).
            Texts: dicts of ``text_id`` (str, the annotation row), ``text`` (str), ``video_idx``
            (positions of its videos), optionally ``start`` and ``end`` (seconds, the moment of the
            video that it describes). Both, optionally: ``classes`` (by kind, the same kinds in all
            records: ``dict(verb=[3], noun=[2, 13])``) and ``actions`` ((verb, noun) classes).
            Texts of an oracle also ``true_videos`` (positions of all videos for which they hold).
        """
        raise NotImplementedError(f'{type(self).__name__} must define load_annotations()')

    def origin(self) -> str:
        """Return class, split and files of the dataset, for error messages."""
        return f'{type(self).__name__} {getattr(self, "split", "")}'.rstrip()

    @contextmanager
    def _naming_origin(self, advice: Callable[[], str] = str) -> Iterator[None]:
        """Add the dataset's origin to errors about an item's missing file, word or feature."""
        try:
            yield
        except (KeyError, FileNotFoundError) as error:
            reason = error.args[0] if isinstance(error, KeyError) else error
            end = advice()
            what = cut(f'{reason} ({self.origin()})', LONGEST - len(end))
            raise type(error)(f'{what}{end}') from error

    def lacks(self) -> Optional[str]:
        """Return a description of what the set lacks; None if nothing is known to be missing."""
        broken = len(self.known_broken)
        parts = [
            f'{self.left_out} are left out' if self.left_out else '',
            f'{broken:,} broken videos are left out' if broken else '',
        ]
        return '; '.join(filter(None, parts)) or None

    def truth(self) -> Optional[np.ndarray]:
        """Return whether texts truly hold for videos, bool [T, V]; None if unknown."""
        return None

    def relevance(self) -> Optional[np.ndarray]:
        """Return graded relevance by classes, float [T, V] in [0, 1]; None if unknown."""
        if not self.texts or not self.videos or 'classes' not in self.texts[0]:
            return None
        texts, videos = (
            {kind: class_table(records, kind) for kind in records[0]['classes']}
            for records in (self.texts, self.videos)
        )
        return class_relevance(texts, videos).numpy()

    def judgments(self) -> Optional[tuple[np.ndarray, np.ndarray]]:
        """Return judgments by query side, float64 [T, V]; NaN = not judged; None = no pair is.

        Raises:
            ValueError: no judged pair is of this set, or it lacks the requested values.
        """
        if self._judgments is None:
            return None
        if isinstance(self._judgments, str):
            relevance = getattr(self, self._judgments)()
            if relevance is None:
                raise ValueError(f'judgments={self._judgments!r}: {self.origin()} has none')
            return (relevance.astype(np.float64),) * 2
        texts, videos = (x['text_id'] for x in self.texts), (x['video_id'] for x in self.videos)
        captions = [x['text'] for x in self.texts]
        return self._judgments.grades([*texts], [*videos], captions)

    def lengths(self, unit: Unit) -> np.ndarray:
        """Return the videos' lengths, float64 [V]; see :func:`mmvtr.datasets.records.lengths`."""
        return lengths(self.videos, unit, type(self).__name__)

    def moment_ratio(self) -> Optional[np.ndarray]:
        """Return the share of its video that each text describes, float64 [T] in (0, 1].

        NaN if that is unknown or the text has several videos; None = unknown for all texts.
        """
        ratios = np.array([moment_ratio(text, self.videos) for text in self.texts])
        return None if np.isnan(ratios).all() else ratios

    def positives(self) -> np.ndarray:
        """Return the annotated matches, bool [T, V] (dense: T * V bytes)."""
        matches = np.zeros((len(self.texts), len(self.videos)), dtype=bool)
        for t, text in enumerate(self.texts):
            matches[t, text['video_idx']] = True
        return matches

    def protocol(self) -> dict[str, Any]:
        """Return what a result on this set must state: the set, a hash of its ids, its counts."""
        counts = [len(texts) for texts in self.texts_of] or [0]
        return dict(
            dataset=type(self).__name__,
            split=getattr(self, 'split', None),
            ids_sha=ids_hash(self.videos, self.texts),
            videos=len(self.videos),
            texts=len(self.texts),
            captions_per_video=dict(
                min=min(counts), mean=round(sum(counts) / len(counts), 2), max=max(counts)
            ),
            epoch_unit=self.epoch_unit,
            left_out=self.left_out and str(self.left_out),
            **({} if self.indices is None else dict(indices=shown(self.indices))),
            **{f'records.{name}': note for name, note in self._notes.items()},
            **(dict(judgments=str(self._judgments)) if self._judgments else {}),
        )

    @property
    def metainfo(self) -> dict[str, Any]:
        """Dataset description under mmengine's name."""
        return self.protocol()

    def __len__(self) -> int:
        return len(self.texts if self.epoch_unit == 'text' else self.videos_with_text)

    def __deepcopy__(self, memo: dict) -> VideoTextDataset:
        """Return itself, as it is immutable: mmengine copies the dataloader config around it."""
        return self

    def __getitem__(self, key: Union[ItemKey, int]) -> dict[str, Any]:
        """Return one text with one of its videos, or one video with one or all of its texts.

        Args:
            key: an :class:`ItemKey`; a plain index stands for seed 0 and epoch 0.

        Returns:
            dict(video=..., texts=[...]) of the two halves, or dict(broken=(video_id, reason)).
        """
        key = item_key(key)
        with seeded(key):
            v, ts = self._choose(key.index)
            video, texts = self._video(v), [self._text(t) for t in ts]
        for text in texts:  # also if a subclass pairs a video with a text of another video
            text['video_idx'] = list(dict.fromkeys([*text['video_idx'], v]))
        if 'broken' in video:  # its texts are left out, but their true videos are kept
            return {**video, **true_videos_of(self.texts[ts[0]])}
        return dict(video=video, texts=texts)

    def load_video(self, v: int, key: Optional[ItemKey] = None) -> dict[str, Any]:
        """Return video ``v``, with random transforms seeded by ``key`` (default: seed 0, epoch 0).

        Returns:
            dict(video_idx, video_id, frames = uint8 [F, 3, H, W] or [F, L, 3, H, W], or float32
            [F, D]; if known also classes, agreement, environment, extra, vectors, frame_vectors),
            or dict(broken=(video_id, reason)) if ``on_broken='skip'``.

        Raises:
            BrokenVideoError: the video cannot be read and ``on_broken='raise'``.
        """
        with seeded(key or ItemKey(0, 0, v)):
            return self._video(v)

    def load_text(self, t: int, key: Optional[ItemKey] = None) -> dict[str, Any]:
        """Return text ``t`` as dict(text_idx, text_id, tokens, video_idx = its videos).

        ``tokens`` are int64 [L], ids, or float32 [L, D], precomputed features.  If known, also
        classes, agreement, extra, vectors, true_videos.
        """
        with seeded(key or ItemKey(0, 0, t)):
            return self._text(t)

    def _transform(self, transforms: RecordTransforms, *, whole_set: bool) -> None:
        with self._naming_origin():
            self.videos, self.texts = transforms(
                self.videos, self.texts, whole_set=whole_set, origin=self.origin()
            )

    def _leave_out(self, listed: dict[str, str]) -> dict[str, str]:
        """Return the listed videos that are in this set, and warn that they are left out."""
        here = {i: v['video_id'] for i, v in enumerate(self.videos) if v['video_id'] in listed}
        if here:
            texts = len({t for v in here for t in self.texts_of[v]})
            names = ', '.join([*here.values()][:3]) + (', ...' if len(here) > 3 else '')
            MMLogger.get_current_instance().warning(
                f'{type(self).__name__}: {len(here)} of {len(self.videos)} videos are left out, as '
                f'{self.on_broken["skip"]} lists them: {names}; {texts} of {len(self.texts)} texts '
                'describe them. Results without them are not those of the whole set.'
            )
        return {name: listed[name] for name in here.values()}

    def _choose(self, index: int) -> tuple[int, list[int]]:
        """Return the video and the texts of an item."""
        if self.epoch_unit == 'text':
            return random.choice(self.texts[index]['video_idx']), [index]
        v = self.videos_with_text[index]
        texts = self.texts_of[v]
        return v, [random.choice(texts)] if self.epoch_unit == 'video' else texts

    def _video(self, v: int) -> dict[str, Any]:
        record = self.videos[v]
        if record['video_id'] in self.known_broken:
            reason = self.known_broken[record['video_id']]
            return dict(broken=(record['video_id'], reason), **kept_keys(record))
        try:
            return video_item(v, record, self.video_pipeline)
        except BrokenVideoError as error:
            if self.on_broken != 'skip':
                skip = option('on_broken', 'skip', prefix=self.key_prefix)
                raise BrokenVideoError(
                    f'{visible(str(error))} ({skip} leaves broken videos out; check_dataset CONFIG '
                    '--decode finds them all)'
                ) from error
            return dict(broken=(record['video_id'], visible(str(error))), **kept_keys(record))

    def _text(self, t: int) -> dict[str, Any]:
        return text_item(t, self.texts[t], self.text_pipeline)

    def view(self, kind: Literal['video', 'text']) -> Dataset:
        """Return a dataset of all videos, or of all texts, alone, for evaluation."""
        check_one_of(('video', 'text'), view=kind)
        return _View(self, kind)


class _View(Dataset):
    """Dataset of another dataset's videos or texts, each once, as halves of items."""

    def __init__(self, dataset: VideoTextDataset, kind: str) -> None:
        self.dataset = dataset
        self.kind = kind

    def __len__(self) -> int:
        return len(self.dataset.videos if self.kind == 'video' else self.dataset.texts)

    def __getitem__(self, key: Union[ItemKey, int]) -> dict[str, Any]:
        key = item_key(key)
        load = self.dataset.load_video if self.kind == 'video' else self.dataset.load_text
        return load(key.index, key)


def steps_of(pipeline: Sequence[Transform]) -> list[Callable[[dict], dict]]:
    """Return the transforms of a pipeline, built if they are configs."""
    return [TRANSFORMS.build(step) if isinstance(step, dict) else step for step in pipeline]


def _advice(steps: Sequence[Callable], videos: Records, prefix: str) -> str:
    """Return advice to append to an error message if only some of the videos are missing."""
    try:
        some = 0 < len(not_there(steps, videos)) < len(videos)
    except (KeyError, FileNotFoundError):  # the whole store is missing
        some = False
    return f'; {skip_advice(prefix)}' if some else ''


def _checked(steps: Sequence[Callable], records: Records) -> Compose:
    for step in steps:
        if hasattr(step, 'check'):
            step.check(records)
    return Compose(list(steps))
