"""Biases of a gallery larger than one machine: fitted file by file, here or on a Ray cluster.

A task reads one file.  Between files go numbers of bank texts only: of a score gap two each, of a
round of Sinkhorn one each.  Sums of exponentials and highest scores are merged exactly, so the
biases are those of one fit of all files.  What a task has finished is a file, so that a killed task
costs its file only, and the same call goes on where a killed one stopped.
"""

from __future__ import annotations

import math
import operator
import shutil
from functools import partial, reduce
from pathlib import Path
from typing import Any, Callable, Iterator, Literal, NamedTuple, Optional, Sequence, Union

import numpy as np
import torch
from torch import Tensor

from mmvtr.arrays import fitting
from mmvtr.arrays.debiaser import Debiaser
from mmvtr.arrays.inputs import Bank, Geometry, bank_tiles, check_width, read_bank, read_items
from mmvtr.arrays.vectors import Vectors
from mmvtr.functional.similarities.tiles import Gaps
from mmvtr.functional.transforms.item_biases import ItemBiases
from mmvtr.functional.transforms.transform_table import OF_QUERIES, TRANSFORMS, transform_named
from mmvtr.storage.atomic import write_atomically
from mmvtr.storage.lock import FolderLock
from mmvtr_gallery.extraction.engines import started_ray

Engine = Literal['here', 'ray']
#: Folder, in that of the results, of a fit that has not been finished.
UNFINISHED = 'unfinished'
#: Rows written at a time.
ROWS = 2**14


class Shard(NamedTuple):
    """A file of the gallery, and what its tasks read.

    Attributes:
        path: of .parquet, .arrow, .feather or .npy.
        bank: queries seen before.
    """

    path: Path
    bank: Bank

    def read(self) -> tuple[Vectors, Optional[np.ndarray]]:
        """Return vectors and ids.

        Raises:
            ValueError: see :func:`.read_items`; names the file.
        """
        try:
            vectors, ids = read_items(str(self.path), None, self.bank.geometry)
            check_width(vectors, self.bank.texts.shape[1], 'rows')
        except ValueError as error:
            said = str(error)
            raise ValueError(said if str(self.path) in said else f'{self.path}: {said}') from None
        return vectors, ids

    def tiles(self) -> Any:
        """Return tiles of the scores of the bank with the file's rows."""
        return bank_tiles(self.bank.texts, self.read()[0])


def fit_shards(
    files: Sequence[Union[str, Path]],
    bank: Any,
    transform: str = 'auto',
    *,
    out: Union[str, Path],
    engine: Engine = 'here',
    dtype: Optional[str] = 'float32',
    geometry: Geometry = 'cosine',
    seed: int = 0,
    **options: Any,
) -> Debiaser:
    """Fit a gallery in files, and write each file's rows with their biases.

    ``OUT/NAME.parquet``, of the rows of ``NAME.parquet`` in their order, has ``id`` (if there are
    ids), ``bias`` and ``vector``, the row of :meth:`.Debiaser.as_vectors` [D + 1].  ``OUT`` is also
    a folder of :meth:`.Debiaser.save`, of no item.  A call with further files gives them biases of
    the same fit, and leaves the others as they are; a refit is a call with another ``out``.

    Args:
        files: rows of the gallery (:func:`mmvtr.arrays.read_rows`), with different names; a task
            holds one.  Ids are not compared between files.
        bank: see :func:`mmvtr.fit`.
        transform: ``'auto'``, or one of :data:`.OF_QUERIES`.
        out: a folder; on Ray one that all machines see, as the files.
        engine: ``'here'``, one file after another; ``'ray'``, a task a CPU on the cluster that
            Ray's environment names or that the caller has joined, else on this machine.
        dtype: of ``vector``, ``'float32'`` or ``'float16'``; None: only ids and biases are written.
        geometry: ``'cosine'`` or ``'inner_product'``.
        seed, options: see :func:`mmvtr.fit`.

    Returns:
        The Debiaser of the whole without its items: ``query``, and ``biases_of`` further vectors.

    Raises:
        FileNotFoundError: a file that does not exist.
        FolderInUse: another call writes to ``out``.
        ImportError: no pyarrow, or no Ray; names the extra.
        ValueError: files of one name; a transform that is not additive or reads items; a bank that
            says raw; ``out`` of another fit, or of an unfinished one of other files; see
            :func:`mmvtr.fit`.

    Example:
        ::

            >>> fitted = fit_shards(['a.parquet', 'b.parquet'], 'log.parquet', out='debiased')
            >>> fitted.query(texts)  # for an index of debiased/a.parquet and debiased/b.parquet
    """
    paths = _checked(files)
    if geometry not in ('cosine', 'inner_product'):
        raise ValueError(f"geometry must be 'cosine' or 'inner_product', not {geometry!r}")
    if dtype not in ('float32', 'float16', None):
        raise ValueError(f"dtype must be 'float32', 'float16' or None, not {dtype!r}")
    if transform != 'auto':
        transform_named(transform, OF_QUERIES)
    asked, out = Debiaser(transform, geometry=geometry, seed=seed, **options), Path(out)
    bank = read_bank(bank, None, geometry)
    shards = [Shard(path, bank) for path in paths]
    lock = FolderLock(out)
    lock.take()
    with lock:
        each = partial(_each, shards, engine)
        if not (out / 'debiaser.json').exists():
            _fit(asked, bank, paths, out, each)
        fitted = Debiaser.load(out)
        _check_same(fitted, asked, bank, out)
        each(_write, out, fitted, dtype)
        shutil.rmtree(out / UNFINISHED, ignore_errors=True)
    return fitted


