"""mmengine's optimizers without transformers, which takes seconds to import.

mmengine registers ``Adafactor`` of transformers and imports all of it for that, in whatever reads
or searches, too.  Here the name is registered, and the import waits until it is built.  To be
imported before anything that imports ``mmengine.optim``; after that it does nothing.
"""

from __future__ import annotations

import sys
from typing import Any

from mmengine.registry import OPTIMIZERS


def _import_optimizers() -> None:
    if 'mmengine.optim' in sys.modules or 'transformers' in sys.modules:
        return
    sys.modules['transformers'] = None  # an ImportError, which mmengine expects
    try:
        import mmengine.optim  # noqa: F401
    finally:
        del sys.modules['transformers']
    OPTIMIZERS.register_module(name='Adafactor', module=adafactor)


def adafactor(*args: Any, **kwargs: Any) -> Any:
    """``Adafactor`` of transformers, imported now.

    Raises:
        ImportError: there is no transformers.
    """
    from transformers import Adafactor

    return Adafactor(*args, **kwargs)


_import_optimizers()
