"""Large-scale extraction: batches of ids and files in, Arrow tables of their vectors out.

An :class:`Extractor` is all that an engine (a loop, torchrun's processes, Ray's actors) runs.  It
needs pyarrow.
"""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any, Iterator, Mapping, Optional, Protocol, Sequence, Union

try:
    import pyarrow as pa
except ImportError:
    raise ImportError(
        "rows of an extraction need pyarrow: pip install -e 'projects/gallery[parquet]'"
    ) from None

import torch
from mmengine.config import Config
from mmengine.registry import init_default_scope
from mmengine.utils import import_modules_from_strings
from torch import Tensor, nn
from torch.utils.data import DataLoader

from mmvtr.apis import fingerprint, load_retriever, refuse_without_vectors, vectors
from mmvtr.datasets import VideoTextDataset, collate_retrieval
from mmvtr.datasets.annotation_values import Place, name_of
from mmvtr.datasets.tables.rows import times_in
from mmvtr.engine.loops.evaluation import encode_batch

FLOATS = pa.list_(pa.float32())
#: Schema of a table of rows.
SCHEMA = pa.schema(
    [
        ('id', pa.string()),
        ('features', pa.list_(FLOATS)),
        ('mean', FLOATS),
        ('log_std', FLOATS),
        ('bias', pa.float32()),
        ('error', pa.string()),
    ]
)
#: Columns of the videos to extract; the last two are optional.
COLUMNS = ('id', 'path', 'start', 'end')

Batch = Union[pa.Table, pa.RecordBatch, Mapping[str, Sequence[Any]]]


class GivesBiases(Protocol):
    """An object that computes item biases, such as :class:`mmvtr.arrays.Debiaser`."""

    def biases_of(self, gallery: Tensor) -> Tensor:
        """Return the biases of vectors, float [N, D] -> float32 [N]."""


class Reader:
    """The decoding step: reads the frames of each video with the config's test pipeline.

    Args:
        config: a config file, or a loaded config.

    Example:
        ::

            >>> frames = Reader('configs/c2v_planted.py')(dict(id=['a'], path=['a.mp4']))
            >>> Extractor('configs/c2v_planted.py', 'epoch_10.pth')(frames)
    """

    def __init__(self, config: Union[str, Path, Config]) -> None:
        self.cfg = config if isinstance(config, Config) else Config.fromfile(config)
        if self.cfg.get('custom_imports'):  # another process may have read the config
            import_modules_from_strings(**self.cfg.custom_imports)
        init_default_scope(self.cfg.get('default_scope', 'mmvtr'))
        self.pipeline = self.cfg.test_dataloader.dataset.video_pipeline

    def __call__(self, batch: Batch) -> dict[str, list[Any]]:
        """Decode columns ``id``, ``path``, ``start`` and ``end`` (seconds) -> ``id`` and ``item``.

        Raises:
            ValueError: a column is missing or unknown, an id is empty.
        """
        records = records_of(batch)
        items = _Videos(records, self.pipeline).view('video') if records else ()
        return dict(
            id=[record['video_id'] for record in records],
            item=[pickle.dumps(items[i]) for i in range(len(items))],
        )


