"""A gallery of toys, and its service on a port of this machine."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from contextlib import contextmanager

from mmvtr import apis
from mmvtr_gallery.store import create_store
from tiny_sets import of_videos

CONFIG = of_videos()
HEADS = "model.update(heads=dict(type='GaussianHead'))\n"
NAMES, TOKEN = 'abcdefg', 'a token of the tests'


class Client:
    """Talks to a server of this process."""

    def __init__(self, port):
        self.port = port

    def __call__(self, method, path, body=None, **headers):
        """Status, headers, and what was said: json if it is."""
        connection = http.client.HTTPConnection('127.0.0.1', self.port, timeout=30)
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
            headers = {'Content-Type': 'application/json', **headers}
        headers = {name.replace('_', '-'): value for name, value in headers.items()}
        connection.request(method, path, body, headers, encode_chunked=True)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        if content and answer.headers.get_content_type() == 'application/json':
            content = json.loads(content)
        return answer.status, answer.headers, content

    def search(self, **body):
        status, _, said = self('POST', '/search', body)
        assert status == 200, said
        return said

    def change(self, path, **body):
        return self('POST', path, body, Authorization=f'Bearer {TOKEN}')

    def error(self, *args, **headers):
        """Status and sentence of what must fail."""
        status, _, said = self(*args, **headers)
        assert status >= 400 and list(said) == ['error'], said
        assert 'Traceback' not in said['error'] and '\n' not in said['error']
        return status, said['error']


@contextmanager
def served(gallery, token=TOKEN, connections=None, uploads=None, observed=None):
    """A client of a gallery's service."""
    import uvicorn

    from mmvtr_gallery.serving.app import create_app
    from mmvtr_gallery.serving.connections import Connections, config_of

    limits = dict(uploads=uploads, observed=observed)
    app = create_app(gallery, token=token, hosts={'127.0.0.1'}, **limits)
    server = uvicorn.Server(config_of(app, connections or Connections()))
    listener = socket.create_server(('127.0.0.1', 0))
    thread = threading.Thread(target=server.run, kwargs=dict(sockets=[listener]))
    thread.start()
    try:
        yield Client(listener.getsockname()[1])
    finally:
        server.should_exit = True
        thread.join()


def kept(folder, place, names=NAMES, config='config'):
    """A store of these videos, with biases."""
    model, cfg = apis.load_retriever(str(folder / f'{config}.py'), str(folder / f'{config}.pth'))
    about = dict(checkpoint=str(folder / f'{config}.pth'), note='toys', text_sigma=[1.0, 2.0])
    weights = apis.fingerprint(model)
    with create_store(place, 2, model=weights, about=about) as store:
        paths = [str(folder / f'{name}.mp4') for name in names]
        if names:
            levels = apis.encode_videos(model, cfg, paths).levels
            given = dict(sigmas=apis.sigmas(levels), metadata=dict(odd=[*map(_odd, names)]))
            store.add(list(names), apis.vectors(model, levels), paths=paths, **given)
            store.persist()
            bank = apis.encode_texts(model, cfg, ['x', 'yy', 'zxy', 'q'])
            store.refit(apis.vectors(model, bank.levels), temperature=0.1, fewer=True)
        store.persist()
    cfg.dump(place / 'config.json')
    return place


def _odd(name):
    return bool(NAMES.index(name) % 2)
