"""Which errors are a user's to mend, and what they say."""

import multiprocessing
import os
import pickle
import re
import signal
import traceback
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter

from children import MP
from mmvtr.cli.errors import USER_ERRORS, explain_dead_process, message_of, without_workers
from mmvtr.cli.values import split
from mmvtr.datasets.videos.video_io import BrokenVideoError, read_frames
from mmvtr.errors import UnknownKey, UserError
from mmvtr.registry import MODELS
from mmvtr.utils import named_config


def caught(function, *arguments):
    try:
        function(*arguments)
    except Exception as error:
        return error
    raise AssertionError('no error')


def broken(path):
    read_frames(str(path), lambda times: times[:1])


def fault(what):
    return [1, 2][what]


def key_error(name):
    return MODELS.build(dict(type=name))


def reason(error):
    """The sentence for a user; None where a tool shows the traceback."""
    told = explain_dead_process(error)
    return message_of(told).sentence if isinstance(told, USER_ERRORS) else None


def test_what_is_for_a_user(tmp_path):
    assert reason(caught(split, '(')) == "brackets do not match: '('"
    assert 'near it' in reason(caught(named_config, 'own_clip4clop'))
    assert reason(caught(open, tmp_path / 'x')) == f'{tmp_path}/x: No such file or directory'
    assert reason(caught(key_error, 'Nothing')).startswith("nothing is registered as 'Nothing'")
    (tmp_path / 'a.mp4').write_text('no video')
    assert f'{tmp_path}/a.mp4' in reason(caught(broken, tmp_path / 'a.mp4'))


def test_the_place_of_an_error_is_told():
    """A ValueError may be a fault of a program: nobody has to guess whose it is."""
    assert reason(caught(int, 'x')).startswith('invalid literal')
    ours = message_of(caught(split, '(')).origin
    assert re.fullmatch(r'ValueError at .*mmvtr/cli/values\.py:\d+', ours)
    assert message_of(caught(np.reshape, [1, 2], 3)).origin.startswith('ValueError at ')


@pytest.mark.parametrize(
    'call',
    [lambda: 1 / 0, lambda: fault(7), lambda: {}['x'], lambda: None.x, lambda: split(3),
     lambda: torch.ones(2) @ torch.ones(3)],
)  # fmt: skip
def test_faults_of_a_program_are_not(call):
    assert reason(caught(call)) is None


def test_an_unknown_key_is_a_sentence_and_a_key_error():
    error = UnknownKey("no 'x' in a table")
    assert str(error) == "no 'x' in a table" and isinstance(error, (KeyError, UserError))
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_packages_that_are_not_installed():
    said = reason(ModuleNotFoundError("No module named 'nosuch.part'", name='nosuch.part'))
    assert said == 'this needs the package nosuch, which is not installed: pip install nosuch'
    assert reason(ModuleNotFoundError('gone', name='mmvtr.gone')) == 'gone'
    assert reason(ModuleNotFoundError('gone', name='torch.gone')) == 'gone'


class Items(Dataset):
    def __init__(self, function, argument):
        self.function, self.argument = function, argument

    def __len__(self):
        return 2

    def __getitem__(self, index):
        return self.function(self.argument)


def loaded(function, argument):
    try:
        list(DataLoader(Items(function, argument), num_workers=1))
    except Exception as error:
        traceback.clear_frames(error.__traceback__)  # as without_workers does
        raise


def test_of_a_data_worker(tmp_path):
    (tmp_path / 'a.mp4').write_text('no video')
    message = str(caught(broken, tmp_path / 'a.mp4'))
    for function, argument, said in (
        (broken, tmp_path / 'a.mp4', message),
        (split, '[a', "brackets do not match: '[a'"),
        (key_error, 'Nothing', reason(caught(key_error, 'Nothing'))),
        (open, tmp_path / 'gone', f"[Errno 2] No such file or directory: '{tmp_path}/gone'"),
    ):
        error = caught(loaded, function, argument)
        assert 'Traceback' in str(error)
        assert reason(error) == said
    assert reason(caught(loaded, fault, 7)) is None
    origin = message_of(caught(loaded, split, '(')).origin
    assert re.fullmatch(r'ValueError at .*mmvtr/cli/values\.py:\d+', origin)  # not torch's


