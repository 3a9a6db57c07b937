"""PRVR encoders against loops in float64, and that padding and neighbours never matter."""

import math
from pathlib import Path

import pytest
import torch
from mmengine.config import Config

from mmvtr.models.layers.prvr import GaussianBlock, gaussian_windows
from mmvtr.models.retriever import VideoTextRetriever
from mmvtr.registry import MODELS
from mmvtr.utils import register_all_modules

CONFIGS = Path(__file__).parents[3] / 'configs/_base_'
FRAMES, WORDS = (6, 3, 1), (5, 1, 4)
KINDS = ('ARLEncoder', 'DLDKDEncoder', 'TwoBranches', 'MSSLEncoder', 'GMMFormerEncoder')


def encoder(kind='ARLEncoder', *, seed=0, **kwargs):
    """Small, with weights of a size that shows every mistake."""
    register_all_modules()
    torch.manual_seed(seed)
    settings = dict(
        type='ARLEncoder' if kind == 'TwoBranches' else kind,
        frames=dict(type='FeatureFrames', in_dim=7),
        text=dict(type='FeatureWords', in_dim=5),
        dim=16,
        dropout=0.0,
        max_frames=12,
        max_words=8,
    )
    if kind in ('MSSLEncoder', 'GMMFormerEncoder'):
        settings['clips'] = 4
    settings.update(kwargs)
    model = MODELS.build(dict(type=kind, encoder=settings) if kind == 'TwoBranches' else settings)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.3 * torch.randn_like(p))
    return model


def lengths(*values):
    return torch.arange(max(values)) < torch.tensor(values)[:, None]


def batch(dtype=torch.float64):
    """Three videos of 6, 3 and 1 frames, and three texts of 5, 1 and 4 words."""
    torch.manual_seed(1)
    video, text = torch.randn(3, 6, 7, dtype=dtype), torch.randn(3, 5, 5, dtype=dtype)
    return video, lengths(*FRAMES), text, lengths(*WORDS)


# -- loops -------------------------------------------------------------------------------------


def norm(x, layer):
    x = x - x.mean(-1, keepdim=True)
    return x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt() * layer.weight + layer.bias


def attend(x, layer, width=math.inf, span=None):
    """Tokens [n, D] of one item, head by head, token by token."""
    n, span = len(x), span or len(x)
    q, k, v = (linear(x).chunk(layer.heads, -1) for linear in (layer.query, layer.key, layer.value))
    rows = []
    for i in range(n):
        near = [
            math.exp(-((j / max(span - 1, 1) - i / span) ** 2) / (2 * (width / 9) ** 2))
            for j in range(span)
        ]
        window = x.new_tensor(near[:n]) / max(near)
        parts = []
        for a, b, c in zip(q, k, v):
            weight = (window * (b @ a[i]) / math.sqrt(len(a[i]))).exp()
            parts.append(weight @ c / weight.sum())
        rows.append(torch.cat(parts))
    return norm(x + layer.output(torch.stack(rows)), layer.norm)


def embed(x, tokens):
    """What comes before the blocks."""
    x = tokens.project[2](norm(x, tokens.project[0])).clamp(min=0)
    return norm(x + tokens.position.weight[: len(x)], tokens.position_norm)


def pool(x, pooling):
    weight = (x @ pooling.score.weight[0]).exp()
    return weight @ x / weight.sum()


def mean_of_units(x):
    x = (x / x.norm(dim=1, keepdim=True)).mean(0)
    return x / x.norm()


def clips_of(x, count):
    """As ``clip_pooling`` (tested against loops by itself), of unit length."""
    edges = [round(i * len(x) / count) for i in range(count + 1)]
    starts = [min(edge, len(x) - 1) for edge in edges[:-1]]
    x = torch.stack([x[a : max(b, a + 1)].mean(0) for a, b in zip(starts, edges[1:])])
    return x / x.norm(dim=1, keepdim=True)


def gaussian(x, block, span=None):
    widths = (math.inf, 0.5, 1.0, 5.0)
    return sum(attend(x, layer, w, span) for layer, w in zip(block.layers, widths)) / 4


def one_layer(x, tokens):
    return attend(embed(x, tokens), tokens.blocks[0])


# -- encoders ----------------------------------------------------------------------------------


