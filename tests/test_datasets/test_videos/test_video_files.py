"""Orientation, time and names of video files are what a player makes of them."""

import os
import struct

import av
import numpy as np
import pytest

from mmvtr.datasets.videos.video_files import BrokenVideoError, duration_of, pictures_span
from mmvtr.datasets.videos.video_io import decode_all, read_frames

A, B, C, D = 40, 100, 160, 220

#: Entries (a, b, c, d) of a display matrix, and what is then on screen: greys of the quarters.
ORIENTATIONS = {
    (1, 0, 0, 1): [[A, B], [C, D]],
    (-1, 0, 0, 1): [[B, A], [D, C]],  # mirrored left to right
    (1, 0, 0, -1): [[C, D], [A, B]],  # upside down, mirrored
    (-1, 0, 0, -1): [[D, C], [B, A]],  # half a turn
    (0, 1, -1, 0): [[C, A], [D, B]],  # a quarter clockwise
    (0, -1, 1, 0): [[B, D], [A, C]],  # a quarter counter-clockwise
    (0, 1, 1, 0): [[A, C], [B, D]],  # along the main diagonal
    (0, -1, -1, 0): [[D, B], [C, A]],  # along the other one
}


def every(times: np.ndarray) -> np.ndarray:
    return np.arange(len(times))


@pytest.fixture(scope='module')
def quarters(tmp_path_factory):
    """An mp4 of one picture, 64 x 96, whose quarters are A B over C D."""
    path = tmp_path_factory.mktemp('quarters') / 'clip.mp4'
    image = np.kron([[A, B], [C, D]], np.ones((32, 48)))[..., None].repeat(3, -1).astype(np.uint8)
    with av.open(str(path), 'w') as container:
        stream = container.add_stream('libx264', rate=25)
        stream.height, stream.width, stream.pix_fmt = 64, 96, 'yuv420p'
        container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format='rgb24')))
        container.mux(stream.encode())
    return path.read_bytes()


