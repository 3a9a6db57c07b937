"""Write a trained retriever's vectors of a dataset's texts and videos, to teach another retriever.

    python tools/export_teacher.py CONFIG CHECKPOINT --out DIR [--split train]
                                   [--format npy|hdf5|npz] [--logits] [--half]

Writes ``DIR/text`` and ``DIR/video`` (npy: ``ID.npy``, float32 [E, D]; hdf5: ``DIR/text.h5`` and
``DIR/video.h5``), one row per expert, or one for the whole item. ``LoadVectors`` reads them in the
pipelines of the student's training set, and a ``StoredTeachers`` supervision makes the scores.
npz writes ``DIR/text.npz`` and ``DIR/video.npz``, ``ids`` [N] and ``vectors`` [N, E, D], which
``StoredTeachers(teachers={NAME: DIR})`` reads itself, without a change of the pipelines.
Items are read with the test pipeline, without randomness.

``--logits`` divides the texts' vectors by the model's temperature, so that inner products are
logits, as a ``KLDistillationLoss`` reads them. ``--half`` stores float16: half the bytes, an error
of 5e-4 of each number.

For a model that scores a video by its best frame, a text has one row and a video one per frame, for
``LoadFrameVectors`` and a ``StoredFrameTeacher``; if it has several levels, set
``--cfg-options model.similarity.shared_frame=True``.

The sum over rows of inner products is the teacher's score. For a model with experts the texts' rows
include its weights, and a video's missing experts are zero; scores are not renormalised by the
weights of the available experts, as in TeachText.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, Iterable

from mmvtr.cli.start import tool

import numpy as np
from mmengine.config import Config

from mmvtr.cli import Parser, output_folder
from mmvtr.utils import load_config


def parse_args() -> argparse.Namespace:
    parser = Parser(__doc__)
    add = parser.add_argument
    add('config', help='config file')
    add('checkpoint', help='checkpoint file of the same model')
    add('--out', required=True, metavar='DIR', type=output_folder, help='folder to write')
    add('--split', choices=['train', 'val', 'test'], default='train', help='default: train')
    add(
        '--format',
        choices=[*WRITERS],
        default='npy',
        help='a file for each item (default: npy), or one for all',
    )
    add('--logits', action='store_true', help="divide the texts by the model's temperature")
    add('--half', action='store_true', help='store float16 (default: float32)')
    parser.add_cfg_options()
    return parser.parse_one_checkpoint()


@tool
def main() -> None:
    args = parse_args()
    cfg = load_config(args.config, args.cfg_options)
    export(args, cfg)


def export(args: argparse.Namespace, cfg: Config) -> None:
    """Encode the set and write both stores."""
    from mmvtr.apis import as_tested, encode_set, load_retriever
    from mmvtr.engine.launching import check_datasets

    write = WRITERS[args.format]
    model, _ = load_retriever(cfg, args.checkpoint)
    refuse_without_rows(model)
    name = f'{args.split}_dataloader'
    loader = cfg[name] = as_tested(cfg, args.split)
    items = dict(loader, dataset=check_datasets(cfg, [name])[name])
    for kind, encoded in encode_set(model, items, progress=True).items():
        by = float(model.temperature()) if args.logits and kind == 'text' else 1.0
        dtype = 'float16' if args.half else 'float32'
        rows = [
            (row.numpy() / by).astype(dtype) for row in rows_of_items(model, encoded.levels, kind)
        ]
        path = write(args.out, kind, zip(encoded.ids, rows))
        lengths = {len(row) for row in rows}
        of = 'a whole item' if lengths == {1} else f'each of {max(lengths)} experts'
        if hasattr(model.similarity, 'flat_frames') and kind == 'video':
            of = f'each of {min(lengths)} to {max(lengths)} frames'
        width = rows[0].shape[1]
        print(f'{path}: {len(rows)} {kind}s of the {args.split} set, {width} numbers of {of}')


def refuse_without_rows(model: Any) -> None:
    """Raise ValueError unless scores are sums of inner products."""
    similarity = model.similarity
    has_rows = any(hasattr(similarity, name) for name in ('experts', 'flat', 'flat_frames'))
    if not has_rows or not getattr(similarity, 'exact', True):
        raise ValueError(
            f'the scores of {type(similarity).__name__} are not inner products of item vectors, '
            'and only these can be stored: let the model itself be the teacher (FrozenTeachers)'
        )


def rows_of_items(model: Any, levels: Any, kind: str = 'text') -> Any:
    """Return float32 [E, D] for each of N items: E experts or frames if any, else E = 1."""
    similarity = model.similarity
    if hasattr(similarity, 'flat_frames'):
        if kind == 'text':
            return similarity.flat_texts(levels).float().cpu()[:, None]
        frames = similarity.flat_frames(levels)
        return [x[mask].float().cpu() for x, mask in zip(*frames)]
    if hasattr(similarity, 'experts'):
        return similarity.experts(levels).float().cpu()
    return similarity.flat(levels).float().cpu()[:, None]


def write_npy(folder: Path, kind: str, items: Iterable[tuple[str, Any]]) -> Path:
    """Write ``FOLDER/KIND/ID.npy`` for each item."""
    from mmvtr.datasets.folders import file_of
    from mmvtr.storage.arrays import write_array

    for name, rows in items:
        write_array(file_of(folder / kind, name, '.npy'), rows)
    return folder / kind


def write_hdf5(folder: Path, kind: str, items: Iterable[tuple[str, Any]]) -> Path:
    """Write ``FOLDER/KIND.h5`` with a dataset for each item."""
    from mmvtr.storage.arrays import name_in_hdf5, new_hdf5

    path = folder / f'{kind}.h5'
    with new_hdf5(path) as file:
        for name, rows in items:
            file[name_in_hdf5(name, kind)] = rows
    return path


def write_npz(folder: Path, kind: str, items: Iterable[tuple[str, Any]]) -> Path:
    """Write ``FOLDER/KIND.npz`` with the ids and the rows of all items."""
    from mmvtr.storage.arrays import write_arrays

    ids, rows = zip(*items)
    if len({row.shape for row in rows}) > 1:
        raise ValueError(f'{kind}s have different numbers of vectors: store them as npy or hdf5')
    folder.mkdir(parents=True, exist_ok=True)
    write_arrays(folder / f'{kind}.npz', ids=np.array(ids), vectors=np.stack(rows))
    return folder / f'{kind}.npz'


#: Formats and what writes them.
WRITERS = dict(npy=write_npy, hdf5=write_hdf5, npz=write_npz)

if __name__ == '__main__':
    main()
