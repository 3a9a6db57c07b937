"""Score matrices to score matrices."""

from __future__ import annotations

from types import SimpleNamespace

import torch

import mmvtr.functional as f
from gpu_check.cases.case import TAU, Case, make


def transforms(x: SimpleNamespace) -> list[Case]:
    """Of the test time, on scores and banks."""
    found = [
        make('sinkhorn', x, 'scores', lambda i: tuple(f.sinkhorn(i.scores, temperature=TAU))),
        make(
            'sinkhorn/marginals',
            x,
            'bank text_marginals',
            lambda i: tuple(f.sinkhorn(i.bank, temperature=TAU, row_marginals=i.text_marginals)),
            low=False,
        ),
        make(
            'sinkhorn_by_rows',
            x,
            'scores',
            lambda i: tuple(f.sinkhorn_by_rows(lambda: i.scores.split(7), temperature=TAU)),
            low=False,
        ),
        make(
            'column_biases',
            x,
            'bank text_marginals',
            lambda i: f.column_biases(i.bank, i.text_marginals, temperature=TAU),
        ),
        make(
            'as_tiles',
            x,
            'scores',
            lambda i: f.as_tiles(i.scores, entries=100).per_column(lambda tile: tile.sum(0)),
        ),
        make(
            'inner_products',
            x,
            'texts videos',
            lambda i: torch.cat([x for _, x in f.inner_products(i.texts, i.videos).parts()], 1),
        ),
        make(
            'modal_biases',
            x,
            'texts videos',
            lambda i: tuple(f.modal_biases(i.texts, i.videos)),
            low=False,
        ),
        make('csls', x, 'scores bank', lambda i: f.csls(i.scores, i.bank, k=3), low=False),
        make(
            'local_scaling',
            x,
            'scores bank',
            lambda i: f.local_scaling(i.scores, i.bank, strength=-0.2, share=0.3),
            low=False,
        ),
        make(
            'hedged_scaling',
            x,
            'scores bank',
            lambda i: f.hedged_scaling(i.scores, i.bank, first=-0.3, strength=0.4, places=2),
            low=False,
        ),
        make('nnn', x, 'scores bank', lambda i: f.nnn(i.scores, i.bank, k=3), low=False),
        make(
            'dbsn',
            x,
            'scores bank',
            lambda i: f.dbsn(i.scores, i.bank, bank_gallery=i.bank.roll(1, 0), temperature=TAU),
            low=False,
        ),
        make(
            'db_norm',
            x,
            'scores bank video_cosines',
            lambda i: f.db_norm(i.scores, i.bank, item_bank=i.video_cosines, temperature=TAU),
            low=False,
        ),
        make(
            'inverse_convolution',
            x,
            'videos texts',
            lambda i: f.inverse_convolution(i.videos, i.texts, strength=0.4, share=0.3),
            low=False,
        ),
        make(
            'invgc',
            x,
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
        make(
            'expected_truth',
            x,
            'scores implied',
            lambda i: f.expected_truth(i.scores, i.implied, temperature=0.1),
        ),
        make(
            'first_places',
            x,
            'scores truth',
            lambda i: f.first_places(i.scores, i.truth, places=2),
            low=False,
        ),
        make(
            'sure_first',
            x,
            'scores truth',
            lambda i: f.sure_first(i.scores, i.truth, sure=0.7),
            low=False,
        ),
        make('activation_set', x, 'bank', lambda i: f.activation_set(i.bank, k=2), low=False),
    ]
    plain = (
        'sinkhorn_scores',
        'unbalanced_sinkhorn',
        'inverted_softmax',
        'qb_norm',
        'dual_softmax',
    )
    for name in plain:
        found.append(
            make(
                name,
                x,
                'scores bank',
                lambda i, name=name: getattr(f, name)(i.scores, i.bank, temperature=TAU),
                low=False,
            )
        )
    return found
