"""Base of published datasets: splits by name, files in one folder, sizes known from papers.

A subclass reads the videos of its split and their captions; this base pairs them, rejects unknown
videos and training videos that are also in a test list, and reports counts that differ from the
published ones.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Iterator, Mapping, NamedTuple, Optional, Sequence

from mmengine.logging import MMLogger

from mmvtr.datasets.annotation_files import read_ids
from mmvtr.datasets.annotation_values import cut, name_of, shown
from mmvtr.datasets.folders import file_of
from mmvtr.datasets.records import Records
from mmvtr.datasets.video_text import VideoTextDataset

#: From each video to the id and the text of its captions.
Captions = dict[str, list[tuple[str, str]]]


class Split(NamedTuple):
    """A split's video list, the source of its captions, and its published size.

    ``source`` is a file, or the name of this split in the annotations.
    """

    table: str
    source: Optional[str]
    videos: int
    texts: int


class Annotations(NamedTuple):
    """A split's videos, the file that lists them, their captions and the captions' files."""

    listed_in: str
    names: list[str]
    captions: Captions
    described_in: Sequence[str]


class PublishedDataset(VideoTextDataset):
    """Base class of a published dataset's split; subclasses implement :meth:`read_split`.

    Args:
        split: one of ``splits``.
        ann_root: folder of the annotation files; None = ``root``.
        video_dir: folder of the videos, relative to ``ann_root`` unless absolute.
        video_suffix: appended to the video id; None = ``suffix``.
        **kwargs: arguments of :class:`VideoTextDataset`.

    Attributes:
        title: the dataset as papers call it.
        splits: its splits by name; the names of training splits contain 'train'.
        layout: the files expected in ``ann_root``, for error messages.
        example: some video id, for error messages.
        root, suffix: the usual folder of the annotation files, and suffix of the videos.

    Raises:
        FileNotFoundError: an annotation file or videos are missing.
        ValueError: wrong split name, malformed annotations, a video without captions, training
            videos that are in a test list.
    """

    title: str
    splits: Mapping[str, Split]
    layout: str
    example: str
    root: str
    suffix = '.mp4'
    #: How much of the published set the annotation files have, if not all.
    _short: Optional[str] = None

    def __init__(
        self,
        split: str,
        *,
        ann_root: Optional[str] = None,
        video_dir: str = 'videos',
        video_suffix: Optional[str] = None,
        **kwargs: Any,
    ) -> None:
        if split not in self.splits:
            raise ValueError(
                f'{self.title} has no split {split!r}; expected one of {list(self.splits)}'
            )
        self.split = split
        self.ann_root = Path(self.root if ann_root is None else ann_root)
        self.video_dir = self.ann_root / video_dir
        self.video_suffix = self.suffix if video_suffix is None else video_suffix
        super().__init__(**kwargs)

    def read_split(self) -> Annotations:
        """Read the annotation files of ``self.split``."""
        raise NotImplementedError

    def origin(self) -> str:
        """Return the dataset, its split and its files for messages."""
        return f'{self.title} {self.split} by {" and ".join(dict.fromkeys(self._files))}'

    def held_out(self) -> Iterator[tuple[str, list[str]]]:
        """Return the videos, by list file, that a training split must not contain."""
        for name, split in self.splits.items():
            if 'train' not in name and (self.ann_root / split.table).is_file():
                yield split.table, read_ids(self.ann_root / split.table)

    def video_record(self, name: str) -> dict[str, Any]:
        """Return a video's record for :meth:`load_annotations`."""
        return dict(video_id=name, path=str(file_of(self.video_dir, name, self.video_suffix)))

    def load_annotations(self) -> tuple[Records, Records]:
        """Return videos and texts of the split, texts grouped by video."""
        annotations = self.read_split()
        self._files = (annotations.listed_in, *annotations.described_in)
        self._refuse_unknown(annotations)
        self._refuse_leak(annotations.listed_in, annotations.names)
        videos = [self.video_record(name) for name in annotations.names]
        texts = [
            dict(text_id=text_id, text=text, video_idx=[v])
            for v, name in enumerate(annotations.names)
            for text_id, text in annotations.captions[name]
        ]
        self._refuse_empty(videos, texts)
        self._compare_with_published(len(videos), len(texts))
        return videos, texts

    def lacks(self) -> Optional[str]:
        """Return how much of the published set the annotation files hold, if not all."""
        return '; '.join(filter(None, (self._short, super().lacks()))) or None

    def file(self, name: str) -> Path:
        """Return the path of an annotation file; a FileNotFoundError states the expected layout."""
        path = self.ann_root / name
        if not path.is_file():
            video = Path(self.video_record(self.example)['path'])
            if video.is_relative_to(self.ann_root):
                video = video.relative_to(self.ann_root)
            raise FileNotFoundError(
                cut(
                    f'{self.title} split {self.split!r} needs {name_of(path, 120)}. Expected in '
                    f'{name_of(self.ann_root, 100)}: {self.layout}; {name_of(video, 60)}, ...'
                )
            )
        return path

    def listed(self, captions: Captions) -> Annotations:
        """Return the videos of the split's list if there is one, else all with captions."""
        table, source = self.splits[self.split][:2]
        if (self.ann_root / table).is_file():
            return Annotations(table, read_ids(self.ann_root / table), captions, [str(source)])
        return Annotations(str(source), list(captions), captions, [str(source)])

    def _refuse_unknown(self, annotations: Annotations) -> None:
        names = annotations.names
        unknown = [name for name in names if not annotations.captions.get(name)]
        if unknown:
            raise ValueError(
                f'{self.title} {self.split}: {len(unknown)} of {len(names)} videos in '
                f'{annotations.listed_in} have no captions in '
                f'{" and ".join(annotations.described_in)} ({name_of(self.ann_root)}), e.g. '
                f'{shown(unknown[:5])}'
            )

    def _refuse_leak(self, listed_in: str, names: Sequence[str]) -> None:
        if 'train' not in self.split:
            return
        for tested_in, tested in self.held_out():
            leaked = sorted(set(tested).intersection(names))
            if leaked:
                raise ValueError(
                    f'{self.title} {self.split}: {len(leaked)} videos of {listed_in} '
                    f'are also in {tested_in}, e.g. {shown(leaked[:5])}'
                )

    def _refuse_empty(self, videos: Sequence, texts: Sequence) -> None:
        if not videos or not texts:
            raise ValueError(
                f'{self.origin()} has {len(videos)} videos and {len(texts)} texts in '
                f'{name_of(self.ann_root)}: at least one of each expected'
            )

    def _compare_with_published(self, videos: int, texts: int) -> None:
        published = self.splits[self.split]
        if videos < published.videos or texts < published.texts:
            self._short = (
                f'{videos:,} of {published.videos:,} videos and {texts:,} of '
                f'{published.texts:,} texts'
            )
        if (videos, texts) != (published.videos, published.texts):
            MMLogger.get_current_instance().warning(
                f'{self.title} {self.split} has {videos} videos and {texts} texts here, published: '
                f'{published.videos} and {published.texts}: results cannot be compared.'
            )
