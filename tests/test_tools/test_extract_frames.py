"""tools/extract_frames.py: every video once, in whole shards, through kills and bad input."""

import fcntl
import json
import os
import runpy
import signal
import sys
import time

import numpy as np
import pytest

import toy
from children import MP, ROOT, in_child, run_tool
from mmvtr.datasets import LoadFrames, LoadVideo
from mmvtr.datasets.videos import frame_store
from mmvtr.storage import atomic

CONFIG = toy.RETRIEVER + """
text_pipeline = [dict(type='NoSuchTransform')]  # words are not looked at
frames = [dict(type='LoadVideo', num_frames=4, sampling='{sampling}'),
          dict(type='ResizeShortSide', size=16)]
train_dataloader = dict(
    dataset=dict(type='ToyVideos', names=['a', 'b', 'c'], text_pipeline=text_pipeline,
                 video_pipeline=frames))
test_dataloader = dict(
    dataset=dict(type='ToyVideos', names=['c', 'd', 'e'], text_pipeline=text_pipeline,
                 video_pipeline=frames))
"""  # fmt: skip
NAMES = 'abcde'


@pytest.fixture
def folder(tmp_path, write_video):
    (tmp_path / 'config.py').write_text(CONFIG.format(sampling='uniform'))
    for number, name in enumerate(NAMES):
        write_video(tmp_path / f'{name}.mp4', [40 * number + i for i in range(12 + 9 * number)])
    return tmp_path


def extract(folder, *arguments):
    return run_tool(
        folder, 'extract_frames.py', 'config.py', '--out', 'frames', '--processes', 2,
        '--shard-size', 2, *arguments,
    )  # fmt: skip


def assert_whole(folder, **options):
    """All five are there, as LoadVideo has them."""
    load, decode = LoadFrames(str(folder / 'frames'), 4, **options), LoadVideo(4, **options)
    load.check([dict(video_id=name) for name in NAMES])
    for name in NAMES:
        stored = load.transform(dict(video_id=name))['imgs']
        expected = decode.transform(dict(path=str(folder / f'{name}.mp4')))['imgs']
        assert stored[0].shape == (16, 24, 3)
        for own, image in zip(stored, expected, strict=True):
            assert abs(own.mean() - image.mean()) < 1.5
    return load.store


@pytest.mark.parametrize('sampling', ['uniform', 'per_second'])
def test_all_videos_in_shards(folder, sampling):
    (folder / 'config.py').write_text(CONFIG.format(sampling=sampling))
    code, printed = extract(folder)
    assert code == 0, printed
    assert '5 videos to do, 0 are there' in printed and 'done, 0 broken videos' in printed
    assert sorted(p.name for p in (folder / 'frames').glob('*.tar')) == [
        '000000.tar', '000001.tar', '000002.tar'
    ]  # fmt: skip
    store = assert_whole(folder, sampling=sampling)
    fps = 1 if sampling == 'per_second' else None
    assert store.settings == frame_store.Settings(16, 90, fps)
    assert len(store.clips['e'].times) == (6 if fps else 48)
    code, printed = extract(folder)
    assert code == 0 and '0 videos to do, 5 are there' in printed


def test_only_what_is_missing_is_made(folder):
    extract(folder, '--cfg-options', "train_dataloader.dataset.names=['a']")
    before = (folder / 'frames' / '000000.tar').read_bytes()
    code, printed = extract(folder)
    assert code == 0 and '1 videos to do, 4 are there' in printed
    assert (folder / 'frames' / '000000.tar').read_bytes() == before
    assert_whole(folder)


def test_options(folder):
    code, printed = extract(folder, '--size', 8, '--fps', 2, '--quality', 30)
    assert code == 0 and '2 frames a second' in printed
    store = LoadFrames(str(folder / 'frames')).store
    assert store.settings == frame_store.Settings(8, 30, 2)
    np.testing.assert_allclose(store.clips['a'].times, [0, 0.5, 1, 1.1], atol=1e-3)
    code, printed = extract(folder)
    assert code == 1 and 'holds frames of Settings(size=8, quality=30, fps=2)' in printed
    assert 'Traceback' not in printed


def kill_worker(folder):
    """The process that writes the second shard is killed before the shard is in its place."""
    original = os.replace

    def replace(source, target):
        if str(target).endswith('000001.json'):
            os.kill(os.getpid(), signal.SIGKILL)
        original(source, target)

    atomic.os.replace = replace
    os.chdir(folder)
    sys.argv = ['extract_frames.py', 'config.py', '--out', 'frames', '--processes', '1']
    sys.argv += ['--shard-size', '2']
    runpy.run_path(str(ROOT / 'tools' / 'extract_frames.py'), run_name='__main__')


