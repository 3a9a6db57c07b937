"""Every kind of dual encoder of open_clip: our towers, tokens and frames are its own."""

import json
from collections import Counter

import numpy as np
import open_clip
import pytest
import torch
from open_clip import model as open_clip_model
from PIL import Image
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch import nn
from transformers import AutoConfig, PreTrainedTokenizerFast

from mmvtr import open_clip_configs
from mmvtr.datasets import OpenCLIPResize, OpenCLIPTokenize, collate_retrieval
from mmvtr.models import OpenCLIPFrames, OpenCLIPText, VideoTextDataPreprocessor
from mmvtr.registry import MODELS

VIT = dict(layers=2, width=32, head_width=16, patch_size=16, image_size=32)
TEXT = dict(width=32, heads=2, layers=2, context_length=12)
#: Networks of timm's own tests; they take 160 pixels.
SIGLIP = dict(timm_model_name='test_vit', timm_pool='map', timm_proj='none', image_size=160)
OWN_TOKENS = dict(TEXT, vocab_size=40, hf_tokenizer_name='FOLDER')
SIGLIP_TEXT = dict(
    OWN_TOKENS,
    no_causal_mask=True,
    pool_type='last',
    proj_bias=True,
    norm_kwargs=dict(eps=1e-6),
    tokenizer_kwargs=dict(clean='canonicalize'),
)
COCA = dict(
    vision_cfg=dict(VIT, attentional_pool=True, attn_pooler_heads=2, output_tokens=True),
    multimodal_cfg=dict(TEXT, vocab_size=49408, attn_pooler_heads=2),
    custom_text=True,
)
ROBERTA = dict(
    model_type='roberta',
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=48,
    vocab_size=40,
    max_position_embeddings=40,
    pad_token_id=1,
)
MT5 = dict(model_type='mt5', d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=2, vocab_size=40)

#: name -> config of a model, and the kind of its text tower.
KINDS = {
    'clip': (dict(vision_cfg=VIT, text_cfg=TEXT), 'causal'),
    'clip_quick': (dict(vision_cfg=VIT, text_cfg=TEXT, quick_gelu=True), 'causal'),
    'pe': (
        dict(
            vision_cfg=dict(SIGLIP, timm_proj=None),
            text_cfg=dict(TEXT, context_length=9),
            custom_text=True,
        ),
        'causal',
    ),
    'worldwide': (
        dict(vision_cfg=VIT, text_cfg=dict(OWN_TOKENS, pool_type='eos', eos_id=2)),
        'causal',
    ),
    'siglip': (
        dict(
            embed_dim=64,
            vision_cfg=SIGLIP,
            text_cfg=SIGLIP_TEXT,
            init_logit_bias=-10.0,
            custom_text=True,
        ),
        'padded',
    ),
    'siglip2': (
        dict(
            embed_dim=64,
            vision_cfg=SIGLIP,
            text_cfg=dict(SIGLIP_TEXT, act_kwargs=dict(approximate='tanh')),
            init_logit_bias=-10.0,
            custom_text=True,
        ),
        'padded',
    ),
    'siglip_i18n': (
        dict(vision_cfg=VIT, text_cfg=dict(SIGLIP_TEXT, proj_type='none'), custom_text=True),
        'padded',
    ),
    'clipa': (
        dict(
            vision_cfg=VIT,
            text_cfg=dict(
                OWN_TOKENS,
                no_causal_mask=True,
                pool_type='last',
                tokenizer_kwargs=dict(strip_sep_token=True),
            ),
        ),
        'padded',
    ),
    'mobileclip': (
        dict(
            vision_cfg=dict(timm_model_name='test_byobnet', timm_proj=None, image_size=160),
            text_cfg=dict(TEXT, no_causal_mask=True),
            custom_text=True,
        ),
        'padded',
    ),
    'coca': (dict(COCA, text_cfg=dict(TEXT, embed_cls=True, output_tokens=True)), 'padded'),
    'coca_roberta': (
        dict(
            COCA,
            text_cfg=dict(
                hf_model_name='FOLDER',
                hf_tokenizer_name='FOLDER',
                hf_proj_type='linear',
                output_tokens=True,
                context_length=12,
            ),
        ),
        'masked',
    ),
    'roberta': (
        dict(
            vision_cfg=VIT,
            quick_gelu=True,
            text_cfg=dict(hf_model_name='FOLDER', hf_tokenizer_name='FOLDER', context_length=12),
        ),
        'masked',
    ),
    'mt5': (
        dict(
            vision_cfg=VIT,
            text_cfg=dict(hf_model_name='FOLDER', hf_tokenizer_name='FOLDER', context_length=12),
        ),
        'masked',
    ),
}

