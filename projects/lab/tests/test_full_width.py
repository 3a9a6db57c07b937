"""One step of each family with its real towers at full width: random weights, two videos."""

from pathlib import Path

import pytest
import torch
from mmengine.config import Config
from mmengine.optim import build_optim_wrapper

from children import config_file
from mmvtr.registry import MODELS
from mmvtr.utils import register_all_modules
from simulation.simulated_model import retrievers

ROOT = Path(__file__).parents[3]
#: Configs as on the hub, without weights.
BERT = dict(model_type='bert', vocab_size=28996)
T5 = dict(model_type='t5', d_model=768, d_ff=3072, num_layers=12, num_heads=12, d_kv=64)
FAMILIES = (
    *('arl_tvr_i3d', 'hgr_epic'),
    *(
        pytest.param(name, marks=pytest.mark.nightly)
        for name in (
            *('dvtr_c2v_msrvtt', 'dvtr_c2v_msrvtt_bert', 'ssb_msrvtt', 'moee_msrvtt_full'),
            'uatvr_vitb16_msrvtt',
            *('clip4clip_msrvtt', 'mmt_msrvtt', 'gmmformer_tvr_i3d', 'mssl_tvr_i3d'),
            *('dvtr_hit_msvd', 'dvtr_ce_msrvtt_full', 'taco_msrvtt', 'xpool_msrvtt', 'dldkd_tvr'),
            *('causal_hgr_epic_ranp', 'egonce_clip_epic'),
        )
    ),
)


def without_weights(part) -> None:
    """Change a config in place so that nothing is downloaded or read."""
    if isinstance(part, dict):
        for key, value in part.items():
            if key == 'pretrained':
                part[key] = None
            elif value in ('bert-base-cased', 'bert-base-uncased'):
                part[key] = dict(BERT)
            elif value == 't5-base':
                part[key] = dict(T5)
            else:
                without_weights(value)
    elif isinstance(part, (list, tuple)):
        for value in part:
            without_weights(value)


def batch(model) -> dict:
    """Return two videos of two frames with a text each, in the format of the encoder's pipeline.

    Each has its own class, and both are in the first environment, for models that need that.
    """
    encoder = next(retrievers(model)).encoder
    inner = encoder.get('encoder', encoder)
    generator = torch.Generator().manual_seed(0)
    inputs: dict[str, list] = {}
    if inner.get('frames', {}).get('type') == 'OpenCLIPFrames':
        size = (2, 3, 224, 224)
        inputs['video'] = [
            torch.randint(0, 256, size, generator=generator, dtype=torch.uint8) for _ in range(2)
        ]
    else:
        widths = inner.get('experts') or {}
        width = inner.get('in_dim') or (max(widths.values()) if widths else inner.frames.in_dim)
        inputs['video'] = [torch.randn(2, width, generator=generator) for _ in range(2)]
        if widths:
            inputs['video_expert'] = [torch.tensor([0, 1]), torch.tensor([0, 2])]
            inputs['video_second'] = [torch.tensor([0, 1]), torch.tensor([0, 1])]
    if inner.text.type == 'FeatureWords':
        inputs['text'] = [torch.randn(5, inner.text.in_dim, generator=generator) for _ in range(2)]
    else:
        start, end = (49406, 49407) if inner.text.type == 'OpenCLIPText' else (5, 6)
        inputs['text'] = [torch.tensor([start, 7, 8, 9, end]), torch.tensor([start, 11, 7, 3, end])]
    if inner.type == 'TACoEncoder':
        inputs['text_interest'] = [torch.tensor([0.0, 0.5, 0.5, 0.0, 0.0])] * 2
    if inner.type == 'HGREncoder':
        verbs = torch.zeros(4, 30, dtype=torch.bool)
        nouns = torch.zeros(6, 30, dtype=torch.bool)
        verbs[0, 1] = nouns[0, 2] = True
        edges = torch.zeros(11, 11, dtype=torch.bool)
        edges[1, 0] = edges[1, 5] = edges[5, 1] = True
        extra = dict(verbs=verbs, nouns=nouns, roles=torch.ones(10, dtype=torch.long), edges=edges)
        inputs.update({f'text_{name}': [value] * 2 for name, value in extra.items()})
    ids = torch.arange(2)
    samples = dict(
        video_idx=ids, video_ids=['a', 'b'], text_idx=ids, text_ids=['a', 'b'], broken=[]
    )
    for side in ('text', 'video'):
        samples[f'{side}_classes'] = dict(verb=ids[:, None], noun=ids[:, None])
    samples['environment'] = torch.zeros(2).long()
    samples['text_vectors'] = dict(clip=torch.randn(2, 1, 512, generator=generator))
    frames = [torch.randn(2, 512, generator=generator) for _ in range(2)]
    samples['video_frame_vectors'] = dict(clip=frames)
    return dict(inputs=inputs, data_samples=dict(text_videos=ids[:, None], **samples))


@pytest.mark.parametrize('name', FAMILIES)
def test_one_step_at_full_width(name):
    register_all_modules()
    cfg = Config.fromfile(config_file(name))
    without_weights(cfg.model)
    torch.manual_seed(0)
    with torch.no_grad():
        model = MODELS.build(cfg.model)
    model.train()
    wrapper = build_optim_wrapper(model, cfg.optim_wrapper)
    of_step = 'members.0' if 'member' in cfg.model else ''
    trained = {
        n: p for n, p in model.named_parameters() if p.requires_grad and n.startswith(of_step)
    }
    seen: dict[str, bool] = {}
    wrapper.optimizer.register_step_pre_hook(
        lambda *_: seen.update({n: p.grad is not None for n, p in trained.items()})
    )
    before = {n: p.detach().flatten()[:8].clone() for n, p in trained.items()}
    logged = model.train_step(batch(cfg.model), wrapper)
    assert all(torch.isfinite(torch.as_tensor(v)).all() for v in logged.values()), logged
    without = [n for n, there in seen.items() if not there]
    assert not without, f'no gradient: {without[:5]}'
    assert all(torch.isfinite(p).all() for p in trained.values())
    moved = [n for n, p in trained.items() if not torch.equal(p.detach().flatten()[:8], before[n])]
    assert len(moved) > len(trained) / 3
