"""ARL's Figures 4 and 5, made by tools/analysis_tools/ambiguity.py; 5 with frames of the videos."""

from __future__ import annotations

import json
from typing import Any, Iterator

import numpy as np
from mmengine.registry import init_default_scope

from mmvtr.apis import as_tested
from mmvtr.datasets import VideoTextDataset
from mmvtr.datasets.videos.film_strip import film_strip
from mmvtr.engine.hooks.tested_model import FigureRequest, picture
from mmvtr.registry import DATASETS
from mmvtr.visualization import canvas
from mmvtr.visualization.sheet import SheetItem, retrieval_sheet
from paper_figures.study import run_tool

#: Number of videos of a text, the annotated one first.
SHOWN = 6


@picture('arl4', 'ARL Fig. 4', needs='an ARLSupervision after its warm-up', by_tool=True)
def distributions(request: FigureRequest) -> Iterator:
    """Draw similarity and uncertainty of annotated and other pairs."""
    run_tool('ambiguity', *request.line, '--out', request.out, *request.options)
    return iter(())


@picture('arl5', 'ARL Fig. 5', needs='an ARLSupervision after its warm-up', by_tool=True)
def ambiguous_videos(request: FigureRequest) -> Iterator[tuple[int, 'canvas.Figure']]:
    """Draw texts with the videos that are ambiguous for them.

    Raises:
        ValueError: no text has an ambiguous video.
    """
    count = request.queries if isinstance(request.queries, int) else 20
    draws = ('--texts', count, '--seed', request.seed)
    run_tool('ambiguity', *request.line, '--out', request.out, *draws, *request.options)
    found = json.loads((request.out / 'ambiguous.json').read_text())
    if not found:
        raise ValueError('no text of the sample has an ambiguous video')
    init_default_scope(request.cfg.get('default_scope', 'mmvtr'))
    dataset = DATASETS.build(as_tested(request.cfg, 'train')['dataset'])
    records = {video['video_id']: video for video in dataset.videos}
    for number, text in enumerate(found):
        items = [_item(dataset, records, video, 'annotated') for video in text['annotated']]
        for video in text['ambiguous']:
            holds = video.get('holds')
            right = None if holds is None else 'judged' if holds else 'other'
            items.append(_item(dataset, records, video, right))
        subtitle = (
            f'{len(text["ambiguous"])} ambiguous videos below the annotated one, with the best '
            'frame of a branch, similarity s and uncertainty u'
        )
        yield (
            number,
            retrieval_sheet(text['text'], items[: request.top or SHOWN], subtitle=subtitle),
        )


def _item(
    dataset: VideoTextDataset, records: dict[str, Any], ambiguous: dict[str, Any], right: Any
) -> SheetItem:
    """Return a video of the json with its frames and its branches' values."""
    video = records[ambiguous['video_id']]
    strip = film_strip(video, dataset.video_pipeline.transforms)
    branches = {name: x for name, x in ambiguous.items() if isinstance(x, dict)}
    best = next(iter(branches.values()))
    seconds = best.get('seconds')
    numbers = '; '.join(f'{name}: u {x["u"]:.2f}' for name, x in branches.items())
    return SheetItem(
        title=ambiguous['video_id'],
        frames=strip.frames,
        score=float(np.mean([x['s'] for x in branches.values()])),
        right=right,
        moment=tuple(seconds or best['share']),
        duration=None if seconds is None else video.get('duration'),
        lacking=strip.lacking,
        note=numbers,
    )
