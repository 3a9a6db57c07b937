"""Learn the vocabulary of Flickr8k's captions and word vectors, for CaptionFrames and CaptionWords.

    python projects/lab/flickr8k_words.py DATA [--out data/flickr8k_words]

DATA has Flickr8k.token.txt and the lists of images.  Only the item captions (#0 and #1) of the
6,000 train images are used, neither the captions that are queries in training nor any test caption.
Takes half a minute.  Writes words.txt and words.npy.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from mmvtr.cli.start import tool

from mmvtr.cli import Parser

sys.path.append(str(Path(__file__).parent / 'evidence'))  # study_parts
from study_parts.flickr8k import Flickr8kCaptionsDataset  # noqa: E402
from study_parts.known_words import learn_words, write_words  # noqa: E402


def parse_args() -> argparse.Namespace:
    parser = Parser(__doc__)
    add = parser.add_argument
    add('data', metavar='DATA', help='folder of Flickr8k')
    add(
        '--out',
        type=Path,
        default=Path('data/flickr8k_words'),
        help='folder to write (default: data/flickr8k_words)',
    )
    add('--dim', type=int, default=128, help='of the vectors (default: 128)')
    add('--min-count', type=int, default=3, help='rarer words are unknown (default: 3)')
    return parser.parse_args()


@tool
def main() -> None:
    args = parse_args()
    train = Flickr8kCaptionsDataset(
        'train', ann_root=args.data, video_pipeline=[], text_pipeline=[]
    )
    seen = [video['captions'] for video in train.videos]
    known = learn_words(seen, dim=args.dim, min_count=args.min_count)
    write_words(args.out, known)
    count = len(known.vectors)
    print(f'{args.out}: {count - 1} words; WordVectors needs words={count} or more')


if __name__ == '__main__':
    main()
