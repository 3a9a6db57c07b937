"""Retrieval with plain arrays: two matrices of vectors in, ranked ids or a report on hubs out.

Knows torch and numpy, no config, no registry and no mmengine.
"""

from mmvtr.arrays.choice import Choice, choose
from mmvtr.arrays.debiaser import Debiaser
from mmvtr.arrays.hubs import HubReport, Suspect, hub_report
from mmvtr.arrays.retrieval import fit, retrieve
from mmvtr.arrays.searching import Hubs, Retrieved
from mmvtr.arrays.shift import Shift
from mmvtr.arrays.tokens import Tokens
from mmvtr.arrays.topk_probabilities import Answers, TopKProbabilities, calibrate_topk

__all__ = [
    'Answers',
    'Choice',
    'Debiaser',
    'HubReport',
    'Hubs',
    'TopKProbabilities',
    'Retrieved',
    'Shift',
    'Suspect',
    'Tokens',
    'choose',
    'fit',
    'hub_report',
    'calibrate_topk',
    'retrieve',
]
