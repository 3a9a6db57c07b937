"""Debiased and uncertainty-aware text-video retrieval on mmengine."""

__version__ = '1.0.0'
