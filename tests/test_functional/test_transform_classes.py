"""A transform of another project: its options may have evaluated annotations, and its bases' may be
changed or fixed."""

import inspect
from typing import Optional

import pytest
import torch
from torch import Tensor

from mmvtr.functional.transforms.transform import TRANSFORMS, Transform, count, number, transform
from mmvtr.registry import HOOKS


class Base(Transform):
    share: float | Tensor = number(0.5, 'of the mean')
    bound: Optional[float] = number(None, 'of scores')
    neighbours: int = count(3, 'bank queries')

    def biases(self, bank, **items):
        return -self.share * self.neighbours * bank.per_column(lambda tile: tile.mean(0))


@pytest.fixture
def made():
    """A function that makes a transform of a subclass of Base."""

    def make(**changed):
        kind = type('of_others', (Base,), changed)
        return transform('of_others', label='OfOthers', claim='', source='')(kind)

    yield make
    TRANSFORMS.pop('of_others', None)
    HOOKS.module_dict.pop('OfOthersHook', None)


def test_evaluated_annotations(made):
    taken = inspect.signature(made()).parameters
    kinds = {name: taken[name].annotation for name in ('share', 'bound', 'neighbours')}
    assert kinds == dict(share='float | Tensor', bound='Optional[float]', neighbours='int')


@pytest.mark.parametrize('changed', [dict(share=number(0.2, 'other')), dict(share=0.2)])
def test_an_option_of_the_base_is_changed_or_fixed(made, changed):
    function, bank = made(**changed), torch.tensor([[1.0, 0.0], [0.6, 0.2]])
    found = function(torch.zeros(1, 2), bank, neighbours=1)
    torch.testing.assert_close(found, torch.tensor([[-0.16, -0.02]]))
    assert ('share' in inspect.signature(function).parameters) == (changed['share'] != 0.2)
