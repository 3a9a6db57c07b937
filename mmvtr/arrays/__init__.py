"""Retrieval with plain arrays: two matrices of vectors in, ranked ids or a report on hubs out.

Knows torch and numpy, no config, no registry and no mmengine.
"""

from mmvtr.arrays.answers import Answers
from mmvtr.arrays.choice import Choice, choose
from mmvtr.arrays.debiaser import Debiaser
from mmvtr.arrays.generations import Behind, Stale
from mmvtr.arrays.hubs import HubReport, Suspect, hub_report
from mmvtr.arrays.retrieval import fit, retrieve
from mmvtr.arrays.retrieved import Hubs, Retrieved
from mmvtr.arrays.shift import Shift
from mmvtr.arrays.sources import Rows, read_rows
from mmvtr.arrays.tokens import Tokens
from mmvtr.arrays.topk_fitting import calibrate_topk
from mmvtr.arrays.topk_probabilities import TopKProbabilities

__all__ = [
    'Answers',
    'Behind',
    'Choice',
    'Debiaser',
    'HubReport',
    'Hubs',
    'TopKProbabilities',
    'Retrieved',
    'Rows',
    'Stale',
    'Shift',
    'Suspect',
    'Tokens',
    'choose',
    'fit',
    'hub_report',
    'calibrate_topk',
    'read_rows',
    'retrieve',
]
