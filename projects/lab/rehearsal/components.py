"""Components that real configs have, and rehearsals that trained each to its schedule's end."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Iterable, Iterator, Mapping, NamedTuple

import yaml
from mmengine.config import Config
from mmengine.registry import Registry

from mmvtr import registry
from mmvtr.registry import SCOPE, bare_name
from mmvtr.utils import config_folder, load_config
from rehearsal.report import READ
from simulation.simulated import simulate
from simulation.simulated_model import NARROW, Unknown


class Components(NamedTuple):
    """Names of registered components.

    Attributes:
        configs: by component, names of the configs whose training or test has it.
        replaced: those that a rehearsal replaces: files, their readers, pretrained towers.
        unused: those that no real config names.
    """

    configs: dict[str, list[str]]
    replaced: list[str]
    unused: list[str]


def components_of(cfg: Config) -> set[str]:
    """Return the registered components in what a rehearsal of a config trains and tests.

    Raises:
        Unknown: the config cannot be rehearsed.
    """
    return _named(simulate(cfg, NARROW).cfg)


def all_components(paths: Iterable[Path]) -> Components:
    """Return the components of configs that can be rehearsed."""
    found: dict[str, list[str]] = {}
    everything: set[str] = set()
    for path in paths:
        cfg = load_config(str(path))
        try:
            trained = components_of(cfg)
        except Unknown:  # nothing is trained
            continue
        everything |= _named(cfg)
        for name in trained:
            found.setdefault(name, []).append(path.stem)
    unused = registered() - everything
    return Components(found, sorted(everything - found.keys()), sorted(unused))


def paper_configs() -> dict[str, list[str]]:
    """Return the papers whose tables have a config, by its name."""
    rows = yaml.safe_load((config_folder() / 'papers.yml').read_text(encoding='utf-8'))
    found: dict[str, list[str]] = {}
    for row in rows:
        for name in row['configs']:
            if row['paper'] not in found.setdefault(name, []):
                found[name].append(row['paper'])
    return found


def rehearsals_of(results: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return by component the configs whose rehearsal trained it to the end of the schedule."""
    found: dict[str, list[str]] = {}
    for one in results:
        for name in one['components'] if one['steps'] == one['total'] else ():
            found.setdefault(name, []).append(one['config'])
    return found


def section(found: Components, results: Iterable[Mapping[str, Any]]) -> str:
    """Return the page's section on components, in markdown."""
    results, papers = rehearsals_of(results), paper_configs()
    rows = []
    for name, configs in sorted(found.configs.items()):
        having = {paper for config in configs for paper in papers.get(config, ())}
        said = 'all five' if len(having) == 5 else ', '.join(sorted(having))
        trained = ', '.join(f'`{config}`' for config in results.get(name, [])[:2]) or '**none**'
        rows.append(f'| `{name}` | {said} | {len(configs)} | {trained} |')
    done = sum(name in results for name in found.configs)
    return HEAD.format(
        done=done,
        all=len(found.configs),
        rows='\n'.join(rows),
        replaced=', '.join(f'`{name}`' for name in found.replaced),
        unused=', '.join(f'`{name}`' for name in found.unused),
    )


HEAD = """
## Components

{done} of the {all} registered components that real configs train or test with were rehearsed to
the end of a schedule. *papers*: those of the five whose tables have a config with it. At most two
rehearsals are named.

| component | papers | configs | rehearsed in |
|---|---|---|---|
{rows}

A rehearsal replaces files, their readers and pretrained towers: {replaced}.

No real config names {unused}.
"""


def registered() -> set[str]:
    """Return the names of all components that mmvtr itself registers."""
    kinds = [kind for kind in vars(registry).values() if isinstance(kind, Registry)]
    for kind in kinds:
        kind.import_from_location()
    return {
        name
        for kind in kinds
        if kind.scope == SCOPE
        for name, component in kind.module_dict.items()
        if component.__module__.partition('.')[0] == SCOPE
    }


def _named(cfg: Config) -> set[str]:
    """Return the registered components in the parts of a config that a training or test reads."""
    parts = {key: part for key, part in cfg.to_dict().items() if key in (*READ, 'test_evaluator')}
    known = registered()
    return {name for name in _types(parts) if name in known}


def _types(part: Any) -> Iterator[str]:
    """Yield the names of the components in a part of a config."""
    if isinstance(part, dict):
        for key in ('type', 'constructor'):
            yield bare_name(part.get(key))
        part = [*part.values()]
    if isinstance(part, (list, tuple)):
        for inner in part:
            yield from _types(inner)
