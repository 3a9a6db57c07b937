"""The simulated stand-in for a dataset, with its size, relation, lengths and classes."""

from __future__ import annotations

from typing import Any, Literal, Optional, Sequence

import numpy as np
import torch

from mmvtr.datasets.items import ItemKey, item_key, kept_keys
from mmvtr.datasets.video_text import VideoTextDataset
from mmvtr.datasets.words.role_graphs import RoleGraph, pack_graph
from mmvtr.registry import DATASETS
from simulation.towers import SimulatedText
from simulation.world import (
    FIRST_NOUN,
    FIRST_SCENE,
    FIRST_VERB,
    Basis,
    Facts,
    World,
    uniform,
)

#: Width of the stored vectors that a supervision reads.
VECTORS = 64
#: Upper bound of the words of a simulated sentence.
LONGEST = 64
#: Seconds of a video: the median, and the standard deviation of the logarithm.
SECONDS, SPREAD, FPS = 12.0, 0.6, 30


@DATASETS.register_module()
class SimulatedDataset(VideoTextDataset):
    """Dataset of the size of a real split, with simulated frames and word ids.

    Args:
        name: name of the dataset that it replaces.
        videos, texts: their numbers; texts are distributed evenly over videos.
        frames: frames F of each video.
        width: width D of the frames.
        moments: number of moments of each video, with their times.
        experts: width by name, for ``LoadExperts``; None: plain frames.
        expert_rows: number of rows of each expert.
        extra: what texts have besides their words: ``'roles'``, role graphs, or ``'interest'``,
            weights of their words (TokensOfInterest).
        teacher: ``(name, width)`` of a teacher that embeds frames and sentences in one space.
        classes: videos and texts have classes of verbs and nouns, and actions.
        group: a text belongs to up to this many videos of the same verb and noun.
        vectors: names of stored vectors of each item by side, ``'text'`` and ``'video'``; they
            encode only the item's content.
        recording: this many consecutive clips are cut from one file, without gaps.
        related: as in EPIC's dataset, pair a video with any text that shares its verb or its noun.
        first: number of the first video, so that splits of one world do not overlap.
        **kwargs: arguments of :class:`~mmvtr.datasets.video_text.VideoTextDataset`.
    """

    def __init__(
        self,
        *,
        name: str,
        videos: int,
        texts: int,
        frames: int,
        width: int,
        moments: int = 1,
        experts: Optional[dict[str, int]] = None,
        expert_rows: int = 2,
        extra: Optional[Literal['roles', 'interest']] = None,
        teacher: Optional[tuple[str, int]] = None,
        has_classes: bool = False,
        group: int = 1,
        vectors: Optional[dict[str, Sequence[str]]] = None,
        recording: Optional[int] = None,
        related: Optional[float] = None,
        first: int = 0,
        **kwargs: Any,
    ) -> None:
        self.split = name
        self.world = World(moments=moments)
        self.sizes = videos, texts
        self.num_frames, self.width = frames, width
        self.experts = None if experts is None else dict(sorted(experts.items()))
        self.expert_rows = expert_rows
        self.extra, self.has_classes, self.group, self.related = extra, has_classes, group, related
        self.first, self.recording = first, recording
        self.vectors = vectors or {}
        self.teacher = teacher
        self._sentences: Optional[SimulatedText] = None
        self._by_class: dict[tuple[str, int], list[int]] = {}
        kwargs.pop('video_pipeline', None), kwargs.pop('text_pipeline', None)
        super().__init__([], [], **kwargs)

    # -- annotations -------------------------------------------------------------------------

    def load_annotations(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        videos, texts = self.sizes
        world = self.world
        numbers = self.first + np.arange(videos)
        facts = world.facts(numbers * world.moments).kinds
        seconds = self._seconds(numbers, facts[:, 0])
        records = [
            dict(
                video_id=f'video{number}',
                number=int(number),
                duration=float(duration),
                num_frames=max(1, int(duration * FPS)),
            )
            for number, duration in zip(numbers, seconds)
        ]
        if self.recording is not None:
            ends = np.cumsum(seconds)
            for record, end in zip(records, ends):
                path = f'recording{record["number"] // self.recording}'
                record.update(path=path, start=float(end - record['duration']))
        members = _members(facts, texts, self.group) if self.group > 1 else None
        owner = np.arange(texts) % videos if members is None else np.array([m[0] for m in members])
        text_numbers = self.first * 64 + np.arange(texts)
        place = (uniform(world.seed, 11, text_numbers, 1)[:, 0] * world.moments).astype(np.int64)
        self.meaning = world.texts_of(text_numbers, numbers[owner] * world.moments + place)
        sentences = world.words(text_numbers, self.meaning)
        rows = [
            dict(
                text_id=f'text{t}',
                text=' '.join(map(str, ids)),
                ids=torch.from_numpy(ids),
                row=t,
                video_idx=[int(owner[t])] if members is None else members[t],
                **self._times(records[owner[t]], int(place[t])),
            )
            for t, ids in enumerate(sentences)
        ]
        if self.has_classes:
            _classify(records, world.facts(numbers * world.moments))
            _classify(rows, world.facts(self.meaning.moment))
        return records, rows

    def _seconds(self, numbers: np.ndarray, verbs: np.ndarray) -> np.ndarray:
        """Return lognormal lengths that depend on the verb, float64 [V]."""
        draws = uniform(self.world.seed, 12, numbers, 2)
        normal = np.sqrt(-2 * np.log1p(-draws[:, 0])) * np.cos(2 * np.pi * draws[:, 1])
        return SECONDS * np.exp(SPREAD * normal + 0.08 * (verbs - verbs.mean()))

    def _times(self, video: dict[str, Any], place: int) -> dict[str, float]:
        if self.world.moments == 1:
            return {}
        step = video['duration'] / self.world.moments
        return dict(start=place * step, end=(place + 1) * step)

    # -- truth -------------------------------------------------------------------------------

    def holds(self, texts: Sequence[int], videos: Sequence[int]) -> np.ndarray:
        """Return whether texts (by position) are true of videos (by position), bool [T, V]."""
        rows = np.array([self.texts[t]['row'] for t in texts], dtype=np.int64)
        meaning = type(self.meaning)(*(field[rows] for field in self.meaning))
        numbers = np.array([self.videos[v]['number'] for v in videos], dtype=np.int64)
        return self.world.holds(meaning, numbers)

    def truth(self) -> Optional[np.ndarray]:
        """Return the ground truth of a test set; None for a training set, or if too large."""
        if len(self.texts) * len(self.videos) > 2**24:
            return None
        return self.holds(range(len(self.texts)), range(len(self.videos)))

    # -- items -------------------------------------------------------------------------------

    def __getitems__(self, keys: Sequence[Any]) -> list[dict[str, Any]]:
        """Return all items of a batch at once, as DataLoader may request."""
        chosen = [self._choose_by(item_key(key)) for key in keys]
        videos = self._videos([v for v, _ in chosen])
        items = []
        for video, (v, ts) in zip(videos, chosen):
            texts = [self._text(t) for t in ts]
            for text in texts:
                if v not in text['video_idx']:
                    text['video_idx'].append(v)
            items.append(dict(video=video, texts=texts))
        if self.teacher is not None:
            self._add_sentences([text for item in items for text in item['texts']])
        return items

    def __getitem__(self, key: Any) -> dict[str, Any]:
        return self.__getitems__([key])[0]

    def _choose_by(self, key: ItemKey) -> tuple[int, list[int]]:
        """Return the video and texts of an item, drawn from its key."""
        draw = uniform(key.seed + 1, 13 + key.epoch, [key.index], 1)[0, 0]
        if self.epoch_unit == 'text':
            own = self.texts[key.index]['video_idx']
            return own[int(draw * len(own))], [key.index]
        v = self.videos_with_text[key.index]
        texts = self.texts_of[v]
        if self.related is not None:
            texts = self._related_texts(v)
        return v, [texts[int(draw * len(texts))]] if self.epoch_unit == 'video' else texts

    def _related_texts(self, v: int) -> list[int]:
        if not self._by_class:
            for t, text in enumerate(self.texts):
                for kind, classes in text['classes'].items():
                    self._by_class.setdefault((kind, classes[0]), []).append(t)
        classes = self.videos[v]['classes']
        return [t for kind in classes for t in self._by_class.get((kind, classes[kind][0]), [])]

    def _video(self, v: int) -> dict[str, Any]:
        return self._videos([v])[0]

    def _videos(self, positions: Sequence[int]) -> list[dict[str, Any]]:
        numbers = np.array([self.videos[v]['number'] for v in positions], dtype=np.int64)
        extras: list[dict[str, Any]] = [{} for _ in positions]
        if self.experts is None:
            frames = self.world.frames(numbers, self.num_frames, self.width)
        else:
            frames, extras = self._expert_rows(numbers)
        if self.teacher is not None:
            name, width = self.teacher
            seen = self.world.frames(numbers, self.num_frames, width)
            extras = [dict(extra, frame_vectors={name: x}) for extra, x in zip(extras, seen)]
        items = []
        for v, rows, extra in zip(positions, frames, extras):
            record = self.videos[v]
            item = dict(video_idx=v, video_id=record['video_id'], frames=rows, **extra)
            item.update(kept_keys(record))
            if self.vectors.get('video'):
                facts = self.world.facts(np.array([record['number'] * self.world.moments]))
                content = Basis.of(self.world.seed, VECTORS).content(facts)
                item['vectors'] = {name: content for name in self.vectors['video']}
            items.append(item)
        return items

    def _expert_rows(self, numbers: np.ndarray) -> tuple[list[torch.Tensor], list[dict]]:
        """Return experts' features in separate spaces; a fifth of the videos lack some."""
        widths, count = list(self.experts.values()), self.expert_rows
        there = uniform(self.world.seed, 14, numbers, len(widths)) > 0.2
        there[:, 0] = True
        parts = []
        for width in widths:
            rows = torch.zeros(len(numbers), count, max(widths))
            rows[..., :width] = self.world.frames(numbers, count, width)
            parts.append(rows)
        stacked = torch.stack(parts, 1)
        limit = count * len(widths)
        frames, extras = [], []
        for row in range(len(numbers)):
            own = np.flatnonzero(there[row])
            expert = torch.full((limit,), -1)
            second = torch.full((limit,), -1)
            expert[: len(own) * count] = torch.from_numpy(np.repeat(own, count))
            second[: len(own) * count] = torch.arange(count).repeat(len(own))
            frames.append(stacked[row, own].flatten(0, 1))
            extras.append(dict(extra=dict(expert=expert, second=second)))
        return frames, extras

    @torch.no_grad()
    def _add_sentences(self, texts: list[dict[str, Any]]) -> None:
        """Add the teacher's vector to each text."""
        name, width = self.teacher
        if self._sentences is None:
            self._sentences = SimulatedText(width, trained=False)
        ids = torch.nn.utils.rnn.pad_sequence([text['tokens'] for text in texts], batch_first=True)
        lengths = torch.tensor([len(text['tokens']) for text in texts])
        pooled = self._sentences(ids, torch.arange(ids.shape[1]) < lengths[:, None])[1]
        for text, vector in zip(texts, pooled):
            text['vectors'] = {name: vector[None]}

    def _text(self, t: int) -> dict[str, Any]:
        record = self.texts[t]
        item = dict(
            text_idx=t,
            text_id=record['text_id'],
            tokens=record['ids'],
            video_idx=list(record['video_idx']),
            **kept_keys(record),
        )
        if self.extra is not None:
            item['extra'] = EXTRA[self.extra](record['ids'])
        if self.vectors.get('text'):
            meaning = Basis.of(self.world.seed, VECTORS).words[record['ids']].sum(0, keepdim=True)
            meaning = torch.nn.functional.normalize(meaning, dim=-1)
            item['vectors'] = {name: meaning for name in self.vectors['text']}
        return item


def _members(facts: np.ndarray, texts: int, group: int) -> list[list[int]]:
    """Return each text's videos, up to ``group`` with one verb and noun; all are used."""
    order = np.lexsort((facts[:, 1], facts[:, 0]))
    meaning = facts[order, 0] * 10_000 + facts[order, 1]
    borders = np.flatnonzero(np.diff(meaning)) + 1
    parts: list[list[int]] = []
    for run in np.split(order, borders):
        parts += [run[i : i + group].tolist() for i in range(0, len(run), group)]
    parts.sort()
    return [parts[t % len(parts)] for t in range(texts)] if texts < len(parts) else parts


def _classify(records: list[dict], facts: Facts) -> None:
    """Add classes finer than the words, shared by about as many pairs as in EPIC (11 %)."""
    verbs = facts.kinds[:, 0] * 2 + facts.names[:, 0] % 2
    nouns = facts.kinds[:, 1] * 3 + facts.names[:, 1] % 3
    for record, verb, noun in zip(records, verbs.tolist(), nouns.tolist()):
        record.update(classes=dict(verb=[verb], noun=[noun]), actions=[(verb, noun)])


def _graph(ids: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return a graph of verb, noun and scene, with the verb linked to the others."""
    words = ids.tolist()
    verbs = [[i] for i, w in enumerate(words) if FIRST_VERB <= w < FIRST_NOUN]
    nouns = [('ARG1', [i]) for i, w in enumerate(words) if FIRST_NOUN <= w]
    nouns = [(role if words[at[0]] < FIRST_SCENE else 'ARGM-LOC', at) for role, at in nouns]
    links = [(0, n) for n in range(len(nouns))] if verbs else []
    return pack_graph(RoleGraph(verbs, nouns, links))


def _interest(ids: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return token weights, float32 [LONGEST], equal for verbs and nouns, with sum 1."""
    weights = torch.zeros(LONGEST)
    meaning = (ids >= FIRST_VERB) & (ids < FIRST_SCENE)
    weights[: len(ids)] = meaning / meaning.sum().clamp(min=1)
    return dict(interest=weights)


#: Names of the extra inputs of a text, and the functions that make them from its word ids.
EXTRA = dict(roles=_graph, interest=_interest)
