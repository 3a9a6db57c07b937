"""Which arguments of a component reach a call that loads code, by reading its source.

Knows nothing of what components declare. An argument is followed through assignments, attributes of
``self``, and calls of functions, classes and methods of the same package.
"""

import ast
import inspect
import textwrap
from functools import cache
from importlib import import_module

#: Calls that run code, or read files that may hold some, by the last word of their name.
SINKS = {
    '__import__', 'compile', 'eval', 'exec', 'fromfile', 'get_config', 'get_kernel',
    'get_object_from_string', 'import_module', 'import_modules_from_strings', 'run_path',
    'run_module', 'CDLL', 'LoadLibrary', 'load_library', 'InferenceSession', 'load_model',
    'load_checkpoint', 'unsafe_load',
}  # fmt: skip
#: Those that do so only where they are not told otherwise.
GATED = {'from_pretrained', 'from_config', 'HFTokenizer', 'get_tokenizer', 'SentenceTransformer'}
#: Of modules whose files can hold code: ``torch.load``.
LOADS = {'torch', 'pickle', 'jit', 'hub', 'joblib', 'dill', 'spacy', 'importlib', 'yaml'}
#: Arguments of such calls that say where tensors go.
PLACES = {'device', 'map_location'}
#: The one reader of the package that calls ``torch.load``, tested by itself.
SAFE = {'read_plain'}


def reached(component, package='mmvtr'):
    """The names of a component's arguments by which code can be loaded."""
    if not inspect.isclass(component):
        return _of_function(component, frozenset(inspect.signature(component).parameters), package)
    found, attributes = set(), {}
    for name in ('__init__', *(n for n in _methods(component, package) if n != '__init__')):
        method = _methods(component, package).get(name)
        if method is None:
            continue
        first = name == '__init__'
        start = {p: {p} for p in _parameters(method)[1:]} if first else {}
        found |= _Walk(method, start, attributes, package).sinks
    return found


def _methods(component, package):
    methods = {}
    for kind in reversed(inspect.getmro(component)):
        if kind.__module__.split('.')[0] in (package, 'mmcv', component.__module__.split('.')[0]):
            for name, x in vars(kind).items():
                x = (
                    getattr(x, '__wrapped__', None)
                    or getattr(x, 'fget', None)
                    or getattr(x, 'func', x)
                )
                if inspect.isfunction(x):
                    methods[name] = x
    return methods


def _parameters(function):
    try:
        return list(inspect.signature(function, follow_wrapped=False).parameters)
    except ValueError:  # of a builtin, which has none to read
        return []


@cache
def _of_function(function, parameters, package):
    """Which of a function's parameters reach a sink."""
    if inspect.isclass(function):
        return frozenset(reached(function, package))
    walk = _Walk(function, {p: {p} for p in parameters}, {}, package)
    return frozenset(walk.sinks)


_open = set()


@cache
def _tree(function):
    return ast.parse(textwrap.dedent(inspect.getsource(function)))


@cache
def _imports(function):
    return [part for part in ast.walk(_tree(function)) if isinstance(part, ast.ImportFrom)]


