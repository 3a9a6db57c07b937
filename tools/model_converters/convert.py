"""Official CLIP4Clip, CLIP2Video or UATVR checkpoint -> a checkpoint of ours.

    python tools/model_converters/convert.py clip2video pytorch_model.bin.4 clip2video.pth

The result loads with ``load_from`` or ``tools/test.py``.  Keys that are unknown, missing or of
another shape are listed, and nothing is written.
"""

from __future__ import annotations

import argparse
import os

import torch

from mmvtr.models.converters.convert import PREFIXES, convert_checkpoint


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('method', choices=sorted(PREFIXES))
    parser.add_argument('source', help="official file, e.g. 'pytorch_model.bin.4'")
    parser.add_argument('target', help='file to write')
    args = parser.parse_args()
    state = torch.load(args.source, map_location='cpu', weights_only=True)
    converted = convert_checkpoint(state, args.method)
    meta = dict(converted_from=os.path.basename(args.source), method=args.method)
    torch.save(dict(state_dict=converted, meta=meta), args.target)
    print(f'{args.target}: {len(converted)} tensors')


if __name__ == '__main__':
    main()
