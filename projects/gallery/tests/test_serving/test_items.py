"""Paging, marks, statistics, undo and kept uploads over a socket."""

from __future__ import annotations

import http.client
import os
import threading
import time
from urllib.parse import quote

import numpy as np
import pytest

from gallery_service import Gallery, served, taken
from mmvtr_gallery.serving.overview import Known, Overview
from mmvtr_gallery.store import open_store
from mmvtr_gallery.store.items import Item
from mmvtr_gallery.store.occurrences import Occurrences
from services import NAMES, TOKEN

AUTHORISED = dict(Authorization=f'Bearer {TOKEN}')


@pytest.fixture
def library(folder, tmp_path):
    """A library of its own, as uploads are kept there."""
    found = tmp_path / 'library'
    found.mkdir()
    for place in ('one', 'two'):
        (found / place).mkdir()
        (found / place / 'blue box.mp4').write_bytes((folder / 'more/new.mp4').read_bytes())
    return found


@pytest.fixture
def client(place, library):
    with taken(place, library=library) as client:
        yield client


def items(client, **body):
    status, _, said = client('POST', '/items', body)
    assert status == 200, said
    return said


def ids(client, **body):
    return [item['id'] for item in items(client, **body)['items']]


def test_pages(client):
    assert ids(client) == list(NAMES)
    assert client('POST', '/items')[2]['total'] == 7
    said = [items(client, offset=at, limit=3) for at in (0, 3, 6, 9)]
    assert [[item['id'] for item in page['items']] for page in said] == [
        list('abc'), list('def'), ['g'], [],
    ]  # fmt: skip
    assert {page['total'] for page in said} == {7}
    assert ids(client, descending=True, limit=2) == ['g', 'f']
    assert ids(client, filter=dict(odd=True)) == list('bdf')
    assert ids(client, sort='odd') == list('aceg') + list('bdf')
    biases = [item['bias'] for item in items(client, sort='bias')['items']]
    assert biases == sorted(biases) and len(set(biases)) == 7
    first = items(client, limit=1)['items'][0]
    assert first['file'] == 'a.mp4' and first['metadata'] == dict(odd=False)


def test_what_has_no_value_comes_last(client):
    for name, end in (('h', 2.0), ('i', 1.0)):
        new = dict(id=name, vector=[0.6, 0.8], start=0.0, end=end)
        assert client.change('/add', items=[new])[0] == 200
    assert ids(client, sort='end') == ['i', 'h', *NAMES]
    assert ids(client, sort='end', descending=True) == ['h', 'i', *NAMES]


@pytest.mark.parametrize(
    'body, words',
    [
        (dict(sort='path'), 'sort must be one of id, start, end, sigma, added, bias, odd, found'),
        (dict(sort='colour'), 'sort must be one of'),
        (dict(filter=dict(colour='red')), "no column 'colour'"),
        (dict(limit=201), 'limit must be less than or equal to 200'),
        (dict(offset=-1), 'offset must be greater than or equal to 0'),
        (dict(mark='good'), "mark must be 'hub' or 'never_found'"),
        (dict(colour=1), 'colour is not known here'),
    ],
)
def test_pages_that_are_refused(client, body, words):
    status, said = client.error('POST', '/items', body)
    assert status == 422 and words in said


def test_how_often_items_are_found(client, place):
    found = open_store(place).occurrences()
    by_id = dict(zip(found.ids, found.found.tolist()))
    said = {item['id']: item for item in items(client)['items']}
    assert {name: item['found'] for name, item in said.items()} == by_id
    counts = [item['found'] for item in items(client, sort='found', descending=True)['items']]
    assert counts == sorted(by_id.values(), reverse=True)
    never = items(client, mark='never_found')
    assert {item['id'] for item in never['items']} == {x for x, n in by_id.items() if not n}
    assert all('none of 4 queries' in item['why'] for item in never['items'])
    assert client('GET', '/stats')[2]['found']['never_found'] == never['total'] > 0
    client.change('/undo')  # the only refit
    assert items(client)['items'][0]['found'] is None
    status, said = client.error('POST', '/items', dict(mark='hub'))
    assert status == 422 and 'how often items are found is not known' in said


def known(found, raw, behind=(0.25, 0, 0, 0, 0, 0)):
    names = list('abcdef')
    counts = np.array(found), np.array(raw), np.array(behind, np.float32)
    return Known(Occurrences('bank', 40, 2, names, *counts))


def said_of(name, bias, known):
    return known.mark(Item(name, None, None, None, None, 0.0, bias, {}))


