"""Role graphs of sentences (HGR): which words are verbs and nouns, and who acts on what.

The transforms produce a graph together with its sentence's word ids.  Graphs come from HGR's files,
from annotated verbs and nouns (EPIC), or from parts of speech.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from pathlib import Path
from typing import Any, NamedTuple, Sequence

import numpy as np
import torch
from mmcv.transforms import BaseTransform
from torch import Tensor

from mmvtr.datasets.annotation_files import read_json
from mmvtr.datasets.annotation_values import Place, name_of, problem, shown
from mmvtr.datasets.words.part_of_speech import Method, clauses, tag, words
from mmvtr.datasets.words.word_ids import read_word_ids, word_ids
from mmvtr.datasets.words.word_lists import lemma
from mmvtr.errors import UnknownKey
from mmvtr.registry import TRANSFORMS

Results = dict[str, Any]

#: Roles in the order of HGR's embedding.  NOUN is a noun that no verb governs; a labeller's further
#: roles are also mapped to it.
ROLES = (
    *('V', 'ARG1', 'ARG0', 'ARG2', 'ARG3', 'ARG4', 'ARGM-LOC', 'ARGM-MNR', 'ARGM-TMP', 'ARGM-DIR'),
    *('ARGM-ADV', 'ARGM-PRP', 'ARGM-PRD', 'ARGM-COM', 'ARGM-MOD', 'NOUN'),
)


class RoleGraph(NamedTuple):
    """Phrases of a sentence and their edges; a phrase is a list of word positions.

    Attributes:
        verbs: positions of each verb.
        nouns: role and positions of each noun phrase.
        links: related (verb, noun) pairs, as indices into the two lists.
    """

    verbs: Sequence[Sequence[int]] = ()
    nouns: Sequence[tuple[str, Sequence[int]]] = ()
    links: Sequence[tuple[int, int]] = ()


def pack_graph(
    graph: RoleGraph, *, max_words: int = 30, max_verbs: int = 4, max_nouns: int = 6
) -> dict[str, Tensor]:
    """Return a graph as fixed-shape tensors that ``HGREncoder.encode_text`` reads.

    Phrases that begin after the last kept word are left out, then the first ones are kept, up to
    the maxima.  A verb receives from the sentence and from its nouns, a noun from its verbs; the
    sentence receives from none.

    Returns:
        ``verbs`` bool [N, L] and ``nouns`` bool [M, L], the words of each (an empty row: no such
        phrase); ``roles`` int64 [N + M], 0 for empty rows; ``edges`` bool [1 + N + M, 1 + N + M],
        row i marks the nodes from which node i receives: the sentence, the verbs, the nouns.
    """
    kept_verbs = _kept([min(verb) for verb in graph.verbs], max_words, max_verbs)
    kept_nouns = _kept([min(noun) for _, noun in graph.nouns], max_words, max_nouns)
    count = max_verbs + max_nouns
    members, roles = np.zeros((count, max_words), dtype=bool), np.zeros(count, dtype=np.int64)
    edges = np.zeros((1 + count, 1 + count), dtype=bool)
    for verb, place in kept_verbs.items():
        members[place, _within(graph.verbs[verb], max_words)] = True
        edges[1 + place, 0] = True
    for noun, place in kept_nouns.items():
        role, positions = graph.nouns[noun]
        members[max_verbs + place, _within(positions, max_words)] = True
        roles[max_verbs + place] = ROLES.index(role if role in ROLES else 'NOUN')
    for verb, noun in graph.links:
        if verb in kept_verbs and noun in kept_nouns:
            i, j = 1 + kept_verbs[verb], 1 + max_verbs + kept_nouns[noun]
            edges[i, j] = edges[j, i] = True
    packed = dict(verbs=members[:max_verbs], nouns=members[max_verbs:], roles=roles, edges=edges)
    return {name: torch.from_numpy(array) for name, array in packed.items()}


def _kept(starts: Sequence[int], max_words: int, limit: int) -> dict[int, int]:
    """Return the index of each phrase among those kept."""
    inside = [phrase for phrase, start in enumerate(starts) if start < max_words]
    return {phrase: place for place, phrase in enumerate(inside[:limit])}


def _within(positions: Sequence[int], max_words: int) -> list[int]:
    return [position for position in positions if position < max_words]


class GraphTransform(BaseTransform):
    """Base class of transforms from ``text`` to ``token_ids``, int64 [L], and a graph in
    ``text_extra``; subclasses implement :meth:`parse`.

    Args:
        vocab_file: ``word2int.json``, see :func:`~mmvtr.datasets.words.word_ids.read_word_ids`.
        max_words: maximum number of words; the first ones are kept.
        max_verbs, max_nouns: likewise for verbs and nouns.
    """

    def __init__(
        self, vocab_file: str, *, max_words: int = 30, max_verbs: int = 4, max_nouns: int = 6
    ) -> None:
        self.ids = read_word_ids(Path(vocab_file))
        self.limit = max_words
        self.limits = dict(max_words=max_words, max_verbs=max_verbs, max_nouns=max_nouns)

    @staticmethod
    def words_of(sentence: str) -> list[str]:
        """Return the words of a sentence that get ids."""
        return words(sentence)

    @abstractmethod
    def parse(self, record: Results) -> tuple[list[str], RoleGraph]:
        """Return the words of a text and its graph."""

    def check(self, texts: list[Results]) -> None:
        """Raise ValueError for the first text without a word."""
        for text in texts:
            if not self.words_of(text['text']):
                raise ValueError(f'text {text["text_id"]!r} has no word: {text["text"]!r}')

    def surplus(self, record: Results) -> int:
        """Return how many words of ``text`` are dropped."""
        return max(0, len(self.words_of(record['text'])) - self.limit)

    def transform(self, results: Results) -> Results:
        """Add ``token_ids`` and ``text_extra``, the result of :func:`pack_graph`."""
        tokens, graph = self.parse(results)
        results['token_ids'] = word_ids(tokens[: self.limit], self.ids)
        packed = pack_graph(graph, **self.limits)
        results['text_extra'] = {**results.get('text_extra', {}), **packed}
        return results


@TRANSFORMS.register_module()
class LoadRoleGraph(GraphTransform):
    """Load graphs of HGR's ``sent2rolegraph.augment.json``; words are split at spaces.

    The file maps a sentence to its nodes and edges:
    ``[{ID: {"role": "V", "spans": [2], "words": ["cuts"]}, ...}, [[ID, ID, ROLE], ...]]`` where
    ``spans`` are positions of words, ``words`` may be left out, and the role ``ROOT`` is the
    sentence.  An edge between two verbs, or two nouns, is ignored.

    Args:
        graph_file: the file.
        vocab_file, max_words, max_verbs, max_nouns: see :class:`GraphTransform`.

    Raises:
        FileNotFoundError: no such file.
        ValueError: not json, or (transforming) the graph of a sentence is malformed.
    """

    def __init__(self, graph_file: str, vocab_file: str, **limits: int) -> None:
        super().__init__(vocab_file, **limits)
        self.graph_file = graph_file
        self.graphs = read_json(Path(graph_file), keys=())

    @staticmethod
    def words_of(sentence: str) -> list[str]:
        """Return the words between spaces."""
        return sentence.split()

    def check(self, texts: list[Results]) -> None:
        """Raise KeyError unless every sentence has a graph; keep only theirs, to save memory."""
        sentences = dict.fromkeys(text['text'] for text in texts)
        missing = [sentence for sentence in sentences if sentence not in self.graphs]
        if missing:
            raise UnknownKey(
                f'{name_of(self.graph_file)} has no graph for {len(missing)} of {len(sentences)} '
                f'sentences, e.g. {shown(missing[:3])}'
            )
        self.graphs = {sentence: self.graphs[sentence] for sentence in sentences}

    def parse(self, record: Results) -> tuple[list[str], RoleGraph]:
        sentence = record['text']
        if sentence not in self.graphs:
            raise UnknownKey(f'{name_of(self.graph_file)} has no graph for {shown(sentence)}')
        tokens = self.words_of(sentence)
        try:
            return tokens, _read_graph(*self.graphs[sentence], length=len(tokens))
        except (TypeError, KeyError, ValueError, AttributeError, IndexError) as error:
            what = f'the graph is not [nodes, edges] of HGR: {type(error).__name__} {error}'
            raise problem(Place(self.graph_file).key(sentence), what) from error


def _read_graph(nodes: dict[str, dict[str, Any]], edges: list[list], *, length: int) -> RoleGraph:
    verbs: dict[str, list[int]] = {}
    nouns: dict[str, tuple[str, list[int]]] = {}
    for name, node in nodes.items():
        if node['role'] == 'ROOT':
            continue
        positions = _positions(node, length)
        if node['role'] == 'V':
            verbs[str(name)] = positions
        else:
            nouns[str(name)] = (node['role'], positions)
    verb_places, noun_places = ({name: i for i, name in enumerate(side)} for side in (verbs, nouns))
    pairs = [(str(edge[0]), str(edge[1])) for edge in edges]
    pairs += [(b, a) for a, b in pairs]
    links = [
        (verb_places[verb], noun_places[noun])
        for verb, noun in pairs
        if verb in verb_places and noun in noun_places
    ]
    return RoleGraph(list(verbs.values()), list(nouns.values()), links)


def _positions(node: dict[str, Any], length: int) -> list[int]:
    spans = node['spans']
    if not spans or any(type(i) is not int or not 0 <= i < length for i in spans):
        raise ValueError(f'spans {shown(spans)}, expected positions among {length} words')
    if len(node.get('words', spans)) != len(spans):
        what = f'spans {shown(spans)} of the words {shown(node["words"])}, expected one for each'
        raise ValueError(what)
    return spans


@TRANSFORMS.register_module()
class VerbNounGraph(GraphTransform):
    """Graph of one annotated verb and its nouns, record keys ``verb`` and ``nouns`` (EPIC).

    A name such as ``'put-down'`` or ``'bottle:water'`` is matched word by word, in any inflected
    form ('washing' is 'wash').  Annotators also normalised names: if a verb is not in the text
    ('close tap' is ``'turn-off'``) the first word is used, and such a noun is left out.  (This
    affects 1.3 % of the verbs and 1.1 % of the nouns of EPIC's test set.)  All nouns are linked to
    the verb, the first as its ``ARG1``, others as ``ARG2``: our choice, as the frame-length paper
    does not specify it.
    """

    def check(self, texts: list[Results]) -> None:
        """Raise KeyError for the first text without ``verb`` or ``nouns``."""
        super().check(texts)
        for text in texts:
            if 'verb' not in text or 'nouns' not in text:
                raise UnknownKey(
                    f'text {text["text_id"]!r} has no verb and nouns: its dataset annotates none; '
                    "PartOfSpeechGraph(method='rules') finds them in any text"
                )

    def parse(self, record: Results) -> tuple[list[str], RoleGraph]:
        tokens = self.words_of(record['text'])
        verb = _find(record['verb'], tokens) or [0]
        phrases = [positions for noun in record['nouns'] if (positions := _find(noun, tokens))]
        nouns = [('ARG2' if i else 'ARG1', positions) for i, positions in enumerate(phrases)]
        return tokens, RoleGraph([verb], nouns, [(0, i) for i in range(len(nouns))])


def _find(name: str, tokens: Sequence[str]) -> list[int]:
    """Return the first position of each word of a name, without absent words."""
    places = []
    for part in re.split('[-:]', name):
        forms = _forms(part)
        places += [i for i, token in enumerate(tokens) if forms & _forms(token)][:1]
    return sorted(set(places))


def _forms(word: str) -> set[str]:
    return {word, lemma(word, 'VERB'), lemma(word, 'NOUN')}


@TRANSFORMS.register_module()
class PartOfSpeechGraph(GraphTransform):
    """Graph with a node per verb (no auxiliaries) and per run of nouns.

    Without ``links`` all nouns have the role ``NOUN`` and no edges to verbs, as in HGR for
    sentences in which its semantic role labeller finds nothing.

    Args:
        method: ``'spacy'`` (with its model), or ``'rules'``: word lists and suffixes; see
            :func:`mmvtr.datasets.words.part_of_speech.tag`. There is no fallback for a missing
            spaCy.
        links: link each verb with its objects (role ``ARG1``) and the first verb with the nouns
            before it (``ARG0``), as returned by :func:`~.part_of_speech.clauses`; a noun that is
            both, because no noun follows the verb ("a man sings"), has ``ARG0``. Ours, instead of a
            labeller: 90 % of MSR-VTT's sentences then have an edge between a verb and a noun, and
            99.6 % of YouCook2's.
        vocab_file, max_words, max_verbs, max_nouns: see :class:`GraphTransform`.

    Raises:
        ValueError: another method.
        ImportError: spaCy or its model is not installed.
    """

    def __init__(
        self, vocab_file: str, *, method: Method, links: bool = False, **limits: int
    ) -> None:
        super().__init__(vocab_file, **limits)
        tag('', method)  # fails early if spaCy is missing
        self.method = method
        self.links = links

    def parse(self, record: Results) -> tuple[list[str], RoleGraph]:
        tagged = tag(record['text'], self.method)
        graph = clauses(tagged)
        roles, links = {}, []
        if self.links:
            links = list(dict.fromkeys([*graph.objects, *graph.subjects]))
            roles = {noun: 'ARG1' for _, noun in graph.objects}
            roles.update((noun, 'ARG0') for _, noun in graph.subjects)
        nouns = [(roles.get(noun, 'NOUN'), run) for noun, run in enumerate(graph.nouns)]
        verbs = [[position] for position in graph.verbs]
        return [word for word, _ in tagged], RoleGraph(verbs, nouns, links)
