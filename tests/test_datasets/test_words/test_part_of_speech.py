"""Verbs and nouns by rules: sentences of each kind, and agreement with annotators at large."""

import ast
import csv
import json
import sys
import types

import pytest

from mmvtr.datasets.words import part_of_speech
from mmvtr.datasets.words import word_lists as lists
from mmvtr.datasets.words.part_of_speech import tag, words
from mmvtr.datasets.words.word_lists import lemma

V, N, REST = 'VERB', 'NOUN', 'OTHER'


def short(sentence: str) -> str:
    """'Cut it!' -> 'cut/V it'."""
    marks = {V: '/V', N: '/N', REST: ''}
    return ' '.join(word + marks[kind] for word, kind in tag(sentence))


@pytest.mark.parametrize(
    'tagged',
    [
        # Narrations and instructions.
        'take/V plate/N',
        'put/V down the knife/N',
        'dry/V hands/N',
        'still peeling/V potato/N',
        'continue/V wash/V bowl/N',
        'open/V the can/N',
        'wash/V can/N',
        'unfurl/V the apron/N',
        'zorble/V a plate/N',
        'rinse/V chopping/N board/N',
        'stir/V',
        'chop/V the spring/N onions/N and fry/V',
        'salt/N and pepper/N to taste/V',
        'add/V salt/N and pepper/N to the pan/N',
        'add/V the chopped onions/N',
        'finely chop/V an onion/N',
        'deep fry/V the samosas/N',
        'in a bowl/N mix/V flour/N and eggs/N',
        'once the oil/N is hot add/V the garlic/N',
        'let/V it cool/V',
        'use/V a knife/N to cut/V the bread/N',
        'cut/V a slice/N',
        # Captions.
        'a man/N is singing/V',
        'a man/N is playing/V the guitar/N',
        'the man/N walks/V and talks/V',
        'two girls/N play/V in a garden/N',
        'a woman/N in a black dress/N dances/V on the stage/N',
        'people/N watch/V a game/N',
        'a car/N is parked/V near the old house/N',
        'an animated cook/N prepares/V a dish/N',
        'you can see/V a dog/N',
        'crowd/N cheering/V at a stage/N',
        'a bowl/N filled/V with water/N',
        'leaves/N of a tree/N',
    ],
)
def test_sentences(tagged):
    sentence = tagged.replace('/V', '').replace('/N', '')
    assert short(sentence) == tagged


def test_words():
    assert words('Cut the sun-dried tomatoes, then STIR!') == [
        'cut', 'the', 'sun-dried', 'tomatoes', 'then', 'stir'
    ]  # fmt: skip
    assert tag('Cut it, stir!') == [('cut', V), ('it', REST), ('stir', V)]  # by the comma
    assert words('') == [] and tag('?!') == []


@pytest.mark.parametrize(
    'kind, pairs',
    [
        (V, 'slicing:slice chopped:chop fried:fry dances:dance tries:try goes:go made:make'),
        (V, 'carved:carve washing:wash tying:tie put:put unfurled:unfurl zubbed:zub'),
        (V, 'skids:skids'),  # who knows what it is
        (N, 'leaves:leaf dishes:dish olives:olive tomatoes:tomato berries:berry people:person'),
        (N, 'glass:glass glasses:glass hummus:hummus knives:knife kiwis:kiwi couscous:couscous'),
    ],
)
def test_lemma(kind, pairs):
    for form, expected in (pair.split(':') for pair in pairs.split()):
        assert lemma(form, kind) == expected


def test_word_lists_do_not_contradict_each_other():
    verbs = (lists.VERBS, lists.VERBS_AT_TIMES_NOUNS, lists.NOUNS_AT_TIMES_VERBS)
    assert sum(map(len, verbs)) == len(frozenset().union(*verbs))
    assert all(word == word.lower() for words in verbs for word in words)
    assert not lists.NOUNS & (lists.VERBS | lists.ADJECTIVES)


