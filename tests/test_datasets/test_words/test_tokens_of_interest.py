"""Weights of tokens against counts by hand, and what a table or a text does not have."""

import json
import math

import pytest
import torch

from mmvtr.datasets import HFTokenize, TokensOfInterest, WordTokenize
from mmvtr.datasets.words.part_of_speech import word_spans, words
from mmvtr.datasets.words.tokens_of_interest import WordTable

CAPTIONS = [
    'Chop the onion and fry the onion.',
    'fry the garlic',
    'pour the oil',
    'add the oil and stir',
    'the oil is hot',
]
PIECES = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]', 'chop', 'the', 'on', '##ion', 'fry', 'oil']


@pytest.fixture(scope='module')
def counted(tmp_path_factory):
    path = tmp_path_factory.mktemp('table') / 'counts.json'
    path.write_text(json.dumps(WordTable.of(CAPTIONS)._asdict()))
    return str(path)


@pytest.fixture(scope='module')
def bert(tmp_path_factory):
    folder = tmp_path_factory.mktemp('bert')
    (folder / 'vocab.txt').write_text('\n'.join(PIECES))
    (folder / 'config.json').write_text('{"model_type": "bert"}')
    return str(folder)


def test_idf_counts_captions_and_is_not_below_zero(counted):
    table = WordTable.of(CAPTIONS)
    assert (table.captions, table.counts['onion'], table.counts['the']) == (5, 1, 5)
    assert table.idf('onion') == math.log(5 / 2) and table.idf('oil') == math.log(5 / 4)
    assert table.idf('the') == 0  # log(5 / 6)
    assert table.idf('leek') == math.log(5)  # the formula's own, of a word that no caption has
    assert WordTable.read(counted).counts == dict(table.counts)


def test_pieces_inherit_the_idf_of_their_word(bert, counted):
    text = dict(text_id='a', text='Chop the ONION, fry the oil')
    text = HFTokenize(bert, max_length=12, spans=True).transform(text)
    text = TokensOfInterest(counted_file=counted, length=12).transform(text)
    # [CLS] chop the on ##ion [UNK = ,] fry the oil [SEP]
    onion, fry, oil = (math.log(5 / n) for n in (2, 3, 4))
    raw = torch.tensor([0, onion, 0, onion, onion, 0, fry, 0, oil, 0, 0, 0])
    interest = text['text_extra']['interest']
    assert interest.dtype == torch.float32 and len(text['token_ids']) == 10
    torch.testing.assert_close(interest, raw / raw.sum())


def test_weights_of_what_is_cut_off_go_to_the_rest(bert, counted):
    text = HFTokenize(bert, max_length=4, spans=True).transform(dict(text='fry the oil'))
    interest = TokensOfInterest(counted_file=counted, length=4).transform(text)['text_extra'][
        'interest'
    ]
    assert interest.tolist() == [0, 1, 0, 0]


def test_a_text_without_a_token_of_interest_weighs_nothing(tmp_path, counted):
    vocab = tmp_path / 'vocab.txt'
    vocab.write_text('\n'.join(sorted({word for c in CAPTIONS for word in words(c)} | {'here'})))
    tokenize = WordTokenize(str(vocab), spans=True)
    interest = TokensOfInterest(counted_file=counted, length=32)
    found = {
        text: interest.transform(tokenize.transform(dict(text=text)))['text_extra']['interest']
        for text in ('the here', 'fry the oil')
    }
    assert not found['the here'].any()
    raw = torch.tensor([0, math.log(5 / 3), 0, math.log(5 / 4)])
    torch.testing.assert_close(found['fry the oil'][:4], raw / raw.sum())
    assert found['fry the oil'].shape == (32,) and not found['fry the oil'][4:].any()


def test_spans_are_of_the_sentence_as_written():
    sentence = 'İn a PAN, the Straße'
    spans = word_spans(sentence)
    assert len(spans) == len(words(sentence))
    assert [sentence[start:end] for start, end in spans][-3:] == ['PAN', 'the', 'Straße']


def test_counts_of_the_set_to_train_on_serve_all_splits(tmp_path):
    corpus = dict(type='mmvtr.PlantedDataset', data_root=str(tmp_path), split='train')
    corpus.update(num_train=6, num_val=1, num_test=1)
    table = TokensOfInterest(counted=corpus, length=8).table
    assert table.captions >= 6 and sum(table.counts.values()) > table.captions


@pytest.mark.parametrize(
    'content, said',
    [
        ('{"captions": 3}', 'counts'),
        ('{"captions": 0, "counts": {}}', 'how many captions were counted'),
        ('{"captions": 3, "counts": {"onion": 4}}', 'onion.*the 3 captions, found 4'),
        ('{"captions": 3, "counts": {}}', 'counts.*at least one word and its count'),
        ('{"captions": 3, "counts": [1]}', 'an object of keys and values'),
    ],
)
def test_a_malformed_table(tmp_path, content, said):
    path = tmp_path / 'counts.json'
    path.write_text(content)
    with pytest.raises(ValueError, match=said) as error:
        TokensOfInterest(counted_file=str(path), length=8)
    assert 'counts.json' in str(error.value)


def test_what_it_refuses(bert, counted):
    interest = TokensOfInterest(counted_file=counted, length=3)
    with pytest.raises(ValueError, match='spans=True'):
        interest.transform(dict(text='fry', token_ids=[2, 9, 3]))
    with pytest.raises(ValueError, match="text 'x' has 4 tokens, length is 3"):
        tokenize = HFTokenize(bert, spans=True)
        interest.transform(tokenize.transform(dict(text_id='x', text='fry oil')))
    with pytest.raises(ValueError, match='length must be at least 1'):
        TokensOfInterest(counted_file=counted, length=0)
    for given in ({}, dict(counted=counted), dict(counted={}, counted_file=counted)):
        with pytest.raises(ValueError, match="counted_file='FILE.json' expected"):
            TokensOfInterest(length=3, **given)
    with pytest.raises(ValueError, match='method'):
        TokensOfInterest(counted_file=counted, length=3, method='guess')