def test_a_killed_process(folder):
    log = folder / 'log.txt'
    assert in_child(log, kill_worker, folder) == 1
    assert 'a process was killed' in log.read_text() and 'Traceback' not in log.read_text()
    found = sorted(p.name.split('.')[:2] for p in (folder / 'frames').glob('0*'))
    assert found == [['000000', 'json'], ['000000', 'tar'], ['000001', 'json'], ['000001', 'tar']]
    assert not (folder / 'frames/000001.json').exists(), 'only a part of it'
    code, printed = extract(folder)
    assert code == 0 and '3 videos to do, 2 are there' in printed
    assert_whole(folder)
    assert not list((folder / 'frames').glob('*.part'))


def get_stuck(folder):
    """A run whose process that reads c.mp4 does not come back."""
    original = frame_store.read_frames

    def stop(path, *args, **kwargs):
        if path == 'c.mp4':
            open('stuck', 'w').close()
            time.sleep(600)
        return original(path, *args, **kwargs)

    frame_store.read_frames = stop
    os.chdir(folder)
    sys.argv = ['x', 'config.py', '--out', 'frames', '--processes', '2', '--shard-size', '2']
    runpy.run_path(str(ROOT / 'tools' / 'extract_frames.py'), run_name='__main__')


def test_a_killed_run_leaves_no_process_that_holds_the_folder(folder):
    run = MP.Process(target=get_stuck, args=(folder,))
    run.start()
    until(lambda: (folder / 'stuck').exists())
    code, printed = extract(folder)
    assert code == 1 and 'another run is writing to frames' in printed
    run.kill()
    run.join()
    until(lambda: is_free(folder / 'frames' / 'lock'))
    code, printed = extract(folder)
    assert code == 0, printed
    assert_whole(folder)


def until(condition):
    for _ in range(3000):  # of a busy machine
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError('waited for five minutes')


def is_free(path):
    with open(path) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
    return True


def test_broken_and_missing_videos(folder):
    (folder / 'b.mp4').write_bytes(b'no video')
    code, printed = extract(folder)
    assert code == 0 and '1 broken videos stored as such' in printed and 'b.mp4: ' in printed
    code, printed = extract(folder)
    assert '0 videos to do' in printed and 'b.mp4: ' in printed  # said again, not tried again
    (folder / 'b.mp4').unlink()
    code, printed = extract(folder)
    assert code == 1 and 'b.mp4' in printed and 'Traceback' not in printed


def test_a_damaged_shard_is_named(folder):
    extract(folder)
    shard = folder / 'frames' / '000001.tar'
    shard.write_bytes(shard.read_bytes()[:700])
    code, printed = extract(folder)
    assert code == 1 and '000001.tar has 700 bytes' in printed and 'Traceback' not in printed
    shard.unlink()
    (folder / 'frames' / '000001.json').unlink()
    assert extract(folder)[0] == 0
    assert_whole(folder)


def test_configs_that_have_nothing_to_decode(folder):
    text = (folder / 'config.py').read_text().replace('LoadVideo', 'LoadFrames')
    (folder / 'config.py').write_text(text)
    code, printed = extract(folder)
    assert code == 1 and 'no video pipeline of config.py has LoadVideo' in printed


@pytest.mark.parametrize('option', ['--quality=0', '--fps=0', '--shard-size=0'])
def test_options_out_of_range(folder, option):
    code, printed = extract(folder, option)
    name = option.split('=')[0]
    told = f'{name} must be from 1' if name == '--quality' else f'{name}: an integer of 1 or more'
    assert code == 2 and told in printed


def test_one_id_of_two_clips(folder):
    text = (folder / 'config.py').read_text()
    data = """
from mmvtr.registry import DATASETS
from toy import ToyVideos
@DATASETS.register_module()
class Cut(ToyVideos):
    def load_annotations(self):
        videos, texts = super().load_annotations()
        return [dict(v, end=1.0) for v in videos], texts
"""
    (folder / 'cut.py').write_text(data)
    text = f'import sys\nsys.path.insert(0, {str(folder)!r})\n{text}'
    text = text.replace("imports=['toy']", "imports=['toy', 'cut']")
    (folder / 'config.py').write_text(text + "test_dataloader['dataset']['type'] = 'Cut'\n")
    code, printed = extract(folder)
    assert code == 1 and 'Traceback' not in printed
    assert "'video_id': 'c'" in printed and 'but another set has' in printed
    assert json.dumps(1.0) in printed
