"""Which queries may take part in the sample that a refit follows: nobody can fill it alone.

A store's sample of served queries moves its biases.  What strangers send is limited, so that none
of them decides what others find:

- a vector is taken from who knows the token only: anything can be written in a vector, while a
  text becomes what the model makes of it;
- every vector has the length 1, as those of all models that can be served (:func:`unit`);
- a text of one address counts once among the last ``capacity`` that were taken;
- of these at most :data:`SHARE` are of one address.  Who is on this machine, or knows the token,
  is not limited.

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

#: Of the last queries that were taken, what one address may have at most.
SHARE = 0.25
#: How far from 1 a length may be that is left as it is.
NEAR = 1e-3


class Client(NamedTuple):
    """Who asks.

    Attributes:
        address: as the socket, or a trusted proxy, tells it; None: not known.
        trusted: knows the token of the service.
    """

    address: Optional[str] = None
    trusted: bool = False


class Admission:
    """Decides which queries are sampled.

    Args:
        capacity: of the sample.
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
        """Whether a query is sampled, which it is then counted for.

        Args:
            client: who asks.
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
    """Offers queries to the sample that a store keeps, where it keeps one and may be written."""

    def __init__(self) -> None:
        self._admission: Optional[Admission] = None

    def offer(
        self, store: GalleryStore, vector: np.ndarray, text: Optional[str], client: Client
    ) -> bool:
        """Let a query take part; that this, or a refit that is due, fails is only logged.

        Args:
            store: whose sample it is.
            vector: float32 [D], of length 1.
            text: what it was made of; None: a vector was sent.
            client: who asks.

        Returns:
            Whether it has taken part.
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
    """What counts as one client: an address, of IPv6 its network of 64 bits; None: this machine."""
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
    """A vector [D] in its direction with length 1, float32; one of that length as it is.

    Raises:
        ValueError: entries that are not finite, or zeros only.
    """
    given = np.asarray(vector, dtype=np.float64)
    if not np.isfinite(given).all():
        raise ValueError('the vector is not finite: each of its entries must be a number')
    largest = np.abs(given).max(initial=0.0)
    if not largest:
        raise ValueError('the vector is zero: it has no direction to search in')
    scaled = given / largest  # 1e300 squared would be infinite
    length = np.linalg.norm(scaled)
    if abs(length * largest - 1) <= NEAR:
        return given.astype(np.float32)
    return (scaled / length).astype(np.float32)


def cleaned(sample: np.ndarray) -> np.ndarray:
    """The vectors of a sample float32 [n, D] that have a direction, at length 1.

    A sample that was kept before vectors were brought to one length may hold others.
    """
    good = np.isfinite(sample).all(axis=1) & sample.any(axis=1)
    rows = [unit(row) for row in sample[good]]
    return np.stack(rows) if rows else sample[:0]
