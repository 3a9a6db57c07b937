"""Stored frames against the videos that they are of, whatever the sampling; and damaged shards."""

import json
import pickle
import tarfile

import numpy as np
import pytest
from torch.utils.data import DataLoader

from mmvtr.datasets import (
    BrokenVideoError,
    ItemKey,
    LoadFrames,
    LoadVideo,
    ResizeShortSide,
    VideoTextDataset,
)
from mmvtr.datasets.annotation_values import Place
from mmvtr.datasets.videos import frame_store
from mmvtr.datasets.videos.frame_sampling import SAMPLING, at_rate, per_second
from mmvtr.datasets.videos.frame_store import SETTINGS, Settings, write_shard


def store(folder, videos, *, size=None, quality=90, fps=None, shards=1):
    folder.mkdir()
    settings = Settings(size, quality, fps)
    (folder / SETTINGS).write_text(json.dumps(settings._asdict()))
    for number in range(shards):
        write_shard(folder, f'{number:06d}', videos[number::shards], settings)
    return str(folder)


@pytest.fixture
def videos(tmp_path, write_video):
    """Clips of one grey level a frame; 'part' is 1.05 to 3.55 s of its file."""
    write_video(tmp_path / 'a.mp4', range(0, 240, 5))  # 48 frames, 10 a second
    write_video(tmp_path / 'b.mp4', range(10, 190, 20), size=(48, 32))  # 9 frames
    records = [dict(video_id='a', path='a.mp4'), dict(video_id='b.x/y', path='b.mp4')]
    records.append(dict(video_id='part', path='a.mp4', start=1.05, end=3.55))
    return [dict(r, path=str(tmp_path / r['path'])) for r in records]


def greys(load, video, seed=0):
    np.random.seed(seed)
    images = load.transform(dict(video))['imgs']
    assert all(image.dtype == np.uint8 and image.shape == images[0].shape for image in images)
    return [image.mean() for image in images]


@pytest.mark.parametrize('sampling', sorted(SAMPLING))
def test_the_frames_that_load_video_would_give(tmp_path, videos, sampling):
    path = store(tmp_path / 'frames', videos, shards=2)
    options = dict(num_frames=4, sampling=sampling)
    stored, decoded = LoadFrames(path, **options), LoadVideo(**options)
    stored.check(videos)
    for video in videos:
        for seed in range(3):
            expected = greys(decoded, video, seed)
            np.testing.assert_allclose(greys(stored, video, seed), expected, atol=1.5)
        shape = decoded.transform(dict(video))['imgs'][0].shape
        assert stored.transform(dict(video))['imgs'][0].shape == shape


@pytest.mark.parametrize('fps', [1, 3])
@pytest.mark.parametrize('num_frames', [2, 12])
def test_a_frame_a_second_is_enough_for_per_second(tmp_path, videos, fps, num_frames):
    path = store(tmp_path / 'frames', videos, fps=fps)
    options = dict(num_frames=num_frames, sampling='per_second')
    for video in videos:
        found, expected = (
            greys(load, video) for load in (LoadFrames(path, **options), LoadVideo(**options))
        )
        np.testing.assert_allclose(found, expected, atol=1.5)
    assert len(LoadFrames(path).store.clips['a'].times) < 48 / 2


def test_per_second_of_what_is_kept_of_any_video():
    rng = np.random.default_rng(0)
    for _ in range(300):
        gaps = rng.choice([0.001, 0.033, 0.04, 0.5, 0.999, 1.0, 1.3], rng.integers(1, 60))
        times = rng.choice([0.0, 0.1, 7.007]) + np.cumsum(gaps).round(3)
        for fps in (1, 2, 7):
            kept = at_rate(times, fps)
            assert np.all(np.diff(kept) > 0) and kept[-1] == len(times) - 1
            for num_frames in (1, 5, 1000):
                again = kept[per_second(times[kept], num_frames)]
                np.testing.assert_array_equal(again, per_second(times, num_frames))
    np.testing.assert_array_equal(at_rate(np.arange(5.0), None), range(5))


def test_at_rate_against_a_loop():
    times = np.array([0.0, 0.2, 0.49, 0.6, 1.1, 2.3, 2.35, 2.4])
    expected = []
    for tick in (0, 0.5, 1, 1.5, 2):
        expected.append(next(i for i, time in enumerate(times) if time >= tick - 1e-3))
    np.testing.assert_array_equal(at_rate(times, 2), sorted({*expected, 7}))
    np.testing.assert_array_equal(at_rate(times[:1], 2), [0])


