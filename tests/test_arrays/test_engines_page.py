"""docs/engines.md: every python block runs on the real package, and engines agree with search."""

import contextlib
import io
import re

import pytest

from children import ROOT

TEXT = (ROOT / 'docs/engines.md').read_text()
SECTIONS = dict(re.findall(r'^## (.*?)\n(.*?)(?=^## |\Z)', TEXT, flags=re.M | re.S))
BLOCK = re.compile(r'```python\n(.*?)```', flags=re.S)
#: What a section needs, and the last line that it prints.
NEEDS = {
    'Which rows to write after a change': (
        'mmvtr',
        'Behind(changed=[], removed=[], missing=[])',
    ),
    'FAISS': ('faiss', 'True'),
    'Qdrant': ('qdrant_client', 'True'),
    'LanceDB': ('lancedb', 'True'),
    'LangChain, LlamaIndex, Haystack': ('langchain_core', '5'),
    'Several vectors an item: MaxSim': ('qdrant_client', 'True'),
    'With BM25': ('mmvtr', 'True'),
    'int8 and shorter vectors': ('faiss', 'True'),
}


def run(blocks, names):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        for block in blocks:
            exec(compile(block, 'docs/engines.md', 'exec'), names)
    return printed.getvalue().splitlines()


def test_every_section_with_code_is_run():
    assert {name for name, text in SECTIONS.items() if BLOCK.search(text)} == {*NEEDS}


@pytest.mark.parametrize('name', NEEDS)
def test_section_runs(name):
    package, expected = NEEDS[name]
    pytest.importorskip(package, reason=f'the section {name!r} needs {package}')
    names = {}
    run([BLOCK.search(TEXT)[1]], names)
    assert names['best'] != [
        x.tolist()
        for x in names['mmvtr'].fit(names['videos'], ids=names['ids']).search(names['texts'], 5).ids
    ]  # biases move ranks
    before = BLOCK.findall(SECTIONS['Qdrant']) if 'MaxSim' in name else []
    assert run([*before, *BLOCK.findall(SECTIONS[name])], names)[-1] == expected
