"""A state after items left it or came to it."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np
import torch

from mmvtr.arrays import fitting
from mmvtr.arrays.inputs import Vectors, check_width, read_ids
from mmvtr.arrays.saved import traces
from mmvtr.arrays.state import ABSENT, State


def changed(
    state: State,
    *,
    leaving: Any = None,
    further: Optional[Vectors] = None,
    named: Optional[np.ndarray] = None,
) -> State:
    """Return the state without some items, and with further ones at its end.

    Args:
        state: with items, whose vectors may not be here.
        leaving: ids of the items that leave; None = none.
        further, named: the items that come, and their ids.

    Raises:
        TypeError, ValueError: no item would be left; an unknown id, or one that is there already;
            another width.
    """
    gone = torch.zeros(len(state.generations.rows), dtype=torch.bool)
    if leaving is not None:
        gone[state.rows_of(leaving)] = True
    count = 0 if further is None else len(further)
    if count:
        check_width(further, state.width, 'the further videos')
    elif gone.all():
        raise ValueError('this removes all items, but one or more must stay')
    ids, gallery, absent, fitted = state.ids, state.gallery, state.absent, state.fitted
    if ids is not None:
        left = ids[~gone.numpy()].tolist()
        ids = read_ids(left + ([] if named is None else named.tolist()), len(left) + count)
    if gallery is None:
        parts = [absent.traces[~gone], *([traces(further)] if count else [])]
        absent = absent._replace(traces=torch.cat(parts))
    elif gone.all():
        gallery = further
    else:
        gallery = gallery.without(gone) + further if count else gallery.without(gone)
    if fitted is not None:
        items = fitted.items[~gone.to(fitted.items.device)]
        if count:
            items = torch.cat([items, fitting.further(fitted, state.bank, further).to(items)])
        fitted = fitted._replace(items=items)
        if fitted.active is not None:
            if gallery is None:
                raise ValueError(f'{ABSENT}, and {fitted.transform} reads all of its vectors')
            fitted = fitting.activated(fitted, state.bank, gallery)
    after = state.generations.changed(gone, count)
    return state._replace(gallery=gallery, ids=ids, fitted=fitted, generations=after, absent=absent)
