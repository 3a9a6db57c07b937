import json

import numpy as np
import pytest

from mmvtr.datasets import read_highlights
from mmvtr.registry import TASK_UTILS

LINE = dict(
    qid=7,
    query='A dog runs.',
    duration=9,
    vid='abc_0.0_9.0',
    relevant_clip_ids=[1, 3],
    saliency_scores=[[1, 2, 3], [4, 0, 2]],
    relevant_windows=[[2, 4], [6, 8]],
)


def written(tmp_path, **changes):
    file = tmp_path / 'highlights.jsonl'
    file.write_text(json.dumps(LINE) + '\n' + json.dumps(dict(LINE, qid=8, **changes)) + '\n')
    return file


def test_grades_of_all_parts(tmp_path):
    file = written(tmp_path, relevant_clip_ids=[], saliency_scores=[])
    first, second = TASK_UTILS.build(dict(type='mmvtr.read_highlights', path=file))
    assert (first.query_id, first.text, first.video_id) == ('7', 'A dog runs.', 'abc_0.0_9.0')
    assert first.grades.tolist() == [[0, 0, 0], [1, 2, 3], [0, 0, 0], [4, 0, 2]]
    assert first.duration == 9 and second.grades.tolist() == [[0, 0, 0]] * 4


@pytest.mark.parametrize(
    'changes, message',
    [
        (dict(relevant_clip_ids=[1, 4]), 'relevant_clip_ids from 0 to 3'),
        (dict(relevant_clip_ids=[1, 1]), 'different relevant_clip_ids'),
        (dict(saliency_scores=[[1, 2, 3]]), 'saliency_scores'),
        (dict(saliency_scores=[[1, 2, 3], [1, 2]]), 'saliency_scores'),
        (dict(saliency_scores=[[1, 2, 3], [1, 2, 5]]), 'grades of 0 to 4'),
        (dict(duration='long'), 'duration'),
        (dict(query=3), 'query'),
    ],
)
def test_refuses(tmp_path, changes, message):
    with pytest.raises(ValueError, match=f'line 2.*{message}'):
        read_highlights(written(tmp_path, **changes))


def test_refuses_a_query_twice_and_no_line(tmp_path):
    file = written(tmp_path)
    file.write_text(file.read_text().replace('"qid": 8', '"qid": 7'))
    with pytest.raises(ValueError, match='qid'):
        read_highlights(file)
    file.write_text('')
    with pytest.raises(ValueError, match='no line'):
        read_highlights(file)


def test_the_published_files(shared):
    folder = shared / 'data/real_scores/qvhighlights'
    for name, count in dict(val_release=1550, test_with_gt=1542).items():
        found = read_highlights(folder / f'highlight_{name}.jsonl')
        assert len(found) == count and {one.grades.shape[1] for one in found} == {3}
        assert max(one.grades.max() for one in found) == 4
        assert np.mean([len(one.grades) for one in found]) > 70
