"""What the benchmarks on the planted corpus share: frame features, trainings, their results.

What is done is not done again: a killed benchmark goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable, Iterable, Mapping, Optional, Sequence

from mmvtr.engine.loops.earlier_runs import best_in

ROOT = Path(__file__).resolve().parents[3]
sys.path.append(str(ROOT / 'projects/lab'))  # modules that studies share
from config_files import config_file  # noqa: E402, F401 - studies import it from here

CELLS = ROOT / 'projects/lab/evidence/cells'
WORK = Path('work_dirs/benchmark')
#: Of trainings, for the components of study_parts.
PATH = os.pathsep.join(filter(None, [str(CELLS.parent), os.environ.get('PYTHONPATH')]))
FEATURES = Path('data/planted_features')
SISTER = 'seed=1000'
SETS = [f'{kind}_dataloader.dataset.' for kind in ('train', 'val', 'test')]


def call(*command: object) -> None:
    """Run a tool with one thread; its log stays in its work dir, its errors end this program."""
    done = subprocess.run(
        [sys.executable, *map(str, command)],
        cwd=ROOT,
        env={**os.environ, 'OMP_NUM_THREADS': '1', 'PYTHONPATH': PATH},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise SystemExit(f'{" ".join(map(str, command))} failed:\n{done.stderr[-3000:]}')


def make_features(
    folder: str = 'clips',
    *,
    frames: int = 6,
    trained: bool = True,
    run: Callable[..., None] = call,
    **knobs: object,
) -> None:
    """Frame features of the planted clips, by a frame tower that has never seen them.

    CLIP2Video is trained on a sister corpus: other clips, other captions.  The clips of seed 0 are
    the same whatever the knobs of the captions are, so ``clips`` serves all of these; corpora of
    other clips have folders of their own.

    Args:
        folder: where the features go, in ``FEATURES``.
        frames: of a clip.
        run: runs a tool, as :func:`call`.
        trained: False: the tower stays as it was drawn, which only a trial of the tools can want.
        **knobs: of the corpus.
    """
    tower = [sister_tower()] if trained else ['--random-weights']
    chosen = [f'{name}{knob}={value}' for name in SETS for knob, value in knobs.items()]
    chosen.append(f'test_dataloader.dataset.video_pipeline.0.num_frames={frames}')
    extract = [
        'projects/gallery/mmvtr_gallery/commands/extract_features.py',
        'configs/c2v_planted.py',
        *tower,
    ]
    run(*extract, '--out', FEATURES / folder, '--cfg-options', *chosen)


def sister_tower() -> Path:
    """A checkpoint trained on the sister corpus."""
    sister = WORK / 'sister'
    if not (ROOT / sister / 'done').exists():
        options = ['train_cfg.max_epochs=12', 'train_cfg.val_interval=4']
        train('configs/c2v_planted.py', sister, 0, options + [name + SISTER for name in SETS])
    (best,) = best_in(ROOT / sister)
    return best


def train(
    config: str,
    folder: Path,
    seed: int,
    options: Sequence[str] = (),
    *,
    chosen_by: str = 'retrieval/rsum',
) -> dict[str, dict]:
    """Train and test once; the metrics of the chosen epoch on ``val``, and on ``test``."""
    if not (ROOT / folder / 'done').exists():
        given = ['--cfg-options', *options] if options else []
        call('tools/train.py', config, '--work-dir', folder, '--seed', seed, '--resume', *given)
        (ROOT / folder / 'done').touch()
    return results(folder, chosen_by)


def results(folder: Path, chosen_by: Optional[str] = 'retrieval/rsum') -> dict[str, dict]:
    """Of a finished training: the metrics of the chosen epoch on ``val``, and on ``test``.

    Args:
        folder: of the training.
        chosen_by: key on val; None = the last epoch.
    """
    # A resumed run has one folder of logs for each start; the test is in the last one.
    starts = sorted(path for path in (ROOT / folder).iterdir() if path.is_dir())
    # A start that found nothing left to train has no scalars.
    scalars = [path for s in starts for path in s.glob('vis_data/scalars.json')]
    lines = [line for path in scalars for line in path.open()]
    key = chosen_by or 'retrieval/rsum'
    val = [json.loads(line) for line in lines if f'"{key}"' in line]
    test = json.loads((starts[-1] / f'{starts[-1].name}.json').read_text())
    return dict(val=max(val, key=lambda row: row[key]) if chosen_by else val[-1], test=test)


def arguments(doc: str, out: str, methods: Sequence[str] = ()) -> argparse.Namespace:
    """``out``, ``seeds`` and ``jobs``, as all comparisons take them; ``methods``: some of these."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('--out', type=Path, default=Path(out))
    parser.add_argument('--seeds', type=int, nargs='+', default=[0, 1, 2])
    parser.add_argument('--jobs', type=int, default=2, help='trainings at a time, one thread each')
    if methods:
        parser.add_argument('--methods', nargs='+', choices=methods, default=list(methods))
    return parser.parse_args()


def write(
    out: Path,
    results: Mapping[str, Sequence[Mapping[str, float]]],
    columns: Iterable[str],
    **about: Any,
) -> dict[str, list[dict[str, float]]]:
    """The chosen columns of the results, after they have been written with what they are about."""
    rows = {
        name: [{key: test[key] for key in columns if key in test} for test in tests]
        for name, tests in results.items()
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(dict(**about, test=rows), indent=1) + '\n')
    return rows


def table(rows: Mapping[str, Sequence[Mapping[str, float]]], columns: Mapping[str, str]) -> str:
    """Markdown: mean +- standard deviation over the seeds, of ``columns`` (key -> its heading)."""
    lines = ['| method | ' + ' | '.join(columns.values()) + ' |', '|---' * (len(columns) + 1) + '|']
    for method, seeds in rows.items():
        cells = [spread(row[key] for row in seeds if key in row) for key in columns]
        lines.append(f'| {method} | ' + ' | '.join(cells) + ' |')
    return '\n'.join(lines)


def spread(values: Iterable[float]) -> str:
    """'12.3 +- 0.4'; empty for no values."""
    values = list(values)
    if not values:
        return ''
    digits = 1 if max(map(abs, values)) >= 2 else 3
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return f'{statistics.mean(values):.{digits}f} +- {deviation:.{digits}f}'
