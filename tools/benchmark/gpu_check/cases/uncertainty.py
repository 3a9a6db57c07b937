"""Cases of Gaussians, functions of their samples, and uncertainty by moments."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

import torch
from torch import Tensor

import mmvtr.functional as f
from gpu_check.cases.case import Case, called, make, random_generator
from gpu_check.cases.inputs import D, S, V


def of_gaussians(x: SimpleNamespace) -> list[Case]:
    """Return cases of distances, divergences and samples."""
    case, own = partial(called, x), partial(make, x)
    float32 = dict(low=False, reference=torch.float32)
    gaussians = 'texts log_std_t videos log_std_v'
    pairs = 'few_texts few_log_std videos log_std_v'
    return [
        case('wasserstein2', gaussians),
        case('closed_form_distance', gaussians),
        case('inclusion', pairs, form='official'),
        case('inclusion_matrix', gaussians),
        case('inclusion_loss', pairs, scale=0.1),
        case('kl_divergence', pairs),
        case('geometric_sigma', 'log_std_t'),
        own(
            'sample',
            'texts log_std_t',
            lambda i: f.sample(i.texts, i.log_std_t, S, random_generator()),
            **float32,
        ),
        own(
            'mean_unit_sample',
            'texts log_std_t',
            lambda i: f.mean_unit_sample(
                i.texts, i.log_std_t, S, random_generator(), entries=3 * S * D
            ),
            **float32,
        ),
        own('bounded', 'log_std_t', lambda i: f.bounded(i.log_std_t, -1.25, -0.75)),
        case('mean_sample_cosine', 'few_samples video_samples'),
        case('mean_sample_dot', 'few_samples video_samples'),
        case('dataset_uncertainty', 'texts frames frame_mask', low=False),
        case('mean_cosines', 'texts one_video', low=False),
    ]


def of_sets(x: SimpleNamespace) -> list[Case]:
    """Return cases of pair uncertainty, the sets it defines, and its calibration."""
    case, own = partial(called, x), partial(make, x)
    return [
        own('UnitMean', 'frames frame_mask', _unit_mean, low=False, differentiable=False),
        own('PairMoments', 'texts videos', _pair_moments, low=False, differentiable=False),
        own('Moments', 'scores', _moments, low=False, differentiable=False),
        case('pair_uncertainty', 'text_u frame_u best'),
        case('frame_uncertainty', 'few_u frame_u'),
        case('own_positive', 'scores positives', slack=0.125),
        case('ambiguous_set', 'scores uncertainty positives', tau_s=0.125, tau_u=0.25, cap=3),
        case('risk_coverage', 'text_u risk', low=False),
        case('rejection_ratio', 'text_u risk', low=False),
        case('spearman', 'text_u risk', low=False),
    ]


def _unit_mean(i: SimpleNamespace) -> tuple[Tensor, Tensor]:
    met = f.UnitMean(D, device=i.frames.device)
    against = i.frames[0, 0].double()
    return met.add(i.frames, i.frame_mask, against=against), met.mean


def _pair_moments(i: SimpleNamespace) -> Tensor:
    met = f.PairMoments(D, device=i.texts.device)
    met.add(i.texts[:V], i.videos)
    return torch.tensor(met.uncertainty(i.texts[0].double(), i.videos[0].double()))


def _moments(i: SimpleNamespace) -> Tensor:
    met = f.Moments(device=i.scores.device)
    met.add(i.scores)
    return torch.tensor([met.threshold(), met.threshold(spread=1.0)])
