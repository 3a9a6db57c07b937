"""Faults that the campaign must see: each is planted in a copy of the code, which then must fail.

The table is all there is to mend when the code changes: a text that no longer stands in its file
exactly once is an error that names the fault.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Iterator, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
#: What a copy needs to run the campaign.
PARTS = ('mmvtr', 'configs', 'tools', 'tests', 'projects/gallery')
#: Seconds that a part may take.
LIMIT = 1500

ANNOTATIONS = 'mmvtr/datasets/annotation_files.py'
FOLDERS = 'mmvtr/datasets/folders.py'
VIDEOS = 'mmvtr/datasets/videos/video_io.py'


class Edit(NamedTuple):
    """In a file, a text that stands there once, and what takes its place."""

    file: str
    old: str
    new: str


class Fault(NamedTuple):
    """What is planted, and the part of the campaign that must see it."""

    part: str
    edits: tuple[Edit, ...]


def _fault(part: str, *edits: tuple[str, str, str]) -> Fault:
    return Fault(part, tuple(Edit(*edit) for edit in edits))


#: Trials of each part that are enough to see all of its faults, at seed 1.
COUNTS = dict(
    mutations=1500, videos=400, players=64, folders=60, weights=63, flips=200, writes=60, stores=60
)


FAULTS = {
    # -- annotations, tables, features ----------------------------------------------------------
    'the last text of every dataset is dropped': _fault('mutations', (
        'mmvtr/datasets/video_text.py',
        'self.videos, self.texts = self.load_annotations()\n',
        'self.videos, self.texts = self.load_annotations()\n        del self.texts[-1:]\n',
    )),
    'rows of another width are skipped': _fault('mutations', (
        ANNOTATIONS, "with problems.of('row of another width'):", 'if False:',
    )),
    'bad lines of json are skipped': _fault('mutations', (
        ANNOTATIONS,
        'rows.append((place, mapping(_parse(line, place), place)))',
        'rows.append((place, mapping(_parse(line, place), place)))\n        problems._rows.clear()',
    )),
    'what is no UTF-8 is replaced': _fault('mutations', (
        ANNOTATIONS, 'text = raw.decode()', "text = raw.decode(errors='replace')",
    )),
    'csv is not strict': _fault('mutations', (
        ANNOTATIONS, 'delimiter=delimiter, strict=True', 'delimiter=delimiter, strict=False',
    )),
    'a doubled column is accepted': _fault('mutations', (
        ANNOTATIONS, 'if twice is not None:', 'if False:',
    )),
    'features that are no numbers are accepted': _fault('mutations', (
        'mmvtr/datasets/videos/feature_stores.py', 'if wrong.any():', 'if False:',
    )),
    # -- videos ----------------------------------------------------------------------------------
    'damaged pictures are accepted': _fault('videos', (
        VIDEOS, 'sound = not frame.is_corrupt and (sound or _stands_alone(frame))', 'sound = True',
    )),
    'the length is not checked': _fault('videos', (
        'mmvtr/datasets/videos/listed_packets.py',
        'if length - self._end >',
        'if False and length - self._end >',
    )),
    'a path is taken for a protocol': _fault('videos', (
        'mmvtr/datasets/videos/video_files.py', "av.open('file:' + path,", 'av.open(path,',
    )),
    'a mirrored picture is only turned': _fault('players', (
        'mmvtr/datasets/videos/shown_pictures.py',
        'matrix = frame.side_data.get(Type.DISPLAYMATRIX)',
        'return np.ascontiguousarray(np.rot90(image, round(frame.rotation / 90)))\n'
        '    matrix = None',
    )),
    'flags of key frames are trusted': _fault('players', (
        VIDEOS,
        'return frame.key_frame and frame.pict_type in (PictureType.I, PictureType.SI)',
        'return True',
    )),
    'the first timestamp is taken for zero': _fault('players', (
        'mmvtr/datasets/videos/video_files.py',
        'return None if container.start_time is None else container.start_time / av.time_base',
        'return None',
    )),
    # -- folders ---------------------------------------------------------------------------------
    'a walk follows loops': _fault('folders', (
        FOLDERS, 'if place is None or place in entered:', 'if place is None:',
    )),
    'a file with two names is listed twice': _fault('folders', (
        FOLDERS, 'again.add(name)', 'pass',
    )),
    # -- weights, checkpoints, galleries ----------------------------------------------------------
    'missing weights are accepted': _fault('weights', (
        'mmvtr/storage/weights.py',
        "'missing': [name for name in shapes if name not in found],",
        "'missing': [],",
    ), (
        'mmvtr/apis/loading.py',
        "model.load_state_dict(check_weights(model, content['state_dict'], checkpoint))",
        "model.load_state_dict(check_weights(model, content['state_dict'], checkpoint), False)",
    )),
    'a digit of the digest does not count': _fault('flips', (
        'mmvtr/storage/reader.py',
        'return _digest(file) == end[-_DIGITS:]',
        'return _digest(file)[:-1] == end[-_DIGITS:-1]',
    )),
    'files are written in place': _fault('writes', (
        'mmvtr/storage/atomic.py', 'part = part_name(path)', 'part = path',
    )),
    'a command deletes before it encodes': _fault('stores', (
        'projects/gallery/mmvtr_gallery/commands/search.py',
        '        if args.add or args.texts or bank or known:\n',
        '        store.delete(args.delete)\n        args.delete = []\n'
        '        if args.add or args.texts or bank or known:\n',
    )),
    'a gallery is removed before the new one comes': _fault('stores', (
        'projects/gallery/mmvtr_gallery/store/replacing.py',
        '        manifest = Manifest.read(part)\n',
        '        manifest = Manifest.read(part)\n        (folder / NAME).unlink(missing_ok=True)\n',
    )),
}  # fmt: skip


class AnchorError(ValueError):
    """A text of the table that does not stand in its file exactly once."""


def planted(source: str, edit: Edit, name: str) -> str:
    """The text of a file with a fault.

    Raises:
        AnchorError: what is to be replaced is not there, or not once.
    """
    times = source.count(edit.old)
    if times != 1:
        raise AnchorError(
            f'{name}: {edit.file} has {times} times {edit.old!r}; put what stands there now into '
            'tests/campaign/planted.py'
        )
    return source.replace(edit.old, edit.new)


def copy_code(to: Path) -> Path:
    """All that the campaign needs, without what was compiled."""
    for part in PARTS:
        shutil.copytree(
            ROOT / part, to / part, ignore=shutil.ignore_patterns('__pycache__', '.pytest_cache')
        )
    shutil.copy(ROOT / 'pyproject.toml', to)  # the folders of modules
    return to


@contextmanager
def with_fault(copy: Path, name: str) -> Iterator[None]:
    """A copy of the code has a fault for a while."""
    edits = FAULTS[name].edits
    before = {edit.file: (copy / edit.file).read_text() for edit in edits}
    try:
        for edit in edits:
            path = copy / edit.file
            path.write_text(planted(path.read_text(), edit, name))
        yield
    finally:
        for file, text in before.items():
            (copy / file).write_text(text)


def bad_trials(copy: Path, part: str) -> list[str]:
    """What a part of a copy's campaign finds wrong with it.

    Raises:
        RuntimeError: it did not come to its end, which is no finding.
    """
    out = copy / 'out'
    shutil.rmtree(out, ignore_errors=True)
    command = [sys.executable, str(copy / 'tests/campaign/run.py'), f'--{part}', str(COUNTS[part])]
    paths = os.pathsep.join([str(copy), str(copy / 'projects/gallery')])
    environ = dict(
        os.environ, PYTHONPATH=paths, PYTHONDONTWRITEBYTECODE='1', MMVTR_SHARED=str(copy)
    )
    done = subprocess.run(
        [*command, '--seed', '1', '--out', str(out)],
        cwd=copy, env=environ, capture_output=True, text=True, timeout=LIMIT,
    )  # fmt: skip
    result = out / f'{part}.json'
    if not result.exists():
        raise RuntimeError(f'{part} did not end: {done.stdout[-1000:]}{done.stderr[-2000:]}')
    return json.loads(result.read_text())['bad']


def plant_here(name: str) -> None:
    """Plant a fault, which is all in one module, in this process until it ends."""
    (edit,) = FAULTS[name].edits
    module = import_module(edit.file.removesuffix('.py').replace('/', '.'))
    source = planted((ROOT / edit.file).read_text(), edit, name)
    exec(compile(source, edit.file, 'exec'), vars(module))
