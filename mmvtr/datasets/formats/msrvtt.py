"""MSR-VTT (Xu et al., CVPR 2016) in the splits that papers compare on, from its published files.

1k-A tests on the 1,000 sentences of JSFusion's csv; every other split takes the 20 captions a
video of the json files. Times in the json are those of the source on the web, not of the clips:
what they say of a clip is how long it is.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any, Iterator, NamedTuple

from mmvtr.datasets.annotation_files import (
    AnnotationError,
    Row,
    Where,
    caption,
    mapping,
    number_or_id,
    once,
    read_json,
    read_table,
    seconds,
    sequence,
    shown,
    string,
)
from mmvtr.datasets.formats.published import (
    Annotations,
    Captions,
    PublishedDataset,
    Records,
    Split,
)
from mmvtr.registry import DATASETS

TEST_1KA = 'MSRVTT_JSFUSION_test.csv'
MERGED = 'MSRVTT_data.json'
PARTS = ('train_val_videodatainfo.json', 'test_videodatainfo.json')

#: By name; the source is the json's name of the split.
SPLITS = {
    '1kA_train9k': Split('MSRVTT_train.9k.csv', None, 9000, 180000),
    '1kA_train7k': Split('MSRVTT_train.7k.csv', None, 7010, 140200),
    '1kA_test': Split(TEST_1KA, None, 1000, 1000),
    'full_train': Split('MSRVTT_train.full.csv', 'train', 6513, 130260),
    'full_val': Split('MSRVTT_val.full.csv', 'validate', 497, 9940),
    'full_test': Split('MSRVTT_test.full.csv', 'test', 2990, 59800),
}


class _Json(NamedTuple):
    """The json files, by video id."""

    split: dict[str, str]
    captions: Captions
    durations: dict[str, float]


@DATASETS.register_module()
class MSRVTTDataset(PublishedDataset):
    """MSR-VTT, splits 1k-A (9k or 7k training videos) and Full.

    Captions come from ``MSRVTT_data.json`` or else from ``train_val_videodatainfo.json`` and
    ``test_videodatainfo.json``; videos from the csv list of the split or, for Full without its
    csv, from the json. A caption's id is its ``sen_id``, a 1k-A test sentence's its ``key``. Videos
    have their ``duration`` in seconds where a json file is there that knows it.

    Args:
        split: '1kA_train9k', '1kA_train7k', '1kA_test', 'full_train', 'full_val', 'full_test'.
        ann_root: see :class:`PublishedDataset`.
        **kwargs: of :class:`PublishedDataset`.

    Raises:
        FileNotFoundError: see :class:`PublishedDataset`.
        ValueError: see :class:`PublishedDataset`.
    """

    title = 'MSR-VTT'
    splits = SPLITS
    layout = (
        f'MSRVTT_train.9k.csv, MSRVTT_train.7k.csv, MSRVTT_{{train,val,test}}.full.csv; '
        f'{TEST_1KA}; {MERGED}, or {PARTS[0]} and {PARTS[1]}'
    )
    example = 'video0'

    def __init__(self, split: str, *, ann_root: str = 'data/msrvtt', **kwargs: Any) -> None:
        super().__init__(split, ann_root=ann_root, **kwargs)

    def read_records(self) -> tuple[Records, Records]:
        """Videos and texts of the split, and how long the videos are."""
        videos, texts = super().read_records()
        durations = self._known().durations
        for video in videos:
            if video['video_id'] in durations:
                video['duration'] = durations[video['video_id']]
        return videos, texts

    def read_split(self) -> Annotations:
        """Videos of the split's list, and their captions."""
        if self.split == '1kA_test':
            path = self.file(TEST_1KA)
            rows = read_table(path, ('key', 'video_id', 'sentence'), unique=('key', 'video_id'))
            captions = {
                row['video_id']: [(row['key'], caption(row['sentence'], (path, Row(n))))]
                for n, row in enumerate(rows, 1)
            }
            return Annotations(path, list(captions), [path], captions)
        paths, known = self._paths(), self._known()
        if not paths:
            self.file(PARTS[0])
        table, source = SPLITS[self.split].table, SPLITS[self.split].source
        if source is None or self.find(table) is not None:
            path = self.file(table)
            return Annotations(path, _listed(path), paths, known.captions)
        names = [name for name, split in known.split.items() if split == source]
        return Annotations(paths[0], names, paths, known.captions)

    def held_out(self) -> Iterator[tuple[Path, list[str]]]:
        """Test videos of 1k-A; Full's splits are the json's own."""
        path = self.find(TEST_1KA) if self.split.startswith('1kA') else None
        if path is not None:
            yield path, _listed(path)

    def _paths(self) -> list[Path]:
        """The json files that are there."""
        merged = self.find(MERGED)
        return [merged] if merged else [path for path in map(self.find, PARTS) if path]

    def _known(self) -> _Json:
        """What they say; nothing where there are none."""
        known = _Json({}, {}, {})
        for path in self._paths():
            content = _read_json(path, path.stat().st_mtime_ns)
            twice = known.split.keys() & content.split.keys()
            if twice:
                found = f'{len(twice)} again, e.g. {shown(sorted(twice)[:5])}'
                raise AnnotationError.at((path,), f'videos that are not in {PARTS[0]}', found)
            for whole, part in zip(known, content):
                whole.update(part)
        return known


def _listed(path: Path) -> list[str]:
    return [row['video_id'] for row in read_table(path, ('video_id',), unique=('video_id',))]


@lru_cache(maxsize=4)
def _read_json(path: Path, mtime: int) -> _Json:
    """Parse one json file, once until it changes; sentences come in any order."""
    content = read_json(path, 'videos', 'sentences')
    videos = sequence(content['videos'], (path, 'videos'))
    for n, video in enumerate(videos):
        mapping(video, (path, 'videos', n), 'video_id', 'split')
    once(((path, 'videos', n, 'video_id'), video['video_id']) for n, video in enumerate(videos))
    captions: Captions = {video['video_id']: [] for video in videos}
    for n, sentence in enumerate(sequence(content['sentences'], (path, 'sentences'))):
        where = (path, 'sentences', n)
        mapping(sentence, where, 'sen_id', 'video_id', 'caption')
        name = string(sentence['video_id'], (*where, 'video_id'))
        if name not in captions:
            raise AnnotationError.at((*where, 'video_id'), "one of its 'videos'", shown(name))
        number = number_or_id(sentence['sen_id'], (*where, 'sen_id'))
        captions[name].append((number, caption(sentence['caption'], (*where, 'caption'))))
    split = {
        video['video_id']: string(video['split'], (path, 'videos', n, 'split'))
        for n, video in enumerate(videos)
    }
    durations = {
        video['video_id']: _duration(video, (path, 'videos', n))
        for n, video in enumerate(videos)
        if 'start time' in video and 'end time' in video
    }
    return _Json(split, captions, durations)


def _duration(video: dict[str, Any], where: Where) -> float:
    start, end = (seconds(video[key], (*where, key)) for key in ('start time', 'end time'))
    if end <= start:
        raise AnnotationError.at(where, 'a clip that ends after it begins', f'{start} to {end} s')
    return round(end - start, 3)
