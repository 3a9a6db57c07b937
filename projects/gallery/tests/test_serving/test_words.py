"""What is said of a mistake: a sentence, and nothing of where the service keeps its files."""

from __future__ import annotations

import os

import numpy as np
import pytest

import mmvtr
from gallery_service import Gallery, served, taken
from mmvtr.datasets.videos.video_files import BrokenVideoError
from mmvtr.datasets.words.tokenizers import WordTokenize
from mmvtr.storage.lock import FolderInUse
from mmvtr_gallery.remote import ServerAway, ServerRefuses
from mmvtr_gallery.serving.bodies import sendable
from mmvtr_gallery.serving.errors import sentence_of, without_paths
from mmvtr_gallery.serving.gallery import reason_of
from mmvtr_gallery.store import open_store
from services import TOKEN

AUTHORISED = dict(Authorization=f'Bearer {TOKEN}')


@pytest.fixture
def client(folder, place, tmp_path):
    """Of a gallery with items whose files cannot be read, each in another way."""
    bad = tmp_path / 'private folder'
    bad.mkdir()
    (bad / 'broken.mp4').write_bytes(b'no video')
    (bad / 'empty.mp4').touch()
    (bad / 'half.mp4').write_bytes((folder / 'a.mp4').read_bytes()[:900])
    (bad / 'list.mp4').write_text('#EXTM3U\n#EXTINF:1,\nfile:///etc/hostname\n')
    names = ('broken', 'empty', 'half', 'list', 'gone')
    with open_store(place, write=True) as store:
        vectors = np.tile(np.array([[0.6, 0.8]], np.float32), (len(names), 1))
        store.add(list(names), vectors, paths=[str(bad / f'{name}.mp4') for name in names])
        store.persist()
    with taken(place, library=folder) as client:
        yield client


@pytest.mark.parametrize('name', ['broken', 'empty', 'half', 'list', 'gone'])
def test_no_answer_tells_where_a_file_is(client, name, tmp_path):
    for method, path, body in (
        ('POST', '/moment', dict(id=name, text='hello')),
        ('GET', f'/thumb?id={name}', None),
    ):
        status, said = client.error(method, path, body)
        assert status == (404 if name == 'gone' else 422)
        assert f"the file of '{name}'" in said
        for part in (str(tmp_path), 'private', '/'):
            assert part not in said


def test_why_a_file_cannot_be_added(client, folder):
    for name, words in (
        ('broken.mp4', 'Invalid data'),
        ('none.mp4', 'no file'),
        ('x' * 300, 'no file'),
        ('y/' * 400, 'no file'),
    ):
        body = dict(items=[dict(id='z', file=name)])
        status, said = client.error('POST', '/add', body, **AUTHORISED)
        assert 400 <= status < 500 and words in said and str(folder) not in said
        assert 'on_broken' not in said


@pytest.mark.parametrize(
    'error, said',
    [
        (OSError(36, 'File name too long', '/srv/x'), 'File name too long; the log of'),
        (PermissionError(13, 'Permission denied', '/srv/x'), 'Permission denied; the log of'),
        (FolderInUse('/srv/a b/store is in use by process 7'), 'is in use by process 7'),
        (RuntimeError("'/srv/my store/biases.f32' is damaged"), "'biases.f32' is damaged"),
        (ConnectionError('http://10.0.0.7:6333/x does not answer'), 'the engine of the gallery'),
        (
            ServerAway('the embedding server http://10.0.0.7/v1 is away'),
            'the embedding server gives',
        ),
        (ServerRefuses('http://10.0.0.7/v1 refuses: /srv/key'), 'the embedding server gives'),
        (ValueError('the store /srv/store: 3 of 4'), 'the store store: 3 of 4'),
    ],
)
def test_paths_and_addresses_are_left_out(error, said):
    found = sentence_of(error)
    assert said in found and '/srv' not in found and '10.0.0.7' not in found


def test_near_words_are_named(tmp_path):
    (tmp_path / 'vocab.txt').write_text('a red star stripes spins')
    read = WordTokenize(str(tmp_path / 'vocab.txt'))
    with pytest.raises(KeyError) as raised:
        read.transform(dict(text='a rde strr zzz', text_id='q'))
    said = "this model does not know 'rde' (near it: red), 'strr' (near it: star), 'zzz'"
    assert sentence_of(raised.value) == said


def test_known_folders_may_have_spaces():
    words = 'the store /srv/my own/store was opened for reading, as /srv/my own is'
    found = without_paths(words, ['/srv/my own', '/srv/my own/store'])
    assert found == 'the store store was opened for reading, as my own is'


