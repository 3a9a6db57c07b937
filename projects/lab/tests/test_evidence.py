"""projects/lab/evidence: its plan matches its cells, and docs/ agree with its pages.

All of its tests: ``python -m pytest projects/lab/evidence/tests``.
"""

import importlib
import re

import pytest

from children import ROOT

PROJECT = ROOT / 'projects/lab/evidence'
VERDICTS = ROOT / 'docs/benchmark.md'
#: A measure with mean and interval.
INTERVAL = r'(.*?)([+-][\d.]+) \[([+-][\d.]+), ([+-][\d.]+)\](?: s)?'
PAGES = [
    *(x for x in (ROOT / 'docs').rglob('*.md') if x.parent.name != 'generated'),
    ROOT / 'README.md',
    *PROJECT.rglob('*.md'),
]


@pytest.fixture
def effects(monkeypatch):
    monkeypatch.syspath_prepend(str(PROJECT))
    return importlib.import_module('effects')


def table_of_verdicts(path):
    """Return the page's first table that ends with verdicts: cells by line."""
    found = re.search(r'^\| method \|.*\| verdict \|\n(?:\|.*\n)+', path.read_text(), flags=re.M)
    rows = [[cell.strip() for cell in line.split('|')[1:-1]] for line in found[0].splitlines()]
    return [rows[0], *rows[2:]]


def agrees(short, cell):
    """Return whether 't2v mAP **-3.6**' stands for '-3.6 [-4.4, -2.7] s'; bold excludes 0."""
    measure, mean, low, high = re.fullmatch(INTERVAL, cell).groups()
    plain, bold = f'{measure}{mean}', f'{measure}**{mean}**'
    if low != high and 0 in (float(low), float(high)):  # an end rounded to 0, which decides nothing
        return short in (plain, bold)
    return short == (bold if float(low) * float(high) > 0 else plain)


def anchors(path):
    """Return the anchors of headings, as GitHub makes them."""
    titles = re.findall(r'^#+ (.*)', path.read_text(), flags=re.M)
    return {re.sub(r'[^\w -]', '', title.lower()).replace(' ', '-') for title in titles}


def test_the_verdicts_are_those_of_the_page():
    head, *lines = table_of_verdicts(VERDICTS)
    _, *whole = table_of_verdicts(PROJECT / 'pages/comparison.md')
    assert len(lines) > 10 and len(head) == 7
    for (*names, aim, true, paired, verdict), row in zip(lines, whole, strict=True):
        assert [*names, verdict] == [*row[:3], row[-1]]
        short = [aim, *true.split(' / '), *paired.split(' / ')]
        assert all(agrees(*pair) for pair in zip(short, row[3:8], strict=True)), row[:3]


def test_links_into_its_pages_lead_to_a_place():
    found = 0
    for page in PAGES:
        for file, place in re.findall(r'\]\(([^)\s#]*)#([^)\s]+)\)', page.read_text()):
            target = (page.parent / file).resolve() if file else page
            if PROJECT in target.parents and target.suffix == '.md':
                assert place in anchors(target), f'{page}: {file}#{place}'
                found += 1
    assert found > 10


def test_each_method_is_trained_as_its_cells_say(effects, monkeypatch):
    """The config of each method's training is unchanged; a changed one must be trained anew.

    Fix the config, not this test: a cell has measured the config of its day.
    """
    monkeypatch.setattr('sys.argv', ['effects.py'])
    plan = effects.make_plan(effects.parse_args())
    choices, known, changed = effects.known_choices(plan), effects.known_shas(plan.out), []
    seen = {}
    for name, method, seed, role in known:
        if role == effects.OWN and method in plan.wanted.get(name, ()):
            seen.setdefault(method, (name, seed))
    assert len(seen) > 40
    for method, (name, seed) in seen.items():
        point = choices[plan.conditions[name].family, effects.SUMS.get(method, method)][effects.OWN]
        training = plan.training(name, method, seed, point)
        if known[training.key] != training.sha:
            changed.append((name, method))
    assert not changed
