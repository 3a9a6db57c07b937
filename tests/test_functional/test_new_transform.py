"""A new transform is one class in one file, and at every door: its own formula ranks."""

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

from children import ROOT
from mmvtr.functional.transforms.transform import TRANSFORMS, Transform, transform

#: Options like those of nnn, and another formula.
CLASS = '''

@transform('mean_scaling', label='MeanScaling', claim='items near to all fall', source='a test')
class mean_scaling(Transform):
    """Return scores [Q, N] minus a share of each item's mean bank score, raised to a power."""

    neighbours: int = count(3, 'bank queries')
    alpha: float = number(0.5, 'share of the mean')

    def biases(self, bank: Tiles, **items: Tiles) -> Tensor:
        """Return them."""
        return bank.per_column(lambda x: -self.alpha * x.mean(0) - self.neighbours * x.std(0))


__all__.append('mean_scaling')
'''
DOORS = """
import argparse, numpy as np, torch, mmvtr, mmvtr.functional
from mmvtr.registry import HOOKS
from mmvtr.cli.transform_options import add_options, options_given
from mmvtr.functional.transforms.transform_table import ADDITIVE, OF_QUERIES

assert mmvtr.__file__.startswith(HERE), mmvtr.__file__
random = np.random.default_rng(0)
V, T, B = (random.normal(size=(n, 8)).astype('f4') for n in (90, 20, 70))
v, t, b = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (V, T, B))
k = (b @ v.T).astype('f8')
own = -0.2 * k.mean(0) - 2 * k.std(0, ddof=1)
scores = t @ v.T + own
expected = np.argsort(-scores, axis=1, kind='stable')[:, :5]
how = dict(alpha=0.2, neighbours=2)
one = mmvtr.fit(V, B, 'mean_scaling', **how)
assert np.abs(one.biases_.numpy() - (own - own.mean())).max() < 1e-5
assert (one.search(T, 5).ids == expected).all()
assert (mmvtr.retrieve(T, V, B, 'mean_scaling', 5, **how).ids == expected).all()
assert np.abs(mmvtr.functional.mean_scaling(t @ v.T, b @ v.T, **how) - scores).max() < 1e-5
assert (np.argsort(-(one.query(T) @ one.as_vectors().T), 1)[:, :5] == expected).all()
one.save(FOLDER)
assert (mmvtr.Debiaser.load(FOLDER, V).search(T, 5).ids == expected).all()
part = mmvtr.fit(V[:60], B, 'mean_scaling', **how).add(V[60:])
assert np.abs(part.biases_[60:].numpy() - own[60:] + own[:60].mean()).max() < 1e-5
import mmvtr.engine
hook = HOOKS.get('MeanScalingHook')
assert hook(queries='train_queue', **how).given == how and hook.default_name == 'mean_scaling'
parser = argparse.ArgumentParser()
add_options(parser, OF_QUERIES)
given = parser.parse_args(['--alpha', '.2', '--neighbours', '2'])
assert options_given(given, ['mean_scaling']) == dict(mean_scaling=how)
from mmvtr.apis.inferencer.transforms import check_transform
check_transform('mean_scaling', 'video', bank='b.pth', captions=None, options=how)
try:
    import faiss
    from mmvtr_gallery.store import create_store
    from mmvtr_gallery.mteb_index import DebiasedIndex
except ImportError:
    raise SystemExit
with create_store(FOLDER + '/s', 8) as store:
    store.add([str(i) for i in range(90)], V)
    store.refit(B, transform='mean_scaling', fewer=True, **how)
    assert [[int(h.item.id) for h in x] for x in store.search(T, 5)] == expected.tolist()
index = DebiasedIndex(B, transform='mean_scaling', **how)
index.add_documents(V, [str(i) for i in range(90)])
assert index.search(T, 5)[1] == expected.tolist()
"""


