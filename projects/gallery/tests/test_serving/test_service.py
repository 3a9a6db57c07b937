"""The service over a socket: answers, and one sentence for whatever is wrong."""

from __future__ import annotations

import errno
import json
import threading
from urllib.parse import quote

import numpy as np
import pytest

from gallery_service import Gallery, served, taken, try_to_take
from mmvtr import apis
from mmvtr.storage import write_plain
from mmvtr_gallery.store import open_store
from services import NAMES, TOKEN, kept


@pytest.fixture
def client(folder, place):
    with taken(place, library=folder) as client:
        yield client


def test_answers(client, place, folder):
    """Those of the store itself, by text, by vector and by item; raw and debiased."""
    model, cfg = apis.load_retriever(str(folder / 'config.py'), str(folder / 'config.pth'))
    query = apis.vectors(model, apis.encode_texts(model, cfg, ['hello']).levels)
    store = open_store(place)
    for transform in (True, False):
        expected = store.search(query, 5, transform=transform)[0]
        other = [hit.item.id for hit in store.search(query, 7, transform=not transform)[0]]
        for asked in (dict(text='hello'), dict(vector=query[0].tolist())):
            said = client.search(**asked, k=5, transform=transform, compare=True)
            assert [hit['id'] for hit in said['hits']] == [hit.item.id for hit in expected]
            np.testing.assert_allclose(
                [[hit['score'], hit['raw'], hit['bias']] for hit in said['hits']],
                [[hit.score, hit.raw, hit.item.bias] for hit in expected],
                atol=1e-6,
            )
            assert [hit['moved'] for hit in said['hits']] == [
                other.index(hit.item.id) + 1 for hit in expected
            ]
            assert said['count'] == 7 and said['sigma'] is None
            assert {hit['file'] for hit in said['hits']} <= {f'{x}.mp4' for x in NAMES}
    like = client.search(like='c', k=3)
    assert not like['transform'] and like['hits'][0]['id'] == 'c'
    said = client.search(text='hello', k=7, filter=dict(odd=True))
    assert {hit['id'] for hit in said['hits']} == set('bdf')
    assert str(folder) not in json.dumps(said)
    status, _, found = client('POST', '/search/video?k=2', (folder / 'd.mp4').read_bytes())
    assert status == 200 and found['hits'][0]['id'] == 'd'
    health = client('GET', '/health')[2]
    assert (health['items'], health['writable'], health['note']) == (7, True, 'toys')


def test_several_texts_in_one_request(client):
    texts = ['hello', 'xxxxx', 'yyabc', 'hello']  # of one length: the toy tower reads its padding
    options = dict(k=4, transform=True, compare=True, filter=dict(odd=[True, False]))
    status, _, found = client('POST', '/search/texts', dict(texts=texts, **options))
    assert status == 200 and len(found) == 4
    for text, one in zip(texts, found):
        alone = client.search(text=text, **options)
        assert dict(one, ms=0) == dict(alone, ms=0)
    for texts, said in [
        ([], 'at least 1'), (['x'] * 65, 'at most 64'), (['x', ' '], 'text 1 is empty'),
        (['y' * 1001], 'text 0 is empty or longer'), ('x', 'list'),
    ]:  # fmt: skip
        status, sentence = client.error('POST', '/search/texts', dict(texts=texts))
        assert status == 422 and said in sentence
    status, sentence = client.error('POST', '/search/texts', dict(texts=['x'], like='a'))
    assert status == 422 and 'like' in sentence


def test_head_is_get_without_a_body(client):
    for path in ('/', '/health', '/stats', '/style.css', '/docs', '/video?id=a', '/thumb?id=a'):
        status, headers, content = client('HEAD', path)
        expected = client('GET', path)
        assert status == expected[0] == 200 and content == b'', path
        assert headers.get_content_type() == expected[1].get_content_type()
        assert headers['content-length'] in (None, expected[1]['content-length'])
    assert client('HEAD', '/video?id=nobody')[0] == 404
    assert client('HEAD', '/search')[0] == 405


