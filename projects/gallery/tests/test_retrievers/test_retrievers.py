"""Retrievers of other libraries give the lists of the fitted object that they hold."""

import numpy as np
import pytest

import mmvtr

RANDOM = np.random.default_rng(0)
VIDEOS = (RANDOM.normal(size=(80, 6)) + 0.8).astype('f4')
SEEN = (RANDOM.normal(size=(60, 6)) + 0.8).astype('f4')
ASKED = (SEEN + 0.5 * RANDOM.normal(size=SEEN.shape)).astype('f4')
IDS = [f'clip{i}' for i in range(80)]
TEXT = 'a dog'
VECTOR = np.linspace(-1, 1, 6).tolist()


def fitted(ids=None):
    one = mmvtr.fit(VIDEOS, (ASKED, SEEN), 'sinkhorn', ids=ids).calibrate()
    found = one.search(np.array([VECTOR], 'f4'), 5)
    raw = mmvtr.fit(VIDEOS).search(np.array([VECTOR], 'f4'), 5)
    assert found.ids[0].tolist() != raw.ids[0].tolist()  # the biases are seen in the list
    return one, found


def embed(text):
    assert text == TEXT
    return VECTOR


@pytest.mark.parametrize('named', [False, True])
def test_langchain(named):
    pytest.importorskip('langchain_core', reason='needs mmvtr-gallery[langchain]')
    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings
    from langchain_core.runnables import RunnableLambda

    from mmvtr_gallery.retrievers.langchain import DebiasedRetriever

    class Fixed(Embeddings):
        def embed_query(self, text):
            return embed(text)

        def embed_documents(self, texts):
            raise AssertionError('the gallery is encoded already')

    one, expected = fitted(IDS if named else None)
    documents = [Document(page_content=x, metadata=dict(source=x)) for x in IDS]
    given = dict(zip(IDS, documents)) if named else documents
    retriever = DebiasedRetriever(fitted=one, embeddings=Fixed(), documents=given, k=5)
    chain = retriever | RunnableLambda(lambda found: found)
    for found in (retriever.invoke(TEXT), chain.invoke(TEXT), retriever.batch([TEXT])[0]):
        wanted = [x if named else IDS[x] for x in expected.ids[0]]
        assert [x.page_content for x in found] == wanted
        assert [x.metadata['source'] for x in found] == wanted
        np.testing.assert_allclose([x.metadata['debiased'] for x in found], expected.debiased[0])
        probabilities = [x.metadata['probability'] for x in found]
        np.testing.assert_allclose(probabilities, expected.probabilities[0])
    assert documents[0].metadata == dict(source='clip0')  # nothing is written into them
    with pytest.raises(ValueError, match='79 documents for 80 fitted items'):
        DebiasedRetriever(fitted=one, embeddings=Fixed(), documents=documents[:-1])
    with pytest.raises(TypeError, match='what mmvtr.fit returns, not ndarray'):
        DebiasedRetriever(fitted=VIDEOS, embeddings=Fixed(), documents=documents)


def test_a_store_of_langchain_lives():
    pytest.importorskip('langchain_core', reason='needs mmvtr-gallery[langchain]')
    from langchain_core.documents import Document
    from langchain_core.embeddings import DeterministicFakeEmbedding

    from mmvtr_gallery.retrievers.langchain import DebiasedStore

    model, bank = DeterministicFakeEmbedding(size=6), [f'query {i}' for i in range(60)]
    texts = [f'text {i}' for i in range(40)]
    store = DebiasedStore.from_texts(texts[:30], model, bank=bank, transform='nnn', ids=IDS[:30])
    other = [Document(page_content=x) for x in texts[30:]]
    other[0].id = IDS[3]  # replaces
    named = store.add_documents(other)
    assert named[0] == IDS[3] and len({*named}) == 10
    assert store.delete([IDS[0], 'nowhere']) and store.get_by_ids([IDS[0], IDS[3]]) == [
        Document(id=IDS[3], page_content=texts[30])
    ]
    contents = texts[1:3] + texts[4:30] + texts[30:]
    rows, seen = (np.array([model.embed_query(x) for x in some]) for some in (contents, bank))
    asked = np.array([model.embed_query('a dog')], 'f4')
    fresh = mmvtr.fit(rows, seen, 'nnn').search(asked, 38)
    wanted = [contents[i] for i in fresh.ids[0]]
    found = store.similarity_search_with_score('a dog', 38)
    assert [x.page_content for x, _ in found] == wanted
    assert [x.metadata['debiased'] for x, _ in found] == [score for _, score in found]
    assert wanted != [contents[i] for i in mmvtr.fit(rows).search(asked, 38).ids[0]]
    retriever = store.as_retriever(search_kwargs=dict(k=3))
    assert [x.page_content for x in retriever.invoke('a dog')] == wanted[:3]
    assert store.add_documents([]) == [] and store.delete([])
    with pytest.raises(ValueError, match='this removes all items'):
        store.delete()
    with pytest.raises(ValueError, match='1 ids for 2 documents'):
        store.add_documents(other[:2], ids=['x'])
    with pytest.raises(ValueError, match='names its items'):
        DebiasedStore(fitted()[0], model, dict(enumerate(IDS)))
    assert len(store.fitted) == 38 and len(store.similarity_search('a dog')) == 4