#: Imports of another project's module, and what ran before it is imported.
IMPORTS = """
from torch import Tensor
from mmvtr.functional.similarities.tiles import Tiles
from mmvtr.functional.transforms.transform import Transform, count, number, transform

__all__ = []
"""
BEFORE = """
import numpy, mmvtr.engine, mmvtr.functional
mmvtr.retrieve(numpy.eye(3), numpy.eye(3), numpy.eye(3), 'nnn', 1, neighbours=1)
from mmvtr.registry import HOOKS
assert HOOKS.get('NNNHook')
import theirs
mmvtr.functional.mean_scaling = theirs.mean_scaling
"""


def run(words, folder, *paths):
    paths = os.pathsep.join(map(str, [folder, *paths, ROOT / 'projects/gallery']))
    env = dict(os.environ, PYTHONPATH=paths)
    command = [sys.executable, *map(str, words)]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)


@pytest.mark.nightly
def test_one_class_is_at_every_door(tmp_path):
    ignored = shutil.ignore_patterns('__pycache__', '.mim')
    shutil.copytree(ROOT / 'mmvtr', tmp_path / 'mmvtr', ignore=ignored)
    path = tmp_path / 'mmvtr/functional/transforms/score_transforms.py'
    path.write_text(path.read_text() + CLASS)
    code = f'HERE, FOLDER = {str(tmp_path)!r}, {str(tmp_path / "d")!r}\n{DOORS}'
    done = run(['-c', code], tmp_path)
    assert not done.returncode, done.stderr[-2000:]


@pytest.fixture
def theirs(tmp_path):
    """A folder with a module of another project, which announces its transform."""
    (tmp_path / 'theirs.py').write_text(IMPORTS + CLASS)
    (tmp_path / 'theirs-1.dist-info').mkdir()
    told = '[mmvtr.components]\nmean_scaling = theirs\n'
    (tmp_path / 'theirs-1.dist-info/entry_points.txt').write_text(told)
    (tmp_path / 'theirs-1.dist-info/METADATA').write_text('Name: theirs\nVersion: 1\n')
    return tmp_path


def test_one_class_of_another_project_imported_late(theirs):
    code = f'HERE, FOLDER = {str(ROOT)!r}, {str(theirs / "d")!r}\n{BEFORE}\n{DOORS}'
    done = run(['-c', code], theirs, ROOT)
    assert not done.returncode, done.stderr[-2000:]


def test_one_class_of_another_project_on_the_command_line(theirs):
    scores = np.random.default_rng(0).normal(size=(30, 30))
    np.save(theirs / 'scores.npy', scores)
    words = [ROOT / 'tools/analysis_tools/eval_scores.py', 'scores.npy', '--query-source', 'test']
    words += ['--transform', 'mean_scaling', '--alpha', '.2', '--neighbours', 2, '--out', 'o.json']
    done = run(words, theirs, ROOT)
    assert not done.returncode, done.stderr[-2000:]
    found = json.loads((theirs / 'o.json').read_text())['mean_scaling']
    changed = scores - 0.2 * scores.mean(0) - 2 * scores.std(0, ddof=1)
    ranks = 1 + (changed > np.diag(changed)[:, None]).sum(1)
    assert found['t2v_MnR'] == pytest.approx(ranks.mean())


def test_a_name_is_given_once():
    kind = type('nnn', (Transform,), {})
    for name, label in (('nnn', 'NNN'), ('nnn', 'Own'), ('own', 'NNN')):
        with pytest.raises(ValueError, match=f"transform '{name}'"):
            transform(name, label=label, claim='', source='')(kind)
    assert TRANSFORMS['nnn'] is not kind and 'own' not in TRANSFORMS


def test_what_a_class_lacks_is_said():
    class Nothing(Transform):
        name = 'nothing'

    with pytest.raises(NotImplementedError, match=r'nothing must define biases\(\)'):
        Nothing().fit(None)
    for given, said in ((dict(speed=1), r"nothing takes \[\], not 'speed'"),):
        with pytest.raises(ValueError, match=said):
            Nothing.checked(given)
