import json

import numpy as np
import pytest
import torch

from mmvtr_gallery.highlights import (
    highlight_figures,
    interpolated_precision,
    read_highlights,
)

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
    first, second = read_highlights(file)
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


def test_precision_by_hand():
    # Ranked: yes, no, yes, yes, no.  Precisions at the three: 1, 2/3, 3/4; the second is lifted.
    scores = torch.tensor([0.9, 0.8, 0.7, 0.6, 0.1])
    relevant = torch.tensor([True, False, True, True, False])
    assert interpolated_precision(scores, relevant).item() == pytest.approx((1 + 0.75 + 0.75) / 3)
    # The three share one score with a part that is none: one threshold of precision 3/4.
    assert interpolated_precision(torch.tensor([1.0, 1, 1, 1, 0]), relevant).item() == 0.75
    assert interpolated_precision(scores, torch.zeros(5, dtype=torch.bool)).item() == 0
    assert interpolated_precision(scores, torch.ones(5, dtype=torch.bool)).item() == 1


def test_against_the_curve_of_scikit_learn():
    metrics = pytest.importorskip('sklearn.metrics')
    rng = np.random.default_rng(0)
    for ties in (3, 1000):
        for _ in range(50):
            scores = rng.integers(ties, size=20) / ties
            relevant = rng.random(20) < 0.4
            relevant[0] = True
            precision, recall, _ = metrics.precision_recall_curve(relevant, scores)
            best = np.maximum.accumulate(precision)
            expected = best[:-1][recall[:-1] != recall[1:]].mean()
            found = interpolated_precision(torch.tensor(scores), torch.tensor(relevant))
            assert found.item() == pytest.approx(expected, abs=1e-12)


def test_precision_refuses():
    yes = torch.ones(2, dtype=torch.bool)
    with pytest.raises(ValueError, match='expected one of each for each part'):
        interpolated_precision(torch.zeros(3), yes)
    with pytest.raises(ValueError, match='NaN'):
        interpolated_precision(torch.tensor([0.0, float('nan')]), yes)


GRADES = {
    'a': [[0, 0, 0], [2, 3, 4], [3, 1, 4], [0, 0, 0]],
    'b': [[4, 4, 0], [0, 0, 0], [0, 0, 0]],
}


def test_by_hand():
    scores = {'a': [0.1, 0.2, 0.9, 0.3], 'b': [0.2, 0.9, 0.1]}
    found = highlight_figures(scores, GRADES)
    # a, fair: the people's highlights are ranked (3rd, 1st), (3rd), (3rd, 1st) of four.
    fair = [(1 + 2 / 3) / 2, 1 / 3, (1 + 2 / 3) / 2]
    # b: the first two people's is second, the third has none.
    half = [1 / 2, 1 / 2, 0]
    assert found['fair_map'] == pytest.approx(100 * (sum(fair) / 3 + sum(half) / 3) / 2)
    very_good = [0, 0, (1 + 2 / 3) / 2]
    assert found['very_good_map'] == pytest.approx(100 * (sum(very_good) / 3 + sum(half) / 3) / 2)
    assert found['fair_hit1'] == found['good_hit1'] == found['very_good_hit1'] == 50
    assert list(found)[:2] == ['fair_map', 'fair_hit1'] and len(found) == 6


def test_scores_of_another_number_of_parts():
    # What is missing has 0; the best part lies behind the video's end and hits nothing.
    few = highlight_figures({'b': [0.5]}, {'b': GRADES['b']})
    assert few['fair_map'] == pytest.approx(200 / 3) and few['fair_hit1'] == 100
    many = highlight_figures({'b': [0.5, 0.1, 0.1, 0.9]}, {'b': GRADES['b']})
    assert many['fair_map'] == pytest.approx(200 / 3) and many['fair_hit1'] == 0
    below = highlight_figures({'b': [-0.5]}, {'b': GRADES['b']})
    assert below['fair_map'] == pytest.approx(100 * 2 / 3 / 3)


def test_figures_refuse():
    with pytest.raises(ValueError, match="which differ in \\['b'\\]"):
        highlight_figures({'a': [0.1]}, GRADES)
    with pytest.raises(ValueError, match='NaN'):
        highlight_figures({'a': [float('nan')], 'b': [0]}, GRADES)
    with pytest.raises(ValueError, match='expected one score for each part'):
        highlight_figures({'a': [], 'b': [0]}, GRADES)
    with pytest.raises(ValueError, match='for the graded queries and no others'):
        highlight_figures({}, {})
