"""What HiT's configs have of the papers, and what DVTR's differ in."""

import re

import pytest
import torch
from mmengine.config import Config

from mmvtr import registry
from mmvtr.models import HiTEncoder
from mmvtr.registry import bare_name
from mmvtr.utils import register_all_modules
from tests.test_configs import REAL, without_downloads

HIT = {path.stem: path for path in REAL if 'hit' in path.stem.split('_')}
#: DVTR Sec. V-A.2, and widths of the networks.
ALL_THREE = dict(appearance=2048, audio=128, motion=1024)
EXPERTS = dict(
    msrvtt=ALL_THREE,
    msrvtt_full=ALL_THREE,
    msvd=ALL_THREE,
    lsmdc=ALL_THREE,
    vatex=dict(i3d=1024, motion=1024),
    activitynet=dict(audio=128, motion=1024),
)
#: Where a table has a video that is longer than MSR-VTT's.
SECONDS = dict(msvd=64, lsmdc=64, activitynet=768)


def dataset_of(name):
    return re.sub('_(triplet|pcme)$', '', name.partition('hit_')[2])


def test_each_set_has_hit_and_dvtr():
    expected = {f'{method}_{name}' for method in ('hit', 'dvtr_hit') for name in EXPERTS}
    tables = {'dvtr_hit_msrvtt_full_pcme'}  # IX, and X
    tables |= {f'{method}_msrvtt_full_triplet' for method in ('hit', 'dvtr_hit')}
    assert set(HIT) == expected | tables


@pytest.mark.parametrize('name', HIT)
def test_values_of_hit(name):
    """30 rows, 25 tokens, batch 128, 40 epochs, 2e-5, 10 % warm-up, cosine, tau .07, K = 7."""
    cfg = Config.fromfile(HIT[name])
    loaders = [cfg.get(f'{part}_dataloader') for part in ('train', 'val', 'test')]
    for loader in (loader for loader in loaders if loader):
        (frames,), (words,) = loader.dataset.video_pipeline, loader.dataset.text_pipeline
        widths = {expert: of.dim for expert, of in frames.experts.items()}
        assert widths == EXPERTS[dataset_of(name)] == cfg.model.encoder.experts
        assert (frames.type, frames.max_tokens, words.max_length) == ('LoadExperts', 30, 25)
        assert words.model == cfg.model.encoder.text.model == 'bert-base-uncased'
        # Another set's features would be read without a word.
        folder = dataset_of(name).partition('_')[0]
        assert {of.path.split('/')[1] for of in frames.experts.values()} == {folder}
    assert cfg.train_dataloader.batch_size == 128 and cfg.train_cfg.max_epochs == 40
    assert cfg.optim_wrapper.optimizer == dict(type='AdamW', lr=2e-5, weight_decay=0.01)
    assert cfg.param_scheduler == [dict(type='mmvtr.WarmupCosineLR', warmup=0.1, by_epoch=False)]
    assert [bare_name(hook) for hook in cfg.custom_hooks] == ['MomentumHook']
    model = cfg.model
    assert model.temperature == dict(type='Temperature', init=0.07)
    assert model.encoder.max_seconds == SECONDS.get(dataset_of(name), 32)
    for way in ('t2v', 'v2t'):
        loss = model.losses[way]
        # A mean of two matrices, twice: with the other direction the sum of four terms.
        assert (loss.direction, loss.loss_weight, len(loss.reads)) == (way, 2.0, 2)
        assert loss.reads == tuple(f'{level}_{way}' for level in model.similarity.levels)
        triplet = name.endswith('triplet')
        assert loss.type == ('RankingLoss' if triplet else 'ContrastiveLoss')
        assert loss.get('margin') == (0.5 if triplet else None)
    if name.startswith('dvtr'):
        supervision = model.supervision
        pcme = 'pcme' in name
        assert supervision.type == ('PCMESupervision' if pcme else 'DVTRSupervision')
        assert model.heads.type == ('PCMEGaussianHead' if pcme else 'HierarchicalGaussianHead')
        assert (supervision.num_samples, supervision.floor) == (7, 0)
        assert (supervision.reference, supervision.ramp) == ('mean', (0.33, 0.67))
        assert supervision.sharpness == 2.0  # one value for all sets and baselines (docs/dvtr.md)
        assert model.head_reads == 'semantic'


@pytest.mark.parametrize('name', [*EXPERTS, 'msrvtt_full_triplet'])
def test_the_baseline_differs_in_debiasing_alone(name):
    plain, debiased = (Config.fromfile(HIT[f'{method}_{name}']) for method in ('hit', 'dvtr_hit'))
    for key in ('heads', 'head_reads', 'supervision'):
        del debiased.model[key]
    del debiased.default_hooks['eta']
    for cfg in (plain, debiased):
        keys = cfg.optim_wrapper.pop('paramwise_cfg', {}).get('custom_keys', {})
        assert keys.get('encoder', {}) == (dict(lr_mult=5.0) if name == 'activitynet' else {})
        cfg.pop('filename', None)
    assert debiased.to_dict() == plain.to_dict()


def test_what_is_built_of_them():
    register_all_modules()
    cfg = Config.fromfile(HIT['dvtr_hit_msrvtt'])
    with torch.device('meta'):
        model = registry.MODELS.build(without_downloads(cfg.model))
    assert isinstance(model.encoder, HiTEncoder) and len(model.encoder.blocks) == 4
    # No more than half the captions of the smallest set, ActivityNet's 10,009.
    assert {bank.size for bank in model.banks.values()} == {4096} and 4096 <= 10_009 / 2
    assert model.momentum == 0.999 and not model.in_batch and model.banks['text'].has_gaussian
    trained = [name for name, p in model.named_parameters() if p.requires_grad]
    assert not [name for name in trained if name.startswith(('key_encoder', 'banks'))]


def test_its_video_tower_is_not_exported():
    onnx_export = pytest.importorskip('mmvtr_gallery.onnx_export', reason='projects/gallery')
    cfg = Config.fromfile(HIT['dvtr_hit_msrvtt'])
    with torch.device('meta'):
        model = registry.MODELS.build(without_downloads(cfg.model))
    with pytest.raises(
        ValueError, match='HiTEncoder reads rows of several experts .* not exported'
    ):
        onnx_export.video_side(model, None)
