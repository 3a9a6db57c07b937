"""Write a gallery of a dataset's videos, for mmvtr search and mmvtr serve (needs faiss).

    mmvtr export_index CONFIG CHECKPOINT --out DIR [--transform sinkhorn]
        [--bank FILE] [--temperature X] [--iters N] [--split test | --rows ROWS --videos CSV]

With a transform, a search ranks by the transformed text-to-video scores: the bias of each video is
stored with it. The bias comes from train texts (the checkpoint's queue, or a bank file that
tools/export_bank.py wrote), never from test queries.

With --rows the vectors are read from what mmvtr extract_features --format parquet wrote, for the
videos that the CSV lists; nothing is decoded.

The gallery is a store (docs/store.md of mmvtr-gallery). With --to http://HOST:PORT/NAME the videos
go to a Qdrant server, and DIR holds only the config.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import shutil
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, Iterator, Optional

from mmvtr.cli.start import tool

from mmengine.config import Config
from mmengine.fileio import dump

from mmvtr.cli import Parser, output_folder
from mmvtr.cli.transform_options import add_options, choices, options_given
from mmvtr.errors import UserError
from mmvtr.functional.transforms.transform_table import ADDITIVE, TRANSFORMS, with_model
from mmvtr.storage import write_atomically
from mmvtr.utils import load_config

#: Number of videos whose windows are written at a time.
ITEMS = 500


def parse_args() -> argparse.Namespace:
    parser = Parser(__doc__)
    add = parser.add_argument
    add('config', help='config file')
    add(
        'checkpoint',
        nargs='?',
        help='checkpoint file of the same model; none for a model on an embedding server',
    )
    add('--out', required=True, metavar='DIR', type=output_folder, help='folder to write')
    add('--replace', action='store_true', help='replace an existing gallery')
    add('--transform', choices=choices(ADDITIVE), help='default: raw scores')
    add(
        '--queries',
        choices=['train_queue', 'bank'],
        help="the transform's queries; default: bank if there is a --bank, else train_queue",
    )
    add('--bank', metavar='FILE', help='file of tools/export_bank.py')
    add(
        '--probabilities',
        action='store_true',
        help='also find how surely each place of a list is right, from the pairs of the bank',
    )
    add_options(parser, ADDITIVE)
    add(
        '--split',
        choices=['train', 'val', 'test'],
        default='test',
        help='dataset of the videos (default: test)',
    )
    add(
        '--calibration',
        metavar='FILE.json',
        type=Path,
        help='what gives hits their P(match): Calibration.to_dict(), fitted on raw scores of this '
        'model, or on those with this transform',
    )
    add(
        '--windows',
        type=float,
        metavar='SECONDS',
        help='also keep windows of this length of each video, for search.py --moments',
    )
    add('--rows', metavar='ROWS', type=Path, help='take vectors that were extracted, instead')
    add('--videos', metavar='CSV', type=Path, help='for --rows: id, path, start, end of its videos')
    add('--to', metavar='URL', help='URL of a Qdrant server, with the name of a new collection')
    parser.add_cfg_options()
    return parser.parse_one_checkpoint()


def check_options(args: argparse.Namespace) -> None:
    """Raise ValueError for contradictory options, before reading anything; set defaults."""
    if not args.replace:
        refuse_gallery(args)
    if (args.rows is None) != (args.videos is None):
        raise ValueError('give --rows ROWS and --videos CSV together')
    if args.windows is not None and not 0 < args.windows < math.inf:
        raise ValueError(f'--windows must be positive, not {args.windows}')
    if args.calibration is not None:
        args.calibration = read_calibration(args.calibration, biased=args.transform is not None)
    if args.transform is None:
        options_given(args, ())  # refuses every option
        if args.queries is not None or args.bank is not None:
            raise ValueError('--queries and --bank need a --transform')
        if args.probabilities:
            raise ValueError('--probabilities needs a --transform, whose bank has pairs')
        return
    options_given(args, [args.transform])
    args.queries = args.queries or ('bank' if args.bank else 'train_queue')
    if (args.queries == 'bank') != (args.bank is not None):
        raise ValueError(
            f'--bank FILE belongs to --queries bank: got --queries {args.queries}, '
            f'--bank {args.bank}'
        )


def read_calibration(path: Path, *, biased: bool) -> Any:
    """Read a calibration from a file and check that it suits a gallery with, or without, biases.

    Raises:
        OSError: there is no such file.
        ValueError: it holds no calibration, or one for the other kind of gallery.
    """
    from mmvtr.functional.uncertainty.calibration import Calibration
    from mmvtr_gallery.store.calibrated import check_calibration

    try:
        found = Calibration.from_dict(json.loads(path.read_bytes()))
        check_calibration(found, biased=biased)
    except (RecursionError, TypeError, ValueError) as error:
        raise ValueError(f'--calibration {path}: {str(error)[:300]}') from error
    return found


def refuse_gallery(args: argparse.Namespace) -> None:
    """Raise ValueError if the export would overwrite a gallery or its config."""
    from mmvtr_gallery.store.replacing import holds_gallery

    if args.to is None and holds_gallery(args.out):
        raise ValueError(
            f'{args.out} holds a gallery: --replace puts the new one in its place, or give another '
            '--out DIR'
        )
    config = args.out / 'config.json'  # the only file in DIR of a gallery on a server
    if args.to is not None and config.exists():
        raise ValueError(f'{config} is there already: --replace writes another in its place')


@tool
def main() -> None:
    args = parse_args()
    check_options(args)
    cfg = load_config(args.config, args.cfg_options)
    export(args, cfg)


def export(args: argparse.Namespace, cfg: Config) -> None:
    """Encode the videos, compute their biases, write the index."""
    check_installed(args.to)  # first, as nothing else works without it

    from mmvtr import apis
    from mmvtr.engine.hooks.stored_queries import stored_pairs
    from mmvtr_gallery.stored_model import refuse_own_weights

    queries = read_queries(args, 'text') if args.transform else None
    if args.checkpoint is None:
        refuse_own_weights(cfg)
    model, _ = apis.load_retriever(cfg, args.checkpoint)
    apis.refuse_without_vectors(model)
    options = {}
    if queries is not None:
        options = options_given(args, [args.transform])[args.transform]
        options = with_model(options, model.temperature().item())
    notes = said_of(args, queries, options)
    bank = None if queries is None else apis.vectors(model, queries.levels)
    seen, paired = None, args.transform == 'auto' or args.probabilities
    if queries is not None and (paired or TRANSFORMS[args.transform].reads_items):
        videos = read_queries(args, 'video')
        seen = apis.vectors(model, videos.levels)
        if paired:
            texts, own = stored_pairs(queries, videos).unbind(1)
            bank, seen = bank[texts], seen[own]
    origin, parts = stored(args, model) if args.rows else encoded(args, cfg, model)
    first = next(parts, None)
    if first is None:
        raise ValueError(f'{args.rows} holds no video that could be read')
    width = first['vectors'].shape[1]
    if bank is not None and bank.shape[1] != width:
        raise ValueError(
            f'the bank queries have {bank.shape[1]} dimensions, the gallery {width}: '
            'the bank is of another model'
        )
    about = dict(
        config=cfg.filename,
        checkpoint=args.checkpoint and str(Path(args.checkpoint).resolve()),
        weights=apis.fingerprint(model),
        **origin,
        **notes,
    )
    where = args.to or args.out
    with replacing(where, width, about) as store:
        for part in chain([first], parts):
            store.add(**part)
        count = store.count()
        if bank is not None:
            store.refit(
                bank,
                items=seen,
                transform=args.transform,
                **options,
                sample=count,
                device=model.data_preprocessor.device,
                fewer=True,  # reported at the end
                paired=paired,
                probabilities=args.probabilities,
            )
        if args.calibration is not None:
            store.calibrate(args.calibration)
        keep_config(args, cfg, store)
        store.persist()
    keep_windows(args, cfg, model, bank, seen)
    split = args.split if args.rows else origin['set']['split'] or args.split
    of = args.rows or ('the whole set' if split == 'all' else f'the {split} set')
    print(f'{where}: {count} videos of {of}, {describe(about)}')
    if queries is not None and queries.item_count < count:
        print(
            f'warning: {queries.item_count} distinct queries are fewer than the {count} videos '
            'that they normalise; this tends to hurt'
        )


def keep_windows(
    args: argparse.Namespace, cfg: Config, model: Any, bank: Optional[Any], seen: Optional[Any]
) -> None:
    """Write the windows of the videos; remove those of a replaced gallery."""
    from mmvtr_gallery.extraction.windows import encoder_of_parts, windows_of
    from mmvtr_gallery.store import open_store
    from mmvtr_gallery.store.moments import MomentStore, Windowing, beside
    from mmvtr_gallery.store.replacing import holds_gallery
    from mmvtr_gallery.stored_model import decode_here

    where = args.to or args.out
    if args.windows is None:
        if args.to is None and holds_gallery(beside(where)):
            shutil.rmtree(beside(where))
        return
    decode_here(cfg)
    encode, windowing = encoder_of_parts(model, cfg), Windowing(args.windows, args.windows / 2)
    with open_store(where) as items:
        about = {**items.about, **windowing.about()}
        with replacing(beside(where), items.dim, about) as windows:
            moments = MomentStore(items, windows)
            there = [item for item in items.get(moments.missing()) if item.path is not None]
            for start in range(0, len(there), ITEMS):
                found = {}
                for item in there[start : start + ITEMS]:
                    cut = item.start, item.end, windowing, encode
                    found[item.id] = windows_of(item.path, *cut)
                moments.put(found)
            count = windows.count()
            if bank is not None and count:
                how = items_refit(items)
                reads = how['transform'] is not None and TRANSFORMS[how['transform']].reads_items
                given = seen if reads else None
                windows.refit(bank, items=given, **how, sample=count, fewer=True)
            windows.persist()
    print(f'{beside(where)}: {count} windows of {args.windows:g} s')


def items_refit(items: Any) -> dict[str, Any]:
    """Return the transform and the options of the items' biases."""
    from mmvtr_gallery.store.refits import options_of

    return dict(transform=items.last_refit['transform'], **options_of(items.last_refit))


