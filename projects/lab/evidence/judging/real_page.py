"""The figures of real_scores.py as a page."""

from __future__ import annotations

from typing import Any, Iterator, Mapping, Sequence

import numpy as np

from judging.real_transforms import SHOWN

#: What 'auto' has to keep: share of the best single setting's gain, points of R@1 and of AP lost.
SHARE, LOST_R1, LOST_AP = 0.8, 0.5, 1.0
#: The unbalanced form as docs/judgments.md has it.
SHOWN_SO = 'unbalanced_sinkhorn 0.067 / 0.8'
SOURCES = dict(bank='from a bank without own pairs', test='transductive: the test queries')
HEAD = """# Transforms and `transform='auto'` on real scores

`python projects/lab/evidence/real_scores.py DATA --vectors FOLDER` makes this page from
`cells/real_scores.json`; what was written down before is in [the plan](real_scores_plan.md), what
it means for a user in [docs/judgments.md](../../../../docs/judgments.md). Numbers are points
against raw scores with 95 % intervals over queries and items, **bold** where these leave 0 out.
Temperatures are shares of the score gap. EXTRA: average precision of the judged items other than
the annotated one.

Two sets of your own, by one command:

```bash
python projects/lab/evidence/real_scores.py --own texts.npy videos.npy \\
    --own texts2.npy videos2.npy bank_texts2.npy bank_videos2.npy
```
"""


def page(found: Mapping[str, Any]) -> str:
    """All of it."""
    sets = found.get('sets', {})
    paired = {name: x for name, x in sets.items() if 'nDCG' not in x['raw']}
    lines = [HEAD]
    lines += _raw(sets)
    for source, title in SOURCES.items():
        lines += ['', f'## R@1, {title}', '', *_gains(paired, source, 'R1')]
    judged = {name: x for name, x in paired.items() if 'AP' in x['raw']}
    for key, title in (('P1', 'Judged P@1'), ('AP', 'AP of EXTRA')):
        for source, how in SOURCES.items():
            lines += ['', f'## {title}, {how}', '', *_gains(judged, source, key)]
    graded = {name: x for name, x in sets.items() if 'nDCG' in x['raw']}
    for key, title in (
        ('nDCG', 'nDCG of 17 clips'),
        ('nDCG_others', 'The same, own clip left out'),
    ):
        lines += ['', f'## {title}, {SOURCES["bank"]}', '', *_gains(graded, 'bank', key)]
    lines += ['', "## `transform='auto'`", '', *_auto(sets)]
    if 'drift' in found:
        lines += ['', '## Queries that drift', '', *_drift(found['drift'])]
    if 'calibration' in found:
        lines += ['', '## Calibration on graded pairs (CBVS)', '', *_calibration(found)]
    return '\n'.join(lines) + '\n'


#: Of the sets with R@1: what is told of together, on the page of the documentation.
GROUPS = {
    'CLAP: sound and caption, both ways, clean and disturbed': ('CLAP', ''),
    'MiniLM, TF-IDF: captions retrieve the mean of four others': ('MiniLM TF-IDF', 't2v'),
    'the same, means retrieve the caption': ('MiniLM TF-IDF', 'v2t'),
}
SUMMED = {'Sinkhorn .11': 'sinkhorn 0.11', 'unbalanced .067 / .8': SHOWN_SO}


def kinds(sets: Mapping[str, Any]) -> list[str]:
    """A table: lowest and highest gain of R@1 and of EXTRA by kind of scores."""
    heads = [f'{head}, {key}' for head in SUMMED for key in ('R@1', 'EXTRA')]
    lines = _table(['scores', *heads])
    for title, (kind, way) in GROUPS.items():
        own = [
            x
            for name, x in sets.items()
            if x['kind'] in kind.split() and name.endswith(way) and 'R1' in x['raw']
        ]
        own = [x for x in own if 'nDCG' not in x['raw']]
        cells = []
        for one in SUMMED.values():
            gains = [x['bank']['gains'][one] for x in own]
            for key in ('R1', 'AP'):
                values = sorted(_mean(x[key]) for x in gains if key in x)
                ends = ' to '.join(f'{x:+.1f}' for x in values[:: max(len(values) - 1, 1)])
                cells.append(ends.replace('-0.0', '0.0') or 'not judged')
        lines.append(f'| {title} | {" | ".join(cells)} |')
    return lines


