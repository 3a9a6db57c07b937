"""All verdicts: their rule, a table for each family, and who does what."""

from __future__ import annotations

from typing import Mapping, Sequence

from comparison.columns import TRUTH, heading
from comparison.files import T2V_RSUM, Row
from comparison.kinds import Method
from comparison.markdown import interval, named, signed, table
from comparison.pictures import AIM_COST, AIM_SHARE, PRECISION, RSUM
from comparison.statistics import time_said
from comparison.together import UNUSED_NAMES
from comparison.verdicts import COLLAPSED, MATTERS, RESOLVED
from comparison.views import View

#: The conditions that say who reaches the shaded area of ``trade.png``, and what was chosen there.
HEADLINES = {
    'general21': 'learning rates were chosen on its val',
    **dict.fromkeys(UNUSED_NAMES, 'no setting of a row was chosen here'),
}
#: Marks rows of whose method there is more to be said.
NOTED = '\u2020'
TITLES = dict(
    trade='Paired rsum and v2t precision@1',
    effects='Difference to the control in the aim of each condition',
    length='Paired recall against length bias',
)
RULE = """\
A row is compared with its **control**, which differs from it by its idea alone and costs as much:
the baseline of the condition where none is named after *over*. Further controls follow in the same
cell. It is judged by its difference in the **aim**, the measure that the bias of the condition
spoils, in a direction that the field reports; in the **cost**, paired recall as the field counts it
there; and in what is true in either direction (mAP). What a method trains on is never its aim.

- **trade**: the interval of one direction's truth lies above 0, and that of the other's below. (P@1
  counts as truth of its direction where it is the aim.)
- *nothing*: else, the interval of the aim lies within +- what would matter.
- **helps**, **harms**: else, it excludes 0. Paired recall is added where its interval excludes 0,
  too: *for* names what is paid for a gain.
- *not resolved*: else. It holds 0 and what would matter, so that these seeds and 400 clips cannot
  tell; or it excludes 0 as one of many does by chance: the p of all comparisons of a
  condition in the aim are corrected for their number (Holm) and doubled where results had been
  looked at before the number of trainings was settled; those of the first page for the number of
  its rows as well, and the larger p counts. Prices and losses of truth are not corrected.
- **costs** rather than *not resolved*, **harms** rather than *nothing*: paired recall is lost, by
  its interval.
- *collapsed*: a training has learnt nothing, as its t2v R@1 + R@5 + R@10 says, at most
  {collapsed:g} times that of equal scores{nearest}.
  Such rows get no verdict. v2t is not asked: there an oracle loses all paired recall by finding
  what is true.
- *a baseline of others*: another loss or another encoder. It has differences and no verdict.

What would matter: {precision:g} points of P@1, {map:g} of mAP, {ndcg:g} of class nDCG (which only
chooses learning rates), {rsum:g} of rsum, {t2v:g} of its part in one direction. Of P@1 that is less
than a sixth of what the oracles gain where they gain, of rsum 1.7 points of each of its R@K{apart}.
"""


def summary(
    views: Sequence[View], methods: Mapping[str, Method], pictures: Sequence[str], link: str
) -> str:
    """What each row does in each condition.

    Args:
        views: the conditions.
        methods: by name.
        pictures: names of those that there are.
        link: folder of the pictures, from the page.
    """
    families = list(dict.fromkeys(view.condition.family for view in views))
    parts = ['## Does it help?\n', _rule(views)]
    for family in families:
        those = [view for view in views if view.condition.family == family]
        parts += [f'### Verdicts ({family})\n', _verdicts(those, methods)]
    parts += ['### Who does what\n', _plainly(views, methods)]
    parts += [_headline(view) for view in views if _has_headline(view)]
    parts += [f'![{TITLES[name]}]({link}/{name}.png)\n' for name in TITLES if name in pictures]
    shown = {row.method for view in views for row in view.rows.values()}
    known = [methods[name] for name in methods if name in shown and methods[name].note]
    notes = [f'- **{method.label}**: {method.note}' for method in known]
    if notes:
        parts += ['### What the rows are\n', '\n'.join(notes) + '\n']
    return '\n'.join(parts)


def _rule(views: Sequence[View]) -> str:
    return RULE.format(
        collapsed=COLLAPSED,
        nearest=_nearest(views),
        precision=MATTERS[PRECISION],
        map=MATTERS['semantic/v2t_mAP'],
        ndcg=MATTERS['relevance/avg_nDCG'],
        t2v=MATTERS[T2V_RSUM],
        rsum=MATTERS[RSUM],
        apart=_apart(views),
    )


def _nearest(views: Sequence[View]) -> str:
    """How clearly the rule of collapse tells the trainings apart."""
    lost, others = [], []
    for view in views:
        for row in view.rows.values():
            seeds = view.collapsed(row)
            for seed, value in row.values('retrieval/t2v_rsum').items():
                (lost if seed in seeds else others).append(value)
    if not lost or not others:
        return ''
    return (
        f' ({max(lost):.1f} is the most of those that have, {min(others):.1f} the least of all '
        'others)'
    )


def _apart(views: Sequence[View]) -> str:
    """How far the trainings of a baseline lie apart by their seed alone."""
    known = [list(view.base.values(RSUM).values()) for view in views if view.base]
    ranges = [max(values) - min(values) for values in known if len(values) > 1]
    if not ranges:
        return ''
    return (
        f'; trainings of a baseline that differ by their seed alone lie {min(ranges):.0f} to '
        f'{max(ranges):.0f} of it apart'
    )


