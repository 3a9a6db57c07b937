"""docs/arrays.md: its blocks run and print what stands below them."""

import contextlib
import io
import re

from children import ROOT

PAGE = ROOT / 'docs' / 'arrays.md'
BLOCK = re.compile(r'```(python|text)\n(.*?)```\n', flags=re.DOTALL)


def test_blocks_print_what_is_shown():
    names, printed, shown = {}, '', 0
    for kind, text in BLOCK.findall(PAGE.read_text()):
        if kind == 'text':
            assert printed == text
            shown += 1
            continue
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(text, str(PAGE), 'exec'), names)
        printed = out.getvalue()
    assert shown == 4
