"""Write a trained retriever to a folder that others can load, and upload it to the hub.

    python tools/model_converters/publish.py CONFIG CHECKPOINT --out FOLDER [--results metrics.json]
        [--protocol work_dirs/NAME/DATE/DATE.log] [--push NAME/MODEL]

The folder has safetensors, json and a model card, and no code (docs/inferencer.md).  Results are
the output of ``tools/test.py --out``, which has their protocol; for other numbers --protocol is the
line below their table, or the log that has it.  Facts about the training come from the checkpoint.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Optional

from mmvtr.cli.start import tool

from mmvtr.cli import Parser, output_folder
from mmvtr.utils import load_config


def parse_args() -> argparse.Namespace:
    parser = Parser(__doc__)
    add = parser.add_argument
    add('config', help='config file')
    add('checkpoint', help='checkpoint file of the same model')
    add('--out', required=True, metavar='FOLDER', type=output_folder, help='folder to write')
    add('--results', metavar='FILE', help='json of tools/test.py --out, for the model card')
    add(
        '--protocol', metavar='LINE', help='protocol of results without one, or the log that has it'
    )
    add('--name', help="name of the model in its card; default: the repository's, or the config's")
    add(
        '--license',
        metavar='NAME',
        help="license of the weights, for the card, such as 'apache-2.0'",
    )
    add('--push', metavar='REPO', help="upload to this repository of the hub, 'NAME/MODEL'")
    add('--private', action='store_true', help='make the repository a private one')
    parser.add_cfg_options()
    args = parser.parse_one_checkpoint()
    if args.private and not args.push:
        parser.error('--private needs a repository: give --push NAME/MODEL')
    return args


@tool
def main() -> None:
    args = parse_args()
    cfg = load_config(args.config, args.cfg_options)
    protocol = read_protocol(args.protocol)

    # Import here what takes seconds.
    from mmvtr.apis import load_retriever
    from mmvtr.apis.pretrained import check_repo_id, push_to_hub, save_pretrained
    from mmvtr.apis.pretrained.card import read_results

    if args.push:
        check_repo_id(args.push)
    model, _ = load_retriever(cfg, args.checkpoint, device='cpu')
    name = args.name or args.push
    save_pretrained(
        model,
        cfg,
        args.out,
        results=args.results,
        protocol=protocol,
        name=name,
        license=args.license,
    )
    print(f'{args.out}: {sum(p.numel() for p in model.parameters()):,} parameters')
    if args.results and protocol is None and read_results(args.results, None).line is None:
        print('warning: the card has results without their protocol: see --protocol')
    if args.push:
        print(push_to_hub(args.out, args.push, private=args.private or None))


def read_protocol(given: Optional[str]) -> Optional[str]:
    """Return the protocol line as given, or the last one in a log file.

    Raises:
        ValueError: a file without such a line, or text that is neither.
    """
    if given is None or given.startswith('protocol:'):
        return given
    if not Path(given).is_file():
        raise ValueError(
            f"--protocol: expected 'protocol: ...' or a log file that exists, found {given[:80]!r}"
        )
    text = Path(given).read_text(encoding='utf-8', errors='replace')
    lines = re.findall(r'^protocol: .*(?:\n {10}\S.*)*', text, flags=re.MULTILINE)
    if not lines:
        raise ValueError(f'{given} has no protocol line: it is not the log of a test')
    return ' '.join(lines[-1].split())


if __name__ == '__main__':
    main()