@pytest.mark.parametrize('kind', KINDS)
def test_text_against_loops(kind):
    model = encoder(kind).double().eval()
    _, _, text, mask = batch()
    levels = model.encode_text(text, mask)
    assert tuple(levels) == model.level_names
    for name, level in levels.items():
        branch = getattr(model, name) if kind == 'TwoBranches' else model
        assert level.tokens is None and level.mean.shape == (3, 16)
        for t, n in enumerate(WORDS):
            expected = pool(one_layer(text[t, :n], branch.words), branch.word_pooling)
            torch.testing.assert_close(level.mean[t], expected)


@pytest.mark.parametrize('kind', ['ARLEncoder', 'DLDKDEncoder', 'TwoBranches'])
def test_video_of_arl_against_loops(kind):
    model = encoder(kind).double().eval()
    video, mask, _, _ = batch()
    for name, level in model.encode_video(video, mask).items():
        branch = getattr(model, name) if kind == 'TwoBranches' else model
        assert torch.equal(level.mask, mask)
        for v, n in enumerate(FRAMES):
            expected = one_layer(video[v, :n], branch.video)
            if kind == 'DLDKDEncoder':
                expected = expected @ branch.mapping.weight.t() + branch.mapping.bias
            torch.testing.assert_close(level.tokens[v, :n], expected)
            torch.testing.assert_close(level.mean[v], mean_of_units(expected))
            assert not level.tokens[v, n:].any()


def test_video_of_mssl_against_loops():
    model = encoder('MSSLEncoder').double().eval()
    video, mask, _, _ = batch()
    levels = model.encode_video(video, mask)
    assert levels['clip'].mask.all() and torch.equal(levels['frame'].mask, mask)
    for v, n in enumerate(FRAMES):
        clips = one_layer(clips_of(video[v, :n], 4), model.clip)
        frames = one_layer(video[v, :n], model.frame)
        torch.testing.assert_close(levels['clip'].tokens[v], clips)
        torch.testing.assert_close(levels['clip'].mean[v], mean_of_units(clips))
        torch.testing.assert_close(levels['frame'].tokens[v, :n], frames)
        torch.testing.assert_close(levels['frame'].mean[v], mean_of_units(frames))
        assert not levels['frame'].tokens[v, n:].any()


@pytest.mark.parametrize('padded', [False, True])
def test_video_of_gmmformer_against_loops(padded):
    model = encoder('GMMFormerEncoder', padded_windows=padded).double().eval()
    video, mask, _, _ = batch()
    levels = model.encode_video(video, mask)
    assert levels['frame'].tokens.shape == (3, 1, 16) and levels['frame'].mask.all()
    for v, n in enumerate(FRAMES):
        clips, frames = (
            embed(clips_of(video[v, :n], 4), model.clip),
            embed(video[v, :n], model.frame),
        )
        for clip_block, frame_block in zip(model.clip.blocks, model.frame.blocks):
            clips = gaussian(clips, clip_block)
            frames = gaussian(frames, frame_block, span=6 if padded else None)
        torch.testing.assert_close(levels['clip'].tokens[v], clips)
        torch.testing.assert_close(levels['clip'].mean[v], mean_of_units(clips))
        torch.testing.assert_close(levels['frame'].mean[v], pool(frames, model.frame_pooling))
        assert torch.equal(levels['frame'].tokens[v, 0], levels['frame'].mean[v])


def test_windows_of_gmmformer():
    # Two of three frames: grid 0, 1; centres 0, 1/2, so that row 1 has two neighbours as near.
    windows = gaussian_windows(torch.tensor([[True, True, False]]), 4.5, dtype=torch.float64)[0]
    assert windows[:2, :2].tolist() == [[1, pytest.approx(math.exp(-2))], [1, 1]]
    flat = gaussian_windows(lengths(4, 2), math.inf)
    assert torch.equal(flat, torch.ones(2, 4, 4))
    block = GaussianBlock(8, heads=2, dropout=0.0)
    assert [layer.width for layer in block.layers] == [math.inf, 0.5, 1.0, 5.0]


