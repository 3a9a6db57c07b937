"""TREC's files there and back, and the readers of published judgments."""

import json

import numpy as np
import pytest

from mmvtr import datasets
from mmvtr.datasets import PairValues, read_qrels, read_run, write_qrels, write_run
from mmvtr.datasets.pair_values import Judgments

PAIRS = PairValues(['t1', 't1', 't2#0'], ['v.mp4', 'w', 'w'], np.array([2.0, 0.0, 1 / 3]))


def triples(pairs):
    return sorted(zip(pairs.texts, pairs.videos, pairs.values.tolist()))


@pytest.mark.parametrize('query', ['text', 'video'])
def test_there_and_back(tmp_path, query):
    write_qrels(tmp_path / 'q', PAIRS, query=query)
    assert triples(read_qrels(tmp_path / 'q', query=query)) == triples(PAIRS)
    write_run(tmp_path / 'r', PAIRS, query=query, tag='ours')
    assert triples(read_run(tmp_path / 'r', query=query)) == triples(PAIRS)


def test_what_the_files_look_like(tmp_path):
    """As trec_eval wants them: grade 0 is there, ranks begin with the best score."""
    write_qrels(tmp_path / 'q', PAIRS)
    assert (tmp_path / 'q').read_text().splitlines()[:2] == ['t1 0 v.mp4 2', 't1 0 w 0']
    run = PairValues(['t', 't'], ['a', 'b'], np.array([-1.0, 0.5]))
    write_run(tmp_path / 'r', run)
    assert (tmp_path / 'r').read_text() == 't Q0 b 1 0.5 mmvtr\nt Q0 a 2 -1 mmvtr\n'


def test_matrices_there_and_back():
    table = PAIRS.matrix(['t2#0', 't1', 't3'], ['w', 'v.mp4'])
    np.testing.assert_equal(table, [[1 / 3, np.nan], [0, 2], [np.nan, np.nan]])
    assert triples(PairValues.of_matrix(table, ['t2#0', 't1', 't3'], ['w', 'v.mp4'])) == triples(
        PAIRS
    )


def test_ids_that_do_not_fit():
    with pytest.raises(ValueError, match=r"unknown text 't2#0' \(1 of 3 pairs are unknown\)"):
        PAIRS.matrix(['t1'], ['v.mp4', 'w'])
    with pytest.raises(ValueError, match="unknown video 'v.mp4'"):
        PAIRS.matrix(['t1', 't2#0'], ['w'])
    assert np.nansum(PAIRS.matrix(['t1'], ['v.mp4', 'w'], others='left_out')) == 2
    with pytest.raises(ValueError, match='none of 3 pairs belongs to these texts'):
        PAIRS.matrix(['x'], ['y'], others='left_out')
    with pytest.raises(ValueError, match="a second text 't1' among the ids"):
        PAIRS.matrix(['t1', 't1'], ['w'])
    with pytest.raises(ValueError, match='do not fit'):
        PairValues.of_matrix(np.zeros((1, 1)), ['a', 'b'], ['c'])


@pytest.mark.parametrize(
    'text, message',
    [
        ('t,0,v,1', r"line 1: expected 4 fields separated by spaces, 'query 0 item grade', found"),
        ('t 0 v 1\nt 0 v 1', "line 2: a second line of text 't' and video 'v'"),
        ('t 0 v good', "line 1: expected grade, a finite number, found 'good'"),
        ('t 0 v nan', "line 1: expected grade, a finite number, found 'nan'"),
        ('\n', 'has no pair at all'),
        ('t 0 v ' + 9999 * 'x', r'found .{,80}$'),
    ],
)
def test_bad_qrels(tmp_path, text, message):
    (tmp_path / 'q').write_text(text)
    with pytest.raises(ValueError, match=message) as error:
        read_qrels(tmp_path / 'q')
    assert 'q' in str(error.value) and len(str(error.value)) <= 500


def test_bad_runs(tmp_path):
    (tmp_path / 'r').write_text('t Q0 v 1 nan x')
    with pytest.raises(ValueError, match="expected score, a finite number, found 'nan'"):
        read_run(tmp_path / 'r')
    for pairs, message in (
        (PairValues(['a b'], ['c'], np.ones(1)), 'must not have a space'),
        (PairValues(['a'], ['c'], np.array([np.nan])), 'nan is not finite'),
    ):
        with pytest.raises(ValueError, match=message):
            write_run(tmp_path / 'new', pairs)
    assert not (tmp_path / 'new').exists()


def fire(path, *annotations):
    rows = [dict(zip(('query', 'video_id', 'label', 'dataset'), row)) for row in annotations]
    path.write_text(json.dumps(dict(annotations=rows, disagreements=[])))
    return path


def test_fire_names_captions(tmp_path):
    """Each text of a caption gets what is said of it; ids of others are left out and counted."""
    rows = [
        (' a dog runs ', 'video1', 'relevant', 'msrvtt'),
        ('a dog runs', 'video1', 'relevant', 'msrvtt'),
        ('a dog runs', 'video2', 'irrelevant', 'msrvtt'),
        ('a cat', 'video1', 'relevant', 'msvd'),
    ]
    pairs = datasets.read_fire(fire(tmp_path / 'f.json', *rows), dataset='msrvtt', check=False)
    assert triples(pairs) == [('a dog runs', 'video1', 1.0), ('a dog runs', 'video2', 0.0)]
    judgments = Judgments.of(pairs)
    captions = ['a dog runs', 'a cat', 'a dog runs ']
    t2v, v2t = judgments.grades(['t0', 't1', 't2'], ['video2', 'video1'], captions)
    assert t2v is v2t
    np.testing.assert_equal(t2v, [[0, 1], [np.nan, np.nan], [0, 1]])
    with pytest.raises(ValueError, match='give them to the dataset'):
        judgments.grades(['t0'], ['video1'])


def test_fire_that_is_not_fire(tmp_path):
    path = fire(tmp_path / 'f.json', ('a', 'v', 'relevant', 'msrvtt'))
    with pytest.raises(ValueError, match='expected 6809410 and db0fff43.*git lfs pull'):
        datasets.read_fire(path, dataset='msrvtt')
    for row, message in (
        (('a', 'v', 'irrelevant', 'msrvtt'), "annotation 1: a second label of 'a'"),
        (('a', 'v', 'perhaps', 'msrvtt'), "annotation 1: expected 'relevant' or 'irrelevant'"),
        (('a', 3, 'relevant', 'msrvtt'), 'annotation 1'),
    ):
        path = fire(tmp_path / 'f.json', ('a', 'v', 'relevant', 'msrvtt'), row)
        with pytest.raises(ValueError, match=message):
            datasets.read_fire(path, dataset='msrvtt', check=False)
    with pytest.raises(ValueError, match="has no pair of dataset 'lsmdc'"):
        path = fire(tmp_path / 'f.json', ('a', 'v', 'relevant', 'msrvtt'))
        datasets.read_fire(path, dataset='lsmdc', check=False)
    path.write_text('version https://git-lfs/spec/v1\noid sha256:db0fff43\n')
    with pytest.raises(ValueError, match="is git LFS's pointer"):
        datasets.read_fire(path, dataset='msrvtt')
