"""Results of rehearsals as a table on the screen and as a page."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Mapping, Sequence

from mmengine.config import Config

from mmvtr.registry import without_scopes
from mmvtr.rehearsal.simulated_model import NARROW


def fingerprint(cfg: Config) -> str:
    """Of a config's content; whether our names have our scope is no part of it, nor are presets,
    which change nothing until they are asked for."""
    content = without_scopes(cfg.to_dict())
    content.pop('presets', None)
    content = json.dumps(content, sort_keys=True, default=str)
    return hashlib.sha256(content.encode()).hexdigest()[:12]


def is_current(path: Path, config: Path, *, minutes: float) -> bool:
    """Whether there is a result of this very config, whole or cut off no earlier than asked."""
    if not path.exists():
        return False
    from mmvtr.utils import load_config

    result = json.loads(path.read_text())
    if result.get('sha') != fingerprint(load_config(str(config))):
        return False
    return result['steps'] == result['total'] or result['minutes'] >= 0.95 * minutes


def table(result: Mapping[str, Any]) -> str:
    """What a rehearsal says, a line an expectation."""
    narrow = result['narrow']
    lines = [
        f'{result["config"]}: {narrow["steps"]:,} of {narrow["total"]:,} steps of its own '
        f'schedule in {narrow["seconds"] / 60:.1f} CPU minutes',
        f'changed beside towers and data: {"; ".join(narrow["notes"]) or "nothing"}; width '
        f'{result["width"]}, a trunk of one layer',
        '',
    ]
    lines += [f'{WORDS[c[1]]:11}  {c[0]}: {c[2]}' for c in result['checks']]
    lines += [
        '',
        'parameters that are one number: first, last, and how far the schedule lets them:',
    ]
    lines += [
        f'  {name}: {n["first"]:.4g} -> {n["last"]:.4g}, by at most {n["bound"]:.3g}'
        for name, n in narrow['scalars'].items()
    ] or ['  none']
    lines += ['', 'groups: trained numbers, mean gradient norm, rates summed over what was run:']
    for group, count in narrow['parameters'].items():
        norms = [norm for _, norm in narrow['gradients'].get(group, [])]
        mean = sum(norms) / max(1, len(norms))
        lines.append(f'  {group}: {count:,}, {mean:.2e}, {narrow["moves"].get(group, 0.0):.3g}')
    return '\n'.join(lines)


def page(
    results: Sequence[Mapping[str, Any]],
    missing: Sequence[str] = (),
    pictures: Sequence[str] = (),
) -> str:
    """A markdown page with a row a config, names of those without a result, and pictures."""
    rows = []
    for result in results:
        checks = result['checks']
        told = [c for c in checks if c[1] is not True or c[0] not in SHARED]
        worst = min((ORDER.index(c[1]) for c in checks), default=0)
        steps = f'{result["steps"]:,}'
        if result['steps'] < result['total']:
            steps += f' of {result["total"]:,}'
        said = '; '.join([*(f'{MARKS[c[1]]}{c[0]}: {c[2]}' for c in told), *unusual(result)])
        verdict = ('**not met**', 'not reached', 'met')[worst]
        rows.append(
            f'| `{result["config"]}` | {steps} | {verdict} | {said} | {result["minutes"]:.1f} |'
        )
    text = HEAD + '\n'.join(rows) + '\n'
    if missing:
        names = ', '.join(f'`{name}`' for name in missing)
        text += f'\n{len(missing)} configs have no result yet: {names}.\n'
    if pictures:
        text += PICTURES + '\n'.join(f'\n![{Path(path).stem}]({path})' for path in pictures) + '\n'
    return text


def unusual(result: Mapping[str, Any]) -> list[str]:
    """What was changed beside that which the page says of all, in words."""
    notes = [note for note in result['changed'] if not note.startswith(USUAL)]
    width = result.get('width', NARROW.width)  # older results do not say it
    notes += [f'width {width}'] if width != NARROW.width else []
    return [f'changed: {"; ".join(notes)}'] if notes else []


def summary(result: Mapping[str, Any]) -> dict[str, Any]:
    """What is kept of a result: enough for the page, and to know whether it is current."""
    narrow = result['narrow']
    return dict(
        config=result['config'],
        sha=result['sha'],
        steps=narrow['steps'],
        total=narrow['total'],
        minutes=round(narrow['seconds'] / 60, 2),
        width=result['width'],
        changed=narrow['notes'],
        scalars=narrow['scalars'],
        checks=result['checks'],
    )


PICTURES = """
## Pictures

Each rehearsal draws one: losses, what the method is about, scores of pairs, gradients of each group
of parameters, R@1 of training items (with DVTR: Fig. 4), and the verdicts. Some of them:
"""
#: By verdict: how it is written, and before which others it counts.
WORDS = {True: 'met', False: 'NOT MET', None: 'not reached'}
MARKS = {True: '', False: '**not met** ', None: 'not reached '}
ORDER = (False, None, True)
#: Expectations of every config, which the page only names where they are not met.
SHARED = {
    'finite gradients, full width',
    'finite gradients, own schedule',
    'no dead parameter',
    'losses fall',
    'temperature in range',
    'something is learnt',
}
#: Beginnings of the notes on what the page says of all.
USUAL = (f'batch {NARROW.batch} in place of ', f'{NARROW.frames} frames in place of ')
HEAD = f"""# Rehearsals

Every real config, trained on simulated tower outputs with its own steps, rates, hooks and losses:
`python tools/rehearse.py --all --only-page --out docs/rehearsal --page docs/rehearsal.md` makes
this page of the results in that folder. Without `--only-page` it first rehearses what has none
there, was changed since, or was cut off earlier than `--minutes`. A rehearsal replaces pixels and
words only (`mmvtr/rehearsal/world.py`): pairs have a cosine of .25, others .1, as CLIP's do, soft
positives are known, some clips are hubs. It says nothing about the recall that a real training will
reach. It does say whether what a paper adds begins to work in the steps that the config has.

Two steps have the config's own widths and batch. Then its own schedule, of which the rows tell,
has tokens of width {NARROW.width}, a trunk of one layer, at most {NARROW.frames} frames a video,
and batches of at most {NARROW.batch} with the set in proportion: as many steps an epoch as in a
real training. A row says what else was changed.

*Steps* are those that were run; where the schedule has more, the rest was cut off at the limit of
CPU time, and what may still come there is *not reached*. Six expectations are those of every config
and are shown only where they are not met: finite gradients at full width and in the schedule, no
dead parameter, losses that fall (or, over a whole schedule, do not rise beyond the noise of
batches: simulated towers tell some pairs from the start), temperature in range, R@1 of at least 5 %
on unseen items (3.3, ten times chance, where a set of some hundred videos is learnt by heart). The
others are those of its method (`mmvtr/rehearsal/expectations.py`), with their figures. A row is as
it was when its config was rehearsed: an expectation that is younger, or was made stricter since, is
not in it.

| config | steps | verdict | what came | CPU minutes |
|---|---|---|---|---|
"""