def test_why():
    counts = known([0, 10, 12, 11, 12, 35], [0, 10, 12, 11, 12, 35])
    assert said_of('a', 0.1, counts).why == (
        'among the 2 best for none of 40 queries; at its closest, it is 0.250 below the '
        'last of them'
    )
    assert said_of('b', 0.1, counts) == (10, 10, None, None)
    assert said_of('f', 0.0, counts) == (
        35, 35, 'hub',
        'among the 2 best for 35 of 40 queries, where an equal share is 13.3; it has no bias that '
        'lowers it',
    )  # fmt: skip
    counts = known([0, 10, 12, 11, 12, 35], [7, 10, 12, 11, 2, 38])
    assert said_of('a', -0.2, counts).why == (
        'among the 2 best for none of 40 queries; with raw scores it would be for 7 (its '
        'bias is -0.200)'
    )
    assert said_of('f', -0.3, counts).why.endswith(
        '; with raw scores it would be for 38 (its bias is -0.300)'
    )
    assert said_of('nobody', 0.0, counts) is None
    even = known([13] * 6, [13] * 6)
    assert not even.hubs.any() and even.told()['skewness'] == 0


def test_stats(client, place):
    said = client('GET', '/stats')[2]
    assert said['items'] == 7 and said['last_change'] == dict(
        kind='refit', items=None, undone=False
    )
    assert said['columns']['odd'] == dict(
        type='bool', missing=0, distinct=2, values=[[False, 4], [True, 3]]
    )
    biases = [item.bias for item in open_store(place).get(list(NAMES))]
    assert said['columns']['bias']['min'] == pytest.approx(min(biases))
    assert said['columns']['start'] == dict(type='float', missing=7, min=None, max=None)
    assert 'path' not in said['columns'] and said['refit']['temperature'] == 0.1
    assert (said['found']['source'], said['found']['queries'], said['found']['k']) == ('bank', 4, 1)
    client.change('/delete', ids=['a', 'b'])
    after = client('GET', '/stats')[2]
    assert (
        after['last_change'] == dict(kind='delete', items=2, undone=False) and after['items'] == 5
    )
    assert after['version'] > said['version'] and after['columns']['odd']['values'][0] == [False, 3]


def test_what_is_computed_is_kept_until_a_change(place, monkeypatch):
    gallery = Gallery.open(place)
    seen = []
    counted = type(gallery.store).occurrences
    monkeypatch.setattr(
        type(gallery.store), 'occurrences', lambda self: seen.append(1) or counted(self)
    )
    for number in (1, 1, 1, 2, 2, 3, 3):
        if number == 2 and len(seen) == 1:
            gallery.delete(['a'])
        if number == 3 and len(seen) == 2:
            gallery.quarantine(['b'])
        gallery.overview.page(sort='found')
        gallery.overview.stats()
        assert len(seen) == number
    gallery.close()


def test_a_few_wait_for_what_is_computed():
    began, go = threading.Event(), threading.Event()

    class Store:
        state, types, debiaser, online = 1, {}, None, None

        def occurrences(self):
            began.set()
            go.wait(30)

        def table(self, columns, filter=None):
            return [], dict(id=[])

    overview = Overview(Store)
    threads = [threading.Thread(target=overview.page) for _ in range(20)]
    for thread in threads:
        thread.start()
    assert began.wait(30)
    with pytest.raises(RuntimeError, match='20 requests wait'):
        for _ in range(100):
            overview._places.acquire(timeout=0.01) and overview._places.release()
            if overview._places._value == 0:
                overview.page()
    go.set()
    for thread in threads:
        thread.join()


# -- changes -----------------------------------------------------------------------------------


def test_undo(client, place):
    """Each kind of change is taken back, and is there again."""
    before = ids(client)
    client.change('/delete', ids=['c', 'd'])
    assert ids(client) == list('abefg')
    status, _, said = client.change('/undo')
    told = dict(kind='delete', changed=2, undone=False, items=7, moved=None)
    assert (status, said) == (200, told)
    assert ids(client) == before == sorted(item.id for item in open_store(place).get(before))
    assert client.change('/undo')[2]['kind'] == 'add'  # which did the deletion anew
    assert ids(client) == list('abefg')
    client.change('/undo')
    client.change('/add', items=[dict(id='z', vector=[0.6, 0.8])])
    told = dict(kind='add', changed=1, undone=False, items=7, moved=None)
    assert client.change('/undo')[2] == told
    assert client.change('/undo', kind='refit')[2]['kind'] == 'refit'
    assert client('GET', '/health')[2]['transform'] is None
    status, said = client.error('POST', '/undo', dict(kind='delete'), **AUTHORISED)
    assert status == 422 and "kind must be 'refit'" in said


def upload(client, name, content, **options):
    query = '&'.join(f'{key}={quote(value)}' for key, value in options.items())
    return client('POST', f'/add/video?file={quote(name)}&{query}', content, **AUTHORISED)


