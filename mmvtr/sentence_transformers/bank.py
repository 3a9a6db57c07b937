"""The queries by which scores are debiased, in a file beside a saved model.

The model stays one that sentence-transformers loads without this package.
"""

from __future__ import annotations

from pathlib import Path
from typing import Union

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

NAME = 'query_bank.safetensors'


def write_bank(folder: Union[str, Path], queries: Tensor) -> Path:
    """Store a bank in the folder of a saved model.

    Args:
        folder: of ``model.save_pretrained``.
        queries: float [K, D], embeddings of queries that are no test queries.

    Returns:
        the file.

    Raises:
        ValueError: an empty bank, or numbers that are not finite.
    """
    if queries.ndim != 2 or not len(queries):
        raise ValueError(f'a bank is [K, D] with K of at least 1, not {list(queries.shape)}')
    if not queries.isfinite().all():
        raise ValueError('a bank must be finite')
    path = Path(folder, NAME)
    save_file({'queries': queries.detach().float().cpu().contiguous()}, path)
    return path


def read_bank(folder: Union[str, Path]) -> Tensor:
    """Return the bank in the folder of a saved model, float32 [K, D].

    Raises:
        FileNotFoundError: it has none.
    """
    path = Path(folder, NAME)
    if not path.is_file():
        raise FileNotFoundError(f'{folder} has no bank ({NAME})')
    return load_file(path)['queries'].to(torch.float32)
