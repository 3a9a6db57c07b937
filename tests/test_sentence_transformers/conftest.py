"""What the trainer reads of its environment is not that of other tests."""

import pytest


@pytest.fixture(autouse=True)
def one_process(monkeypatch):
    """Tools set LOCAL_RANK where they read their arguments; accelerate would look for others."""
    for name in ('LOCAL_RANK', 'RANK', 'WORLD_SIZE'):
        monkeypatch.delenv(name, raising=False)
