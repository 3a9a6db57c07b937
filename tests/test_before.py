"""Trainings that come before another one: how a config names them, and what is refused."""

from pathlib import Path

import pytest

from mmvtr.cli.values import read, written
from mmvtr.engine.rows import Row, name_folders, rows_of
from mmvtr.errors import UserError
from mmvtr.utils import load_config

ROWS = """
before = dict(
    half0=dict(config='other.py', options={'model.keep': 0, 'model.name': '{elsewhere}'}),
    whole=dict(config='c2v_planted', options={'load_from': '{half0}/a'}, seed=7, folder='w'),
)
model = dict(teacher=dict(halves=['{half0}/best.pth', 'x{half0}']), store='{whole}')
default_hooks = dict(checkpoint=dict(filename_tmpl='epoch_{}.pth'))
"""


def load(folder, text, **how):
    (folder / 'one.py').write_text(text)
    (folder / 'other.py').write_text('model = dict()')
    return load_config(str(folder / 'one.py'), **how)


def test_rows_and_the_files_that_are_named_by_them(tmp_path):
    cfg = load(tmp_path, ROWS.replace('{elsewhere}', 'plain'), work_dir='runs/one')
    assert cfg.model.teacher.halves == ['runs/one/half0/best.pth', 'x{half0}']
    assert cfg.model.store == 'w' and cfg.default_hooks.checkpoint.filename_tmpl == 'epoch_{}.pth'
    half, whole = rows_of(cfg)
    assert half == Row(
        'half0',
        str(tmp_path / 'other.py'),
        Path('runs/one/half0'),
        {'model.keep': 0, 'model.name': 'plain'},
    )
    options = dict(load_from='runs/one/half0/a')
    assert whole == Row('whole', 'c2v_planted', Path('w'), options, seed=7)
    suffix = ROWS.replace('c2v_planted', 'c2v_planted.py').replace('{elsewhere}', 'plain')
    assert rows_of(load(tmp_path, suffix))[1].config == 'c2v_planted'
    name_folders(cfg)  # a config that a run has written is read again
    assert rows_of(cfg) == [half, whole]
    assert rows_of(load(tmp_path, 'model = dict()')) == []


@pytest.mark.parametrize(
    ('before', 'message'),
    [
        ('dict(a=dict(seed=1))', r"before.a: dict\(config='...', ...\) expected"),
        ("dict(a=dict(config='x', seeds=1))", "unknown key 'seeds'; did you mean seed?"),
        ("dict(a=dict(config='x', seed='1'))", "before.a.seed: int expected, got '1'"),
        ("dict(a=dict(config='x', seed=True))", 'before.a.seed: int expected, got True'),
        ("{'a b': dict(config='x')}", "named like a variable, not 'a b'"),
        ("dict(a=dict(config='x', options=dict(y='{b}')), b=dict(config='x'))", 'names no row'),
        ("dict(ab=dict(config='x'))\nmodel = dict(y='{ac}/z')", "'{ac}/z' names no row"),
        ("['x']", 'rows by name expected'),
    ],
)
def test_what_is_refused(tmp_path, before, message):
    with pytest.raises(UserError, match=message):
        load(tmp_path, f'before = {before}')


@pytest.mark.parametrize('value', [3, 0.5, 'a b', ['a b', 1], ['x'], True, None])
def test_options_are_written_as_they_are_read(value):
    assert read(written(value)) == value
