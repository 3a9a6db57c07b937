"""Connections that ask for nothing, slowly, or too often keep nobody else from an answer."""

from __future__ import annotations

import http.client
import json
import logging
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager

import pytest

from children import ROOT

uvicorn = pytest.importorskip(
    'uvicorn', reason='the service is an extra: pip install projects/gallery[serve]'
)

from mmvtr_gallery.serving.connections import Connections, Sparse, config_of  # noqa: E402

#: A service of the smallest kind, of which this many files may be open.
CHILD = """
import resource, socket, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))
import uvicorn
from mmvtr_gallery.serving.connections import Connections, config_of
async def app(scope, receive, send):
    await send(dict(type='http.response.start', status=200, headers=[]))
    await send(dict(type='http.response.body', body=b'well'))
connections = Connections()
listener = socket.create_server(('127.0.0.1', 0))
print(listener.getsockname()[1], connections.most, flush=True)
uvicorn.Server(config_of(app, connections)).run(sockets=[listener])
"""


async def app(scope, receive, send):
    """Reads a body, and answers as many bytes as the path says."""
    if scope['type'] != 'http':
        return
    while (await receive()).get('more_body'):
        pass
    size = int(scope['path'][1:])
    length = [(b'content-length', str(size).encode())]
    await send(dict(type='http.response.start', status=200, headers=length))
    for _ in range(size // 2**16):
        await send(dict(type='http.response.body', body=b'x' * 2**16, more_body=True))
    await send(dict(type='http.response.body', body=b'x' * (size % 2**16)))


@contextmanager
def running(**limits):
    """The port of a service with these limits."""
    server = uvicorn.Server(config_of(app, Connections(**limits)))
    listener = socket.create_server(('127.0.0.1', 0))
    thread = threading.Thread(target=server.run, kwargs=dict(sockets=[listener]))
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(20)


def opened(port, words=b'', stack=None):
    connection = socket.create_connection(('127.0.0.1', port), timeout=10)
    connection.sendall(words)
    return connection if stack is None else stack.enter_context(connection)


def get(port, path='/4', **options):
    connection = http.client.HTTPConnection('127.0.0.1', port, timeout=10)
    connection.request('GET', path, **options)
    answer = connection.getresponse()
    found = answer.status, answer.read()
    connection.close()
    return found


def ends(connection, within):
    """Whether the other side hangs up in this time."""
    connection.settimeout(within)
    try:
        while connection.recv(2**16):
            pass
    except TimeoutError:
        return False
    except ConnectionError:
        pass
    return True


@pytest.mark.parametrize('words', [b'', b'G', b'GET /4 HTTP/1.1\r\nHost: x\r\n', b'\r\n'])
def test_half_requests_make_room_for_whole_ones(words):
    with running(most=8) as port, ExitStack() as stack:
        halves = [opened(port, words, stack) for _ in range(40)]
        for _ in range(5):
            assert get(port) == (200, b'xxxx')
        assert sum(ends(one, 0.05) for one in halves[:30]) == 30  # the oldest went first


def test_who_is_being_answered_is_not_closed_for_another():
    with running(most=2) as port, ExitStack() as stack:
        body = b'POST /4 HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n'
        busy = [opened(port, body, stack) for _ in range(2)]
        time.sleep(0.2)
        status, said = get(port)
        assert status == 503 and 'too many' in json.loads(said)['error']
        for one in busy:
            one.sendall(b'x' * 9)
            assert one.recv(100).startswith(b'HTTP/1.1 200')
        assert get(port)[0] == 200


@pytest.mark.parametrize(
    'begin, drop',
    [
        (b'', b''),
        (b'GET /4 HTTP/1.1\r\nX: ', b'y'),
        (b'POST /4 HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n', b''),
        (b'GET /4 HTTP/1.1\r\nHost: x\r\n\r\nGET /4', b'4'),
    ],
)
def test_who_is_slow_is_hung_up_on(begin, drop):
    with running(headers=0.4, body=0.4) as port, opened(port, begin) as connection:
        began = time.monotonic()
        while time.monotonic() - began < 5:
            try:
                connection.sendall(drop)
            except ConnectionError:
                break
            if ends(connection, 0.05):
                break
        assert 0.2 < time.monotonic() - began < 3


def test_a_body_that_keeps_coming_may_take_its_time():
    with running(headers=0.3, body=0.5) as port:
        begin = b'POST /4 HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\n\r\n'
        with opened(port, begin) as connection:
            for _ in range(6):
                time.sleep(0.15)
                connection.sendall(b'x')
            assert connection.recv(100).startswith(b'HTTP/1.1 200')


def test_who_does_not_read_an_answer_is_hung_up_on():
    size = 64 * 2**20
    ask = f'GET /{size} HTTP/1.1\r\nHost: x\r\n\r\n'.encode()
    with running(answer=0.3) as port, opened(port, ask) as connection:
        time.sleep(1.0)
        connection.settimeout(5)
        got = 0
        try:
            while part := connection.recv(2**20):
                got += len(part)
        except ConnectionError:
            pass
        assert got < size
    with running(most=1) as port, opened(port, ask):
        time.sleep(0.3)
        assert get(port)[0] == 200  # the room of who does not read


def test_no_file_is_left_and_the_log_stays_small(tmp_path):
    """More half requests than the process may have files open."""
    command = [sys.executable, '-c', CHILD]
    with open(tmp_path / 'log', 'wb') as log:
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, cwd=ROOT)
    try:
        port, most = map(int, child.stdout.readline().split())
        assert 8 <= most <= 50
        with ExitStack() as stack:
            for _ in range(300):
                opened(port, b'GET / HTTP/1.1\r\n', stack)
            for _ in range(3):
                assert get(port) == (200, b'well')
            for _ in range(60):
                opened(port, b'\0\r\n', stack)
            assert get(port) == (200, b'well')
    finally:
        child.terminate()
        child.wait(20)
        child.stdout.close()
    assert (tmp_path / 'log').stat().st_size < 20_000


def test_a_flood_of_one_message_is_a_few_lines(caplog):
    logger = logging.getLogger('mmvtr.test_of_floods')
    sparse = Sparse(most=3, seconds=0.3)
    logger.addFilter(sparse)
    with caplog.at_level(logging.WARNING, logger.name):
        for i in range(1000):
            logger.warning('bad request of %s', i)
        logger.warning('something else')
        assert len(caplog.records) == 4
        time.sleep(0.35)
        logger.warning('bad request of %s', 'one')
    assert caplog.records[-1].getMessage() == 'bad request of one (997 more like it in between)'
    logger.removeFilter(sparse)
