"""The tables of the store's page in the laboratory are those of the figures."""

import json
import runpy

import numpy as np
import pytest

from children import ROOT

PAGE = (ROOT / 'projects/lab/evidence/pages/store.md').read_text()


def test_approximate_search():
    for module in ('faiss', 'qdrant_client'):
        pytest.importorskip(module)
    tool = runpy.run_path(str(ROOT / 'projects/lab/evidence/speed/store.py'))
    rows = []
    for name in ('approximate', 'million', 'approximate_5k'):
        found = json.loads((ROOT / f'projects/gallery/docs/store/{name}.json').read_text())['rows']
        assert found and all(tool['line'](tool['Row'](**row)) in PAGE for row in found)
        rows += found
    assert len(rows) > 15
    graph = next(row for row in rows if row['form'] == 'hnsw')
    assert graph['recall'] >= 0.99 and graph['ratio'] <= 0.1 and graph['items'] == 100_000


def test_drift():
    worlds = json.loads((ROOT / 'projects/gallery/docs/store/drift.json').read_text())
    assert len(worlds) == 5
    for name in worlds[0]:
        rows = [world[name] for world in worlds]
        recall = [row['recall'] for row in rows]
        skewness, top = (np.mean([row[key] for row in rows]) for key in ('skewness', 'top'))
        said = f'{np.mean(recall):.3f} ({min(recall):.3f} to {max(recall):.3f})'
        assert f'| {name} | {said} | {skewness:.2f} | {top:.3f} |' in PAGE


def test_the_table_of_moments_is_that_of_its_file():
    said = json.loads((ROOT / 'projects/gallery/docs/store/moments.json').read_text())
    options = said['options']
    assert f'--bank {options["bank"]}`: {options["videos"]:,} planted videos' in PAGE
    assert f'{said["windows"]:,} windows' in PAGE and f'{options["queries"]}\ntexts' in PAGE
    names = {'exhaustive': 'exhaustive', 'exact': 'faiss, exact', 'scan': 'faiss, `scan`'}
    for row in said['rows']:
        times = f'{row["planted_video"]:.3f} | {row["cpu"]:.2f} | {row["ratio"]:.3f} |'
        if row['form'] == 'exhaustive, raw':
            assert f'| exhaustive, raw | | | {times}' in PAGE
            continue
        found = f'{row["recall"]:.4f}', f'{row["with_moment"]:.3f}'
        assert f'| {names[row["form"]]} | {" | ".join(found)} | {times}' in PAGE
    scan = said['rows'][-1]
    assert scan['form'] == 'scan' and scan['recall'] >= 0.99 and scan['ratio'] <= 0.1
