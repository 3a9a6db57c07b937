"""Search a gallery that mmvtr export_index wrote, and add videos to it or remove them.

    mmvtr search DIR "a man is singing" ["a dog runs" ...] [--k 10] [--add VIDEO ...]
    mmvtr search DIR --refit TEXTS       # new biases, from a file of one text a line
    mmvtr search DIR --undo              # undo the last change
    mmvtr search DIR --suspects TEXTS    # videos that look made to be found by everybody
    mmvtr search DIR --quarantine ID     # no search finds it, until --release ID

Prints rank, id, score and file of the best videos of each text; if the gallery has a calibration
also P, the probability that a video matches. Added videos are named after their files; they get a
bias if the gallery has biases, without changing those of the others, and windows if the gallery has
windows. In a gallery of vectors that mmvtr did not make, texts need --text-model, and videos cannot
be added here. --refit and --undo change windows, too. Removing and adding in one call is one
change: if it fails, nothing has changed. On a Qdrant server, DIR is http://HOST:PORT/NAME, and
--config the config.json of the export.
"""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Optional

from mmvtr.cli.start import tool

from mmvtr.cli import Parser, check_files, query, setting
from mmvtr.cli.transform_options import add_options, choices, numbers_given
from mmvtr.functional.transforms.transform_table import OF_QUERIES
from mmvtr_gallery.commands import TEXT_MODEL

#: Line printed between hits that meet the minimum precision and the others.
BELOW = '        below this, probably nothing here'


def parse_args() -> argparse.Namespace:
    parser = Parser(__doc__)
    add = parser.add_argument
    several = partial(add, nargs='+', action='extend', default=[])
    add('index', metavar='DIR', help='folder of the gallery, or its URL')
    add('texts', nargs='*', type=query, metavar='TEXT', help='what to search for')
    add('--k', type=int, default=10, help='videos per text (default: 10)')
    several('--add', metavar='VIDEO', help='files to add first, for good')
    several('--delete', metavar='ID', help='videos to remove first, for good')
    add('--refit', metavar='TEXTS', help='find new biases from the texts of a file, one per line')
    add(
        '--transform',
        choices=choices(OF_QUERIES),
        help='transform of --refit; default: that of the last one',
    )
    add_options(parser, OF_QUERIES)  # default: those of the last refit
    add('--fewer', action='store_true', help='refit although the texts are fewer than the videos')
    add(
        '--undo', action='store_true', help='take the last change back; a second --undo restores it'
    )
    add('--suspects', metavar='TEXTS', help='list videos that texts of most kinds find')
    several('--quarantine', metavar='ID', help='leave videos out of searches')
    several('--release', metavar='ID', help='let searches find them again')
    add(
        '--min-precision',
        type=float,
        metavar='P',
        help='draw a line below the hits of which this share matches, such as 0.8 (of a gallery '
        'with a calibration)',
    )
    add(
        '--moments',
        action='store_true',
        help='rank videos by their best window, and show it (after export_index.py --windows)',
    )
    add('--raw', action='store_true', help='rank by scores without their biases')
    add(
        '--filter',
        nargs='+',
        type=setting,
        action='extend',
        metavar='COLUMN=VALUE',
        help='search only videos whose columns have these values (any of several of one column)',
    )
    add('--config', metavar='FILE', help='config; default: config.json in the folder')
    add('--checkpoint', metavar='FILE', help='checkpoint, if it has moved since the export')
    add('--text-model', metavar='KIND:NAME', help=TEXT_MODEL)
    args = parser.parse_args()
    held = bool(args.quarantine), bool(args.release)
    changes = [bool(args.add or args.delete), bool(args.refit), args.undo, *held]
    if not (args.texts or args.suspects or any(changes)):
        parser.error('give a TEXT to search for, or videos to --add or --delete')
    if sum(changes) > 1:
        parser.error(
            'give only one of --refit, --undo, --quarantine and --release, without other changes'
        )
    if (args.fewer or args.transform or numbers_given(args)) and not args.refit:
        parser.error('--fewer, --transform and its options belong to --refit TEXTS')
    if args.min_precision is not None and not args.texts:
        parser.error('--min-precision belongs to a TEXT to search for')
    if args.moments and (not args.texts or args.min_precision is not None):
        parser.error('--moments belongs to a TEXT to search for, and windows have no precision')
    if args.text_model and args.add:
        parser.error('--text-model encodes no videos: leave --add out')
    if args.k < 1:
        raise ValueError(f'k must be 1 or more, not {args.k}')
    check_files(args.add)
    return args


