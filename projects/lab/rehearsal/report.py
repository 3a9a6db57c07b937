"""Results of rehearsals: a table on the screen, a line of a file, a row of a page."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Iterable, Mapping, Optional, Sequence

from mmengine.config import Config
from mmengine.hooks import Hook

from first_names import without_scopes
from mmvtr.registry import HOOKS, bare_name
from mmvtr.storage import write_atomically
from simulation.simulated_model import NARROW

#: Config keys that a training reads; others concern display, logging, tests, file locations,
#: variants, and variables of the config itself.
READ = (
    *('model', 'data_preprocessor', 'train_dataloader', 'optim_wrapper', 'param_scheduler'),
    *('train_cfg', 'default_hooks', 'custom_hooks', 'randomness', 'load_from', 'auto_scale_lr'),
    *('default_scope', 'custom_imports', 'find_unused_parameters', 'model_wrapper_cfg'),
)
#: Keys of ``train_cfg`` that say when a training is tested.
_TESTED = ('val_interval', 'val_begin', 'dynamic_intervals')
#: Keys of ``default_hooks`` that display and write, by mmengine's names.
_SHOWN = ('timer', 'logger', 'checkpoint', 'visualization', 'progress', 'eta')
#: Keys of ``train_dataloader`` that say how batches are fetched, which does not change them.
_FETCHED = ('num_workers', 'persistent_workers', 'prefetch_factor', 'pin_memory')
#: Hooks that observe a training without changing it.
_WATCHING = ('EtaMonitorHook', 'PicturesHook', 'ModalityGapHook', 'ProgressHook')


def fingerprint(cfg: Config) -> str:
    """Return a fingerprint, 12 hexadecimal digits, of what a training reads from a config.

    It does not depend on whether names have the mmvtr scope.
    """
    content = without_scopes({key: x for key, x in cfg.to_dict().items() if key in READ})
    content['train_cfg'] = _without(content.get('train_cfg'), _TESTED)
    content['train_dataloader'] = _without(content.get('train_dataloader'), _FETCHED)
    content['default_hooks'] = _without(content.get('default_hooks'), _SHOWN)
    content['custom_hooks'] = [x for x in content.get('custom_hooks') or [] if _acts(x)]
    content = json.dumps(content, sort_keys=True, default=str)
    return hashlib.sha256(content.encode()).hexdigest()[:12]


def _without(part: Optional[dict[str, Any]], keys: Sequence[str]) -> dict[str, Any]:
    return {key: x for key, x in (part or {}).items() if key not in keys}


def _acts(hook: Any) -> bool:
    """Return whether a hook may change a training; one that is only called in tests does not."""
    kind = bare_name(hook)
    component = HOOKS.get(kind) if kind else None
    if component is None:
        return True
    calls = [name for name in dir(Hook) if name.startswith(('before_', 'after_'))]
    own = [x for x in calls if getattr(component, x) is not getattr(Hook, x)]
    return kind not in _WATCHING and any('val' not in x and 'test' not in x for x in own)


def read_results(path: Path) -> dict[str, dict[str, Any]]:
    """Return the summaries in a file by config name; {} if there is no file."""
    if not path.exists():
        return {}
    results = [json.loads(line) for line in path.read_text().splitlines()]
    return {one['config']: one for one in results}


def write_results(path: Path, results: Mapping[str, Mapping[str, Any]]) -> None:
    """Write a line per config, sorted by name; the file is replaced atomically."""
    text = ''.join(f'{json.dumps(results[name])}\n' for name in sorted(results))
    write_atomically(path, lambda file: file.write(text.encode()))


def is_current(
    result: Optional[Mapping[str, Any]], config: Path, *, minutes: float, items: float
) -> bool:
    """Return whether a result belongs to this config and covers the request.

    It must have at least the requested items, and be complete, or have exactly as many items and be
    cut off no earlier than requested.
    """
    from mmvtr.utils import load_config

    if result is None or result['sha'] != fingerprint(load_config(str(config))):
        return False
    if result['items'] < items:
        return False
    cut_alike = result['items'] == items and result['minutes'] >= 0.95 * minutes
    return result['steps'] == result['total'] or cut_alike


def table(result: Mapping[str, Any]) -> str:
    """Return a rehearsal's results as text, one line per expectation."""
    narrow = result['narrow']
    lines = [
        f'{result["config"]}: {narrow["steps"]:,} of {narrow["total"]:,} steps of its own '
        f'schedule in {narrow["seconds"] / 60:.1f} CPU minutes',
        f'changed beside towers and data: {"; ".join(narrow["notes"]) or "nothing"}; width '
        f'{NARROW.width}, a trunk of one layer',
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


def page(results: Iterable[Mapping[str, Any]], missing: Sequence[str] = ()) -> str:
    """Return a markdown page with a row for each config whose whole schedule was rehearsed.

    Args:
        results: summaries from :func:`summary`; partial schedules have no row.
        missing: configs without any result.
    """
    results = list(results)
    whole = [one for one in results if one['steps'] == one['total']]
    rows = [
        f'| `{one["config"]}` | {one["items"]:g} | {one["steps"]:,} | {verdict(one)} |'
        for one in whole
    ]
    without = len(missing) + len(results) - len(whole)
    return HEAD + '\n'.join(rows) + f'\n\n{without} other configs have no whole rehearsal.\n'


def verdict(result: Mapping[str, Any]) -> str:
    """Return the expectations that are not met, or not reached; else 'met'."""
    words = []
    for passed in (False, None):
        names = [name for name, one in result['checks'].items() if one[0] is passed]
        words += [f'{MARKS[passed]}{", ".join(names)}'] if names else []
    return '; '.join(words) or 'met'


def summary(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return a compact result; ``checks`` holds by name whether it is met, and the measurement."""
    narrow = result['narrow']
    changed = [note for note in narrow['notes'] if not note.startswith(USUAL)]
    return dict(
        config=result['config'],
        sha=result['sha'],
        steps=narrow['steps'],
        total=narrow['total'],
        items=narrow['items'],
        minutes=round(narrow['seconds'] / 60, 2),
        changed=changed,
        components=result['components'],
        checks={one[0]: list(one[1:]) for one in result['checks']},
    )


#: Name of the file of results in their folder.
RESULTS = 'results.jsonl'
#: Words for a verdict on the screen, and on the page.
WORDS = {True: 'met', False: 'NOT MET', None: 'not reached'}
MARKS = {False: '**not met**: ', None: 'not reached: '}
#: Beginnings of notes that apply to all configs, which the page states once.
USUAL = (f'batch {NARROW.batch} in place of ', f'{NARROW.frames} frames in place of ')
HEAD = f"""# Rehearsals

Real configs, trained on simulated tower outputs with their own rates, hooks and losses, through
their whole schedule. A rehearsal replaces pixels
and words only (`simulation/world.py`): pairs have a cosine of .25, others .1, as CLIP's do,
soft positives are known, some clips are hubs. It says nothing about the recall that a real training
will reach. It says whether what a paper adds begins to work within the schedule; a part of one says
little of that and has no row.

```bash
python projects/lab/rehearse.py CONFIG                  # one config: table and picture
python projects/lab/rehearse.py CONFIG --out projects/lab/docs/rehearsal \\
  --page projects/lab/docs/rehearsal.md --items 0.2      # and its row here, of a fifth of the items
```

Two steps have the config's own widths and batch. Then its own schedule, of which the rows tell, has
tokens of width {NARROW.width}, a trunk of one layer, at most {NARROW.frames} frames a video, and
batches of at most {NARROW.batch} with the set in proportion: as many steps an epoch as in a real
training, or, where *items* is below 1 (`--items`), that share of them at as many epochs. Fewer
steps at the same rates get less far: what must come is met sooner than the config asks, what must
stay (a range, finite gradients, losses that do not rise) was watched for fewer steps, and what
is not met has no verdict. [`rehearsal/{RESULTS}`](rehearsal/{RESULTS}) has a line a config, with
what else was changed, CPU minutes, and what came of each expectation.

Asked of every config: finite gradients, no dead
parameter, losses that fall (or, over a whole schedule, do not rise beyond the noise of batches),
temperature in range, R@1 of at least 5 % on unseen items (3.3 where a small set is learnt by heart;
chance is .3). What is asked of a method is in
`rehearsal/expectations.py`. A row is as old as
its rehearsal.

| config | items | steps | verdict |
|---|---|---|---|
"""
