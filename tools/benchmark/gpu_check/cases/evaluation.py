"""Ranks, measures, and figures of hubs and lengths."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Callable

import mmvtr.functional as f
from gpu_check.cases.case import TAU, Case, make


def ranks(x: SimpleNamespace) -> list[Case]:
    """Ranks and measures."""
    scored, graded = 'scores positives', 'scores relevance'

    def counts(i: SimpleNamespace) -> Any:
        return f.rank_counts(i.scores, i.positives, tile=100)

    def classes(i: SimpleNamespace) -> tuple[dict, dict]:
        return (
            dict(verb=i.text_verbs, noun=i.text_nouns),
            dict(verb=i.video_verbs, noun=i.video_nouns),
        )

    kinds = 'text_verbs text_nouns video_verbs video_nouns'
    makers: list[tuple[str, str, Callable]] = [
        ('ranks', scored, lambda i: f.ranks(i.scores, i.positives)),
        ('ranks/videos_ask', scored, lambda i: f.ranks(i.scores, i.positives, dim=0, tile=100)),
        ('rank_counts', scored, lambda i: tuple(counts(i))),
        ('caption_max', scored, lambda i: f.caption_max(i.scores, i.positives)),
        ('recall_at', 'ranks', lambda i: f.recall_at(i.ranks, 5)),
        ('median_rank', 'ranks', lambda i: f.median_rank(i.ranks)),
        ('mean_rank', 'ranks', lambda i: f.mean_rank(i.ranks)),
        ('expected_recall_at', scored, lambda i: f.expected_recall_at(counts(i), 5)),
        ('expected_median_rank', scored, lambda i: f.expected_median_rank(counts(i))),
        ('expected_mean_rank', scored, lambda i: f.expected_mean_rank(counts(i))),
        ('average_precision', scored, lambda i: f.average_precision(i.scores, i.positives)),
        ('precision_at_1', scored, lambda i: f.precision_at_1(i.scores, i.positives)),
        ('precision_at', scored, lambda i: f.precision_at(i.scores, i.positives, 5)),
        (
            'interpolated_precision',
            scored,
            lambda i: f.interpolated_precision(i.scores[0], i.positives[0]),
        ),
        ('r_precision', scored, lambda i: f.r_precision(i.scores, i.positives)),
        ('map_at_r', scored, lambda i: f.map_at_r(i.scores, i.positives)),
        (
            'bpref',
            f'{scored} ambiguous',
            lambda i: f.bpref(i.scores, i.positives, i.ambiguous | i.positives),
        ),
        (
            'condensed',
            f'{scored} ambiguous',
            lambda i: f.ranks(f.condensed(i.scores, ~i.ambiguous), i.positives),
        ),
        (
            'untied',
            f'{scored} relevance',
            lambda i: f.ranks(f.untied(i.relevance, i.scores), i.positives),
        ),
        ('ndcg_at_k', graded, lambda i: f.ndcg_at_k(i.scores, i.relevance, k=5)),
        (
            'auc',
            scored,
            lambda i: f.auc(i.scores[i.positives], i.scores[~i.positives]),
        ),
        ('graded_values', graded, lambda i: tuple(f.graded_values(i.scores, i.relevance))),
        ('graded_chance', graded, lambda i: tuple(f.graded_chance(i.relevance))),
        (
            'mean_over_queries',
            'risk',
            lambda i: f.mean_over_queries(i.risk.log(), without_match='left_out'),
        ),
        ('class_relevance', kinds, lambda i: f.class_relevance(*classes(i))),
        ('class_overlap', kinds, lambda i: f.class_overlap(*classes(i))),
        (
            'intersection_over_union',
            kinds,
            lambda i: f.intersection_over_union(i.text_verbs, i.video_verbs),
        ),
    ]
    how = dict(low=False, differentiable=False)
    return [make(name, x, keys, call, **how) for name, keys, call in makers]


def hubness_and_lengths(x: SimpleNamespace) -> list[Case]:
    """Figures of a score matrix, and lengths of environments."""
    makers: list[tuple[str, str, Callable]] = [
        ('retrieval_mass', 'scores', lambda i: f.retrieval_mass(i.scores, temperature=TAU)),
        ('relative_mass', 'scores', lambda i: f.relative_mass(i.scores, temperature=TAU, dim=0)),
        (
            'normalisation_error',
            'scores',
            lambda i: f.normalisation_error(i.scores, temperature=TAU),
        ),
        (
            'error_rates_by_mass',
            'scores positives',
            lambda i: tuple(f.error_rates_by_mass(i.scores, i.positives, temperature=TAU)),
        ),
        ('generality', 'scores', lambda i: f.generality(i.scores, temperature=TAU)),
        ('k_occurrence', 'scores', lambda i: f.k_occurrence(i.scores, k=3)),
        (
            'hub_breadth',
            'scores',
            lambda i: f.hub_breadth(
                i.scores.topk(3, dim=1).indices,
                i.scores[:, 0].argsort() % 4,
                items=i.scores.shape[1],
            ),
        ),
        ('skewness', 'lengths', lambda i: f.skewness(i.lengths)),
        ('modality_gap', 'texts videos', lambda i: tuple(f.modality_gap(i.texts, i.videos))),
        (
            'nearer_to_train',
            'lengths train test',
            lambda i: f.nearer_to_train(i.lengths, i.train[:, None], i.test[:, None]),
        ),
        ('mean_of_top', 'scores lengths', lambda i: f.mean_of_top(i.scores, i.lengths, k=3)),
        (
            'chance_of_top',
            'lengths train test',
            lambda i: f.chance_of_top(i.lengths, i.train, i.test, k=3, draws=300),
        ),
        (
            'length_correlation',
            'scores lengths train positives',
            lambda i: f.length_correlation(i.scores, i.lengths, i.train, ~i.positives),
        ),
    ]
    how = dict(low=False, differentiable=False)
    return [make(name, x, keys, call, **how) for name, keys, call in makers]
