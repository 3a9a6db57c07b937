"""HGR's encoder: the official network's outputs and losses, and loops over nodes and words."""

import json

import numpy as np
import pytest
import torch

from mmvtr.datasets import VideoTextDataset, collate_retrieval
from mmvtr.evaluation import RetrievalMetric
from mmvtr.models.layers.graph_attention import GraphAttention
from mmvtr.models.layers.pooling import empty_levels
from mmvtr.models.losses.ranking import RankingLoss
from mmvtr.models.retriever import VideoTextRetriever
from mmvtr.models.similarities.hgr import HGRSimilarity
from mmvtr.models.target import Target
from mmvtr.registry import MODELS
from mmvtr.structures import Relation
from tests.test_models.test_encoders.test_ssb import gru, lengths

#: Official prefix -> ours.  A bias of attention pooling changes nothing: the softmax undoes it.
NAMES = {
    'video_encoder/level_embeds.0.': 'maps.sentence.',
    'video_encoder/level_embeds.1.': 'maps.verb.',
    'video_encoder/level_embeds.2.': 'maps.noun.',
    'video_encoder/ft_attn.weight': 'frame_pooling.score.weight',
    'text_encoder/ft_attn.weight': 'word_pooling.score.weight',
    'text_encoder/embedding.we.': 'text.table.',
    'text_encoder/rnn.': 'rnn.',
    'text_encoder/role_embedding.': 'roles.',
    'text_encoder/gcn.layers.0.ctx_layer.': 'graph.context.',
    'text_encoder/gcn.layers.0.layernorm.': 'graph.norm.',
    'text_encoder/gcn.layers.0.edge_attn_query.': 'graph.query.',
    'text_encoder/gcn.layers.0.edge_attn_key.': 'graph.key.',
}


def encoder(in_dim=10, words=20, word_dim=5, **kwargs):
    torch.manual_seed(0)
    return MODELS.build(
        dict(
            type='HGREncoder',
            frames=dict(type='FeatureFrames', in_dim=in_dim),
            text=dict(type='WordVectors', words=words, dim=word_dim),
            dim=8,
            **kwargs,
        )
    )


# -- the official network ----------------------------------------------------------------------


@pytest.fixture(scope='module')
def golden(shared):
    with np.load(shared / 'golden/hgr.npz') as arrays:
        return {name: arrays[name] for name in arrays.files}


def official_weights(golden):
    weights = {}
    for key, value in golden.items():
        for theirs, ours in NAMES.items():
            if key.startswith(f'state/{theirs}'):
                weights[key.replace(f'state/{theirs}', ours)] = torch.from_numpy(value)
    return weights


def official_levels(golden):
    """Texts and videos, encoded with the official weights."""
    module = encoder().eval()
    module.load_state_dict(official_weights(golden))
    array = {name: torch.from_numpy(x) for name, x in golden.items() if x.dtype.kind in 'fib'}
    texts = module.encode_text(
        array['cap/sent_ids'],
        lengths(*golden['cap/sent_lens'].tolist()),
        verbs=array['cap/verb_masks'],
        nouns=array['cap/noun_masks'],
        roles=array['cap/node_roles'].long(),
        edges=array['cap/rel_edges'] != 0,
    )
    frame_mask = lengths(*golden['attn_lens'].tolist())
    return texts, module.encode_video(array['attn_fts'], frame_mask)


def close(found, expected, name=''):
    np.testing.assert_allclose(found.detach().numpy(), expected, atol=1e-5, err_msg=name)


def test_official_embeddings(golden):
    texts, videos = official_levels(golden)
    close(texts['sentence'].mean, golden['emb/sent_embeds'])
    close(videos['sentence'].mean, golden['emb/vid_sent_embeds'])
    for name in ('verb', 'noun'):
        mask = texts[name].mask.numpy()
        np.testing.assert_array_equal(mask, golden[f'emb/{name}_lens'] > 0)
        close(texts[name].tokens[mask], golden[f'emb/{name}_embeds'][mask], name)
        valid = videos[name].mask.numpy()
        assert not valid.all() and not mask.all()
        close(videos[name].tokens[valid], golden[f'emb/vid_{name}_embeds'][valid], name)


