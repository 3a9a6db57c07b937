"""What effects.py compares: methods (rows), and conditions of the planted corpus (tables)."""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple, Optional, Sequence


class Method(NamedTuple):
    """A way to train.

    Attributes:
        label: of its rows.
        config: file that tools/train.py runs.
        group: 'baseline', 'paper', 'literal' (a paper to the letter, where that is ill posed),
            'control', 'ours', 'combination' or 'oracle' (knows what no method may know).
        options: changes to the config, as for --cfg-options.
        transforms: test-time transforms of its scores that have rows of their own.
        control: the method that differs from it by its idea alone; '' = the baseline.
        chosen_by: key on val that chooses learning rate and epoch.
    """

    label: str
    config: str
    group: str
    options: Mapping[str, Any] = {}
    transforms: Sequence[str] = ()
    control: str = ''
    chosen_by: str = 'retrieval/rsum'


class Condition(NamedTuple):
    """A corpus, and who is compared on it.

    Attributes:
        label: of its table.
        about: one sentence on what is planted.
        family: conditions of one family share the choice of the grid, see ``TUNED_ON``.
        corpus: knobs of the corpus, for all three splits.
        features: arguments of ``make_features``.
        methods: names.
        baseline: the method that all are compared with.
        oracle: the method whose gain over the baseline is 100 %; None = no oracle.
        aim: key of the measure that the bias of this condition spoils.
        options: changes to the configs of all its methods.
        first_seed: of the trainings.
    """

    label: str
    about: str
    family: str
    corpus: Mapping[str, Any]
    features: Mapping[str, Any]
    methods: Sequence[str]
    baseline: str
    oracle: Optional[str]
    aim: str
    options: Mapping[str, Any] = {}
    first_seed: int = 0


#: Where every method is tuned: the learning rate, chosen by paired rsum on val.
GRID = [{'optim_wrapper.optimizer.lr': lr} for lr in (1e-3, 2e-3)]
#: Test-time transforms: NCL's with the train queue, its control, and one that knows the queries.
SINKHORN, CONTROL, TEST_QUERIES = 'sinkhorn', 'inverted_softmax', 'sinkhorn_oracle'
TRANSFORMS = {
    SINKHORN: 'Sinkhorn, train queue',
    CONTROL: 'inverted softmax, train queue',
    TEST_QUERIES: 'Sinkhorn, test queries (oracle)',
}


#: What an epoch of NCL is chosen by: it is meant to be tested with its biases.
NORMALISED = 'sinkhorn/retrieval/rsum'


def _features(name: str) -> str:
    return f'configs/{name}_planted_features.py'


