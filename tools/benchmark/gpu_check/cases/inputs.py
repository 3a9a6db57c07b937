"""Random inputs for all cases, from one generator."""

from __future__ import annotations

from types import SimpleNamespace

import torch
import torch.nn.functional as F
from torch import Tensor

T, V, S, D, LENGTH, FRAMES = 24, 20, 5, 32, 8, 6


def inputs(generator: torch.Generator) -> SimpleNamespace:
    """Return float64 (most rounded to float32), integer and bool tensors by name."""

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator).double()

    def rounded(x: Tensor) -> Tensor:
        return x.float().double()

    def share(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator).double()

    def mask(items: int, length: int) -> Tensor:
        count = torch.randint(1, length + 1, (items, 1), generator=generator)
        return torch.arange(length) < count

    own = torch.randint(V, (T,), generator=generator)
    positives = F.one_hot(own, V).bool()
    positives[0, (own[0] + 1) % V] = True
    found = SimpleNamespace(
        scores=rounded(normal(T, V) / 4 + positives.double() / 4),
        bank=rounded(normal(30, V) / 4),
        positives=positives,
        weights=share(T, V),
        text_cosines=rounded(_cosines(T, generator)),
        video_cosines=rounded(_cosines(V, generator)),
        ambiguous=(share(T, V) < 0.2) & ~positives,
        relevance=share(T, V).round(decimals=1).float().double(),
        texts=rounded(F.normalize(normal(T, D), dim=1)),
        videos=rounded(F.normalize(normal(V, D), dim=1)),
        words=rounded(F.normalize(normal(T, LENGTH, D), dim=2)),
        word_mask=mask(T, LENGTH),
        frames=rounded(F.normalize(normal(V, FRAMES, D), dim=2)),
        frame_mask=mask(V, FRAMES),
        word_weights=share(T, LENGTH),
        frame_weights=share(V, FRAMES),
        text_samples=normal(T, S, D) / 6,
        video_samples=normal(V, S, D) / 6,
        log_std_t=rounded(normal(T, D) / 4 - 1),
        log_std_v=rounded(normal(V, D) / 4 - 1),
        columns=torch.stack([torch.randperm(V, generator=generator)[:4] for _ in range(T)]),
        rows=torch.randint(T, (40,), generator=generator),
        pair_videos=torch.randint(V, (40,), generator=generator),
        pair_scores=rounded(normal(T, FRAMES)),
        pair_mask=mask(T, FRAMES),
        own=own,
        text_u=share(T),
        frame_u=share(V, FRAMES),
        best=torch.randint(FRAMES, (T, V), generator=generator),
        uncertainty=share(T, V),
        risk=share(T).round(decimals=1).float().double(),
        ranks=torch.randint(1, 30, (T,), generator=generator).double(),
        text_verbs=torch.randint(0, 5, (T, 2), generator=generator),
        video_verbs=torch.randint(-1, 5, (V, 3), generator=generator),
        text_nouns=torch.randint(0, 9, (T, 1), generator=generator),
        video_nouns=torch.randint(0, 9, (V, 2), generator=generator),
        lengths=share(V) * 100,
        train=share(T) * 100,
        test=share(T) * 100,
        draws=torch.rand(V, generator=torch.Generator().manual_seed(1)).double(),
        pair_teacher=rounded(
            torch.randn(T, FRAMES, generator=torch.Generator().manual_seed(2)).double()
        ),
        text_marginals=F.normalize(share(30) + 0.1, p=1, dim=0),
        implied=rounded(share(V, V)),
        truth=rounded(share(T, V)),
    )
    # As many texts as videos, and one video.
    first = dict(few_texts='texts', few_log_std='log_std_t', few_samples='text_samples')
    for name, whole in dict(first, few_u='text_u').items():
        setattr(found, name, getattr(found, whole)[:V])
    found.one_video = found.videos[0]
    return found


def _cosines(count: int, generator: torch.Generator) -> Tensor:
    unit = F.normalize(torch.randn(count, D, generator=generator).double(), dim=1)
    return unit @ unit.T
