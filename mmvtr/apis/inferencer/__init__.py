"""The inferencer: a retriever, a gallery, and what of it answers a text or a video."""

from mmvtr.apis.inferencer.inferencer import VideoRetrievalInferencer
from mmvtr.apis.inferencer.ranking import RankingSample

__all__ = ['RankingSample', 'VideoRetrievalInferencer']
