"""Write the text file of a PRVR dataset in MS-SL's layout from the official annotations.

    python tools/dataset_converters/prvr_captions.py activitynet data/activitynet --split train \
        [--only LIST]

writes ``data/activitynet/TextData/activitynettrain.caption.txt`` with lines ``VIDEO#enc#N
caption``. --only restricts it to a list of video ids, one per line, for instance those with
features.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Optional, Sequence

from mmvtr.cli.start import tool

from mmvtr.cli import Parser
from mmvtr.datasets import ActivityNetMomentsDataset, CharadesSTADataset, PRVRDataset, TVRDataset
from mmvtr.datasets.annotation_files import read_ids
from mmvtr.datasets.annotation_values import shown
from mmvtr.storage import write_text

SETS: dict[str, type[PRVRDataset]] = {
    cls.collection: cls for cls in (TVRDataset, ActivityNetMomentsDataset, CharadesSTADataset)
}


def parse_args() -> argparse.Namespace:
    parser = Parser(__doc__)
    parser.add_argument('dataset', choices=sorted(SETS), help='dataset of the annotations')
    parser.add_argument('ann_root', type=Path, help='folder of the official annotations')
    parser.add_argument(
        '--split', choices=['train', 'test'], required=True, help='which captions to write'
    )
    parser.add_argument('--only', type=Path, metavar='LIST', help='file of the video ids to keep')
    return parser.parse_args()


def caption_lines(dataset: PRVRDataset, only: Optional[Sequence[str]]) -> list[str]:
    """Return one line per caption of the videos in ``only`` (None = all), in the dataset's order.

    Raises:
        ValueError: a video that the dataset does not have.
    """
    names = [video['video_id'] for video in dataset.videos]
    chosen = set(names if only is None else only)
    unknown = sorted(chosen.difference(names))
    if unknown:
        raise ValueError(
            f'{dataset.title} {dataset.split} does not have {len(unknown)} of {len(chosen)} listed '
            f'videos, e.g. {shown(unknown[:5])}'
        )
    return [
        f'{text["text_id"]} {" ".join(text["text"].split())}'
        for text in dataset.texts
        if names[text['video_idx'][0]] in chosen
    ]


@tool
def main() -> None:
    args = parse_args()
    cls = SETS[args.dataset]
    target = args.ann_root / cls.splits[args.split].table
    if target.exists():
        raise SystemExit(f'error: {target} is there already')
    dataset = cls(args.split, ann_root=str(args.ann_root), video_pipeline=[], text_pipeline=[])
    lines = caption_lines(dataset, None if args.only is None else read_ids(args.only))
    write_text(target, '\n'.join(lines) + '\n')
    print(f'{target}: {len(lines)} captions')


if __name__ == '__main__':
    main()
