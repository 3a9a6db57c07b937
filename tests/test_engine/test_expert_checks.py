"""Experts of a pipeline that are not the encoder's are told before a start."""

import pytest
from mmengine.config import Config

from children import ROOT
from mmvtr.engine.checks.config_checks import check_config
from mmvtr.engine.checks.expert_checks import expert_faults
from mmvtr.errors import UserError
from mmvtr.utils import load_config, register_all_modules


def made(read, known, *, model=None, split='train'):
    step = dict(type='LoadExperts', experts={k: dict(path='x', dim=w) for k, w in read.items()})
    loader = dict(dataset=dict(video_pipeline=[dict(type='Other'), step]))
    model = model or dict(encoder=dict(experts=known))
    return Config({'model': model, f'{split}_dataloader': loader})


@pytest.mark.parametrize('split', ['train', 'val', 'test'])
def test_other_names_are_told(split):
    (fault,) = expert_faults(made(dict(rgb=4, sound=2), dict(rgb=4, audio=2), split=split))
    assert fault.startswith(f'{split}_dataloader.dataset.video_pipeline.1.experts: not those of ')
    assert "waits for ['audio']" in fault and "does not know ['sound']" in fault


def test_other_widths_are_told():
    (fault,) = expert_faults(made(dict(rgb=4, audio=2), dict(rgb=4, audio=3)))
    assert "'audio' is 2 wide, the encoder takes 3" in fault


def test_a_fault_is_short_whatever_there_is():
    many = {f'expert {i}' * 5: 1 for i in range(40)}
    (fault,) = expert_faults(made(many, dict(other=1)))
    assert len(fault) < 500


def test_members_are_looked_into():
    right, wrong = (dict(encoder=dict(experts=dict(rgb=w))) for w in (4, 5))
    members = dict(members=[right, wrong])
    (fault,) = expert_faults(made(dict(rgb=4), None, model=members))
    assert 'model.members.1.encoder.experts' in fault
    (fault,) = expert_faults(made(dict(rgb=5), None, model=dict(member=right)))
    assert 'model.member.encoder.experts' in fault


def test_without_experts_nothing_is_said():
    assert not list(expert_faults(Config(dict(model=dict(encoder=dict(type='CLIP4Clip'))))))
    assert not list(expert_faults(made(dict(rgb=4), None, model=dict(encoder=dict(dim=4)))))
    assert not list(expert_faults(made(dict(b=4, a=2), dict(a=2, b=4))))


def test_a_config_is_refused():
    register_all_modules()
    cfg = load_config(str(ROOT / 'configs' / 'ce_msvd.py'), {})
    check_config(cfg)
    cfg.val_dataloader.dataset.video_pipeline[0].experts.pop('face')
    with pytest.raises(UserError, match=r"val_dataloader.*waits for \['face'\]"):
        check_config(cfg)