def _checked(files: Sequence[Union[str, Path]]) -> list[Path]:
    """Return absolute paths.

    Raises:
        FileNotFoundError, ValueError: see :func:`fit_shards`.
    """
    paths: dict[str, Path] = {}
    for path in map(Path, [files] if isinstance(files, (str, Path)) else files):
        if not path.is_file():
            raise FileNotFoundError(f'there is no file {path}')
        if paths.setdefault(path.stem, path) is not path:
            raise ValueError(f'{paths[path.stem]} and {path} would both be written as {path.stem}')
    if not paths:
        raise ValueError('there are no files')
    return [path.resolve() for path in paths.values()]


def _check_same(found: Debiaser, asked: Debiaser, bank: Bank, out: Path) -> None:
    """Raise ValueError unless a fit is of the bank and settings asked for."""
    settings = ('transform', 'geometry', 'seed')
    alike = all(getattr(found, x) == getattr(asked, x) for x in settings)
    alike &= found.options.keys() == asked.options.keys()
    alike &= all(torch.equal(*map(torch.as_tensor, (x, asked.options[name])))
                 if isinstance(x, Tensor) else x == asked.options[name]
                 for name, x in found.options.items())  # fmt: skip
    if not alike or not torch.equal(found.bank_.texts, bank.texts):
        raise ValueError(f'{out} holds a fit of another bank or transform: give another folder')


# -- the fit -----------------------------------------------------------------------------------


def _fit(
    asked: Debiaser, bank: Bank, paths: list[Path], out: Path, each: Callable[..., Any]
) -> None:
    """Write the Debiaser of the whole, with the files' biases in the folder :data:`UNFINISHED`."""
    begun = out / UNFINISHED
    listed = '\n'.join(sorted(path.stem for path in paths))
    if (begun / 'debiaser.json').exists():
        whole = Debiaser.load(begun)
        _check_same(whole, asked, bank, begun)
        if (begun / 'files.txt').read_text() != listed:
            raise ValueError(f'{begun} is of other files: give these, or remove it')
    else:
        whole = asked.of_no_items(bank, *_of_bank(asked, bank, each))
        write_atomically(begun / 'files.txt', lambda file: file.write(listed.encode()))
        whole.save(begun)
    sums = each(_biases, begun, whole)
    shift = math.fsum(total for _, total in sums) / sum(count for count, _ in sums)
    asked.of_no_items(bank, whole._state.fitted._replace(shift=shift), whole.why_).save(out)


