"""Debiased and uncertainty-aware text-video retrieval on mmengine."""

__version__ = '2.0.0'


def __getattr__(name: str) -> object:
    """What plain arrays need, which imports torch when it is first asked for."""
    if name in ('fit', 'Debiaser', 'Tokens', 'retrieve', 'hub_report'):
        from mmvtr import arrays

        return getattr(arrays, name)
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