def test_what_is_no_path_stays():
    for words in ('mmvtr serve --name', 'min/max', 'a / b', "one of 'x/y'", '1/2'):
        assert without_paths(words) == words
    inner = BrokenVideoError('/a b/c.mp4: no frame')
    outer = BrokenVideoError('/a b/c.mp4: no frame (advice)')
    outer.__cause__ = inner
    assert reason_of(outer, '/a b/c.mp4') == 'no frame'


@pytest.mark.parametrize(
    'path, body, words',
    [
        ('/search', dict(text='x', k='many'), 'k must be a whole number'),
        ('/search', dict(text='x', k=1.5), 'k must be a whole number'),
        ('/search', dict(text=7, k=1), 'text must be a text'),
        ('/search', dict(vector='x', k=1), 'vector must be a list'),
        ('/search', dict(vector=[1, None], k=1), 'vector.1 must be a valid number'),
        ('/search', dict(text='x', transform='maybe'), 'transform must be true or false'),
        ('/search', dict(text='x', filter=[1]), 'filter must be an object'),
        ('/search', [], 'the body must be a JSON object'),
        ('/moment', dict(text='x'), 'id is missing'),
        ('/moment', dict(id='a', text='\ud800'), 'text must be a text of whole'),
        ('/delete', dict(ids=[]), 'ids must have at least 1 entries'),
        ('/refit', dict(transform='best'), "transform must be 'same', 'auto', 'sinkhorn'"),
        ('/refit', dict(iterations=9999), 'iterations must be less than or equal to 1000'),
    ],
)
def test_a_request_that_does_not_fit_is_told_in_a_sentence(client, path, body, words):
    status, said = client.error('POST', path, body, **AUTHORISED)
    assert status == 422 and words in said
    assert not any(raw in said for raw in ('Input should', 'Extra inputs', 'Field required'))


@pytest.mark.parametrize('value', [10**400, -(10**400), [1, 10**309], dict(min=10**4000)])
def test_a_number_that_no_column_has(client, value):
    for name in ('start', 'odd'):
        status, said = client.error('POST', '/search', dict(text='x', filter={name: value}))
        assert status == 422 and 'the service failed' not in said


@pytest.mark.parametrize('depth', [3, 300, 900, 100_000])
def test_what_is_nested_deeply(client, depth):
    nested = '[' * depth + ']' * depth
    for body in (f'{{"text": "x", "filter": {{"start": {nested}}}}}', nested):
        said = client.error('POST', '/search', body, Content_Type='application/json')
        assert said[0] in (400, 422) and 'the service failed' not in said[1]


def test_bodies_that_are_no_json(client):
    for body, status in (
        ('{"text": ', 422),
        ('[' * 100_000, 400),
        ('{"text": "x", "filter": {"start": ' + '9' * 5000 + '}}', 400),
    ):
        assert client.error('POST', '/search', body, Content_Type='application/json')[0] == status
    status, said = client.error('POST', '/search', '{"text": "x"}', Content_Type='text/plain')
    assert status == 422 and 'Content-Type: application/json' in said


def test_a_store_that_holds_half_characters_is_answered_from(client):
    """As a file's name that is no UTF-8 gives them; what a store takes now is its own matter."""
    broken = 'a\udcff'
    assert sendable({broken: [broken, 1]}) == {'a\\udcff': ['a\\udcff', 1]}
    # Written past the checks: an older version took them.
    from mmvtr_gallery.serving import gallery as module

    seen = module.GalleryStore.search

    def search(self, *args, **kwargs):
        (hits,) = seen(self, *args, **kwargs)
        item = hits[0].item._replace(metadata=dict(note=broken), path=os.fsdecode(b'/x/\xff.mp4'))
        return [[hits[0]._replace(item=item), *hits[1:]]]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module.GalleryStore, 'search', search)
        hit = client.search(text='x', k=3)['hits'][0]
    assert hit['metadata'] == dict(note='a\\udcff') and hit['file'] == '\\udcff.mp4'


def test_what_is_said_of_the_ranking_is_true(client, place):
    assert client.search(text='x', k=2)['transform'] is True
    assert client('GET', '/health')[2]['transform'] == 'sinkhorn'
    assert client('GET', '/openapi.json')[2]['info']['version'] == mmvtr.__version__


def test_a_gallery_without_biases_ranks_by_none(folder, place):
    with open_store(place, write=True) as store:
        store.refit(transform=None)
        store.persist()
    with served(Gallery.open(place)) as client:
        assert client('GET', '/health')[2]['transform'] is None
        for given in ({}, dict(transform=True), dict(transform=False)):
            said = client.search(text='x', k=7, compare=True, **given)
            assert said['transform'] is False
            assert [hit['moved'] for hit in said['hits']] == list(range(1, 8))
