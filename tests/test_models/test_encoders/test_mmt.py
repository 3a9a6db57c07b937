"""MMT: its scores against loops over experts, its transformer against one written out by hand."""

import logging
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from mmvtr.datasets import VideoTextDataset, collate_retrieval
from mmvtr.engine.hooks.query_queue import QueryQueueHook
from mmvtr.engine.hooks.score_transforms import SinkhornHook
from mmvtr.engine.loops.evaluation import Encoded, Evaluation
from mmvtr.functional.transforms.score_transforms import sinkhorn_scores
from mmvtr.models import MMTEncoder
from mmvtr.models.data_preprocessor import pad
from mmvtr.models.layers.experts import LOG_FLOOR
from mmvtr.models.layers.pooling import empty_levels
from mmvtr.models.similarities.mmt import ExpertSimilarity
from mmvtr.models.target import Target
from mmvtr.registry import MODELS
from mmvtr.structures import Embedding, Relation

WIDTHS = dict(motion=5, audio=3, speech=2)  # by name: audio 0, motion 1, speech 2
T, V, E, D = 4, 3, 3, 8
THERE = torch.tensor([[1, 1, 1], [0, 1, 0], [1, 0, 1]]).bool()


def encoder(seed=0, **kwargs):
    torch.manual_seed(seed)
    settings = dict(experts=WIDTHS, dim=D, layers=2, heads=2, feedforward=12, max_seconds=6)
    model = MMTEncoder(dict(type='FeatureWords', in_dim=7), **{**settings, **kwargs})
    for parameter in model.parameters():  # those that start at zero or as unit matrices, too
        nn.init.normal_(parameter, std=0.5)
    return model.double().eval()


#: Of each video: the expert, the second and the features of each row.
def rows(seed=1):
    generator = torch.Generator().manual_seed(seed)
    tags = [
        [(0, 0), (0, 1), (1, 2), (2, -1), (2, -1), (1, 5)],
        [(1, 0), (1, 3)],
        [(2, -1), (0, 4), (0, 4)],
    ]
    width = list(dict(sorted(WIDTHS.items())).values())
    return [
        [(e, s, torch.randn(width[e], generator=generator, dtype=torch.float64)) for e, s in video]
        for video in tags
    ]


def batch(videos, junk=0.0, spare=2):
    """What the preprocessor makes of them; ``junk`` stands wherever nothing is to be read."""
    longest = max(map(len, videos))
    video = torch.full((len(videos), longest, 5), junk, dtype=torch.float64)
    mask = torch.zeros(len(videos), longest, dtype=torch.bool)
    expert, second = (torch.full((len(videos), longest + spare), -1) for _ in range(2))
    for v, own in enumerate(videos):
        for f, (e, s, x) in enumerate(own):
            video[v, f, : len(x)], mask[v, f] = x, True
            expert[v, f], second[v, f] = e, s
    return dict(video=video, frame_mask=mask, expert=expert, second=second)


def texts(seed=2):
    torch.manual_seed(seed)
    return torch.randn(T, 5, 7).double(), torch.arange(5) < torch.tensor([5, 1, 3, 2])[:, None]


# -- the similarity ----------------------------------------------------------------------------


def tokens(seed=3, junk=0.0):
    """Unit vectors of texts and videos, weights of texts; ``junk`` of missing experts."""
    torch.manual_seed(seed)
    phi, psi = (nn.functional.normalize(torch.randn(n, E, D).double(), dim=-1) for n in (T, V))
    psi[~THERE] = junk
    return phi, torch.randn(T, E).double().softmax(-1), psi


def levels(phi, weights, psi, there=THERE):
    every = torch.ones(phi.shape[:2], dtype=torch.bool)
    words = weights[..., None] * phi
    return (
        {'global': Embedding(words.sum(1), words, every)},
        {'global': Embedding(psi.sum(1), psi, there)},
    )


def loops(phi, weights, psi):
    scores = torch.zeros(T, V, dtype=torch.float64)
    for t in range(T):
        for v in range(V):
            there = [e for e in range(E) if THERE[v, e]]
            total = sum(weights[t, e] for e in there)
            scores[t, v] = sum(weights[t, e] / total * (phi[t, e] @ psi[v, e]) for e in there)
    return scores


