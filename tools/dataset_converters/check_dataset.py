"""Say in seconds whether the data of a config are there and can be read.

    python tools/dataset_converters/check_dataset.py CONFIG [--cfg-options key=value ...]

Builds the datasets of the train, val and test dataloaders, decodes one sample of each and prints
the counts. Exit code 1 if something is missing.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

from mmengine.config import DictAction
from mmengine.registry import init_default_scope

from mmvtr.registry import DATASETS
from mmvtr.utils import load_config

#: What datasets and transforms raise when files or annotations are not as expected.
PROBLEMS = (OSError, ImportError, ValueError, KeyError, RuntimeError)


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description='Check the data of a config.')
    parser.add_argument('config')
    parser.add_argument('--cfg-options', nargs='+', action=DictAction, default={})
    return parser.parse_args()


def describe(dataset_cfg: dict[str, Any]) -> str:
    """Build the dataset, decode its first item and tell what was found, in three lines."""
    begin = time.perf_counter()
    dataset = DATASETS.build(dataset_cfg)
    built = time.perf_counter()
    video, text = dataset.load_video(0), dataset.load_text(0)
    decoded = time.perf_counter()
    facts = ', '.join(f'{key} {value}' for key, value in dataset.protocol().items())
    if 'broken' in video:
        raise RuntimeError('broken video {}: {}'.format(*video['broken']))
    return (
        f'{facts}\n'
        f'  video {video["video_id"]}: {_shape(video["frames"])}; '
        f'text {text["text_id"]}: {_shape(text["tokens"])}\n'
        f'  built in {built - begin:.1f} s, sample decoded in {decoded - built:.2f} s'
    )


def _shape(x: Any) -> str:
    return f'{str(x.dtype).removeprefix("torch.")} {list(x.shape)}'


def main() -> None:
    args = parse_args()
    cfg = load_config(args.config, args.cfg_options)
    init_default_scope(cfg.get('default_scope', 'mmvtr'))
    complete = True
    for part in ('train', 'val', 'test'):
        loader = cfg.get(f'{part}_dataloader')
        if loader is None:
            continue
        try:
            print(f'{part}: {describe(loader.dataset)}')
        except PROBLEMS as error:
            complete = False
            print(f'{part}: MISSING OR BROKEN\n  {type(error).__name__}: {error}')
    sys.exit(0 if complete else 1)


if __name__ == '__main__':
    main()
