"""Towers of transformers have the weights of their files; what lacks or is odd is named."""

import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForSeq2SeqLM,
    BertForPreTraining,
    T5EncoderModel,
)

from mmvtr.models import (
    CrossCaptioning,
    TransformersDualText,
    TransformersFrames,
    TransformersText,
    XCLIPEncoder,
)

SIDE = dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24)
VISION = dict(SIDE, image_size=32, patch_size=16)
TEXT = dict(SIDE, vocab_size=30, max_position_embeddings=10, eos_token_id=8, bos_token_id=1)
MIT = dict(
    num_frames=4, mit_hidden_size=12, mit_intermediate_size=24, mit_num_hidden_layers=1,
    mit_num_attention_heads=2,
)  # fmt: skip
CONFIGS = dict(
    clip=dict(model_type='clip', projection_dim=12, vision_config=VISION, text_config=TEXT),
    siglip=dict(
        model_type='siglip', vision_config=VISION, text_config=dict(TEXT, projection_size=16)
    ),
    xclip=dict(
        model_type='xclip', projection_dim=12, text_config=TEXT, vision_config=dict(VISION, **MIT)
    ),
    bert=dict(SIDE, model_type='bert', vocab_size=30, max_position_embeddings=10),
    t5=dict(
        model_type='t5', d_model=16, d_kv=8, d_ff=24, num_layers=2, num_heads=2, vocab_size=40,
        tie_word_embeddings=False,
    ),
)  # fmt: skip


def text(folder):
    return TransformersText(folder, dim=None)


def captioning(folder):
    return CrossCaptioning(folder, dim=8)


@pytest.fixture(scope='module')
def originals(tmp_path_factory):
    """name -> folder of a whole model with random weights."""
    folders = {}
    for name, config in CONFIGS.items():
        torch.manual_seed(0)
        kind = AutoModelForSeq2SeqLM if name == 't5' else AutoModel
        folders[name] = tmp_path_factory.mktemp(name)
        kind.from_config(AutoConfig.for_model(**config)).save_pretrained(folders[name])
    return folders


@pytest.fixture
def changed(originals, tmp_path):
    """``changed(name, change)``: a folder whose weights are what ``change`` makes of them."""

    def write(name, change):
        folder = tmp_path / name
        shutil.copytree(originals[name], folder)
        # Copies: what is read stays in the file's memory.
        weights = {k: x.clone() for k, x in load_file(folder / 'model.safetensors').items()}
        (folder / 'model.safetensors').unlink()
        save_file(change(weights), folder / 'model.safetensors', metadata=dict(format='pt'))
        return str(folder)

    return write


def without(*parts):
    return lambda weights: {k: x for k, x in weights.items() if not k.startswith(parts)}


TOWERS = [
    (TransformersFrames, 'clip', 'visual_projection.weight'),
    (TransformersFrames, 'clip', 'vision_model.encoder.layers.1.mlp.fc1.bias'),
    (TransformersFrames, 'siglip', 'vision_model.head.probe'),
    (TransformersDualText, 'clip', 'text_projection.weight'),
    (TransformersDualText, 'siglip', 'text_model.head.bias'),
    (TransformersDualText, 'xclip', 'text_model.final_layer_norm.weight'),
    (XCLIPEncoder, 'xclip', 'mit.position_embedding'),
    (text, 'bert', 'embeddings.LayerNorm.bias'),
    (text, 't5', 'shared.weight'),
    (captioning, 't5', 'shared.weight'),
    (captioning, 't5', 'decoder.final_layer_norm.weight'),
]


@pytest.mark.parametrize('tower, name, key', TOWERS)
def test_what_is_missing_or_of_another_shape_is_named(changed, tower, name, key):
    def reshaped(weights):
        assert key in weights
        return weights | {key: torch.zeros(3, 2)}

    for change, kind in ((without(key), 'missing'), (reshaped, 'of another shape')):
        folder = changed(name, change)
        with pytest.raises(ValueError, match='does not hold all weights') as error:
            tower(folder)
        assert f'{kind} (1): {key}' in str(error.value) and folder in str(error.value)
        shutil.rmtree(folder)


@pytest.mark.parametrize(
    'tower, name, parts',
    [
        (TransformersFrames, 'clip', ('text_', 'logit_scale')),
        (TransformersDualText, 'clip', ('vis', 'logit_scale')),
        (TransformersDualText, 'siglip', ('vision_model', 'logit_')),
        (TransformersFrames, 'siglip', ('text_model', 'logit_')),
        (XCLIPEncoder, 'xclip', ('prompts_', 'logit_scale')),
        (text, 'bert', ('pooler.',)),
        (text, 't5', ('decoder.', 'lm_head')),
        (captioning, 't5', ('encoder.',)),
    ],
)
def test_what_no_forward_reads_may_be_missing(originals, changed, tower, name, parts):
    whole, part = tower(str(originals[name])), tower(changed(name, without(*parts)))
    own = dict(whole.state_dict(), **part.state_dict())
    kept = [k for k in own if 'projection.' not in k or tower is not captioning]
    assert kept
    for key in kept:
        assert torch.equal(whole.state_dict()[key], part.state_dict()[key]), key


