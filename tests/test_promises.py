"""Every command that a page of a paper promises is taken by its tool, and does what is promised.

By default each is read: its parser, its config, its options, the columns of its table.  One of each
kind is run on a miniature; ``-m nightly`` runs all.
"""

import re

import pytest

import promises
from children import ROOT
from mmvtr.errors import UserError
from mmvtr.studies.reading import read_study, study_names
from promise_checks import Room, check, check_read, furnish
from promises import (
    HEADINGS,
    Command,
    columns,
    commands,
    commands_of,
    expand,
    heading,
    headings,
    reason_not_run,
    table_of_study,
)

#: Each command once, trainings and tests once a table.
ALL = {
    (c.line, promises.table_of(c) * c.tool.endswith(('train.py', 'dist_train.sh', 'test.py'))): c
    for c in commands()
    if not reason_not_run(c)
}
COMMANDS = sorted(ALL.values(), key=lambda command: command.line)
#: Run by default: a training of each family, and one command of each other tool.  cost.py,
#: preflight.py and study.py have tests of their own that run by default.
RUN = (
    'train.py configs/dvtr_c2v_msrvtt.py',
    'train.py configs/ncl_clip4clip_msvd.py',
    'train.py configs/arl/arl_tvr_i3d_paper.py --best-on-test',
    'train.py configs/causal_hgr_epic.py',
    r'dist_train.sh configs/uatvr/uatvr_vitb16_msrvtt_postprocessed.py 8 .*--best-on-test .*',
    'test.py configs/zeroshot_msrvtt.py',
    'figures.py configs/ncl_clip4clip_msvd.py as-built .*',
    'length_bias.py CONFIG --out DIR',
    'check_dataset.py configs/dvtr_c2v_msrvtt.py',
    'epic_tbn.py .*',
    'word_vocabulary.py configs/hgr_epic.py .*',
    'expert_pickles.py videos data/msrvtt/features/motion.h5 .*',
    'eval_scores.py scores.npy --transform sinkhorn --query-source test',
)


@pytest.fixture(scope='session')
def room(tmp_path_factory, write_video):
    return Room(furnish(tmp_path_factory.mktemp('room'), write_video), {})


@pytest.fixture(scope='session')
def tools():
    return {}


def parameters(wanted) -> list:
    return [pytest.param(command, id=command.line) for command in COMMANDS if wanted(command)]


def runs_by_default(command: Command) -> bool:
    return any(re.search(rf'/{one}$', command.line) for one in RUN)


# -- what pages say --------------------------------------------------------------------------


@pytest.mark.parametrize('page', promises.PAGES)
def test_a_page_has_commands(page):
    assert any(command.page == page for command in commands())


@pytest.mark.nightly
def test_nothing_is_excused_in_vain():
    lines = [command.line for command in commands()]
    for pattern in promises.NOT_RUN:
        assert any(re.match(pattern, line) for line in lines), pattern
    said = {
        ' '.join((code[3] or code[4] or '').split())
        for page in promises.PAGES.values()
        for code in promises.CODE.finditer(page)
    }
    assert not (promises.WHOLE.keys() | promises.ABOUT) - said
    for one in RUN:
        assert any(re.search(rf'/{one}$', command.line) for command in COMMANDS), one


@pytest.mark.parametrize(
    'text',
    [
        'Take `train --fast dvtr_c2v_msrvtt`.',
        'Add `--cfg-options model.nothing=1`.',
        'It is `study.py dvtr_tab13 --faster`.',
        'With `model.supervision.floor=.3` it is faster.',
    ],
)
def test_a_piece_that_is_no_command_is_found(text):
    with pytest.raises(ValueError, match='neither a command nor a piece'):
        list(commands_of('dvtr', text))


@pytest.mark.parametrize(
    'line, error',
    [
        ('python tools/train.py configs/dvtr_c2v_msrvtt.py --nothing', SystemExit),
        ('python tools/train.py configs/dvtr_c2v_msrvtt.py --cfg-options model.no=1', UserError),
        ('python tools/train.py configs/no_such_config.py', ValueError),
        ('python tools/none.py configs/dvtr_c2v_msrvtt.py', AssertionError),
        ('python tools/study.py dvtr_tab99', ValueError),
        ('bash tools/dist_train.sh configs/dvtr_c2v_msrvtt.py 8', AssertionError),
        ('python projects/lab/figures.py a.py b.pth --out o --figure x9', AssertionError),
    ],
)
def test_a_command_that_no_tool_takes_is_found(line, error, tools, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error):
        check_read(Command('dvtr', 'dvtr', tuple(line.split())), tools)


@pytest.mark.parametrize('section', HEADINGS)
def test_columns_are_those_of_the_printed_table(section):
    said = columns(section)
    for table, keys in said.of_table.items():
        found = ' '.join(map(heading, keys))
        assert found == headings(section, table), f'{section}, Tab. {table}'
        sides = [key.partition('/')[2][:3] for key in keys if key.startswith('retrieval/')]
        assert sides[:4] == ['t2v'] * min(4, len(sides))
    assert {what.strip('_*+') for what in said.prefixes} <= {'ncl', 'qbnorm', 'postprocessed'}


@pytest.mark.parametrize('name', study_names())
def test_a_study_has_all_columns_of_its_table(name):
    study = read_study(name)
    section, table = table_of_study(study)
    if not table:
        return
    assert ' '.join(map(heading, study.metrics)) == headings(section, table)
    for run in study.rows:
        assert len(run.printed) in (0, len(study.metrics)), run.name


@pytest.mark.parametrize('command', parameters(lambda command: True))
def test_a_command_is_taken(command, tools, room, monkeypatch):
    monkeypatch.chdir(room.folder)
    check_read(command, tools)


# -- what they do ------------------------------------------------------------------------------


@pytest.mark.parametrize('command', parameters(runs_by_default))
def test_a_command_of_each_kind_keeps_its_promise(command, room):
    check(command, room)


@pytest.mark.nightly
@pytest.mark.parametrize('command', parameters(lambda command: not runs_by_default(command)))
def test_a_command_keeps_its_promise(command, room):
    check(command, room)


def test_names_in_braces():
    assert expand('{a,b}_c{,_d}') == ['a_c', 'a_c_d', 'b_c', 'b_c_d']
    assert (ROOT / 'docs/papers.md').is_file()
