"""Frame features of the planted corpora, which configs/*_planted_*features.py read.

    python projects/lab/evidence/planted_features.py [clips] [untrimmed] [confound90]

They go to data/planted_features of the current folder, where the configs look for them.  A frame
tower is trained on a sister corpus (other clips, other captions), once, in two minutes.  What is
there is not made again.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, Mapping

from planted_runs import FEATURES, make_features

#: Arguments of ``make_features`` by folder.
FOLDERS: Mapping[str, Mapping[str, Any]] = dict(
    clips={},
    untrimmed=dict(frames=24, untrimmed=3, captions=6, test_captions=3),
    confound90=dict(frames=12, length_confound=0.9),
)


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        'folders', nargs='*', metavar='NAME', help=f'of {", ".join(FOLDERS)}; default: all'
    )
    args = parser.parse_args()
    unknown = {*args.folders} - FOLDERS.keys()
    if unknown:
        parser.error(f'no folder {", ".join(sorted(unknown))}; there are {", ".join(FOLDERS)}')
    return args


def main() -> None:
    for folder in parse_args().folders or FOLDERS:
        make_features(folder, home=Path.cwd(), **FOLDERS[folder])
        print(FEATURES / folder)


if __name__ == '__main__':
    main()
