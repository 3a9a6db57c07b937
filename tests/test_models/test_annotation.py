"""What a batch's ids and classes say of its pairs, against loops over sets."""

import pytest
import torch

from mmvtr.datasets import collate_retrieval
from mmvtr.models.annotation import JointIds, match, own_match

CPU = torch.device('cpu')


def video(v, verb, noun):
    classes = dict(verb=verb, noun=noun)
    return dict(video_idx=v, video_id=f'v{v}', frames=torch.zeros(1, 2), classes=classes)


def text(t, owners, verb, noun):
    tokens, classes = torch.zeros(1), dict(verb=verb, noun=noun)
    return dict(text_idx=t, text_id=f't{t}', tokens=tokens, video_idx=owners, classes=classes)


#: Video 4 twice, text 2 of two videos, one text of a video elsewhere; sets may be empty, may hold
#: a class twice, and verbs and nouns are numbered apart.
ITEMS = [
    dict(video=video(4, [1], [1, 2]), texts=[text(0, [4], [1], [2, 1]), text(1, [4], [1], [5])]),
    dict(video=video(7, [2, 1], []), texts=[text(2, [7, 4], [2], [])]),
    dict(broken=('v8', 'cut short'), classes=dict(verb=[1], noun=[1])),
    dict(video=video(4, [1], [1, 2]), texts=[text(3, [9], [1], [2, 2, 5])]),
    dict(video=video(3, [5], [2, 5, 9, 1]), texts=[text(4, [3], [5, 2], [9])]),
]


def halves(items):
    whole = [item for item in items if 'video' in item]
    return [text for item in whole for text in item['texts']], [item['video'] for item in whole]


def by_loops(items):
    """Positives, relevance and overlap, pair by pair."""
    texts, videos = halves(items)
    positives, relevance, overlap = (torch.zeros(len(texts), len(videos)) for _ in range(3))
    for t, text in enumerate(texts):
        for v, video in enumerate(videos):
            positives[t, v] = video['video_idx'] in text['video_idx']
            shares = []
            for kind in ('verb', 'noun'):
                a, b = set(text['classes'][kind]), set(video['classes'][kind])
                shares.append(len(a & b) / len(a | b) if a | b else 0.0)
            relevance[t, v], overlap[t, v] = sum(shares) / 2, all(shares)
    return positives.bool(), relevance, overlap.bool()


def test_classes_make_relevance_and_overlap():
    target = JointIds(collate_retrieval(ITEMS)['data_samples'], CPU).target()
    positives, relevance, overlap = by_loops(ITEMS)
    assert torch.equal(target.positives, positives)
    assert target.known.relevance.dtype == torch.float32
    torch.testing.assert_close(target.known.relevance, relevance)
    assert target.known.overlap.dtype == torch.bool and torch.equal(target.known.overlap, overlap)
    assert len(relevance.unique()) > 5 and (relevance[~overlap] > 0).any()
    assert (overlap & ~positives).any() and (positives & ~overlap).any()
    assert target.weights is target.margins is target.ambiguous is None


def test_without_classes():
    samples = collate_retrieval(ITEMS)['data_samples']
    expected = match(samples, CPU)
    for missing in (['text_classes'], ['video_classes'], ['text_classes', 'video_classes']):
        some = {name: x for name, x in samples.items() if name not in missing}
        target = JointIds(some, CPU).target()
        assert torch.equal(target.positives, expected)
        assert target.known.relevance is None and target.known.overlap is None


def test_an_oracle_tells_the_truth():
    """Text 0 is true of video 7, text 3 of both copies of video 4, text 4 of none here."""
    true = {0: [7, 4], 1: [4], 2: [4, 7, 9], 3: [9, 4], 4: [11]}
    items = [
        {**item, 'texts': [dict(x, true_videos=true[x['text_idx']]) for x in item['texts']]}
        if 'texts' in item
        else dict(item, true_videos=[8])
        for item in ITEMS
    ]
    target = JointIds(collate_retrieval(items)['data_samples'], CPU).target()
    _, videos = halves(items)
    expected = [[video['video_idx'] in true[t] for video in videos] for t in range(5)]
    assert target.known.truth.dtype == torch.bool and target.known.truth.tolist() == expected
    without = target._replace(known=target.known._replace(truth=None))
    plain = JointIds(collate_retrieval(ITEMS)['data_samples'], CPU).target()
    assert plain.known.truth is None
    assert torch.equal(without.positives, plain.positives)
    for field in ('relevance', 'overlap'):
        assert torch.equal(getattr(without.known, field), getattr(plain.known, field))


def test_own_pairs_are_all_pairs_of_one_process():
    samples = collate_retrieval(ITEMS)['data_samples']
    assert torch.equal(own_match(samples, CPU), by_loops(ITEMS)[0])


@pytest.mark.parametrize('known', [True, False], ids=['classes', 'no classes'])
def test_a_batch_of_broken_videos(known):
    broken = ITEMS[2] if known else dict(broken=ITEMS[2]['broken'])
    target = JointIds(collate_retrieval([broken] * 2)['data_samples'], CPU).target()
    assert target.positives.shape == (0, 0) and target.positives.dtype == torch.bool
    for matrix, dtype in (
        (target.known.relevance, torch.float32),
        (target.known.overlap, torch.bool),
    ):
        assert matrix.shape == (0, 0) and matrix.dtype == dtype if known else matrix is None


def test_pairs_are_those_of_the_matrix():
    torch.manual_seed(0)
    for texts, videos in ((7, 5), (3, 0), (0, 4), (1, 1), (40, 30)):
        samples = dict(
            video_idx=torch.randint(0, 6, (videos,)), text_videos=torch.randint(-1, 8, (texts, 3))
        )
        known = JointIds(samples, CPU)
        pairs, expected = known.pairs(), known.target().positives
        rows, columns = expected.nonzero(as_tuple=True)
        assert torch.equal(pairs.rows, rows) and torch.equal(pairs.columns, columns)
        assert pairs.shape == (texts, videos)
        part = known.target(slice(1, 3)).positives
        assert torch.equal(part, expected[1:3])
