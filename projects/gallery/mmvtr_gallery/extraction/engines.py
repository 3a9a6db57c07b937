"""Engines that run an extractor: this process, torchrun's processes, or a Ray cluster."""

from __future__ import annotations

import math
from typing import Any, Callable, Mapping, Sequence

from mmengine.config import Config

from mmvtr_gallery.extraction.extractor import COLUMNS, SCHEMA, Extractor, Reader
from mmvtr_gallery.extraction.parts import Parts

Record = Mapping[str, Any]


def run_here(
    extractor: Extractor,
    records: Sequence[Record],
    parts: Parts,
    *,
    batch_size: int = 8,
    num_workers: int = 0,
    advance: Callable[[int], None] = lambda rows: None,
) -> int:
    """Extract in this process.

    Args:
        records: dicts of ``id``, ``path`` and, in seconds, ``start`` and ``end``.
        parts: receives the rows.
        batch_size: videos encoded at a time.
        num_workers: processes that decode ahead.
        advance: called with the number of rows after each batch.

    Returns:
        The number of broken videos.
    """
    broken = 0
    with parts:
        for table in extractor.tables(records, batch_size=batch_size, num_workers=num_workers):
            parts.add(table)
            broken += len(table) - table['error'].null_count
            advance(len(table))
    return broken


def started_ray() -> Any:
    """Return Ray, on the cluster that was joined or that its environment names, or on this machine.

    Raises:
        ImportError: Ray is not installed; names the extra.
    """
    try:
        import ray
    except ImportError:
        raise ImportError(
            "the engine ray needs ray: pip install -e 'projects/gallery[ray]'"
        ) from None
    ray.init(ignore_reinit_error=True, log_to_driver=False, include_dashboard=False)
    return ray


def run_on_ray(
    cfg: Config,
    checkpoint: str | None,
    records: Sequence[Record],
    parts: Parts,
    *,
    features: bool = False,
    random_weights: bool = False,
    batch_size: int = 8,
    actors: int = 0,
    advance: Callable[[int], None] = lambda rows: None,
) -> int:
    """Extract on a Ray cluster, or on this machine: tasks decode, actors with a GPU each encode.

    Ray restarts failed tasks and actors, so that no video is lost.

    Args:
        cfg, checkpoint, features, random_weights: see :class:`Extractor`.
        records, parts, batch_size, advance: see :func:`run_here`.
        actors: number of actors that encode; 0 = one per GPU, or one.

    Returns:
        The number of broken videos.

    Raises:
        ImportError: Ray is not installed; names the extra.
    """
    ray = started_ray()
    ray.data.DataContext.get_current().enable_progress_bars = False
    gpus = int(ray.cluster_resources().get('GPU', 0))
    reader = Reader(cfg)
    rows = [{name: record.get(name) for name in COLUMNS} for record in records]
    data = ray.data.from_items(rows, override_num_blocks=math.ceil(len(rows) / batch_size))
    # A task, not an actor: it runs on whatever CPU is free.
    frames = data.map_batches(lambda batch: reader(batch), batch_size=batch_size)
    encoded = frames.map_batches(
        Extractor,
        fn_constructor_args=(cfg, checkpoint),
        fn_constructor_kwargs=dict(features=features, random_weights=random_weights),
        batch_size=batch_size,
        batch_format='pyarrow',
        concurrency=actors or max(1, gpus),
        num_cpus=0,  # with two CPUs none would be left to decode
        num_gpus=1 if gpus else 0,
    )
    broken = 0
    with parts:
        for table in encoded.iter_batches(batch_size=None, batch_format='pyarrow'):
            parts.add(table.cast(SCHEMA))
            broken += len(table) - table['error'].null_count
            advance(len(table))
    return broken