def test_a_long_clip_is_decoded_in_parts(tmp_path, videos, monkeypatch):
    whole = store(tmp_path / 'whole', videos)
    monkeypatch.setattr(frame_store, 'AT_ONCE', 7)
    parts = store(tmp_path / 'parts', videos)
    for name in ('000000.tar', '000000.json'):
        assert (tmp_path / 'whole' / name).read_bytes() == (tmp_path / 'parts' / name).read_bytes()
    assert len(LoadFrames(parts).store.clips['a'].times) == 48 and whole != parts


def test_a_shard_is_a_tar_of_jpegs_that_webdataset_reads(tmp_path, videos):
    path = store(tmp_path / 'frames', videos)
    clips = LoadFrames(path).store.clips
    with tarfile.open(f'{path}/000000.tar') as tar:
        members = tar.getmembers()
    samples = {}
    for member in members:  # a sample is what stands before the first dot of the file's name
        key, _, kind = member.name.rpartition('/')[2].partition('.')
        assert kind.endswith('.jpg') and member.isfile()
        samples.setdefault(key, []).append(member)
    assert list(samples) == ['a', 'b%2Ex%2Fy', 'part']
    for clip, sample in zip(clips.values(), samples.values()):
        assert [m.offset_data for m in sample] == clip.offsets.tolist()
        assert [m.size for m in sample] == clip.bytes.tolist()
    np.testing.assert_allclose(clips['part'].times, np.arange(10, 36) / 10, atol=1e-3)


def test_size_and_quality(tmp_path, videos):
    rng = np.random.default_rng(0)
    path = store(tmp_path / 'small', videos, size=24, quality=95)
    images = LoadFrames(path).transform(dict(videos[0]))
    assert images['imgs'][0].shape == (24, 36, 3) and images['stored_size'] == 24
    same = ResizeShortSide(24).transform(images)['imgs']
    assert same[0] is images['imgs'][0]
    with pytest.raises(ValueError, match="frames of 'a' were stored with a short side of 24 pix"):
        ResizeShortSide(32).transform(images)
    large = store(tmp_path / 'large', videos, size=64)  # frames are never enlarged
    images = LoadFrames(large).transform(dict(videos[0]))
    assert images['imgs'][0].shape == (32, 48, 3)
    assert ResizeShortSide(64).transform(images)['imgs'][0].shape == (64, 96, 3)
    noise = rng.integers(0, 255, (40, 40, 3), dtype=np.uint8)
    sizes = [len(frame_store._jpeg(noise, quality)) for quality in (50, 90, 100)]
    assert sizes == sorted(sizes) and sizes[0] < sizes[2] / 2


def test_colours_are_rgb(tmp_path):
    image = np.zeros((16, 16, 3), np.uint8)
    image[..., 0] = 200
    with tarfile.open(tmp_path / 'x.tar', 'w') as tar:
        place = frame_store._append(tar, 'a', 0, frame_store._jpeg(image, 95))
    clip = frame_store._stored(
        dict(id='a', start=None, end=None, height=16, width=16, times=[0.0], places=[place]),
        tmp_path / 'x.tar',
        Place(tmp_path / 'x.json'),
    )
    with open(clip.shard, 'rb') as file:
        found = frame_store.FrameStore._picture(file, clip, 0, dict(video_id='a'))
    assert np.abs(found.astype(int) - image).max() < 8


# -- in a dataset ------------------------------------------------------------------------------


def say(results):
    return dict(results, token_ids=[1])


class Clips(VideoTextDataset):
    def __init__(self, records, load, **kwargs):
        self.records = records
        super().__init__([load, ResizeShortSide(16)], [say], **kwargs)

    def load_annotations(self):
        texts = [
            dict(text_id=v['video_id'], text='x', video_idx=[i]) for i, v in enumerate(self.records)
        ]
        return [dict(v) for v in self.records], texts


@pytest.mark.parametrize('sampling', ['segment_random', 'per_second_random'])
def test_random_frames_depend_on_the_key_alone_in_any_worker(tmp_path, videos, sampling):
    path = store(tmp_path / 'frames', videos)
    dataset = Clips(videos, LoadFrames(path, 3, sampling=sampling))
    keys = [ItemKey(5, epoch, i) for epoch in range(2) for i in range(3)]
    expected = [dataset[key]['video']['frames'] for key in keys]
    assert not np.array_equal(expected[0], expected[3])
    fresh = Clips(videos, LoadFrames(path, 3, sampling=sampling))
    for own in (dataset, fresh, pickle.loads(pickle.dumps(dataset))):
        for item, frames in zip(DataLoader(own, None, sampler=keys, num_workers=2), expected):
            np.testing.assert_array_equal(item['video']['frames'], frames)
    decoded = Clips(videos, LoadVideo(3, sampling=sampling))
    for key, frames in zip(keys, expected):
        np.testing.assert_allclose(decoded[key]['video']['frames'], frames, atol=4)


