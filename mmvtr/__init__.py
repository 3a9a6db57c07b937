"""Debiased and uncertainty-aware text-video retrieval on mmengine."""

__version__ = '1.1.0'
