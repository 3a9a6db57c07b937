"""A config as data: what is written holds no code, and what is read can ask for none.

A config names components by their registered names, and mmengine takes any dotted name for one: of
``dict(type='os.system', command=...)`` it would build that.  So what comes from elsewhere is shown
to :func:`refuse_code` before anything is built of it; what of a component names or loads code, its
author declares (:func:`mmvtr.names_code.names_code`).
"""

from __future__ import annotations

import copy
import re
import sys
from pathlib import Path
from typing import Any, Iterator, Mapping

from mmcv.transforms import RandomChoiceResize, RandomResize
from mmengine.config import Config
from mmengine.model import PretrainedInit
from mmengine.registry import WEIGHT_INITIALIZERS, Registry

from mmvtr.datasets.files import is_file_name
from mmvtr.names_code import code_entries, code_given, names_code
from mmvtr.registry import (
    DATASETS,
    FUNCTIONS,
    METRICS,
    MODELS,
    TASK_UTILS,
    TRANSFORMS,
    forget_pretrained,
    register_all_modules,
)

#: Where files that a model needs beside its weights lie in its folder.
FILES = 'files'
#: What these may be: nothing that could hold code.
TEXTS = ('.txt', '.json', '.csv', '.tsv')
#: Keys of a run that are nobody else's.
_OF_THE_RUN = ('work_dir', 'load_from', 'load_from_prefixes', 'resume', 'launcher')
_PLAIN = (str, int, float, bool, type(None))

# Of others, who cannot declare it themselves: a dotted name is imported, a file or URL is read.
names_code('resize_type')(RandomResize)
names_code('resize_type')(RandomChoiceResize)
names_code('checkpoint')(PretrainedInit)


def as_data(cfg: Config) -> tuple[dict[str, Any], dict[str, Path]]:
    """A config in types that json knows, and the files that it needs.

    Pretrained weights are forgotten, as the checkpoint holds them, and so is where the run was.  A
    file that the model or the pipelines name (a key that ends in ``_file``) is named by its place
    in the folder that is written.

    Returns:
        The config, and the files by that place: ``{'files/vocab.txt': Path(...)}``.

    Raises:
        FileNotFoundError: such a file is missing.
        ValueError: a value that json cannot hold, a component that is not registered, a config
            without a test set, a file that is no text, or two of one name.
    """
    data = _plain(cfg.to_dict(), '')
    for key in _OF_THE_RUN:
        data.pop(key, None)
    _require_parts(data, cfg.filename or 'the config')
    forget_pretrained(data['model'])
    refuse_code(data, cfg.filename or 'the config')
    files: dict[str, Path] = {}
    for where, entry, key in _file_keys(data):
        source = Path(entry[key])
        if not source.is_file():
            raise FileNotFoundError(f'{where} names {str(source)[-200:]}, which does not exist')
        if source.suffix not in TEXTS:
            raise ValueError(
                f'{where} names {str(source)[-150:]}: a file of text expected, {", ".join(TEXTS)}'
            )
        place = f'{FILES}/{re.sub(r"[^a-zA-Z0-9_.-]", "_", source.name)}'
        if files.setdefault(place, source).resolve() != source.resolve():
            raise ValueError(
                f'{where}: {str(source)[-150:]} and {str(files[place])[-150:]} have one name; '
                'give one of them another'
            )
        entry[key] = place
    return data, files


def from_data(data: Any, folder: Path, *, name: str) -> Config:
    """The config that :func:`as_data` made, with the files of its folder.

    Args:
        data: as json gives it.
        folder: where it lies.
        name: what error messages call it.

    Raises:
        FileNotFoundError: a file that it needs is missing.
        ValueError: it is no config of a retriever, or asks for code (:func:`refuse_code`).
    """
    if not isinstance(data, dict):
        raise ValueError(f'{name}: expected a config, found a {type(data).__name__}')
    data = copy.deepcopy(data)
    _require_parts(data, name)
    for where, entry, key in _file_keys(data):
        if not is_file_name(entry[key]):
            raise ValueError(
                f'{name}: {where} expected a file of the folder, found {entry[key][:80]!r}'
            )
        path = folder / entry[key]
        if not path.is_file():
            raise FileNotFoundError(f'{name}: {where} names {entry[key]}, which is missing')
        entry[key] = str(path)
    return as_config(data, name)


