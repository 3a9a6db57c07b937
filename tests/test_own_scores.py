"""docs/own_scores.md: its blocks run in their order and print what stands below them."""

import contextlib
import io
import re
import runpy
import shlex
import sys

import pytest

from toy import ROOT

PAGE = ROOT / 'docs/own_scores.md'
BLOCK = re.compile(r'```(python|text|bash)\n(.*?)```\n', flags=re.DOTALL)


def run(source, names):
    """What a block prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(source, str(PAGE), 'exec'), names)
    return printed.getvalue()


@pytest.fixture(scope='module')
def blocks():
    return BLOCK.findall(PAGE.read_text())


def test_blocks_print_what_is_shown(blocks, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names, printed, shown = {}, '', 0
    for kind, text in blocks:
        if kind == 'text':
            assert printed == text
            printed, shown = '', shown + 1
            continue
        assert not printed, f'what is printed is not shown:\n{printed}'
        if kind == 'python':
            printed = run(text, names)
            continue
        python, tool, *arguments = shlex.split(text.replace('\\\n', ' '))
        monkeypatch.setattr(sys, 'argv', [tool, *arguments])
        runpy.run_path(str(ROOT / tool), run_name='__main__')
        table = capsys.readouterr().out
        for call in ('r1({}), r1({})', 'r1({}, dim=0), r1({}_v2t, dim=0)'):
            both = run(f'print({call.format("scores", "debiased")})', names)
            raw, debiased = re.findall(r'R@1 ([\d.]+)', both)
            assert re.search(rf'R@1 +{raw} +{debiased} +', table), 'the tool says the same'
    assert not printed and shown == 5


def test_what_the_page_says_of_the_numbers(blocks):
    """The hubs and the general texts are those that were made."""
    names = {}
    for kind, text in blocks:
        if kind == 'python' and 'np.save' not in text:
            run(text, names)
    top = names['share'].argsort(descending=True)[:5].tolist()
    assert all(i % 10 == 0 for i in top)
    general = names['general'].tolist()
    assert len(general) == 20 and sum(i % 15 == 0 for i in general) == 13
    wrong = []
    for scores in (names['scores'], names['debiased_v2t']):
        found = [t for v, t in enumerate(scores.argmax(0).tolist()) if t != v]
        wrong.append((len(found), sum(t % 15 == 0 for t in found)))
    assert wrong == [(67, 52), (27, 1)]
    hits = [int((names[n].argmax(1).numpy() == range(300)).sum()) for n in ('scores', 'debiased')]
    assert hits[0] - hits[1] == 4
