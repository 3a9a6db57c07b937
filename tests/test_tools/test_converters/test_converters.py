"""Official checkpoints: strict, complete, and the same function under our names."""

import runpy
import sys
from pathlib import Path

import open_clip
import pytest
import torch
from mmengine.runner import load_checkpoint
from torch.nn.functional import normalize

from mmvtr.models import CosineSimilarity, VideoTextRetriever
from official_checkpoints.conversion import convert_checkpoint, official_retriever

ROOT = Path(__file__).resolve().parents[3]
DIM = 64
CLIP = dict(
    embed_dim=DIM,
    quick_gelu=True,
    vision_cfg=dict(layers=2, width=64, patch_size=16, image_size=32),
    text_cfg=dict(context_length=12, vocab_size=50, width=DIM, heads=1, layers=3),
)
#: Positions for the words of UATVR and its extra tokens.
LONG_CLIP = {**CLIP, 'text_cfg': {**CLIP['text_cfg'], 'context_length': 40}}
BLOCK = {
    'attn.in_proj_weight': (3 * DIM, DIM),
    'attn.in_proj_bias': (3 * DIM,),
    'attn.out_proj.weight': (DIM, DIM),
    'attn.out_proj.bias': (DIM,),
    'ln_1.weight': (DIM,),
    'ln_1.bias': (DIM,),
    'mlp.c_fc.weight': (4 * DIM, DIM),
    'mlp.c_fc.bias': (4 * DIM,),
    'mlp.c_proj.weight': (DIM, 4 * DIM),
    'mlp.c_proj.bias': (DIM,),
    'ln_2.weight': (DIM,),
    'ln_2.bias': (DIM,),
}


def transformer(name, layers):
    return {
        f'{name}.resblocks.{i}.{key}': torch.randn(shape) * 0.1
        for i in range(layers)
        for key, shape in BLOCK.items()
    }


