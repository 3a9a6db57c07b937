"""Towers: from frames and words to their vectors, pretrained or read from files."""

from mmvtr.models.towers.feature_frames import FeatureFrames
from mmvtr.models.towers.feature_words import FeatureWords
from mmvtr.models.towers.open_clip import OpenCLIPFrames
from mmvtr.models.towers.open_clip_text import OpenCLIPText
from mmvtr.models.towers.torchvision_clips import TorchvisionClips
from mmvtr.models.towers.transformers_dual import TransformersDualText, TransformersFrames
from mmvtr.models.towers.transformers_text import TransformersText
from mmvtr.models.towers.word_vectors import WordVectors

__all__ = [
    'FeatureFrames',
    'FeatureWords',
    'OpenCLIPFrames',
    'OpenCLIPText',
    'TorchvisionClips',
    'TransformersDualText',
    'TransformersFrames',
    'TransformersText',
    'WordVectors',
]
