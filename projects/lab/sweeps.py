"""Sweeps: trainings of one config that differ in a few options, and their ablation table.

A sweep is a config file (``configs/sweeps/``)::

    paper, table, section = 'DVTR', 'Tab. XIII', 'VI-D'
    about = 'temperature of the contrastive loss'
    config = 'dvtr_hit_msvd.py'
    metrics = {'retrieval/rsum': 'rsum'}
    runs = [
        dict(name='tau .05', options={'model.temperature.init': 0.05}, printed=[321.6]),
        dict(name='tau .07', printed=[323.0]),
    ]

A run trains ``config`` (its own, if it has one) with its ``options``. With ``of='NAME'`` it trains
nothing: it tests the checkpoint of that run, or of several (a list) together, with its options;
without options it reads that run's results whose keys begin with ``prefix`` (``'member_0/'``). An
option that begins with ``'{NAME}'`` gets the folder of an earlier run of the same seed, as in a
config's ``before``: ``'{half0}/best.pth'``. ``seeds`` of a run is added to its seeds; ``printed``
holds the paper's values of the metrics, None = not printed. Names that begin with an underscore are
ignored.
"""

from __future__ import annotations

import re
import statistics
from pathlib import Path
from typing import Any, Iterable, Mapping, NamedTuple, Optional, Sequence, Union

from mmengine.config import Config

from mmvtr.cli.hints import nearest
from mmvtr.cli.values import part, written
from mmvtr.engine.before import named, names_in
from mmvtr.engine.checks.config_checks import check_config
from mmvtr.engine.checks.metric_checks import is_reported, reported_by_config
from mmvtr.engine.checks.schedule_checks import accumulated
from mmvtr.engine.hooks.members import fuse_config
from mmvtr.engine.loops.facts import BEST, differing
from mmvtr.evaluation.results import Results, refuse_other_test
from mmvtr.utils import config_folder, load_config

#: Keys of a sweep and of a run.
NEEDED, ALLOWED = ('paper', 'table', 'section', 'about', 'config', 'metrics', 'runs'), ('note',)
OF_RUN = ('name', 'config', 'options', 'of', 'prefix', 'seeds', 'printed')


class Run(NamedTuple):
    """A row of an ablation.

    Attributes:
        name: the row's name.
        config: file to train.
        options: config changes, as for ``--cfg-options``.
        of: names of the runs whose checkpoints are tested; empty if the run is trained.
        prefix: prefix of the keys of its results.
        seeds: added to every seed.
        printed: the paper's numbers, one per metric.
    """

    name: str
    config: str
    options: dict[str, Any]
    of: tuple[str, ...] = ()
    prefix: str = ''
    seeds: int = 0
    printed: tuple[Optional[float], ...] = ()

    @property
    def folder(self) -> str:
        """Return the name as a folder name."""
        return re.sub(r'[^\w.=+-]+', '_', self.name).strip('_')

    def written(self) -> list[str]:
        """Return the options as words for a command line."""
        return [f'{key}={written(value)}' for key, value in self.options.items()]


class Sweep(NamedTuple):
    """An ablation of a paper.

    Attributes:
        name: the stem of its file.
        paper, table, section: where the paper prints it.
        about: what varies.
        metrics: key of the results -> heading.
        runs: its rows.
        note: text below the table.
    """

    name: str
    paper: str
    table: str
    section: str
    about: str
    metrics: dict[str, str]
    runs: tuple[Run, ...]
    note: str = ''


def sweep_names() -> list[str]:
    """Return the names of the package's own sweeps, sorted."""
    return sorted(path.stem for path in (config_folder() / 'sweeps').glob('*.py'))


