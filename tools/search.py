"""Search an index that tools/export_index.py wrote, and add videos to it.

    python tools/search.py DIR "a man is singing" ["a dog runs" ...] [--k 10] [--add VIDEO ...]

Prints rank, id, score and file of the best videos of each text. Added videos are named after their
files; they get their bias, if the index has biases, and those of the others stay as they are.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add('index', metavar='DIR', type=Path, help='folder of the index')
    add('texts', nargs='*', metavar='TEXT', help='what to search for')
    add('--k', type=int, default=10, help='videos a text (default: 10)')
    add('--add', nargs='+', default=[], metavar='VIDEO', help='files to add first, for good')
    add('--checkpoint', metavar='FILE', help='where it is now, if it has moved since the export')
    args = parser.parse_args()
    if not args.texts and not args.add:
        parser.error('a TEXT to search for, or videos to --add')
    return args


def main() -> None:
    args = parse_args()
    try:
        run(args)
    except (ImportError, KeyError, OSError, RuntimeError, ValueError) as error:
        reason = error.args[0] if isinstance(error, KeyError) else error
        raise SystemExit(f'error: {reason}') from error


def run(args: argparse.Namespace) -> None:
    """Add, then search."""
    from mmvtr.index import GalleryIndex

    index = GalleryIndex.load(args.index)

    from mmvtr.apis import encode_texts, encode_videos, vectors

    model, cfg = load_model(args.index, index.about, args.checkpoint)
    if args.add:
        videos = encode_videos(model, cfg, args.add)
        index.add(
            videos.ids,
            vectors(model, videos.levels),
            paths=dict(zip(videos.ids, args.add)),
        )
        index.save(args.index)
        print(f'{args.index}: {len(index)} videos, {len(args.add)} of them new')
    if args.texts:
        texts = encode_texts(model, cfg, args.texts)
        hits = index.search(vectors(model, texts.levels), k=args.k)
        for text, ids, scores in zip(args.texts, hits.ids, hits.scores.tolist()):
            print(text)
            for rank, (name, score) in enumerate(zip(ids, scores), 1):
                print(f'{rank:6d}  {name}  {score:.4f}  {index.paths.get(name, "")}'.rstrip())


def load_model(folder: Path, about: dict[str, Any], checkpoint: str | None) -> tuple[Any, Any]:
    """The retriever that made the index, and its config.

    Raises:
        RuntimeError: the checkpoint has other weights than when the index was made.
    """
    from mmvtr.apis import fingerprint, load_retriever
    from mmvtr.utils import load_config

    checkpoint = checkpoint or about['checkpoint']
    model, cfg = load_retriever(load_config(str(folder / 'config.json')), checkpoint)
    if fingerprint(model) != about['weights']:
        raise RuntimeError(f'{checkpoint} has other weights than those that {folder} is made of')
    return model, cfg


if __name__ == '__main__':
    main()
