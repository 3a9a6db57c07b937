"""Biases of a store while its queries drift: hubs and recall before, after, and after a refit.

    python projects/lab/evidence/speed/store_drift.py [--seeds 5] [--json FILE]

Made vectors of 64 dimensions.  Each of 2,000 items has a content, and a share in each of two styles
of asking (captions and questions, say), which differs from item to item.  A query is the content of
one item, noise, and one style as a whole; so items with a large share in the style of most queries
are hubs.  95 % of the queries are of the first style; after the drift 95 % are of the second.  The
store keeps a sample of 1,024 served queries with a memory of 2,048, and has served 8,192 queries
of the first mix and then as many of the second.  Measured on 2,000 queries of the mix of the day
that it has not served: recall@1 of the item that a query was made of, the skewness of how often an
item is among the ten best, and the share of the hits that the 1 % most frequent items have.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mmvtr_gallery.store import GalleryStore, create_store

ITEMS, DIM, NOISE, STYLE, SPREAD, K = 2000, 64, 0.7, 1.0, 0.35, 10
MIXES = (0.95, 0.05)
CAPACITY, MEMORY, SERVED, ASKED, TEMPERATURE = 1024, 2048, 8192, 2000, 0.05


class Figures(NamedTuple):
    """What queries of a day find: see above."""

    recall: float
    skewness: float
    top: float


class World:
    """Items and who asks for them, drawn by a seed."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        frame = np.linalg.qr(self._rng.normal(size=(DIM, DIM)))[0]
        self._styles, self._frame = frame[:2], frame[2:]
        self._contents = unit(self._rng.normal(size=(ITEMS, DIM - 2))) @ self._frame
        shares = self._rng.normal(size=(ITEMS, 2)) * SPREAD
        self.items = unit(self._contents + shares @ self._styles).astype(np.float32)

    def queries(self, count: int, mix: float) -> tuple[np.ndarray, np.ndarray]:
        """float32 [count, DIM] and the item [count] of each; ``mix`` are of the first style."""
        rng = self._rng
        owner = rng.integers(ITEMS, size=count)
        noise = unit(rng.normal(size=(count, DIM - 2))) @ self._frame
        style = self._styles[(rng.random(count) > mix).astype(int)]
        asked = self._contents[owner] + NOISE * noise + STYLE * style
        return unit(asked).astype(np.float32), owner


def unit(x: np.ndarray) -> np.ndarray:
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def figures(
    store: GalleryStore, asked: tuple[np.ndarray, np.ndarray], *, transform: bool = True
) -> Figures:
    """Of queries that the store does not keep."""
    queries, owner = asked
    hits = store.search(queries, K, transform=transform, record=False)
    found = np.array([[int(hit.item.id) for hit in one] for one in hits])
    counts = np.bincount(found.ravel(), minlength=ITEMS).astype(float)
    spread = counts - counts.mean()
    top = np.sort(counts)[-ITEMS // 100 :].sum() / counts.sum()
    return Figures(
        float((found[:, 0] == owner).mean()),
        float((spread**3).mean() / spread.std() ** 3),
        float(top),
    )


def drifted(seed: int, folder: Path) -> dict[str, Figures]:
    """Rows of the table by their names."""
    world = World(seed)
    online = dict(capacity=CAPACITY, memory=MEMORY, seed=seed)
    days = [world.queries(ASKED, mix) for mix in MIXES]
    with create_store(folder, DIM, online=online) as store:
        store.add([str(i) for i in range(ITEMS)], world.items)
        store.search(world.queries(SERVED, MIXES[0])[0], 1)
        store.refit(temperature=TEMPERATURE)
        rows = {
            'before, raw': figures(store, days[0], transform=False),
            'before, with biases': figures(store, days[0]),
            'after the drift, raw': figures(store, days[1], transform=False),
            'after the drift, biases of before': figures(store, days[1]),
        }
        store.search(world.queries(SERVED, MIXES[1])[0], 1)
        store.refit()
        rows['after a refit from served queries'] = figures(store, days[1])
        store.refit(world.queries(CAPACITY, MIXES[1])[0], fewer=True)
        rows['(a bank of the new mix alone)'] = figures(store, days[1])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('--seeds', type=int, default=5, help='worlds (default: 5)')
    parser.add_argument('--json', type=Path, metavar='FILE', help='write all figures there')
    args = parser.parse_args()
    worlds = []
    for seed in range(args.seeds):
        with tempfile.TemporaryDirectory() as folder:
            worlds.append(drifted(seed, Path(folder)))
    print('| queries of | recall@1 | skewness | share of the top 1 % |\n|---|---|---|---|')
    for name in worlds[0]:
        mean = np.mean([world[name] for world in worlds], axis=0)
        least, most = (f([w[name].recall for w in worlds]) for f in (min, max))
        recall = f'{mean[0]:.3f} ({least:.3f} to {most:.3f})'
        print(f'| {name} | {recall} | {mean[1]:.2f} | {mean[2]:.3f} |')
    if args.json:
        said = [{name: row._asdict() for name, row in world.items()} for world in worlds]
        args.json.write_text(json.dumps(said, indent=1))


if __name__ == '__main__':
    main()
