"""Print a config as a training reads it, with its bases and the command line's changes.

python tools/analysis_tools/print_config.py CONFIG [--save-path FILE] [--cfg-options ...]
"""

from __future__ import annotations

from mmvtr.cli.start import tool

from mmvtr.cli import Parser
from mmvtr.utils import load_config


@tool
def main() -> None:
    parser = Parser(__doc__)
    parser.add_argument('config', help='config file')
    parser.add_argument('--save-path', metavar='FILE', help='also write it (.py, .json or .yaml)')
    parser.add_cfg_options()
    args = parser.parse_args()
    cfg = load_config(args.config, args.cfg_options)
    print(cfg.pretty_text)
    if args.save_path:
        cfg.dump(args.save_path)


if __name__ == '__main__':
    main()
