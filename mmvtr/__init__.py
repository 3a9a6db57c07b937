"""Debiased and uncertainty-aware text-video retrieval on mmengine."""

from mmvtr.moved import MODULES as _MOVED  # noqa: F401 - modules of old names are found

__version__ = '2.0.0'
