"""Times that start again or jump, lost and doubled packets, pixels and tracks as of players."""

from fractions import Fraction

import av
import numpy as np
import pytest
from av.stream import Disposition

from mmvtr.datasets.videos.video_files import BrokenVideoError, duration_of, pictures_span
from mmvtr.datasets.videos.video_io import decode_all, read_frames

RATE, SECONDS = 10, 3
CODECS = dict(ts='libx264', flv='flv1', mpg='mpeg2video', mkv='libx264', mp4='libx264', avi='mpeg4')


def every(times):
    return np.arange(len(times))


def at(*places):
    return lambda times: np.array(places)


def write(path, greys, *, size=(96, 64), ratio=None, later=0, texture=False):
    """A video of a grey a picture; ``later``: seconds by which the second half is shown later."""
    with av.open(str(path), 'w') as container:
        stream = container.add_stream(
            CODECS[path.suffix[1:]], rate=RATE if path.suffix != '.mpg' else 25
        )
        stream.width, stream.height, stream.pix_fmt = *size, 'yuv420p'
        stream.options = dict(g='5', bf='2' if path.suffix in ('.ts', '.mkv') else '0')
        if ratio is not None:
            stream.codec_context.sample_aspect_ratio = ratio
        noise = np.random.default_rng(0).integers(0, 60, (size[1], size[0], 3))
        packets = []
        for grey in greys:
            image = np.full((size[1], size[0], 3), grey) + (noise if texture else 0)
            frame = av.VideoFrame.from_ndarray(image.clip(0, 255).astype(np.uint8), format='rgb24')
            packets += stream.encode(frame)
        for place, packet in enumerate([*packets, *stream.encode()]):
            if later and place >= len(greys) // 2:
                shift = int(later / packet.time_base)
                packet.pts, packet.dts = packet.pts + shift, packet.dts + shift
            container.mux(packet)
    return path


def shown(path, start, end):
    """The greys of the pictures of some seconds."""
    frames = read_frames(str(path), every, start=start, end=end)
    return sorted({5 * round(frame.mean() / 5) for frame in frames})


def joined(folder, suffix):
    """Two recordings in one file, the second of which counts from zero again."""
    parts = [
        write(folder / f'{name}.{suffix}', np.repeat(greys, RATE)).read_bytes()
        for name, greys in (('a', [20, 50, 80]), ('b', [120, 160, 200]))
    ]
    head = 13 if suffix == 'flv' else 0  # its header, and the size of no tag before
    path = folder / f'joined.{suffix}'
    path.write_bytes(parts[0] + parts[1][head:])
    return path


@pytest.mark.parametrize('suffix', ['ts', 'flv'])
def test_times_that_start_again_are_joined(tmp_path, suffix):
    path = joined(tmp_path, suffix)
    assert duration_of(str(path)) == pytest.approx(2 * SECONDS, abs=0.15)
    assert pictures_span(str(path))[1] == pytest.approx(2 * SECONDS, abs=0.15)
    for second, grey in enumerate([20, 50, 80, 120, 160, 200]):
        assert shown(path, second + 0.05, second + 0.95) == [grey]
    assert len(read_frames(str(path), every)) == 2 * SECONDS * RATE == decode_all(str(path))


def test_a_jump_of_an_hour_is_joined_where_formats_jump(tmp_path):
    greys = np.repeat([20, 50, 80, 120, 160, 200], RATE)
    path = write(tmp_path / 'x.ts', greys, later=3600)
    assert duration_of(str(path)) == pytest.approx(6, abs=0.3)
    assert shown(path, 4.2, 4.8) == [160] and shown(path, 1.2, 1.8) == [50]


def test_elsewhere_a_picture_is_shown_for_that_long(tmp_path):
    greys = np.repeat([20, 50, 80, 120, 160, 200], RATE)
    path = write(tmp_path / 'x.mkv', greys, later=3600)
    assert shown(path, 3600 + 4.2, 3600 + 4.8) == [160]
    assert duration_of(str(path)) == pytest.approx(3606, abs=0.3)


@pytest.mark.parametrize('later', [2, 9])
def test_a_short_gap_is_a_gap(tmp_path, later):
    greys = np.repeat([20, 50, 80, 120, 160, 200], RATE)
    path = write(tmp_path / 'x.ts', greys, later=later)
    assert shown(path, later + 4.2, later + 4.8) == [160]


# -- transport streams whose packets are not all there, or there twice ----------------------------


def packets_of(path, pid=256):
    """The packets of a stream, by place in the file, and those with which a picture begins."""
    raw = path.read_bytes()
    blocks = [raw[i : i + 188] for i in range(0, len(raw), 188)]
    own = [n for n, b in enumerate(blocks) if (b[1] & 31) << 8 | b[2] == pid]
    return blocks, own, [n for n in own if blocks[n][1] & 0x40]


@pytest.fixture(scope='module')
def stream(tmp_path_factory):
    folder = tmp_path_factory.mktemp('ts')
    path = write(folder / 'x.ts', np.repeat([20, 50, 80, 120], RATE), texture=True)
    return path, read_frames(str(path), every)


