"""Configs of others as data: a new config is made of what is allowed, and nothing else is kept.

Allowed are a model, the steps that read a video and a text, and a few numbers.  A component is a
dict whose ``type`` is a name in the registries' own tables, and plain arguments; components inside
of it are such dicts again.  Nothing is imported, and no name is resolved in another way.  The
config of a model folder, a repository or a gallery is read here, and a folder's is written here.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Callable, Iterator, Optional

from mmengine.config import Config
from mmengine.registry import Registry

from mmvtr.registry import (
    FUNCTIONS,
    MODELS,
    SCOPE,
    TRANSFORMS,
    forget_pretrained,
    register_all_modules,
)

#: Subfolder of a model folder for files that the model needs beside its weights.
FILES = 'files'
#: Allowed suffixes of these files: nothing that could hold code.
TEXTS = ('.txt', '.json', '.csv', '.tsv')
#: Maximum depth of an argument.
DEPTH = 16
#: Scope that mmengine, mmcv and projects without a scope share, and which of theirs are allowed.
ROOT = 'mmengine'
OF_ROOT = (
    'CenterCrop', 'Compose', 'ImageToTensor', 'KeyMapper', 'Normalize', 'Pad', 'RandomApply',
    'RandomChoice', 'RandomFlip', 'RandomGrayscale', 'Resize', 'ToTensor', 'TransformBroadcaster',
)  # fmt: skip
PIPELINES = ('video_pipeline', 'text_pipeline')
_PLAIN = (str, int, float, bool, type(None))


def as_data(cfg: Config) -> tuple[dict[str, Any], dict[str, Path]]:
    """Return what :func:`from_data` reads of a config, in json types, and the files that it needs.

    Pretrained weights are dropped, as the checkpoint holds them.  A file that a component names (an
    argument that ends in ``_file``) is renamed to its path in the folder that is written.

    Returns:
        The config, and that path -> source file: ``{'files/vocab.txt': Path(...)}``.

    Raises:
        FileNotFoundError: such a file is missing.
        ValueError: a config without a model or a test set, a component that is not registered, an
            argument that is not data, a file that is not text, or two files of one name.
    """
    files: dict[str, Path] = {}

    def placed(where: str, given: str) -> str:
        source = _text_file(where, given)
        place = f'{FILES}/{re.sub(r"[^a-zA-Z0-9_.-]", "_", source.name)}'
        if files.setdefault(place, source).resolve() != source.resolve():
            raise ValueError(
                f'{where}: {str(source)[-150:]} and {str(files[place])[-150:]} have one name; '
                'give one of them another'
            )
        return place

    data = _Reader(cfg.filename or 'the config', placed).config(cfg.to_dict())
    forget_pretrained(data['model'])
    return data, files


def from_data(data: Any, folder: Optional[Path], *, name: str) -> Config:
    """Return a retriever's config from data that may be of somebody else, running none of it.

    Args:
        data: the config as read from json.
        folder: the folder that holds all files which the config names (:func:`as_data`); None: it
            names text files by their paths here.
        name: its name in error messages.

    Raises:
        FileNotFoundError: a needed file is missing.
        ValueError: it is not a retriever's config, or has what is not allowed (says where).
    """

    def found(where: str, given: str) -> str:
        if folder is None:
            return str(_text_file(where, given))
        if not re.fullmatch(rf'{FILES}/[a-zA-Z0-9_.-]+', given):
            raise ValueError(f'{where} expected a file of the folder, found {given[:80]!r}')
        return str(_text_file(where, str(folder / given)))

    return Config(_Reader(name, found).config(data))


def _text_file(where: str, given: str) -> Path:
    """Return the text file that an argument names."""
    path = Path(given)
    if not path.is_file():
        raise FileNotFoundError(f'{where} names {given[-200:]}, which is missing')
    if path.suffix not in TEXTS:
        raise ValueError(
            f'{where} names {given[-150:]}: a file of text expected, {", ".join(TEXTS)}'
        )
    return path


class _Reader:
    """Reader of one config, which copies what is allowed and raises ValueError for the rest.

    Args:
        name: the config's name in error messages.
        file: returns the path to write for an argument that names a file; gets its place and value.
    """

    def __init__(self, name: str, file: Callable[[str, str], str]) -> None:
        register_all_modules(init_default_scope=False)
        self.name, self.file = name, file
        self.scopes = {node.scope for node in _nodes(MODELS)}

    def config(self, data: Any) -> dict[str, Any]:
        """Return the config with its allowed keys only."""
        for path in ('model', 'test_dataloader', 'test_dataloader.dataset'):
            part: Any = data
            for key in path.split('.'):
                part = part.get(key) if isinstance(part, dict) else None
            if not isinstance(part, dict):
                raise ValueError(
                    f'{self.name} has no {path}: a retriever is a model, and a test_dataloader '
                    'whose dataset says how texts and videos are read'
                )
        scope = self._scope(data.get('default_scope') or SCOPE, 'default_scope')
        scopes = (scope, SCOPE, ROOT)
        stated, dataset = data['test_dataloader'], {}
        for key in PIPELINES:
            steps = stated['dataset'].get(key)
            if not isinstance(steps, (list, tuple, type(None))):
                self._refuse(key, 'a list of steps', steps)
            if steps is not None:
                numbered = enumerate(steps)
                dataset[key] = [
                    self.part(x, f'{key}[{i}]', TRANSFORMS, scopes) for i, x in numbered
                ]
        if not dataset:  # sets of several have them inside
            raise ValueError(
                f'{self.name} has no {" or ".join(PIPELINES)} in test_dataloader.dataset: the '
                'test set must be one set, whose pipelines say how texts and videos are read'
            )
        loader: dict[str, Any] = dict(dataset=dataset)
        if stated.get('collate_fn') is not None:
            where = 'test_dataloader.collate_fn'
            loader['collate_fn'] = self.part(stated['collate_fn'], where, FUNCTIONS, scopes)
        for key, least, most in (('batch_size', 1, 2**31), ('num_workers', 0, os.cpu_count() or 1)):
            if stated.get(key) is not None:
                loader[key] = min(self._count(stated[key], f'test_dataloader.{key}', least), most)
        allowed = dict(default_scope=scope, test_dataloader=loader)
        allowed['model'] = self.part(data['model'], 'model', MODELS, scopes)
        chance = data.get('randomness')
        if isinstance(chance, dict) and chance.get('seed') is not None:
            seed = self._count(chance['seed'], 'randomness.seed', 0)
            allowed['randomness'] = dict(seed=seed % 2**63)
        return allowed

    def part(
        self, value: Any, where: str, registry: Registry, scopes: tuple[str, ...], depth: int = 0
    ) -> dict[str, Any]:
        """Return a component's config: its full name, and its arguments.

        Args:
            value: what the config says.
            where: its place in the config.
            registry: where its name and those of components inside of it are looked up.
            scopes: scopes of a name without one, in this order.
            depth: number of values around it.
        """
        if not isinstance(value, dict):
            self._refuse(where, 'a dict with the type of a component', value)
        scopes = self._inner(value, where, scopes)
        kind, component = self._component(value.get('type'), f'{where}.type', registry, scopes)
        part_cfg = dict(type=kind)
        for key, given in value.items():
            if key in ('type', '_scope_', 'init_cfg'):  # the weights are those of the checkpoint
                continue
            if key in getattr(component, 'not_data', ()):
                if given not in (None, False):
                    raise ValueError(
                        f'{self.name}: {where}.{key} is {repr(given)[:80]}, by which code is named '
                        'or loaded, and this config may be of somebody else: write a config of '
                        'your own with it, or give the model in code'
                    )
                continue
            part_cfg[key] = self._item(key, given, where, registry, scopes, depth)
        return part_cfg

    def _item(self, key: Any, value: Any, where: str, *context: Any) -> Any:
        """Return one value of a dict."""
        if not isinstance(key, str):
            self._refuse(where, 'strings as keys', key)
        where = f'{where}.{key[:80]}'
        if key.endswith('_file') and isinstance(value, str):
            return self.file(f'{self.name}: {where}', value)
        return self._argument(value, where, *context)

    def _argument(
        self, value: Any, where: str, registry: Registry, scopes: tuple[str, ...], depth: int
    ) -> Any:
        if type(value) in _PLAIN:
            return value
        if isinstance(value, Path):
            return str(value)
        context = (registry, scopes, depth + 1)
        if depth == DEPTH or not isinstance(value, (dict, list, tuple)):
            self._refuse(where, f'plain data of at most {DEPTH} levels', value)
        if isinstance(value, dict) and 'type' in value:
            return self.part(value, where, *context)
        if isinstance(value, dict):
            context = (registry, self._inner(value, where, scopes), depth + 1)
            items = ((key, x) for key, x in value.items() if key != '_scope_')
            return {key: self._item(key, x, where, *context) for key, x in items}
        inner = [x for row in value if isinstance(row, (list, tuple)) for x in row]
        if not all(type(x) in (int, float, bool) for x in inner):
            self._refuse(where, 'lists inside of a list to hold numbers only', value)
        return [self._argument(x, f'{where}[{i}]', *context) for i, x in enumerate(value)]

    def _inner(self, value: dict, where: str, scopes: tuple[str, ...]) -> tuple[str, ...]:
        """Return the scopes for names inside of a dict: mmengine writes ``_scope_`` into some."""
        scope = value.get('_scope_')
        return scopes if scope is None else (self._scope(scope, f'{where}._scope_'), ROOT, *scopes)

    def _scope(self, value: Any, where: str) -> str:
        if not isinstance(value, str) or value not in self.scopes:
            self._refuse(where, 'a scope that is known here', value)
        return value

    def _component(
        self, kind: Any, where: str, registry: Registry, scopes: tuple[str, ...]
    ) -> tuple[str, Any]:
        """Return the full name of a component and the component, from the registries' tables."""
        own_scope, dot, name = kind.rpartition('.') if isinstance(kind, str) else ('', '', None)
        nodes = {node.scope: node for node in _nodes(registry)}
        for scope in (own_scope,) if dot else scopes:
            if scope not in nodes:
                continue
            nodes[scope].import_from_location()
            part = nodes[scope].module_dict.get(name)
            if part is not None and (scope != ROOT or name in OF_ROOT or _of_a_project(part)):
                return f'{scope}.{name}', part
        raise ValueError(
            f'{self.name}: {where} is {str(kind)[:80]!r}, which is not a registered component of '
            'this version; one of another project is registered when its module is imported'
        )

    def _count(self, value: Any, where: str, least: int) -> int:
        if type(value) is not int or value < least:
            self._refuse(where, f'a whole number of at least {least}', value)
        return value

    def _refuse(self, where: str, expected: str, value: Any) -> None:
        shown = f'a {type(value).__name__} ({str(value)[:80]!r})'
        raise ValueError(f'{self.name}: {where} expected {expected}, found {shown}')


def _of_a_project(component: Any) -> bool:
    """Return whether a component in mmengine's scope is of none of the frameworks that fill it."""
    return component.__module__.partition('.')[0] not in ('mmengine', 'mmcv', 'torch')


def _nodes(registry: Registry) -> Iterator[Registry]:
    """Yield all registries of a tree."""
    queue = [registry.root]
    while queue:
        yield (node := queue.pop())
        queue.extend(node.children.values())