@pytest.mark.parametrize('entries', [1, 2**22])
def test_official_scores_and_loss(golden, entries):
    """Theirs is the sum of both directions over the batch: twice ours."""
    texts, videos = official_levels(golden)
    matrices = HGRSimilarity(entries=entries)(texts, videos)
    for theirs, ours in dict(sent='sentence', verb='verb', noun='noun').items():
        close(matrices[ours], golden[f'{theirs}_scores'].T, ours)
    mean = (golden['sent_scores'] + golden['verb_scores'] + golden['noun_scores']).T / 3
    close(matrices['scores'], mean)
    target = Target(torch.eye(4, dtype=torch.bool))

    def loss(name):
        official = RankingLoss(margin=0.2, negatives='hardest', reads=(name,), loss_weight=2.0)
        return official(matrices, target, 1.0)

    close(loss('scores'), golden['forward_loss_maxviol'])
    four = loss('scores') + 0.2 * (loss('sentence') + loss('verb') + loss('noun'))
    close(four, golden['forward_loss_4loss_1_.2_.2_.2'])


def test_official_triplets(golden):
    """Rows of theirs are videos: i2t is v2t.  Without the hardest one it is the mean over pairs."""
    scores = torch.from_numpy(golden['scores']).t()
    target = Target(torch.eye(6, dtype=torch.bool))
    for hardest, negatives in ((1, 'hardest'), (0, 'all')):
        for theirs, ours, weight in (('i2t', 'v2t', 1), ('t2i', 't2v', 1), ('bi', 'both', 2)):
            loss = RankingLoss(negatives=negatives, direction=ours, loss_weight=weight)
            expected = golden[f'loss_maxviol{hardest}_{theirs}_topk1']
            close(loss({'scores': scores}, target, 1.0), expected, f'{theirs} {negatives}')


def test_official_metric_of_several_matches(golden):
    scores = torch.from_numpy(golden['eval_scores'])
    positives = torch.zeros(scores.shape, dtype=torch.bool)
    for row, columns in enumerate(golden['eval_gts_pad-1']):
        positives[row, columns[columns >= 0].tolist()] = True
    assert positives.sum(1).max() == 3
    numbers = RetrievalMetric(v2t_protocols=())({'scores': scores}, Relation(positives))
    found = [numbers[f't2v_{name}'] for name in ('R1', 'R5', 'R10', 'MdR', 'MnR')]
    np.testing.assert_allclose(found, golden['eval_r1_5_10_medr_meanr'])


# -- loops -------------------------------------------------------------------------------------


def graphs(count=3):
    """Role graphs of at most 7 words, two verbs and three nouns; the last text has none."""
    verbs, nouns = torch.zeros(count, 2, 7).bool(), torch.zeros(count, 3, 7).bool()
    roles, edges = torch.zeros(count, 5).long(), torch.zeros(count, 6, 6).bool()
    verbs[0, 0, 2] = nouns[0, 0, :2] = nouns[0, 1, 3] = True
    roles[0, 2:4] = torch.tensor([2, 1])
    for i, j in ((1, 0), (1, 3), (3, 1), (1, 4), (4, 1)):
        edges[0, i, j] = True
    verbs[1, 0, 0] = verbs[1, 1, 1:3] = nouns[1, 0, 3:5] = True
    roles[1, 2] = 15
    edges[1, 1, 0] = edges[1, 2, 0] = True
    return dict(verbs=verbs, nouns=nouns, roles=roles, edges=edges)


def text_batch():
    torch.manual_seed(1)
    return torch.randint(3, 20, (3, 5)), lengths(4, 5, 1)


