"""Role graphs: the official reader's arrays, and what each source makes of a sentence."""

import csv
import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch

from mmvtr.datasets import LoadRoleGraph, PartOfSpeechGraph, VerbNounGraph
from mmvtr.datasets.words import part_of_speech
from mmvtr.datasets.words.role_graphs import ROLES, RoleGraph, pack_graph
from mmvtr.datasets.words.word_ids import make_word_ids, read_word_ids, word_ids
from mmvtr.registry import TRANSFORMS

IDS = {
    '<unk>': 2, 'a': 3, 'man': 4, 'cuts': 5, 'tomato': 6, 'and': 7, 'takes': 8, 'the': 9,
    'plate': 10, 'red': 11,
}  # fmt: skip


def node(role, *spans):
    return dict(role=role, spans=list(spans))


GRAPHS = {
    'a man cuts tomato': [
        {'0': node('ROOT', 0, 1, 2, 3), '1': node('V', 2), '2': node('ARG0', 0, 1),
         '3': node('ARG1', 3)},
        [['0', '1', 'V'], ['1', '2', 'ARG0'], ['1', '3', 'ARG1']],
    ],
    'cuts tomato and takes the red plate': [
        {'0': node('ROOT'), '1': node('V', 0), '2': node('ARG1', 1), '3': node('V', 3),
         '4': node('ARG1', 4, 5, 6), '5': node('NOUN', 6)},
        [['0', '1', 'V'], [1, 2, 'ARG1'], ['0', '3', 'V'], [3, 4, 'ARG1'], [1, 3, 'odd'], [2, 5]],
    ],
    'takes plate': [
        {'1': {**node('V', 0), 'words': ['takes']}, '2': node('ARG1', 1)}, [['1', '2', 'ARG1']],
    ],
    'plate': [{'0': node('ROOT', 0), '1': node('NOUN', 0)}, []],
}  # fmt: skip


@pytest.fixture
def files(tmp_path):
    """Paths of a vocabulary and of role graphs."""
    for name, content in (('word2int.json', IDS), ('graphs.json', GRAPHS)):
        (tmp_path / name).write_text(json.dumps(content))
    return str(tmp_path / 'word2int.json'), str(tmp_path / 'graphs.json')


def edges(packed):
    return sorted(map(tuple, packed['edges'].nonzero().tolist()))


def members(packed, name):
    return [row.nonzero().flatten().tolist() for row in packed[name] if row.any()]


# -- tensors of a graph ------------------------------------------------------------------------


def test_shapes_and_edges():
    packed = pack_graph(RoleGraph([[2], [4]], [('ARG0', [0, 1]), ('ARG1', [3])], [(0, 0), (1, 1)]))
    shapes = dict(verbs=(4, 30), nouns=(6, 30), roles=(10,), edges=(11, 11))
    assert {name: tuple(x.shape) for name, x in packed.items()} == shapes
    kinds = {name: x.dtype for name, x in packed.items()}
    assert kinds.pop('roles') == torch.int64 and set(kinds.values()) == {torch.bool}
    assert members(packed, 'verbs') == [[2], [4]] and members(packed, 'nouns') == [[0, 1], [3]]
    assert packed['roles'].tolist() == [0, 0, 0, 0, 2, 1, 0, 0, 0, 0]
    # The verbs 1 and 2 receive from the sentence 0 and from the nouns 5 and 6; 0 from none.
    assert edges(packed) == [(1, 0), (1, 5), (2, 0), (2, 6), (5, 1), (6, 2)]


def test_what_does_not_fit_is_left_out():
    verbs = [[9], [0, 9], [1], [2]]  # the first begins too late, the second ends too late
    nouns = [('ARG1', [3]), ('ARG1', [8]), ('ARG2', [4]), ('ARG2', [5])]
    links = [(0, 0), (1, 1), (1, 2), (2, 2), (3, 0), (2, 3)]
    packed = pack_graph(RoleGraph(verbs, nouns, links), max_words=8, max_verbs=2, max_nouns=2)
    assert members(packed, 'verbs') == [[0], [1]] and members(packed, 'nouns') == [[3], [4]]
    assert edges(packed) == [(1, 0), (1, 4), (2, 0), (2, 4), (4, 1), (4, 2)]
    assert packed['roles'].tolist() == [0, 0, 1, 3]


