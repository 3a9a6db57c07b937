"""Columns of the tables of effects.py: metrics, their headings and digits."""

from __future__ import annotations

from typing import NamedTuple


class Column(NamedTuple):
    """A metric, its heading, and how many digits after the point."""

    key: str
    heading: str
    digits: int = 1


PAIRED = (
    Column('retrieval/t2v_R1', 't2v R@1'),
    Column('retrieval/v2t_R1', 'v2t R@1'),
    Column('retrieval/rsum', 'rsum'),
    Column('retrieval/t2v_rsum', 't2v R@1+5+10'),
    Column('retrieval/v2t_rsum', 'v2t R@1+5+10'),
)
SEMANTIC = tuple(
    Column(f'semantic/{direction}_{key}', f'{direction} {heading}')
    for key, heading in (('P1', 'P@1'), ('mAP', 'mAP'), ('nDCG50', 'nDCG@50'))
    for direction in ('t2v', 'v2t')
)
AVERAGED = (
    Column('semantic/mAP', 'mAP of both directions'),
    Column('relevance/avg_nDCG', 'class nDCG'),
)
#: What is true and what is annotated, in both directions: beside each row's aim.
TRUTH = ('semantic/t2v_mAP', 'semantic/v2t_mAP')
FOUND = ('retrieval/t2v_rsum', 'retrieval/v2t_rsum')
SCORES = (
    Column('normalisation/t2v_error', 't2v normalisation error', 3),
    Column('normalisation/v2t_error', 'v2t normalisation error', 3),
    Column('normalisation/t2v_hubness', 't2v hubness', 2),
    Column('normalisation/v2t_hubness', 'v2t hubness', 2),
    Column('length_bias/t2v_train_correlation', 'length bias'),
)
DETECTION = (
    Column('soft_positive/eta_auc', 'AUC, 1 - p'),
    Column('soft_positive/scores_auc', 'AUC, cosine'),
    Column('soft_positive/eta_breakeven', 'break-even, 1 - p'),
    Column('soft_positive/scores_breakeven', 'break-even, cosine'),
)
COLUMNS = {column.key: column for column in (*PAIRED, *SEMANTIC, *AVERAGED, *SCORES, *DETECTION)}


def heading(key: str) -> str:
    """Of a metric; its key where no table has it."""
    return COLUMNS[key].heading if key in COLUMNS else key


def digits(key: str) -> int:
    """After the point."""
    return COLUMNS[key].digits if key in COLUMNS else 1


def lower_is_better(key: str) -> bool:
    """Whether a metric measures an error or a bias."""
    return key.split('/')[0] in ('normalisation', 'length_bias')
