"""ARL over seeds, on the planted corpus of clips with three moments.

    python tools/benchmark/arl_planted.py [--out docs/benchmark/arl_planted.json] [--jobs 2]

The mean of the frames, the best frame, and ARL on top of it with the strategies of Tab. 6 and with
the paper's thresholds.  The same schedule for all.
"""

from __future__ import annotations

import re
import statistics
from pathlib import Path

from planted_runs import ROOT, WORK, arguments, make_features, over_seeds, table, train, write

MAX = 'configs/maxframe_planted_features.py'
ARL = 'configs/arl_planted_features.py'
LITERAL = ['rule=mean', 'cap=None', 'u_spread=0.0', 'warmup=0.3']
METHODS = {
    'mean of the frames': ('configs/meanpool_planted_features.py', []),
    'best frame': (MAX, []),
    'ARL': (ARL, []),
    "ARL, the paper's thresholds": (ARL, LITERAL),
    'ARL, ambiguous = ignored': (ARL, ['strategy=ignore']),
    'ARL, ambiguous = positive': (ARL, ['strategy=positive']),
    'ARL without text-frame losses': (ARL, ['frame_weight=0.0']),
}
COLUMNS = {
    'retrieval/t2v_R10': 't2v R@10',
    'retrieval/t2v_SumR': 'SumR',
    'semantic/t2v_mAP': 't2v mAP',
    'sets/size': 'ambiguous a text',
    'sets/precision': 'precision',
    'sets/base': 'base rate',
    'sets/lift': 'precision / base rate',
    'sets/warnings': 'warnings',
}
CHOSEN_BY = 'retrieval/t2v_SumR'
OF_EPOCH = re.compile(r'epoch: ([\d.]+) a text, precision ([\d.]+) \(base rate ([\d.]+)\)')


def run(name: str, seed: int) -> dict[str, float]:
    """Test results of a method, and what its log says of the ambiguous sets."""
    config, options = METHODS[name]
    folder = WORK / 'arl_planted' / f'{list(METHODS).index(name)}_{seed}'
    options = [f'model.supervision.{option}' for option in options]
    return {**train(config, folder, seed, options, chosen_by=CHOSEN_BY)['test'], **sets(folder)}


def sets(folder: Path) -> dict[str, float]:
    """Means over the epochs with sets, from the log."""
    logs = sorted((ROOT / folder).glob('*/*.log'))
    lines = [line for log in logs for line in log.read_text().splitlines()]
    epochs = [tuple(map(float, m.groups())) for m in map(OF_EPOCH.search, lines) if m]
    epochs = [epoch for epoch in epochs if epoch[0] > 0]
    if not epochs:
        return {}
    size, precision, base = (statistics.mean(column) for column in zip(*epochs))
    warnings = sum('the sets say little' in line for line in lines)
    return {
        'sets/size': size,
        'sets/precision': precision,
        'sets/base': base,
        'sets/lift': precision / base,
        'sets/warnings': warnings,
    }


def main() -> None:
    args = arguments(__doc__, 'docs/benchmark/arl_planted.json')
    make_features('untrimmed', frames=24, untrimmed=3, captions=6, test_captions=3)
    results = over_seeds(run, METHODS, args.seeds, args.jobs)
    rows = write(args.out, results, COLUMNS, seeds=args.seeds, methods=METHODS)
    print(table(rows, COLUMNS))


if __name__ == '__main__':
    main()
