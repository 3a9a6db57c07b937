"""Video models of torchvision as towers, and their windows: both are torchvision's own."""

import re
from math import nan

import numpy as np
import pytest
import torch
from torchvision.models import get_model, get_model_weights

from children import run_tool
from miniatures import write_prvr
from mmvtr.datasets import (
    BrokenVideoError,
    CharadesSTADataset,
    collate_retrieval,
    read_frames,
)
from mmvtr.models import VideoTextDataPreprocessor
from mmvtr.registry import DATASETS, MODELS
from mmvtr.utils import load_config, register_all_modules
from mmvtr_gallery import clips
from mmvtr_gallery.clips import (
    LoadClips,
    TorchvisionClips,
    video_model,
    weights_of,
    window_count,
    windows,
)
from toy import ROOT

#: One of each kind: width, frames a window and a second, and how few of them the network takes.
KINDS = {
    'r3d_18': (512, 16, 15, 16),
    's3d': (1024, 128, 15, 14),
    'mvit_v2_s': (768, 16, 7.5, 16),
    'swin3d_t': (768, 32, 15, 2),
}


@pytest.fixture(scope='module')
def video(tmp_path_factory, write_video):
    """4 s of 15 frames a second, 60 x 90 pixels, frame i of grey 4 i."""
    path = tmp_path_factory.mktemp('clips') / 'a.mp4'
    return str(
        write_video(path, range(0, 240, 4), times=[i / 15 for i in range(60)], size=(60, 90))
    )


def load(video, model='r3d_18', **options):
    return LoadClips(model, **options).transform(dict(video_id='a', path=video))['clips']


@pytest.mark.parametrize(
    'name',
    [
        's3d',
        *(pytest.param(x, marks=pytest.mark.nightly) for x in KINDS if x != 's3d'),
    ],
)
@torch.no_grad()
def test_windows_and_vectors_are_torchvisions(video, name):
    width, frames, rate, fewest = KINDS[name]
    torch.manual_seed(0)
    tower = TorchvisionClips(name).eval()
    assert tower.dim == width and video_model(name)[5:7] == (frames, rate)
    ours = load(video, name)
    assert ours.shape[1:] == (frames, 3, *tower.image_size) and ours.dtype == torch.uint8

    transforms = get_model_weights(name).DEFAULT.transforms()
    times = np.arange(60) / 15
    chosen = windows(times, length=frames, rate=rate, stride=frames / rate)[0]
    every = read_frames(video, lambda times: np.arange(len(times)))
    window = torch.from_numpy(np.stack([every[i] for i in chosen])).permute(0, 3, 1, 2)
    by_hand = transforms(window[None])

    preprocessor = VideoTextDataPreprocessor(mean=None, std=None)
    preprocessor.normalise_as(tower)
    data = dict(inputs=dict(video=[ours[:1]]), data_samples={})
    mine = preprocessor(data)['inputs']['video'][0]
    torch.testing.assert_close(mine.transpose(1, 2), by_hand, atol=1e-5, rtol=1e-5)

    whole, read = get_model(name, weights=None).eval(), []
    whole.load_state_dict(tower.net.state_dict(), strict=False)
    for net in (whole, tower.net):
        if hasattr(net, 'blocks'):  # eight of MViT's that are alike take half of the test's time
            del net.blocks[5:13]
    head = getattr(whole, tower.head)
    head.register_forward_pre_hook(lambda module, inputs: read.append(inputs[0]))
    some = slice(0, fewest)
    whole(by_hand[:, :, some])
    expected = read[0].flatten(2).mean(2) if read[0].ndim > 2 else read[0]
    torch.testing.assert_close(tower(mine[:, some]), expected, atol=1e-5, rtol=1e-5)


def test_every_video_model_says_how_it_sees():
    from torchvision.models import list_models
    from torchvision.models import video as module

    known = {name: video_model(name) for name in list_models(module=module)}
    assert len(known) >= 9 and known['mvit_v1_b'].crop == (224, 224)
    assert known['r2plus1d_18'].seconds == pytest.approx(16 / 15)
    assert known['s3d'].resize == (256, 256) and known['swin3d_b'].resize == (256,)
    with pytest.raises(ValueError, match="no video model 'r3d18'; close names: .*r3d_18"):
        video_model('r3d18')