def test_no_graph_and_rare_roles():
    assert not any(x.any() for x in pack_graph(RoleGraph()).values())
    packed = pack_graph(RoleGraph([], [('ARGM-CAU', [0]), ('NOUN', [1])]))
    assert packed['roles'][4:6].tolist() == [15, 15] and len(ROLES) == 16


# -- HGR's files -------------------------------------------------------------------------------


def test_the_official_reader(shared, files):
    golden = np.load(shared / 'golden/hgr.npz')
    vocabulary, graphs = files
    load = LoadRoleGraph(graphs, vocabulary, max_words=7, max_verbs=2, max_nouns=3)
    for i, sentence in enumerate(golden['cap/sentences'].tolist()):
        results = load.transform(dict(text=sentence))
        ids, packed = results['token_ids'], results['text_extra']
        assert ids.tolist() == golden['cap/sent_ids'][i][: golden['cap/sent_lens'][i]].tolist()
        for name in ('verb', 'noun'):
            np.testing.assert_array_equal(
                packed[f'{name}s'].numpy(), golden[f'cap/{name}_masks'][i]
            )
        np.testing.assert_array_equal(packed['roles'].numpy(), golden['cap/node_roles'][i])
        np.testing.assert_array_equal(packed['edges'].numpy(), golden['cap/rel_edges'][i] > 0)


def test_a_sentence_of_the_file(files):
    vocabulary, graphs = files
    load = TRANSFORMS.build(dict(type='LoadRoleGraph', graph_file=graphs, vocab_file=vocabulary))
    results = load.transform(dict(text='cuts tomato and takes the red plate', text_extra={'x': 1}))
    packed = results['text_extra']
    assert results['token_ids'].tolist() == [5, 6, 7, 8, 9, 11, 10] and packed['x'] == 1
    assert members(packed, 'verbs') == [[0], [3]]
    assert members(packed, 'nouns') == [[1], [4, 5, 6], [6]]
    assert edges(packed) == [(1, 0), (1, 5), (2, 0), (2, 6), (5, 1), (6, 2)]


def test_check_names_sentences_without_a_graph(files):
    vocabulary, graphs = files
    load = LoadRoleGraph(graphs, vocabulary)
    texts = [dict(text=text, text_id=text) for text in ('plate', 'plate', 'a man', 'takes plate')]
    with pytest.raises(KeyError, match=r"graphs.json has no graph for 1 of 3 sentences.*'a man'"):
        load.check(texts)
    load.check(texts[:2])
    assert set(load.graphs) == {'plate'}  # the others of a big file are let go
    with pytest.raises(KeyError, match=r"graphs.json has no graph for 'takes plate'"):
        load.transform(dict(text='takes plate'))


@pytest.mark.parametrize(
    'graph, problem',
    [
        ([{'1': node('V', 2)}, []], 'spans .2., expected positions among 2 words'),
        ([{'1': node('V')}, []], 'expected positions among 2 words'),
        (
            [{'1': {**node('V', 0, 1), 'words': ['takes']}}, []],
            "of the words .'takes'., expected one",
        ),
        ([{'1': dict(spans=[0])}, []], "KeyError 'role'"),
        ([{}], 'missing 1 required positional'),
        ({'1': 2}, 'is not .nodes, edges. of HGR'),
        (None, 'is not .nodes, edges. of HGR'),
    ],
)
def test_no_such_graph(files, tmp_path, graph, problem):
    path = tmp_path / 'bad.json'
    path.write_text(json.dumps({'takes plate': graph}))
    load = LoadRoleGraph(str(path), files[0])
    with pytest.raises(ValueError, match=f'bad.json: .takes plate.: the graph.*{problem}'):
        load.transform(dict(text='takes plate'))


# -- EPIC's verb and nouns ---------------------------------------------------------------------


