"""Retrievers and their components, registered in ``MODELS``."""

# ruff: noqa: F403 - each part lists in __all__ what it offers

from mmvtr import late  # noqa: F401 - mmengine imports less
from mmvtr.models import embedders, encoders, losses, similarities, supervisions, towers
from mmvtr.models.backdoor import BackdoorRetriever
from mmvtr.models.cascade import CascadeRetriever
from mmvtr.models.combined import CombinedSupervision
from mmvtr.models.data_preprocessor import VideoTextDataPreprocessor
from mmvtr.models.embedders import *
from mmvtr.models.encoders import *
from mmvtr.models.heads import GaussianHead, HierarchicalGaussianHead, PCMEGaussianHead
from mmvtr.models.losses import *
from mmvtr.models.mixup import MixupDataPreprocessor, MixupSupervision
from mmvtr.models.momentum import MomentumRetriever
from mmvtr.models.retriever import RetrievalSample, VideoTextRetriever
from mmvtr.models.similarities import *
from mmvtr.models.supervisions import *
from mmvtr.models.temperature import Temperature
from mmvtr.models.towers import *

__all__ = [
    'BackdoorRetriever',
    'CascadeRetriever',
    'CombinedSupervision',
    'GaussianHead',
    'HierarchicalGaussianHead',
    'MixupDataPreprocessor',
    'MixupSupervision',
    'MomentumRetriever',
    'PCMEGaussianHead',
    'RetrievalSample',
    'Temperature',
    'VideoTextDataPreprocessor',
    'VideoTextRetriever',
    *embedders.__all__,
    *encoders.__all__,
    *losses.__all__,
    *similarities.__all__,
    *supervisions.__all__,
    *towers.__all__,
]
