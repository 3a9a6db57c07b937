"""Studies in files: trainings that differ in a few options, and what they are measured by.

A study is a config file (the package's own are in ``configs/studies/``)::

    config = 'dvtr_c2v_msrvtt.py'
    before = {f'half{n}': dict(options={'train_dataloader...keep': n}) for n in (0, 1)}
    rows = {
        'own eta': dict(),
        'cross-fitted eta': dict(options={'model.teacher.halves': ['{half0}/best.pth', ...]}),
    }

A row trains ``config`` (its own, if it has one) with its ``options``; ``seed`` is added to its
seeds.  Rows of ``before`` come first and are not in the table.  A string that begins with
``'{NAME}'`` gets the folder of an earlier row of the same seed; keys of a row are those of a
config's ``before`` (:mod:`mmvtr.engine.rows`), less ``folder``.

With ``of='NAME'`` a row trains nothing: it tests the checkpoint of that row, or of several (a list)
together, with its options; without options it reads that row's results whose keys begin with
``prefix`` (``'member_0/'``).  ``metrics`` are keys of the results with their headings, by default
rsum.  For a paper's ablation: ``paper``, ``table``, ``section``, ``about``, ``note``, and of a row
``printed``, the paper's values of the metrics, None = not printed.  Names that begin with an
underscore are ignored.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Iterable, Mapping, NamedTuple, Optional, Sequence, Union

from mmengine.config import Config

from mmvtr.cli.hints import nearest
from mmvtr.cli.values import lacking_part
from mmvtr.engine.checks.config_checks import check_training
from mmvtr.engine.checks.metric_checks import is_reported, reported_by_config
from mmvtr.engine.checks.schedule_checks import accumulated
from mmvtr.engine.hooks.members import fuse_config
from mmvtr.engine.rows import KEYS, Row, check_row, file_of, named, names_in, row_from
from mmvtr.errors import UserError
from mmvtr.utils import config_folder, load_config

#: Keys of a study, and of a row.
ALLOWED = ('config', 'metrics', 'before', 'rows', 'about', 'paper', 'table', 'section', 'note')
OF_ROW = tuple(key for key in KEYS if key != 'folder')
#: Metric of a study that names none.
METRICS = {'retrieval/rsum': 'rsum'}


class Study(NamedTuple):
    """Rows that are compared.

    Attributes:
        name: the stem of its file.
        metrics: key of the results -> heading.
        rows: rows of its table.
        before: rows that come before them.
        about: what varies.
        paper, table, section: where a paper prints it.
        note: text below the table.
    """

    name: str
    metrics: dict[str, str]
    rows: tuple[Row, ...]
    before: tuple[Row, ...] = ()
    about: str = ''
    paper: str = ''
    table: str = ''
    section: str = ''
    note: str = ''

    @property
    def all_rows(self) -> tuple[Row, ...]:
        """Return all rows, each after those that it can name."""
        return (*self.before, *self.rows)

    @property
    def title(self) -> str:
        """Return where it is printed and what varies."""
        where = f'{self.paper} {self.table} (Sec. {self.section})' if self.paper else self.name
        return f'{where}: {self.about}' if self.about else where


def study_names() -> list[str]:
    """Return the names of the package's own studies, sorted."""
    return sorted(path.stem for path in (config_folder() / 'studies').glob('*.py'))


