"""What a file says of its own size: files cut short are told from whole ones, never the reverse."""

import io
import shutil
import struct
from pathlib import Path

import av
import numpy as np
import pytest

from mmvtr.datasets.videos.stated_size import stated_size
from mmvtr.datasets.videos.video_io import BrokenVideoError, decode_all, read_frames

GREYS = range(10, 250, 6)  # 40 frames, 1.6 s

#: Suffix, encoder, options of the writer: containers that say how long they are.
TELLING = {
    'mp4': ('.mp4', 'libx264', {}),
    'faststart': ('.mp4', 'libx264', {'movflags': '+faststart'}),
    'indexed fragments': ('.mp4', 'libx264', {'movflags': 'dash+global_sidx'}),
    'mov': ('.mov', 'mpeg4', {}),
    '3gp': ('.3gp', 'mpeg4', {}),
    'avi': ('.avi', 'libx264', {}),
    'avi of pictures': ('.avi', 'mjpeg', {}),
    'mkv': ('.mkv', 'libx264', {}),
    'webm': ('.webm', 'libvpx', {}),
    'flv': ('.flv', 'libx264', {}),
    'wmv': ('.wmv', 'wmv2', {}),
}

#: The same, of those that do not.
SILENT = {
    'fragments': ('.mp4', 'libx264', {'movflags': 'frag_keyframe+empty_moov'}),
    'live webm': ('.webm', 'libvpx', {'live': '1'}),
    'flv without metadata': ('.flv', 'flv', {'flvflags': 'no_metadata'}),
    'ts': ('.ts', 'libx264', {}),
    'mpg': ('.mpg', 'mpeg2video', {}),
    'nut': ('.nut', 'mpeg4', {}),
}


def every(times: np.ndarray) -> np.ndarray:
    return np.arange(len(times))


def stated(data: bytes) -> int | None:
    return stated_size(io.BytesIO(data), len(data))


@pytest.fixture(scope='module')
def made(tmp_path_factory):
    """By name the path of a whole file of each container."""
    folder = tmp_path_factory.mktemp('containers')

    def make(name: str):
        suffix, codec, muxing = {**TELLING, **SILENT}[name]
        path = folder / f'{name.replace(" ", "_")}{suffix}'
        if not path.exists():
            _mux(path, codec, muxing)
        return path

    return make


def _mux(path: Path, codec: str, muxing: dict[str, str]) -> None:
    """25 frames a second, which every encoder knows; the upper third is noise."""
    with av.open(str(path), 'w', options=muxing) as container:
        stream = container.add_stream(codec, rate=25, options={'g': '10'})
        stream.height, stream.width = 48, 64
        stream.pix_fmt = 'yuvj420p' if codec == 'mjpeg' else 'yuv420p'
        for grey in GREYS:
            image = np.full((48, 64, 3), grey, dtype=np.uint8)
            image[:16] = np.random.default_rng(grey).integers(0, 255, (16, 64, 3))
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format='rgb24')))
        container.mux(stream.encode())


@pytest.mark.parametrize('name', [*TELLING, *SILENT])
def test_a_whole_file_is_read(made, name):
    path = made(name)
    assert len(read_frames(str(path), every)) == len(GREYS)
    assert decode_all(str(path)) == len(GREYS)


@pytest.mark.parametrize('name', TELLING)
def test_a_cut_file_is_refused_or_has_lost_nothing(made, tmp_path, name):
    """At 20 places and all ends of packets, where ffmpeg just stops."""
    data = made(name).read_bytes()
    with av.open(str(made(name))) as container:
        ends = [p.pos + p.size for p in container.demux() if p.size and p.pos]
    places = np.random.default_rng(0).integers(1, len(data), 20).tolist() + ends
    path = tmp_path / f'cut{made(name).suffix}'
    refused = 0
    for place in places:
        if place >= len(data):
            continue
        path.write_bytes(data[:place])
        try:
            assert len(read_frames(str(path), every)) == len(GREYS), place
        except BrokenVideoError as error:
            assert f'{path}: ' in str(error)
            refused += 1
    assert refused >= 0.8 * len(places)


