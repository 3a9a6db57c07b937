"""frozen_sigma.py on small made sets, and its numbers on the page."""

import importlib
import json

import numpy as np
import pytest
import torch

from children import ROOT


@pytest.fixture(scope='module')
def tool():
    return importlib.import_module('frozen_sigma')


def test_captions_and_the_sum_of_the_others(tool):
    vectors = torch.randn(3, 5, 4)
    texts, items = tool.caption_pairs(vectors)
    expected = vectors[1, 0] + vectors[1, 1] + vectors[1, 3] + vectors[1, 4]
    torch.testing.assert_close(items[1, 2], expected)
    assert texts is vectors


def test_calibration_error_of_what_is_known(tool):
    """A value that says it all, and one that says nothing; one that falls by chance is refused."""
    right = torch.rand(2000, generator=torch.Generator().manual_seed(0)) < 0.5
    sure = tool.error(right.float(), right, seed=0, name='x')
    assert sure['auc_x'] == 100 and sure['ece_x'] < 1
    values = torch.randn(2000, generator=torch.Generator().manual_seed(1))
    with pytest.raises(ValueError, match='are these distances'):
        tool.error(values, right, seed=0, name='x')
    values = torch.randn(2000, generator=torch.Generator().manual_seed(5))
    blind = tool.error(values, right, seed=0, name='x')
    assert abs(blind['auc_x'] - 50) < 5 and blind['ece_x'] < 4


def test_coverage_of_samples_of_the_distribution_itself(tool):
    class Known:
        def distribution(self, vectors, side):
            generator = torch.Generator().manual_seed(1)
            target = torch.nn.functional.normalize(vectors, dim=1) * vectors.shape[1] ** 0.5
            mean = target + torch.randn(target.shape, generator=generator)
            return mean, torch.full_like(mean, 0.5 * np.log(2)), torch.full_like(mean, 2.0)

    vectors = torch.randn(300, 64)
    found = tool.coverage(Known(), vectors, vectors, 'text')
    assert found['covered_50'] == pytest.approx(50, abs=1)
    assert found['covered_90'] == pytest.approx(90, abs=1)


def test_means(tool):
    assert tool.means([dict(a=1.0, b=dict(c=2.0)), dict(a=2.0, b=dict(c=4.0))]) == dict(
        a=1.5, b=dict(c=3.0)
    )


def short(x):
    return f'{x:.2f}'.replace('0.', '.', 1)


def test_the_page_has_the_numbers():
    page = ' '.join((ROOT / 'projects/lab/evidence/pages/frozen_sigma.md').read_text().split())
    found = json.loads((ROOT / 'projects/lab/evidence/cells/frozen_sigma.json').read_text())
    for name, one in found.items():
        for side in ('text', 'video'):
            x = one[side]
            errors = (f'{x[k]:.1f} ({x[k + "_noise"]:.1f})' for k in ('ece_sigma', 'ece_score'))
            row = (
                *(name, side, short(x['distance']), short(x['rank']), short(x['rank_of_score'])),
                *(*errors, f'{x["covered_50"]:.0f}, {x["covered_90"]:.0f}'),
            )
            assert f'| {" | ".join(row)} |' in page
    noise, pitch, low, high = map(short, found['clap']['disturbed'].values())
    said = f'an AUC of {noise} (noise), {pitch} (pitch), {low} and {high} (low and high pass)'
    assert said in page
