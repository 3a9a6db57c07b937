"""Scores by the best frame against loops in float64; two branches; vectors for an index."""

import pytest
import torch
import torch.nn.functional as F

from mmvtr.models.similarities.best_frame import BestFrameSimilarity
from mmvtr.structures import Embedding

T, V, L, D = 5, 4, 6, 3


def levels(*names, seed=0, dtype=torch.float64):
    """Texts, and videos whose padding would win every maximum; masks have holes."""
    torch.manual_seed(seed)
    mask = torch.rand(V, L) < 0.6
    mask[:, 2] = True
    mask[1] = torch.arange(L) == 2
    texts, videos = {}, {}
    for name in names:
        tokens = torch.randn(V, L, D, dtype=dtype) * 3
        query = torch.randn(T, D, dtype=dtype)
        tokens[~mask] = query[0] * 100
        texts[name] = Embedding(query)
        videos[name] = Embedding(tokens.mean(1), tokens, mask)
    return texts, videos


def cosine(a, b):
    return a @ b / (a.norm() * b.norm())


def each_pair(texts, videos, name, compare):
    """The list of values of a pair's valid frames, for each text and each video."""
    _, frames, mask, _ = videos[name]
    return [
        [[compare(q, frames[v, k]) for k in mask[v].nonzero().flatten()] for v in range(V)]
        for q in texts[name].mean
    ]


def maxima(values):
    return torch.tensor([[max(pair) for pair in row] for row in values], dtype=torch.float64)


@pytest.mark.parametrize('entries', [1, 2**22])
def test_one_level_against_loops(entries):
    texts, videos = levels('global')
    similarity = BestFrameSimilarity(dots=True, entries=entries)
    matrices = similarity(texts, videos)
    assert set(matrices) == {'global', 'global_dot', 'scores'}
    expected = maxima(each_pair(texts, videos, 'global', cosine))
    torch.testing.assert_close(matrices['scores'], expected)
    assert torch.equal(matrices['global'], matrices['scores'])
    expected = maxima(each_pair(texts, videos, 'global', torch.dot))
    torch.testing.assert_close(matrices['global_dot'], expected)
    assert set(BestFrameSimilarity()(texts, videos)) == {'global', 'scores'}


@pytest.mark.parametrize('entries', [1, 2**22])
def test_two_branches_against_loops(entries):
    texts, videos = levels('a', 'b')
    similarity = BestFrameSimilarity(levels=('a', 'b'), weights=(3, 1), entries=entries)
    one_frame = BestFrameSimilarity(
        levels=('a', 'b'), weights=(3, 1), shared_frame=True, entries=entries
    )
    a, b = (each_pair(texts, videos, name, cosine) for name in 'ab')
    both = [
        [[0.75 * x + 0.25 * y for x, y in zip(*pair)] for pair in zip(*rows)] for rows in zip(a, b)
    ]
    means, shared = 0.75 * maxima(a) + 0.25 * maxima(b), maxima(both)
    assert (shared < means - 1e-3).any() and (shared <= means).all()
    torch.testing.assert_close(similarity(texts, videos)['scores'], means)
    matrices = one_frame(texts, videos)
    torch.testing.assert_close(matrices['scores'], shared)
    torch.testing.assert_close(matrices['a'], maxima(a))
    same = torch.tensor(
        [[x.index(max(x)) == y.index(max(y)) for x, y in zip(*rows)] for rows in zip(a, b)]
    )
    assert same.any() and not same.all()
    torch.testing.assert_close(shared[same], means[same])  # equal where they agree on a frame
    # The frame to jump to is the same for both: that of the largest mean cosine.
    places = [videos['a'].mask[v].nonzero().flatten() for v in range(V)]
    best = [[int(p[x.index(max(x))]) for p, x in zip(places, row)] for row in both]
    for chosen in (similarity, one_frame):
        found = chosen.matched_frames(texts, videos)
        assert found.dtype == torch.long and found.tolist() == best
        scores = chosen.frame_scores(texts, videos)
        for v, place in enumerate(places):
            expected = torch.tensor([row[v] for row in both], dtype=scores.dtype)
            torch.testing.assert_close(scores[:, v, place], expected)
        assert scores.isfinite().equal(videos['a'].mask.expand_as(scores))
    for name, chosen, expected in (('means', similarity, means), ('one', one_frame, shared)):
        found = chosen.search(texts, chosen.gallery(videos))
        torch.testing.assert_close(found, expected, msg=name)


