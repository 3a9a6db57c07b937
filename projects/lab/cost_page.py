"""Write what the papers' trainings cost: hours on A100 and H100, memory, checkpoints.

    python projects/lab/cost_page.py                        # tables of docs/reproduce/costs.md
    python projects/lab/cost_page.py --only dvtr_hit_msvd   # some rows, on the screen

A row for each config that a page of docs/reproduce trains, itself or in a study.  All numbers are
estimates, as in preflight.py: steps by the published sizes of the sets, in 16 bit if the config has
CLIP's towers, without tests.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import re
from pathlib import Path
from typing import Iterator, Sequence

from mmvtr.cli.start import tool

import torch
from mmengine.config import Config
from mmengine.registry import init_default_scope
from preflight import REACHED, Needs, reading

from mmvtr.cli import Parser
from mmvtr.engine.checks.schedule_checks import accumulated
from mmvtr.storage import write_text
from mmvtr.studies.reading import read_study
from mmvtr.utils import load_config, register_all_modules
from simulation.footprint import encoder_of, uncounted

ROOT = Path(__file__).resolve().parents[2]
#: The page, whose text above its first table is kept.
PAGE = ROOT / 'docs/reproduce/costs.md'
#: Papers' pages, in their order.
PAGES = ('dvtr', 'ncl', 'uatvr', 'arl', 'causal')
CARDS = (1, 8)
#: Assumed TFLOP/s by card, in fp32 and in 16 bit.
SPEEDS = {'A100': REACHED, 'H100': {False: 40.0, True: 300.0}}
#: A training's command, and a study's.
TRAINS = r'(?:train\.py|dist_train\.sh) configs/(?:\w+/)?(\w+)\.py'
STUDIES = r'study\.py (\w+)'


def parse_args() -> argparse.Namespace:
    parser = Parser(__doc__)
    parser.add_argument('--only', nargs='+', metavar='CONFIG', help='rows of these configs')
    return parser.parse_args()


@tool
def main() -> None:
    args = parse_args()
    register_all_modules()
    init_default_scope('mmvtr')
    torch.set_num_threads(1)
    if args.only:
        print('\n'.join([HEADS, *rows(args.only)]))
        return
    prose = PAGE.read_text().partition('\n## ')[0]
    write_text(PAGE, '\n'.join([prose, *(section(page) for page in PAGES)]))


def section(page: str) -> str:
    """Return the rows of one paper's page."""
    text = (ROOT / f'docs/reproduce/{page}.md').read_text()
    title = text.splitlines()[0].removeprefix('# ').partition(':')[0]
    lines = [f'## {title}', '', HEADS, *rows(trained(text))]
    sums = [f'`{name}`: {count} trainings as `{of}`' for name, count, of in studies(text)]
    return '\n'.join([*lines, '', f'Studies, a seed: {"; ".join(sums)}.', ''])


def trained(text: str) -> list[str]:
    """Return the configs that a page trains, itself or most often in a study."""
    found = re.findall(TRAINS, text) + [config for _, _, config in studies(text)]
    return [*dict.fromkeys(found)]


def studies(text: str) -> Iterator[tuple[str, int, str]]:
    """Yield a page's studies, their trainings, and the config that most of these have."""
    for name in dict.fromkeys(re.findall(STUDIES, text)):
        configs = [Path(row.config).stem for row in read_study(name).rows if not row.of]
        yield name, len(configs), max(configs, key=configs.count)


def rows(names: Sequence[str]) -> list[str]:
    """Return the rows of configs, each made by a process of its own, whose memory it gives back."""
    with multiprocessing.get_context('fork').Pool(1, maxtasksperchild=1) as pool:
        return pool.map(row, names, chunksize=1)


def row(name: str) -> str:
    """Return a config's row."""
    cfg = load_config(name)
    amp = any('OpenCLIP' in str(part.get('type')) for part in _towers(cfg))
    needs = Needs.of(cfg, amp)
    epochs = cfg.train_cfg.get('max_epochs') or 1
    own, turns = cfg.train_dataloader.batch_size, accumulated(cfg)
    base = (cfg.get('auto_scale_lr') or {}).get('base_batch_size') or own * turns
    steps = math.ceil(needs.batches * own / base) * turns * epochs
    memory, computed, read = [], {card: [] for card in SPEEDS}, []
    for cards in CARDS:
        joint = base // turns
        share = max(joint // cards, 1)
        memory.append(needs.memory(share, joint) / 1e9)
        for card, speeds in SPEEDS.items():
            computed[card].append(needs.hours(share, joint, steps, speeds[amp]))
        read.append(reading(cfg, steps * joint, cards)[0])
    cells = [_pair(memory), *map(_pair, computed.values()), _pair(read) if any(read) else '']
    star = r'\*' if uncounted(cfg) else ''
    checkpoint = _checkpoints(cfg, needs)
    return (
        f'| `{name}`{star} | {"16" if amp else "32"} | {steps // turns:,} | {" | ".join(cells)} '
        f'| {checkpoint:.2g} |'
    )


def _towers(cfg: Config) -> list[dict]:
    encoder = encoder_of(cfg)
    return [encoder[side] for side in ('frames', 'text') if isinstance(encoder.get(side), dict)]


def _pair(values: list[float]) -> str:
    """Return numbers for 1 and for 8 cards."""
    return ' / '.join(f'{value:.2g}' if value >= 0.01 else '<.01' for value in values)


def _checkpoints(cfg: Config, needs: Needs) -> float:
    """Return the GB of checkpoints: weights and two moments, of the last, the next and the best."""
    numbers = needs.trained + needs.fixed / 16
    return (2 + (cfg.get('val_dataloader') is not None)) * 12 * numbers / 1e9


HEADS = (
    '| config | bits | steps | GB a card | hours to compute, A100 | H100 | hours to read videos | '
    'GB of checkpoints |\n|---|---|---|---|---|---|---|---|'
)
if __name__ == '__main__':
    main()
