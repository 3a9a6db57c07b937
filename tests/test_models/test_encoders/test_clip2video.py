"""CLIP2Video's blocks against a float64 reference with loops over the valid tokens of a sample."""

import copy
import math

import pytest
import torch

from mmvtr.models import (
    CLIP2Video,
    CosineSimilarity,
    FeatureFrames,
    OpenCLIPFrames,
    OpenCLIPText,
)
from mmvtr.models.encoders.clip2video import TemporalDifference

DIM, HEADS = 16, 4
CLIP = dict(
    embed_dim=DIM,
    quick_gelu=True,
    vision_cfg=dict(layers=1, width=64, patch_size=16, image_size=32),
    text_cfg=dict(context_length=14, vocab_size=50, width=DIM, heads=HEADS, layers=2),
)


def model(seed=0, frames=None):
    """A CLIP2Video over features, with weights large enough for every part to matter."""
    torch.manual_seed(seed)
    encoder = CLIP2Video(
        frames or FeatureFrames(DIM), OpenCLIPText(CLIP), temporal_layers=2, num_centers=3
    )
    for parameter in encoder.parameters():
        parameter.data += 0.2 * torch.randn_like(parameter)
    return encoder.double()


def lengths(*values):
    return torch.arange(max(values)) < torch.tensor(values)[:, None]


# -- the reference: lists of vectors, all of them valid ------------------------------------


def norm(x, layer, epsilon):
    centred = x - x.mean()
    return centred / torch.sqrt((centred**2).mean() + epsilon) * layer.weight + layer.bias


def attend(xs, attn):
    """Each token attends to all tokens, head by head."""
    size = DIM // HEADS
    projected = [attn.in_proj_weight @ x + attn.in_proj_bias for x in xs]
    outputs = []
    for query in projected:
        heads = []
        for h in range(HEADS):
            part = slice(h * size, (h + 1) * size)
            q = query[:DIM][part]
            logits = [float(q @ p[DIM : 2 * DIM][part]) / math.sqrt(size) for p in projected]
            weights = [math.exp(logit - max(logits)) for logit in logits]
            values = [p[2 * DIM :][part] for p in projected]
            heads.append(sum(w * v for w, v in zip(weights, values)) / sum(weights))
        outputs.append(attn.out_proj.weight @ torch.cat(heads) + attn.out_proj.bias)
    return outputs


def transform(xs, transformer):
    for block in transformer.resblocks:
        attended = attend([norm(x, block.ln_1, 1e-12) for x in xs], block.attn)
        xs = [x + a for x, a in zip(xs, attended)]
        hidden = [block.mlp.c_fc(norm(x, block.ln_2, 1e-12)) for x in xs]
        xs = [x + block.mlp.c_proj(h / (1 + (-1.702 * h).exp())) for x, h in zip(xs, hidden)]
    return xs


def with_change(frames, encoder, transformer):
    """Interleave, transform, keep the frames, add the originals."""
    block = encoder.difference
    position, (of_change, of_frame) = block.position.weight, block.token_type.weight
    change = [frames[t + 1] - frames[t] + position[t + 1] for t in range(len(frames) - 1)]
    change = transform(change, block.attention) if change else []
    change = [2 / (1 + (-norm(d, block.norm, 1e-5)).exp()) - 1 for d in change]
    mixed = []
    for t, frame in enumerate(frames):
        mixed.append(frame + position[t] + of_frame)
        if t < len(change):
            mixed.append(change[t] + position[t] + of_change)
    mixed = transform(mixed, transformer)
    return [mixed[2 * t] + frame for t, frame in enumerate(frames)]


def align(tokens, block):
    total = 0
    for k in range(len(block.weight_center)):
        residual = 0
        for x in tokens:
            logits = [math.exp(float(w @ x)) for w in block.weight_center]
            residual = residual + logits[k] / sum(logits) * (x - block.emb_center[k])
        total = total + residual / residual.norm()
    mean = total / len(block.weight_center)
    return mean / mean.norm()


def mean_of_units(tokens):
    total = sum(x / x.norm() for x in tokens) / len(tokens)
    return total / total.norm()


# ------------------------------------------------------------------------------------------


