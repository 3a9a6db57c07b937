"""Where the pictures of a file begin and end: by what was encoded, in ten containers."""

from fractions import Fraction

import av
import numpy as np
import pytest

from mmvtr.datasets import BrokenVideoError, TableDataset
from mmvtr.datasets.videos import video_files
from mmvtr.datasets.videos.video_files import duration_of, pictures_span
from mmvtr.datasets.videos.video_io import decode_all, read_frames

RATE, SOUND_RATE = 25, 48000
#: Encoders of pictures, of sound and of subtitles, by container; the first six have B-frames.
CONTAINERS = {
    'mp4': ('libx264', 'aac', 'mov_text'),
    'mov': ('libx264', 'aac', 'mov_text'),
    'mkv': ('libx264', 'aac', 'subrip'),
    'ts': ('libx264', 'mp2', None),
    'flv': ('libx264', 'libmp3lame', None),
    'mpg': ('mpeg2video', 'mp2', None),
    'webm': ('libvpx', 'libopus', 'webvtt'),
    'ogv': ('libvpx', 'libopus', None),
    'avi': ('mpeg4', 'pcm_s16le', None),
    'wmv': ('wmv2', 'wmav2', None),
}
#: Options of encoders; two reorder pictures: always three, or two, between others.
ENCODING = dict(
    libx264={'preset': 'ultrafast', 'g': '12', 'bf': '3', 'x264-params': 'b-adapt=0:scenecut=0'},
    mpeg2video={'g': '12', 'bf': '2', 'sc_threshold': '1000000000'},
    libvpx={'g': '12', 'deadline': 'realtime', 'cpu-used': '8'},
)
#: Six seconds at a constant rate, and a screen recording: a slide each five seconds at its end.
EVEN = [i / RATE for i in range(6 * RATE)]
SLIDES = [i / RATE for i in range(8)] + [5.0, 10.0, 15.0, 20.0]
#: Seconds by which a container may round, and by which encoders of sound begin early or late.
ROUNDED, PRIMED = 0.002, 0.045

STYLE = b"""[Script Info]
ScriptType: v4.00+

[V4+ Styles]
Format: Name, Fontname, Fontsize
Style: Default,Arial,16

[Events]
Format: Layer, Start, End, Style, Text
"""


def write(path, times, *, sound=None, subtitle=None, all_keys=False, options=None):
    """A file with a picture at each of the times, sound from 0 s, and a subtitle from 1 s on.

    Args:
        path: its suffix chooses container and encoders.
        times: seconds, multiples of ``1 / RATE``.
        sound, subtitle: seconds at which they end; None = there is none.
        all_keys: mark all pictures as key frames.
        options: of the writer.
    """
    coder, audio, text = CONTAINERS[path.suffix[1:]]
    form = 'ogg' if path.suffix == '.ogv' else None
    with av.open(str(path), 'w', format=form, options=options or {}) as file:
        stream = file.add_stream(coder, rate=RATE, options=ENCODING.get(coder, dict(g='12')))
        stream.height, stream.width, stream.pix_fmt = 48, 64, 'yuv420p'
        stream.bit_rate = 4_000_000  # in an mpg only a picture that begins a packet has a time
        sounds = None
        if sound is not None:
            sounds = file.add_stream(audio, rate=SOUND_RATE, layout='mono')
            sounds.bit_rate = 64_000
        if subtitle is not None:
            subtitles = file.add_stream(text)
            subtitles.codec_context.subtitle_header = STYLE
        packets = []
        noise = np.random.default_rng(0)
        for time in times:
            image = noise.integers(0, 255, (48, 64, 3), dtype=np.uint8)
            frame = av.VideoFrame.from_ndarray(image, format='rgb24')
            frame.pts, frame.time_base = round(time * RATE), Fraction(1, RATE)
            packets += stream.encode(frame)
        packets += stream.encode()
        for packet in packets:
            packet.is_keyframe |= all_keys
        if sounds is not None:
            packets += silence(sounds, sound)
        if subtitle is not None:
            said = b'said' if text != 'mov_text' else b'\0\4said'
            packets.append(timed(av.Packet(said), subtitles, 1.0, subtitle))
        for packet in sorted(packets, key=lambda p: float(p.dts * p.time_base)):
            file.mux(packet)
    return str(path)


