import math

import pytest
import torch

from mmvtr.models.losses.objectives import QueryDiversity
from mmvtr.models.target import Target
from mmvtr.structures import Embedding


def test_against_loops():
    texts = torch.randn(5, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    owners = [0, 0, 1, 0, 1]
    total = 0.0
    for i in range(5):
        inside = 1.0
        for j in range(5):
            if i != j and owners[i] == owners[j]:
                cosine = torch.cosine_similarity(texts[i], texts[j], dim=0)
                inside += math.exp(4 * (float(cosine) + 0.2))
        total += math.log(inside) / 5
    positives = torch.tensor(owners)[:, None] == torch.arange(3)
    loss = QueryDiversity(margin=0.2, scale=4.0, loss_weight=2.0)
    value = loss({'clip': Embedding(texts)}, {}, Target(positives))['loss']
    assert value.item() == pytest.approx(2 * total)


def test_lone_texts_and_no_texts():
    loss = QueryDiversity(margin=0.2, scale=32.0, loss_weight=1.0)
    for count in (3, 0):
        texts = torch.randn(count, 4, requires_grad=True)
        value = loss({'clip': Embedding(texts)}, {}, Target(torch.eye(count).bool()))['loss']
        value.backward()
        assert value.item() == 0 and texts.grad.isfinite().all()
