"""mmvtr extract_features: features of every video once, resumable, readable by LoadFeatures."""

import numpy as np
import pytest
import torch

import toy
from children import run_tool
from mmvtr.datasets import LoadFeatures, LoadTextFeatures
from mmvtr.models import TransformersText
from tiny_sets import of_videos

CONFIG = of_videos('bc', 'ab', frames=4)

NAMES = ('a', 'b', 'c')


@pytest.fixture
def folder(tmp_path, write_video):
    (tmp_path / 'config.py').write_text(CONFIG)
    for number, name in enumerate(NAMES):
        write_video(tmp_path / f'{name}.mp4', [40 * number + 5 * i for i in range(3 + number)])
    return tmp_path


def read(path):
    load = LoadFeatures(str(path))
    load.check([dict(video_id=name) for name in NAMES])
    return [load.transform(dict(video_id=name))['features'] for name in NAMES]


def extract(folder, *arguments):
    options = ('--out', 'features', '--random-weights')
    return run_tool(folder, 'extract_features.py', 'config.py', *options, *arguments)


@pytest.mark.parametrize('tower, options', [('frames', ()), ('text', ('--texts',))])
def test_random_features_are_asked_for(folder, tower, options):
    code, printed = run_tool(
        folder, 'extract_features.py', 'config.py', '--out', 'features', *options
    )
    assert code == 1 and f'names no pretrained weights for encoder.{tower}, so that' in printed
    assert '--random-weights' in printed and not (folder / 'features').exists()


@pytest.mark.parametrize('kind', ['npy', 'hdf5'])
def test_features_of_all_videos(folder, kind):
    code, printed = extract(folder, '--format', kind, '--batch-size', 2)
    assert code == 0, printed
    assert '3 videos to do, 0 are there' in printed
    path = folder / 'features' if kind == 'npy' else folder / 'features' / 'features.h5'
    features = read(path)
    assert [x.shape for x in features] == [(3, 2), (4, 2), (4, 2)]  # the test pipeline's frames
    for number, x in enumerate(features):  # mean and squared mean of the normalised frames
        grey = 40 * number + 5 * np.arange(3 + number)[: len(x)]
        assert x.dtype == np.float32
        np.testing.assert_allclose(x[0, 0], (grey[0] - 112.1) / 68.0, atol=0.2)
        np.testing.assert_allclose(x[:, 1], x[:, 0] ** 2, rtol=1e-4)
    assert not list((folder / 'features').rglob('*.part'))


@pytest.mark.parametrize('kind', ['npy', 'hdf5'])
def test_only_what_is_missing_is_made(folder, kind):
    extract(folder, '--format', kind, '--cfg-options', "test_dataloader.dataset.names=['b']")
    code, printed = extract(folder, '--format', kind)
    assert code == 0, printed
    assert '1 videos to do, 2 are there' in printed
    code, printed = extract(folder, '--format', kind)
    assert code == 0 and '0 videos to do, 3 are there' in printed
    assert len(read(folder / 'features' / ('' if kind == 'npy' else 'features.h5'))) == 3


def test_interrupted_hdf5_goes_on(folder):
    extract(folder, '--format', 'npy', '--cfg-options', "test_dataloader.dataset.names=['b']")
    (folder / 'features' / 'parts').mkdir()  # as a run killed before its last step leaves them
    for path in (folder / 'features').glob('*.npy'):
        path.rename(folder / 'features' / 'parts' / path.name)
    code, printed = extract(folder, '--format', 'hdf5')
    assert code == 0 and '1 videos to do, 2 are there' in printed
    assert len(read(folder / 'features' / 'features.h5')) == 3
    assert not (folder / 'features' / 'parts').exists()


def test_another_tower_does_not_mix_in(folder):
    extract(folder)
    code, printed = extract(folder, '--cfg-options', 'model.encoder.frames.scale=2.0')
    assert code == 1 and 'holds features of another origin' in printed
    assert 'Traceback' not in printed


def test_checkpoint(folder):
    torch.save({'encoder.frames.weight': torch.ones(1)}, folder / 'other.pth')
    code, printed = run_tool(
        folder, 'extract_features.py', 'config.py', 'other.pth', '--out', 'features'
    )
    assert code == 1 and 'missing' in printed and 'Traceback' not in printed


def test_broken_videos_are_named(folder):
    (folder / 'c.mp4').write_bytes(b'no video')
    code, printed = extract(folder, '--cfg-options', 'test_dataloader.dataset.on_broken=skip')
    assert code == 0, printed
    assert '1 broken videos left out' in printed and 'c.mp4' in printed


def test_missing_video(folder):
    (folder / 'c.mp4').unlink()
    code, printed = extract(folder)
    assert code == 1 and 'c.mp4' in printed and 'Traceback' not in printed
    assert toy.ROOT.is_dir()


@pytest.mark.parametrize('kind', ['npy', 'hdf5'])
def test_nothing_is_written_outside_the_folder(folder, write_video, kind):
    """The id is a path to a video that is there."""
    (folder / 'deep').mkdir()
    write_video(folder.parent / 'outsider.mp4', [0, 9])
    code, printed = run_tool(
        folder, 'extract_features.py', 'config.py', '--out', 'deep/features', '--format', kind,
        '--random-weights',
        '--cfg-options', "test_dataloader.dataset.names=['../outsider']",
    )  # fmt: skip
    assert code == 1 and 'Traceback' not in printed
    assert 'error: ' in printed and "'../outsider'" in printed
    assert not [*folder.parent.rglob('outsider.npy'), *folder.rglob('*.npy'), *folder.rglob('*.h5')]


BERT = dict(
    model_type='roberta',
    hidden_size=16,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=16,
    vocab_size=8,
    max_position_embeddings=40,
)


@torch.no_grad()
def test_words_of_all_texts(folder):
    """Of a pretrained text encoder, as PRVR's RoBERTa; no video is looked at."""
    torch.manual_seed(0)
    tower = TransformersText(BERT, dim=None).eval()
    tower.transformer.save_pretrained(folder / 'roberta')
    text = "text=dict(_delete_=True, type='TransformersText', model='roberta', dim=None)"
    frames = "frames=dict(_delete_=True, type='FeatureFrames', in_dim=16)"
    changed = f'model = dict(encoder=dict({text}, {frames}))\n'
    (folder / 'base.py').write_text(CONFIG)
    (folder / 'config.py').write_text(f"_base_ = ['base.py']\n{changed}")
    for name in NAMES:
        (folder / f'{name}.mp4').unlink()
    tool = 'extract_features.py', 'config.py', '--out', 'features'
    code, printed = run_tool(folder, *tool, '--texts')
    assert code == 0, printed
    assert '3 texts to do, 0 are there' in printed
    load = LoadTextFeatures(str(folder / 'features'))
    for name in NAMES:
        words = load.transform(dict(text_id=name))['token_features']
        ids = torch.tensor([[ord(name) % 8]])
        expected = tower(ids, torch.ones_like(ids, dtype=torch.bool))[0][0]
        np.testing.assert_allclose(words, expected.numpy(), atol=1e-5)
