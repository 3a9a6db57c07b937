"""Training steps and scores on a device that is not the CPU, for one of each kind of model."""

import copy
from pathlib import Path

import pytest
import torch
from mmengine.config import Config
from mmengine.registry import init_default_scope
from mmengine.runner import Runner

from children import config_file
from elsewhere import elsewhere
from mmvtr.models.retriever import VideoTextRetriever
from mmvtr.models.supervisions.arl import ARLSupervision
from mmvtr.registry import MODELS
from simulation.simulated import simulate
from simulation.simulated_model import NARROW

CONFIGS = Path(__file__).resolve().parents[2] / 'configs'

KINDS = [
    *('arl_tvr_clip', 'dvtr_c2v_msrvtt'),
    *(
        pytest.param(name, marks=pytest.mark.nightly)
        for name in (
            *('causal_hgr_msrvtt_ranp', 'ncl_clip4clip_msrvtt', 'uatvr_vitb16_msrvtt'),
            *('uatvr_vitb16_msrvtt_dsa', 'dvtr_c2v_msrvtt_full_pcme', 'egonce_clip_epic'),
            *('gmmformer_tvr_i3d', 'mssl_charades_i3d'),
        )
    ),
]

#: micro_batch and block_rows.
WAYS = ((None, None), (2, 3))
#: Those that are tried both ways.
DIVIDED = {'arl_tvr_clip', 'dvtr_c2v_msrvtt', 'mssl_charades_i3d'}


@pytest.mark.parametrize('name', KINDS)
def test_losses_are_those_of_the_cpu(name):
    init_default_scope('mmvtr')
    cfg, _ = simulate(Config.fromfile(config_file(name)), NARROW)
    loader = cfg.train_dataloader
    loader.batch_size, loader.num_workers = 5, 0
    loader.pop('persistent_workers', None)
    torch.manual_seed(0)
    model = MODELS.build(cfg.model).eval()  # dropout is drawn by each device's own generator
    batch = next(iter(Runner.build_dataloader(loader, seed=0)))
    for module in model.modules():
        if isinstance(module, ARLSupervision):  # past its warm-up: with ambiguous sets
            module.ready.fill_(True)
    away = copy.deepcopy(model)
    expected = losses_of(model, batch)
    with elsewhere() as device:
        away.to(device)
        for micro_batch, rows in WAYS[: 1 + (name in DIVIDED)]:
            for member in away.modules():
                if isinstance(member, VideoTextRetriever):
                    member.micro_batch, member.block_rows = micro_batch, rows
            found = losses_of(away, batch)
            assert found.keys() == expected.keys()
            for key, value in found.items():
                assert value == pytest.approx(expected[key], rel=1e-3, abs=1e-5), key
        data = away.data_preprocessor(batch, False)
        with torch.no_grad():
            texts, videos = away(data['inputs'], mode='tensor')
            scores = away.score(texts, videos)['scores']
        assert scores.device == device and scores.cpu().isfinite().all()


def losses_of(model, batch):
    """Losses as numbers, after a backward pass."""
    losses = model(**model.data_preprocessor(batch, True), mode='loss')
    sum(value for key, value in losses.items() if 'loss' in key).backward()
    assert any(p.grad is not None for p in model.parameters())
    return {key: float(value.detach()) for key, value in losses.items() if 'loss' in key}
