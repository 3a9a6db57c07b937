"""What an evaluation knows of its texts and videos, also where some videos have left."""

import numpy as np
import torch

from mmvtr.engine.loops.evaluation import Encoded
from mmvtr.engine.loops.evaluation_loop import actions, lengths, relation_of
from tests.test_engine.test_evaluation_loop import Captions, FakeDataset, make_runner
from tests.test_engine.test_evaluation_readers import Reader


def test_the_relation_without_broken_videos(tmp_path):
    hook, dataset = Reader(), FakeDataset(broken=(1, 3))
    make_runner(tmp_path, dataset=dataset, custom_hooks=[hook]).test()
    relation, keep = hook.evaluation.relation, [0, 2, 4]
    assert relation.video_ids == ['video0', 'video2', 'video4'] and len(relation.text_ids) == 7
    for name in ('positives', 'truth', 'relevance'):
        whole = getattr(dataset, name)()
        np.testing.assert_array_equal(getattr(relation, name), whole[:, keep])
    assert relation.video_lengths.tolist() == [0, 20, 40]
    assert relation.video_lengths.dtype == torch.float64
    assert relation.video_actions == [((0, 0),), ((2, 0),), ((4, 0),)]
    assert relation.text_actions == [((t, 1), (t, 2)) for t in range(7)]
    np.testing.assert_array_equal(relation.moment_ratio, dataset.moment_ratio())


def some(*index):
    """Encoded items, of which only the positions matter."""
    empty = torch.empty(len(index), 0)
    return Encoded(torch.tensor(index), [str(i) for i in index], {}, empty)


def test_lengths_are_frames_else_seconds():
    """Of all videos of the set, so that two galleries of one set are measured alike."""
    dataset = Captions()
    assert lengths(dataset, some(0, 2)) == {}
    for v, video in enumerate(dataset.videos):
        video['duration'] = v / 2
    assert lengths(dataset, some(0, 3))['video_lengths'].tolist() == [0, 1.5]
    for v, video in enumerate(dataset.videos[:4]):
        video['num_frames'] = 10 + v
    assert lengths(dataset, some(0, 3))['length_unit'] == 'seconds', 'frames of 4 are unknown'
    dataset.videos[4]['num_frames'] = 99
    found = lengths(dataset, some(3, 4))['video_lengths']
    assert found.tolist() == [13, 99] and found.dtype == torch.float64


def test_actions_where_all_items_have_them():
    records = [dict(actions=[(1, 2)]), dict(actions=[]), {}, dict(actions=[(3, 4), (5, 6)])]
    assert actions(records, some(3, 0, 1)) == [((3, 4), (5, 6)), ((1, 2),), ()]
    assert actions(records, some(0, 2)) == ()


def test_a_relation_of_classes():
    """Graded by the classes of the records, for the videos that are left."""
    dataset = Captions()
    whole = relation_of(dataset, some(*range(7)), some(*range(5)))
    assert whole.relevance is whole.truth is whole.video_lengths is whole.moment_ratio is None
    assert whole.text_actions == whole.video_actions == ()
    for records in (dataset.videos, dataset.texts):
        for i, record in enumerate(records):
            record['classes'] = dict(verb=[i % 2], noun=[i % 3])
    relation = relation_of(dataset, some(*range(7)), some(0, 2, 3))
    expected = [
        [((t - v) % 2 == 0) / 2 + ((t - v) % 3 == 0) / 2 for v in (0, 2, 3)] for t in range(7)
    ]
    assert relation.relevance.tolist() == expected
