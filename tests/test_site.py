"""The site: no warning, and its reference lacks no module that a user may import."""

import json
import re
import runpy
import shutil
import subprocess
import sys
from importlib import import_module
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest
import yaml

from children import ROOT
from mmvtr import functional


def test_the_reference_is_whole(monkeypatch):
    """A page of the reference lists what its rooms export."""
    extras = dict(docutils=dict(nodes=None), math_core=dict(LatexToMathML=MagicMock()))
    for name, content in extras.items():  # which only the site needs
        monkeypatch.setitem(sys.modules, name, SimpleNamespace(**content))
    conf = runpy.run_path(str(ROOT / 'docs/conf.py'))
    tables, listed = [], []
    for path in (ROOT / 'docs/api').glob('*.md'):
        source = [path.read_text()]
        conf['set_reference'](None, f'api/{path.stem}', source)
        tables += re.findall(r'^   ~mmvtr\.(\S+)$', source[0], flags=re.MULTILINE)
        listed += re.findall(r'^generated/mmvtr\.(\S+)$', source[0], flags=re.MULTILINE)
    pages = conf['reference']()
    assert sorted(f'mmvtr.{name}' for name in listed) == sorted(pages) and len(pages) > 300
    modules = [name for name, text in pages.items() if 'automodule' in text]
    names = [name.removeprefix('mmvtr.') for name in pages if name not in modules]
    modules = [name.removeprefix('mmvtr.') for name in modules]
    assert sorted(names) == sorted(tables)
    rooms = {path.stem for path in (ROOT / 'mmvtr').glob('[a-z_]*') if path.suffix in ('', '.py')}
    shown = {name.split('.')[0] for name in (*names, *modules)}
    assert shown <= rooms
    for room in ('functional', 'models', 'datasets', 'evaluation', 'engine'):
        exported = {f'{room}.{name}' for name in import_module(f'mmvtr.{room}').__all__}
        assert exported == {name for name in names if name.startswith(f'{room}.')}


def test_the_zoo_has_every_real_config(monkeypatch):
    """A row a config of the metafiles, with its paper's number or the word that none was found."""
    extras = dict(docutils=dict(nodes=None), math_core=dict(LatexToMathML=MagicMock()))
    for name, content in extras.items():
        monkeypatch.setitem(sys.modules, name, SimpleNamespace(**content))
    conf = runpy.run_path(str(ROOT / 'docs/conf.py'))
    source = [(ROOT / 'docs/model_zoo.md').read_text()]
    conf['set_zoo'](None, 'model_zoo', source)
    rows = re.findall(r'^\| `(\w+)` \| (.*) \|$', source[0], flags=re.MULTILINE)
    files = [yaml.safe_load(path.read_text()) for path in (ROOT / 'configs').glob('*/metafile.yml')]
    known = {model['Name']: model for file in files for model in file['Models']}
    assert sorted(name for name, _ in rows) == sorted(known)
    told = dict(rows)
    assert told['dvtr_c2v_msrvtt'] == (
        'MSR-VTT 1k-A | t2v R@1 52, rsum 426.2 | DVTR, Table III | not measured'
    )
    assert told['dvtr_c2v_msrvtt_bert'] == 'MSR-VTT 1k-A |  | no number found | not measured'


def test_every_page_is_in_the_menu():
    inner = {'tutorials/index', 'api/index', 'reproduce/index'}
    gallery = {path.stem for path in (ROOT / 'projects/gallery/docs').glob('*.md')}
    inner |= {f'gallery/{name}' for name in gallery}
    folders = {'docs': inner, 'docs/tutorials': set(), 'docs/reproduce': set()}
    for folder, further in folders.items():
        menu = (ROOT / folder / 'index.md').read_text()
        pages = {path.stem for path in (ROOT / folder).glob('*.md')} - {'index'}
        trees = re.findall(r'```{toctree}\n(.*?)```', menu, flags=re.DOTALL)
        listed = re.findall(r'^(?:.* <)?([\w/]+)>?$', '\n'.join(trees), flags=re.MULTILINE)
        assert sorted(listed) == sorted(pages | further)


#: Functions that make no number.
WITHOUT = {'as_tiles', 'distinct_rows', 'row_groups'}


