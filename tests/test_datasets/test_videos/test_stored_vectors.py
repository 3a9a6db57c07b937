"""Vectors of teachers beside the items of a batch, and who lacks them."""

import h5py
import numpy as np
import pytest
import torch

from mmvtr.datasets import LoadVectors, VideoTextDataset, collate_retrieval
from mmvtr.models.data_preprocessor import VideoTextDataPreprocessor
from mmvtr.registry import TRANSFORMS


def video(results):
    return {**results, 'features': [[0.0]]}


def text(results):
    return {**results, 'token_ids': [1]}


class Small(VideoTextDataset):
    def load_annotations(self):
        videos = [dict(video_id=f'v{i}') for i in range(2)]
        texts = [dict(text_id=f'v{i // 2}#{i}', text='x', video_idx=[i // 2]) for i in range(4)]
        return videos, texts


@pytest.fixture
def stores(tmp_path):
    """One teacher in npy files, its videos in half precision, and one in hdf5."""
    rows = {}
    for side, names in (('text', [f'v{i // 2}#{i}' for i in range(4)]), ('video', ['v0', 'v1'])):
        (tmp_path / 'one' / side).mkdir(parents=True)
        with h5py.File(tmp_path / f'two_{side}.h5', 'w') as file:
            for n, name in enumerate(names):
                rows['one', name] = np.arange(6).reshape(3, 2) + n
                kind = np.float16 if side == 'video' else np.float32
                np.save(tmp_path / 'one' / side / f'{name}.npy', rows['one', name].astype(kind))
                file[name] = rows['two', name] = np.full((1, 5), n, np.float32)
    return tmp_path, rows


def make(folder, epoch_unit='text', **changes):
    def load(side):
        paths = dict(one=folder / 'one' / side, two=folder / f'two_{side}.h5')
        return dict(
            type='mmvtr.LoadVectors', side=side, stores={k: str(p) for k, p in paths.items()}
        )

    return Small([video, load('video')], [text, load('text')], epoch_unit=epoch_unit, **changes)


def test_vectors_reach_the_batch_by_id(stores):
    folder, rows = stores
    dataset = make(folder, 'video_with_all_texts')
    batch = VideoTextDataPreprocessor()(collate_retrieval([dataset[1], dataset[0]]))
    samples = batch['data_samples']
    for side, count in (('text', 4), ('video', 2)):
        ids = samples[f'{side}_ids']
        assert len(ids) == count
        for name, stored in samples[f'{side}_vectors'].items():
            assert stored.dtype == torch.float32
            for item, vectors in zip(ids, stored):
                np.testing.assert_array_equal(vectors, rows[name, item])
    assert not [key for key in batch['inputs'] if 'vectors' in key], 'no encoder sees them'
    assert 'text_vectors' not in collate_retrieval([Small([video], [text])[0]])['data_samples']


def test_a_sentence_is_the_mean_of_its_words(stores):
    folder, rows = stores
    load = LoadVectors(dict(s=str(folder / 'one/text')), side='text', mean=True)
    vectors = load.transform(dict(text_id='v0#1'))['text_vectors']['s']
    np.testing.assert_allclose(vectors, rows['one', 'v0#1'].mean(0)[None])


def test_captions_and_videos_without_are_named_before_training(stores):
    folder, _ = stores
    (folder / 'one/text/v1#3.npy').unlink()
    with pytest.raises(KeyError, match=r"1 of 4 texts \(vectors 'one'\), e.g. \['v1#3'\] \(Small"):
        make(folder)
    (folder / 'one/text/v1#3.npy').write_bytes(b'')
    with h5py.File(folder / 'two_video.h5', 'a') as file:
        del file['v0']
    with pytest.raises(KeyError, match=r"1 of 2 videos \(vectors 'two'\), e.g. \['v0'\]"):
        make(folder)
    (folder / 'two_video.h5').unlink()
    with pytest.raises(FileNotFoundError, match='two_video.h5'):
        make(folder)


def test_what_does_not_fit(stores):
    folder, _ = stores
    np.save(folder / 'one/text/v0#1.npy', np.zeros((2, 2), np.float32))
    with pytest.raises(
        ValueError,
        match=r"'one' must have one shape: those of text 'v0#1' are \[2, 2\], those of 'v0",
    ):
        collate_retrieval([make(folder)[i] for i in range(2)])
    np.save(folder / 'one/text/v0#0.npy', np.zeros(2, np.float32))
    with pytest.raises(ValueError, match=r"'v0#0': expected .F, D. with F > 0, found \(2,\)"):
        make(folder)[0]
    with pytest.raises(ValueError, match="side='text'.* in the pipeline of the other side"):
        LoadVectors(dict(one=str(folder)), side='text').check([dict(video_id='v0')])
    for bad, message in (
        (dict(stores={}, side='text'), 'stores must be a dict of paths by name'),
        (dict(stores=dict(a='b'), side='txt'), "side must be one of .'text', 'video'., not 'txt'"),
    ):
        with pytest.raises(ValueError, match=message):
            TRANSFORMS.build(dict(type='mmvtr.LoadVectors', **bad))