METHODS = {
    'infonce': Method(
        'InfoNCE', _features('c2v'), 'baseline', transforms=(SINKHORN, CONTROL, TEST_QUERIES)
    ),
    'triplet': Method('triplet', 'configs/c2v_planted_features_triplet.py', 'baseline'),
    'dvtr': Method('DVTR', _features('dvtr_c2v'), 'paper'),
    'dvtr_pcme': Method('DVTR with PCME', _features('dvtr_pcme'), 'paper'),
    'dvtr_literal': Method(
        'DVTR to the letter', 'configs/dvtr_c2v_planted_features_literal.py', 'literal'
    ),
    'uatvr': Method('UATVR', _features('uatvr'), 'paper', control='ti'),
    'ti': Method('token-wise matching without UATVR', _features('ti'), 'control'),
    'ncl': Method(
        'NCL', _features('ncl_c2v'), 'paper', transforms=(SINKHORN,), chosen_by=NORMALISED
    ),
    'adaptive_margin': Method(
        'adaptive margin (CMGSD)', _features('adaptive_margin_c2v'), 'paper', control='triplet'
    ),
    'ran': Method('RAN', _features('ran_c2v'), 'paper', control='triplet'),
    'ranp': Method('RANP', _features('ranp_c2v'), 'paper', control='triplet'),
    'dvtr_ncl': Method(
        'DVTR + NCL',
        _features('dvtr_ncl_c2v'),
        'combination',
        transforms=(SINKHORN,),
        chosen_by=NORMALISED,
        control='dvtr',
    ),
    'uatvr_dvtr': Method('UATVR + DVTR', _features('uatvr_dvtr'), 'combination', control='uatvr'),
    'dvtr_v2t': Method(
        'DVTR, v2t only, floor 0',
        _features('dvtr_c2v'),
        'ours',
        {'model.losses.contrastive.weighted': 'v2t', 'model.supervision.floor': 0.0},
        control='dvtr_floor0',
    ),
    'dvtr_floor0': Method(
        'DVTR, floor 0', _features('dvtr_c2v'), 'control', {'model.supervision.floor': 0.0}
    ),
    'relative': Method('relative scores', _features('relative_c2v'), 'ours'),
    'relative_both': Method(
        'relative scores, both directions',
        _features('relative_c2v'),
        'control',
        {'model.losses.contrastive.weighted': 'both'},
    ),
    'agreement': Method(
        'relative scores, agreement',
        _features('agreement_c2v'),
        'ours',
        transforms=(SINKHORN,),
    ),
    'agreement_both': Method(
        'relative scores, agreement, both directions',
        _features('agreement_c2v'),
        'control',
        {'model.losses.contrastive.weighted': 'both'},
    ),
    'agreement_none': Method(
        'relative scores, floor .05',
        _features('agreement_c2v'),
        'control',
        {'model.supervision.agreement': 0.0},
    ),
    'agreement_ncl': Method(
        'relative scores, agreement + NCL',
        _features('agreement_c2v'),
        'combination',
        {'model.losses.contrastive.type': 'NormalizedContrastiveLoss'},
        transforms=(SINKHORN,),
        chosen_by=NORMALISED,
        control='agreement',
    ),
    'oracle_ignore': Method('soft positives ignored', _features('oracle_c2v'), 'oracle'),
    'oracle': Method('soft positives as positives', _features('oracle_positive_c2v'), 'oracle'),
    'causal': Method('length split', _features('causal'), 'paper', control='two_seeds'),
    'causal_random': Method('random split', 'configs/causal_planted_features_random.py', 'control'),
    'two_seeds': Method('two seeds summed', _features('c2v'), 'control'),
    'rmvall': Method(
        'RmvAll (knows test lengths)',
        'configs/c2v_planted_confound_features_rmvall.py',
        'control',
        control='rmvrand',
    ),
    'rmvrand': Method('RmvRand', 'configs/c2v_planted_confound_features_rmvrand.py', 'control'),
    'causal_ncl': Method(
        'length split + NCL', _features('causal_ncl'), 'combination', control='causal'
    ),
    'maxframe': Method('best frame', _features('maxframe'), 'baseline', transforms=(SINKHORN,)),
    'meanpool': Method('mean of the frames', _features('meanpool'), 'baseline'),
    'arl': Method('ARL', _features('arl'), 'paper', transforms=(SINKHORN,)),
    'arl_literal': Method(
        "ARL, the paper's thresholds",
        _features('arl'),
        'literal',
        {
            'model.supervision.rule': 'mean',
            'model.supervision.cap': None,
            'model.supervision.u_spread': 0.0,
            'model.supervision.warmup': 0.3,
        },
    ),
    'arl_ncl': Method(
        'ARL + NCL',
        _features('arl_ncl'),
        'combination',
        transforms=(SINKHORN,),
        chosen_by=NORMALISED,
        control='arl',
    ),
    'maxframe_oracle': Method(
        'best frame, soft positives ignored', _features('oracle_maxframe'), 'oracle'
    ),
}
#: What is the summed scores of two trainings of another method, one of the seed and one of that
#: seed + ``APART``.
SUMS = {'two_seeds': 'infonce'}
APART = 100

AMBIGUITY = (
    'infonce',
    'triplet',
    'dvtr',
    'dvtr_pcme',
    'dvtr_literal',
    'dvtr_v2t',
    'uatvr',
    'ti',
    'ncl',
    'adaptive_margin',
    'ran',
    'ranp',
    'relative',
    'agreement',
    'dvtr_ncl',
    'uatvr_dvtr',
    'agreement_ncl',
    'oracle',
)
#: Settings and controls of ours, where ambiguity is high.
FURTHER = ('dvtr_floor0', 'relative_both', 'agreement_both', 'agreement_none', 'oracle_ignore')
FEWER = (
    'infonce',
    'triplet',
    'dvtr',
    'dvtr_v2t',
    'uatvr',
    'ti',
    'ncl',
    'ran',
    'agreement',
    'oracle',
)
CONFOUND = ('infonce', 'two_seeds', 'causal', 'causal_random', 'rmvall', 'rmvrand', 'causal_ncl')
UNTRIMMED = ('maxframe', 'meanpool', 'arl', 'arl_literal', 'arl_ncl', 'maxframe_oracle')
CLIPS = dict(folder='clips')
LONG = {'train_cfg.max_epochs': 16, 'train_cfg.val_interval': 4}
#: An epoch visits all captions of a clip.
SHORT = {'train_cfg.max_epochs': 6, 'train_cfg.val_interval': 3}


