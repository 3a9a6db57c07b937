"""Check that the library runs correctly on this GPU, and time it, without data or network.

    python tools/benchmark/gpu.py [--out DIR] [--only correctness] [--device cuda|cpu] [--smoke]

Writes DIR/cuda.json and DIR/cuda.md and prints the page.  Exit status 1 if a correctness
check or its section fails.

(Not called cuda.py: torch imports NVIDIA's package ``cuda``, and would find a file of that name.)
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from pathlib import Path
from typing import Callable

import torch

from gpu_check.configs import configs
from gpu_check.functional import autocast, compiled, float32
from gpu_check.loss_figures import loss
from gpu_check.processes import processes
from gpu_check.report import Part, Verdict, brief, machine, write
from gpu_check.score_figures import scores
from gpu_check.setting import ROOT, Setting
from gpu_check.step_figures import step_time
from gpu_check.steps import steps
from gpu_check.timing import free
from gpu_check.video_figures import decode, towers

Section = Callable[[Setting], Part]
GROUPS: dict[str, dict[str, Section]] = {
    'correctness': dict(
        float32=float32,
        autocast=autocast,
        compiled=compiled,
        steps=steps,
        configs=configs,
        processes=processes,
    ),
    'figures': dict(step_time=step_time, loss=loss, scores=scores, decode=decode, towers=towers),
}
SECTIONS = {name: section for group in GROUPS.values() for name, section in group.items()}


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add('--out', type=Path, default=Path('work_dirs/cuda'), help='folder of cuda.json and cuda.md')
    add('--device', choices=('cuda', 'cpu'), default='cuda')
    add('--smoke', action='store_true', help='tiny sizes: shows that it runs, and no speed')
    add('--only', nargs='+', choices=(*GROUPS, *SECTIONS), default=tuple(GROUPS))
    return parser.parse_args()


def main() -> int:
    args = parse_args()
    if args.device == 'cuda' and not torch.cuda.is_available():
        print('error: torch finds no CUDA device here; --device cpu --smoke shows what would run')
        return 2
    torch.set_float32_matmul_precision('highest')
    sys.path.append(str(ROOT / 'projects/lab'))  # simulated towers, and data for the configs
    setting = Setting(torch.device(args.device), args.smoke)
    parts = {name: isolated(name, setting) for name in chosen(args.only)}
    page = write(args.out, machine(setting.device), parts)
    print(page)
    print(f'{args.out / "cuda.md"} and {args.out / "cuda.json"} hold this page and its numbers.')
    missed = [v for part in parts.values() for v in part.verdicts if v.binding and not v.met]
    return int(bool(missed))


def chosen(only: list[str]) -> list[str]:
    """Return the names of the chosen sections, in their order."""
    checks = {name for choice in only for name in GROUPS.get(choice, {choice: None})}
    return [name for name in SECTIONS if name in checks]


def isolated(name: str, setting: Setting) -> Part:
    """Run a section; if it fails, return a part with the reason, so that the others go on."""
    start = time.perf_counter()
    print(f'{name} ...', end=' ', flush=True)
    try:
        part = SECTIONS[name](setting)
    except Exception as error:
        traceback.print_exc()
        reason = brief(error)
        binding = name in GROUPS['correctness']
        verdict = Verdict(f'{name} runs', False, reason, binding)
        part = Part(name, [f'This section failed: {reason}'], verdicts=[verdict])
    free(setting.device)
    print(f'{time.perf_counter() - start:.1f} s', flush=True)
    return part


if __name__ == '__main__':
    sys.exit(main())