def _verdicts(views: Sequence[View], methods: Mapping[str, Method]) -> str:
    """A line for each row, a column for each condition of a family."""
    order = list(methods)
    rows = {name: row for view in views for name, row in view.rows.items()}
    labels = {
        name: _marked(next(v for v in views if name in v.rows).label(name), rows[name], methods)
        for name in sorted(rows, key=lambda name: order.index(rows[name].method))
    }
    headings = [f'{view.condition.label} (`{view.name}`): {_aim(view)}' for view in views]
    lines = [
        [label, *(said(view, view.rows[name]) if name in view.rows else '' for view in views)]
        for name, label in labels.items()
    ]
    noted = f'{NOTED} See [What the rows are](#what-the-rows-are) before you quote it.\n'
    known = any(NOTED in label for label in labels.values())
    return table(['row', *headings], lines) + (f'\n{noted}' if known else '')


def _marked(label: str, row: Row, methods: Mapping[str, Method]) -> str:
    return f'{label} {NOTED}' if methods[row.method].note else label


def _aim(view: View) -> str:
    aim, cost = view.condition.aim, view.condition.cost
    return heading(aim) if aim == cost else f'{heading(aim)}, cost {heading(cost)}'


def said(view: View, row: Row) -> str:
    """What a row does in a condition, over each of its controls."""
    if row is view.base:
        return 'baseline'
    controls = view.controls[row.name]
    if not controls:
        return 'not measured'
    if view.collapsed(row):
        return _collapsed(view, row)
    if view.is_baseline(row):
        known = ', '.join(_differences(view, row, resolved=True))
        return 'a baseline of others' + (f' ({known})' if known else '')
    parts = []
    for k, control in enumerate(controls):
        over = '' if k == 0 and control == view.condition.baseline else f' over {control}'
        parts.append(_one(view, row, control) + over + time_said(row, view.rows[control]))
    return '; '.join(parts)


def _collapsed(view: View, row: Row) -> str:
    """How many of its seeds, and what the others do."""
    lost = view.collapsed(row)
    others = {seed: cell for seed, cell in row.cells.items() if seed not in lost}
    known = ', '.join(_differences(view, row._replace(cells=others))) if others else ''
    of = f'{len(lost)} of {len(row.cells)} seeds'
    return f'*collapsed* ({of}; the others {known})' if known else f'*collapsed* ({of})'


def _differences(view: View, row: Row, *, resolved: bool = False) -> list[str]:
    """To its first control in the aim and in the cost; all of them, or what excludes 0."""
    keys = dict.fromkeys((view.condition.aim, view.condition.cost))
    gains = {key: view.edge(row, key) for key in keys}
    return [named(g, key) for key, g in gains.items() if g and (g.sign or not resolved)]


def _one(view: View, row: Row, control: str) -> str:
    """Verdict and figures over one control."""
    word, aim, cost = view.verdict(row, control), view.condition.aim, view.condition.cost
    gain, paid = view.edge(row, aim, control), view.edge(row, cost, control)
    if word == 'unknown':
        return 'not measured' if gain is None else 'one seed, no verdict'
    if word == 'collapsed':
        return 'no verdict, as its control collapsed,'
    by, also = signed(gain.mean, aim), ''
    if paid is not None and paid.sign and aim != cost:
        also = named(paid, cost)
    if word == 'trade':
        true = [named(gain, key) for gain, key in zip(view.truth(row, control), TRUTH) if gain]
        return '; '.join([f'**trade** {by}{f", {also}" if also else ""}', *true])
    if word == 'costs':
        return f'**costs** {also}, aim not resolved ({by})'
    if word == 'harms' and not gain.sign:
        return f'**harms**: {also}, aim nothing ({by})'
    word = f'**{word}**' if word in RESOLVED else word
    if not also:
        return f'{word} {by}'
    return (
        f'{word} {by} for {also}'
        if word == '**helps**' and paid.sign < 0
        else f'{word} {by}, {also}'
    )


def _plainly(views: Sequence[View], methods: Mapping[str, Method]) -> str:
    """Rows by their verdict over the first control, without oracles and baselines."""
    heads = {
        'helps': '**Helps**',
        'harms': '**Harms**',
        'trade': '**Trades** truth of one direction for that of the other',
        'costs': '**Costs** paired recall, aim not resolved',
        'nothing': '*Nothing*',
        'not resolved': '*Not resolved*',
        'collapsed': '*Collapsed*',
    }
    found: dict[str, dict[str, list[str]]] = {word: {} for word in heads}
    for view in views:
        for name, row in view.rows.items():
            word = view.verdict(row)
            plain = name in view.oracles or view.is_baseline(row)
            if word in heads and not plain:
                label = _marked(view.labels[name], row, methods)
                found[word].setdefault(label, []).append(f'`{view.name}`')
    lines = [
        f'- {head}: '
        + (
            '; '.join(f'{label} ({", ".join(where)})' for label, where in found[word].items())
            or 'none'
        )
        + '.'
        for word, head in heads.items()
    ]
    return '\n'.join(lines) + '\n'


def _has_headline(view: View) -> bool:
    plan = view.condition
    return view.name in HEADLINES and plan.aim == PRECISION and view.oracle_gains(PRECISION)


def _headline(view: View) -> str:
    """Who reaches the shaded area of ``trade.png``, with figures."""
    inside = []
    for name, row in view.rows.items():
        closed, paid = view.share(row), view.gain(row, RSUM)
        if name in view.oracles or closed is None or paid is None:
            continue
        if closed >= AIM_SHARE and paid.mean >= -AIM_COST:
            inside.append(f'{view.label(name)} ({closed:.0f} %, rsum {interval(paid, RSUM)})')
    return (
        f'**{view.condition.label}** ({HEADLINES[view.name]}): at least {AIM_SHARE} % of the '
        f'gain of the oracle in v2t P@1 for at most {AIM_COST} rsum, by the means: '
        f'{"; ".join(inside) or "none"}.\n'
    )
