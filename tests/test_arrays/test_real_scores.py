"""transform='auto' and P(match) on real embeddings and judgments, where these are at hand."""

import numpy as np
import pytest
import torch

import mmvtr
from mmvtr.functional import fit_calibration, reliability
from mmvtr.functional.transforms.transform_table import FITTED
from mmvtr.functional.transforms.transform_table import OF_BANK as NAMES


@pytest.fixture(scope='module')
def data(shared):
    folder = shared / 'data' / 'real_scores'
    if not folder.is_dir():
        pytest.skip(f'no real scores in {folder}')
    return folder


def clap(data):
    folder = data / 'clap_audiocaps'
    texts = np.load(folder / 'outputs_embeddings_text_embeddings.npy')
    sounds = np.load(folder / 'outputs_embeddings_audio_emb_original.npy')
    first = np.sort(np.unique(sounds, axis=0, return_index=True)[1])  # some have several texts
    return texts[first], sounds[first]


def captions(data, name, count):
    texts = np.load(data / 'minilm' / f'{name}.npy').astype('f4').reshape(-1, 5, 384)[:count]
    return texts[:, 0], texts[:, 1:].mean(1)


def own_first(found):
    return 100 * (found.ids[:, 0] == np.arange(len(found.ids))).mean()


def halves(texts, videos, seed):
    order = np.random.default_rng(seed).permutation(len(texts))
    test, bank = order[: len(order) // 2], order[len(order) // 2 :]
    return texts[test], videos[test], (texts[bank], videos[bank])


OTHERS = [
    ('sinkhorn', dict(temperature='11%')),
    ('sinkhorn', dict(temperature='20%')),
    ('unbalanced_sinkhorn', dict(temperature='11%')),
    ('inverted_softmax', dict(temperature='20%')),
    ('csls', {}),
    ('local_scaling', dict(strength=0.75)),
]


@pytest.mark.parametrize(
    'name',
    [
        *('clap t2a', 'clap a2t', 'flickr t2c', 'flickr c2t'),
        pytest.param('clotho t2c', marks=pytest.mark.nightly),
        pytest.param('clotho c2t', marks=pytest.mark.nightly),
    ],
)
def test_auto_gains_or_does_nothing(data, name):
    """R@1 on halves: never .5 below raw, and of the possible gain by one transform most."""
    kind, direction = name.split()
    a, b = {
        'clap': clap,
        'clotho': lambda data: captions(data, 'clotho_evaluation', 1000),
        'flickr': lambda data: captions(data, 'flickr8k_crowd', 1000),
    }[kind](data)
    if direction[0] != 't':
        a, b = b, a
    gains, best = [], []
    for seed in range(4):
        texts, videos, bank = halves(a, b, seed)
        raw = own_first(mmvtr.retrieve(texts, videos, k=1))
        gains.append(own_first(mmvtr.retrieve(texts, videos, bank, k=1)) - raw)
        best.append(
            [own_first(mmvtr.retrieve(texts, videos, bank, t, 1, **o)) - raw for t, o in OTHERS]
        )
    assert {t for t, _ in OTHERS} < set(NAMES)
    to_win = np.mean(best, axis=0).max()
    assert np.mean(gains) > -0.5
    if to_win > 3:  # a gain that halves of this size resolve
        assert np.mean(gains) > 0.6 * to_win


@pytest.fixture(scope='module')
def judged(data):
    """Query of each pair, its cosine, its grade 0, 1 or 2."""
    grades, scores = (
        [line.split('\t') for line in (data / 'cbvs' / name).read_text('utf-8').splitlines()]
        for name in ('cbvs20k.txt', 'inference_result.txt')
    )
    grade = {(row[0], row[1]): int(row[-1]) for row in grades}
    names = {row[1]: None for row in scores}
    place = {name: n for n, name in enumerate(names)}
    return (
        torch.tensor([place[row[1]] for row in scores]),
        torch.tensor([float(row[3]) for row in scores], dtype=torch.float64),
        torch.tensor([grade[row[1], row[2]] for row in scores]),
    )


@pytest.mark.parametrize('method', ['platt', 'isotonic'])
def test_what_is_said_comes_true(judged, method):
    """On the queries that were not fitted.

    Ten thousand pairs of a perfect calibration have an error of about .009 by chance alone: what is
    above it is at most .01.
    """
    query, score, grade = judged
    match = grade >= 1
    above, precise = [], []
    for seed in range(4):
        half = torch.rand(int(query.max()) + 1, generator=torch.Generator().manual_seed(seed)) < 0.5
        for fitted in (half[query], ~half[query]):
            fit = fit_calibration(score[fitted], match[fitted], method=method, draws=0)
            left = ~fitted
            found = reliability(fit.probabilities(score[left]), match[left])
            above.append(found.error - found.noise)
            for wanted in (0.75, 0.8, 0.85, 0.9):
                kept = fit.accepts(score[left], precision=wanted)
                assert kept.sum() > 500
                precise.append(match[left][kept].double().mean().item() - wanted)
    assert np.mean(above) < 0.01
    assert abs(np.reshape(precise, (-1, 4)).mean(0)).max() < 0.02


#: R@1 that a transform may lose at its defaults, the mean of four halves: one has a standard error
#: of 1.5.
LOSES = 3.0


@pytest.mark.parametrize('kind', ['clap', 'clotho', 'flickr'])
def test_no_transform_destroys_ranks_at_its_defaults(data, kind):
    a, b = {
        'clap': clap,
        'clotho': lambda data: captions(data, 'clotho_evaluation', 600),
        'flickr': lambda data: captions(data, 'flickr8k_crowd', 600),
    }[kind](data)
    for one, other in ((a, b), (b, a)):
        lost = {name: [] for name in FITTED}
        for seed in range(4):
            texts, videos, bank = halves(one, other, seed)
            raw = own_first(mmvtr.retrieve(texts, videos, k=1))
            for name, losses in lost.items():
                losses.append(raw - own_first(mmvtr.retrieve(texts, videos, bank, name, 1)))
        assert max(map(np.mean, lost.values())) <= LOSES, lost
