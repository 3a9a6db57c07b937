"""Dual encoders of transformers: embeddings are those of its own get_..._features."""

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import AutoConfig, AutoModel, CLIPImageProcessor, PreTrainedTokenizerFast

from mmvtr.datasets import HFTokenize, collate_retrieval
from mmvtr.models import (
    CLIP4Clip,
    TransformersDualText,
    TransformersFrames,
    VideoTextDataPreprocessor,
    XCLIPEncoder,
)
from mmvtr.models.layers.pooling import unit

SIDE = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=48)
VISION = dict(SIDE, image_size=32, patch_size=16)
TEXT = dict(SIDE, vocab_size=30, max_position_embeddings=10, eos_token_id=8, bos_token_id=1)
CLIP = dict(model_type='clip', projection_dim=24, vision_config=VISION, text_config=TEXT)
SIGLIP = dict(model_type='siglip', vision_config=VISION, text_config=dict(TEXT, projection_size=32))
XCLIP = dict(
    model_type='xclip',
    projection_dim=32,
    text_config=TEXT,
    vision_config=dict(
        VISION, num_frames=4, mit_hidden_size=32, mit_intermediate_size=48,
        mit_num_hidden_layers=1, mit_num_attention_heads=2,
    ),
)  # fmt: skip
MODELS_BY_TYPE = dict(clip=CLIP, siglip=SIGLIP, xclip=XCLIP)
SENTENCES = ['a dog', 'a man is singing', 'a man is a dog is a man is a dog is a man']


def write(folder, config):
    """A model with random weights, its tokenizer and image processor; returns the model."""
    torch.manual_seed(2)
    model = AutoModel.from_config(AutoConfig.for_model(**config)).eval()
    for parameter in model.parameters():  # what starts at 0 must count, too
        if not parameter.any():
            torch.nn.init.normal_(parameter, std=0.1)
    model.save_pretrained(folder)
    size = config['vision_config']['image_size']
    mean, std = [0.5, 0.4, 0.3], [0.2, 0.3, 0.4]
    CLIPImageProcessor(size=size, image_mean=mean, image_std=std).save_pretrained(folder)
    # The end has the highest id, as CLIP's.
    words = ['<pad>', '<s>', '<unk>', 'a', 'dog', 'man', 'is', 'singing', '</s>']
    vocabulary = {word: i for i, word in enumerate(words)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token='<unk>'))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    # SigLIP's texts have no start, and are padded with their end.
    siglip = config['model_type'] == 'siglip'
    tokenizer.post_processor = processors.TemplateProcessing(
        single='$A </s>' if siglip else '<s> $A </s>', special_tokens=[('<s>', 1), ('</s>', 8)]
    )
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token='</s>' if siglip else '<pad>',
        eos_token='</s>',
        unk_token='<unk>',
    ).save_pretrained(folder)
    return model


def batch_of(folder, sentences, **kwargs):
    """Texts as a retriever gets them."""
    transform = HFTokenize(str(folder), max_length=10, **kwargs)
    items = []
    for i, text in enumerate(sentences):
        results = transform(dict(text=text))
        extra = {key: torch.as_tensor(x) for key, x in results.get('text_extra', {}).items()}
        half = dict(text_idx=i, text_id=str(i), video_idx=[0], extra=extra)
        items.append(dict(half, tokens=torch.as_tensor(results['token_ids'])))
    return VideoTextDataPreprocessor()(collate_retrieval(items))['inputs']


def features(out):
    """Of transformers 4 and 5."""
    return getattr(out, 'pooler_output', out)


@pytest.mark.parametrize('kind', MODELS_BY_TYPE)
@torch.no_grad()
def test_texts_are_those_of_transformers(kind, tmp_path):
    model = write(tmp_path, MODELS_BY_TYPE[kind])
    text = TransformersDualText(str(tmp_path)).eval()
    padded = kind == 'siglip'
    inputs = batch_of(tmp_path, SENTENCES, **(dict(padded=True) if padded else {}))
    tokenizer = HFTokenize(str(tmp_path)).tokenizer
    how = dict(padding='max_length' if padded else True, max_length=10, truncation=True)
    theirs = tokenizer(SENTENCES, return_tensors='pt', **how)
    known = dict(input_ids=theirs['input_ids'])
    if not padded:  # SigLIP's tokenizer hands out none
        known['attention_mask'] = theirs['attention_mask']
    expected = features(model.get_text_features(**known))
    tokens, pooled = text(inputs['text'], inputs['text_mask'])
    torch.testing.assert_close(pooled, expected, atol=1e-5, rtol=1e-5)
    assert tokens.shape == (*inputs['text'].shape, text.dim) and text.dim == pooled.shape[1]
    last = inputs['text_mask'].sum(1) - 1
    torch.testing.assert_close(inputs['text_mask'].sum(1), theirs['attention_mask'].sum(1))
    ends = tokens[:, -1] if padded else tokens[torch.arange(3), last]
    torch.testing.assert_close(ends, pooled)
    if padded:
        with pytest.raises(ValueError, match='with their padding, 10 tokens, and got 4'):
            text(inputs['text'][:, :4], inputs['text_mask'][:, :4])


