"""Score files of other formats are known by their content, and the command converts them."""

import gzip
import json
import pickle
import shlex

import h5py
import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from score_files.foreign import refuse_foreign
from score_files.reading import read_matrix, read_score_file

SCORES = np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32)
RUN = 't1 Q0 v1 1 0.3 tag\nt1 Q0 v2 2 0.1 tag\n'


def table(path, delimiter, *, head='', names=False):
    rows = [[f't{i}', *row] if names else row for i, row in enumerate(SCORES.tolist())]
    lines = [delimiter.join(map(repr if not names else str, row)) for row in rows]
    path.write_text('\n'.join([head, *lines] if head else lines) + '\n')


def hdf5(path):
    with h5py.File(path, 'w') as file:
        file['scores'] = SCORES


COLUMNS = ','.join('abcdef')
CONVERTED = {
    'torch.pt': (lambda p: torch.save(torch.tensor(SCORES).half(), p), 'a file of torch.save'),
    'legacy.bin': (
        lambda p: torch.save(torch.tensor(SCORES), p, _use_new_zipfile_serialization=False),
        'a file of torch.save',
    ),
    "it's one.csv": (lambda p: table(p, ','), 'a table of numbers'),
    'six.txt': (lambda p: table(p, ' '), 'a table of numbers'),
    'tabs.run': (lambda p: table(p, '\t'), 'a table of numbers'),
    'head.csv': (lambda p: table(p, ';', head=COLUMNS.replace(',', ';')), 'a table of numbers'),
    'frame.csv': (lambda p: table(p, ',', head=f',{COLUMNS}', names=True), 'a table of numbers'),
    'text.npy': (lambda p: table(p, ','), 'a table of numbers'),
    'x.h5': (hdf5, 'a hdf5 file'),
    'x.json': (lambda p: p.write_text(json.dumps(SCORES.tolist())), 'json'),
    'x.st': (lambda p: save_file({'scores': torch.tensor(SCORES)}, p), 'a safetensors file'),
}


@pytest.mark.parametrize('name', CONVERTED)
def test_the_command_converts(tmp_path, name):
    write, what = CONVERTED[name]
    write(tmp_path / name)
    with pytest.raises(ValueError) as error:
        read_score_file(tmp_path / name)
    said, _, command = str(error.value).partition('; convert it: ')
    assert said == f'{tmp_path / name} is {what}, expected .npy, .npz or a TREC run' or (
        said.startswith(f'{tmp_path / name} is {what} as text, expected')
    )
    python, option, program = shlex.split(command)
    assert (python, option) == ('python', '-c')
    before = {*tmp_path.iterdir()}
    exec(program, {})
    (made,) = {*tmp_path.iterdir()} - before
    np.testing.assert_allclose(read_matrix(made), SCORES, atol=2e-3)


@pytest.mark.parametrize(
    'name, content, what',
    [
        ('x.pkl', pickle.dumps(SCORES), 'a pickle, which is a program'),
        ('x.gz', gzip.compress(b'x', mtime=0), 'a gzip file'),
        ('x.bin', b'\x93NUMPY\1\0', 'a .npy file under another name'),
    ],
)
def test_what_no_command_converts(tmp_path, name, content, what):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=f'{name} is {what}.*, expected .npy, .npz or a TREC run$'):
        refuse_foreign(tmp_path / name)


@pytest.mark.parametrize(
    'content', [RUN, RUN.replace(' ', '\t'), '1 Q0 5 1 0.3 7\n', 'words\nof text\n', '', 'a,b\n']
)
def test_runs_and_other_text_are_left_to_the_reader(tmp_path, content):
    (tmp_path / 'x.run').write_text(content)
    refuse_foreign(tmp_path / 'x.run')


def test_our_own_formats_and_what_is_not_there(tmp_path):
    np.save(tmp_path / 'x.npy', SCORES)
    np.savez(tmp_path / 'x.npz', scores=SCORES, text_ids=[*'abcd'], video_ids=[*'abcdef'])
    for name in ('x.npy', 'x.npz', 'gone', '.'):
        refuse_foreign(tmp_path / name)
    assert read_score_file(tmp_path / 'x.npz').named


@pytest.mark.parametrize(
    'ids, message',
    [
        ([*'aba', 'd'], r"text_ids must be 4 ids that differ, 'a' is repeated"),
        ([[*'abcd']], r'text_ids must be 4 ids that differ, not \[1, 4\]'),
        ([b'\xff', b'a', b'b', b'c'], 'text_ids are not UTF-8'),
        (['a\ud800', 'b', 'c', 'd'], 'text_ids: expected text without halves'),
    ],
)
def test_ids_of_an_archive(tmp_path, ids, message):
    path = tmp_path / 'x.npz'
    np.savez(path, scores=SCORES, text_ids=np.array(ids), video_ids=np.arange(6))
    with pytest.raises(ValueError, match=f'x.npz: {message}'):
        read_score_file(path)
