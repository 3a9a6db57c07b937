"""CLIP4Clip's pooling against loops, and that padding never matters."""

import pytest
import torch

from mmvtr.models import CLIP4Clip, FeatureFrames, OpenCLIPFrames, OpenCLIPText
from mmvtr.registry import MODELS

CLIP = dict(
    embed_dim=32,
    quick_gelu=True,
    vision_cfg=dict(layers=1, width=64, patch_size=16, image_size=32),
    text_cfg=dict(context_length=10, vocab_size=50, width=32, heads=4, layers=2),
)


def model(aggregator='mean', **kwargs):
    torch.manual_seed(0)
    kwargs = dict(temporal_layers=2, **kwargs) if aggregator == 'transformer' else kwargs
    frames, text = OpenCLIPFrames(CLIP), OpenCLIPText(CLIP)
    return CLIP4Clip(frames, text, aggregator=aggregator, **kwargs).double()


def lengths(*values):
    return torch.arange(max(values)) < torch.tensor(values)[:, None]


def test_mean_pooling_is_of_unit_frames():
    clip = model()
    mask = lengths(2, 5, 1)
    video = torch.randn(3, 5, 3, 32, 32).double()
    level = clip.encode_video(video, mask)['global']
    for v, n in enumerate((2, 5, 1)):
        total = sum(f / f.norm() for f in clip.frames(video[v, :n])) / n
        torch.testing.assert_close(level.mean[v], total / total.norm())
        torch.testing.assert_close(level.tokens[v, :n], clip.frames(video[v, :n]))
        assert not level.tokens[v, n:].any()
    assert level.mask is mask


def test_text_is_the_unit_eot():
    clip = model()
    ids, mask = torch.randint(1, 50, (2, 6)), lengths(6, 3)
    level = clip.encode_text(ids, mask)['global']
    tokens, pooled = clip.text(ids, mask)
    torch.testing.assert_close(level.mean, pooled / pooled.norm(dim=-1, keepdim=True))
    torch.testing.assert_close(level.tokens[1, :3], tokens[1, :3])
    assert not level.tokens[1, 3:].any()


def test_transformer_starts_from_the_text_tower():
    clip = model('transformer')
    text = clip.text
    assert torch.equal(clip.position.weight, text.positional_embedding)
    for ours, theirs in zip(clip.temporal.resblocks, text.transformer.resblocks):
        for key, value in theirs.state_dict().items():
            assert torch.equal(ours.state_dict()[key], value), key
    mask = lengths(4, 2)
    video = torch.randn(2, 4, 3, 32, 32).double()
    frames = clip.frames(video[1, :2])
    clips = clip.text.transformer(frames[None] + text.positional_embedding[:2])[0]
    level = clip.encode_video(video, mask)['global']
    # CLIP's LayerNorm has a larger epsilon than CLIP4Clip's temporal one.
    torch.testing.assert_close(level.tokens[1, :2], frames + clips, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize('aggregator', ['mean', 'transformer'])
@pytest.mark.parametrize('training', [True, False])
def test_padding_and_neighbours_never_leak(aggregator, training):
    clip = model(aggregator).train(training)
    video = torch.randn(3, 6, 3, 32, 32).double()
    mask = lengths(6, 3, 1)
    with torch.set_grad_enabled(training):
        together = clip.encode_video(video, mask)['global']
        noise = torch.where(mask[..., None, None, None], video, torch.full_like(video, 1e3))
        noisy = clip.encode_video(noise, mask)['global']
        for v, n in enumerate((6, 3, 1)):
            alone = clip.encode_video(video[v : v + 1, :n], mask[v : v + 1, :n])['global']
            torch.testing.assert_close(together.mean[v], alone.mean[0])
    assert torch.equal(together.mean, noisy.mean)


@pytest.mark.parametrize('aggregator', ['mean', 'transformer'])
def test_gradients_reach_everything_also_from_an_empty_batch(aggregator):
    clip = model(aggregator)
    ids, mask = torch.randint(1, 50, (2, 6)), lengths(6, 3)
    video = torch.randn(2, 6, 3, 32, 32).double()
    mix = torch.randn(32).double()
    (clip.encode_video(video, mask)['global'].mean @ mix).sum().backward()
    (clip.encode_text(ids, mask)['global'].mean @ mix).sum().backward()
    for name, p in clip.named_parameters():
        assert p.grad is not None and p.grad.any(), name
    clip.zero_grad()
    empty = [clip.encode_video(video[:0], mask[:0]), clip.encode_text(ids[:0], mask[:0])]
    assert [e['global'].mean.shape for e in empty] == [(0, 32), (0, 32)]
    assert empty[0]['global'].tokens.shape == (0, 6, 32)
    sum(e['global'].mean.sum() + e['global'].tokens.sum() for e in empty).backward()
    assert all(p.grad is not None and not p.grad.any() for p in clip.parameters())


def test_from_a_config_over_features():
    clip = MODELS.build(
        dict(
            type='CLIP4Clip',
            frames=dict(type='FeatureFrames', in_dim=7, dim=32),
            text=dict(type='OpenCLIPText', model=CLIP),
        )
    )
    level = clip.encode_video(torch.randn(2, 3, 7), lengths(3, 2))['global']
    assert level.mean.shape == (2, 32)


def test_bad_input():
    clip = model('transformer', max_frames=4)
    video = torch.randn(2, 5, 3, 32, 32).double()
    with pytest.raises(ValueError, match='frame_mask of item 1 .* all False'):
        clip.encode_video(video, lengths(5, 0))
    with pytest.raises(ValueError, match='5 frames, but the position table has 4 rows'):
        clip.encode_video(video, lengths(5, 2))
    with pytest.raises(ValueError, match='must be bool'):
        clip.encode_video(video, torch.ones(2, 5))
    with pytest.raises(ValueError, match='max_frames=11'):
        model('transformer', max_frames=11)
    with pytest.raises(ValueError, match="'mean', 'transformer'., not"):
        model('meanP')
    with pytest.raises(ValueError, match='one width, got 8 and 32'):
        CLIP4Clip(FeatureFrames(8), OpenCLIPText(CLIP))