UATVR = {
    name.format(side): shape
    for side in ('text', 'video')
    for name, shape in {
        'pie_net_{}.attention.w_1.weight': (DIM // 2, DIM),
        'pie_net_{}.attention.w_2.weight': (1, DIM // 2),
        'pie_net_{}.fc.weight': (DIM, DIM),
        'pie_net_{}.fc.bias': (DIM,),
        'pie_net_{}.layer_norm.weight': (DIM,),
        'pie_net_{}.layer_norm.bias': (DIM,),
        'uncertain_net_{}.attention.w_1.weight': (DIM // 2, DIM),
        'uncertain_net_{}.attention.w_2.weight': (1, DIM // 2),
        'uncertain_net_{}.fc.weight': (DIM, DIM),
        'uncertain_net_{}.fc.bias': (DIM,),
        'uncertain_net_{}.fc2.weight': (DIM, DIM),
        'uncertain_net_{}.fc2.bias': (DIM,),
        '{}_weight_fc.0.weight': (DIM, DIM),
        '{}_weight_fc.0.bias': (DIM,),
        '{}_weight_fc.2.weight': (1, DIM),
        '{}_weight_fc.2.bias': (1,),
    }.items()
}


def official(method, clip=None):
    """A checkpoint in the official layout, hand-made; CLIP partly in half precision."""
    torch.manual_seed(0)
    if clip is None:
        clip = open_clip.CLIP(**(LONG_CLIP if method == 'uatvr' else CLIP))
    half = ('proj', 'mlp', 'attn', 'conv1')
    state = {
        f'clip.{key}': value.half() if any(word in key for word in half) else value
        for key, value in clip.state_dict().items()
    }
    if method == 'meanP':
        return state
    rows = len(state['clip.positional_embedding'])
    state['frame_position_embeddings.weight'] = torch.randn(rows, DIM)
    state.update(transformer('transformerClip', 2))
    if method == 'uatvr':
        state['word_position_embeddings.weight'] = torch.randn(rows, DIM)
        state.update({key: torch.randn(shape) * 0.3 for key, shape in UATVR.items()})
    if method == 'clip2video':
        state.update(transformer('frame2t_attention', 1))
        state.update(transformer('actionClip', 1))
        state['type_position_embeddings.weight'] = torch.randn(2, DIM)
        state['trans_layernorm.gamma'] = torch.randn(DIM)
        state['trans_layernorm.beta'] = torch.randn(DIM)
        state['weight_center'], state['emb_center'] = torch.randn(2, 5, DIM)
    return state


def from_keys(path):
    """A random state dict from a list of ``name (shape)`` lines."""
    torch.manual_seed(0)
    state = {}
    for line in path.read_text().splitlines():
        name, shape = line.split(' ', 1)
        sizes = [int(size) for size in shape.strip('()').split(',') if size.strip()]
        state[name] = torch.randn(sizes) * 0.05
    return state


@pytest.mark.parametrize(
    'name, method',
    [('meanP', 'clip4clip'), ('seqTransf', 'clip4clip'), ('clip2video',) * 2, ('uatvr',) * 2],
)
def test_every_tensor_finds_its_place(name, method):
    state = official(name)
    converted = convert_checkpoint(state, method)
    steps = [converted.pop(key) for key in list(converted) if key.endswith('.step')]
    assert len(steps) == (2 if method == 'uatvr' else 0) and not any(steps)
    assert len(converted) == len(state)
    assert all(value.dtype == torch.float32 for value in converted.values())
    assert sorted(float(v.double().sum()) for v in state.values()) == pytest.approx(
        sorted(float(v.double().sum()) for v in converted.values())
    )
    torch.testing.assert_close(converted['temperature.log_scale'], state['clip.logit_scale'])
    centre = state['clip.visual.proj'].float()
    assert torch.equal(converted['encoder.frames.visual.proj'], centre)
    if name == 'clip2video':
        assert torch.equal(
            converted['encoder.difference.norm.weight'], state['trans_layernorm.gamma']
        )
    if name == 'uatvr':
        for ours, theirs in {
            'heads.text.log_std_local.bias': 'uncertain_net_text.fc.bias',
            'heads.video.mean_attention.score.2.weight': 'pie_net_video.attention.w_2.weight',
            'similarity.weighers.video.0.weight': 'video_weight_fc.0.weight',
            'encoder.word_extra.position': 'word_position_embeddings.weight',
        }.items():
            assert torch.equal(converted[ours], state[theirs])


def test_clip_works_the_same_under_our_names():
    clip = open_clip.CLIP(**CLIP).eval()
    state = {f'clip.{key}': value for key, value in clip.state_dict().items()}
    retriever = official_retriever(state, 'clip4clip')
    encoder, log_scale = retriever.encoder, retriever.temperature.log_scale
    encoder.eval()
    ids = torch.randint(1, 48, (3, 12))
    ids[:, -1] = 49
    video = torch.randn(3, 2, 3, 32, 32)
    mask = torch.ones(3, 12, dtype=torch.bool)
    texts = encoder.encode_text(ids, mask)['global'].mean
    videos = encoder.encode_video(video, mask[:, :2])['global'].mean
    frames = normalize(clip.encode_image(video.flatten(0, 1)), dim=-1).view(3, 2, DIM).mean(1)
    torch.testing.assert_close(texts, normalize(clip.encode_text(ids), dim=-1))
    torch.testing.assert_close(videos, normalize(frames, dim=-1))
    torch.testing.assert_close(log_scale.exp(), torch.tensor(1 / 0.07))


def test_resnet_clip():
    config = {**CLIP, 'vision_cfg': dict(layers=[1, 2, 1, 1], width=8, image_size=64)}
    clip = open_clip.CLIP(**config)
    state = {f'clip.{k}': v for k, v in clip.state_dict().items()}
    encoder = official_retriever(state, 'clip4clip').encoder
    assert encoder.frames.image_size == (64, 64)


@pytest.mark.parametrize('method', ['clip2video', 'clip4clip'])
def test_official_key_lists(shared, method):
    """Shapes of tiny official models; UATVR's list contains CLIP4Clip's."""
    if method == 'clip2video':
        state = from_keys(shared / 'golden' / 'clip2video_keys.txt')
    else:
        prefixes = ('clip.', 'frame_position_embeddings.', 'transformerClip.')
        state = from_keys(shared / 'golden' / 'uatvr_keys.txt')
        state = {key: value for key, value in state.items() if key.startswith(prefixes)}
    encoder = official_retriever(state, method).encoder
    assert len(encoder.state_dict()) + 1 == len(state)
    videos = encoder.encode_video(torch.randn(2, 12, 3, 32, 32), torch.ones(2, 12).bool())
    texts = encoder.encode_text(torch.randint(1, 200, (3, 32)), torch.ones(3, 32).bool())
    levels = ('global', 'aligned') if method == 'clip2video' else ('global',)
    scores = CosineSimilarity(levels=levels)(texts, videos)['scores']
    assert scores.shape == (3, 2) and scores.isfinite().all()


def test_unknown_missing_and_misshapen_keys_are_all_listed():
    state = official('clip2video')
    with pytest.raises(ValueError, match='unknown: lstm_visual.weight, cross.bias'):
        convert_checkpoint(
            {**state, 'lstm_visual.weight': torch.ones(1), 'cross.bias': torch.ones(1)},
            'clip2video',
        )
    gone = ('clip.visual.ln_post.bias', 'actionClip.resblocks.0.ln_2.weight')
    left = {key: value for key, value in state.items() if key not in gone}
    left['emb_center'] = torch.ones(4, DIM)
    left['clip.extra'] = torch.ones(1)
    with pytest.raises(ValueError) as error:
        convert_checkpoint(left, 'clip2video')
    for part in (*gone, 'unknown: clip.extra', 'shapes: emb_center [4, 64], not [5, 64]'):
        assert part in str(error.value)


@pytest.mark.parametrize(
    'lost', ['clip.logit_scale', 'clip.text_projection', 'transformerClip.', 'weight_center']
)
def test_what_a_whole_checkpoint_needs(lost):
    state = {k: v for k, v in official('clip2video').items() if not k.startswith(lost)}
    with pytest.raises(ValueError, match=f'missing: .*{lost}'):
        convert_checkpoint(state, 'clip2video')


@pytest.mark.parametrize('start', ['module.', '_orig_mod.', 'module.model.'])
def test_names_behind_wrappers(start):
    state = official('meanP')
    found = convert_checkpoint({start + key: x for key, x in state.items()}, 'clip4clip')
    expected = convert_checkpoint(state, 'clip4clip')
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[key], x) for key, x in expected.items())
    with pytest.raises(RuntimeError, match='behind different wrappers'):
        convert_checkpoint(state | {start + key: x for key, x in state.items()}, 'clip4clip')


@pytest.mark.parametrize('value', [float('nan'), float('inf')])
@pytest.mark.parametrize('key', ['clip.logit_scale', 'clip.visual.proj', 'clip.ln_final.bias'])
def test_numbers_that_are_none(key, value):
    state = official('meanP')
    state[key] = torch.full_like(state[key], value)
    with pytest.raises(RuntimeError, match=f'1 of its .* are not finite .*{key}'):
        convert_checkpoint(state, 'clip4clip')


def test_another_method():
    with pytest.raises(ValueError, match='unknown: .*weight_center'):
        convert_checkpoint(official('clip2video'), 'clip4clip')
    with pytest.raises(ValueError, match='missing: weight_center'):
        convert_checkpoint(official('seqTransf'), 'clip2video')
    with pytest.raises(ValueError, match='unknown: .*weight_center'):
        convert_checkpoint(official('clip2video'), 'uatvr')
    with pytest.raises(ValueError, match='missing: frame_position_embeddings.weight'):
        convert_checkpoint(official('meanP'), 'uatvr')
    with pytest.raises(ValueError, match="one of \\['ce', 'clip2video', 'clip4clip', 'uatvr'\\]"):
        convert_checkpoint({}, 'xclip')


def test_tool_writes_a_checkpoint_that_the_retriever_loads(tmp_path, monkeypatch):
    torch.save(official('clip2video'), tmp_path / 'pytorch_model.bin.4')
    arguments = ['clip2video', str(tmp_path / 'pytorch_model.bin.4'), str(tmp_path / 'ours.pth')]
    monkeypatch.setattr(sys, 'argv', ['convert.py', *arguments])
    runpy.run_path(str(ROOT / 'tools/model_converters/convert.py'), run_name='__main__')
    retriever = VideoTextRetriever(
        encoder=dict(
            type='CLIP2Video',
            frames=dict(type='OpenCLIPFrames', model=CLIP),
            text=dict(type='OpenCLIPText', model=CLIP),
            temporal_layers=2,
        ),
        similarity=CosineSimilarity(levels=('global', 'aligned')),
        losses=dict(contrastive=dict(type='ContrastiveLoss')),
    )
    load_checkpoint(retriever, str(tmp_path / 'ours.pth'), strict=True)
    expected = official('clip2video')['emb_center']
    assert torch.equal(retriever.encoder.align.emb_center, expected)
