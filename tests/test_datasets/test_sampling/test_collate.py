"""What a batch says of classes, environments and extras, also where all videos are broken."""

import pytest
import torch

from mmvtr.datasets import collate_retrieval
from mmvtr.models.data_preprocessor import VideoTextDataPreprocessor


def video(v, **known):
    return dict(video_idx=v, video_id=f'v{v}', frames=torch.full((1, 2), float(v)), **known)


def text(t, **known):
    return dict(text_idx=t, text_id=f't{t}', tokens=torch.tensor([t]), video_idx=[0], **known)


def classes(verb, noun):
    return dict(classes=dict(verb=verb, noun=noun))


BROKEN = dict(broken=('v9', 'cut short'))


def lists(classes):
    assert all(sets.dtype == torch.int64 for sets in classes.values())
    return {kind: sets.tolist() for kind, sets in classes.items()}


def test_classes_are_padded_kind_by_kind():
    items = [
        dict(video=video(0, **classes([3], [1, 2])), texts=[text(0, **classes([3], []))]),
        dict(BROKEN, **classes([8], [8, 8, 8])),
        dict(
            video=video(1, **classes([], [5])),
            texts=[text(1, **classes([4], [])), text(2, **classes([3, 4], []))],
        ),
    ]
    samples = collate_retrieval(items)['data_samples']
    assert lists(samples['video_classes']) == dict(verb=[[3], [-1]], noun=[[1, 2], [5, -1]])
    verbs = [[3, -1], [4, -1], [3, 4]]
    assert lists(samples['text_classes']) == dict(verb=verbs, noun=[[], [], []])
    assert samples['broken'] == [('v9', 'cut short')]


def test_a_batch_of_broken_videos_has_empty_classes():
    batch = collate_retrieval([dict(BROKEN, **classes([8], [8])), dict(BROKEN, **classes([], []))])
    assert batch['inputs'] == {}
    for side in ('text', 'video'):
        found = batch['data_samples'][f'{side}_classes']
        assert list(found) == ['verb', 'noun']
        assert all(sets.shape == (0, 0) and sets.dtype == torch.int64 for sets in found.values())
    assert 'text_classes' not in collate_retrieval([BROKEN])['data_samples']


@pytest.mark.parametrize('half, other', [('video', 'text'), ('text', 'video')])
def test_halves_know_their_own_classes(half, other):
    items = [dict(video=video, text=text)[half](i, **classes([i], [i, 7])) for i in (0, 1)]
    samples = collate_retrieval(items)['data_samples']
    assert lists(samples[f'{half}_classes']) == dict(verb=[[0], [1]], noun=[[0, 7], [1, 7]])
    assert lists(samples[f'{other}_classes']) == dict(verb=[], noun=[])


def test_environments():
    items = [dict(video=video(v, environment=e), texts=[text(v)]) for v, e in ((0, 1), (3, 0))]
    samples = collate_retrieval([items[0], BROKEN, items[1]])['data_samples']
    assert samples['environment'].tolist() == [1, 0]
    assert samples['environment'].dtype == torch.int64
    halves = collate_retrieval([video(2, environment=4), video(1, environment=5)])
    assert halves['data_samples']['environment'].tolist() == [4, 5]
    assert 'environment' not in collate_retrieval([text(0)])['data_samples']
    assert 'environment' not in collate_retrieval([video(0)])['data_samples']


def test_true_videos_of_an_oracle():
    items = [
        dict(video=video(0), texts=[text(0, true_videos=[0, 5, 3])]),
        dict(BROKEN, true_videos=[9, 8, 7, 6]),
        dict(video=video(1), texts=[text(1, true_videos=[1]), text(2, true_videos=[])]),
    ]
    found = collate_retrieval(items)['data_samples']['text_true_videos']
    assert found.dtype == torch.int64
    assert found.tolist() == [[0, 5, 3], [1, -1, -1], [-1, -1, -1]]
    broken = collate_retrieval([items[1]])['data_samples']['text_true_videos']
    assert broken.shape == (0, 0) and broken.dtype == torch.int64
    halves = collate_retrieval([text(3, true_videos=[2])])['data_samples']
    assert halves['text_true_videos'].tolist() == [[2]]
    for plain in ([video(0)], [text(0)], [BROKEN]):
        assert 'text_true_videos' not in collate_retrieval(plain)['data_samples']


def test_extras_are_listed_then_stacked():
    experts = [torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])]
    graphs = [torch.eye(2, dtype=torch.int64), torch.ones(2, 2, dtype=torch.int64)]
    has = [torch.tensor(True), torch.tensor(False)]
    items = [
        dict(
            video=video(i, extra=dict(expert=experts[i], has=has[i])),
            texts=[text(j, extra=dict(graph=graphs[j])) for j in range(2)],
        )
        for i in range(2)
    ]
    batch = collate_retrieval([items[0], BROKEN, items[1]])
    names = {'video', 'text', 'video_expert', 'video_has', 'text_graph'}
    assert batch['inputs'].keys() == names
    assert [len(batch['inputs'][name]) for name in ('video_expert', 'text_graph')] == [2, 4]
    inputs = VideoTextDataPreprocessor()(batch)['inputs']
    assert inputs.keys() == names | {'frame_mask', 'text_mask'}
    assert inputs['video_expert'].tolist() == [[1, 2], [3, 4]]
    assert inputs['video_has'].tolist() == [True, False]
    assert inputs['video_has'].dtype == torch.bool
    assert torch.equal(inputs['text_graph'], torch.stack(graphs * 2))


def test_extras_of_one_half_or_none():
    items = [video(v, extra=dict(expert=torch.ones(3))) for v in range(2)]
    inputs = VideoTextDataPreprocessor()(collate_retrieval(items))['inputs']
    assert inputs.keys() == {'video', 'frame_mask', 'video_expert'}
    assert inputs['video_expert'].shape == (2, 3)
    inputs = VideoTextDataPreprocessor()(collate_retrieval([text(0), text(1)]))['inputs']
    assert inputs.keys() == {'text', 'text_mask'}


def test_extras_of_several_shapes_are_refused():
    batch = collate_retrieval([video(v, extra=dict(expert=torch.ones(1 + v))) for v in range(2)])
    with pytest.raises(ValueError, match=r"'video_expert' .* one shape .* \[\(1,\), \(2,\)\]"):
        VideoTextDataPreprocessor()(batch)
