"""Configs from the command line, and registration without a Runner."""

import copy
from pathlib import Path

import pytest
from mmengine.config import Config

from children import ROOT, in_child, run_tool
from mmvtr import utils
from mmvtr.cli.values import Written
from mmvtr.errors import UserError
from mmvtr.utils import (
    forget_pretrained,
    load_config,
    register_all_modules,
)

LOADERS = """
train_dataloader = dict(num_workers=2, persistent_workers=True, prefetch_factor=2)
val_dataloader = dict(num_workers=2, persistent_workers=True)
test_dataloader = None
"""


@pytest.fixture
def config(tmp_path):
    (tmp_path / 'some.py').write_text(LOADERS)
    return str(tmp_path / 'some.py')


def test_options_and_workers(config):
    cfg = load_config(config, {'train_dataloader.num_workers': 0})
    assert cfg.train_dataloader == dict(num_workers=0)
    assert cfg.val_dataloader == dict(num_workers=2, persistent_workers=True)


def test_a_byte_order_mark_is_named(tmp_path):
    (tmp_path / 'some.py').write_text(LOADERS, encoding='utf-8-sig')
    (tmp_path / 'child.py').write_text("_base_ = 'some.py'\n")
    for name in ('some.py', 'child.py'):
        with pytest.raises(UserError, match=f'{name}: it, or a base of it, begins with a byte'):
            load_config(str(tmp_path / name))


def test_a_shortcut_stands_for_several(tmp_path):
    path = tmp_path / 'some.py'
    path.write_text(
        "shortcuts = dict(width=['model.width', 'steps.0.width'])\n"
        'model = dict(width=4, depth=2)\nsteps = [dict(width=4), dict(width=4)]\n'
    )
    assert load_config(str(path)).model.width == 4
    cfg = load_config(str(path), {'width': 8, 'model.depth': 3})
    assert cfg.model == dict(width=8, depth=3) and 'width' not in cfg
    assert [step.width for step in cfg.steps] == [8, 4]
    for options in ({'width': 8, 'model.width': 9}, {'model.width': 9, 'width': 8}):
        with pytest.raises(UserError, match='some.py: .* model.width is set twice'):
            load_config(str(path), options)


def test_a_shortcut_reaches_into_what_it_stands_for(tmp_path):
    path = tmp_path / 'some.py'
    path.write_text(
        "shortcuts = dict(columns=['one.columns', 'two.columns'])\n"
        "one = dict(columns=dict(video='a'))\ntwo = dict(columns=dict(video='a'))\n"
    )
    cfg = load_config(str(path), {'columns.video': 'b', 'columns.text': 'c'})
    assert cfg.one == cfg.two == dict(columns=dict(video='b', text='c'))
    assert 'columns' not in cfg
    with pytest.raises(UserError, match='one.columns.video is set twice'):
        load_config(str(path), {'columns.video': 'b', 'one.columns.video': 'b'})


def test_a_variant_by_its_name_alone():
    cfg = load_config('c2v_msrvtt_triplet')
    assert [*cfg.model.losses] == ['triplet'] and cfg.work_dir == 'work_dirs/c2v_msrvtt_triplet'
    with pytest.raises(UserError, match='near it: .*dvtr_c2v_msrvtt_triplet'):
        load_config('dvtr_c2v_msrvtt+triplet')
    with pytest.raises(UserError, match='has one of its own by the name c2v_msrvtt_triplet'):
        load_config('configs/c2v_msrvtt_triplet.py')  # it is in the folder clip2video


def test_work_dir(config):
    assert load_config(config).work_dir == str(Path('work_dirs', 'some'))
    assert load_config(config, dict(work_dir='theirs')).work_dir == 'theirs'
    assert load_config(config, dict(work_dir='theirs'), 'ours').work_dir == 'ours'


def test_formatted_as_mmengine_does_and_once(config, monkeypatch):
    cfg, plain = load_config(config), Config.fromfile(config)
    plain.work_dir = cfg.work_dir
    assert cfg.pretty_text == plain.pretty_text
    copied = copy.deepcopy(cfg)
    calls = []
    monkeypatch.setattr('mmengine.config.config.FormatCode', lambda *args, **_: calls.append(args))
    assert cfg.pretty_text == copied.pretty_text and not calls