@pytest.mark.parametrize('place', [0.1, 0.4, 0.7])
def test_a_packet_that_stands_twice_changes_no_picture(stream, tmp_path, place):
    path, expected = stream
    blocks, own, _ = packets_of(path)
    doubled = own[int(place * len(own))]
    copy = tmp_path / 'twice.ts'
    copy.write_bytes(b''.join(b + b if n == doubled else b for n, b in enumerate(blocks)))
    assert copy.read_bytes() != path.read_bytes()
    np.testing.assert_array_equal(read_frames(str(copy), every), expected)
    assert decode_all(str(copy)) == len(expected)


@pytest.mark.parametrize('group', [1, 3, 6])
def test_a_lost_packet_refuses_the_pictures_that_need_it_and_no_others(stream, tmp_path, group):
    path, expected = stream
    blocks, own, begins = packets_of(path)
    first = begins[5 * group]  # a group of five pictures begins
    lost = next(n for n in own if n > first + 1 and n not in begins)
    copy = tmp_path / 'lost.ts'
    copy.write_bytes(b''.join(b for n, b in enumerate(blocks) if n != lost))
    before, behind = 5 * group - 5, 5 * group + 8
    for place in {max(before, 0), behind}:
        (found,) = read_frames(str(copy), at(place))
        np.testing.assert_array_equal(found, expected[place])
    with pytest.raises(
        BrokenVideoError, match=r'lost.ts: damaged pictures at \d+\.\d\d s: data are'
    ):
        read_frames(str(copy), lambda times: np.array([5 * group + 1]))
    with pytest.raises(BrokenVideoError, match='damaged pictures at'):
        decode_all(str(copy))


@pytest.mark.parametrize('jump', [1, 7, 13])
def test_a_counter_that_starts_anew_between_pictures_is_no_damage(stream, tmp_path, jump):
    path, expected = stream
    blocks, _, begins = packets_of(path)
    copy = tmp_path / 'counted.ts'
    moved = [
        b if n < begins[20] or (b[1] & 31) << 8 | b[2] != 256
        else b[:3] + bytes([b[3] & 0xF0 | (b[3] + jump) & 0x0F]) + b[4:]
        for n, b in enumerate(blocks)
    ]  # fmt: skip
    copy.write_bytes(b''.join(moved))
    assert copy.read_bytes() != path.read_bytes()
    np.testing.assert_array_equal(read_frames(str(copy), every), expected)


# -- pixels and tracks ---------------------------------------------------------------------------


@pytest.mark.parametrize('suffix', ['mp4', 'mkv', 'ts'])
@pytest.mark.parametrize('ratio', ['4/3', '8/9', '16/11', '10/11', '1'])
def test_pixels_are_square(tmp_path, suffix, ratio):
    ratio = Fraction(ratio)
    path = write(tmp_path / f'x.{suffix}', [90] * 5, size=(144, 80), ratio=ratio)
    (frame,) = read_frames(str(path), lambda times: np.array([2]))
    assert frame.shape == (80, round(144 * ratio), 3)
    assert abs(frame.astype(int) - 90).max() <= 3


def test_pixels_that_cannot_be_count_as_square(tmp_path):
    path = write(tmp_path / 'x.mkv', [90] * 3, size=(16, 16), ratio=Fraction(1000, 1))
    assert read_frames(str(path), every)[0].shape == (16, 16, 3)


def test_memory_is_that_of_the_shown_pictures(tmp_path):
    path = write(tmp_path / 'x.mp4', [90] * 4, size=(90, 60), ratio=Fraction(4, 3))
    assert len(read_frames(str(path), every, max_bytes=4 * 3 * 120 * 60)) == 4
    with pytest.raises(BrokenVideoError, match='of 120 x 60 pixels'):
        read_frames(str(path), every, max_bytes=4 * 3 * 120 * 60 - 1)


@pytest.mark.parametrize('suffix', ['mkv', 'mp4'])
@pytest.mark.parametrize('default', [0, 1, 2])
def test_the_default_track_is_read(tmp_path, suffix, default):
    path = tmp_path / f'x.{suffix}'
    with av.open(str(path), 'w') as container:
        streams = []
        for number in range(3):
            stream = container.add_stream('libx264', rate=RATE)
            stream.width, stream.height, stream.pix_fmt = 64, 48, 'yuv420p'
            stream.disposition = Disposition.default if number == default else Disposition(0)
            streams.append(stream)
        for place in range(6):
            for number, stream in enumerate(streams):
                image = np.full((48, 64, 3), 40 + 60 * number, dtype=np.uint8)
                frame = av.VideoFrame.from_ndarray(image, format='rgb24')
                frame.pts, frame.time_base = place, Fraction(1, RATE)
                container.mux(stream.encode(frame))
        for stream in streams:
            container.mux(stream.encode())
    frames = read_frames(str(path), every)
    assert abs(np.mean(frames) - (40 + 60 * default)) < 3