def parsed(transform, **record):
    """Words of verbs and of nouns, with their roles."""
    words, graph = transform.parse(dict(text_id='7', **record))
    verbs = [' '.join(words[i] for i in verb) for verb in graph.verbs]
    return verbs, [(role, ' '.join(words[i] for i in noun)) for role, noun in graph.nouns]


@pytest.mark.parametrize(
    'text, verb, nouns, expected',
    [
        ('Put down plate.', 'put-down', ['plate'], ('put down', [('ARG1', 'plate')])),
        ('continue washing pans', 'wash', ['pan'], ('washing', [('ARG1', 'pans')])),
        (
            'put water bottle in the fridge',
            'put-in',
            ['bottle:water', 'fridge'],
            ('put in', [('ARG1', 'water bottle'), ('ARG2', 'fridge')]),
        ),
        ('close tap', 'turn-off', ['tap'], ('close', [('ARG1', 'tap')])),
        ('turn on water', 'turn-on', ['tap', 'water'], ('turn on', [('ARG1', 'water')])),
        ('stir', 'stir', ['spatula'], ('stir', [])),
    ],
)
def test_annotated_verb_and_nouns(files, text, verb, nouns, expected):
    transform = VerbNounGraph(files[0])
    verbs, found = parsed(transform, text=text, verb=verb, nouns=nouns)
    assert (verbs, found) == ([expected[0]], expected[1])


def test_every_noun_is_linked_to_the_verb(files):
    transform = TRANSFORMS.build(dict(type='VerbNounGraph', vocab_file=files[0]))
    record = dict(text_id='7', text='takes the red plate and tomato', verb='take')
    record['nouns'] = ['plate:red', 'tomato']
    transform.check([record])
    results = transform.transform(record)
    assert results['token_ids'].tolist() == [8, 9, 11, 10, 7, 6]
    assert members(results['text_extra'], 'nouns') == [[2, 3], [5]]
    assert edges(results['text_extra']) == [(1, 0), (1, 5), (1, 6), (5, 1), (6, 1)]


def test_records_that_tell_nothing(files):
    transform = VerbNounGraph(files[0])
    for record in (dict(verb='take'), dict(nouns=[])):
        with pytest.raises(KeyError, match="text '7' has no verb and nouns: its dataset annotates"):
            transform.check([dict(text_id='7', text='take', **record)])
    with pytest.raises(ValueError, match=r"text '7' has no word: '\?!'"):
        transform.check([dict(text_id='7', text='?!', verb='take', nouns=[])])


# -- parts of speech ---------------------------------------------------------------------------


def test_rules(files):
    transform = PartOfSpeechGraph(files[0], method='rules')
    verbs, nouns = parsed(transform, text='A man is cutting the red tomatoes, and takes a plate.')
    assert verbs == ['cutting', 'takes']
    assert nouns == [('NOUN', 'man'), ('NOUN', 'tomatoes'), ('NOUN', 'plate')]
    packed = transform.transform(dict(text='takes the plate'))['text_extra']
    assert edges(packed) == [(1, 0)]  # as HGR: no edge between verbs and nouns


@pytest.mark.parametrize(
    'sentence, nouns, links',
    [
        (
            'A man is cutting tomatoes.',
            ['ARG0 man', 'ARG1 tomatoes'],
            [('cutting', 'man'), ('cutting', 'tomatoes')],
        ),
        ('a man is singing', ['ARG0 man'], [('singing', 'man')]),
        (
            'chop the spring onions with a knife and fry',
            ['ARG1 spring onions', 'ARG1 knife'],
            [('chop', 'spring onions'), ('chop', 'knife'), ('fry', 'knife')],
        ),
        ('a man in a car', ['NOUN man', 'NOUN car'], []),
        ('running and jumping', [], []),
    ],
)
def test_verbs_are_linked_with_their_nouns(files, sentence, nouns, links):
    transform = PartOfSpeechGraph(files[0], method='rules', links=True)
    verbs, found = parsed(transform, text=sentence)
    assert [' '.join(noun) for noun in found] == nouns
    _, graph = transform.parse(dict(text=sentence))
    assert sorted((verbs[verb], found[noun][1]) for verb, noun in graph.links) == sorted(links)
    packed = transform.transform(dict(text=sentence))['text_extra']
    assert packed['edges'].sum() == len(verbs) + 2 * len(links)
    assert {(1 + verb, 5 + noun) for verb, noun in graph.links} <= set(edges(packed))