def test_a_lazy_config_keeps_what_mmengine_knows_of_it(tmp_path):
    path = tmp_path / 'lazy.py'
    path.write_text(
        'from mmengine.optim import OptimWrapper\n\noptim_wrapper = dict(type=OptimWrapper)\n'
    )
    cfg, plain = load_config(str(path)), Config.fromfile(path)
    plain.work_dir = cfg.work_dir
    assert plain._imported_names and cfg._imported_names == plain._imported_names
    assert cfg.to_dict() == plain.to_dict() and cfg.pretty_text == plain.pretty_text


def test_formatted_again_after_a_change(config):
    cfg = load_config(config)
    before = cfg.pretty_text
    cfg.train_dataloader.num_workers = 7
    assert cfg.pretty_text == before.replace('num_workers=2', 'num_workers=7', 1) != before


@pytest.mark.parametrize('options', [{'train_dataloader.num_workers.x': 1}])
def test_impossible_options(config, options):
    with pytest.raises(UserError, match='config .*some.py: TypeError'):
        load_config(config, options)


@pytest.mark.parametrize('none', [None, Written('None')])
def test_a_part_of_what_another_option_takes_away(none):
    options = {'model.supervision.floor': 0.2, 'model.supervision': none}
    with pytest.raises(UserError, match='model.supervision.floor cannot be set, as model'):
        load_config('dvtr_c2v_planted', options)
    options = {'model.supervision': none, 'model.supervision_of': 1}
    assert load_config('dvtr_c2v_planted', options).model.supervision is None


def test_print_config(tmp_path, config):
    code, printed = run_tool(
        tmp_path, 'analysis_tools/print_config.py', 'some.py', '--save-path', 'whole.json',
        '--cfg-options', 'val_dataloader.num_workers=5',
    )  # fmt: skip
    assert code == 0 and "'num_workers': 5" in printed
    assert '"num_workers": 5' in (tmp_path / 'whole.json').read_text()


def _build_by_bare_name():
    from mmengine.registry import MODELS

    register_all_modules()
    MODELS.build(dict(type='CosineSimilarity'))


def test_register_all_modules(tmp_path):
    assert in_child(tmp_path / 'log', _build_by_bare_name) == 0, (tmp_path / 'log').read_text()


def test_forget_pretrained():
    tower = dict(type='OpenCLIPFrames', pretrained='openai')
    cfg = dict(encoder=dict(frames=tower, parts=[dict(pretrained='x')]), pretrained=None)
    forget_pretrained(cfg)
    assert tower['pretrained'] is None and cfg['encoder']['parts'] == [dict(pretrained=None)]


def test_the_configs_of_a_checkout_and_of_a_wheel(tmp_path, monkeypatch):
    assert utils.named_config('dvtr_c2v_msrvtt').samefile(ROOT / 'configs/dvtr_c2v_msrvtt.py')
    variant = ROOT / 'configs/dvtr/dvtr_c2v_msrvtt_triplet.py'
    assert utils.named_config('dvtr_c2v_msrvtt_triplet').samefile(variant)
    assert {'own_dvtr_c2v', 'hgr_epic_ran'} <= {*utils.config_names()}
    assert not {'c2v_vitb16', 'uatvr_tab1'} & {*utils.config_names()}  # a base and a study
    package = tmp_path / 'lib/mmvtr'
    (tmp_path / 'lib/configs').mkdir(parents=True)  # another project's
    monkeypatch.setattr(utils, '__file__', str(package / 'utils.py'))
    with pytest.raises(FileNotFoundError, match='no configs of mmvtr found in .*.mim/configs'):
        utils.named_config('mine')
    for folder in (package / '.mim/configs', tmp_path / 'lib/configs'):
        (folder / '_base_').mkdir(parents=True)
        (folder / '_base_/default_runtime.py').touch()
        (folder / f'{"mine" if ".mim" in folder.parts else "theirs"}.py').touch()
    assert utils.named_config('mine') == package / '.mim/configs/mine.py'
    with pytest.raises(ValueError, match="no config 'mime'; near it: mine"):
        utils.named_config('mime')
