"""Checks of mmvtr.functional on the device: float32, autocast, torch.compile."""

from __future__ import annotations

from typing import Callable

import torch

from gpu_check.cases import Case, cases
from gpu_check.compare import BAR, LOW_BARS, check, check_low, error, run
from gpu_check.report import Part, Row, Table, Verdict, brief
from gpu_check.setting import Setting
from mmvtr.functional import contrastive, margin_ranking


def float32(setting: Setting) -> Part:
    """Compare values and gradients with float64 on the CPU."""
    rows, values, failed = _rows(cases(), lambda case: check(case, setting.device), BAR)
    worst = max((max(x.values()) for x in values.values() if 'failure' not in x), default=0.0)
    return Part(
        'Functions in float32',
        [
            'Each function from seeded inputs in float32 on the device, beside float64 on the CPU '
            '(float32 on the CPU where random numbers are drawn in the precision of the inputs). '
            f'Largest difference over the largest entry; the bar is {BAR:g}.'
        ],
        [Table(('case', 'value', 'gradient'), rows)],
        [_verdict(f'functions in float32 within {BAR:g}', failed, worst)],
        values,
    )


def autocast(setting: Setting) -> Part:
    """Check the functions that training uses, with low-precision inputs under autocast."""
    some = [case for case in cases() if case.low]
    tables, verdicts, values = [], [], {}
    for dtype in setting.low:
        name, bar = str(dtype).removeprefix('torch.'), LOW_BARS[dtype]

        def one(case: Case, dtype: torch.dtype = dtype) -> dict[str, float]:
            return check_low(case, setting.device, dtype)

        rows, found, failed = _rows(some, one, bar)
        worst = max((max(x.values()) for x in found.values() if 'failure' not in x), default=0.0)
        tables.append(Table((f'case, {name}', 'value', 'gradient'), rows))
        verdicts.append(_verdict(f'functions under {name} autocast within {bar:g}', failed, worst))
        values[name] = found
    about = (
        'Inputs are rounded to the precision before both compute; the reference is float64 on the '
        'CPU. What is not finite there must not be finite here, and the other way round.'
    )
    return Part('Functions under autocast', [about], tables, verdicts, values)


def _rows(
    some: list[Case], one: Callable[[Case], dict[str, float]], bar: float
) -> tuple[list[Row], dict[str, dict], list[str]]:
    """Return table cells, numbers, and the names of the cases that miss the bar."""
    rows, values, failed = [], {}, []
    for case in some:
        try:
            found = one(case)
        except Exception as problem:
            reason = brief(problem)
            rows.append((case.name, f'fails: {reason}', ''))
            values[case.name] = dict(failure=reason)
            failed.append(f'{case.name} ({reason})')
            continue
        values[case.name] = found
        cells = (f'{found["value"]:.1e}', f'{found["gradient"]:.1e}' if 'gradient' in found else '')
        rows.append((case.name, *cells))
        if not max(found.values()) <= bar:
            failed.append(f'{case.name} {max(found.values()):.1e}')
    return rows, values, failed


def _verdict(bar: str, failed: list[str], worst: float) -> Verdict:
    return Verdict(bar, not failed, '; '.join(failed) or f'largest {worst:.1e}')


def compiled(setting: Setting) -> Part:
    """Check the two losses under torch.compile; a failure is reported on the page."""
    whole = {x.name: x for x in cases()}
    losses = {'contrastive': contrastive, 'margin_ranking/all': margin_ranking}

    def one(case: Case) -> dict[str, float]:
        loss = losses[case.name]
        torch._dynamo.reset()
        fast = torch.compile(loss, backend='aot_eager' if setting.smoke else 'inductor')
        plain, quick = (
            case._replace(call=lambda i, f=f: f(i.scores, i.positives, weights=i.weights))
            for f in (loss, fast)
        )
        reference = run(plain, torch.device('cpu'), torch.float64)
        return error(run(quick, setting.device, torch.float32), reference)

    rows, values, failed = _rows([whole[name] for name in losses], one, BAR)
    failed = [said for said in failed if 'failure' not in values[said.split()[0]]]
    found = '; '.join(failed) or '; '.join(': '.join(row[:2]) for row in rows)
    return Part(
        'Compiled losses',
        ['Through torch.compile, beside float64 without it. What is not compiled fails no bar.'],
        [Table(('case', 'value', 'gradient'), rows)],
        [Verdict(f'compiled losses within {BAR:g}', not failed, found)],
        values,
    )
