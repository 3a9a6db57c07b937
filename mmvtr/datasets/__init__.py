"""Datasets, their transforms, samplers and collation."""

from mmvtr.datasets.activitynet import ActivityNetDataset
from mmvtr.datasets.activitynet_moments import ActivityNetMomentsDataset
from mmvtr.datasets.charades_sta import CharadesSTADataset
from mmvtr.datasets.collate import collate_retrieval
from mmvtr.datasets.didemo import DiDeMoDataset
from mmvtr.datasets.feature_transforms import LoadTextFeatures, PoolFeatures
from mmvtr.datasets.msrvtt import MSRVTTDataset
from mmvtr.datasets.msvd import MSVDDataset
from mmvtr.datasets.planted import PlantedDataset
from mmvtr.datasets.prvr import PRVRDataset
from mmvtr.datasets.samplers import EpochSampler, ItemKey
from mmvtr.datasets.tokenizers import CLIPTokenize, HFTokenize, WordTokenize
from mmvtr.datasets.transforms import (
    CenterCrop,
    LoadFeatures,
    LoadVideo,
    RandomRoll,
    ResizeShortSide,
)
from mmvtr.datasets.tvr import TVRDataset
from mmvtr.datasets.vatex import VATEXDataset
from mmvtr.datasets.video_io import BrokenVideoError, read_frames
from mmvtr.datasets.video_text import VideoTextDataset

__all__ = [
    'ActivityNetDataset',
    'ActivityNetMomentsDataset',
    'BrokenVideoError',
    'CLIPTokenize',
    'CenterCrop',
    'CharadesSTADataset',
    'DiDeMoDataset',
    'EpochSampler',
    'HFTokenize',
    'ItemKey',
    'LoadFeatures',
    'LoadTextFeatures',
    'LoadVideo',
    'MSRVTTDataset',
    'MSVDDataset',
    'PRVRDataset',
    'PlantedDataset',
    'PoolFeatures',
    'RandomRoll',
    'ResizeShortSide',
    'TVRDataset',
    'VATEXDataset',
    'VideoTextDataset',
    'WordTokenize',
    'collate_retrieval',
    'read_frames',
]
