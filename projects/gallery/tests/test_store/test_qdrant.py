"""The store on Qdrant over HTTP, and after requests that stop at any place of a change."""

from __future__ import annotations

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from children import free_port
from mmvtr_gallery.store import create_store, open_store

qdrant_client = pytest.importorskip('qdrant_client', reason='the engine is an extra')
from qdrant_client import QdrantClient  # noqa: E402
from qdrant_client.http import models as m  # noqa: E402

from mmvtr_gallery.store.qdrant import QdrantStore  # noqa: E402

pytestmark = pytest.mark.filterwarnings('ignore:Local mode performs exact')

DIM = 6


def vectors(seed, count=40):
    x = np.random.default_rng(seed).normal(size=(count, DIM))
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)


NAMES = [f'v{i}' for i in range(40)]

#: method and path -> name of the request's model, and what the embedded mode does with it.
ROUTES = {
    r'GET /collections/(\S+)/exists': (None, lambda c, n, _: dict(exists=c.collection_exists(n))),
    r'PUT /collections/([^/]+)': (
        'CreateCollection',
        lambda c, n, b: c.create_collection(n, vectors_config=b.vectors),
    ),
    r'DELETE /collections/([^/]+)': (None, lambda c, n, _: c.delete_collection(n)),
    r'PUT /collections/(\S+)/points': ('PointsList', lambda c, n, b: c.upsert(n, b.points)),
    r'POST /collections/(\S+)/points': (
        'PointRequest',
        lambda c, n, b: c.retrieve(n, b.ids, b.with_payload, b.with_vector),
    ),
    r'POST /collections/(\S+)/points/scroll': (
        'ScrollRequest',
        lambda c, n, b: dict(
            zip(
                ('points', 'next_page_offset'),
                c.scroll(n, b.filter, b.limit, None, b.offset, b.with_payload, bool(b.with_vector)),
            )
        ),
    ),
    r'POST /collections/(\S+)/points/count': (
        'CountRequest',
        lambda c, n, b: c.count(n, b.filter, b.exact),
    ),
    r'POST /collections/(\S+)/points/query': (
        'QueryRequest',
        lambda c, n, b: c.query_points(
            n, b.query.nearest, query_filter=b.filter, limit=b.limit, with_payload=b.with_payload
        ),
    ),
    r'POST /collections/(\S+)/points/payload': (
        'SetPayload',
        lambda c, n, b: c.set_payload(n, b.payload, b.points or b.filter),
    ),
    r'POST /collections/(\S+)/points/payload/delete': (
        'DeletePayload',
        lambda c, n, b: c.delete_payload(n, b.keys, b.points or b.filter),
    ),
    r'POST /collections/(\S+)/points/delete': (
        'FilterSelector',
        lambda c, n, b: c.delete(n, b),
    ),
    r'POST /collections/(\S+)/points/batch': (
        'UpdateOperations',
        lambda c, n, b: c.batch_update_points(n, b.operations),
    ),
}