def attend(graph, x, edges):
    """One node after the other."""
    out = []
    for i, row in enumerate(edges):
        context, neighbours = torch.zeros_like(x[i]), row.nonzero().flatten().tolist()
        if neighbours:
            logits = [graph.query(x[i]) @ graph.key(x[j]) / 2.0 for j in neighbours]  # sqrt(8 / 2)
            weights = torch.stack([logit.exp() for logit in logits])
            weights = weights / weights.sum()
            context = graph.context(sum(w * x[j] for w, j in zip(weights, neighbours)))
        y = x[i] + context
        y = (y - y.mean()) / (y.var(unbiased=False) + 1e-5).sqrt()
        out.append(y * graph.norm.weight + graph.norm.bias)
    return torch.stack(out)


def pool(pooling, tokens):
    weights = torch.stack([(pooling.score.weight[0] @ token).exp() for token in tokens])
    return sum(w * token for w, token in zip(weights / weights.sum(), tokens))


def test_graph_attention_against_loops():
    torch.manual_seed(0)
    graph = GraphAttention(8).double().eval()
    torch.nn.init.normal_(graph.norm.weight)
    torch.nn.init.normal_(graph.norm.bias)
    x = torch.randn(4, 6, 8).double()
    edges = torch.rand(4, 6, 6) < 0.4
    edges[:, 0] = False  # nothing reaches the first node
    edges[3] = False
    found = graph(x, edges)
    for i in range(4):
        torch.testing.assert_close(found[i], attend(graph, x[i], edges[i]))
    torch.testing.assert_close(found[:, 0], graph.norm(x[:, 0]))
    leaf = x[:1].clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: graph(x, edges[:1]), leaf)


def test_text_against_loops():
    module = encoder().double().eval()
    (ids, mask), graph = text_batch(), graphs()
    levels = module.encode_text(ids, mask, **graph)
    assert set(levels) == {'sentence', 'verb', 'noun'} and levels['sentence'].tokens is None
    for t, n in enumerate(mask.sum(1).tolist()):
        vectors = module.text.table(ids[t, :n])
        words = sum(gru(vectors, module, n, reverse) for reverse in (False, True)) / 2
        members = torch.cat([graph['verbs'], graph['nouns']], 1)[t]
        nodes = [pool(module.word_pooling, words)]
        for node, role in zip(members, graph['roles'][t]):
            own = [words[i] for i in node.nonzero().flatten().tolist()]
            maximum = torch.stack(own).amax(0) if own else torch.zeros(8).double()
            nodes.append(maximum * module.roles.weight[role])
        nodes = attend(module.graph, torch.stack(nodes), graph['edges'][t])
        torch.testing.assert_close(levels['sentence'].mean[t], nodes[0])
        for name, part, valid in zip(
            ('verb', 'noun'), (nodes[1:3], nodes[3:]), (members[:2].any(1), members[2:].any(1))
        ):
            expected = part * valid[:, None]
            torch.testing.assert_close(levels[name].tokens[t], expected)
            assert torch.equal(levels[name].mask[t], valid)
            mean = expected.sum(0) / max(1, int(valid.sum()))
            torch.testing.assert_close(levels[name].mean[t], mean)
    assert not levels['verb'].mask[2].any() and not levels['noun'].mean[2].any()


def test_video_against_loops():
    module = encoder().double().eval()
    mask = lengths(4, 2, 1)
    video = torch.randn(3, 4, 10).double()
    levels = module.encode_video(video, mask)
    for v, n in enumerate((4, 2, 1)):
        sentence = pool(module.frame_pooling, [module.maps.sentence(x) for x in video[v, :n]])
        torch.testing.assert_close(levels['sentence'].mean[v], sentence)
        for name in ('verb', 'noun'):
            expected = torch.stack([module.maps[name](x) for x in video[v, :n]])
            torch.testing.assert_close(levels[name].tokens[v, :n], expected)
            torch.testing.assert_close(levels[name].mean[v], expected.mean(0))
            assert not levels[name].tokens[v, n:].any()


