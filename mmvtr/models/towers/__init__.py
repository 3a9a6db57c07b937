"""Towers, which map frames and words to vectors, pretrained or read from files."""

from mmvtr.models.towers.features import FeatureFrames, FeatureWords, WordVectors
from mmvtr.models.towers.open_clip import OpenCLIPFrames, OpenCLIPText
from mmvtr.models.towers.transformers import (
    TransformersDualText,
    TransformersFrames,
    TransformersText,
)
from mmvtr.registry import own_names

__all__ = own_names(globals())