@tool
def main() -> None:
    run(parse_args())


def run(args: argparse.Namespace) -> None:
    """Encode the videos to add and the texts, then change, then search."""
    from mmvtr_gallery.store import open_store
    from mmvtr_gallery.store.filters import as_typed

    changes = bool(args.add or args.delete or args.refit or args.undo)
    changes = changes or bool(args.quarantine or args.release)
    bank = read_texts(args.refit) if args.refit else []
    known = read_texts(args.suspects) if args.suspects else []
    with ExitStack() as opened:
        store = opened.enter_context(open_store(args.index, write=changes))
        moments = moments_of(store, args, changes) if changes or args.moments else None
        if moments is not None:
            opened.enter_context(moments)
        wanted = as_typed(args.filter, store.types)
        if args.min_precision is not None:
            if args.raw or wanted or store.topk_probabilities is None:
                store.threshold(args.min_precision)  # refuses, before a model is built in vain
        if args.add or args.texts or bank or known:
            from mmvtr import apis
            from mmvtr_gallery.stored_model import load_stored_retriever, names_model
            from mmvtr_gallery.text_models import text_model_of

            own = bool(args.config or args.checkpoint) or names_model(args.index, store)
            if args.text_model:
                embed = text_model_of(args.index, store.dim, args.text_model, own=own)
            else:
                model, cfg = load_stored_retriever(
                    args.index, store, config=args.config, checkpoint=args.checkpoint
                )

        def encoded(texts: list[str]) -> Any:
            if args.text_model:
                return embed(texts)
            return apis.vectors(model, apis.encode_texts(model, cfg, texts).levels)

        if changes:
            change = dict(removing=args.delete)
            if args.add:
                videos = apis.encode_videos(model, cfg, args.add)
                change.update(ids=videos.ids, vectors=apis.vectors(model, videos.levels))
                change.update(paths=args.add, sigmas=apis.sigmas(videos.levels))
                if moments is not None:
                    change.update(windows=windows_of_new(moments, model, cfg, change))
            queries = encoded(bank) if bank else None
            print(f'{args.index}: {changed(moments or store, store, args, change, queries)}')
            put_in_order(store)
            if moments is not None:
                put_in_order(moments.windows)
        if known:
            print_suspects(args, store.suspects(encoded(known)))
        if args.moments:
            print_moments(moments, args, encoded(args.texts), wanted)
        elif args.texts:
            asked = encoded(args.texts)
            if store.debiaser is not None and not args.raw and len(asked) > 1:
                if again := store.debiaser.asked_before(asked):
                    print(f'note: {again}')
            listed = store.topk_probabilities is not None and not (args.raw or wanted)
            # Search as deep as the probabilities need: ties and approximate scores keep their
            # order.
            deep = max(args.k, store.topk_probabilities.depth) if listed else args.k
            found = store.search(asked, deep, transform=not args.raw, filter=wanted)
            for text, query, hits in zip(args.texts, asked, found):
                print(text)
                print_hits(store, hits[: args.k], args.min_precision, query if listed else None)


def print_hits(store: Any, hits: list[Any], min_precision: Optional[float], query: Any) -> None:
    """Print a row per hit, and a separator after the last one that has the wanted precision.

    Args:
        query: the query that found them; None: the search was filtered or without biases.
    """
    likely = store.p_match(hits, query)
    shown = -1 if min_precision is None else len(store.accepted(hits, min_precision, query))
    for rank, (score, _, item) in enumerate(hits, 1):
        if rank == shown + 1:
            print(BELOW)
        p = '' if likely is None else f'P={likely[rank - 1]:.3f}  '
        print(f'{rank:6d}  {item.id}  {score:.4f}  {p}{item.path or ""}{span(item)}'.rstrip())