def turned(data: bytes, matrix: tuple, scale: int = 1) -> bytes:
    """The file with that matrix in its only track header, by the layout of ISO/IEC 14496-12."""
    place = data.index(b'tkhd') + 4 + 40  # version 0: flags, times, id, duration, layer, volume
    assert data[place - 40] == 0
    assert struct.unpack_from('>9i', data, place) == (65536, 0, 0, 0, 65536, 0, 0, 0, 1 << 30)
    a, b, c, d = (65536 // scale * x for x in matrix)
    return data[:place] + struct.pack('>9i', a, b, 0, c, d, 0, 0, 0, 1 << 30) + data[place + 36 :]


@pytest.mark.parametrize('scale', [1, 2])
@pytest.mark.parametrize('matrix', ORIENTATIONS)
def test_all_eight_orientations(tmp_path, quarters, matrix, scale):
    path = tmp_path / 'clip.mp4'
    path.write_bytes(turned(quarters, matrix, scale))
    (image,) = read_frames(str(path), every)
    expected = ORIENTATIONS[matrix]
    assert image.shape == ((64, 96, 3) if matrix[0] else (96, 64, 3)) and image.flags.c_contiguous
    height, width = image.shape[:2]
    found = [[image[h * height // 4, w * width // 4].mean() for w in (1, 3)] for h in (1, 3)]
    np.testing.assert_allclose(found, expected, atol=3)


def test_a_matrix_of_nothing_leaves_the_picture(tmp_path, quarters):
    path = tmp_path / 'clip.mp4'
    path.write_bytes(turned(quarters, (0, 0, 0, 0)))
    assert read_frames(str(path), every)[0].shape == (64, 96, 3)


@pytest.mark.parametrize('shift', [0.0, 30.0])
@pytest.mark.parametrize('suffix', ['.mp4', '.mov', '.mkv', '.ts'])
def test_seconds_are_those_of_the_file_and_not_of_the_picture(tmp_path, write_late, suffix, shift):
    path = write_late(tmp_path / f'clip{suffix}', late=2.0, shift=shift)
    times = []
    read_frames(path, lambda t: times.append(t) or np.array([0]))
    np.testing.assert_allclose(times[0], 2 + np.arange(40) / 10, atol=0.03)  # sound: 26 ms a packet
    for start, end, grey in ((2.1, 2.9, 30), (3.1, 3.9, 80), (5.1, 5.9, 180), (1.0, 2.9, 30)):
        greys = [frame.mean() for frame in read_frames(path, every, start=start, end=end)]
        np.testing.assert_allclose(greys, grey, atol=3)
        assert 7 <= len(greys) <= 10
        assert decode_all(path, start=start, end=end) == len(greys)
    with pytest.raises(BrokenVideoError, match='no frame between 0.0 s and 1.0 s: the video lasts'):
        read_frames(path, every, start=0.0, end=1.0)
    with pytest.raises(BrokenVideoError, match='shows its first picture at'):
        decode_all(path, end=1.5)
    assert duration_of(path) == pytest.approx(6.0, abs=0.15)
    assert pictures_span(path) == pytest.approx((2.0, 6.0), abs=0.15)


def test_sound_that_lasts_longer(tmp_path, write_late):
    path = write_late(tmp_path / 'clip.mp4', late=0.0, sound=9.0)
    assert pictures_span(path) == pytest.approx((0.0, 4.0), abs=0.01)
    assert duration_of(path) == pictures_span(path)[1]


def test_a_file_cut_inside_a_group_of_pictures(tmp_path, write_video):
    """The first pictures cannot be shown, but their time passes."""
    greys = list(range(10, 250, 4))
    path = write_video(tmp_path / 'whole.ts', greys, keyint=20)
    with av.open(str(path)) as container:
        places = [(p.pos, p.is_keyframe) for p in container.demux(video=0) if p.size]
    cut = tmp_path / 'cut.ts'
    cut.write_bytes(path.read_bytes()[places[8][0] // 188 * 188 :])
    with av.open(str(cut)) as container:
        shown = [frame.to_ndarray(format='rgb24').mean() for frame in container.decode(video=0)]
    assert 30 <= len(shown) <= 45
    assert [frame.mean() for frame in read_frames(str(cut), every)] == shown
    for place in (0, 3, len(shown) - 1):
        (one,) = read_frames(str(cut), lambda times, place=place: np.array([place]))
        assert one.mean() == shown[place]


@pytest.mark.parametrize(
    'name',
    [
        '10:30.mp4',
        'file:x.mp4',
        'http:a.mp4',
        'concat:a.mp4|b.mp4',
        'a?b#c%20.mp4',
        'caf\udce9.mp4',
    ],
)
def test_any_name_is_a_file(tmp_path, write_video, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    write_video(tmp_path / 'ok.mp4', [100, 150])
    os.rename('ok.mp4', name)
    assert len(read_frames(name, every)) == 2
    assert decode_all(name) == 2
    assert duration_of(name) == pytest.approx(0.2, abs=0.01)


def test_a_protocol_does_not_reach_another_file(tmp_path, write_video, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_video(tmp_path / 'ok.mp4', [100, 150])
    (tmp_path / 'async:ok.mp4').write_text('no video')
    with pytest.raises(BrokenVideoError, match='^async:ok.mp4: Invalid data'):
        read_frames('async:ok.mp4', every)
    with pytest.raises(FileNotFoundError, match='cache:ok.mp4'):
        duration_of('cache:ok.mp4')


@pytest.mark.parametrize(
    'suffix, read', [('.mkv', b'DURATION'), ('.mp4', b'Sound'), ('.avi', b'Lavf')]
)
def test_no_metadata_need_be_unicode(tmp_path, suffix, read):
    path = tmp_path / f'clip{suffix}'
    with av.open(str(path), 'w') as container:
        container.metadata.update(title='Sound', artist='Sound', comment='Sound')
        stream = container.add_stream('mpeg4', rate=10)
        stream.metadata.update(title='Sound', handler_name='Sound')
        stream.height, stream.width, stream.pix_fmt = 32, 48, 'yuv420p'
        for grey in (100, 150):
            image = np.full((32, 48, 3), grey, dtype=np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format='rgb24')))
        container.mux(stream.encode())
    data = path.read_bytes()
    assert read in data
    path.write_bytes(data.replace(read, read[:1] + b'\xe9\xff' + read[3:]))
    assert len(read_frames(str(path), every)) == 2
    assert duration_of(str(path)) == pytest.approx(0.2, abs=0.02)
