"""Datasets, their transforms, samplers and collation."""

from mmvtr.datasets.activitynet import ActivityNetDataset
from mmvtr.datasets.collate import collate_retrieval
from mmvtr.datasets.didemo import DiDeMoDataset
from mmvtr.datasets.msrvtt import MSRVTTDataset
from mmvtr.datasets.msvd import MSVDDataset
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
from mmvtr.datasets.vatex import VATEXDataset
from mmvtr.datasets.video_io import BrokenVideoError, read_frames
from mmvtr.datasets.video_text import VideoTextDataset

__all__ = [
    'ActivityNetDataset',
    'BrokenVideoError',
    'CLIPTokenize',
    'CenterCrop',
    'DiDeMoDataset',
    'EpochSampler',
    'HFTokenize',
    'ItemKey',
    'LoadFeatures',
    'LoadVideo',
    'MSRVTTDataset',
    'MSVDDataset',
    'PlantedDataset',
    'RandomRoll',
    'ResizeShortSide',
    'VATEXDataset',
    'VideoTextDataset',
    'WordTokenize',
    'collate_retrieval',
    'read_frames',
]
