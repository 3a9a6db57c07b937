"""A store of somebody's own vectors, served: by vector, by texts of a named model, or refused."""

from __future__ import annotations

import json
import threading

import embedding_stub
import numpy as np
import pytest
import torch

from services import served

for module in ('uvicorn', 'fastapi', 'faiss'):
    pytest.importorskip(module, reason=f'{module} is of extras of projects/gallery: serve, index')

from mmvtr.arrays import Debiaser  # noqa: E402
from mmvtr_gallery.commands import search as search_command  # noqa: E402
from mmvtr_gallery.serving.gallery import Gallery, try_to_take  # noqa: E402
from mmvtr_gallery.store import create_store, open_store  # noqa: E402
from mmvtr_gallery.text_models import load_text_model  # noqa: E402

DIM, COUNT = embedding_stub.DIM, 7
RANDOM = np.random.default_rng(0)
ITEMS = RANDOM.normal(size=(COUNT, DIM)).astype('float32') + 0.5
BANK = RANDOM.normal(size=(40, DIM)).astype('float32') + 0.5
ASKED = 3 * RANDOM.normal(size=(5, DIM)).astype('float32')


def made(place, geometry='cosine', **options):
    """A store of vectors that no model of this library made."""
    with create_store(place, DIM, geometry=geometry, **options) as store:
        kinds = ['even' if i % 2 == 0 else 'odd' for i in range(COUNT)]
        store.add([f'item{i}' for i in range(COUNT)], ITEMS, metadata=dict(kind=kinds))
        store.refit(BANK, transform='sinkhorn', temperature=0.1)
        store.persist()
    return place


def expected(biases, geometry, queries, transform):
    """Scores in float64, without the library."""
    items, asked = ITEMS.astype(float), np.asarray(queries, float)
    if geometry == 'cosine':
        items, asked = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (items, asked))
    return asked @ items.T + transform * biases


@pytest.fixture(params=['cosine', 'inner_product'])
def own(request, tmp_path):
    place = made(tmp_path / 'store', request.param)
    gallery = Gallery.open(place)
    assert try_to_take(gallery) is None
    with served(gallery) as client:
        yield client, place, request.param


@pytest.mark.parametrize('transform', [True, False])
def test_vectors_are_ranked_as_by_hand(own, transform):
    """One, and several at once; the geometry decides whether a query's length counts."""
    client, place, geometry = own
    with open_store(place) as store:
        biases = np.array([item.bias for item in store.get([f'item{i}' for i in range(COUNT)])])
    scores = expected(biases, geometry, ASKED, transform)
    options = dict(k=COUNT, transform=transform, compare=True)
    status, _, found = client('POST', '/search/vectors', dict(vectors=ASKED.tolist(), **options))
    assert status == 200 and len(found) == len(ASKED)
    for vector, row, answer in zip(ASKED.tolist(), scores, found):
        order = np.argsort(-row)
        assert [hit['id'] for hit in answer['hits']] == [f'item{i}' for i in order]
        np.testing.assert_allclose([hit['score'] for hit in answer['hits']], row[order], atol=1e-4)
        assert answer['scaled'] == (geometry == 'cosine')
        assert dict(answer, ms=0) == dict(client.search(vector=vector, **options), ms=0)
    few = client.search(vector=ASKED[0].tolist(), k=1000, filter=dict(kind='odd'))
    assert [hit['metadata']['kind'] for hit in few['hits']] == ['odd'] * 3
    assert len(client.search(vector=ASKED[0].tolist(), k=1000)['hits']) == COUNT


def test_a_text_or_a_video_says_what_is_missing(own, write_video, tmp_path):
    client, _, _ = own
    health = client('GET', '/health')[2]
    assert (health['encodes'], health['model'], health['items']) == ([], None, COUNT)
    for path, body in (('/search', dict(text='a dog')), ('/search/texts', dict(texts=['a dog']))):
        status, said = client.error('POST', path, body)
        assert status == 422 and '--text-model' in said and 'vector' in said
    status, _, said = client.change('/refit', texts=['a dog'] * 2, fewer=True)
    assert status == 422 and '--text-model' in said['error']
    write_video(tmp_path / 'a.mp4', [10, 20])
    status, said = client.error('POST', '/search/video', (tmp_path / 'a.mp4').read_bytes())
    assert status == 422 and 'no video can be encoded' in said
    assert client.search(like='item3', k=1)['hits'][0]['id'] == 'item3'


