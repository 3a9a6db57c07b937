"""Losses of scores, of matches between Gaussians, and what teaches them."""

from __future__ import annotations

from types import SimpleNamespace

import torch
from torch import Tensor

import mmvtr.functional as f
from gpu_check.cases.case import TAU, Case, make, random_generator


def of_pairs(x: SimpleNamespace) -> list[Case]:
    """Contrasts and rankings of a matrix of scores."""
    scored = 'scores positives'
    float32 = dict(low=False, reference=torch.float32)
    found = [
        make(
            'contrastive',
            x,
            f'{scored} weights',
            lambda i: f.contrastive(i.scores, i.positives, temperature=TAU, weights=i.weights),
        ),
        make(
            'contrastive/own_pair',
            x,
            f'{scored} weights ambiguous',
            lambda i: f.contrastive(
                i.scores,
                i.positives,
                temperature=TAU,
                weights=i.weights,
                ambiguous=i.ambiguous,
                form='own_pair',
            ),
        ),
        make(
            'bias_gradient',
            x,
            scored,
            lambda i: f.bias_gradient(i.scores, i.positives, temperature=TAU),
            low=False,
        ),
        make(
            'contrastive/outer_sum',
            x,
            scored,
            lambda i: f.contrastive(i.scores, i.positives, temperature=TAU, form='outer_sum'),
        ),
        make(
            'contrastive/soft',
            x,
            'scores relevance weights',
            lambda i: f.contrastive(i.scores, i.relevance, temperature=TAU, weights=i.weights),
        ),
        make(
            'group_weights',
            x,
            'positives',
            lambda i: f.group_weights(i.positives, i.positives.int().argmax(0) % 2),
            low=False,
            differentiable=False,
        ),
        make(
            'guide_mask',
            x,
            'relevance risk',
            lambda i: f.guide_mask(i.relevance, i.risk, margin=0.05),
            low=False,
            differentiable=False,
        ),
        make(
            'guide_weights',
            x,
            'scores text_u',
            lambda i: f.guide_weights(i.scores, i.text_u, rule='share', margin=0.1, softness=0.1),
            differentiable=False,
        ),
        make(
            'hardness_weights',
            x,
            scored,
            lambda i: f.hardness_weights(i.scores, i.positives, alpha=3.0, over='v2t'),
            differentiable=False,
        ),
        make(
            'debiased_weights',
            x,
            scored,
            lambda i: f.debiased_weights(i.scores, i.positives, prior=0.05, temperature=TAU),
        ),
        make(
            'margin_ranking/ambiguous',
            x,
            f'{scored} weights ambiguous',
            lambda i: f.margin_ranking(
                i.scores,
                i.positives,
                weights=i.weights,
                ambiguous=i.ambiguous,
                average='anchors',
            ),
        ),
        make(
            'margin_ranking/random',
            x,
            scored,
            lambda i: f.margin_ranking(
                i.scores,
                i.positives,
                negatives='random',
                positive='mean',
                pool=5,
                generator=random_generator(),
            ),
            **float32,
        ),
        make(
            'soft_label_contrastive',
            x,
            f'{scored} weights text_u draws',
            lambda i: f.soft_label_contrastive(
                i.scores / TAU,
                i.positives,
                i.weights,
                alpha=0.6,
                beta=0.7,
                draws=(i.text_u, i.draws),
            ),
        ),
        make(
            'item_draws',
            x,
            'own',
            lambda i: f.item_draws(i.own, seed=3, epoch=7),
            low=False,
            differentiable=False,
        ),
        make(
            'apply_strategy',
            x,
            'positives ambiguous weights',
            lambda i: f.apply_strategy('ignore', i.positives, i.ambiguous, i.weights)['weights'],
        ),
        make(
            'dissimilarities',
            x,
            'text_cosines video_cosines positives',
            lambda i: f.dissimilarities(i.text_cosines, i.video_cosines, i.positives),
        ),
        make(
            'adaptive_margin',
            x,
            'weights positives',
            lambda i: f.adaptive_margin(i.weights, ~i.positives, alpha=0.2, beta=0.1),
        ),
        make(
            'rince',
            x,
            f'{scored} weights',
            lambda i: f.rince(i.scores, i.positives, temperature=0.5, weights=i.weights),
        ),
        make(
            'centrality_weights',
            x,
            'text_cosines',
            lambda i: f.centrality_weights(i.text_cosines, i.text_cosines, scale=0.3),
        ),
        make(
            'neighbour_degrees',
            x,
            scored,
            lambda i: (
                f.neighbour_degrees(
                    i.scores, i.positives, i.scores.mean(0), neighbours=3, sharpness=1.0
                ).degrees
            ),
            low=False,
        ),
        make(
            'neighbour_loss',
            x,
            scored,
            lambda i: f.neighbour_loss(
                i.scores, i.positives, i.scores.mean(0), neighbours=3, sharpness=1.0
            ),
            low=False,
        ),
        make(
            'transport_targets',
            x,
            scored,
            lambda i: f.transport_targets(i.scores, i.positives, share=0.7, temperature=1.0),
            differentiable=False,
        ),
        make(
            'uniform_loss',
            x,
            scored,
            lambda i: f.uniform_loss(i.scores, i.positives, temperature=0.3),
        ),
        make(
            'score_divergence',
            x,
            'scores weights',
            lambda i: f.score_divergence(i.scores, i.weights),
        ),
        make('highest', x, f'{scored} ambiguous', lambda i: f.highest(i.scores, ~i.positives, 3)),
        make('masked_mean', x, 'scores ambiguous', lambda i: f.masked_mean(i.scores, i.ambiguous)),
    ]
    for negatives in ('all', 'hardest', 'semi_hard'):
        found.append(
            make(
                f'margin_ranking/{negatives}',
                x,
                f'{scored} weights',
                lambda i, negatives=negatives: f.margin_ranking(
                    i.scores, i.positives, weights=i.weights, negatives=negatives
                ),
            )
        )
    return found


