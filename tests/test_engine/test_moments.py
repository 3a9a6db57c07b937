"""Matched moments in a file and in a number, against loops over texts, videos and frames."""

import json
import logging
from types import SimpleNamespace

import pytest
import torch
from torch.nn.functional import cosine_similarity as cos

import mmvtr.engine.hooks.moments_hook
from mmvtr.engine.hooks.moments_hook import MomentsHook, times
from mmvtr.engine.loops.evaluation import Encoded, Evaluation
from mmvtr.models.similarities.best_frame import BestFrameSimilarity
from mmvtr.models.similarities.mssl import MSSLSimilarity
from mmvtr.structures import Embedding, Relation

T, F, D = 7, 4, 5
LENGTHS = (4, 3, 1, 2)
#: Videos of the dataset that could be read: the second is missing.
ENCODED = [0, 2, 3, 4]
DURATIONS = (8.0, 9.0, 6.0, None, 10.0)
#: Video, begin and end of each text's moment: of the first four all is known.
MOMENTS = [
    (0, 0.0, 4.0),
    (2, 2.0, 4.0),
    (4, 0.0, 2.6),
    (4, 3.0, 10.0),
    (1, 0.0, 9.0),  # its video is missing
    (3, 0.0, 1.0),  # nobody knows how long its video is
    (0, None, None),
]


def make_evaluation(mode='test', names=('a', 'b')):
    torch.manual_seed(3)
    mask = torch.arange(F) < torch.tensor(LENGTHS)[:, None]
    texts = {name: Embedding(torch.randn(T, D)) for name in names}
    videos = {name: Embedding(torch.randn(4, D), torch.randn(4, F, D), mask) for name in names}
    model = SimpleNamespace(
        similarity=BestFrameSimilarity(levels=names),
        data_preprocessor=SimpleNamespace(device='cpu'),
    )
    return Evaluation(
        model,
        torch.device('cpu'),
        Encoded(torch.arange(T), [f't{t}' for t in range(T)], texts, torch.ones(T)),
        Encoded(torch.tensor(ENCODED), [f'v{v}' for v in ENCODED], videos, mask.sum(1)),
        model.similarity(texts, videos),
        Relation(torch.ones(T, 4).bool()),
        mode=mode,
        dataset=make_dataset(),
    )


def make_dataset():
    videos = [
        dict(video_id=f'v{v}', **({} if duration is None else dict(duration=duration)))
        for v, duration in enumerate(DURATIONS)
    ]
    texts = [
        dict(text_id=f't{t}', text=f'text {t} é', video_idx=[v])
        | ({} if start is None else dict(start=start, end=end))
        for t, (v, start, end) in enumerate(MOMENTS)
    ]
    return SimpleNamespace(videos=videos, texts=texts)


@pytest.fixture
def runner(tmp_path):
    return SimpleNamespace(work_dir=str(tmp_path), logger=logging.getLogger('moments'))


def best_frame(evaluation, t, column):
    """The valid frame of largest mean cosine over the levels."""

    def mean(k):
        return sum(
            float(cos(text.mean[t], video.tokens[column, k], 0))
            for text, video in zip(
                *(x.levels.values() for x in (evaluation.texts, evaluation.videos))
            )
        )

    return max(range(LENGTHS[column]), key=mean)