def _of_bank(asked: Debiaser, bank: Bank, each: Callable[..., Any]) -> tuple[ItemBiases, str]:
    """Return what the biases of all items are computed from, and why it was chosen."""
    chosen = fitting.chosen(asked.transform, asked.options, bank, bank.texts.shape[1], asked.seed)
    if chosen.transform is None:
        raise ValueError(f'there is nothing to fit: {chosen.why}')
    kind = TRANSFORMS[chosen.transform]
    given = fitting.with_weights(chosen, bank).options
    count = len(bank.texts)
    options = kind.of_bank(given, count, lambda name: reduce(operator.add, each(_gaps)).mean)

    def row_sums(log_alpha: Tensor) -> tuple[Tensor, int]:
        sums, items = zip(*each(_row_sums, kind.name, options, log_alpha))
        return torch.stack(sums).logsumexp(0), sum(items)

    rows = kind(**options).rows_of_shards(row_sums, count)
    return ItemBiases(chosen.transform, options, torch.zeros(0), rows=rows), chosen.why


# -- tasks, of one file each -------------------------------------------------------------------


def _gaps(shard: Shard) -> Gaps:
    return Gaps.of(shard.tiles())


def _row_sums(
    shard: Shard, transform: str, options: dict[str, Any], log_alpha: Tensor
) -> tuple[Tensor, int]:
    tiles = shard.tiles()
    return TRANSFORMS[transform](**options).row_sums(tiles, log_alpha), tiles.shape[1]


def _biases(shard: Shard, folder: Path, whole: Debiaser) -> tuple[int, float]:
    """Write a file's biases, with whatever mean; return their number and sum."""
    path = folder / f'{shard.path.stem}.npy'
    if not path.exists():
        found = whole._state.fitted.further(shard.tiles()).numpy()
        write_atomically(path, lambda file: np.save(file, found))
    biases = np.load(path, mmap_mode='r')
    return len(biases), float(biases.sum(dtype=np.float64))


def _write(shard: Shard, out: Path, fitted: Debiaser, dtype: Optional[str]) -> None:
    """Write a file's rows with their biases, unless they are there."""
    import pyarrow as pa
    from pyarrow import parquet

    path, kept = (out / x for x in (f'{shard.path.stem}.parquet', UNFINISHED))
    if path.exists():
        return
    vectors, ids = shard.read()
    kept = kept / f'{shard.path.stem}.npy'
    if kept.exists():
        biases = np.load(kept) - np.float32(fitted._state.fitted.shift)
    else:
        biases = fitted._state.fitted.further(bank_tiles(shard.bank.texts, vectors)).numpy()
    if len(biases) != len(vectors):
        raise ValueError(f'{shard.path} has changed: it had {len(biases)} rows, not {len(vectors)}')

    def tables() -> Iterator[pa.Table]:
        for start in range(0, len(vectors), ROWS):
            part = slice(start, start + ROWS)
            columns = {} if ids is None else {'id': pa.array(ids[part].tolist())}
            columns['bias'] = pa.array(biases[part])
            if dtype is not None:
                whole = np.hstack([vectors.unit(part).numpy(), biases[part, None]]).astype(dtype)
                columns['vector'] = pa.FixedSizeListArray.from_arrays(
                    pa.array(whole.ravel()), whole.shape[1]
                )
            yield pa.table(columns)

    def write(file: Any) -> None:
        writer = None
        for table in tables():
            writer = writer or parquet.ParquetWriter(file, table.schema)
            writer.write_table(table)
        writer.close()

    write_atomically(path, write)


# -- engines -----------------------------------------------------------------------------------


def _each(shards: Sequence[Shard], engine: Engine, task: Callable[..., Any], *args: Any) -> list:
    """Return a task's results, in the order of the files."""
    if engine == 'here':
        return [task(shard, *args) for shard in shards]
    ray = started_ray()
    # A worker that dies is replaced, and its task begins again.
    remote = ray.remote(max_retries=-1)(_on_worker)
    given = ray.put((task, args, shards[0].bank))
    try:
        return ray.get([remote.remote(given, shard.path) for shard in shards])
    except ray.exceptions.RayTaskError as error:
        raise error.cause from None


def _on_worker(given: tuple[Callable[..., Any], tuple, Bank], path: Path) -> Any:
    task, args, bank = given
    return task(Shard(path, bank), *args)
