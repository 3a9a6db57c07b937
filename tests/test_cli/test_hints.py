"""Options in the syntax of where the user is, and each of them does as the message says."""

import ast
import logging
import os
import re
import subprocess
import sys
from configparser import ConfigParser
from functools import cache
from importlib.metadata import EntryPoint
from types import SimpleNamespace

from mmvtr.cli.start import tool

import pytest
from test_datasets import test_missing, test_video_text
from test_datasets.test_tables.test_table_dataset import build, folder  # noqa: F401
from test_engine import test_hooks

from children import ROOT
from mmvtr.cli.hints import on_command_line, option, unregistered
from mmvtr.datasets.tables.rows import read_rows
from mmvtr.engine.hooks.broken_video_hook import BrokenVideoHook
from mmvtr.functional.transforms.transform_table import units
from mmvtr.utils import load_config

ROOMS = ('mmvtr', 'tools', 'projects/gallery/mmvtr_gallery')
#: Words of a message that a user types.
FLAG = re.compile(r'(?<![\w-])--[a-z][\w-]+')
TOOL = re.compile(r'\b(?:tools/[\w/]+\.py|mmvtr [a-z]+_[a-z]+)\b')
EXTRA = re.compile(r"(mmvtr|projects/gallery|\.)\[([\w-]+)\]'")


@pytest.mark.parametrize('is_tool', [True, False])
def test_where_the_user_is(monkeypatch, is_tool):
    def main():
        pass

    module = SimpleNamespace(main=tool(main) if is_tool else main)
    monkeypatch.setitem(sys.modules, '__main__', module)
    assert on_command_line() is is_tool
    assert option('missing', 'skip') == ('missing=skip' if is_tool else "missing='skip'")
    nested = option('on_broken.skip', 'a b.txt', prefix='x.')
    assert nested == ('x.on_broken.skip=a b.txt' if is_tool else "on_broken=dict(skip='a b.txt')")
    assert option('max_share', 0.5) == 'max_share=0.5'


def test_a_tool_by_each_way_to_it(tmp_path):
    """A script, one by its name, and a data worker that begins anew."""
    tool = tmp_path / 'mine.py'
    tool.write_text("""
import multiprocessing, sys
from mmvtr.cli.start import tool
from mmvtr.cli.hints import on_command_line
def said(): print(on_command_line(), flush=True)
@tool
def main():
    said()
    child = multiprocessing.get_context('spawn').Process(target=said)
    child.start(); child.join()
if __name__ == '__main__':
    main()
""")
    (tmp_path / 'mine-1.dist-info').mkdir()
    (tmp_path / 'mine-1.dist-info/entry_points.txt').write_text('[mmvtr.commands]\nmine = mine\n')
    (tmp_path / 'mine-1.dist-info/METADATA').write_text('Name: mine\nVersion: 1\n')
    paths = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get('PYTHONPATH')])])
    for words in ([str(tool)], ['-m', 'mmvtr', 'mine']):
        ran = subprocess.run(
            [sys.executable, *words], capture_output=True, text=True, cwd=ROOT,
            env={**os.environ, 'PYTHONPATH': paths},
        )  # fmt: skip
        assert ran.stdout.split() == ['True', 'True'], ran.stderr


def test_a_component_of_another_distribution(tmp_path, monkeypatch):
    (tmp_path / 'theirs-1.dist-info').mkdir()
    told = '[mmvtr.components]\nTheirTower = theirs.towers\n'
    (tmp_path / 'theirs-1.dist-info/entry_points.txt').write_text(told)
    (tmp_path / 'theirs-1.dist-info/METADATA').write_text('Name: theirs\nVersion: 1\n')
    monkeypatch.syspath_prepend(tmp_path)
    for kind in ('TheirTower', 'mmvtr.TheirTower'):
        said = unregistered(kind, ['ClipTower'])
        assert said.endswith("theirs.towers has it: custom_imports=dict(imports=['theirs.towers'])")
    assert 'theirs.towers' not in unregistered('TheirTowre', ['ClipTower'])


# -- hints do as they say: run on each kind of input that triggers them ----------------------------


def hinted(message, key):
    """The arguments that a message advises, one of which is ``key``."""
    said = re.search(rf"(?<![\w.]){key}=(dict\([^()]*\)|'[^']*'|[\d.]+)", message)
    return eval(f'dict({said[0]})')


