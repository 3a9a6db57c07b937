"""Towers: from frames and words to their vectors, pretrained or read from files."""

# ruff: noqa: F401 - __all__ is made of what is imported

from mmvtr.models.towers.features import FeatureFrames, FeatureWords, WordVectors
from mmvtr.models.towers.open_clip import OpenCLIPFrames, OpenCLIPText
from mmvtr.models.towers.transformers import (
    TransformersDualText,
    TransformersFrames,
    TransformersText,
)
from mmvtr.registry import defined_in

__all__ = defined_in(globals())
