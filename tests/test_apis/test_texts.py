"""A free text takes a straight way, and comes out bit for bit as from a dataset and a loader."""

import json
from types import SimpleNamespace

import pytest
import torch
from mmengine.config import Config

from children import config_file
from mmvtr.apis import TextEncoder, encode_set, encode_texts, load_retriever
from mmvtr.datasets import VideoTextDataset
from mmvtr.datasets.planted_corpus.store import _vocabulary_text
from mmvtr.registry import TRANSFORMS
from mmvtr.utils import forget_pretrained

WORDS = 'a big red star spins and a small cyan cross bounces on sand and falls there'.split()
TEXTS = [' '.join(WORDS[i % 5 : i % 5 + 3 + i % 9]) for i in range(11)]
#: Of each kind of tower and of retriever one: recurrent words, extra tokens and heads, a teacher's
#: bank, experts, several members, the words of role graphs, CLIP's own tokens.
CONFIGS = [
    'c2v_planted',
    'uatvr_planted_features',
    'arl_planted_features',
    'hit_planted_experts',
    'mmt_planted_experts',
    'causal_planted_features',
    'hgr_msrvtt',
    pytest.param('clip4clip_msrvtt', marks=pytest.mark.nightly),
]


class Listed(VideoTextDataset):
    """The texts as a set of one video."""

    def load_annotations(self):
        texts = [dict(text_id=str(i), text=text, video_idx=[0]) for i, text in enumerate(TEXTS)]
        return [dict(video_id='v', path='v.mp4')], texts


@TRANSFORMS.register_module()
class DropsAWord:
    """As of a test-time augmentation: it draws."""

    def __call__(self, results):
        ids = results['token_ids']
        return dict(results, token_ids=ids[torch.randperm(len(ids))[: len(ids) - 1].sort()[0]])


@pytest.fixture(autouse=True)
def vocabularies(tmp_path, monkeypatch):
    numbers = json.dumps({word: i for i, word in enumerate(dict.fromkeys(WORDS), 3)})
    for path, text in (
        ('data/planted/vocab.txt', _vocabulary_text()),
        ('data/msrvtt/word2int.json', numbers),
    ):
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_text(text)
    monkeypatch.chdir(tmp_path)


def loaded(name):
    cfg = Config.fromfile(config_file(name))
    forget_pretrained(cfg.model)
    return load_retriever(cfg, None, random_weights=True, device='cpu')


def through_a_loader(model, cfg):
    steps = cfg.test_dataloader.dataset.text_pipeline
    loader = {k: x for k, x in cfg.test_dataloader.items() if k in ('batch_size', 'collate_fn')}
    dataset = Listed([], steps)
    return encode_set(model, dict(loader, dataset=dataset), kinds=['text'])['text']


def assert_same(one, other):
    assert one.ids == other.ids and one.index.equal(other.index)
    assert one.lengths.equal(other.lengths) and one.levels.keys() == other.levels.keys()
    for name, level in one.levels.items():
        for mine, theirs in zip(level, other.levels[name]):
            assert (mine is None and theirs is None) or torch.equal(mine, theirs), name


@pytest.mark.parametrize('name', CONFIGS)
def test_bit_for_bit_as_from_a_dataset(name):
    model, cfg = loaded(name)
    cfg.test_dataloader.batch_size = 4  # three batches, the last one smaller
    expected = through_a_loader(model, cfg)
    assert_same(encode_texts(model, cfg, TEXTS), expected)
    encode = TextEncoder(model, cfg)
    assert_same(encode(TEXTS), expected)
    assert_same(encode(TEXTS), expected)  # it keeps nothing of the texts before


def test_what_is_drawn_is_that_of_the_item():
    model, cfg = loaded('c2v_planted')
    cfg.test_dataloader.dataset.text_pipeline.append(dict(type='DropsAWord'))
    expected = through_a_loader(model, cfg)
    state = torch.get_rng_state()
    assert_same(encode_texts(model, cfg, TEXTS), expected)
    assert torch.equal(torch.get_rng_state(), state)


def test_no_loader_and_no_dataset_is_made(monkeypatch):
    model, cfg = loaded('c2v_planted')

    def never(self, *args, **kwargs):
        raise AssertionError(f'{type(self).__name__} was made')

    for kind in (VideoTextDataset, torch.utils.data.DataLoader):
        monkeypatch.setattr(kind, '__init__', never)
    with pytest.raises(AssertionError, match='Listed was made'):
        through_a_loader(model, cfg)
    assert len(encode_texts(model, cfg, TEXTS).ids) == 11


def test_batches_and_their_bar(capsys):
    model, cfg = loaded('c2v_planted')
    sizes = []
    encode_text = model.encode_text
    model.encode_text = lambda inputs: (sizes.append(len(inputs['text'])), encode_text(inputs))[1]
    TextEncoder(model, cfg)(TEXTS, batch_size=5, progress=True)
    assert sizes == [5, 5, 1] and 'batches of texts encoded: 3 of 3' in capsys.readouterr().out


def test_stored_words_are_refused():
    step = dict(type='LoadTextFeatures', path='roberta', max_words=30)
    cfg = Config(dict(test_dataloader=dict(dataset=dict(text_pipeline=[step]))))
    with pytest.raises(ValueError, match='reads stored word features, which free texts do not'):
        encode_texts(SimpleNamespace(training=False), cfg, TEXTS)


def test_a_model_that_trains_and_words_that_are_unknown():
    model, cfg = loaded('c2v_planted')
    with pytest.raises(KeyError, match='zebra'):
        encode_texts(model, cfg, ['a red zebra'])
    with pytest.raises(ValueError, match=r'call model.eval\(\) first'):
        encode_texts(model.train(), cfg, TEXTS)
