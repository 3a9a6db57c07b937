"""A new transform is one class in one file, and at every door: its own formula ranks."""

import os
import shutil
import subprocess
import sys

import pytest

from children import ROOT

#: Options like those of nnn, and another formula.
CLASS = '''

@register_transform('mean_scaling', label='MeanScaling', claim='all near: less', source='a test')
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
from mmvtr.functional.transforms.transform_table import ADDITIVE, OF_QUERIES, UNITS

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


def test_one_class_is_at_every_door(tmp_path):
    ignored = shutil.ignore_patterns('__pycache__', '.mim')
    shutil.copytree(ROOT / 'mmvtr', tmp_path / 'mmvtr', ignore=ignored)
    path = tmp_path / 'mmvtr/functional/transforms/score_transforms.py'
    path.write_text(path.read_text() + CLASS)
    code = f'HERE, FOLDER = {str(tmp_path)!r}, {str(tmp_path / "d")!r}\n{DOORS}'
    paths = os.pathsep.join([str(tmp_path), str(ROOT / 'projects/gallery')])
    done = subprocess.run(
        [sys.executable, '-c', code],
        cwd=tmp_path,
        env=dict(os.environ, PYTHONPATH=paths),
        capture_output=True,
        text=True,
    )
    assert not done.returncode, done.stderr[-2000:]


def test_what_a_class_lacks_is_said():
    from mmvtr.functional.transforms.transform import Transform

    class Nothing(Transform):
        name = 'nothing'

    with pytest.raises(NotImplementedError, match=r'nothing must define biases\(\)'):
        Nothing().fit(None)
    for given, said in ((dict(speed=1), r"nothing takes \[\], not 'speed'"),):
        with pytest.raises(ValueError, match=said):
            Nothing.checked(given)