# -- times -------------------------------------------------------------------------------------


def test_window_k_stands_for_k_of_n_parts():
    times = np.arange(300) / 30  # 10 s
    found = windows(times, length=4, rate=2, stride=2.5)
    middles = times[found].mean(1)
    np.testing.assert_allclose(middles, [1.25, 3.75, 6.25, 8.75], atol=1 / 30)
    overlapping = times[windows(times, length=16, rate=15, stride=0.5)]
    assert len(overlapping) == 20
    np.testing.assert_allclose(overlapping[3:-3].mean(1), np.arange(3.5, 17) / 2, atol=1 / 30)
    spans = overlapping[:, -1] - overlapping[:, 0]
    np.testing.assert_allclose(spans, 1, atol=1 / 30, err_msg='also at the two ends')
    assert overlapping[0, 0] < 0.05 and overlapping[-1, -1] > 9.9
    for k, window in enumerate(overlapping):  # its own part is in it
        assert window[0] <= k / 2 + 1 / 15 and window[-1] >= (k + 1) / 2 - 1 / 15


def test_a_short_clip_repeats_its_ends():
    assert windows(np.arange(3) / 10, length=6, rate=10, stride=1).tolist() == [[0, 0, 1, 2, 2, 2]]
    assert windows(np.zeros(1), length=3, rate=10, stride=1).tolist() == [[0, 0, 0]]
    part = windows(np.arange(20, 30) / 10, length=5, rate=10, stride=0.5)
    assert part.tolist() == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]], 'times are those of the file'


def test_the_windows_of_a_file(video, monkeypatch):
    """Frame i is of grey 4 i: what a window shows tells when it is."""
    whole = load(video, stride=0.5)
    assert whole.shape == (8, 16, 3, 112, 112)
    greys = whole.float().mean((1, 2, 3, 4))
    expected = 4 * 15 * np.array([0.533, 0.75, 1.25, 1.75, 2.25, 2.75, 3.25, 3.467]) - 2
    np.testing.assert_allclose(greys, expected, atol=3)
    assert len(load(video)) == 4  # of 16 / 15 s each
    part = LoadClips('r3d_18').transform(dict(video_id='a', path=video, start=2.0, end=3.1))
    np.testing.assert_allclose(part['clips'].float().mean(), 4 * 15 * 2.55 - 2, atol=3)
    monkeypatch.setattr(clips, 'AT_ONCE', 33)  # two windows at a time
    assert torch.equal(load(video, stride=0.5), whole)


def test_what_is_no_video_or_too_long(video, tmp_path):
    with pytest.raises(BrokenVideoError, match='8 windows of r3d_18 take .* of max_bytes; a strid'):
        load(video, stride=0.5, max_bytes=2_000_000)
    (tmp_path / 'b.mp4').write_bytes(b'nothing')
    with pytest.raises(BrokenVideoError, match='b.mp4'):
        load(str(tmp_path / 'b.mp4'))
    with pytest.raises(ValueError, match='stride must be above 0 s, not 0'):
        LoadClips('r3d_18', stride=0)
    records = [dict(video_id='a', path=video), dict(video_id='c', path=str(tmp_path / 'c.mp4'))]
    assert LoadClips('r3d_18').missing(records) == ['c']


# -- weights -----------------------------------------------------------------------------------