@pytest.mark.parametrize(
    'headers, allowed',
    [
        ({}, True),
        (dict(Origin='http://127.0.0.1:{port}'), True),
        (dict(Origin='http://127.0.0.1:{port}', Sec_Fetch_Site='same-origin'), True),
        (dict(Sec_Fetch_Site='none'), True),
        (dict(Origin='https://elsewhere.example'), False),
        (dict(Origin='null'), False),
        (dict(Origin='http://127.0.0.1:1'), False),
        (dict(Sec_Fetch_Site='cross-site'), False),
        (dict(Sec_Fetch_Site='same-site'), False),
    ],
)
def test_another_site_sends_nothing_in_a_visitors_name(client, folder, headers, allowed):
    headers = {name: value.format(port=client.port) for name, value in headers.items()}
    video = (folder / 'd.mp4').read_bytes()
    for path, body in [('/search/video?k=2', video), ('/search', b'{"text": "x", "k": 2}')]:
        sent = dict(headers, Content_Type='text/plain' if body is video else 'application/json')
        status, _, said = client('POST', path, body, **sent)
        assert (status == 200) == allowed, said
        assert allowed or (status == 403 and 'other sites' in said['error'])
    assert client('GET', '/health', **headers)[0] == 200  # of which no other page sees the answer


