"""Which ideas add up, and which fight: pairs chosen for a reason, on one corpus that is new.

Written down before any of them was trained:

- **NCL with implied texts**: the one evens out how often an item is found, the other spares what
  is found often because it is true of many.  They are to fight, and NCL's biases at test time to
  take back what was spared.
- **DVTR with implied texts**: a model's uncertainty and the words of captions err in different
  places.  A negative that either spares ('any') is to gain in the aim and to cost more; one that
  both spare ('all') to cost less and gain less.  The question is whether a pair beats words alone
  at its own price.

Parts have the settings that they have alone; nothing was tried.
"""

from __future__ import annotations

from comparison.first_round import NORMALISED
from comparison.general import FLOOR, IMPLIED, corpus
from comparison.kinds import SINKHORN, Method

TOGETHER = 'configs/dvtr_implication_c2v_planted_features.py'
METHODS = {
    'implied_biased': Method(
        'implied texts (.07) again',
        IMPLIED,
        'control',
        {FLOOR: 0.07},
        transforms=(SINKHORN,),
        note="tested with NCL's biases as well.",
    ),
    'implied_ncl': Method(
        'implied texts + NCL',
        IMPLIED,
        'combination',
        {FLOOR: 0.07, 'model.losses.contrastive.type': 'NormalizedContrastiveLoss'},
        transforms=(SINKHORN,),
        controls=('implied_biased', f'implied_biased/{SINKHORN}'),
        chosen_by=NORMALISED,
        note='one spares what is true of many, the other evens out how often it is found.',
    ),
    'implied_or_dvtr': Method(
        'implied texts or DVTR',
        TOGETHER,
        'combination',
        controls=('implied_biased', 'dvtr_v2t'),
        note='a negative is spared where either calls it right (`SeveralSupervisions`), in v2t.',
    ),
    'implied_and_dvtr': Method(
        'implied texts and DVTR',
        TOGETHER,
        'combination',
        {'model.supervision.spared_by': 'all'},
        controls=('implied_biased', 'dvtr_v2t'),
        note="only where both do, so that nothing is spared in the first third, before DVTR's "
        'weights begin; words alone spare from the start.',
    ),
}
CONDITIONS = {
    'combinations': corpus(
        36, 'combinations', 'A corpus that nothing was chosen or tried on.'
    )._replace(
        methods=('infonce', 'dvtr_v2t', *METHODS, 'oracle'),
        why='Parts have the settings that they have alone; learning rates are chosen as for all '
        'conditions with general captions.',
    ),
}
