"""Conditions in which a paper's problem exists, with room to win, and rows at their best chance."""

from __future__ import annotations

from typing import Any, Mapping

from comparison.plan import Condition, Method

#: A temperature that is learnt, as CLIP's is, from .07 down to .01 at the lowest.  A few hundred
#: steps are few for a logarithm that has to fall by 2, so it has a rate of its own.
LEARNT: Mapping[str, Any] = {
    'model.temperature.init': 0.03,
    'model.temperature.learnable': True,
    'optim_wrapper.paramwise_cfg.custom_keys.temperature': dict(lr_mult=30.0, decay_mult=0.0),
}
ARL = 'configs/arl_planted_features.py'
#: ARL's sets from the second quarter on, those of frames with a threshold of their own.
SETS: Mapping[str, Any] = {
    'model.supervision.warmup': 0.25,
    'model.supervision.frame_u_spread': 0.0,
    'model.supervision.frame_slack': 0.2,
}

METHODS: dict[str, Method] = {
    'arl_long': Method('ARL, thresholds of ours', ARL, 'ours', SETS, controls=('maxframe',)),
    'arl_long_paper': Method(
        "ARL, the paper's thresholds",
        ARL,
        'paper',
        {
            'model.supervision.warmup': 0.25,
            'model.supervision.rule': 'mean',
            'model.supervision.cap': None,
            'model.supervision.u_spread': 0.0,
        },
        controls=('maxframe',),
    ),
    'arl_long_pairs': Method(
        'ARL, thresholds of ours, without the text-frame losses',
        ARL,
        'ours',
        {**SETS, 'model.supervision.frame_weight': 0.0},
        controls=('maxframe',),
    ),
}

_MOMENTS = dict(num_val=1000, untrimmed=3, captions=12, test_captions=3)

CONDITIONS = {
    'hubs': Condition(
        label='hubs',
        about='No general captions; a test clip has 10 to 40 captions, and the temperature is '
        'learnt.',
        family='hubs',
        corpus=dict(
            seed=0, general=0.0, num_train=1600, num_val=1000, test_captions=25, uneven=0.6
        ),
        features=dict(folder='hubs', num_train=1600, num_val=1000),
        methods=('infonce', 'ncl'),
        baseline='infonce',
        oracle=None,
        aim='retrieval/rsum',
        options={**LEARNT, 'train_cfg.val_interval': 6},
    ),
    'moments': Condition(
        label='moments, longer',
        about='A clip has three moments, and a caption tells of one of them.',
        family='moments',
        corpus=dict(seed=0, general=0.3, **_MOMENTS),
        features=dict(folder='moments', frames=24, num_val=1000, untrimmed=3),
        methods=('maxframe', 'arl_long', 'arl_long_paper', 'arl_long_pairs', 'maxframe_oracle'),
        baseline='maxframe',
        oracle='maxframe_oracle',
        aim='semantic/v2t_mAP',
        cost='retrieval/t2v_rsum',
        options={'train_cfg.max_epochs': 16, 'train_cfg.val_interval': 8},
    ),
}
