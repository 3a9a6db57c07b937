"""Halves of a training set, and models that were trained on them."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn

import toy
from children import run_tool
from mmvtr.datasets import ConcatDataset, Halves, RepeatDataset, collate_retrieval
from mmvtr.datasets.sampling.environments import half_of
from mmvtr.engine.checks.set_checks import check_halves
from mmvtr.errors import UserError
from mmvtr.models.supervisions.cross_fitted import CrossFittedTeachers
from mmvtr.storage.weights import read_checkpoint
from tests.test_datasets.test_video_text import Tiny

IDS = [f'video{i}' for i in range(2000)]


def tiny(keep=None, seed=1, **options):
    return Tiny(records=dict(half=Halves(keep, seed=seed)), **options)


def ids(records, kind='video'):
    return {record[f'{kind}_id'] for record in records}


def test_a_half_is_of_the_id_and_the_seed_alone():
    """A function of both that no version may change: checkpoints of halves go by it."""
    assert [half_of(name, 0) for name in ('video0', 'video1', 'video7', 'ä')] == [0, 1, 0, 1]
    by_seed = torch.tensor([[half_of(name, seed) for name in IDS] for seed in (0, 1, 2)])
    assert (by_seed.double().mean(1) - 0.5).abs().max() < 0.05
    for one in range(3):  # no seed's halves are those of another one, nor their opposite
        same = (by_seed[one] == by_seed[(one + 1) % 3]).double().mean()
        assert 0.45 < same < 0.55


def test_halves_are_disjoint_and_cover_all():
    whole, zero, one = tiny(), tiny(0), tiny(1)
    for kind, records in (('video', 'videos'), ('text', 'texts')):
        parts = [ids(getattr(half, records), kind) for half in (zero, one)]
        assert parts[0].isdisjoint(parts[1])
        assert parts[0] | parts[1] == ids(getattr(whole, records), kind)
        for k, part in enumerate(parts):
            assert (
                part
                == {r[f'{kind}_id'] for r in getattr(whole, records) if r['half'] == k}
                != set()
            )
    for text in whole.texts:  # t2 belongs to two videos
        assert text['half'] == half_of(whole.videos[text['video_idx'][0]]['video_id'], 1)
    assert (
        'seed 1' in zero.protocol()['records.half'] and 'half 0' in zero.protocol()['records.half']
    )
    assert whole.protocol()['ids_sha'] == Tiny().protocol()['ids_sha']


def test_a_text_of_videos_of_both_halves_is_in_that_of_its_first():
    seed = next(s for s in range(99) if half_of('b', s) != half_of('c', s))
    first = half_of('b', seed)
    with_it, without = tiny(first, seed), tiny(1 - first, seed)
    (text,) = [t for t in with_it.texts if t['text_id'] == 't2']
    assert [with_it.videos[v]['video_id'] for v in text['video_idx']] == ['b']
    assert 't2' not in ids(without.texts, 'text') and 'c' in ids(without.videos)


@pytest.mark.parametrize('wrap', [lambda one: one, lambda one: RepeatDataset(one, 2)])
@pytest.mark.parametrize('unit', ['text', 'video', 'video_with_all_texts'])
def test_a_batch_carries_them(wrap, unit):
    dataset = wrap(tiny(epoch_unit=unit))
    samples = collate_retrieval([dataset[i] for i in range(len(dataset))])['data_samples']
    assert samples['video_half'].tolist() == [half_of(name, 1) for name in samples['video_ids']]
    halves = {text['text_id']: text['half'] for text in dataset.texts}
    assert samples['text_half'].tolist() == [halves[name] for name in samples['text_ids']]
    empty = collate_retrieval([dict(broken=('a', 'why'), half=1)])['data_samples']
    assert empty['text_half'].shape == empty['video_half'].shape == (0,)


def test_in_a_joint_set_each_has_its_own():
    joint = ConcatDataset([tiny(), tiny(seed=2)], names=['x', 'y'])
    samples = collate_retrieval([joint[i] for i in range(len(joint))])['data_samples']
    for name, half in zip(samples['video_ids'], samples['video_half'].tolist()):
        of, _, own = name.partition('/')
        assert half == half_of(own, dict(x=1, y=2)[of])


def test_bad_arguments():
    for keep in (2, -1, True, '0'):
        with pytest.raises(ValueError, match='keep must be 0, 1 or None'):
            Halves(keep)
    one = [dict(video_id='a', path='a.mp4')]
    with pytest.raises(ValueError, match='leaves one half of 1 videos empty'):
        tiny(videos=one, texts=[dict(text_id='t', text='one', video_idx=[0])])


# -- before a training -----------------------------------------------------------------------------


@pytest.fixture
def check(tmp_path):
    """``check(dataset, told)``: what is logged; ``told``: the set that either checkpoint tells."""

    def run(dataset, *told):
        paths = [str(tmp_path / f'{k}.pth') for k in (0, 1)]
        for path, one in zip(paths, told):
            facts = {} if one is None else dict(set='Tiny', ids=one.protocol()['ids_sha'])
            meta = dict(training=facts) if facts else {}
            torch.save(dict(state_dict={}, meta=meta), path)
        lines = []
        model = nn.Module()
        model.teacher = CrossFittedTeachers(halves=paths)
        loader = SimpleNamespace(dataset=dataset)
        logger = SimpleNamespace(warning=lines.append)
        check_halves(SimpleNamespace(model=model, train_dataloader=loader, logger=logger))
        return lines

    return run


def test_each_model_was_trained_on_its_half(check):
    zero, one = tiny(0), tiny(1)
    assert check(tiny(), zero, one) == []
    with pytest.raises(UserError, match=r'0.pth was trained on .*, which is half 1, not on half 0'):
        check(tiny(), one, zero)
    with pytest.raises(UserError, match='1.pth was trained on Tiny .*, not on half 1 of'):
        check(tiny(), zero, Tiny())
    with pytest.raises(UserError, match='not on half . of .*same seed'):
        check(tiny(seed=2), zero, one)
    with pytest.raises(UserError, match='records.half.type=Halves'):
        check(Tiny(), zero, one)
    (line,) = check(tiny(), zero, None)
    assert '1.pth does not tell what it was trained on' in line
    check_halves(SimpleNamespace(model=nn.Linear(2, 2)))


CONFIG = (
    toy.RETRIEVAL
    + """