@pytest.mark.parametrize(
    'dtype, bound', [(torch.float64, 1e-6), (torch.float32, 1e-5)], ids=['float64', 'float32']
)
@pytest.mark.parametrize('training', [True, False])
@pytest.mark.parametrize('kind', KINDS)
def test_padding_and_neighbours_never_leak(kind, training, dtype, bound):
    model = encoder(kind).to(dtype).train(training)
    video, mask, text, text_mask = batch(dtype)
    videos, texts = model.encode_video(video, mask), model.encode_text(text, text_mask)
    wide = torch.cat([video, torch.full_like(video, 1e3)], 1)
    wide[:, :6][~mask] = torch.nan
    noisy = model.encode_video(wide, torch.cat([mask, torch.zeros_like(mask)], 1))
    words = model.encode_text(torch.where(text_mask[..., None], text, torch.nan), text_mask)
    close = dict(atol=bound, rtol=0)
    for name in model.level_names:
        length = videos[name].tokens.shape[1]
        torch.testing.assert_close(noisy[name].mean, videos[name].mean, **close)
        torch.testing.assert_close(noisy[name].tokens[:, :length], videos[name].tokens, **close)
        torch.testing.assert_close(words[name].mean, texts[name].mean, **close)
        for i, (n, m) in enumerate(zip(FRAMES, WORDS)):
            item = slice(i, i + 1)
            alone = model.encode_video(video[item, :n], mask[item, :n])[name]
            torch.testing.assert_close(alone.mean[0], videos[name].mean[i], **close)
            tokens = videos[name].tokens[i, : alone.tokens.shape[1]]
            torch.testing.assert_close(alone.tokens[0], tokens, **close)
            alone = model.encode_text(text[item, :m], text_mask[item, :m])[name]
            torch.testing.assert_close(alone.mean[0], texts[name].mean[i], **close)


@pytest.mark.parametrize('kind', KINDS)
def test_gradients_reach_everything_also_from_an_empty_batch(kind):
    model = encoder(kind).double()
    video, mask, text, text_mask = batch()

    def backward(rows):
        videos = model.encode_video(video[rows], mask[rows])
        texts = model.encode_text(text[rows], text_mask[rows])
        mix = torch.randn(16).double()
        model.zero_grad()
        sum((x.tokens @ mix).sin().sum() for x in videos.values()).backward()
        sum((x.mean @ mix).sin().sum() for x in texts.values()).backward()
        return videos, texts

    backward(slice(3))
    for name, p in model.named_parameters():
        assert p.grad is not None and p.grad.any(), name
    videos, texts = backward(slice(0))
    for name in model.level_names:
        assert videos[name].mean.shape == texts[name].mean.shape == (0, 16)
        assert videos[name].tokens.shape[::2] == (0, 16)
    assert all(p.grad is not None and not p.grad.any() for p in model.parameters())


@pytest.mark.parametrize('kind', KINDS)
def test_dropout_acts_in_training_only(kind):
    model = encoder(kind, dropout=0.5).double()
    video, mask, text, text_mask = batch()
    name = model.level_names[0]
    for encode, args in (
        (model.encode_video, (video, mask)),
        (model.encode_text, (text, text_mask)),
    ):
        model.train()
        a, b = (encode(*args)[name].mean for _ in range(2))
        assert not torch.allclose(a, b)
        model.eval()
        assert torch.equal(*(encode(*args)[name].mean for _ in range(2)))


@pytest.mark.parametrize('kind', KINDS)
def test_under_autocast(kind):
    model = encoder(kind)
    video, mask, text, text_mask = batch(torch.float32)
    exact = {**model.encode_video(video, mask), 'text': model.encode_text(text, text_mask)}
    with torch.autocast('cpu', torch.bfloat16):
        rough = {**model.encode_video(video, mask), 'text': model.encode_text(text, text_mask)}
    for name in model.level_names:
        for a, b in ((exact[name], rough[name]), (exact['text'][name], rough['text'][name])):
            assert b.mean.dtype == torch.float32
            assert torch.cosine_similarity(a.mean, b.mean).min() > 0.99
        assert rough[name].tokens.dtype == torch.float32


def test_initial_weights_are_the_lineages():
    torch.manual_seed(0)
    arl = MODELS.build(
        dict(
            type='ARLEncoder',
            frames=dict(type='FeatureFrames', in_dim=256),
            text=dict(type='FeatureWords', in_dim=256),
        )
    )
    for name, p in arl.named_parameters():
        if name.endswith('bias'):
            assert not p.any()
        elif p.dim() == 2:
            assert 0.017 < p.std() < 0.023, name
        else:
            assert (p == 1).all()


