"""judged_detectors.py and judged_training.py: their numbers on small made sets."""

import importlib
import json

import numpy as np
import pytest
import torch

from children import ROOT
from miniatures import FLICKR8K_IMAGES, write_flickr8k
from mmvtr.storage import write_plain


@pytest.fixture(scope='module')
def tool():
    """The modules by name."""
    names = 'judged_detectors judged_training judged_transfer judged_weights'
    names += ' judging.detectors judging.encoded judging.permuted judging.witnesses'
    return {name: importlib.import_module(name) for name in names.split()}


@pytest.fixture
def captions(tool):
    """Three items; text 0 also holds for item 1, text 1 for none other."""
    made = tool['judging.detectors']
    pairs = made.Pairs(np.array([0, 0, 1, 1]), np.array([1, 2, 0, 2]), np.array([1, 0, 0, 0]) > 0)
    items = [
        ['a dog runs', 'the hound is on grass'],
        ['one dog', 'a hound runs on grass'],
        ['a cat sits', 'the kitten is in snow'],
    ]
    others = [['a dog', 'the hound runs'], ['a cat in snow', 'the kitten sits'], ['a dog', 'a cat']]
    return made.Captions(others, items, ['dog on grass', 'the small kitten in snow'], dict(x=pairs))


def test_detectors_by_hand(tool, captions):
    made, pairs = tool['judging.detectors'], captions.pairs['x']

    def scores(detector):
        return detector(captions)(pairs.texts, pairs.items)

    assert scores(made.length).tolist() == [-3, -3, -5, -5]
    idf = made._idf(captions)
    assert idf['dog'] == pytest.approx(np.log(13 / 5) + 1)
    covered = scores(made.covered)
    known = idf['the'] + idf['kitten'] + idf['in'] + idf['snow']
    np.testing.assert_allclose(covered, [1, 0, idf['the'] / known, 1])
    both = made._bags([['dog on grass'], [*captions.items[1]]], idf).toarray()
    assert scores(made.tfidf)[0] == pytest.approx(both[0] @ both[1])
    parts = made._bags([['dog on grass'], ['one dog'], ['a hound runs on grass']], idf).toarray()
    assert scores(made.closest)[0] == pytest.approx(max(parts[0] @ parts[1], parts[0] @ parts[2]))
    for change in (str, made.phrases):
        found = scores(made.agreement(change, dim=8))
        assert found.shape == (4,) and found[0] > found[1] and found[3] > found[2]
    assert made.phrases('A red dog') == "a red dog a'red red'dog"


def test_precision_at_recall(tool):
    precision_at = tool['judged_detectors'].precision_at
    right = np.array([1, 0, 1, 0, 0, 1, 1], dtype=bool)
    scores = np.array([9, 8, 7, 6, 5, 5, 1.0])
    assert precision_at(scores, right, 0.5) == pytest.approx(2 / 3)
    assert precision_at(scores, right, 0.75) == pytest.approx(3 / 6)  # two are tied


def test_intervals_hold_the_value(tool, captions):
    pairs = captions.pairs['x']
    perfect, constant = pairs.right.astype(float), np.zeros(4)
    assert tool['judged_detectors'].interval(perfect, pairs)[0] == 100
    gain = tool['judged_detectors'].interval(perfect, pairs, constant)
    assert gain[0] == 50


def test_halves_and_roles_of_flickr8k(tool, tmp_path):
    write_flickr8k(tmp_path)
    one, other = FLICKR8K_IMAGES['test']
    (tmp_path / 'CrowdFlowerAnnotations.txt').write_text(
        f'{other}\t{one}#2\t1\t3\t0\n{one}\t{one}#2\t1\t3\t0\n{one}\t{other}#2\t0\t0\t3\n'
    )
    (tmp_path / 'ExpertAnnotations.txt').write_text(f'{other}\t{one}#2\t3\t3\t4\n')
    data = tool['judged_detectors'].flickr8k(tmp_path)
    assert data.texts == [own[2] for own in FLICKR8K_IMAGES['test'].values()]
    assert all(len(item) == 4 for item in data.items) and len(data.others) == 3
    every = data.pairs['Flickr8k crowd, all']
    assert every.texts.tolist() == [0, 1] and every.items.tolist() == [1, 0]  # not one's own
    assert every.right.tolist() == [True, False]
    assert not len(data.pairs['Flickr8k crowd, other half'].right)  # one image each