def narrations(path, nouns):
    with open(path) as file:
        return [
            (row['narration'], row['verb'].split('-')[0], ast.literal_eval(row[nouns]))
            for row in csv.DictReader(file)
        ]


def test_agreement_with_epic(shared):
    """On the test set, which no list was made from: verbs, and words of nouns."""
    rows = narrations(shared / 'data/EPIC100/EPIC_100_validation.csv', 'all_nouns')
    verbs = found = right = heads = kept = 0
    for sentence, verb, nouns in rows:
        tagged = tag(sentence)
        verbs += verb in [lemma(word, V) for word, kind in tagged if kind == V]
        ours = {lemma(word, N) for word, kind in tagged if kind == N}
        ours = {part for word in ours for part in word.split('-')}
        theirs = [[lemma(part, N) for part in noun.replace('-', ':').split(':')] for noun in nouns]
        found, right = found + len(ours), right + len(ours & {w for noun in theirs for w in noun})
        heads, kept = heads + len({n[0] for n in theirs}), kept + len({n[0] for n in theirs} & ours)
    assert verbs / len(rows) > 0.985
    assert right / found > 0.985 and kept / heads > 0.985


def test_instructions_of_youcook2(shared):
    """Nearly all begin with their verb, and all have one."""
    content = json.loads((shared / 'data/YouCook2/youcookii_annotations_trainval.json').read_text())
    tagged = [
        tag(segment['sentence'])
        for video in content['database'].values()
        if video['subset'] == 'validation'
        for segment in video['annotations']
    ]
    assert len(tagged) == 3492
    assert sum(sentence[0][1] == V for sentence in tagged) / 3492 > 0.96
    assert sum(V in dict(sentence).values() for sentence in tagged) / 3492 > 0.995


def test_unknown_method():
    with pytest.raises(ValueError, match="method must be one of .*'rules', 'spacy'.*, not 'nltk'"):
        tag('cut', 'nltk')


@pytest.fixture
def no_cache():
    part_of_speech._spacy_tagger.cache_clear()
    yield
    part_of_speech._spacy_tagger.cache_clear()


def test_no_spacy(monkeypatch, no_cache):
    """Nothing stands in for it."""
    monkeypatch.setitem(sys.modules, 'spacy', None)
    with pytest.raises(ImportError, match="'spacy' needs `pip install spacy`"):
        tag('cut it', 'spacy')


def test_no_spacy_model(monkeypatch, no_cache):
    def load(name, **_):
        raise OSError(f"Can't find model {name!r}")

    fake_spacy(monkeypatch, load)
    with pytest.raises(ImportError, match='spacy download en_core_web_sm'):
        tag('cut it', 'spacy')


def test_spacy_tags(monkeypatch, no_cache):
    """Its tags come to ours, for our words."""
    positions = dict(she='PRON', is_='AUX', cuts='VERB', bread='NOUN', london='PROPN')

    def load(name, disable):
        assert name == 'en_core_web_sm' and 'tagger' not in disable
        pipeline = lambda words: [  # noqa: E731
            types.SimpleNamespace(text=word, pos_=positions[word]) for word in words
        ]
        return Pipeline(pipeline)

    fake_spacy(monkeypatch, load)
    assert tag('She is_ cuts, Bread: London.', 'spacy') == [
        ('she', REST), ('is_', REST), ('cuts', V), ('bread', N), ('london', N)
    ]  # fmt: skip


class Pipeline:
    vocab = 'vocabulary'

    def __init__(self, call):
        self.call = call

    def __call__(self, doc):
        return self.call(doc)


def fake_spacy(monkeypatch, load):
    def doc(vocab, words):
        assert vocab == 'vocabulary'
        return words

    spacy, tokens = types.ModuleType('spacy'), types.ModuleType('spacy.tokens')
    spacy.load, tokens.Doc = load, doc
    monkeypatch.setitem(sys.modules, 'spacy', spacy)
    monkeypatch.setitem(sys.modules, 'spacy.tokens', tokens)
