"""Frame and text towers against open_clip and transformers themselves; and their bad input."""

import re
import sys
import urllib.error
import warnings

import open_clip
import pytest
import torch
from open_clip import CLIP

from children import ROOT
from mmvtr.engine.checks.config_checks import component_faults
from mmvtr.models import (
    FeatureFrames,
    OpenCLIPFrames,
    OpenCLIPText,
    TransformersText,
)
from mmvtr.models.towers import open_clip_weights
from mmvtr.registry import MODELS
from mmvtr.utils import load_config, register_all_modules

VIT = dict(
    embed_dim=32,
    quick_gelu=True,
    vision_cfg=dict(layers=2, width=64, patch_size=16, image_size=32),
    text_cfg=dict(context_length=12, vocab_size=50, width=48, heads=2, layers=2),
)
RESNET = {**VIT, 'vision_cfg': dict(layers=[1, 1, 1, 1], width=8, image_size=64)}
BERT = dict(
    model_type='bert',
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=48,
    vocab_size=60,
    max_position_embeddings=12,
)


def texts(lengths, vocabulary=50):
    """Random texts whose last token has the highest id, padded with 0."""
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    ids = torch.randint(1, vocabulary - 1, mask.shape)
    ids[torch.arange(len(lengths)), torch.tensor(lengths) - 1] = vocabulary - 1
    return ids * mask, mask


def original(config, path):
    """A CLIP in its original layout (text tower at the top), saved and in eval mode."""
    torch.manual_seed(1)
    clip = CLIP(**config).eval()
    torch.save(clip.state_dict(), path)
    return clip


@pytest.mark.parametrize('config', [VIT, RESNET], ids=['vit', 'resnet'])
def test_towers_are_open_clips_with_weights_from_a_local_file(config, tmp_path):
    clip = original(config, tmp_path / 'clip.pt')
    size = config['vision_cfg']['image_size']
    frames = MODELS.build(
        dict(type='OpenCLIPFrames', model=config, pretrained=str(tmp_path / 'clip.pt'))
    ).eval()
    text = MODELS.build(
        dict(type='OpenCLIPText', model=config, pretrained=str(tmp_path / 'clip.pt'))
    ).eval()
    x = torch.randn(3, 3, size, size)
    ids, mask = texts([12, 5, 2])
    tokens, pooled = text(ids, mask)
    assert frames.dim == text.dim == 32 and frames.image_size == (size, size)
    torch.testing.assert_close(frames(x), clip.encode_image(x))
    torch.testing.assert_close(pooled, clip.encode_text(ids))
    torch.testing.assert_close(tokens[1, 4], pooled[1])
    assert frames.image_mean == open_clip.OPENAI_DATASET_MEAN


def test_text_shorter_than_the_table_and_eot_by_mask():
    text = OpenCLIPText(VIT).double().eval()
    ids, mask = texts([7, 3])
    ids[0, 1] = 49  # EOT is not the only token with the highest id
    tokens, pooled = text(ids, mask)
    alone, pooled_alone = text(ids[1:, :3], mask[1:, :3])
    torch.testing.assert_close(pooled, torch.stack([tokens[0, 6], tokens[1, 2]]))
    torch.testing.assert_close(pooled[1:], pooled_alone)
    torch.testing.assert_close(tokens[1:, :3], alone)
    assert not torch.allclose(pooled[0], tokens[0, 1])


def test_named_model_and_openais_torchscript_file(tmp_path, monkeypatch):
    monkeypatch.setattr(open_clip, 'list_models', lambda: ['Tiny/16', 'Tiny-16-quickgelu'])
    monkeypatch.setattr(open_clip, 'get_model_config', lambda name: dict(VIT))

    class Archive(torch.nn.Module):
        """What OpenAI's files hold beside the weights."""

        def __init__(self, clip):
            super().__init__()
            self.visual, self.transformer = clip.visual, clip.transformer
            self.token_embedding, self.ln_final = clip.token_embedding, clip.ln_final
            self.positional_embedding = clip.positional_embedding
            self.text_projection, self.logit_scale = clip.text_projection, clip.logit_scale
            self.register_buffer('context_length', torch.tensor(12))
            self.register_buffer('vocab_size', torch.tensor(50))

        def forward(self, image):
            return self.visual.conv1(image)

    clip = original(VIT, tmp_path / 'unused.pt').half()
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        torch.jit.save(
            torch.jit.trace(Archive(clip), torch.zeros(1, 3, 32, 32).half()), tmp_path / 'oa.pt'
        )
    frames = OpenCLIPFrames('Tiny-16-quickgelu', str(tmp_path / 'oa.pt'))
    assert frames.visual.proj.dtype == torch.float32
    torch.testing.assert_close(frames.visual.proj, clip.visual.proj.float())
    with pytest.raises(ValueError, match="OpenAI's, trained with QuickGELU"):
        OpenCLIPFrames({**VIT, 'quick_gelu': False}, str(tmp_path / 'oa.pt'))