@pytest.mark.parametrize(
    'body, words',
    [
        (dict(vectors=[]), 'at least 1'),
        (dict(vectors=[[1.0] * DIM] * 65), 'at most 64'),
        (dict(vectors=[[1.0] * DIM, [1.0]]), 'vector 1 has 1 entries, and vector 0 has 16'),
        (dict(vectors=[[1.0], [2.0]]), f'[N, {DIM}]'),
        (dict(vectors=[1.0]), 'must be a list'),
        (dict(vectors=[['x'] * DIM]), 'number'),
        (dict(vectors=[[1e400] * DIM]), 'finite'),
    ],
)
def test_what_is_no_batch_of_vectors(own, body, words):
    client, _, _ = own
    status, said = client.error('POST', '/search/vectors', body)
    assert status == 422 and words in said, said


def test_changes_by_vectors_alone(own):
    client, place, geometry = own
    new = 2 * RANDOM.normal(size=DIM)
    assert client.change('/add', items=[dict(id='new', vector=new.tolist())])[2]['items'] == 8
    options = dict(transform='sinkhorn', temperature=0.2)
    status, _, said = client.change('/refit', vectors=(2 * BANK).tolist(), **options)
    assert status == 200 and said['num_queries'] == len(BANK), said
    with open_store(place) as store:
        served_biases = [item.bias for item in store.get(['new', 'item0'])]
    fitted = Debiaser(geometry=geometry, **options).fit(np.vstack([ITEMS, new]), 2 * BANK)
    alone = fitted.biases_.numpy()[[-1, 0]]
    np.testing.assert_allclose(served_biases, alone, atol=1e-5)
    assert client.change('/delete', ids=['new'])[2] == dict(items=COUNT)
    for wrong, words in (
        (dict(vectors=BANK.tolist(), texts=['x']), 'texts or vectors'),
        (dict(vectors=[[1.0] * DIM, [1.0]]), 'vector 1 has 1 entries'),
        (dict(vectors=[[1.0] * (DIM + 1)] * 9), f'[N, {DIM}]'),
    ):
        status, _, said = client.change('/refit', **wrong)
        assert status == 422 and words in said['error'], said


def test_texts_of_a_model_on_a_server(tmp_path, monkeypatch):
    place = made(tmp_path / 'store')
    with embedding_stub.running() as stub:
        monkeypatch.setenv('MMVTR_EMBEDDINGS_URL', stub.url)
        gallery = Gallery.open(place, text_model='server:some/model')
        assert try_to_take(gallery) is None
        with served(gallery) as client:
            assert client('GET', '/health')[2]['encodes'] == ['text']
            texts = ['a dog', 'a cat', 'a star']
            found = client('POST', '/search/texts', dict(texts=texts, k=3))[2]
            for text, answer in zip(texts, found):
                by_vector = client.search(vector=embedding_stub.of_text(text).tolist(), k=3)
                ids = [[hit['id'] for hit in one['hits']] for one in (answer, by_vector)]
                assert ids[0] == ids[1]
            bank = [f'text {i}' for i in range(9)]
            assert client.change('/refit', texts=bank)[2]['num_queries'] == 9
            assert {body['model'] for body in stub.bodies} == {'some/model'}
            stub.faults += [400]
            assert client.error('POST', '/search', dict(text='new', k=1))[0] == 500
        (tmp_path / 'wide').mkdir()
        with create_store(tmp_path / 'wide', DIM + 1) as store:
            store.add(['a'], np.ones((1, DIM + 1), np.float32))
            store.persist()
        with pytest.raises(
            ValueError, match=f'vectors of {DIM} entries, the gallery has {DIM + 1}'
        ):
            Gallery.open(tmp_path / 'wide', text_model='server:some/model')


def test_search_takes_texts_of_a_model_on_a_server(tmp_path, monkeypatch, capsys):
    place = made(tmp_path / 'store')

    def search(*words):
        monkeypatch.setattr('sys.argv', ['search', str(place), *words])
        search_command.run(search_command.parse_args())
        return capsys.readouterr().out

    with embedding_stub.running() as stub:
        monkeypatch.setenv('MMVTR_EMBEDDINGS_URL', stub.url)
        model = ('--text-model', 'server:some/model')
        with open_store(place) as store:
            found = store.search(embedding_stub.of_text('a dog')[None], 3)[0]
        printed = search('a dog', '--k', '3', *model)
        assert [x.split()[1] for x in printed.splitlines()[1:4]] == [x.item.id for x in found]
        bank = tmp_path / 'bank.txt'
        bank.write_text('\n'.join(f'text {i}' for i in range(9)))
        assert 'refitted' in search('--refit', str(bank), *model)
        with pytest.raises(SystemExit):
            search('--add', __file__, *model)
        assert 'encodes no videos' in capsys.readouterr().err


