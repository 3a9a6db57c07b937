"""Retrievers and their components, registered in ``MODELS``."""

from .data_preprocessor import VideoTextDataPreprocessor
from .encoders import *  # noqa: F403
from .heads import HierarchicalGaussianHead
from .losses import ContrastiveLoss, RankingLoss, Target
from .retriever import RetrievalSample, VideoTextRetriever
from .similarity import CosineSimilarity, Temperature
from .supervision import DVTRSupervision, LiteralDVTRSupervision

__all__ = [
    'ContrastiveLoss',
    'CosineSimilarity',
    'DVTRSupervision',
    'HierarchicalGaussianHead',
    'LiteralDVTRSupervision',
    'RankingLoss',
    'RetrievalSample',
    'Target',
    'Temperature',
    'VideoTextDataPreprocessor',
    'VideoTextRetriever',
]