@torch.no_grad()
@pytest.mark.parametrize('seed', [0, 1])
def test_video_equals_the_reference(seed):
    encoder = model(seed)
    counts = (12, 7, 2, 1, 4)
    mask = lengths(*counts)
    video = torch.randn(len(counts), 12, DIM).double()
    levels = encoder.encode_video(video, mask)
    for v, count in enumerate(counts):
        frames = list(video[v, :count])
        tokens = with_change(frames, encoder, encoder.temporal)
        torch.testing.assert_close(levels['global'].tokens[v, :count], torch.stack(tokens))
        assert not levels['global'].tokens[v, count:].any()
        torch.testing.assert_close(levels['global'].mean[v], mean_of_units(tokens))
        slow = with_change(frames[::2], encoder, encoder.action)
        torch.testing.assert_close(levels['aligned'].mean[v], align(frames + slow, encoder.align))


@torch.no_grad()
def test_text_equals_the_reference():
    encoder = model()
    ids, mask = torch.randint(1, 50, (3, 8)), lengths(8, 2, 5)
    levels = encoder.encode_text(ids, mask)
    tokens, pooled = encoder.text(ids, mask)
    for t, count in enumerate((8, 2, 5)):
        torch.testing.assert_close(levels['global'].mean[t], pooled[t] / pooled[t].norm())
        expected = align(list(tokens[t, 1:count]), encoder.align)
        torch.testing.assert_close(levels['aligned'].mean[t], expected)
        torch.testing.assert_close(levels['global'].tokens[t, :count], tokens[t, :count])
    assert torch.equal(levels['global'].mask, mask) and levels['aligned'].tokens is None


@pytest.mark.parametrize('training', [True, False])
def test_results_do_not_depend_on_the_batch(training):
    encoder = model(frames=OpenCLIPFrames(CLIP)).train(training)
    counts = (5, 1, 3)
    video, mask = torch.randn(3, 5, 3, 32, 32).double(), lengths(*counts)
    with torch.set_grad_enabled(training):
        together = encoder.encode_video(video, mask)
        garbage = torch.where(mask[..., None, None, None], video, torch.full_like(video, 1e4))
        again = encoder.encode_video(garbage, mask)
        for v, n in enumerate(counts):
            alone = encoder.encode_video(video[v : v + 1, :n], mask[v : v + 1, :n])
            for name, level in together.items():
                assert torch.equal(level.mean, again[name].mean)
                torch.testing.assert_close(level.mean[v], alone[name].mean[0])


class OfficialDifference(TemporalDifference):
    """A difference is a key where its later frame is valid, and a token where its earlier is."""

    def forward(self, frames, mask):
        position, (of_change, of_frame) = self.position(frames.shape[1]), self.token_type.weight
        change = torch.cat([frames[:, 1:] - frames[:, :-1], torch.zeros_like(frames[:, :1])], 1)
        never = torch.zeros_like(mask[:, :1])
        change = self.attention(change + position.roll(-1, 0), torch.cat([mask[:, 1:], never], 1))
        change = 2 * self.norm(change).sigmoid() - 1
        tokens = torch.stack([frames + position + of_frame, change + position + of_change], 2)
        seen = torch.stack([mask, torch.cat([mask[:, :-1], never], 1)], 2)
        return tokens.flatten(1, 2), seen.flatten(1, 2)


@torch.no_grad()
def test_what_the_difference_to_padding_is_worth():
    """The figures of clip2video.py: how far official scores of short videos are from ours.

    Frames are a video's own vector and as much noise, of norm 10 as CLIP's; padding is one vector,
    as a tower makes it of black frames.
    """
    torch.manual_seed(0)
    items, width = 24, 512
    text = {**CLIP['text_cfg'], 'width': width, 'heads': 8, 'layers': 4}
    tower = OpenCLIPText({**CLIP, 'embed_dim': width, 'text_cfg': text})
    ours = CLIP2Video(FeatureFrames(width), tower)
    official = copy.deepcopy(ours)
    official.difference.__class__ = OfficialDifference
    norm = 10 / width**0.5
    video = (torch.randn(items, 1, width) + torch.randn(items, 12, width)) / 2**0.5 * norm
    black = torch.randn(width) * norm
    texts = ours.encode_text(torch.randint(1, 49, (items, 12)), lengths(*[12] * items))
    score = CosineSimilarity(levels=('global', 'aligned'))
    shares = {}
    for count in (2, 9, 12):
        mask = (torch.arange(12) < count).expand(items, 12)
        frames = torch.where(mask[..., None], video, black)
        one = score(texts, ours._pool_frames(video * mask[..., None], mask))['scores']
        two = score(texts, official._pool_frames(frames, mask))['scores']
        shares[count] = float((one - two).abs().mean() / one.std(1).mean())
    assert shares == {2: pytest.approx(0.2, abs=0.04), 9: pytest.approx(0.05, abs=0.015), 12: 0}


