"""Agreement of texts with the captions of clips, against counts by loops."""

import math

import numpy as np
import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from captioned import CLIPS, records, words_of

from mmvtr.datasets import collate_retrieval
from mmvtr.datasets.caption_similarity.caption_agreement import (
    CaptionAgreement,
    canonical_directions,
    caption_covariances,
    word_pmi,
)
from mmvtr.datasets.records import keep
from mmvtr.datasets.video_text import VideoTextDataset
from mmvtr.models.annotation import JointIds
from mmvtr.registry import TASK_UTILS

PRIOR = 0.4
#: The means of pmi alone, each word by the norm of its row.
MEANS = dict(canonical=0.0, rare=False)


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
    component = TASK_UTILS.build(dict(type='CaptionAgreement', prior=PRIOR, **MEANS))
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


def test_rare_words_weigh_more():
    videos, texts = records()
    CaptionAgreement(prior=PRIOR, canonical=0.0)(videos, texts)
    captions = [words_of(text['text']) for text in texts]
    pmi = pmi_by_loops(CLIPS)
    weight = {
        w: sum(x * x for (a, _), x in pmi.items() if a == w) ** 0.25
        * math.log((1 + len(captions)) / (1 + sum(w in caption for caption in captions)))
        for w, _ in pmi
    }

    def pair(one, other):
        of = [(w, u) for w in one for u in other]
        total = sum(weight[w] * weight[u] for w, u in of)
        return sum(weight[w] * weight[u] * pmi[w, u] for w, u in of) / total

    clips = [[words_of(caption) for caption in clip] for clip in CLIPS]
    rows = [[sum(pair(t, c) for c in clip) / max(len(clip), 1) for clip in clips] for t in captions]
    np.testing.assert_allclose(product(videos, texts), np.array(rows) / np.std(rows), atol=1e-5)


def draws(count=40):
    """Clips of two or three captions of a few words of one of four topics, and some of both."""
    draw = np.random.default_rng(0)
    topics = [['dog', 'runs', 'grass'], ['man', 'rides', 'bike'], ['girl', 'swims', 'pool'], ['a']]
    return [
        [
            ' '.join(draw.choice(topics[n % 3] + topics[3] + ['red', 'blue'], 3, replace=False))
            for _ in range(2 + n % 2)
        ]
        for n in range(count)
    ]


def test_directions_correlate_most():
    """Captions in pairs, both orders: the canonical correlations of scikit-learn, without noise."""
    cross = pytest.importorskip('sklearn.cross_decomposition')
    clips = [clip[:2] for clip in draws()]
    bags, owners = [], []
    vocabulary = sorted({w for clip in clips for caption in clip for w in words_of(caption)})
    for clip in clips:
        owners.append([len(bags), len(bags) + 1])
        bags += [[vocabulary.index(w) for w in words_of(caption)] for caption in clip]
    within, between, mean = caption_covariances(bags, owners, len(vocabulary))
    basis = canonical_directions(within, between, 1e-9, 2)
    rows = np.zeros((len(bags), len(vocabulary)))
    for row, bag in zip(rows, bags):
        row[bag] = len(bag) ** -0.5
    np.testing.assert_allclose(mean, rows.mean(0))
    np.testing.assert_allclose(within, np.cov(rows.T, ddof=0), atol=1e-12)
    found = np.linalg.norm((rows - mean) @ basis, axis=0) / len(rows) ** 0.5  # the correlations
    both = np.concatenate(
        [rows, rows.reshape(-1, 2, rows.shape[1])[:, ::-1].reshape(rows.shape)], 1
    )
    one, other = np.split(both, 2, axis=1)
    x, y = cross.CCA(2, max_iter=5000, tol=1e-12).fit_transform(one, other)
    expected = [np.corrcoef(a, b)[0, 1] for a, b in zip(x.T, y.T)]
    np.testing.assert_allclose(found, expected, atol=1e-3)


def test_whole_captions_count_in_deviations():
    parts = {}
    for canonical in (0.0, 0.5):
        videos, texts = records(draws())
        CaptionAgreement(canonical=canonical, dim=5)(videos, texts)
        parts[canonical] = videos, texts
    (means, texts), (videos, joined) = parts[0.0], parts[0.5]
    width = len(means[0]['agreement'])
    assert len(videos[0]['agreement']) == 2 * width == 10
    both = product(videos, joined)
    assert both.std() == pytest.approx(1, abs=1e-5)
    first, second = (
        np.stack([t['agreement'][cut] for t in joined])
        @ np.stack([v['agreement'][cut] for v in videos]).T
        for cut in (slice(width), slice(width, None))
    )
    assert second.std() / first.std() == pytest.approx(0.5, abs=1e-5)
    np.testing.assert_allclose(first / first.std(), product(means, texts), atol=1e-4)


def test_what_goes_together_agrees():
    """No other clip has 'a crimson star hops', but its words are said of the first and third."""
    videos, texts = records([*CLIPS, ['a crimson star hops', 'a star']])
    CaptionAgreement()(videos, texts)
    found = product(videos, texts)[-2]
    assert found[[0, 2]].min() > found[[1, 3, 5]].max()