@pytest.mark.parametrize('videos_at_a_time', [1, 3, 512])
@pytest.mark.parametrize('top', [2, 10])
def test_the_file(runner, tmp_path, monkeypatch, top, videos_at_a_time):
    monkeypatch.setattr(mmvtr.engine.hooks.moments_hook, 'VIDEOS', videos_at_a_time)
    evaluation = make_evaluation()
    MomentsHook(top=top, file='found.json').after_scoring(runner, evaluation)
    entries = json.loads((tmp_path / 'found.json').read_text(encoding='utf-8'))
    assert [(x['text_id'], x['text']) for x in entries] == [
        (f't{t}', f'text {t} é') for t in range(T)
    ]
    frames = set()
    for t, entry in enumerate(entries):
        scores = evaluation.matrices['scores'][t]
        ranked = sorted(range(4), key=lambda column: -float(scores[column]))[:top]
        assert [hit['video_id'] for hit in entry['videos']] == [f'v{ENCODED[c]}' for c in ranked]
        for column, hit in zip(ranked, entry['videos']):
            assert hit['score'] == pytest.approx(float(scores[column]), abs=1e-6)
            k = best_frame(evaluation, t, column)
            assert hit['frame'] == k
            frames.add((column, k))
            duration = DURATIONS[ENCODED[column]]
            unit = 'share' if duration is None else 'seconds'
            step = (duration or 1) / LENGTHS[column]
            assert hit[f'begin_{unit}'] == pytest.approx(k * step, abs=1e-4)
            assert hit[f'end_{unit}'] == pytest.approx((k + 1) * step, abs=1e-4)
            assert len(hit) == 5
    assert len(frames) > 6  # not always the same ones


@pytest.mark.parametrize('mode', ['val', 'test'])
def test_pointing(runner, tmp_path, mode):
    evaluation = make_evaluation(mode)
    MomentsHook().after_scoring(runner, evaluation)
    inside, shares = [], []
    for t, (video, start, end) in enumerate(MOMENTS[:4]):
        column = ENCODED.index(video)
        middle = (best_frame(evaluation, t, column) + 0.5) / LENGTHS[column] * DURATIONS[video]
        inside.append(start <= middle <= end)
        shares.append((end - start) / DURATIONS[video])
    assert {True, False} == set(inside)
    assert evaluation.numbers == {
        'moment/t2v_pointing': pytest.approx(25 * sum(inside)),
        'moment/t2v_pointing_chance': pytest.approx(25 * sum(shares)),
    }
    assert (tmp_path / 'moments.json').exists() == (mode == 'test')


def test_pointing_at_both_ends_of_a_moment(runner):
    """A moment from the middle of one frame on, or up to it, has it inside."""
    evaluation = make_evaluation('val')
    texts = evaluation.dataset.texts
    k = best_frame(evaluation, 0, 0)
    for start, end, expected in ((k + 0.5, 4, 100), (0, k + 0.5, 100), (0, k + 0.4, 0)):
        texts[:] = [{**texts[0], 'start': 2.0 * start, 'end': 2.0 * end}] + [
            dict(video_idx=[0, 1], start=0, end=8)  # of several videos: whose moment is it?
        ] * (T - 1)
        MomentsHook().after_scoring(runner, evaluation)
        assert evaluation.numbers['moment/t2v_pointing'] == expected


def test_no_number_without_annotated_moments(runner, tmp_path):
    evaluation = make_evaluation()
    for text in evaluation.dataset.texts:
        text.pop('start', None)
    MomentsHook().after_scoring(runner, evaluation)
    assert evaluation.numbers == {} and (tmp_path / 'moments.json').is_file()


def test_bad_input():
    with pytest.raises(ValueError, match='top must be at least 1, not 0'):
        MomentsHook(top=0)
    model = SimpleNamespace(similarity=MSSLSimilarity(dim=4, clips=2))
    with pytest.raises(ValueError, match='MSSLSimilarity has no matched frames.*BestFrameSimilar'):
        MomentsHook().before_run(SimpleNamespace(model=model))
    model.similarity = BestFrameSimilarity()
    MomentsHook().before_run(SimpleNamespace(model=model))


def test_seconds_are_those_of_the_file():
    span = (0.25, 0.5)
    late = dict(begin=2.0, duration=4.0, start=1.0)
    assert times(span, late) == dict(begin_seconds=3.0, end_seconds=4.0)
    assert times(span, dict(duration=4.0)) == dict(begin_seconds=1.0, end_seconds=2.0)
    part = dict(start=10.0, end=14.0, duration=4.0)
    assert times(span, part) == dict(begin_seconds=11.0, end_seconds=12.0)
    assert times(span, dict(start=10.0)) == dict(begin_share=0.25, end_share=0.5)
