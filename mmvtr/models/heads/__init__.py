"""Probabilistic heads, which map the features of an item to a Gaussian."""

from mmvtr.models.heads.hierarchical import HierarchicalGaussianHead
from mmvtr.models.heads.unit_mean import GaussianHead, PCMEGaussianHead

__all__ = [
    'GaussianHead',
    'HierarchicalGaussianHead',
    'PCMEGaussianHead',
]
