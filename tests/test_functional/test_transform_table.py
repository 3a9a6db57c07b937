"""One table of test-time transforms: every door offers what it says, under its names."""

import inspect
import runpy
from typing import get_args

import pytest
import torch

from children import ROOT, tool_file
from mmvtr.apis.inferencer.transforms import check_transform
from mmvtr.engine.checks.arguments import annotation_of, arguments_of
from mmvtr.engine.hooks.score_transforms import TransformHook
from mmvtr.functional.transforms.item_biases import fit_biases
from mmvtr.functional.transforms.transform_table import ADDITIVE, OF_BANK, OF_QUERIES, TRANSFORMS
from mmvtr.registry import HOOKS

pytest.importorskip('mmvtr_gallery', reason='pip install -e projects/gallery')

from mmvtr_gallery.store.manifest import _refit  # noqa: E402

#: What hooks need beside the queries.
NEEDED = dict(hedged_scaling=dict(first=0.1, rest=0.1), local_scaling=dict(t2v=0.1))


def hooks():
    """Registered hooks of transforms by the name of their results, but for those of tests."""
    found = {}
    for kind in HOOKS.module_dict.values():
        of_package = inspect.isclass(kind) and kind.__module__.startswith('mmvtr.')
        if of_package and issubclass(kind, TransformHook) and hasattr(kind, 'default_name'):
            found[kind.default_name] = kind
    return found


def of_hooks():
    return [*hooks()]


def of_inferencer():
    """Names that are not refused as unknown."""
    names = []
    for name in [*TRANSFORMS, 'shrunk']:
        needs = dict(first=0.1, strength=0.1) if name == 'hedged_scaling' else {}
        options = dict(bank='b.pth', captions=None, options=needs)
        try:
            check_transform(name, 'video', **options)
        except ValueError as error:
            if 'transform must be' in str(error):
                continue
        names.append(name)
    return names


def of_store():
    pytest.importorskip('faiss')
    from mmvtr_gallery.store.refits import Refits

    class Store(Refits):
        last_refit, about = None, {}

    names = []
    for name in [*TRANSFORMS, 'shrunk']:
        try:
            Store()._options(name, {})
        except ValueError as error:
            assert 'must be one of' in str(error)
            continue
        names.append(name)
    return names


def of_manifest():
    return [name for name in [*TRANSFORMS, 'shrunk'] if _refit(dict(transform=name, temperature=1))]


def of_service():
    pytest.importorskip('fastapi')
    from mmvtr_gallery.serving.bodies import Refit

    return [x for x in get_args(Refit.model_fields['transform'].annotation) if x != 'same']


def choices(path):
    """What ``--transform`` of a tool may be."""
    module = runpy.run_path(str(tool_file(path)))
    seen = {}

    class Stop(Exception):
        pass

    class Spy:
        def __init__(self, *args, **kwargs):
            pass

        def __getattr__(self, name):
            def method(*names, **options):
                if '--transform' in names:
                    seen.update(options)
                    raise Stop

            return method

    module['parse_args'].__globals__['Parser'] = Spy
    with pytest.raises(Stop):
        module['parse_args']()
    return [*seen['choices']]


DOORS = {
    'hooks': (of_hooks, [*TRANSFORMS, 'auto']),
    'inferencer': (of_inferencer, TRANSFORMS),
    'store': (of_store, ADDITIVE),
    'manifest of a store': (of_manifest, ADDITIVE),
    'service': (of_service, [*OF_QUERIES, 'auto']),
    'export_index': (lambda: choices('export_index.py'), [*ADDITIVE, 'auto']),
    'eval_scores': (
        lambda: choices('analysis_tools/eval_scores.py'),
        [*OF_BANK, 'auto'],
    ),
}


@pytest.mark.parametrize('door', DOORS)
def test_every_door_knows_the_names_of_the_table(door):
    offered, expected = DOORS[door]
    assert sorted(offered()) == sorted(expected)


def test_the_names():
    """As configs and command lines write them; new ones may come."""
    assert {*TRANSFORMS} >= {
        'sinkhorn',
        'unbalanced_sinkhorn',
        'inverted_softmax',
        'dual_softmax',
        'qb_norm',
        'csls',
        'local_scaling',
        'nnn',
        'hedged_scaling',
        'dbsn',
        'db_norm',
        'sure_first',
    }
    assert set(ADDITIVE) - set(OF_QUERIES) >= {'dbsn', 'db_norm'}
    assert set(OF_BANK) - set(ADDITIVE) >= {'dual_softmax', 'qb_norm', 'hedged_scaling'}