def read_study(
    file: Union[str, Path], *, config: Optional[str] = None, options: Mapping[str, Any] = {}
) -> Study:
    """Read a study from its file.

    Args:
        file: path of a study, or the name of one of the package's own.
        config: config that every row trains in place of its own (e.g. one with planted data).
        options: options of every row that is trained or tested; a row's own options override them.

    Raises:
        ValueError: no such file, a key that is missing, unknown or of another type, two rows of one
            folder, or a name of a row that does not precede; names it.
    """
    path = Path(file)
    if not path.is_file():
        path = config_folder() / 'studies' / f'{path.stem}.py'
        if not path.is_file() or Path(file).parent != Path('.'):
            raise ValueError(f'no study {str(file)[:80]!r}; there are {", ".join(study_names())}')
    try:
        read = Config.fromfile(path, import_custom_modules=False).to_dict()
    except Exception as error:  # configs are code and can raise anything
        raise ValueError(f'{path}: {type(error).__name__}: {str(error)[:200]}') from error
    content = {key: value for key, value in read.items() if not key.startswith('_')}
    unknown = [key for key in content if key not in ALLOWED]
    if unknown:
        alike = nearest(unknown[0], ALLOWED, otherwise=ALLOWED)
        raise ValueError(f'{path}: unknown key {unknown[0][:60]!r}{alike}')
    metrics = content.get('metrics', METRICS)
    if not isinstance(metrics, dict) or not metrics:
        raise ValueError(f'{path}: metrics: key -> heading expected, got {metrics!r:.80}')
    if not isinstance(content.get('rows'), dict) or not content['rows']:
        raise ValueError(f'{path}: rows: dicts by name expected, got {content.get("rows")!r:.80}')
    rows: list[Row] = []
    for group in ('before', 'rows'):
        for name, row in (content.get(group) or {}).items():
            default = content.get('config') if config is None else config
            has_default = default is not None
            if group == 'before':
                check_row(f'{path}: before.', name, row, OF_ROW, default=has_default)
            else:
                keys = (*OF_ROW, 'of', 'prefix', 'printed')
                where = f'{path}: rows: '
                check_row(where, name, row, keys, default=has_default, variable=False)
            trained = row.get('config', default) if config is None else config
            file = file_of(trained or '', path.parent, path.parent.parent)
            row = row_from(name, row, file, Path(folder_name(name)))
            if not row.run and not reads_results(row):
                row = row._replace(options={**options, **row.options})
            _check_place(f'{path}: {group}: {name[:60]}', row, rows, metrics)
            rows.append(row)
    count = len(content.get('before') or {})
    texts = {k: content[k] for k in ('about', 'paper', 'table', 'section', 'note') if k in content}
    return Study(path.stem, metrics, tuple(rows[count:]), tuple(rows[:count]), **texts)


def folder_name(name: str) -> str:
    """Return a row's name as a folder name."""
    return re.sub(r'[^\w.=+-]+', '_', name).strip('_')


def reads_results(row: Row) -> bool:
    """Return whether a row only reads the results of another one."""
    return len(row.of) == 1 and not row.options


def _check_place(where: str, row: Row, earlier: Sequence[Row], metrics: Mapping[str, str]) -> None:
    """Raise ValueError unless a row's name is new and all that it names precedes."""
    names = {other.name for other in earlier}
    if row.folder in {other.folder for other in earlier}:
        raise ValueError(f'{where}: a second row by that name')
    unknown = [name for name in row.of if name not in names]
    if unknown:
        raise ValueError(f'{where}: of={unknown[0]!r:.80}: no row before it has that name')
    untrained = [
        other.name for other in earlier if other.name in row.of and (other.of or other.run)
    ]
    if untrained and not reads_results(row):
        raise ValueError(f'{where}: of={untrained[0]!r:.80}: that row trains nothing')
    itself = {row.name} if row.run else set()
    unknown = sorted(names_in([row.options, row.run]) - names - itself)
    if unknown:
        raise ValueError(f'{where}: no row before it has the name of {{{unknown[0][:80]}}}')
    if row.printed and len(row.printed) != len(metrics):
        raise ValueError(
            f'{where}: one printed number per metric expected, '
            f'{len(metrics)} in all, got {len(row.printed)}'
        )


