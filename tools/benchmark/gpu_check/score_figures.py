"""Timings of evaluation: token-wise scores, ranks and Sinkhorn, each compared with a plain form."""

from __future__ import annotations

from typing import Any, Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from gpu_check.report import Part, Table
from gpu_check.setting import Setting
from gpu_check.timing import measure, mebibytes, milliseconds, ratio
from mmvtr.functional import inner_products, ranks, sinkhorn, token_scores

ITERATIONS = 4


def scores(setting: Setting) -> Part:
    """Time the three parts of evaluation."""
    rows, values = [], {}
    for title, calls in (
        _token_calls(setting),
        _rank_calls(setting),
        _sinkhorn_calls(setting),
    ):
        figures = measure(calls, setting.device, repeats=setting.repeats)
        base = next(iter(figures.values()))
        for name, x in figures.items():
            rows.append((title, name, milliseconds(x), ratio(x, base), mebibytes(x)))
        values[title] = {name: x._asdict() for name, x in figures.items()}
    return Part(
        'Scores and ranks',
        ['In float32 without gradients. The first line of each kind is what it is compared with.'],
        [Table(('kind', 'form', 'ms', 'to the first', 'peak MiB'), rows)],
        values=values,
    )


def _randn(setting: Setting, *shape: int) -> Tensor:
    generator = torch.Generator(setting.device).manual_seed(0)
    return torch.randn(*shape, generator=generator, device=setting.device)


def _token_calls(setting: Setting) -> tuple[str, dict[str, Callable[[], Any]]]:
    size, dim = (16, 32) if setting.smoke else (512, 512)
    words = F.normalize(_randn(setting, size, 32, dim), dim=-1)
    frames = F.normalize(_randn(setting, size, 12, dim), dim=-1)
    masks = [torch.ones(x.shape[:2], dtype=torch.bool, device=x.device) for x in (words, frames)]

    def untiled() -> Tensor:
        sims = torch.einsum('tld,vfd->tvlf', words, frames)
        return (sims.amax(3).mean(2) + sims.amax(2).mean(2)) / 2

    title = f'token-wise, {size} x {size}, 32 words, 12 frames, {dim}-d'
    return title, {
        'all similarities at once': untiled,
        'token_scores': lambda: token_scores(words, masks[0], frames, masks[1]),
    }


def _rank_calls(setting: Setting) -> tuple[str, dict[str, Callable[[], Any]]]:
    texts, videos = (300, 30) if setting.smoke else (27763, 670)
    matrix = _randn(setting, texts, videos)
    own = torch.arange(texts, device=setting.device) % videos
    positives = F.one_hot(own, videos).bool()

    def sorted_twice() -> Tensor:
        place = matrix.argsort(1, descending=True).argsort(1)
        return place.gather(1, own[:, None]).squeeze(1) + 1

    return f'ranks, {texts:,} x {videos}', {
        'double argsort, texts ask': sorted_twice,
        'ranks, texts ask': lambda: ranks(matrix, positives),
        'ranks, videos ask': lambda: ranks(matrix, positives, dim=0),
    }


def _sinkhorn_calls(setting: Setting) -> tuple[str, dict[str, Callable[[], Any]]]:
    queries, gallery, dim = (64, 96, 32) if setting.smoke else (16384, 27763, 512)
    bank, items = (F.normalize(_randn(setting, n, dim), dim=1) for n in (queries, gallery))

    def products() -> None:
        for _ in range(ITERATIONS + 1):
            for _ in inner_products(bank, items).parts():
                pass

    return f'Sinkhorn, {queries:,} x {gallery:,}, {dim}-d', {
        f'{ITERATIONS + 1} tiled products': products,
        f'sinkhorn, {ITERATIONS} iterations': lambda: sinkhorn(
            inner_products(bank, items), temperature=0.05, iterations=ITERATIONS
        ),
    }
