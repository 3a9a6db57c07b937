"""Values of CE, CE+ and MoEE, and of what stands on CE, in their configs."""

import pytest
from mmengine.config import Config

from tests.test_configs import CONFIGS, family, on_meta

CONFIG = {path.stem: path for path in CONFIGS}
CE = sorted(
    name for name in CONFIG if {'ce', 'moee'} & set(name.split('_')) and 'planted' not in name
)
ROWS = {'audio', 'ocr', 'speech'}

#: Clusters of text, ghosts, clusters of OCR, audio, speech; rows of text, OCR, audio, speech.
TABLE = {
    'msrvtt': ((28, 1, 43, 8, 19), (37, 49, 29, 32), 64, 100, 0.1, 1e-3, 0.0938),
    'msvd': ((12, 0, 75, None, None), (30, 30, None, None), 16, 300, 0.01, 5e-5, 0.3076),
    'activitynet': ((39, 0, 44, 6, 100), (49, 6, 4, 29), 32, 150, 0.1, 1e-3, 0.0605),
    'didemo': ((8, 0, 13, 16, 55), (48, 8, 23, 48), 64, 30, 0.1, 1e-3, 0.1664),
    'lsmdc': ((43, 0, 30, 3, 5), (36, 6, 11, 35), 256, 15, 0.01, 1e-3, 0.1213),
    'moee': ((50, 2, 20, 27, 45), (19, 3, 17, 32), 64, 100, 0.1, 1e-3, 0.1264),
}


def values(name):
    """The row of the table that a config stands on."""
    return next(TABLE[word] for word in name.split('_') if word in TABLE)


@pytest.mark.parametrize('name', CE)
def test_values_of_ce(name):
    """The settings of the released configs, and an epoch with each video once."""
    cfg, plus = Config.fromfile(CONFIG[name]), 'plus' in name
    clusters, rows, batch, epochs, rate, decay, margin = values(name)
    encoder, loader = cfg.model.encoder, cfg.train_dataloader
    assert (encoder.text_clusters, encoder.text_ghosts) == clusters[:2]
    named = dict(zip(('ocr', 'audio', 'speech'), clusters[2:]))
    assert encoder.clusters == {
        key: count for key, count in named.items() if count and not (plus and key == 'ocr')
    }
    optimizer = cfg.optim_wrapper.optimizer
    assert (loader.batch_size, cfg.train_cfg.max_epochs) == (batch, epochs)
    if plus:
        assert (optimizer.type, optimizer.lr, optimizer.weight_decay) == ('RAdam', 1e-3, 1e-5)
        assert encoder.text.in_dim == 1600 and len(encoder.experts) == (5 if 'msvd' in name else 7)
    else:
        assert (optimizer.type, optimizer.lr, optimizer.weight_decay) == (
            'mmvtr.Ranger',
            rate,
            decay,
        )
        assert encoder.text.in_dim == (300 if 'lsmdc' in name else 768)
        assert len(encoder.experts) == (7 if 'msvd' in name else 9)
    (scheduler,) = cfg.param_scheduler
    assert scheduler == dict(type='ExponentialLR', gamma=0.95)
    assert cfg.default_hooks.checkpoint.save_best == 'retrieval/t2v_gmean'
    ranking = cfg.model.losses.ranking
    if family(CONFIG[name]) != 'cmgsd':
        assert (ranking.type, ranking.negatives, ranking.margin) == ('RankingLoss', 'all', margin)
    limits = dict(zip(('ocr', 'audio', 'speech'), rows[1:]))
    for split in ('train', 'val', 'test'):
        if cfg.get(f'{split}_dataloader') is None:
            assert {'msrvtt', 'activitynet'} & set(name.split('_'))
            continue
        dataset = cfg[f'{split}_dataloader'].dataset
        load, words = dataset.video_pipeline[0], dataset.text_pipeline[0]
        assert load.cut == 'first' and words.max_words == rows[0]
        assert {key: one.dim for key, one in load.experts.items()} == encoder.experts
        for key, one in load.experts.items():
            assert one.get('max_tokens') == (limits[key] if key in ROWS else None)
            assert one.get('mean', False) == (key not in ROWS)
    paragraphs = {'activitynet', 'didemo'} & set(name.split('_'))
    assert (loader.dataset.get('epoch_unit') == 'video') != bool(paragraphs)


def test_ce_is_as_large_as_its_readme_says():
    """183 M parameters on MSR-VTT."""
    count = sum(p.numel() for p in on_meta(CONFIG['ce_msrvtt_full']).parameters())
    assert round(count / 1e6) == 183


@pytest.mark.parametrize('name', [name for name in CE if family(CONFIG[name]) == 'dvtr'])
def test_dvtr_on_ce_is_ce_debiased(name):
    """Tab. VIII: the same loss, of weighed hinges."""
    one, other = Config.fromfile(CONFIG[name]), Config.fromfile(CONFIG[name.removeprefix('dvtr_')])
    supervision = one.model.pop('supervision')
    assert (supervision.num_samples, supervision.floor) == (7, 0)
    assert supervision.sharpness == 2.0  # one value for all sets and baselines (docs/dvtr.md)
    assert one.model.pop('heads').type == 'HierarchicalGaussianHead'
    one.optim_wrapper.pop('paramwise_cfg')
    one.default_hooks.pop('eta')
    one.pop('filename', None), other.pop('filename', None)
    assert one.to_dict() == other.to_dict()


@pytest.mark.parametrize('name', [name for name in CE if family(CONFIG[name]) == 'teachtext'])
def test_teachers_are_read_in_training_alone(name):
    cfg = Config.fromfile(CONFIG[name])
    assert len(cfg.model.supervision.teachers) == 3
    for side in ('video', 'text'):
        steps = [
            cfg[f'{split}_dataloader'].dataset[f'{side}_pipeline'] for split in ('train', 'test')
        ]
        assert [len(some) for some in steps] == [2, 1]
        assert (steps[0][1].type, steps[0][1].side) == ('LoadVectors', side)
        assert sorted(steps[0][1].stores) == cfg.model.supervision.teachers
