"""The table of docs/serve.md is that of the figures beside it, and the page needs nobody else."""

import json
import re
import runpy

import pytest

from children import ROOT
from services import served

PAGE = (ROOT / 'projects/gallery/docs/serve.md').read_text()


def test_the_load():
    said = json.loads((ROOT / 'projects/gallery/docs/serve/load.json').read_text())
    tool = runpy.run_path(str(ROOT / 'projects/lab/evidence/speed/serve_load.py'))
    rows = [tool['Row'](**row) for row in said['rows']]
    assert len(rows) == 4 and all(tool['line'](row) in PAGE for row in rows)
    assert not any(row.errors for row in rows)
    assert said['changes'] > 100 and said['refused_changes'] == 0
    assert f'{said["changes"]} changes' in PAGE
    memory = said['memory_mib']
    assert memory['last_third'] < 1.02 * memory['first_third']
    changing = said['memory_mib_changing']
    for figure in (*memory.values(), *changing.values(), *said['load_average']):
        assert f'{figure:.0f}' in PAGE
    assert f'{said["texts_a_batch"]:.1f} texts' in PAGE
    assert f'{said["largest_batch"]} at most' in PAGE


def test_limits_health_and_metrics_are_on_one_page(place):
    pytest.importorskip('uvicorn', reason='an extra: pip install projects/gallery[serve]')
    from mmvtr_gallery.serving import bodies, connections, gallery, overview, uploads

    page = (ROOT / 'projects/gallery/docs/operating.md').read_text()
    limits = page[: page.index('## Errors')]
    for limit in (
        connections.MOST, bodies.MOST_QUERIES, bodies.MOST_PAGE, bodies.MOST_ROUNDS,
        overview.WAITING, uploads.PIXELS, uploads.RECEIVING, int(uploads.SECONDS),
    ):  # fmt: skip
        assert re.search(rf'(?<!\d)(?<!\d,){limit:,}(?!,?\d)', limits), limit
    with served(gallery.Gallery.open(place)) as client:
        told = client('GET', '/health')[2]
    one = gallery.Gallery.open(place)
    names = [*told, *(f'mmvtr_{x}' for x in one.gauges())]
    assert len(names) > 20 and not [x for x in names if f'`{x}`' not in page]


def test_the_page_loads_nothing_from_elsewhere():
    files = [
        p for p in (ROOT / 'projects/gallery/mmvtr_gallery/serving/page').iterdir() if p.is_file()
    ]
    assert len(files) == 11
    for path in files:
        assert not re.search(r'(https?:)?//\w+\.\w+', path.read_text()), path


def test_the_client_of_the_page(folder, place):
    """The lines of the page run, on a port of this test."""
    pytest.importorskip(
        'uvicorn', reason='the service is an extra: pip install projects/gallery[serve]'
    )
    from mmvtr_gallery.serving.gallery import Gallery

    code = re.search(r'A Python client:\n\n```python\n(.*?)```', PAGE, re.DOTALL)[1]
    with served(Gallery.open(place)) as client:
        names = {}
        exec(code.replace('127.0.0.1:8000', f'127.0.0.1:{client.port}'), names)
        assert [hit['rank'] for hit in names['hits']] == [1, 2, 3]
        assert names['when'] is None  # of a gallery without windows
        assert [x['id'] for x in names['hubs']] == [
            x['id'] for x in client('POST', '/items', dict(mark='hub'))[2]['items']
        ]
    assert sum(bool(line) for line in code.splitlines()) == 10