def silence(stream, seconds):
    coder = stream.codec_context
    block = np.zeros((1, round(seconds * SOUND_RATE)), np.float32)
    frame = av.AudioFrame.from_ndarray(block, format='fltp', layout='mono')
    frame.rate, frame.pts, frame.time_base = SOUND_RATE, 0, Fraction(1, SOUND_RATE)
    cut = av.AudioResampler(coder.format.name, 'mono', SOUND_RATE, coder.frame_size or 1024)
    parts = [part for whole in (frame, None) for part in cut.resample(whole)]
    return [packet for part in [*parts, None] for packet in stream.encode(part)]


def timed(packet, stream, start, end):
    packet.stream, packet.time_base = stream, Fraction(1, 1000)
    packet.pts = packet.dts = round(1000 * start)
    packet.duration = round(1000 * (end - start))
    return packet


def times_read(path):
    """The clock of the frames that are read."""
    found = []
    read_frames(path, lambda times: found.append(times) or np.array([0]))
    return found[-1]


def check(path, begin, end, *, abs):
    assert pictures_span(path) == pytest.approx((begin, end), abs=abs)
    assert duration_of(path) == pictures_span(path)[1]
    times = times_read(path)
    assert pictures_span(path)[0] == pytest.approx(times[0], abs=1e-9)
    assert times[-1] < pictures_span(path)[1] <= times[-1] + 2 / RATE


@pytest.mark.parametrize('suffix', CONTAINERS)
def test_pictures_alone(tmp_path, suffix):
    check(write(tmp_path / f'x.{suffix}', EVEN), 0, 6, abs=ROUNDED)


@pytest.mark.parametrize('suffix', CONTAINERS)
def test_sound_that_lasts_longer(tmp_path, suffix):
    path = write(tmp_path / f'x.{suffix}', EVEN, sound=12.0)
    with av.open(path) as container:
        assert suffix == 'avi' or container.duration / av.time_base > 11.9
    check(path, 0, 6, abs=PRIMED)


@pytest.mark.parametrize('suffix', [suffix for suffix, (*_, text) in CONTAINERS.items() if text])
def test_a_subtitle_that_lasts_longer(tmp_path, suffix):
    check(write(tmp_path / f'x.{suffix}', EVEN, subtitle=20.0), 0, 6, abs=ROUNDED)


@pytest.mark.parametrize('suffix', CONTAINERS)
def test_pictures_that_begin_late(tmp_path, suffix):
    path = write(tmp_path / f'x.{suffix}', [time + 2 for time in EVEN], sound=9.0)
    begin = 0 if suffix == 'avi' else 2  # no stream of an avi begins late: the picture is there
    check(path, begin, 8, abs=PRIMED)


@pytest.mark.parametrize('suffix', [x for x in CONTAINERS if x != 'ogv'])  # counts frames of VP8
def test_slides(tmp_path, suffix):
    path = write(tmp_path / f'x.{suffix}', SLIDES)
    with av.open(path) as container:
        pts = [packet.pts for packet in container.demux() if packet.size]
    assert (pts != sorted(pts)) is (CONTAINERS[suffix][0] in ('libx264', 'mpeg2video'))
    check(path, 0, 20 + 1 / RATE, abs=ROUNDED)


def test_a_last_slide_is_shown_as_long_as_its_packet_says(tmp_path):
    path = str(tmp_path / 'x.mkv')
    with av.open(path, 'w') as file:
        stream = file.add_stream('libvpx', rate=RATE, options=dict(g='12'))
        stream.height, stream.width, stream.pix_fmt = 48, 64, 'yuv420p'
        image = np.zeros((48, 64, 3), np.uint8)
        packets = [*stream.encode(av.VideoFrame.from_ndarray(image)), *stream.encode()]
        for second in range(3):
            packet = av.Packet(bytes(packets[0]))
            packet.is_keyframe = True
            file.mux(timed(packet, stream, second, second + 1 if second < 2 else 30))
    assert pictures_span(path) == pytest.approx((0, 30), abs=ROUNDED)
    assert len(read_frames(path, lambda times: np.arange(len(times)), start=20.0, end=25.0)) == 1


