"""What the eta monitor logs, and when it warns."""

import logging
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from mmvtr.engine.hooks.eta_monitor import FIGURES, EtaMonitorHook
from mmvtr.models.supervisions.dvtr import DVTRSupervision
from mmvtr.models.target import Target
from mmvtr.structures import Embedding


def an_epoch(hook, caplog, steps):
    logger = logging.getLogger('eta')
    runner = SimpleNamespace(logger=logger)
    with caplog.at_level(logging.INFO, logger='eta'):
        hook.before_train_epoch(runner)
        for outputs in steps:
            hook.after_train_iter(runner, 0, outputs=outputs)
        hook.after_train_epoch(runner)
    return [(record.levelname, record.getMessage()) for record in caplog.records]


def test_logs_the_means_of_the_epoch(caplog):
    steps = [
        dict(zip(FIGURES, (0.8, 0.5, 0.9, 0.2, 1.0))),
        dict(zip(FIGURES, (0.9, 0.7, 0.7, 0.0, 1.0))),
    ]
    ((level, message),) = an_epoch(EtaMonitorHook(), caplog, steps)
    assert level == 'INFO'
    expected = 'eta_negative 0.850, eta_sure 0.600, match_positive 0.800, match_negative 0.100'
    assert expected in message


def test_each_of_several_is_watched(caplog):
    """Parts of a CombinedSupervision, by the name before their figures."""
    fine, collapsed = (0.95, 0.93, 0.08, 0.02, 1.0), (0.02, 0.0, 0.99, 0.5, 1.0)
    step = {f'a_{name}': value for name, value in zip(FIGURES, fine)}
    step |= {f'b_{name}': value for name, value in zip(FIGURES, collapsed)}
    step['words_eta_negative'] = 0.01  # reports no match probability
    messages = [message for _, message in an_epoch(EtaMonitorHook(), caplog, [step, step])]
    assert [message.split(' 0.')[0] for message in messages[:2]] == [
        'eta of a over the epoch: eta_negative',
        'eta of b over the epoch: eta_negative',
    ]
    assert messages[2].startswith('eta of b has collapsed') and len(messages) == 3


def test_each_member_is_watched_by_itself(caplog):
    """A BackdoorRetriever's step is that of one member: means over both would hide a collapse."""
    fine, collapsed = (0.95, 0.93, 0.08, 0.02, 1.0), (0.02, 0.0, 0.99, 0.98, 1.0)
    steps = [
        dict(zip(FIGURES, figures), environment=torch.tensor(float(k)))
        for k, figures in enumerate((fine, collapsed))
    ]
    messages = [message for _, message in an_epoch(EtaMonitorHook(), caplog, steps)]
    assert [message.split(' over ')[0] for message in messages[:2]] == [
        'eta of member0',
        'eta of member1',
    ]
    assert messages[2].startswith('eta of member1 has collapsed') and len(messages) == 3


@pytest.mark.parametrize(
    ('figures', 'meaning'),
    [
        # What Eq. 11 as printed ends in, and what it ends in with the sign turned round.
        ((0.991, 1.0, 0.01, 0.009, 1.0), 'does not tell them apart'),
        ((0.02, 0.0, 0.99, 0.98, 1.0), 'Hardly any negative is pushed'),
        ((0.995, 1.0, 0.3, 0.01, 1.0), 'No negative gets less weight'),
        # Slope and bias at 2e-5 for 7,000 steps: all negatives alike, two thirds of their weight.
        ((0.69, 0.0, 0.66, 0.38, 1.0), 'lowers the weight of all of them'),
        ((0.57, 0.0, 0.65, 0.44, 1.0), 'over .9 for 0 % of them only'),
    ],
)
def test_warns_of_a_collapse_and_says_what_it_means(caplog, figures, meaning):
    records = an_epoch(EtaMonitorHook(), caplog, [dict(zip(FIGURES, figures))])
    assert [level for level, _ in records] == ['INFO', 'WARNING']
    assert meaning in records[1][1]


