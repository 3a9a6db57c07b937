"""The rows: which config's parts each method trains with, over stored features and small towers."""

from __future__ import annotations

import copy
import sys
from pathlib import Path
from typing import Any, Mapping, NamedTuple, Sequence

from mmvtr.utils import load_config

ROOT = Path(__file__).resolve().parents[4]
sys.path.append(str(ROOT / 'projects/lab'))  # modules that studies share
from config_files import config_file  # noqa: E402
from measure import SETTINGS  # noqa: E402

DIM = 128
#: Hidden layer of the small towers (towers.py).
HIDDEN = 384
BASE = 'clip4clip_msrvtt'
#: What a row takes from its config, beside the towers that it never takes.
PARTS = (
    'similarity',
    'losses',
    'heads',
    'head_reads',
    'detach_heads',
    'supervision',
    'objectives',
)
#: Temperature of all whose config does not need its own.
LEARNT = dict(type='Temperature', init=0.05, learnable=True)


class Method(NamedTuple):
    """A row of the table.

    Attributes:
        config: a config of the project, whose parts it inherits.
        control: the row that lacks the idea alone; '' of a baseline.
        parts: which parts.
        change: of the model afterwards, keys with dots; a value None takes a part out.
        sets: the sets on which it is trained.
        reads: what its texts and videos come with: 'guide', 'means',
            'teacher', and the names of :func:`reading.records_of`.
        text: 'sentence' (the set's text kind) or 'words' (a vector of each word).
        encoder: the encoder and its options, without towers.
        rates: of parameters by a part of their name, times the learning rate.
        bank: it is chosen and tested with Sinkhorn's biases of a bank of training items.
        sure: it is chosen and tested with texts first that hold so surely; 0: by its scores.
        whole: the config of the whole model, which is given as its ``member``; {}: it is this.
        own_temperature: the config's.
        epoch_unit, hooks: of the training.
        own_training: it is trained by its config's optimizer and schedule; rates that seed 0 tries.
        once: the sets on which one learning rate is tried (PLAN.md, second round and later).
        crossed: models of halves of the items are trained before (cross_fitted.py).
        copies: trainings from other seeds, tested together (ensemble.py).
        taught: so many of InfoNCE's trainings teach it (members.py).
        wide: times the numbers of a vector and of the hidden layers.
        epochs: times the epochs of the set.
        transforms: of the best epoch at test time, with a bank.
    """

    config: str = BASE
    control: str = 'infonce'
    parts: Sequence[str] = PARTS
    change: Mapping[str, Any] = {}
    sets: str = 'FMJ'
    reads: Sequence[str] = ()
    text: str = 'sentence'
    encoder: Mapping[str, Any] = dict(type='CLIP4Clip')
    rates: Mapping[str, float] = dict(supervision=10.0)
    bank: bool = False
    sure: float = 0.0
    whole: Mapping[str, Any] = {}
    own_temperature: bool = False
    epoch_unit: str = 'video'
    hooks: Sequence[Mapping[str, Any]] = ()
    own_training: Sequence[float] = ()
    once: str = ''
    crossed: bool = False
    copies: int = 1
    taught: int = 0
    wide: int = 1
    epochs: int = 1
    transforms: Sequence[str] = ()


#: Transforms that a row may be tested with.
TESTED = (*SETTINGS, 'auto')
#: The bank of rows of the recipe (PLAN.md, seventh round).
BANK = ('unbalanced_sinkhorn',)
#: Sets of these rows.
RECIPE = 'FMJV'
LOSS = ('losses', 'supervision')
#: All sets.
ALL = 'FMLTJU'
EARLY = dict(type='EarlyTeacher', at=0.15)
HINGE = 'losses.triplet'
UATVR = dict(type='UATVR', max_frames=6, max_words=20, temporal_layers=1)
PLAIN = dict(UATVR, extra_frames=0, extra_words=0)
ARL = dict(
    config='arl_activitynet_i3d',
    control='best_frame',
    sets='U',
    encoder=dict(
        type='TwoBranches',
        encoder=dict(type='ARLEncoder', dim=DIM, heads=4, dropout=0.1, max_frames=64, max_words=24),
    ),
    change={'supervision.dim': DIM},
    own_temperature=True,
    epoch_unit='video_with_all_texts',
    hooks=[dict(type='mmvtr.AmbiguityHook')],
    once=ALL,
)
NO_AMBIGUITY = dict(ARL, change=dict(supervision=None), hooks=())
#: By MS-SL's BertAdam and schedule, at the config's rate or at that of the other rows.
OWN = dict(own_training=(2.5e-4, 1e-3), once='')

