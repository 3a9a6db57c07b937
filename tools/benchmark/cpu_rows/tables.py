"""A table of captions opened by the dataset, beside csv and pandas, and grouped by video."""

from __future__ import annotations

import csv
import importlib.util
import tempfile
from collections import defaultdict
from pathlib import Path

import mmvtr.datasets  # noqa: F401 - registers the datasets
from cpu_rows.timing import Call, Row, beside
from mmvtr.registry import DATASETS

CAPTIONS = 20


def tables(quick: bool, repeats: int) -> list[Row]:
    """Rows of twenty captions a video; the dataset looks for the files, too."""
    count = 200 if quick else 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        table, videos = Path(folder) / 'table.csv', Path(folder) / 'videos'
        videos.mkdir()
        names = [f'video{i}' for i in range(count // CAPTIONS)]
        for name in names:
            (videos / f'{name}.mp4').touch()
        with table.open('w', newline='') as file:
            writer = csv.writer(file)
            writer.writerow(['video', 'text'])
            writer.writerows(
                (name, f'a person does thing {k} in clip {i}, slowly')
                for i, name in enumerate(names)
                for k in range(CAPTIONS)
            )
        anchors: dict[str, Call] = {'csv.DictReader': lambda: _by_csv(table)}
        if importlib.util.find_spec('pandas'):
            importlib.import_module('pandas')  # whose memory is not the call's
            anchors['pandas'] = lambda: _by_pandas(table)
        return beside(f'a csv of {count:,} rows', lambda: _by_dataset(table, videos), anchors,
                      repeats, lambda a, b: 'captions equal' if a == b else 'differ')  # fmt: skip


def _by_dataset(table: Path, videos: Path) -> dict[str, list[str]]:
    """The captions of each video."""
    dataset = DATASETS.build(
        dict(
            type='mmvtr.TableDataset',
            split='all',
            table=str(table),
            videos=str(videos),
            video_pipeline=[dict(type='mmvtr.LoadVideo')],
            text_pipeline=[],
        )
    )
    captions = defaultdict(list)
    for text in dataset.texts:
        for video in text['video_idx']:
            captions[dataset.videos[video]['video_id']].append(text['text'])
    return dict(captions)


def _by_csv(table: Path) -> dict[str, list[str]]:
    captions = defaultdict(list)
    with table.open(newline='') as file:
        for row in csv.DictReader(file):
            captions[row['video']].append(row['text'])
    return dict(captions)


def _by_pandas(table: Path) -> dict[str, list[str]]:
    import pandas

    return pandas.read_csv(table).groupby('video', sort=False)['text'].agg(list).to_dict()
