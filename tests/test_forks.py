"""What is forked, and that a forked data worker does without the threads of its parent."""

from __future__ import annotations

import ast
import gc
import re
from pathlib import Path

import av
import numpy as np
import pytest
from torch.utils.data import DataLoader, Dataset

from children import MP, ROOT
from mmvtr.datasets.videos.shown_pictures import ShownPictures
from mmvtr.datasets.videos.video_io import open_video, read_frames

DATA_WORKERS = 'data workers: a converter of pictures has no threads'
#: Files that fork a process, and why no thread of PyAV that the child needs is in the parent.
FORKS = {
    'configs/_base_/default_runtime.py': DATA_WORKERS,
    'configs/_base_/prvr.py': DATA_WORKERS,
    'configs/_base_/schedule_clip_5e.py': DATA_WORKERS,
    'configs/_base_/schedule_planted.py': DATA_WORKERS,
    'mmvtr/datasets/planted_corpus/store.py': 'encodes with one thread',
    'projects/lab/cost_page.py': 'the parent has only read configs',
    'projects/lab/evidence/comparison/processes.py': DATA_WORKERS,
    'projects/lab/evidence/real/run.py': 'features',
    'tests/serve_tools.py': 'the parent has only imported',
    'tests/test_forks.py': 'tries it',
    'tests/test_storage/test_lock.py': 'no videos',
    'tools/dataset_converters/check_dataset.py': DATA_WORKERS,
    'tools/extract_frames.py': DATA_WORKERS,
}
#: Calls that fork, those of multiprocessing where no other way is named.
CALLS = ('os.fork', 'multiprocessing.Pool', 'multiprocessing.Process')


def forks(source: str) -> bool:
    """Whether a source forks, by name or because it names no other way to start a process."""
    may = re.search('fork|Process|Pool', source)  # most files need no parsing
    return bool(may) and any(map(_forks, ast.walk(ast.parse(source))))


def _forks(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        if ast.unparse(node.func).split('.')[-1] == 'ProcessPoolExecutor':
            return len(node.args) < 2 and all(key.arg != 'mp_context' for key in node.keywords)
        return ast.unparse(node.func) in CALLS
    return isinstance(node, ast.Constant) and node.value == 'fork'


def test_every_fork_is_listed():
    parts = ('configs', 'mmvtr', 'projects', 'tests', 'tools')
    files = [path for part in parts for path in (ROOT / part).rglob('*.py')]
    found = {str(path.relative_to(ROOT)) for path in files if forks(path.read_text())}
    assert found == set(FORKS), found ^ set(FORKS)


@pytest.mark.parametrize(
    'source, forked',
    [
        ("get_context('fork')", True),
        ("DataLoader(x, multiprocessing_context='fork')", True),
        ('os.fork()', True),
        ('multiprocessing.Process(target=f)', True),
        ('ProcessPoolExecutor(2)', True),
        ('ProcessPoolExecutor(2, MP)', False),
        ("ProcessPoolExecutor(1, mp_context=get_context('spawn'))", False),
        ('MP.Process(target=f)', False),
    ],
)
def test_what_forks(source, forked):
    assert forks(source) == forked


class Clips(Dataset):
    """Whose worker collects first what its parent left."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> np.ndarray:
        gc.collect()
        return np.stack(read_frames(self.path, lambda times: np.arange(len(times))))


def compare_in_a_worker(path: Path) -> None:
    clips = Clips(path)
    expected = clips[0]
    assert expected.shape == (6, 480, 640, 3)
    gc.disable()
    leave_a_read_behind(str(path))
    loader = DataLoader(clips, batch_size=None, num_workers=1, multiprocessing_context='fork')
    found = list(loader)
    assert len(found) == 2
    for frames in found:
        np.testing.assert_array_equal(frames, expected)


def leave_a_read_behind(path: str) -> None:
    """One that stopped at its first picture, as garbage of this process."""
    with open_video(path) as (container, stream):
        shown = ShownPictures(stream)
        shown.rgb(next(container.decode(stream)))
    ring = [shown]
    ring.append(ring)


def test_a_data_worker_of_a_process_that_has_read(tmp_path, write_video):
    """PyAV's own converters start threads, which a worker that collects them waits for."""
    path = write_video(tmp_path / 'clip.mp4', range(0, 240, 40), size=(480, 640))
    child = MP.Process(target=compare_in_a_worker, args=(path,))
    child.start()
    child.join(60)
    try:
        assert child.exitcode == 0, av.__version__
    finally:
        child.kill()
