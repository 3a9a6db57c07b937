"""Lists that begin with what is sure, in an evaluation."""

import logging
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize

from mmvtr.datasets import CaptionImplication, VideoTextDataset
from mmvtr.engine import SureFirstHook
from mmvtr.engine.hooks.query_queue import Queries, QueryQueueHook
from mmvtr.engine.hooks.stored_queries import read_training_set
from mmvtr.engine.loops.evaluation import Encoded, Evaluation
from mmvtr.functional import expected_truth, sure_first
from mmvtr.functional.metrics.first_places import SHARE
from mmvtr.models.similarities.cosine import CosineSimilarity
from mmvtr.registry import DATASETS, HOOKS
from mmvtr.structures import Embedding, Relation

#: "moves" is said wherever something hops or spins, and never where all rests; nothing else says
#: anything of another word.
CLIPS = [
    [f'a {colour} {shape} {action}'] * 2 + ['all rests' if action == 'rests' else 'it moves'] * 2
    for colour in ('red', 'blue', 'green', 'white')
    for shape in ('star', 'box', 'ball', 'cone')
    for action in ('hops', 'spins', 'rests')
]
GALLERY = ['it moves', 'a star rests', 'a blue box hops', 'a red box hops', 'a box spins']


def records(clips=CLIPS):
    texts = [dict(text=caption, video_idx=[v]) for v, own in enumerate(clips) for caption in own]
    return SimpleNamespace(videos=[dict(video_id=f'v{v}') for v in range(len(clips))], texts=texts)


@pytest.fixture
def runner():
    return SimpleNamespace(logger=logging.getLogger('sure'))


@pytest.fixture
def evaluation():
    """Three clips: of two hopping boxes, of one that rests, and one of which nothing is known.

    In the dataset the gallery stands in the reverse order.
    """
    texts = [dict(text=text, video_idx=[0]) for text in GALLERY[::-1]]
    dataset = SimpleNamespace(texts=texts, videos=[dict(video_id='x')])
    count = len(GALLERY)
    scores = torch.tensor(
        [
            [0.2, 0.1, 0.62, 0.60, 0.3],
            [0.1, 0.9, 0.1, 0.1, 0.1],
            [0.49, 0.5, 0.5, 0.5, 0.5],
        ]
    ).t()
    index = torch.arange(count).flip(0)
    texts = Encoded(index, GALLERY, {}, torch.ones(count, dtype=torch.long))
    videos = Encoded(torch.arange(3), list('xyz'), {}, torch.ones(3, dtype=torch.long))
    positives = torch.zeros(count, 3).bool()
    positives[:3] = torch.eye(3).bool()
    matrices = dict(scores=scores, temperature=torch.tensor(0.05))
    return Evaluation(
        None, torch.device('cpu'), texts, videos, matrices, Relation(positives), dataset=dataset
    )


def first(hook, runner, evaluation):
    hook.before_run(runner)
    hook.after_scoring(runner, evaluation)
    return evaluation.transformed[hook.name]


def test_a_clip_is_told_what_surely_holds_before_what_was_written_for_it(runner, evaluation):
    hook = dict(type='SureFirstHook', captions=records(), sure=0.75, temperature=0.05)
    hook = HOOKS.build(hook)
    found = first(hook, runner, evaluation)
    scores = evaluation.matrices['scores']
    assert torch.equal(found.t2v, scores)
    best = [GALLERY[place] for place in found.v2t.argmax(0).tolist()]
    # Blue or red is not known, but it moves; what is sure and specific stays.
    assert best[:2] == ['it moves', 'a star rests']
    rest = found.v2t[:, 0].argsort(descending=True)[1:].tolist()
    assert rest == [i for i in scores[:, 0].argsort(descending=True).tolist() if i != 0]
    assert '100 % of the clips' in evaluation.notes['sure_first'] and not evaluation.transductive
    assert hook.reported({'retrieval/t2v_R1'}, runner) == {
        'sure_first/retrieval/t2v_R1',
        'sure_first/transductive',
    }


