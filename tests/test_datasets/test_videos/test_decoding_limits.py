"""Limits hold for every picture that is decoded, whatever headers say."""

import io
import os
import resource
from fractions import Fraction

import av
import numpy as np
import pytest
from PIL import Image

from children import MP, in_child
from mmvtr.datasets.videos.decoding_limits import DecodingLimits, TooMuchToDecode, decoding_within
from mmvtr.datasets.videos.video_files import BrokenVideoError, duration_of
from mmvtr.datasets.videos.video_io import decode_all, read_frames

ROOMY = DecodingLimits(10**6, 10**9, 60.0)


def jpeg(width, height):
    file = io.BytesIO()
    Image.new('L', (width, height), 128).save(file, 'JPEG')
    return file.getvalue()


def pictures(path, sizes):
    """A video of JPEG pictures, whose header has the size of the first."""
    if path.suffix == '.mjpeg':
        path.write_bytes(b''.join(jpeg(*size) for size in sizes))
        return str(path)
    with av.open(str(path), 'w') as container:
        stream = container.add_stream('mjpeg', rate=10)
        stream.width, stream.height, stream.pix_fmt = *sizes[0], 'yuvj420p'
        for place, size in enumerate(sizes):
            packet = av.Packet(jpeg(*size))
            packet.stream, packet.time_base, packet.is_keyframe = stream, Fraction(1, 1000), True
            packet.pts = packet.dts = 100 * place
            container.mux(packet)
    return str(path)


@pytest.mark.parametrize('suffix', ['mkv', 'avi', 'mov', 'mjpeg'])
@pytest.mark.parametrize('place', [1, 5])
def test_a_later_picture_is_larger_than_allowed(tmp_path, suffix, place):
    sizes = [(64, 64)] * 6
    sizes[place] = (2048, 1024)
    path = pictures(tmp_path / f'x.{suffix}', sizes)
    with decoding_within(ROOMY), pytest.raises(TooMuchToDecode, match='more than 1,000,000 pixels'):
        decode_all(path)
    with pytest.raises((BrokenVideoError, TooMuchToDecode)):  # of several sizes
        decode_all(path)


def test_all_pictures_together_and_the_time_they_take(tmp_path, monkeypatch):
    path = pictures(tmp_path / 'x.mkv', [(64, 64)] * 10)
    with decoding_within(ROOMY._replace(pixels=10 * 64 * 64)):
        assert decode_all(path) == 10
    with decoding_within(ROOMY._replace(pixels=10 * 64 * 64 - 1)):
        with pytest.raises(TooMuchToDecode, match='its pictures have more than 40,959 pixels'):
            decode_all(path)
    with decoding_within(ROOMY._replace(seconds=0.0)):
        with pytest.raises(TooMuchToDecode, match='takes more than 0 s to decode'):
            decode_all(path)
    assert decode_all(path) == 10  # nothing is left of it


def refuse(path):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(TooMuchToDecode), decoding_within(DecodingLimits(10**6, 10**9, 60.0)):
        decode_all(path)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)


def test_no_memory_is_taken_for_what_is_refused(tmp_path):
    """A process of its own: 200 MB would be one such picture as RGB."""
    path = pictures(tmp_path / 'x.mkv', [(64, 64), (8192, 8192)])
    log = tmp_path / 'log'
    assert in_child(log, refuse, path) == 0, log.read_text()
    assert int(log.read_text()) < 50_000  # KiB


LISTS = {
    'ffconcat': 'ffconcat version 1.0\nfile pipe\n',
    'ffconcat_bom': '\ufeffffconcat version 1.0\nfile pipe\n',
    'hls': '#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\npipe\n#EXT-X-ENDLIST\n',
    'dash': '<?xml version="1.0"?>\n<MPD><Period><BaseURL>pipe</BaseURL></Period></MPD>\n',
    'sdp': 'v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\n'
    'm=video 5004 RTP/AVP 96\na=rtpmap:96 H264/90000\n',
}


def refused_as_a_list(path):
    with pytest.raises(BrokenVideoError, match='a list of other files, not a video'):
        duration_of(path)


@pytest.mark.parametrize('kind', LISTS)
@pytest.mark.parametrize('name', ['x.mp4', 'x.m3u8', 'x'])
def test_nothing_of_a_list_is_opened(tmp_path, kind, name):
    """What it names is a pipe without a writer, on which an opening would wait for ever."""
    os.mkfifo(tmp_path / 'pipe')
    (tmp_path / name).write_text(LISTS[kind])
    child = MP.Process(target=refused_as_a_list, args=(str(tmp_path / name),))
    child.start()
    child.join(60)
    child.kill()
    assert child.exitcode == 0


def test_ordinary_files_are_read_as_before(tmp_path):
    path = pictures(tmp_path / 'x.mkv', [(64, 64)] * 4)
    with decoding_within(ROOMY):
        frames = read_frames(path, lambda times: np.arange(len(times)))
    assert len(frames) == 4 and frames[0].shape == (64, 64, 3)
    assert duration_of(path) > 0.2
