"""Every public function takes numpy or torch, and says how anything else becomes one."""

import copy
import doctest
import importlib
import inspect

import numpy as np
import pytest
import torch

import mmvtr
from mmvtr import functional
from mmvtr.functional.values import arrays_too

#: By name, all functions that take a tensor.
FUNCTIONS = {
    name: function
    for name in functional.__all__
    if inspect.isfunction(function := getattr(functional, name))
    and any(
        kind in ('Tensor', 'Optional[Tensor]', 'Any', 'Tensor | Tiles')
        for place, kind in function.__annotations__.items()
        if place != 'return'
    )
}
VECTORS = np.eye(4, dtype=np.float32)
#: Of mmvtr itself: a call with one of its arrays.
CALLS = {
    'fit': lambda x: mmvtr.fit(x),
    'fit, bank': lambda x: mmvtr.fit(VECTORS, x),
    'Debiaser.add': lambda x: mmvtr.fit(VECTORS).add(x),
    'Debiaser.biases_of': lambda x: mmvtr.fit(VECTORS).biases_of(x),
    'Debiaser.refit': lambda x: mmvtr.fit(VECTORS).refit(x),
    'Debiaser.scores': lambda x: mmvtr.fit(VECTORS).scores(x),
    'Debiaser.search': lambda x: mmvtr.fit(VECTORS).search(x),
    'Debiaser.query': lambda x: mmvtr.fit(VECTORS).query(x),
    'retrieve': lambda x: mmvtr.retrieve(x, VECTORS),
    'retrieve, videos': lambda x: mmvtr.retrieve(VECTORS, x),
    'hub_report': lambda x: mmvtr.hub_report(x, VECTORS),
    'hub_report, videos': lambda x: mmvtr.hub_report(VECTORS, x),
    'Tokens': lambda x: mmvtr.fit(mmvtr.Tokens(x), geometry='maxsim'),
}


def numpy_of(x):
    return x.detach().numpy() if isinstance(x, torch.Tensor) and not x.requires_grad else x


def torch_of(x):
    if isinstance(x, np.ndarray):
        return torch.from_numpy(x)
    if isinstance(x, tuple):
        parts = [torch_of(one) for one in x]
        return type(x)(*parts) if hasattr(x, '_fields') else tuple(parts)
    return x


def differ(one, other):
    return isinstance(one, np.ndarray) and not np.array_equal(one, other, equal_nan=True)


@pytest.mark.parametrize('name', FUNCTIONS)
def test_examples_hold_with_numpy(name):
    """Its own example with arrays in place of tensors: what it prints stays the same."""
    function, kinds, changed = FUNCTIONS[name], [], []

    def called(*args, **kwargs):
        args, kwargs = [numpy_of(x) for x in args], {k: numpy_of(x) for k, x in kwargs.items()}
        before = copy.deepcopy((args, kwargs))
        found = function(*args, **kwargs)
        changed.extend(map(differ, (*before[0], *before[1].values()), (*args, *kwargs.values())))
        if any(isinstance(x, np.ndarray) for x in (*args, *kwargs.values())):
            kinds.append(isinstance(found, torch.Tensor))
        return torch_of(found)

    names = {'torch': torch, **{x: getattr(functional, x) for x in functional.__all__}}
    module = importlib.import_module(function.__module__)
    names[name] = called
    tests = doctest.DocTestFinder(recurse=False).find(function, name, module, {**names})
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    for one in tests:
        runner.run(one)
    assert runner.summarize(verbose=False).failed == 0
    assert not any(kinds), 'a tensor came back for arrays'
    assert not any(changed), 'what was given has changed'


@pytest.mark.parametrize('kind', ['writable', 'read only', 'backwards', 'big endian'])
def test_arrays_are_not_copied_and_results_are_memory_of_their_own(kind):
    given = np.arange(6, dtype='float32').reshape(2, 3) / 7
    if kind == 'read only':
        given.flags.writeable = False
    given = dict(backwards=given[::-1], **{'big endian': given.astype('>f4')}).get(kind, given)
    seen = []

    @arrays_too
    def as_it_is(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        seen.append(x)
        return x, x + 1

    same, more = as_it_is(given)
    assert (same == given).all() and (more == given + 1).all()
    assert not np.shares_memory(same, given)
    assert np.shares_memory(seen[0].numpy(), given) == (kind == 'writable')


def table(of):
    """An object of a library that need not be installed."""
    return type('Table', (), dict(__module__=f'{of}.core'))()


LIBRARIES = dict(
    pandas='.to_numpy(', polars='.to_numpy()', pyarrow='.to_numpy(zero_copy_only=False)'
)


@pytest.mark.parametrize('name', FUNCTIONS)
def test_others_are_named_with_their_conversion(name):
    function = FUNCTIONS[name]
    places = [*inspect.signature(function).parameters]
    first = next(x for x in places if function.__annotations__[x] not in ('float', 'int'))
    for library, said in LIBRARIES.items():
        with pytest.raises(TypeError) as error:
            function(**{first: table(library)})
        assert f'{first}{said}' in str(error.value)
    if function.__annotations__[first] == 'Tensor':
        with pytest.raises(TypeError, match=rf'numpy\.asarray\({first}'):
            function(**{first: [[1.0, 0.0]]})


@pytest.mark.parametrize('name', CALLS)
def test_what_is_given_to_mmvtr_is_named(name):
    for library, said in LIBRARIES.items():
        with pytest.raises(TypeError) as error:
            CALLS[name](table(library))
        assert said in str(error.value)
    with pytest.raises(TypeError, match=r'numpy\.asarray\('):
        CALLS[name](VECTORS.tolist())


def test_every_public_name_is_looked_at():
    taken = {x.split(',')[0].split('.')[0] for x in CALLS}
    assert taken == {'fit', 'Debiaser', 'Tokens', 'retrieve', 'hub_report'}
    for name in taken:
        assert getattr(mmvtr, name)