def read_sweep(
    file: Union[str, Path], *, config: Optional[str] = None, options: Mapping[str, Any] = {}
) -> Sweep:
    """Read a sweep from its file.

    Args:
        file: path of a sweep, or the name of one of the package's own.
        config: config that every run trains in place of the sweep's (e.g. one with planted data).
        options: options of every run that is trained or tested; a run's own options override them.

    Raises:
        ValueError: no such file, a key that is missing, unknown or of another type, two runs of one
            name, or a run ``of`` one that does not precede it; names it.
    """
    path = Path(file)
    if not path.is_file():
        path = config_folder() / 'sweeps' / f'{path.stem}.py'
        if not path.is_file() or Path(file).parent != Path('.'):
            raise ValueError(f'no sweep {str(file)[:80]!r}; there are {", ".join(sweep_names())}')
    try:
        read = Config.fromfile(path, import_custom_modules=False).to_dict()
    except Exception as error:  # configs are code and can raise anything
        raise ValueError(f'{path}: {type(error).__name__}: {str(error)[:200]}') from error
    given = {key: value for key, value in read.items() if not key.startswith('_')}
    _check_keys(str(path), given, NEEDED, (*NEEDED, *ALLOWED))
    if not isinstance(given['metrics'], dict) or not given['metrics']:
        raise ValueError(f'{path}: metrics: key -> heading expected, got {given["metrics"]!r:.80}')
    if not isinstance(given['runs'], (list, tuple)) or not given['runs']:
        raise ValueError(f'{path}: runs: a list of dicts expected, got {given["runs"]!r:.80}')
    runs: list[Run] = []
    for number, run in enumerate(given['runs']):
        where = f'{path}: run {number}'
        if not isinstance(run, dict):
            raise ValueError(f'{where}: a dict expected, got {run!r:.80}')
        _check_keys(where, run, ('name',), OF_RUN)
        own = config if config is not None else run.get('config', given['config'])
        of = run.get('of', ())
        of = (of,) if isinstance(of, str) else tuple(of)
        printed = tuple(run.get('printed', ()))
        if printed and len(printed) != len(given['metrics']):
            raise ValueError(
                f'{where}: {len(printed)} printed numbers for {len(given["metrics"])} metrics'
            )
        made = Run(
            run['name'],
            _near_sweep(path, own),
            {}
            if len(of) == 1 and not run.get('options')
            else {**options, **run.get('options', {})},
            of,
            run.get('prefix', ''),
            run.get('seeds', 0),
            printed,
        )
        if made.folder in {other.folder for other in runs}:
            raise ValueError(f'{where}: a second run by the name {made.name[:80]!r}')
        before = {other.name for other in runs}
        unknown = [name for name in of if name not in before]
        if unknown:
            raise ValueError(f'{where}: of={unknown[0]!r:.80}: no run before it has that name')
        unknown = sorted(names_in(made.options) - before)
        if unknown:
            raise ValueError(f'{where}: no run before it has the name of {{{unknown[0][:80]}}}')
        runs.append(made)
    about = {key: given[key] for key in ('paper', 'table', 'section', 'about', 'metrics')}
    return Sweep(path.stem, **about, runs=tuple(runs), note=given.get('note', ''))


def with_folders(run: Run, folders: Mapping[str, str]) -> Run:
    """Return a run whose options have the folders of other runs in place of their names."""
    return run._replace(options=named(run.options, folders))


def needed_by(sweep: Sweep, names: Iterable[str]) -> set[str]:
    """Return the names of some runs, and of all whose checkpoints or files they read."""
    needed = {*names}
    for run in reversed(sweep.runs):
        if run.name in needed:
            needed |= {*run.of, *names_in(run.options)}
    return needed


def check_sweep(sweep: Sweep) -> None:
    """Raise SystemExit unless all runs' configs, options and metrics exist.

    Raises:
        SystemExit: names the config, the key, and close matches.
    """
    seen = set()
    for run in sweep.runs:
        shape = (run.config, run.prefix, run.of, *run.options)
        if shape in seen:  # differs in values only
            continue
        seen.add(shape)
        try:
            cfg = load_config(run.config, run.options)
        except SystemExit as error:
            raise SystemExit(f'{error} (sweep run {run.name!r:.60})') from error
        check_config(cfg, run.options)
        _check_options(run, cfg)
        _check_metrics(sweep, run)


def source_of(sweep: Sweep, run: Run) -> Run:
    """Return the run whose results a row reads: itself, or the run that it is ``of``."""
    if len(run.of) != 1 or run.options:
        return run
    return next(other for other in sweep.runs if other.name == run.of[0])


def checkpoint_name(run: Run, *, best_on_test: bool = False) -> str:
    """Return the checkpoint file that a training leaves for testing: the best, else the last."""
    cfg = load_config(run.config, run.options)
    chooses = cfg.get('val_dataloader') is not None and cfg.default_hooks.checkpoint.save_best
    if best_on_test or chooses:
        return BEST
    loop = cfg.train_cfg
    return f'epoch_{loop.max_epochs}.pth' if 'max_epochs' in loop else f'iter_{loop.max_iters}.pth'


def _check_metrics(sweep: Sweep, run: Run) -> None:
    """Raise SystemExit for a metric of the sweep that a run's test will not report."""
    source = source_of(sweep, run)
    cfg = load_config(source.config, source.options)
    if len(source.of) > 1:
        fuse_config(cfg, source.of)
    known = reported_by_config(cfg)
    for key in sweep.metrics:
        wanted = f'{run.prefix}{key}'
        if known is not None and not is_reported(wanted, known):
            raise SystemExit(
                f'error: sweep {sweep.name}: metrics: {wanted!r} of run {run.name!r:.60} is not '
                f'among the numbers of {source.config}{nearest(wanted, known, otherwise=known)}'
            )