def test_captions_of_the_test_set_are_its_labels(runner, evaluation):
    """Other clips with equal captions are none."""
    tested = evaluation.dataset
    known = records()
    known.videos += tested.videos
    for shared, texts in ((False, GALLERY[:2]), (True, GALLERY[:3])):
        added = [dict(text=text, video_idx=[len(CLIPS)]) for text in texts]
        own = SimpleNamespace(videos=known.videos, texts=known.texts + added)
        evaluation.transformed.clear()
        first(SureFirstHook(captions=own), runner, evaluation)
        assert (evaluation.transductive == {'sure_first'}) == shared
        said = 'transductive: 3 of the 5 test pairs are in captions=' in str(evaluation.notes)
        assert said == shared


@pytest.mark.parametrize('temperature', [None, 0.2])
def test_it_is_the_function_of_the_gallerys_own_words(runner, evaluation, temperature):
    hook = SureFirstHook(
        captions=records(), sure=0.4, temperature=temperature, places=2, name='two'
    )
    found = first(hook, runner, evaluation)
    witness, data = CaptionImplication(), records()
    witness.learn(data.videos, data.texts)
    scores = evaluation.matrices['scores'].t()
    truth = expected_truth(scores, witness.among(GALLERY), temperature=temperature)
    expected = sure_first(scores, truth, sure=0.4, places=2)
    torch.testing.assert_close(found.v2t, expected.t())
    at = '0.2;' if temperature else f'{SHARE:g} of the score gap;'
    assert f'temperature {at}' in evaluation.notes['two']


