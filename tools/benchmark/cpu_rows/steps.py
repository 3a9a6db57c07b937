"""Training steps on stored features beside the same maths written bare in PyTorch."""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.nn.functional as F
from mmengine.optim import OptimWrapper
from torch import Tensor, nn

import mmvtr.models  # noqa: F401 - registers the parts
from cpu_rows.timing import Call, Row, beside
from mmvtr.registry import MODELS

DIM, FRAMES, WORDS, SAMPLES = 512, 12, 8, 7
DVTR = dict(
    heads=dict(type='mmvtr.HierarchicalGaussianHead'),
    supervision=dict(
        type='mmvtr.DVTRSupervision', num_samples=SAMPLES, sharpness=2.0, floor=0.0
    ),
)  # fmt: skip


def steps(quick: bool, repeats: int) -> list[Row]:
    """InfoNCE and DVTR, small and large batches: forward, backward, AdamW."""
    rows = []
    for size in (16,) if quick else (512, 4096):
        frames, words = torch.randn(size, FRAMES, DIM), torch.randn(size, WORDS, DIM)
        for name, more, bare in (('InfoNCE', {}, BareInfoNCE), ('DVTR', DVTR, BareDVTR)):
            anchor = bare(frames, words)
            work = f'a step of {name}, {size:,} pairs of features'
            rows += beside(work, ours(frames, words, more), {'bare PyTorch': anchor}, repeats)
    return rows


def ours(frames: Tensor, words: Tensor, more: dict[str, Any]) -> Call:
    """A step of the retriever."""
    model = retriever(more)
    optimizer = OptimWrapper(torch.optim.AdamW(model.parameters(), 1e-5))
    data = collated(frames, words)
    return lambda: model.train_step(copy.copy(data), optimizer)


def retriever(more: dict[str, Any]) -> nn.Module:
    """The retriever of mean frames and words, with further parts."""
    parts = dict(
        data_preprocessor=dict(type='mmvtr.VideoTextDataPreprocessor'),
        encoder=dict(
            type='mmvtr.CLIP4Clip',
            frames=dict(type='mmvtr.FeatureFrames', in_dim=DIM, dim=DIM),
            text=dict(type='mmvtr.FeatureWords', in_dim=DIM),
        ),
        similarity=dict(type='mmvtr.CosineSimilarity'),
        temperature=dict(type='mmvtr.Temperature', init=0.05, learnable=True),
        losses=dict(contrastive=dict(type='mmvtr.ContrastiveLoss')),
    )
    config = dict(type='mmvtr.VideoTextRetriever') | parts | copy.deepcopy(more)
    return MODELS.build(config).train()


def collated(frames: Tensor, words: Tensor) -> dict[str, Any]:
    """A batch whose text i is of video i, as workers hand it on."""
    places, names = torch.arange(len(frames)), [str(i) for i in range(len(frames))]
    samples = dict(text_ids=names, video_ids=names, text_videos=places[:, None],
                   video_idx=places, text_idx=places)  # fmt: skip
    return dict(inputs=dict(video=frames, text=words), data_samples=samples)


class Bare:
    """A training step by hand; subclasses make the optimizer and write the loss."""

    optimizer: torch.optim.Optimizer

    def __call__(self) -> float:
        loss = self.loss()
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.item()

    def loss(self) -> Tensor:
        raise NotImplementedError


def contrast(logits: Tensor) -> Tensor:
    """InfoNCE of text i with video i, both ways."""
    targets = torch.arange(len(logits))
    return (F.cross_entropy(logits, targets) + F.cross_entropy(logits.t(), targets)) / 2


