"""Names of the version before: the same objects, with one warning that says the new name."""

from __future__ import annotations

import importlib
import sys

import pytest
import torch
from torch import nn

import mmvtr.functional
from mmvtr import moved
from mmvtr.models.target import Annotation, Target
from mmvtr.registry import MODELS


@pytest.fixture
def tables(monkeypatch):
    monkeypatch.setitem(moved.MODULES, 'mmvtr.old_room', 'mmvtr.storage')
    monkeypatch.setitem(moved.FUNCTIONS, 'old_contrast', 'contrastive')
    monkeypatch.setitem(moved.COMPONENTS, 'OldLoss', 'ContrastiveLoss')
    yield
    for name in [name for name in sys.modules if name.startswith('mmvtr.old_room')]:
        del sys.modules[name]


def test_an_old_module_is_the_new_one(tables):
    with pytest.warns(FutureWarning, match='mmvtr.old_room is mmvtr.storage now'):
        old = importlib.import_module('mmvtr.old_room.seal')
    new = importlib.import_module('mmvtr.storage.seal')
    assert old is new and new.__spec__.name == 'mmvtr.storage.seal'
    assert importlib.reload(new) is new


def test_an_old_function(tables):
    with pytest.warns(FutureWarning, match='old_contrast is contrastive now'):
        found = mmvtr.functional.old_contrast
    assert found is mmvtr.functional.contrastive


@pytest.mark.parametrize('name', ['OldLoss', 'mmvtr.OldLoss'])
def test_an_old_component(tables, name):
    with pytest.warns(FutureWarning, match='OldLoss is ContrastiveLoss now'):
        assert isinstance(MODELS.build(dict(type=name)), nn.Module)


@pytest.mark.parametrize(
    ('module', 'names', 'now'),
    [
        ('mmvtr.models', 'SeveralSupervisions', 'CombinedSupervision'),
        ('mmvtr.models.several', 'SeveralSupervisions', 'CombinedSupervision'),
        ('mmvtr.datasets', 'SummedWitnesses', 'SummedCaptionSimilarity'),
        (
            'mmvtr.datasets.witnesses.summed_witnesses',
            'SummedWitnesses',
            'SummedCaptionSimilarity',
        ),
        (
            'mmvtr.functional.pairwise',
            'bernoulli bernoulli_sum masked_mean',
            'binary_cross_entropy binary_cross_entropy_sum masked_mean',
        ),
        (
            'mmvtr.inferencer.given',
            'Given given_texts given_videos given_vectors refuse_paths',
            'Inputs text_inputs video_inputs vector_inputs refuse_paths',
        ),
    ],
)
@pytest.mark.filterwarnings('ignore::FutureWarning')
def test_names_of_an_old_module(module, names, now):
    found: dict = {}
    exec(f'from {module} import {", ".join(names.split())}', found)
    for old, new in zip(names.split(), now.split()):
        assert found[old].__name__ == new


def test_an_old_name_warns_and_a_wrong_one_is_none():
    import mmvtr.models

    with pytest.warns(FutureWarning, match='SeveralSupervisions is CombinedSupervision now'):
        assert mmvtr.models.SeveralSupervisions is mmvtr.models.CombinedSupervision
    with pytest.raises(ImportError, match='FewSupervisions'):
        from mmvtr.models import FewSupervisions  # noqa: F401


@pytest.mark.parametrize('module', ['strips', 'sweep'])
def test_a_module_of_which_nothing_is_left_is_gone(module):
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module(f'mmvtr.models.{module}')


@pytest.mark.parametrize(
    ('former', 'value', 'expected'), [(4, None, 4), (4, 8, 8), (None, 8, 8), (None, None, None)]
)
@pytest.mark.filterwarnings('ignore::FutureWarning')
def test_of_an_argument_given_twice_the_new_name_counts(former, value, expected):
    assert moved.argument_now('strip', 'block_rows', former, value) == expected


def test_every_name_in_the_tables_leads_somewhere():
    for new in moved.MODULES.values():
        importlib.import_module(new)
    for module, names in moved.NAMES.items():
        assert all(hasattr(importlib.import_module(module), new) for new in names.values())
    for new in moved.FUNCTIONS.values():
        assert hasattr(mmvtr.functional, new)


def test_an_old_slot():
    target = Target(torch.eye(2).bool(), known=Annotation(relevance=torch.eye(2)))
    with pytest.warns(FutureWarning, match='relevance is known.relevance now'):
        assert target.relevance is target.known.relevance
    teacher = torch.eye(2)
    with pytest.warns(FutureWarning, match='teacher is beside.teacher now'):
        assert target.teacher is None and target.put(teacher=teacher).teacher is teacher
    assert not hasattr(target, 'nothing')
