"""Print a config as a training would read it: with its bases and the command line's changes.

python tools/analysis_tools/print_config.py CONFIG [--save-path FILE] [--cfg-options ...]
"""

from __future__ import annotations

import argparse

from mmengine.config import DictAction

from mmvtr.utils import load_config


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('config', help='config file')
    parser.add_argument('--save-path', metavar='FILE', help='also write it (.py, .json or .yaml)')
    parser.add_argument(
        '--cfg-options', nargs='+', action=DictAction, metavar='KEY=VALUE', help='config changes'
    )
    args = parser.parse_args()
    cfg = load_config(args.config, args.cfg_options)
    print(cfg.pretty_text)
    if args.save_path:
        cfg.dump(args.save_path)


if __name__ == '__main__':
    main()
