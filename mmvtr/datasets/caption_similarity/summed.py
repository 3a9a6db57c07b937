"""The weighed sum of several caption similarities."""

from __future__ import annotations

from typing import Any, Optional, Sequence

import numpy as np

from mmvtr.datasets.records import Records
from mmvtr.registry import TASK_UTILS


@TASK_UTILS.register_module()
class SummedCaptionSimilarity:
    """Give every text and video a vector ``agreement`` whose product is a weighed sum of those of
    several caption similarities: their vectors stand side by side, those of texts times the weight.

    :class:`CaptionAgreement` and the mean of :class:`CaptionImplication`, twice as heavy, tell what
    people call right better than either does (projects/lab/evidence/pages/judged_training.md).

    Args:
        parts: configs of the caption similarities.
        weights: of each; None: 1.

    Raises:
        ValueError: no parts, or not a weight for each.
    """

    of_what_stays = True

    def __init__(
        self, *, parts: Sequence[dict[str, Any]], weights: Optional[Sequence[float]] = None
    ) -> None:
        if not parts:
            raise ValueError('SummedCaptionSimilarity: expected at least one part')
        self.parts = [TASK_UTILS.build(part) for part in parts]
        self.weights = [1.0] * len(parts) if weights is None else list(weights)
        if len(self.weights) != len(self.parts):
            raise ValueError(
                f'SummedCaptionSimilarity: {len(self.weights)} weights for {len(self.parts)} parts'
            )

    def __call__(self, videos: Records, texts: Records) -> tuple[Records, Records]:
        """Add them in place; ``texts`` say by ``video_idx`` whose captions they are."""
        found: dict[int, list[np.ndarray]] = {id(record): [] for record in (*videos, *texts)}
        for part, weight in zip(self.parts, self.weights):
            part(videos, texts)
            for record in videos:
                found[id(record)].append(record['agreement'])
            for record in texts:
                found[id(record)].append(np.float32(weight) * record['agreement'])
        for record in (*videos, *texts):
            record['agreement'] = np.concatenate(found[id(record)])
        return videos, texts
