"""Datasets, their transforms, samplers and collation."""

from mmvtr.datasets.caption_similarity.caption_agreement import CaptionAgreement
from mmvtr.datasets.caption_similarity.caption_implication import (
    CaptionImplication,
    SummedCaptionSimilarity,
)
from mmvtr.datasets.formats.activitynet import ActivityNetDataset
from mmvtr.datasets.formats.activitynet_moments import ActivityNetMomentsDataset
from mmvtr.datasets.formats.charades_sta import CharadesSTADataset
from mmvtr.datasets.formats.didemo import DiDeMoDataset
from mmvtr.datasets.formats.epic import EPICKitchensDataset
from mmvtr.datasets.formats.lsmdc import LSMDCDataset
from mmvtr.datasets.formats.msrvtt import MSRVTTDataset
from mmvtr.datasets.formats.msvd import MSVDDataset
from mmvtr.datasets.formats.prvr import PRVRDataset
from mmvtr.datasets.formats.tvr import TVRDataset
from mmvtr.datasets.formats.vatex import VATEXDataset
from mmvtr.datasets.formats.youcook2 import YouCook2Dataset
from mmvtr.datasets.items import ItemKey
from mmvtr.datasets.joined import ConcatDataset, RepeatDataset
from mmvtr.datasets.judgments import read_fire
from mmvtr.datasets.pair_values import PairValues, read_qrels, read_run, write_qrels, write_run
from mmvtr.datasets.planted_corpus.dataset import PlantedDataset
from mmvtr.datasets.sampling.collate import collate_retrieval
from mmvtr.datasets.sampling.environments import (
    Halves,
    LengthSplit,
    RandomSplit,
    RemoveByLength,
    RemoveRandom,
)
from mmvtr.datasets.sampling.samplers import (
    EnvironmentBatchSampler,
    EpochSampler,
    SceneBatchSampler,
)
from mmvtr.datasets.tables.dataset import TableDataset
from mmvtr.datasets.video_text import VideoTextDataset
from mmvtr.datasets.videos.expert_features import LoadExperts
from mmvtr.datasets.videos.feature_transforms import (
    LoadFrameVectors,
    LoadTextFeatures,
    LoadVectors,
    PoolFeatures,
    TrimFeatures,
)
from mmvtr.datasets.videos.transforms import (
    CenterCrop,
    LoadFeatures,
    LoadFrames,
    LoadVideo,
    OpenCLIPResize,
    RandomRoll,
    ResizeShortSide,
)
from mmvtr.datasets.videos.video_io import BrokenVideoError, read_frames
from mmvtr.datasets.words.caption_classes import CaptionClasses
from mmvtr.datasets.words.denoising import DrawableCaptions
from mmvtr.datasets.words.role_graphs import LoadRoleGraph, PartOfSpeechGraph, VerbNounGraph
from mmvtr.datasets.words.tokenizers import (
    CLIPTokenize,
    HFTokenize,
    OpenCLIPTokenize,
    TextBytes,
    WordCounts,
    WordTokenize,
)
from mmvtr.datasets.words.tokens_of_interest import TokensOfInterest
from mmvtr.registry import own_names

__all__ = own_names(globals())
