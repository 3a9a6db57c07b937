"""Results of the check's sections, and the page and JSON file made from them."""

from __future__ import annotations

import json
import platform
from pathlib import Path
from typing import Any, NamedTuple, Sequence

import torch

Row = tuple[str, ...]


class Table(NamedTuple):
    """Column heads, and rows of cells."""

    head: Row
    rows: Sequence[Row]


class Verdict(NamedTuple):
    """A bar and its result.

    Attributes:
        bar: description of the bar.
        met: whether it is met.
        found: the measured number, or the reason.
        binding: whether a miss makes the exit status 1, as for the correctness bars.
    """

    bar: str
    met: bool
    found: str
    binding: bool = True


class Part(NamedTuple):
    """The result of one section.

    Attributes:
        title: heading of the section.
        about: explanatory sentences.
        tables: tables of the page.
        verdicts: results of its bars.
        values: the numbers for the JSON file.
    """

    title: str
    about: Sequence[str] = ()
    tables: Sequence[Table] = ()
    verdicts: Sequence[Verdict] = ()
    values: Any = None


def machine(device: torch.device) -> dict[str, Any]:
    """Return names and versions of hardware and packages."""
    import mmcv
    import mmengine

    import mmvtr

    found: dict[str, Any] = dict(
        device=platform.processor() or platform.machine(),
        torch=torch.__version__,
        mmvtr=mmvtr.__version__,
        mmengine=mmengine.__version__,
        mmcv=mmcv.__version__,
        python=platform.python_version(),
        threads=torch.get_num_threads(),
    )
    if device.type == 'cuda':
        properties = torch.cuda.get_device_properties(device)
        found.update(
            device=properties.name,
            devices=torch.cuda.device_count(),
            memory_gib=round(properties.total_memory / 2**30, 1),
            capability='{}.{}'.format(*torch.cuda.get_device_capability(device)),
            cuda=torch.version.cuda,
            cudnn=torch.backends.cudnn.version(),
        )
    return found


def write(folder: Path, about: dict[str, Any], parts: dict[str, Part]) -> str:
    """Write ``cuda.json`` and ``cuda.md``; return the page."""
    folder.mkdir(parents=True, exist_ok=True)
    sections = {
        name: dict(
            title=part.title,
            verdicts=[verdict._asdict() for verdict in part.verdicts],
            values=part.values,
        )
        for name, part in parts.items()
    }
    text = json.dumps(dict(machine=about, sections=sections), indent=1)
    (folder / 'cuda.json').write_text(text + '\n', encoding='utf-8')
    page = _page(about, parts)
    (folder / 'cuda.md').write_text(page, encoding='utf-8')
    return page


def _page(about: dict[str, Any], parts: dict[str, Part]) -> str:
    verdicts = [(name, verdict) for name, part in parts.items() for verdict in part.verdicts]
    missed = [x for x in verdicts if not x[1].met]
    lines = [
        f'# mmvtr on {about["device"]}',
        '',
        ', '.join(f'{name} {value}' for name, value in about.items() if name != 'device') + '.',
        '',
        f'{len(verdicts) - len(missed)} of {len(verdicts)} bars are met.',
    ]
    if missed:
        lines[-1] += ' Not met: ' + '; '.join(f'{v.bar} ({name})' for name, v in missed) + '.'
    rows = [(name, v.bar, 'met' if v.met else 'NOT MET', v.found) for name, v in verdicts]
    lines += ['', *markdown(Table(('section', 'bar', 'verdict', 'found'), rows))]
    for part in parts.values():
        lines += ['', f'## {part.title}']
        for sentence in part.about:
            lines += ['', sentence]
        for table in part.tables:
            lines += ['', *markdown(table)]
    return '\n'.join(lines) + '\n'


def markdown(table: Table) -> list[str]:
    if not table.rows:
        return ['nothing.']
    cells = [[cell.replace('|', '/').replace('\n', ' ') for cell in row] for row in table.rows]
    rows = [table.head, ['-'] * len(table.head), *cells]
    return ['| ' + ' | '.join(row) + ' |' for row in rows]


def brief(error: BaseException) -> str:
    """Return an exception as one short line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f'{type(error).__name__}: {(lines or ["no message"])[0]}'[:200]
