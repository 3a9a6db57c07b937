"""MSR-VTT (Xu et al., CVPR 2016) in the splits that papers compare on, from its published files.

1k-A tests on the 1,000 sentences of JSFusion's csv; every other split takes the 20 captions a
video of the json files. Times in the json are those of the source on the web, not of the clips.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, Optional

from mmengine.logging import MMLogger

from mmvtr.datasets.annotation_files import read_json, read_table
from mmvtr.datasets.video_text import VideoTextDataset
from mmvtr.registry import DATASETS

TEST_1KA = 'MSRVTT_JSFUSION_test.csv'
MERGED = 'MSRVTT_data.json'
PARTS = ('train_val_videodatainfo.json', 'test_videodatainfo.json')


class _Split(NamedTuple):
    """Where a split's videos are listed, and its published size."""

    table: str
    json_split: Optional[str]
    videos: int
    texts: int


SPLITS = {
    '1kA_train9k': _Split('MSRVTT_train.9k.csv', None, 9000, 180000),
    '1kA_train7k': _Split('MSRVTT_train.7k.csv', None, 7010, 140200),
    '1kA_test': _Split(TEST_1KA, None, 1000, 1000),
    'full_train': _Split('MSRVTT_train.full.csv', 'train', 6513, 130260),
    'full_val': _Split('MSRVTT_val.full.csv', 'validate', 497, 9940),
    'full_test': _Split('MSRVTT_test.full.csv', 'test', 2990, 59800),
}


class _Captions(NamedTuple):
    """The json files, by video id."""

    split: dict[str, str]
    captions: dict[str, list[tuple[str, str]]]


@DATASETS.register_module()
class MSRVTTDataset(VideoTextDataset):
    """MSR-VTT, splits 1k-A (9k or 7k training videos) and Full.

    Captions come from ``MSRVTT_data.json`` or else from ``train_val_videodatainfo.json`` and
    ``test_videodatainfo.json``; videos from the csv list of the split or, for Full without its
    csv, from the json. A caption's id is its ``sen_id``, a 1k-A test sentence's its ``key``.

    Args:
        split: '1kA_train9k', '1kA_train7k', '1kA_test', 'full_train', 'full_val', 'full_test'.
        ann_root: folder of the annotation files.
        video_dir: folder of the videos, relative to ``ann_root`` unless absolute.
        video_suffix: appended to the video id.
        **kwargs: of :class:`VideoTextDataset`.

    Raises:
        FileNotFoundError: an annotation file or videos are missing.
        ValueError: wrong split name, malformed annotations, training videos in the test list.
    """

    def __init__(
        self,
        split: str,
        *,
        ann_root: str = 'data/msrvtt',
        video_dir: str = 'videos',
        video_suffix: str = '.mp4',
        **kwargs: Any,
    ) -> None:
        if split not in SPLITS:
            raise ValueError(f'MSR-VTT has no split {split!r}; expected one of {list(SPLITS)}')
        self.split = split
        self.ann_root = Path(ann_root)
        self.video_dir = self.ann_root / video_dir
        self.video_suffix = video_suffix
        super().__init__(**kwargs)

    def load_annotations(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Videos and texts of the split, texts grouped by video."""
        pairs = self._test_pairs() if self.split == '1kA_test' else self._json_pairs()
        videos = [
            dict(video_id=name, path=str(self.video_dir / f'{name}{self.video_suffix}'))
            for name, _ in pairs
        ]
        texts = [
            dict(text_id=text_id, text=text, video_idx=[v])
            for v, (_, captions) in enumerate(pairs)
            for text_id, text in captions
        ]
        self._compare_with_published(len(videos), len(texts))
        return videos, texts

    def _test_pairs(self) -> list[tuple[str, list[tuple[str, str]]]]:
        rows = read_table(self._file(TEST_1KA), ('key', 'video_id', 'sentence'))
        return [(row['video_id'], [(row['key'], row['sentence'])]) for row in rows]

    def _json_pairs(self) -> list[tuple[str, list[tuple[str, str]]]]:
        known = self._read_captions()
        names = self._video_ids(known)
        unknown = [name for name in names if name not in known.captions]
        if unknown:
            raise ValueError(
                f'MSR-VTT {self.split}: the json files in {self.ann_root} do not know '
                f'{len(unknown)} of {len(names)} videos, e.g. {unknown[:5]}'
            )
        self._check_leak(names)
        return [(name, known.captions[name]) for name in names]

    def _read_captions(self) -> _Captions:
        merged = self.ann_root / MERGED
        wanted = [merged] if merged.is_file() else [self.ann_root / part for part in PARTS]
        found = [path for path in wanted if path.is_file()]
        if not found:
            self._file(PARTS[0])
        parts = [_read_captions(path, path.stat().st_mtime_ns) for path in found]
        return _Captions(
            {name: split for part in parts for name, split in part.split.items()},
            {name: texts for part in parts for name, texts in part.captions.items()},
        )

    def _video_ids(self, known: _Captions) -> list[str]:
        table, json_split = SPLITS[self.split].table, SPLITS[self.split].json_split
        if json_split is not None and not (self.ann_root / table).is_file():
            return [name for name, split in known.split.items() if split == json_split]
        return [row['video_id'] for row in read_table(self._file(table), ('video_id',))]

    def _check_leak(self, names: list[str]) -> None:
        test = self.ann_root / TEST_1KA
        if not self.split.startswith('1kA') or not test.is_file():
            return
        leaked = {row['video_id'] for row in read_table(test, ('video_id',))} & set(names)
        if leaked:
            raise ValueError(
                f'MSR-VTT {self.split}: {len(leaked)} videos of {SPLITS[self.split].table} are '
                f'also in {TEST_1KA}, e.g. {sorted(leaked)[:5]}'
            )

    def _file(self, name: str) -> Path:
        path = self.ann_root / name
        if not path.is_file():
            raise FileNotFoundError(
                f'MSR-VTT split {self.split!r} needs {path}. Expected in {self.ann_root}: '
                f'{SPLITS[self.split].table}; {TEST_1KA}; {MERGED}, or {PARTS[0]} and {PARTS[1]}; '
                f'{self.video_dir.name}/video0{self.video_suffix}, ...'
            )
        return path

    def _compare_with_published(self, videos: int, texts: int) -> None:
        published = SPLITS[self.split]
        if (videos, texts) != (published.videos, published.texts):
            MMLogger.get_current_instance().warning(
                f'MSR-VTT {self.split} has {videos} videos and {texts} texts here, as published '
                f'{published.videos} and {published.texts}: results do not compare.'
            )


@lru_cache(maxsize=4)
def _read_captions(path: Path, mtime: int) -> _Captions:
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
    captions: dict[str, list[tuple[str, str]]] = {name: [] for name in split}
    for row, sentence in enumerate(content['sentences']):
        name = sentence['video_id']
        if name not in captions:
            raise ValueError(
                f'{path}: sentence {row} (sen_id {sentence["sen_id"]}) belongs to the unknown '
                f'video {name!r}'
            )
        captions[name].append((str(sentence['sen_id']), sentence['caption']))
    return _Captions(split, captions)