SENTENCES = [
    'a Man is SINGING!',
    'dog',
    'a very_long sentence that is cut at the end, since nobody can read it all',
]
WORDS = 'a man is singing dog very long sentence that cut'.split()


def write_tokenizer(folder, *, end, padding, start=None):
    """A tokenizer of ``WORDS``; ``end`` and ``padding`` are ids of its special tokens."""
    special = ['<0>', '<1>', '<2>', '<unk>']
    vocabulary = {word: i for i, word in enumerate([*special, *WORDS, 'Man', 'SINGING', '!'])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token='<unk>'))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    names = [special[i] for i in ([] if start is None else [start])]
    frame = ' '.join([*names, '$A', special[end]])
    tokenizer.post_processor = processors.TemplateProcessing(
        single=frame, special_tokens=[(special[i], i) for i in range(3)]
    )
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=special[padding],
        eos_token=special[end],
        sep_token=special[end],
        unk_token='<unk>',
    ).save_pretrained(folder)


#: As of the tokenizers of these models: SigLIP pads with the end of text, SigLIP 2 with 0 ...
TOKENIZERS = dict(
    siglip=dict(end=1, padding=1),
    siglip2=dict(end=1, padding=0),
    siglip_i18n=dict(end=1, padding=1),
    clipa=dict(start=1, end=2, padding=0),
    worldwide=dict(start=0, end=2, padding=1),
    coca_roberta=dict(start=0, end=2, padding=1),
    roberta=dict(start=0, end=2, padding=1),
    mt5=dict(end=1, padding=0),
)


@pytest.fixture
def folder_of(tmp_path):
    """``folder_of(name)`` -> ``local-dir:FOLDER`` of a model of ``KINDS``."""

    def write(name):
        folder = tmp_path / name
        folder.mkdir()
        config = {'embed_dim': 32, **KINDS[name][0]}
        if name in TOKENIZERS:
            write_tokenizer(folder, **TOKENIZERS[name])
        transformer = dict(roberta=ROBERTA, coca_roberta=ROBERTA, mt5=MT5).get(name)
        if transformer:
            AutoConfig.for_model(**transformer).save_pretrained(folder)
        text = json.dumps(config).replace('FOLDER', str(folder))
        statistics = dict(mean=(0.5, 0.4, 0.3), std=(0.2, 0.3, 0.4))
        whole = dict(model_cfg=json.loads(text), preprocess_cfg=statistics)
        (folder / 'open_clip_config.json').write_text(json.dumps(whole))
        return f'local-dir:{folder}'

    return write


def original(model, path):
    """open_clip's own model with random weights, which are also written to ``path``."""
    torch.manual_seed(3)
    clip = open_clip.create_model(model, load_weights=False, pretrained_text=False)
    for parameter in clip.parameters():  # what starts at 0, or is never filled, must count, too
        if not 0 < parameter.abs().max() < 1e3:
            nn.init.normal_(parameter, std=0.1)
    torch.save(clip.state_dict(), path)
    return clip.eval()


def batch_of(model, sentences):
    """Texts as a retriever gets them."""
    transform = OpenCLIPTokenize(model)
    items = []
    for i, text in enumerate(sentences):
        results = transform(dict(text=text))
        extra = {key: torch.as_tensor(x) for key, x in results.get('text_extra', {}).items()}
        half = dict(text_idx=i, text_id=str(i), video_idx=[0], extra=extra)
        items.append(dict(half, tokens=torch.as_tensor(results['token_ids'])))
    return VideoTextDataPreprocessor()(collate_retrieval(items))['inputs']


