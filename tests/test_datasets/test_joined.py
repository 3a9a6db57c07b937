"""Several sets in one training, and a few videos of a set for a trial."""

import numpy as np
import pytest
import torch

import children  # noqa: F401 - puts mmvtr on the path of child processes
from miniatures import write_msrvtt, write_msvd
from mmvtr.datasets import (
    ConcatDataset,
    EnvironmentBatchSampler,
    EpochSampler,
    ItemKey,
    MSRVTTDataset,
    MSVDDataset,
    RepeatDataset,
    collate_retrieval,
)
from mmvtr.evaluation import RetrievalMetric
from mmvtr.models.annotation import JointIds
from mmvtr.registry import MODELS

PIPELINES = dict(
    video_pipeline=[lambda v: dict(v, features=np.random.rand(2, 3).astype(np.float32))],
    text_pipeline=[lambda t: dict(t, token_ids=[1, 2])],
)


@pytest.fixture
def sets(tmp_path):
    for name, write in (('a', write_msrvtt), ('b', write_msvd)):
        (tmp_path / name).mkdir()
        write(tmp_path / name)

    def build(**options):
        options = {**PIPELINES, **options}
        return (
            MSRVTTDataset('1kA_train7k', ann_root=str(tmp_path / 'a'), **options),
            MSVDDataset('train', ann_root=str(tmp_path / 'b'), **options),
        )

    return build


@pytest.mark.parametrize('unit', ['text', 'video', 'video_with_all_texts'])
def test_ids_and_positives_of_two_sets(sets, unit):
    """By names: a text matches the videos of its own set that its own annotation names."""
    parts = sets(epoch_unit=unit)
    joint = ConcatDataset(parts)
    assert len(joint) == sum(map(len, parts))
    owner = {
        f'{name}/{text["text_id"]}': {
            f'{name}/{one.videos[v]["video_id"]}' for v in text['video_idx']
        }
        for name, one in zip(('MSRVTT', 'MSVD'), parts)
        for text in one.texts
    }
    batch = collate_retrieval([joint[ItemKey(0, 0, i)] for i in range(len(joint))])
    samples = batch['data_samples']
    assert {name.partition('/')[0] for name in samples['video_ids']} == {'MSRVTT', 'MSVD'}
    wanted = [[v in owner[t] for v in samples['video_ids']] for t in samples['text_ids']]
    positives = JointIds(samples, torch.device('cpu')).target().positives
    assert positives.tolist() == wanted
    assert {joint.videos[v]['video_id'] for v in samples['video_idx'].tolist()} == {
        video for videos in owner.values() for video in videos
    }


def test_a_gradient_is_that_of_the_parts(sets):
    """Texts of one set are negatives of the other's videos, never positives."""
    joint = ConcatDataset(sets())
    batch = collate_retrieval([joint[i] for i in range(len(joint))])
    target = JointIds(batch['data_samples'], torch.device('cpu')).target()
    scores = torch.zeros(target.positives.shape, requires_grad=True)
    MODELS.build(dict(type='mmvtr.ContrastiveLoss'))({'scores': scores}, target, 1.0).backward()
    across = [
        [t.partition('/')[0] != v.partition('/')[0] for v in batch['data_samples']['video_ids']]
        for t in batch['data_samples']['text_ids']
    ]
    pushed = scores.grad[torch.tensor(across)]
    assert len(pushed) and (pushed > 0).all()
    assert (scores.grad[target.positives] < 0).all()


def test_views_are_those_of_the_sets(sets):
    parts = sets()
    joint = ConcatDataset(parts, names=['one', 'two'])
    for v, record in enumerate(joint.videos):
        assert joint.load_video(v)['video_id'] == record['video_id']
    captions = [text['text'] for one in parts for text in one.texts]
    assert [joint.load_text(t)['caption'] for t in range(len(joint.texts))] == captions


def test_a_repeated_set_draws_anew(sets):
    (part, _) = sets()
    repeated = RepeatDataset(part, 2)
    first, again = repeated[ItemKey(0, 1, 0)], repeated[ItemKey(0, 1, len(part))]
    assert first['video']['video_idx'] == again['video']['video_idx']
    assert not torch.equal(first['video']['frames'], again['video']['frames'])
    assert torch.equal(first['video']['frames'], part[ItemKey(0, 2, 0)]['video']['frames'])
    assert len(ConcatDataset([repeated, part])) == 3 * len(part)


def test_refused(sets):
    one, two = sets()
    with pytest.raises(ValueError, match='two sets or more expected, got 1'):
        ConcatDataset([one])
    with pytest.raises(ValueError, match='names must be 2, one per set'):
        ConcatDataset([one, two], names=['x', 'x'])
    with pytest.raises(ValueError, match='differ in epoch_unit'):
        ConcatDataset([one, sets(epoch_unit='video')[1]])
    with pytest.raises(ValueError, match='times must be a positive integer'):
        RepeatDataset(one, 0)

    def divide(videos, texts):
        return [dict(video, environment=i % 2) for i, video in enumerate(videos)], texts

    split = dict(environments=divide)
    with pytest.raises(ValueError, match="'environment', which is counted in one set alone"):
        ConcatDataset([one, sets(records=split)[1]])
    repeated = RepeatDataset(sets(records=split)[0], 2)
    sampler = EpochSampler(repeated, 0)
    with pytest.raises(ValueError, match='leave RepeatDataset out'):
        EnvironmentBatchSampler(sampler, 2)


@pytest.mark.parametrize(
    ('indices', 'left'), [(1, ['b_1_9']), (-1, ['a_0_5']), ([1], ['a_0_5']), ([0, -1], None)]
)
def test_a_few_videos(sets, indices, left):
    whole, few = sets()[1], sets(indices=indices if indices != [0, -1] else [0, 1])[1]
    names = [video['video_id'] for video in few.videos]
    assert names == (left or [video['video_id'] for video in whole.videos])
    owners = {whole.videos[t['video_idx'][0]]['video_id']: [] for t in whole.texts}
    for text in whole.texts:
        owners[whole.videos[text['video_idx'][0]]['video_id']].append(text['text'])
    assert [t['text'] for t in few.texts] == [text for name in names for text in owners[name]]
    assert few.protocol()['indices']
    if left:
        assert few.left_out.of_videos == 2 and few.not_chosen == {*owners} - {*left}


@pytest.mark.parametrize('indices', [[0, 0], [7], 0, 'ab', [True]])
def test_no_such_videos(sets, indices):
    with pytest.raises(ValueError, match='indices'):
        sets(indices=indices)


def test_a_loop_of_mmengine_is_refused_where_it_is_built():
    from mmengine.evaluator import Evaluator

    evaluator = Evaluator([RetrievalMetric()])
    with pytest.raises(TypeError, match='mmvtr.RetrievalLoop'):
        evaluator.dataset_meta = dict(dataset='any')