def of_matches(x: SimpleNamespace) -> list[Case]:
    """Match probabilities, samples and distributions."""
    scored = 'scores positives'
    return [
        make(
            'frame_divergence',
            x,
            'pair_scores pair_teacher pair_mask',
            lambda i: f.frame_divergence(i.pair_scores, i.pair_teacher, i.pair_mask),
        ),
        make(
            'binary_cross_entropy',
            x,
            scored,
            lambda i: f.binary_cross_entropy(i.scores, i.positives),
        ),
        make(
            'binary_cross_entropy_sum',
            x,
            scored,
            lambda i: f.binary_cross_entropy_sum(i.scores, i.positives.nonzero(as_tuple=True)),
        ),
        make(
            'binary_cross_entropy/soft',
            x,
            'scores truth weights',
            lambda i: f.binary_cross_entropy(
                i.scores, i.truth, scale=10.0, bias=-3.0, weights=i.weights, reduction='items'
            ),
        ),
        make(
            'pseudo_positives',
            x,
            scored,
            lambda i: f.pseudo_positives(i.scores, i.positives),
            low=False,
            differentiable=False,
        ),
        make(
            'mixed_labels',
            x,
            'positives draws',
            lambda i: f.mixed_labels(
                i.positives, i.draws, torch.arange(len(i.draws), device=i.draws.device).flip(0)
            ),
            differentiable=False,
        ),
        make(
            'generalised_gaussian_nll',
            x,
            'texts log_std_t',
            lambda i: f.generalised_gaussian_nll(i.texts + 0.5, i.log_std_t, 1 + i.log_std_t.exp()),
        ),
        make(
            'generalised_gaussian_std',
            x,
            'log_std_t',
            lambda i: f.generalised_gaussian_std(i.log_std_t, 1 + i.log_std_t.exp()),
        ),
        make(
            'multi_instance',
            x,
            'text_samples video_samples positives weights',
            lambda i: f.multi_instance(
                i.text_samples, i.video_samples, i.positives, temperature=TAU, weights=i.weights
            ),
        ),
        make(
            'soft_contrast',
            x,
            'text_samples video_samples positives',
            lambda i: f.soft_contrast(
                i.text_samples, i.video_samples, i.positives, slope=2.0, bias=2.0
            ),
        ),
        make(
            'match_log_probability',
            x,
            'text_samples video_samples',
            lambda i: f.match_log_probability(i.text_samples, i.video_samples, slope=2.0, bias=2.0),
        ),
        make('log_mean_sigmoid', x, 'texts', lambda i: f.log_mean_sigmoid(i.texts, (1,))),
        make('kl_to_unit', x, 'texts log_std_t', lambda i: f.kl_to_unit(i.texts, i.log_std_t)),
        make('text_frame', x, 'pair_scores pair_mask own', _text_frame),
    ]


def _text_frame(i: SimpleNamespace) -> tuple[Tensor, Tensor]:
    sides = f.text_frame(i.pair_scores, i.pair_mask, i.own)
    return tuple(
        f.contrastive(**side._asdict(), form='own_pair', temperature=0.5, direction=direction)
        for side, direction in zip(sides, ('t2v', 'v2t'))
    )


def taught(x: SimpleNamespace) -> list[Case]:
    """Losses with teachers, adaptive margins and shares of hard negatives."""
    """Teachers, and margins by what is usual."""
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

    def words(i: SimpleNamespace) -> Tensor:
        given = i.words, i.word_weights, i.frames, i.frame_mask, i.positives
        return f.token_contrast(*given, temperature=TAU)

    exact = dict(low=False, differentiable=False)
    return [
        make('smooth_l1', x, 'scores weights', lambda i: f.smooth_l1(i.scores, i.weights)),
        make('mean_products', x, 'texts videos', lambda i: f.mean_products([i.texts], [i.videos])),
        make('several_hinges', x, f'{scored} weights', hinges),
        make('standard', x, scored, standard),
        make('standard_of_products', x, 'texts videos positives', of_products, low=False),
        make('margins_by', x, scored, by, low=False),
        make(
            'text_dissimilarities',
            x,
            'text_cosines positives',
            lambda i: f.text_dissimilarities(i.text_cosines, i.positives),
        ),
        make('token_contrast', x, tokens, words),
        make(
            'hard_negatives',
            x,
            scored,
            lambda i: f.hard_negatives(i.scores, ~i.positives, 3),
            **exact,
        ),
    ]
