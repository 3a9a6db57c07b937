"""Making the rows of a study: as commands, in order, side by side, resumed."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any, Iterator, Mapping, NamedTuple, Optional, Sequence

from mmvtr.engine.before import (
    FLAGS,
    Start,
    after,
    checkpoint_of,
    command_of,
    command_words,
    log_of,
    make_row,
    unfinished,
    with_options,
    words_of,
)
from mmvtr.engine.launching import LOADERS, check_datasets
from mmvtr.engine.loops.checkpoint import latest_checkpoint
from mmvtr.engine.loops.earlier_runs import best_in
from mmvtr.engine.loops.facts import BEST
from mmvtr.engine.rows import Row, names_in, rows_of
from mmvtr.engine.side_by_side import Step, do_all
from mmvtr.studies.reading import Study, batch_per_process, reads_results, rows_of_seed
from mmvtr.utils import load_config, tool_folder

#: Config key of the batch size per process.
BATCH = 'train_dataloader.batch_size'
#: Folder, in a row's, of the test of its last epoch.
LAST = 'last'


class Plan(NamedTuple):
    """How a study is made.

    Attributes:
        work: its folder.
        seeds: of its trainings.
        places: a device, or None, for each row that is made at the same time.
        processes: of a training; 1: no launcher.
        srun: options of Slurm's ``srun``, which starts each command; None: this machine.
        best_on_test, amp: as for ``tools/train.py``.
        last: whether the last epoch of a training is tested, too.
    """

    work: Path
    seeds: Sequence[int]
    places: Sequence[Optional[str]] = (None,)
    processes: int = 1
    srun: Optional[Sequence[str]] = None
    best_on_test: bool = False
    amp: Optional[str] = None
    last: bool = False

    @property
    def flags(self) -> Namespace:
        """Return the flags of a training, as ``tools/train.py`` parses them."""
        flags = dict(dict.fromkeys(FLAGS, False), best_on_test=self.best_on_test)
        launcher = 'pytorch' if self.processes > 1 else 'none'
        return Namespace(launcher=launcher, amp=self.amp, **flags)

    def start(self, log: Optional[Path] = None) -> Start:
        """Return how commands are started."""
        words = [] if self.srun is None else ['srun', '--ntasks=1', *self.srun]
        words.append(sys.executable)
        launch = list(words)
        if self.processes > 1:
            number = f'--nproc_per_node={self.processes}'
            launch += [str(tool_folder() / 'launch.py'), '--standalone', number]
        # Modules of a user's own are found where this process finds them.
        path = os.pathsep.join(filter(None, sys.path))
        return Start(tuple(words), tuple(launch), {**os.environ, 'PYTHONPATH': path}, log)


def make(study: Study, rows: Sequence[Row], plan: Plan) -> dict[str, BaseException]:
    """Make rows of all seeds that are not finished; one that fails stops those that need it.

    Args:
        study: the study.
        rows: its wanted rows, with all that they need.
        plan: how.

    Returns:
        Errors by row and seed.
    """
    steps = [step for seed in plan.seeds for step in steps_of(study, rows, seed, plan)]

    def numbered(number: int, step: Step) -> Step:
        title = f'{number} of {len(steps)}: {step.name}'
        return step._replace(do=lambda device: step.do((device, title)))

    return do_all([numbered(*pair) for pair in enumerate(steps, 1)], plan.places)


def steps_of(study: Study, rows: Sequence[Row], seed: int, plan: Plan) -> Iterator[Step]:
    """Yield the steps of rows of a seed, with those that configs have in ``before``.

    A step's place is a device, or None, and the line that it says first.
    """
    of_seed = rows_of_seed(study, seed, plan.work)
    shown = {of_seed[row.name].folder for row in study.rows}
    by_folder: dict[Path, tuple[Row, set[Path]]] = {}
    for row in rows:
        if not reads_results(row):
            for earlier, needs in with_rows_before(shared_out(of_seed[row.name], plan)):
                by_folder.setdefault(earlier.folder, (earlier, needs))
    for folder, (row, needs) in by_folder.items():
        others = [other for other, _ in by_folder.values() if other.folder != folder]
        needs |= {of_seed[name].folder for name in row.of}
        needs |= {other.folder for other in others if after(row, [other])}
        yield Step(
            step_name(folder, plan),
            frozenset(step_name(needed, plan) for needed in needs),
            lambda place, row=row: _make(row, of_seed, plan, row.folder in shown, *place),
        )


def step_name(folder: Path, plan: Plan) -> str:
    """Return how the making of a folder is called."""
    return os.path.relpath(folder, plan.work)


def shared_out(row: Row, plan: Plan) -> Row:
    """Return a row whose processes have its config's batch together, unless its options set one."""
    if plan.processes < 2 or row.run or row.of or BATCH in row.options:
        return row
    share = batch_per_process(load_config(row.config, row.options), plan.processes)
    return row if share is None else row._replace(options={**row.options, BATCH: share})