def print_suspects(args: argparse.Namespace, suspects: list[Any]) -> None:
    """Print a row per suspect, the broadest first."""
    print(f'{args.index}: {len(suspects)} videos look made to be found by everybody')
    for one in suspects:
        print(f'{one.id}  found by {one.share:.0%} of the texts, {one.breadth:.0%} of most kinds')


def moments_of(store: Any, args: argparse.Namespace, write: bool) -> Optional[Any]:
    """Return the gallery's store of windows; None if it has none.

    Raises:
        FileNotFoundError: it has none, and --moments asks for them.
        OSError, RuntimeError, ValueError: see :meth:`MomentStore.open`.
    """
    from mmvtr_gallery.store.moments import MomentStore

    try:
        return MomentStore.open(store, args.index, write=write)
    except FileNotFoundError:
        if args.moments:
            raise
        return None


def windows_of_new(moments: Any, model: Any, cfg: Any, change: dict[str, Any]) -> dict[str, Any]:
    """Return the windows of the files to add, cut like the gallery's, by id."""
    from mmvtr_gallery.extraction.windows import encoder_of_parts, windows_of
    from mmvtr_gallery.store.windowing import NOT_NOTED

    if moments.windowing is None:
        print(f'new videos get no windows: {NOT_NOTED}')
        return {}
    cut = None, None, moments.windowing, encoder_of_parts(model, cfg)
    return {name: windows_of(path, *cut) for name, path in zip(change['ids'], change['paths'])}


def print_moments(moments: Any, args: argparse.Namespace, queries: Any, wanted: Any) -> None:
    """Print a row per video, with its best window."""
    found = moments.search(queries, args.k, transform=not args.raw, filter=wanted)
    for text, hits in zip(args.texts, found):
        print(text)
        for rank, hit in enumerate(hits, 1):
            row = f'{rank:6d}  {hit.item.id}  {hit.score:.4f}  {hit.item.path or ""}{span(hit)}'
            print(row.rstrip())


def changed(
    both: Any, store: Any, args: argparse.Namespace, change: dict[str, Any], queries: Any
) -> str:
    """Make the one requested change; return a sentence that describes it.

    Args:
        both: the gallery with its windows, or the gallery itself if it has none.
        store: the gallery.
        args: the parsed options.
        change: the videos to add.
        queries: the bank of a refit; None: no refit.
    """
    with both.kept():
        if args.quarantine or args.release:
            (store.release if args.release else store.quarantine)(args.release or args.quarantine)
            return f'{len(store.quarantined)} of {store.count()} videos are in quarantine'
        if args.undo:
            return str(both.undo())
        if queries is not None:
            how = dict(transform=args.transform or 'same', **numbers_given(args))
            return f'refitted: {both.refit(queries, fewer=args.fewer, **how)}'
        if args.add:
            both.add(**change)
        elif args.delete:
            both.delete(args.delete)
    said = [f'{len(args.add)} of them new'] if args.add else []
    said += [f'{len(args.delete)} removed'] if args.delete else []
    return ', '.join([f'{store.count()} videos', *said])


def put_in_order(store: Any) -> None:
    """Write the sample of served queries; a failure is only a warning, as the change is saved."""
    try:
        store.persist()
    except OSError as error:
        print(
            f'warning: the change is made, but the sample of queries could not be written: {error}'
        )


def read_texts(path: str) -> list[str]:
    """Return the non-empty lines of a file.

    Raises:
        OSError, ValueError: no such file, or it has no text.
    """
    lines = Path(path).read_text(encoding='utf-8').splitlines()
    texts = [line.strip() for line in lines if line.strip()]
    if not texts:
        raise ValueError(f'{path} holds no text: expected one per line')
    return texts


def span(item: Any) -> str:
    """Return the item's time span in its file, in seconds, as text."""
    return '' if item.start is None or item.end is None else f'  {item.start:.1f}-{item.end:.1f} s'


if __name__ == '__main__':
    main()
