"""Pages whose blocks run and print what stands below them."""

import contextlib
import io
import re

import pytest

from children import ROOT

BLOCK = re.compile(r'```(python|text)\n(.*?)```\n', flags=re.DOTALL)


@pytest.mark.parametrize('name, outputs', [('arrays', 3), ('how_sure', 2)])
def test_blocks_print_what_is_shown(name, outputs):
    page = ROOT / f'docs/{name}.md'
    names, printed, shown = {}, '', 0
    for kind, text in BLOCK.findall(page.read_text()):
        if kind == 'text':
            assert printed == text
            shown += 1
            continue
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(text, str(page), 'exec'), names)
        printed = out.getvalue()
    assert shown == outputs
