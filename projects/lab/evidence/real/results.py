"""Result files, and which learning rates a row tries."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Optional, Sequence

from methods import ALL, METHODS

RESULTS = Path(__file__).resolve().parents[1] / 'cells/real'
RATES = (1e-3, 2e-3)
#: Of rows that try one rate alone.
ONE = dict(F=(2e-3,))
#: What chooses the epoch and the learning rate, by set.
AIMS = dict(U='t2v_SumR')
Result = dict[str, Any]


def read_rows(folder: Path) -> list[Result]:
    """All results of a folder."""
    return [json.loads(line) for path in sorted(folder.glob('*.jsonl')) for line in path.open()]


class Results:
    """Files of lines, each a training, by set and text kind; what is there is not made again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rows = read_rows(folder)

    def all(self, **key: Any) -> list[Result]:
        return [row for row in self.rows if all(row[name] == x for name, x in key.items())]

    def find(self, **key: Any) -> Optional[Result]:
        return next(iter(self.all(**key)), None)

    def add(self, row: Result) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        with open(self.folder / f'{row["set"]}_{row["text"]}.jsonl', 'a') as file:
            file.write(json.dumps(row) + '\n')
        self.rows.append(row)

    def rate(self, data: str, text: str, method: str) -> Optional[float]:
        """The only rate, or that which val has chosen with seed 0; None before all are there."""
        key, rates = dict(set=data, text=text, method=method, seed=0), rates_of(data, text, method)
        tried = [self.find(**key, rate=x) for x in rates]
        if len(rates) == 1:
            return rates[0]
        return None if None in tried else max(tried, key=lambda row: row['val'])['rate']


def rates_of(data: str, text: str, method: str) -> Sequence[float]:
    """The learning rates that seed 0 tries."""
    if METHODS[method].own_training:
        return METHODS[method].own_training
    once = METHODS[method].once == ALL or data in METHODS[method].once or text != 'minilm'
    return ONE.get(data, (1e-3,)) if once else RATES
