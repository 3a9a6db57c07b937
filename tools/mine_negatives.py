"""Mine hard negatives for queries in a gallery, excluding likely false negatives.

    python tools/mine_negatives.py QUERIES.npy GALLERY.npy --out FILE.csv [--k 5] [--margin 0.05]
    python tools/mine_negatives.py TEXTS.npy VIDEOS.npy --positives P.npy --guide T.npy V.npy ...

QUERIES.npy and GALLERY.npy hold vectors of texts or of videos, one row per item, which are compared
by cosine.  Query i belongs to item i, or to the items that --positives names.  Excluded are a
query's positives, and items whose similarity to it by the guide reaches the positives' less the
margin.  The file has one row per query, query,negative_1,negative_2 ..., counted from 0; empty if
none is left.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from mmvtr.cli.start import tool

import numpy as np

from mmvtr.cli import Parser, count, output_file
from mmvtr.storage import write_text

sys.path.append(str(Path(__file__).resolve().parent / 'analysis_tools'))  # score_files


def parse_args() -> argparse.Namespace:
    parser = Parser(__doc__)
    add = parser.add_argument
    add('queries', type=Path, metavar='QUERIES.npy', help='float [Q, D]')
    add('gallery', type=Path, metavar='GALLERY.npy', help='float [N, D]')
    add('--out', required=True, metavar='FILE.csv', type=output_file, help='file to write')
    add('--k', type=count, default=5, help='negatives per query (default: 5)')
    add('--skip', type=int, default=0, help='leave out this many of the hardest (default: 0)')
    add(
        '--positives',
        type=Path,
        metavar='P.npy',
        help='int [Q] or [Q, M], the items of each query, padded with -1 (default: item i)',
    )
    add(
        '--guide',
        type=Path,
        nargs=2,
        metavar=('Q.npy', 'G.npy'),
        help='vectors of queries and gallery that judge what is right (default: the same)',
    )
    add('--margin', type=float, default=0.0, help='margin of the guide, in cosines (default: 0)')
    add(
        '--relative',
        type=float,
        help='also leave out items above this share of the own cosine, such as .95',
    )
    add(
        '--gallery-ids',
        type=Path,
        metavar='IDS.npy',
        help='int [N], the item that each row is a part of: rows of one are positives together',
    )
    return parser.parse_args()


@tool
def main() -> None:
    args = parse_args()
    from mmvtr.arrays.hard_negatives import mine_negatives  # torch, which --help need not wait for
    from score_files.reading import read_array

    queries, gallery = read_array(args.queries), read_array(args.gallery)
    if args.positives is None and len(queries) != len(gallery):
        raise ValueError(
            f'{len(queries)} queries and {len(gallery)} items are not pairs: give --positives, '
            'the item of each query'
        )
    positives = np.arange(len(queries)) if args.positives is None else read_array(args.positives)
    negatives = mine_negatives(
        queries,
        gallery,
        positives,
        k=args.k,
        skip=args.skip,
        guide=None if args.guide is None else tuple(map(read_array, args.guide)),
        margin=args.margin,
        relative=args.relative,
        gallery_ids=None if args.gallery_ids is None else read_array(args.gallery_ids),
    ).tolist()
    lines = [','.join(['query', *(f'negative_{i + 1}' for i in range(args.k))])]
    for query, places in enumerate(negatives):
        lines.append(','.join([str(query), *(str(p) if p >= 0 else '' for p in places)]))
    write_text(args.out, '\n'.join(lines) + '\n')
    short = sum(min(places) < 0 for places in negatives)
    print(f'{args.out}: {args.k} negatives of {len(negatives)} queries; {short} have fewer')


if __name__ == '__main__':
    main()