def of_columns(tmp_path, monkeypatch):
    for header in ('filename,text', 'Video,text', 'video,Caption', 'vidoe,text', 'path,sentence'):
        (tmp_path / 'my.csv').write_text(f'{header}\na,b\n')
        columns = {}
        for _ in header.split(','):
            try:
                rows, _ = read_rows(tmp_path / 'my.csv', columns)
                break
            except ValueError as error:
                columns |= hinted(str(error), 'columns')['columns']
        assert rows[0][:2] and columns, header


def of_missing_rows(folder, monkeypatch):  # noqa: F811
    for gone in ('x', 'deep/y', 'a/b.mp4'):
        table = f'video,text\na,one\n{gone},two\n'
        with pytest.raises(FileNotFoundError) as raised:
            build(folder, table)
        dataset = build(folder, table, **hinted(str(raised.value), 'missing'))
        assert [video['video_id'] for video in dataset.videos] == ['a']


def of_broken_rows(folder, monkeypatch):  # noqa: F811
    for number, content in enumerate((b'', b'no video', bytes(5000))):
        (folder / f'clips/bad{number}.mp4').write_bytes(content)
        table = f'video,text\na,one\nbad{number},two\n'
        with pytest.raises(test_video_text.BrokenVideoError) as raised:
            build(folder, table, read_durations=True)
        advised = hinted(str(raised.value), 'on_broken')
        (folder / advised['on_broken']['skip']).write_text(f'bad{number}\n')
        assert {*build(folder, table, read_durations=True, **advised).known_broken} == {
            f'bad{number}'
        }


def of_missing_features(tmp_path, monkeypatch):
    for name, (cls, split, write, here, _, _) in test_missing.SETS.items():
        (tmp_path / name).mkdir()
        write(tmp_path / name)
        with pytest.raises(KeyError) as raised:
            test_missing.build(cls, split, tmp_path / name, here, missing='raise')
        advised = hinted(str(raised.value), 'missing')
        dataset = test_missing.build(cls, split, tmp_path / name, here, **advised)
        assert [video['video_id'] for video in dataset.videos] == here


def of_a_broken_item(tmp_path, monkeypatch):
    for unit in ('video', 'text', 'video_with_all_texts'):
        whole = dict(video=test_video_text.broken_b, epoch_unit=unit)
        with pytest.raises(test_video_text.BrokenVideoError) as raised:
            test_video_text.Tiny(**whole).load_video(1)
        advised = hinted(str(raised.value), 'on_broken')
        assert 'broken' in test_video_text.Tiny(**whole, **advised).load_video(1)


def of_too_many_broken_ones(tmp_path, monkeypatch):
    for listed in ({}, {'a': 'listed'}):
        loader = SimpleNamespace(dataset=SimpleNamespace(known_broken=listed))
        runner = SimpleNamespace(
            logger=logging.getLogger('hints'), epoch=0, train_dataloader=loader
        )
        batch = test_hooks.batch(3, ('v', 'torn'), *listed.items())
        with pytest.raises(RuntimeError) as raised:
            test_hooks.run_epoch(BrokenVideoHook(), runner, batch)
        advised = hinted(str(raised.value), 'on_broken')
        assert test_video_text.Tiny(on_broken=dict(skip=listing(tmp_path, advised))).known_broken
        test_hooks.run_epoch(
            BrokenVideoHook(**hinted(str(raised.value), 'max_share')), runner, batch
        )


def listing(tmp_path, advised):
    path = tmp_path / advised['on_broken']['skip']
    path.write_text('a\n')
    return str(path)


#: Place in the code and key of each hint -> what runs it; a name is of a test elsewhere.
CASES = {
    'mmvtr/datasets/tables/rows.py: columns.{name}': of_columns,
    'mmvtr/datasets/tables/dataset.py: missing': of_missing_rows,
    'mmvtr/datasets/tables/dataset.py: on_broken.skip': of_broken_rows,
    'mmvtr/datasets/videos/missing.py: missing': of_missing_features,
    'mmvtr/datasets/video_text.py: on_broken': of_a_broken_item,
    'mmvtr/engine/hooks/broken_video_hook.py: on_broken.skip': of_too_many_broken_ones,
    'mmvtr/engine/hooks/broken_video_hook.py: max_share': of_too_many_broken_ones,
    'tools/dataset_converters/check_dataset.py: on_broken.skip': 'test_tools/test_check_dataset.py',
    'mmvtr/datasets/annotation_files.py: iconv': 'test_datasets/test_annotation_values.py',
}


