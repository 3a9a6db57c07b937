"""The front door of mmvtr.functional: its names and index, and the docstrings behind them."""

import ast
import doctest
import importlib
import inspect
import itertools
import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from mmvtr import functional

PACKAGE = Path(functional.__file__).parent
TREES = {path.stem: ast.parse(path.read_text()) for path in sorted(PACKAGE.glob('*.py'))}
FRONT = TREES.pop('__init__')
#: What functions share, with docstrings like theirs, is not for the door: no equation, no answer.
MACHINERY = (
    'log_sums',
    'precision',
    'ranking_strips',
    'ranking_terms',
    'strip_log_sums',
    'tied_rankings',
    'transform_table',
)
GUARD = re.compile('check_|refuse_|first_nan')
SHAPE = re.compile(r'\[(\.\.\.|[A-Z])|(float|int|bool)\d* \[|0-dim')
NAMESAKES = sorted(set(TREES) & set(functional.__all__))


def public(module):
    """The functions and classes that a module defines without an underscore."""
    return [
        node
        for node in TREES[module].body
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith('_')
    ]


def defined():
    """Sorted (name, module) of all that belongs to the door."""
    return sorted(
        (node.name, module)
        for module in TREES
        for node in public(module)
        if module not in MACHINERY and not GUARD.match(node.name)
    )


def test_all_is_what_the_modules_define():
    assert functional.__all__ == [name for name, _ in defined()]
    for name, module in defined():
        home = importlib.import_module(f'mmvtr.functional.{module}')
        assert getattr(functional, name) is getattr(home, name)


def test_type_checkers_see_the_same():
    block = next(node for node in FRONT.body if isinstance(node, ast.If))
    assert ast.unparse(block.test) == 'TYPE_CHECKING'
    seen = [(alias.name, node.module) for node in block.body for alias in node.names]
    assert sorted(seen) == [(name, f'mmvtr.functional.{module}') for name, module in defined()]


def test_the_index_has_one_line_for_each_name():
    lines = functional.__doc__.split('\n\n', 2)[2].splitlines()
    names = [re.fullmatch(r'    (\w+) +\S.*', line).group(1) for line in lines if line[:1] == ' ']
    assert sorted(names) == functional.__all__
    assert [line for line in lines if line[:1] not in ('', ' ')] == [
        'Losses:',
        'Similarities:',
        'Normalisation and test-time transforms:',
        'Uncertainty:',
        'Probabilities:',
        'Relevance and classes:',
        'Ranks and metrics:',
        'Hubness, modality gap and length bias:',
    ]


def test_dir_and_a_wrong_name():
    assert set(functional.__all__) <= set(dir(functional))
    with pytest.raises(AttributeError, match="'mmvtr.functional' has no attribute 'sinkhorns'"):
        _ = functional.sinkhorns
    assert not hasattr(functional, '__wrapped__')


def test_a_function_and_a_record_can_be_pickled():
    counts = functional.rank_counts(torch.eye(2), torch.eye(2).bool())
    ranks, copy = pickle.loads(pickle.dumps((functional.ranks, counts)))
    assert ranks is functional.ranks
    assert isinstance(copy, functional.RankCounts) and copy.twins.tolist() == [1, 1]


# -- imports, in fresh interpreters --------------------------------------------------------------


def fresh(*statements):
    """The modules that a new interpreter holds after each statement."""
    code = 'import sys\n' + '\n'.join(f'{x}\nprint(*sys.modules)' for x in statements)
    done = subprocess.run(
        [sys.executable, '-c', code], cwd=PACKAGE.parents[1], capture_output=True, text=True
    )
    assert not done.returncode, done.stderr
    return [set(line.split()) for line in done.stdout.splitlines()]


def test_a_name_loads_what_it_needs():
    nothing, torch_alone, one, all_of_it = fresh(
        'import mmvtr.functional; dir(mmvtr.functional)',
        'import torch, torch.utils.checkpoint',
        'from mmvtr.functional import contrastive',
        'from mmvtr.functional import *; assert callable(ranks) and callable(csls)',
    )
    assert not {'torch', 'numpy', 'mmengine', 'mmvtr.functional.contrastive'} & nothing
    parts = ('contrastive', 'log_sums', 'precision')
    modules = {f'mmvtr.functional.{name}' for name in parts}
    assert {name for name in one - nothing if name.startswith('mmvtr')} == modules
    further = {name.split('.')[0] for name in all_of_it - torch_alone}
    assert further - set(sys.stdlib_module_names) <= {'mmvtr', 'torch'}


IMPORTS = (
    'from mmvtr.functional import {name} as found',
    'from mmvtr.functional.{name} import {name} as found',
    'import mmvtr.functional.{name}; found = mmvtr.functional.{name}',
)


def test_a_function_is_not_hidden_by_its_module():
    """Six orders of imports; torch stays loaded over them, the package is loaded anew for each."""
    code = ['import torch, types']
    for order in itertools.permutations(IMPORTS):
        code += ['for key in [k for k in sys.modules if k.split(".")[0] == "mmvtr"]:']
        code += ['    del sys.modules[key]']
        for name in NAMESAKES:
            for statement in order:
                code += [statement.format(name=name)]
                code += ['assert isinstance(found, types.FunctionType), found']
            code += [f'module = sys.modules["mmvtr.functional.{name}"]']
            code += [f'assert isinstance(module, types.ModuleType) and module.{name} is found']
            code += [f'import mmvtr.functional; assert mmvtr.functional.{name} is found']
        # What is no function's namesake is a module, as ever.
        code += ['from mmvtr.functional import gaussian, hubness as fn']
        code += ['assert fn.skewness and gaussian is sys.modules["mmvtr.functional.gaussian"]']
    fresh('\n'.join(code))


def test_namesakes():
    assert {'contrastive', 'ranking', 'ranks', 'sinkhorn', 'text_frame'} <= set(NAMESAKES)
    for name in NAMESAKES:
        assert getattr(functional, name).__module__ == f'mmvtr.functional.{name}'
        assert inspect.ismodule(importlib.import_module(f'mmvtr.functional.{name}'))


# -- docstrings ----------------------------------------------------------------------------------


@pytest.mark.parametrize('name', TREES)
def test_the_examples_run(name):
    """With the names of the front door, as a reader would; machinery and guards with their own."""
    module = importlib.import_module(f'mmvtr.functional.{name}')
    names = {'torch': torch, **{n: getattr(functional, n) for n in functional.__all__}}
    names.update((node.name, getattr(module, node.name)) for node in public(name))
    result = doctest.testmod(module, globs=names)
    assert result.attempted and not result.failed


@pytest.mark.parametrize(
    'node', [pytest.param(node, id=f'{m}.{node.name}') for m in TREES for node in public(m)]
)
def test_docstrings_have_shapes_and_an_example(node):
    text = ast.get_docstring(node) or ''
    assert text, 'no docstring'
    if isinstance(node, ast.ClassDef):
        assert SHAPE.search(text), 'no shape'
        for method in node.body:
            if isinstance(method, ast.FunctionDef) and not method.name.startswith('_'):
                assert ast.get_docstring(method), f'{method.name} has no docstring'
        record = [ast.unparse(base) for base in node.bases] == ['NamedTuple']
        assert record or '>>> ' in text, 'no example'
        return
    annotations = [arg.annotation for arg in [*node.args.args, *node.args.kwonlyargs]]
    takes_tensors = any('Tensor' in ast.unparse(x) for x in [*annotations, node.returns])
    assert SHAPE.search(text) or not takes_tensors, 'no shape'
    assert 'Example:' in text and '>>> ' in text, 'no example'
