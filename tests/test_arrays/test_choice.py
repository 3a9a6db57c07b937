"""What transform='auto' takes: raw where nothing is known or gained, Sinkhorn against hubs."""

import pytest
import torch

import mmvtr


def unit(x):
    return torch.nn.functional.normalize(x, dim=1)


def pairs(seed, count, *, hubs):
    """Texts and videos; each video has a height along an axis that texts share, or none."""
    random = torch.Generator().manual_seed(seed)
    content = torch.randn(count, 24, generator=random)
    noise = torch.randn(2, count, 24, generator=random) * 0.9
    height = torch.randn(count, 1, generator=random).exp() * hubs
    texts = torch.cat([unit(content + noise[0]), torch.ones(count, 1) * bool(hubs)], dim=1)
    return texts, torch.cat([unit(content + noise[1]), height], dim=1)


def own_first(found):
    return (found.ids[:, 0] == torch.arange(len(found.ids))).double().mean().item()


@pytest.mark.parametrize('with_pairs', [True, False])
def test_hubs_are_held_back(with_pairs):
    texts, videos = pairs(0, 300, hubs=0.3)
    bank = pairs(1, 300, hubs=0.3)
    found = mmvtr.retrieve(texts, videos, bank if with_pairs else bank[0])
    raw = mmvtr.retrieve(texts, videos)
    assert found.transform.endswith('sinkhorn') and found.why.startswith(found.transform)
    assert own_first(found) > own_first(raw) + 0.03
    assert found.hubs.debiased < found.hubs.raw == raw.hubs.raw


def test_pairs_that_gain_nothing_leave_it_raw():
    texts, videos = pairs(0, 300, hubs=0)
    random = torch.Generator().manual_seed(9)
    bank = pairs(1, 300, hubs=0)
    shuffled = bank[0], bank[1][torch.randperm(300, generator=random)]
    found = mmvtr.retrieve(texts, videos, shuffled)
    assert found.transform is None and 'no gain' in found.why


@pytest.mark.parametrize(
    'bank, why',
    [
        (None, 'without a bank'),
        (torch.ones(3, 25), 'too few'),
        ((torch.randn(60, 25), torch.ones(60, 25)), '1 different bank items'),
    ],
)
def test_too_little_to_decide(bank, why):
    texts, videos = pairs(0, 60, hubs=0.3)
    found = mmvtr.retrieve(texts, videos, bank)
    assert found.transform is None and why in found.why


def test_one_video():
    texts, videos = pairs(0, 60, hubs=0.3)
    for transform in ('auto', 'sinkhorn', 'qb_norm'):
        found = mmvtr.retrieve(texts, videos[:1], pairs(1, 60, hubs=0.3), transform)
        assert found.ids.tolist() == [[0]] * 60


def test_texts_of_one_video_are_no_separate_evidence():
    """Sixty videos with five texts each decide as sixty pairs do: the bound is no narrower."""
    texts, videos = pairs(3, 60, hubs=0.1)
    once = mmvtr.retrieve(texts, videos, (texts, videos)).why
    five = (texts.repeat(5, 1), videos.repeat(5, 1))
    said = mmvtr.retrieve(texts, videos, five).why
    widths = [float(why.split('standard error ')[1].split(')')[0]) for why in (once, said)]
    assert widths[1] > 0.6 * widths[0]


def test_pairs_learnt_by_heart_that_say_raw_are_told_of():
    """Each own video is first at once, so that biases can only harm."""
    texts, videos = pairs(0, 200, hubs=0.3)
    random = torch.Generator().manual_seed(1)
    learnt = unit(torch.randn(200, 25, generator=random))
    found = mmvtr.retrieve(texts, videos, (learnt, learnt))
    assert found.transform is None and 'give the texts alone' in found.why
    assert mmvtr.retrieve(texts, videos, learnt).transform == 'unbalanced_sinkhorn'


def test_pairs_overrule_the_usual_setting_where_they_are_clear():
    """Of 1,200 pairs, a third of whose videos lie near everything."""
    texts, videos = pairs(5, 300, hubs=3.0)
    bank = pairs(6, 1200, hubs=3.0)
    usual = mmvtr.retrieve(texts, videos, bank[0])
    clear = mmvtr.retrieve(texts, videos, bank)
    assert clear.options != usual.options and own_first(clear) > own_first(usual)
