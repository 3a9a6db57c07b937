"""Pictures of an evaluation: plain arrays in, figures out, and their way to a visualizer."""

from mmvtr.visualization.calibration import negatives_of_query, reliability_curve
from mmvtr.visualization.canvas import pixels, save, show
from mmvtr.visualization.changes import moved_ranks, recall_by_size, sigma_over_epochs
from mmvtr.visualization.hubness import hubs, mass_errors
from mmvtr.visualization.matrix import compared_matrices, score_matrix
from mmvtr.visualization.moment_curve import moment_curve
from mmvtr.visualization.plane import bars, modality_plane
from mmvtr.visualization.relevance_strips import RelevanceStrip, relevance_strips
from mmvtr.visualization.scatter import eta_against_loss, sigma_against_generality
from mmvtr.visualization.sheet import SheetItem, retrieval_sheet

__all__ = [
    'RelevanceStrip',
    'SheetItem',
    'bars',
    'compared_matrices',
    'eta_against_loss',
    'hubs',
    'mass_errors',
    'modality_plane',
    'moment_curve',
    'moved_ranks',
    'negatives_of_query',
    'pixels',
    'recall_by_size',
    'relevance_strips',
    'reliability_curve',
    'retrieval_sheet',
    'save',
    'score_matrix',
    'show',
    'sigma_against_generality',
    'sigma_over_epochs',
]