def rows_of_seed(study: Study, seed: int, work: Path) -> dict[str, Row]:
    """Return all rows by name, with their folders, seeds, and folders in place of names.

    Args:
        study: the study.
        seed: the seed of its trainings.
        work: folder of the study; a row's is ``work/NAME_SEED``.
    """
    by_name: dict[str, Row] = {}
    folders: dict[str, str] = {}
    for row in study.all_rows:
        folder = work / f'{row.folder}_{seed}'
        folders[row.name] = str(folder)
        options, run = named(row.options, folders), named(row.run, folders)
        by_name[row.name] = row._replace(
            folder=folder, options=options, run=run, seed=seed + row.seed
        )
    return by_name


def needed_by(study: Study, names: Iterable[str]) -> list[Row]:
    """Return some rows, and all whose checkpoints or files they read, in their order.

    Raises:
        ValueError: an unknown name.
    """
    needed, of_rows = {*names}, {row.name for row in study.all_rows}
    for name in needed - of_rows:
        raise ValueError(
            f'{study.name} has no row {name!r:.80}{nearest(name, of_rows, otherwise=of_rows)}'
        )
    for row in reversed(study.all_rows):
        if row.name in needed:
            needed |= {*row.of, *names_in([row.options, row.run])}
    return [row for row in study.all_rows if row.name in needed]


def check_study(study: Study, rows: Optional[Sequence[Row]] = None) -> None:
    """Raise UserError unless the configs, options and metrics of rows exist.

    Args:
        study: the study.
        rows: those that are wanted; default: all.

    Raises:
        UserError: names the config, the key, and close matches.
    """
    checked = set()
    for row in study.all_rows if rows is None else rows:
        options = {k: None if type(v) in (int, float) else v for k, v in row.options.items()}
        shape = repr((row.config, row.prefix, row.of, options))
        if row.run or shape in checked:  # differs in numbers only
            continue
        checked.add(shape)
        try:
            cfg = load_config(row.config, row.options)
        except UserError as error:
            raise UserError(f'{error} (row {row.name!r:.60})') from error
        check_training(cfg, row.options)
        _check_options(row)
        if row in study.rows:
            _check_metrics(study, row)


def source_of(study: Study, row: Row) -> Row:
    """Return the row whose results a row reads: itself, or the row that it is ``of``."""
    if not reads_results(row):
        return row
    return next(other for other in study.all_rows if other.name == row.of[0])


def _check_metrics(study: Study, row: Row) -> None:
    """Raise UserError for a metric of the study that a row's test will not report."""
    source = source_of(study, row)
    cfg = load_config(source.config, source.options)
    if len(source.of) > 1:
        fuse_config(cfg, source.of)
    keys = reported_by_config(cfg)
    for key in study.metrics:
        full_key = f'{row.prefix}{key}'
        if keys is not None and not is_reported(full_key, keys):
            raise UserError(
                f'study {study.name}: metrics: {full_key!r} of row {row.name!r:.60} is not '
                f'among the numbers of {source.config}{nearest(full_key, keys, otherwise=keys)}'
            )


def _check_options(row: Row) -> None:
    """Raise UserError for an option in a part that the plain config does not have."""
    plain = load_config(row.config)
    for key in filter(None, (lacking_part(plain, option) for option in row.options)):
        raise UserError(f'study row {row.name!r:.60}: {row.config} has no {key}')


def batch_per_process(cfg: Config, processes: int) -> Optional[int]:
    """Return the ``batch_size`` with which several processes have the config's own batch.

    None: its loader has no batch size.

    Raises:
        UserError: the batch cannot be shared out evenly; says what can be set.
    """
    size, counts = cfg.train_dataloader.get('batch_size'), accumulated(cfg)
    if size is None:
        return None
    base = (cfg.get('auto_scale_lr') or {}).get('base_batch_size') or size * counts
    share, rest = divmod(base, processes * counts)
    if rest or not share:
        raise UserError(
            f'the {base} items a step of {cfg.filename} cannot be shared out to {processes} '
            f'processes: take a number that divides {base // counts}, or set '
            'train_dataloader.batch_size=N and auto_scale_lr.base_batch_size (N times the '
            'processes) after --cfg-options'
        )
    return share