def keep_config(args: argparse.Namespace, cfg: Config, store: Any) -> None:
    """Store the config beside the vectors that its model has made."""
    text = dump(cfg.to_dict(), file_format='json')
    if args.to is None:
        store.keep_config(text)
    else:
        write_atomically(args.out / 'config.json', lambda file: file.write(text.encode()))


def encoded(args: argparse.Namespace, cfg: Config, model: Any) -> tuple[dict, Iterator[dict]]:
    """Return the source of the vectors, and the rows to add: the videos of a split."""
    from mmvtr import apis
    from mmvtr.engine.launching import check_datasets

    name = f'{args.split}_dataloader'
    loader = cfg[name] = apis.as_tested(cfg, args.split)
    dataset = check_datasets(cfg, [name])[name]
    items = dict(loader, dataset=dataset)
    videos = apis.encode_set(model, items, kinds=['video'], progress=True)['video']
    paths = {video['video_id']: str(video['path']) for video in dataset.videos if 'path' in video}
    part = dict(
        ids=videos.ids,
        vectors=apis.vectors(model, videos.levels),
        paths=[paths.get(name) for name in videos.ids],
        sigmas=apis.sigmas(videos.levels),
        metadata=metadata_of(dataset, videos.ids),
    )
    protocol = dataset.protocol()
    origin = dict(
        set={key: protocol[key] for key in ('dataset', 'split', 'ids_sha')},
        examples=drawn([text.get('text') for text in dataset.texts]),
    )
    return origin, iter([part])


