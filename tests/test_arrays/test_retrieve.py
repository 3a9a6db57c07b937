"""mmvtr.retrieve: the same as the functions of mmvtr.functional, for numpy and torch."""

import subprocess
import sys

import numpy as np
import pytest
import torch

import mmvtr
from children import ROOT
from mmvtr.arrays import inputs, searching
from mmvtr.functional import (
    Calibration,
    csls,
    db_norm,
    dbsn,
    fit_to_pairs,
    inverted_softmax,
    local_scaling,
    nnn,
    qb_norm,
    score_gap,
)
from mmvtr.functional.similarities import tiles
from mmvtr.functional.transforms.sinkhorn import column_biases, sinkhorn


def vectors(rows, seed, width=8):
    """Vectors with a common part, so that some items are near to all queries."""
    random = torch.Generator().manual_seed(seed)
    return torch.randn(rows, width, generator=random) + 0.7


TEXTS, VIDEOS, BANK = vectors(30, 0), vectors(50, 1), vectors(40, 2)


def cosines(a, b):
    return torch.nn.functional.normalize(a, dim=1) @ torch.nn.functional.normalize(b, dim=1).t()


SEEN = vectors(40, 3)
S, B = cosines(TEXTS, VIDEOS), cosines(BANK, VIDEOS)
BANK_OWN, OWN = cosines(BANK, SEEN), cosines(SEEN, VIDEOS)
REACH = (B.amax(1) - B.mean(1)).mean().item()


def debiased(temperature, marginal_penalty=1.0, iterations=4):
    """Of Sinkhorn, biases of mean 0."""
    how = dict(temperature=temperature, marginal_penalty=marginal_penalty, iterations=iterations)
    rows = sinkhorn(B, **how).rows
    biases = marginal_penalty * column_biases(B, rows, temperature=temperature)
    return S + biases - biases.mean()


def test_raw():
    found = mmvtr.retrieve(TEXTS, VIDEOS, k=7)
    best = S.topk(7, dim=1)
    assert torch.equal(found.ids, best.indices)
    torch.testing.assert_close(found.scores, best.values)
    assert torch.equal(found.scores, found.debiased)
    assert found.transform is None and found.why.startswith('raw') and found.probabilities is None


@pytest.mark.parametrize(
    'name, options, expected',
    [
        ('sinkhorn', {}, lambda t: debiased(0.2 * t)),
        ('sinkhorn', dict(temperature=0.05), lambda t: debiased(0.05)),
        (
            'unbalanced_sinkhorn',
            dict(temperature='10%', marginal_penalty=0.5),
            lambda t: debiased(0.1 * t, 0.5, 10),
        ),
        ('inverted_softmax', {}, lambda t: inverted_softmax(S, B, temperature=0.2 * t)),
        (
            'qb_norm',
            dict(neighbours=2),
            lambda t: qb_norm(S, B, temperature=0.2 * t, neighbours=2),
        ),
        ('csls', dict(neighbours=4), lambda t: csls(S, B, neighbours=4)),
        ('local_scaling', dict(strength=0.75), lambda t: local_scaling(S, B, strength=0.75)),
        ('nnn', dict(neighbours=5, alpha=0.6), lambda t: nnn(S, B, neighbours=5, alpha=0.6)),
    ],
)
def test_transforms_are_those_of_functional(name, options, expected, monkeypatch):
    scores = expected(REACH)
    found = mmvtr.retrieve(TEXTS, VIDEOS, BANK, name, 5, **options)
    assert torch.equal(found.ids, scores.topk(5, dim=1).indices)
    torch.testing.assert_close(found.scores, S.gather(1, found.ids), atol=1e-5, rtol=0)
    assert not torch.equal(found.ids, S.topk(5, dim=1).indices), 'the transform does something'
    if name not in ('csls', 'qb_norm'):  # whose unit is another, or whose rows differ
        scores = scores - (scores - S).mean(1, keepdim=True)
    if name != 'csls':
        torch.testing.assert_close(found.debiased, scores.gather(1, found.ids), atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    'name, options, expected',
    [
        ('dbsn', {}, lambda t: dbsn(S, B, bank_gallery=BANK_OWN, temperature=0.2 * t)),
        (
            'dbsn',
            dict(temperature=0.05, iterations=3),
            lambda t: dbsn(S, B, bank_gallery=BANK_OWN, temperature=0.05, iterations=3),
        ),
        (
            'db_norm',
            dict(item_temperature=0.3),
            lambda t: db_norm(S, B, item_bank=OWN, temperature=0.2 * t, item_temperature=0.3),
        ),
    ],
)
def test_transforms_that_read_the_items_of_the_bank(name, options, expected):
    scores = expected(REACH)
    found = mmvtr.retrieve(TEXTS, VIDEOS, (BANK, SEEN), name, 5, **options)
    assert torch.equal(found.ids, scores.topk(5, dim=1).indices)
    scores = scores - (scores - S).mean(1, keepdim=True)
    torch.testing.assert_close(found.debiased, scores.gather(1, found.ids), atol=1e-5, rtol=0)
    with pytest.raises(ValueError, match=r'reads items seen before: bank=\(texts, videos\)'):
        mmvtr.retrieve(TEXTS, VIDEOS, BANK, name, 5, **options)


