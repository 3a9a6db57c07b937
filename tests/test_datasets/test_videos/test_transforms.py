"""Transforms against PIL, numpy and the official tokens; and mmcv's own in our pipelines."""

import h5py
import numpy as np
import pytest
from mmcv.transforms import TransformBroadcaster
from PIL import Image

from mmvtr.datasets import (
    BrokenVideoError,
    CenterCrop,
    CLIPTokenize,
    HFTokenize,
    LoadFeatures,
    LoadVideo,
    RandomRoll,
    ResizeShortSide,
    VideoTextDataset,
    WordTokenize,
)
from mmvtr.registry import TRANSFORMS


@pytest.fixture
def imgs():
    rng = np.random.default_rng(0)
    coarse = rng.integers(0, 256, (3, 15, 20, 3), dtype=np.uint8)
    return [np.asarray(Image.fromarray(img).resize((80, 60))) for img in coarse]


@pytest.mark.parametrize('size', [32, 60, 90])
def test_resize_is_pils_bicubic(imgs, size):
    found = ResizeShortSide(size).transform(dict(imgs=imgs))['imgs']
    for img, old in zip(found, imgs):
        width = int(size * 80 / 60)
        expected = np.asarray(Image.fromarray(old).resize((width, size), Image.Resampling.BICUBIC))
        assert img.shape == (size, width, 3) and img.dtype == np.uint8
        assert np.abs(img.astype(int) - expected).max() <= 2


def test_resize_measures_the_short_side(imgs):
    tall = [img.transpose(1, 0, 2).copy() for img in imgs]
    assert ResizeShortSide(30).transform(dict(imgs=tall))['imgs'][0].shape == (40, 30, 3)


def test_center_crop(imgs):
    found = CenterCrop(20).transform(dict(imgs=imgs))['imgs']
    np.testing.assert_array_equal(found, [img[20:40, 30:50] for img in imgs])
    with pytest.raises(ValueError, match=r'CenterCrop\(61\): the image is smaller, 60 x 80'):
        CenterCrop(61).transform(dict(imgs=imgs))


def test_random_roll_shifts_all_frames_alike(imgs):
    np.random.seed(0)
    found = RandomRoll().transform(dict(imgs=imgs))['imgs']
    np.random.seed(0)
    shift = np.random.randint((60, 80))
    assert tuple(shift) != (0, 0)
    for img, old in zip(found, imgs):
        rows, columns = np.arange(60) - shift[0], np.arange(80) - shift[1]
        np.testing.assert_array_equal(img, old[rows[:, None] % 60, columns % 80])


def test_load_video_and_its_check(tmp_path, write_video):
    greys = list(range(0, 240, 8))
    path = str(write_video(tmp_path / 'clip.mp4', greys))
    load = TRANSFORMS.build(dict(type='LoadVideo', num_frames=3, sampling='per_second'))
    found = load.transform(dict(path=path, start=1.0))['imgs']
    assert [round(img.mean() / 8) for img in found] == [10, 20]
    load.check([dict(path=path)])
    lost = [dict(path=str(tmp_path / f'{name}.mp4')) for name in 'abcde']
    with pytest.raises(
        FileNotFoundError, match='5 of 6 video files are missing: .*a.mp4.*c.mp4, .'
    ):
        load.check([dict(path=path), *lost])
    with pytest.raises(FileNotFoundError, match='1 of 1 video files are missing: nowhere'):
        load.check([dict(path='nowhere/clip.mp4')])
    with pytest.raises(ValueError, match='frame sampling'):
        LoadVideo(sampling='dense')


@pytest.fixture(params=['npy', 'hdf5'])
def store(request, tmp_path):
    """Features [10, 4] of the videos a and b, and a broken entry, in both layouts."""
    arrays = dict(a=np.arange(40.0).reshape(10, 4), b=np.ones((2, 4)), flat=np.ones(4))
    if request.param == 'npy':
        for name, array in arrays.items():
            np.save(tmp_path / f'{name}.npy', array)
        return str(tmp_path)
    with h5py.File(tmp_path / 'features.h5', 'w') as file:
        for name, array in arrays.items():
            file[name] = array
    return str(tmp_path / 'features.h5')


def test_load_features(store):
    whole = LoadFeatures(store).transform(dict(video_id='a'))['features']
    assert whole.shape == (10, 4) and whole.dtype == np.float32
    some = LoadFeatures(store, num_frames=4).transform(dict(video_id='a'))['features']
    np.testing.assert_array_equal(some[:, 0], [0, 12, 24, 36])
    with pytest.raises(BrokenVideoError, match="'flat': expected .F, D. with F > 0, found .4"):
        LoadFeatures(store).transform(dict(video_id='flat'))