TWO = dict(type='mmvtr.BackdoorRetriever', copies=2)


def _by_length(*reads: str, **changes: Any) -> Method:
    """A row of L; ``reads`` says which environments."""
    plain = Method(
        control='all',
        sets='L',
        once=ALL,
        reads=('facts', *reads),
        encoder=dict(type='CLIP4Clip', aggregator='transformer', temporal_layers=1, max_frames=6),
    )
    return plain._replace(**changes)


def _crossed(teacher: str) -> Method:
    """DVTR with eta of models of halves of the items."""
    change = {'teacher': dict(type=teacher)}
    return Method('dvtr_c2v_msrvtt', change=change, once=ALL, crossed=True)


def _student(taught: int, wide: int = 1, average: str = 'scores') -> Method:
    """Divergence from the softmaxes of members, beside InfoNCE."""
    members = [f'member{n}' for n in range(taught)]
    change = {
        'supervision': dict(type='StoredTeachers', teachers=members, average=average),
        'losses.distillation': dict(type='KLDistillationLoss', temperature=4.0, loss_weight=4.0),
    }
    return Method(change=change, sets=RECIPE, once=ALL, taught=taught, wide=wide, transforms=BANK)


METHODS: dict[str, Method] = {
    # baselines
    'infonce': Method(control='', sets=RECIPE, once='V', transforms=TESTED),
    'ensemble': Method(sets=RECIPE, once=ALL, copies=3, transforms=BANK),
    'wide': Method(sets=RECIPE, once=ALL, wide=3, transforms=BANK),
    'twice_the_epochs': Method(sets=RECIPE, once=ALL, epochs=2, transforms=BANK),
    # students
    'student': _student(3),
    'self_distilled': _student(1),
    'student_of_five': _student(5),
    'student_of_softmaxes': _student(3, average='softmaxes'),
    'student_wide': _student(3, wide=3),
    'triplet_05': Method('c2v_msrvtt_triplet', control='', once='MJ'),
    'triplet_hardest': Method('hgr_msrvtt_full_ran', control='', parts=('losses',), once=ALL),
    'triplet_02': Method(
        'c2v_msrvtt_triplet', control='', change={f'{HINGE}.margin': 0.2}, once=ALL
    ),
    # DVTR
    'dvtr': Method('dvtr_c2v_msrvtt'),
    'dvtr_permuted': Method('dvtr_c2v_msrvtt', change={'supervision.type': 'PermutedDVTR'}),
    'dvtr_floor1': Method('dvtr_c2v_msrvtt', change={'supervision.floor': 1.0}, once='FM'),
    'dvtr_early': Method('dvtr_c2v_msrvtt', change={'teacher': EARLY}),
    'dvtr_early_permuted': Method(
        'dvtr_c2v_msrvtt', change={'teacher': EARLY, 'supervision.type': 'PermutedDVTR'}
    ),
    'dvtr_early_calibrated': Method(
        'dvtr_c2v_msrvtt', change={'teacher': dict(EARLY, share=0.002)}, once='FM'
    ),
    'dvtr_crossed': _crossed('CrossFittedTeachers'),
    'dvtr_crossed_permuted': _crossed('PermutedCrossFittedTeachers'),
    'dvtr_triplet': Method('dvtr_c2v_msrvtt_triplet', control='triplet_05', once='MJ'),
    'dvtr_pcme': Method('dvtr_c2v_msrvtt_full_pcme', once=ALL),
    'oracle': Method('oracle_c2v_planted_features', parts=LOSS, sets='J', reads=('truth',)),
    'oracle_wrong': Method(
        'oracle_c2v_planted_features', parts=LOSS, sets='J', reads=('wrong_truth',)
    ),
    # other weights of negatives
    'guide': Method(
        'guide_c2v_planted_features',
        parts=LOSS,
        change={'supervision.name': 'guide'},
        reads=('guide',),
        once='J',
    ),
    'gist': Method(
        change={'supervision': dict(type='GuideSupervision', name='guide')},
        sets='FM',  # with one caption an image its mean is that caption: all weights are 1
        reads=('guide', 'means'),
        once=ALL,
    ),
    'hardness': Method('hardness_c2v_planted_features', parts=LOSS),
    'implied': Method(
        'implication_c2v_planted_features', parts=LOSS, reads=('agreement',), sets='FM', once=ALL
    ),
    'sure_first': Method(
        'c2v_planted_features_sure_first', parts=(), sure=0.8, sets='FM', once=ALL
    ),
    # hubs
    'ncl': Method('ncl_clip4clip_msrvtt', bank=True, once='J'),
    'neighborretr': Method(
        'neighborretr_clip4clip_msrvtt', change={'supervision.dim': DIM}, rates={}, once='J'
    ),
    # Gaussians
    'pcme': Method(
        'pcme_msrvtt_full',
        change={'head_reads': 'global'},
        own_temperature=True,
        rates={'objectives.soft': 500.0},
        once=ALL,
    ),
    'pcmepp': Method('pcmepp_clip_msrvtt', own_temperature=True, once='MJ'),
    'prolip': Method('prolip_clip_msrvtt', own_temperature=True, once='MJ'),
    # margins, classes, teachers
    'ran': Method('hgr_msrvtt_full_ran', 'triplet_hardest', LOSS, reads=('classes',), once=ALL),
    'ranp': Method('hgr_msrvtt_full_ranp', 'triplet_hardest', LOSS, reads=('classes',), once=ALL),
    'cmgsd': Method(
        'cmgsd_ce_msrvtt_full',
        'triplet_02',
        LOSS,
        {
            'supervision.sentences': 'guide',
            'supervision.project.in_dim': DIM,
        },
        reads=('guide',),
        rates={},
        once=ALL,
    ),
    'teachtext': Method(
        'teachtext_c2v_planted_features',
        'triplet_02',
        LOSS,
        {'supervision': dict(type='StoredTeachers', teachers=['teacher'])},
        reads=('teacher',),
        once=ALL,
    ),
    # tokens: T is M with a vector of each word
    'pooled': Method(
        'uatvr_vitb16_msrvtt_ti',
        control='',
        parts=('losses',),
        sets='T',
        once=ALL,
        text='words',
        encoder=PLAIN,
    ),
    'ti': Method(
        'uatvr_vitb16_msrvtt_ti',
        'pooled',
        change={'similarity.dim': DIM},
        sets='T',
        once=ALL,
        text='words',
        encoder=PLAIN,
    ),
    'dsa': Method(
        'uatvr_vitb16_msrvtt_dsa',
        'ti',
        change={'similarity.dim': DIM},
        sets='T',
        once=ALL,
        text='words',
        encoder=dict(UATVR, extra_frames=3, extra_words=2),
    ),
    'dua': Method(
        'uatvr_vitb16_msrvtt',
        'dsa',
        change={'similarity.dim': DIM},
        sets='T',
        once=ALL,
        text='words',
        encoder=dict(UATVR, extra_frames=3, extra_words=2),
    ),
    # lengths
    'all': _by_length(control=''),
    'length_split': _by_length('by_length', whole=TWO),
    'random_split': _by_length('at_random', whole=TWO),
    'rmv_one': _by_length('rmv_one'),
    'rmv_all': _by_length('rmv_all'),
    'rmv_rand': _by_length('rmv_rand'),
    # ambiguity
    'mean_frame': Method(
        **{
            **NO_AMBIGUITY,
            'control': '',
            'change': dict(
                supervision=None, similarity=dict(type='CosineSimilarity', levels=('a', 'b'))
            ),
        }
    ),
    'best_frame': Method(**{**NO_AMBIGUITY, 'control': ''}),
    'arl': Method(**ARL),
    'arl_paper': Method(**{**ARL, 'config': 'arl_activitynet_i3d_paper'}),
    'best_frame_own': Method(**{**NO_AMBIGUITY, **OWN, 'control': ''}),
    'arl_own': Method(**{**ARL, **OWN, 'control': 'best_frame_own'}),
    'arl_paper_own': Method(
        **{**ARL, **OWN, 'control': 'best_frame_own', 'config': 'arl_activitynet_i3d_paper'}
    ),
}


