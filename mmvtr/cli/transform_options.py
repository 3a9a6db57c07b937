"""Command-line options of test-time transforms, from the transforms' table."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Callable, Iterable, Mapping, Sequence, Union

from mmvtr.cli.hints import COMPONENTS
from mmvtr.functional.transforms.transform_table import (
    MODEL,
    TRANSFORMS,
    checked_options,
    units,
    with_model,
)

#: Option -> its short form.
SHORT = dict(iterations='--iters')


def choices(transforms: Sequence[str]) -> tuple[str, ...]:
    """Return the values of ``--transform``: 'auto' and these names.

    A transform of another project that is named on the command line is imported before: its package
    announces it as an entry point ``mmvtr.components``.
    """
    words = {part for word in sys.argv[1:] for part in word.split('=')}
    for entry in entry_points(group=COMPONENTS):
        if entry.name in words:
            import_module(entry.module)
    return ('auto', *transforms)


def add_options(parser: argparse.ArgumentParser, transforms: Iterable[str]) -> None:
    """Add ``--temperature``, ``--marginal-penalty`` and all other numeric options of transforms.

    Args:
        parser: a tool's parser.
        transforms: names of the transforms whose options are added.
    """
    defaults: dict[str, dict[str, Any]] = {}
    kinds: dict[str, Callable[[str], Any]] = {}
    for transform in transforms:
        for option in TRANSFORMS[transform].described:
            kind = next((x for x in (int, float) if x.__name__ in option.type), None)
            if kind is None:
                continue
            kinds[option.name] = _temperature if option.name == 'temperature' else kind
            needed = option.name in TRANSFORMS[transform].needs
            defaults.setdefault(option.name, {})[transform] = 'needed' if needed else option.default
    meanings = units()
    for name, of in defaults.items():
        words = [f'--{name.replace("_", "-")}', *filter(None, [SHORT.get(name)])]
        text = ', '.join(f'{transform}: {value}' for transform, value in of.items())
        unit = meanings[name].replace('%', '%%')
        text = text.replace('%', '%%')
        metavar = 'N' if kinds[name] is int else 'X'
        parser.add_argument(
            *words, dest=name, type=kinds[name], metavar=metavar, help=f'{unit} ({text})'
        )


def options_given(args: argparse.Namespace, transforms: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return the given options of each transform, by the transform's name.

    Args:
        args: parsed by a parser with :func:`add_options`.
        transforms: the requested transforms, ``'auto'`` among them.

    Raises:
        ValueError: an option that none of them takes, or one that is missing or out of range.
    """
    chosen, given = list(dict.fromkeys(transforms)), numbers_given(args)
    for name in given:
        takers = [x for x, kind in TRANSFORMS.items() if name in kind.options]
        if not {*takers} & {*chosen}:
            names = ' and '.join(chosen) or 'no transform'
            raise ValueError(
                f'--{name.replace("_", "-")} belongs to {", ".join(takers)}; got {names}'
            )
    named = [x for x in chosen if x != 'auto']  # which has no options
    options_of = {x: _of(given, TRANSFORMS[x].options) for x in named}
    for transform, options in options_of.items():
        checked_options(transform, with_model(options))
    return {x: options_of.get(x, {}) for x in chosen}


def numbers_given(args: argparse.Namespace) -> dict[str, Any]:
    """Return the options that were given, by name, for all transforms together."""
    return {name: x for name in units() if (x := getattr(args, name, None)) is not None}


def _of(given: Mapping[str, Any], known: Iterable[str]) -> dict[str, Any]:
    return {name: x for name, x in given.items() if name in known}


def _temperature(word: str) -> Union[float, str]:
    """Return a number, or a text: a share such as '20%', or 'model'."""
    return word if word.endswith('%') or word == MODEL else float(word)
