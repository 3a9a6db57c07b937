"""Write a retriever as two ONNX graphs: frames to the vector of a video, tokens to that of a text.

    mmvtr export_onnx CONFIG [CHECKPOINT] --out DIR

Scores are inner products of these vectors, as in mmvtr export_index. ``DIR/retriever.json`` says
how to make frames and tokens, as decoding and tokenizing stay outside the graphs. The outputs of
each graph are compared with PyTorch's on batches of other sizes than the traced one (needs onnx,
onnxruntime and onnxscript: ``pip install -e 'projects/gallery[onnx]'``).
"""

from __future__ import annotations

import argparse

from mmvtr.cli.start import tool

from mmvtr.cli import Parser, output_folder
from mmvtr.utils import load_config


def parse_args() -> argparse.Namespace:
    parser = Parser(__doc__)
    add = parser.add_argument
    add('config', help='config file')
    add(
        'checkpoint',
        nargs='?',
        help='default: (pretrained) weights as the config builds them',
    )
    add(
        '--random-weights', action='store_true', help='no checkpoint is needed: parts may be random'
    )
    add('--out', required=True, metavar='DIR', type=output_folder, help='folder to write')
    parser.add_cfg_options()
    return parser.parse_one_checkpoint()


@tool
def main() -> None:
    args = parse_args()
    cfg = load_config(args.config, args.cfg_options)

    # Import here what takes seconds.
    from mmvtr.apis import load_retriever
    from mmvtr_gallery.onnx_export import export_onnx, need_packages

    need_packages()
    model, _ = load_retriever(
        cfg, args.checkpoint, random_weights=args.random_weights, device='cpu'
    )
    said = export_onnx(model, cfg, args.out, checkpoint=args.checkpoint)
    for kind in ('video', 'text'):
        side = said[kind]
        shapes = ', '.join(f'{name} {shape}' for name, shape in side['inputs'].items())
        print(
            f'{args.out / side["file"]}: {shapes} -> {side["output"]["vectors"]}; at most '
            f'{side["difference_to_pytorch"]:.1g} from PyTorch'
        )
    print(f'{args.out / "retriever.json"}: preprocessing, weights {said["fingerprint"]}')


if __name__ == '__main__':
    main()