@pytest.mark.parametrize('kind', ['clip', 'siglip'])
@torch.no_grad()
def test_frames_are_those_of_transformers(kind, tmp_path):
    model = write(tmp_path, MODELS_BY_TYPE[kind])
    frames = TransformersFrames(str(tmp_path)).eval()
    x = torch.randn(3, 3, 32, 32)
    expected = features(model.get_image_features(pixel_values=x))
    torch.testing.assert_close(frames(x), expected, atol=1e-5, rtol=1e-5)
    assert frames.image_mean == (0.5, 0.4, 0.3) and frames.image_std == (0.2, 0.3, 0.4)
    assert frames.dim == expected.shape[1]
    with pytest.raises(ValueError, match=r'takes \[3, 32, 32\] frames, got \[3, 64, 64\]'):
        frames(torch.zeros(1, 3, 64, 64))
    encoder = CLIP4Clip(frames, TransformersDualText(str(tmp_path)).eval())
    mask = torch.tensor([[True, True], [True, False]])
    level = encoder.encode_video(x[:2].expand(2, 2, 3, 32, 32), mask)['global']
    torch.testing.assert_close(level.mean[0], unit(unit(frames(x[:2])).mean(0)))
    assert TransformersFrames(MODELS_BY_TYPE[kind]).image_mean is None


@torch.no_grad()
def test_videos_of_xclip_are_those_of_transformers(tmp_path):
    model = write(tmp_path, XCLIP)
    encoder = XCLIPEncoder(str(tmp_path)).eval()
    video = torch.randn(2, 4, 3, 32, 32)
    mask = torch.ones(2, 4, dtype=torch.bool)
    expected = features(model.get_video_features(pixel_values=video))
    level = encoder.encode_video(video, mask)['global']
    torch.testing.assert_close(level.mean, unit(expected), atol=1e-5, rtol=1e-5)
    assert level.tokens.shape == (2, 4, 32) and encoder.dim == 32
    inputs = batch_of(tmp_path, SENTENCES)
    level = encoder.encode_text(inputs['text'], inputs['text_mask'])['global']
    pooled = TransformersDualText(str(tmp_path)).eval()(inputs['text'], inputs['text_mask'])[1]
    torch.testing.assert_close(level.mean, unit(pooled))
    assert not level.tokens[~level.mask].any()
    for short in (video[:, :3], video):
        with pytest.raises(ValueError, match='takes videos of 4 frames, got 3 to'):
            lengths = torch.arange(short.shape[1]) < torch.tensor([[4], [3]])
            encoder.encode_video(short, lengths[:, : short.shape[1]])
    assert len(encoder.encode_video(video[:0], mask[:0])['global'].mean) == 0


@pytest.mark.parametrize('kind', ['clip', 'siglip'])
def test_gradients_and_freezing(kind):
    config = MODELS_BY_TYPE[kind]
    frames = TransformersFrames(config, grad_checkpointing=True).train()
    text = TransformersDualText(config, grad_checkpointing=True).train()
    frames(torch.randn(2, 3, 32, 32)).square().sum().backward()
    ids = torch.tensor([[1, 4, 5, 6, 8, 8, 8, 8, 8, 8]])
    text(ids, ids != 0)[1].square().sum().backward()
    for tower in (frames, text):
        assert all(p.grad is not None for p in tower.parameters())
    frozen = TransformersFrames(config, frozen=True).train()
    assert not any(p.requires_grad for p in frozen.parameters())


def test_other_models_are_refused(tmp_path, monkeypatch):
    bert = dict(SIDE, model_type='bert', vocab_size=30)
    for tower in (TransformersFrames, TransformersDualText, XCLIPEncoder):
        with pytest.raises(ValueError, match="of type 'bert', not of"):
            tower(bert)
    with pytest.raises(ValueError, match="of type 'xclip', not of clip, siglip"):
        TransformersFrames(XCLIP)
    monkeypatch.setenv('HF_HUB_OFFLINE', '1')
    with pytest.raises(RuntimeError, match="cannot load '/no/such/clip'.*local folder"):
        TransformersFrames('/no/such/clip')
