"""Print where a config differs from its paper.

    python tools/analysis_tools/papers.py                     # all configs of configs/papers.yml
    python tools/analysis_tools/papers.py dvtr_c2v_msvd --all # one config, equal values as well

The table is markdown.  Values that a paper does not state have no row, and neither has a config of
whose training the paper states nothing.
"""

from __future__ import annotations

import functools
from os.path import commonprefix
from pathlib import Path
from typing import Any, Iterator, NamedTuple, Optional

from mmvtr.cli.start import tool

import yaml
from mmengine.config import Config

from mmvtr.cli import Parser
from mmvtr.registry import DATASETS, bare_name
from mmvtr.utils import load_config, register_all_modules

CONFIGS = Path(__file__).resolve().parents[2] / 'configs'
#: Name of a sequence length -> keys of the pipeline steps that set it.
LENGTHS = dict(
    video_pipeline=('num_frames', 'max_tokens'),
    text_pipeline=('context_length', 'max_length', 'max_words'),
)


class Difference(NamedTuple):
    """A value that a paper states, and the config's value."""

    paper: str
    rows: str
    config: str
    what: str
    stated: Any
    here: Any

    @property
    def agrees(self) -> bool:
        return self.stated == self.here


def compared(statements: list[dict[str, Any]], only: set[str]) -> Iterator[Difference]:
    """Yield each value that a paper states, with the config's value.

    Args:
        statements: content of ``configs/papers.yml``.
        only: names of configs; empty: all.
    """
    for statement in statements:
        paper = f'{statement["paper"]}, {statement["where"]}'
        for name in statement['configs']:
            if only and name not in only:
                continue
            facts = _facts(name) if statement['states'] else {}
            for what, stated in flat(statement['states']):
                yield Difference(paper, statement['rows'], name, what, stated, facts.get(what))


def flat(states: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the stated values with flat names, such as ('lr of heads', 2e-5)."""
    for what, value in states.items():
        if isinstance(value, dict):
            yield from ((f'{what} of {part}', number) for part, number in value.items())
        else:
            yield what, value


@functools.cache
def _facts(config: str) -> dict[str, Any]:
    return facts_of(load_config(config))


def facts_of(cfg: Config) -> dict[str, Any]:
    """Return a config's values by the names of ``configs/papers.yml``."""
    model = cfg.model
    if 'member' in model or 'members' in model:
        model = model.get('member') or model.members[0]
    encoder = model.encoder.get('encoder', model.encoder)
    frames, losses = encoder.get('frames') or {}, model.get('losses') or {}
    optim = cfg.optim_wrapper
    return {
        'videos': _videos(cfg.train_dataloader.dataset),
        'backbone': str(frames.get('model', '')).removesuffix('-quickgelu') or None,
        'pretraining': frames.get('pretrained') or 'none',
        'frames': _length(cfg, 'video_pipeline'),
        'words': _length(cfg, 'text_pipeline'),
        'tau': _tau(model.get('temperature')),
        'margin': next((loss.margin for loss in losses.values() if 'margin' in loss), None),
        'batch': (cfg.get('auto_scale_lr') or {}).get('base_batch_size'),
        'optimizer': bare_name(optim.optimizer),
        **{f'lr of {part}': _rate(optim, part) for part in ('encoder', 'heads', 'rest')},
        'epochs': cfg.train_cfg.max_epochs,
        'K': _samples(model),
    }


def _samples(model: dict[str, Any]) -> Optional[int]:
    parts = [model.get('supervision') or {}, *(model.get('objectives') or {}).values()]
    return next((part.num_samples for part in parts if 'num_samples' in part), None)


def _videos(dataset: dict[str, Any]) -> Optional[int]:
    splits = getattr(DATASETS.get(dataset['type']), 'splits', {})
    return splits[dataset['split']].videos if dataset.get('split') in splits else None


def _length(cfg: Config, pipeline: str) -> Optional[int]:
    steps = cfg.train_dataloader.dataset[pipeline]
    lengths = [step[key] for step in steps for key in LENGTHS[pipeline] if key in step]
    return lengths[0] if lengths else None


def _tau(temperature: Optional[dict[str, Any]]) -> Any:
    if temperature is None:
        return None
    learns = temperature.get('learnable')
    return f'{temperature.init:g}, learned' if learns else temperature.init


def _rate(optim: dict[str, Any], part: str) -> float:
    """Return the learning rate of the towers, of the heads, or of the other parameters."""
    keys = optim.get('paramwise_cfg', {}).get('custom_keys', {})
    names = {'encoder': ('encoder.frames', 'encoder.text', 'encoder'), 'heads': ('heads',)}
    present = (keys[name] for name in names.get(part, ()) if name in keys)
    return float(f'{optim["optimizer"]["lr"] * next(present, {}).get("lr_mult", 1):.6g}')


def table(only: set[str], *, everything: bool = False) -> str:
    """Return the markdown table; with ``everything`` also of values that agree.

    Raises:
        SystemExit: names that are not in ``configs/papers.yml``.
    """
    register_all_modules()
    statements = yaml.safe_load((CONFIGS / 'papers.yml').read_text())
    unknown = only - {name for statement in statements for name in statement['configs']}
    if unknown:
        raise SystemExit(f'error: configs/papers.yml has no {", ".join(sorted(unknown))}')
    shown = [pair for pair in compared(statements, only) if everything or not pair.agrees]
    # Merge configs with the same value, and values with the same configs, into one row.
    configs: dict[tuple, list[str]] = {}
    for pair in shown:
        value = (pair.what, str(pair.stated), str(pair.here))
        configs.setdefault((f'{pair.paper} ({pair.rows})', value), []).append(pair.config)
    values: dict[tuple, list[tuple]] = {}
    for (paper, value), names in configs.items():
        values.setdefault((paper, spelt(names)), []).append(value)
    head = f'| paper (rows) | config | what | the paper states | the config has |\n|{5 * "---|"}'
    rows = [
        f'| {" | ".join([*place, *map("; ".join, zip(*some))])} |' for place, some in values.items()
    ]
    return '\n'.join([head, *rows])


def spelt(names: list[str]) -> str:
    """Return config names in short form, "`a_{b,c}`", or one by one without a common prefix."""
    begin = commonprefix(names).rpartition('_')[0]
    if not begin or len(names) < 2:
        return ', '.join(f'`{name}`' for name in names)
    ends = ','.join(name.removeprefix(f'{begin}_') for name in names)
    return f'`{begin}_{{{ends}}}`'


@tool
def main() -> None:
    parser = Parser(__doc__)
    parser.add_argument('configs', nargs='*', help='names or files; none: all')
    parser.add_argument('--all', action='store_true', help='also print what agrees')
    args = parser.parse_args()
    print(table({Path(name).stem for name in args.configs}, everything=args.all))


if __name__ == '__main__':
    main()
