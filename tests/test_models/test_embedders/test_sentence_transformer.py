"""An embedder of sentence-transformers as encoder: bit for bit what its own ``encode`` gives."""

import re

import numpy as np
import pytest
import torch

st = pytest.importorskip('sentence_transformers', reason="needs the extra 'sentence-transformers'")

import tiny_embedders  # noqa: E402
from children import ROOT, run_tool  # noqa: E402
from mmvtr import registry  # noqa: E402
from mmvtr.datasets import TextBytes, collate_retrieval, read_frames  # noqa: E402
from mmvtr.engine.checks.zero_shot import pretrained_parts, untrained_parts  # noqa: E402
from mmvtr.models import (  # noqa: E402
    SentenceTransformerEncoder,
    VideoTextDataPreprocessor,
    VideoTextRetriever,
)
from mmvtr.utils import load_config, register_all_modules  # noqa: E402

TEXTS, VIDEOS, LABELS = tiny_embedders.pairs(6)
TEXTS[0] = 'a rёd dog, …'  # not one byte a letter


def batch(texts, videos):
    """As the dataset and its pipelines hand them over."""
    say = TextBytes()
    items = [
        dict(
            video=dict(video_idx=i, video_id=f'v{i}', frames=torch.as_tensor(video)),
            texts=[
                dict(
                    text_idx=i, text_id=f't{i}', video_idx=[i],
                    tokens=torch.as_tensor(say.transform(dict(text=text))['token_ids']),
                )
            ],
        )
        for i, (text, video) in enumerate(zip(texts, videos))
    ]  # fmt: skip
    return collate_retrieval(items)


def retriever(model, **more):
    return VideoTextRetriever(
        encoder=SentenceTransformerEncoder(model),
        similarity=dict(type='CosineSimilarity'),
        losses=dict(contrastive=dict(type='ContrastiveLoss')),
        data_preprocessor=dict(type='mmvtr.VideoTextDataPreprocessor', normalise=False),
        **more,
    )


@pytest.fixture
def model(tmp_path):
    return tiny_embedders.video_model(tmp_path / 'model')


def test_vectors_are_those_of_encode_bit_for_bit(model):
    whole = retriever(model).eval()
    # The second video is of another size, the third of another shape.
    videos = [VIDEOS[0], VIDEOS[1][:, :, ::-1].repeat(2, 3), *VIDEOS[2:]]
    data = whole.data_preprocessor(batch(TEXTS, [np.ascontiguousarray(v) for v in videos]))
    assert data['inputs']['video'][0].dtype == torch.uint8
    assert data['inputs']['frame_mask'].tolist() == [[True] * 4] * 6
    with torch.no_grad():
        found = whole.encode_text(data['inputs']), whole.encode_video(data['inputs'])
    for items, levels in zip((TEXTS, videos), found):
        expected = model.encode(list(items), normalize_embeddings=True, convert_to_tensor=True)
        assert torch.equal(levels['global'].mean, expected)


def test_it_trains_also_in_parts(model):
    gradients = []
    for size in (None, 2):
        whole = retriever(model, micro_batch=size)
        whole.zero_grad()
        data = whole.data_preprocessor(batch(TEXTS, VIDEOS))
        loss = whole(**data, mode='loss')['loss_contrastive']
        loss.backward()
        gradients.append({n: p.grad for n, p in whole.named_parameters() if p.grad is not None})
    names = [*gradients[0]]
    assert any('text_model' in name for name in names)
    assert any('vision_model' in name for name in names)
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-6)


def test_prompts_are_the_models_or_those_that_are_given(model):
    model.prompts, model.default_prompt_name = dict(query='the ', document='a '), 'query'
    encoder = SentenceTransformerEncoder(model)
    assert encoder.protocol() == dict(prompt="text 'the ', video 'the '")
    encoder = SentenceTransformerEncoder(model, text_prompt='red ', video_prompt='')
    assert encoder.protocol() == dict(prompt="text 'red '")
    ids = torch.tensor([list(b'dog')])
    with torch.no_grad():
        found = encoder.encode_text(ids, torch.ones_like(ids).bool())['global'].mean
    expected = model.encode(['dog'], prompt='red ', normalize_embeddings=True)
    np.testing.assert_array_equal(found.numpy(), expected)


