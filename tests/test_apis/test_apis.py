"""Loading, encoding and comparing by hand, against what an evaluation encodes."""

import logging
import re

import pytest
import torch
import torch.nn.functional as F
from mmengine.config import Config
from torch import nn

import toy
from mmvtr.apis import (
    as_tested,
    encode_set,
    encode_texts,
    encode_videos,
    fingerprint,
    load_retriever,
    refuse_without_vectors,
    vectors,
)
from mmvtr.datasets.videos.video_io import BrokenVideoError
from mmvtr.models.similarities.xpool import XPoolSimilarity
from mmvtr.structures import Embedding
from tiny_sets import of_videos

CONFIG = of_videos('bcd', 'abcde', frames=4)

NAMES = ('a', 'b', 'c', 'd', 'e')


@pytest.fixture
def folder(tmp_path, write_video, monkeypatch):
    """Five videos and the config of a retriever for them, in the current folder."""
    (tmp_path / 'config.py').write_text(CONFIG)
    for number, name in enumerate(NAMES):
        write_video(tmp_path / f'{name}.mp4', [30 + 40 * number + 5 * i for i in range(3 + number)])
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def retriever(folder):
    return load_retriever('config.py', None, random_weights=True, device='cpu')


# -- loading -----------------------------------------------------------------------------------


def test_loading_a_checkpoint(folder):
    cfg = Config.fromfile('config.py')
    first, _ = load_retriever(cfg, None, random_weights=True)
    weights = {name: torch.full_like(x, 0.5) for name, x in first.state_dict().items()}
    torch.save(dict(state_dict=weights, message_hub={}), 'whole.pth')
    torch.save(weights, 'bare.pth')
    for path in ('whole.pth', folder / 'bare.pth'):
        model, again = load_retriever('config.py', path, device='cpu')
        assert not model.training and again.model == cfg.model
        assert all(torch.equal(x, weights[name]) for name, x in model.state_dict().items())


def test_random_weights_are_those_of_the_seed(folder):
    state = torch.get_rng_state()
    models = [load_retriever('config.py', None, random_weights=True)[0] for _ in range(2)]
    cfg = Config.fromfile('config.py')
    cfg.merge_from_dict({'randomness.seed': 5})
    models.append(load_retriever(cfg, None, random_weights=True)[0])
    same, other = (fingerprint(models[0]) == fingerprint(model) for model in models[1:])
    assert same and not other
    assert torch.equal(torch.get_rng_state(), state)


def test_checkpoints_that_do_not_load(folder):
    with pytest.raises(FileNotFoundError, match='none.py'):
        load_retriever('none.py', None)
    with pytest.raises(FileNotFoundError, match='gone.pth does not exist'):
        load_retriever('config.py', 'gone.pth')
    torch.save({'encoder.frames.weight': torch.ones(1)}, 'other.pth')
    with pytest.raises(RuntimeError, match='other.pth does not fit this VideoTextRetriever'):
        load_retriever('config.py', 'other.pth')


def test_fingerprint_is_of_names_and_values():
    layer = nn.BatchNorm1d(2)  # holds floats, and an int64 of no dimension
    first = fingerprint(layer)
    assert len(first) == 16 and fingerprint(layer) == first
    assert fingerprint(nn.Sequential(layer)) != first
    layer.num_batches_tracked += 1
    assert fingerprint(layer) != first
    assert len(fingerprint(nn.Linear(2, 2).bfloat16())) == 16


# -- encoding ----------------------------------------------------------------------------------


def test_a_set_is_encoded_once_in_its_order(retriever):
    model, cfg = retriever
    encoded = encode_set(model, cfg.test_dataloader)
    texts, videos = encoded['text'], encoded['video']
    assert texts.ids == videos.ids == ['b', 'c', 'd']
    assert texts.index.tolist() == videos.index.tolist() == [0, 1, 2]
    assert videos.lengths.tolist() == [4, 4, 4] and texts.lengths.tolist() == [1, 1, 1]
    dataset = toy.ToyVideos(
        [dict(type='LoadVideo', num_frames=4)], [dict(type='ToySay')], names=('b', 'c', 'd')
    )
    for v, mean in enumerate(videos.levels['global'].mean):  # one at a time, by hand
        frames = dataset.load_video(v)['frames'].double()
        channels = model.data_preprocessor.mean, model.data_preprocessor.std
        grey = ((frames - channels[0]) / channels[1]).flatten(1).mean(1)
        expected = F.normalize(torch.stack([grey, grey**2], 1), dim=1).mean(0)
        torch.testing.assert_close(F.normalize(mean, dim=0), F.normalize(expected, dim=0).float())
    words = model.encoder.text.words.weight.detach()
    expected = F.normalize(words[[ord(name) % 8 for name in texts.ids]], dim=-1)
    torch.testing.assert_close(F.normalize(texts.levels['global'].mean, dim=-1), expected)


def test_of_a_set_one_kind(retriever, capsys):
    model, cfg = retriever
    encoded = encode_set(model, cfg.test_dataloader, kinds=['text'], progress=True)
    assert list(encoded) == ['text'] and encoded['text'].ids == ['b', 'c', 'd']
    assert re.fullmatch(
        r'batches of texts encoded: (\d) of \1 in \d\.\d s\n', capsys.readouterr().out
    )


def test_a_dataset_does_as_well_as_a_loader(retriever):
    model, cfg = retriever
    dataset = toy.ToyVideos(
        [dict(type='LoadVideo', num_frames=4)], [dict(type='ToySay')], names=('b', 'c', 'd')
    )
    both = encode_set(model, dataset), encode_set(model, cfg.test_dataloader)
    for kind in ('text', 'video'):
        one, other = (encoded[kind].levels['global'].mean for encoded in both)
        torch.testing.assert_close(one, other)