@cache
def sources():
    """Files that write ``option(`` or a word to type, and their trees."""
    paths = [path for room in ROOMS for path in sorted((ROOT / room).rglob('*.py'))]
    texts = {str(path.relative_to(ROOT)): path.read_text() for path in paths}
    words = ('option(', '`iconv', '--', 'tools/', 'mmvtr ', "]'")
    return [(f, ast.parse(t)) for f, t in texts.items() if any(word in t for word in words)]


def messages(tree):
    """Texts of a module, a value in them as ``{}``, without docstrings."""
    docs, inner = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            docs.add(id(getattr(node.body[0], 'value', None)) if node.body else None)
        if isinstance(node, ast.JoinedStr):
            inner |= {id(part) for part in node.values}
            yield ''.join(x.value if isinstance(x, ast.Constant) else '{}' for x in node.values)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if id(node) not in docs | inner:
                yield node.value


def test_every_hint_has_a_case():
    """A hint is made by ``option``, or is a command of another program in backticks."""
    found = set()
    for file, tree in sources():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and getattr(node.func, 'id', '') == 'option':
                key = ast.unparse(node.args[0]).strip('f').strip('"').strip("'")
                found.add(f'{file}: {key}')
        found |= {f'{file}: iconv' for text in messages(tree) if '`iconv ' in text}
    assert found == {*CASES}
    for place, case in CASES.items():
        if isinstance(case, str):
            word = place.rpartition(': ')[2]
            assert word in (ROOT / 'tests' / case).read_text()


@pytest.mark.parametrize('case', [c for c in dict.fromkeys(CASES.values()) if callable(c)])
def test_a_hint_does_as_it_says(case, request, tmp_path, monkeypatch):
    asks = case.__code__.co_varnames[0]
    case(request.getfixturevalue(asks), monkeypatch)


@pytest.mark.parametrize('name', ['own_clip4clip', 'own_clip4clip_features'])
def test_short_options_of_hints_are_shortcuts_of_the_configs_of_ones_own(name):
    for key, value in (('missing', 'skip'), ('on_broken.skip', 'x.txt'), ('columns.text', 'b')):
        cfg = load_config(str(ROOT / f'configs/{name}.py'), {key: value})
        for part in ('train', 'val', 'test'):
            found = cfg[f'{part}_dataloader'].dataset
            for step in key.split('.'):
                found = found[step]
            assert found == value


def test_a_tool_of_another_project_cannot_break_the_list(monkeypatch, tmp_path):
    """A package that is gone, and a file that says nothing, in letters of any language."""
    from mmvtr import __main__

    (tmp_path / 'says_nothing.py').write_text('# ä\nraise ValueError\n', 'utf-8')
    monkeypatch.syspath_prepend(str(tmp_path))
    modules = dict(gone='no_such_package.tool', silent='says_nothing')
    entries = [EntryPoint(name, module, 'mmvtr.commands') for name, module in modules.items()]
    monkeypatch.setattr(__main__, 'entry_points', lambda group: entries)
    listed = [line.split() for line in __main__.overview().splitlines()]
    assert ['silent'] in listed and 'gone' not in sum(listed, [])
    assert any(line[:1] == ['train'] for line in listed)


def test_what_messages_tell_to_type_is_there():
    """Options, tools and extras, wherever a message names one."""
    from mmvtr.__main__ import tools

    texts = [(file, text) for file, tree in sources() for text in messages(tree)]
    flags = {text for _, text in texts if FLAG.fullmatch(text)}
    flags |= {f'--{name.replace("_", "-")}' for name in units()} | {'--help'}
    of_others = {'--shm-size', '--short', '--nproc_per_node', '--ntasks', '--standalone'}
    extras = {}
    for place, file in dict(mmvtr='setup.cfg', projects='projects/gallery/setup.cfg').items():
        told = ConfigParser()
        told.read(ROOT / file)
        extras[place] = {*told['options.extras_require']}
    for file, text in texts:
        for flag in FLAG.findall(text):
            assert flag in flags | of_others, (file, text)
        for named in TOOL.findall(text):
            name = named.rpartition('/')[2].removesuffix('.py').rpartition(' ')[2]
            assert (ROOT / named).is_file() or name in tools(), (file, named)
        for place, extra in EXTRA.findall(text):
            known = extras['projects' if place.startswith('projects') else 'mmvtr']
            assert extra in known, (file, text)
