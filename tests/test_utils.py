"""Configs from the command line, and registration without a Runner."""

import copy
from pathlib import Path

import pytest
from mmengine.config import Config

from children import ROOT, in_child, run_tool
from mmvtr import utils
from mmvtr.utils import (
    forget_pretrained,
    load_config,
    read_config,
    register_all_modules,
)
from mmvtr.values import Written

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
        with pytest.raises(SystemExit, match=f'{name}: it, or a base of it, begins with a byte'):
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
        with pytest.raises(SystemExit, match='some.py: .* model.width is set twice'):
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
    with pytest.raises(SystemExit, match='one.columns.video is set twice'):
        load_config(str(path), {'columns.video': 'b', 'one.columns.video': 'b'})


PRESETS = """
preset_small = {'model.width': 2, 'model.rate': None}
deep = 'model.layers.deep'
preset_deep = {'model.layers': dict(_delete_=True, deep=8), 'shortcuts': dict(d=[deep])}
model = dict(width=4, rate=dict(lr=0.1), layers=dict(flat=1))
"""


def test_a_preset_is_part_of_a_configs_name(tmp_path, monkeypatch):
    (tmp_path / 'some.py').write_text(PRESETS)
    monkeypatch.chdir(tmp_path)
    plain = load_config('some.py')
    assert plain.model == dict(width=4, rate=dict(lr=0.1), layers=dict(flat=1))
    assert not [key for key in plain if key.startswith('preset')]
    cfg = load_config('some+small.py')
    assert cfg.model == dict(width=2, rate=None, layers=dict(flat=1))
    assert (cfg.work_dir, cfg.filename) == ('work_dirs/some+small', 'some+small.py')
    (tmp_path / 'dumped+small.py').write_text(cfg.pretty_text)  # as a run does
    assert load_config('dumped+small.py').model == cfg.model
    both = load_config('some+small+deep.py', {'model.width': 3, 'd': 9})
    assert both.model == dict(width=3, rate=None, layers=dict(deep=9))


def test_a_preset_of_a_base(tmp_path):
    (tmp_path / 'some.py').write_text(
        "model = dict(width=1, rate=3)\npreset_small = {'model.width': 2}\n"
    )
    (tmp_path / 'mine.py').write_text("_base_ = ['some+small.py']\nmodel = dict(rate=5)\n")
    (tmp_path / 'slip.py').write_text("_base_ = ['some+smal.py']\n")
    assert read_config(tmp_path / 'mine.py').to_dict() == dict(model=dict(width=2, rate=5))
    with pytest.raises(ValueError, match="some.py has no preset 'smal', it has small"):
        read_config(tmp_path / 'slip.py')


def test_a_preset_that_is_not_there_is_told_with_those_that_are(tmp_path):
    (tmp_path / 'some.py').write_text(PRESETS)
    (tmp_path / 'none.py').write_text('model = dict(width=4)\n')
    with pytest.raises(SystemExit, match="some.py has no preset 'smal', it has small, deep"):
        load_config(str(tmp_path / 'some+smal.py'))
    with pytest.raises(SystemExit, match="none.py has no preset 'small', it has none"):
        load_config(str(tmp_path / 'none+small.py'))
    with pytest.raises(SystemExit, match='other.small.py does not exist'):
        load_config(str(tmp_path / 'other+small.py'))


def test_presets_of_the_packages_own_configs_by_name():
    cfg = load_config('c2v_msrvtt+triplet')
    assert [*cfg.model.losses] == ['triplet'] and cfg.work_dir == 'work_dirs/c2v_msrvtt+triplet'
    assert load_config('dvtr_c2v_msrvtt+adam').optim_wrapper.optimizer.type == 'Adam'


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
    with pytest.raises(SystemExit, match='error: config .*some.py: TypeError'):
        load_config(config, options)


@pytest.mark.parametrize('none', [None, Written('None')])
def test_a_part_of_what_another_option_takes_away(none):
    options = {'model.supervision.floor': 0.2, 'model.supervision': none}
    with pytest.raises(SystemExit, match='model.supervision.floor cannot be set, as model'):
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
    assert 'clip2video' not in utils.config_names() and 'own_dvtr_c2v' in utils.config_names()
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