def model_of(method: Method, about: Mapping[str, Any], text: str) -> dict[str, Any]:
    """The model's config.

    Args:
        about: the set: ``width`` of features, ``text_width``, ``word_width``, ``vocabulary``.
        text: 'minilm' or 'words', what towers of sentences read.
    """
    config = load_config(str(ROOT / config_file(method.config))).model
    base = load_config(str(ROOT / config_file(BASE))).model
    model = dict(
        type='mmvtr.VideoTextRetriever',
        data_preprocessor=dict(type=_preprocessor(config)),
        similarity=_plain(base.similarity),
        temperature=_plain(config.temperature) if method.own_temperature else dict(LEARNT),
        losses=_plain(base.losses),
    )
    model.update({part: _plain(config[part]) for part in method.parts if part in config})
    if 'aligned' in str(model):  # CLIP2Video's second level, which small towers do not have
        model = _one_level(model)
    for name, value in method.change.items():
        _put(model, name, copy.deepcopy(value))
    encoder = copy.deepcopy(_plain(dict(method.encoder)))
    inner = encoder.get('encoder', encoder)
    inner.update(towers(about, text if method.text == 'sentence' else 'word_vectors', method.wide))
    model = dict(model, encoder=encoder)
    return dict(method.whole, member=model) if method.whole else model


