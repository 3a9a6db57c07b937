"""pages/comparison.md and the page of its tables, from the cells of effects.py and nothing else."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Mapping, Optional, Sequence

from comparison.files import MADE, load_json
from comparison.front import (
    Line,
    corrected_views,
    paper_sections,
    short_table,
    verdict_lines,
    verdict_table,
)
from comparison.front_picture import write_front
from comparison.kinds import Condition, Method
from comparison.markdown import table
from comparison.papers import PAPERS
from comparison.people import people
from comparison.pictures import write_pictures
from comparison.records import NAME
from comparison.sections import section
from comparison.summary import summary
from comparison.tuning import tuning_section
from comparison.views import Found, View, make_views

FRONT = """\
# Does debiasing debias?

Every method here against its control, on planted corpora whose truth is known: each where
the problem that it was made for exists, and at its best chance.
"""
READING = """\
- **Aim**: the measure that the bias of the condition spoils, in a direction that the field reports
  (partially relevant retrieval: t2v), and never what a method trains on. **True**: mAP of what is
  true, whoever annotated it. **Annotated**: paired R@1 + R@5 + R@10, which punishes right answers
  that nobody annotated. Differences to the control (*over*), which differs from the method by its
  idea alone, with 95 % intervals for other seeds and other queries (`s`: for other seeds alone;
  over several corpora: for other corpora).
- **helps**, **harms**: the aim is resolved, also when corrected for the number of comparisons, of
  its condition and of this table (Holm), and for a second look. **trade**: truth is gained in one
  direction and lost in the other, by the intervals. *nothing*: the interval of the aim lies within
  what would matter. *not resolved*: neither. Where the loss of paired recall alone is resolved it
  *costs*, and **harms** where the aim is nothing. *collapsed*: a training learnt nothing.
