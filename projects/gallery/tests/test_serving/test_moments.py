"""Items with their best windows over HTTP: found, filtered, added, taken back, ranked."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from gallery_service import Gallery, served, taken
from mmvtr import apis
from mmvtr_gallery.extraction.windows import encoder_of_parts, windows_of
from mmvtr_gallery.store import create_store, open_store
from mmvtr_gallery.store.moments import MomentStore, Windowing, Windows
from services import TOKEN

NAMES = 'abcdef'
CUT = Windowing(0.2, 0.1)


@pytest.fixture(scope='module')
def films(folder, tmp_path_factory, write_video):
    """A library of clips of a second that change, the model, and how it encodes."""
    library = tmp_path_factory.mktemp('films')
    for number, name in enumerate((*NAMES, 'new', 'other')):
        greys = [(37 * number + 53 * frame) % 200 + 30 for frame in range(5)]
        write_video(library / f'{name}.mp4', [grey for grey in greys for _ in range(2)])
    (library / 'broken.mp4').write_bytes(b'no video')
    model, cfg = apis.load_retriever(str(folder / 'config.py'), str(folder / 'config.pth'))
    return library, model, cfg


def made(films, folder, place, windowing=CUT):
    """A gallery of six clips, one of which ('f') has no windows."""
    library, model, cfg = films
    paths = [str(library / f'{name}.mp4') for name in NAMES]
    about = dict(checkpoint=str(folder / 'config.pth'))
    texts = [f'{"abc"[i % 3] * (i % 7 + 1)} {i}' for i in range(40)]
    bank = apis.vectors(model, apis.encode_texts(model, cfg, texts).levels)
    options = dict(model=apis.fingerprint(model), about=about)
    with create_store(place, 2, **options) as store:
        vectors = apis.vectors(model, apis.encode_videos(model, cfg, paths).levels)
        odd = [name in 'bdf' for name in NAMES]
        store.add(list(NAMES), vectors, paths=paths, metadata=dict(odd=odd))
        store.refit(bank, temperature=0.1)
        store.persist()
        encode = encoder_of_parts(model, cfg)
        with MomentStore.create(store, place, windowing) as moments:
            for name, path in zip(NAMES[:-1], paths):
                moments.put({name: windows_of(path, None, None, CUT, encode)})
            moments.windows.refit(bank, temperature=0.1, fewer=True)
            moments.windows.persist()
    cfg.dump(place / 'config.json')
    return place


@pytest.fixture
def place(films, folder, tmp_path):
    pytest.importorskip(
        'faiss', reason='a store in memory is an extra: pip install projects/gallery[index]'
    )
    return made(films, folder, tmp_path / 'store')


@pytest.fixture
def client(films, place):
    with taken(place, library=films[0]) as client:
        yield client


def rows(place):
    """All windows: (item, start, end), vectors and biases, as the second store has them."""
    with open_store(place / 'moments') as windows:
        items = windows.get(sorted(windows.table(['id'])[1]['id']))
        names = [(x.metadata['of_item'], x.start, x.end) for x in items]
        return names, np.stack([x.vector for x in items]), np.array([x.bias for x in items])


def best_of(place, vector, transform):
    """Item -> score and span of its best window, by hand."""
    names, vectors, biases = rows(place)
    scores = vectors @ np.asarray(vector, np.float32) + biases * transform
    best = {}
    for (name, *span), score in zip(names, scores):
        if name not in best or score > best[name][0]:
            best[name] = float(score), *span
    return best


@pytest.mark.parametrize('transform', [True, False])
def test_each_hit_has_its_best_window(client, place, films, transform):
    library, model, cfg = films
    text = apis.vectors(model, apis.encode_texts(model, cfg, ['hello']).levels)[0].numpy()
    store = open_store(place)
    own = store.get(['c'])[0].vector
    plain = [hit.item.id for hit in store.search(text[None], 6, transform=transform)[0]]
    for asked, vector in (
        (dict(text='hello'), text),
        (dict(vector=text.tolist()), text),
        (dict(like='c'), own),
    ):
        said = client.search(**asked, k=6, transform=transform)
        if 'like' not in asked:
            assert [hit['id'] for hit in said['hits']] == plain, 'windows do not rank the items'
        expected = best_of(place, vector, transform)
        for hit in said['hits']:
            if hit['id'] == 'f':
                assert hit['moment'] is None
                continue
            score, start, end = expected[hit['id']]
            moment = hit['moment']
            assert moment['score'] == pytest.approx(score, abs=1e-5)
            assert moment['score'] == pytest.approx(
                moment['raw'] + transform * moment['bias'], abs=1e-6
            )
            spans = [x[1:] for x in rows(place)[0] if x[0] == hit['id']]
            assert (moment['start'], moment['end']) in spans
            assert moment['item_start'] == min(x for x, _ in spans)
            assert moment['item_end'] == pytest.approx(1.0) == max(x for _, x in spans)
    query = (library / 'd.mp4').read_bytes()
    found = client('POST', '/search/video?k=6', query)[2]['hits']
    assert [hit['id'] for hit in found if hit['moment'] is None] == ['f']


def test_items_ranked_by_their_best_windows(client, place, films):
    _, model, cfg = films
    text = apis.vectors(model, apis.encode_texts(model, cfg, ['hello']).levels)[0].numpy()
    for transform in (True, False):
        said = client.search(
            text='hello', k=6, transform=transform, rank_by='moments', compare=True
        )
        best = best_of(place, text, transform)
        order = sorted(best, key=lambda name: -best[name][0])
        other = best_of(place, text, not transform)
        others = sorted(other, key=lambda name: -other[name][0])
        assert [hit['id'] for hit in said['hits']] == order and len(order) == 5
        for hit in said['hits']:
            assert hit['score'] == hit['moment']['score'] == pytest.approx(best[hit['id']][0])
            assert (hit['raw'], hit['bias']) == (hit['moment']['raw'], hit['moment']['bias'])
            assert hit['moved'] == others.index(hit['id']) + 1 and hit['p_match'] is None
    body = (films[0] / 'd.mp4').read_bytes()
    found = client('POST', '/search/video?k=6&rank_by=moments', body)[2]['hits']
    assert len(found) == 5 and found[0]['score'] == found[0]['moment']['score']
    status, said = client.error(
        'POST', '/search', dict(text='hello', k=3, rank_by='moments', min_precision=0.5)
    )
    assert status == 422 and 'for items, not for moments' in said


def test_filters_and_quarantine(client):
    for rank_by in ('items', 'moments'):
        asked = dict(text='hello', k=6, rank_by=rank_by)
        found = client.search(**asked, filter=dict(odd=True))['hits']
        assert {hit['id'] for hit in found} - {'f'} == {'b', 'd'}
        (held, *_) = (hit['id'] for hit in client.search(**asked)['hits'] if hit['id'] != 'f')
        client.change('/quarantine', ids=[held])
        found = client.search(**asked)['hits']
        assert held not in {hit['id'] for hit in found} and len(found) >= 4
        client.change('/quarantine', ids=[held], release=True)
        assert held in {hit['id'] for hit in client.search(**asked)['hits']}


def test_health_says_whether_there_are_windows(client, place):
    said = client('GET', '/health')[2]['windows']
    count = len(rows(place)[0])
    assert said == dict(count=count, transform='sinkhorn', length=0.2, step=0.1, alike=True)


def test_a_gallery_without_windows(films, folder, tmp_path):
    pytest.importorskip('faiss')
    place = made(films, folder, tmp_path / 'store')
    with served(Gallery.open(place, library=films[0])) as client:
        assert client('GET', '/health')[2]['windows'] is not None
        shutil.rmtree(place / 'moments')  # as an export does that makes none
        assert client('GET', '/health')[2]['windows'] is None
        assert {hit['moment'] for hit in client.search(text='hello', k=6)['hits']} == {None}
        status, said = client.error('POST', '/search', dict(text='hello', k=3, rank_by='moments'))
        assert (status, said) == (
            422,
            'the gallery has no windows that items could be ranked by',
        )


def moment_of(client, name):
    hits = client.search(text='hello', k=client('GET', '/health')[2]['items'])['hits']
    return next((hit['moment'] for hit in hits if hit['id'] == name), 'not found')


def test_added_with_windows_and_taken_back(films, folder, tmp_path):
    pytest.importorskip('faiss')
    library, model, cfg = films
    place = made(films, folder, tmp_path / 'store')
    with taken(place, library=library) as client:
        before = len(rows(place)[0])
        new = dict(id='new', file='new.mp4', start=0.1, end=0.7)
        added = client.change('/add', items=[new, dict(id='plain', vector=[1.0, 0.0])])[2]
        expected = windows_of(library / 'new.mp4', 0.1, 0.7, CUT, encoder_of_parts(model, cfg))
        assert added == dict(
            items=8,
            windows=len(expected.starts),
            note="'plain' without windows, which need a file",
        )
        names, vectors, biases = rows(place)
        mine = [row for row, (name, *_) in enumerate(names) if name == 'new']
        assert [names[row][1:] for row in mine] == list(zip(expected.starts, expected.ends))
        np.testing.assert_allclose(vectors[mine], expected.vectors, atol=1e-6)
        with open_store(place / 'moments') as windows:
            given = windows.debiaser.biases_of(vectors[mine])
        np.testing.assert_allclose(biases[mine], given, atol=1e-6)
        moment = moment_of(client, 'new')
        assert moment['item_start'] == pytest.approx(0.1) and moment_of(client, 'plain') is None
        client.change('/undo')
        assert moment_of(client, 'new') == 'not found'
        by_moments = client.search(text='hello', k=6, rank_by='moments')['hits']
        assert 'new' not in {hit['id'] for hit in by_moments}
        client.change('/undo')  # there again, with its windows
        assert moment_of(client, 'new') == moment
        client.change('/delete', ids=['new'])
        assert moment_of(client, 'new') == 'not found'
        client.change('/undo')
        assert moment_of(client, 'new') == moment
        client.change('/delete', ids=['new'])
        client.change('/delete', ids=['plain'])
        assert len(rows(place)[0]) == before, 'windows that nothing can bring back are gone'
        # Of a file that is sent, and one that is broken.
        video = (library / 'other.mp4').read_bytes()
        status, _, said = client(
            'POST', '/add/video?file=sent.mp4', video, Authorization=f'Bearer {TOKEN}'
        )
        assert status == 200 and said['items'] == 7 and said['windows'] == 9 and not said['note']
        assert moment_of(client, 'sent.mp4')['item_end'] == pytest.approx(1.0)
        client.change('/delete', ids=['sent.mp4'])
        (library / 'sent.mp4').unlink()
        status, _, said = client.change('/add', items=[dict(id='x', file='broken.mp4')])
        assert status == 422 and "'broken.mp4' cannot be read as a video" in said['error']
        status, _, said = client.change('/add', items=[dict(id='a', file='new.mp4')])
        assert status == 409
        assert moment_of(client, 'a')['item_end'] == pytest.approx(1.0)


def test_refits_are_of_windows_too(client, place):
    before = rows(place)[2]
    texts = [f'{"xyz"[i % 3] * (i % 5 + 1)} {i}' for i in range(20)]
    status, _, said = client.change('/refit', texts=texts)
    assert status == 200 and said['num_queries'] == 20
    after = rows(place)[2]
    assert np.abs(after - before).max() > 1e-4
    with open_store(place) as items, open_store(place / 'moments') as windows:
        np.testing.assert_array_equal(items.debiaser.bank_.texts, windows.debiaser.bank_.texts)
    client.change('/undo')
    np.testing.assert_allclose(rows(place)[2], before, atol=1e-6)
    client.change('/undo')
    np.testing.assert_allclose(rows(place)[2], after, atol=1e-6)


def test_windows_of_which_nobody_has_noted_the_length(films, folder, tmp_path):
    pytest.importorskip('faiss')
    place = made(films, folder, tmp_path / 'store', windowing=None)
    gallery = Gallery.open(place, library=films[0])
    with served(gallery) as client:
        said = client.change('/add', items=[dict(id='new', file='new.mp4')])[2]
        assert said['windows'] == 0 and 'does not say how its windows were cut' in said['note']
        assert moment_of(client, 'new') is None and moment_of(client, 'a') is not None


def test_windows_of_an_earlier_entry_of_the_same_age_as_another(films, folder, tmp_path):
    """Of two items one was replaced when the other came; its old windows are still there."""
    pytest.importorskip('faiss')
    with create_store(tmp_path, 2, model='m') as store:
        with MomentStore.create(store, tmp_path) as moments:
            x, y = np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]])
            old, new = Windows([0.0], [1.0], x), Windows([2.0], [3.0], y)
            moments.add(['a'], x, windows=dict(a=old))
            moments.add(['b'], x, windows=dict(b=old))
            first = store.get(['a'])[0].added
            store.add(['c'], x, added=first)
            moments.add(['a'], x, windows=dict(a=new), removing=['a'])
            items = store.get(['a', 'b', 'c'])
            found = moments.best(x, items)
            assert [hit and hit.start for hit in found] == [2.0, 0.0, None]
            spans = [hit and (hit.item_start, hit.item_end) for hit in found]
            assert spans == [(2.0, 3.0), (0.0, 1.0), None]


def test_a_part_behind_the_end_of_its_file(films):
    with pytest.raises(ValueError, match=r'new\.mp4: no windows of 0.2 s, .* from 5.0 to 1.0 s'):
        windows_of(films[0] / 'new.mp4', 5.0, None, CUT, None)


@pytest.mark.parametrize('said', [3, {}, dict(length=0, step=1), dict(length='4', step=2)])
def test_a_windowing_that_cannot_be(tmp_path, said):
    pytest.importorskip('faiss')
    with create_store(tmp_path, 2) as store:
        about = dict(windows=said)
        with create_store(tmp_path / 'moments', 2, about=about):
            pass
        with pytest.raises(ValueError, match='windows must be a length and a step in seconds'):
            MomentStore.open(store, tmp_path)
