"""What changes the records of a set before its pipelines read them: named parts, one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Mapping, Optional, Union

from mmengine.logging import MMLogger

from mmvtr.datasets.annotation_values import Place, problem, shown
from mmvtr.datasets.records import Records, check_ids, check_texts
from mmvtr.registry import DATASETS, TASK_UTILS

if TYPE_CHECKING:
    from mmvtr.datasets.video_text import VideoTextDataset

#: Takes the records of videos and texts and returns those that stay, changed or not.
RecordTransform = Callable[[Records, Records], tuple[Records, Records]]


class RecordTransforms:
    """Return record transforms in their written order.

    A transform may have an attribute ``note``: what it has found, one line for the log and for the
    protocol of a result.  One with a true attribute ``whole_set`` is applied before ``missing``
    leaves videos out: what it reads speaks of all of them.  One with a true attribute
    ``of_what_stays`` comes after the others, wherever a config has put it: it learns from the
    records that are left.

    Args:
        parts: by name a transform or its config; a dict and no list, so that a config changes one
            of its base.  A part that is None is left out.

    Attributes:
        parts: the transforms by name.
        notes: what those that were applied have found, by name.

    Raises:
        ValueError: no dict, or a part that is neither.
    """

    def __init__(self, parts: Optional[Mapping[str, Union[dict, RecordTransform, None]]]) -> None:
        if not isinstance(parts or {}, Mapping):
            raise ValueError(f'records: expected parts by name, found {shown(parts)}')
        given = {name: part for name, part in (parts or {}).items() if part is not None}
        built = {
            name: TASK_UTILS.build(part) if isinstance(part, dict) else part
            for name, part in given.items()
        }
        for name, part in built.items():
            if not callable(part):
                raise ValueError(f'records.{name}: expected a component, found {shown(part)}')
        last = {name for name, part in built.items() if getattr(part, 'of_what_stays', False)}
        names = sorted(built, key=last.__contains__)
        self.parts: dict[str, RecordTransform] = {name: built[name] for name in names}
        self.notes: dict[str, str] = {}

    def __call__(
        self, videos: Records, texts: Records, *, whole_set: bool, origin: str
    ) -> tuple[Records, Records]:
        """Apply the transforms of one kind.

        Args:
            videos, texts: records of a set.
            whole_set: those with this attribute, or the others.
            origin: of the set, for errors.

        Raises:
            ValueError: as of a transform, with its name; one that returns no records, leaves no
                video, or texts whose ``video_idx`` are none of the videos that it leaves.
            KeyError, FileNotFoundError: as of a transform.
        """
        for name, part in self.parts.items():
            if bool(getattr(part, 'whole_set', False)) is whole_set:
                place = Place(origin).at(f'records.{name}')
                videos, texts = _applied(part, videos, texts, place)
                if note := getattr(part, 'note', ''):
                    self.notes[name] = note
                    MMLogger.get_current_instance().info(f'{name}: {note}')
        return videos, texts


def without(dataset: dict[str, Any], *names: str) -> dict[str, Any]:
    """Return a dataset's config without the named record transforms."""
    if not dataset.get('records'):
        return dict(dataset)
    left = {name: part for name, part in dataset['records'].items() if name not in names}
    return {**dataset, 'records': left}


def read_annotations(
    dataset: Union[dict[str, Any], VideoTextDataset], *without_parts: str
) -> VideoTextDataset:
    """Build a dataset without its pipelines, which would look for videos and features.

    Args:
        dataset: its config; a dataset is returned as it is.
        *without_parts: names of record transforms that are left out as well.

    Raises:
        FileNotFoundError, KeyError, ValueError: as the dataset.
    """
    if not isinstance(dataset, dict):
        return dataset
    config = without(dataset, *without_parts)
    return DATASETS.build({**config, 'video_pipeline': [], 'text_pipeline': []})


def _applied(
    part: RecordTransform, videos: Records, texts: Records, place: Place
) -> tuple[Records, Records]:
    try:
        found = part(videos, texts)
    except ValueError as error:
        if type(error) is not ValueError:
            raise
        raise problem(place, str(error)) from error
    if not (isinstance(found, tuple) and len(found) == 2):
        raise problem(place, f'expected (videos, texts) in return, found {shown(found)}')
    videos, texts = found
    if not videos:
        raise problem(place, 'leaves no video')
    check_ids('video', videos, place)
    check_ids('text', texts, place)
    check_texts(texts, len(videos), place)
    return videos, texts
