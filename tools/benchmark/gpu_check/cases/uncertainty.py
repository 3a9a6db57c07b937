"""Gaussians, what is made of their samples, and uncertainty by moments."""

from __future__ import annotations

from types import SimpleNamespace

import torch
from torch import Tensor

import mmvtr.functional as f
from gpu_check.cases.case import Case, make, random_generator
from gpu_check.cases.inputs import D, S, V


def of_gaussians(x: SimpleNamespace) -> list[Case]:
    """Distances, divergences and samples."""
    float32 = dict(low=False, reference=torch.float32)
    gaussians = 'texts log_std_t videos log_std_v'
    return [
        make(
            'wasserstein2',
            x,
            gaussians,
            lambda i: f.wasserstein2(i.texts, i.log_std_t, i.videos, i.log_std_v),
        ),
        make(
            'closed_form_distance',
            x,
            gaussians,
            lambda i: f.closed_form_distance(i.texts, i.log_std_t, i.videos, i.log_std_v),
        ),
        make(
            'inclusion',
            x,
            gaussians,
            lambda i: f.inclusion(
                i.texts[:V], i.log_std_t[:V], i.videos, i.log_std_v, form='official'
            ),
        ),
        make(
            'inclusion_matrix',
            x,
            gaussians,
            lambda i: f.inclusion_matrix(i.texts, i.log_std_t, i.videos, i.log_std_v),
        ),
        make(
            'inclusion_loss',
            x,
            gaussians,
            lambda i: f.inclusion_loss(
                i.texts[:V], i.log_std_t[:V], i.videos, i.log_std_v, scale=0.1
            ),
        ),
        make(
            'kl_divergence',
            x,
            gaussians,
            lambda i: f.kl_divergence(i.texts[:V], i.log_std_t[:V], i.videos, i.log_std_v),
        ),
        make('geometric_sigma', x, 'log_std_t', lambda i: f.geometric_sigma(i.log_std_t)),
        make(
            'sample',
            x,
            'texts log_std_t',
            lambda i: f.sample(i.texts, i.log_std_t, S, random_generator()),
            **float32,
        ),
        make(
            'mean_unit_sample',
            x,
            'texts log_std_t',
            lambda i: f.mean_unit_sample(
                i.texts, i.log_std_t, S, random_generator(), entries=3 * S * D
            ),
            **float32,
        ),
        make('bounded', x, 'log_std_t', lambda i: f.bounded(i.log_std_t, -1.25, -0.75)),
        make(
            'mean_sample_cosine',
            x,
            'text_samples video_samples',
            lambda i: f.mean_sample_cosine(i.text_samples[:V], i.video_samples),
        ),
        make(
            'mean_sample_dot',
            x,
            'text_samples video_samples',
            lambda i: f.mean_sample_dot(i.text_samples[:V], i.video_samples),
        ),
        make(
            'dataset_uncertainty',
            x,
            'texts frames frame_mask',
            lambda i: tuple(f.dataset_uncertainty(i.texts, i.frames, i.frame_mask)),
            low=False,
        ),
        make(
            'mean_cosines',
            x,
            'texts videos',
            lambda i: f.mean_cosines(i.texts, i.videos[0]),
            low=False,
        ),
    ]


def of_sets(x: SimpleNamespace) -> list[Case]:
    """Uncertainty of pairs, the sets that it makes, and how well it tells."""
    return [
        make('UnitMean', x, 'frames frame_mask', _unit_mean, low=False, differentiable=False),
        make('PairMoments', x, 'texts videos', _pair_moments, low=False, differentiable=False),
        make('Moments', x, 'scores', _moments, low=False, differentiable=False),
        make(
            'pair_uncertainty',
            x,
            'text_u frame_u best',
            lambda i: f.pair_uncertainty(i.text_u, i.frame_u, i.best),
        ),
        make(
            'frame_uncertainty',
            x,
            'text_u frame_u',
            lambda i: f.frame_uncertainty(i.text_u[:V], i.frame_u),
        ),
        make(
            'own_positive',
            x,
            'scores positives',
            lambda i: f.own_positive(i.scores, i.positives, slack=0.125),
        ),
        make(
            'ambiguous_set',
            x,
            'scores uncertainty positives',
            lambda i: f.ambiguous_set(
                i.scores, i.uncertainty, i.positives, tau_s=0.125, tau_u=0.25, cap=3
            ),
        ),
        make(
            'risk_coverage',
            x,
            'text_u risk',
            lambda i: f.risk_coverage(i.text_u, i.risk),
            low=False,
        ),
        make(
            'rejection_ratio',
            x,
            'text_u risk',
            lambda i: f.rejection_ratio(i.text_u, i.risk),
            low=False,
        ),
        make('spearman', x, 'text_u risk', lambda i: f.spearman(i.text_u, i.risk), low=False),
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
