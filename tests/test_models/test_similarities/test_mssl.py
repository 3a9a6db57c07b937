"""MS-SL: the official network's outputs, and its scores against loops over pairs and proposals."""

import numpy as np
import pytest
import torch

from mmvtr.models import MSSLEncoder
from mmvtr.models.similarities.mssl import MSSLSimilarity
from mmvtr.structures import Embedding

T, V, F, D = 4, 3, 5, 6

#: Official name -> ours, replaced in this order.
NAMES = {
    'query_': 'words.',
    'clip_': 'clip.',
    'frame_': 'frame.',
    'pos_embed.position_embeddings': 'position',
    'pos_embed.LayerNorm': 'position_norm',
    'input_proj.LayerNorm': 'project.0',
    'input_proj.net.1': 'project.2',
    'encoder.self.': 'blocks.0.',
    'encoder.output.dense': 'blocks.0.output',
    'encoder.output.LayerNorm': 'blocks.0.norm',
    'modular_vector_mapping': 'word_pooling.score',
    'mapping_linear.0': 'key',
    'mapping_linear.1': 'value',
}


def official_weights(golden):
    """Those of our encoder and those of our similarity."""
    encoder, similarity = {}, {}
    for key in golden.files:
        if key.startswith('state/'):
            name = key.removeprefix('state/')
            for theirs, ours in NAMES.items():
                name = name.replace(theirs, ours, 1)
            weight = torch.from_numpy(golden[key])
            if name == 'clip.position.weight':
                weight = weight[:4]  # theirs has a row for each frame; only those of clips are read
            (similarity if name.startswith(('key', 'value')) else encoder)[name] = weight
    return encoder, similarity


@pytest.mark.parametrize('entries', [1, 2**24])
def test_the_official_network(shared, entries):
    golden = np.load(shared / 'golden/mssl.npz')
    clips, frames, words = (torch.from_numpy(golden[k]) for k in ('clip', 'frame', 'query'))
    mask, word_mask = (torch.from_numpy(golden[k]) > 0 for k in ('frame_mask', 'query_mask'))
    assert not mask.all() and not word_mask.all()
    encoder = MSSLEncoder(
        dict(type='FeatureFrames', in_dim=12),
        dict(type='FeatureWords', in_dim=10),
        dim=16,
        clips=4,
        max_frames=9,
        max_words=6,
    ).eval()
    similarity = MSSLSimilarity(dim=16, clips=4, entries=entries)
    for module, weights in zip((encoder, similarity), official_weights(golden)):
        module.load_state_dict(weights)
    videos, texts = (
        encoder.branch_levels(clips, frames, mask),
        encoder.encode_text(words, word_mask),
    )
    matrices, gallery = similarity(texts, videos), similarity.gallery(videos)

    def check(ours, name):
        np.testing.assert_allclose(ours.detach().numpy(), golden[name], atol=1e-5, err_msg=name)

    check(texts['clip'].mean, 'query_emb')
    check(similarity.pooling @ videos['clip'].tokens, 'proposal_map')
    valid = mask.numpy()
    got, expected = videos['frame'].tokens.detach().numpy(), golden['encoded_frame']
    np.testing.assert_allclose(got[valid], expected[valid], atol=1e-5)
    for name in ('clip_scores', 'infer_clip_scores'):
        check(matrices['clip'], name)
    check(matrices['clip_dot'], 'clip_scores_raw')
    check(matrices['frame'], 'infer_frame_scores')
    fused = 0.7 * golden['infer_clip_scores'] + 0.3 * golden['infer_frame_scores']
    for scores in (matrices['scores'], similarity.search(texts, gallery)):
        np.testing.assert_allclose(scores.detach().numpy(), fused, atol=1e-5)
    # In training the code compares all queries with what each query's own video shows it.
    own, row = torch.from_numpy(golden['labels']), torch.arange(9)
    queries = texts['clip'].mean
    proposals = similarity.pooling @ videos['clip'].tokens
    best = torch.einsum('td,vpd->tvp', queries, proposals / proposals.norm(dim=-1, keepdim=True))
    shown = gallery.attended[own, best.argmax(-1)[row, own]]
    raw = queries @ shown.t()
    check(raw / (queries.norm(dim=1)[:, None] * shown.norm(dim=1)), 'frame_scores')
    check(raw, 'frame_scores_raw')
    torch.testing.assert_close(matrices['frame_dot'][row, own], raw.diagonal())


# -- scores against loops ----------------------------------------------------------------------


def similarity(seed=0, **kwargs):
    torch.manual_seed(seed)
    module = MSSLSimilarity(dim=D, clips=4, **kwargs).double()
    for linear in (module.key, module.value):
        torch.nn.init.normal_(linear.weight)
    return module


def levels(seed=1):
    """Texts, and videos with frames that padding would outdo."""
    torch.manual_seed(seed)
    query = torch.randn(T, D).double() * 2
    clips, frames = torch.randn(V, 4, D).double(), torch.randn(V, F, D).double()
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 0, 1, 0, 0], [0, 0, 0, 1, 0]]).bool()
    frames[~mask] = 50.0
    every = torch.ones(V, 4, dtype=torch.bool)
    texts = dict.fromkeys(('clip', 'frame'), Embedding(query))
    return texts, {
        'clip': Embedding(clips.mean(1), clips, every),
        'frame': Embedding(frames.mean(1), frames, mask),
    }