@pytest.fixture
def server():
    """Answers as the server's OpenAPI says, by the models that the client is generated from.

    A request that no route knows, or whose body is not of its model, is answered with an error.
    """
    client, asked = QdrantClient(':memory:'), []

    class Stub(BaseHTTPRequestHandler):
        def answer(self):
            line = f'{self.command} {self.path.split("?")[0]}'
            length = int(self.headers.get('Content-Length') or 0)
            body = json.loads(self.rfile.read(length) or '{}')
            for route, (kind, act) in ROUTES.items():
                match = re.fullmatch(route, line)
                if match:
                    asked.append(route)
                    given = kind and getattr(m, kind).model_validate(body)
                    result = act(client, match[1], given)
                    break
            else:
                self.send_error(404, line)
                return
            text = json.dumps(
                dict(result=result, status='ok', time=0.0),
                default=lambda x: x.model_dump(mode='json', exclude_none=True),
            ).encode()
            self.send_response(200)
            self.send_header('Content-Type', 'application/json')
            self.send_header('Content-Length', str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_PUT = do_POST = do_DELETE = answer

        def log_message(self, *args):
            pass

    web = ThreadingHTTPServer(('127.0.0.1', 0), Stub)
    thread = threading.Thread(target=web.serve_forever, daemon=True)
    thread.start()
    yield f'http://127.0.0.1:{web.server_port}', asked
    web.shutdown()
    web.server_close()
    thread.join()


def test_over_http(server):
    url, asked = server
    with create_store(f'{url}/clips', DIM, model='0123', online=dict(capacity=5)) as store:
        store.add(NAMES, vectors(1), metadata=dict(views=list(range(40)), good=[True, False] * 20))
        store.refit(vectors(2), temperature=0.1)
        store.refit(vectors(3), temperature=0.2)  # removes what the first one has left
        store.delete(NAMES[:3])
        hits = store.search(vectors(4, 9), 5, filter=dict(views={'min': 5}, good=True))
        store.persist()
        assert store.count(dict(id=['v7', 'v8'])) == 2
    again = open_store(f'{url}/clips', write=True)
    assert again.count() == 37 and again.model == '0123' and len(again.online) == 5
    assert again.online.seen == 9
    scores = vectors(4, 9) @ vectors(1).T + again.debiaser.biases_of(vectors(1)).numpy()
    meant = [i for i in range(40) if i >= 5 and i % 2 == 0]
    for row, found in zip(scores, hits):
        best = sorted(meant, key=lambda i: -row[i])[:5]
        assert [hit.item.id for hit in found] == [f'v{i}' for i in best]
        assert [hit.score for hit in found] == pytest.approx([row[i] for i in best], abs=1e-5)
    again.keep_queries(None)
    assert again.online is None
    with pytest.raises(FileExistsError, match='clips is there already'):
        create_store(f'{url}/clips', DIM)
    with pytest.raises(FileNotFoundError, match='other is not a store on that server'):
        open_store(f'{url}/other')
    assert set(asked) == set(ROUTES) - {r'DELETE /collections/([^/]+)'}


def _tensor(x):
    import torch

    return torch.from_numpy(x)


def test_urls_that_do_not_answer():
    url = f'http://127.0.0.1:{free_port()}/clips'
    for call in (lambda: open_store(url), lambda: create_store(url, DIM)):
        with pytest.raises(ConnectionError, match='clips does not answer as it should: ') as raised:
            call()
        assert len(str(raised.value)) < 500
    with pytest.raises(ValueError, match='HOST:PORT/NAME expected, got http://host'):
        open_store('http://host')


class Stops(Exception):
    pass


class Stopping:
    """A client that writes ``left`` times, and then no more."""

    def __init__(self, client, left):
        self._client, self._left = client, left

    def __getattr__(self, name):
        method = getattr(self._client, name)
        if name not in ('upsert', 'delete', 'set_payload', 'delete_payload', 'batch_update_points'):
            return method
        self._left -= 1
        if self._left < 0:
            raise Stops(name)
        return method


CHANGES = dict(
    add=lambda s: s.add(['x', 'y'], vectors(9, 2)),
    delete=lambda s: s.delete(NAMES[:7]),
    refit=lambda s: s.refit(vectors(8), temperature=0.3),
    undo=lambda s: s.undo(),
)


@pytest.mark.parametrize('change', CHANGES)
def test_requests_that_stop_anywhere(monkeypatch, change):
    monkeypatch.setattr('mmvtr_gallery.store.qdrant.BATCH', 3)  # many requests a change
    client = QdrantClient(':memory:')
    store = QdrantStore.create('clips', DIM, client=client)
    store.add(NAMES, vectors(1))
    store.refit(vectors(2), temperature=0.1)
    if change == 'undo':
        store.persist()
        store.add(['p', 'q', 'r', 's'], vectors(7, 4), removing=NAMES[-4:])
    queries, stopped = vectors(5, 4), 0
    before = store.search(queries, 99)
    for left in range(100):
        broken = QdrantStore.open('clips', write=True, client=Stopping(client, left))
        try:
            CHANGES[change](broken)
            break
        except Stops:
            stopped += 1
        reader = QdrantStore.open('clips', client=client)
        assert reader.search(queries, 99) == before and reader.count() == 40
        assert reader.debiaser.options_['temperature'] == 0.1
    assert stopped > 5
    assert QdrantStore.open('clips', client=client).search(queries, 99) != before
    other = QdrantStore.open('clips', write=True, client=client)
    other.refit(transform=None)
    other.persist()
    raw = sorted((queries[0] @ other.get([n])[0].vector for n in _names(other)), reverse=True)
    assert [hit.score for hit in other.search(queries[:1], 99)[0]] == pytest.approx(raw, abs=1e-6)
    kept = client.scroll('clips', limit=100)[0]
    assert len(kept) == other.count()  # nothing is left of what was cut off
    assert {key for point in kept for key in point.payload if key[:2] == '_b'} == {
        other._state['bias']
    }
    assert client.count('clips.bank').count == 40  # of the refit before, which undo takes


def _names(store):
    return [hit.item.id for hit in store.search(vectors(5, 1), 99)[0]]


def test_a_second_writer_is_seen():
    client = QdrantClient(':memory:')
    one = QdrantStore.create('clips', DIM, client=client)
    one.add(NAMES, vectors(1))
    two = QdrantStore.open('clips', write=True, client=client)
    state = two._collected()
    one.delete(NAMES[:1])
    with pytest.raises(RuntimeError, match='changed by another process: nothing was changed'):
        two._commit(state, count=0)
    assert one.count() == two.count() == 39
