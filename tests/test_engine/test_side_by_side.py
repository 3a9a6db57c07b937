"""Steps that depend on each other: their order, their places, errors and signals."""

import os
import signal
import sys
import threading
import time

import pytest

from children import MP, _call
from mmvtr.engine.side_by_side import Skipped, Step, do_all, run_child


def steps(**after):
    """Steps that write down when they begin and end, and where."""
    events = []

    def step(name, needs):
        def do(place):
            events.append(('begin', name, place))
            time.sleep(0.05)
            events.append(('end', name, place))
            if name.startswith('bad'):
                raise SystemExit(f'{name} has failed')

        return Step(name, frozenset(needs), do)

    return [step(name, needs) for name, needs in after.items()], events


def test_each_begins_after_those_that_it_needs():
    made, events = steps(a=(), b=(), c='ab', d='c', e=())
    assert do_all(made, ['x', 'y']) == {}
    when = {event[:2]: place for place, event in enumerate(events)}
    assert len(events) == 10
    for later, needs in dict(c='ab', d='c').items():
        assert all(when['end', need] < when['begin', later] for need in needs)
    busy = set()  # a place has one step at a time
    for kind, _, place in events:
        assert (place in busy) == (kind == 'end')
        busy ^= {place}


def test_the_first_that_can_begin_does():
    made, events = steps(a=(), b='a', c=(), d='c')
    assert do_all(made) == {}
    assert [name for kind, name, _ in events if kind == 'begin'] == ['a', 'b', 'c', 'd']


def test_two_run_at_once_with_two_places():
    meet = threading.Barrier(2, timeout=20)
    both = [Step(name, frozenset(), lambda place: meet.wait() and None) for name in 'ab']
    assert do_all(both, [0, 1]) == {}


def test_a_failed_one_stops_those_alone_that_need_it():
    made, events = steps(bad=(), a=['bad'], b='a', c=())
    failed = do_all(made)
    assert [*failed] == ['bad', 'a', 'b'] and str(failed['bad']) == 'bad has failed'
    assert isinstance(failed['b'], Skipped) and str(failed['b']) == 'not begun, as it needs a'
    assert {name for _, name, _ in events} == {'bad', 'c'}


def test_after_a_failure_no_other_may_begin():
    made, events = steps(bad=(), a=(), b='a')
    failed = do_all(made, keep_going=False)
    assert [*failed] == ['bad', 'a', 'b'] and {name for _, name, _ in events} == {'bad'}


def test_a_child_prints_to_its_log_and_gives_its_status(tmp_path):
    log = tmp_path / 'log.txt'
    code = [sys.executable, '-c', 'import os; print(os.environ["WHO"]); raise SystemExit(3)']
    for _ in range(2):
        assert run_child(code, environment={**os.environ, 'WHO': 'me'}, log=log) == 3
    assert log.read_text() == 'me\nme\n'


def wait_for_three(folder):
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    child = f"import os, time; open('{folder}/' + str(os.getpid()), 'w').close(); time.sleep(600)"
    steps = [
        Step(name, frozenset(), lambda place: run_child([sys.executable, '-c', child]))
        for name in 'abc'
    ]
    do_all(steps, [0, 1])


@pytest.mark.parametrize(
    'number', [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.nightly)]
)
def test_a_signal_ends_running_children_and_begins_no_other(tmp_path, number):
    folder = tmp_path / 'begun'
    folder.mkdir()
    parent = MP.Process(target=_call, args=(tmp_path / 'log', wait_for_three, (folder,), {}))
    parent.start()
    for _ in range(1200):
        if len([*folder.iterdir()]) == 2:
            break
        time.sleep(0.1)
    children = [int(path.name) for path in folder.iterdir()]
    os.kill(parent.pid, number)  # to the parent alone
    parent.join(60)
    assert parent.exitcode is not None, 'it has not ended'
    assert len(children) == 2 and len([*folder.iterdir()]) == 2, 'the third one has begun'
    for child in children:
        with pytest.raises(ProcessLookupError):
            os.kill(child, 0)
