"""Several supervisions of one matrix: what each fills, and what becomes of what two fill."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from mmvtr.engine.hooks.eta_monitor import FIGURES
from mmvtr.engine.hooks.pictures import lacking
from mmvtr.models.combined import CombinedSupervision
from mmvtr.models.losses.matrix import ContrastiveLoss
from mmvtr.models.losses.ranking import RankingLoss
from mmvtr.models.supervisions.arl import ARLSupervision
from mmvtr.models.supervisions.dvtr import DVTRSupervision
from mmvtr.models.supervisions.guide import HardnessSupervision
from mmvtr.models.supervisions.pcme import PCMESupervision
from mmvtr.models.supervisions.relative_scores import ImplicationSupervision
from mmvtr.models.target import Annotation, Target, check_read, check_readable
from mmvtr.registry import MODELS
from mmvtr.structures import Embedding


class Fills(nn.Module):
    """What it is given, whatever it sees."""

    def __init__(self, **slots):
        super().__init__()
        self.slots = slots

    def forward(self, texts, videos, target):
        self.seen = target
        slots = {name: x for name, x in self.slots.items() if name in Target._fields}
        beside = {name: x for name, x in self.slots.items() if name not in slots}
        return target._replace(**slots).put(**beside), {'figure': torch.tensor(1.0)}


A, B = torch.tensor([[0.2, 0.9], [0.5, 0.1]]), torch.tensor([[0.6, 0.3], [0.5, 0.4]])


@pytest.fixture
def target():
    return Target(torch.eye(2).bool())


@pytest.mark.parametrize(
    ('rule', 'expected'),
    [
        ('min', [[0.2, 0.3], [0.5, 0.1]]),
        ('max', [[0.6, 0.9], [0.5, 0.4]]),
        ('product', [[0.12, 0.27], [0.25, 0.04]]),
    ],
)
def test_weights_are_the_smallest_the_largest_or_the_product_in_any_order(target, rule, expected):
    for parts in (
        dict(a=Fills(weights=A), b=Fills(weights=B)),
        dict(b=Fills(weights=B), a=Fills(weights=A)),
    ):
        found, logs = CombinedSupervision(parts=parts, combine=rule)({}, {}, target)
        torch.testing.assert_close(found.weights, torch.tensor(expected))
        assert logs.keys() == {'a_figure', 'b_figure'}
        assert all(part.seen is target for part in parts.values())  # not the other's


def test_what_one_fills_is_taken_and_sets_are_joined(target):
    one, other = torch.tensor([[1, 1], [0, 1]]).bool(), torch.tensor([[1, 0], [1, 1]]).bool()
    counts = torch.tensor([0.5, 2.0])
    parts = dict(
        a=Fills(weights=A, positives=one, counts=counts, ambiguous=~one),
        b=Fills(margins=B, positives=other, counts=counts, teacher=A),
    )
    found, _ = CombinedSupervision(parts=parts)({}, {}, target)
    assert found.weights is A and found.margins is B and found.extras['teacher'] is A
    assert found.positives.all() and torch.equal(found.ambiguous, ~one)
    assert torch.equal(found.counts, counts**2) and 'relevant' not in found.extras


def test_soft_positives_are_joined_with_others(target):
    some = torch.tensor([[1, 1], [0, 1]]).bool()
    for rule, expected in (('min', torch.maximum), ('max', torch.minimum)):
        for one, other in ((A, B), (A, some), (some, A)):
            parts = dict(a=Fills(positives=one), b=Fills(positives=other))
            found, _ = CombinedSupervision(parts=parts, combine=rule)({}, {}, target)
            torch.testing.assert_close(found.positives, expected(one.float(), other.float()))


def test_two_that_fill_the_same_margins_have_no_rule(target):
    parts = dict(a=Fills(margins=A), b=Fills(weights=B), c=Fills(margins=B))
    with pytest.raises(ValueError, match=r"'a' and 'c' both fill target.margins"):
        CombinedSupervision(parts=parts)({}, {}, target)


@pytest.mark.parametrize('rule', ['min', 'max'])
def test_dvtr_with_implication_is_what_the_two_say(rule):
    """Weights of both, gradients and losses of DVTR's own, figures that the monitor finds."""
    generator = torch.Generator().manual_seed(0)

    def gaussians(n):
        mean, log_std = torch.randn(2, n, 6, generator=generator, dtype=torch.float64)
        return {'gaussian': Embedding(mean, log_std=log_std - 1)}

    texts, videos = gaussians(4), gaussians(3)
    positives = torch.tensor([[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]).bool()
    agreement = torch.rand(4, 3, generator=generator, dtype=torch.float64).log()
    target = Target(positives, known=Annotation(agreement=agreement))
    configs = dict(
        dvtr=dict(type='DVTRSupervision', floor=0.1), words=dict(type='ImplicationSupervision')
    )
    both = MODELS.build(dict(type='CombinedSupervision', parts=configs, combine=rule)).double()
    found, logs = both(texts, videos, target)
    dvtr, words = (MODELS.build(config).double() for config in configs.values())
    (of_dvtr, own), (of_words, _) = (part(texts, videos, target) for part in (dvtr, words))
    smaller = torch.minimum if rule == 'min' else torch.maximum
    torch.testing.assert_close(found.weights, smaller(of_dvtr.weights, of_words.weights))
    assert torch.equal(found.counts, of_words.counts)
    for name in ('loss_match', 'loss_align'):
        torch.testing.assert_close(logs[f'dvtr_{name}'], own[name])
    logs['dvtr_loss_match'].backward()
    own['loss_match'].backward()
    assert both.parts['dvtr'].slope.grad == dvtr.slope.grad != 0
    assert all(f'dvtr_{name}' in logs for name in FIGURES)
    assert both.matrices(texts, videos).keys() == {'eta'}


def test_a_part_whose_slot_no_loss_reads_is_refused():
    parts = dict(words=ImplicationSupervision(), more=DVTRSupervision())
    check_read(CombinedSupervision(parts=parts), dict(loss=ContrastiveLoss()))
    parts = dict(words=ImplicationSupervision(), teacher=Fills())
    parts['teacher'].fills = 'teacher'
    with pytest.raises(ValueError, match='Fills fills target.teacher, which no loss reads'):
        check_read(CombinedSupervision(parts=parts), dict(loss=RankingLoss()))


def test_a_loss_of_a_project_may_read_what_its_class_does_not_list():
    class Mine(RankingLoss):
        pass

    filled = Fills()
    filled.fills = 'columns'
    check_read(filled, dict(loss=Mine()))
    soft = Target(positives=torch.full((2, 2), 0.5))
    check_readable(soft, Mine())
    with pytest.raises(ValueError, match='RankingLoss takes positives that are true or false'):
        check_readable(soft, RankingLoss())


def test_what_lies_beside_the_items_reaches_the_part_that_asks():
    class Asks(Fills):
        def sees(self, preprocessor):
            self.shown = preprocessor

        def own_levels(self, inputs, data_samples, device):
            return {self.slots['name']: 1}, {}

    parts = dict(a=Fills(), b=Asks(name='x'), c=Asks(name='y'))
    made, preprocessor = CombinedSupervision(parts=parts), nn.Identity()
    made.sees(preprocessor)
    assert parts['b'].shown is preprocessor
    assert made.own_levels({}, {}, torch.device('cpu')) == ({'x': 1, 'y': 1}, {})


def test_what_no_part_has_is_not_there():
    """Pictures, rehearsals and figures ask by hasattr."""
    made = CombinedSupervision(parts=dict(a=ImplicationSupervision(), b=Fills()))
    assert not hasattr(made, 'matrices') and not hasattr(made, 'own_levels')
    assert lacking(SimpleNamespace(supervision=made, similarity=None))['eta'] == 'a DVTRSupervision'


def test_a_matrix_that_two_give_is_named_after_them():
    parts = dict(a=DVTRSupervision(), b=PCMESupervision(num_samples=2))
    items = {'gaussian': Embedding(torch.zeros(2, 4), log_std=torch.zeros(2, 4))}
    assert CombinedSupervision(parts=parts).matrices(items, items).keys() == {'a_eta', 'b_eta'}


def test_teachers_are_read_before_the_first_step():
    teacher = dict(type='FrozenTeachers', members=[dict(config='/nope.py', checkpoint='/nope.pth')])
    words = dict(type='ImplicationSupervision')
    made = MODELS.build(dict(type='CombinedSupervision', parts=dict(words=words, t=teacher)))
    with pytest.raises(FileNotFoundError, match='nope'):
        made.init_weights()


def test_the_largest_weight_goes_with_no_relevant_entries(target):
    relevant = torch.tensor([[0, 1], [0, 0]]).bool()
    parts = dict(a=Fills(relevant=relevant, weights=1 - relevant.float()), b=Fills(weights=A))
    found, _ = CombinedSupervision(parts=parts)({}, {}, target)
    assert torch.equal(found.extras['relevant'], relevant) and found.weights[0, 1] == 0
    with pytest.raises(ValueError, match='relevant entries must not be negatives'):
        CombinedSupervision(parts=parts, combine='max')({}, {}, target)


@pytest.mark.parametrize(
    ('rule', 'expected'),
    [
        ('min', [[1, 1], [1, 1]]),
        ('max', [[1, 0], [0, 1]]),
        ('product', [[1, 1], [1, 1]]),
    ],
)
def test_sets_follow_the_rule(target, rule, expected):
    one, other = torch.tensor([[1, 1], [0, 1]]).bool(), torch.tensor([[1, 0], [1, 1]]).bool()
    parts = dict(a=Fills(positives=one, ambiguous=one), b=Fills(positives=other, ambiguous=other))
    found, _ = CombinedSupervision(parts=parts, combine=rule)({}, {}, target)
    for slot in (found.positives, found.ambiguous):
        assert torch.equal(slot, torch.tensor(expected).bool())


@pytest.mark.parametrize('rule', ['min', 'max'])
def test_hardness_is_for_the_product_alone(rule):
    hard = HardnessSupervision()
    CombinedSupervision(parts=dict(a=Fills(), b=Fills()), combine=rule)
    inner = CombinedSupervision(parts=dict(a=Fills(), b=hard), combine='product')
    for part in (hard, inner):
        with pytest.raises(ValueError, match=r"parts\['b'\] may exceed 1, and .* take .*'product'"):
            CombinedSupervision(parts=dict(a=Fills(), b=part), combine=rule)


def test_bad_parts():
    with pytest.raises(ValueError, match=r"two supervisions or more, not \['a'\]"):
        CombinedSupervision(parts=dict(a=Fills()))
    with pytest.raises(ValueError, match="must be one of .'min', 'max', 'product'., not 'most'"):
        CombinedSupervision(parts=dict(a=Fills(), b=Fills()), combine='most')
    with pytest.raises(ValueError, match=r"parts\['b'\] is an ARLSupervision"):
        CombinedSupervision(parts=dict(a=Fills(), b=ARLSupervision(dim=4)))
    with pytest.raises(ValueError, match="'loss' in its name, as 'gloss' has"):
        CombinedSupervision(parts=dict(a=Fills(), gloss=Fills()))
