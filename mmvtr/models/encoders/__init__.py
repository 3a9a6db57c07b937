"""The papers' encoders, which turn the towers' frames and words into levels."""

from mmvtr.models.encoders.ce import CEEncoder
from mmvtr.models.encoders.clip2video import CLIP2Video
from mmvtr.models.encoders.clip4clip import CLIP4Clip, XCLIPEncoder
from mmvtr.models.encoders.hgr import HGREncoder
from mmvtr.models.encoders.hit import HiTEncoder
from mmvtr.models.encoders.mmt import MMTEncoder
from mmvtr.models.encoders.prvr import (
    ARLEncoder,
    DLDKDEncoder,
    GMMFormerEncoder,
    MSSLEncoder,
    TwoBranches,
)
from mmvtr.models.encoders.ssb import SSBEncoder
from mmvtr.models.encoders.taco import TACoEncoder
from mmvtr.models.encoders.uatvr import UATVR
from mmvtr.registry import own_names

__all__ = own_names(globals())