def with_rows_before(row: Row) -> Iterator[tuple[Row, set[Path]]]:
    """Yield the rows that a row's config has in ``before``, each after its own, then the row.

    Each with the folders of its own ``before``.
    """
    needs: set[Path] = set()
    if not row.run and not row.of:
        cfg = load_config(row.config, row.options, str(row.folder))
        for earlier in rows_of(cfg):
            needs.add(earlier.folder)
            earlier = with_options(earlier, row.options, load_config)
            yield from with_rows_before(earlier._replace(seed=row.seed + earlier.seed))
    yield row, needs


def check_data(rows: Sequence[Row]) -> None:
    """Build the data of all rows that read no files of others, each once.

    Raises:
        UserError: names the dataset that cannot be built, with the reason.
    """
    checked: list[Any] = []
    for row in rows:
        if row.run or row.of or any(names_in(row.options)):
            continue
        cfg = load_config(row.config, row.options)
        for loader in filter(cfg.get, LOADERS):
            content = cfg[loader].dataset.to_dict()
            if not cfg.get('before') and content not in checked:
                checked.append(content)
                check_datasets(cfg, [loader])


def _make(
    row: Row,
    of_seed: Mapping[str, Row],
    plan: Plan,
    shown: bool,
    device: Optional[str],
    title: str,
) -> None:
    """Make a row; its commands print to a file in its folder."""
    start = plan.start(log_of(row)).on(device)
    tool = tool_folder() / 'train.py'
    if row.of:
        _test(row, [checkpoint_of(of_seed[name].folder) for name in row.of], plan, start, title)
        return
    make_row(row, plan.flags, tool, load_config, seed=0, title=title, start=start)
    last = latest_checkpoint(row.folder)
    if plan.last and shown and not row.run and last is not None and best_in(row.folder):
        tested = row._replace(folder=row.folder / LAST)
        _test(tested, [last], plan, start, f'{title}, last epoch')


def _test(row: Row, checkpoints: Sequence[str], plan: Plan, start: Start, title: str) -> None:
    words = test_words(row, checkpoints, plan)
    with unfinished(row.folder, dict(command=words), title, 'a test') as todo:
        if todo:
            start.call(str(tool_folder() / 'test.py'), *words)


def test_words(row: Row, checkpoints: Sequence[str], plan: Plan) -> list[str]:
    """Return the words of a test's command."""
    amp = ['--amp', plan.amp] if plan.amp else []
    return [row.config, *checkpoints, '--work-dir', str(row.folder), *amp, *words_of(row)]


def commands(study: Study, rows: Sequence[Row], plan: Plan) -> Iterator[list[str]]:
    """Yield the commands that make rows, in an order in which they can be run."""
    start = plan.start()
    for seed in plan.seeds:
        of_seed = rows_of_seed(study, seed, plan.work)
        for name in (row.name for row in rows if not reads_results(row)):
            row = shared_out(of_seed[name], plan)
            if row.run:
                yield [*start.words, *command_words(row)]
            elif row.of:
                members = [of_seed[member] for member in row.of]
                files = [str(member.folder / file_to_test(member, plan)) for member in members]
                yield [*start.words, str(tool_folder() / 'test.py'), *test_words(row, files, plan)]
            else:
                words = command_of(row, plan.flags, 0)
                yield [*start.launch, str(tool_folder() / 'train.py'), *words, '--resume']


def file_to_test(row: Row, plan: Plan) -> str:
    """Return the checkpoint file that a training leaves for testing: the best, else the last."""
    cfg = load_config(row.config, row.options)
    chooses = cfg.get('val_dataloader') is not None and cfg.default_hooks.checkpoint.save_best
    if plan.best_on_test or chooses:
        return BEST
    loop = cfg.train_cfg
    return f'epoch_{loop.max_epochs}.pth' if 'max_epochs' in loop else f'iter_{loop.max_iters}.pth'