def test_what_adds_no_biases_is_refused():
    with pytest.raises(ValueError, match='does not give one bias per item'):
        mmvtr.retrieve(TEXTS, VIDEOS, (BANK, SEEN), 'db_norm', dynamic=True)


def test_tiles_change_nothing(monkeypatch):
    whole = mmvtr.retrieve(TEXTS, VIDEOS, BANK, 'qb_norm', 6)
    monkeypatch.setattr(searching, 'QUERIES', 7)
    monkeypatch.setattr(tiles, 'KEPT', 0)
    monkeypatch.setattr(inputs, 'ENTRIES', 33)
    parts = mmvtr.retrieve(TEXTS, VIDEOS, BANK, 'qb_norm', 6)
    assert torch.equal(whole.ids, parts.ids)
    torch.testing.assert_close(whole.debiased, parts.debiased)


@pytest.mark.parametrize('tile', [7, 2**22])
def test_a_gate_of_equal_videos_does_not_depend_on_k(tile, monkeypatch):
    """Each video twice: which of both is the best one says whether a query changes."""
    monkeypatch.setattr('mmvtr.arrays.inputs.ENTRIES', 50 * tile)
    generator = torch.Generator().manual_seed(0)
    videos, bank, texts = (torch.randn(n, 16, generator=generator) for n in (30, 40, 50))
    fitted = mmvtr.fit(videos.repeat(2, 1), bank, 'qb_norm', temperature=0.05)
    expected = fitted.scores(texts).sort(1, descending=True).values
    assert not torch.equal(expected[:, :1], fitted.search(texts, 1).scores)  # some change
    for k in (1, 5, 10, 60):
        torch.testing.assert_close(fitted.search(texts, k).debiased, expected[:, :k])


def test_numpy_in_numpy_out(tmp_path):
    array = np.lib.format.open_memmap(tmp_path / 'v.npy', 'w+', 'float16', (50, 8))
    array[:] = VIDEOS.numpy()
    array.flush()
    mapped = np.load(tmp_path / 'v.npy', mmap_mode='r')
    found = mmvtr.retrieve(TEXTS.numpy().astype('f8'), mapped, BANK, 'sinkhorn', ids=range(50, 100))
    tensors = mmvtr.retrieve(TEXTS, VIDEOS.half(), BANK, 'sinkhorn')
    assert isinstance(found.scores, np.ndarray) and isinstance(found.debiased, np.ndarray)
    assert np.array_equal(found.ids, tensors.ids.numpy() + 50)


