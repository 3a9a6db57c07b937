"""At least one case for each function of ``mmvtr.functional`` that takes tensors.

Inputs come from a generator with a fixed seed, in float64 rounded to float32, so that every device
and precision starts from the same numbers.
"""

from __future__ import annotations

import torch

from gpu_check.cases import evaluation, losses, similarities, transforms, uncertainty
from gpu_check.cases.case import Case
from gpu_check.cases.inputs import inputs

#: Public names that take no tensor, or only hold tensors.
WITHOUT_CASE = {
    'BestFrames',
    'Biases',
    'Calibration',
    'Columns',
    'ErrorRates',
    'Graded',
    'ModalBiases',
    'ModalityGap',
    'Neighbours',
    'Partners',
    'RankCounts',
    'Reliability',
    'Side',
    'Standard',
    'TextFrame',
    'Tiles',
    'Uncertainty',
    'between_knots',
    'epoch_at',
    'falling',
    'fit_calibration',
    'fit_to_pairs',
    'isotonic',
    'proposal_pooling',
    'proposal_windows',
    'reliability',
}

GROUPS = (
    losses.of_pairs,
    losses.of_weights,
    losses.of_matches,
    losses.taught,
    similarities.of_tokens,
    similarities.of_frames,
    transforms.transforms,
    uncertainty.of_gaussians,
    uncertainty.of_sets,
    evaluation.ranks,
    evaluation.hubness_and_lengths,
)


def cases(seed: int = 0) -> list[Case]:
    """Return all cases."""
    x = inputs(torch.Generator().manual_seed(seed))
    return [case for group in GROUPS for case in group(x)]
