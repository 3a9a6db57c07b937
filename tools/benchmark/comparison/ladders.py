"""From letter to sound, one factor at a time: what each departure from a paper's text does.

A ladder has one learning rate, that of its base, so that a row differs by its factor alone.  The
corpora are those on which settings were chosen: a ladder explains, and confirms nothing.
"""

from __future__ import annotations

from typing import Any, Mapping

from comparison.kinds import Condition, Family, Method

DVTR = 'configs/dvtr_c2v_planted_features.py'
#: Eq. 13 has no floor; the ladder's base is the sound reading without one.
NO_FLOOR: Mapping[str, Any] = {'model.supervision.floor': 0.0}


def _dvtr(
    label: str, changes: Mapping[str, Any], config: str = DVTR, group: str = 'ours'
) -> Method:
    """One factor off the base."""
    return Method(label, config, group, {**NO_FLOOR, **changes}, controls=('dvtr_floor0',))


METHODS = {
    'dvtr_text': _dvtr(
        "DVTR, compared with the text's own p", {'model.supervision.reference': 'text'}
    ),
    'dvtr_mean': _dvtr('DVTR, compared with the mean', {'model.supervision.reference': 'mean'}),
    'dvtr_no_ramp': _dvtr('DVTR, weights from the first step', {'model.supervision.ramp': (0, 0)}),
    'dvtr_linear': _dvtr('DVTR, sharpness 1', {'model.supervision.sharpness': 1.0}),
    'dvtr_floor': _dvtr('DVTR, floor .4', {'model.supervision.floor': 0.4}),
    'dvtr_one_way': _dvtr(
        'DVTR, weights in v2t alone', {'model.losses.contrastive.weighted': 'v2t'}
    ),
    'dvtr_joint': _dvtr(
        'DVTR, heads move the encoders (Alg. 1)', {'model.detach_heads': False}, group='paper'
    ),
    'dvtr_pcme0': _dvtr(
        "DVTR, PCME's probability (Tab. IX)", {}, 'configs/dvtr_pcme_planted_features.py', 'paper'
    ),
}

CONDITIONS = {
    'ladder_dvtr': Condition(
        label='DVTR, one factor at a time',
        about='Six captions of ten are general. The base is the sound reading of DVTR without a '
        'floor, compared with the larger of what a text and a clip reach with their own partners.',
        family='DVTR ladder',
        corpus=dict(general=0.6),
        features=dict(folder='clips'),
        methods=('infonce', 'dvtr_floor0', *METHODS, 'dvtr_literal', 'oracle'),
        baseline='infonce',
        oracle='oracle',
        aim='semantic/v2t_P1',
        why="Rows are compared with the ladder's base; at one learning rate, not at their best.",
        first_seed=40,
    ),
}
FAMILIES = {'DVTR ladder': Family('ladder_dvtr', [{'optim_wrapper.optimizer.lr': 1e-3}], fair=True)}