def test_a_video_that_is_sent_is_kept(client, folder, library, place):
    content = (folder / 'more/new.mp4').read_bytes()
    for name, age in (('old', 4000), ('new', 0)):  # what a kill has left, and another upload
        (library / f'.mmvtr-upload-{name}').touch()
        os.utime(library / f'.mmvtr-upload-{name}', (time.time() - age,) * 2)
    status, _, said = upload(client, 'my clip.mp4', content)
    assert [path.name for path in library.glob('.mmvtr*')] == ['.mmvtr-upload-new']
    assert (status, said) == (200, dict(items=8))
    assert (library / 'my clip.mp4').read_bytes() == content
    assert open_store(place).get(['my clip.mp4'])[0].path == str(library / 'my clip.mp4')
    assert client('GET', '/video?id=my%20clip.mp4')[2] == content
    assert upload(client, 'other.mp4', content, id='named')[2] == dict(items=9)
    client.change('/undo')
    assert 'named' not in ids(client) and (library / 'other.mp4').exists()
    client.change('/undo')
    assert client('GET', '/video?id=named')[0] == 200


@pytest.mark.parametrize(
    'name, content, id, status, words',
    [
        ('x.mp4', b'no video', 'x', 422, 'the file cannot be read as a video: Invalid data'),
        ('x.mp4', b'', 'x', 422, 'the file cannot be read as a video'),
        ('x.mp4', None, 'a', 409, "the gallery has item 'a' already"),
        ('x.mp4', None, 'a\u202eb', 422, 'cannot be seen'),
        ('there.mp4', None, 'x', 409, "the library has a file 'there.mp4' already"),
        ('link.mp4', None, 'x', 409, "the library has a file 'link.mp4' already"),
        ('../x.mp4', None, 'x', 403, 'is not the plain name of a file'),
        ('one/x.mp4', None, 'x', 403, 'is not the plain name of a file'),
        ('a\\x.mp4', None, 'x', 403, 'is not the plain name of a file'),
        ('.x.mp4', None, 'x', 403, 'is not the plain name of a file'),
        ('x\n.mp4', None, 'x', 403, 'is not the plain name of a file'),
        ('x.html', None, 'x', 403, 'does not end as the names of videos do'),
        ('x', None, 'x', 403, 'does not end as the names of videos do'),
    ],
)
def test_a_video_that_is_not_kept(client, folder, library, name, content, id, status, words):
    (library / 'there.mp4').write_bytes(b'of somebody else')
    (library / 'link.mp4').symlink_to(library / 'nowhere.mp4')
    before = sorted(path.name for path in library.iterdir())
    content = (folder / 'a.mp4').read_bytes() if content is None else content
    found, _, said = upload(client, name, content, id=id)
    assert found == status and words in said['error'] and str(library) not in said['error']
    assert sorted(path.name for path in library.iterdir()) == before
    assert (library / 'there.mp4').read_bytes() == b'of somebody else'
    assert len(ids(client)) == 7


def test_who_may_not_send_a_video(client, folder, place):
    path = '/add/video?file=x.mp4'
    status, said = client.error('POST', path, (folder / 'a.mp4').read_bytes())
    assert status == 401
    gallery = Gallery.open(place)
    with served(gallery, token=None) as other:
        assert other.error('POST', path, b'x')[0] == 403
        assert other('GET', '/health')[2]['changes'] is False
    with served(Gallery.open(place)) as other:
        status, said = other.error('POST', path, b'x', **AUTHORISED)
        assert status == 403 and 'without a library' in said
        assert other('GET', '/health')[2]['library'] is False


def test_two_files_of_one_name_are_told_apart(client):
    for place in ('one', 'two'):
        client.change('/add', items=[dict(id=place, file=f'{place}/blue box.mp4')])
    files = {item['id']: item['file'] for item in items(client)['items']}
    assert (files['one'], files['two']) == ('one/blue box.mp4', 'two/blue box.mp4')


def test_the_reference_has_examples_that_work(client):
    said = client('GET', '/openapi.json')[2]
    tried = 0
    for name, body in said['components']['schemas'].items():
        for example in body.get('examples', []):
            tried += 1
            if name == 'Items':
                assert client('POST', '/items', example)[0] == 200
    assert tried >= 8
    assert http.client.responses[client('GET', '/docs')[0]] == 'OK'


def test_a_change_that_failed_leaves_no_page_behind(place):
    """The number of a change that failed is the next one's, too."""
    with open_store(place, write=True) as store:
        overview = Overview(lambda: store)

        def shown():
            return [item.id for item in overview.page().items], overview.stats()['items']

        with pytest.raises(OSError), store.kept():
            store.add(['x'], np.array([[0.6, 0.8]], np.float32))
            number = store.version
            assert shown() == ([*NAMES, 'x'], 8)
            raise OSError('a full disk')
        assert shown() == (list(NAMES), 7)
        with store.kept():
            store.add(['y'], np.array([[0.6, 0.8]], np.float32))
        assert store.version == number
        assert shown() == ([*NAMES, 'y'], 8)
