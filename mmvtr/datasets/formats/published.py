"""What published datasets share: splits by name, files in one folder, sizes known from papers.

A subclass reads which videos its split has and what their captions are; this base pairs them up,
refuses unknown videos and training videos that are also tested on, and says where counts differ.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Iterator, Mapping, NamedTuple, Optional, Sequence

from mmengine.logging import MMLogger

from mmvtr.datasets.annotation_files import AnnotationError, annotation_errors, read_ids, shown
from mmvtr.datasets.files import path_of
from mmvtr.datasets.video_text import VideoTextDataset

Records = list[dict[str, Any]]
#: Of each video, the id and the text of its captions.
Captions = dict[str, list[tuple[str, str]]]


class Split(NamedTuple):
    """The list of a split's videos, the source of their captions, and the published size.

    ``source`` is a file, or what the annotations call this split.
    """

    table: str
    source: Optional[str]
    videos: int
    texts: int


class Annotations(NamedTuple):
    """The videos of a split and captions of at least these, and the files that say so."""

    listed_in: Path
    names: list[str]
    captions_in: Sequence[Path]
    captions: Captions


class PublishedDataset(VideoTextDataset):
    """One split of a published dataset: implement :meth:`read_split`, or :meth:`read_records`.

    Args:
        split: one of ``splits``.
        ann_root: folder of the annotation files.
        video_dir: folder of the videos, relative to ``ann_root`` unless absolute.
        video_suffix: appended to the video id.
        **kwargs: of :class:`VideoTextDataset`.

    Attributes:
        title: the dataset as papers call it.
        splits: its splits by name; those to train on have 'train' in theirs.
        layout: the files that belong into ``ann_root``, for who misses one.
        example: some video id, for the same purpose.

    Raises:
        FileNotFoundError: an annotation file or videos are missing.
        ValueError: wrong split name.
        AnnotationError: malformed annotations, a video without captions, training videos that are
            in a list to test on, an id that leads out of the folder of the videos.
    """

    title: str
    splits: Mapping[str, Split]
    layout: str
    example: str

    def __init__(
        self,
        split: str,
        *,
        ann_root: str,
        video_dir: str = 'videos',
        video_suffix: str = '.mp4',
        **kwargs: Any,
    ) -> None:
        if split not in self.splits:
            raise ValueError(
                f'{self.title} has no split {split!r}; expected one of {list(self.splits)}'
            )
        self.split = split
        self.ann_root = Path(ann_root)
        self.video_dir = self.ann_root / video_dir
        self.video_suffix = video_suffix
        self._opened = [self.ann_root]
        super().__init__(**kwargs)

    def load_annotations(self) -> tuple[Records, Records]:
        """Videos and texts of the split; what is wrong with a file is an AnnotationError."""
        with annotation_errors(self._opened):
            return self.read_records()

    def read_records(self) -> tuple[Records, Records]:
        """Videos and texts of the split, texts grouped by video."""
        annotations = self.read_split()
        self.videos_in, self.texts_in = [annotations.listed_in], annotations.captions_in
        self._refuse_unknown(annotations)
        self._refuse_leak(annotations.listed_in, annotations.names)
        videos = [self.checked_record(name, annotations.listed_in) for name in annotations.names]
        texts = [
            dict(text_id=text_id, text=text, video_idx=[v])
            for v, name in enumerate(annotations.names)
            for text_id, text in annotations.captions[name]
        ]
        self._compare_with_published(len(videos), len(texts))
        return videos, texts

    def read_split(self) -> Annotations:
        """Read the annotation files of ``self.split``."""
        raise NotImplementedError

    def held_out(self) -> Iterator[tuple[Path, list[str]]]:
        """Lists at hand, by file, of videos that a training split must not have."""
        for name, split in self.splits.items():
            path = None if 'train' in name else self.find(split.table)
            if path is not None:
                yield path, read_ids(path)

    def video_record(self, name: str) -> dict[str, Any]:
        """What :meth:`load_annotations` says of a video; ValueError if it cannot name a file."""
        return dict(video_id=name, path=str(path_of(self.video_dir, name, self.video_suffix)))

    def checked_record(self, name: str, listed_in: Path) -> dict[str, Any]:
        """:meth:`video_record`; an id that leads elsewhere is an error of the file with it."""
        try:
            return self.video_record(name)
        except ValueError as error:
            expected = f'ids of files inside {self.video_dir.name}'
            raise AnnotationError.at((listed_in,), expected, shown(name)) from error

    def find(self, name: str) -> Optional[Path]:
        """The path of an annotation file that may be missing: then None."""
        path = self.ann_root / name
        if not path.is_file():
            return None
        self._opened.append(path)
        return path

    def file(self, name: str) -> Path:
        """The path of an annotation file; FileNotFoundError, with the layout, if it is missing."""
        path = self.find(name)
        if path is None:
            raise FileNotFoundError(
                f'{self.title} split {self.split!r} needs {self.ann_root / name}. Expected in '
                f'{self.ann_root}: {self.layout}; {self.video_record(self.example)["path"]}, ...'
            )
        return path

    def listed(self, captions: Captions, path: Path) -> Annotations:
        """The videos of the split's list where there is one, else all with captions in ``path``."""
        table = self.find(self.splits[self.split].table)
        if table is None:
            return Annotations(path, list(captions), [path], captions)
        return Annotations(table, read_ids(table), [path], captions)

    def _refuse_unknown(self, annotations: Annotations) -> None:
        """A video that the captions do not know, or know to have none."""
        names = annotations.names
        unknown = [name for name in names if not annotations.captions.get(name)]
        if unknown:
            sources = ' or '.join(path.name for path in annotations.captions_in)
            raise AnnotationError.at(
                (annotations.listed_in,),
                f'videos that have captions in {sources}',
                f'{len(unknown)} of {len(names)} that have none, e.g. {shown(unknown[:5])}',
            )

    def _refuse_leak(self, listed_in: Path, names: Sequence[str]) -> None:
        if 'train' not in self.split:
            return
        for path, tested in self.held_out():
            leaked = sorted(set(tested).intersection(names))
            if leaked:
                raise AnnotationError.at(
                    (listed_in,),
                    f'videos to train on that are not in {path.name}',
                    f'{len(leaked)} that are also there, e.g. {shown(leaked[:5])}',
                )

    def _compare_with_published(self, videos: int, texts: int) -> None:
        published = self.splits[self.split]
        if (videos, texts) != (published.videos, published.texts):
            MMLogger.get_current_instance().warning(
                f'{self.title} {self.split} has {videos} videos and {texts} texts here, as '
                f'published {published.videos} and {published.texts}: results do not compare.'
            )
