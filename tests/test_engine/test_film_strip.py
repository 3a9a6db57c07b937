"""Frames to look at come from stored frames or from files; what cannot be read is called so."""

import json

import numpy as np
import pytest

from mmvtr.datasets import LoadFeatures, LoadFrames, LoadVideo
from mmvtr.datasets.videos.film_strip import film_strip
from mmvtr.datasets.videos.frame_store import SETTINGS, Settings, write_shard

GREYS = range(0, 220, 20)


@pytest.fixture
def video(tmp_path, write_video):
    """Eleven frames, ten a second, of 80 x 120 pixels."""
    return dict(
        video_id='a', path=str(write_video(tmp_path / 'a.mp4', GREYS, size=(80, 120))), duration=1.1
    )


def greys(strip):
    return strip.frames.mean((1, 2, 3))


def test_frames_of_a_file(video):
    strip = film_strip(video, [LoadVideo(num_frames=2)], num_frames=6, height=40)
    assert strip.frames.shape == (6, 40, 60, 3) and strip.frames.dtype == np.uint8
    np.testing.assert_allclose(greys(strip), GREYS[::2], atol=2)
    assert strip.lacking == ''
    part = film_strip(dict(video, start=0.45, end=0.75), [], num_frames=6)
    np.testing.assert_allclose(greys(part), [80, 100, 120, 140], atol=2)  # shown from .4 s on
    assert part.frames.shape[1:3] == (80, 120)  # small ones stay as they are


def test_stored_frames_come_first(tmp_path, video):
    (tmp_path / 'frames').mkdir()
    settings = Settings(None, 90, None)
    (tmp_path / 'frames' / SETTINGS).write_text(json.dumps(settings._asdict()))
    write_shard(tmp_path / 'frames', '000000', [video], settings)
    (tmp_path / 'a.mp4').unlink()
    strip = film_strip(video, [LoadFrames(str(tmp_path / 'frames'))], num_frames=3)
    np.testing.assert_allclose(greys(strip), [0, 100, 200], atol=2)


def test_what_cannot_be_read_is_called_so(tmp_path, video):
    np.save(tmp_path / 'a.npy', np.zeros((2, 3)))
    pipeline = [LoadFeatures(str(tmp_path))]
    assert len(film_strip(video, pipeline).frames) == 6  # features, and the files are there
    (tmp_path / 'a.mp4').write_bytes(b'no video')
    broken = film_strip(video, pipeline)
    (tmp_path / 'a.mp4').unlink()
    gone, nowhere = film_strip(video, pipeline), film_strip(dict(video_id='a'), pipeline)
    assert [len(strip.frames) for strip in (broken, gone, nowhere)] == [0, 0, 0]
    assert [strip.lacking for strip in (broken, gone, nowhere)] == ['broken'] + ['no frames'] * 2
