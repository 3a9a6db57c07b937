"""Conversion of items, banks and conditions to points and filters of Qdrant, and back."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any, Mapping, Optional, Sequence
from urllib.parse import urlsplit

import numpy as np
import torch

from mmvtr.arrays import Debiaser
from mmvtr.arrays.inputs import Geometry
from mmvtr.arrays.saved import facts_of, restored
from mmvtr_gallery.store.filters import Condition
from mmvtr_gallery.store.fits import of_rows
from mmvtr_gallery.store.items import COLUMNS, Item

#: Tensors of a Debiaser that are points; the first point holds the others, whose types these are.
AS_POINTS = ('texts', 'bank_items', 'rows', 'items')
TYPES = dict(
    right=torch.bool,
    depth=torch.int64,
    calibrated=torch.int64,
    most=torch.int64,
    asked_rows=torch.int64,
    asked_own=torch.float32,
    asked_items=torch.int64,
    counts=torch.float32,
    bank_marginals=torch.float32,
)
#: UUID namespace of the ids, as Qdrant's are numbers or UUIDs.
SPACE = uuid.UUID('6d6d7674-7200-4000-8000-000000000001')

State = dict[str, Any]


def debiaser_of(points: Sequence[Any], geometry: Geometry, refit: Any, where: Path) -> Debiaser:
    """Return the Debiaser of the points of a bank; points of an older version have no facts."""
    rows = [point for point in points if 'row_bias' in point.payload]
    seen = [point.vector for point in points if 'row_bias' not in point.payload]
    texts, biases = (
        [point.vector for point in rows],
        [point.payload['row_bias'] for point in rows],
    )
    items = dict(bank_items=torch.tensor(seen)) if seen else {}
    facts = rows[0].payload.get('facts')
    if facts is None:
        numbers = {name: torch.tensor(refit[name]) for name in ('temperature', 'strictness')}
        held = dict(queries=torch.tensor(texts), row_biases=torch.tensor(biases), **numbers)
        return of_rows(dict(held, items=items['bank_items']) if seen else held, geometry, refit)
    held = dict(items=torch.zeros(0), texts=torch.tensor(texts), **items)
    if biases[0] is not None:
        held['rows'] = torch.tensor(biases)
    for name, values in (rows[0].payload.get('chances') or {}).items():
        held[name] = torch.tensor(values, dtype=TYPES.get(name, torch.float64))
    return restored(Debiaser, facts_of(facts.encode(), where), held, where)


def connected(location: str, client: Any) -> tuple[Any, str, str]:
    """Return a client, the name of the collection, and the location for error messages."""
    where = str(location)[:120]
    if client is not None:
        return client, location, where
    try:
        from qdrant_client import QdrantClient
    except ImportError:
        raise ImportError(
            "a store on Qdrant needs: pip install -e 'projects/gallery[qdrant]'"
        ) from None
    server, _, name = location.rpartition('/')
    if not name or not urlsplit(server).netloc:
        raise ValueError(f'http://HOST:PORT/NAME expected, got {where}')
    return QdrantClient(url=server, timeout=30, check_compatibility=False), name, where


def empty_state(
    dim: int,
    model: Optional[str],
    about: Optional[Mapping[str, Any]],
    online: Optional[Mapping[str, Any]],
) -> State:
    """Return the state of a new store; ``rubbish`` are biases that the next change removes."""
    return dict(
        dim=dim,
        model=model,
        about=dict(about or {}),
        online=online and dict(online),
        commit=0,
        count=0,
        types={},
        norms=None,
        highest=0.0,
        bias='_b0',
        bank=None,
        refit=None,
        before=None,
        undo=None,
        calibration=None,
        quarantined=[],
        index=None,
        rubbish=[],
        seen=0,
    )


def undo_tag(state: State) -> Optional[str]:
    """Return the tag of the points that undo the last change; None: there are none."""
    return (state.get('undo') or {}).get('tag')


def visible_to(state: State, conditions: Sequence[Condition]) -> Any:
    """Return a filter for items that are visible in a state and meet the conditions."""
    models = qdrant_models()
    now = models.Range(lte=state['commit'])
    must, must_not = [within('_made', now)], [within('_gone', now)]
    for column, values, least, most, refused in conditions:
        if values is None:
            must.append(within(column, models.Range(gte=least, lte=most)))
        else:
            among = models.Filter(should=[where_is(column, value) for value in values])
            (must_not if refused else must).append(among)
    return models.Filter(must=must, must_not=must_not)


def is_seen(payload: Mapping[str, Any], state: State) -> bool:
    """Return whether an item is visible in a state."""
    return payload['_made'] <= state['commit'] < payload.get('_gone', np.inf)


def where_is(column: str, value: Any) -> Any:
    models = qdrant_models()
    if isinstance(value, float):
        return within(column, models.Range(gte=value, lte=value))
    return models.FieldCondition(key=column, match=models.MatchValue(value=value))


def within(column: str, bounds: Any) -> Any:
    return qdrant_models().FieldCondition(key=column, range=bounds)


def must(condition: Any) -> Any:
    return qdrant_models().Filter(must=[condition])


def item_of(point: Any, state: State) -> Item:
    payload = point.payload
    metadata = {name: payload.get(name) for name in state['types']}
    vector = None if point.vector is None else np.array(point.vector, np.float32)
    columns = [payload.get(name) for name in COLUMNS]
    return Item(*columns, payload[state['bias']], metadata, vector)


def columns_of(points: Sequence[Any], bias: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    keys = np.array([point.id for point in points], dtype=object)
    vectors = np.array([point.vector for point in points], np.float32)
    return keys, vectors, np.array([point.payload[bias] for point in points], np.float32)


def row_of(point: Any) -> tuple[int, int]:
    """Return the change that added an item, and its row there; 0 in a store of an older version."""
    return point.payload['_made'], point.payload.get('_row', 0)


def number_of(point: Any) -> int:
    return point.id


def key_of(name: str) -> str:
    return str(uuid.uuid5(SPACE, name))


def both_keys(name: str) -> tuple[str, str]:
    """Return an item's two possible keys; the second is used if one change replaces it."""
    return key_of(name), key_of(f'{name}\0')  # an id contains no null character


def qdrant_models() -> Any:
    from qdrant_client import models

    return models