# -- what is not as it should be ---------------------------------------------------------------


@pytest.mark.parametrize('fps', [1, 2])
def test_too_few_frames_for_a_random_begin(tmp_path, videos, fps):
    path = store(tmp_path / 'frames', videos, fps=fps)
    LoadFrames(path, sampling='per_second').check(videos)
    with pytest.raises(ValueError, match=f'stored with {fps} frames? a second.*per_second_random'):
        LoadFrames(path, sampling='per_second_random').check(videos)


def test_no_store(tmp_path, videos):
    with pytest.raises(FileNotFoundError, match='none holds no stored frames'):
        LoadFrames(str(tmp_path / 'none')).check(videos)


def test_missing_videos_are_named(tmp_path, videos):
    load = LoadFrames(store(tmp_path / 'frames', videos[:2]))
    with pytest.raises(KeyError, match=r"no frames of 1 of 3 videos, e.g. \['part'\]"):
        load.check(videos)
    with pytest.raises(KeyError, match="no frames of video 'part'"):
        load.transform(dict(videos[2]))


def test_a_shard_that_is_cut_short(tmp_path, videos):
    path = store(tmp_path / 'frames', videos, shards=2)
    reader = LoadFrames(path)
    reader.check(videos)
    shard = tmp_path / 'frames' / '000000.tar'
    whole = shard.read_bytes()
    shard.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r'000000.tar has \d+ bytes, expected \d+: it is cut'):
        LoadFrames(path).check(videos)
    with pytest.raises(BrokenVideoError, match=r"000000.tar: picture \d+ of 'part' is cut short"):
        reader.transform(dict(videos[2]))  # while it is read
    shard.unlink()
    with pytest.raises(ValueError, match='000000.tar has 0 bytes'):
        LoadFrames(path).check(videos)


@pytest.mark.parametrize(
    ('change', 'message'),
    [
        (dict(height=99), r'picture 0 of .a. is \(32, 48\) pixels, expected \(99, 48\)'),
        (dict(places=[[512 * 8, 100]], times=[0.0]), 'picture 0 of .a. is no JPEG'),
    ],
)
def test_pictures_that_are_not_what_the_index_says(tmp_path, videos, change, message):
    path = store(tmp_path / 'frames', videos[:1])
    index = tmp_path / 'frames' / '000000.json'
    content = json.loads(index.read_text())
    content['clips'][0].update(change)
    index.write_text(json.dumps(content))
    with pytest.raises(BrokenVideoError, match=message):
        LoadFrames(path).transform(dict(videos[0]))


def test_another_part_of_the_file(tmp_path, videos):
    load = LoadFrames(store(tmp_path / 'frames', videos))
    with pytest.raises(ValueError, match=r"'part' was stored from 1.05 to 3.55 s, 1.05 to 3.0 s"):
        load.check([dict(videos[2], end=3.0)])


def test_a_broken_video_is_as_broken_as_it_was(tmp_path, videos):
    (tmp_path / 'bad.mp4').write_bytes(b'no video')
    bad = dict(video_id='bad', path=str(tmp_path / 'bad.mp4'))
    path = store(tmp_path / 'frames', [bad, *videos])
    with pytest.raises(BrokenVideoError, match='bad.mp4: '):
        LoadFrames(path).transform(dict(bad))
    dataset = Clips([bad, *videos], LoadFrames(path, 2), on_broken='skip')
    assert dataset[0]['broken'][0] == 'bad' and 'video' in dataset[1]


def test_pictures_stay_inside_the_shard(tmp_path, write_video):
    """Whatever the ids are: a tar is unpacked by others, too."""
    path = str(write_video(tmp_path / 'x.mp4', [0, 9]))
    names = ('../evil', '/evil', 'a/b', '..', 'a\0b')
    (tmp_path / 'store').mkdir()
    videos = [dict(video_id=name, path=path) for name in names]
    assert write_shard(tmp_path / 'store', '000000', videos, Settings(None, 90, None)) == 5
    with tarfile.open(tmp_path / 'store/000000.tar') as tar:
        members = tar.getnames()
    assert len(members) == 10 and not any('/' in m or '\0' in m or '..' in m for m in members)


