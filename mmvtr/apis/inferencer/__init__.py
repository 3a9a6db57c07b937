"""The inferencer: a retriever with a gallery, and its ranking for text or video queries."""

from mmvtr.apis.inferencer.inferencer import VideoRetrievalInferencer
from mmvtr.apis.inferencer.ranking import RankingSample

__all__ = ['RankingSample', 'VideoRetrievalInferencer']