def test_the_largest_eigenvalues_are_kept():
    errors = []
    exact = records()
    CaptionAgreement(dim=99, **MEANS)(*exact)
    words = len(exact[1][0]['agreement'])
    assert words < 99
    for dim in (1, 3, 6, words):
        near = records()
        CaptionAgreement(dim=dim, **MEANS)(*near)
        assert near[1][0]['agreement'].shape == (dim,)
        errors.append(np.abs(product(*near) - product(*exact)).mean())
    assert errors[0] > errors[1] > errors[2] > errors[3] and errors[3] < 1e-5
    assert errors[2] < 0.05


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
        (dict(dim=0), 'dim must be at least 1, not 0'),
        (dict(words=0), 'words must be at least 1, not 0'),
        (dict(prior=0.0), 'prior must be positive, not 0.0'),
        (dict(ridge=0.0), 'ridge must be positive, not 0.0'),
        (dict(canonical=-1.0), 'canonical must be at least 0, not -1.0'),
    ],
)
def test_bad_arguments(wrong, message):
    with pytest.raises(ValueError, match=message):
        CaptionAgreement(**wrong)


def test_clips_of_one_caption_say_nothing():
    with pytest.raises(ValueError, match='none of 2 videos has two captions'):
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


def test_a_text_of_two_videos_is_a_caption_of_both():
    videos, texts = records()
    texts[3]['video_idx'] = [1, 3]
    CaptionAgreement(prior=PRIOR, **MEANS)(videos, texts)
    clips = [list(clip) for clip in CLIPS]
    clips[3].insert(0, CLIPS[1][0])
    twice = agreement_by_loops(clips)
    row = [n for n in range(len(twice)) if n != 7]  # the copy: after 3 + 2 + 2 texts
    found = product(videos, texts)
    # The deviation is over other rows: compare up to the unit.
    np.testing.assert_allclose(found / found.std(), twice[row] / twice[row].std(), atol=1e-5)


def test_clips_that_leave_do_not_count():
    def first_three(videos, texts):
        return keep(videos, texts, range(3))

    witness = dict(type='CaptionAgreement', prior=PRIOR, **MEANS)
    for parts in (
        dict(first=first_three, agreement=witness),
        dict(agreement=witness, first=first_three),
    ):
        data = dataset(records=parts)
        found = product(data.videos, data.texts)
        np.testing.assert_allclose(found, agreement_by_loops(CLIPS[:3]), atol=1e-5)


def test_in_half_precision_the_product_is_exact():
    data = dataset(records=dict(agreement=dict(type='CaptionAgreement')))
    samples = collate_retrieval([data[t] for t in range(5)])['data_samples']
    expected = JointIds(samples, torch.device('cpu')).target().known.agreement
    with torch.autocast('cpu', torch.bfloat16):
        found = JointIds(samples, torch.device('cpu')).target().known.agreement
    assert found.dtype == torch.float32 and torch.equal(found, expected)


def vectors_worker(rank, folder):
    """Rank 1 is another machine: its eigenvectors have other signs."""
    dist.init_process_group('gloo', init_method=f'file://{folder}/store', rank=rank, world_size=2)
    if rank:
        real = np.linalg.eigh
        np.linalg.eigh = lambda matrix: (real(matrix)[0], -real(matrix)[1])
    videos, texts = records()
    CaptionAgreement()(videos, texts)
    np.save(f'{folder}/rank{rank}.npy', np.stack([x['agreement'] for x in (*texts, *videos)]))
    dist.destroy_process_group()


def test_processes_have_the_same_vectors(tmp_path):
    mp.start_processes(vectors_worker, (str(tmp_path),), nprocs=2, start_method='forkserver')
    first, second = (np.load(tmp_path / f'rank{rank}.npy') for rank in (0, 1))
    np.testing.assert_array_equal(first, second)
    assert np.abs(first).sum() > 1


def test_from_the_dataset_to_the_target():
    witness = dict(type='CaptionAgreement', prior=PRIOR, **MEANS)
    data = dataset(records=dict(agreement=witness), epoch_unit='text')
    samples = collate_retrieval([data[t] for t in (0, 4, 5)])['data_samples']
    target = JointIds(samples, torch.device('cpu')).target()
    expected = agreement_by_loops([clip for clip in CLIPS if clip])[[0, 4, 5]]
    np.testing.assert_allclose(target.known.agreement, expected[:, [0, 1, 2]], atol=1e-5)
    plain = collate_retrieval([dataset()[0]])['data_samples']
    assert JointIds(plain, torch.device('cpu')).target().known.agreement is None


def test_a_batch_of_broken_videos_has_empty_agreement():
    broken = dict(broken=('v1', 'cut short'), agreement=np.zeros(3, np.float32))
    samples = collate_retrieval([broken])['data_samples']
    assert samples['text_agreement'].shape == samples['video_agreement'].shape == (0, 3)
    target = JointIds(samples, torch.device('cpu')).target()
    assert target.known.agreement.shape == (0, 0)
