"""Write a bank of train queries, encoded with the final weights, for test-time score transforms.

    python tools/export_bank.py CONFIG CHECKPOINT --out FILE [--max N]

The texts and videos of the train set are read like those of the test set.  A score-transform hook
reads the file with ``queries='bank', bank_file=FILE``, mmvtr export_index with ``--bank FILE``.
"""

from __future__ import annotations

import argparse
from typing import Any

from mmvtr.cli.start import tool

from mmengine.config import Config

from mmvtr.cli import Parser, count, output_file
from mmvtr.utils import load_config


def parse_args() -> argparse.Namespace:
    parser = Parser(__doc__)
    add = parser.add_argument
    add('config', help='config file')
    add('checkpoint', help='checkpoint file of the same model')
    add('--out', required=True, metavar='FILE', type=output_file, help='.pth file to write')
    add(
        '--max',
        type=count,
        default=16384,
        metavar='N',
        help="at most so many texts, and videos, drawn with the config's seed (default: NCL's "
        '16384; token-wise models store the tokens of each)',
    )
    parser.add_cfg_options()
    return parser.parse_one_checkpoint()


@tool
def main() -> None:
    args = parse_args()
    cfg = load_config(args.config, args.cfg_options)
    export(args, cfg)


def export(args: argparse.Namespace, cfg: Config) -> None:
    """Encode the train set and write the bank."""
    from mmvtr.apis import PartOfSet, as_tested, encode_set, load_retriever
    from mmvtr.engine.launching import check_datasets
    from mmvtr.storage import write_plain

    model, _ = load_retriever(cfg, args.checkpoint)
    loader = cfg.train_dataloader = as_tested(cfg, 'train')
    dataset = check_datasets(cfg, ['train_dataloader'])['train_dataloader']
    seed = cfg.get('randomness', {}).get('seed') or 0
    drawn = {kind: draw(len(dataset.view(kind)), args.max, seed) for kind in ('text', 'video')}
    items = dict(loader, dataset=PartOfSet(dataset, drawn))
    encoded = encode_set(model, items, progress=True)
    bank = {kind: queries_of(encoded[kind], kind, model, dataset).state() for kind in encoded}
    write_plain(bank, args.out)
    sizes = ' and '.join(f'{len(items.ids)} {kind}s' for kind, items in encoded.items())
    print(f'{args.out}: {sizes} of the train set')


def draw(count: int, most: int, seed: int) -> list[int]:
    """Return at most ``most`` of the first ``count`` numbers, in ascending order."""
    import torch

    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    return sorted(order[:most].tolist())


def queries_of(encoded: Any, kind: str, model: Any, dataset: Any) -> Any:
    """Return encoded items as bank queries, with the levels that the similarity reads."""
    import torch

    from mmvtr.engine.hooks.query_queue import Queries

    names = getattr(model.similarity, 'levels', encoded.levels)
    video = encoded.index
    if kind == 'text':
        video = torch.tensor([dataset.texts[t]['video_idx'][0] for t in encoded.index.tolist()])
    return Queries({name: encoded.levels[name] for name in names}, encoded.index, video)


if __name__ == '__main__':
    main()