def queue_of(places, seed=3):
    """A train queue of the captions at these places, some of them pushed twice."""
    hook = QueryQueueHook(size=100)
    generator = torch.Generator().manual_seed(seed)
    for kind in ('text', 'video'):
        levels = {'global': Embedding(torch.randn(len(places), 4, generator=generator))}
        index = torch.tensor(places)
        hook.queues[kind].push(Queries(levels, index, index // 4))
    return hook


@pytest.fixture
def labels(evaluation):
    """The evaluation of a model, whose clips have vectors."""
    vectors = torch.randn(3, 4, generator=torch.Generator().manual_seed(5))
    model = SimpleNamespace(similarity=CosineSimilarity())
    videos = evaluation.videos._replace(levels={'global': Embedding(vectors)})
    return replace(evaluation, model=model, videos=videos)


@pytest.mark.parametrize('source', ['train_queue', 'bank'])
def test_captions_of_the_training_set_stand_for_what_could_have_been_written(
    runner, labels, source, tmp_path
):
    places = [40, 3, 3, 81, 0, 40, 190]  # 3 and 40 twice: what was pushed last counts
    runner.hooks = [queue_of(places)]
    path = tmp_path / 'bank.pt'
    stored = {kind: queue.queries() for kind, queue in runner.hooks[0].queues.items()}
    torch.save({kind: queries.state() for kind, queries in stored.items()}, path)
    more = dict(bank_file=str(path)) if source == 'bank' else {}
    hook = SureFirstHook(captions=records(), written=source, sure=0.4, temperature=0.2, **more)
    found = first(hook, runner, labels)
    kept = [2, 3, 4, 5, 6]
    sides = stored['text'].levels['global'].mean[kept], labels.videos.levels['global'].mean
    asked, clips = (normalize(side, dim=1) for side in sides)
    witness, data = CaptionImplication(), records()
    witness.learn(data.videos, data.texts)
    written = [data.texts[places[k]]['text'] for k in kept]
    implied = witness.among(written, GALLERY)
    truth = expected_truth(clips @ asked.t(), implied, temperature=0.2)
    expected = sure_first(labels.matrices['scores'].t(), truth, sure=0.4)
    torch.testing.assert_close(found.v2t, expected.t())
    assert f'softmax over 5 captions of the {source}' in labels.notes['sure_first']
    assert not labels.transductive


@pytest.mark.parametrize(
    'clips, said',
    [
        (CLIPS[:10], 'the text at position 190 .* of video 47, but captions= has 40 texts'),
        ([CLIPS[0][:3], *CLIPS[1:]], 'at position 3 .* of video 0, but .* that of video 1 there'),
    ],
)
def test_a_queue_of_another_training_set_is_refused(runner, labels, clips, said):
    runner.hooks = [queue_of([3, 190])]
    hook = SureFirstHook(captions=records(clips), written='train_queue')
    with pytest.raises(ValueError, match=said):
        first(hook, runner, labels)


@DATASETS.register_module()
class SaidOfThree(VideoTextDataset):
    """Two captions of each of three videos."""

    def load_annotations(self):
        texts = [
            dict(text_id=f'{n}{x}', text=f'{x} {n}', video_idx=[n]) for n in range(3) for x in 'ab'
        ]
        return [dict(video_id=str(n), num_frames=n * n + 1) for n in range(3)], texts


def test_positions_count_without_the_videos_that_are_not_there(tmp_path):
    for n in (1, 2):
        np.save(tmp_path / f'{n}.npy', np.ones((2, 3), np.float32))
    captions = dict(
        type='SaidOfThree',
        missing='skip',
        records=dict(agreement=dict(type='CaptionAgreement')),
        video_pipeline=[dict(type='LoadFeatures', path=str(tmp_path))],
        text_pipeline=[dict(type='WordTokenize', vocab_file='nowhere.txt')],
    )
    data = read_training_set(captions)
    assert [text['text'] for text in data.texts] == ['a 1', 'b 1', 'a 2', 'b 2']
    assert not any('agreement' in text for text in data.texts)
    whole = {**captions, 'missing': 'raise'}
    assert len(read_training_set(whole).texts) == 6  # none is opened


def test_positions_count_without_the_videos_that_environments_leave_out():
    split = dict(type='LengthSplit', parts=2, only=1)
    captions = dict(type='SaidOfThree', records=dict(environments=split))
    data = read_training_set({**captions, 'video_pipeline': [], 'text_pipeline': []})
    assert [text['text'] for text in data.texts] == ['a 1', 'b 1', 'a 2', 'b 2']


def test_without_a_queue(runner, labels):
    runner.hooks = []
    with pytest.raises(RuntimeError, match="sure_first: 'train_queue' needs a QueryQueueHook"):
        first(SureFirstHook(captions=records(), written='train_queue'), runner, labels)


def test_a_clips_list_does_not_depend_on_other_clips(runner, evaluation):
    hook = SureFirstHook(captions=records(), sure=0.6)
    whole = first(hook, runner, evaluation).v2t
    alone = SimpleNamespace(**vars(evaluation))
    alone.matrices = dict(evaluation.matrices, scores=evaluation.matrices['scores'][:, 1:2])
    alone.transformed = {}
    torch.testing.assert_close(first(hook, runner, alone).v2t, whole[:, 1:2])


@pytest.mark.parametrize(
    'how, said',
    [
        (
            dict(written='test'),
            r"written must be one of \('gallery', 'train_queue', 'bank'\), not 't",
        ),
        (dict(written='bank'), "bank_file belongs to written='bank'"),
        (dict(sure=1.2), r'sure must lie in \[0, 1\], not 1.2'),
        (dict(places=0), 'places must be at least 1, not 0'),
        (dict(temperature=0.0), 'temperature must be positive and finite, not 0.0'),
    ],
)
def test_bad_arguments(how, said):
    with pytest.raises(ValueError, match=said):
        SureFirstHook(captions=records(), **how)


def test_captions_without_a_second_one_are_refused_before_the_run(runner):
    data = SimpleNamespace(videos=[{}], texts=[dict(text='a star', video_idx=[0])])
    with pytest.raises(ValueError, match='none of 1 videos has two captions'):
        SureFirstHook(captions=data).before_run(runner)


def test_a_gallery_smaller_than_the_places_is_named(runner, evaluation):
    with pytest.raises(ValueError, match='places must be 1 to 5'):
        first(SureFirstHook(captions=records(), places=6), runner, evaluation)