def entry(**changes):
    return lambda index: index['clips'][1].update(changes)


INDICES = [
    (entry(id=7), "clip 1, 'id': expected an id"),
    (entry(id='../x'), "clip 1, 'id': expected an id"),
    (entry(id='a'), "clip 1: a second video 'a', the first is clip 0"),
    (entry(start='x'), "clip 1, 'start': expected a time in seconds, found 'x'"),
    (entry(end=float('nan')), "clip 1, 'end': expected a time in seconds"),
    (entry(height=-1), "clip 1, 'height': expected a number from 0, found -1"),
    (entry(width=10**400), "clip 1, 'width': expected a number from 0"),
    (entry(reason=['gone']), "clip 1, 'reason': expected a string"),
    (entry(times=[0.0, float('inf')]), "clip 1, 'times': expected finite numbers"),
    (entry(times=['0.0']), "clip 1, 'times': expected finite numbers"),
    (entry(times=[[0.0], 1.0]), "clip 1, 'times': expected finite numbers"),
    (entry(times=[0.0]), 'clip 1: expected times that increase, one for each of 9 places'),
    (lambda i: i['clips'][1]['times'].reverse(), 'clip 1: expected times that increase'),
    (entry(places=[[0, 1, 2]]), "clip 1, 'places': expected finite numbers, two each"),
    (entry(places=[[0.5, 1]]), "clip 1, 'places': expected finite numbers, two each"),
    (
        lambda i: i['clips'][1]['places'].__setitem__(8, [10**9, 3]),
        "clip 1, 'places': a picture lies outside",
    ),
    (lambda i: i['clips'][1]['places'].__setitem__(0, [-4, 3]), 'a picture lies outside'),
    (lambda i: i['clips'][1].pop('times'), "clip 1: expected a key 'times'"),
    (lambda i: i.pop('clips'), "expected a key 'clips'"),
    (lambda i: i.update(bytes='many'), "'bytes': expected a number from 0, found 'many'"),
    (lambda i: i.update(clips={}), "'clips': expected a list, found {}"),
    (lambda i: i['clips'].__setitem__(1, 3), 'clip 1: expected an object of keys and values'),
]


@pytest.mark.parametrize('change, message', INDICES, ids=[message for _, message in INDICES])
def test_an_index_that_is_damaged_is_named(tmp_path, videos, change, message):
    path = tmp_path / 'frames' / '000000.json'
    load = LoadFrames(store(path.parent, videos))
    index = json.loads(path.read_text())
    change(index)
    path.write_text(json.dumps(index))
    with pytest.raises(ValueError) as error:
        load.check(videos)
    assert str(error.value).startswith(f'{path}: ') and message in str(error.value)


@pytest.mark.parametrize('name', ['000000.json', SETTINGS])
@pytest.mark.parametrize(
    'content, message',
    [
        (b'', 'not valid json'),
        (b'{"bytes": 3', 'not valid json'),
        (b'[]', 'expected an object of keys and values'),
        (b'{"bytes": 1, "bytes": 2}', "a second key 'bytes'"),
        (b'{"a": ' * 100_000, 'nested too deeply'),
        (b'{"a": ' + b'9' * 5000 + b'}', 'not valid json'),
        (b'\xff\xfe', 'expected UTF-8, found UTF-16'),
    ],
)
def test_json_that_is_none(tmp_path, videos, name, content, message):
    load = LoadFrames(store(tmp_path / 'frames', videos))
    (tmp_path / 'frames' / name).write_bytes(content)
    with pytest.raises(ValueError, match=f'{name}: .*{message}'):
        load.check(videos)


@pytest.mark.parametrize(
    'change, message',
    [
        (dict(quality=None), "'quality': expected a number from 0, found None"),
        (dict(size=0), "'size': expected the numbers"),
        (dict(fps=2.5), "'fps': expected a number from 0"),
        (dict(more=1), "'more': expected the numbers"),
    ],
)
def test_settings_that_are_none(tmp_path, videos, change, message):
    path = tmp_path / 'frames' / SETTINGS
    load = LoadFrames(store(path.parent, videos))
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(ValueError, match=f'{SETTINGS}: {message}'):
        load.check(videos)


def test_a_clip_of_two_shards_is_named(tmp_path, videos):
    folder = tmp_path / 'frames'
    load = LoadFrames(store(folder, videos))
    write_shard(folder, '000007', videos[:1], load.store.settings)
    with pytest.raises(ValueError, match="000007.json: clip 0: a second video 'a', .*000000.json"):
        load.check(videos)
