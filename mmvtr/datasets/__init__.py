"""Datasets, their transforms, samplers and collation."""

from mmvtr.datasets.activitynet import ActivityNetDataset
from mmvtr.datasets.activitynet_moments import ActivityNetMomentsDataset
from mmvtr.datasets.caption_agreement import CaptionAgreement
from mmvtr.datasets.caption_classes import CaptionClasses
from mmvtr.datasets.charades_sta import CharadesSTADataset
from mmvtr.datasets.collate import collate_retrieval
from mmvtr.datasets.didemo import DiDeMoDataset
from mmvtr.datasets.environment_sampler import EnvironmentBatchSampler
from mmvtr.datasets.environments import LengthSplit, RandomSplit, RemoveByLength, RemoveRandom
from mmvtr.datasets.epic import EPICKitchensDataset
from mmvtr.datasets.expert_features import LoadExperts
from mmvtr.datasets.feature_transforms import LoadTextFeatures, PoolFeatures, TrimFeatures
from mmvtr.datasets.msrvtt import MSRVTTDataset
from mmvtr.datasets.msvd import MSVDDataset
from mmvtr.datasets.planted import PlantedDataset
from mmvtr.datasets.prvr import PRVRDataset
from mmvtr.datasets.role_graphs import LoadRoleGraph, PartOfSpeechGraph, VerbNounGraph
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
from mmvtr.datasets.youcook2 import YouCook2Dataset

__all__ = [
    'ActivityNetDataset',
    'ActivityNetMomentsDataset',
    'BrokenVideoError',
    'CLIPTokenize',
    'CaptionAgreement',
    'CaptionClasses',
    'CenterCrop',
    'CharadesSTADataset',
    'DiDeMoDataset',
    'EPICKitchensDataset',
    'EnvironmentBatchSampler',
    'EpochSampler',
    'HFTokenize',
    'ItemKey',
    'LengthSplit',
    'LoadExperts',
    'LoadFeatures',
    'LoadRoleGraph',
    'LoadTextFeatures',
    'LoadVideo',
    'MSRVTTDataset',
    'MSVDDataset',
    'PRVRDataset',
    'PartOfSpeechGraph',
    'PlantedDataset',
    'PoolFeatures',
    'RandomRoll',
    'RandomSplit',
    'RemoveByLength',
    'RemoveRandom',
    'ResizeShortSide',
    'TVRDataset',
    'TrimFeatures',
    'VATEXDataset',
    'VerbNounGraph',
    'VideoTextDataset',
    'WordTokenize',
    'YouCook2Dataset',
    'collate_retrieval',
    'read_frames',
]
