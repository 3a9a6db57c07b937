"""Items of the training set as a retriever scores them, beside what is true of them."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional, Sequence, Union

import torch
from torch import Tensor, nn

from mmvtr.datasets.sampling.collate import collate_retrieval
from mmvtr.models.annotation import annotated_target
from mmvtr.models.target import Target
from mmvtr.structures import Levels

#: Items that are looked at, the first ones of the training set.
ITEMS = 384


class Scored(NamedTuple):
    """A batch of T texts and V videos.

    Attributes:
        batch: inputs and data samples.
        texts, videos: levels.
        matrices: of the similarity, by name float [T, V].
        known: the annotated target.
        soft, negative: bool [T, V], the unannotated pairs that hold, and that do not.
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
        """Items of a simulated dataset, by a retriever that is a member of ``whole`` or itself."""
        batch = collate_retrieval(dataset.__getitems__(items))
        batch = whole.data_preprocessor(batch, False)
        inputs, samples = batch['inputs'], batch['data_samples']
        texts, videos = model.encode_text(inputs), model.encode_video(inputs)
        matrices = model.similarity(texts, videos)
        known = annotated_target(samples, matrices['scores'].device)
        truth = dataset.holds(samples['text_idx'].tolist(), samples['video_idx'].tolist())
        truth = torch.from_numpy(truth)
        soft, negative = truth & ~known.positives, ~truth & ~known.positives
        return cls(batch, texts, videos, matrices, known, soft, negative)

    def supervised(self, model: nn.Module) -> Union[Target, dict[str, Target]]:
        """What the model's supervision makes of the annotated target; its own levels are added."""
        sides, inputs = (self.texts, self.videos), self.batch['inputs']
        if hasattr(model.supervision, 'own_levels'):
            device = self.known.positives.device
            own = model.supervision.own_levels(inputs, self.batch['data_samples'], device)
            sides = tuple({**levels, **more} for levels, more in zip(sides, own))
        return model.supervision(*sides, self.known)[0]


def first_items(dataset: Any, environment: Optional[int]) -> list[int]:
    """The first items, of one environment where there are several."""
    if environment is None or dataset.environments is None:
        return list(range(min(ITEMS, len(dataset))))
    owners = (
        [text['video_idx'][0] for text in dataset.texts]
        if dataset.epoch_unit == 'text'
        else dataset.videos_with_text
    )
    items = [i for i, v in enumerate(owners) if dataset.environments[v] == environment]
    return items[:ITEMS]
