"""A short job from clips to a table, in whatever environment runs it: render, train, test, read.

``python tests/environments/job.py FOLDER`` needs the installed package alone.  It renders the
planted corpus, trains one epoch, tests the checkpoint, and reads ten of the clips frame by frame.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

CONFIG = 'dvtr_c2v_planted'
SHORT = ('--cfg-options', 'train_cfg.max_epochs=1', 'train_cfg.val_interval=1')


def mmvtr(folder: Path, *arguments: str) -> str:
    """``python -m mmvtr ...`` in a folder, and all that it prints."""
    done = subprocess.run(
        [sys.executable, '-m', 'mmvtr', *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        sys.exit(f'{arguments}: exit status {done.returncode}\n{done.stdout[-4000:]}')
    return done.stdout


def rsum(printed: str) -> float:
    """The last one of a table of results."""
    return float(re.findall(r'\brsum\s+(\d+\.\d)', printed)[-1])


def read_videos(folder: Path) -> None:
    """Ten clips: each frame alone is that of the whole clip, and the frames differ."""
    import numpy as np

    from mmvtr.datasets.videos.video_io import decode_all, read_frames

    paths = sorted(folder.rglob('*.mp4'))[:10]
    assert len(paths) == 10, f'{len(paths)} clips below {folder}'
    for path in map(str, paths):
        frames = read_frames(path, lambda times: np.arange(len(times)))
        assert len(frames) == decode_all(path) > 5
        assert any((frame != frames[0]).any() for frame in frames)
        for place in (0, len(frames) // 2, len(frames) - 1):
            (one,) = read_frames(path, lambda times, place=place: np.array([place]))
            assert (one == frames[place]).all()


def main(folder: Path) -> None:
    trained = rsum(mmvtr(folder, 'train', CONFIG, '--work-dir', 'run', *SHORT))
    (checkpoint,) = {path.resolve() for path in (folder / 'run').glob('best*.pth')}
    tested = rsum(mmvtr(folder, 'test', CONFIG, str(checkpoint), '--work-dir', 'test'))
    assert tested == trained > 0, f'rsum {tested} of the checkpoint, {trained} after the training'
    read_videos(folder / 'data')
    print(f'trained, tested (rsum {tested}), and read ten videos')


if __name__ == '__main__':
    main(Path(sys.argv[1]).resolve())
