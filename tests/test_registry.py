"""Names without a scope: in ours, in that of a project, and in ours laid over a project's."""

import re

import pytest
from mmengine.config import Config
from mmengine.model import ImgDataPreprocessor
from mmengine.registry import MODELS as ROOT_MODELS
from mmengine.registry import DefaultScope
from mmengine.registry import Registry as MMEngineRegistry
from torch import nn

from children import ROOT, config_file
from mmvtr import registry
from mmvtr.engine.checks.config_checks import component_faults
from mmvtr.models import CosineSimilarity, RankingLoss
from mmvtr.registry import MODELS, TRANSFORMS, bare_name
from mmvtr.utils import register_all_modules


class OwnLoss(nn.Module):
    """Only the project has this name."""


class OwnRankingLoss(nn.Module):
    """The project has this under a name of ours."""


@pytest.fixture(autouse=True)
def project(monkeypatch):
    """A registry of models of scope ``mine``, and none of transforms."""
    mine = MMEngineRegistry('model', scope='mine')
    mine.parent = ROOT_MODELS
    monkeypatch.setitem(ROOT_MODELS.children, 'mine', mine)
    mine.register_module(module=OwnLoss)
    mine.register_module(name='RankingLoss', module=OwnRankingLoss)


def built(kind, scope, **options):
    with DefaultScope.overwrite_default_scope(scope):
        return type(MODELS.build(dict(type=kind, **options)))


@pytest.mark.parametrize(
    'scope, kind, expected',
    [
        ('mmvtr', 'RankingLoss', RankingLoss),
        ('mine', 'RankingLoss', OwnRankingLoss),
        ('mine', 'mmvtr.RankingLoss', RankingLoss),
        ('mmvtr', 'mine.RankingLoss', OwnRankingLoss),
        ('mine', 'OwnLoss', OwnLoss),
        ('mine', 'CosineSimilarity', CosineSimilarity),
        ('nobody', 'CosineSimilarity', CosineSimilarity),
        ('mine', 'ImgDataPreprocessor', ImgDataPreprocessor),
    ],
)
def test_which_one_a_name_is(scope, kind, expected):
    assert built(kind, scope) is expected


def test_our_scope_for_the_moment():
    """As of a base config that is inherited as ``mmvtr::NAME``: ours first, then the project's."""
    assert built('RankingLoss', 'mine', _scope_='mmvtr') is RankingLoss
    assert built('OwnLoss', 'mine', _scope_='mmvtr') is OwnLoss
    with DefaultScope.overwrite_default_scope('mine'):
        losses = dict(own=dict(type='OwnLoss'), ours=dict(type='RankingLoss'))
        with DefaultScope.overwrite_default_scope('mmvtr'):
            found = {name: type(MODELS.build(loss)) for name, loss in losses.items()}
        assert found == dict(own=OwnLoss, ours=RankingLoss)
        (listed,) = MODELS.build([dict(type='CosineSimilarity')])
        assert type(listed) is CosineSimilarity


def test_a_transform_of_ours_comes_before_mmcvs():
    with DefaultScope.overwrite_default_scope('mine'):
        assert TRANSFORMS.find('CenterCrop').__module__.startswith('mmvtr.')
        assert TRANSFORMS.find('Nothing') is None


@pytest.mark.parametrize('scope', ['mmvtr', 'mine'])
def test_what_nobody_has_is_an_error(scope):
    with pytest.raises(KeyError, match="nothing is registered as 'NoLoss'; the nearest are .*Loss"):
        built('NoLoss', scope)
    with pytest.raises(KeyError, match="as 'RankinLoss'; did you mean RankingLoss"):
        built('RankinLoss', scope)
    with pytest.raises(KeyError, match="nothing is registered as 'OwnLoss'"):
        built('OwnLoss', 'mmvtr')  # of no scope around


def test_names_without_scope():
    assert bare_name(dict(type='mmvtr.RankingLoss')) == bare_name('RankingLoss') == 'RankingLoss'
    assert bare_name(RankingLoss) == bare_name('mmvtr.models.RankingLoss') == 'RankingLoss'
    assert bare_name('mine.RankingLoss') == 'mine.RankingLoss'
    assert bare_name(None) == bare_name({}) == ''


def test_configs_name_what_the_runner_builds_with_its_scope():
    kinds = ('DATASETS', 'DATA_SAMPLERS', 'HOOKS', 'LOOPS', 'METRICS', 'OPTIMIZERS')
    kinds += ('OPTIM_WRAPPERS', 'OPTIM_WRAPPER_CONSTRUCTORS', 'PARAM_SCHEDULERS')
    register_all_modules(init_default_scope=False)
    names = {'VideoTextRetriever', 'BackdoorRetriever', 'VideoTextDataPreprocessor'}
    names.update(name for kind in kinds for name in getattr(registry, kind).module_dict)
    for path in sorted((ROOT / 'configs').rglob('*.py')):
        bare = re.findall(r"(?:type|constructor)='(\w+)'", path.read_text())
        assert not names.intersection(bare), path.name


@pytest.mark.parametrize('name', ['dvtr_c2v_planted', 'causal_hgr_epic_ran', 'arl_tvr_clip'])
def test_a_config_is_inherited_in_another_scope(name):
    """By its path: all that it names is found as the Runner and our components look for it."""
    cfg = Config.fromfile(config_file(name))
    with DefaultScope.overwrite_default_scope('nobody'):
        assert list(component_faults(cfg)) == []


def test_what_lacks_our_scope_is_told():
    cfg = Config.fromfile(ROOT / 'configs/c2v_planted.py')
    cfg.val_evaluator = [dict(type='RetrievalMetric')]
    with DefaultScope.overwrite_default_scope('mine'):
        (fault,) = component_faults(cfg)
    assert fault == (
        "val_evaluator.0.type: nothing is registered as 'RetrievalMetric'; "
        'did you mean mmvtr.RetrievalMetric?'
    )