def test_spans_count_valid_frames_only():
    tokens = torch.eye(4, dtype=torch.float64)[None]
    mask = torch.tensor([[True, False, True, True]])
    videos = dict(level=Embedding(tokens.mean(1), tokens, mask))
    texts = dict(
        level=Embedding(torch.tensor([[0.0, 9, 1, 0], [1, 9, 0, 0], [0, 0, 0, 1]]).double())
    )
    similarity = BestFrameSimilarity(levels=('level',))
    assert similarity.matched_frames(texts, videos).tolist() == [[2], [0], [3]]
    spans = similarity.matched_spans(texts, videos)
    torch.testing.assert_close(spans[:, 0] * 3, torch.tensor([[1.0, 2], [0, 1], [2, 3]]))


@pytest.mark.parametrize('entries', [1, 2**22])
def test_chosen_pairs_match_where_all_pairs_do(entries):
    texts, videos = levels('a', 'b')
    similarity = BestFrameSimilarity(levels=('a', 'b'), weights=(3, 1), entries=entries)
    rows, columns = torch.tensor([4, 0, 4, 2, 4, 1]), torch.tensor([1, 3, 0, 3, 2, 3])
    frame, span = similarity.paired_matches(texts, videos, rows, columns)
    index = similarity.matched_frames(texts, videos)[rows, columns]
    mask = videos['a'].mask
    before = [int(mask[v, :k].sum()) for v, k in zip(columns.tolist(), index.tolist())]
    assert frame.tolist() == before != index.tolist()  # masks have holes
    torch.testing.assert_close(
        span, similarity.matched_spans(texts, videos)[rows, columns].double(), atol=1e-6, rtol=0
    )
    frame, span = similarity.paired_matches(texts, videos, rows[:0], columns[:0])
    assert frame.shape == (0,) and span.shape == (0, 2)


def test_a_level_of_one_token_is_exact_as_one_vector_a_frame():
    """GMMFormer: 32 clips and one vector of all frames."""
    texts, videos = levels('clip', 'frame')
    vector = videos['frame'].mean
    one = torch.ones(V, 1, dtype=torch.bool)
    videos['frame'] = Embedding(vector, vector[:, None], one)
    similarity = BestFrameSimilarity(levels=('clip', 'frame'), weights=(0.7, 0.3), dots=True)
    matrices = similarity(texts, videos)
    clips = maxima(each_pair(texts, videos, 'clip', cosine))
    frames = torch.stack([torch.stack([cosine(q, v) for v in vector]) for q in texts['frame'].mean])
    torch.testing.assert_close(matrices['frame'], frames)
    torch.testing.assert_close(matrices['frame_dot'], texts['frame'].mean @ vector.t())
    torch.testing.assert_close(matrices['scores'], 0.7 * clips + 0.3 * frames)
    flat, mask = similarity.flat_frames(videos)
    products = torch.einsum('td,vld->tvl', similarity.flat_texts(texts), flat)
    best = products.masked_fill(~mask, -9).max(-1)
    torch.testing.assert_close(best.values, matrices['scores'])
    assert torch.equal(best.indices, similarity.matched_frames(texts, videos))
    found = similarity.search(texts, similarity.gallery(videos))
    torch.testing.assert_close(found, matrices['scores'])


