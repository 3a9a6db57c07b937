"""The floors of docs/architecture.md hold: who imports whom, read from the page itself."""

from __future__ import annotations

import ast
import re
from functools import cache
from graphlib import TopologicalSorter
from importlib import import_module
from typing import Iterator

import pytest

from children import ROOT

PAGE = ROOT / 'docs/architecture.md'

FILES = {
    '.'.join(path.relative_to(ROOT).with_suffix('').parts).removesuffix('.__init__'): path
    for path in sorted((ROOT / 'mmvtr').rglob('*.py'))
}
#: An ``__init__`` only collects: what others take from it is an import of the module behind it.
PACKAGES = {name for name, path in FILES.items() if path.name == '__init__.py'}
MODULES = sorted(FILES.keys() - PACKAGES)
#: Lists what its modules offer (test_front_door.py).
FRONT_DOOR = 'mmvtr.functional'
#: Modules of the laboratory.
LAB = {
    path.stem
    for folder in ('projects/lab', 'projects/lab/evidence')
    for path in (ROOT / folder).iterdir()
    if path.suffix == '.py' or path.is_dir()
} - {'configs', 'docs', 'tests'}
#: Folders whose rooms must stay small.
WINGS = (['models'], ['datasets'])


def imports(source: str, *, unrun: bool = False) -> Iterator[tuple[str, str]]:
    """(module, name or '') of all that a source imports from mmvtr, in functions as well.

    What stands under ``if TYPE_CHECKING:`` is for readers and never runs; it counts if ``unrun``.
    """
    queue = [ast.parse(source)]
    while queue:
        node = queue.pop()
        if not unrun and isinstance(node, ast.If) and 'TYPE_CHECKING' in ast.unparse(node.test):
            queue.extend(node.orelse)
            continue
        if isinstance(node, ast.Import):
            found = [(alias.name, '') for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f'relative import: {ast.unparse(node)}'
            found = [(node.module, alias.name) for alias in node.names]
        else:
            found = []
        yield from ((m, name) for m, name in found if m.split('.')[0] == 'mmvtr')
        inner = ast.iter_child_nodes(node)
        queue.extend(child for child in inner if not isinstance(child, ast.expr))


def module_of(module: str, name: str) -> str:
    """The module that ``from module import name`` reads, past the ``__init__`` that collect it."""
    if f'{module}.{name}' in FILES:
        return f'{module}.{name}'
    if module not in PACKAGES:
        return module
    return collected(module)[name]


@cache
def collected(package: str) -> dict[str, str]:
    """name -> module of what an ``__init__`` collects."""
    homes = {}
    for module, name in imports(FILES[package].read_text(), unrun=True):
        offered = [name]
        if name == '*':
            offered = import_module(module).__all__
        homes.update((one, module_of(module, one)) for one in offered)
    return homes


@cache
def graph() -> dict[str, set[str]]:
    """module -> the modules that it imports."""
    return {
        name: {module_of(*found) for found in imports(FILES[name].read_text())} for name in MODULES
    }


@cache
def floors() -> dict[str, int]:
    """room -> floor, from the numbered list under the page's heading 'Floors'."""
    _, _, rest = PAGE.read_text().partition('\n## Floors\n')
    section = rest.partition('\n## ')[0]
    assert section, f'{PAGE.name} has no heading "## Floors" above its list of rooms: add it'
    numbers, found = [], {}
    for line in section.splitlines():
        start, rooms = re.match(r'(\d+\. )?\s*(?:- )?((?:`[\w.]+`(?:, )?)+(?=:))?', line).groups()
        if start:
            numbers.append(int(start[:-2]))
        for room in re.findall(r'`([\w.]+)`', rooms or ''):
            assert f'mmvtr.{room}' not in found, f'{room} is on two floors'
            found[f'mmvtr.{room}'] = numbers[-1]
    assert numbers == list(range(1, len(numbers) + 1))
    return found


def room_of(module: str) -> str:
    """The room of the page that a module is (in); '' where the page has none."""
    rooms = [room for room in floors() if f'{module}.'.startswith(f'{room}.')]
    assert len(rooms) <= 1, f'{module} must be in one room of {PAGE.name}, not {rooms}'
    return rooms[0] if rooms else ''


def edges() -> Iterator[tuple[str, str]]:
    for module, read in graph().items():
        yield from ((module, other) for other in sorted(read))


def test_the_walk_sees_functions_and_skips_what_never_runs():
    source = """
import torch, mmvtr.dist
from mmvtr.models import Target
if TYPE_CHECKING:
    from mmvtr.engine import Evaluation
def f():
    if g():
        from mmvtr.structures import Levels as L
"""
    assert sorted(imports(source)) == [
        ('mmvtr.dist', ''),
        ('mmvtr.models', 'Target'),
        ('mmvtr.structures', 'Levels'),
    ]
    assert module_of('mmvtr.models', 'Target') == 'mmvtr.models.target'
    assert module_of('mmvtr.functional', 'RankCounts') == 'mmvtr.functional.metrics.ranks'
    assert len(graph()) > 100 and sum(1 for _ in edges()) > 300


def test_every_room_of_the_page_exists():
    used = {room_of(module) for module in MODULES} - {''}
    assert sorted(used) == sorted(floors())


def test_no_import_goes_up_or_aside():
    wrong = [
        f'{module} (floor {floors()[one]}) imports {other} (floor {floors()[two]})'
        for module, other in edges()
        for one, two in [(room_of(module), room_of(other))]
        if one != two and '' not in (one, two) and floors()[two] >= floors()[one]
    ]
    assert not wrong, '\n'.join(wrong)


def test_what_never_imports_what():
    """The lines '`a` never imports `b`' of the page."""
    rules = re.findall(r'`([\w.]+)` never imports `([\w.]+)`', PAGE.read_text())
    assert rules
    for one, two in rules:
        names = [f'mmvtr.{one}', f'mmvtr.{two}']
        assert set(names) <= FILES.keys(), names
        wrong = [e for e in edges() if all(map(within, e, names))]
        assert not wrong, wrong


def within(module: str, room: str) -> bool:
    return f'{module}.'.startswith(f'{room}.')


@pytest.mark.parametrize('depth', [1, 2, 9])
def test_no_circle(depth):
    """Among rooms (``mmvtr.models``), their parts (``mmvtr.models.losses``) and modules."""
    nodes: dict[str, set[str]] = {}
    for edge in edges():
        one, two = ('.'.join(name.split('.')[: depth + 1]) for name in edge)
        if one != two:
            nodes.setdefault(one, set()).add(two)
    assert len(list(TopologicalSorter(nodes).static_order())) > 9  # CycleError names the circle


def circles(imported: dict[str, set[str]]) -> dict[str, set[str]]:
    """The modules of circles, or between two, each with those of them that it imports."""
    left = {name: set(others) for name, others in imported.items()}
    while True:
        read = set().union(*left.values())
        inner = {name for name in left.keys() & read if left[name] & left.keys()}
        if inner == left.keys():
            return left
        left = {name: left[name] & inner for name in inner}


def test_no_circle_of_modules_for_types_either():
    """What stands under ``if TYPE_CHECKING:`` counts: who reads one reads the other."""
    imported = {
        name: {module_of(*found) for found in imports(FILES[name].read_text(), unrun=True)}
        for name in MODULES
    }
    assert not circles(imported)


def test_circles_are_found():
    outside = dict(d={'a'}, e=set(), f={'e', 'a'})
    assert circles(dict(a={'b', 'e'}, b={'c'}, c={'a'}, **outside)) == dict(
        a={'b'}, b={'c'}, c={'a'}
    )
    assert circles(dict(a={'a'}, **outside)) == dict(a={'a'})
    assert circles(dict(a={'b'}, b={'e'}, **outside)) == {}


@pytest.mark.parametrize('package', sorted(PACKAGES - {FRONT_DOOR}))
def test_an_init_only_collects(package):
    for node in ast.parse(FILES[package].read_text()).body:
        doc = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        names = isinstance(node, ast.Assign) and node.targets[0].id.startswith('__')
        lazy = isinstance(node, ast.FunctionDef) and node.name == '__getattr__'
        collected = isinstance(node, (ast.Import, ast.ImportFrom))
        assert doc or names or lazy or collected, ast.unparse(node)


def test_an_import_that_goes_up_fails(monkeypatch):
    monkeypatch.setitem(graph(), 'mmvtr.dist', {'mmvtr.models.target'})
    with pytest.raises(AssertionError, match=r'mmvtr\.dist \(floor \d\) imports mmvtr\.models'):
        test_no_import_goes_up_or_aside()


def test_nothing_here_knows_the_projects():
    """Neither the gallery nor the laboratory is imported or named; a page of results may be."""
    named = re.compile(r'mmvtr[-_]gallery|projects/(gallery|lab)(?!/evidence/pages/)')
    for path in FILES.values():
        source = path.read_text()
        assert not named.search(source), path
        if not any(name in source for name in LAB):
            continue
        for node in ast.walk(ast.parse(source)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) else []
            assert not {name.split('.')[0] for name in names} & LAB, path