def test_without_the_workers_words(tmp_path):
    (tmp_path / 'a.mp4').write_text('no video')
    with pytest.raises(BrokenVideoError) as raised, without_workers():
        loaded(broken, tmp_path / 'a.mp4')
    assert str(raised.value) == str(caught(broken, tmp_path / 'a.mp4'))
    assert raised.value.__suppress_context__
    with pytest.raises(BrokenVideoError), without_workers():
        list(DataLoader(Items(broken, tmp_path / 'a.mp4'), num_workers=1))
    assert not multiprocessing.active_children(), 'a loader that waits for its worker'
    with pytest.raises(IndexError, match='Original Traceback'), without_workers():
        loaded(fault, 7)


def test_of_a_process_of_a_pool():
    with ProcessPoolExecutor(1, MP) as pool:
        error = caught(lambda: pool.submit(split, '(a"').result())
        assert reason(error) == "brackets do not match: '(a\"'"
        assert reason(caught(lambda: pool.submit(fault, 7).result())) is None


# -- processes that are gone -----------------------------------------------------------------------


class Dying(Dataset):
    """One of whose items ends the process that reads it."""

    def __init__(self, how):
        self.how = how

    def __len__(self):
        return 4

    def __getitem__(self, index):
        if index == 2:
            os.kill(os.getpid(), self.how)
        return torch.ones(index + 1)


@pytest.mark.parametrize(
    'how', [signal.SIGTERM, pytest.param(signal.SIGKILL, marks=pytest.mark.nightly)]
)
def test_a_dead_data_worker_is_told(monkeypatch, how):
    # For how long torch waits for workers that are gone, and seconds between its looks at them.
    monkeypatch.setattr('torch.utils.data._utils.MP_STATUS_CHECK_INTERVAL', 0.1)
    looks = (0.2, *_MultiProcessingDataLoaderIter._try_get_data.__defaults__[1:])
    monkeypatch.setattr(_MultiProcessingDataLoaderIter._try_get_data, '__defaults__', looks)
    former = signal.getsignal(signal.SIGCHLD)
    try:
        list(DataLoader(Dying(how), batch_size=None, num_workers=1))
    except Exception as error:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # torch raises once more, wherever we are
        said = reason(error) or repr(error)
    finally:
        signal.signal(signal.SIGCHLD, former)
    assert said.startswith('a data worker died') and 'memory' in said and 'num_workers' in said


@pytest.mark.parametrize('lost', [ConnectionResetError, EOFError])
def test_a_worker_that_dies_while_torch_reads_from_it(lost):
    """Which of torch's errors comes is a matter of time; elsewhere a connection is another one."""

    def read(place):
        exec(compile('raise lost', place, 'exec'), dict(lost=lost))

    said = reason(caught(read, '/site-packages/torch/utils/data/dataloader.py'))
    assert said.startswith('a data worker died: the machine likely ran out of memory')
    assert 'worker' not in (reason(caught(read, 'elsewhere.py')) or '')


@pytest.mark.parametrize(
    'signals, words',
    [
        ('Killed', '(process 12, killed): the machine likely ran out of memory'),
        ('Bus error', '(process 12, bus error): shared memory is full: give /dev/shm'),
        ('Segmentation fault', '(process 12, segmentation fault): a decoder crashed'),
    ],
)
def test_the_cause_of_a_workers_death(signals, words):
    """In torch's words where it hears of the signal in time."""
    error = RuntimeError(f'DataLoader worker (pid 12) is killed by signal: {signals}. It is ...')
    assert reason(error).startswith(f'a data worker died {words}')


def meets(rank, path, killed, told):
    dist.init_process_group('gloo', init_method=f'file://{path}', rank=rank, world_size=2)
    dist.all_reduce(torch.ones(1))
    if rank == killed:
        os.kill(os.getpid(), signal.SIGKILL)
    told.put(reason(caught(dist.all_reduce, torch.ones(1000))))


@pytest.mark.parametrize('killed', [0, 1])
def test_a_dead_process_of_a_run_is_told(tmp_path, killed):
    told = MP.Queue()
    processes = [
        MP.Process(target=meets, args=(rank, tmp_path / 'store', killed, told)) for rank in range(2)
    ]
    for process in processes:
        process.start()
    assert told.get(timeout=60).startswith('another process of this run is gone')
    for process in processes:
        process.join()


def test_other_errors_of_connections_are_as_they_were():
    assert reason(caught(refused)) == 'Connection refused'
    assert reason(RuntimeError('mat1 and mat2 shapes cannot be multiplied')) is None


def refused():
    raise ConnectionRefusedError('Connection refused')