def test_a_gallery_with_a_model_of_its_own_takes_no_other(place):
    with pytest.raises(ValueError, match='has a model of its own'):
        Gallery.open(place, text_model='server:x')


@pytest.mark.parametrize(
    'name, words',
    [
        ('all-MiniLM-L6-v2', 'is no text model: sentence-transformers:NAME'),
        ('sentence-transformers:', 'is no text model'),
        ('open_clip:ViT-B-32', 'names no weights: open_clip:NAME@TAG'),
        ('open_clip:no-such-model@openai', 'no-such-model'),
    ],
)
def test_what_is_no_text_model(name, words):
    with pytest.raises(ValueError, match=words):
        load_text_model(name)


def test_texts_of_sentence_transformers(tmp_path):
    """The library's own call for queries, with their prompt."""
    library = pytest.importorskip('sentence_transformers', reason='needs sentence-transformers')
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = Tokenizer(models.WordLevel({'[UNK]': 0, 'a': 1, 'dog': 2}, unk_token='[UNK]'))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    static = StaticEmbedding(words, embedding_dim=DIM)
    model = library.SentenceTransformer(
        modules=[static], device='cpu', prompts=dict(query='dog ', document='')
    )
    model.save(str(tmp_path / 'st'))
    texts = ['a dog', 'a', 'b a']
    found = load_text_model(f'sentence-transformers:{tmp_path / "st"}')(texts)
    np.testing.assert_allclose(found, model.encode_query(texts), atol=1e-6)
    assert np.abs(found - model.encode(texts)).max() > 0.01  # the prompt of queries was read


@pytest.mark.parametrize('model', ['ViT-B-32', 'coca_ViT-B-32'])
def test_texts_of_open_clip(tmp_path, model):
    """A causal tower, and one that reads its padding."""
    open_clip = pytest.importorskip('open_clip', reason='needs open_clip')
    small = dict(width=32, heads=2, layers=1)
    whole = open_clip.get_model_config(model)
    whole.update(embed_dim=DIM, vision_cfg=dict(image_size=32, patch_size=16, head_width=16))
    whole['vision_cfg'].update(width=32, layers=1)
    for part in {'text_cfg', 'multimodal_cfg'} & whole.keys():
        whole[part].update(small)
    config = dict(model_cfg=whole, preprocess_cfg=dict(mean=[0.5] * 3, std=[0.5] * 3))
    (tmp_path / 'open_clip_config.json').write_text(json.dumps(config))
    torch.manual_seed(0)
    made = open_clip.create_model(f'local-dir:{tmp_path}', load_weights=False).eval()
    for weight in made.parameters():  # open_clip leaves CoCa's text_projection as memory has it
        if weight.dim() > 1:
            torch.nn.init.normal_(weight, std=0.1)
    torch.save(made.state_dict(), tmp_path / 'open_clip_pytorch_model.bin')
    texts = ['a dog runs', 'a', 'two men talk about a long story']
    with torch.no_grad():
        given = made.encode_text(open_clip.get_tokenizer(f'local-dir:{tmp_path}')(texts))
    given = torch.nn.functional.normalize(given, dim=1).numpy()
    found = load_text_model(f'open_clip:local-dir:{tmp_path}')(texts)
    np.testing.assert_allclose(found, given, atol=1e-5)


def test_probabilities_of_places_while_items_are_added(tmp_path):
    """P(match) is of the list that was found, whatever is added in the meantime."""
    place = made(tmp_path / 'store')
    pairs = RANDOM.normal(size=(60, DIM)).astype('float32')
    with open_store(place, write=True) as store:
        near = pairs + 0.3 * RANDOM.normal(size=pairs.shape).astype('float32')
        options = dict(
            items=near, paired=True, probabilities=True, transform='sinkhorn', fewer=True
        )
        store.refit(pairs, temperature=0.1, **options)
        store.persist()
    gallery = Gallery.open(place)
    assert try_to_take(gallery) is None
    done, wrong = threading.Event(), []
    with served(gallery) as client:

        def ask():
            while not done.is_set():
                status, _, said = client('POST', '/search', dict(vector=ASKED[0].tolist(), k=7))
                if status != 200 or said['hits'][0]['p_match'] is None:
                    wrong.append(said)

        asking = [threading.Thread(target=ask) for _ in range(3)]
        for thread in asking:
            thread.start()
        for row in range(12):  # each is the new first hit
            vector = ASKED[0] + 0.02 * (12 - row) * RANDOM.normal(size=DIM)
            added = dict(id=f'n{row}', vector=vector.tolist())
            assert client.change('/add', items=[added])[0] == 200
        done.set()
        for thread in asking:
            thread.join()
    assert not wrong, wrong[0]
