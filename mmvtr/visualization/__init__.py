"""Pictures of an evaluation: plain arrays in, figures out, and their way to a visualizer."""

from mmvtr.visualization.calibration import reliability_curve
from mmvtr.visualization.canvas import pixels, save, show
from mmvtr.visualization.hubness import hubs, mass_errors
from mmvtr.visualization.matrix import compared_matrices, score_matrix
from mmvtr.visualization.moment_curve import moment_curve
from mmvtr.visualization.scatter import eta_against_loss, sigma_against_generality
from mmvtr.visualization.sheet import SheetItem, retrieval_sheet

__all__ = [
    'SheetItem',
    'compared_matrices',
    'eta_against_loss',
    'hubs',
    'mass_errors',
    'moment_curve',
    'pixels',
    'reliability_curve',
    'retrieval_sheet',
    'save',
    'score_matrix',
    'show',
    'sigma_against_generality',
]