def test_of_nothing_there_are_levels_of_nothing(model):
    encoder = SentenceTransformerEncoder(model)
    nothing = torch.zeros(0, 3)
    for levels in (encoder.encode_video([], nothing), encoder.encode_text(nothing, nothing)):
        assert levels['global'].mean.shape == (0, 12)
        assert levels['global'].tokens is None


def test_what_it_cannot_be_is_refused(tmp_path, model):
    with pytest.raises(ValueError, match='embeds text, and no video'):
        SentenceTransformerEncoder(tiny_embedders.text_model(tmp_path / 'text'))
    with pytest.raises(RuntimeError, match='neither a folder of a model'):
        SentenceTransformerEncoder(str(tmp_path / 'nothing'))
    encoder = SentenceTransformerEncoder(model)
    with pytest.raises(ValueError, match='normalise=False'):
        encoder.encode_video([torch.rand(4, 3, 32, 32)], torch.ones(1, 4).bool())


def test_frames_are_still_normalised_where_that_is_asked():
    frames = [torch.full((2, 3, 4, 4), 100, dtype=torch.uint8)]
    data = dict(inputs=dict(video=frames), data_samples={})
    told = VideoTextDataPreprocessor(mean=[90.0] * 3, std=[10.0] * 3)(data)['inputs']['video']
    assert told.shape == (1, 2, 3, 4, 4) and (told == 1).all()


# -- the configs -----------------------------------------------------------------------------------


def test_a_config_evaluates_an_embedder_by_its_name(tmp_path, write_video, model):
    (tmp_path / 'clips').mkdir()
    for n in range(4):
        greys = [(37 * n + 61 * i) % 250 for i in range(6)]
        write_video(tmp_path / f'clips/v{n}.mp4', greys, size=(40, 48), codec='ffv1')
    rows = ''.join(f'v{n}.mp4,{text}\n' for n, text in enumerate(TEXTS[1:5]))
    (tmp_path / 'own.csv').write_text('video,text\n' + rows)
    options = [
        f'model={tmp_path}/model', 'frames=4', 'sampling=uniform', 'table=own.csv', 'videos=clips',
        'test_dataloader.num_workers=0', 'text_prompt=the ',
    ]  # fmt: skip
    code, printed = run_tool(
        tmp_path, 'test.py', ROOT / 'configs/zeroshot/zeroshot_own_st.py', '--cfg-options', *options
    )
    assert code == 0, printed[-2000:]
    line = re.search(r'^protocol: .*(?:\n {10}.*)*', printed, flags=re.MULTILINE)[0]
    line = re.sub(r'\n +', ' ', line)
    assert "| prompt text 'the '" in line and '| sampled uniform, at most 4' in line
    assert '| frames a video 4' in line and 'random' not in line
    videos = [
        np.stack(read_frames(str(tmp_path / f'clips/v{n}.mp4'), lambda times: np.arange(6)))
        for n in range(4)
    ]
    assert all(video.shape == (6, 40, 48, 3) for video in videos)


@pytest.mark.parametrize('name', ['msrvtt', 'msvd', 'own'])
def test_all_of_it_is_pretrained(name, model):
    options = dict(model='some/embedder', transform='SinkhornHook', queries='test', frames=8)
    register_all_modules()
    cfg = load_config(f'zeroshot_{name}_st', options)
    assert cfg.model.encoder.model == 'some/embedder'
    assert registry.HOOKS.build(cfg.default_hooks.transform).source == 'test'
    assert cfg.test_dataloader.dataset.video_pipeline[0].num_frames == 8
    assert cfg.test_dataloader.dataset.video_pipeline[0].sampling == 'per_second'
    assert 'weights' not in cfg.shortcuts and 'model' in cfg.shortcuts
    found = set(pretrained_parts(cfg.model))
    assert found == {'encoder'}
    assert untrained_parts(retriever(model), found) == []
