"""What benchmarks on planted corpora share: frame features, and the results of trainings.

What is done is not done again: a killed benchmark goes on where it stopped.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Optional

from comparison.processes import ROOT, run_tool

from mmvtr.engine.loops.earlier_runs import best_in

sys.path.append(str(ROOT / 'projects/lab'))  # modules that studies share
from config_files import config_file  # noqa: E402, F401 - studies import it from here

CELLS = ROOT / 'projects/lab/evidence/cells'
WORK = Path('work_dirs/benchmark')
FEATURES = Path('data/planted_features')
CONFIG = ROOT / 'configs/c2v_planted.py'
SISTER = 'seed=1000'
SETS = [f'{kind}_dataloader.dataset.' for kind in ('train', 'val', 'test')]


def make_features(
    folder: str = 'clips',
    *,
    frames: int = 6,
    trained: bool = True,
    home: Path = ROOT,
    **knobs: object,
) -> None:
    """Frame features of the planted clips, by a frame tower that has never seen them.

    CLIP2Video is trained on a sister corpus: other clips, other captions.  The clips of seed 0 are
    the same whatever the knobs of the captions are, so ``clips`` serves all of these; corpora of
    other clips have folders of their own.

    Args:
        folder: where the features go, in ``FEATURES``.
        frames: of a clip.
        trained: False: the tower stays as it was drawn, which only a trial of the tools can want.
        home: folder of ``data`` and ``work_dirs``.
        **knobs: of the corpus.
    """
    tower = [sister_tower(home)] if trained else ['--random-weights']
    chosen = [f'{name}{knob}={value}' for name in SETS for knob, value in knobs.items()]
    chosen.append(f'test_dataloader.dataset.video_pipeline.0.num_frames={frames}')
    tool = ROOT / 'projects/gallery/mmvtr_gallery/commands/extract_features.py'
    words = [tool, CONFIG, *tower, '--out', FEATURES / folder, '--cfg-options', *chosen]
    run_tool(*words, log=home / WORK / 'features' / folder, home=home)


def sister_tower(home: Path = ROOT) -> Path:
    """A checkpoint trained on the sister corpus."""
    folder = home / WORK / 'sister'
    if not (folder / 'done').exists():
        words = [ROOT / 'tools/train.py', CONFIG, '--work-dir', WORK / 'sister', '--seed', 0]
        options = ['train_cfg.max_epochs=12', 'train_cfg.val_interval=4']
        options += [name + SISTER for name in SETS]
        run_tool(*words, '--resume', '--cfg-options', *options, log=folder, home=home)
        (folder / 'done').touch()
    (best,) = best_in(folder)
    return best


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