@pytest.mark.parametrize('name', KINDS)
@torch.no_grad()
def test_embeddings_are_open_clips(name, folder_of, tmp_path):
    model, weights = folder_of(name), str(tmp_path / 'weights.pt')
    clip = original(model, weights)
    frames, text = OpenCLIPFrames(model, weights).eval(), OpenCLIPText(model, weights).eval()
    assert text.kind == KINDS[name][1]
    assert frames.image_mean == (0.5, 0.4, 0.3) and frames.image_std == (0.2, 0.3, 0.4)
    x = torch.randn(3, 3, *frames.image_size)
    plain = dict(normalize=False)  # CoCa's default is True
    torch.testing.assert_close(frames(x), clip.encode_image(x, **plain), atol=1e-5, rtol=1e-5)
    inputs = batch_of(model, SENTENCES)
    ids = open_clip.get_tokenizer(model)(SENTENCES)
    tokens, pooled = text(inputs['text'], inputs['text_mask'])
    torch.testing.assert_close(pooled, clip.encode_text(ids, **plain), atol=1e-5, rtol=1e-5)
    assert tokens.shape == (*inputs['text'].shape, frames.dim) and frames.dim == text.dim
    # The same texts in another batch: padding of the batch never matters.
    alone = batch_of(model, SENTENCES[1:2])
    torch.testing.assert_close(text(*alone.values())[1], pooled[1:2], atol=1e-5, rtol=1e-5)
    words = inputs['text_mask'].sum(1)
    assert words[1] < words[0] < words[2] and words[2] >= ids.shape[1] - 1


@pytest.mark.parametrize('name', KINDS)
def test_tokens_are_open_clips(name, folder_of):
    model = folder_of(name)
    rows = open_clip.get_tokenizer(model)(SENTENCES).numpy()
    transform = OpenCLIPTokenize(model)
    for text, row in zip(SENTENCES, rows):
        results = transform(dict(text=text))
        ids = results['token_ids']
        assert (ids == row[: len(ids)]).all()
        pieces = transform.pieces(ids)
        assert len(pieces) == len(ids)
        if KINDS[name][1] == 'padded':
            assert len(ids) == len(row)
            words = results['text_extra']['words']
            assert len(set(row[words:])) <= 1
        else:
            assert len(ids) == len(row) or len(set(row[len(ids) :])) == 1


def test_the_end_is_a_word_also_where_it_pads(folder_of):
    siglip, siglip2 = (OpenCLIPTokenize(folder_of(name)) for name in ('siglip', 'siglip2'))
    first, second = siglip(dict(text='A dog.')), siglip2(dict(text='A dog.'))
    assert first['token_ids'].tolist() == [4, 8, *[1] * 10]  # cleaned: lower case, no dot
    assert second['token_ids'].tolist() == [4, 8, 1, *[0] * 9]
    assert first['text_extra'] == second['text_extra'] == dict(words=3)
    assert siglip.pieces(first['token_ids'])[:3] == ['a', 'dog', '<1>']


def test_padding_is_read_by_the_tower_and_is_no_word(folder_of, tmp_path):
    model = folder_of('siglip2')
    text = OpenCLIPText(model, pretrained=False).eval()
    inputs = batch_of(model, SENTENCES)
    assert inputs['text_mask'].sum(1).tolist() == [5, 2, 12]
    before = text(*inputs.values())[1]
    inputs['text'][1, 5] = 7  # behind the second text
    assert not torch.allclose(text(*inputs.values())[1][1], before[1])
    with pytest.raises(ValueError, match='with their padding, 12 tokens, and got 5'):
        text(inputs['text'][:2, :5], inputs['text_mask'][:2, :5])


def test_another_length_for_causal_towers_only(folder_of):
    assert len(OpenCLIPTokenize(folder_of('clip'), 6)(dict(text=SENTENCES[2]))['token_ids']) == 6
    with pytest.raises(ValueError, match='leave context_length=6 out'):
        OpenCLIPTokenize(folder_of('siglip'), context_length=6)
    with pytest.raises(ValueError, match="no model 'ViT-B-33'"):
        OpenCLIPTokenize('ViT-B-33')


def test_clips_tokens_are_those_of_before():
    from mmvtr.datasets import CLIPTokenize

    for length in (32, 77):
        one, two = OpenCLIPTokenize('ViT-B-32-quickgelu', length), CLIPTokenize(length)
        for text in (*SENTENCES, 'wow ' * 90, 'hello!'):
            ids = one(dict(text=text))['token_ids']
            np.testing.assert_array_equal(ids, two(dict(text=text))['token_ids'])
            assert one.pieces(ids) == two.pieces(ids)