class BareInfoNCE(Bare):
    """The maths of InfoNCE on mean frames and words."""

    def __init__(self, frames: Tensor, words: Tensor) -> None:
        torch.manual_seed(0)
        self.frames, self.words = frames, words
        self.project, self.scale = nn.Linear(DIM, DIM), nn.Parameter(torch.tensor(3.0))
        self.optimizer = torch.optim.AdamW(self.parameters(), 1e-5)

    def parameters(self) -> list[nn.Parameter]:
        return [*self.project.parameters(), self.scale]

    def loss(self) -> Tensor:
        return sum(self.losses(*self.encoded()))

    def encoded(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Unit vectors of texts and videos; words and frames as they are."""
        words, frames = self.words, self.project(self.frames)
        texts, videos = (
            F.normalize(F.normalize(x, dim=-1).mean(1), dim=-1) for x in (words, frames)
        )
        return texts, videos, words, frames

    def losses(self, texts: Tensor, videos: Tensor, words: Tensor, frames: Tensor) -> list[Tensor]:
        return [contrast(self.scale.exp() * texts @ videos.t())]


class BareDVTR(BareInfoNCE):
    """Gaussian heads, match probabilities, K samples, weighted InfoNCE: DVTR's maths, dense."""

    def __init__(self, frames: Tensor, words: Tensor) -> None:
        wide = [(DIM, DIM // 2), (DIM // 2, 1)]
        self.pools = [nn.ModuleList(nn.Linear(*s, bias=False) for s in wide) for _ in range(4)]
        self.maps = [nn.Sequential(nn.Linear(DIM, DIM), nn.ReLU(), nn.Linear(DIM, DIM))
                     for _ in range(4)]  # fmt: skip
        self.norms = [nn.LayerNorm(DIM) for _ in range(2)]
        self.match = nn.Parameter(torch.tensor([1.85, 2.0]))
        super().__init__(frames, words)

    def parameters(self) -> list[nn.Parameter]:
        parts = [*self.pools, *self.maps, *self.norms]
        return [
            *super().parameters(),
            self.match,
            *(p for part in parts for p in part.parameters()),
        ]

    def gaussian(self, side: int, whole: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and log deviation [N, D] of the items of a side (0 texts, 1 videos)."""
        pooled = []
        for first, second in self.pools[2 * side : 2 * side + 2]:
            attention = second(first(tokens).tanh()).softmax(1)
            pooled.append((attention * tokens).sum(1))
        scaled = whole * DIM**0.5
        to_mean, to_spread = self.maps[2 * side : 2 * side + 2]
        mean = self.norms[side](scaled + to_mean(pooled[0]).sigmoid())
        return mean, to_spread(scaled + pooled[1]).clamp(-7, 7)

    def losses(self, texts: Tensor, videos: Tensor, words: Tensor, frames: Tensor) -> list[Tensor]:
        # The heads do not move the encoder, as in the retriever.
        sides = [
            self.gaussian(side, whole.detach(), tokens.detach())
            for side, (whole, tokens) in enumerate([(texts, words), (videos, frames)])
        ]
        t, v = (torch.cat([mean, spread.exp()], -1) for mean, spread in sides)
        squared = t.square().sum(-1)[:, None] + v.square().sum(-1) - 2 * t @ v.t()
        odds = self.match[1] - F.softplus(self.match[0]) * squared.clamp_min(0) / DIM
        own = torch.eye(len(t), dtype=torch.bool)
        matched = F.binary_cross_entropy_with_logits(odds, own.float())
        drawn = [
            F.normalize(mean[:, None] + spread.exp()[:, None] * torch.randn(len(t), SAMPLES, DIM),
                        dim=-1).mean(1)
            for mean, spread in sides
        ]  # fmt: skip
        aligned = ((t - v).square().sum(-1) / DIM - (drawn[0] * drawn[1]).sum(-1)).mean()
        p = odds.detach().sigmoid()
        with_own = torch.maximum(p.diagonal()[:, None], p.diagonal())
        weights = (1 - (p / with_own).square()).clamp_min(0).masked_fill(own, 1)
        logits = self.scale.exp() * texts @ videos.t() + weights.log().clamp_min(-1e4)
        return [contrast(logits), matched, aligned]
