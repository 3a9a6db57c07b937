"""P(right) against its truth in simulated galleries, whose right items are known by construction.

The mean of what is said of the first k places is compared with the share of lists that are right
there.  Both are means of draws: of the lists that ask, and of the bank's items that the fit saw.
They may differ by four standard errors, and by one pair of the bank, which Platt's targets add.
"""

from typing import NamedTuple

import numpy as np
import pytest
import torch

import mmvtr
from mmvtr.functional import fit_to_pairs
from mmvtr.functional.transforms.transform_table import OF_BANK

#: Items of a gallery, and of a bank; width of their vectors, the last entry being popularity.
ITEMS, WIDTH = 200, 12
LENGTHS = (1, 2, 3, 5, 10, 20, 35, 50, 75, 100, 150, 200)
#: Options of the transforms that have no default.
NEEDED = {'hedged_scaling': dict(first=0.3, strength=0.6, places=3)}


class World(NamedTuple):
    """A gallery with texts that ask, and a bank.

    Attributes:
        videos: float32 [N, D].
        texts: float32 [Q, D].
        right: bool [Q, N], the items that a text was made of.
        bank: texts and videos, float32 [B, D] each, row i of both one pair.
    """

    videos: np.ndarray
    texts: np.ndarray
    right: np.ndarray
    bank: tuple