@pytest.mark.parametrize('name', sorted({*OF_BANK} & {*hooks()}))
def test_hooks_have_the_options_of_the_table(name):
    """So that a config is checked by them; strengths of a direction are the hooks' own."""
    own = {'local_scaling': {'strength'}, 'hedged_scaling': {'strength'}}.get(name, set())
    taken = {x.name: x for x in TRANSFORMS[name].described}
    meant = {*taken} - {'bank_marginals'} - own
    kind = hooks()[name]
    assert meant <= arguments_of(kind).names
    for option in meant:
        kinds = {int: 'int', float: 'float', bool: 'bool'}
        assert str(kinds.get(annotation_of(kind, option), taken[option].type)) in taken[option].type
    with pytest.raises(ValueError, match=f'{name} takes .*, not .speed.'):
        kind(queries='train_queue', speed=1, **NEEDED.get(name, {}))


@pytest.mark.parametrize('name', OF_BANK)
def test_what_is_fitted_ranks_as_the_function(name):
    """In each row, and of further items it says the same."""
    torch.manual_seed(0)
    bank, scores = torch.randn(30, 12).double(), torch.randn(5, 12).double()
    read = dict(bank_gallery=torch.randn(30, 7).double(), item_bank=torch.randn(9, 12).double())
    extra = {one: read[one] for one in read.keys() & {*TRANSFORMS[name].reads}}
    needs = dict(first=-0.2, strength=0.4) if name == 'hedged_scaling' else {}
    fitted = fit_biases(name, bank, extra_inputs=extra, **needs)
    found = fitted.transform_scores(scores)
    expected = TRANSFORMS[name].function(scores, bank, **fitted.options, **extra)
    assert torch.equal(found.argsort(1), expected.argsort(1))
    if TRANSFORMS[name].form == 'additive':
        scale = 2 if name == 'csls' else 1
        difference = expected - scale * found
        assert torch.allclose(difference, difference[:, :1].expand(5, 12), atol=1e-12)
        assert abs(fitted.items.mean()) < 1e-12
    again = fitted.further(bank[:, 3:6], read['item_bank'][:, 3:6])
    assert torch.allclose(again, fitted.items[3:6], atol=1e-12)


@pytest.mark.parametrize('name', OF_BANK)
def test_who_reads_the_row(name):
    """A change of one item's score moves those of other items only where the row is read."""
    torch.manual_seed(0)
    bank, scores = torch.randn(30, 12), torch.randn(1, 12)
    if name == 'qb_norm':
        bank[:, 0] = -9.0  # an item that no query of the bank finds
    needs = {x: 0.4 for x in TRANSFORMS[name].needs}
    needs.update({'temperature': 5.0} if 'temperature' in TRANSFORMS[name].options else {})
    if 'bank_gallery' in TRANSFORMS[name].reads:
        needs['bank_gallery'] = torch.randn(30, 7)
    if 'item_bank' in TRANSFORMS[name].reads:
        bank[:, 0] = -9.0
        needs.update(item_bank=torch.randn(6, 12), dynamic=True)
    other = scores.clone()
    other[0, 0] = 9.0
    one, two = (TRANSFORMS[name].function(x, bank, **needs) for x in (scores, other))
    moved = not torch.equal(one[0, 1:], two[0, 1:])
    assert moved == ('row' in TRANSFORMS[name].reads)


INPUTS = dict(
    bank='bank',
    row='row',
    bank_gallery='bank x items seen before',
    item_bank='items seen before x gallery',
)


@pytest.mark.parametrize('name', OF_BANK)
def test_the_page_has_its_row(name):
    """The row is that of the class: docs/ncl.md, which says what to write otherwise."""
    x = TRANSFORMS[name]
    kept = 'no' if x.form != 'additive' else 'yes'
    kept += ', with items seen before' * (kept == 'yes' and x.reads_items)
    reads = ', '.join(INPUTS[one] for one in x.reads)
    row = f'| `{name}` | {x.source} | {x.claim} | {reads} | {kept} |'
    assert row in (ROOT / 'docs/ncl.md').read_text(), f'add to docs/ncl.md: {row}'


@pytest.mark.parametrize('name', OF_BANK)
def test_a_wrong_call_names_the_function(name):
    function = TRANSFORMS[name].function
    for given in (dict(bank=torch.eye(3), no_option=1), {}):
        with pytest.raises(TypeError, match=rf'^{function.__name__}\(\) '):
            function(torch.eye(3), **given)