@pytest.mark.parametrize('name', TELLING)
def test_what_a_cut_file_is_told(made, tmp_path, name):
    data = made(name).read_bytes()
    path = tmp_path / 'cut.bin'
    path.write_bytes(data[: len(data) * 2 // 3])
    if name in ('mp4', 'mov', '3gp'):  # the box of pictures comes first, ffmpeg needs the last
        assert stated(path.read_bytes()) > path.stat().st_size
    with pytest.raises(BrokenVideoError, match=r'cut.bin: cut short: [\d,]+ bytes of [\d,]+'):
        read_frames(str(path), every)


def test_every_size_is_at_most_that_of_the_file(made, shared):
    paths = [made(name) for name in (*TELLING, *SILENT)] + list(shared.glob('data/videos/*'))
    for path in paths:
        data = path.read_bytes()
        told = stated(data)
        assert told is None or len(data) - 300 <= told <= len(data), path
        assert told is not None or path.stem in (n.replace(' ', '_') for n in SILENT), path


@pytest.mark.parametrize('name', ['mp4', 'mkv', 'flv', 'wmv', 'ts', 'avi', 'indexed fragments'])
def test_no_bytes_make_it_fail(made, name):
    """Whatever a header holds, the answer is a number or none."""
    data = made(name).read_bytes()
    random = np.random.default_rng(1)
    for _ in range(300):
        mutant = bytearray(data)
        for place in random.integers(0, min(len(data), 1000), 8):
            mutant[place] = random.choice([0, 1, 8, 127, 128, 255])
        mutant = bytes(mutant[: random.integers(0, len(data))])
        assert stated(mutant) is None or stated(mutant) > -10


@pytest.mark.parametrize('packet, before', [(188, b''), (192, b'\0\0\0\0'), (204, b'')])
def test_a_transport_stream_is_cut_inside_a_packet(packet, before):
    whole = (before + b'G').ljust(packet, b'\1') * 5
    assert stated(whole) is None and stated(whole[: 4 * packet]) is None
    assert stated(whole[:-1]) == stated(whole[: 4 * packet + 5]) == len(whole)
    assert stated(whole + b'junk behind it') is None


def test_lists_of_a_large_avi_follow_each_other():
    def riff(kind: bytes, content: int) -> bytes:
        return b'RIFF' + struct.pack('<I', 4 + content) + kind + bytes(content)

    whole = riff(b'AVI ', 1000) + riff(b'AVIX', 501) + b'\0' + riff(b'AVIX', 100)
    assert stated(whole) == len(whole) - 8
    second = 1012 + 514  # begins, and ends with a byte to an even place
    assert stated(whole[:1600]) == len(whole) - 8, 'cut in the third'
    assert stated(whole[:1400]) == second - 8, 'cut in the second'
    assert stated(whole[:1000]) == 1012 - 8, 'cut in the first'
    assert stated(whole + b'junk' * 9) == len(whole) - 8
    live = b'RIFF\0\0\0\0AVI ' + bytes(100)
    assert stated(live) is None


def test_the_size_of_a_box_may_be_wide_or_open():
    start = struct.pack('>I4s', 8, b'ftyp')
    wide = start + struct.pack('>I4sQ', 1, b'mdat', 5_000_000_000)
    assert stated(wide) == 8 + 5_000_000_000
    assert stated(start + struct.pack('>I4s', 0, b'mdat') + bytes(100)) is None
    junk = struct.pack('>I4s', 1 << 30, b'\xff\xfejk')
    assert stated(start + struct.pack('>I4s', 20, b'moov') + bytes(12) + junk) == 28


def test_junk_behind_a_whole_file_is_no_matter(made, tmp_path):
    for name in ('mp4', 'avi', 'mkv', 'wmv'):
        path = tmp_path / made(name).name
        path.write_bytes(made(name).read_bytes() + bytes(1000))
        assert len(read_frames(str(path), every)) == len(GREYS), name


def test_a_renamed_container_is_known_by_its_content(made, tmp_path):
    for name in ('avi', 'flv', 'webm'):
        path = tmp_path / f'{name}.mp4'
        shutil.copy(made(name), path)
        assert len(read_frames(str(path), every)) == len(GREYS)
        path.write_bytes(path.read_bytes()[:-2000])
        with pytest.raises(BrokenVideoError, match='cut short'):
            read_frames(str(path), every)


def test_a_box_of_pictures_that_says_too_much_has_lost_nothing(made, tmp_path):
    """All packets that the index lists are there; with one byte less of them the file is cut."""
    for name in ('mov', 'faststart'):
        data = bytearray(made(name).read_bytes())
        place = data.rindex(b'mdat') - 4 if name == 'faststart' else data.index(b'mdat') - 4
        (size,) = struct.unpack_from('>I', data, place)
        struct.pack_into('>I', data, place, len(data) - place + 8)
        path = tmp_path / made(name).name
        path.write_bytes(data)
        assert stated(bytes(data)) == len(data) + 8
        if name == 'faststart':  # the index stands before the pictures
            assert len(read_frames(str(path), every)) == decode_all(str(path)) == len(GREYS)
            path.write_bytes(data[:-1])
        with pytest.raises(BrokenVideoError, match='cut short'):
            read_frames(str(path), every)
