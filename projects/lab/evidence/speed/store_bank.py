"""How many texts a refit needs: recall of made galleries by the number of queries of its bank.

python projects/lab/evidence/speed/store_bank.py
"""

from __future__ import annotations

import numpy as np

from mmvtr.arrays import Debiaser

DIM, STYLE, MIX, ASKED, TEMPERATURE = 64, 1.0, 0.95, 1000, 0.05
#: Spread of the items' shares in the styles, and noise of the queries.
HUBS = dict(strong=(0.35, 0.7), weak=(0.12, 0.9))
#: Worlds by the number of items, and queries an item.
WORLDS, RATIOS = {20: 8, 100: 8, 1000: 2}, (0.02, 0.05, 0.1, 0.15, 0.25, 0.5, 1, 2, 4)


class World:
    """Items with a share in two styles of asking, and queries, most of them in the first."""

    def __init__(self, items: int, hubs: str, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        spread, self._noise = HUBS[hubs]
        frame = np.linalg.qr(self._rng.normal(size=(DIM, DIM)))[0]
        self._styles, self._frame = frame[:2], frame[2:]
        self._contents = unit(self._rng.normal(size=(items, DIM - 2))) @ self._frame
        shares = self._rng.normal(size=(items, 2)) * spread
        self.items = unit(self._contents + shares @ self._styles).astype(np.float32)

    def queries(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Float32 [count, D], and the item that each means."""
        owner = self._rng.integers(len(self.items), size=count)
        noise = unit(self._rng.normal(size=(count, DIM - 2))) @ self._frame
        style = self._styles[(self._rng.random(count) > MIX).astype(int)]
        asked = self._contents[owner] + self._noise * noise + STYLE * style
        return unit(asked).astype(np.float32), owner


def unit(x: np.ndarray) -> np.ndarray:
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def recall(items: int, hubs: str, ratio: float, seed: int) -> float:
    """Recall@1 of unseen queries after a refit from ``ratio`` queries an item; 0: raw scores."""
    world = World(items, hubs, seed)
    asked, owner = world.queries(ASKED)
    scores = asked @ world.items.T
    if ratio:
        bank = world.queries(round(ratio * items))[0]
        fitted = Debiaser('sinkhorn', temperature=TEMPERATURE).fit(world.items, bank)
        scores = scores + fitted.biases_.numpy()
    return float((scores.argmax(1) == owner).mean())


def main() -> None:
    print('| hubs | items | raw |', ' | '.join(map(str, RATIOS)), '|')
    for hubs in HUBS:
        for items, worlds in WORLDS.items():
            row = []
            for ratio in (0, *RATIOS):
                known = ratio == 0 or ratio * items >= 1
                found = [recall(items, hubs, ratio, s) for s in range(worlds)] if known else []
                row.append(f'{np.mean(found):.3f}' if found else '')
            print(f'| {hubs} | {items:,} |', ' | '.join(row), '|')


if __name__ == '__main__':
    main()