def test_weights_of_a_file_and_of_the_cache(tmp_path, monkeypatch):
    torch.manual_seed(1)
    trained = get_model('mc3_18', weights=None, num_classes=5)
    torch.save(dict(model=trained.state_dict()), tmp_path / 'mine.pth')
    loaded = TorchvisionClips('mc3_18', str(tmp_path / 'mine.pth'), frozen=True)
    own = trained.state_dict()
    assert all(torch.equal(x, own[key]) for key, x in loaded.net.state_dict().items())
    assert not any(p.requires_grad for p in loaded.parameters())
    wrapped = {f'module.{key}': x for key, x in own.items()}  # its classes go, too
    torch.save(dict(state_dict=wrapped), tmp_path / 'wrapped.pth')
    loaded = TorchvisionClips('mc3_18', str(tmp_path / 'wrapped.pth'))
    assert all(torch.equal(x, own[key]) for key, x in loaded.net.state_dict().items())
    changes = {
        'missing (1): layer4.1.conv2.1.bias': lambda w: w.pop('layer4.1.conv2.1.bias'),
        'unexpected (1): layer5.weight': lambda w: w.update({'layer5.weight': torch.zeros(1)}),
        'are not finite (NaN or infinite), stem.0.weight': lambda w: w['stem.0.weight'].fill_(nan),
    }
    for said, change in changes.items():
        wrong = {key: x.clone() for key, x in own.items()}
        change(wrong)
        torch.save(wrong, tmp_path / 'wrong.pth')
        with pytest.raises(ValueError, match=re.escape(said)):
            TorchvisionClips('mc3_18', str(tmp_path / 'wrong.pth'))
    with pytest.raises(ValueError, match="of 'r2plus1d_18': .*mine.pth does not fit this"):
        TorchvisionClips('r2plus1d_18', str(tmp_path / 'mine.pth'))

    monkeypatch.setenv('TORCH_HOME', str(tmp_path))
    name = weights_of('mc3_18')['KINETICS400_V1'].url.rpartition('/')[2]
    asked = []

    def no_network(url, path, digest):
        asked.append((url.rpartition('/')[2], digest))
        raise OSError('no route to host')

    monkeypatch.setattr(torch.hub, 'download_url_to_file', no_network)
    with pytest.raises(RuntimeError, match='neither in the cache .* no route .* pretrained='):
        TorchvisionClips('mc3_18', 'KINETICS400_V1')
    assert asked == [(name, name.rpartition('-')[2].removesuffix('.pth'))]
    (tmp_path / 'mine.pth').rename(tmp_path / 'hub/checkpoints' / name)
    cached = TorchvisionClips('mc3_18', 'KINETICS400_V1')
    assert torch.equal(cached.net.stem[0].weight, own['stem.0.weight'])


def test_bad_weights_and_input(tmp_path):
    with pytest.raises(ValueError, match=r"no weights 'imagenet'; its tags: \['KINETICS400_V1'\]"):
        TorchvisionClips('mc3_18', 'imagenet')
    with pytest.raises(FileNotFoundError, match='there is no such file'):
        TorchvisionClips('mc3_18', 'mine.pth')
    torch.save([1], tmp_path / 'list.pth')
    with pytest.raises(RuntimeError, match='list.pth holds a list, not a dict'):
        TorchvisionClips('mc3_18', str(tmp_path / 'list.pth'))
    tower = TorchvisionClips('mvit_v2_s')
    for shape in ([1, 3, 224, 224], [1, 8, 3, 224, 224], [1, 32, 3, 224, 224], [1, 16, 3, 9, 9]):
        with pytest.raises(ValueError, match=r'\[N, 16, 3, 224, 224\], got .*LoadClips'):
            tower(torch.zeros(shape))


def test_a_frame_that_its_container_shows_half_a_millisecond_late_is_in_its_window():
    times = np.arange(20) / 10
    late = times + np.where(np.arange(20) > 0, 5e-4, 0.0)
    early = times - np.where(np.arange(20) > 0, 5e-4, 0.0)
    for shown in (times, late, early):
        found = windows(shown, length=2, rate=5, stride=1)
        assert found.tolist() == [[4, 6], [14, 16]]


def test_broken_timestamps_make_many_windows_and_no_array():
    assert window_count(np.array([0.0, 0.04, 1e10, 1e10 + 0.5]), 0.5) > 1e9


# -- to the methods for moments ----------------------------------------------------------------