class Kind:
    """Worlds of one kind: items as they are drawn, and texts as they are made of items.

    Args:
        noise: standard deviation of what a text adds to its item.
        items: number of items of the gallery.
        of_bank: number of items of the bank.
        twins: items of each meaning, which share their texts.
        repeated: texts of each item of the bank.
        held: number of items of the bank that the gallery holds too.
        coarse: entries are signs, so that many scores are equal.
    """

    def __init__(
        self, noise=1.0, items=ITEMS, of_bank=ITEMS, twins=1, repeated=1, held=0, coarse=False
    ):
        self.noise, self.items, self.of_bank, self.coarse = noise, items, of_bank, coarse
        self.twins, self.repeated, self.held = twins, repeated, held

    def draw(self, seed):
        random = np.random.default_rng(seed)
        meanings, videos = self._items(random, self.items)
        of_bank, seen = self._items(random, self.of_bank)
        shared = self.held // self.twins
        of_bank[:shared], seen[: self.held] = meanings[:shared], videos[: self.held]
        texts = self._texts(random, np.repeat(meanings, 2, 0))  # two texts ask for each meaning
        right = np.repeat(np.eye(len(meanings), dtype=bool), self.twins, 1).repeat(2, 0)
        said = self._texts(random, np.repeat(of_bank, self.repeated, 0))
        pairs = np.arange(len(said)).repeat(self.twins)
        item = np.arange(self.of_bank).reshape(-1, self.twins).repeat(self.repeated, 0).flatten()
        return World(videos, texts, right, (said[pairs], seen[item]))

    def _items(self, random, count):
        """Meanings [count / twins, D] and the items of each, one after the other."""
        width = 2 * WIDTH if self.coarse else WIDTH
        meanings = random.normal(size=(count // self.twins, width + 1))
        meanings[:, -1] = np.exp(0.5 * meanings[:, -1])
        videos = np.repeat(meanings, self.twins, 0)
        if self.twins > 1:
            videos[:, :-1] += 0.8 * random.normal(size=(count, width))
        return meanings, self._rounded(videos)

    def _texts(self, random, meanings):
        texts = meanings.copy()
        texts[:, :-1] += self.noise * random.normal(size=texts[:, :-1].shape)
        texts[:, -1] = 2
        return self._rounded(texts)

    def _rounded(self, rows):
        rows = np.where(rows[:, :-1] > 0, 1.0, -1.0) if self.coarse else rows
        return rows.astype('f4')


KINDS = {
    'new items': Kind(),
    'four texts of each item': Kind(of_bank=ITEMS // 2, repeated=4),
    'the bank has the items of the gallery': Kind(held=ITEMS),
    'the bank has half of the items': Kind(held=ITEMS // 2),
    'two right items': Kind(twins=2),
    'four right items': Kind(twins=4),
    'four right items, all in the gallery': Kind(twins=4, held=ITEMS),
    'ties': Kind(coarse=True, noise=1.6),
    'few items are found by the bank': Kind(items=2 * ITEMS, of_bank=ITEMS // 2),
    'long lists': Kind(items=2 * ITEMS, noise=2.5),
}
DRAWS = 4


def compare(kind, name, draws=DRAWS, **options):
    """Compare what is said with what is true, over draws of one kind."""
    said, true, queries, bank = [], [], 0, 0
    options = {**NEEDED.get(name, {}), **options}
    lengths = np.array(LENGTHS)
    for seed in range(draws):
        world = kind.draw(seed)
        fitted = mmvtr.fit(world.videos, world.bank, name, **options).calibrate()
        found = fitted.search(world.texts, max(LENGTHS))
        right = np.take_along_axis(world.right, found.ids, 1)
        any_right = np.logical_or.accumulate(right, 1)
        np.testing.assert_allclose(found.probabilities.cumsum(1), found.any_right, atol=1e-12)
        said.append(found.any_right[:, lengths - 1].mean(0))
        true.append(any_right[:, lengths - 1].mean(0))
        # Lists of the same item are alike: the items are what is drawn.
        queries += kind.items // kind.twins
        bank += kind.of_bank // kind.twins
    said, true = np.mean(said, 0), np.mean(true, 0)
    p = (said + true) / 2
    error = np.sqrt(p * (1 - p) * (1 / queries + 1 / bank))
    allowed = 4 * error + draws / bank
    told = [f'{k}: said {s:.3f}, true {t:.3f}' for k, s, t in zip(LENGTHS, said, true)]
    assert (np.abs(said - true) <= allowed).all(), told


@pytest.mark.parametrize('name', [None, *OF_BANK])
def test_every_transform(name):
    compare(KINDS['new items'], name)


@pytest.mark.parametrize(
    'name', [None, pytest.param('qb_norm', marks=pytest.mark.nightly), 'sinkhorn']
)
@pytest.mark.parametrize('kind', [kind for kind in KINDS if kind != 'new items'])
def test_every_kind(kind, name):
    compare(KINDS[kind], name)


@pytest.mark.parametrize('kind', ['new items', 'four texts of each item'])
def test_a_held_out_item_has_no_text_in_its_bank(kind):
    """A single nearest text of the bank would be the item's own, and lower it most."""
    compare(KINDS[kind], 'nnn', neighbours=1)


def test_a_gate_is_shut_for_items_that_no_text_of_the_bank_finds():
    """At a low temperature biases harm, and few queries get them."""
    compare(KINDS['few items are found by the bank'], 'qb_norm', temperature='5%')


def test_scores_of_dual_softmax_grow_with_the_bank():
    """Ranked as by inverted softmax, whose scores do not: the same worlds, so the same error."""
    gaps = []
    for seed in range(8):
        world, gap = KINDS['new items'].draw(seed), []
        for name in ('dual_softmax', 'inverted_softmax'):
            found = mmvtr.fit(world.videos, world.bank, name).calibrate().search(world.texts, 1)
            right = np.take_along_axis(world.right, found.ids, 1)
            gap.append((found.any_right - right).mean())
        gaps.append(gap[0] - gap[1])
    assert abs(np.mean(gaps)) < 4 * np.std(gaps, ddof=1) / len(gaps) ** 0.5


@pytest.mark.parametrize('method', ['platt', 'isotonic', 'temperature'])
def test_pairs(method):
    """Pairs whose P is known: a sigmoid of the score, or a softmax over a query's items."""
    random = torch.Generator().manual_seed(0)
    scores = torch.rand(400, 40, generator=random, dtype=torch.float64) - 0.2
    truth = (12 * scores - 6).sigmoid()
    if method == 'temperature':
        truth = (scores / 0.1).softmax(1)
        drawn = truth.multinomial(1, generator=random)
        matches = torch.zeros_like(truth, dtype=torch.bool).scatter(1, drawn, True)
    else:
        matches = torch.rand(truth.shape, generator=random, dtype=torch.float64) < truth
    asked = scores[200:] if method == 'temperature' else scores[200:].flatten()
    fit = fit_to_pairs(scores[:200], matches[:200], method=method, draws=0)
    said, true = fit.probabilities(asked).flatten(), truth[200:].flatten()
    for part in true.argsort().chunk(8):  # from the least likely eighth to the most likely
        p = true[part].mean()
        error = (2 * p * (1 - p) / len(part)) ** 0.5
        assert (said[part].mean() - p).abs() < 4 * error + 1 / len(part)


@pytest.mark.parametrize('name', [None, *OF_BANK])
def test_a_search_reads_the_whole_list(name):
    """Queries whose gate is shut among them: few of the bank's items are in the gallery."""
    world = Kind(items=2 * ITEMS, of_bank=ITEMS // 2).draw(0)
    fitted = mmvtr.fit(world.videos, world.bank, name, **NEEDED.get(name, {})).calibrate()
    found = fitted.search(world.texts, 20)
    scores = torch.from_numpy(fitted.scores(world.texts)).double()
    sums = (scores / fitted.calibration_.temperature).logsumexp(1)
    first = scores.topk(20).values
    _, any_right = fitted.calibration_.places(first, sums)
    np.testing.assert_allclose(found.debiased, first, atol=1e-5)
    np.testing.assert_allclose(found.any_right, any_right, atol=1e-4)