def test_permuted_agreement_is_of_others(tool):
    from mmvtr.datasets import CaptionAgreement

    made = []
    for kind in (CaptionAgreement, tool['judging.permuted'].PermutedAgreement):
        videos = [dict() for _ in range(6)]
        texts = [dict(text=f'{w} {x}', video_idx=[n // 2]) for n, (w, x) in enumerate(WORDS)]
        kind()(videos, texts)
        made.append(np.stack([t['agreement'] for t in texts]))
    assert not np.allclose(*made)
    np.testing.assert_allclose(*(sorted(rows.tolist()) for rows in made))


WORDS = [(w, x) for w in ('dog', 'cat', 'man') for x in ('runs', 'sits', 'on', 'in')]


def test_differences_are_of_common_seeds(tool, tmp_path):
    training = tool['judged_training']
    draw = np.random.default_rng(0)
    base = {
        s: {f'{d}_{k}': draw.random(30) for d in ('t2v', 'v2t') for k in training.KEYS}
        for s in (0, 1, 2)
    }
    ours = {s: {key: x + 2 for key, x in base[s].items()} for s in (1, 2)}
    judges = np.arange(30) >= 10
    ours[1]['t2v_R1'][:10] = 99  # of images that do not judge
    found = training.differences(ours, base, judges)
    assert found['both_R1'] == [2, 2, 2] and set(found) == {
        f'{c}_{k}' for c in ('t2v', 'v2t', 'both') for k in training.KEYS
    }


def test_values_and_page_of_runs(tool, tmp_path):
    training = tool['judged_training']
    write_flickr8k(tmp_path)
    one, other = FLICKR8K_IMAGES['test']
    (tmp_path / 'CrowdFlowerAnnotations.txt').write_text(
        f'{other}\t{one}#2\t1\t3\t0\n{one}\t{other}#2\t0\t0\t3\n'
    )
    test, half = training.test_set(tmp_path), training.other_half(tmp_path)
    assert half.sum() == 1
    for name, seed, times, scores in (
        ('InfoNCE', 0, 1, [[0.9, 0.8], [0.2, 0.1]]),
        ('InfoNCE', 3, 1, [[0.9, 0.8], [0.2, 0.1]]),
        ('NCL, with its queue', 0, 1, [[0.9, 0.8], [0.2, 0.7]]),
        ('NCL, with its queue', 0, 5, [[0.9, 0.8], [0.2, 0.7]]),
    ):
        method = training.METHODS[name]
        folder = tmp_path / 'runs' / training.folder_of(method, 128, seed, times)
        folder.mkdir(parents=True)
        matrix = np.array(scores, np.float32)
        np.save(folder / 'scores_test.npy', matrix)
        np.savez(folder / 'scores_test_sinkhorn.npz', t2v=matrix, v2t=matrix)
        chosen = dict(by='retrieval/rsum', value=1.0, on='val', epoch=3, iter=60)
        write_plain(dict(state_dict={}, meta=dict(chosen=chosen)), folder / 'best.pth')
        (folder / 'done').touch()
    content = training.evaluate(tmp_path / 'runs', test, half)
    assert [(row['method'], row['seeds']) for row in content['confirmation']] == [('InfoNCE', [3])]
    assert [row['steps'] for row in content['rows']] == [564, 564, 564, 2820, 2820]
    assert 'minus_infonce' not in content['rows'][-1]  # InfoNCE was not trained so long
    rows = {row['method']: row for row in content['rows'][:3]}
    assert [*rows] == ['InfoNCE', 'NCL, tested raw', 'NCL, with its queue']
    assert rows['InfoNCE']['level']['t2v_R1'] == [50, 0] and rows['InfoNCE']['best_epochs'] == [3]
    assert rows['InfoNCE']['level']['AUC'] == [100, 0]
    assert rows['NCL, with its queue']['minus_infonce']['t2v_R1'][0] == 50
    assert '| 128 | 564 | NCL, with its queue | 1 | 3 |' in training.tables(content)
    training.picture(tmp_path / 'x.png', json.loads(json.dumps(content)))
    assert (tmp_path / 'x.png').stat().st_size > 1000
    assert torch.isnan(test.grades).sum() == 2


def test_witnesses_are_measured_by_image(tool):
    weights, made = tool['judged_weights'], tool['judging.detectors']
    pairs = made.Pairs(np.array([0, 0, 1]), np.array([1, 2, 0]), np.array([1, 0, 0]) > 0)
    # rows and columns are not in the order of names
    samples = dict(text_ids=['c#2', 'a#2', 'b#2'], video_ids=['b', 'c', 'a'])
    matrix = torch.zeros(3, 3)
    matrix[1, 0] = 0.9  # a's caption, b
    matrix[2, 2] = 0.6  # b's caption, a: wrong
    seeds = [weights.measured({'weight': matrix}, samples, dict(x=pairs))['weight']] * 2
    assert weights.over_seeds(seeds)['x'] == dict(
        auc=100, breakeven=100, precision=50, recall=100, deviation=0
    )
    scores = torch.tensor([[0.5, 0.5], [0.1, 0.5]])
    found = weights.settings(scores, torch.zeros(2, 2))
    assert found['weight, agreement 0.1, slack 0'][0, 1] == 1
    assert found['weight, agreement 0.1, slack -0.1'][0, 1] == pytest.approx(np.exp(-0.1 / 0.07))


def test_judged_captions_have_agreement(tool, tmp_path):
    from study_parts.flickr8k import Flickr8kCaptionsDataset

    write_flickr8k(tmp_path)
    agreement = tool['judging.witnesses'].HeldOutAgreement(str(tmp_path), dim=4)
    test = Flickr8kCaptionsDataset(
        'test',
        ann_root=str(tmp_path),
        video_pipeline=[],
        text_pipeline=[],
        records=dict(agreement=agreement),
    )
    asks = [own[2] for own in FLICKR8K_IMAGES['test'].values()]
    assert [text['text'] for text in test.texts] == asks
    shapes = {record['agreement'].shape for record in (*test.texts, *test.videos)}
    assert shapes == {(8,)}
    assert 'and' in agreement.known and 'is' not in agreement.known  # of #4, and of #1 alone


def test_captions_as_a_model_has_them(tool, tmp_path):
    from mmengine.config import Config
    from study_parts.known_words import learn_words, write_words

    from mmvtr.apis import load_retriever

    write_flickr8k(tmp_path)
    images = [own for split in FLICKR8K_IMAGES.values() for own in split.values()]
    write_words(tmp_path, learn_words(images, dim=8, min_count=1))
    config = Config.fromfile(ROOT / 'projects/lab/configs/infonce_captions_flickr8k.py')
    steps = [*config.test_dataloader.dataset.video_pipeline]
    for step in (*steps, *config.test_dataloader.dataset.text_pipeline):
        step.words = str(tmp_path)
    config.model.encoder.frames.update(in_dim=8, dim=8)
    config.model.encoder.text.update(dim=8, words=50, pretrained=None)
    model, config = load_retriever(config, None, random_weights=True, device='cpu')
    encoder = tool['judging.encoded'].Encoder(model, config)
    own = [*FLICKR8K_IMAGES['test'].values()]
    groups = dict(texts=[c[2:3] for c in own], items=[c[:2] for c in own], learn=[['unseen']])
    found = encoder(groups)
    assert [*found] == ['texts', 'items'] and encoder(dict(items=groups['items'][1:]))
    batch = tool['judging.witnesses'].test_batch(config, str(tmp_path))
    score = tool['judging.witnesses'].witnesses(model, batch)['score']
    torch.testing.assert_close(found['texts'] @ found['items'].t(), score)


def test_transfer_keeps_kinds_of_seeds_apart(tool):
    transfer = tool['judged_transfer']
    draw = np.random.default_rng(0)
    keys = [f'{d}_{k}' for d in ('t2v', 'v2t') for k in ('R1', 'P1', 'AP')]
    base = {seed: {key: draw.random(9) for key in keys} for seed in (0, 1, 3)}
    ours = {s: {key: x + s for key, x in base[s].items()} for s in (1, 3)}
    rows = transfer.rows_of({'InfoNCE': base, 'NCL, tested raw': ours})
    gains = {
        tuple(row['seeds']): row['minus_infonce']['both_P1'][0]
        for row in rows
        if 'minus_infonce' in row
    }
    assert gains == {(1,): 1, (3,): 3, (1, 3): 2}
    assert '| NCL, tested raw | 1 to 3 | +2.0 [' in transfer.transfer_tables(
        dict(batch=8, rows=rows)
    )