@pytest.mark.parametrize('junk', [0.0, 1e6, math.nan])
def test_scores_are_those_of_loops_whatever_a_missing_expert_says(junk):
    phi, weights, psi = tokens(junk=junk)
    found = MODELS.build(dict(type='ExpertSimilarity'))(*levels(phi, weights, psi))
    torch.testing.assert_close(found['scores'], loops(phi, weights, psi), rtol=1e-12, atol=1e-12)
    cosine = phi[:, 1] @ psi[1, 1]  # of video 1 there is one expert: its weight is no matter
    torch.testing.assert_close(found['scores'][:, 1], cosine)


def test_scores_do_not_depend_on_the_order_of_experts_or_the_scale_of_weights():
    phi, weights, psi = tokens()
    similarity, order = ExpertSimilarity(), torch.tensor([2, 0, 1])
    expected = similarity(*levels(phi, weights, psi))['scores']
    shuffled = levels(phi[:, order], weights[:, order], psi[:, order], THERE[:, order])
    torch.testing.assert_close(similarity(*shuffled)['scores'], expected)
    scaled = levels(phi, weights * torch.tensor([[9.0], [1], [0.1], [3]]), psi)
    torch.testing.assert_close(similarity(*scaled)['scores'], expected)


def test_gradient_of_scores():
    phi, weights, psi = tokens()

    def scores(words, vectors):
        text, video = levels(phi, weights, psi)
        text = {'global': text['global']._replace(tokens=words)}
        return ExpertSimilarity()(text, {'global': video['global']._replace(tokens=vectors)})[
            'scores'
        ]

    words, vectors = (weights[..., None] * phi).requires_grad_(), psi.requires_grad_()
    assert torch.autograd.gradcheck(scores, (words, vectors))
    scores(words, vectors).sum().backward()
    assert (vectors.grad[~THERE] == 0).all() and (vectors.grad[THERE] != 0).all()


def test_half_precision_is_scored_in_float32():
    parts = [x.to(torch.bfloat16) for x in tokens()]
    with torch.autocast('cpu', torch.bfloat16):
        found = ExpertSimilarity()(*levels(*parts))['scores']
    assert found.dtype == torch.float32
    text, video = levels(*parts)
    wide = [
        {'global': side['global']._replace(tokens=side['global'].tokens.float())}
        for side in (text, video)
    ]
    torch.testing.assert_close(found, ExpertSimilarity()(*wide)['scores'])


def test_similarity_refuses():
    text, video = levels(*tokens())
    similarity = ExpertSimilarity()
    bare = {'global': text['global'].global_only()}
    with pytest.raises(ValueError, match="level 'global' of the texts carries no tokens"):
        similarity(bare, video)
    fewer = {'global': video['global']._replace(tokens=video['global'].tokens[:, :2])}
    with pytest.raises(ValueError, match='texts have 3 experts of 8 dimensions, videos 2 of 8'):
        similarity(text, fewer)
    nobody = THERE.clone()
    nobody[2] = False
    with pytest.raises(ValueError, match='experts of item 2 of the batch is all False'):
        similarity(text, {'global': video['global']._replace(mask=nobody)})


def test_the_train_queue_keeps_experts():
    """NCL over MMT: queries of the queue are scored as any other, expert by expert."""
    phi, weights, psi = (x.float() for x in tokens())
    bank_phi, bank_weights, bank_psi = (x.float() for x in tokens(seed=4))
    model = SimpleNamespace(similarity=ExpertSimilarity(), temperature=None)
    hook = QueryQueueHook(size=T)
    hook._similarity = model.similarity
    number = torch.arange(T)
    samples = dict(text_idx=number, text_videos=number[:, None] % V, video_idx=torch.arange(V))
    hook.push(*levels(bank_phi, bank_weights, bank_psi), samples)
    texts, videos = levels(phi, weights, psi)
    scores = model.similarity(texts, videos)['scores']
    encoded = [
        Encoded(torch.arange(count), [str(i) for i in range(count)], side, None)
        for count, side in ((T, texts), (V, videos))
    ]
    matrices = {'scores': scores, 'temperature': torch.tensor(1.0)}
    relation = Relation(torch.eye(T, V).bool())
    evaluation = Evaluation(model, torch.device('cpu'), *encoded, matrices, relation)
    runner = SimpleNamespace(hooks=[hook], logger=logging.getLogger('mmt'))
    SinkhornHook(queries='train_queue', temperature=0.07).after_scoring(runner, evaluation)
    bank_texts, bank_videos = levels(bank_phi, bank_weights, bank_psi)
    t2v = sinkhorn_scores(
        scores, model.similarity(bank_texts, videos)['scores'], temperature=0.07, iterations=4
    )
    of_bank = model.similarity(texts, bank_videos)['scores'].t()
    v2t = sinkhorn_scores(scores.t(), of_bank, temperature=0.07, iterations=4)
    found = evaluation.transformed['sinkhorn']  # with biases of mean 0
    torch.testing.assert_close(found.t2v, t2v - (t2v - scores).mean())
    torch.testing.assert_close(found.v2t, v2t.t() - (v2t.t() - scores).mean())


