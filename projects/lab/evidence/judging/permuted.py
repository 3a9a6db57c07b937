"""A control of agreement: the same numbers, but of other texts and other items."""

from __future__ import annotations

import numpy as np

from mmvtr.datasets import CaptionAgreement
from mmvtr.datasets.records import Records
from mmvtr.registry import TASK_UTILS


@TASK_UTILS.register_module()
class PermutedAgreement(CaptionAgreement):
    """Agreement whose rows and columns are permuted, once: as sharp and as frequent, and wrong."""

    def __call__(self, videos: Records, texts: Records) -> tuple[Records, Records]:
        super().__call__(videos, texts)
        draw = np.random.default_rng(0)
        for records in (texts, videos):
            vectors = [record['agreement'] for record in records]
            for record, n in zip(records, draw.permutation(len(records))):
                record['agreement'] = vectors[n]
        return videos, texts
