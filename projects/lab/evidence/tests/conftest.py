"""The scripts of this project on the path, and a tiny set of real/run.py's form."""

import csv
import importlib
import logging
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

sys.path[:0] = [str(path) for path in Path(__file__).parents[1:3]]

REAL = Path(__file__).parents[1] / 'real'
COLOURS = ('red', 'green', 'blue', 'black', 'white', 'yellow')
THINGS = ('dog', 'cat', 'car', 'ball', 'boat', 'bird')
MODULES = ('judged', 'sets', 'towers', 'reading', 'methods', 'training', 'measure', 'tables', 'run')


@pytest.fixture
def real(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(REAL))
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():  # run.py silences both
        found = {name: importlib.import_module(name) for name in MODULES}
        for name in ('about', 'dataset', 'evaluated', 'implication', 'bank'):
            getattr(found['reading'], name).cache_clear()  # by folders that tests share
        yield found
    logging.disable(logging.NOTSET)


@pytest.fixture
def folder(tmp_path):
    """36 items of a colour and a thing, two frames each, whose features are these two."""
    draw, folder = np.random.default_rng(0), tmp_path / 'own'
    known = {word: draw.random(12) for word in (*COLOURS, *THINGS, 'a', 'here', 'is', 'one')}
    folder.mkdir()
    pairs = [(c, t) for c in range(6) for t in range(6)]
    rows, items, feats, vectors, keys, words, keys_of_words = [], [], [], [], [], [], []
    for n, (colour, thing) in enumerate(pairs):
        split = ('train', 'train', 'val', 'test')[n % 4]
        code = np.zeros(12)
        code[[colour, 6 + thing]] = 1
        for _ in range(2):
            items.append(f'item{n}')
            feats.append(code + 0.1 * draw.random(12))
        for k, text in enumerate(('a {} {}', 'here is one {} {}')):
            keys.append(f'item{n}#{k}')
            rows.append((f'item{n}', text.format(COLOURS[colour], THINGS[thing]), keys[-1], split))
            vectors.append(code + 0.1 * draw.random(12))
            said = rows[-1][1].split()
            words += [known[word] for word in said]
            keys_of_words += [keys[-1]] * len(said)
    np.savez(folder / 'words.npz', vec=np.array(words, 'f4'), key=keys_of_words)
    np.savez(folder / 'features.npz', feat=np.array(feats, 'f4'), item=items)
    np.savez(folder / 'captions.npz', vec=np.array(vectors, 'f4'), key=keys)
    with open(folder / 'captions.csv', 'w', newline='') as file:
        csv.writer(file).writerows([('video', 'text', 'text_id', 'split'), *rows])
    return folder
