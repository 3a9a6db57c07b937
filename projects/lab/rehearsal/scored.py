"""Items of the training set scored by a retriever, with the ground truth of their pairs."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional, Sequence, Union

import torch
from torch import Tensor, nn

from mmvtr.datasets.sampling.collate import collate_retrieval
from mmvtr.models.annotation import JointIds
from mmvtr.models.target import Target
from mmvtr.structures import Levels

#: Number of training items to use, the first ones.
ITEMS = 384


class Scored(NamedTuple):
    """A batch of T texts and V videos.

    Attributes:
        batch: inputs and data samples.
        texts, videos: embeddings by level.
        matrices: the similarity's score matrices by name, float [T, V].
        known: the annotated target.
        soft, negative: bool [T, V], unannotated pairs that are true, and that are not.
    """

    batch: dict[str, Any]
    texts: Levels
    videos: Levels
    matrices: dict[str, Tensor]
    known: Target
    soft: Tensor
    negative: Tensor

    @classmethod
    def of(cls, model: nn.Module, whole: nn.Module, dataset: Any, items: Sequence[int]) -> 'Scored':
        """Score items of a simulated dataset with a retriever, a member of ``whole`` or itself."""
        batch = collate_retrieval(dataset.__getitems__(items))
        batch = whole.data_preprocessor(batch, False)
        inputs, samples = batch['inputs'], batch['data_samples']
        texts, videos = model.encode_text(inputs), model.encode_video(inputs)
        matrices = model.similarity(texts, videos)
        known = JointIds(samples, matrices['scores'].device).target()
        truth = dataset.holds(samples['text_idx'].tolist(), samples['video_idx'].tolist())
        truth = torch.from_numpy(truth)
        soft, negative = truth & ~known.positives, ~truth & ~known.positives
        return cls(batch, texts, videos, matrices, known, soft, negative)

    def supervised(self, model: nn.Module) -> Union[Target, dict[str, Target]]:
        """Return the supervision's target, or targets by level, for the annotated target."""
        sides, inputs = (self.texts, self.videos), self.batch['inputs']
        if hasattr(model.supervision, 'own_levels'):
            device = self.known.positives.device
            own = model.supervision.own_levels(inputs, self.batch['data_samples'], device)
            sides = tuple({**levels, **more} for levels, more in zip(sides, own))
        return model.supervision(*sides, self.known)[0]


def first_items(dataset: Any, environment: Optional[int]) -> list[int]:
    """Return the first items, of one environment if there are several."""
    if environment is None or dataset.environments is None:
        return list(range(min(ITEMS, len(dataset))))
    owners = (
        [text['video_idx'][0] for text in dataset.texts]
        if dataset.epoch_unit == 'text'
        else dataset.videos_with_text
    )
    items = [i for i, v in enumerate(owners) if dataset.environments[v] == environment]
    return items[:ITEMS]