def test_autocast_changes_nothing():
    expected = mmvtr.retrieve(TEXTS, VIDEOS, (BANK, SEEN), 'dbsn')
    with torch.autocast('cpu', dtype=torch.bfloat16):
        found = mmvtr.retrieve(TEXTS, VIDEOS, (BANK, SEEN), 'dbsn')
    assert torch.equal(found.scores, expected.scores)
    assert torch.equal(found.debiased, expected.debiased)


def test_whole_numbers():
    videos = (VIDEOS * 20).round()
    found = mmvtr.retrieve(TEXTS, videos.int(), k=3)
    assert torch.equal(found.ids, mmvtr.retrieve(TEXTS, videos, k=3).ids)


@pytest.mark.parametrize('large', [2**63 + 1, 2**70])
def test_ids_are_exact(large):
    ids = [large, -1, *range(48)]
    found = mmvtr.retrieve(VIDEOS, VIDEOS, k=1, ids=ids).ids[:, 0]
    assert found.tolist() == ids


def test_ids_k_and_hubs():
    names = [f'clip{n}' for n in range(50)]
    found = mmvtr.retrieve(TEXTS, VIDEOS, k=99, ids=names)
    assert found.ids.shape == (30, 50) and set(found.ids[0]) == set(names)
    alike = torch.eye(4)[[0, 0, 0, 0]]
    hubs = mmvtr.retrieve(alike, torch.eye(4), k=1).hubs
    assert hubs.most_raw == 4 and hubs.never_raw == 0.75 and hubs.raw > 1


@pytest.mark.parametrize('method', ['platt', 'isotonic', 'temperature'])
@pytest.mark.parametrize('changed', [False, True])
def test_probabilities(method, changed):
    own = cosines(BANK, vectors(40, 3) * 0.3 + BANK)
    fit = fit_to_pairs(own, method=method, draws=3, debiased=changed)
    transform = 'sinkhorn' if changed else None
    found = mmvtr.retrieve(TEXTS, VIDEOS, BANK, transform, 5, calibration=fit)
    scores = debiased(0.2 * REACH) if changed else S
    if method == 'temperature':
        expected = (scores.double() / fit.temperature).softmax(1)
    else:
        expected = fit.probabilities(scores, candidates=50)
    torch.testing.assert_close(
        found.probabilities, expected.gather(1, found.ids), atol=1e-4, rtol=1e-3
    )


@pytest.mark.parametrize('name', ['sinkhorn', 'unbalanced_sinkhorn', 'inverted_softmax'])
def test_debiased_scores_do_not_depend_on_the_size_of_the_gallery(name):
    """A calibration of them goes on to hold."""
    one = mmvtr.retrieve(TEXTS, VIDEOS, (BANK, SEEN), name, 50, temperature=0.05)
    items = VIDEOS.repeat(2, 1)
    two = mmvtr.retrieve(TEXTS, items, (BANK, SEEN), name, 100, temperature=0.05)
    torch.testing.assert_close(two.debiased[:, ::2], one.debiased, atol=1e-5, rtol=0)


def test_an_item_that_nobody_finds_moves_no_other():
    far = torch.cat([VIDEOS, -BANK.mean(0, keepdim=True)])
    one, two = (
        mmvtr.retrieve(TEXTS, x, BANK, 'sinkhorn', 5, temperature=0.02) for x in (VIDEOS, far)
    )
    same = two.ids == one.ids
    assert same.float().mean() > 0.9
    moved = (one.debiased - two.debiased)[same]
    assert (moved - moved.median()).abs().max() < 0.02


def changed(array, row, value):
    array = array.clone()
    array[row] = value
    return array