CONFIG = """
_base_ = ['{root}/configs/mssl_charades_i3d.py']
custom_imports = dict(imports=['toy', 'mmvtr_gallery.clips'], allow_failed_imports=False)
clips = [dict(type='LoadClips', model='r3d_18', stride=1.0)]
words = [dict(type='ToySay')]
roberta = dict(
    model_type='roberta', hidden_size=24, num_hidden_layers=1, num_attention_heads=2,
    intermediate_size=16, vocab_size=8, max_position_embeddings=40,
)
model = dict(
    data_preprocessor=dict(mean=None, std=None),
    encoder=dict(
        frames=dict(_delete_=True, type='TorchvisionClips', model='r3d_18'),
        text=dict(_delete_=True, type='TransformersText', model=roberta, dim=None),
    ),
)
reads = dict(video_pipeline=clips, text_pipeline=words, ann_root='.')
train_dataloader = dict(num_workers=0, dataset=reads)
test_dataloader = dict(num_workers=0, dataset=reads)
"""  # fmt: skip


@pytest.fixture(scope='module')
def features(tmp_path_factory, write_video):
    """Features of frames and of words, by the two commands of docs/encoders.md."""
    folder = tmp_path_factory.mktemp('charades')
    (folder / 'videos').mkdir()
    write_prvr(folder, CharadesSTADataset, 'train', videos='ab')
    write_prvr(folder, CharadesSTADataset, 'test', videos='cd')
    for number, name in enumerate('abc'):
        times = [i / 15 for i in range(15 + 8 * number)]
        write_video(folder / f'videos/{name}.mp4', range(len(times)), times=times)
    (folder / 'config.py').write_text(CONFIG.format(root=ROOT))
    missing = ('--cfg-options', 'test_dataloader.dataset.missing=skip')  # d is gone
    for out, more in (('FeatureData/r3d', ()), ('TextData/roberta', ('--texts',))):
        tool = 'extract_features.py', 'config.py', '--out', out, '--random-weights', *more
        code, printed = run_tool(folder, *tool, *missing)
        assert code == 0, printed
    return folder


def test_extracted_rows(features):
    rows = {name: np.load(features / f'FeatureData/r3d/{name}.npy') for name in 'abc'}
    assert {name: x.shape for name, x in rows.items()} == dict(a=(1, 512), b=(2, 512), c=(2, 512))
    register_all_modules()
    with torch.random.fork_rng(), torch.no_grad():
        cfg = load_config(features / 'config.py')
        torch.manual_seed(0)
        tower = MODELS.build(cfg.model).eval().encoder.frames
    window = load(str(features / 'videos/c.mp4'), stride=1.0)[1]
    transforms = get_model_weights('r3d_18').DEFAULT.transforms
    settings = transforms(resize_size=(112, 112))  # the window has that size
    with torch.no_grad():
        expected = tower(settings(window[None]).transpose(1, 2))[0]
    np.testing.assert_allclose(rows['c'][1], expected, atol=1e-5)


@pytest.mark.parametrize(
    'name', ['mssl_charades_i3d', 'arl_charades_i3d', 'gmmformer_charades_i3d']
)
def test_a_step_on_the_features(features, name):
    cfg = load_config(ROOT / f'configs/{name}.py')
    encoder = cfg.model.encoder.get('encoder', cfg.model.encoder)
    encoder.frames.in_dim, encoder.text.in_dim = 512, 24
    data = cfg.train_dataloader.dataset
    data.ann_root = str(features)
    data.video_pipeline[0].path = str(features / 'FeatureData/r3d')
    data.text_pipeline[0].path = str(features / 'TextData/roberta')
    dataset = DATASETS.build(data)
    torch.manual_seed(0)
    model = MODELS.build(cfg.model).train()
    batch = model.data_preprocessor(collate_retrieval([dataset[0], dataset[1]]), True)
    losses = model(**batch, mode='loss')
    total = sum(x for key, x in losses.items() if 'loss' in key)
    total.backward()
    moved = [p for p in model.parameters() if p.grad is not None and p.grad.abs().sum() > 0]
    assert torch.isfinite(total) and len(moved) > 10