@pytest.mark.parametrize('name', ['siglip', 'coca', 'roberta'])
def test_gradients_reach_all_that_counts(name, folder_of):
    model = folder_of(name)
    text = OpenCLIPText(model, False)
    saving = OpenCLIPText(model, False, grad_checkpointing=True)
    saving.load_state_dict(text.state_dict())
    inputs = batch_of(model, SENTENCES)
    for tower in (text, saving):
        torch.manual_seed(0)
        tower.train()(*inputs.values())[1].square().sum().backward()
    for (key, p), q in zip(text.named_parameters(), saving.parameters()):
        assert p.grad is not None, key
        torch.testing.assert_close(p.grad, q.grad)
    frozen = OpenCLIPText(model, False, frozen=True).train()
    assert not any(p.requires_grad for p in frozen.parameters())


def test_checkpointing_of_timms_networks(folder_of):
    frames = OpenCLIPFrames(folder_of('siglip'), False, grad_checkpointing=True)
    frames(torch.randn(2, 3, 160, 160)).sum().backward()
    assert frames.visual.trunk.grad_checkpointing
    model = dict(KINDS['mobileclip'][0], embed_dim=32)
    model['vision_cfg'] = dict(model['vision_cfg'], timm_model_name='convit_tiny')
    with pytest.raises(ValueError, match='timm has none for its'):
        OpenCLIPFrames(model, grad_checkpointing=True)


# -- frames ---------------------------------------------------------------------------------------


@pytest.mark.parametrize('shape', [(200, 330), (300, 160), (224, 224)])
@pytest.mark.parametrize(
    'name', ['ViT-B-32', 'ViT-B-16-SigLIP2', 'PE-Core-S-16-384', 'MobileCLIP-S1', 'ViT-H-14-CLIPA']
)
def test_frames_are_open_clips(name, shape):
    image = np.random.default_rng(0).integers(0, 255, (9, 9, 3), dtype=np.uint8)
    image = np.asarray(Image.fromarray(image).resize(shape[::-1], Image.Resampling.BICUBIC))
    known = open_clip_configs.preprocessing(name)
    settings = {**known._asdict(), 'fill_color': 0}
    expected = open_clip.transform.image_transform_v2(
        open_clip.transform.PreprocessCfg(**settings), is_train=False
    )(Image.fromarray(image))
    frame = OpenCLIPResize(name)(dict(video_id='v', imgs=[image]))['imgs'][0]
    preprocessor = VideoTextDataPreprocessor(mean=None, std=None)
    preprocessor.normalise_as(WithStatistics(known))
    video = torch.as_tensor(frame.transpose(2, 0, 1)[None].copy())
    ours = preprocessor(dict(inputs=dict(video=[video]), data_samples={}))['inputs']['video']
    step = 1 / 255 / min(known.std)
    assert ours[0, 0].shape == expected.shape == (3, *known.size)
    apart = (ours[0, 0] - expected).abs() / step  # in levels of grey
    assert apart.max() < 2.01 and apart.mean() < 0.05


class WithStatistics(nn.Module):
    """A frame tower that knows how it wants its frames."""

    def __init__(self, known):
        super().__init__()
        self.image_mean, self.image_std = known.mean, known.std


def test_what_the_tags_of_a_name_differ_in():
    assert open_clip_configs.preprocessing('ViT-H-14', 'dfn5b').resize_mode == 'squash'
    assert open_clip_configs.preprocessing('ViT-H-14', 'laion2b_s32b_b79k').size == (224, 224)
    with pytest.raises(
        ValueError, match="'ViT-H-14' need frames made in different ways: set tag=.*dfn5b"
    ):
        OpenCLIPResize('ViT-H-14')
    with pytest.raises(ValueError, match="no tag 'dfn6b'"):
        OpenCLIPResize('ViT-H-14', 'dfn6b')
    with pytest.raises(ValueError, match='a config dict has no tags'):
        OpenCLIPResize(dict(KINDS['clip'][0], embed_dim=32), 'openai')
    with pytest.raises(ValueError, match='stored with a short side of 160'):
        OpenCLIPResize('ViT-B-32')(dict(video_id='v', stored_size=160, imgs=[]))


