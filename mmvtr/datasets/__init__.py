"""Datasets, their transforms, samplers and collation."""

from mmvtr.datasets.collate import collate_retrieval
from mmvtr.datasets.msrvtt import MSRVTTDataset
from mmvtr.datasets.planted import PlantedDataset
from mmvtr.datasets.samplers import EpochSampler, ItemKey
from mmvtr.datasets.tokenizers import CLIPTokenize, HFTokenize, WordTokenize
from mmvtr.datasets.transforms import (
    CenterCrop,
    LoadFeatures,
    LoadVideo,
    RandomRoll,
    ResizeShortSide,
)
from mmvtr.datasets.video_io import BrokenVideoError, read_frames
from mmvtr.datasets.video_text import VideoTextDataset

__all__ = [
    'BrokenVideoError',
    'CLIPTokenize',
    'CenterCrop',
    'EpochSampler',
    'HFTokenize',
    'ItemKey',
    'LoadFeatures',
    'LoadVideo',
    'MSRVTTDataset',
    'PlantedDataset',
    'RandomRoll',
    'ResizeShortSide',
    'VideoTextDataset',
    'WordTokenize',
    'collate_retrieval',
    'read_frames',
]
