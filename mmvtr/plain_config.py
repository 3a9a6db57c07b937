"""Configs as data: those that are written hold no code, those that are read can load none.

A config names components by their registered names, but mmengine imports any dotted name: it would
call ``dict(type='os.system', command=...)``.  So a config from elsewhere passes :func:`refuse_code`
before anything is built from it; a component's author declares the arguments that name or load code
(:func:`mmvtr.names_code.names_code`).
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

from mmvtr.datasets.folders import is_file_name
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

#: Subfolder of a model folder for files that the model needs beside its weights.
FILES = 'files'
#: Allowed suffixes of these files: nothing that could hold code.
TEXTS = ('.txt', '.json', '.csv', '.tsv')
#: Keys that concern only the run itself.
_OF_THE_RUN = ('work_dir', 'load_from', 'load_from_prefixes', 'resume', 'launcher')
_PLAIN = (str, int, float, bool, type(None))

# Components of other packages, which cannot declare it themselves: a dotted name is imported, a
# file or URL is read.
names_code('resize_type')(RandomResize)
names_code('resize_type')(RandomChoiceResize)
names_code('checkpoint')(PretrainedInit)


def as_data(cfg: Config) -> tuple[dict[str, Any], dict[str, Path]]:
    """Convert a config to json types and list the files that it needs.

    Pretrained weights are dropped, as the checkpoint holds them, and so are the run's own keys
    (such as ``work_dir``).  A file that the model or the pipelines name (a key that ends in
    ``_file``) is renamed to its path in the folder that is written.

    Returns:
        The config, and that path -> source file: ``{'files/vocab.txt': Path(...)}``.

    Raises:
        FileNotFoundError: such a file is missing.
        ValueError: a value that json cannot hold, a component that is not registered, a config
            without a test set, a file that is not text, or two files of one name.
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
    """Return the config that :func:`as_data` made, with paths to the files of its folder.

    Args:
        data: the config as read from json.
        folder: the folder of the files.
        name: its name in error messages.

    Raises:
        FileNotFoundError: a needed file is missing.
        ValueError: it is not a retriever's config, or loads code (:func:`refuse_code`).
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
    """Return a retriever's config that may be from somebody else, running none of it.

    Args:
        data: the config as read from json.
        name: its name in error messages.

    Raises:
        ValueError: it is not a retriever's config, or loads code (:func:`refuse_code`).
    """
    _require_parts(data, name)
    try:
        cfg = Config(dict(data))
    except KeyError as error:  # a name that mmengine reserves
        raise ValueError(f'{name}: {str(error.args[0])[:200]}') from error
    refuse_code(data, name)
    return cfg


def refuse_code(data: Mapping[str, Any], name: str) -> None:
    """Raise ValueError unless a config uses registered components only and loads no code.

    Args:
        data: a config, whose ``model`` and ``test_dataloader`` are built and are searched for
            components; keys that load code are searched for in the whole config.
        name: its name in error messages.

    Raises:
        ValueError: the config inherits from another file, imports a module that is not imported
            yet, or has an unregistered component, an unknown scope, an argument that is declared to
            name code, a key that loads code (``trust_remote_code``) or a code file.
    """
    if '_base_' in data:
        raise ValueError(
            f'{name} inherits from {str(data["_base_"])[:80]}: a config without _base_ expected'
        )
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
            raise ValueError(f'{where} has the scope {str(scope)[:80]!r}, which is not known here')
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
                    f'{name}: {where} is {str(found)[:80]!r}, which is not a registered component '
                    'of this version; one of another project is registered when its module is '
                    'imported'
                )
        _refuse_code_arguments(part, f'{name}: {place}', known)
    _refuse_code_arguments(data, name, {})  # belongs to no component: keys alone


def _refuse_code_arguments(part: Any, place: str, known: Mapping[str, list[Any]]) -> None:
    """Raise ValueError if any dict in a part names or loads code.

    Args:
        part: part of a config.
        place: its name in error messages.
        known: name -> the components that have it, with or without declarations.

    Raises:
        ValueError: a dict does (says where).
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
    """Raise ValueError unless a dataset's config uses registered components only, whoever wrote it.

    Args:
        data: the config.
        name: its name in error messages.

    Raises:
        ValueError: an unregistered component, an unknown scope, or an entry that names or loads
            code, as in :func:`refuse_code`.
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
    """Return the value with its tuples, which configs also contain, as lists."""
    if isinstance(value, dict):
        return {key: _listed(x) for key, x in value.items()}
    return [_listed(x) for x in value] if isinstance(value, (list, tuple)) else value


_PIPELINES = ('video_pipeline', 'text_pipeline')


def _require_parts(data: Mapping[str, Any], name: str) -> None:
    """Raise ValueError unless the config has a model and says how texts and videos are read."""
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
    """Yield all dicts in a value, each with its path."""
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
    """Yield where a file is named: the path in words, the dict and its key."""
    dataset = data['test_dataloader']['dataset']
    for place, part in [('model', data['model']), *((p, dataset.get(p)) for p in _PIPELINES)]:
        for where, entry in _walk(part or [], place):
            for key, value in entry.items():
                if key.endswith('_file') and isinstance(value, str):
                    yield f'{where}.{key}', entry, key


def _nodes(registry: Registry) -> Iterator[Registry]:
    """Yield all registries of a tree."""
    queue = [registry.root]
    while queue:
        yield (node := queue.pop())
        queue.extend(node.children.values())


def _names(*registries: Registry) -> dict[str, list[Any]]:
    """Return name -> components in the registries, with and without scopes, without an import."""
    names: dict[str, list[Any]] = {}
    for node in (node for registry in registries for node in _nodes(registry)):
        node.import_from_location()
        for name, component in node.module_dict.items():
            for known in (name, f'{node.scope}.{name}'):
                names.setdefault(known, []).append(component)
    return names
