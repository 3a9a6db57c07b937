"""Several witnesses heard together: their products are the weighed sum of each one's."""

import copy

import numpy as np
import pytest

from mmvtr.registry import TASK_UTILS

CLIPS = [
    ['a red star hops', 'something bounces', 'the crimson star'],
    ['the blue box falls', 'a box drops'],
    ['a red star bounces', 'the star hops'],
    ['a lone box'],
]
AGREEMENT = dict(type='CaptionAgreement', dim=8)
IMPLICATION = dict(type='CaptionImplication', mean=True)


def product(witness):
    videos = [{} for _ in CLIPS]
    texts = [dict(text=c, video_idx=[v]) for v, clip in enumerate(CLIPS) for c in clip]
    TASK_UTILS.build(copy.deepcopy(witness))(videos, texts)
    text, video = (
        np.stack([one['agreement'] for one in records]).astype(np.float64)
        for records in (texts, videos)
    )
    assert all(one['agreement'].dtype == np.float32 for one in (*videos, *texts))
    return text @ video.T


def test_the_sum_is_weighed():
    parts = [AGREEMENT, IMPLICATION]
    one, other = map(product, parts)
    for weights in ([1.0, 2.0], [0.5, 0.0]):
        both = product(dict(type='SummedCaptionSimilarity', parts=parts, weights=weights))
        np.testing.assert_allclose(both, weights[0] * one + weights[1] * other, atol=1e-4)
    plain = product(dict(type='SummedCaptionSimilarity', parts=parts))
    np.testing.assert_allclose(plain, one + other, atol=1e-4)


def test_the_mean_over_words_is_the_sum_by_their_number():
    total = product(dict(type='CaptionImplication'))
    lengths = [len(set(caption.split())) for clip in CLIPS for caption in clip]
    expected = total / np.array(lengths)[:, None]
    np.testing.assert_allclose(product(IMPLICATION), expected, atol=1e-5)


def test_parts_and_weights_must_be_given():
    with pytest.raises(ValueError, match='at least one part'):
        product(dict(type='SummedCaptionSimilarity', parts=[]))
    with pytest.raises(ValueError, match='1 weights for 2 parts'):
        product(dict(type='SummedCaptionSimilarity', parts=[AGREEMENT, IMPLICATION], weights=[1.0]))
