"""Seconds of a file: by its header, or else by its packets."""

from contextlib import contextmanager

import av
import pytest

from mmvtr.datasets import BrokenVideoError
from mmvtr.datasets.videos import video_files
from mmvtr.datasets.videos.video_files import duration_of, open_video


@pytest.mark.parametrize('name', ['a.mp4', 'a.mkv', 'a.avi', 'a.h264'])
def test_seconds(tmp_path, write_video, name):
    path = str(write_video(tmp_path / name, range(0, 200, 10)))
    with av.open(path) as container:  # a bare stream has no header
        assert bool(container.duration) != name.endswith('h264')
    if not name.endswith('h264'):
        assert duration_of(path) == pytest.approx(2.0, abs=0.11)
        return
    with pytest.raises(BrokenVideoError, match='a.h264: no packet with a time'):
        duration_of(path)


def test_a_stream_without_a_header_of_its_length(tmp_path, write_video, monkeypatch):
    path = str(write_video(tmp_path / 'a.mkv', range(0, 200, 10)))

    class Bare:
        """The file as a live stream would give it."""

        duration = None

        def __init__(self, container):
            self.format, self.demux = container.format, container.demux
            self.start_time = container.start_time

    @contextmanager
    def bare(path):
        with open_video(path) as (container, stream):
            yield Bare(container), stream

    monkeypatch.setattr(video_files, 'open_video', bare)
    assert duration_of(path) == pytest.approx(2.0, abs=0.11)


def test_what_has_no_seconds(tmp_path):
    with pytest.raises(FileNotFoundError, match='no such video: .*gone.mp4'):
        duration_of(str(tmp_path / 'gone.mp4'))
    (tmp_path / 'a.mp4').write_bytes(b'nothing')
    with pytest.raises(BrokenVideoError, match='a.mp4: '):
        duration_of(str(tmp_path / 'a.mp4'))
