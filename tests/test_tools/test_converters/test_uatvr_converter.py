"""Official UATVR checkpoints: their logits under our names.

The reference is written from the behaviour of the official code, over the official names and
padded tensors; only the two CLIP towers are open_clip's.
"""

from pathlib import Path

import open_clip
import pytest
import torch
import torch.nn.functional as F
from mmengine.config import Config

from children import config_file
from mmvtr.registry import MODELS
from mmvtr.utils import register_all_modules
from official_checkpoints.conversion import clip_config, convert_checkpoint, official_retriever
from tests.test_models.test_encoders.test_clip2video import lengths
from tests.test_tools.test_converters.test_converters import DIM, LONG_CLIP, from_keys, official

CONFIGS = Path(__file__).resolve().parents[3] / 'configs'
T, L = 12, 32  # what the official code pads videos and texts to
FRAMES, WORDS = (12, 1, 7), (32, 9, 2)


# -- the reference -----------------------------------------------------------------------------


def clip_of(state):
    """open_clip's CLIP with the weights of ``clip.*``."""
    ours = {
        ('frames.' if key.startswith('clip.visual.') else 'text.') + key[len('clip.') :]: value
        for key, value in state.items()
        if key.startswith('clip.')
    }
    clip = open_clip.CLIP(**clip_config(ours)).eval().double()
    clip.load_state_dict({k[len('clip.') :]: v for k, v in state.items() if k.startswith('clip.')})
    return clip


def words_of(clip, ids):
    x = clip.token_embedding(ids) + clip.positional_embedding[: ids.shape[1]]
    x = clip.transformer(x, attn_mask=clip.attn_mask[: ids.shape[1], : ids.shape[1]])
    return clip.ln_final(x) @ clip.text_projection


def norm(x, state, name):
    x = (x - x.mean(-1, keepdim=True)) / (x.var(-1, correction=0, keepdim=True) + 1e-12).sqrt()
    return x * state[f'{name}.weight'] + state[f'{name}.bias']


def transformer(x, mask, state):
    """transformerClip with the additive mask ``(1 - m) * -1e6``."""
    n, length, dim = x.shape
    heads = dim // 64
    away = ((1.0 - mask) * -1e6)[:, None, None]
    i = 0
    while f'transformerClip.resblocks.{i}.ln_1.weight' in state:
        name = f'transformerClip.resblocks.{i}'

        def linear(y, layer, name=name):
            return F.linear(y, state[f'{name}.{layer}weight'], state[f'{name}.{layer}bias'])

        qkv = linear(norm(x, state, f'{name}.ln_1'), 'attn.in_proj_')
        q, k, v = (p.view(n, length, heads, 64).transpose(1, 2) for p in qkv.split(dim, -1))
        attention = (q @ k.transpose(2, 3) / 8 + away).softmax(-1)
        x = x + linear((attention @ v).transpose(1, 2).reshape(n, length, dim), 'attn.out_proj.')
        hidden = linear(norm(x, state, f'{name}.ln_2'), 'mlp.c_fc.')
        x = x + linear(hidden * (1.702 * hidden).sigmoid(), 'mlp.c_proj.')
        i += 1
    return x


def with_extra(x, mask, table, count, state):
    """Zero content behind the padded sequence, positions for all, residual for the sequence."""
    length = x.shape[1]
    mask = torch.cat([mask, torch.ones(len(x), count)], 1)
    enlarged = torch.cat([x, torch.zeros(len(x), count, x.shape[2])], 1)
    positions = state[f'{table}_position_embeddings.weight'][: length + count]
    mixed = transformer(enlarged + positions, mask, state)
    return torch.cat([mixed[:, :length] + x, mixed[:, length:]], 1), mask


def weights(tokens, mask, side, state):
    hidden = F.linear(
        tokens, state[f'{side}_weight_fc.0.weight'], state[f'{side}_weight_fc.0.bias']
    )
    logits = hidden.relu() @ state[f'{side}_weight_fc.2.weight'][0]
    return (
        (logits + state[f'{side}_weight_fc.2.bias']).masked_fill(mask == 0, -torch.inf).softmax(1)
    )


