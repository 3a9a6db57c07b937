"""The tables of docs/store.md are those of the figures beside it."""

import json
import runpy

import numpy as np
import pytest

from children import ROOT

PAGE = (ROOT / 'docs/store.md').read_text()


def test_approximate_search():
    for module in ('faiss', 'lancedb', 'qdrant_client'):
        pytest.importorskip(module)
    tool = runpy.run_path(str(ROOT / 'projects/evidence/speed/store.py'))
    rows = []
    for name in ('approximate.json', 'approximate_5k.json'):
        rows += json.loads((ROOT / 'docs/store' / name).read_text())['rows']
    assert len(rows) > 15
    for row in rows:
        assert tool['line'](tool['Row'](**row)) in PAGE
    graph = next(row for row in rows if row['form'] == 'hnsw')
    assert graph['recall'] >= 0.99 and graph['ratio'] <= 0.1 and graph['items'] == 100_000


def test_drift():
    worlds = json.loads((ROOT / 'docs/store/drift.json').read_text())
    assert len(worlds) == 5
    for name in worlds[0]:
        rows = [world[name] for world in worlds]
        recall = [row['recall'] for row in rows]
        skewness, top = (np.mean([row[key] for row in rows]) for key in ('skewness', 'top'))
        said = f'{np.mean(recall):.3f} ({min(recall):.3f} to {max(recall):.3f})'
        assert f'| {name} | {said} | {skewness:.2f} | {top:.3f} |' in PAGE