def as_config(data: Mapping[str, Any], name: str) -> Config:
    """The config of a retriever that somebody else may have written, of which nothing was run.

    Args:
        data: as json gives it.
        name: what error messages call it.

    Raises:
        ValueError: it is no config of a retriever, or asks for code (:func:`refuse_code`).
    """
    _require_parts(data, name)
    try:
        cfg = Config(dict(data))
    except KeyError as error:  # a name that mmengine keeps for itself
        raise ValueError(f'{name}: {str(error.args[0])[:200]}') from error
    refuse_code(data, name)
    return cfg


def refuse_code(data: Mapping[str, Any], name: str) -> None:
    """See that what is built of a config is registered, and that it names and loads no code.

    Args:
        data: a config, of which ``model`` and ``test_dataloader`` are built, and searched for
            components; keys that load code are searched for in all of it.
        name: what error messages call it.

    Raises:
        ValueError: it inherits from another file, imports a module that is not imported yet, names
            a component that no registry has, a scope that is not known, an argument that is
            declared to name code, a key that loads it (``trust_remote_code``) or a file of it.
    """
    if '_base_' in data:
        raise ValueError(f'{name} inherits from {str(data["_base_"])[:80]}: a whole one expected')
    imports = data.get('custom_imports') or {}
    modules = imports.get('imports') if isinstance(imports, dict) else imports
    modules = [modules] if isinstance(modules, str) else modules or []
    if not isinstance(modules, (list, tuple)):
        raise ValueError(f'{name}: custom_imports expected modules, found {str(modules)[:80]}')
    for module in modules:
        if str(module).split('.')[0] != 'mmvtr' and str(module) not in sys.modules:
            raise ValueError(
                f'{name} needs the module {str(module)[:80]!r}, which is code: look at it, and '
                'import it before'
            )
    register_all_modules(init_default_scope=False)
    loader = data['test_dataloader']
    scopes = {node.scope for node in _nodes(MODELS)}
    asked = [(name, data.get('default_scope', 'mmvtr'))]
    for place, part in [('model', data['model']), ('test_dataloader', loader)]:
        asked += [(f'{name}: {w}', x['_scope_']) for w, x in _walk(part, place) if '_scope_' in x]
    for where, scope in asked:
        if (
            not isinstance(scope, str) or scope not in scopes
        ):  # mmengine would import SCOPE.registry
            raise ValueError(f'{where} is of the scope {str(scope)[:80]!r}: not known here')
    parts = (
        ('model', (MODELS, WEIGHT_INITIALIZERS), data['model']),
        ('test_dataloader.collate_fn', (FUNCTIONS,), loader.get('collate_fn')),
        *((p, (TRANSFORMS,), loader['dataset'].get(p)) for p in _PIPELINES),
    )
    for place, registries, part in parts:
        known = _names(*registries)
        for where, found in _types(part, place):
            if not isinstance(found, str) or found not in known:
                raise ValueError(
                    f'{name}: {where} is {str(found)[:80]!r}, which is no registered component of '
                    'this version; one of another project is registered when its module is imported'
                )
        _refuse_code_arguments(part, f'{name}: {place}', known)
    _refuse_code_arguments(data, name, {})  # of no component: keys alone


def _refuse_code_arguments(part: Any, place: str, known: Mapping[str, list[Any]]) -> None:
    """See that no dict of a part names or loads code.

    Args:
        part: of a config.
        place: what error messages call it.
        known: components by name; one without declarations may have the name, too.

    Raises:
        ValueError: one does (says where).
    """
    for where, entry in _walk(_listed(part or []), place):
        kind = entry.get('type')
        components = known.get(kind, []) if isinstance(kind, str) else []
        given = [key for component in components for key in code_given(component, entry)]
        for key in [*given, *code_entries(entry)]:
            raise ValueError(
                f'{where}.{key} is {repr(entry[key])[:80]}, by which code is named or loaded, and '
                'this config may be of somebody else: write a config of your own with it, or give '
                'the model in code'
            )