def test_frozen_survives_train_and_keeps_batchnorm():
    frames = OpenCLIPFrames(RESNET, frozen=True)
    model = torch.nn.Sequential(frames).train()
    before = {key: value.clone() for key, value in frames.state_dict().items()}
    assert model.training and not any(m.training for m in frames.visual.modules())
    assert not model(torch.randn(4, 3, 64, 64)).requires_grad
    for key, value in frames.state_dict().items():
        assert torch.equal(value, before[key]), key
    text = OpenCLIPText(VIT, frozen=True).train()
    assert not any(m.training for m in text.modules())
    assert not any(p.requires_grad for p in text.parameters())


def test_grad_checkpointing_gives_the_same_gradients():
    torch.manual_seed(0)
    plain, saving = OpenCLIPText(VIT), OpenCLIPText(VIT, grad_checkpointing=True)
    saving.load_state_dict(plain.state_dict())
    ids, mask = texts([5, 9])
    for tower in (plain, saving):
        tower(ids, mask)[1].square().sum().backward()
    for p, q in zip(plain.parameters(), saving.parameters()):
        torch.testing.assert_close(p.grad, q.grad)
    OpenCLIPFrames(VIT, grad_checkpointing=True)(torch.randn(2, 3, 32, 32)).sum().backward()


def test_transformers_text_pools_the_maximum_of_valid_tokens():
    torch.manual_seed(0)
    text = TransformersText(BERT, dim=16).double().eval()
    ids, mask = texts([9, 4], 60)
    tokens, pooled = text(ids, mask)
    hidden = text.transformer(input_ids=ids[1:, :4]).last_hidden_state[0]
    highest = torch.stack([max(hidden[:, d]) for d in range(32)])
    expected = text.text_projection.weight @ highest + text.text_projection.bias
    torch.testing.assert_close(pooled[1], expected)
    torch.testing.assert_close(tokens[1, :4], text.text_projection(hidden))
    text.zero_grad()
    (tokens[mask].sum() + pooled.sum()).backward()
    assert all(p.grad is not None for p in text.parameters())


def test_transformers_text_frozen_from_a_local_folder(tmp_path):
    TransformersText(BERT, dim=16).transformer.save_pretrained(tmp_path)
    text = TransformersText(str(tmp_path), dim=16, frozen=True).train()
    trainable = [name for name, p in text.named_parameters() if p.requires_grad]
    assert trainable == ['text_projection.weight', 'text_projection.bias']
    assert not any(m.training for m in text.transformer.modules()) and text.training


def test_transformers_text_unknown_model(monkeypatch):
    monkeypatch.setenv('HF_HUB_OFFLINE', '1')
    with pytest.raises(RuntimeError, match="cannot load '/no/such/bert'.*local folder"):
        TransformersText('/no/such/bert', dim=16)


def test_feature_frames():
    x = torch.randn(5, 8)
    assert torch.equal(FeatureFrames(8)(x), x)
    tower = FeatureFrames(8, 3)
    torch.testing.assert_close(tower(x), x @ tower.projection.weight.T + tower.projection.bias)
    assert FeatureFrames(8).dim == 8 and tower.dim == 3
    with pytest.raises(ValueError, match=r'features \[N, 8\], got \[5, 9\]'):
        tower(torch.zeros(5, 9))


@pytest.mark.parametrize(
    'ids, mask, message',
    [
        (torch.ones(1, 13).long(), torch.ones(1, 13).bool(), '13 tokens.*12 rows'),
        (torch.tensor([[1, 2], [1, 50]]), torch.ones(2, 2).bool(), 'id 50 in text 1'),
        (torch.ones(2, 2).long(), torch.tensor([[1, 1], [0, 0]]).bool(), 'text 1 .*no valid'),
        (torch.ones(2, 2).long(), torch.tensor([[0, 1], [1, 0]]).bool(), 'text 0 .*in front'),
        (torch.ones(2, 2).long(), torch.ones(2, 2), 'must be bool'),
    ],
)
def test_bad_texts(ids, mask, message):
    with pytest.raises(ValueError, match=message):
        OpenCLIPText(VIT)(ids, mask)


