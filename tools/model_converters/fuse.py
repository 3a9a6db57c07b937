"""Combine several checkpoints of a config into one retriever that adds their scores.

    python tools/model_converters/fuse.py CONFIG CHECKPOINT ... --out DIR [--fusion .7 .3]

Writes ``DIR/config.json`` and ``DIR/model.pth``, which every tool accepts like any other
config and checkpoint (tools/test.py also accepts the separate checkpoints).
"""

from __future__ import annotations

import argparse

from mmvtr.cli.start import tool

from mmengine.config import Config

from mmvtr.cli import Parser, output_folder, read_fusion
from mmvtr.utils import load_config


def parse_args() -> argparse.Namespace:
    parser = Parser(__doc__)
    add = parser.add_argument
    add('config', help='config file')
    add(
        'checkpoints',
        nargs='+',
        metavar='CHECKPOINT',
        help='files of the same model',
    )
    add('--out', required=True, metavar='DIR', type=output_folder, help='folder to write')
    add(
        '--fusion',
        nargs='+',
        metavar='WEIGHT',
        help="'sum' (default: equal weights), or one weight per checkpoint",
    )
    parser.add_cfg_options()
    return parser.parse_args()


@tool
def main() -> None:
    args = parse_args()
    cfg = load_config(args.config, args.cfg_options)
    fuse(args, cfg)


def fuse(args: argparse.Namespace, cfg: Config) -> None:
    """Write the config and the checkpoint of the combined retriever."""
    from mmvtr.apis import load_retriever
    from mmvtr.engine.hooks.members import fuse_config
    from mmvtr.models.backdoor import BackdoorRetriever
    from mmvtr.storage import write_plain

    fusion = read_fusion(args.fusion)
    members = [load_retriever(cfg, path, device='cpu')[0] for path in args.checkpoints]
    fuse_config(cfg, args.checkpoints, fusion)
    model = BackdoorRetriever(members=members, fusion=fusion)
    args.out.mkdir(parents=True, exist_ok=True)
    cfg.pop('work_dir')  # the work_dir of a single member
    cfg.dump(args.out / 'config.json')
    facts = [training.as_dict() for member in members for training in member.trainings]
    content = dict(state_dict=model.state_dict(), meta=dict(members=facts))
    write_plain(content, args.out / 'model.pth')
    print(f'{args.out}: {len(members)} members, weights {[round(w, 4) for w in model.weights]}')


if __name__ == '__main__':
    main()
