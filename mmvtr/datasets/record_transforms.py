"""Record transforms: named steps that change the records of a dataset before its pipelines run."""

from __future__ import annotations

from typing import Any, Callable, Mapping, Optional, Union

from mmengine.logging import MMLogger
from torch.utils.data import Dataset

from mmvtr.datasets.annotation_values import Place, problem, shown
from mmvtr.datasets.records import Records, check_records
from mmvtr.registry import DATASETS, TASK_UTILS

#: Takes the records of videos and texts; returns those that remain, changed or not.
RecordTransform = Callable[[Records, Records], tuple[Records, Records]]


class RecordTransforms:
    """The record transforms of a dataset, applied in their written order.

    A transform may have an attribute ``note``: its finding, one line for the log and for the
    protocol of a result.  One with a true attribute ``whole_set`` is applied before ``missing``
    leaves videos out, because its input describes all of them.  One with a true attribute
    ``of_what_stays`` is applied after the others, wherever the config lists it: it learns from the
    records that are left.

    Args:
        parts: transforms or their configs by name; a dict rather than a list, so that a config can
            change one of its base's. A part that is None is left out.

    Attributes:
        parts: the transforms by name.
        notes: the ``note`` of each applied transform, by name.

    Raises:
        ValueError: not a dict, or a part that is neither.
    """

    def __init__(self, parts: Optional[Mapping[str, Union[dict, RecordTransform, None]]]) -> None:
        if not isinstance(parts or {}, Mapping):
            raise ValueError(f'records: expected parts by name, found {shown(parts)}')
        chosen = {name: part for name, part in (parts or {}).items() if part is not None}
        built = {
            name: TASK_UTILS.build(part) if isinstance(part, dict) else part
            for name, part in chosen.items()
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
            whole_set: apply those with this attribute, or else the others.
            origin: origin of the set, for errors.

        Raises:
            ValueError: that of a transform, with its name; one that does not return records, keeps
                no video, or keeps texts whose ``video_idx`` are not among the videos that it keeps.
            KeyError, FileNotFoundError: those of a transform.
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


def read_annotations(dataset: Union[dict[str, Any], Dataset], *without_parts: str) -> Dataset:
    """Return a dataset built without its pipelines, which would look for videos and features.

    Args:
        dataset: its config; a dataset is returned unchanged.
        *without_parts: names of record transforms to leave out as well.

    Raises:
        FileNotFoundError, KeyError, ValueError: those of the dataset.
    """
    if not isinstance(dataset, dict):
        return dataset
    config = without(dataset, *without_parts)
    return DATASETS.build({**config, 'video_pipeline': [], 'text_pipeline': []})


def _applied(
    part: RecordTransform, videos: Records, texts: Records, place: Place
) -> tuple[Records, Records]:
    try:
        result = part(videos, texts)
    except ValueError as error:
        if type(error) is not ValueError:
            raise
        raise problem(place, str(error)) from error
    if not (isinstance(result, tuple) and len(result) == 2):
        raise problem(place, f'expected (videos, texts) in return, found {shown(result)}')
    videos, texts = result
    if not videos:
        raise problem(place, 'leaves no video')
    check_records(videos, texts, place)
    return videos, texts
