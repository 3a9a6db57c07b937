"""Figures 4 and 5 of ARL, by the tool that has its numbers; 5 with the frames of the videos."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Iterator

import numpy as np
from mmengine.registry import init_default_scope

from mmvtr.apis import as_tested
from mmvtr.datasets import VideoTextDataset
from mmvtr.engine.hooks.film_strip import film_strip
from mmvtr.figures.by_tool import Line, run_tool
from mmvtr.registry import DATASETS
from mmvtr.visualization.sheet import SheetItem, retrieval_sheet

if TYPE_CHECKING:
    from matplotlib.figure import Figure


#: Videos of a text, the annotated one first.
SHOWN = 6


def distributions(line: Line) -> Iterator[tuple[str, 'Figure']]:
    """Fig. 4: s and u of annotated and other pairs; the tool draws a picture a branch itself."""
    run_tool('ambiguity', line.config, *line.checkpoints[-1:], '--out', line.out, *line.options)
    yield from ()


def ambiguous_videos(line: Line) -> Iterator[tuple[str, 'Figure']]:
    """Fig. 5: texts with the videos that were found ambiguous for them.

    Raises:
        ValueError: no text has an ambiguous video.
    """
    count = line.queries if isinstance(line.queries, int) else 20
    run_tool(
        'ambiguity',
        line.config,
        *line.checkpoints[-1:],
        '--out',
        line.out,
        '--texts',
        count,
        '--seed',
        line.seed,
        *line.options,
    )
    found = json.loads((line.out / 'ambiguous.json').read_text())
    if not found:
        raise ValueError('no text of the sample has an ambiguous video')
    init_default_scope(line.cfg.get('default_scope', 'mmvtr'))
    dataset = DATASETS.build(as_tested(line.cfg, 'train')['dataset'])
    records = {video['video_id']: video for video in dataset.videos}
    for number, text in enumerate(found):
        items = [_item(dataset, records, video, 'annotated') for video in text['annotated']]
        for video in text['ambiguous']:
            holds = video.get('holds')
            right = None if holds is None else 'judged' if holds else 'other'
            items.append(_item(dataset, records, video, right))
        said = (
            f'{len(text["ambiguous"])} ambiguous videos below the annotated one, with the best '
            'frame of a branch, similarity s and uncertainty u'
        )
        yield f'arl5_{number}', retrieval_sheet(text['text'], items[: line.top or SHOWN], said=said)


def _item(
    dataset: VideoTextDataset, records: dict[str, Any], said: dict[str, Any], right: Any
) -> SheetItem:
    """A video of the json, with its frames and what its branches say."""
    video = records[said['video_id']]
    strip = film_strip(video, dataset.video_pipeline.transforms)
    branches = {name: x for name, x in said.items() if isinstance(x, dict)}
    best = next(iter(branches.values()))
    seconds = best.get('seconds')
    numbers = '; '.join(f'{name}: u {x["u"]:.2f}' for name, x in branches.items())
    return SheetItem(
        title=said['video_id'],
        frames=strip.frames,
        score=float(np.mean([x['s'] for x in branches.values()])),
        right=right,
        moment=tuple(seconds or best['share']),
        duration=None if seconds is None else video.get('duration'),
        lacking=strip.lacking,
        note=numbers,
    )
