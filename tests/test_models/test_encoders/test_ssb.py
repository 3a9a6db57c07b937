"""SSB's encoder against loops, T5 as a text tower, and that padding and neighbours never matter."""

from pathlib import Path

import pytest
import torch
from mmengine.config import Config
from torch import nn

from mmvtr.models import SSBEncoder, TransformersText
from mmvtr.models.retriever import VideoTextRetriever
from mmvtr.registry import MODELS

T5 = dict(
    model_type='t5',
    vocab_size=50,
    d_model=24,
    d_kv=6,
    d_ff=20,
    num_layers=2,
    num_heads=2,
    dropout_rate=0.0,
)
CONFIGS = Path(__file__).parents[3] / 'configs'


def encoder(**kwargs):
    torch.manual_seed(0)
    text = dict(type='TransformersText', model=T5, dim=None)
    settings = dict(in_dim=7, dim=16, heads=2, layers=2, dropout=0.0)
    return MODELS.build(dict(type='SSBEncoder', text=text, **{**settings, **kwargs}))


def lengths(*values):
    return torch.arange(max(values)) < torch.tensor(values)[:, None]


def batch(dtype=torch.float64):
    """Three videos of 6, 3 and 1 frames, and three texts of 5, 1 and 8 words."""
    torch.manual_seed(1)
    mask, text_mask = lengths(6, 3, 1), lengths(5, 1, 8)
    return torch.randn(3, 6, 7, dtype=dtype), mask, torch.randint(2, 50, (3, 8)), text_mask


# -- T5 as a text tower ------------------------------------------------------------------------


