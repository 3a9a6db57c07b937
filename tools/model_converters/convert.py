"""Convert an official CLIP4Clip, CLIP2Video, UATVR or CE checkpoint to a checkpoint of mmvtr.

    python tools/model_converters/convert.py clip2video pytorch_model.bin.4 clip2video.pth
    python tools/model_converters/convert.py ce state_dict.pth ce.pth --experts audio face ocr rgb

The result loads with ``load_from`` or ``tools/test.py``.  If keys are unknown, missing or of
another shape, they are listed and nothing is written.
"""

from __future__ import annotations

import os

from mmvtr.cli.start import tool

from mmvtr.cli import Parser, output_file
from mmvtr.storage import write_plain
from mmvtr.storage.weights import read_checkpoint
from official_checkpoints.conversion import METHODS, convert_checkpoint


@tool
def main() -> None:
    parser = Parser(__doc__)
    parser.add_argument(
        'method', choices=sorted(METHODS), help='method whose official code wrote the file'
    )
    parser.add_argument('source', help="official file, e.g. 'pytorch_model.bin.4'")
    parser.add_argument('target', type=output_file, help='file to write')
    parser.add_argument(
        '--experts',
        nargs='+',
        metavar='NAME',
        help='for ce: all of its experts, if they are not the nine of MSR-VTT',
    )
    args = parser.parse_args()
    if args.experts is not None and args.method != 'ce':
        parser.error('--experts is for the method ce')
    options = {} if args.experts is None else dict(experts=args.experts)
    # A bare state dict, like a checkpoint of mmvtr.
    state = read_checkpoint(args.source)['state_dict']
    converted = convert_checkpoint(state, args.method, **options)
    meta = dict(converted_from=os.path.basename(args.source), method=args.method)
    write_plain(dict(state_dict=converted, meta=meta), args.target)
    print(f'{args.target}: {len(converted)} tensors')


if __name__ == '__main__':
    main()