def test_every_function_has_its_equation():
    """But for records, and what makes no number."""
    page = (ROOT / 'docs/equations.md').read_text()
    found = re.findall(
        r'^### (\w+)\n\n(\S[^\n]*)\n\n\$\$\n.+?\n\$\$$', page, flags=re.DOTALL | re.M
    )
    named = {name: getattr(functional, name) for name in functional.__all__}
    records = {n for n, x in named.items() if isinstance(x, type) and issubclass(x, tuple)}
    assert sorted(name for name, _ in found) == sorted(named.keys() - records - WITHOUT)
    for name, source in found:
        kind = 'class' if isinstance(named[name], type) else 'func'
        assert source.endswith(f'{{py:{kind}}}`mmvtr.functional.{name}`'), name


def asked(scripts, queries):
    """What ``docs/_static/search.js`` finds for each query, best first, as page#anchor."""
    node = shutil.which('node')
    if not node:
        pytest.skip('there is no node to run the script of the search')
    code = [
        'globalThis.window = globalThis; const Search = {};',
        *scripts,
        (ROOT / 'docs/_static/search.js').read_text(),
        'const place = ([page, , anchor]) => page + anchor;',
        'const found = (query) => Search._performSearch(query).reverse().map(place);',
        f'console.log(JSON.stringify({json.dumps(queries)}.map(found)));',
    ]
    run = subprocess.run([node, '-'], input='\n'.join(code), capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return dict(zip(queries, json.loads(run.stdout), strict=True))


STEMMER = "class Stemmer { stemWord(word) { return word.replace(/(ing|s)$/, ''); } }"


def test_the_search_ranks_sections():
    """No word must be there; rare words, names and words that mean the same decide."""
    sections = [
        ['training', 'training', ['Training'], [], 'Batches, epochs and rates of a training.'],
        ['training', 'memory', ['Memory', 'Training'], ['mixed precision'], 'One GPU is enough.'],
        ['gpus', 'gpus', ['From one GPU to eight'], [], 'Several processes share a batch.'],
        ['scores', 'scores', ['Your own'], [], 'Compare embeddings; log, log, log the ranks.'],
        ['log', 'log', ['Log'], [], 'Each batch and each epoch has a line.'],
        ['lists', 'lists', ['Ranks of a batch, as lists'], [], 'They are sorted.'],
        ['api/f', 'f', ['mmvtr.functional.batch_ranks'], [], 'Ranks of a batch.'],
    ]
    found = asked(
        [STEMMER, f'const SECTIONS = {json.dumps(sections)};'],
        ['multi-gpu transformers', 'custom vectors', 'mixed-precision batches', 'share',
         'batch_ranks', 'batch ranks', 'log', 'training', 'nothing', '', '...'],
    )  # fmt: skip
    assert found['multi-gpu transformers'][0] == 'gpus'  # a page's place is its beginning
    assert found['custom vectors'] == ['scores'] and found['share'] == ['gpus']
    assert found['mixed-precision batches'][0] == 'training#memory'
    assert found['batch_ranks'][0] == 'api/f' and found['batch ranks'][0] == 'lists'
    assert found['log'] == ['log', 'scores']
    assert found['training'] == ['training', 'training#memory']
    assert found['nothing'] == found[''] == found['...'] == []


def test_the_search_reads_words_as_people_write_them():
    """Words joined or apart, in camel case, in both spellings; a question's words do not count."""
    sections = [
        ['data', 'data', ['MSR-VTT'], [], 'Its captions.'],
        ['api', 'api', ['Sampling'], [], 'A BatchSampler draws.'],
        ['scores', 'scores', ['Normalise scores'], [], 'Of each text.'],
        ['what', 'what', ['What a row is'], [], 'It is which you do.'],
        ['seeds', 'seeds', ['How many seeds?'], [], 'Three.'],
        ['other', 'other', ['Seeds'], [], 'Of a run; seeds as a number.'],
        ['names', 'names', ['Transforms by name'], ['dual softmax'], 'dual_softmax and others.'],
        ['api/d', 'd', ['mmvtr.functional.dual_softmax'], [], 'Weights pairs.'],
    ]
    found = asked(
        [STEMMER, f'const SECTIONS = {json.dumps(sections)};'],
        ['msrvtt', 'MSR VTT', 'batch sampler', 'batchsampler', 'MyBatchSampler', 'normalize',
         'which row', 'what should I do with my scores?', 'what is', 'how many seeds',
         'dual_softmax', 'dual softmax', 'VLMs', '\u732b', '?'],
    )  # fmt: skip
    assert found['msrvtt'] == found['MSR VTT'] == ['data']
    assert found['batch sampler'] == found['batchsampler'] == found['MyBatchSampler'] == ['api']
    assert found['normalize'] == found['what should I do with my scores?'] == ['scores']
    assert found['which row'] == found['what is'] == ['what']
    assert found['how many seeds'][0] == 'seeds'
    assert found['dual_softmax'][0] == 'api/d' and found['dual softmax'][0] == 'names'
    assert found['VLMs'] == found['\u732b'] == found['?'] == []


def test_search_words_stand_below_headings():
    """``docs/conf.py`` reads them there; elsewhere they would name another section."""
    pages = [*(ROOT / 'docs').rglob('*.md'), *(ROOT / 'projects/gallery/docs').glob('*.md')]
    texts = {page: page.read_text() for page in pages}
    below = re.compile(r'^#+ .+\n\n<!-- search: \S[^<>]*\S -->\n\n', flags=re.MULTILINE)
    wrong = {p: x for p, x in texts.items() if len(below.findall(x)) != x.count('<!-- search:')}
    assert not wrong and sum(x.count('<!-- search:') for x in texts.values()) > 100


#: What a user who has seen no page may ask, and the beginning of the place that answers.
WISHES = {
    'parquet': 'arrays#parquet',
    'japanese captions': 'encoders#other-languages',
    'threshold': 'how_sure',
    'daily updates': 'arrays#daily-updates',
    'multi-gpu training': 'training#processes',
    'custom embeddings': 'own_scores',
    'csls k': 'ncl#transforms-by-name',
    'config inheritance': 'get_started#change-a-config',
    'distill student': 'recipe',
    'latency benchmark': 'tools#speed',
    'REST API': 'gallery/serve#routes',
    'export onnx': 'gallery/onnx',
    'mixed precision': 'training#precision',
    'UATVR': 'uatvr',
    'sinkhorn_by_rows': 'api/generated/mmvtr.functional.sinkhorn_by_rows',
}


@pytest.mark.nightly
def test_the_site_builds_without_a_warning(tmp_path):
    pytest.importorskip('sphinx', reason="the site is an extra: pip install -e '.[docs]'")
    command = [sys.executable, '-m', 'sphinx', '-W', '--keep-going', '-q', 'docs', str(tmp_path)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr[-3000:]
    assert 'What to use when' in (tmp_path / 'index.html').read_text()
    for page in tmp_path.rglob('*.html'):
        text = page.read_text()
        assert not re.findall(r'<(?:script|link|img)[^>]*(?:src|href)="(?:https?:)?//', text), page
        assert not broken_links(tmp_path, page, text)
        words = re.sub(r'<[^>]+>', ' ', re.sub(r'(?s)<(script|style|math).*?</\1>', '', text))
        inner = ('_modules', 'genindex', 'py-modindex')  # sources and indices, read by nobody whole
        assert len(words.split()) < 4000 or page.relative_to(tmp_path).parts[0].startswith(inner)
    pages = (tmp_path / 'api/generated').glob('mmvtr.functional.*.html')
    texts = [path.read_text() for path in pages]
    assert sum('<div class="equation"' in x and '<math' in x for x in texts) > 100
    scripts = [(tmp_path / f'_static/{x}.js').read_text() for x in ('language_data', 'sections')]
    loaded = re.findall(r'src="_static/(\w+)\.js', (tmp_path / 'search.html').read_text())
    assert {'searchtools', 'language_data', 'sections', 'search'} <= {*loaded}
    found = asked(scripts, [*WISHES])
    assert [q for q, place in WISHES.items() if not found[q][0].startswith(place)] == []


def broken_links(site, page, text):
    """Links of a page to pages, files or places of the site that are not there."""
    wrong = []
    for link in re.findall(r'href="([^"]*)"', text):
        target, _, place = link.partition('#')
        if re.match(r'[a-z]+:', target):
            continue
        file = (page.parent / target.split('?')[0]).resolve() if target else page
        if file.is_dir():
            file = file / 'index.html'
        if not file.is_file():
            wrong.append(link)
        elif place and file.suffix == '.html' and f'id="{place}"' not in file.read_text():
            wrong.append(link)
    return wrong
