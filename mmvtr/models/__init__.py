"""Retrievers and their components, registered in ``MODELS``."""

from .adaptive_margin import AdaptiveMarginSupervision
from .arl_supervision import ARLSupervision
from .backdoor import BackdoorRetriever
from .best_frame_similarity import BestFrameSimilarity
from .captioning import CrossCaptioning
from .data_preprocessor import VideoTextDataPreprocessor
from .distribution_objectives import (
    KLToUnit,
    MultiInstanceContrast,
    OfficialKLToUnit,
    SoftContrast,
)
from .encoders import *  # noqa: F403
from .gaussian_heads import GaussianHead, PCMEGaussianHead
from .heads import HierarchicalGaussianHead
from .hgr_similarity import HGRSimilarity
from .losses import (
    ContrastiveLoss,
    LocalBatch,
    NormalizedContrastiveLoss,
    RankingLoss,
    Target,
)
from .mmt_similarity import ExpertSimilarity
from .mssl_similarity import MSSLSimilarity
from .oracle_supervision import OracleSupervision
from .pcme_supervision import PCMESupervision
from .query_diversity import QueryDiversity
from .relevance_losses import AdaptiveMaxMarginLoss, EgoNCELoss, RelevantRankingLoss
from .relevance_supervision import RelevanceSupervision
from .retriever import RetrievalSample, VideoTextRetriever
from .score_supervision import RelativeScoreSupervision
from .similarity import CosineSimilarity, Temperature
from .supervision import DVTRSupervision, LiteralDVTRSupervision
from .token_similarity import TokenSimilarity

__all__ = [
    'ARLSupervision',
    'AdaptiveMarginSupervision',
    'AdaptiveMaxMarginLoss',
    'BackdoorRetriever',
    'BestFrameSimilarity',
    'ContrastiveLoss',
    'CosineSimilarity',
    'CrossCaptioning',
    'DVTRSupervision',
    'EgoNCELoss',
    'ExpertSimilarity',
    'GaussianHead',
    'HGRSimilarity',
    'HierarchicalGaussianHead',
    'KLToUnit',
    'LiteralDVTRSupervision',
    'LocalBatch',
    'MSSLSimilarity',
    'MultiInstanceContrast',
    'NormalizedContrastiveLoss',
    'OfficialKLToUnit',
    'OracleSupervision',
    'PCMEGaussianHead',
    'PCMESupervision',
    'QueryDiversity',
    'RankingLoss',
    'RelativeScoreSupervision',
    'RelevanceSupervision',
    'RelevantRankingLoss',
    'RetrievalSample',
    'SoftContrast',
    'Target',
    'Temperature',
    'TokenSimilarity',
    'VideoTextDataPreprocessor',
    'VideoTextRetriever',
]