def reference_logits(state, video, frame_mask, ids, text_mask, extra=(2, 2)):
    """Padded input of the official code -> float64 [T, V]."""
    state = {key: value.double() for key, value in state.items()}
    clip = clip_of(state)
    frames = clip.encode_image(video.flatten(0, 1)).view(*video.shape[:2], -1)
    frames, frame_mask = with_extra(frames, frame_mask.double(), 'frame', extra[0], state)
    words, text_mask = with_extra(words_of(clip, ids), text_mask.double(), 'word', extra[1], state)
    if extra[1] == 0:
        text_mask = text_mask.clone()
        text_mask[:, 0] = 0
    frames, words = F.normalize(frames, dim=-1), F.normalize(words, dim=-1)
    sims = torch.einsum('tld,vfd->tvlf', words, frames)
    sims = sims * text_mask[:, None, :, None] * frame_mask[None, :, None]
    t2v = (sims.max(3).values * weights(words, text_mask, 'text', state)[:, None]).sum(2)
    v2t = (sims.max(2).values * weights(frames, frame_mask, 'video', state)[None]).sum(2)
    return state['clip.logit_scale'].exp() * (t2v + v2t) / 2


# ----------------------------------------------------------------------------------------------


def lively(state, scale=1.0):
    """Weights large enough for every part to matter."""
    torch.manual_seed(0)
    state = {key: value.float().clone() for key, value in state.items()}
    for key, value in state.items():
        if 'ln_' in key and key.endswith('weight'):
            value.copy_(1 + 0.2 * torch.randn_like(value))
        elif key in ('clip.text_projection', 'clip.visual.proj'):
            value *= 5  # what words and frames are themselves outweighs what all of them share
        elif not key.startswith('clip.'):
            value *= scale
    state['clip.logit_scale'].fill_(3.0)
    return state


def small():
    return lively(official('uatvr'))


def padded_batch(vocabulary):
    torch.manual_seed(1)
    frame_mask, text_mask = lengths(*FRAMES), lengths(*WORDS)
    ids = torch.randint(1, vocabulary - 1, (3, L)) * text_mask
    ids[torch.arange(3), torch.tensor(WORDS) - 1] = vocabulary - 1
    video = torch.randn(3, T, 3, 32, 32) * frame_mask[..., None, None, None]
    return video, frame_mask, ids, text_mask


@torch.no_grad()
def our_logits(retriever, video, frame_mask, ids, text_mask):
    texts = retriever.encode_text(dict(text=ids, text_mask=text_mask))
    videos = retriever.encode_video(dict(video=video, frame_mask=frame_mask))
    return retriever.score(texts, videos)['scores'] / retriever.temperature()


@torch.no_grad()
@pytest.mark.parametrize('extra', [(2, 2), (3, 0), (0, 1), (0, 0)])
def test_official_logits(extra):
    state, batch = small(), padded_batch(50)
    options = dict(extra_frames=extra[0], extra_words=extra[1])
    retriever = official_retriever(state, 'uatvr', **options).eval()
    video, frame_mask, ids, text_mask = batch
    expected = reference_logits(state, video.double(), *batch[1:], extra)
    assert expected.std() > 0.2
    logits = our_logits(retriever, *batch)
    torch.testing.assert_close(logits.double(), expected, atol=1e-5, rtol=1e-5)
    exact = our_logits(retriever.double(), video.double(), *batch[1:])
    torch.testing.assert_close(exact, expected, atol=1e-9, rtol=1e-9)
    # The official code pads all to 12 and 32; ours gives the same from batches of any length.
    for i, (f, w) in enumerate(zip(FRAMES, WORDS)):
        one = slice(i, i + 1)
        alone = (video[one, :f].double(), frame_mask[one, :f], ids[one, :w], text_mask[one, :w])
        torch.testing.assert_close(our_logits(retriever, *alone)[0, 0], expected[i, i])


@torch.no_grad()
@pytest.mark.parametrize('change', ['sot', 'mask', 'start', 'weights', 'count', 'temperature'])
def test_every_official_variant_matters(change):
    """The comparison above would see each of them missing."""
    state, batch = small(), padded_batch(50)
    # Where there are extra tokens, hardly a maximum is as low as the 0 of padding.
    count = 0 if change == 'mask' else 2
    options = dict(extra_frames=count, extra_words=count)
    expected = reference_logits(state, batch[0].double(), *batch[1:], (count, count))
    if change == 'start':
        options['max_frames'] = 13
    elif change == 'count':
        options['extra_words'] = 3
    retriever = official_retriever(state, 'uatvr', **options).eval()
    if change == 'sot':
        retriever.encoder.match_sot = False
    elif change == 'mask':
        retriever.similarity.official_mask = False
    elif change == 'weights':
        retriever.similarity.weights = 'drl'
    elif change == 'temperature':
        retriever.temperature.log_scale += 0.01
    assert (our_logits(retriever, *batch) - expected).abs().max() > 1e-3