def own_page(found: Mapping[str, Any]) -> str:
    """Of one's own arrays: levels, gains and what 'auto' did."""
    sets = found['sets']
    lines = [*_raw(sets)]
    for source, title in SOURCES.items():
        lines += ['', f'R@1, {title}', '', *_gains(sets, source, 'R1')]
    return '\n'.join([*lines, '', *_auto(sets)])


def _table(heads: Sequence[str]) -> list[str]:
    return [f'| {" | ".join(heads)} |', '|---' * len(heads) + '|']


def _raw(sets: Mapping[str, Any]) -> Iterator[str]:
    yield from _table(['raw', 'queries', 'gallery', 'score gap', 'hubs (skewness)', 'measures'])
    for name, x in sets.items():
        values = ', '.join(f'{_named(key)} {value:.1f}' for key, value in x['raw'].items())
        yield (
            f'| {name} | {x["queries"]:,} | {x["gallery"]:,} | {x["score_gap"]:.3f} '
            f'| {x["hubs"]:.1f} | {values} |'
        )


def _named(key: str) -> str:
    names = dict(R1='R@1', P1='P@1', AP='EXTRA', nDCG_others='nDCG without own')
    return names.get(key, key)


def _gains(sets: Mapping[str, Any], source: str, key: str) -> Iterator[str]:
    """A row a set; columns: the settings that are shown, and the best of all."""
    sets = {name: x for name, x in sets.items() if source in x}
    if not sets:
        return
    shown = [str(one) for one in SHOWN]
    shown = [one for one in shown if any(one in x[source]['gains'] for x in sets.values())]
    best = ['the best of all by label'] if key in ('R1', 'nDCG') else []
    yield from _table(['set', *(one.replace('_', ' ') for one in shown), *best])
    for name, x in sets.items():
        gains = x[source]['gains']
        cells = [_cell(gains[one][key]) if one in gains else '' for one in shown]
        if best:
            cells.append(_best(x[source], key))
        yield f'| {name} | {" | ".join(cells)} |'


def _best(of_source: Mapping[str, Any], key: str) -> str:
    name = of_source['best']
    if name == 'raw':
        return f'raw; chosen on half {of_source["honest"]:+.1f}'
    gain = of_source['gains'][name][key]
    return f'{name.replace("_", " ")}: {_cell(gain)}; chosen on half {of_source["honest"]:+.1f}'


def _cell(value: Any) -> str:
    if isinstance(value, (int, float)):
        return f'{value:+.1f}'
    mean, low, high = value
    text = f'{mean:+.1f} [{low:+.1f}, {high:+.1f}]'
    return f'**{text}**' if low > 0 or high < 0 else text


def bar(sets: Mapping[str, Any]) -> dict[str, Any]:
    """What 'auto' gains, of what there is to gain, over the sets with R@1 and a bank with pairs."""
    those = {n: x for n, x in sets.items() if 'auto' in x and 'nDCG' not in x['raw']}
    if not those:
        return {}
    names = sorted(set.intersection(*({*x['bank']['gains']} for x in those.values())))
    means = {
        n: np.mean([_mean(x['bank']['gains'][n]['R1']) for x in those.values()]) for n in names
    }
    one = max(means, key=means.__getitem__)
    best = np.mean([_best_gain(x['bank']) for x in those.values()])
    honest = np.mean([x['bank']['honest'] for x in those.values()])
    found: dict[str, Any] = dict(
        sets=len(those), best=best, honest=honest, one=one, one_gain=float(means[one])
    )
    for kind in ('auto', 'auto_texts'):
        gains = {n: x[kind]['gains'] for n, x in those.items()}
        recall = {n: x['R1'][0] for n, x in gains.items()}
        extra = {n: x['AP'][0] for n, x in gains.items() if 'AP' in x}
        found[kind] = dict(
            mean=np.mean([*recall.values()]),
            lowest=min(recall, key=recall.__getitem__),
            lowest_R1=min(recall.values()),
            lowest_AP=min(extra.values(), default=0.0),
            AP_of=min(extra, key=extra.__getitem__, default=''),
        )
    return found


def _mean(value: Any) -> float:
    return float(value if isinstance(value, (int, float)) else value[0])


def _best_gain(of_source: Mapping[str, Any]) -> float:
    name = of_source['best']
    return 0.0 if name == 'raw' else _mean(of_source['gains'][name]['R1'])


