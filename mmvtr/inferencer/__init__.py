"""The inferencer: a retriever, a gallery, and what of it answers a text or a video."""

from mmvtr.inferencer.inferencer import VideoRetrievalInferencer
from mmvtr.inferencer.ranking import RankingSample

__all__ = ['RankingSample', 'VideoRetrievalInferencer']
