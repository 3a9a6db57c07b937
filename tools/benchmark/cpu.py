"""How fast is mmvtr on this CPU, beside what users would write themselves?  No data, no network.

    python tools/benchmark/cpu.py [--out DIR] [--only arrays steps] [--repeats 5] [--quick]

Writes DIR/cpu.json and DIR/cpu.md and prints the page.  Times are CPU seconds of one thread; work
and anchors take turns in one process, so ratios hold on a machine that does other things, too.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from pathlib import Path
from typing import Callable

for _name in ('OMP_NUM_THREADS', 'MKL_NUM_THREADS', 'OPENBLAS_NUM_THREADS'):
    os.environ[_name] = '1'  # read when numpy and torch are imported

import torch  # noqa: E402

from cpu_rows.arrays import arrays, large  # noqa: E402
from cpu_rows.evaluation import evaluation  # noqa: E402
from cpu_rows.fits import fits  # noqa: E402
from cpu_rows.media import media  # noqa: E402
from cpu_rows.papers import papers  # noqa: E402
from cpu_rows.processes import processes  # noqa: E402
from cpu_rows.queries import queries  # noqa: E402
from cpu_rows.starts import starts  # noqa: E402
from cpu_rows.steps import steps  # noqa: E402
from cpu_rows.stores import stores  # noqa: E402
from cpu_rows.tables import tables  # noqa: E402
from cpu_rows.timing import HEAD, Row  # noqa: E402
from gpu_check.report import Table, machine, markdown  # noqa: E402

SECTIONS: dict[str, Callable[[bool, int], list[Row]]] = dict(
    arrays=arrays,
    large=large,
    queries=queries,
    steps=steps,
    papers=papers,
    processes=processes,
    media=media,
    evaluation=evaluation,
    stores=stores,
    tables=tables,
    fits=fits,
    starts=starts,
)
#: A ratio above it is mended or explained.
SLOW = 1.2


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add('--out', type=Path, default=Path('work_dirs/cpu'), help='folder of cpu.json and cpu.md')
    add('--only', nargs='+', choices=SECTIONS, default=list(SECTIONS))
    add('--repeats', type=int, default=5, help='turns of work and anchors')
    add('--quick', action='store_true', help='tiny sizes: shows that it runs, and no speed')
    return parser.parse_args()


def main() -> int:
    args = parse_args()
    if args.repeats < 1:
        raise SystemExit(f'error: --repeats must be at least 1, not {args.repeats}')
    torch.set_num_threads(1)
    rows: list[Row] = []
    for name in args.only:
        section = SECTIONS[name](args.quick, args.repeats)
        for row in section:
            print(*row.cells, sep=' | ', flush=True)
        rows += section
    about = machine(torch.device('cpu'))
    args.out.mkdir(parents=True, exist_ok=True)
    content = dict(machine=about, rows=[dict(row._asdict(), ratios=row.ratios) for row in rows])
    (args.out / 'cpu.json').write_text(json.dumps(content, indent=1) + '\n', encoding='utf-8')
    page = as_page(about, rows)
    (args.out / 'cpu.md').write_text(page, encoding='utf-8')
    print(page)
    print(f'{args.out / "cpu.md"} and {args.out / "cpu.json"} hold this page and its numbers.')
    return 0


def as_page(about: dict[str, object], rows: list[Row]) -> str:
    """Return the page: the machine, what is slow, and the table."""
    slow = [row for row in rows if statistics.median(row.ratios) > SLOW]
    lines = [
        f'# mmvtr beside others on {about["device"]}',
        '',
        ', '.join(f'{name} {value}' for name, value in about.items() if name != 'device') + '.',
        '',
        f'{len(rows) - len(slow)} of {len(rows)} rows are at most {SLOW} times their anchor.',
        '',
        *markdown(Table(HEAD, [row.cells for row in rows])),
    ]
    return '\n'.join(lines) + '\n'


if __name__ == '__main__':
    sys.exit(main())