def refuse_unregistered(data: Mapping[str, Any], name: str) -> None:
    """See that a dataset's config asks for registered components only, whoever has written it.

    Args:
        data: the config.
        name: what error messages call it.

    Raises:
        ValueError: a component that no registry has, a scope that is not known, or what names or
            loads code, as of :func:`refuse_code`.
    """
    register_all_modules(init_default_scope=False)
    known = _names(DATASETS, TASK_UTILS, TRANSFORMS, FUNCTIONS, METRICS)
    scopes = {node.scope for node in _nodes(DATASETS)}
    for where, part in _walk(_listed(data), name):
        for key, allowed in (('type', known), ('_scope_', scopes)):
            found = part.get(key)
            if found is not None and (not isinstance(found, str) or found not in allowed):
                raise ValueError(
                    f'{where}.{key} is {str(found)[:80]!r}, which is not registered here; one of '
                    'another project is registered when its module is imported'
                )
    _refuse_code_arguments(data, name, known)


def _listed(value: Any) -> Any:
    """The same with lists for tuples, which configs have as well."""
    if isinstance(value, dict):
        return {key: _listed(x) for key, x in value.items()}
    return [_listed(x) for x in value] if isinstance(value, (list, tuple)) else value


_PIPELINES = ('video_pipeline', 'text_pipeline')


def _require_parts(data: Mapping[str, Any], name: str) -> None:
    """A model, and how it reads texts and videos."""
    for path in ('model', 'test_dataloader', 'test_dataloader.dataset'):
        part: Any = data
        for key in path.split('.'):
            part = part.get(key) if isinstance(part, dict) else None
        if not isinstance(part, dict):
            raise ValueError(
                f'{name} has no {path}: a retriever is a model, and a test_dataloader whose '
                'dataset says how texts and videos are read'
            )


def _plain(value: Any, where: str) -> Any:
    if isinstance(value, dict):
        strange = [key for key in value if not isinstance(key, str)]
        if strange:
            raise ValueError(
                f'{where or "config"}: json has no key {str(strange[0])[:80]}, only strings'
            )
        return {key: _plain(x, f'{where}.{key}' if where else key) for key, x in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(x, f'{where}[{i}]') for i, x in enumerate(value)]
    if isinstance(value, Path):
        return str(value)
    if type(value) not in _PLAIN:
        raise ValueError(
            f'{where}: expected plain data, found a {type(value).__name__} ({str(value)[:80]})'
        )
    return value


def _walk(value: Any, where: str) -> Iterator[tuple[str, dict]]:
    """All dicts in a value."""
    if isinstance(value, dict):
        yield where, value
        items = value.items()
    else:
        items = enumerate(value) if isinstance(value, list) else ()
    for key, x in items:
        if isinstance(x, (dict, list)):
            yield from _walk(x, f'{where}.{key}' if isinstance(key, str) else f'{where}[{key}]')


def _types(part: Any, place: str) -> Iterator[tuple[str, Any]]:
    for where, entry in _walk(part or [], place):
        if 'type' in entry:
            yield f'{where}.type', entry['type']


def _file_keys(data: dict[str, Any]) -> Iterator[tuple[str, dict, str]]:
    """Where a file is named: the place in words, the dict and its key."""
    dataset = data['test_dataloader']['dataset']
    for place, part in [('model', data['model']), *((p, dataset.get(p)) for p in _PIPELINES)]:
        for where, entry in _walk(part or [], place):
            for key, value in entry.items():
                if key.endswith('_file') and isinstance(value, str):
                    yield f'{where}.{key}', entry, key


def _nodes(registry: Registry) -> Iterator[Registry]:
    """All registries of a tree."""
    queue = [registry.root]
    while queue:
        yield (node := queue.pop())
        queue.extend(node.children.values())


def _names(*registries: Registry) -> dict[str, list[Any]]:
    """All that registries find without an import, by names with and without their scopes."""
    names: dict[str, list[Any]] = {}
    for node in (node for registry in registries for node in _nodes(registry)):
        node.import_from_location()
        for name, component in node.module_dict.items():
            for known in (name, f'{node.scope}.{name}'):
                names.setdefault(known, []).append(component)
    return names
