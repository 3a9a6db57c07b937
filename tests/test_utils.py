"""Configs from the command line, and registration without a Runner."""

import argparse
import copy
from pathlib import Path

import pytest
from mmengine.config import Config

from children import ROOT, in_child, run_tool
from mmvtr import utils
from mmvtr.utils import (
    forget_pretrained,
    load_config,
    parse_one_checkpoint,
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
    with pytest.raises(FileNotFoundError, match='no configs of mmvtr: looked in .*.mim/configs'):
        utils.named_config('mine')
    for folder in (package / '.mim/configs', tmp_path / 'lib/configs'):
        (folder / '_base_').mkdir(parents=True)
        (folder / '_base_/default_runtime.py').touch()
        (folder / f'{"mine" if ".mim" in folder.parts else "theirs"}.py').touch()
    assert utils.named_config('mine') == package / '.mim/configs/mine.py'
    with pytest.raises(ValueError, match="no config 'mime'; near it: mine"):
        utils.named_config('mime')


def parsed(monkeypatch, *words, optional=False, more=None):
    """What a tool of one checkpoint makes of its command line."""
    parser = argparse.ArgumentParser(prog='look.py')
    parser.add_argument('config')
    parser.add_argument('checkpoint', nargs='?' if optional else None)
    if more:
        parser.add_argument(more, nargs='+')
    parser.add_argument('--out')
    monkeypatch.setattr('sys.argv', ['look.py', *words])
    return parse_one_checkpoint(parser, more=more)


@pytest.mark.parametrize('optional', [False, True])
def test_one_checkpoint(monkeypatch, optional):
    args = parsed(monkeypatch, 'c.py', 'a.pth', '--out', 'x', optional=optional)
    assert (args.config, args.checkpoint, args.out) == ('c.py', 'a.pth', 'x')


def test_no_checkpoint_and_one_behind_an_option(monkeypatch):
    assert parsed(monkeypatch, 'c.py', '--out', 'x', optional=True).checkpoint is None
    assert parsed(monkeypatch, 'c.py', '--out', 'x', 'a.pth', optional=True).checkpoint == 'a.pth'


@pytest.mark.parametrize(
    'words, more',
    [
        (['a.pth', 'b.pth'], None),
        (['best_x_epoch_1.pth', 'best_x_epoch_2.pth', '--out', 'x'], None),
        (['a.pth', '--out', 'x', 'weights'], None),
        (['a.pth', 'b.safetensors', 'a dog runs'], 'texts'),
        (['a.pth', 'b.pth', 'c.pth', 'a dog'], 'texts'),
    ],
)
def test_several_checkpoints_are_refused_by_name(monkeypatch, words, more):
    with pytest.raises(SystemExit) as error:
        parsed(monkeypatch, 'c.py', *words, more=more)
    given = [w for w in words if '.' in w or w == 'weights']
    told = f'look.py takes one CHECKPOINT, not {len(given)} ({", ".join(given)}): name the one'
    assert told in str(error.value)


@pytest.mark.parametrize('more, rest', [(None, ['--k', '3']), ('texts', ['--out', 'x', 'a dog'])])
def test_other_arguments_are_unrecognized(monkeypatch, capsys, more, rest):
    with pytest.raises(SystemExit):
        parsed(monkeypatch, 'c.py', 'a.pth', *(['a cat'] if more else []), *rest, more=more)
    assert 'unrecognized arguments: ' in capsys.readouterr().err
