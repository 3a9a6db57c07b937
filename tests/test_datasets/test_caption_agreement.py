"""Agreement of texts with the captions of clips, against counts by loops."""

import math
import re

import numpy as np
import pytest
import torch

from mmvtr.datasets import collate_retrieval
from mmvtr.datasets.caption_agreement import CaptionAgreement, word_pmi
from mmvtr.datasets.video_text import VideoTextDataset
from mmvtr.models.annotation import annotated_target
from mmvtr.registry import TASK_UTILS

CLIPS = [
    ['A red star hops.', 'something bounces', 'the crimson star'],
    ['the blue box falls', 'a box drops'],
    ['a red star bounces', 'the star hops, hops'],
    ["it's a blue box"],
    [],
    ['the crimson box drops', 'a red box falls'],
]
PRIOR = 0.4


def records(clips=CLIPS):
    videos = [dict(video_id=f'v{v}') for v in range(len(clips))]
    texts = [
        dict(text_id=f'{v}#{n}', text=caption, video_idx=[v])
        for v, captions in enumerate(clips)
        for n, caption in enumerate(captions)
    ]
    return videos, texts


def words_of(caption):
    return sorted(set(re.findall(r"[a-z']+", caption.lower())))


def pmi_by_loops(clips):
    """(w, u) -> log of counted over expected pairs, both with the prior."""
    pairs, counts, captions = {}, {}, 0
    for clip in clips:
        if len(clip) < 2:
            continue
        captions += len(clip)
        for i, one in enumerate(clip):
            for w in words_of(one):
                counts[w] = counts.get(w, 0) + 1
                for j, other in enumerate(clip):
                    for u in words_of(other) if i != j else ():
                        pairs[w, u] = pairs.get((w, u), 0) + 1 / (len(clip) - 1)
    vocabulary = {w for clip in clips for caption in clip for w in words_of(caption)}
    return {
        (w, u): math.log(
            (pairs.get((w, u), 0) + PRIOR)
            / (counts.get(w, 0) * counts.get(u, 0) / captions + PRIOR)
        )
        for w in vocabulary
        for u in vocabulary
    }


def agreement_by_loops(clips):
    """[T, V], in standard deviations."""
    pmi = pmi_by_loops(clips)
    weight = {w: math.sqrt(sum(x * x for (a, _), x in pmi.items() if a == w)) for w, _ in pmi}

    def pair(text, caption):
        of = [(w, u) for w in words_of(text) for u in words_of(caption)]
        total = sum(weight[w] * weight[u] for w, u in of)
        return sum(weight[w] * weight[u] * pmi[w, u] for w, u in of) / total

    rows = [
        [sum(pair(text, c) for c in clip) / max(len(clip), 1) for clip in clips]
        for own in clips
        for text in own
    ]
    matrix = np.array(rows)
    return matrix / matrix.std()


def product(videos, texts):
    return np.stack([x['agreement'] for x in texts]) @ np.stack([x['agreement'] for x in videos]).T


def test_the_product_is_the_mean_over_pairs_of_words():
    videos, texts = records()
    component = TASK_UTILS.build(dict(type='CaptionAgreement', prior=PRIOR))
    component(videos, texts)
    found = product(videos, texts)
    np.testing.assert_allclose(found, agreement_by_loops(CLIPS), atol=1e-5)
    assert found.std() == pytest.approx(1, abs=1e-5)
    assert texts[0]['agreement'].dtype == np.float32
    assert component.known[0] in ('a', 'star', 'box', 'the') and "it's" in component.known


def test_word_pmi_by_loops():
    expected = pmi_by_loops(CLIPS)
    vocabulary = sorted({w for w, _ in expected})
    owners, bags = [], []
    for clip in CLIPS:
        owners.append(list(range(len(bags), len(bags) + len(clip))))
        bags += [[vocabulary.index(w) for w in words_of(caption)] for caption in clip]
    pmi = word_pmi(bags, owners, len(vocabulary), PRIOR)
    for (w, u), value in expected.items():
        assert pmi[vocabulary.index(w), vocabulary.index(u)] == pytest.approx(value)


def test_what_goes_together_agrees():
    """'a crimson thing bounces' was never said, but its words were said of such clips."""
    videos, texts = records([*CLIPS, ['a crimson star hops', 'a star']])
    CaptionAgreement()(videos, texts)
    found = product(videos, texts)[-2]
    assert found[[0, 2]].min() > found[[1, 3, 5]].max()


def test_few_dimensions_are_the_best_of_their_rank():
    exact, near = ((*records(),) for _ in range(2))
    CaptionAgreement(dim=99)(*exact)
    CaptionAgreement(dim=4)(*near)
    assert near[1][0]['agreement'].shape == (4,) and len(exact[1][0]['agreement']) < 99
    error = np.abs(product(*near) - product(*exact)).mean()
    assert 1e-3 < error < 0.5


def test_frequent_words_are_known_and_texts_without_any_say_nothing():
    clips = [['star star hops', 'star hops'], ['a star', 'hops'], ['unheard', 'of']]
    videos, texts = records(clips)
    component = CaptionAgreement(words=2)
    component(videos, texts)
    assert sorted(component.known) == ['hops', 'star']
    assert not texts[-1]['agreement'].any() and not videos[-1]['agreement'].any()
    assert np.isfinite(product(videos, texts)).all()


@pytest.mark.parametrize(
    'wrong, message',
    [
        (dict(dim=0), 'CaptionAgreement: dim must be at least 1, not 0'),
        (dict(words=0), 'CaptionAgreement: words must be at least 1, not 0'),
        (dict(prior=0.0), 'CaptionAgreement: prior must be positive, not 0.0'),
    ],
)
def test_bad_arguments(wrong, message):
    with pytest.raises(ValueError, match=message):
        CaptionAgreement(**wrong)


def test_clips_of_one_caption_say_nothing():
    with pytest.raises(ValueError, match='no video has two captions'):
        CaptionAgreement()(*records([['a star'], ['a box']]))


class Captions(VideoTextDataset):
    def load_annotations(self):
        return records([clip for clip in CLIPS if clip])


def dataset(**how):
    def video(record):
        return dict(record, features=np.zeros((1, 2)))

    def text(record):
        return dict(record, token_ids=[1, 2])

    return Captions([video], [text], **how)


def test_from_the_dataset_to_the_target():
    data = dataset(agreement=dict(type='CaptionAgreement', prior=PRIOR), epoch_unit='text')
    samples = collate_retrieval([data[t] for t in (0, 4, 5)])['data_samples']
    target = annotated_target(samples, torch.device('cpu'))
    expected = agreement_by_loops([clip for clip in CLIPS if clip])[[0, 4, 5]]
    np.testing.assert_allclose(target.agreement, expected[:, [0, 1, 2]], atol=1e-5)
    plain = collate_retrieval([dataset()[0]])['data_samples']
    assert annotated_target(plain, torch.device('cpu')).agreement is None


def test_a_batch_of_broken_videos_has_empty_agreement():
    broken = dict(broken=('v1', 'cut short'), agreement=np.zeros(3, np.float32))
    samples = collate_retrieval([broken])['data_samples']
    assert samples['text_agreement'].shape == samples['video_agreement'].shape == (0, 3)
    target = annotated_target(samples, torch.device('cpu'))
    assert target.agreement.shape == (0, 0)