@pytest.mark.parametrize(
    'columns, expected',
    [([(0, 4)], [0, 1, 2, 3]), ([(1, 3)], [1, 2]), ([(0, 1), (3, 4)], [0, 3]), ([[2, 4]], [2, 3])],
)
def test_some_columns_of_features(store, columns, expected):
    load = LoadFeatures(store, columns=columns, num_frames=4)
    found = load.transform(dict(video_id='a'))['features']
    np.testing.assert_array_equal(found, np.arange(40).reshape(10, 4)[[0, 3, 6, 9]][:, expected])


def test_columns_beyond_the_features_and_none(store):
    load = LoadFeatures(store, columns=[(0, 2), (3, 5)])
    with pytest.raises(ValueError, match="columns go up to 5, but the features of 'a' are 4 wide"):
        load.transform(dict(video_id='a'))
    for columns in ([], [(2, 2)], [(0, 1), (3, 2)], [(-1, 2)]):
        with pytest.raises(ValueError, match='expected pairs .first, last. with first < last'):
            LoadFeatures(store, columns=columns)


@pytest.fixture
def stores(tmp_path):
    """Three of video a: 10 and 10 frames of one rate, and 5 of half the rate, in both layouts."""
    arrays = dict(
        fast=np.arange(40.0).reshape(10, 4), half=np.arange(10, dtype=np.float16).reshape(5, 2)
    )
    for name, array in arrays.items():
        (tmp_path / name).mkdir()
        np.save(tmp_path / name / 'a.npy', array)
    with h5py.File(tmp_path / 'audio.h5', 'w') as file:
        file['a'] = np.arange(10)[:, None] / 10
    return dict(
        fast=str(tmp_path / 'fast'), audio=str(tmp_path / 'audio.h5'), half=str(tmp_path / 'half')
    )


def test_features_of_several_stores_stand_side_by_side(stores):
    load = TRANSFORMS.build(dict(type='LoadFeatures', path=[stores['fast'], stores['audio']]))
    found = load.transform(dict(video_id='a'))['features']
    assert found.shape == (10, 5) and found.dtype == np.float32
    np.testing.assert_array_equal(found[:, :4], np.arange(40).reshape(10, 4))
    np.testing.assert_allclose(found[:, 4], np.arange(10) / 10, rtol=1e-6)


def test_stores_of_other_rates_meet_in_num_frames(stores):
    load = LoadFeatures([stores['fast'], stores['half']], num_frames=3)
    found = load.transform(dict(video_id='a'))['features']
    np.testing.assert_array_equal(found[:, 0], [0, 16, 36])  # rows 0, 4 and 9 of 10
    np.testing.assert_array_equal(found[:, 4], [0, 4, 8])  # rows 0, 2 and 4 of 5


def test_random_rows_of_stores_of_one_length_are_the_same(stores):
    paths = [stores['fast'], stores['half'], stores['audio']]
    load = LoadFeatures(paths, num_frames=4, sampling='segment_random')
    for seed in range(20):
        np.random.seed(seed)
        found = load.transform(dict(video_id='a'))['features']
        np.testing.assert_allclose(found[:, 6] * 10, found[:, 0] / 4, rtol=1e-6)


@pytest.mark.parametrize('num_frames, found', [(None, '10 in .*fast, 5 in'), (8, '8 in .*fast, 5')])
def test_uneven_stores_name_the_video_and_the_lengths(stores, num_frames, found):
    load = LoadFeatures([stores['fast'], stores['half']], num_frames=num_frames)
    with pytest.raises(
        BrokenVideoError, match=f"features of 'a': {found} .*half rows with num_frames={num_frames}"
    ):
        load.transform(dict(video_id='a'))


def test_every_store_is_checked(stores):
    load = LoadFeatures([stores['fast'], stores['audio']])
    load.check([dict(video_id='a')])
    np.save(stores['fast'] + '/b.npy', np.ones((1, 4)))
    with pytest.raises(KeyError, match=r"audio.h5: no features of 1 of 2 videos, e.g. \['b'\]"):
        load.check([dict(video_id='a'), dict(video_id='b')])
    with pytest.raises(ValueError, match='LoadFeatures: path is an empty list'):
        LoadFeatures([])


def test_load_features_check(store):
    LoadFeatures(store).check([dict(video_id='a'), dict(video_id='b')])
    with pytest.raises((KeyError, FileNotFoundError), match='1 of 2 .*lost'):
        LoadFeatures(store).check([dict(video_id='a'), dict(video_id='lost')])


def test_load_features_of_a_damaged_file(tmp_path):
    (tmp_path / 'a.npy').write_bytes(b'\x93NUMPY\x01\x00')
    with pytest.raises(BrokenVideoError, match="features of 'a'"):
        LoadFeatures(str(tmp_path)).transform(dict(video_id='a'))
    with pytest.raises(FileNotFoundError, match='no such feature file'):
        LoadFeatures(str(tmp_path / 'none.h5')).check([])


def test_clip_tokens_are_the_official_ones(shared):
    golden = np.load(shared / 'golden/clip4clip_tokenizer.npz')
    tokenize = CLIPTokenize(context_length=32)
    for caption, ids, mask in zip(golden['captions'], golden['ids'], golden['mask']):
        found = tokenize.transform(dict(text=str(caption)))['token_ids']
        np.testing.assert_array_equal(found, ids[mask.astype(bool)])