def test_bad_frames_and_models(tmp_path):
    with pytest.raises(ValueError, match=r'takes \[3, 32, 32\] frames, got \[3, 64, 64\]'):
        OpenCLIPFrames(VIT)(torch.zeros(1, 3, 64, 64))
    with pytest.raises(ValueError, match='grad_checkpointing'):
        OpenCLIPFrames(RESNET, grad_checkpointing=True)
    with pytest.raises(ValueError, match="no model 'ViT-B-17'.*ViT-B-16"):
        OpenCLIPFrames('ViT-B-17')
    with pytest.raises(ValueError, match="needs \\['text_cfg'\\]"):
        OpenCLIPFrames({k: v for k, v in VIT.items() if k != 'text_cfg'})
    with pytest.raises(ValueError, match='cannot build.*depth'):
        OpenCLIPFrames({**VIT, 'vision_cfg': dict(depth=3)})
    with pytest.raises(ValueError, match="pool_type='none' gives no vector"):
        OpenCLIPText({**VIT, 'text_cfg': {**VIT['text_cfg'], 'pool_type': 'none'}})
    original(RESNET, tmp_path / 'resnet.pt')
    with pytest.raises(ValueError, match='resnet.pt does not hold weights of the given config'):
        OpenCLIPFrames(VIT, str(tmp_path / 'resnet.pt'))


def test_bad_tags():
    with pytest.raises(ValueError, match="'openai' were trained with.*use 'ViT-B-16-quickgelu'"):
        OpenCLIPFrames('ViT-B-16', 'openai')
    with pytest.raises(ValueError, match="no tag 'opennai'.*openai"):
        OpenCLIPFrames('ViT-B-16-quickgelu', 'opennai')
    with pytest.raises(FileNotFoundError, match='weights/clip.pt'):
        OpenCLIPFrames('ViT-B-16-quickgelu', 'weights/clip.pt')
    with pytest.raises(ValueError, match='has no tags'):
        OpenCLIPFrames(VIT, 'openai')


def test_tag_without_network_says_what_to_do(monkeypatch):
    def unreachable(*args, **kwargs):
        raise urllib.error.URLError('name resolution failed')

    monkeypatch.setattr(open_clip_weights.urllib.request, 'urlopen', unreachable)
    monkeypatch.setattr(open_clip_weights, 'try_to_load_from_cache', lambda *args: None)
    with pytest.raises(RuntimeError) as error:
        OpenCLIPFrames('ViT-B-16-quickgelu', 'openai')
    for word in ("'openai'", "'ViT-B-16-quickgelu'", 'name resolution', 'pretrained=None', 'cache'):
        assert word in str(error.value)


def test_tag_in_the_cache_needs_no_network(tmp_path, monkeypatch):
    clip = original(VIT, tmp_path / 'cached.bin')
    monkeypatch.setattr(open_clip, 'get_model_config', lambda name: dict(VIT))
    monkeypatch.setattr(
        open_clip_weights, 'try_to_load_from_cache', lambda *args: str(tmp_path / 'cached.bin')
    )
    monkeypatch.setattr(open_clip_weights.urllib.request, 'urlopen', None)
    frames = OpenCLIPFrames('ViT-B-16-quickgelu', 'openai')
    assert torch.equal(frames.visual.proj, clip.visual.proj)


@pytest.mark.parametrize('name', ['timm_planted', 'own_tower_planted'])
def test_the_towers_of_the_page(name, tmp_path, monkeypatch):
    register_all_modules()
    monkeypatch.setattr(MODELS, '_module_dict', dict(MODELS.module_dict))
    monkeypatch.syspath_prepend(str(tmp_path))
    page = (ROOT / 'docs/encoders.md').read_text()
    section = page.partition('\n## timm')[2].partition('\n## ')[0]
    blocks = re.findall(r'```python\n# (\S+\.py)\n(.*?)```', section, flags=re.DOTALL)
    assert len(blocks) == section.count('```python') == 3
    for file, source in blocks:
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(source.replace("_base_ = ['", f"_base_ = ['{ROOT}/configs/"))
    cfg = load_config(str(tmp_path / f'configs/{name}.py'))
    assert [*component_faults(cfg)] == []
    model = MODELS.build(cfg.model)
    mask = torch.tensor([[True, True], [True, False]])
    found = model.encoder.encode_video(torch.randn(2, 2, 3, 64, 64), mask)['global'].mean
    assert found.shape == (2, 128) and not torch.allclose(found[0], found[1])
    (found[0] * found[1]).sum().backward()
    assert all(x.grad is not None for x in model.encoder.frames.parameters())
    with pytest.raises(ValueError, match=r'takes \[3, 64, 64\] frames, got \[3, 32, 32\]'):
        model.encoder.encode_video(torch.randn(2, 2, 3, 32, 32), mask)
    sys.modules.pop('my_project.towers', None)
    sys.modules.pop('my_project', None)