@pytest.mark.parametrize('saved', [False, True], ids=['config', 'folder'])
def test_the_text_tower_is_the_encoder_of_t5(saved, tmp_path):
    from transformers import AutoConfig, T5ForConditionalGeneration

    torch.manual_seed(0)
    t5 = T5ForConditionalGeneration(AutoConfig.for_model(**T5)).eval()
    t5.save_pretrained(tmp_path)
    text = TransformersText(str(tmp_path) if saved else T5, dim=None).eval()
    if not saved:
        text.transformer.load_state_dict(t5.encoder.state_dict())
    _, _, ids, mask = batch()
    tokens, pooled = text(ids, mask)
    assert text.dim == 24 and not any('decoder' in name for name, _ in text.named_parameters())
    for i, n in enumerate((5, 1, 8)):
        alone = t5.encoder(input_ids=ids[i : i + 1, :n]).last_hidden_state[0]
        torch.testing.assert_close(tokens[i, :n], alone, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(pooled[i], alone.amax(0), atol=1e-5, rtol=1e-5)


def test_positions_of_t5_are_relative_and_its_vocabulary_is_checked():
    text = TransformersText(T5, dim=5)
    ids = torch.randint(2, 50, (2, 600))
    assert text(ids, torch.ones_like(ids, dtype=torch.bool))[1].shape == (2, 5)
    with pytest.raises(ValueError, match='token id 50 in text 1 of the batch'):
        text(torch.tensor([[3, 4], [3, 50]]), torch.ones(2, 2, dtype=torch.bool))


# -- the encoder -------------------------------------------------------------------------------


def gru(x, ssb, end, reverse):
    """The hidden states of one direction on one video, step by step."""
    name = 'l0_reverse' if reverse else 'l0'
    w, u, b, c = (
        getattr(ssb.rnn, f'{k}_{name}') for k in ('weight_ih', 'weight_hh', 'bias_ih', 'bias_hh')
    )
    h, states = x.new_zeros(u.shape[1]), {}
    for f in reversed(range(end)) if reverse else range(end):
        xr, xz, xn = (w @ x[f] + b).chunk(3)
        hr, hz, hn = (u @ h + c).chunk(3)
        z = torch.sigmoid(xz + hz)
        h = (1 - z) * torch.tanh(xn + torch.sigmoid(xr + hr) * hn) + z * h
        states[f] = h
    return torch.stack([states[f] for f in range(end)])


def pool(tokens, pooling, heads):
    """Pre-norm blocks on the query and the tokens [L, D] of one item, head by head."""
    x = torch.cat([pooling.query[None], tokens])
    for block in pooling.blocks:
        q, k, v = nn.functional.linear(
            block.norm1(x), block.self_attn.in_proj_weight, block.self_attn.in_proj_bias
        ).chunk(3, -1)
        parts = []
        for a, b, c in zip(q.chunk(heads, -1), k.chunk(heads, -1), v.chunk(heads, -1)):
            scores = (a @ b.t() / a.shape[-1] ** 0.5).exp()
            parts.append(scores / scores.sum(1, keepdim=True) @ c)
        x = x + block.self_attn.out_proj(torch.cat(parts, -1))
        x = x + block.linear2(nn.functional.gelu(block.linear1(block.norm2(x))))
    x = pooling.norm(x)
    return x[1:], x[0]


def test_video_against_loops():
    ssb = encoder().double().eval()
    video, mask, _, _ = batch()
    level = ssb.encode_video(video, mask)['global']
    assert level.mask is mask and level.mean.shape == (3, 16)
    for v, n in enumerate((6, 3, 1)):
        frames = torch.cat([gru(video[v], ssb, n, reverse) for reverse in (False, True)], -1)
        tokens, pooled = pool(frames, ssb.video_pooling, heads=2)
        torch.testing.assert_close(level.tokens[v, :n], tokens)
        torch.testing.assert_close(level.mean[v], pooled / pooled.norm())
        assert not level.tokens[v, n:].any()


def test_text_against_loops():
    ssb = encoder().double().eval()
    _, _, ids, mask = batch()
    level = ssb.encode_text(ids, mask)['global']
    weight, bias = ssb.cnn.weight, ssb.cnn.bias
    for t, n in enumerate((5, 1, 8)):
        hidden = ssb.text(ids[t : t + 1, :n], mask[t : t + 1, :n])[0][0]
        words = []
        for i in range(n):
            near = [(k, i + k - 1) for k in range(3) if 0 <= i + k - 1 < n]
            words.append((bias + sum(weight[:, :, k] @ hidden[j] for k, j in near)).clamp(min=0))
        tokens, pooled = pool(torch.stack(words), ssb.text_pooling, heads=2)
        torch.testing.assert_close(level.tokens[t, :n], tokens)
        torch.testing.assert_close(level.mean[t], pooled / pooled.norm())
        assert not level.tokens[t, n:].any()


@pytest.mark.parametrize(
    'dtype, bound', [(torch.float64, 1e-6), (torch.float32, 1e-5)], ids=['float64', 'float32']
)
@pytest.mark.parametrize('training', [True, False])
def test_padding_and_neighbours_never_leak(training, dtype, bound):
    ssb = encoder().to(dtype).train(training)
    video, mask, ids, text_mask = batch(dtype)
    with torch.set_grad_enabled(training):
        videos, texts = ssb.encode_video(video, mask), ssb.encode_text(ids, text_mask)
        wide = torch.cat([video, torch.full_like(video, 1e3)], 1)
        wide[:, :6][~mask] = torch.nan
        noisy = ssb.encode_video(wide, torch.cat([mask, torch.zeros_like(mask)], 1))
        swapped = ssb.encode_text(torch.where(text_mask, ids, 7), text_mask)
        close = dict(atol=bound, rtol=0)
        torch.testing.assert_close(noisy['global'].mean, videos['global'].mean, **close)
        torch.testing.assert_close(noisy['global'].tokens[:, :6], videos['global'].tokens, **close)
        torch.testing.assert_close(swapped['global'].mean, texts['global'].mean, **close)
        for i, (n, m) in enumerate(zip((6, 3, 1), (5, 1, 8))):
            item = slice(i, i + 1)
            alone = ssb.encode_video(video[item, :n], mask[item, :n])['global']
            torch.testing.assert_close(alone.mean[0], videos['global'].mean[i], **close)
            alone = ssb.encode_text(ids[item, :m], text_mask[item, :m])['global']
            torch.testing.assert_close(alone.mean[0], texts['global'].mean[i], **close)
            torch.testing.assert_close(alone.tokens[0], texts['global'].tokens[i, :m], **close)


def test_gradients_reach_everything_also_from_an_empty_batch():
    ssb = encoder().double()
    video, mask, ids, text_mask = batch()
    mix = torch.randn(16).double()
    (ssb.encode_video(video, mask)['global'].mean @ mix).sum().backward()
    (ssb.encode_text(ids, text_mask)['global'].mean @ mix).sum().backward()
    for name, p in ssb.named_parameters():
        assert p.grad is not None and p.grad.any(), name
    ssb.zero_grad()
    empty = ssb.encode_video(video[:0], mask[:0])['global']
    none = ssb.encode_text(ids[:0], text_mask[:0])['global']
    assert empty.mean.shape == none.mean.shape == (0, 16)
    assert empty.tokens.shape == (0, 6, 16) and none.tokens.shape == (0, 8, 16)
    (empty.mean.sum() + none.tokens.sum()).backward()
    assert all(p.grad is not None and not p.grad.any() for p in ssb.parameters())


def test_dropout_acts_in_training_only():
    ssb = encoder(dropout=0.5).double()
    video, mask, ids, text_mask = batch()
    for encode, args in ((ssb.encode_video, (video, mask)), (ssb.encode_text, (ids, text_mask))):
        ssb.train()
        a, b = (encode(*args)['global'].mean for _ in range(2))
        assert not torch.allclose(a, b)
        ssb.eval()
        assert torch.equal(*(encode(*args)['global'].mean for _ in range(2)))


def test_under_autocast():
    ssb = encoder()
    video, mask, ids, text_mask = batch(torch.float32)
    exact = ssb.encode_video(video, mask)['global'], ssb.encode_text(ids, text_mask)['global']
    with torch.autocast('cpu', torch.bfloat16):
        rough = ssb.encode_video(video, mask)['global'], ssb.encode_text(ids, text_mask)['global']
    for a, b in zip(exact, rough):
        assert b.mean.dtype == b.tokens.dtype == torch.float32
        assert (a.mean * b.mean).sum(1).min() > 0.995
    sum(level.tokens.sum() for level in rough).backward()
    assert all(p.grad.isfinite().all() for p in ssb.parameters() if p.grad is not None)


def test_bad_input():
    ssb = encoder()
    video, mask, ids, text_mask = batch(torch.float32)
    with pytest.raises(ValueError, match=r'takes features \[V, F, 7\], got \[3, 6, 5\]'):
        ssb.encode_video(video[..., :5], mask)
    with pytest.raises(ValueError, match='frame_mask of item 1 of the batch is all False'):
        ssb.encode_video(video, lengths(6, 0, 1))
    with pytest.raises(ValueError, match='frame_mask of item 1 of the batch has padding in front'):
        ssb.encode_video(
            video, mask ^ torch.tensor([[False] * 6, [True] + [False] * 5, [False] * 6])
        )
    with pytest.raises(ValueError, match='text 1 of the batch has no valid token'):
        ssb.encode_text(ids, lengths(5, 0, 8))
    with pytest.raises(ValueError, match='dim must be even and kernel odd, not 15 and 3'):
        encoder(dim=15)
    with pytest.raises(ValueError, match='dim must be even and kernel odd, not 16 and 4'):
        encoder(kernel=4)
    with pytest.raises(RuntimeError, match="cannot load '/no/such/t5'"):
        TransformersText('/no/such/t5', dim=None)


# -- in the retriever --------------------------------------------------------------------------


def retriever(loss):
    return VideoTextRetriever(
        encoder=encoder(),
        similarity=dict(type='CosineSimilarity'),
        losses=dict(retrieval=loss),
        objectives=dict(caption=dict(type='CrossCaptioning', decoder=T5, dim=16)),
    )


def samples(text_videos, video_idx):
    return dict(
        text_videos=torch.tensor(text_videos)[:, None],
        video_idx=torch.tensor(video_idx),
        text_ids=[str(v) for v in text_videos],
        video_ids=[str(v) for v in video_idx],
    )


@pytest.mark.parametrize(
    'loss',
    [
        dict(type='RankingLoss', negatives='hardest', margin=0.2),
        dict(type='NormalizedContrastiveLoss', loss_weight=15.0),
    ],
    ids=['triplet', 'ncl'],
)
def test_trains_in_the_retriever(loss):
    model = retriever(loss)
    video, mask, ids, text_mask = batch(torch.float32)
    inputs = dict(video=video, frame_mask=mask, text=ids, text_mask=text_mask)
    losses = model(inputs, samples([7, 8, 9], [7, 8, 9]), mode='loss')
    assert set(losses) == {'loss_retrieval', 'caption_loss', 'temperature'}
    (losses['loss_retrieval'] + losses['caption_loss']).backward()
    for name, p in model.named_parameters():
        assert not p.requires_grad or p.grad.any(), name
    predicted = model(inputs, samples([7, 8, 9], [7, 8, 9]), mode='predict')
    assert predicted[0].scores.shape == (3,)


def test_a_batch_whose_videos_are_broken_or_one():
    model = retriever(dict(type='RankingLoss', negatives='hardest'))
    video, mask, ids, text_mask = batch(torch.float32)
    words = dict(text=ids, text_mask=text_mask)
    one = dict(video=video[:1], frame_mask=mask[:1], **words)
    for inputs, columns in ((words, []), (one, [7])):
        losses = model(inputs, samples([7, 7, 7], columns), mode='loss')
        assert losses['caption_loss'] == 0
        model.zero_grad()
        (losses['loss_retrieval'] + losses['caption_loss']).backward()
        assert all(p.grad is not None for p in model.objectives.parameters())


# -- configs -----------------------------------------------------------------------------------


@pytest.mark.parametrize('method', ['ssb', 'ncl_ssb'])
@pytest.mark.parametrize('dataset', ['msrvtt', 'msvd', 'activitynet'])
def test_configs(method, dataset):
    """NCL's App. C: T5-base, 512 + 2048 features, dropout .1 or 0, temperature .07, scale 15."""
    name = f'{method}_{dataset}'
    cfg = Config.fromfile(CONFIGS / f'{name}.py')
    model, captioning = cfg.model, cfg.model.objectives.caption
    assert model.encoder.text.model == captioning.decoder == 't5-base'
    assert model.encoder.dropout == (0.0 if dataset == 'activitynet' else 0.1)
    assert captioning.support == 'cross'
    for loader in ('train', 'val', 'test'):
        if f'{loader}_dataloader' not in cfg:
            assert loader == 'val' and dataset != 'msvd'
            continue
        pipelines = cfg[f'{loader}_dataloader'].dataset
        (words,), (store,) = pipelines.text_pipeline, pipelines.video_pipeline
        assert words.model == 't5-base' and len(store.path) == 2
        assert all(path.startswith(f'data/{dataset}/') for path in store.path)
    if name.startswith('ncl'):
        assert model.temperature.init == 0.07
        assert model.losses == dict(ncl=dict(type='NormalizedContrastiveLoss', loss_weight=15.0))
    else:
        assert model.losses.triplet.negatives == 'all' and model.losses.triplet.margin == 0.2
    model.encoder.text.model = captioning.decoder = T5
    with torch.device('meta'):
        ssb, objective = MODELS.build(model.encoder), MODELS.build(captioning)
    assert isinstance(ssb, SSBEncoder) and ssb.rnn.input_size == 2560
    assert objective.projection.in_features == ssb.dim
