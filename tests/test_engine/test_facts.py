"""The facts of a training: what is read from a checkpoint, and how two trainings stand together."""

import copy

import pytest
import torch

import toy
from children import run_tool
from mmvtr.engine.loops.facts import Training, differences, differing, together, trainings_of
from mmvtr.engine.loops.facts_of_run import commit_of
from mmvtr.storage import write_plain
from mmvtr.storage.weights import read_checkpoint

KNOWN = dict(
    set='Set train', ids='ab', videos=4, texts=8, epoch_unit='text', batch=8, processes=2,
    accumulated=1, optimizer='SGD', rates=[[0.4, 1], [0.2, 3]], precision='bf16',
    schedule='constant', epochs=3, steps=12, seed=5, versions=dict(mmvtr='9'), commit='abc',
)  # fmt: skip


def test_what_a_checkpoint_says():
    (found,) = trainings_of(dict(meta=dict(training=KNOWN, epoch=2)))
    said = found.items()
    assert said['trained on'] == 'Set train (ids ab, 4 videos, 8 texts)'
    assert said['batch'] == '8 (2 x 4)' and said['trained for'] == '2 of 3 epochs (12 iterations)'
    assert said['optimizer'] == 'SGD, lr 0.4 (1 parameter), 0.2 (3 parameters)'
    assert said['unknown of the training:'] == 'environments, training frames, started from'
    assert said['code'] == 'mmvtr 9, commit abc'


@pytest.mark.parametrize(
    ('meta', 'known', 'unknown'),
    [
        ({}, {}, 'trained on, epoch, batch, optimizer, trained in, schedule, trained for, seed'),
        (dict(seed=3, epoch=7), {'seed': '3', 'trained for': '7 of unknown epochs'}, 'optimizer'),
        (
            dict(converted_from='pytorch_model.bin.4', method='clip2video'),
            {'weights of': "clip2video's authors (pytorch_model.bin.4)"},
            'batch, optimizer',
        ),
    ],
)
def test_what_older_and_converted_ones_cannot_know(meta, known, unknown):
    (found,) = trainings_of(dict(meta=meta))
    said = found.items()
    assert {name: said[name] for name in known} == known
    names = said['unknown of the training:'].split(', ')
    assert {*unknown.split(', ')} <= {*names} and not {*known} & {*names}


@pytest.mark.parametrize(
    ('meta', 'words'),
    [
        (dict(training=3), 'a dict of facts expected, got 3'),
        (dict(training=dict(batch='8')), r"meta\['training'\]\['batch'\]: a int expected"),
        (dict(training=dict(batch=True)), "'batch'.: a int expected"),
        (dict(training=dict(rates=[['x', 1]])), "'rates'.: a list expected"),
        (dict(training=dict(set='x' * 9999)), "'set'.: a str expected"),
        (dict(training=dict(versions=[1])), "'versions'.: a dict expected"),
        (dict(members=[]), 'a list of facts expected'),
    ],
)
def test_facts_of_another_form_are_refused(meta, words):
    with pytest.raises(ValueError, match=f'x.pth: .*{words}'):
        trainings_of(dict(meta=meta), 'x.pth')


def test_a_fact_of_a_later_version_is_left_out():
    (found,) = trainings_of(dict(meta=dict(training=dict(KNOWN, moon='full'))))
    assert found == Training(**KNOWN)


def test_differences():
    mine = Training(**KNOWN)
    assert differences(mine, mine._replace(processes=1, done=1)) == {}
    other = mine._replace(batch=4, epochs=1, rates=[[0.1, 4]], ids='cd', seed=None)
    found = differences(mine, other)
    assert [*found] == ['trained on', 'batch', 'optimizer', 'trained for', 'seed']
    assert found['batch'] == ('8', '4') and found['seed'] == ('5', 'unknown')


def test_several_members():
    one, two = Training(**KNOWN), Training(**{**KNOWN, 'seed': 6})
    said = together([one, two])
    assert said['seed'] == '5 / 6' and said['batch'] == '8 (2 x 4)'
    lines = differing([one.as_dict(), two.as_dict()], [one.as_dict()], 'ab')
    assert lines == ['differs in seed: 6 in a, 5 in b']
    assert differing([], [one.as_dict()], 'ab') == ['a is not trained here']


def test_a_folder_of_no_repository(tmp_path):
    assert commit_of(tmp_path) == ''


@pytest.fixture(scope='module')
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp('facts')
    toy.write_config(folder)
    keep = ('--cfg-options', 'default_hooks.checkpoint.max_keep_ckpts=-1')
    code, printed = run_tool(folder, 'train.py', 'toy_config.py', *keep)
    assert code == 0, printed
    return folder / 'work_dirs/toy_config'


def test_a_training_that_goes_on_keeps_what_was_otherwise(trained, tmp_path):
    """As of a checkpoint of which some facts were others."""
    toy.write_config(tmp_path)
    content = read_checkpoint(trained / 'epoch_2.pth')
    before = content['meta']['training']
    content['meta']['training'] = dict(copy.deepcopy(before), precision='bf16', rates=[[0.7, 2]])
    write_plain(content, tmp_path / 'epoch_2.pth')
    command = ('train.py', 'toy_config.py', '--resume', 'epoch_2.pth')
    code, printed = run_tool(tmp_path, *command)
    assert code == 0, printed
    facts = read_checkpoint(tmp_path / 'work_dirs/toy_config/epoch_4.pth')['meta']['training']
    earlier = facts['earlier']['until epoch 2']
    assert earlier['trained in'] == 'bf16' and '0.7' in earlier['optimizer']
    assert facts['precision'] == 'fp32' and 'batch' not in earlier


def test_an_uninterrupted_training_has_no_earlier_facts(trained):
    facts = read_checkpoint(trained / 'epoch_4.pth')['meta']['training']
    assert 'earlier' not in facts and facts['epochs'] == 4 and facts['steps'] == 12
    assert facts['set'] == 'ToyDataset' and facts['optimizer'] == 'BertAdam'
    assert all(isinstance(rate, float) for rate, _ in facts['rates'])


def test_the_weights_that_a_training_started_from(trained, tmp_path):
    toy.write_config(tmp_path)
    torch.save(
        dict(state_dict=read_checkpoint(trained / 'best.pth')['state_dict']), tmp_path / 's.pth'
    )
    options = ('--cfg-options', 'load_from=s.pth', 'train_cfg.max_epochs=1')
    code, printed = run_tool(tmp_path, 'train.py', 'toy_config.py', *options)
    assert code == 0, printed
    (facts,) = trainings_of(read_checkpoint(tmp_path / 'work_dirs/toy_config/epoch_1.pth'))
    assert facts.start == 's.pth' and facts.items()['started from'] == 's.pth'
