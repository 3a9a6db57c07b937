"""Arguments of all tools: what has a leading hyphen, KEY=VALUE, files, and how a tool ends."""

import os
import re

from mmvtr.cli.start import tool

import pytest
import torch.distributed as dist

from children import MP
from mmvtr.cli import (
    Parser,
    check_files,
    count,
    output_file,
    output_folder,
    query,
    setting,
)
from mmvtr.cli.values import Written, split
from mmvtr.errors import AlreadyReported, UserError


@pytest.fixture
def parser():
    made = Parser('what it does', prog='search.py')
    made.add_argument('index')
    made.add_argument('texts', nargs='*', type=query)
    made.add_argument('--k', type=count, default=10)
    made.add_argument('--delete', nargs='+', default=[])
    made.add_argument('--checkpoint')
    made.add_argument('--filter', nargs='+', type=setting, action='extend')
    made.add_cfg_options()
    return made


@pytest.mark.parametrize('word', ['-4wsuPCjDBc_5_15', '--fR2dKt1U_0_10', '-dog', '-x.mp4', '-K'])
def test_a_value_with_a_leading_hyphen(parser, capsys, word):
    assert parser.parse_args(['dir', f'--delete={word}']).delete == [word]
    assert parser.parse_args(['dir', '--', word]).texts == [word]
    with pytest.raises(SystemExit):
        parser.parse_args(['dir', '--delete', word])
    assert '--OPTION=-VALUE' in capsys.readouterr().err


def test_texts_before_and_behind_options(parser):
    for words in (['dir', 'a', 'b', '--k', '3'], ['--k', '3', 'dir', 'a', 'b'],
                  ['dir', '--k', '3', 'a', 'b'], ['dir', 'a', '--k=3', 'b']):  # fmt: skip
        found = parser.parse_args(words)
        assert (found.index, found.texts, found.k) == ('dir', ['a', 'b'], 3)


@pytest.mark.parametrize(
    ('words', 'said'),
    [
        (['dir', '--fliter', 'a=b'], 'unrecognized arguments: --fliter a=b'),
        (['dir', 'a', '-k', '5'], 'unrecognized arguments: -k 5'),
        (['dir', '--delete', '-4ws'], 'expected at least one argument; a value with a leading'),
        (['dir', '--k', '0'], "argument --k: an integer of 1 or more expected, got '0'"),
        (['dir', '--k', 'many'], "an integer of 1 or more expected, got 'many'"),
        (['dir', ' '], 'a text to search for expected, got an empty one'),
        (['dir', '--cfg-options', 'videos'], "KEY=VALUE expected, got 'videos'"),
        (['dir', '--filter', '=3'], "KEY=VALUE expected, got '=3'"),
        ([], 'the following arguments are required: index'),
    ],
)
def test_a_mistake_is_one_sentence(parser, capsys, words, said):
    with pytest.raises(SystemExit) as raised:
        parser.parse_args(words)
    printed = capsys.readouterr()
    assert raised.value.code == 2 and not printed.out
    assert (
        printed.err.startswith('error: ') and printed.err.count('\n') == 1 and said in printed.err
    )


@pytest.mark.parametrize('value', ['My Clips', 'a=b', '', "[x, 'y']", '-3', 'None'])
def test_settings_stay_as_they_are_typed(parser, value):
    found = parser.parse_args(
        ['dir', '--cfg-options', f'a.b={value}', 'c=1', '--cfg-options', 'c=2']
    ).cfg_options
    assert found == {'a.b': value, 'c': '2'}
    assert all(isinstance(one, Written) for one in found.values())
    found = parser.parse_args(['dir', '--filter', f'a={value}', '--filter', 'a=2', 'b=3']).filter
    assert found == [('a', value), ('a', '2'), ('b', '3')]


def test_no_settings(parser):
    assert parser.parse_args(['dir']).cfg_options == {}
    assert parser.parse_args(['dir', '--cfg-options', 'a=1']).cfg_options == {'a': '1'}
    assert parser.parse_args(['dir']).cfg_options == {}  # the default is nobody's to change


def test_files_before_anything_slow(tmp_path):
    (tmp_path / 'a.mp4').touch()
    (tmp_path / 'folder').mkdir()
    check_files([str(tmp_path / 'a.mp4')])
    with pytest.raises(
        FileNotFoundError, match='2 of 3 video files are missing: gone.mp4, .*folder'
    ):
        check_files([str(tmp_path / 'a.mp4'), 'gone.mp4', str(tmp_path / 'folder')])
    assert output_file(f'{tmp_path}/new/x.json') == tmp_path / 'new/x.json'
    assert output_folder(f'{tmp_path}/new/deep') == tmp_path / 'new/deep'
    with pytest.raises(IsADirectoryError, match='folder is a folder'):
        output_file(f'{tmp_path}/folder')
    for way in (output_folder, output_file):
        with pytest.raises(NotADirectoryError, match='a.mp4 is a file'):
            way(f'{tmp_path}/a.mp4/x/y')
    assert sorted(os.listdir(tmp_path)) == ['a.mp4', 'folder']


