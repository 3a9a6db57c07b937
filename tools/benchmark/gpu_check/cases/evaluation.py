"""Cases of ranks, metrics, and statistics of hubness and lengths."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import mmvtr.functional as f
from gpu_check.cases.case import TAU, Case, called, make

HOW = dict(low=False, differentiable=False)


def ranks(x: SimpleNamespace) -> list[Case]:
    """Return cases of ranks and metrics."""
    case, own = partial(called, x, **HOW), partial(make, x, **HOW)
    scored, graded = 'scores positives', 'scores relevance'

    def counts(i: SimpleNamespace) -> Any:
        return f.rank_counts(i.scores, i.positives, tile=100)

    def classes(i: SimpleNamespace) -> tuple[dict, dict]:
        return (
            dict(verb=i.text_verbs, noun=i.text_nouns),
            dict(verb=i.video_verbs, noun=i.video_nouns),
        )

    kinds = 'text_verbs text_nouns video_verbs video_nouns'
    return [
        case('ranks', scored),
        case('ranks/videos_ask', scored, dim=0, tile=100),
        case('rank_counts', scored, tile=100),
        case('caption_max', scored),
        case('recall_at', 'ranks', k=5),
        case('median_rank', 'ranks'),
        case('mean_rank', 'ranks'),
        own('expected_recall_at', scored, lambda i: f.expected_recall_at(counts(i), 5)),
        own('expected_median_rank', scored, lambda i: f.expected_median_rank(counts(i))),
        own('expected_mean_rank', scored, lambda i: f.expected_mean_rank(counts(i))),
        case('average_precision', scored),
        case('precision_at_1', scored),
        case('precision_at', scored, k=5),
        case('r_precision', scored),
        case('map_at_r', scored),
        own(
            'bpref',
            f'{scored} ambiguous',
            lambda i: f.bpref(i.scores, i.positives, i.ambiguous | i.positives),
        ),
        own(
            'condensed',
            f'{scored} ambiguous',
            lambda i: f.ranks(f.condensed(i.scores, ~i.ambiguous), i.positives),
        ),
        own(
            'untied',
            f'{scored} relevance',
            lambda i: f.ranks(f.untied(i.relevance, i.scores), i.positives),
        ),
        case('ndcg_at_k', graded, k=5),
        own('auc', scored, lambda i: f.auc(i.scores[i.positives], i.scores[~i.positives])),
        case('graded_values', graded),
        case('graded_chance', 'relevance'),
        own(
            'mean_over_queries',
            'risk',
            lambda i: f.mean_over_queries(i.risk.log(), without_match='left_out'),
        ),
        own('class_relevance', kinds, lambda i: f.class_relevance(*classes(i))),
        own('class_overlap', kinds, lambda i: f.class_overlap(*classes(i))),
        case('intersection_over_union', 'text_verbs video_verbs'),
    ]


def hubness_and_lengths(x: SimpleNamespace) -> list[Case]:
    """Return cases of hubness statistics of a score matrix, and of lengths of environments."""
    case, own = partial(called, x, **HOW), partial(make, x, **HOW)
    return [
        case('retrieval_mass', 'scores', temperature=TAU),
        case('relative_mass', 'scores', temperature=TAU, dim=0),
        case('normalisation_error', 'scores', temperature=TAU),
        case('error_rates_by_mass', 'scores positives', temperature=TAU),
        case('generality', 'scores', temperature=TAU),
        case('k_occurrence', 'scores', k=3),
        own(
            'hub_breadth',
            'scores',
            lambda i: f.hub_breadth(
                i.scores.topk(3, dim=1).indices,
                i.scores[:, 0].argsort() % 4,
                items=i.scores.shape[1],
            ),
        ),
        case('skewness', 'lengths'),
        case('modality_gap', 'texts videos'),
        own(
            'nearer_to_train',
            'lengths train test',
            lambda i: f.nearer_to_train(i.lengths, i.train[:, None], i.test[:, None]),
        ),
        case('mean_of_top', 'scores lengths', k=3),
        case('chance_of_top', 'lengths train test', k=3, draws=300),
        case('length_correlation', 'scores lengths train ~positives'),
    ]