NAN, ZERO = changed(VIDEOS, 3, torch.nan), changed(VIDEOS, 4, 0)
BAD = [
    (dict(videos=VIDEOS[:, :5]), ValueError, 'texts have width 8, the videos 5'),
    (dict(videos=NAN), ValueError, 'videos: row 3 is not finite'),
    (dict(videos=ZERO), ValueError, 'videos: row 4 is all zeros'),
    (dict(texts=TEXTS[:0]), ValueError, r'texts \[0, 8\]'),
    (dict(texts=TEXTS[0]), ValueError, r'texts \[8\]'),
    (dict(texts=TEXTS.tolist()), TypeError, 'not list: give numpy.asarray'),
    (dict(bank=BANK.tolist()), TypeError, 'bank texts must be .* not list'),
    (dict(texts=TEXTS > 0), ValueError, 'real numbers'),
    (dict(bank=BANK[:0]), ValueError, r'bank texts \[0, 8\]'),
    (dict(bank=BANK[:, :3]), ValueError, 'bank texts have width 3'),
    (dict(bank=(None, VIDEOS)), ValueError, 'videos only'),
    (dict(bank=(BANK, VIDEOS)), ValueError, '40 texts and 50 videos'),
    (dict(bank=(BANK, BANK, BANK)), ValueError, 'not 3 arrays'),
    (dict(bank=changed(BANK, 1, torch.inf)), ValueError, 'bank texts: row 1 is not finite'),
    (dict(ids=['a']), ValueError, '1 ids for 50 videos'),
    (dict(ids=['a'] * 50), ValueError, "'a' occurs twice"),
    (dict(k=0), ValueError, 'k must be'),
    (dict(k=True), ValueError, 'k must be'),
    (dict(transform='softmax'), ValueError, 'transform must be'),
    (dict(transform='sinkhorn'), ValueError, 'needs a bank'),
    (dict(temperature=0.1), ValueError, 'is an option of a transform'),
    (dict(bank=BANK, transform='csls', temperature=1), ValueError, r"takes \['neighbours'\], not"),
    (dict(bank=BANK, transform='sinkhorn', temperature=0), ValueError, 'must be positive'),
    (dict(bank=BANK, transform='sinkhorn', temperature='0%'), ValueError, 'must be positive'),
    (dict(bank=BANK, transform='sinkhorn', temperature='warm'), ValueError, 'must be positive'),
    (dict(bank=BANK, transform='sinkhorn', reach=0.1), ValueError, "not 'reach'"),
    (dict(bank=BANK, transform='csls', neighbours=99), ValueError, 'neighbours must be 1 to 40'),
    (dict(calibration=0.5), TypeError, 'Calibration'),
    (
        dict(calibration=Calibration('platt', *torch.zeros(4, 2), debiased=True)),
        ValueError,
        'is for debiased scores, but these are ranked by raw scores',
    ),
]


@pytest.mark.parametrize('given, error, message', BAD)
def test_bad_input(given, error, message):
    with pytest.raises(error, match=message) as raised:
        mmvtr.retrieve(**dict(dict(texts=TEXTS, videos=VIDEOS), **given))
    assert '\n' not in str(raised.value)


def test_reach_is_measured_in_tiles():
    held, gallery = (inputs.read_vectors(x, 'x') for x in (BANK, VIDEOS))
    tiles = inputs.score_tiles(held.unit(), gallery)
    assert score_gap(tiles._replace(width=7)) == pytest.approx(REACH, rel=1e-5)


def test_it_costs_torch_and_little_more():
    """No mmengine, no transformers; .3 s of processor time beside torch and numpy."""
    code = (
        'import time, torch, numpy, sys; t = time.process_time(); import mmvtr; mmvtr.fit;'
        'print(time.process_time() - t, *sys.modules)'
    )
    for _ in range(3):  # on a busy machine the first may be slow
        seconds, *modules = subprocess.run(
            [sys.executable, '-c', code], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout.split()
        if float(seconds) < 0.3:
            break
    assert float(seconds) < 0.3
    loaded = {name.split('.')[0] for name in modules}
    assert not loaded & {'mmengine', 'mmcv', 'transformers', 'open_clip', 'matplotlib'}


def test_an_unknown_attribute():
    with pytest.raises(AttributeError, match='no_such_thing'):
        _ = mmvtr.no_such_thing