@pytest.mark.parametrize(
    'figures',
    [
        (0.95, 0.93, 0.08, 0.02, 1.0),
        (0.80, 0.75, 0.3, 0.1, 1.0),  # a fifth are spared, the others keep their weight
        (0.87, 0.3, 0.88, 0.12, 1.0),  # a blunt eta that costs next to nothing
    ],
)
def test_is_silent_where_true_negatives_keep_their_weight(caplog, figures):
    records = an_epoch(EtaMonitorHook(), caplog, [dict(zip(FIGURES, figures))])
    assert [level for level, _ in records] == ['INFO']


def test_is_silent_before_the_ramp_and_without_eta(caplog):
    waiting = dict(zip(FIGURES, (0.99, 1.0, 0.1, 0.1, 0.2)))
    assert [level for level, _ in an_epoch(EtaMonitorHook(), caplog, [waiting])] == ['INFO']
    caplog.clear()
    assert an_epoch(EtaMonitorHook(), caplog, [dict(loss=1.0)]) == []


@pytest.mark.parametrize('trained', [False, True])
def test_judges_the_sound_supervision(caplog, trained):
    """A match probability that is blind to the pairs is found out; one that sees them is not."""
    torch.manual_seed(0)
    mean = torch.randn(16, 32)
    texts = {'gaussian': Embedding(mean, log_std=torch.zeros(16, 32))}
    videos = {
        'gaussian': Embedding(mean if trained else torch.randn(16, 32), log_std=torch.zeros(16, 32))
    }
    _, figures = DVTRSupervision()(texts, videos, Target(torch.eye(16).bool()))
    levels = [level for level, _ in an_epoch(EtaMonitorHook(), caplog, [figures])]
    assert levels == (['INFO'] if trained else ['INFO', 'WARNING'])


def val_of(eta, mode='val'):
    relation = SimpleNamespace(positives=torch.eye(3, dtype=torch.bool))
    return SimpleNamespace(mode=mode, matrices={'eta': eta}, relation=relation)


@pytest.mark.parametrize('prefixes', [('',), ('', 'live_')], ids=['alone', 'teacher'])
def test_warns_once_of_pairs_that_are_learnt_by_heart(caplog, prefixes):
    """Where an EarlyTeacher acts the model's own figures are read: nothing to warn of."""
    hook, figures = EtaMonitorHook(), (0.97, 0.95, 0.9, 0.02, 1.0)
    step = {f'{p}{name}': value for p in prefixes for name, value in zip(FIGURES, figures)}
    if len(prefixes) > 1:
        step['match_positive'] = 0.5
    runner = SimpleNamespace(logger=logging.getLogger('eta'))
    an_epoch(hook, caplog, [step])
    caplog.clear()
    hook.after_scoring(runner, val_of(torch.full((3, 3), 0.3)))  # p = .7: a gap of .2
    hook.after_scoring(runner, val_of(torch.full((3, 3), 0.9), mode='test'))
    with caplog.at_level(logging.INFO, logger='eta'):
        for _ in range(2):
            hook.after_scoring(runner, val_of(torch.eye(3) * 0.8))
    said = [(r.levelname, r.getMessage()) for r in caplog.records]
    assert [m for level, m in said if level == 'INFO'] == [
        'match probability of annotated pairs: training 0.900, val 0.200'
    ] * 2
    warned = [m for level, m in said if level == 'WARNING']
    assert len(warned) == (len(prefixes) == 1)
    assert all('pairs are memorised' in m and "type='EarlyTeacher'" in m for m in warned)


def test_says_which_share_of_the_unannotated_pairs_is_true(caplog):
    truth, own = np.ones((2, 3), dtype=bool), np.eye(2, 3, dtype=bool)
    truth[0, 2] = False
    dataset = SimpleNamespace(truth=lambda: truth, positives=lambda: own)
    runner = SimpleNamespace(
        logger=logging.getLogger('eta'), train_dataloader=SimpleNamespace(dataset=dataset)
    )
    with caplog.at_level(logging.INFO, logger='eta'):
        EtaMonitorHook().before_train(runner)
    assert '75.000 % of the unannotated training pairs are true' in caplog.records[-1].getMessage()
