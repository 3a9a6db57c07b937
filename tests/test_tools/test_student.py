"""A student by one command: members, their vectors, the student; interrupted and resumed."""

import os
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from mmengine.runner import EpochBasedTrainLoop

from children import ROOT
from mmvtr.engine import before
from mmvtr.storage.weights import read_checkpoint
from small_configs import run_small, run_small_child

CONFIG = str(ROOT / 'configs/student_c2v_planted.py')


def die_in_epoch_2():
    """Called in a training's process, which ends as if it were killed."""
    run = EpochBasedTrainLoop.run_epoch

    def once(loop):
        if loop.epoch == 1:
            os._exit(9)
        run(loop)

    EpochBasedTrainLoop.run_epoch = once


def small_children(dies=()):
    """Called in a tool's process: tools that it starts run on miniatures, and the one whose command
    has all words of ``dies`` does not reach its end."""

    def run(command, *, environment=None, log=None):
        _, tool, *given = command
        words = ' '.join([tool, *given])
        mine = bool(dies) and all(word in words for word in dies)
        code = run_small_child(
            command,
            environment=environment,
            log=log,
            before=die_in_epoch_2 if mine and 'export_teacher' not in tool else None,
        )
        # killed before the folder of its vectors has its name
        return code or 9 if mine and 'export_teacher' in tool else code

    before.run_child = run


def dying(*words):
    return partial(small_children, words)


def dying_itself():
    small_children()
    die_in_epoch_2()


def weights(folder):
    files = dict(student='.', member1='member1', member2='member2', member3='member3')
    found = {}
    for name, place in files.items():
        last = (folder / place / 'last_checkpoint').read_text().strip()
        state = read_checkpoint(str(folder / place / Path(last).name))['state_dict']
        found.update({f'{name}.{key}': x for key, x in state.items()})
    for file in sorted(folder.glob('*/teacher/*.npz')):
        with np.load(file) as arrays:
            found[str(file.relative_to(folder))] = torch.from_numpy(arrays['vectors'])
            assert arrays['vectors'].dtype == np.float16
    return found


def train(folder, *flags, before=small_children):
    return run_small(folder, 'train.py', CONFIG, '--work-dir', 'student', *flags, before=before)


@pytest.mark.nightly
def test_interrupted_at_three_stages_it_is_the_same_student(tmp_path):
    whole, cut = tmp_path / 'whole', tmp_path / 'cut'
    for folder in (whole, cut):
        folder.mkdir()
    code, printed = train(whole)
    assert code == 0, printed[-3000:]
    stages = (
        dying('train.py', 'student/member1'),
        dying('export_teacher.py', 'student/member2'),
        dying_itself,
    )
    for stage in stages:
        code, printed = train(cut, before=stage)
        assert code == 9, printed[-3000:]
    assert 'member3: finished' not in printed and 'member2: finished' in printed
    code, printed = train(cut, '--resume')
    assert code == 0 and printed.count(': finished, in ') == 3, printed[-3000:]
    found, expected = weights(cut / 'student'), weights(whole / 'student')
    assert found.keys() == expected.keys() and any('teacher/' in key for key in expected)
    for key, x in expected.items():
        assert torch.equal(found[key], x), key
    words = [x for key, x in found.items() if key.endswith('text.token_embedding.weight')]
    assert len(words) == 4 and not any(torch.equal(words[0], x) for x in words[1:])
    code, printed = train(cut, '--resume', '--cfg-options', 'optim_wrapper.optimizer.lr=0.1')
    assert code and 'holds a training by another command or config' in printed


def test_a_config_with_a_fault_trains_no_member(tmp_path):
    for option in ('model.no_such_key=1', 'before.member1.config=nowhere.py'):
        code, printed = train(tmp_path, '--cfg-options', option)
        assert code and option.split('=')[0].rpartition('.')[2] in printed or 'nowhere' in printed
        assert 'before student_c2v_planted, 1 of' not in printed


@pytest.mark.nightly
def test_members_are_made_side_by_side(tmp_path):
    code, printed = train(tmp_path, '--devices', '0', '1', before=small_children)
    assert code == 0, printed[-3000:]
    assert len(weights(tmp_path / 'student')) > 4
    for name in ('member1', 'member2', 'member3'):  # what they print is not mixed
        assert 'results on test' in (tmp_path / 'student' / name / 'printed.txt').read_text()
    code, printed = train(tmp_path, '--devices', '0', '1', '--launcher', 'pytorch')
    assert code and 'makes rows of before side by side, a process each' in printed