# -- the video side ----------------------------------------------------------------------------


def by_hand(model, own):
    """One video without padding, row by row and head by head."""
    table, times = model.expert_embedding.weight, model.time_embedding.weight
    names = sorted(WIDTHS)
    there = sorted({e for e, _, _ in own})
    project = [model.project[name] for name in names]
    mapped = [project[e].weight @ x + project[e].bias for e, _, x in own]
    sequence = []
    for e in there:
        highest = torch.stack([y for y, (f, _, _) in zip(mapped, own) if f == e]).max(0).values
        sequence.append(highest + table[e] + times[0])
    for y, (e, second, _) in zip(mapped, own):
        sequence.append(y + table[e] + times[1 if second < 0 else 2 + second])
    x = [normed(model.norm, row) for row in sequence]
    for block in model.blocks:
        x = [normed(block.norm1, a + b) for a, b in zip(x, attended(block.self_attn, x))]
        inner = [block.linear1.weight @ a + block.linear1.bias for a in x]
        inner = [a * (1 + torch.erf(a / 2**0.5)) / 2 for a in inner]
        inner = [block.linear2.weight @ a + block.linear2.bias for a in inner]
        x = [normed(block.norm2, a + b) for a, b in zip(x, inner)]
    return {e: x[i] / x[i].norm() for i, e in enumerate(there)}


def normed(norm, x):
    return (x - x.mean()) / (x.var(unbiased=False) + 1e-12).sqrt() * norm.weight + norm.bias


def attended(attention, x, heads=2):
    q, k, v = (
        [w @ a + b for a in x]
        for w, b in zip(attention.in_proj_weight.chunk(3), attention.in_proj_bias.chunk(3))
    )
    size, result = D // heads, []
    for i in range(len(x)):
        parts = []
        for cut in (slice(h * size, (h + 1) * size) for h in range(heads)):
            weight = torch.stack([(q[i][cut] @ key[cut] / size**0.5).exp() for key in k])
            parts.append(sum(w * value[cut] for w, value in zip(weight / weight.sum(), v)))
        result.append(attention.out_proj.weight @ torch.cat(parts) + attention.out_proj.bias)
    return result


@pytest.mark.parametrize('grad', [True, False])
@pytest.mark.parametrize('junk', [0.0, math.nan])
def test_videos_are_those_of_a_transformer_by_hand(junk, grad):
    model, videos = encoder(), rows()
    with torch.set_grad_enabled(grad):
        found = model.encode_video(**batch(videos, junk))['global']
    assert torch.equal(found.mask, THERE)
    for v, own in enumerate(videos):
        expected = by_hand(model, own)
        for e in range(E):
            row = expected.get(e, torch.zeros(D, dtype=torch.float64))
            torch.testing.assert_close(found.tokens[v, e], row, rtol=1e-9, atol=1e-9)
        mean = torch.stack(list(expected.values())).mean(0)
        torch.testing.assert_close(found.mean[v], mean, rtol=1e-9, atol=1e-9)


def test_a_video_depends_on_its_own_experts_alone():
    model, videos = encoder(), rows()
    expected = model.encode_video(**batch(videos))['global']
    backwards = model.encode_video(**batch([own[::-1] for own in videos], spare=0))['global']
    torch.testing.assert_close(backwards.tokens, expected.tokens)
    alone = model.encode_video(**batch(videos[1:2]))['global']
    torch.testing.assert_close(alone.tokens, expected.tokens[1:2])
    with torch.no_grad():  # of those that video 1 lacks
        for name in ('audio', 'speech'):
            model.project[name].weight.fill_(math.nan)
        model.expert_embedding.weight[[0, 2]] = 1e3
    changed = model.encode_video(**batch(videos[1:2]))['global']
    torch.testing.assert_close(changed.tokens, alone.tokens)


