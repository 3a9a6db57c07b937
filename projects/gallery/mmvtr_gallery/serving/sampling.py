"""Admission to the sample of served queries that refits use: no single client can fill it.

A store's sample of served queries determines its biases at a refit. What untrusted clients send is
limited, so that none of them decides what others find:

- a vector is accepted only from clients that know the token: it can be anything, while a text is
  encoded by the model;
- every vector has length 1 (:func:`unit`), but where an inner product of other vectors ranks;
- the same text from the same address counts once among the last ``capacity`` accepted queries;
- at most :data:`SHARE` of these come from one address.  Clients on this machine, or with the
  token, are not limited.

Addresses and texts are kept in memory as keyed digests, and nowhere else.
"""

from __future__ import annotations

import hashlib
import ipaddress
import logging
import os
import threading
from collections import Counter, deque
from typing import NamedTuple, Optional, Sequence

import numpy as np

from mmvtr_gallery.store import GalleryStore

LOG = logging.getLogger('mmvtr_gallery.serving')

#: Largest share of the last accepted queries that one address may have.
SHARE = 0.25
#: A vector whose length differs from 1 by less than this is not rescaled.
NEAR = 1e-3


class Client(NamedTuple):
    """The client of a request.

    Attributes:
        address: address from the socket or a trusted proxy; None: not known.
        trusted: whether it knows the token of the service.
    """

    address: Optional[str] = None
    trusted: bool = False


class Admission:
    """Decides which queries are sampled.

    Args:
        capacity: capacity of the sample.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._most = max(1, int(SHARE * capacity))
        self._last: deque[tuple[bytes, bytes]] = deque(maxlen=capacity)
        self._of: Counter[bytes] = Counter()
        self._texts: set[tuple[bytes, bytes]] = set()
        self._secret = os.urandom(16)
        self._lock = threading.Lock()

    def admits(self, client: Client, text: Optional[str]) -> bool:
        """Return whether a query is sampled; if so, it is counted for its client.

        Args:
            client: the client.
            text: None: a vector was sent.
        """
        if client.trusted:
            return True
        if text is None:
            return False
        origin = _origin(client.address)
        who = self._digest(origin or '')
        entry = who, self._digest(' '.join(text.lower().split()))
        with self._lock:
            full = origin is not None and self._of[who] >= self._most
            if full or entry in self._texts:
                return False
            if len(self._last) == self._last.maxlen:
                self._forget(self._last[0])
            self._last.append(entry)
            self._texts.add(entry)
            self._of[who] += 1
        return True

    def _forget(self, entry: tuple[bytes, bytes]) -> None:
        self._texts.remove(entry)
        self._of[entry[0]] -= 1
        if not self._of[entry[0]]:
            del self._of[entry[0]]

    def _digest(self, words: str) -> bytes:
        data = words.encode(errors='surrogatepass')
        return hashlib.blake2b(data, key=self._secret, digest_size=12).digest()


class Sampler:
    """Offers queries to the sample of a store, if the store has one and is writable."""

    def __init__(self) -> None:
        self._admission: Optional[Admission] = None

    def offer(
        self, store: GalleryStore, vector: np.ndarray, text: Optional[str], client: Client
    ) -> bool:
        """Offer a query to the sample; errors, also of a refit it triggers, are only logged.

        Args:
            store: the store with the sample.
            vector: float32 [D], of length 1.
            text: the query's text; None: a vector was sent.
            client: the client.

        Returns:
            Whether the query was admitted.
        """
        if store.online is None or not store.writable:
            return False
        capacity = store.online.capacity
        if self._admission is None or self._admission.capacity != capacity:
            self._admission = Admission(capacity)
        if not self._admission.admits(client, text):
            return False
        try:
            store.record(vector[None])
        except (ValueError, RuntimeError, OSError) as error:
            LOG.warning('the sample of served queries: %s', error)
        return True


def _origin(address: Optional[str]) -> Optional[str]:
    """Return what counts as one client: an address, or the /64 network of an IPv6 address.

    None means this machine.
    """
    try:
        found = ipaddress.ip_address((address or '').partition('%')[0])
    except ValueError:
        return address or 'unknown'
    found = getattr(found, 'ipv4_mapped', None) or found
    if found.is_loopback:
        return None
    if found.version == 6:
        return str(ipaddress.ip_network((found, 64), strict=False))
    return str(found)


def unit(vector: Sequence[float]) -> np.ndarray:
    """Return a vector [D] scaled to length 1, float32; one of that length is returned as is.

    Raises:
        ValueError: an entry is not finite, or all are zero.
    """
    given = np.asarray(vector, dtype=np.float64)
    if not np.isfinite(given).all():
        raise ValueError('the vector is not finite: each of its entries must be a number')
    largest = np.abs(given).max(initial=0.0)
    if not largest:
        raise ValueError('the vector is zero: it has no direction to search in')
    scaled = given / largest  # as 1e300 squared would be infinite
    length = np.linalg.norm(scaled)
    if abs(length * largest - 1) <= NEAR:
        return given.astype(np.float32)
    return (scaled / length).astype(np.float32)


def cleaned(sample: np.ndarray) -> np.ndarray:
    """Return the vectors of a sample, float32 [n, D], that are finite and not zero, at length 1.

    A sample stored by an older version may hold vectors of other lengths.
    """
    good = np.isfinite(sample).all(axis=1) & sample.any(axis=1)
    rows = [unit(row) for row in sample[good]]
    return np.stack(rows) if rows else sample[:0]
