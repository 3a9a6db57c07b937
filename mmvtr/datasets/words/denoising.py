"""Restriction of training captions to those that teachers have not found noisy (TeachText)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mmvtr.datasets.annotation_files import read_json
from mmvtr.datasets.annotation_values import Place, name_of, problem, shown, wrong
from mmvtr.datasets.records import Records
from mmvtr.registry import TASK_UTILS


@TASK_UTILS.register_module()
class DrawableCaptions:
    """Keep only captions that a json file allows to be drawn; for training.

    The file is either by text, ``{text id: true}``, or by video, ``{video id: [true, false]}`` with
    one value for each of the video's captions in the order of the annotation.  True: it may be
    drawn.  It must cover exactly the texts (videos) of the set: the file of another split would
    otherwise be misapplied silently.

    Args:
        path: the file.

    Attributes:
        note: how many captions may be drawn, once called.

    Raises:
        FileNotFoundError: (called) no such file.
        ValueError: (called) a malformed file, an id that the set lacks or that the file lacks, not
            one value per caption of a video, a video that would lose all of its captions.
    """

    whole_set = True
    note = ''

    def __init__(self, path: str) -> None:
        self.path = Path(path)

    def __call__(self, videos: Records, texts: Records) -> tuple[Records, Records]:
        if not self.path.is_file():
            raise FileNotFoundError(f'no such denoising masks: {name_of(self.path)}')
        place = Place(self.path)
        content = read_json(self.path, ())
        if any(isinstance(value, list) for value in content.values()):
            drawn = _by_video(content, videos, texts, place)
        else:
            drawn = _by_text(content, texts, place)
        left = [text for text in texts if drawn[text['text_id']]]
        had, has = ({v for text in some for v in text['video_idx']} for some in (texts, left))
        bare = [videos[v]['video_id'] for v in sorted(had - has)]
        if bare:
            raise problem(
                place, f'leaves {len(bare)} videos without a caption, e.g. {shown(bare[:5])}'
            )
        self.note = f'{len(left)} of {len(texts)} texts may be drawn'
        return videos, left


def _by_text(content: dict[str, Any], texts: Records, place: Place) -> dict[str, bool]:
    _check_ids(content, [text['text_id'] for text in texts], 'texts', place)
    for name, value in content.items():
        if not isinstance(value, bool):
            raise wrong(place.key(name), 'true or false', value)
    return content


def _by_video(
    content: dict[str, Any], videos: Records, texts: Records, place: Place
) -> dict[str, bool]:
    captions: dict[str, list[str]] = {}
    for text in texts:
        for v in text['video_idx']:
            captions.setdefault(videos[v]['video_id'], []).append(text['text_id'])
    _check_ids(content, list(captions), 'videos with captions', place)
    drawn: dict[str, bool] = {}
    for video, names in captions.items():
        values = content[video]
        if not isinstance(values, list) or any(not isinstance(x, bool) for x in values):
            raise wrong(place.key(video), 'a list of true and false', values)
        if len(values) != len(names):
            what = f'expected one value per caption, {len(names)}, found {len(values)}'
            raise problem(place.key(video), what)
        for name, value in zip(names, values):  # kept if any of its videos allows it
            drawn[name] = drawn.get(name, False) or value
    return drawn


def _check_ids(content: dict[str, Any], names: list[str], what: str, place: Place) -> None:
    allowed = {*names}
    unknown = [name for name in content if name not in allowed]
    if unknown:
        raise problem(
            place,
            f'{len(unknown)} ids are not among the {len(names)} {what} of the set, e.g. '
            f'{shown(unknown[:5])}',
        )
    lacking = [name for name in names if name not in content]
    if lacking:
        raise problem(
            place,
            f'lacks {len(lacking)} of the {len(names)} {what} of the set, e.g. '
            f'{shown(lacking[:5])}',
        )
