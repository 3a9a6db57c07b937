"""A teacher that scores a pair by its relevance."""

from __future__ import annotations

from torch import Tensor, nn

from mmvtr.models.target import Target, from_classes
from mmvtr.registry import MODELS
from mmvtr.structures import Levels


@MODELS.register_module()
class RelevanceTeacher(nn.Module):
    """Fills the slot ``teacher`` with the relevance of verbs and nouns, for a DistillationLoss.

    A model that follows it learns the very grades that nDCG is measured by: how much can be gained
    where relevance is the aim, beside RAN and RANP, which see it through a threshold.  It knows
    what they know.

    Args:
        scale: of the relevance, which lies in [0, 1]: the score of what is fully relevant.

    Raises:
        ValueError: a scale that is not positive; in training: a target without relevance.
    """

    #: The slot that is there for certain losses alone (models/target.py: check_read).
    fills = 'teacher'

    def __init__(self, *, scale: float = 1.0) -> None:
        super().__init__()
        if not scale > 0:
            raise ValueError(f'scale must be positive, not {scale}')
        self.scale = scale

    def forward(
        self, texts: Levels, videos: Levels, target: Target
    ) -> tuple[Target, dict[str, Tensor]]:
        """Target of the joint batch -> the same with a teacher [T, V]; nothing for the log."""
        relevance = from_classes(target, 'relevance', self)
        return target.put(teacher=self.scale * relevance), {}
