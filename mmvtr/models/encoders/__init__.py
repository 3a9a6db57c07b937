"""Dual encoders, and the frame and text towers that they are built from."""

from .clip2video import CLIP2Video
from .clip4clip import CLIP4Clip
from .clip_frame import GMMFormerEncoder, MSSLEncoder
from .feature_tower import FeatureFrames
from .feature_words import FeatureWords
from .hgr import HGREncoder
from .mmt import MMTEncoder
from .open_clip_towers import OpenCLIPFrames, OpenCLIPText
from .prvr import ARLEncoder, TwoBranches
from .ssb import SSBEncoder
from .transformers_tower import TransformersText
from .uatvr import UATVR
from .word_vectors import WordVectors

__all__ = [
    'ARLEncoder',
    'CLIP2Video',
    'CLIP4Clip',
    'FeatureFrames',
    'FeatureWords',
    'GMMFormerEncoder',
    'HGREncoder',
    'MMTEncoder',
    'MSSLEncoder',
    'OpenCLIPFrames',
    'OpenCLIPText',
    'SSBEncoder',
    'TransformersText',
    'TwoBranches',
    'UATVR',
    'WordVectors',
]