def _auto(sets: Mapping[str, Any]) -> Iterator[str]:
    found = bar(sets)
    if found:
        yield (
            f'{found["sets"]} sets with R@1. The best setting of each, chosen by its labels, '
            f'gains {found["best"]:+.2f} on average (chosen on half of the queries and '
            f'measured on the others: {found["honest"]:+.2f}); the best one setting for all, '
            f'{found["one"].replace("_", " ")}, {found["one_gain"]:+.2f}.'
        )
        yield ''
        yield from _table(
            ['bank', 'mean gain', 'share of the best', 'lowest R@1', 'lowest EXTRA', 'bar']
        )
        for kind, title in (('auto', 'texts and their videos'), ('auto_texts', 'texts alone')):
            x = found[kind]
            share = x['mean'] / found['best'] if found['best'] > 0 else 1.0  # nothing to gain
            kept = share >= SHARE, x['lowest_R1'] >= -LOST_R1, x['lowest_AP'] >= -LOST_AP
            said = ['share', 'R@1', 'EXTRA']
            lost = ', '.join(name for name, one in zip(said, kept) if not one)
            yield (
                f'| {title} | {x["mean"]:+.2f} | {100 * share:.0f} % '
                f'| {x["lowest_R1"]:+.1f} ({x["lowest"]}) | {x["lowest_AP"]:+.1f} ({x["AP_of"]}) '
                f'| {"missed: " + lost if lost else "kept"} |'
            )
        yield ''
    yield from _table(['set', 'with pairs', 'chosen (parts)', 'texts alone', 'chosen (parts)'])
    for name, x in sets.items():
        cells = []
        for kind in ('auto', 'auto_texts'):
            if kind not in x:
                cells += ['', '']
                continue
            gains = ', '.join(
                f'{_named(key)} {_cell(value)}' for key, value in x[kind]['gains'].items()
            )
            chosen = ', '.join(
                f'{"raw" if one == "None" else one} ({n})' for one, n in x[kind]['chosen'].items()
            )
            cells += [gains, chosen]
        yield f'| {name} | {" | ".join(cells)} |'


def _drift(found: Mapping[str, Any]) -> Iterator[str]:
    yield (
        'Sounds ask for captions (CLAP). R@1 against raw scores of the disturbed queries. *Stale*: '
        '`auto` by clean pairs. *Fresh*: by pairs as disturbed. *Served*: the choice of stale, its '
        'biases re-fitted to half of the disturbed queries; the other half asks. These have their '
        'own items in the gallery, and holding those back helps the others. *Served elsewhere* is '
        'the control (added after a first look): as many disturbed queries without an own item in '
        'the gallery. Cost is fresh less stale.'
    )
    yield ''
    heads = ['disturbance', 'raw', 'stale', 'fresh', 'served', 'served elsewhere', 'cost']
    yield from _table([*heads, 'recovered', 'recovered elsewhere'])
    keys = ('stale', 'fresh', 'refit', 'elsewhere', 'cost', 'recovered', 'recovered_elsewhere')
    for name, x in found.items():
        yield f'| {name} | {x["raw"]:.1f} | {" | ".join(_cell(x[key]) for key in keys)} |'
    cost, *parts = (
        np.mean([x[key][0] for x in found.values()])
        for key in ('cost', 'recovered', 'recovered_elsewhere')
    )
    yield ''
    yield (
        f'On average the shift costs {cost:.1f}; re-fitting recovers {parts[0]:.1f} '
        f'({100 * parts[0] / cost:.0f} %), elsewhere {parts[1]:.1f} ({100 * parts[1] / cost:.0f} '
        '%); the bar is 50 %.'
    )


def _calibration(found: Mapping[str, Any]) -> Iterator[str]:
    x = found['calibration']
    yield (
        f'{x["pairs"]:,} pairs of {x["queries"]:,} queries, {x["match"]} % of grade 1 or 2. Fitted '
        'on half of the queries, judged on the others; means of ten splits, both ways.'
    )
    yield ''
    yield from _table(
        ['fit', 'calibration error', 'by chance alone', 'shown at 90 %', 'right of those shown']
    )
    for method in ('platt', 'isotonic'):
        one = x[method]
        yield (
            f'| {method} | {one["error"]:.3f} | {one["by_chance"]:.3f} | {one["shown"]:.1f} % '
            f'| {one["right_of_shown"]:.1f} % |'
        )
