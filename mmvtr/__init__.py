"""Debiased and uncertainty-aware text-video retrieval on mmengine."""

__version__ = '0.1.0'
