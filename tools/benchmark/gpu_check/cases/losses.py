"""Cases of losses on scores and on matches between Gaussians, and of their weights and teachers."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

import torch
from torch import Tensor

import mmvtr.functional as f
from gpu_check.cases.case import TAU, Case, called, make, random_generator


def of_pairs(x: SimpleNamespace) -> list[Case]:
    """Return cases of contrastive and ranking losses on a score matrix."""
    case, own = partial(called, x), partial(make, x)
    scored = 'scores positives'
    weighed = f'{scored} weights=weights'
    ambiguous = f'{weighed} ambiguous=ambiguous'
    neighbours = dict(neighbours=3, sharpness=1.0)
    return [
        case('contrastive', weighed, temperature=TAU),
        case('contrastive/own_pair', ambiguous, temperature=TAU, form='own_pair'),
        case('bias_gradient', scored, temperature=TAU, low=False),
        case('contrastive/outer_sum', scored, temperature=TAU, form='outer_sum'),
        case('contrastive/soft', 'scores relevance weights=weights', temperature=TAU),
        case('margin_ranking/ambiguous', ambiguous, average='anchors'),
        *(
            case(f'margin_ranking/{how}', weighed, negatives=how)
            for how in ('all', 'hardest', 'semi_hard')
        ),
        own('margin_ranking/random', scored, _random_ranking, low=False, reference=torch.float32),
        own('soft_label_contrastive', f'{scored} weights text_u draws', _soft_labels),
        case('rince', weighed, temperature=0.5),
        own(
            'neighbour_degrees',
            scored,
            lambda i: (
                f.neighbour_degrees(i.scores, i.positives, i.scores.mean(0), **neighbours).degrees
            ),
            low=False,
        ),
        own(
            'neighbour_loss',
            scored,
            lambda i: f.neighbour_loss(i.scores, i.positives, i.scores.mean(0), **neighbours),
            low=False,
        ),
        case('uniform_loss', scored, temperature=0.3),
        case('score_divergence', 'scores weights'),
        case('highest', 'scores ~positives', k=3),
        case('masked_mean', 'scores ambiguous'),
    ]


def of_weights(x: SimpleNamespace) -> list[Case]:
    """Return cases of functions that weight or draw the pairs of a loss."""
    case, own = partial(called, x), partial(make, x)
    scored = 'scores positives'
    fixed = dict(differentiable=False)
    exact = dict(low=False, **fixed)
    return [
        own(
            'group_weights',
            'positives',
            lambda i: f.group_weights(i.positives, i.positives.int().argmax(0) % 2),
            **exact,
        ),
        case('guide_mask', 'relevance risk', margin=0.05, **exact),
        case('guide_weights', 'scores text_u', rule='share', margin=0.1, softness=0.1, **fixed),
        case('hardness_weights', scored, alpha=3.0, over='v2t', **fixed),
        case('debiased_weights', scored, prior=0.05, temperature=TAU),
        case('item_draws', 'own', seed=3, epoch=7, **exact),
        own(
            'apply_strategy',
            'positives ambiguous weights',
            lambda i: f.apply_strategy('ignore', i.positives, i.ambiguous, i.weights)['weights'],
        ),
        case('dissimilarities', 'text_cosines video_cosines positives'),
        case('adaptive_margin', 'weights ~positives', alpha=0.2, beta=0.1),
        case('centrality_weights', 'text_cosines text_cosines', scale=0.3),
        case('transport_targets', scored, share=0.7, temperature=1.0, **fixed),
    ]


def _random_ranking(i: SimpleNamespace) -> Tensor:
    drawn = dict(negatives='random', positive='mean', pool=5, generator=random_generator())
    return f.margin_ranking(i.scores, i.positives, **drawn)


def _soft_labels(i: SimpleNamespace) -> Tensor:
    draws = (i.text_u, i.draws)
    return f.soft_label_contrastive(
        i.scores / TAU, i.positives, i.weights, alpha=0.6, beta=0.7, draws=draws
    )


def of_matches(x: SimpleNamespace) -> list[Case]:
    """Return cases of match probabilities, samples and distributions."""
    case, own = partial(called, x), partial(make, x)
    scored = 'scores positives'
    return [
        case('frame_divergence', 'pair_scores pair_teacher pair_mask'),
        case('binary_cross_entropy', 'scores positives'),
        own(
            'binary_cross_entropy_sum',
            scored,
            lambda i: f.binary_cross_entropy_sum(i.scores, i.positives.nonzero(as_tuple=True)),
        ),
        case(
            'binary_cross_entropy/soft',
            'scores truth weights=weights',
            scale=10.0,
            bias=-3.0,
            reduction='items',
        ),
        case('pseudo_positives', 'scores positives', low=False, differentiable=False),
        own(
            'mixed_labels',
            'positives draws',
            lambda i: f.mixed_labels(
                i.positives, i.draws, torch.arange(len(i.draws), device=i.draws.device).flip(0)
            ),
            differentiable=False,
        ),
        own(
            'generalised_gaussian_nll',
            'texts log_std_t',
            lambda i: f.generalised_gaussian_nll(i.texts + 0.5, i.log_std_t, 1 + i.log_std_t.exp()),
        ),
        own(
            'generalised_gaussian_std',
            'log_std_t',
            lambda i: f.generalised_gaussian_std(i.log_std_t, 1 + i.log_std_t.exp()),
        ),
        case(
            'multi_instance',
            'text_samples video_samples positives weights=weights',
            temperature=TAU,
        ),
        case('soft_contrast', 'text_samples video_samples positives', slope=2.0, bias=2.0),
        case('match_log_probability', 'text_samples video_samples', slope=2.0, bias=2.0),
        case('log_mean_sigmoid', 'texts', dims=(1,)),
        case('kl_to_unit', 'texts log_std_t'),
        own('text_frame', 'pair_scores pair_mask own', _text_frame),
    ]


def _text_frame(i: SimpleNamespace) -> tuple[Tensor, Tensor]:
    sides = f.text_frame(i.pair_scores, i.pair_mask, i.own)
    return tuple(
        f.contrastive(**side._asdict(), form='own_pair', temperature=0.5, direction=direction)
        for side, direction in zip(sides, ('t2v', 'v2t'))
    )


def taught(x: SimpleNamespace) -> list[Case]:
    """Return cases of losses with teachers, adaptive margins and shares of hard negatives."""
    case, own = partial(called, x), partial(make, x)
    scored, tokens = 'scores positives', 'words word_weights frames frame_mask positives'

    def standard(i: SimpleNamespace) -> tuple[Tensor, Tensor]:
        return tuple(f.standard(1 - i.scores, ~i.positives))

    def by(i: SimpleNamespace) -> Tensor:
        found = f.standard(1 - i.scores, ~i.positives)
        return f.margins_by(found, 1 - i.scores, alpha=0.2, beta=0.1)

    def hinges(i: SimpleNamespace) -> Tensor:
        two = ((1.0, 0.2), (0.5, i.weights))
        return f.several_hinges(i.scores, i.positives, two)

    def of_products(i: SimpleNamespace) -> tuple[Tensor, Tensor]:
        pairs = i.positives.nonzero(as_tuple=True)
        return tuple(f.standard_of_products(i.texts, i.videos, pairs))

    return [
        case('distillation_kl', 'scores weights'),
        case('smooth_l1', 'scores weights'),
        own('mean_products', 'texts videos', lambda i: f.mean_products([i.texts], [i.videos])),
        own('several_hinges', f'{scored} weights', hinges),
        own('standard', scored, standard),
        own('standard_of_products', 'texts videos positives', of_products, low=False),
        own('margins_by', scored, by, low=False),
        case('text_dissimilarities', 'text_cosines positives'),
        case('token_contrast', tokens, temperature=TAU),
        case('hard_negatives', 'scores ~positives', count=3, low=False, differentiable=False),
    ]