class Extractor:
    """The encoding step: a row per video; a broken video has only its ``error``.

    Args:
        config: a config file, or a loaded config.
        checkpoint, random_weights: see :func:`~mmvtr.apis.load_retriever`.
        features: also return the frame tower's output, a row per frame (or window of frames).
        debiaser: computes the bias of an item from its vector.
        device: default: a GPU if there is one.

    Attributes:
        fingerprint: fingerprint of the model's weights.

    Raises:
        ValueError: the model's scores are not inner products of one vector per item, and no
            ``features`` are asked for; ``features`` for a model without a frame tower.
    """

    def __init__(
        self,
        config: Union[str, Path, Config],
        checkpoint: Optional[Union[str, Path]] = None,
        *,
        features: bool = False,
        debiaser: Optional[GivesBiases] = None,
        random_weights: bool = False,
        device: Optional[Union[str, torch.device]] = None,
    ) -> None:
        self.read = Reader(config)
        self.model, _ = load_retriever(
            self.read.cfg, checkpoint, random_weights=random_weights, device=device
        )
        self.debiaser = debiaser
        self.fingerprint = fingerprint(self.model)
        try:
            refuse_without_vectors(self.model)
            self.comparable = True
        except ValueError:
            if not features:
                raise
            self.comparable = False  # rows have only features
        self.tower = getattr(self.model.encoder, 'frames', None) if features else None
        if features and not isinstance(self.tower, nn.Module):
            raise ValueError(
                f'{type(self.model.encoder).__name__} has no frame tower, so it makes no features'
            )

    def __call__(self, batch: Batch) -> pa.Table:
        """Return the rows of a batch, in its order.

        Args:
            batch: a batch that :class:`Reader` takes or returns.

        Raises:
            ValueError: a column is missing or unknown, an id is empty.
        """
        if 'item' not in column_names(batch):
            batch = self.read(batch)
        items = batch['item']
        items = items if isinstance(batch, Mapping) else items.to_pylist()
        return self._rows([pickle.loads(item) for item in items])

    def tables(
        self, records: Sequence[Mapping[str, Any]], *, batch_size: int = 8, num_workers: int = 0
    ) -> Iterator[pa.Table]:
        """Yield the rows of many videos, decoded ahead by ``num_workers`` processes.

        Args:
            records: dicts of ``id``, ``path`` and, in seconds, ``start`` and ``end``.
            batch_size: rows per table.
        """
        batch = {name: [record.get(name) for record in records] for name in COLUMNS}
        items = _Videos(records_of(batch), self.read.pipeline).view('video')
        loader = DataLoader(items, batch_size, num_workers=num_workers, collate_fn=list)
        yield from map(self._rows, loader)

    @torch.no_grad()
    def _rows(self, items: list[dict[str, Any]]) -> pa.Table:
        batch = collate_retrieval(items)
        names = [item['broken'][0] if 'broken' in item else item['video_id'] for item in items]
        broken = dict(batch['data_samples']['broken'])
        rows = {name: dict(id=name, error=broken.get(name)) for name in names}
        if 'video' in batch['inputs']:  # False if all are broken
            seen: list[Tensor] = []
            hook = self.tower and self.tower.register_forward_hook(lambda *out: seen.append(out[2]))
            try:
                encoded = encode_batch(self.model, 'video', batch, amp=False)
            finally:
                if hook is not None:
                    hook.remove()
            columns = self._columns(encoded.levels)
            if self.tower is not None:
                lengths = [len(frames) for frames in batch['inputs']['video']]
                columns['features'] = torch.cat(seen).float().cpu().split(lengths)
            for i, name in enumerate(encoded.ids):
                rows[name].update({key: _plain(values[i]) for key, values in columns.items()})
        ordered = [rows[name] for name in names]
        return pa.table({field.name: _column(ordered, field) for field in SCHEMA}, SCHEMA)

    def _columns(self, levels: Mapping[str, Any]) -> dict[str, Sequence[Tensor]]:
        columns: dict[str, Sequence[Tensor]] = {}
        if self.comparable:
            columns['mean'] = vectors(self.model, levels)
            if self.debiaser is not None:
                columns['bias'] = self.debiaser.biases_of(columns['mean']).cpu()
        spreads = [level.log_std for level in levels.values() if level.log_std is not None]
        return {**columns, 'log_std': spreads[0]} if spreads else columns


class _Videos(VideoTextDataset):
    """A dataset of videos without texts, in which a missing file counts as a broken video."""

    def __init__(self, records: list[dict[str, Any]], pipeline: Sequence[Any]) -> None:
        self._records = records
        super().__init__(pipeline, [], on_broken='skip')

    def load_annotations(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        return self._records, []

    def _leave_out(self, listed: dict[str, str]) -> dict[str, str]:
        gone = [video for video in self.videos if not os.path.isfile(video['path'])]
        return {video['video_id']: f'{name_of(video["path"])} does not exist' for video in gone}


def column_names(batch: Batch) -> list[str]:
    """Return the column names of an Arrow table or of a dict of columns."""
    return list(batch.keys() if isinstance(batch, Mapping) else batch.schema.names)


def records_of(batch: Batch) -> list[dict[str, Any]]:
    """Return a dict per video, of ``video_id``, ``path`` and, if given, ``start`` and ``end``.

    Raises:
        ValueError: a column is missing or unknown, an id or a path is empty or no string, a time is
            invalid, or a clip ends before it begins.
    """
    names = column_names(batch)
    if not {'id', 'path'} <= set(names) <= set(COLUMNS):
        raise ValueError(
            f'a batch has the columns id and path, and may have start and end; found '
            f'{str(names)[:80]}'
        )
    if not isinstance(batch, Mapping):
        batch = batch.to_pydict()
    records = []
    for values in zip(*(batch[name] for name in names)):
        row = {name: value for name, value in zip(names, values) if value is not None}
        for name in ('id', 'path'):
            if not isinstance(row.get(name), str) or not row[name]:
                raise ValueError(
                    f'row {len(records)}: {name} must be a string, not empty, found '
                    f'{str(row.get(name))[:80]!r}'
                )
        plain = {key: row[key].item() if hasattr(row[key], 'item') else row[key] for key in row}
        # NaN means no time: pandas and numpy have no other way to say so
        times = times_in(plain, Place('batch', f'row {len(records)}'))
        times = {name: times[name] for name in ('start', 'end') if times[name] is not None}
        records.append(dict(video_id=row['id'], path=row['path'], **times))
    return records


def _plain(value: Tensor) -> Any:
    """Convert a tensor to a value that pyarrow accepts."""
    return value.numpy() if value.dim() else value.item()


def _column(rows: Sequence[Mapping[str, Any]], field: pa.Field) -> pa.Array:
    values = [row.get(field.name) for row in rows]
    if field.name == 'features':
        values = [None if x is None else list(x) for x in values]
    return pa.array(values, field.type)
