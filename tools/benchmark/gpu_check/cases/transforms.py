"""Cases of functions from score matrices to score matrices."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

import torch

import mmvtr.functional as f
from gpu_check.cases.case import TAU, Case, called, make


def transforms(x: SimpleNamespace) -> list[Case]:
    """Return cases of test-time transforms, on scores and banks."""
    case, own = partial(called, x), partial(make, x)
    found = [
        case('sinkhorn', 'scores', temperature=TAU),
        case('sinkhorn/marginals', 'bank row_marginals=text_marginals', temperature=TAU, low=False),
        own(
            'sinkhorn_by_rows',
            'scores',
            lambda i: tuple(f.sinkhorn_by_rows(lambda: i.scores.split(7), temperature=TAU)),
            low=False,
        ),
        case('column_biases', 'bank text_marginals', temperature=TAU),
        own(
            'as_tiles',
            'scores',
            lambda i: f.as_tiles(i.scores, entries=100).per_column(lambda tile: tile.sum(0)),
        ),
        own(
            'inner_products',
            'texts videos',
            lambda i: torch.cat([x for _, x in f.inner_products(i.texts, i.videos).parts()], 1),
        ),
        own('score_gap', 'scores', lambda i: torch.tensor(f.score_gap(i.scores))),
        own('row_groups', 'scores', lambda i: f.row_groups(i.scores)),
        own('distinct_rows', 'scores', lambda i: f.distinct_rows(i.scores)),
        case('modal_biases', 'texts videos', low=False),
        case('csls', 'scores bank', neighbours=3, low=False),
        case('local_scaling', 'scores bank', strength=-0.2, share=0.3, low=False),
        case('hedged_scaling', 'scores bank', first=-0.3, strength=0.4, places=2, low=False),
        case('nnn', 'scores bank', neighbours=3, low=False),
        own(
            'dbsn',
            'scores bank',
            lambda i: f.dbsn(i.scores, i.bank, bank_gallery=i.bank.roll(1, 0), temperature=TAU),
            low=False,
        ),
        case('db_norm', 'scores bank item_bank=video_cosines', temperature=TAU, low=False),
        case('inverse_convolution', 'videos texts', strength=0.4, share=0.3, low=False),
        own(
            'invgc',
            'videos texts',
            lambda i: f.invgc(
                i.videos,
                items=i.videos[1:],
                queries=i.texts,
                item_strength=0.2,
                query_strength=0.4,
            ),
            low=False,
        ),
        case('expected_truth', 'scores implied', temperature=0.1),
        case('first_places', 'scores truth', places=2, low=False),
        case('sure_first', 'scores truth', sure=0.7, low=False),
        case('activation_set', 'bank', neighbours=2, low=False),
    ]
    plain = 'sinkhorn_scores unbalanced_sinkhorn inverted_softmax qb_norm dual_softmax'
    return found + [case(n, 'scores bank', temperature=TAU, low=False) for n in plain.split()]
