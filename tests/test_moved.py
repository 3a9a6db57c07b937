"""Names of the version before: the same objects, with one warning that says the new name."""

from __future__ import annotations

import importlib
import sys

import pytest
import torch
from mmengine.config import Config
from torch import nn

import mmvtr.functional
from mmvtr import moved
from mmvtr.models.target import Annotation, Target
from mmvtr.registry import MODELS
from rehearsal.report import fingerprint
from mmvtr.utils import load_config
from mmvtr.values import Written


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
            'mmvtr.apis.inferencer.given',
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


OLD = dict(
    type='PlantedDataset',
    environments=dict(type='LengthSplit', parts=2),
    denoising='masks.json',
    classes=None,
)
NEW = dict(
    type='PlantedDataset',
    records=dict(
        denoising=dict(type='DrawableCaptions', path='masks.json'),
        classes=None,
        environments=dict(type='LengthSplit', parts=2),
    ),
)


def test_arguments_of_a_dataset_that_are_parts_of_its_records():
    with pytest.warns(FutureWarning, match=r'environments=... is records=dict\(environments=dict'):
        found = moved.dataset_now(OLD)
    assert found == NEW and list(found['records']) == list(NEW['records']), 'in the order of old'
    assert moved.dataset_now(NEW) is NEW
    assert moved.first_keys(NEW) == OLD and moved.first_keys(OLD) == OLD
    with pytest.warns(FutureWarning, match='denoising'):  # no part, so that an option can give one
        assert moved.dataset_now(dict(denoising=None)) == dict(records={})


@pytest.mark.filterwarnings('ignore::FutureWarning')
@pytest.mark.parametrize(
    ('change', 'expected'),
    [
        (dict(parts=3), dict(type='LengthSplit', parts=3)),
        (dict(type='RandomSplit', _delete_=True), dict(type='RandomSplit')),
        (None, None),
    ],
)
def test_an_old_argument_changes_the_part_of_a_base(change, expected):
    found = moved.dataset_now({**NEW, 'environments': change})
    assert found['records'] == {**NEW['records'], 'environments': expected}


SPLIT = """
train_dataloader = dict(
    dataset=dict(
        type='mmvtr.PlantedDataset',
        split='train',
        video_pipeline=[],
        text_pipeline=[],
        {}
    )
)
shortcuts = dict(parts=['train_dataloader.dataset.{}environments.parts'])
"""
OPTION = 'train_dataloader.dataset.environments.parts'


@pytest.mark.parametrize('option', [OPTION, OPTION.replace('env', 'records.env'), 'parts'])
def test_a_config_of_the_version_before_and_its_options(tmp_path, option):
    parts = "environments=dict(type='LengthSplit', parts=2),"
    (tmp_path / 'old.py').write_text(SPLIT.format(parts, ''))
    (tmp_path / 'new.py').write_text(SPLIT.format(f'records=dict({parts}),', 'records.'))
    new = load_config(str(tmp_path / 'new.py'))
    with pytest.warns(FutureWarning, match='the old name goes with'):
        old = load_config(str(tmp_path / 'old.py'), {option: Written('3')}, new.work_dir)
    assert old.train_dataloader.dataset.records.environments == dict(type='LengthSplit', parts=3)
    changed = load_config(str(tmp_path / 'new.py'), {'parts': 3}, new.work_dir)
    assert fingerprint(old) == fingerprint(changed) != fingerprint(new)
    written = Config.fromfile(str(tmp_path / 'old.py'))
    written.train_dataloader.dataset.environments.parts = 3
    written.work_dir = new.work_dir
    assert fingerprint(written) == fingerprint(old), 'as it was before'
    options = {f'{OPTION[:25]}denoising': 'masks.json'}
    with pytest.warns(FutureWarning):
        masked = load_config(str(tmp_path / 'new.py'), options)
    assert masked.train_dataloader.dataset.records.denoising == NEW['records']['denoising']
    assert type(masked.train_dataloader.dataset).__name__ == 'ConfigDict'
