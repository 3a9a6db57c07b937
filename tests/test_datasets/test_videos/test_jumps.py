"""A frame read alone is that of plain decoding, whatever the container says of key frames."""

import struct

import av
import numpy as np
import pytest

from campaign.packed import pack
from mmvtr.datasets.videos import video_io
from mmvtr.datasets.videos.video_io import decode_all, read_frames

COUNT = 48

#: Suffix, encoder, pixel format, options; a key frame every 16 frames.
FILES = {
    'mpeg4 mp4': ('.mp4', 'mpeg4', 'yuv420p', {}),
    'mpeg4 mp4, b-frames': ('.mp4', 'mpeg4', 'yuv420p', {'bf': '2'}),
    'mpeg4 avi, b-frames': ('.avi', 'mpeg4', 'yuv420p', {'bf': '2'}),
    'mpeg4 ts, b-frames': ('.ts', 'mpeg4', 'yuv420p', {'bf': '2'}),
    'mpeg1 mpg': ('.mpg', 'mpeg1video', 'yuv420p', {}),
    'mpeg1 m1v, b-frames': ('.m1v', 'mpeg1video', 'yuv420p', {'bf': '2'}),
    'h264 stream': ('.h264', 'libx264', 'yuv420p', {'bf': '2'}),
    'flv1 avi': ('.avi', 'flv', 'yuv420p', {}),
    'h264 mp4': ('.mp4', 'libx264', 'yuv420p', {'bf': '2'}),
    'h264 avi': ('.avi', 'libx264', 'yuv420p', {'bf': '3', 'b-pyramid': 'normal'}),
    'h264 mkv, open': ('.mkv', 'libx264', 'yuv420p', {'x264-params': 'open-gop=1:bframes=2'}),
    'wmv avi': ('.avi', 'wmv2', 'yuv420p', {}),
    'cinepak avi': ('.avi', 'cinepak', 'rgb24', {}),
    'msvideo1 avi': ('.avi', 'msvideo1', 'rgb555le', {}),
    'qtrle mov': ('.mov', 'qtrle', 'rgb24', {}),
    'rpza mov': ('.mov', 'rpza', 'rgb555', {}),
    'ffv1 mp4': ('.mp4', 'ffv1', 'yuv420p', {}),
    'vp8 webm': ('.webm', 'libvpx', 'yuv420p', {'auto-alt-ref': '1', 'lag-in-frames': '16'}),
    'msmpeg4 mkv': ('.mkv', 'msmpeg4', 'yuv420p', {}),
    'mjpeg avi': ('.avi', 'mjpeg', 'yuvj420p', {}),
}


def picture(number: int) -> np.ndarray:
    """Blocks that move two pixels a frame, and a bar that tells the number."""
    blocks = np.random.default_rng(0).integers(0, 255, (8, 12, 3))
    image = np.roll(np.kron(blocks, np.ones((8, 8, 1))), 2 * number, 1).astype(np.uint8)
    image[:8, : 2 * number] = 255
    return image


def write(path, codec, pixels, options):
    with av.open(str(path), 'w') as container:
        stream = container.add_stream(codec, rate=25, options={'g': '16', **options})
        stream.height, stream.width, stream.pix_fmt = 64, 96, pixels
        for number in range(COUNT):
            frame = av.VideoFrame.from_ndarray(picture(number), format='rgb24')
            container.mux(stream.encode(frame))
        container.mux(stream.encode())


def with_false_flags(data: bytes, suffix: str) -> bytes:
    """The same file, whose container calls every frame a key frame."""
    if suffix in ('.mp4', '.mov'):
        return data.replace(b'stss', b'free')
    new = bytearray(data)
    if suffix == '.avi':
        place = data.rindex(b'idx1')
        (size,) = struct.unpack_from('<I', data, place + 4)
        for entry in range(place + 8, place + 8 + size, 16):
            new[entry + 4] |= 0x10
    if suffix in ('.mkv', '.webm'):  # SimpleBlock: id, size, track 1, time, flags
        for width, marker in ((1, 0x80), (2, 0x40), (3, 0x20)):
            for place in range(len(data) - 8):
                head = data[place], data[place + 1] & -marker & 0xFF, data[place + 1 + width]
                if head == (0xA3, marker, 0x81) and data[place + width + 4] in (0, 0x80):
                    new[place + width + 4] |= 0x80
    return bytes(new)


@pytest.fixture(scope='module')
def made(tmp_path_factory):
    """By name of FILES and by whether its flags are false: path and plainly decoded frames."""
    folder, known = tmp_path_factory.mktemp('jumps'), {}

    def make(name: str, false: bool):
        if (name, false) not in known:
            suffix, *how = FILES[name]
            path = folder / f'{name.replace(" ", "_")}_{false}{suffix}'
            write(path, *how)
            if false:
                path.write_bytes(with_false_flags(path.read_bytes(), suffix))
            with av.open(str(path)) as container:
                plain = [f.to_ndarray(format='rgb24') for f in container.decode(video=0)]
            known[name, false] = str(path), plain
        return known[name, false]

    return make


