"""MSR-VTT (Xu et al., CVPR 2016) in the splits that papers compare on, from its published files.

1k-A tests on the 1,000 sentences of JSFusion's csv; every other split takes the 20 captions a
video of the json files. Times in the json are those of the source on the web, not of the clips:
what they say of a clip is how long it is.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any, Iterator, NamedTuple

from mmvtr.datasets.annotation_files import read_json, read_table
from mmvtr.datasets.formats.prvr import seconds
from mmvtr.datasets.formats.published import Annotations, Captions, PublishedDataset, Split
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

    def load_annotations(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Videos and texts of the split, and how long the videos are."""
        videos, texts = super().load_annotations()
        durations = self._known().durations
        for video in videos:
            if video['video_id'] in durations:
                video['duration'] = durations[video['video_id']]
        return videos, texts

    def read_split(self) -> Annotations:
        """Videos of the split's list, and their captions."""
        if self.split == '1kA_test':
            rows = read_table(self.file(TEST_1KA), ('key', 'video_id', 'sentence'))
            captions = {row['video_id']: [(row['key'], row['sentence'])] for row in rows}
            return Annotations(TEST_1KA, [row['video_id'] for row in rows], captions)
        known = self._known()
        if not known.captions:
            self.file(PARTS[0])
        return Annotations(SPLITS[self.split].table, self._video_ids(known), known.captions)

    def held_out(self) -> Iterator[tuple[str, list[str]]]:
        """Test videos of 1k-A; Full's splits are the json's own."""
        path = self.ann_root / TEST_1KA
        if self.split.startswith('1kA') and path.is_file():
            yield TEST_1KA, [row['video_id'] for row in read_table(path, ('video_id',))]

    def _known(self) -> _Json:
        """What the json files that are there say; nothing where there are none."""
        merged = self.ann_root / MERGED
        wanted = [merged] if merged.is_file() else [self.ann_root / part for part in PARTS]
        known = _Json({}, {}, {})
        for path in filter(Path.is_file, wanted):
            for whole, part in zip(known, _read_json(path, path.stat().st_mtime_ns)):
                whole.update(part)
        return known

    def _video_ids(self, known: _Json) -> list[str]:
        table, source = SPLITS[self.split].table, SPLITS[self.split].source
        if source is not None and not (self.ann_root / table).is_file():
            return [name for name, split in known.split.items() if split == source]
        return [row['video_id'] for row in read_table(self.file(table), ('video_id',))]


@lru_cache(maxsize=4)
def _read_json(path: Path, mtime: int) -> _Json:
    """Parse one json file, once until it changes; sentences come in any order."""
    content = read_json(path, ('videos', 'sentences'))
    for kind, keys in (
        ('videos', ('video_id', 'split')),
        ('sentences', ('sen_id', 'video_id', 'caption')),
    ):
        for row, entry in enumerate(content[kind]):
            missing = [key for key in keys if entry.get(key) is None]
            if missing:
                raise ValueError(f'{path}: {kind}[{row}] lacks {missing}')
    split = {video['video_id']: video['split'] for video in content['videos']}
    captions: Captions = {name: [] for name in split}
    for row, sentence in enumerate(content['sentences']):
        name = sentence['video_id']
        if name not in captions:
            raise ValueError(
                f'{path}: sentence {row} (sen_id {sentence["sen_id"]}) belongs to the unknown '
                f'video {name!r}'
            )
        captions[name].append((str(sentence['sen_id']), sentence['caption']))
    durations = {
        video['video_id']: _duration(video, f'{path}: videos[{row}]')
        for row, video in enumerate(content['videos'])
        if 'start time' in video and 'end time' in video
    }
    return _Json(split, captions, durations)


def _duration(video: dict[str, Any], where: str) -> float:
    start, end = (seconds(video[f'{edge} time'], where) for edge in ('start', 'end'))
    if end <= start:
        raise ValueError(f'{where}: the clip ends before it begins: {start} to {end} s')
    return round(end - start, 3)
