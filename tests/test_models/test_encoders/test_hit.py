"""HiT's two levels, against the layers applied one after the other."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from mmvtr.models import HierarchicalGaussianHead, HiTEncoder
from mmvtr.models.data_preprocessor import pad
from mmvtr.structures import Embedding

WIDTHS = dict(motion=5, audio=3)  # by name: audio 0, motion 1
D, V, F_, LAYERS = 8, 3, 6, 3
BERT = dict(
    model_type='bert',
    hidden_size=12,
    num_hidden_layers=4,
    num_attention_heads=2,
    intermediate_size=8,
    vocab_size=20,
    max_position_embeddings=6,
)


def encoder(**kwargs):
    torch.manual_seed(0)
    settings = dict(experts=WIDTHS, dim=D, layers=LAYERS, heads=2, feedforward=12, max_seconds=6)
    text = dict(type='TransformersText', model=BERT, dim=None)
    model = HiTEncoder(**{'text': text, **settings, **kwargs})
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)
    return model.double().eval()


def videos(junk=0.0):
    """Three videos of 6, 2 and 4 rows; ``junk`` wherever nothing is to be read."""
    generator = torch.Generator().manual_seed(1)
    video = torch.randn(V, F_, 5, generator=generator, dtype=torch.float64)
    mask = torch.arange(F_) < torch.tensor([6, 2, 4])[:, None]
    expert = torch.tensor([[0, 0, 1, 1, 1, 0], [1, 1, 0, 0, 0, 0], [0, 1, 0, 1, 0, 0]])
    second = torch.tensor([[0, 1, 0, 1, 2, -1], [0, 5, 9, 9, 9, 9], [0, 0, 1, 1, 9, 9]])
    video[~mask] = junk
    video[..., 3:][(expert == 0) & mask] = junk  # beyond an expert's width
    return dict(video=video, frame_mask=mask, expert=expert, second=second)


def texts():
    return pad([torch.tensor([1, 5, 9, 2]), torch.tensor([1, 7, 2]), torch.tensor([3])])


@pytest.mark.parametrize('layer', [1, 2, 3])
@pytest.mark.parametrize('junk', [0.0, 1e6, float('nan')])
def test_levels_of_videos_are_those_of_single_ones(layer, junk):
    model = encoder(feature_layer=layer)
    found = model.encode_video(**videos(junk))
    for v, count in enumerate((6, 2, 4)):
        one = {name: x[v, :count] for name, x in videos().items()}
        rows = torch.stack(
            [
                model.project[('audio', 'motion')[e]](x[: (3, 5)[e]])
                + model.expert_embedding.weight[e]
                + model.time_embedding.weight[s + 2]
                for x, e, s in zip(one['video'], one['expert'].tolist(), one['second'].tolist())
            ]
        )
        x = model.norm(rows)[None]
        outputs = []
        for block in model.blocks:
            x = block(x)
            outputs.append(x[0])
        low = model.of_video['feature'](outputs[layer - 1])
        high = model.of_video['semantic'](outputs[-1])
        close = dict(rtol=1e-10, atol=1e-10)
        feature, semantic = found['feature'], found['semantic']
        torch.testing.assert_close(feature.mean[v], F.normalize(low.mean(0), dim=0), **close)
        torch.testing.assert_close(semantic.mean[v], F.normalize(high.mean(0), dim=0), **close)
        torch.testing.assert_close(semantic.tokens[v, :count], low, **close)
        assert not semantic.tokens[v, count:].any()
    assert feature.tokens is None
    assert torch.equal(semantic.mask, videos()['frame_mask'])


@pytest.mark.parametrize('layer', [1, 3])
def test_levels_of_texts_are_those_of_berts_layers(layer):
    model = encoder(feature_layer=layer)
    ids, mask = texts()
    found = model.encode_text(ids, mask)
    for t, count in enumerate((4, 3, 1)):
        own = dict(input_ids=ids[t, None, :count], output_hidden_states=True)
        states = model.text.transformer(**own).hidden_states
        low = model.of_text['feature'](states[layer][0])
        high = model.of_text['semantic'](states[4][0])
        close = dict(rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(
            found['feature'].mean[t], F.normalize(low.mean(0), dim=0), **close
        )
        torch.testing.assert_close(
            found['semantic'].mean[t], F.normalize(high.mean(0), dim=0), **close
        )
        torch.testing.assert_close(found['semantic'].tokens[t, :count], low, **close)


def test_a_text_tower_shows_its_layers_as_it_shows_its_words():
    model = encoder(text=dict(type='TransformersText', model=BERT, dim=7))
    ids, mask = texts()
    words, _ = model.text(ids, mask)
    last, zeroth = model.text.states(ids, mask, (4, 0))
    torch.testing.assert_close(last, words)
    assert zeroth.shape == (3, 4, 7) and model.text.depth == 4
    with pytest.raises(ValueError, match='token id 33 in text 0'):
        model.text.states(torch.tensor([[33]]), torch.ones(1, 1).bool(), (1,))


def test_heads_read_one_level_with_local_and_global_features():
    """DVTR Sec. IV-B: local is the lower layer, global the mean of the upper one."""
    model, head = encoder(), HierarchicalGaussianHead(D).double()
    level = model.encode_video(**videos())['semantic']
    found = head(level)
    assert found.mean.shape == found.log_std.shape == (V, D)
    padded = Embedding(level.mean[1:2], level.tokens[1:2, :2], level.mask[1:2, :2])
    torch.testing.assert_close(head(padded).log_std, found.log_std[1:2])


def test_all_parameters_learn():
    model = encoder()
    levels = [model.encode_video(**videos()), model.encode_text(*texts())]
    sum((e.mean * torch.arange(D)).sum() for side in levels for e in side.values()).backward()
    assert not [name for name, p in model.named_parameters() if p.grad is None]


def test_no_items():
    model = encoder()
    none = {name: x[:0] for name, x in videos().items()}
    for levels in (model.encode_video(**none), model.encode_text(*(x[:0] for x in texts()))):
        assert levels['feature'].mean.shape == levels['semantic'].mean.shape == (0, D)
        assert levels['feature'].tokens is None and levels['semantic'].tokens.shape[2] == D


def test_settings_that_are_refused():
    with pytest.raises(ValueError, match='FeatureWords does not show them'):
        encoder(text=dict(type='FeatureWords', in_dim=7))
    with pytest.raises(ValueError, match='the 3 layers of the video side, not 4'):
        encoder(feature_layer=4)
    with pytest.raises(ValueError, match='the 4 layers of the text side, not 5'):
        encoder(feature_layer=5, layers=5)
    with pytest.raises(ValueError, match='HiTEncoder needs an expert'):
        encoder(experts={})
    inputs = videos()
    inputs['expert'] = inputs['expert'] + 1
    with pytest.raises(ValueError, match='a row has expert 2, but HiTEncoder knows 0 to 1'):
        encoder().encode_video(**inputs)
