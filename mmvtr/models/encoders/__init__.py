"""Dual encoders, and the frame and text towers that they are built from."""

from .clip2video import CLIP2Video
from .clip4clip import CLIP4Clip
from .feature_tower import FeatureFrames
from .open_clip_towers import OpenCLIPFrames, OpenCLIPText
from .ssb import SSBEncoder
from .transformers_tower import TransformersText
from .uatvr import UATVR

__all__ = [
    'CLIP2Video',
    'CLIP4Clip',
    'FeatureFrames',
    'OpenCLIPFrames',
    'OpenCLIPText',
    'SSBEncoder',
    'TransformersText',
    'UATVR',
]
