"""Texts that are longer than what is read of them are counted, whatever the tokenizer."""

import logging
from types import SimpleNamespace

import pytest
from mmengine.config import Config
from mmengine.logging import MMLogger

from mmvtr import apis
from mmvtr.datasets.video_text import VideoTextDataset
from mmvtr.datasets.words.cut_texts import count_cut, cut_tokens
from mmvtr.datasets.words.tokenizers import CLIPTokenize, HFTokenize, OpenCLIPTokenize, WordTokenize
from mmvtr.utils import load_config


def record(text):
    return dict(text=text, text_id='t', video_idx=[0])


@pytest.fixture
def words(tmp_path):
    """A vocabulary of five words."""
    path = tmp_path / 'vocab.txt'
    path.write_text('a\nb\nc\nd\ne\n')
    return WordTokenize(str(path), 5)


@pytest.fixture
def bert(tmp_path):
    """A tokenizer of transformers, of five words and its special tokens."""
    transformers = pytest.importorskip('transformers')
    vocabulary = '[PAD] [UNK] [CLS] [SEP] [MASK] a b c d e'.split()
    (tmp_path / 'vocab.txt').write_text('\n'.join(vocabulary))
    transformers.BertTokenizerFast(str(tmp_path / 'vocab.txt')).save_pretrained(tmp_path / 'bert')
    return HFTokenize(str(tmp_path / 'bert'), 5)


def test_a_text_that_just_fits_is_not_cut(words, bert):
    """Three words and two ends are five tokens."""
    for step in (words, bert, CLIPTokenize(5), OpenCLIPTokenize('ViT-B-32', 5)):
        assert cut_tokens([step], record('a b c')) == 0
        assert cut_tokens([step], record('a b c d e')) == 2
        assert len(step.transform(record('a b c d e'))['token_ids']) == step.limit == 5


def test_what_is_cut_is_counted_and_said(words):
    found = count_cut([words], [record('a b c d'), record('a'), record('a b c d e')])
    assert tuple(found) == (2, 3, 5, 7)
    assert str(found) == (
        '2 of 3 captions are longer than 5 tokens and are cut (the longest has 7)'
    )
    one = count_cut([lambda text: text, words], [record('a b c d')])
    assert str(one).startswith('1 of 1 captions is longer than 5 tokens and is cut')
    assert count_cut([words], [record('a b c')]) is None
    assert count_cut([lambda text: text], [record('a b c d')]) is None


@pytest.mark.parametrize('text', ['word ' * 90, 'é😀' * 60, '&amp;' * 200])
def test_tokens_that_open_clip_cleans_first(text):
    """As both count them, and as the ids differ where both read more."""
    one, other = CLIPTokenize(77), OpenCLIPTokenize('ViT-B-32-quickgelu')
    beyond = one.surplus(record(text))
    assert beyond == other.surplus(record(text)) > 0
    whole = CLIPTokenize(77 + beyond).transform(record(text))['token_ids']
    longer = CLIPTokenize(78 + beyond).transform(record(text))['token_ids']
    assert len(whole) == 77 + beyond and whole.tolist() == longer.tolist()


class Three(VideoTextDataset):
    """Three texts of one video."""

    def load_annotations(self):
        texts = [dict(record('a b' + ' c' * n), text_id=str(n)) for n in range(3)]
        return [dict(video_id='v', path='')], texts


@pytest.fixture
def said():
    """Warnings of the log."""
    lines = []

    class Keep(logging.Handler):
        def emit(self, line):
            lines.append(line.getMessage())

    handler = Keep(logging.WARNING)
    MMLogger.get_current_instance().addHandler(handler)
    yield lines
    MMLogger.get_current_instance().removeHandler(handler)


def test_a_dataset_says_it_once(words, said):
    assert Three([], [words]).cut_texts == (1, 3, 5, 6)
    assert said == [
        'Three: 1 of 3 captions is longer than 5 tokens and is cut (the longest has 6).'
    ]
    words.limit = 6
    assert Three([], [words]).cut_texts is None and len(said) == 1


def test_queries_that_are_cut(words, said):
    """Of a service: the number of tokens; of the command line and in Python: a warning."""
    step = dict(type='mmvtr.WordTokenize', vocab_file=words.vocab_file, context_length=5)
    cfg = Config(dict(test_dataloader=dict(dataset=dict(text_pipeline=[step]))))
    assert apis.TextEncoder(None, cfg).cut(['a b c d e', 'a']) == [2, 0]
    idle = SimpleNamespace(training=False)
    with pytest.raises(AttributeError, match='data_preprocessor'):  # it is warned before
        apis.encode_texts(idle, cfg, ['a b c d e', 'a'])
    assert said[-1].startswith('the given texts: 1 of 2 captions is longer than 5 tokens')


@pytest.mark.parametrize('name', ['own_clip4clip', 'own_dvtr_c2v', 'own_clip4clip_features'])
def test_own_captions_are_read_to_the_last_token_of_the_tower(name):
    cfg = load_config(name)
    for part in ('train', 'val', 'test'):
        (step,) = cfg[f'{part}_dataloader'].dataset.text_pipeline
        assert step == dict(type='CLIPTokenize', context_length=77)


def test_other_towers_read_their_own_number_of_tokens():
    lengths = {'': 77, '_vitl14': 77, '_pe': 32, '_siglip2': 64}
    for tower, length in lengths.items():
        (step,) = load_config(f'zeroshot_own{tower}').test_dataloader.dataset.text_pipeline
        assert 'context_length' not in step  # the model's own, see OpenCLIPTokenize
        assert _own_length(step['model']) == length


def _own_length(model):
    import open_clip

    return open_clip.get_model_config(model)['text_cfg']['context_length']