def _check_options(run: Run, cfg: Config) -> None:
    """Raise SystemExit for an option in a part that the plain config does not have."""
    plain = load_config(run.config)
    shortcuts = cfg.get('shortcuts', {})
    for option in run.options:
        first = option.partition('.')[0]
        for key in [option.replace(first, full, 1) for full in shortcuts.get(first, [first])]:
            found: Any = plain
            for name in key.split('.')[:-1]:
                found = part(found, name)
                if found is None:
                    raise SystemExit(
                        f'error: sweep run {run.name!r:.60}: {run.config} has no {key}'
                    )


def row_of(run: Run, results: Mapping[str, float], metrics: Mapping[str, str]) -> dict[str, float]:
    """Return a run's own metrics out of all results; missing ones are left out."""
    keys = {key: f'{run.prefix}{key}' for key in metrics}
    return {key: float(results[full]) for key, full in keys.items() if full in results}


def heading(results: Mapping[str, Results]) -> list[str]:
    """Return how the runs of a table differ from the first, according to their results' metadata.

    Args:
        results: run name -> results of one seed.
    """
    lines: list[str] = []
    first = next(iter(results), None)
    for name in [*results][1:]:
        pair, names = (results[name], results[first]), (name, first)
        try:
            refuse_other_test(*pair, names)
        except ValueError as error:
            lines.append(str(error).replace('are not compared', 'stand in one table'))
        lines += differing(*(one.trainings for one in pair), names)
    return [*dict.fromkeys(lines)]


def table(
    sweep: Sweep,
    rows: Mapping[str, Sequence[Mapping[str, float]]],
    differences: Sequence[str] = (),
) -> str:
    """Return a Markdown table: a row per run, mean +- deviation, and the paper's numbers.

    Args:
        sweep: the sweep.
        rows: run name -> a dict of metrics per seed; unfinished runs have empty cells.
        differences: lines of :func:`heading`.
    """
    printed = any(run.printed for run in sweep.runs)
    heads = [
        h for head in sweep.metrics.values() for h in [head, *([f'{head}, printed'] * printed)]
    ]
    lines = [
        f'{sweep.paper} {sweep.table} (Sec. {sweep.section}): {sweep.about}',
        '',
        *(f'- {line}' for line in differences),
        *([''] if differences else []),
        '| run | ' + ' | '.join(heads) + ' |',
        '|---' * (len(heads) + 1) + '|',
    ]
    for run in sweep.runs:
        cells = []
        for place, key in enumerate(sweep.metrics):
            cells.append(_spread([row[key] for row in rows.get(run.name, ()) if key in row]))
            if printed:
                known = run.printed[place] if run.printed else None
                cells.append('' if known is None else f'{known:g}')
        lines.append(f'| {run.name} | ' + ' | '.join(cells) + ' |')
    return '\n'.join(lines + (['', sweep.note] if sweep.note else []))


def _spread(values: Sequence[float]) -> str:
    if not values:
        return ''
    mean = f'{statistics.mean(values):.4g}'
    return mean if len(values) == 1 else f'{mean} +- {statistics.stdev(values):.2g}'


def _near_sweep(path: Path, config: str) -> str:
    """Return a config's path beside the sweep's folder if there is one, else ``config``."""
    near = path.parent.parent / config
    return str(near) if near.is_file() and not Path(config).is_file() else config


def _check_keys(
    where: str, given: Mapping[str, Any], needed: Sequence[str], allowed: Sequence[str]
) -> None:
    missing = [key for key in needed if key not in given]
    unknown = [key for key in given if key not in allowed]
    if missing or unknown:
        fault = f'no {missing[0]}' if missing else f'unknown key {unknown[0][:60]!r}'
        raise ValueError(f'{where}: {fault}; expected {", ".join(allowed)}')


def batch_per_process(cfg: Config, processes: int) -> Optional[int]:
    """Return the ``batch_size`` with which several processes have the config's own batch.

    None: its loader has no batch size.

    Raises:
        SystemExit: the batch cannot be shared out evenly; says what can be set.
    """
    own, counts = cfg.train_dataloader.get('batch_size'), accumulated(cfg)
    if own is None:
        return None
    base = (cfg.get('auto_scale_lr') or {}).get('base_batch_size') or own * counts
    share, rest = divmod(base, processes * counts)
    if rest or not share:
        raise SystemExit(
            f'error: the {base} items a step of {cfg.filename} cannot be shared out to {processes} '
            f'processes: take a number that divides {base // counts}, or set '
            'train_dataloader.batch_size=N and auto_scale_lr.base_batch_size (N times the '
            'processes) after --cfg-options'
        )
    return share