def test_a_retriever_normalises_as_its_tower(folder_of, tmp_path):
    model = folder_of('siglip')
    cfg = dict(
        type='mmvtr.VideoTextRetriever',
        data_preprocessor=dict(type='mmvtr.VideoTextDataPreprocessor', mean=None, std=None),
        encoder=dict(
            type='mmvtr.CLIP4Clip',
            frames=dict(type='mmvtr.OpenCLIPFrames', model=model, pretrained=False),
            text=dict(type='mmvtr.OpenCLIPText', model=model, pretrained=False),
        ),
        similarity=dict(type='mmvtr.CosineSimilarity'),
        losses={},
    )
    retriever = MODELS.build(cfg)
    mean = retriever.data_preprocessor.mean.flatten()
    torch.testing.assert_close(mean, torch.tensor([0.5, 0.4, 0.3]) * 255)
    assert 'data_preprocessor.mean' in retriever.state_dict()  # whatever the tower is built from
    several = MODELS.build(dict(type='mmvtr.BackdoorRetriever', member=cfg))
    assert several.data_preprocessor is several.members[0].data_preprocessor
    cfg['data_preprocessor'].update(mean=(1.0, 2.0, 3.0), std=(1.0, 1.0, 1.0))
    assert 'data_preprocessor.mean' not in MODELS.build(cfg).state_dict()
    cfg['data_preprocessor'].update(mean=None)
    with pytest.raises(ValueError, match='both mean and std or neither'):
        MODELS.build(cfg)
    cfg['data_preprocessor'].update(std=None)
    cfg['encoder']['frames'] = dict(type='mmvtr.FeatureFrames', in_dim=64)
    with pytest.raises(ValueError, match='FeatureFrames does not say how'):
        MODELS.build(cfg)


def test_a_local_file_of_a_name_with_several_means_has_none(monkeypatch, tmp_path):
    tiny = dict(KINDS['clip'][0], embed_dim=32)
    monkeypatch.setattr(open_clip, 'get_model_config', lambda name: json.loads(json.dumps(tiny)))
    original_weights = OpenCLIPFrames('ViT-L-14')  # random
    assert original_weights.image_mean == open_clip.OPENAI_DATASET_MEAN
    torch.manual_seed(0)
    clip = open_clip.CustomTextCLIP(**tiny)
    torch.save(clip.state_dict(), tmp_path / 'l14.pt')
    assert OpenCLIPFrames('ViT-L-14', str(tmp_path / 'l14.pt')).image_mean is None
    frames = OpenCLIPFrames('ViT-B-16', str(tmp_path / 'l14.pt'))
    assert frames.image_mean == open_clip.OPENAI_DATASET_MEAN


# -- all names -----------------------------------------------------------------------------------

#: Small transformers in place of those on the hub, by what their names begin with.
HF = dict(
    roberta=ROBERTA,
    xlm=dict(ROBERTA, model_type='xlm-roberta'),
    mt5=MT5,
    nllb=dict(
        model_type='m2m_100', d_model=32, encoder_layers=1, decoder_layers=1, vocab_size=40,
        encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=16,
        decoder_ffn_dim=16,
    ),
)  # fmt: skip


@pytest.fixture
def text_alone(monkeypatch, tmp_path):
    """``text_alone(name)``: the text tower of a model on the meta device, in its full size.

    The image tower, which takes most of the time, is left out; transformers' are small ones, since
    their configs are on the hub.
    """
    for module in (open_clip_model, open_clip.coca_model):
        monkeypatch.setattr(module, '_build_vision_tower', lambda *args, **kwargs: nn.Identity())
    known = open_clip.get_model_config

    def small_transformers(name):
        config = known(name)
        hub = config['text_cfg'].get('hf_model_name', '')
        for part, transformer in HF.items():
            if hub and hub.split('/')[-1].startswith(part):
                folder = tmp_path / part
                AutoConfig.for_model(**transformer).save_pretrained(folder)
                config['text_cfg']['hf_model_name'] = str(folder)
        return config

    monkeypatch.setattr(open_clip, 'get_model_config', small_transformers)

    def build(name):
        with torch.device('meta'):
            return OpenCLIPText(name)

    return build


@pytest.mark.nightly
def test_every_name_has_a_text_tower_and_knows_its_frames(text_alone):
    kinds = Counter()
    for name in open_clip.list_models():
        text = text_alone(name)
        kinds[text.kind] += 1
        assert (text.kind == 'padded') == open_clip_configs.attends_to_padding(name), name
        assert open_clip_configs.preprocessings(name), name
    assert kinds.total() == len(open_clip.list_models())
    assert kinds['causal'] >= 92 and kinds['padded'] >= 42 and kinds['masked'] >= 10
