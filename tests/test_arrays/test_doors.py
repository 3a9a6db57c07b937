"""One fit behind every door: equal ids and scores, whatever the transform and its options."""

import numpy as np
import pytest
import torch

import mmvtr
from mmvtr.arrays.debiaser import NAMES
from mmvtr.functional.transforms.item_biases import fit_biases
from mmvtr.functional.transforms.transform_table import TRANSFORMS

pytest.importorskip('mmvtr_gallery', reason='pip install -e projects/gallery')

from mmvtr_gallery.mteb_index import DebiasedIndex  # noqa: E402


def unit(x):
    return torch.nn.functional.normalize(x.double(), dim=1).float()


def drawn(name, seed):
    """Vectors of any lengths, a bank with repeats, and options."""
    random = np.random.default_rng(seed)
    sizes = dict(texts=20, videos=60, bank=40, seen=40)
    made = {
        key: torch.from_numpy(
            ((random.normal(size=(n, 8)) + 0.7) * random.lognormal(size=(n, 1))).astype('f4')
        )
        for key, n in sizes.items()
    }
    options = dict(first=-0.3, strength=0.6) if name == 'hedged_scaling' else {}
    known = TRANSFORMS[name].options
    if 'temperature' in known:
        options['temperature'] = float(random.uniform(0.02, 0.2))
    if 'iterations' in known and random.random() < 0.5:
        options['iterations'] = int(random.integers(1, 12))
    if 'neighbours' in known:
        options['neighbours'] = int(random.integers(1, 9))
    return made, options


@pytest.mark.parametrize('seed', range(3))
@pytest.mark.parametrize('name', NAMES)
def test_all_doors_agree(name, seed):
    made, options = drawn(name, seed)
    texts, videos, bank, seen = made.values()
    often = torch.cat([torch.arange(40), torch.zeros(30, dtype=torch.int64)])
    fitted = mmvtr.fit(videos, (bank[often], seen[often]), name, **options)
    found = fitted.search(texts, 5)

    beside = dict(bank_gallery=unit(bank) @ unit(seen).T, item_bank=unit(seen) @ unit(videos).T)
    beside = {key: x for key, x in beside.items() if key in TRANSFORMS[name].reads}
    scored = fit_biases(name, unit(bank) @ unit(videos).T, beside=beside, **options)  # as the hooks
    scores = scored.changed(unit(texts) @ unit(videos).T)
    assert torch.equal(found.ids, scores.topk(5, dim=1).indices)
    torch.testing.assert_close(found.debiased, scores.topk(5, dim=1).values, atol=1e-5, rtol=1e-5)

    index = DebiasedIndex((bank, seen), transform=name, **options)
    index.add_documents(videos[:25], [str(i) for i in range(25)])
    index.add_documents(videos[25:], [str(i) for i in range(25, 60)])
    values, places = index.search(texts, 5)
    assert places == found.ids.tolist()
    np.testing.assert_allclose(values, found.debiased.numpy(), atol=1e-5, rtol=1e-5)

    again = mmvtr.retrieve(texts.numpy(), videos.numpy(), (bank, seen), name, 5, **options)
    assert np.array_equal(again.ids, found.ids.numpy())
