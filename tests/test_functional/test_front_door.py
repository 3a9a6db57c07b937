"""The front door of mmvtr.functional: its names and index, and the docstrings behind them."""

import ast
import doctest
import importlib
import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from mmvtr import functional
from mmvtr.registry import HOOKS

PACKAGE = Path(functional.__file__).parent
#: By ``room.module``, or ``module`` where it is in no room.
TREES = {
    '.'.join(path.relative_to(PACKAGE).with_suffix('').parts): ast.parse(path.read_text())
    for path in sorted(PACKAGE.rglob('*.py'))
    if path.name != '__init__.py'
}
SHAPE = re.compile(r'\[(\.\.\.|[A-Z])|(float|int|bool)\d* \[|0-dim')


def public(module):
    """The functions and classes that a module defines without an underscore."""
    return [
        node
        for node in TREES[module].body
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith('_')
    ]


def offered(module):
    """Its ``__all__``."""
    for node in TREES[module].body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == '__all__':
            return ast.literal_eval(node.value)
    return []


def defined():
    """Sorted (name, module) of all that belongs to the door."""
    return sorted((name, module) for module in TREES for name in offered(module))


def test_all_is_what_the_modules_offer():
    assert functional.__all__ == [name for name, _ in defined()]
    for name, module in defined():
        home = importlib.import_module(f'mmvtr.functional.{module}')
        assert getattr(functional, name) is getattr(home, name)
        assert name in [node.name for node in public(module)]


def test_what_a_module_does_not_offer_is_machinery():
    """A check, or what others in here share."""
    for module in TREES:
        functions = [node.name for node in public(module) if isinstance(node, ast.FunctionDef)]
        rest = set(functions) - set(offered(module))
        used = [
            name
            for name in rest
            if not re.match('check_|refuse_|first_nan', name)
            and not any(re.search(rf'\b{name}\b', text) for text in INSIDE)
        ]
        assert not used, f'{module} offers no {used}, and nobody here reads it'


INSIDE = [
    text
    for path in PACKAGE.parent.rglob('*.py')
    for text in re.findall(
        r'^from mmvtr\.functional\.[\w.]+ import (\([^)]*\)|.*)$', path.read_text(), re.M
    )
]


def test_the_index_has_each_name_in_its_room():
    index = dict(re.findall(r'^(\w+): (.*)$', functional.__doc__, re.M))
    for name, module in defined():
        assert name in index[module.split('.')[0]].split(', ')
    assert sum(len(line.split(', ')) for line in index.values()) == len(functional.__all__)
    assert not {*index} & {*functional.__all__}


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


def test_the_functions_need_torch_alone():
    torch_alone, all_of_it = fresh(
        'import torch, torch.utils.checkpoint',
        'from mmvtr.functional import *; assert callable(ranks) and callable(csls)',
    )
    further = {name.split('.')[0] for name in all_of_it - torch_alone}
    assert further - set(sys.stdlib_module_names) <= {'mmvtr', 'torch', 'numpy'}


# -- docstrings ----------------------------------------------------------------------------------


@pytest.mark.parametrize('name', TREES)
def test_the_examples_run(name):
    """With the names of the front door, as a reader would; machinery and guards with their own."""
    module = importlib.import_module(f'mmvtr.functional.{name}')
    names = {'torch': torch, **{n: getattr(functional, n) for n in functional.__all__}}
    names.update((node.name, getattr(module, node.name)) for node in public(name))
    result = doctest.testmod(module, globs=names)
    HOOKS.module_dict.pop('HalfMeanHook', None)  # of the example that defines a transform
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