def test_experts_are_numbered_by_name_and_not_by_the_order_in_a_config():
    model = encoder()
    other = encoder(experts=dict(reversed(WIDTHS.items())))
    other.load_state_dict(model.state_dict())
    found, expected = (m.encode_video(**batch(rows()))['global'].tokens for m in (other, model))
    assert list(other.experts) == ['audio', 'motion', 'speech']
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


def test_gradient_of_a_video():
    model, inputs = encoder(layers=1), batch(rows())
    video = inputs.pop('video').requires_grad_()

    def encode(x):
        return model.encode_video(x, **inputs)['global'].tokens

    assert torch.autograd.gradcheck(encode, (video,), atol=1e-6)


# -- the text side -----------------------------------------------------------------------------


def test_texts_are_gated_embeddings_of_the_first_word_and_weights():
    model, (words, mask) = encoder(), texts()
    found = model.encode_text(words, mask)['global']
    assert found.mask.shape == (T, E) and found.mask.all()
    for t in range(T):
        h = words[t, 0]
        weights = (model.weigh.weight @ h).exp()
        weights = weights / weights.sum()
        for e, name in enumerate(sorted(WIDTHS)):
            phrase = model.phrases[name]
            z = phrase.linear.weight @ h + phrase.linear.bias
            z = z / (1 + (-(phrase.gate.weight @ z + phrase.gate.bias)).exp())
            torch.testing.assert_close(found.tokens[t, e], weights[e] * z / z.norm())
        torch.testing.assert_close(found.mean[t], found.tokens[t].sum(0))


def test_a_text_that_trusts_a_missing_expert_alone_still_has_a_score():
    model, (words, mask) = encoder().float(), texts()
    with torch.no_grad():
        model.weigh.weight.zero_()[0] = 1e3 * words[0, 0].sign()
    text = model.encode_text(words.float(), mask)
    tokens = text['global'].tokens[0]
    least = math.exp(LOG_FLOOR)
    torch.testing.assert_close(tokens.norm(dim=-1), torch.tensor([1.0, least, least]))
    inputs = batch(rows())
    video = model.encode_video(inputs.pop('video').float(), **inputs)
    score = ExpertSimilarity()(text, video)['scores'][0, 1]  # has motion alone, which comes second
    cosine = nn.functional.normalize(tokens, dim=-1)[1] @ video['global'].tokens[1, 1]
    torch.testing.assert_close(score, cosine)


# -- together ----------------------------------------------------------------------------------


def test_gradients_reach_everything_also_from_an_empty_batch():
    model, similarity = encoder().float().train(), ExpertSimilarity()
    words, mask = texts()
    inputs = batch(rows())
    inputs['video'] = inputs['video'].float()
    loss = MODELS.build(dict(type='RankingLoss', margin=0.05))
    text, video = model.encode_text(words.float(), mask), model.encode_video(**inputs)
    positives = torch.tensor([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, 0]]).bool()
    loss(similarity(text, video), Target(positives), 1.0).backward()
    moved = {name for name, p in model.named_parameters() if (p.grad != 0).any()}
    assert moved == {name for name, _ in model.named_parameters()}
    none = {key: value[:0] for key, value in inputs.items()}
    for empty in (model.encode_video(**none), empty_levels(model, 1)):
        model.zero_grad()
        scores = similarity(model.encode_text(words.float(), mask), empty)['scores']
        assert scores.shape == (T, 0)
        scores.sum().backward()
        assert all(p.grad is not None and (p.grad == 0).all() for p in model.parameters())
    nobody = model.encode_text(words[:0].float(), mask[:0])
    assert similarity(nobody, video)['scores'].shape == (0, V)
    assert similarity(nobody, empty)['scores'].shape == (0, 0)


def test_an_expert_that_a_whole_batch_lacks_gets_a_zero_gradient():
    model, inputs = encoder(), batch(rows()[1:2])
    model.encode_video(**inputs)['global'].tokens.sum().backward()
    assert (model.project['speech'].weight.grad == 0).all()
    assert (model.project['motion'].weight.grad != 0).any()


def test_bfloat16():
    model, inputs = encoder().float(), batch(rows())
    inputs['video'] = inputs['video'].float()
    expected = model.encode_video(**inputs)['global'].tokens
    with torch.autocast('cpu', torch.bfloat16):
        found = model.encode_video(**inputs)['global'].tokens
        text = model.encode_text(texts()[0].float(), texts()[1])['global'].tokens
    assert found.dtype == text.dtype == torch.float32
    torch.testing.assert_close(found, expected, atol=0.1, rtol=0)


