"""MSR-VTT (Xu et al., CVPR 2016) in the splits that papers compare on, from its published files.

1k-A tests on the 1,000 sentences of JSFusion's csv; all else takes its captions from the json.
"""
from mmvtr.datasets.video_text import VideoTextDataset
from mmvtr.registry import DATASETS


@DATASETS.register_module()
class MSRVTTDataset(VideoTextDataset):
    pass
