"""Pictures that show their own number and how they are turned, and survive lossy coding.

A picture is a grid of 6 x 8 black or white blocks: ten bits of the number, the same ten inverted,
and 28 fixed ones that look alike in no two of the eight orientations.  Every block is checked when
a picture is read back, so a picture that is damaged anywhere is unreadable, and neither PyAV nor
the reader under test has a say in what a picture shows.
"""

from __future__ import annotations

from typing import NamedTuple, Optional

import numpy as np

ROWS, COLUMNS, BITS = 6, 8, 10
#: The fixed blocks, at the odd places and behind those of the number.
MARK = np.array([int(bit) for bit in '1101000110101110010111100010'], dtype=bool)
#: How far the mean of a block may be from black or white.
MAX_OFF = 90
#: How far the shape of a picture may be from that of the grid: pixels of H.263 are 12:11.
STRETCHED = 0.1

#: Display matrices (a, b, c, d): the pixel (x, y) is shown at (a x + c y, b x + d y).
MATRICES = {
    'upright': (1, 0, 0, 1),
    '90 degrees': (0, 1, -1, 0),
    '180 degrees': (-1, 0, 0, -1),
    '270 degrees': (0, -1, 1, 0),
    'mirrored': (-1, 0, 0, 1),
    'upside down, mirrored': (1, 0, 0, -1),
    'transposed': (0, 1, 1, 0),
    'transposed, 180 degrees': (0, -1, -1, 0),
}


class Mark(NamedTuple):
    """What a picture shows: its number, and the name of the matrix by which it was turned."""

    number: int
    turned: str = 'upright'


def draw(number: int, block: int = 16) -> np.ndarray:
    """The picture of a number.

    Args:
        number: 0 to 1023.
        block: pixels of a side of a block.

    Returns:
        uint8 RGB [6 block, 8 block, 3].
    """
    grid = _cells(number).reshape(ROWS, COLUMNS)
    grey = np.where(grid, 235, 20).astype(np.uint8)
    return np.repeat(np.kron(grey, np.ones((block, block), np.uint8))[..., None], 3, axis=2)


def _cells(number: int) -> np.ndarray:
    bits = np.array([number >> i & 1 for i in range(BITS)], dtype=bool)
    return np.concatenate([np.stack([bits, ~bits, MARK[:BITS]], 1).ravel(), MARK[BITS:]])


def turn(image: np.ndarray, matrix: tuple[int, int, int, int]) -> np.ndarray:
    """What is shown of an image [H, W, ...] with a display matrix (a, b, c, d)."""
    a, b, c, d = matrix
    if a == 0:
        image, a, d = image.swapaxes(0, 1), c, b
    return image[:: d or 1, :: a or 1]


def read(image: np.ndarray) -> Optional[Mark]:
    """What a picture shows, None if it is none of ours or damaged: uint8 [H, W, 3]."""
    for name, (a, b, c, d) in MATRICES.items():
        upright = turn(image, (a, c, b, d))  # the transposed matrix turns back
        height, width = upright.shape[:2]
        if abs(height * COLUMNS / (width * ROWS) - 1) <= STRETCHED:
            number = _read_upright(upright)
            if number is not None:
                return Mark(number, name)
    return None


def _read_upright(image: np.ndarray) -> Optional[int]:
    edges = (
        np.linspace(0, n, k + 1).round().astype(int) for n, k in zip(image.shape, (ROWS, COLUMNS))
    )
    rows, columns = (edge[:-1] for edge in edges)
    sums = np.add.reduceat(np.add.reduceat(image.mean(2), rows, 0), columns, 1)
    counts = np.add.reduceat(np.add.reduceat(np.ones(image.shape[:2]), rows, 0), columns, 1)
    blocks = (sums / counts).ravel()
    if ((blocks > MAX_OFF) & (blocks < 255 - MAX_OFF)).any():
        return None
    bits = blocks[: 3 * BITS : 3] > 127
    number = int(sum(1 << i for i in range(BITS) if bits[i]))
    return number if np.array_equal(_cells(number), blocks > 127) else None
