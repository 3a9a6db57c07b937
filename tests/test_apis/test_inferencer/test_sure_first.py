"""A gallery of texts that begins with what is implied of a video."""

from types import SimpleNamespace

import pytest
import torch
from asked_clips import TEXTS, by_hand

from mmvtr.apis.inferencer import transforms
from mmvtr.datasets import CaptionImplication
from mmvtr.engine.hooks.query_queue import Queries
from mmvtr.functional import expected_truth, sure_first
from mmvtr.storage import write_plain
from mmvtr.structures import Embedding, take

#: A dog is said of all that is red, and nothing else of anything.
SAID = [['red dog', 'dog red', 'a dog'], ['w1 w2', 'w2 a w1'], ['red w34', 'dog'], ['a', 'cyanish']]


def captions():
    texts = [dict(text=said, video_idx=[v]) for v, own in enumerate(SAID) for said in own]
    return SimpleNamespace(videos=[{} for _ in SAID], texts=texts)


def truth_of(scores, written, temperature):
    data, witness = captions(), CaptionImplication()
    witness.learn(data.videos, data.texts)
    return expected_truth(scores, witness.among(written, TEXTS), temperature=temperature)


def assert_surely(predictions, scores, truth, sure):
    expected = sure_first(scores, truth, sure=sure)
    changed = 0
    for prediction, row, raw, holds in zip(predictions, expected, scores, truth):
        places = [int(hit['id']) for hit in prediction['hits']]
        assert places == row.argsort(descending=True).tolist()
        changed += places[0] != raw.argmax()
        for place, hit in zip(places, prediction['hits']):
            assert hit['holds'] == pytest.approx(holds[place].item(), abs=1e-5)
            assert hit['raw_score'] == pytest.approx(raw[place].item(), abs=1e-5)
            assert hit['score'] == pytest.approx(row[place].item(), abs=1e-5)
            assert 'bias' not in hit
    return changed


@pytest.mark.parametrize('name', ['toy', 'uatvr_planted'])
@pytest.mark.parametrize('held', [0, 2**26])
def test_the_gallerys_own_texts_say_what_holds(make, name, held, monkeypatch):
    monkeypatch.setattr(transforms, 'HELD', held)
    _, _, _, scores = by_hand(name)
    find = make(name)
    options = dict(kind='text', transform='sure_first', captions=captions())
    find.set_gallery(TEXTS, sure=0.5, temperature=10.0, **options)
    truth = truth_of(scores.t(), TEXTS, 10.0)
    predictions = find(videos='clips', topk=5)['predictions']
    changed = assert_surely(predictions, scores.t(), truth, 0.5)
    assert changed or name != 'toy'
    find.set_gallery(TEXTS, **options)
    truth = truth_of(scores.t(), TEXTS, None)
    assert_surely(find(videos='clips', topk=5)['predictions'], scores.t(), truth, 0.8)


def test_captions_of_a_bank_stand_for_what_could_have_been_written(make, tmp_path):
    _, texts, videos, scores = by_hand('toy')
    bank, places = tmp_path / 'bank.pth', torch.tensor([3, 0, 3, 6])
    owners = torch.tensor([captions().texts[place]['video_idx'][0] for place in places])
    stored = Queries(take(texts.levels, slice(0, 4)), places, owners)
    write_plain(dict(text=stored.state(), video=stored.state()), bank)
    find = make('toy')
    find.set_gallery(
        TEXTS,
        kind='text',
        transform='sure_first',
        captions=captions(),
        bank=bank,
        temperature=5.0,
        sure=0.4,
    )
    said = [text['text'] for text in captions().texts]
    truth = truth_of(scores.t()[:, 1:4], [said[place] for place in (0, 3, 6)], 5.0)
    assert_surely(find(videos='clips', topk=5)['predictions'], scores.t(), truth, 0.4)


def test_what_does_not_go_together_is_refused(make, tmp_path):
    find = make('toy')
    of_texts = dict(kind='text', transform='sure_first')
    state = Queries({'global': Embedding(torch.ones(2, 2))}, *[torch.tensor([0, 99])] * 2).state()
    write_plain(dict(text=state, video=state), tmp_path / 'far.pth')
    own = (torch.tensor([2, 3]), torch.tensor([0, 1]))
    state = Queries({'global': Embedding(torch.ones(2, 7))}, *own).state()
    write_plain(dict(text=state, video=state), tmp_path / 'wide.pth')
    known = dict(captions=captions())
    alone = SimpleNamespace(videos=[{}], texts=[dict(text='a', video_idx=[0])])
    cases = [
        (
            'clips',
            dict(transform='sure_first', **known),
            "needs a gallery of texts: set kind='text'",
        ),
        (TEXTS, of_texts, "transform='sure_first' needs captions="),
        (TEXTS, dict(of_texts, sure=1.5, **known), r'sure must lie in \[0, 1\], not 1.5'),
        (
            TEXTS,
            dict(kind='text', **known),
            "captions= belongs to transform='sure_first', got None",
        ),
        (TEXTS, dict(of_texts, temperature=0.0, **known), 'temperature must be positive, not 0.0'),
        (TEXTS, dict(of_texts, captions=alone), 'none of 1 videos has two captions'),
        (
            TEXTS,
            dict(of_texts, bank=tmp_path / 'far.pth', **known),
            'far.pth: the text at position 99 .* of video 99, but captions= has 9 texts',
        ),
        (
            TEXTS,
            dict(of_texts, bank=tmp_path / 'wide.pth', **known),
            "wide.pth are 7 wide at level 'global', the gallery 2",
        ),
    ]
    for gallery, options, message in cases:
        with pytest.raises(ValueError, match=message):
            find.set_gallery(gallery, **options)
        assert find.gallery is None
    texts = by_hand('toy')[1]
    with pytest.raises(ValueError, match='reads the texts of the gallery: give texts'):
        find.set_gallery(texts, **of_texts, **known)