def test_numbers_of_parameters():
    """Frame-length paper, Tab. 5: 3.15 M for videos, 10.25 M for texts but for their tables."""
    frames, text = dict(type='FeatureFrames', in_dim=1024), dict(type='WordVectors', words=9)
    with torch.device('meta'):
        module = MODELS.build(dict(type='HGREncoder', frames=frames, text=text))

    def millions(*parts):
        count = sum(p.numel() for part in parts for p in getattr(module, part).parameters())
        return round(count / 1e6, 2)

    assert millions('maps', 'frame_pooling') == 3.15
    assert millions('rnn', 'word_pooling', 'graph') == 10.25


# -- batches -----------------------------------------------------------------------------------


def test_neighbours_and_padding_do_not_matter():
    module = encoder().double().eval()
    (ids, mask), graph = text_batch(), graphs()
    together = module.encode_text(ids, mask, **graph)
    for t, n in enumerate(mask.sum(1).tolist()):
        one = {name: x[t : t + 1] for name, x in graph.items()}
        alone = module.encode_text(ids[t : t + 1, :n], mask[t : t + 1, :n], **one)
        for name, level in alone.items():
            for a, b in zip(level, together[name]):
                if a is not None:
                    torch.testing.assert_close(a[0], b[t])
    other = ids.masked_fill(~mask, 7)
    changed = module.encode_text(other, mask, **graph)
    assert torch.equal(changed['sentence'].mean, together['sentence'].mean)


def test_dropout_is_where_the_code_has_it():
    """Of mapped frames and of words before the GRU: all of it is a text of words that are zero."""
    module = encoder(dropout=1.0, graph_dropout=0.0).train()
    video, mask = torch.randn(2, 3, 10), lengths(3, 1)
    assert not module.encode_video(video, mask)['verb'].tokens.any()
    (ids, mask), graph = text_batch(), graphs()
    trained = module.encode_text(ids, mask, **graph)
    module.eval()
    assert not torch.equal(
        module.encode_text(ids, mask, **graph)['verb'].tokens, trained['verb'].tokens
    )
    module.text.table.weight.data.zero_()
    tested = module.encode_text(ids, mask, **graph)
    torch.testing.assert_close(trained['verb'].tokens, tested['verb'].tokens)
    module = encoder(dropout=0.0, graph_dropout=1.0).train()
    lonely = {**graph, 'edges': torch.zeros_like(graph['edges'])}
    torch.testing.assert_close(
        module.encode_text(ids, mask, **graph)['verb'].tokens,
        module.encode_text(ids, mask, **lonely)['verb'].tokens,
    )


def test_an_empty_batch_still_depends_on_all_parameters():
    module = encoder()
    ids, mask = text_batch()
    none = {name: x[:0] for name, x in graphs().items()}
    texts = module.encode_text(ids[:0], mask[:0], **none)
    videos = module.encode_video(torch.zeros(0, 4, 10), torch.zeros(0, 4).bool())
    bare = empty_levels(module, 1)
    matrices = HGRSimilarity()(texts, videos)
    for a in (texts, bare):
        for b in (videos, bare):
            assert HGRSimilarity()(a, b)['scores'].shape == (0, 0)
    (matrices['scores'].sum() + texts['verb'].mean.sum()).backward()
    assert all(p.grad is not None and not p.grad.any() for p in module.parameters())


def test_half_precision():
    module = encoder()
    (ids, mask), graph = text_batch(), graphs()
    module.eval()
    video, frame_mask = torch.randn(2, 4, 10), lengths(4, 2)
    exact = HGRSimilarity()(
        module.encode_text(ids, mask, **graph), module.encode_video(video, frame_mask)
    )
    with torch.autocast('cpu', torch.bfloat16):
        texts = module.encode_text(ids, mask, **graph)
        videos = module.encode_video(video, frame_mask)
        found = HGRSimilarity()(texts, videos)
    for level in (*texts.values(), *videos.values()):
        assert level.mean.dtype == torch.float32
    for name, matrix in found.items():
        assert matrix.dtype == torch.float32
        torch.testing.assert_close(matrix, exact[name], atol=0.05, rtol=0)