def test_pictures_without_times_are_counted_on_one_clock(tmp_path):
    """The container has no times before its beginning."""
    early = [time - 0.72 for time in EVEN]
    path = write(tmp_path / 'x.mkv', early, options=dict(avoid_negative_ts='disabled'))
    with av.open(path) as container:
        assert sum(packet.pts is None for packet in container.demux() if packet.size) > 10
    check(path, 0, 6, abs=ROUNDED)


def test_a_bare_stream_is_counted(tmp_path, write_video):
    path = str(write_video(tmp_path / 'x.h264', range(0, 200, 10)))
    check(path, 0, 20 / RATE, abs=ROUNDED)  # without a rate: ffmpeg's 25


@pytest.mark.parametrize('suffix, options', [
    ('mp4', {}), ('mov', {}), ('mkv', {}), ('webm', {}),
    ('mp4', dict(movflags='frag_keyframe+empty_moov')), ('webm', dict(live='1')),
])  # fmt: skip
@pytest.mark.parametrize('other', [{}, dict(sound=12.0), dict(all_keys=True)])
def test_an_index_gives_what_all_packets_give(tmp_path, monkeypatch, suffix, options, other):
    times = EVEN[:-1]  # the last picture is decoded before others
    path = write(tmp_path / f'x.{suffix}', times, options=options, **other)
    counts, pictures = [], video_files._pictures

    def count(*args):
        counts.append(len(found := pictures(*args)))
        return found

    monkeypatch.setattr(video_files, '_pictures', count)
    found = pictures_span(path)
    assert options or sum(counts) < len(times) / 2, 'it is not read whole'
    counts.clear()
    monkeypatch.setattr(video_files, '_span_by_index', lambda *args: None)
    assert pictures_span(path) == found and counts == [len(times)]


@pytest.mark.parametrize('suffix', ['mp4', 'mkv', 'webm', 'avi', 'flv', 'wmv'])
def test_a_file_that_is_cut_has_no_end(tmp_path, suffix):
    path = write(tmp_path / f'x.{suffix}', EVEN, options=dict(movflags='faststart'))
    with open(path, 'r+b') as file:
        file.truncate(tmp_path.joinpath(f'x.{suffix}').stat().st_size * 2 // 3)
    with pytest.raises(BrokenVideoError, match=f'x.{suffix}: cut short'):
        pictures_span(path)


def test_a_file_of_zeros_at_its_end_is_not_shorter(tmp_path):
    path = tmp_path / 'x.mkv'
    data = open(write(path, EVEN), 'rb').read()
    path.write_bytes(data[: len(data) // 2] + bytes(len(data) - len(data) // 2))
    for read in (pictures_span, decode_all):
        with pytest.raises(BrokenVideoError, match=r'x.mkv: ends at \d\.\d\d s of 6.00 s'):
            read(str(path))


def test_what_has_no_seconds(tmp_path):
    with pytest.raises(FileNotFoundError, match='no such video: .*gone.mp4'):
        pictures_span(str(tmp_path / 'gone.mp4'))
    (tmp_path / 'a.mp4').write_bytes(b'nothing')
    with pytest.raises(BrokenVideoError, match='a.mp4: '):
        pictures_span(str(tmp_path / 'a.mp4'))


@pytest.mark.parametrize('suffix', ['mp4', 'mkv', 'ts'])
def test_a_row_behind_the_pictures_is_refused(tmp_path, suffix):
    write(tmp_path / f'x.{suffix}', EVEN, sound=12.0)

    def durations(start, end):
        (tmp_path / 't.csv').write_text(f'video,text,start,end\nx.{suffix},a,{start},{end}\n')
        dataset = TableDataset(
            'all', table=str(tmp_path / 't.csv'), videos=str(tmp_path), video_pipeline=[],
            text_pipeline=[], read_durations=True,
        )  # fmt: skip
        return dataset.videos[0]['duration']

    assert durations(4, 9) == pytest.approx(2, abs=PRIMED)
    with pytest.raises(ValueError, match="the clip begins after 'x.* has ended; expected 'start'"):
        durations(8, 9)