train_dataloader['dataset']['names'] = list('abcdefgh')
model.update(
    heads=dict(type='HierarchicalGaussianHead'), supervision=dict(type='DVTRSupervision'))
default_hooks = dict(checkpoint=dict(interval=1, max_keep_ckpts=-1))
"""
)


@pytest.mark.nightly
def test_the_three_trainings(tmp_path, write_video):
    """As docs/dvtr.md has them; the two of the wrong halves; a resume; a test without files."""
    (tmp_path / 'r.py').write_text(CONFIG)
    for number, name in enumerate('abcdefgh'):
        write_video(tmp_path / f'{name}.mp4', [30 * number] * 3)
    half = 'train_dataloader.dataset.records.half'

    def train(work, *options, more=()):
        return run_tool(
            tmp_path, 'train.py', 'r.py', '--work-dir', work, *more,
            '--cfg-options', f'{half}.type=Halves', f'{half}.seed=1', *options,
        )  # fmt: skip

    for k in (0, 1):
        code, printed = train(f'half{k}', f'{half}.keep={k}')
        assert code == 0, printed
    teacher = ['model.teacher.type=CrossFittedTeachers']
    files = [f'half{k}/best.pth' for k in (0, 1)]
    code, printed = train('whole', *teacher, f'model.teacher.halves={",".join(files)}')
    assert code == 0 and 'down_weighted_share' in printed, printed
    code, printed = train('wrong', *teacher, f'model.teacher.halves={",".join(files[::-1])}')
    assert code != 0 and 'which is half 1, not on half 0' in printed, printed
    again = ('--resume', 'whole/epoch_2.pth')
    code, printed = train('again', *teacher, f'model.teacher.halves={",".join(files)}', more=again)
    assert code == 0, printed
    first, second = (
        read_checkpoint(tmp_path / work / 'epoch_3.pth')['state_dict']
        for work in ('whole', 'again')
    )
    assert all(torch.equal(x, second[name]) for name, x in first.items())
    for path in files:
        Path(tmp_path / path).unlink()
    again = [
        'whole/epoch_3.pth',
        '--cfg-options',
        *teacher,
        f'model.teacher.halves={",".join(files)}',
    ]
    code, printed = run_tool(tmp_path, 'test.py', 'r.py', *again)
    assert code == 0, printed