def cosine(a, b):
    return a @ b / (a.norm() * b.norm())


def pair(module, query, clips, frames):
    """One text and one video, proposal by proposal and frame by frame; and the best proposal."""
    spans = [(i, i + n) for n in range(1, 5) for i in range(5 - n)]
    proposals = [clips[a:b].mean(0) for a, b in spans]
    cosines = [cosine(query, p) for p in proposals]
    best = max(range(len(spans)), key=lambda i: float(cosines[i].detach()))
    weight = torch.stack([(module.key(f) @ proposals[best]).exp() for f in frames])
    shown = sum(w * module.value(f) for w, f in zip(weight / weight.sum(), frames))
    return dict(
        clip=cosines[best],
        frame=cosine(query, shown),
        clip_dot=max((query @ p for p in proposals), key=lambda x: float(x.detach())),
        frame_dot=query @ shown,
        span=torch.tensor(spans[best]) / 4,
    )


def loops(module, texts, videos):
    clips, (_, frames, mask, _) = videos['clip'].tokens, videos['frame']
    pairs = [
        [pair(module, q, clips[v], frames[v][mask[v]]) for v in range(V)]
        for q in texts['clip'].mean
    ]
    return {
        key: torch.stack([torch.stack([p[key] for p in row]) for row in pairs])
        for key in pairs[0][0]
    }


@pytest.mark.parametrize('entries', [1, 150, 2**24])
def test_scores_against_loops(entries):
    module = similarity(entries=entries, weights=(3, 1))
    texts, videos = levels()
    expected = loops(module, texts, videos)
    span = expected.pop('span')
    expected['scores'] = 0.75 * expected['clip'] + 0.25 * expected['frame']
    matrices = module(texts, videos)
    assert set(matrices) == set(expected)
    for name, matrix in expected.items():
        torch.testing.assert_close(matrices[name], matrix, msg=name)
    found = module.search(texts, module.gallery(videos))
    torch.testing.assert_close(found, expected['scores'])
    torch.testing.assert_close(module.matched_spans(texts, videos), span)
    assert len({tuple(x) for x in span.flatten(0, 1).tolist()}) > 3  # proposals differ by pair


def test_gradients_against_loops():
    module = similarity(entries=150)
    texts, videos = levels()
    leaves = [texts['clip'].mean, videos['clip'].tokens, videos['frame'].tokens]
    for leaf in leaves:
        leaf.requires_grad_()
    leaves += module.parameters()
    names = ('clip', 'frame', 'clip_dot', 'frame_dot')
    mix = torch.randn(4, T, V).double()
    grads = [
        torch.autograd.grad((torch.stack([m[n] for n in names]) * mix).sum(), leaves)
        for m in (module(texts, videos), loops(module, texts, videos))
    ]
    for a, b in zip(*grads):
        torch.testing.assert_close(a, b)
        assert a.any()


def test_memory_is_bounded_by_entries(monkeypatch):
    module = similarity(entries=10 * (T + F + D) * 2)  # 10 proposals: two videos a tile
    widths = []
    compare = module._compare
    monkeypatch.setattr(
        module, '_compare', lambda q, g: widths.append(len(g.clips)) or compare(q, g)
    )
    module(*levels())
    assert widths == [2, 1]


def test_nothing_to_score():
    module = similarity()
    texts, videos = levels()
    none = {name: level.map(lambda x: x[:0]) for name, level in videos.items()}
    bare = {  # as a batch whose videos are all broken has it: one token of nothing
        name: Embedding(torch.zeros(0, D), torch.zeros(0, 1, D), torch.zeros(0, 1).bool())
        for name in none
    }
    for empty in (none, {name: e.map(lambda x: x.double()) for name, e in bare.items()}):
        empty['frame'] = empty['frame']._replace(mask=empty['frame'].mask.bool())
        for matrix in module(texts, empty).values():
            assert matrix.shape == (T, 0)
    some = {name: level.map(lambda x: x[:0]) for name, level in texts.items()}
    assert all(matrix.shape == (0, V) for matrix in module(some, videos).values())


def test_bad_input():
    module = similarity()
    texts, videos = levels()
    with pytest.raises(ValueError, match="level 'frame' of the videos carries no tokens"):
        module(texts, {**videos, 'frame': videos['frame'].global_only()})
    _, clips, every, _ = videos['clip']
    three = Embedding(clips[:, 0], clips[:, :3], every[:, :3])
    with pytest.raises(ValueError, match='takes 4 clips per video, the encoder gives 3'):
        module.gallery({**videos, 'clip': three})
    frames = videos['frame']
    frames = frames._replace(mask=frames.mask & torch.tensor([[True], [False], [True]]))
    with pytest.raises(ValueError, match='mask of frames of item 1 of the batch is all False'):
        module(texts, {**videos, 'frame': frames})
    for weights in ((1,), (1, -1)):
        with pytest.raises(ValueError, match=r'two weights \(clip, frame\) with a positive sum'):
            similarity(weights=weights)