def test_heads_and_numbers_of_positions_are_left_out(tmp_path, originals, changed):
    bert = BertForPreTraining(AutoConfig.for_model(**CONFIGS['bert']))
    bert.save_pretrained(tmp_path / 'heads')
    tower = text(str(tmp_path / 'heads'))
    expected = bert.bert.embeddings.word_embeddings.weight
    assert torch.equal(tower.transformer.embeddings.word_embeddings.weight, expected)
    tensorflows = {'LayerNorm.weight': 'LayerNorm.gamma', 'LayerNorm.bias': 'LayerNorm.beta'}
    weights = bert.state_dict()
    for new, old in tensorflows.items():
        weights = {name.replace(new, old): x.clone() for name, x in weights.items()}
    assert 'cls.predictions.transform.LayerNorm.gamma' in weights
    text(changed('bert', lambda _: weights))
    t5 = T5EncoderModel(AutoConfig.for_model(**CONFIGS['t5']))
    t5.save_pretrained(tmp_path / 'encoder')
    tower = text(str(tmp_path / 'encoder'))
    assert torch.equal(tower.transformer.embed_tokens.weight, t5.shared.weight)
    numbers = {'text_model.embeddings.position_ids': torch.arange(10)[None]}
    TransformersDualText(changed('clip', lambda weights: weights | numbers))


@pytest.mark.parametrize(
    'tower, name, key',
    [
        (TransformersFrames, 'clip', 'extra.weight'),
        (TransformersDualText, 'siglip', 'text_model.encoder.layers.2.mlp.fc1.bias'),
        (text, 'bert', 'encoder.layer.0.attention.self.query.lora_A.weight'),
        (text, 'bert', 'encoder.layer.2.output.dense.bias'),
        (captioning, 't5', 'decoder.block.2.layer.0.SelfAttention.q.weight'),
    ],
)
def test_what_is_of_no_such_model_is_named(changed, tower, name, key):
    folder = changed(name, lambda weights: weights | {key: torch.zeros(2)})
    with pytest.raises(ValueError, match=r'unexpected \(1\)') as error:
        tower(folder)
    assert key in str(error.value)


@pytest.mark.parametrize(
    'start', ['module.', '_orig_mod.', 'model.', '0.auto_model.', 'module._orig_mod.', '0.model.']
)
@pytest.mark.parametrize(
    'tower, name', [(TransformersFrames, 'clip'), (text, 'bert'), (captioning, 't5')]
)
def test_names_behind_wrappers(originals, changed, tower, name, start):
    whole = tower(str(originals[name])).state_dict()
    folder = changed(name, lambda weights: {start + key: x for key, x in weights.items()})
    for key, x in tower(folder).state_dict().items():
        assert torch.equal(x, whole[key]) or tower is captioning and 'projection' in key, key


def test_a_head_behind_a_wrapper(tmp_path, changed):
    bert = BertForPreTraining(AutoConfig.for_model(**CONFIGS['bert']))
    weights = {f'module.{key}': x.clone() for key, x in bert.state_dict().items()}
    tower = text(changed('bert', lambda _: weights))
    expected = bert.bert.encoder.layer[1].output.dense.weight
    assert torch.equal(tower.transformer.encoder.layer[1].output.dense.weight, expected)


@pytest.mark.parametrize(
    'change',
    [
        lambda w: w | {f'module.{key}': x.clone() for key, x in w.items()},  # two copies
        lambda w: {k if i % 2 else f'module.{k}': x for i, (k, x) in enumerate(w.items())},
        lambda w: {
            (f'_orig_mod.{k}' if i % 2 else f'module.{k}'): x for i, (k, x) in enumerate(w.items())
        },
    ],
)
def test_several_wrappers_in_one_file_are_refused(changed, change):
    with pytest.raises(RuntimeError, match='behind different wrappers'):
        text(changed('bert', change))


@pytest.mark.parametrize('value', [float('nan'), float('inf')])
@pytest.mark.parametrize(
    'tower, name, key, unused',
    [
        (TransformersFrames, 'clip', 'vision_model.post_layernorm.bias', 'text_projection.weight'),
        (text, 'bert', 'encoder.layer.1.output.dense.weight', 'pooler.dense.bias'),
        (XCLIPEncoder, 'xclip', 'mit.position_embedding', 'prompts_visual_projection'),
    ],
)
def test_numbers_that_are_none(changed, tower, name, key, unused, value):
    folder = changed(name, lambda w: w | {unused: torch.full_like(w[unused], value)})
    tower(folder)
    shutil.rmtree(folder)
    folder = changed(name, lambda w: w | {key: torch.full_like(w[key], value)})
    with pytest.raises(RuntimeError, match='1 of its .* are not finite') as error:
        tower(folder)
    assert key in str(error.value)


def test_a_damaged_file_is_one_sentence(changed):
    folder = changed('clip', without())
    with open(f'{folder}/model.safetensors', 'r+b') as file:
        file.truncate(5000)
    with pytest.raises(RuntimeError, match='cannot load .*fetch or save its files again'):
        TransformersFrames(folder)