def test_loose_texts_and_videos_are_encoded_as_those_of_the_test_set(retriever):
    model, cfg = retriever
    encoded = encode_set(model, cfg.test_dataloader)
    texts = encode_texts(model, cfg, ['d', 'b', 'd'])
    assert texts.ids == ['0', '1', '2']
    expected = encoded['text'].levels['global'].mean[[2, 0, 2]]
    torch.testing.assert_close(texts.levels['global'].mean, expected)
    videos = encode_videos(model, cfg, ['d.mp4', 'b.mp4'])
    assert videos.ids == ['d', 'b']
    expected = encoded['video'].levels['global'].mean[[2, 0]]
    torch.testing.assert_close(videos.levels['global'].mean, expected)
    assert encode_videos(model, cfg, ['d.mp4'], ids=['other']).ids == ['other']


def test_broken_videos_are_left_out_and_named(retriever, folder, monkeypatch):
    model, cfg = retriever
    said = []
    monkeypatch.setattr('mmvtr.apis.sets.print_log', lambda *args: said.append(args))
    (folder / 'c.mp4').write_bytes(b'no video')
    cfg.test_dataloader.dataset.on_broken = 'skip'
    videos = encode_set(model, cfg.test_dataloader)['video']
    assert videos.ids == ['b', 'd'] and videos.index.tolist() == [0, 2]
    ((message, _, level),) = said
    assert '1 broken videos are left out' in message and 'c.mp4' in message
    assert level == logging.WARNING
    with pytest.raises(BrokenVideoError, match='c.mp4'):
        encode_videos(model, cfg, ['b.mp4', 'c.mp4'])


def test_splits_are_read_as_the_test_set(retriever):
    model, cfg = retriever
    loader = as_tested(cfg, 'train')
    assert loader.dataset.names == ['a', 'b', 'c', 'd', 'e']
    assert loader.dataset.video_pipeline == [dict(type='LoadVideo', num_frames=4)]
    assert 'sampler' not in loader and loader.batch_size == 2
    assert cfg.train_dataloader.dataset.video_pipeline[0].sampling == 'segment_random'  # untouched
    videos = [encode_set(model, data)['video'] for data in (loader, cfg.test_dataloader)]
    torch.testing.assert_close(
        videos[0].levels['global'].mean[1:4], videos[1].levels['global'].mean
    )


# -- comparing ---------------------------------------------------------------------------------


def test_inner_products_of_vectors_are_the_scores(retriever):
    model, cfg = retriever
    encoded = encode_set(model, cfg.test_dataloader)
    texts, videos = (encoded[kind].levels for kind in ('text', 'video'))
    products = vectors(model, texts) @ vectors(model, videos).t()
    torch.testing.assert_close(products, model.score(texts, videos)['scores'])


class Tokens(nn.Module):
    """As the similarities that compare words and frames: no vectors."""


class TwoStages(Tokens):
    exact = False

    def flat(self, levels):
        return levels['global'].mean


@pytest.mark.parametrize('similarity', [Tokens, TwoStages])
def test_other_similarities_have_no_vectors(retriever, similarity):
    model, _ = retriever
    model.similarity = similarity()
    message = f'the scores of {similarity.__name__} are not inner products'
    with pytest.raises(ValueError, match=message):
        refuse_without_vectors(model)
    with pytest.raises(ValueError, match=message):
        vectors(model, {'global': Embedding(torch.ones(1, 2))})


def test_who_can_rank_a_shortlist_is_said_to(retriever):
    model, _ = retriever
    model.similarity = XPoolSimilarity(dim=2)
    message = (
        r'XPoolSimilarity are not inner products .* two stages: model.similarity.shortlist=100'
    )
    with pytest.raises(ValueError, match=message):
        refuse_without_vectors(model)


def test_levels_of_another_model(retriever):
    model, _ = retriever
    with pytest.raises(ValueError, match=r"levels \['aligned'\], but .* reads 'global'"):
        vectors(model, {'aligned': Embedding(torch.ones(1, 2))})


# -- bad input ---------------------------------------------------------------------------------


def test_nothing_to_encode(retriever):
    model, cfg = retriever
    for encode in (encode_texts, encode_videos):
        with pytest.raises(ValueError, match='nothing to encode'):
            encode(model, cfg, [])


def test_one_string_is_no_list(retriever):
    model, cfg = retriever
    for encode in (encode_texts, encode_videos):
        with pytest.raises(TypeError, match="a list of strings expected, not the string 'abc'"):
            encode(model, cfg, 'abc')


def test_texts_and_videos_that_do_not_work(retriever):
    model, cfg = retriever
    with pytest.raises(ValueError, match='expected a caption, which is not empty'):
        encode_texts(model, cfg, ['a', ' '])
    with pytest.raises(FileNotFoundError, match='gone.mp4'):
        encode_videos(model, cfg, ['a.mp4', 'gone.mp4'])
    with pytest.raises(ValueError, match="video 1: a second video 'a', the first is video 0"):
        encode_videos(model, cfg, ['a.mp4', 'other/a.mp4'])
    with pytest.raises(ValueError, match='2 paths, 1 ids'):
        encode_videos(model, cfg, ['a.mp4', 'b.mp4'], ids=['a'])


def test_a_model_that_trains(retriever):
    model, cfg = retriever
    with pytest.raises(ValueError, match=r'call model.eval\(\) first'):
        encode_set(model.train(), cfg.test_dataloader)


def test_a_split_that_the_config_lacks(retriever):
    _, cfg = retriever
    with pytest.raises(ValueError, match='config.py has no val_dataloader'):
        as_tested(cfg, 'val')