def changed(one, documents, new):
    """Add, update and remove items and their documents; the list of a fresh fit of what is left."""
    documents['new'] = new
    one.add(np.array([VECTOR], 'f4'), ids=['new'])
    one.update(VIDEOS[1:2], ids=[IDS[2]])
    first = one.search(np.array([VECTOR], 'f4'), 2).ids[0, 1]
    one.remove([first])
    del documents[first]
    rows = {**dict(zip(IDS, VIDEOS)), 'new': VECTOR, IDS[2]: VIDEOS[1]}
    left = [x for x in rows if x != first]
    fresh = mmvtr.fit(np.array([rows[x] for x in left], 'f4'), (ASKED, SEEN), 'nnn', ids=left)
    return fresh.search(np.array([VECTOR], 'f4'), 5)


@pytest.mark.parametrize('named', [False, True])
def test_llama_index(named):
    pytest.importorskip('llama_index.core', reason='needs mmvtr-gallery[llama-index]')
    from llama_index.core.embeddings import BaseEmbedding
    from llama_index.core.schema import QueryBundle, TextNode

    from mmvtr_gallery.retrievers.llama_index import DebiasedRetriever

    class Fixed(BaseEmbedding):
        def _get_query_embedding(self, query):
            return embed(query)

        async def _aget_query_embedding(self, query):
            return embed(query)

        _get_text_embedding = _get_query_embedding

    one, expected = fitted(IDS if named else None)
    nodes = [TextNode(text=x, id_=x) for x in IDS]
    given = dict(zip(IDS, nodes)) if named else nodes
    retriever = DebiasedRetriever(one, Fixed(), given, similarity_top_k=5)
    for query in (TEXT, QueryBundle('other words', embedding=VECTOR)):
        found = retriever.retrieve(query)
        assert [x.node.id_ for x in found] == [x if named else IDS[x] for x in expected.ids[0]]
        np.testing.assert_allclose([x.score for x in found], expected.debiased[0])
    with pytest.raises(ValueError, match='79 documents for 80 fitted items'):
        DebiasedRetriever(one, Fixed(), nodes[:-1])
    if named:
        one = mmvtr.fit(VIDEOS, (ASKED, SEEN), 'nnn', ids=IDS)
        retriever = DebiasedRetriever(one, Fixed(), given, similarity_top_k=5)
        retriever.retrieve(TEXT)
        expected = changed(one, given, TextNode(text='new', id_='new'))
        found = retriever.retrieve(TEXT)
        assert [x.node.id_ for x in found] == expected.ids[0].tolist()
        assert np.ptp([x.score for x in found] - expected.debiased[0]) < 1e-5  # another mean


@pytest.mark.parametrize('named', [False, True])
def test_haystack(named):
    pytest.importorskip('haystack', reason='needs mmvtr-gallery[haystack]')
    from haystack import Document, Pipeline, component

    from mmvtr_gallery.retrievers.haystack import DebiasedRetriever

    @component
    class Embedder:
        @component.output_types(embedding=list[float])
        def run(self, text: str):
            return dict(embedding=embed(text))

    one, expected = fitted(IDS if named else None)
    documents = [Document(content=x, id=x) for x in IDS]
    given = dict(zip(IDS, documents)) if named else documents
    pipeline = Pipeline()
    pipeline.add_component('embedder', Embedder())
    pipeline.add_component('retriever', DebiasedRetriever(one, given, top_k=5))
    pipeline.connect('embedder.embedding', 'retriever.query_embedding')
    found = pipeline.run(dict(embedder=dict(text=TEXT)))['retriever']['documents']
    assert [x.id for x in found] == [x if named else IDS[x] for x in expected.ids[0]]
    np.testing.assert_allclose([x.score for x in found], expected.debiased[0])
    assert documents[0].score is None
    with pytest.raises(ValueError, match='79 documents for 80 fitted items'):
        DebiasedRetriever(one, documents[:-1])
    if named:
        one = mmvtr.fit(VIDEOS, (ASKED, SEEN), 'nnn', ids=IDS)
        retriever = DebiasedRetriever(one, given, top_k=5)
        retriever.run(VECTOR)
        expected = changed(one, given, Document(content='new', id='new'))
        found = retriever.run(VECTOR)['documents']
        assert [x.id for x in found] == expected.ids[0].tolist()
        assert np.ptp([x.score for x in found] - expected.debiased[0]) < 1e-5  # another mean


def test_what_is_added_and_removed_is_found_and_gone():
    """The documents are read at each query: a new one is there before its item is."""
    from mmvtr_gallery.retrievers.hits import hits

    one, _ = fitted(IDS)
    documents = dict(zip(IDS, IDS))
    first = hits(one, VECTOR, documents, 1)[0].document
    documents['new'] = 'new'
    one.add(np.array([VECTOR], 'f4'), ids=['new'])
    assert 'new' in [x.document for x in hits(one, VECTOR, documents, 81)]
    one.remove([first])
    del documents[first]
    found = hits(one, VECTOR, documents, 80)
    assert len(found) == 80 and first not in [x.document for x in found]
    expected = one.search(np.array([VECTOR], 'f4'), 80)
    assert [x.document for x in found] == expected.ids[0].tolist()
    assert [x.facts['probability'] for x in found] == pytest.approx(expected.probabilities[0])
