"""Retrieval numbers in W&B and MLflow, offline, beside local files and TensorBoard."""

import json
import sqlite3

import pytest
from mmengine.visualization import Visualizer


@pytest.mark.nightly
def test_four_backends_beside_each_other(tmp_path, monkeypatch):
    pytest.importorskip('wandb', reason='pip install wandb')
    pytest.importorskip('mlflow', reason='pip install mlflow')
    events = pytest.importorskip(
        'tensorboard.backend.event_processing.event_accumulator',
        reason="needs the extra 'tensorboard'",
    )
    from mmengine.config import Config

    monkeypatch.chdir(tmp_path)
    names = ('LocalVisBackend', 'TensorboardVisBackend', 'WandbVisBackend', 'MLflowVisBackend')
    more = dict(
        WandbVisBackend=dict(init_kwargs=dict(mode='offline', project='retrieval')),
        MLflowVisBackend=dict(tracking_uri='sqlite:///mlflow.db'),  # MLflow 3 refuses files
    )
    visualizer = Visualizer(
        vis_backends=[dict(type=name, **more.get(name, {})) for name in names],
        save_dir=str(tmp_path),
    )
    visualizer.add_config(Config(dict(work_dir='.', model=dict(type='VideoTextRetriever'))))
    visualizer.add_scalars({'retrieval/t2v_R1': 25.0}, step=3)
    visualizer.close()
    folder = tmp_path / 'vis_data'
    row = json.loads((folder / 'scalars.json').read_text())
    assert (row['retrieval/t2v_R1'], row['step']) == (25.0, 3)
    board = events.EventAccumulator(str(folder)).Reload()
    assert [x.value for x in board.Scalars('retrieval/t2v_R1')] == [25.0]
    base = sqlite3.connect(tmp_path / 'mlflow.db')
    assert base.execute('select key, value, step from metrics').fetchall() == [
        ('retrieval/t2v_R1', 25.0, 3)
    ]
    (run,) = folder.glob('wandb/offline-run-*/run-*.wandb')
    assert b'retrieval/t2v_R1' in run.read_bytes()