def test_texts_in_flight_are_one_batch_and_equal_those_that_come_alone(client):
    # Of one length: the toy tower reads its padding.
    texts = [f'text {i:02d} {"abc"[i % 3]}' for i in range(24)]
    alone = {text: client.search(text=text, k=7) for text in texts}
    before = client('GET', '/health')[2]
    found = {}

    def ask(text):
        found[text] = client.search(text=text, k=7)

    threads = [threading.Thread(target=ask, args=(text,)) for text in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    after = client('GET', '/health')[2]
    assert after['texts'] - before['texts'] == len(texts) and before['largest_batch'] == 1
    for text in texts:  # the last bits of a sum may differ, and with them the order of equals
        one, two = ({hit['id']: hit['score'] for hit in x[text]['hits']} for x in (alone, found))
        assert one == pytest.approx(two, abs=1e-6) and len(one) == 7


def test_sigma_of_a_model_with_heads(folder, tmp_path):
    with served(Gallery.open(kept(folder, tmp_path / 'heads', config='heads'))) as client:
        said = client.search(text='hello', k=7)
        model, cfg = apis.load_retriever(str(folder / 'heads.py'), str(folder / 'heads.pth'))
        levels = apis.encode_texts(model, cfg, ['hello']).levels
        assert said['sigma'] == pytest.approx(apis.sigmas(levels)[0])
        known = [1.0, 2.0]  # what the store says of other texts
        assert said['wider_than'] == sum(x < said['sigma'] for x in known) / 2
        for hit in said['hits']:
            found = apis.encode_videos(model, cfg, [folder / hit['file']]).levels
            assert hit['sigma'] == pytest.approx(apis.sigmas(found)[0], rel=1e-5)


def test_pictures_and_parts_of_files(client, folder):
    status, headers, picture = client('GET', '/thumb?id=a&frames=3')
    assert (status, headers['Content-Type'], picture[:3]) == (200, 'image/jpeg', b'\xff\xd8\xff')
    whole = (folder / 'a.mp4').read_bytes()
    size = len(whole)
    status, headers, content = client('GET', '/video?id=a')
    assert (status, content) == (200, whole) and headers['Content-Type'] == 'video/mp4'
    for asked, first, last in (
        ('0-9', 0, 9),
        ('5-', 5, size - 1),
        ('-7', size - 7, size - 1),
        (f'10-{10 * size}', 10, size - 1),
        (f'-{10 * size}', 0, size - 1),
    ):
        status, headers, content = client('GET', '/video?id=a', Range=f'bytes={asked}')
        assert (status, content) == (206, whole[first : last + 1]), asked
        assert headers['Content-Range'] == f'bytes {first}-{last}/{size}'
    for asked in (f'{size}-', '-0'):
        status, headers, said = client('GET', '/video?id=a', Range=f'bytes={asked}')
        assert (status, headers['Content-Range']) == (416, f'bytes */{size}') and said['error']
    for asked in ('bytes=9-3', 'bytes=a-b', 'lines=1-2', 'bytes=0-1,3-4', 'bytes=-', '-' * 5000):
        assert client('GET', '/video?id=a', Range=asked)[::2] == (200, whole), asked
    status, headers, content = client('HEAD', '/video?id=a', Range='bytes=0-9')
    assert (status, content, headers['Content-Length']) == (206, b'', '10')
    status, _, moment = client('POST', '/moment', dict(id='a', text='hello'))
    assert status == 200 and moment['item_start'] == 0 <= moment['start'] < moment['end']
    assert moment['end'] <= moment['item_end'] == pytest.approx(0.4)


def test_only_listed_files_are_served(client, folder):
    for name in ('more/new', str(folder / 'a.mp4'), '../store/store.json', '/etc/passwd', '..%2f'):
        for path in ('/video', '/thumb'):
            assert client.error('GET', f'{path}?id={quote(name)}')[0] == 404
    for path in ('/../setup.cfg', '/page/../app.py', '/static/app.js', '/%2e%2e/app.py'):
        assert client.error('GET', path)[0] == 404


def test_changes(client, place, folder):
    """Added, found, deleted; new biases; all of it on disk."""
    new = dict(id='new', file='more/new.mp4', metadata=dict(odd=True))
    assert client.change('/add', items=[new])[2] == dict(items=8)
    assert client.search(like='new', k=1)['hits'][0]['file'] == 'more/new.mp4'
    assert open_store(place).count() == 8
    assert client('GET', '/video?id=new')[0] == 200
    before = client.search(text='hello', k=8)['hits']
    texts = ['hello', 'you', 'q']
    status, _, said = client.change('/refit', texts=texts)
    assert status == 422 and '3 different queries are too few for 8 items' in said['error']
    status, _, said = client.change('/refit', texts=texts, temperature=0.5, fewer=True)
    assert status == 200 and said['num_queries'] == 3 and said['temperature'] == 0.5
    assert said['moved']['queries'] == 3 and said['moved']['largest'] > 0
    assert [x['bias'] for x in client.search(text='hello', k=8)['hits']] != [
        x['bias'] for x in before
    ]
    status, _, said = client.change('/undo')
    assert status == 200 and said['moved']['largest'] > 0
    again = client.search(text='hello', k=8)['hits']
    assert [x['bias'] for x in again] == pytest.approx([x['bias'] for x in before], abs=1e-6)
    assert client.change('/delete', ids=['new', 'a'])[2] == dict(items=6)
    assert client.error('GET', '/video?id=new')[0] == 404
    assert {item.id for item in open_store(place).get(list('bcdefg'))} == set('bcdefg')


def test_quarantine(client, place):
    (first,) = client.search(text='hello', k=1)['hits']
    assert client.change('/quarantine', ids=[first['id']])[2] == dict(quarantined=1)
    found = client.search(text='hello', k=7)
    assert len(found['hits']) == 6 and first['id'] not in [x['id'] for x in found['hits']]
    assert client('GET', '/health')[2]['quarantined'] == 1
    assert open_store(place).quarantined == [first['id']]
    assert client.change('/quarantine', ids=['nobody'])[0] == 404
    status, _, said = client.change('/quarantine', ids=['nobody'], release=True)
    assert status == 422 and 'not in quarantine' in said['error']
    released = client.change('/quarantine', ids=[first['id']], release=True)
    assert released[2] == dict(quarantined=0)
    assert client.search(text='hello', k=1)['hits'] == [first]


def test_files_of_items_in_quarantine_are_for_who_has_the_token(client, folder):
    client.change('/quarantine', ids=['a'])
    whole = (folder / 'a.mp4').read_bytes()
    when = 'POST', '/moment', dict(id='a', text='hello')
    for asked in (('GET', '/video?id=a'), ('GET', '/thumb?id=a'), when):
        for given in ({}, dict(Authorization='Bearer no')):
            assert client.error(*asked, **given) == (
                404,
                "'a' is in quarantine: its file is shown only with the token",
            )
        status, _, said = client(*asked, Authorization=f'Bearer {TOKEN}')
        assert status == 200 and said
    assert client('GET', '/video?id=a', Range='bytes=0-9')[0] == 404
    assert client('GET', '/video?id=b')[0] == 200
    client.change('/quarantine', ids=['a'], release=True)
    assert client('GET', '/video?id=a')[2] == whole


def test_what_is_refused(client, folder, place):
    ask, add = ('POST', '/search'), ('POST', '/add')
    token = dict(Authorization=f'Bearer {TOKEN}')

    def asked(**body):
        return client.error(*ask, body)

    for body, words in (
        (dict(), 'one of text, vector and like expected'),
        (dict(text='a', like='b'), 'one of text, vector and like expected'),
        (dict(text='  '), 'the text is empty'),
        (dict(text='x' * 1001), 'at most 1000 characters'),
        (dict(text='x', k=0), 'greater than or equal to 1'),
        (dict(text='x', k=1001), 'less than or equal to 1000'),
        (dict(text='x', k=1, filter=dict(colour='red')), "no column 'colour'"),
        (dict(text='x', k=1, filter=dict(odd='red')), 'odd is of type bool'),
        (dict(text='x', k=1, colour='red'), 'colour is not known here'),
        (dict(vector=[1.0, 2.0, 3.0], k=1), 'vectors [N, 2], not [1, 3]'),
        (dict(vector=[float('nan'), 1.0], k=1), 'the vector is not finite'),
        (dict(vector=[float('inf'), 1.0], k=1), 'the vector is not finite'),
        (dict(vector=['a'], k=1), 'valid number'),
    ):
        status, said = asked(**body)
        assert status == 422 and words in said, (body, said)
    assert len(client.search(text='x')['hits']) == 7  # 12, or all
    assert asked(like='nobody', k=1) == (404, "the gallery has no item 'nobody'")
    assert client.error(*ask, b'{"text": ')[0] == 422
    most = 8 * 2**20
    assert client.error(*ask, Content_Length=str(most + 1)) == (
        413,
        f'a request may have at most {most / 2**20:g} MiB here',
    )
    chunks = iter([b'x' * most, b'x'])
    assert client.error(*ask, chunks, Transfer_Encoding='chunked')[0] == 413
    assert client.error('POST', '/search/video?k=1', b'no video') == (
        422,
        'the file cannot be read as a video: Invalid data found when processing input',
    )
    assert client.error('GET', '/nothing')[0] == 404 and client.error('GET', '/add')[0] == 405
    assert client.error('GET', '/thumb?id=a&frames=99')[0] == 422
    assert client.error('GET', '/health', Host='evil.example')[0] == 421
    # changes
    for path, body in (
        ('/add', dict(items=[dict(id='z', vector=[1.0, 0.0])])),
        ('/delete', dict(ids=['a'])),
        ('/refit', dict(texts=['a'])),
        ('/undo', dict()),
        ('/quarantine', dict(ids=['a'])),
        ('/judge', dict(text='x', id='a', right=True)),
        ('/calibrate', dict()),
    ):
        for given in ({}, dict(Authorization='Bearer no'), dict(Authorization='Basic a')):
            status, said = client.error('POST', path, body, **given)
            assert status == 401 and 'Bearer TOKEN' in said

    def adding(**item):
        return client.error(*add, dict(items=[dict(dict(id='z'), **item)]), **token)

    for name in ('../x.mp4', '/etc/passwd', str(folder / 'a.mp4'), 'more/../../x', 'a\\b', 'a\0'):
        assert adding(file=name)[0] == 403, name
    (folder / 'link.mp4').unlink(missing_ok=True)
    (folder / 'link.mp4').symlink_to(__file__)
    assert adding(file='link.mp4')[0] == 403
    assert adding(file='gone.mp4') == (404, "the library has no file 'gone.mp4'")
    assert adding(file='broken.mp4') == (
        422,
        "'broken.mp4' cannot be read as a video: Invalid data found when processing input",
    )
    assert adding()[1] == "'z' has neither a file nor a vector"
    assert adding(id='a', file='b.mp4') == (409, "the gallery has item 'a' already")
    assert 'another model' in adding(vector=[1.0])[1]
    assert 'not finite' in adding(vector=[float('nan'), 1.0])[1]
    assert 'expected bool' in adding(vector=[1.0, 0.0], metadata=dict(odd='x'))[1]
    assert client.error('POST', '/delete', dict(ids=['b', 'nobody']), **token)[0] == 404
    status, said = client.error('POST', '/refit', dict(), **token)
    assert status == 422 and 'keeps none of the queries that it has served' in said
    assert open_store(place).count() == 7


def test_a_full_disk_changes_nothing(client, place, monkeypatch):
    def full(*args, **kwargs):
        raise OSError(errno.ENOSPC, 'No space left on device')

    monkeypatch.setattr('mmvtr_gallery.store.folder.write_biases', full)
    status, _, said = client.change('/add', items=[dict(id='z', vector=[1.0, 0.0])])
    assert (status, said) == (
        507,
        dict(error='the disk of the gallery is full: nothing was changed'),
    )
    assert len(client.search(text='x', k=7)['hits']) == 7
    assert client.error('POST', '/search', dict(like='z', k=1))[0] == 404
    monkeypatch.undo()
    assert client.change('/add', items=[dict(id='z', vector=[1.0, 0.0])])[2] == dict(items=8)
    assert open_store(place).count() == 8


def test_another_process_writes(folder, place):
    """Reading goes on; a change says who, and works as soon as it can."""
    writer = open_store(place, write=True)
    gallery = Gallery.open(place, library=folder)
    assert 'is in use by process' in try_to_take(gallery)
    with served(gallery) as client:
        assert not client('GET', '/health')[2]['writable']
        assert len(client.search(text='x', k=7)['hits']) == 7
        status, _, said = client.change('/delete', ids=['a'])
        assert status == 409 and 'is in use by process' in said['error']
        writer.delete(['g'])
        writer.persist()
        assert len(client.search(text='x', k=6)['hits']) == 6
        writer.close()
        assert client.change('/delete', ids=['a'])[2] == dict(items=5)


def test_p_match_and_the_threshold_of_a_precision(folder, place):
    import math

    import torch

    from mmvtr.functional.uncertainty.calibration import Calibration

    gallery = Gallery.open(place, library=folder)
    assert try_to_take(gallery) is None
    with served(gallery) as client:
        asked = dict(text='hello', k=5)
        assert {hit['p_match'] for hit in client.search(**asked)['hits']} == {None}
        status, said = client.error('POST', '/search', dict(asked, min_precision=0.5))
        assert status == 422 and 'has no calibration' in said
        assert client('GET', '/health')[2]['calibration'] is None
        store = gallery.store
        grid = torch.linspace(-1, 1, 21, dtype=torch.float64)
        bounds = grid.clamp_min(0), grid.new_ones(21)
        for debiased in (False, True):
            if debiased:
                store.undo()  # the biases are there again
            else:
                store.refit(transform=None)
            fit = Calibration('platt', torch.tensor([5.0, -1.0]), grid, *bounds, debiased=debiased)
            store.calibrate(fit)
            assert client('GET', '/health')[2]['calibration'] == dict(
                method='platt', debiased=debiased
            )
            for transform in (False, True):
                said = client.search(**asked, transform=transform, min_precision=0.8)
                for hit in said['hits']:
                    x = hit['raw'] + debiased * hit['bias']
                    assert abs(hit['p_match'] - 1 / (1 + math.exp(1 - 5 * x))) < 1e-6
                assert said['threshold'] == fit.threshold(0.8)
                at = 1 / (1 + math.exp(1 - 5 * said['threshold']))
                assert abs(said['threshold_p_match'] - at) < 1e-6
        assert client.search(**asked)['threshold'] is None
        beyond = client.search(**asked, min_precision=0.999)['threshold']
        assert beyond == pytest.approx((math.log(999) + 1) / 5)  # Platt's line, above all scores
        assert {hit['p_match'] for hit in client.search(like='c', k=3)['hits']} == {None}
        for wrong in (dict(min_precision=1), dict(text=None, like='c', min_precision=0.5)):
            assert client.error('POST', '/search', {**asked, **wrong})[0] == 422


def test_an_empty_gallery_and_nobody_who_may_fill_it(folder, tmp_path):
    gallery = Gallery.open(kept(folder, tmp_path / 'empty', names=''))
    with served(gallery) as client:
        status, said = client.error('POST', '/search', dict(text='x', k=1))
        assert (status, said) == (409, 'the gallery is empty: add a video first')
        new = dict(items=[dict(id='a', file='a.mp4')])
        status, said = client.error('POST', '/add', new, Authorization=f'Bearer {TOKEN}')
        assert status == 403 and 'without a library' in said
    gallery = Gallery.open(tmp_path / 'empty', library=folder)
    with served(gallery, token=None) as client:
        for path in ('/add', '/delete', '/refit'):
            status, said = client.error('POST', path, new, Authorization=f'Bearer {TOKEN}')
            assert (status, said) == (
                403,
                'this service was started without a token: it only reads',
            )


def test_a_store_of_another_model_and_an_engine_that_is_away(folder, place, tmp_path):
    model, _ = apis.load_retriever(str(folder / 'config.py'), str(folder / 'config.pth'))
    model.encoder.frames.weight.data += 1
    write_plain(dict(state_dict=model.state_dict()), tmp_path / 'other.pth')
    with pytest.raises(RuntimeError, match='has other weights than those that'):
        Gallery.open(place, checkpoint=tmp_path / 'other.pth')
    pytest.importorskip('qdrant_client')
    with pytest.raises(ConnectionError, match='127.0.0.1:9'):
        Gallery.open('http://127.0.0.1:9/gallery', config=place / 'config.json')
