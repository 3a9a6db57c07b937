"""Similarities, which map levels of texts and videos to score matrices [T, V]."""

from mmvtr.models.similarities.best_frame import BestFrameSimilarity
from mmvtr.models.similarities.cascade import CascadeSimilarity
from mmvtr.models.similarities.cosine import CosineSimilarity, GaussianSimilarity
from mmvtr.models.similarities.hgr import HGRSimilarity
from mmvtr.models.similarities.mmt import ExpertSimilarity
from mmvtr.models.similarities.mssl import MSSLSimilarity
from mmvtr.models.similarities.token import TokenSimilarity, TokenVectorSimilarity
from mmvtr.models.similarities.xpool import XPoolSimilarity
from mmvtr.registry import own_names

__all__ = own_names(globals())