@torch.no_grad()
def test_official_key_list(shared):
    state = lively(from_keys(shared / 'golden' / 'uatvr_keys.txt'), scale=2.0)
    retriever, batch = official_retriever(state, 'uatvr').eval(), padded_batch(200)
    assert len(retriever.state_dict()) == len(state)
    expected = reference_logits(state, batch[0].double(), *batch[1:])
    torch.testing.assert_close(
        our_logits(retriever, *batch).double(), expected, atol=1e-5, rtol=1e-5
    )


@torch.no_grad()
@pytest.mark.parametrize('vit', ['vitb32', 'vitb16'])
def test_the_config_takes_it_strictly(vit):
    state, batch = small(), padded_batch(50)
    register_all_modules()
    cfg = Config.fromfile(config_file(f'uatvr_{vit}_msrvtt_official')).model
    for tower in (cfg.encoder.frames, cfg.encoder.text):
        tower.update(model=LONG_CLIP, pretrained=None)
    cfg.encoder.update(temporal_layers=2, position_rows=40)
    cfg.similarity.dim = DIM
    retriever = MODELS.build(cfg).eval()
    retriever.load_state_dict(convert_checkpoint(state, 'uatvr'), strict=True)
    built = official_retriever(state, 'uatvr').eval()
    assert torch.equal(our_logits(retriever, *batch), our_logits(built, *batch))
    video, frame_mask, ids, text_mask = batch
    for one, other in (
        (m.encode_video(dict(video=video, frame_mask=frame_mask)) for m in (retriever, built)),
        (m.encode_text(dict(text=ids, text_mask=text_mask)) for m in (retriever, built)),
    ):
        assert torch.equal(one['gaussian'].log_std, other['gaussian'].log_std)


@torch.no_grad()
def test_official_heads():
    """PCME's heads on the unit tokens; of unpadded items, as padding differs (see the encoder)."""
    state = small()
    retriever = official_retriever(state, 'uatvr').eval().double()
    video, ids = torch.randn(2, T, 3, 32, 32).double(), torch.randint(1, 49, (2, L))
    text_mask = torch.ones(2, L, dtype=torch.bool)
    state = {key: value.double() for key, value in state.items()}
    clip, ones = clip_of(state), torch.ones(2, T).double()
    tokens, _ = with_extra(
        clip.encode_image(video.flatten(0, 1)).view(2, T, -1), ones, 'frame', 2, state
    )
    words, _ = with_extra(words_of(clip, ids), text_mask.double(), 'word', 2, state)
    for side, x, levels in (
        ('video', tokens[:, :T], retriever.encode_video(dict(video=video, frame_mask=ones.bool()))),
        ('text', words[:, :L], retriever.encode_text(dict(text=ids, text_mask=text_mask))),
    ):
        x = F.normalize(x, dim=-1)
        pooled = F.normalize(x[:, 1 if side == 'text' else 0 :].mean(1), dim=-1)

        def linear(y, name):
            return F.linear(y, state[f'{name}.weight'], state[f'{name}.bias'])

        def attend(name, x=x):
            hidden = (x @ state[f'{name}.attention.w_1.weight'].t()).tanh()
            return ((hidden @ state[f'{name}.attention.w_2.weight'].t()).softmax(1) * x).sum(1)

        pie, uncertain = f'pie_net_{side}', f'uncertain_net_{side}'
        mean = F.layer_norm(
            pooled + linear(attend(pie), f'{pie}.fc').sigmoid(),
            (DIM,),
            state[f'{pie}.layer_norm.weight'],
            state[f'{pie}.layer_norm.bias'],
        )
        log_std = linear(attend(uncertain), f'{uncertain}.fc') + linear(pooled, f'{uncertain}.fc2')
        torch.testing.assert_close(levels['gaussian'].mean, F.normalize(mean, dim=-1))
        torch.testing.assert_close(levels['gaussian'].log_std, log_std.clamp(-7, 7))


def test_tables_that_are_too_short():
    state = small()
    state['frame_position_embeddings.weight'] = torch.randn(13, DIM)
    with pytest.raises(ValueError, match='max_frames=12 and 2 extra tokens need 14 position rows'):
        official_retriever(state, 'uatvr')
    state = small()
    state['word_position_embeddings.weight'] = torch.randn(39, DIM)
    with pytest.raises(ValueError, match='word_position_embeddings.weight .39, 64., not .40, 64.'):
        official_retriever(state, 'uatvr')
