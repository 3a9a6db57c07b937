"""How common a text is, and whose negatives are spared for it."""

import pytest
import torch
import torch.nn.functional as F

from mmvtr.models.common_text_supervision import CommonTextSupervision
from mmvtr.models.losses import Target
from mmvtr.models.score_supervision import relative_eta
from mmvtr.models.text_memory import TextMemory
from mmvtr.structures import Embedding

D = 6


def vectors(count, seed):
    return torch.randn(count, D, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize('sizes', [(3, 2), (4, 4, 4), (7, 1, 9), (20,)])
def test_the_memory_holds_the_last_texts(sizes):
    memory = TextMemory(size=5, dim=D)
    pushed = torch.zeros(0, D)
    for k, size in enumerate(sizes):
        texts = 3 * vectors(size, k)
        memory.push(texts)
        pushed = torch.cat([pushed, F.normalize(texts, dim=-1)])
        assert len(memory) == min(5, len(pushed))
        held = memory.vectors[: len(memory)]
        expected = pushed[-5:]
        # As sets: each one is there once.
        assert torch.allclose(held.sort(0).values, expected.sort(0).values)


def test_the_share_of_alike_texts():
    memory = TextMemory(size=8, dim=D)
    texts = vectors(3, 0)
    assert memory.share_alike(texts, alike=0.9).tolist() == [0, 0, 0]
    near = texts[0] + 1e-3 * vectors(1, 1)[0]
    memory.push(torch.stack([texts[0], near, texts[1], -texts[2]]))
    share = memory.share_alike(5 * texts, alike=0.99)
    units = F.normalize(memory.vectors[:4], dim=-1)
    for t in range(3):
        alike = [(F.normalize(texts[t], dim=0) @ unit).item() > 0.99 for unit in units]
        assert share[t].item() == sum(alike) / 4
    assert share.tolist() == [0.5, 0.25, 0.0]


def test_a_restored_memory_goes_on():
    first, second = TextMemory(size=5, dim=D), TextMemory(size=5, dim=D)
    first.push(vectors(7, 0))
    second.load_state_dict(first.state_dict())
    for memory in (first, second):
        memory.push(vectors(2, 1))
    assert len(second) == 5
    assert torch.equal(first.vectors, second.vectors)


@pytest.fixture
def batch():
    """Texts 0 and 1 say the same, text 2 something else; each has a video."""
    texts = vectors(3, 0)
    texts[1] = 2 * texts[0]
    videos = texts + 0.7 * vectors(3, 1)
    return {'global': Embedding(texts)}, {'global': Embedding(videos)}, Target(torch.eye(3).bool())


def supervision(**changes):
    how = dict(dim=D, memory=10, common=(0.3, 0.7), slack=0.2, softness=0.5, ramp=(0.0, 0.0))
    return CommonTextSupervision(**{**how, **changes})


def test_negatives_of_common_texts_are_spared(batch):
    texts, videos, target = batch
    module = supervision()
    out, logs = module(texts, videos, target)  # the memory is the batch: 2/3, 2/3 and 1/3
    scores = module.similarity(texts, videos)['scores']
    eta = relative_eta(scores, target.positives, slack=0.2, softness=0.5)
    assert (eta < 1).all()
    torch.testing.assert_close(out.weights, eta)
    assert logs['common_texts'].item() == 1

    rare = supervision(common=(0.5, 0.7))
    out, logs = rare(texts, videos, target)
    torch.testing.assert_close(out.weights[:2], eta[:2])
    assert out.weights[2].tolist() == [1, 1, 1]
    assert logs['common_texts'].item() == pytest.approx(2 / 3)

    collapsed = supervision(common=(0.1, 0.5))
    out, _ = collapsed(texts, videos, target)
    assert (out.weights[:2] == 1).all() and (out.weights[2] < 1).all()


def test_only_training_is_remembered(batch):
    module = supervision().eval()
    module(*batch)
    assert len(module.memory) == 0
    module.train()(*batch)
    assert len(module.memory) == 3


def test_an_empty_batch():
    nothing = {'global': Embedding(torch.zeros(0, D))}
    out, logs = supervision()(nothing, nothing, Target(torch.zeros(0, 0, dtype=torch.bool)))
    assert out.weights.shape == (0, 0) and logs['common_texts'].item() == 0


@pytest.mark.parametrize(
    'wrong, message',
    [
        (dict(memory=0), 'a memory of texts needs size >= 1, got 0'),
        (dict(alike=1.0), r'alike is a cosine, in \(-1, 1\), not 1.0'),
        (dict(common=(0.5, 0.1)), r'common must be \(low, high\)'),
    ],
)
def test_bad_arguments(wrong, message):
    with pytest.raises(ValueError, match=message):
        supervision(**wrong)
