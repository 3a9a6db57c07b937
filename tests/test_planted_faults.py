"""Faults that pages and tools once had: what reads and runs the pages' commands finds each."""

from __future__ import annotations

import sys

import pytest

import mmvtr.studies.running  # noqa: F401 - its functions are replaced
import small_configs
from children import ROOT
from mmvtr.studies.reading import read_study
from promise_checks import Room, check, check_read, furnish
from promises import Command

FIGURE = (
    'python projects/lab/figures.py configs/ncl_clip4clip_msvd.py as-built '
    '--random-weights --out DIR --figure ncl7'
)
COST = 'python projects/lab/cost.py configs/uatvr/uatvr_vitb16_msrvtt_ti.py'
NCL = 'python tools/train.py configs/ncl_clip4clip_msvd.py --best-on-test'


def everywhere(name: str, value) -> None:
    """Put something in the place of a function, in whatever module has it."""
    rooms = str(ROOT / 'mmvtr'), str(ROOT / 'projects/lab')
    for module in list(sys.modules.values()):
        ours = (getattr(module, '__file__', None) or '').startswith(rooms)
        if ours and hasattr(module, name):
            setattr(module, name, value)


# -- called in the tool's process, before it starts ------------------------------------------------


def chosen_by_raw_scores() -> None:
    whole = small_configs.load_config

    def load(path, *args):
        cfg = whole(path, *args)
        cfg.default_hooks.checkpoint.save_best = 'retrieval/rsum'
        return cfg

    small_configs.load_config = load


def queue_is_wanted() -> None:
    everywhere('_leave_out_readers_of_the_queue', lambda runner: None)


def metrics_replaced(metrics: dict[str, str]) -> None:
    """Of all studies, and nobody looks before the trainings."""

    def read(*args, **kwargs):
        study = read_study(*args, **kwargs)
        rows = [row._replace(printed=()) for row in study.rows]
        return study._replace(metrics=metrics, rows=tuple(rows))

    everywhere('read_study', read)
    everywhere('check_study', lambda study, rows: None)


def four_columns() -> None:
    metrics_replaced({f'retrieval/{s}_R{k}': f'{s} R@{k}' for s in ('t2v', 'v2t') for k in (1, 5)})


def no_such_metric() -> None:
    metrics_replaced({'relevance/avg_nDCG50': 'nDCG'})


def any_best() -> None:
    everywhere('file_to_test', lambda row, plan: 'best_*.pth')


def whole_batches() -> None:
    everywhere('shared_out', lambda row, plan: row)


#: Fault -> the command that had it, what is called before it, what is changed in its tool, and how
#: one sees it.
FAULTS = {
    'A1: cost asks any tower for its context': (
        COST,
        None,
        ('ids = full_text(', 'ids = torch.ones(1, tower.context_length); full_text('),
        'context_length',
    ),
    'A1: cost counts stand-ins': (
        COST,
        None,
        ('sizes.update(dict.fromkeys(module.parameters(), 0))', 'pass'),
        'M, built',
    ),
    'A2: the best epoch by the raw scores': (
        NCL,
        chosen_by_raw_scores,
        None,
        'retrieval/rsum: NCL, Tab. 2',
    ),
    'A3: as built, with a train queue': (FIGURE, queue_is_wanted, None, 'was never filled'),
    'A6: four of ten columns': (
        'python tools/study.py ncl_tab5',
        four_columns,
        None,
        '10 columns',
    ),
    'A6: each GPU with the whole batch': (
        'python tools/study.py uatvr_tab3 --gpus 8 --amp bf16',
        whole_batches,
        None,
        '8 a process',
    ),
    'C1: a metric that no run reports': (
        'python tools/study.py causal_tab10_youcook2',
        no_such_metric,
        None,
        'baseline: no nDCG',
    ),
    'C2: options of a row that has no such part': (
        'python tools/study.py arl_tab5_ours --cfg-options model.supervision.rule=mean '
        'model.supervision.cap=None model.supervision.u_spread=0.0',
        None,
        None,
        'error: ',
    ),
    'C3: --dry names a pattern': (
        'python tools/study.py causal_tab10_epic',
        any_best,
        None,
        r'no training leaves dry/baseline_0/best_\*.pth',
    ),
}
PLACES = {NCL: 'NCL, Tab. 2'}


@pytest.fixture(scope='module')
def place(tmp_path_factory, write_video):
    return furnish(tmp_path_factory.mktemp('faults'), write_video)


def edited(folder, tool: str, change):
    """Tools of which one is changed."""
    if change is None:
        return None
    text = (ROOT / 'projects/lab' / tool).read_text()
    assert text.count(change[0]) == 1, change[0]
    file = folder / tool
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text.replace(*change))
    return folder


@pytest.mark.nightly
@pytest.mark.parametrize('fault', FAULTS)
def test_a_fault_is_seen(fault, place, tmp_path):
    line, before, change, seen = FAULTS[fault]
    command = Command('papers', PLACES.get(line, 'papers'), tuple(line.split()))
    room = Room(place, {}, before, edited(tmp_path, command.tool, change))
    with pytest.raises(AssertionError, match=seen):
        check(command, room)


@pytest.mark.parametrize('option', ['--best-on-test', '--amp bf16', '--gpus 8'])
def test_an_option_that_the_tool_has_not_got(option, tmp_path, monkeypatch):
    """A6: studies had no --best-on-test and no --amp."""
    text = (ROOT / 'tools/study.py').read_text()
    text = text.replace(f"'{option.split()[0]}'", "'--other'").replace('parser.add_amp', 'str')
    (tmp_path / 'study.py').write_text(text)
    command = Command('papers', '', ('python', 'tools/study.py', 'ncl_tab5', *option.split()))
    check_read(command, {})
    monkeypatch.setattr('promise_checks.tool_file', lambda name: tmp_path / name)
    with pytest.raises(SystemExit):
        check_read(command, {})


@pytest.mark.parametrize(
    'line, place, chosen',
    [
        (NCL, 'NCL, Tab. 2', 'retrieval/rsum'),
        (
            'python tools/train.py configs/hgr_epic.py --best-on-test',
            'Frame length (causal intervention), Tab. 2',
            'retrieval/rsum',
        ),
        (
            'python tools/train.py configs/uatvr/uatvr_vitb16_msrvtt_postprocessed.py '
            '--best-on-test',
            'UATVR, Tab. 6',
            'retrieval/rsum',
        ),
    ],
)
def test_an_epoch_chosen_by_another_number(line, place, chosen):
    """A2, as it is read: before any training."""
    words = tuple(line.split())
    check_read(Command('papers', place, words), {})
    wrong = (*words, '--cfg-options', f'default_hooks.checkpoint.save_best={chosen}')
    with pytest.raises(AssertionError, match='chosen by'):
        check_read(Command('papers', place, wrong), {})
