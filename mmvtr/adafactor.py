"""Let mmengine register its optimizers without importing transformers, which takes seconds.

mmengine imports all of transformers to register its ``Adafactor``, even in tools that only read or
search.  This module registers the name and defers the import until the optimizer is built.  It must
be imported before anything that imports ``mmengine.optim``; after that it has no effect.
"""

from __future__ import annotations

import sys
from typing import Any

from mmengine.registry import OPTIMIZERS


def _import_optimizers() -> None:
    if 'mmengine.optim' in sys.modules or 'transformers' in sys.modules:
        return
    sys.modules['transformers'] = None  # makes the import raise ImportError, which mmengine expects
    try:
        import mmengine.optim  # noqa: F401
    finally:
        del sys.modules['transformers']
    OPTIMIZERS.register_module(name='Adafactor', module=adafactor)


def adafactor(*args: Any, **kwargs: Any) -> Any:
    """Return ``Adafactor`` of transformers, which is imported on the call.

    Raises:
        ImportError: transformers is not installed.
    """
    from transformers import Adafactor

    return Adafactor(*args, **kwargs)


_import_optimizers()
