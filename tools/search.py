"""Search a gallery that tools/export_index.py wrote, and add videos to it or remove them.

    python tools/search.py DIR "a man is singing" ["a dog runs" ...] [--k 10] [--add VIDEO ...]

Prints rank, id, score and file of the best videos of each text. Added videos are named after their
files; they get their bias, if the gallery has biases, and those of the others stay as they are. Of
a Qdrant server, DIR is http://HOST:PORT/NAME, and --config the config.json of the export.
"""

from __future__ import annotations

import argparse
from typing import Any

from mmvtr.command_line import Parser, check_files, query, setting, tool


def parse_args() -> argparse.Namespace:
    parser = Parser(__doc__)
    add = parser.add_argument
    add('index', metavar='DIR', help='folder of the gallery, or its URL')
    add('texts', nargs='*', type=query, metavar='TEXT', help='what to search for')
    add('--k', type=int, default=10, help='videos a text (default: 10)')
    add('--add', nargs='+', default=[], metavar='VIDEO', help='files to add first, for good')
    add('--delete', nargs='+', default=[], metavar='ID', help='videos to remove first, for good')
    add('--convert', action='store_true', help='write an index of an older version as a store')
    add('--raw', action='store_true', help='rank by scores without their biases')
    add(
        '--filter',
        nargs='+',
        type=setting,
        action='extend',
        metavar='COLUMN=VALUE',
        help='search only videos whose columns have these values; of one column any of several',
    )
    add('--config', metavar='FILE', help='of the model; default: config.json in the folder')
    add('--checkpoint', metavar='FILE', help='where it is now, if it has moved since the export')
    args = parser.parse_args()
    if not (args.texts or args.add or args.delete or args.convert):
        parser.error('a TEXT to search for, or videos to --add or --delete')
    if args.k < 1:
        raise ValueError(f'k must be 1 or more, not {args.k}')
    check_files(args.add)
    return args


@tool
def main() -> None:
    run(parse_args())


def run(args: argparse.Namespace) -> None:
    """Remove and add, then search."""
    from mmvtr.store import open_store
    from mmvtr.store.filters import as_typed

    changes = bool(args.add or args.delete or args.convert)
    with open_store(args.index, write=changes) as store:
        wanted = as_typed(args.filter, store.types)
        if args.delete:
            store.delete(args.delete)
        if args.add or args.texts:
            from mmvtr import apis

            model, cfg = apis.load_stored_retriever(
                args.index, store, config=args.config, checkpoint=args.checkpoint
            )
        if args.add:
            videos = apis.encode_videos(model, cfg, args.add)
            found = apis.vectors(model, videos.levels)
            store.add(videos.ids, found, paths=args.add, sigmas=apis.sigmas(videos.levels))
        if changes:
            store.persist()
            said = [f'{len(args.add)} of them new'] if args.add else []
            said += [f'{len(args.delete)} removed'] if args.delete else []
            print(', '.join([f'{args.index}: {store.count()} videos', *said]))
        if args.texts:
            texts = apis.encode_texts(model, cfg, args.texts)
            found = store.search(
                apis.vectors(model, texts.levels),
                args.k,
                transform=not args.raw,
                filter=wanted,
            )
            for text, hits in zip(args.texts, found):
                print(text)
                for rank, (score, _, item) in enumerate(hits, 1):
                    row = f'{rank:6d}  {item.id}  {score:.4f}  {item.path or ""}{span(item)}'
                    print(row.rstrip())


def span(item: Any) -> str:
    """Where an item is in its file."""
    return '' if item.start is None or item.end is None else f'  {item.start:.1f}-{item.end:.1f} s'


if __name__ == '__main__':
    main()
