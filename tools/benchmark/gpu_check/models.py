"""The retrievers of the check, with random weights, and their batches."""

from __future__ import annotations

from typing import Any

import torch
from mmengine.config import Config
from mmengine.registry import init_default_scope
from torch import Tensor, nn

from gpu_check.setting import ROOT, Setting
from mmvtr.models.retriever import VideoTextRetriever
from mmvtr.registry import MODELS
from mmvtr.structures import Embedding


def dvtr(setting: Setting, *, debiased: bool = True) -> VideoTextRetriever:
    """Return the model of configs/dvtr_c2v_msrvtt.py, or in a smoke run of dvtr_c2v_planted.py.

    Args:
        debiased: False drops heads and supervision: CLIP2Video with InfoNCE.
    """
    name = 'dvtr_c2v_planted' if setting.smoke else 'dvtr_c2v_msrvtt'
    cfg = Config.fromfile(ROOT / 'configs' / f'{name}.py').model
    for tower in (cfg.encoder.frames, cfg.encoder.text):
        tower.pop('pretrained', None)
    if not debiased:
        cfg.pop('heads')
        cfg.pop('supervision')
    init_default_scope('mmvtr')
    torch.manual_seed(0)
    return MODELS.build(cfg).to(setting.device).train()


def clips(setting: Setting, count: int) -> dict[str, Any]:
    """Return inputs and samples of ``count`` pairs, of that config's 12 frames and 32 tokens."""
    frames, size, words = (3, 64, 8) if setting.smoke else (12, 224, 32)
    generator = torch.Generator(setting.device).manual_seed(0)
    how = dict(generator=generator, device=setting.device)
    return dict(
        inputs=dict(
            video=torch.randn(count, frames, 3, size, size, **how),
            frame_mask=torch.ones(count, frames, dtype=torch.bool, device=setting.device),
            text=torch.randint(1, 70, (count, words), **how),
            text_mask=torch.ones(count, words, dtype=torch.bool, device=setting.device),
        ),
        data_samples=samples(count, setting.device),
    )


def samples(count: int, device: torch.device) -> dict[str, Any]:
    """Return data samples in which each text has its own video."""
    index, names = torch.arange(count, device=device), [str(i) for i in range(count)]
    return dict(
        video_idx=index,
        text_idx=index,
        text_videos=index[:, None],
        text_ids=names,
        video_ids=names,
    )


class Vectors(nn.Module):
    """An encoder that returns the batch's vectors, times one trainable scale."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim
        self.scale = nn.Parameter(torch.ones(dim))

    def encode_video(self, video: Tensor, mask: Tensor) -> dict[str, Embedding]:
        return {'global': Embedding(video[:, 0] * self.scale)}

    def encode_text(self, text: Tensor, mask: Tensor) -> dict[str, Embedding]:
        return {'global': Embedding(text[:, 0] * self.scale)}


def loss_alone(dim: int, **how: Any) -> VideoTextRetriever:
    """Return a retriever with a contrastive loss over stored vectors."""
    return VideoTextRetriever(
        encoder=Vectors(dim),
        similarity=dict(type='mmvtr.CosineSimilarity'),
        losses=dict(nce=dict(type='mmvtr.ContrastiveLoss')),
        temperature=dict(type='mmvtr.Temperature', init=0.07),
        **how,
    )


def vectors(count: int, dim: int, device: torch.device) -> dict[str, Any]:
    """Return a batch for :func:`loss_alone`."""
    generator = torch.Generator(device).manual_seed(0)
    how = dict(generator=generator, device=device)
    mask = torch.ones(count, 1, dtype=torch.bool, device=device)
    inputs = dict(video=torch.randn(count, 1, dim, **how), text=torch.randn(count, 1, dim, **how))
    inputs.update(frame_mask=mask, text_mask=mask)
    return dict(inputs=inputs, data_samples=samples(count, device))


def total(losses: dict[str, Tensor]) -> Tensor:
    """Return the loss of a training step."""
    return sum(value for name, value in losses.items() if 'loss' in name)


def without_dropout(model: nn.Module) -> None:
    """Disable dropout, so that a step in parts and a whole step compute the same."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        if isinstance(module, nn.MultiheadAttention):
            module.dropout = 0.0


def step(model: VideoTextRetriever, batch: dict[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """Return loss and gradients, from the same buffers each time."""
    buffers = {name: x.clone() for name, x in model.named_buffers()}
    model.zero_grad(set_to_none=True)
    loss = total(model(**batch, mode='loss'))
    loss.backward()
    gradients = {n: p.grad.cpu() for n, p in model.named_parameters() if p.grad is not None}
    for name, x in model.named_buffers():
        x.copy_(buffers[name])
    return loss.detach().cpu(), gradients