class _Walk(ast.NodeVisitor):
    def __init__(self, function, start, attributes, package):
        self.names, self.attributes, self.package = dict(start), attributes, package
        self.sinks, self.function = set(), inspect.unwrap(function)
        if self.function in _open:
            return
        _open.add(self.function)
        try:
            tree = _tree(self.function)
            for _ in range(2):  # what a loop assigns below is read above
                self.visit(tree)
        except (OSError, TypeError, SyntaxError):
            pass
        finally:
            _open.discard(self.function)

    def taint(self, node):
        """Arguments that an expression is made of."""
        found = set()
        for part in ast.walk(node):
            if isinstance(part, ast.Name):
                found |= self.names.get(part.id, set())
            elif isinstance(part, ast.Attribute) and _is_self(part.value):
                found |= self.attributes.get(part.attr, set())
        return found

    def _bind(self, target, found):
        for part in ast.walk(target):
            if isinstance(part, ast.Name) and part.id != 'self':
                self.names[part.id] = self.names.get(part.id, set()) | found
            elif isinstance(part, ast.Attribute) and _is_self(part.value):
                self.attributes[part.attr] = self.attributes.get(part.attr, set()) | found

    def visit_Assign(self, node):
        self.generic_visit(node)
        for target in node.targets:
            self._bind(target, self.taint(node.value))

    def visit_AnnAssign(self, node):
        self.generic_visit(node)
        if node.value is not None:
            self._bind(node.target, self.taint(node.value))

    visit_AugAssign = visit_NamedExpr = visit_AnnAssign

    def visit_For(self, node):
        self._bind(node.target, self.taint(node.iter))
        self.generic_visit(node)

    def visit_comprehension(self, node):
        self._bind(node.target, self.taint(node.iter))
        self.generic_visit(node)

    def visit_ListComp(self, node):
        for part in node.generators:  # before what is made of them
            self.visit(part)
        self.generic_visit(node)

    visit_SetComp = visit_GeneratorExp = visit_DictComp = visit_ListComp

    def visit_Dict(self, node):
        self.generic_visit(node)
        for key, value in zip(node.keys, node.values):
            if isinstance(key, ast.Constant) and key.value == 'type':
                self.sinks |= self.taint(value)

    def visit_Call(self, node):
        self.generic_visit(node)
        words = ast.unparse(node.func).split('.') if _dotted(node.func) else ['?']
        given = {k.arg: k.value for k in node.keywords}
        everything = [*node.args, *(x for key, x in given.items() if key not in PLACES)]
        if words[-1] in SAFE:
            return
        if words == ['dict'] and 'type' in given:  # a name that a registry imports
            self.sinks |= self.taint(given['type'])
        elif words[-1] in GATED:
            gate = given.get('trust_remote_code')
            if isinstance(gate, ast.Constant) and gate.value is False:
                return
            self.sinks |= self._all(everything) if gate is None else self.taint(gate)
        elif (words[-1] in SINKS and words[0] != 'np') or (
            words[-1] in ('load', 'loads') and LOADS & set(words[:-1])
        ):
            self.sinks |= self._all(everything)
        else:
            self._follow(node, given)

    def _all(self, nodes):
        return set().union(*map(self.taint, nodes))

    def _follow(self, node, given):
        callee = self._resolve(node.func)
        module = getattr(callee, '__module__', None) or ''
        if inspect.isclass(callee) and issubclass(callee, BaseException):
            return  # holds a message
        if module.split('.')[0] not in (self.package, self.function.__module__.split('.')[0]):
            return
        parameters = _parameters(callee)
        drop = inspect.ismethod(callee) or _is_self(getattr(node.func, 'value', None))
        names = parameters[1:] if drop and not inspect.isclass(callee) else parameters
        bound = {**dict(zip(names, node.args)), **given}
        if any(self.taint(x) for x in bound.values()):
            for name in _of_function(callee, frozenset(parameters), self.package) & bound.keys():
                self.sinks |= self.taint(bound[name])

    def _resolve(self, node):
        """What a call calls, as far as its module says."""
        scope = self.function.__globals__
        if isinstance(node, ast.Name):
            local = (
                inspect.unwrap(scope.get(node.id)) if node.id in scope else self._imported(node.id)
            )
            return local if inspect.isfunction(local) or inspect.isclass(local) else None
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            owner = scope.get(node.value.id) or self._imported(node.value.id)
            found = getattr(owner, node.attr, None) if inspect.ismodule(owner) else None
            return found if inspect.isfunction(found) or inspect.isclass(found) else None
        return None

    def _imported(self, name):
        """What a function imports itself."""
        for part in _imports(self.function):
            for alias in part.names if (part.module or '').startswith(self.package) else ():
                if name == (alias.asname or alias.name):
                    owner = import_module(part.module)
                    inner = f'{part.module}.{alias.name}'
                    return getattr(owner, alias.name, None) or import_module(inner)
        return None


def _is_self(node):
    return isinstance(node, ast.Name) and node.id == 'self'


def _dotted(node):
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, (ast.Name, ast.Call))
