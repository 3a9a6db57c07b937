"""Recognise score files of unsupported formats by their content, and tell how to convert them."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import NamedTuple, Optional
from zipfile import BadZipFile, ZipFile

#: Description of the supported formats.
EXPECTED = 'expected .npy, .npz or a TREC run'

#: Number of bytes that are inspected.
BEGIN = 1 << 16


class Foreign(NamedTuple):
    """A score-file format that is recognised but not read.

    ``what``: its name; ``python``: code that reads the scores ``x`` from ``FILE``, '' if none.
    """

    what: str
    python: str = ''


_TORCH = Foreign(
    'a file of torch.save',
    'from mmvtr.storage import read_plain; x = read_plain(FILE, kind="scores").float()',
)
_SAFETENSORS = Foreign(
    'a safetensors file',
    'from mmvtr.storage import read_tensors as r; x = r(FILE, kind="file")["scores"].float()',
)
_JSON = Foreign('json', 'import json; x = json.load(open(FILE))')
#: Formats by the file's first bytes; the first match counts.
_BINARY = {
    b'\x89HDF\r\n\x1a\n': Foreign('a hdf5 file', 'import h5py; x = h5py.File(FILE)["scores"][()]'),
    b'MATLAB 5.0': Foreign(
        'a MATLAB file', 'from scipy.io import loadmat; x = loadmat(FILE)["scores"]'
    ),
    b'PAR1': Foreign('a parquet file', 'import pandas; x = pandas.read_parquet(FILE)'),
    b'\x1f\x8b': Foreign('a gzip file, to be unpacked'),
    b'\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.': _TORCH,
    b'\x80': Foreign('a pickle, which is a program: write it anew with numpy.save'),
    b'\x93NUMPY': Foreign('a .npy file under another name'),
    b'{': _JSON,
    b'[': _JSON,
}


def refuse_foreign(path: Path) -> None:
    """Raise ValueError if a file is in a recognised format that is not read.

    The message names the file and its format, with a command that converts it.  A file that is
    missing, or cannot be read, is left to the reader.
    """
    try:
        if not path.is_file():
            return
        with open(path, 'rb') as file:
            begin = file.read(BEGIN)
    except OSError:
        return
    found = _of_zip(path) if begin.startswith(b'PK') else _of_bytes(begin) or _of_text(begin)
    if found is not None and not (path.suffix == '.npy' and begin.startswith(b'\x93NUMPY')):
        command = f'; convert it: {_command(found.python, path)}' if found.python else ''
        raise ValueError(f'{path} is {found.what}, {EXPECTED}{command}')


def _command(python: str, path: Path) -> str:
    """Return a Python command that writes ``x`` as .npy beside the file."""
    suffix = '_scores.npy' if path.suffix == '.npy' else '.npy'
    name, target = (json.dumps(str(x)) for x in (path, path.with_name(path.stem + suffix)))
    program = f'import numpy; {python.replace("FILE", name)}; numpy.save({target}, x)'
    return f'python -c {shlex.quote(program)}'


def _of_zip(path: Path) -> Optional[Foreign]:
    try:
        with ZipFile(path) as archive:
            names = archive.namelist()
    except (BadZipFile, ValueError, NotImplementedError):
        return None
    if any(name.endswith('/data.pkl') for name in names):
        return _TORCH
    if 'xl/workbook.xml' in names:
        return Foreign('a spreadsheet', 'import pandas; x = pandas.read_excel(FILE, header=None)')
    if path.suffix != '.npz' and any(name.endswith('.npy') for name in names):
        return Foreign('a .npz file under another name')
    return None


def _of_bytes(begin: bytes) -> Optional[Foreign]:
    if begin[8:9] == b'{' and 0 < int.from_bytes(begin[:8], 'little') < 1 << 30:
        return _SAFETENSORS
    return next((form for start, form in _BINARY.items() if begin.startswith(start)), None)


def _of_text(begin: bytes) -> Optional[Foreign]:
    """Recognise a table of numbers; a run has six fields per line, some of them no numbers."""
    try:
        lines = begin[: begin.rfind(b'\n') + 1 or None].decode('utf-8-sig').splitlines()
    except UnicodeDecodeError:
        return None
    lines = [line for line in lines if line.strip()][:3]
    if not lines:
        return None
    delimiter = max(',;\t', key=lines[0].count)
    delimiter = delimiter if delimiter in lines[0] else None
    rows = [line.split(delimiter) for line in lines]
    width, numeric = len(rows[0]), [[_is_number(field) for field in row] for row in rows]
    if delimiter in (None, '\t') and width == 6 and not all(map(all, numeric)):
        return None  # a TREC run
    if delimiter is None and width == 1:
        return None
    head = int(not all(numeric[0][1:]) and len(rows) > 1)
    if not all(len(row) == width and all(row[1:]) for row in numeric[head:]):
        return None
    names = int(not numeric[-1][0])
    options = f', delimiter={json.dumps(delimiter)}' if delimiter else ''
    options += f', skiprows={head}' if head else ''
    options += f', usecols=range({names}, {width})' if names else ''
    return Foreign('a table of numbers as text', f'x = numpy.loadtxt(FILE{options}, ndmin=2)')


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True