def test_stored_words_are_taken_as_they_are():
    _, _, text, mask = batch()
    words, pooled = MODELS.build(dict(type='FeatureWords', in_dim=5))(text, mask)
    assert torch.equal(words, text)
    for x, n, got in zip(text, WORDS, pooled):
        torch.testing.assert_close(got, mean_of_units(x[:n]))


# -- two branches ------------------------------------------------------------------------------


def test_two_branches_differ_and_share_their_towers():
    model = encoder('TwoBranches', text=dict(type='TransformersText', model=BERT, dim=None)).eval()
    names = [name for name, _ in model.named_parameters()]
    assert len(names) == len(model.state_dict())  # no weight has two names
    for name, p in model.a.named_parameters():
        other = model.b.get_parameter(name)
        assert p.shape == other.shape and not torch.equal(p, other)
    calls = []
    model.text.register_forward_hook(lambda *_: calls.append('text'))
    model.frames.register_forward_hook(lambda *_: calls.append('frames'))
    video, mask, _, text_mask = batch(torch.float32)
    levels = model.encode_video(video, mask), model.encode_text(ids(), text_mask)
    assert calls == ['frames', 'text'] and all(list(side) == ['a', 'b'] for side in levels)
    with pytest.raises(ValueError, match="'global' alone, MSSLEncoder has .'clip', 'frame'."):
        MODELS.build(
            dict(
                type='TwoBranches',
                encoder=dict(
                    type='MSSLEncoder',
                    frames=dict(type='FeatureFrames', in_dim=7),
                    text=dict(type='FeatureWords', in_dim=5),
                ),
            )
        )


BERT = dict(
    model_type='bert',
    vocab_size=50,
    hidden_size=8,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=8,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
)


def ids():
    torch.manual_seed(2)
    return torch.randint(3, 50, (3, 5))


@pytest.mark.parametrize('kind', KINDS)
def test_over_a_live_text_tower(kind):
    model = encoder(kind, text=dict(type='TransformersText', model=BERT, dim=None)).double().eval()
    mask, name = lengths(*WORDS), model.level_names[-1]
    means = model.encode_text(ids(), mask)[name].mean
    for i, n in enumerate(WORDS):
        alone = model.encode_text(ids()[i : i + 1, :n], mask[i : i + 1, :n])[name].mean[0]
        torch.testing.assert_close(alone, means[i])
    means.square().sum().backward()
    embeddings = model.text.transformer.embeddings.word_embeddings.weight
    assert embeddings.grad is not None and embeddings.grad.any()
    assert model.encode_text(ids()[:0], mask[:0])[name].mean.shape == (0, 16)


# -- bad input ---------------------------------------------------------------------------------


@pytest.mark.parametrize('kind', KINDS)
def test_bad_input(kind):
    model = encoder(kind)
    video, mask, text, text_mask = batch(torch.float32)
    with pytest.raises(ValueError, match=r'FeatureFrames takes features \[N, 7\], got \[10, 6\]'):
        model.encode_video(video[..., :6], mask)
    with pytest.raises(
        ValueError, match=r'float features \[T, L, 5\], got torch.float32 \[3, 5, 4'
    ):
        model.encode_text(text[..., :4], text_mask)
    with pytest.raises(ValueError, match=r'float features \[T, L, 5\], got torch.int64 \[3, 5\]'):
        model.encode_text(ids(), text_mask)
    with pytest.raises(ValueError, match='frame_mask of item 1 of the batch is all False'):
        model.encode_video(video, lengths(6, 0, 1))
    with pytest.raises(ValueError, match='text_mask of item 0 of the batch is all False'):
        model.encode_text(text[:, :0], text_mask[:, :0])
    long = torch.randn(1, 13, 7), torch.ones(1, 13, dtype=torch.bool)
    with pytest.raises(ValueError, match='13 frames, but the encoder has 12 positions.*max_frames'):
        model.encode_video(*long)
    with pytest.raises(ValueError, match='9 words, but the encoder has 8 positions'):
        model.encode_text(torch.randn(1, 9, 5), torch.ones(1, 9, dtype=torch.bool))
    with pytest.raises(ValueError, match='dim must be a multiple of heads, not 16 of 3'):
        encoder(kind, heads=3)


# -- in the retriever --------------------------------------------------------------------------

