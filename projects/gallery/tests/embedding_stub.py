"""A server that speaks OpenAI's /v1/embeddings, with vLLM's messages and infinity's images."""

import base64
import contextlib
import hashlib
import io
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
from PIL import Image

DIM = 16


def of_text(text):
    """A vector that no other text has; not of length 1."""
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], 'big')
    return 3 * np.random.default_rng(seed).normal(size=DIM)


def of_image(raw):
    """What a picture's mean colour makes: near pictures have near vectors."""
    mean = np.asarray(Image.open(io.BytesIO(raw)).convert('RGB'), float).mean((0, 1))
    return np.concatenate((mean / 255, np.ones(DIM - 3)))


def _pictures(url):
    return [
        base64.b64decode(part, validate=True) for part in url.partition('base64,')[2].split(',')
    ]


class Stub(ThreadingHTTPServer):
    """Remembers ``bodies`` and ``headers``; ``faults`` are answered before anything else."""

    daemon_threads = True

    def __init__(self):
        super().__init__(('127.0.0.1', 0), _Handler)
        self.bodies, self.headers, self.faults = [], [], []
        self.url = f'http://127.0.0.1:{self.server_port}/v1'

    def vectors(self, body):
        if 'messages' in body:
            *said, user = body['messages']
            system = ''.join(part['text'] for one in said for part in one['content'])
            (content,) = user['content']
            if content['type'] == 'text':
                return [of_text(system + content['text'])]
            assert content['video_url']['url'].startswith('data:video/jpeg;base64,')
            return [np.mean([of_image(x) for x in _pictures(content['video_url']['url'])], axis=0)]
        if body.get('modality') == 'image':
            assert all(url.startswith('data:image/jpeg;base64,') for url in body['input'])
            return [of_image(_pictures(url)[0]) for url in body['input']]
        return [of_text(text) for text in body['input']]


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers['Content-Length'])))
        self.server.bodies.append(body)
        self.server.headers.append(dict(self.headers))
        fault = self.server.faults.pop(0) if self.server.faults else None
        if callable(fault):
            return fault(self)
        if fault is not None:
            return self.tell(fault, dict(error=dict(message=f'fault {fault}')))
        assert self.path == '/v1/embeddings' and body['encoding_format'] == 'float'
        found = [
            dict(object='embedding', index=i, embedding=vector.tolist())
            for i, vector in enumerate(self.server.vectors(body))
        ]
        return self.tell(200, dict(object='list', model=body['model'], data=found[::-1], usage={}))

    def tell(self, status, content, **headers):
        raw = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in dict({'Content-Length': str(len(raw))}, **headers).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *args):
        pass


@contextlib.contextmanager
def running():
    """A stub that answers."""
    stub = Stub()
    thread = threading.Thread(target=stub.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield stub
    finally:
        stub.shutdown()
        stub.server_close()