@pytest.mark.parametrize('false', [False, True])
@pytest.mark.parametrize('name', FILES)
def test_frames_alone_are_those_of_plain_decoding(made, name, false):
    path, plain = made(name, false)
    assert len(plain) >= COUNT - 3
    counts = []
    for place in (0, 1, 15, 16, 17, 22, 31, 33, 40, len(plain) - 1):
        (one,) = read_frames(
            path, lambda times, p=place: counts.append(len(times)) or np.array([p])
        )
        np.testing.assert_array_equal(one, plain[place], err_msg=f'frame {place}')
    assert set(counts) == {len(plain)}
    few = np.linspace(0, len(plain) - 1, 5).astype(int)
    for one, place in zip(read_frames(path, lambda times: few), few):
        np.testing.assert_array_equal(one, plain[place])
    assert decode_all(path) == len(plain)


def test_flags_were_falsified(made):
    """As the demuxer of ffmpeg sees them, where a container has flags of its own."""
    for name in ('mpeg4 mp4', 'flv1 avi', 'cinepak avi', 'msmpeg4 mkv', 'qtrle mov'):
        flags = []
        for false in (False, True):
            with av.open(made(name, false)[0]) as container:
                flags.append(sum(p.is_keyframe for p in container.demux(video=0) if p.size))
        assert flags[0] < COUNT / 2 and flags[1] == COUNT, name


@pytest.mark.parametrize('name', ['mpeg4 mp4', 'h264 mp4', 'h264 mkv, open', 'mjpeg avi'])
def test_true_flags_still_save_decoding(made, name, monkeypatch):
    path, plain = made(name, False)
    shown, original = [], video_io.decoded
    monkeypatch.setattr(
        video_io, 'decoded', lambda packets: (shown.append(f) or f for f in original(packets))
    )
    read_frames(path, lambda times: np.array([len(plain) - 1]))
    assert len(shown) <= 18


def test_a_decoder_that_fails_after_a_jump(made, monkeypatch):
    """As those of RealMedia do: the file is whole, and is decoded from its first picture on."""
    path, plain = made('h264 mp4', False)
    original, jumps = video_io._from_here, []

    def failing(container, stream, listed):
        for frame in original(container, stream, listed):
            if frame.pts == listed.keys[-1] and not jumps:
                jumps.append(frame.pts)
                raise av.error.InvalidDataError(1094995529, 'Invalid data found')
            yield frame

    monkeypatch.setattr(video_io, '_from_here', failing)
    (last,) = read_frames(path, lambda times: np.array([len(plain) - 1]))
    np.testing.assert_array_equal(last, plain[-1])
    assert jumps


@pytest.mark.parametrize('name', ['sipr_5k0.mp4', 'rv30.mp4'])
def test_real_media(shared, name):
    path = shared / 'data/public_cases/11_realmedia' / name
    if not path.exists():
        pytest.skip(f'{path} is not there')
    with av.open(str(path)) as container:
        plain = [f.to_ndarray(format='rgb24') for f in container.decode(video=0)]
    for place in (0, len(plain) // 2, len(plain) - 1):
        (one,) = read_frames(str(path), lambda times, p=place: np.array([p]))
        np.testing.assert_array_equal(one, plain[place])
    assert decode_all(str(path)) == len(plain)


@pytest.mark.parametrize('suffix', ['.avi', '.mkv', '.mov'])
def test_packed_b_frames(tmp_path, suffix):
    """Two frames in a packet, then an empty one: times are the order of the packets."""
    path, packets = tmp_path / f'packed{suffix}', []
    with av.open(str(tmp_path / 'plain.avi'), 'w') as container:
        stream = container.add_stream('mpeg4', rate=25, options={'g': '12', 'bf': '1'})
        stream.height, stream.width, stream.pix_fmt = 64, 96, 'yuv420p'
        for number in range(COUNT):
            frame = av.VideoFrame.from_ndarray(picture(number), format='rgb24')
            packets += stream.encode(frame)
        packets += stream.encode()
        with av.open(str(path), 'w') as out:
            copy = out.add_stream_from_template(stream)
            for packet in pack(packets):
                packet.stream = copy
                out.mux(packet)
    with av.open(str(path)) as container:
        plain = [frame.to_ndarray(format='rgb24') for frame in container.decode(video=0)]
    if not plain and suffix == '.mov':
        pytest.skip('the FFmpeg of this PyAV (17) decodes no packed frames of a .mov')
    assert len(plain) >= COUNT - 2
    for place in (0, 1, 11, 12, 13, 24, 30, len(plain) - 1):
        (one,) = read_frames(str(path), lambda times, p=place: np.array([p]))
        np.testing.assert_array_equal(one, plain[place], err_msg=f'frame {place}')
