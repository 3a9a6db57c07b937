"""From the printed form to ours, one factor at a time: what each departure does.

A ladder has one learning rate, that of its base, so that a row differs by its factor alone.  The
corpora are those on which settings were chosen: a ladder explains, and confirms nothing.
"""

from __future__ import annotations

from typing import Any, Mapping

from comparison.chances import ARL, LETTER, SHORT
from comparison.kinds import Condition, Family, Method

DVTR = 'configs/dvtr_c2v_planted_features.py'
STEPS = 'projects/lab/configs/dvtr_steps_c2v_planted_features.py'
#: Eq. 13 has no floor; the ladder's base is the sound reading without one.
NO_FLOOR: Mapping[str, Any] = {'model.supervision.floor': 0.0}


def _dvtr(
    label: str, changes: Mapping[str, Any], config: str = DVTR, group: str = 'ours'
) -> Method:
    """One factor off the base."""
    return Method(label, config, group, {**NO_FLOOR, **changes}, controls=('dvtr_floor0',))


def _step(label: str, changes: Mapping[str, Any], group: str = 'paper') -> Method:
    """One step of the sound reading, taken back."""
    options = {f'model.supervision.{name}': value for name, value in changes.items()}
    return _dvtr(label, options, STEPS, group)


def _arl(label: str, changes: Mapping[str, Any], group: str = 'ours') -> Method:
    """One factor off the base."""
    return Method(label, ARL, group, {**LETTER, **changes}, controls=('arl_paper', 'maxframe'))


DVTR_ROWS = {
    'dvtr_text': _dvtr(
        "DVTR, compared with the text's own p", {'model.supervision.reference': 'text'}
    ),
    'dvtr_mean': _dvtr('DVTR, compared with the mean', {'model.supervision.reference': 'mean'}),
    'dvtr_no_ramp': _dvtr('DVTR, weights from the first step', {'model.supervision.ramp': (0, 0)}),
    # With the floors of 0 (the base) and .4 a front: the dial of DVTR.
    'dvtr_floor10': _dvtr('DVTR with a floor of .1', {'model.supervision.floor': 0.1}),
    'dvtr_floor20': _dvtr('DVTR with a floor of .2', {'model.supervision.floor': 0.2}),
    'dvtr_linear': _dvtr('DVTR, sharpness 1', {'model.supervision.sharpness': 1.0}),
    'dvtr_joint': _dvtr(
        'DVTR, heads move the encoders (Alg. 1)', {'model.detach_heads': False}, group='paper'
    ),
    'dvtr_through': _step('DVTR, the loss moves eta (Eq. 13)', {'through_eta': True}),
    'dvtr_positives': _step(
        'DVTR, p learnt of positives alone, of a standardised distance (Eq. 11)',
        {'match': 'positives'},
    ),
    'dvtr_unlabelled': _step(
        'DVTR, p learnt of positives and unlabelled pairs', {'match': 'unlabelled'}, 'ours'
    ),
    'dvtr_kl': _step('DVTR, KL in place of W (Eq. 8)', {'divergence': 'kl'}),
    'dvtr_pcme0': _dvtr(
        "DVTR, PCME's probability (Tab. IX)",
        {},
        'projects/lab/configs/dvtr_pcme_planted_features.py',
        'paper',
    ),
}

ARL_ROWS = {
    'arl_own': _arl("ARL, compared with the text's own pair", {'model.supervision.rule': 'own'}),
    'arl_cap': _arl('ARL, at most one clip a text', {'model.supervision.cap': 1}),
    'arl_spread': _arl('ARL, tau_u 1.5 deviations up', {'model.supervision.u_spread': 1.5}),
    # With the mean pair as threshold, frames have the paper's rule; next to the own pair, a slack.
    'arl_frames': _arl(
        "ARL, compared with the text's own pair, frames within .2 of the best",
        {'model.supervision.rule': 'own', 'model.supervision.frame_slack': 0.2},
    )._replace(controls=('arl_own', 'maxframe')),
    'arl_no_frames': _arl(
        'ARL without the text-frame losses', {'model.supervision.frame_weight': 0.0}, 'partial'
    ),
    'arl_late': _arl('ARL, sets in the last quarter', {'model.supervision.warmup': 0.75}),
}
METHODS = {**DVTR_ROWS, **ARL_ROWS}

CONDITIONS = {
    'ladder_dvtr': Condition(
        label='DVTR, one factor at a time',
        about='Six captions of ten are general. The base is the sound reading of DVTR without a '
        'floor, compared with the larger of what a text and a clip reach with their own partners.',
        family='DVTR ladder',
        corpus=dict(general=0.6),
        features=dict(folder='clips'),
        methods=(
            'infonce',
            'dvtr_floor0',
            'dvtr',
            'dvtr_v2t',
            *DVTR_ROWS,
            'dvtr_literal',
            'oracle',
        ),
        baseline='infonce',
        oracle='oracle',
        aim='semantic/v2t_P1',
        why="Rows are compared with the ladder's base, at one learning rate, not at their best. "
        'DVTR with a floor and in v2t alone are compared with the baseline first, and the letter '
        'with that alone.',
        first_seed=40,
    ),
    'ladder_arl': Condition(
        label='ARL, one factor at a time',
        about='A clip has three moments, and a caption tells of one of them; three captions of ten '
        'are general. The base has the thresholds of the paper.',
        family='ARL ladder',
        corpus=dict(general=0.3, untrimmed=3, captions=6, test_captions=3),
        features=dict(folder='untrimmed', frames=24, untrimmed=3, captions=6, test_captions=3),
        methods=('maxframe', 'arl_paper', *ARL_ROWS, 'maxframe_oracle'),
        baseline='maxframe',
        oracle='maxframe_oracle',
        aim='semantic/t2v_mAP',
        chosen_by='semantic/v2t_mAP',
        cost='retrieval/t2v_rsum',
        why="Rows are compared with the ladder's base; at one learning rate, not at their best.",
        options=SHORT,
        first_seed=40,
    ),
}
ONE_RATE = [{'optim_wrapper.optimizer.lr': 1e-3}]
FAMILIES = {
    'DVTR ladder': Family('ladder_dvtr', ONE_RATE),
    'ARL ladder': Family('ladder_arl', ONE_RATE),
}