def test_bad_input():
    module = encoder()
    (ids, mask), graph = text_batch(), graphs()
    with pytest.raises(ValueError, match='texts have 5 words, but role graphs 4: max_words'):
        module.encode_text(ids, mask, **{**graph, 'verbs': graph['verbs'][:, :, :4]})
    with pytest.raises(ValueError, match='token id 20 in text 1 of the batch'):
        module.encode_text(ids.index_fill(0, torch.tensor([1]), 20), mask, **graph)
    with pytest.raises(ValueError, match='text_mask of item 2 of the batch is all False'):
        module.encode_text(ids, mask & torch.tensor([[True], [True], [False]]), **graph)
    with pytest.raises(ValueError, match='FeatureFrames takes features'):
        module.encode_video(torch.zeros(1, 2, 9), torch.ones(1, 2).bool())
    with pytest.raises(ValueError, match='frame_mask of item 1 of the batch is all False'):
        module.encode_video(torch.zeros(2, 2, 10), torch.tensor([[True, True], [False, False]]))


# -- in a retriever ----------------------------------------------------------------------------


class Clips(VideoTextDataset):
    """Three clips of 2, 3 and 4 rows, with a narration each."""

    def load_annotations(self):
        facts = [('take plate', 'take', ['plate']), ('wash', 'wash', ['pan']), ('cut', 'cut', [])]
        videos = [dict(video_id=f'v{i}', path='') for i in range(3)]
        return videos, [
            dict(text_id=f't{i}', text=text, verb=verb, nouns=nouns, video_idx=[i])
            for i, (text, verb, nouns) in enumerate(facts)
        ]


@pytest.fixture
def clips(tmp_path):
    path = tmp_path / 'word2int.json'
    path.write_text(json.dumps(dict(take=3, plate=4, wash=5)))

    def load(results):
        i = int(results['video_id'][1:])
        return dict(features=np.random.default_rng(i).standard_normal((2 + i, 10)))

    return Clips([load], [dict(type='VerbNounGraph', vocab_file=str(path))])


def retriever():
    return VideoTextRetriever(
        encoder=encoder(),
        similarity=dict(type='HGRSimilarity'),
        losses=dict(triplet=dict(type='RankingLoss', negatives='hardest', loss_weight=2.0)),
        data_preprocessor=dict(type='mmvtr.VideoTextDataPreprocessor'),
    )


def test_from_records_to_losses(clips):
    model = retriever()
    data = model.data_preprocessor(collate_retrieval([clips[i] for i in range(3)]))
    losses = model(**data, mode='loss')
    losses['loss_triplet'].backward()
    assert losses['loss_triplet'] > 0
    for name, p in model.named_parameters():
        assert p.grad is not None or not p.requires_grad, name
    model.eval()
    texts, videos = model(**data)
    assert texts['verb'].mask.sum(1).tolist() == [1, 1, 1]
    assert texts['noun'].mask.sum(1).tolist() == [1, 0, 0]
    scores = torch.stack([sample.scores for sample in model(**data, mode='predict')])
    torch.testing.assert_close(scores, model.similarity(texts, videos)['scores'])


@pytest.mark.parametrize('lost', ['video', 'texts'])
def test_a_process_without_videos_or_texts_has_gradients(clips, lost):
    model = retriever()
    items = [clips[i] for i in range(3)]
    halves = [item[{'video': 'texts', 'texts': 'video'}[lost]] for item in items]
    halves = [half for part in halves for half in (part if isinstance(part, list) else [part])]
    data = model.data_preprocessor(collate_retrieval(halves))
    losses = model(**data, mode='loss')
    losses['loss_triplet'].backward()
    for name, p in model.named_parameters():
        assert p.grad is not None or not p.requires_grad, name