SIMILARITIES = {
    'ARLEncoder': dict(type='BestFrameSimilarity'),
    'DLDKDEncoder': dict(type='BestFrameSimilarity'),
    'TwoBranches': dict(type='BestFrameSimilarity', levels=('a', 'b')),
    'MSSLEncoder': dict(type='MSSLSimilarity', dim=16, clips=4),
    'GMMFormerEncoder': dict(type='BestFrameSimilarity', levels=('clip', 'frame'), dots=True),
}


@pytest.mark.parametrize('kind', KINDS)
def test_trains_in_the_retriever(kind):
    model = VideoTextRetriever(
        encoder=encoder(kind),
        similarity=SIMILARITIES[kind],
        losses=dict(contrast=dict(type='ContrastiveLoss')),
        data_preprocessor=dict(type='VideoTextDataPreprocessor'),
    )
    video, mask, text, text_mask = batch(torch.float32)
    data = dict(
        inputs=dict(
            video=[x[: len(m.nonzero())] for x, m in zip(video, mask)],
            text=[x[: len(m.nonzero())] for x, m in zip(text, text_mask)],
        ),
        data_samples=dict(
            text_videos=torch.tensor([[0], [1], [2]]),
            video_idx=torch.tensor([0, 1, 2]),
            text_ids=['a', 'b', 'c'],
            video_ids=['x', 'y', 'z'],
        ),
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    values = []
    for _ in range(12):
        loss = model(**model.data_preprocessor(data), mode='loss')['loss_contrast']
        values.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert values[-1] < 0.3 * values[0]
    best = [s.scores.argmax() for s in model(**model.data_preprocessor(data), mode='predict')]
    assert best == [0, 1, 2]


@pytest.mark.parametrize('kind', KINDS)
def test_features_of_zeros_are_scored_and_learnt_from(kind):
    """Black frames, or rows that a store has left empty, cannot be made of unit length."""
    model = VideoTextRetriever(encoder=encoder(kind), similarity=SIMILARITIES[kind], losses={})
    video, mask, text, text_mask = batch(torch.float32)
    video[0], video[1, 0], text[2] = 0, 0, 0
    scores = model.score(
        model.encode_text(dict(text=text, text_mask=text_mask)),
        model.encode_video(dict(video=video, frame_mask=mask)),
    )['scores']
    scores.sin().sum().backward()
    assert torch.isfinite(scores).all()
    assert all(p.grad.abs().max() < 100 for p in model.encoder.parameters())


@pytest.mark.parametrize('kind', KINDS)
def test_a_batch_whose_videos_are_all_broken(kind):
    model = VideoTextRetriever(encoder=encoder(kind), similarity=SIMILARITIES[kind], losses={})
    _, _, text, mask = batch(torch.float32)
    texts, videos = model.encode_text(dict(text=text, text_mask=mask)), model.encode_video({})
    matrices = model.score(texts, videos)
    assert matrices['scores'].shape == (3, 0)
    sum(matrix.sum() for matrix in matrices.values()).backward()
    assert all(p.grad is not None for p in model.encoder.parameters())


@pytest.mark.parametrize(
    'name', ['arl_i3d', '../arl_tvr_clip', 'mssl_i3d', 'gmmformer_i3d', 'dldkd_i3d']
)
def test_base_configs(name):
    """Sizes: with TVR's features they are those of ARL's Tab. 3."""
    register_all_modules()
    cfg = Config.fromfile(CONFIGS / f'{name}.py').model
    inner = cfg.encoder.get('encoder', cfg.encoder)
    if name != '../arl_tvr_clip':
        inner.frames.in_dim, inner.text.in_dim = 3072, 768
    with torch.device('meta'):
        model = MODELS.build(dict(cfg, losses={}))
    assert model.encoder.dim == 384 and inner.max_words == (77 if name == '../arl_tvr_clip' else 30)
    sizes = {n: p.numel() for n, p in model.named_parameters() if n != 'temperature.log_scale'}
    total = sum(sizes.values()) / 1e6
    positions = sum(size for n, size in sizes.items() if n.endswith('position.weight')) / 1e6
    if name == 'arl_i3d':
        assert round(total - positions, 2) == 5.34
    if (
        name == 'gmmformer_i3d'
    ):  # the official table of clip positions has 96 rows that nobody reads
        assert round(total + 96 * 384e-6, 2) == 12.85
    if name == 'mssl_i3d':
        assert round(total + 96 * 384e-6, 2) == 4.85