def metadata_of(dataset: Any, ids: list[str]) -> dict[str, list[Any]]:
    """Return the user's extra metadata columns; print the names that a store cannot filter by."""
    from mmvtr_gallery.store.items import is_column
    from mmvtr_gallery.store.table_columns import columns_of

    known = columns_of(getattr(dataset, 'more', {}), dataset.origin())
    names = list(dict.fromkeys(name for row in known.values() for name in row))
    strange = [name for name in names if not is_column(name)]
    if strange:
        print(f'columns that no filter can name are left out: {", ".join(strange)[:200]}')
    rows = [known.get(video, {}) for video in ids]
    return {name: [row.get(name) for row in rows] for name in names if name not in strange}


def drawn(captions: list[Optional[str]], most: int = 6) -> list[str]:
    """Return a few different captions, evenly spaced, as example queries for the gallery's page."""
    known = [x for x in dict.fromkeys(captions) if isinstance(x, str) and 0 < len(x) <= 1000]
    step = max(1, len(known) // most)
    return known[::step][:most]


def stored(args: argparse.Namespace, model: Any) -> tuple[dict, Iterator[dict]]:
    """Return the source of the vectors, and the rows to add, one file at a time."""
    from mmvtr_gallery.extraction.rows import listed_videos, stored_vectors

    videos = {record['id']: record for record in listed_videos(args.videos)}
    parts = stored_vectors(args.rows, model, videos)
    return dict(rows=str(args.rows.resolve())), (part._asdict() for part in parts)


def read_queries(args: argparse.Namespace, kind: str) -> Any:
    """Return the bank's texts or videos; raise ValueError if its source is missing."""
    from mmvtr.engine.hooks.query_queue import Queries
    from mmvtr.engine.hooks.stored_queries import read_bank
    from mmvtr.storage.weights import read_checkpoint

    if args.queries == 'bank':
        return read_bank(args.bank)[kind]
    if args.checkpoint is None:
        raise ValueError('without a checkpoint there is no train queue: give --bank FILE')
    state = read_checkpoint(args.checkpoint).get('query_queue', {}).get(kind)
    if state is None:
        raise UserError(
            f"{args.checkpoint} holds no 'query_queue' of {kind}s: train with the QueryQueueHook, "
            'or write a bank (tools/export_bank.py) and give --bank FILE'
        )
    return Queries.of(state)


def check_installed(server: Optional[str]) -> None:
    """Raise ImportError if the package that stores the vectors is missing."""
    module, extra = ('faiss', 'index') if server is None else ('qdrant_client', 'qdrant')
    if importlib.util.find_spec(module) is None:
        raise ImportError(f"an index needs {module}: pip install -e 'projects/gallery[{extra}]'")


@contextmanager
def replacing(where: Any, dim: int, about: dict[str, Any]) -> Iterator[Any]:
    """Yield a new store; on disk it replaces an older one only once it is complete."""
    from mmvtr_gallery.store import create_store
    from mmvtr_gallery.store.opening import is_url

    options = dict(model=about['weights'], about=about)
    options['geometry'] = 'inner_product'  # the model's scores
    if is_url(where):
        with create_store(where, dim, **options) as store:
            yield store
        return
    from mmvtr_gallery.store.replacing import replace_store

    with replace_store(where, dim, **options) as store:
        yield store


def said_of(
    args: argparse.Namespace, queries: Optional[Any], options: dict[str, Any]
) -> dict[str, Any]:
    """Return the transform and the options that the gallery records with its biases."""
    import torch

    from mmvtr import apis

    if queries is None:
        return dict(transform=None)
    notes = dict(
        transform=args.transform,
        queries=args.queries if args.bank is None else str(Path(args.bank).resolve()),
        num_queries=len(queries.index),
        distinct_queries=queries.item_count,
        **options,
    )
    sigmas = apis.sigmas(queries.levels)
    if sigmas is not None:  # reference distribution for the sigma of a later query
        share = torch.linspace(0, 1, 101)
        notes['text_sigma'] = torch.tensor(sigmas).quantile(share).tolist()
    return notes


def describe(about: dict[str, Any]) -> str:
    if about['transform'] is None:
        return 'raw scores'
    known = dict(temperature='as chosen')
    if about['transform'] != 'auto':
        known = TRANSFORMS[about['transform']].options
    said = (
        f'{about["transform"]} with {about["num_queries"]} texts ({about["distinct_queries"]} '
        f'distinct) of {about["queries"]}'
    )
    if 'temperature' not in known:
        return said
    temperature = about.get('temperature', known['temperature'])
    at = temperature if isinstance(temperature, str) else f'{temperature:.4g}'
    return f'{said}, temperature {at}'


if __name__ == '__main__':
    main()