- Method and control had the same learning rates, three to six, chosen by the aim on 1,000 clips
  (ARL's by v2t mAP, those of RAN and RANP by class nDCG, each what its method gains), and by paired
  recall among those that differ by less than what would matter. *Unused*: no
  setting of the row was chosen there. What is *again*, and the last three unused corpora, was
  trained when grid and rule stood; the rule of ties is younger than the other conditions. (Hubs got
  a sixth rate when `hubs_again` had been seen; neither row chose it.)
- Rows with † have [a note]({tables}#what-the-rows-are). Below, a section a paper;
  [all other rows]({tables}#does-it-help), and [captions that people
  judged](#on-captions-judged-by-people).
"""
FRONT_TITLE = 'What each row gains and loses, in its aim and in both directions, with intervals'
TABLES = """\
# All tables of the comparison

What stands behind [comparison.md]({front}). Made by `effects.py`; do not edit.
How to read it:

- **Paired recall** (R@1, rsum) counts the annotated match only: it punishes a right answer that
  nobody annotated. **Semantic measures** (P@1, mAP, nDCG@50) count what is really true of a clip.
- **Chance** is what equal scores give, the **ceiling** what perfect semantics gives.
- *Rows in italics are oracles*: they know what no method may know, and show the possible gain.
- Figures are means +- standard deviation over training seeds; the corpus is the same for all.
- **Differences** are to the control of the same seed, with a 95 % interval in brackets for other
  training seeds and other test queries: the variance over seeds as Student's t has it, that of the
  queries by a bootstrap (2,000 draws, the same queries for both rows; texts of one video go
  together), added, with Satterthwaite's degrees of freedom. Where it ends in `s`, the measure has
  no values by query, and the interval is Student's over seeds, on these test clips. One seed has no
  interval, and gets no verdict.
- The **control** of a method differs from it by its idea alone: RAN is trained with a triplet loss,
  so its control is that loss without RAN. A transform's is the same transform of the control. Names
  after *over* are those of the cells, see [Files](#files).
- **Closed** is the share of the oracle's gain in the aim, of rows that are compared with the
  baseline; empty where the oracle itself is not measurably better.
- Settings of ours (group *ours* in [Files](#files), and what is built on them) were chosen on other
  corpora, with their test results in sight; ARL's on an untrimmed one, that of its ladder.
- In `classes`, `margins` and `lengths` every row has five seeds. In the first two three were
  planned; two of their rows were near a verdict, and got two more seeds before all others did. In
  `lengths` the spread of earlier trainings set the number. `heads`, `hubs_again` and
  `moments_again` ask again what an earlier condition had left open. All of these count as looked at
  twice: their p are doubled. So are those of the unused corpora.
"""


def write_page(
    folder: Path,
    page: Path,
    methods: Mapping[str, Method],
    conditions: Mapping[str, Condition],
    shas: Optional[Mapping[tuple[str, str, int, str], str]] = None,
    verdicts: Optional[Path] = None,
) -> None:
    """Write both pages and their pictures.

    Args:
        folder: with the cells, ``conditions.json`` and ``tuning.json``; pictures go there.
        page: the Markdown file of the first page; that of the tables stands beside it.
        methods: by name; those without cells are named as missing.
        conditions: the same; those without cells are named, too.
        shas: of the plan's configs, by condition, method, seed and role: cells of another one are
            left out and named. Cells that it does not hold are shown as they are.
        verdicts: a page of docs/ that has the first table without its intervals.

    Raises:
        ValueError: no cells, or a file is damaged (see ``comparison.files.load_cells``).
    """
    found = make_views(folder, methods, conditions, shas or {})
    if not found.views:
        raise ValueError(
            f'{folder}: no cell belongs to a condition and a method of the plan'
            + (f'; {len(found.older)} are of older configs' if found.older else '')
        )
    found = found._replace(views=corrected(found.views))
    pictures = write_pictures(folder, found.views)
    lines = front_lines({view.name: view for view in found.views}, methods)
    if write_front(folder / 'front.png', lines):
        pictures = ['front', *pictures]
    if verdicts is not None:
        write_verdicts(verdicts, found.views, methods)
    page.parent.mkdir(parents=True, exist_ok=True)
    texts = page_texts(found, folder, page, methods, conditions, pictures)
    for path, text in zip((page, tables_of(page)), texts):
        path.write_text(text)


def corrected(views: Sequence[View]) -> list[View]:
    """With p that are corrected across the rows of the first table as well."""
    return list(corrected_views({view.name: view for view in views}).values())


def write_verdicts(path: Path, views: Sequence[View], methods: Mapping[str, Method]) -> None:
    """Put the first table, without intervals, in the place of the one that a page has.

    Args:
        path: of a page of docs/.
        views: all conditions, corrected.
        methods: by name.

    Raises:
        ValueError: the page has no such table, or several.
    """
    lines = front_lines({view.name: view for view in views}, methods)
    made = short_table([line for those in lines.values() for line in those])
    pattern = re.compile(rf'^{re.escape(made.splitlines()[0])}\n(?:\|.*\n)*', re.M)
    text, count = pattern.subn(lambda _: made, path.read_text())
    if count != 1:
        raise ValueError(f'{path}: {count} tables of verdicts, expected 1')
    path.write_text(text)


def front_lines(views: Mapping[str, View], methods: Mapping[str, Method]) -> dict[str, list[Line]]:
    """Of the first table, by paper."""
    return {paper.name: verdict_lines(paper.first, views, methods) for paper in PAPERS}


def tables_of(page: Path) -> Path:
    """The second page, beside the first."""
    return page.with_name(f'{page.stem}_tables{page.suffix}')


def page_texts(
    found: Found,
    folder: Path,
    page: Path,
    methods: Mapping[str, Method],
    conditions: Mapping[str, Condition],
    pictures: Sequence[str],
) -> tuple[str, str]:
    """Both pages; ``pictures`` are the names of those in the folder, else as above."""
    link = Path(os.path.relpath(folder, page.parent)).as_posix()
    path = folder / 'tuning.json'
    tuning = load_json(path) if path.exists() else {}
    views = {view.name: view for view in found.views}
    front = [
        FRONT,
        verdict_table([line for lines in front_lines(views, methods).values() for line in lines]),
        f'![{FRONT_TITLE}]({link}/front.png)\n' if 'front' in pictures else '',
        READING.format(tables=tables_of(page).name),
        paper_sections(views, methods, tuning),
        people(folder.parent),
        _origin(found, tuning, link),
    ]
    tables = [
        TABLES.format(front=page.name),
        _absent(conditions, found.views),
        summary(found.views, methods, pictures, link),
        *(section(view, views, link) for view in found.views),
        tuning_section(tuning, methods, conditions, link) if tuning else '',
        _files(found.views, methods),
    ]
    return tuple('\n'.join(part for part in parts if part) for parts in (front, tables))


def _origin(found: Found, tuning: Mapping[str, Any], link: str) -> str:
    """How to make the page again; when, where and from what it was made."""
    cells = found.cells
    made = {name: sorted({cell.made[name] for cell in cells}) for name in MADE}
    dates = ' to '.join(dict.fromkeys((made['date'][0], made['date'][-1])))
    tuned = _tuning_only(tuning, {cell.config_sha for cell in cells})
    times = [cell.cpu_seconds for cell in cells if cell.cpu_seconds is not None] + tuned
    lines = [
        '## Make it again\n',
        '```bash',
        'python projects/lab/evidence/effects.py       # trains what has no cell yet; these pages',
        'python projects/lab/evidence/effects.py --smoke   # each method once, tiny',
        'python projects/lab/evidence/again.py 77 --conditions general24 --methods dvtr_floor0',
        '```\n',
        'The last of these draws clips and captions of a condition anew, from any seed, trains a '
        'row and its controls there, and says whether the intervals overlap those of this page.\n',
        f'{len(times)} trainings ({len(tuned)} of them for tuning only), {sum(times) / 3600:.1f} '
        f'hours of CPU time, {dates}; commit {", ".join(made["commit"])}; '
        f'{"; ".join(made["machine"])}; features by frame tower {", ".join(made["tower"])}. Each '
        f'test is a line of `{link}/{NAME}`, with the command of its training; remove it to '
        'train it again.',
    ]
    if found.strangers:
        names = sorted({f'`{cell.condition}/{cell.method}`' for cell in found.strangers})
        lines.append(f'\nCells of no row of the plan, not shown: {", ".join(names)}.')
    if found.older:
        names = [f'`{cell.condition}/{cell.method}_{cell.seed}`' for cell in found.older]
        lines.append(f'\nOlder cells, not shown: {", ".join(names)}. The plan has other configs.')
    return '\n'.join(lines) + '\n'


def _absent(conditions: Mapping[str, Condition], views: Sequence[View]) -> str:
    """Conditions of the plan of which nothing can be shown."""
    shown = {view.name for view in views}
    absent = [plan.label for name, plan in conditions.items() if name not in shown]
    return f'**No cells yet**: {"; ".join(absent)}.\n' if absent else ''


def _tuning_only(tuning: Mapping[str, Any], shas: set[str]) -> list[float]:
    """CPU seconds of the points of the grid whose training has no cell of one of ``shas``."""
    grids = [choice['grid'] for choices in tuning.values() for choice in choices.values()]
    # By sha: a training that two methods share is one.
    times = {
        entry['sha']: entry['cpu_seconds']
        for grid in grids
        for entry in grid
        if {'sha', 'cpu_seconds'} <= entry.keys()
    }
    return [seconds for sha, seconds in times.items() if sha not in shas]


def _files(views: Sequence[View], methods: Mapping[str, Method]) -> str:
    """Which files and which config belong to which row."""
    shown = {row.method for view in views for row in view.rows.values()}
    lines = []
    for name in (name for name in methods if name in shown):
        method = methods[name]
        options = ', '.join(f'`{key}={value}`' for key, value in method.options.items())
        controls = ', '.join(f'`{name}`' for name in method.controls)
        files = [f'`{name}`', f'`{method.config}`', options]
        lines.append([method.label, *files, method.group, controls])
    text = 'A row of a transform is in the cells of its method, under keys with its name in front.'
    return f'## Files\n\n{text}\n\n' + table(
        ['method', 'name', 'config', 'options', 'group', 'controls'], lines
    )
