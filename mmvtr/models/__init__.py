"""Retrievers and their components, registered in ``MODELS``."""

# ruff: noqa: F403 - own_names() finds what each part offers

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
from mmvtr.models.target import LocalBatch, Target
from mmvtr.models.temperature import Temperature
from mmvtr.models.towers import *
from mmvtr.registry import own_names

__all__ = own_names(globals())
