"""MSR-VTT (Xu et al., CVPR 2016) in the splits that papers compare on, from its published files.

1k-A tests on the 1,000 sentences of JSFusion's csv; every other split has the 20 captions per video
of the json files. Times in the json refer to the source video on the web; only their difference,
the clip's duration, is used.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any, Iterator, NamedTuple

from mmvtr.datasets.annotation_files import read_column, read_json, read_table
from mmvtr.datasets.annotation_values import (
    Place,
    caption,
    field,
    identifier,
    listing,
    mapping,
    number,
    problem,
    seconds,
    shown,
    string,
    unique_in,
)
from mmvtr.datasets.formats.published import Annotations, Captions, PublishedDataset, Split
from mmvtr.datasets.records import Records
from mmvtr.registry import DATASETS

TEST_1KA = 'MSRVTT_JSFUSION_test.csv'
MERGED = 'MSRVTT_data.json'
PARTS = ('train_val_videodatainfo.json', 'test_videodatainfo.json')

#: Splits by name; ``source`` is the json's name of the split.
SPLITS = {
    '1kA_train9k': Split('MSRVTT_train.9k.csv', None, 9000, 180000),
    '1kA_train7k': Split('MSRVTT_train.7k.csv', None, 7010, 140200),
    '1kA_test': Split(TEST_1KA, None, 1000, 1000),
    'full_train': Split('MSRVTT_train.full.csv', 'train', 6513, 130260),
    'full_val': Split('MSRVTT_val.full.csv', 'validate', 497, 9940),
    'full_test': Split('MSRVTT_test.full.csv', 'test', 2990, 59800),
}


class _Json(NamedTuple):
    """Content of the json files, by video id."""

    split: dict[str, str]
    captions: Captions
    durations: dict[str, float]
    text_ids: set[str]


@DATASETS.register_module()
class MSRVTTDataset(PublishedDataset):
    """MSR-VTT, splits 1k-A (9k or 7k training videos) and Full.

    Captions come from ``MSRVTT_data.json`` or else from ``train_val_videodatainfo.json`` and
    ``test_videodatainfo.json``; videos from the csv list of the split or, for Full without its
    csv, from the json. A caption's id is its ``sen_id``, a 1k-A test sentence's its ``key``. Videos
    have their ``duration`` in seconds if a json file states it.

    Args:
        split: '1kA_train9k', '1kA_train7k', '1kA_test', 'full_train', 'full_val', 'full_test'.
        **kwargs: arguments of :class:`PublishedDataset`.
    """

    title = 'MSR-VTT'
    splits = SPLITS
    layout = (
        f'MSRVTT_train.9k.csv, MSRVTT_train.7k.csv, MSRVTT_{{train,val,test}}.full.csv; '
        f'{TEST_1KA}; {MERGED}, or {PARTS[0]} and {PARTS[1]}'
    )
    example = 'video0'
    root = 'data/msrvtt'

    def load_annotations(self) -> tuple[Records, Records]:
        """Return videos and texts of the split, with the videos' durations."""
        videos, texts = super().load_annotations()
        durations = self._known().durations
        for video in videos:
            if video['video_id'] in durations:
                video['duration'] = durations[video['video_id']]
        return videos, texts

    def read_split(self) -> Annotations:
        """Return the videos of the split's list and their captions."""
        if self.split == '1kA_test':
            return _read_test(self.file(TEST_1KA))
        files, annotations = [path.name for path in self._json_files()], self._known()
        if not files:
            self.file(PARTS[0])
        table, source = SPLITS[self.split][:2]
        if source is not None and not (self.ann_root / table).is_file():
            names = [name for name, split in annotations.split.items() if split == source]
            return Annotations(' and '.join(files), names, annotations.captions, files)
        names = read_column(self.file(table), 'video_id')
        return Annotations(table, names, annotations.captions, files)

    def held_out(self) -> Iterator[tuple[str, list[str]]]:
        """Return the test videos of 1k-A; the json itself divides Full's splits."""
        path = self.ann_root / TEST_1KA
        if self.split.startswith('1kA') and path.is_file():
            yield TEST_1KA, read_column(path, 'video_id')

    def _json_files(self) -> list[Path]:
        """Return the json files that exist."""
        merged = self.ann_root / MERGED
        candidates = [merged] if merged.is_file() else [self.ann_root / part for part in PARTS]
        return [path for path in candidates if path.is_file()]

    def _known(self) -> _Json:
        """Return the merged content of the json files that exist."""
        files = self._json_files()
        merged = _Json({}, {}, {}, set())
        for path in files:
            part = _read_json(path, path.stat().st_mtime_ns)
            for kind, ours, theirs in (
                ('videos', merged.split.keys(), part.split.keys()),
                ('sentences', merged.text_ids, part.text_ids),
            ):
                twice = sorted(ours & theirs)
                if twice:
                    what = f'{len(twice)} {kind} are also in {files[0].name}, e.g.'
                    raise problem(Place(path), f'{what} {shown(twice[:5])}')
            for whole, added in zip(merged, part):
                whole.update(added)
        return merged


def _read_test(path: Path) -> Annotations:
    """Return the pairs of 1k-A's csv; a text's id is its key."""
    rows = read_table(path, ('key', 'video_id', 'sentence'))
    names, keys = (
        unique_in(rows, column, kind) for column, kind in (('video_id', 'video'), ('key', 'text'))
    )
    texts = [field(row, 'sentence', caption, place) for place, row in rows]
    captions = {name: [(key, text)] for name, key, text in zip(names, keys, texts)}
    return Annotations(path.name, names, captions, [path.name])


@lru_cache(maxsize=4)
def _read_json(path: Path, mtime: int) -> _Json:
    """Return one json file's content, cached until the file changes; sentences in any order."""
    content, whole = read_json(path, ('videos', 'sentences')), Place(path)
    videos, sentences = (
        [
            (place, mapping(entry, place))
            for row, entry in enumerate(field(content, kind, listing, whole))
            for place in [whole.at(f'{kind}[{row}]')]
        ]
        for kind in ('videos', 'sentences')
    )
    names = unique_in(videos, 'video_id', 'video')
    split = {name: field(v, 'split', string, place) for name, (place, v) in zip(names, videos)}
    ids = unique_in(sentences, 'sen_id', 'text', _sentence_id)
    captions: Captions = {name: [] for name in split}
    for text_id, (place, sentence) in zip(ids, sentences):
        name = field(sentence, 'video_id', string, place)
        if name not in captions:
            raise problem(place, f'sen_id {text_id} belongs to the unknown video {shown(name)}')
        captions[name].append((text_id, field(sentence, 'caption', caption, place)))
    durations = {
        name: _duration(video, place)
        for name, (place, video) in zip(names, videos)
        if 'start time' in video or 'end time' in video
    }
    return _Json(split, captions, durations, set(ids))


def _sentence_id(value: Any, place: Place) -> str:
    """Return a ``sen_id`` as a string; it is a number in the published files."""
    return identifier(value, place) if isinstance(value, str) else str(number(value, place))


def _duration(video: dict[str, Any], place: Place) -> float:
    start, end = (field(video, f'{edge} time', seconds, place) for edge in ('start', 'end'))
    length = round(end - start, 3)
    if length <= 0:
        raise problem(place, f'the clip ends before it begins: {start} to {end} s')
    return length
