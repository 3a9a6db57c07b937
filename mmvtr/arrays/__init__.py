"""Retrieval with plain arrays: two matrices of vectors in, ranked ids or a report on hubs out.

Knows torch and numpy, no config, no registry and no mmengine.
"""

from mmvtr.arrays.choice import Choice, choose
from mmvtr.arrays.frozen_sigma import FrozenSigma, fit_sigma
from mmvtr.arrays.hubs import HubReport, Suspect, hub_report
from mmvtr.arrays.retrieval import Hubs, Retrieved, retrieve

__all__ = [
    'Choice',
    'FrozenSigma',
    'HubReport',
    'Hubs',
    'Retrieved',
    'Suspect',
    'choose',
    'fit_sigma',
    'hub_report',
    'retrieve',
]