def test_most_real_captions_get_an_edge(shared, files):
    rows = csv.DictReader((shared / 'data/MSRVTT/MSRVTT_JSFUSION_test.csv').open(encoding='utf-8'))
    transform = PartOfSpeechGraph(files[0], method='rules', links=True)
    linked = [bool(transform.parse(dict(text=row['sentence']))[1].links) for row in rows]
    assert len(linked) == 1000 and 880 < sum(linked) < 1000


def test_a_run_of_nouns_is_one_phrase(files, monkeypatch):
    tags = [('cut', 'VERB'), ('soup', 'NOUN'), ('bowls', 'NOUN'), ('in', 'OTHER'), ('oil', 'NOUN')]
    monkeypatch.setattr('mmvtr.datasets.words.role_graphs.tag', lambda *_: tags)
    transform = PartOfSpeechGraph(files[0], method='rules')
    assert parsed(transform, text='-') == (['cut'], [('NOUN', 'soup bowls'), ('NOUN', 'oil')])


def test_spacy_is_asked_for_by_name(files, monkeypatch):
    """A stand-in with spaCy's interface, which calls the first word a verb and others nouns."""

    class Doc:
        def __init__(self, vocab, words):
            self.words = words

    def pipeline(doc):
        kinds = ['VERB', *['PROPN'] * len(doc.words)]
        return [SimpleNamespace(text=w, pos_=k) for w, k in zip(doc.words, kinds)]

    spacy, tokens = ModuleType('spacy'), ModuleType('spacy.tokens')
    pipeline.vocab, tokens.Doc = None, Doc
    spacy.load = lambda *args, **kwargs: pipeline
    monkeypatch.setitem(sys.modules, 'spacy', spacy)
    monkeypatch.setitem(sys.modules, 'spacy.tokens', tokens)
    part_of_speech._spacy_tagger.cache_clear()
    try:
        transform = PartOfSpeechGraph(files[0], method='spacy')
        found = parsed(transform, text='The man cuts')
    finally:
        part_of_speech._spacy_tagger.cache_clear()
    assert found == (['the'], [('NOUN', 'man cuts')])


def test_a_missing_spacy_is_no_silent_matter(files, monkeypatch):
    monkeypatch.setitem(sys.modules, 'spacy', None)
    part_of_speech._spacy_tagger.cache_clear()
    with pytest.raises(ImportError, match='pip install spacy'):
        PartOfSpeechGraph(files[0], method='spacy')
    with pytest.raises(ValueError, match='guess'):
        PartOfSpeechGraph(files[0], method='guess')


# -- ids of words ------------------------------------------------------------------------------


def test_ids(files):
    ids = read_word_ids(Path(files[0]))
    found = word_ids(['plate', 'Plate', 'a'], ids)
    assert found.dtype == np.int64 and found.tolist() == [10, 2, 3]


def test_ids_of_captions():
    ids = make_word_ids([['b', 'a', 'b'], ['c', 'a', 'b', 'd', 'd']], min_count=2)
    assert ids == {'<bos>': 0, '<eos>': 1, '<unk>': 2, 'b': 3, 'a': 4, 'd': 5}


@pytest.mark.parametrize(
    'content, problem',
    [
        ({'a': '3'}, "'a': expected an id, a number from 3, found '3'"),
        ({'a': -1}, "'a': expected an id, a number from 3, found -1"),
        ({'a': 2}, "'a': expected an id, a number from 3, found 2"),
        ([1], 'expected an object of keys and values, found .1'),
    ],
)
def test_no_such_ids(tmp_path, content, problem):
    path = tmp_path / 'word2int.json'
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=f'word2int.json.*{problem}'):
        read_word_ids(path)