def test_clip_tokens_truncate_before_the_end():
    found = CLIPTokenize(5).transform(dict(text='A dog and a dog and a dog'))['token_ids']
    assert found.dtype == np.int64 and len(found) == 5
    assert (found[0], found[-1]) == (49406, 49407) and found[-1] == found.max()


def test_clip_pieces():
    tokenize = CLIPTokenize()
    ids = tokenize.transform(dict(text='A man plays his accordion, caf\u00e9 xqzt'))['token_ids']
    pieces = tokenize.pieces(ids.tolist())
    assert pieces[:6] == ['[SOT]', 'a', 'man', 'plays', 'his', 'accordion']
    assert pieces[-1] == '[EOT]' and len(pieces) == len(ids)
    assert ''.join(p if p.endswith('-') else p + ' ' for p in pieces[1:-1]).replace('-', '') == (
        'a man plays his accordion , caf\u00e9 xqzt '
    )
    assert any(p.endswith('-') for p in pieces)


@pytest.fixture
def vocab(tmp_path):
    path = tmp_path / 'vocab.txt'
    path.write_text('red\nball\nrolls\n')
    return str(path)


def test_word_tokens(vocab):
    tokenize = WordTokenize(vocab, context_length=4)
    assert tokenize.transform(dict(text_id='0', text='Ball rolls'))['token_ids'].tolist() == [
        3,
        1,
        2,
        4,
    ]
    long = tokenize.transform(dict(text_id='0', text='red ball rolls'))['token_ids']
    assert long.tolist() == [3, 0, 1, 4]
    assert tokenize.pieces(long.tolist()) == ['[SOT]', 'red', 'ball', '[EOT]']


def test_unknown_words_are_named_at_construction(vocab):
    texts = [dict(text_id='t0', text='red ball'), dict(text_id='t1', text='red cube flies')]
    with pytest.raises(KeyError, match=r"text 't1': words \['cube', 'flies'\] are not in .*vocab"):
        WordTokenize(vocab).check(texts)


def test_hf_tokens_from_a_local_folder(tmp_path):
    words = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]', 'a', 'dog', 'runs']
    (tmp_path / 'vocab.txt').write_text('\n'.join(words))
    (tmp_path / 'config.json').write_text('{"model_type": "bert"}')
    tokenize = HFTokenize(str(tmp_path), max_length=4)
    assert tokenize.transform(dict(text='A dog'))['token_ids'].tolist() == [2, 5, 6, 3]
    assert tokenize.transform(dict(text='a dog runs'))['token_ids'].tolist() == [2, 5, 6, 3]
    assert tokenize.transform(dict(text='a'))['token_ids'].dtype == np.int64
    assert tokenize.pieces([2, 5, 6, 3]) == ['[CLS]', 'a', 'dog', '[SEP]']


def test_hf_tokenizer_that_does_not_exist(tmp_path, monkeypatch):
    monkeypatch.setenv('HF_HUB_OFFLINE', '1')
    with pytest.raises(OSError, match='neither a local tokenizer folder nor a name'):
        HFTokenize(str(tmp_path / 'none'))


class OneClip(VideoTextDataset):
    """A single rendered clip with a caption, through the pipelines of a config."""

    def __init__(self, path, **kwargs):
        self.path = path
        super().__init__(text_pipeline=[dict(type='CLIPTokenize')], **kwargs)

    def load_annotations(self):
        texts = [dict(text_id='0', text='a clip', video_idx=[0])]
        return [dict(video_id='clip', path=self.path)], texts


def test_mmcv_transforms_work_in_a_pipeline(tmp_path, write_video):
    path = str(write_video(tmp_path / 'clip.mp4', range(0, 100, 10), size=(32, 64)))
    flip = dict(
        type='TransformBroadcaster',
        mapping=dict(img='imgs'),
        auto_remap=True,
        share_random_params=True,
        transforms=[dict(type='Resize', scale=(16, 8)), dict(type='RandomFlip', prob=0.5)],
    )
    dataset = OneClip(path, video_pipeline=[dict(type='LoadVideo', num_frames=4), flip])
    assert dataset[0]['video']['frames'].shape == (4, 3, 8, 16)
    assert isinstance(TRANSFORMS.build(flip), TransformBroadcaster)


def test_the_clip_pipeline(tmp_path, write_video):
    path = str(write_video(tmp_path / 'clip.mp4', range(0, 100, 10), size=(32, 64)))
    steps = [
        dict(type='LoadVideo', num_frames=4, sampling='segment_random'),
        dict(type='ResizeShortSide', size=24),
        dict(type='CenterCrop', size=24),
        dict(type='RandomRoll'),
    ]
    assert OneClip(path, video_pipeline=steps)[0]['video']['frames'].shape == (4, 3, 24, 24)