@tool
def ends(what):
    if isinstance(what, BaseException):
        raise what
    return split('(') if what == 'meant' else what / 0


def test_how_a_tool_ends(monkeypatch, capsys):
    with pytest.raises(SystemExit, match=r"^error: brackets do not match: '\('$"):
        ends('meant')
    with pytest.raises(ZeroDivisionError):
        ends(1)
    said = capsys.readouterr().err
    assert re.fullmatch(
        r'ValueError at .*/values\.py:\d+; MMVTR_TRACEBACK=1 shows the traceback\n', said
    )
    with pytest.raises(SystemExit) as raised:
        ends(KeyboardInterrupt())
    assert raised.value.code == 130
    with pytest.raises(SystemExit) as raised:
        ends(SystemExit(3))
    assert raised.value.code == 3
    with pytest.raises(SystemExit, match='^error: no test set$'):
        ends(UserError('no test set'))
    assert not capsys.readouterr().err
    refused = UserError('no such weights')
    refused.__cause__ = FileNotFoundError('gone')
    with pytest.raises(SystemExit, match='^error: no such weights$'):
        ends(refused)
    assert capsys.readouterr().err.startswith('FileNotFoundError; MMVTR_TRACEBACK=1')
    with pytest.raises(SystemExit) as raised:
        ends(AlreadyReported('a process has failed', 9))
    assert raised.value.code == 9 and not capsys.readouterr().err
    monkeypatch.setenv('MMVTR_TRACEBACK', '1')
    with pytest.raises(SystemExit, match='^error: no test set$'):
        ends(UserError('no test set'))
    assert 'Traceback' in capsys.readouterr().err
    with pytest.raises(SystemExit, match='brackets'):
        ends('meant')
    assert "    raise ValueError(f'brackets do not match" in capsys.readouterr().err
    with pytest.raises(SystemExit, match='^error: no config$'):  # what it is raised from is shown
        ends(SystemExit('error: no config'))
    assert not capsys.readouterr().err


def parsed(monkeypatch, *words, optional=False, more=None):
    """What a tool of one checkpoint makes of its command line."""
    parser = Parser('looks', prog='look.py')
    parser.add_argument('config')
    parser.add_argument('checkpoint', nargs='?' if optional else None)
    if more:
        parser.add_argument(more, nargs='+')
    parser.add_argument('--out')
    monkeypatch.setattr('sys.argv', ['look.py', *words])
    return parser.parse_one_checkpoint(more=more)


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


def test_other_arguments_are_unrecognized(monkeypatch, capsys):
    with pytest.raises(SystemExit):
        parsed(monkeypatch, 'c.py', 'a.pth', '--k', '3')
    assert 'unrecognized arguments: ' in capsys.readouterr().err


def test_texts_may_stand_behind_options(monkeypatch):
    args = parsed(monkeypatch, 'c.py', 'a.pth', 'a cat', '--out', 'x', 'a dog', more='texts')
    assert (args.checkpoint, args.texts) == ('a.pth', ['a cat', 'a dog'])


def fails(message):
    @tool
    def main():
        split(message)

    with pytest.raises(SystemExit) as raised:
        main()
    return raised.value.code


def says(rank, folder, queue, meets):
    os.environ['LOCAL_RANK'] = str(rank)
    if meets:
        dist.init_process_group(
            'gloo', init_method=f'file://{folder}/store', rank=rank, world_size=3
        )
    queue.put((rank, fails('('), fails(')' * (rank + 1))))
    if meets:
        dist.barrier()
        dist.destroy_process_group()


@pytest.mark.parametrize('meets', [True, False])
def test_an_error_of_all_processes_is_said_once(tmp_path, meets):
    queue = MP.SimpleQueue()
    children = [MP.Process(target=says, args=(rank, tmp_path, queue, meets)) for rank in range(3)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    found = sorted(queue.get() for _ in children)
    shared = [one for _, one, _ in found]
    assert sum(isinstance(code, str) for code in shared) == 1 and shared.count(1) == 2
    own = [code for _, _, code in found]  # what one of them alone has met
    assert [isinstance(code, str) for code in own] == (
        [True] * 3 if meets else [True, False, False]
    )