def own_training(method: Method, rate: float) -> dict[str, Any]:
    """Optimizer and schedule of a row that its config states, at a rate; {} of the other rows."""
    if not method.own_training:
        return {}
    config = load_config(str(ROOT / config_file(method.config)))
    wrapper = _plain(config.optim_wrapper)
    wrapper['optimizer']['lr'] = rate
    return dict(optim_wrapper=wrapper, param_scheduler=_plain(config.param_scheduler))


def towers(about: Mapping[str, Any], text: str, wide: int = 1) -> dict[str, Any]:
    """Configs of the two small towers, ``wide`` times as wide."""
    dim, hidden = dict(dim=DIM * wide), dict(hidden=HIDDEN * wide)
    tower = dict(
        minilm=dict(type='SmallText', in_dim=about.get('text_width'), **hidden),
        word_vectors=dict(type='SmallText', in_dim=about.get('word_width'), **hidden),
        words=dict(type='WordGRU', words=about['vocabulary']),  # its states are its vectors
    )[text]
    frames = dict(type='SmallFrames', in_dim=about['width'], **hidden)
    return dict(frames=dict(frames, **dim), text=dict(tower, **dim))


def _preprocessor(config: Any) -> str:
    """PCME++ mixes videos there."""
    return config.get('data_preprocessor', {}).get('type', 'mmvtr.VideoTextDataPreprocessor')


def _one_level(part: Any) -> Any:
    """Without ``reads`` and ``levels`` of two levels: the only one is the default."""
    if isinstance(part, dict):
        return {
            name: _one_level(value)
            for name, value in part.items()
            if not (name in ('reads', 'levels') and 'aligned' in value)
        }
    return part


def _put(model: dict[str, Any], name: str, value: Any) -> None:
    *path, last = name.split('.')
    for key in path:
        model = model[key]
    if value is None:
        model.pop(last, None)
    else:
        model[last] = value


def _plain(part: Any) -> Any:
    """Dicts and lists in place of mmengine's."""
    if isinstance(part, Mapping):
        return {name: _plain(value) for name, value in part.items()}
    if isinstance(part, (list, tuple)):
        return type(part)(map(_plain, part))
    return part
