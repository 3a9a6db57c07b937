"""Every config can be read, names registered parts only, and gives a model that can be built."""

from pathlib import Path

import pytest
import torch
from mmengine.config import Config

from mmvtr import registry
from mmvtr.utils import register_all_modules

CONFIGS = sorted((Path(__file__).parents[1] / 'configs').glob('*.py'))


def without_downloads(model):
    """Random weights, and a small BERT in place of the one on the hub."""
    for tower in (model.encoder.frames, model.encoder.text):
        tower.pop('pretrained', None)
    if model.encoder.text.type == 'TransformersText':
        model.encoder.text.model = dict(
            model_type='bert',
            vocab_size=50,
            hidden_size=8,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=8,
        )
    return model


@pytest.mark.parametrize('path', CONFIGS, ids=lambda path: path.stem)
def test_config(path):
    register_all_modules()
    cfg = Config.fromfile(path)
    with torch.device('meta'):  # no memory, no time
        model = registry.MODELS.build(without_downloads(cfg.model))
    assert model.losses and model.encoder.dim in (128, 512)
    assert (model.supervision is not None) == path.stem.startswith('dvtr')
    for split in ('train', 'val', 'test'):
        loader = cfg.get(f'{split}_dataloader')
        if loader is None:
            assert 'msrvtt' in path.stem and split == 'val'
            continue
        assert registry.DATASETS.get(loader.dataset.type) is not None
        for step in (*loader.dataset.video_pipeline, *loader.dataset.text_pipeline):
            assert registry.TRANSFORMS.get(step.type) is not None, step
    for metric in cfg.test_evaluator:
        registry.METRICS.build(metric)
    assert registry.LOOPS.get(cfg.train_cfg.type) is not None
    optimizer = cfg.optim_wrapper.optimizer
    assert registry.OPTIMIZERS.get(optimizer.type) is not None


@pytest.mark.parametrize('path', CONFIGS, ids=lambda path: path.stem)
def test_paper_values(path):
    """DVTR Sec. V-A.2: 12 frames, 32 tokens, batch 128, 5 epochs, K = 7, lambda .5, tau .07."""
    cfg = Config.fromfile(path)
    if path.stem.startswith('dvtr'):
        assert cfg.model.supervision.num_samples == 7
    if 'msrvtt' not in path.stem:
        return
    loader = cfg.train_dataloader
    assert loader.batch_size == 128 and cfg.train_cfg.max_epochs == 5
    assert loader.dataset.video_pipeline[0].num_frames == 12
    words = loader.dataset.text_pipeline[0]
    assert words.get('context_length', words.get('max_length')) == 32
    assert cfg.model.temperature == dict(type='Temperature', init=0.07)
    if 'triplet' in cfg.model.losses:
        assert cfg.model.losses.triplet.margin == 0.5