def test_vectors_for_an_index_of_two_branches():
    texts, videos = levels('a', 'b')
    similarity = BestFrameSimilarity(levels=('a', 'b'))
    with pytest.raises(ValueError, match=r"means of the maxima of \['a', 'b'\].*shared_frame=True"):
        similarity.flat_frames(videos)
    similarity.shared_frame = True
    flat, mask = similarity.flat_frames(videos)
    products = torch.einsum('td,vld->tvl', similarity.flat_texts(texts), flat)
    scores = products.masked_fill(~mask, -9).amax(-1)
    torch.testing.assert_close(scores, similarity(texts, videos)['scores'])


def test_gradients_are_those_of_the_plain_form():
    texts, videos = levels('a', 'b')
    leaves = [texts['a'].mean, texts['b'].mean, videos['a'].tokens, videos['b'].tokens]
    for leaf in leaves:
        leaf.requires_grad_()
    mix = torch.randn(3, T, V).double()
    matrices = BestFrameSimilarity(levels=('a', 'b'), dots=True)(texts, videos)
    got = [matrices['scores'], matrices['a_dot'], matrices['b_dot']]
    plain = []
    for name in 'ab':
        q, (_, f, mask, _) = texts[name].mean, videos[name]
        for x, y in ((F.normalize(q, dim=-1), F.normalize(f, dim=-1)), (q, f)):
            plain.append(torch.einsum('td,vld->tvl', x, y).masked_fill(~mask, -99).amax(-1))
    expected = [(plain[0] + plain[2]) / 2, plain[1], plain[3]]
    grads = [
        torch.autograd.grad((torch.stack(values) * mix).sum(), leaves) for values in (got, expected)
    ]
    for a, b in zip(*grads):
        torch.testing.assert_close(a, b)
        assert a.any()
    assert not grads[0][2][~videos['a'].mask].any()  # none at padding


def test_half_precision_and_nothing():
    texts, videos = levels('global', dtype=torch.float32)
    similarity = BestFrameSimilarity(dots=True)
    exact = similarity(texts, videos)
    half = [
        {'global': side['global'].map(lambda x: x.half() if x.is_floating_point() else x)}
        for side in (texts, videos)
    ]
    for name, matrix in similarity(*half).items():
        assert matrix.dtype == torch.float32
        torch.testing.assert_close(matrix, exact[name], atol=0.02, rtol=0.01)
    for t, v in ((0, V), (T, 0), (0, 0)):
        some = [
            {'global': side['global'].map(lambda x, n=n: x[:n])}
            for side, n in zip((texts, videos), (t, v))
        ]
        assert all(matrix.shape == (t, v) for matrix in similarity(*some).values())


def test_bad_input():
    texts, videos = levels('a', 'b')
    bare = {name: level.global_only() for name, level in videos.items()}
    similarity = BestFrameSimilarity(levels=('a', 'b'))
    for function in (similarity, similarity.matched_frames):
        with pytest.raises(ValueError, match="level 'a' of the videos carries no tokens"):
            function(texts, bare)
    _, tokens, mask, _ = videos['b']
    shorter = {**videos, 'b': Embedding(tokens[:, 0], tokens[:, 2:], mask[:, 2:])}
    with pytest.raises(
        ValueError, match="the same number of frames to share a frame, got {'a': 6, 'b': 4}"
    ):
        similarity.matched_frames(texts, shorter)
    assert similarity(texts, shorter)['scores'].shape == (T, V)  # two maxima need no common frame
    empty = {**videos, 'a': videos['a']._replace(mask=mask & (torch.arange(V) != 2)[:, None])}
    with pytest.raises(ValueError, match='video 2 has no valid frame'):
        similarity(texts, empty)
    for weights in ((1,), (1, -1)):
        with pytest.raises(ValueError, match='one weight per level expected, with a positive sum'):
            BestFrameSimilarity(levels=('a', 'b'), weights=weights)
