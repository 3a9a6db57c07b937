"""Official CLIP4Clip, CLIP2Video or UATVR checkpoint -> a checkpoint of ours.

    python tools/model_converters/convert.py clip2video pytorch_model.bin.4 clip2video.pth

The result loads with ``load_from`` or ``tools/test.py``.  Keys that are unknown, missing or of
another shape are listed, and nothing is written.
"""

from __future__ import annotations

import argparse
import os

from mmvtr.engine.checkpoint import read_checkpoint
from mmvtr.models.converters.convert import PREFIXES, convert_checkpoint
from mmvtr.storage import write_plain


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        'method', choices=sorted(PREFIXES), help='whose official code wrote the file'
    )
    parser.add_argument('source', help="official file, e.g. 'pytorch_model.bin.4'")
    parser.add_argument('target', help='file to write')
    args = parser.parse_args()
    try:
        # A bare state dict, as a checkpoint of ours would be one.
        state = read_checkpoint(args.source)['state_dict']
        converted = convert_checkpoint(state, args.method)
        meta = dict(converted_from=os.path.basename(args.source), method=args.method)
        write_plain(dict(state_dict=converted, meta=meta), args.target)
    except (OSError, RuntimeError, ValueError) as error:
        raise SystemExit(f'error: {error}') from error
    print(f'{args.target}: {len(converted)} tensors')


if __name__ == '__main__':
    main()
