"""Debiased and uncertainty-aware text-video retrieval on mmengine."""

from mmvtr.moved import MODULES as _MOVED  # noqa: F401 - modules of old names are found

__version__ = '2.0.0'


def __getattr__(name: str) -> object:
    """``mmvtr.retrieve``, which imports torch when it is first asked for."""
    if name == 'retrieve':
        from mmvtr.arrays import retrieve

        return retrieve
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