def test_videos_that_are_refused():
    model = encoder()
    inputs = batch(rows())
    with pytest.raises(ValueError, match=r'takes rows \[V, F, 5\], as wide as .* got \[3, 6, 4\]'):
        model.encode_video(**{**inputs, 'video': inputs['video'][..., :4]})
    for name, tag, bounds in (
        ('expert', 3, '0 to 2'),
        ('expert', -1, '0 to 2'),
        ('second', 6, '-1 to 5'),
        ('second', -2, '-1 to 5'),
    ):
        tags = inputs[name].clone()
        tags[1, 1] = tag
        with pytest.raises(ValueError, match=f'{name} {tag}, but MMTEncoder knows {bounds}'):
            model.encode_video(**{**inputs, name: tags})
    mask = inputs['frame_mask'].clone()
    mask[1] = False
    with pytest.raises(ValueError, match='frame_mask of item 1 of the batch is all False'):
        model.encode_video(**{**inputs, 'frame_mask': mask})


@pytest.mark.parametrize('settings', [dict(experts={}), dict(dim=9)])
def test_settings_that_are_refused(settings):
    with pytest.raises(ValueError, match='needs an expert and a dim that is a multiple of heads'):
        encoder(**settings)


def test_the_first_word_of_bert_is_read():
    bert = dict(
        model_type='bert',
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        vocab_size=20,
        max_position_embeddings=6,
    )
    torch.manual_seed(0)
    model = MMTEncoder(
        dict(type='TransformersText', model=bert, dim=None),
        experts=WIDTHS,
        dim=D,
        heads=2,
        layers=1,
        feedforward=8,
    ).eval()
    ids, mask = pad([torch.tensor([1, 5, 9, 2]), torch.tensor([1, 7, 2])])
    hidden = model.text.transformer(input_ids=ids, attention_mask=mask.long()).last_hidden_state
    found = model.encode_text(ids, mask)['global']
    weights = (hidden[:, 0] @ model.weigh.weight.t()).softmax(-1)
    torch.testing.assert_close(found.tokens.norm(dim=-1), weights)
    with pytest.raises(ValueError, match='its position table has 6'):
        model.encode_text(torch.ones(1, 7, dtype=torch.long), torch.ones(1, 7).bool())


class Clips(VideoTextDataset):
    """Three videos: motion of all of them, audio and speech of one each."""

    def load_annotations(self):
        videos = [dict(video_id=name, path=name) for name in 'abc']
        return videos, [dict(text_id=n, text=n, video_idx=[v]) for v, n in enumerate('abc')]


def test_from_files_to_losses(tmp_path):
    """Through dataset, collation, preprocessor and retriever; also without any video."""
    stores = dict(motion='abc', audio='a', speech='c')
    for name, videos in stores.items():
        (tmp_path / name).mkdir()
        for number, video in enumerate(videos):
            np.save(tmp_path / name / f'{video}.npy', np.ones((2 + number, WIDTHS[name])))
    experts = {e: dict(path=str(tmp_path / e), dim=width) for e, width in WIDTHS.items()}
    (tmp_path / 'words').mkdir()
    for name in 'abc':
        np.save(tmp_path / 'words' / f'{name}.npy', np.random.rand(3, 7))
    dataset = Clips(
        [dict(type='LoadExperts', experts=experts)],
        [dict(type='LoadTextFeatures', path=str(tmp_path / 'words'))],
    )
    model = MODELS.build(
        dict(
            type='VideoTextRetriever',
            data_preprocessor=dict(type='mmvtr.VideoTextDataPreprocessor'),
            encoder=encoder().float(),
            similarity=dict(type='ExpertSimilarity'),
            losses=dict(ranking=dict(type='RankingLoss', margin=0.05)),
        )
    )
    data = model.data_preprocessor(collate_retrieval([dataset[i] for i in range(3)]))
    texts, videos = model(**data, mode='tensor')
    there = [[True, True, False], [False, True, False], [False, True, True]]
    assert videos['global'].mask.tolist() == there
    assert model(**data, mode='loss')['loss_ranking'] > 0
    halves = [dataset.load_text(i) for i in range(3)]
    data = model.data_preprocessor(collate_retrieval(halves))
    assert model(**data, mode='loss')['loss_ranking'] == 0
