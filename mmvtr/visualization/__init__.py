"""Figures of an evaluation: plain arrays in, figures out, and their way to a visualizer."""

from mmvtr.visualization.canvas import pixels, save, show
from mmvtr.visualization.curves import moment_curve, reliability_curve
from mmvtr.visualization.hubness import hubs
from mmvtr.visualization.matrix import score_matrix
from mmvtr.visualization.scatter import eta_against_loss, sigma_against_generality
from mmvtr.visualization.sheet import SheetItem, retrieval_sheet

__all__ = [
    'SheetItem',
    'eta_against_loss',
    'hubs',
    'moment_curve',
    'pixels',
    'reliability_curve',
    'retrieval_sheet',
    'save',
    'score_matrix',
    'show',
    'sigma_against_generality',
]