def test_a_hole_in_the_mask_is_not_looked_at():
    encoder = model()
    mask = torch.tensor([[True, False, True, True]])
    video = torch.randn(1, 4, DIM).double()
    other = video.clone()
    other[0, 1] = 100.0
    for name, level in encoder.encode_video(video, mask).items():
        assert torch.equal(level.mean, encoder.encode_video(other, mask)[name].mean)
    _, interleaved = encoder.difference(video, mask)
    assert interleaved.int().tolist() == [[1, 0, 0, 0, 1, 1, 1, 0]]  # only d_3 has both frames


def test_gradients_reach_every_parameter():
    encoder = model(frames=OpenCLIPFrames(CLIP))
    video, mask = torch.randn(2, 4, 3, 32, 32).double(), lengths(4, 1)
    ids, text_mask = torch.randint(1, 50, (3, 6)), lengths(6, 2, 4)
    mix = torch.randn(DIM).double()
    for levels in (encoder.encode_video(video, mask), encoder.encode_text(ids, text_mask)):
        sum((level.mean @ mix).sum() for level in levels.values()).backward()
    for name, p in encoder.named_parameters():
        assert p.grad is not None and p.grad.any() and p.grad.isfinite().all(), name


def test_one_frame_videos_and_empty_batches_leave_no_parameter_out():
    encoder = model(frames=OpenCLIPFrames(CLIP))
    video, mask = torch.randn(2, 1, 3, 32, 32).double(), lengths(1, 1)
    ids, text_mask = torch.randint(1, 50, (2, 4)), lengths(4, 4)
    for items in (2, 0):
        encoder.zero_grad()
        videos = encoder.encode_video(video[:items], mask[:items])
        texts = encoder.encode_text(ids[:items], text_mask[:items])
        assert set(videos) == set(texts) == {'global', 'aligned'}
        assert videos['aligned'].mean.shape == (items, DIM)
        sum(e.mean.sum() for levels in (videos, texts) for e in levels.values()).backward()
        assert all(p.grad is not None and p.grad.isfinite().all() for p in encoder.parameters())


def test_float32_and_bfloat16_follow_float64():
    encoder = model(frames=OpenCLIPFrames(CLIP))
    video, mask = torch.randn(3, 5, 3, 32, 32).double(), lengths(5, 1, 4)
    ids, text_mask = torch.randint(1, 50, (3, 6)), lengths(6, 2, 4)

    def run(dtype):
        videos = encoder.encode_video(video.to(dtype), mask)
        texts = encoder.encode_text(ids, text_mask)
        return [levels[name].mean for levels in (videos, texts) for name in sorted(levels)]

    exact = run(torch.float64)
    encoder.float()
    single = run(torch.float32)
    with torch.autocast('cpu', torch.bfloat16):
        half = run(torch.float32)
    for x, y, z in zip(exact, single, half):
        assert y.dtype == z.dtype == torch.float32
        torch.testing.assert_close(y.double(), x, atol=1e-4, rtol=0)
        assert ((z.double() * x).sum(-1) > 0.99).all()


def test_starts_from_the_text_tower_where_the_widths_agree():
    text = OpenCLIPText(CLIP)
    encoder = CLIP2Video(FeatureFrames(DIM), text, temporal_layers=2)
    first, second = (block.state_dict() for block in text.transformer.resblocks)
    for transformer in (encoder.temporal, encoder.action, encoder.difference.attention):
        for key, value in first.items():
            assert torch.equal(transformer.resblocks[0].state_dict()[key], value), key
    assert torch.equal(encoder.temporal.resblocks[1].attn.in_proj_bias, second['attn.in_proj_bias'])
    assert torch.equal(encoder.difference.position.weight, text.positional_embedding)
    wider = OpenCLIPText({**CLIP, 'text_cfg': {**CLIP['text_cfg'], 'width': 24}})
    assert CLIP2Video(FeatureFrames(DIM), wider).difference.position.weight.shape == (77, DIM)


def test_bad_input():
    encoder = CLIP2Video(FeatureFrames(DIM), OpenCLIPText(CLIP), max_frames=4)
    with pytest.raises(ValueError, match='frame_mask of item 2 .* all False'):
        encoder.encode_video(torch.randn(3, 4, DIM), lengths(4, 1, 0))
    with pytest.raises(ValueError, match='5 frames, but the position table has 4 rows'):
        encoder.encode_video(torch.randn(1, 5, DIM), lengths(5))
