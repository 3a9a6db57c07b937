"""Reports at each evaluation how far texts and videos lie apart in their common space."""

from __future__ import annotations

from mmengine.hooks import Hook
from mmengine.runner import Runner

from mmvtr.engine.loop.evaluation import Evaluation
from mmvtr.functional.metrics.modality_gap import ModalityGap, modality_gap
from mmvtr.registry import HOOKS


@HOOKS.register_module()
class ModalityGapHook(Hook):
    """Mean cosines within and between the modalities of the evaluated set (NCL App. D, Fig. 8).

    Adds ``modality_gap/within_text``, ``within_video``, ``cross`` and ``distance`` (of the modal
    means) to the results, if the set has two texts and two videos or more.  For similarities that
    are one inner product (CosineSimilarity).
    """

    def reported(self, keys: set[str], runner: Runner) -> set[str]:
        """Return the keys of its results."""
        return {f'modality_gap/{name}' for name in ModalityGap._fields}

    def after_scoring(self, runner: Runner, evaluation: Evaluation) -> None:
        """Report the modality gap; called on rank 0."""
        similarity = evaluation.model.similarity
        if not hasattr(similarity, 'flat'):
            raise TypeError(
                f'ModalityGapHook: {type(similarity).__name__} is no inner product of two vectors'
            )
        if min(len(items.ids) for items in (evaluation.texts, evaluation.videos)) < 2:
            runner.logger.info('no modality gap: a set of one text or one video has no pairs')
            return
        flat = similarity.flat
        gap = modality_gap(flat(evaluation.texts.levels), flat(evaluation.videos.levels))
        for name, value in gap._asdict().items():
            evaluation.numbers[f'modality_gap/{name}'] = float(value)
