"""Find the moments that texts describe in the videos of a config's test set.

    mmvtr find_moments CONFIG CHECKPOINT "a small red star spins" ["a dog" ...] [--k 5]

Prints rank, id, score, begin and end, and file of the best videos of each text, for models that
score a video by its best frame. Times are seconds from the begin of the file, or fractions of
the video if its length is unknown. With --store DIR, which mmvtr export_index wrote, only the top
videos of this gallery for a text are read and compared with it, not those of the test set.
"""

from __future__ import annotations

import argparse
from typing import Any, Sequence

from mmvtr.cli.start import tool

from mmengine.config import Config

from mmvtr.cli import Parser, count, query
from mmvtr.utils import load_config


def parse_args() -> argparse.Namespace:
    parser = Parser(__doc__)
    add = parser.add_argument
    add('config', help='config file')
    add('checkpoint', help='checkpoint file of the same model')
    add('texts', nargs='+', type=query, metavar='TEXT', help='what to look for')
    add('--k', type=int, default=5, help='videos per text (default: 5)')
    add(
        '--split',
        choices=['train', 'val', 'test'],
        default='test',
        help='dataset of the videos (default: test)',
    )
    add('--store', metavar='DIR', help='gallery to search in place of the dataset')
    add(
        '--shortlist',
        type=count,
        default=20,
        metavar='N',
        help='videos per text that the gallery finds first (default: 20)',
    )
    parser.add_cfg_options()
    args = parser.parse_one_checkpoint(more='texts')
    if args.k < 1:
        parser.error(f'--k must be at least 1, not {args.k}')
    if args.store and args.shortlist < args.k:
        parser.error(f'--shortlist {args.shortlist} is below --k {args.k}')
    return args


@tool
def main() -> None:
    args = parse_args()
    find(args, load_config(args.config, args.cfg_options))


def find(args: argparse.Namespace, cfg: Config) -> None:
    """Encode texts and videos, compare them, print the moments."""
    import torch

    from mmvtr import apis
    from mmvtr.engine.hooks.moments_hook import find_moments, refuse_without_frames
    from mmvtr.engine.loops.evaluation import to_device
    from mmvtr.registry import DATASETS
    from mmvtr_gallery.stored_model import decode_here

    apis.refuse_stored_words(cfg)
    model, _ = apis.load_retriever(cfg, args.checkpoint)
    refuse_without_frames(model)
    texts = apis.encode_texts(model, cfg, args.texts).levels  # unknown words fail first
    if args.store is None:
        loader = apis.as_tested(cfg, args.split)
        dataset = DATASETS.build(loader.dataset)
        items = dict(loader, dataset=dataset)
        videos = apis.encode_set(model, items, kinds=['video'], progress=True)['video']
        records = [dataset.videos[v] for v in videos.index.tolist()]
    else:
        lists = shortlists(args)
        records = list({hit['video_id']: hit for hits in lists for hit in hits}.values())
        decode_here(cfg)
        paths, ids = ([record[key] for record in records] for key in ('path', 'video_id'))
        videos = apis.encode_videos(model, cfg, paths, ids=ids)
    device = model.data_preprocessor.device
    sides = (to_device(side, device) for side in (texts, videos.levels))
    scores = model.score(*sides, names=['scores'])['scores']
    if args.store is not None:
        meant = torch.tensor([[record in hits for record in records] for hits in lists])
        scores = scores.masked_fill(~meant.to(device), -torch.inf)
    found = find_moments(model, texts, videos.levels, scores, top=args.k)
    show(args.texts, found, records)


def shortlists(args: argparse.Namespace) -> list[list[dict[str, Any]]]:
    """Return the gallery's top videos for each text.

    Raises:
        ValueError: a video has no file in the gallery, or is only a part of one.
    """
    from mmvtr import apis
    from mmvtr_gallery.store import open_store
    from mmvtr_gallery.stored_model import load_stored_retriever

    with open_store(args.store) as store:
        model, cfg = load_stored_retriever(args.store, store)
        queries = apis.vectors(model, apis.encode_texts(model, cfg, args.texts).levels)
        found = store.search(queries, args.shortlist)
    for hits in found:
        for hit in hits:
            if hit.item.path is None or hit.item.start is not None:
                raise ValueError(
                    f'{args.store}: item {hit.item.id[:80]!r} is not a whole file with a known path'
                )
    return [[dict(video_id=hit.item.id, path=hit.item.path) for hit in hits] for hits in found]


def show(texts: Sequence[str], found: Any, records: Sequence[dict[str, Any]]) -> None:
    """Print a block for each text, with a line for each of its videos."""
    shape = found.column.shape
    spans = found.matches.span.view(*shape, 2)
    for text, *hits in zip(texts, found.column.tolist(), found.score.tolist(), spans.tolist()):
        print(text)
        for rank, (column, score, span) in enumerate(zip(*hits), 1):
            video = records[column]
            row = f'{rank:6d}  {video["video_id"]}  {score:.4f}  {spoken(span, video)}'
            print(f'{row}  {video.get("path", "")}'.rstrip())


def spoken(span: Sequence[float], video: dict[str, Any]) -> str:
    """Return '12.5-15.0 s', or '0.500-0.600 of it' if the video's length is unknown."""
    if 'duration' not in video:
        return '{:.3f}-{:.3f} of it'.format(*span)
    from mmvtr.engine.hooks.moments_hook import begin_of

    begin = begin_of(video)
    return '{:.1f}-{:.1f} s'.format(*(begin + x * video['duration'] for x in span))


if __name__ == '__main__':
    main()
