"""Videos of strangers: bounded before they are decoded, read beside the model, and hung up on."""

from __future__ import annotations

import http.client
import io
import socket
import threading
import time
from fractions import Fraction

import av
import pytest
from PIL import Image

from gallery_service import Gallery, served
from mmvtr.datasets.videos.video_files import BrokenVideoError
from mmvtr_gallery.serving.batching import Busy
from mmvtr_gallery.serving.decoders import Decoders
from mmvtr_gallery.serving.uploads import FRAME, TooMuchToDecode, Uploads
from services import TOKEN


@pytest.mark.parametrize(
    'suffix, codec', [('mp4', 'libx264'), ('mkv', 'mpeg4'), ('avi', 'mpeg4'), ('webm', 'libvpx')]
)
def test_pixels_of_all_frames_are_counted(write_video, tmp_path, suffix, codec):
    path = str(write_video(tmp_path / f'x.{suffix}', [40, 90] * 10, codec=codec))
    Uploads(pixels=20 * 32 * 48).check(path)
    with pytest.raises(TooMuchToDecode, match='more than 30,719 pixels in all its frames of 48 x'):
        Uploads(pixels=20 * 32 * 48 - 1).check(path)


@pytest.mark.parametrize('size', [(2306, 4096), (3074, 3074), (16, 4096)])
def test_a_frame_is_bounded_too(write_video, tmp_path, size):
    path = str(write_video(tmp_path / 'x.mp4', [40], size=size, codec='mpeg4'))
    if size[0] * size[1] <= FRAME:
        Uploads().check(path)
        return
    with pytest.raises(TooMuchToDecode, match=f'{size[1]} x {size[0]} pixels; 4096 x 2304'):
        Uploads().check(path)


@pytest.mark.parametrize('path', ['/search/video?k=1', '/add/video?file=new.mkv'])
def test_later_pictures_are_bounded_before_the_file_is_kept(folder, place, tmp_path, path):
    large = Image.new('L', (4096, 2400)), Image.new('L', (64, 64))
    jpegs = [io.BytesIO() for _ in large]
    for file, picture in zip(jpegs, large):
        picture.save(file, 'JPEG')
    with av.open(str(tmp_path / 'x.mkv'), 'w') as container:
        stream = container.add_stream('mjpeg', rate=10)
        stream.width, stream.height, stream.pix_fmt = 64, 64, 'yuvj420p'
        for number in range(10):
            packet = av.Packet(jpegs[number < 9].getvalue())
            packet.stream, packet.time_base, packet.is_keyframe = stream, Fraction(1, 1000), True
            packet.pts = packet.dts = 100 * number
            container.mux(packet)
    video, library = (tmp_path / 'x.mkv').read_bytes(), tmp_path / 'library'
    library.mkdir()
    with served(Gallery.open(place, library=library)) as client:
        status, _, said = client('POST', path, video, Authorization=f'Bearer {TOKEN}')
        assert status == 413 and 'pixels' in said['error'], said
    assert not [*library.iterdir()]


def test_what_is_no_video(tmp_path):
    for name, content in (('text', b'no video'), ('empty', b''), ('list', b'#EXTM3U\n/etc/x\n')):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(BrokenVideoError):
            Uploads().check(str(tmp_path / name))


def test_places():
    uploads = Uploads(at_once=2)
    with uploads.place(), uploads.place(), pytest.raises(Busy, match='2 videos are being searched'):
        with uploads.place():
            pass
    with uploads.place(), uploads.place():
        pass


def test_decoders_refuse_what_would_wait_for_long():
    decoders, go = Decoders(threads=1, limit=2), threading.Event()
    waiting = [decoders(lambda: go.wait(10)) for _ in range(2)]
    with pytest.raises(Busy, match='2 videos are waiting'):
        decoders(time.monotonic)
    go.set()
    assert all(one.result(10) for one in waiting)
    assert decoders(lambda: 7).result(10) == 7
    with pytest.raises(ZeroDivisionError):
        decoders(lambda: 1 / 0).result(10)
    decoders.close()
    with pytest.raises(Busy):
        decoders(time.monotonic)


def test_a_text_does_not_wait_for_a_video_that_is_read(folder, place, monkeypatch):
    gallery = Gallery.open(place)
    go, read = threading.Event(), gallery.encoder.read

    def slowly(*args, **kwargs):
        assert go.wait(20)
        return read(*args, **kwargs)

    monkeypatch.setattr(gallery.encoder, 'read', slowly)
    found = []
    with served(gallery, uploads=Uploads(pixels=100_000)) as client:
        video = (folder / 'd.mp4').read_bytes()
        threads = [
            threading.Thread(
                target=lambda: found.append(client('POST', '/search/video?k=1', video))
            )
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        while gallery.decoders._pool._work_queue.qsize() < 2:
            time.sleep(0.01)
        for _ in range(3):
            assert client.search(text='hello', k=1)['count'] == 7
        status, said = client.error('POST', '/search/video?k=1', video)
        assert status == 503 and '4 videos are being searched with already' in said
        go.set()
        for thread in threads:
            thread.join(20)
        assert [one[2]['hits'][0]['id'] for one in found] == ['d'] * 4


def test_a_large_video_is_refused_in_a_sentence(folder, place):
    with served(Gallery.open(place), uploads=Uploads(pixels=1000)) as client:
        video = (folder / 'd.mp4').read_bytes()
        status, said = client.error('POST', '/search/video?k=1', video)
        assert status == 413 and 'more than 1,000 pixels in all its frames' in said
        assert 'send a shorter part' in said and 'mmvtr-query' not in said


def test_a_video_that_does_not_arrive_is_not_waited_for(folder, place, monkeypatch):
    monkeypatch.setattr('mmvtr_gallery.serving.receiving.RECEIVING', -1)
    with served(Gallery.open(place)) as client:
        video = (folder / 'd.mp4').read_bytes()
        for _ in range(5):  # it holds no place
            status, said = client.error('POST', '/search/video?k=1', video)
            assert status == 408 and 'must arrive within' in said


@pytest.mark.parametrize(
    'path, kind', [('/search/video?k=1', 'video/mp4'), ('/search', 'application/json')]
)
@pytest.mark.parametrize('chunked', [False, True])
def test_who_hangs_up_leaves_no_traceback(place, capfd, path, kind, chunked):
    length = 'Transfer-Encoding: chunked' if chunked else 'Content-Length: 100000'
    head = f'POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {kind}\r\n{length}\r\n\r\n'
    begin = b'5\r\n{"tex\r\n' if chunked else b'{"text":'
    with served(Gallery.open(place)) as client:
        for _ in range(3):
            with socket.create_connection(('127.0.0.1', client.port)) as connection:
                connection.sendall(head.encode() + begin)
                time.sleep(0.05)
        assert client.search(text='x', k=1)['count'] == 7
        connection = http.client.HTTPConnection('127.0.0.1', client.port, timeout=10)
        connection.request('GET', '/video?id=a')
        connection.close()  # before the answer
        time.sleep(0.1)
        assert client.search(text='x', k=1)['count'] == 7
    assert capfd.readouterr().err == ''