def _ambiguity(percent: int, methods: Sequence[str], about: str) -> Condition:
    return Condition(
        label=f'{percent} % general captions',
        about=about,
        family='trimmed clips',
        corpus=dict(general=percent / 100),
        features=CLIPS,
        methods=methods,
        baseline='infonce',
        oracle='oracle',
        aim='semantic/v2t_P1',
    )


def _confound(percent: int, methods: Sequence[str]) -> Condition:
    return Condition(
        label=f'length confounder {percent} %',
        about=f'In train and val {percent} % of the clips of half the actions are long, and '
        f'{percent} % of the others short; in test it is the other way round. No general captions.',
        family='length confounder',
        corpus=dict(general=0.0, length_confound=percent / 100),
        features=dict(folder=f'confound{percent}', frames=12, length_confound=percent / 100),
        methods=methods,
        baseline='infonce',
        oracle=None,
        aim='retrieval/rsum',
        options=LONG,
    )


CONDITIONS = {
    'clean': _ambiguity(
        0, AMBIGUITY, 'Every caption tells the colour, shape and action of an object, or more.'
    ),
    'ambiguity30': _ambiguity(30, FEWER, 'Three captions of ten are general ("something spins").'),
    'ambiguity60': _ambiguity(
        60, AMBIGUITY + FURTHER, 'Six captions of ten are general ("something spins").'
    ),
    'confirm': _ambiguity(
        60,
        ('infonce', 'dvtr', 'dvtr_floor0', 'dvtr_v2t', 'relative', 'agreement', 'oracle'),
        'As before, with other clips, other captions and other training seeds: no setting was '
        'chosen on these.',
    )._replace(
        label='60 % general captions, unused seeds',
        corpus=dict(general=0.6, seed=11),
        features=dict(folder='clips_seed11', seed=11),
        first_seed=20,
    ),
    'confirm2': _ambiguity(
        60,
        ('infonce', 'dvtr', 'relative', 'agreement', 'oracle'),
        'Once more, with others still: when these were trained, all settings were fixed.',
    )._replace(
        label='60 % general captions, unused seeds II',
        corpus=dict(general=0.6, seed=12),
        features=dict(folder='clips_seed12', seed=12),
        first_seed=30,
    ),
    'imbalanced': Condition(
        label='imbalanced captions',
        about='A training clip has 1 to 50 captions, 5 on average; an epoch visits each of them.',
        family='imbalanced captions',
        corpus=dict(general=0.3, captions=5, imbalance=0.5),
        features=CLIPS,
        methods=('infonce', 'ncl', 'dvtr', 'dvtr_ncl', 'agreement'),
        baseline='infonce',
        oracle=None,
        aim='retrieval/rsum',
        options={
            'train_dataloader.dataset.epoch_unit': 'text',
            'train_cfg.max_epochs': 4,
            'train_cfg.val_interval': 2,
        },
    ),
    'confound70': _confound(70, ('infonce', 'two_seeds', 'causal', 'causal_random')),
    'confound90': _confound(90, CONFOUND),
    'untrimmed': Condition(
        label='untrimmed clips',
        about='A clip has three moments, and a caption tells of one of them.',
        family='untrimmed clips',
        corpus=dict(general=0.3, untrimmed=3, captions=6, test_captions=3),
        features=dict(folder='untrimmed', frames=24, untrimmed=3, captions=6, test_captions=3),
        methods=UNTRIMMED,
        baseline='maxframe',
        oracle='maxframe_oracle',
        aim='semantic/t2v_P1',
        options=SHORT,
    ),
}
#: Family -> the condition that its methods are tuned on.
TUNED_ON = {
    'trimmed clips': 'ambiguity60',
    'length confounder': 'confound90',
    'imbalanced captions': 'imbalanced',
    'untrimmed clips': 'untrimmed',
}
