"""docs/papers.md: every table and figure that a paper captions has a row that says how."""

import re
import runpy

import pytest
import yaml

from children import ROOT
from mmvtr.studies.reading import study_names
from paper_figures import FIGURES
from promises import commands_of

PAGE = (ROOT / 'docs/papers.md').read_text()
#: Heading of the page -> its text, how it captions figures and tables, how many there are.
PAPERS = {
    'DVTR': ('dvtr', r'^Fig\. (\d+)\. ', r'TABLE ([IVX]+)\b', 6, 13),
    'NCL': ('ncl', r'^Figure (\d+): ', r'^Table (\d+): ', 8, 5),
    'UATVR': ('uatvr', r'^Figure (\d+)\. ', r'^Table (\d+)\. ', 5, 9),
    'ARL': ('arl', r'^Figure (\d+): ', r'^Table (\d+): ', 5, 6),
    'Frame length (causal intervention)': (
        'frame_length_causal',
        r'^Figure (\d+): ',
        r'^Table (\d+): ',
        11,
        10,
    ),
}
ROMAN = ('I', 'II', 'III', 'IV', 'V', 'VI', 'VII', 'VIII', 'IX', 'X', 'XI', 'XII', 'XIII')


def rows(heading):
    """Name of a table or figure -> what stands in its row."""
    section = PAGE.split(f'## {heading}\n')[1].split('\n## ')[0]
    cells = [line.strip('|').split(' | ') for line in section.splitlines() if line[:2] == '| ']
    assert all(len(row) == 3 for row in cells[1:]), [row for row in cells[1:] if len(row) != 3]
    found = {}
    for names, what, how in cells[1:]:
        several = re.fullmatch(r'(Fig|Tab)\. (\w+(?:, \w+)*)', names.strip())
        each = (
            [f'{several[1]}. {n}' for n in several[2].split(', ')] if several else [names.strip()]
        )
        found.update({name: (what.strip(), how.strip()) for name in each})
    return found


def expected(heading):
    _, _, _, figures, tables = PAPERS[heading]
    number = ROMAN if heading == 'DVTR' else [str(i + 1) for i in range(tables)]
    return {f'Fig. {i + 1}' for i in range(figures)} | {f'Tab. {number[i]}' for i in range(tables)}


@pytest.mark.parametrize('heading', PAPERS)
def test_no_row_is_missing_or_empty(heading):
    found = rows(heading)
    assert expected(heading) <= found.keys()
    for name, (what, how) in found.items():
        assert what, name
        made = re.search(r'`(figure|study|python) ?|^train `', how)
        assert made or how.startswith('none: '), f'{name}: {how}'


@pytest.mark.parametrize('heading', PAPERS)
def test_the_paper_has_no_others(heading, shared):
    file, figures, tables, *_ = PAPERS[heading]
    text = (shared / 'papers' / f'{file}.md').read_text()
    found = {f'Fig. {n}' for n in re.findall(figures, text, flags=re.MULTILINE)}
    found |= {f'Tab. {n}' for n in re.findall(tables, text, flags=re.MULTILINE)}
    # Captions that the copy of the text has lost.
    assert found <= expected(heading) and len(expected(heading) - found) <= 2, found


def test_figures_and_studies_have_rows():
    named = set(re.findall(r'`figure (\w+)', PAGE))
    assert named == FIGURES.keys() - {'cost'}
    assert set(re.findall(r'`study (\w+)', PAGE)) == set(study_names())


def test_the_page_lists_where_configs_say_otherwise():
    """The list is what the tool prints, with its data file."""
    tool = runpy.run_path(str(ROOT / 'tools/analysis_tools/papers.py'))
    assert tool['table'](set()) in PAGE


def test_each_row_that_is_trained_is_in_the_data_file():
    papers: dict[str, set[str]] = {}
    for one in yaml.safe_load((ROOT / 'configs/papers.yml').read_text()):
        papers.setdefault(one['paper'], set()).update(one['configs'])
    trained = [c for c in commands_of('papers', PAGE) if c.tool == 'train.py' and ', ' in c.place]
    assert len(trained) > 100
    for command in trained:
        section, _, row = command.place.partition(', ')
        missing = set(command.configs) - papers[section.partition(' (')[0]]
        assert not missing, f'{section}, {row}: configs/papers.yml has no {missing}'


def test_a_config_that_differs_is_told(tmp_path):
    tool = runpy.run_path(str(ROOT / 'tools/analysis_tools/papers.py'))
    states = dict(frames=12, words=32, tau=0.07, batch=128, epochs=5, K=7, lr=dict(heads=2e-5))
    row = dict(paper='DVTR', where='', rows='', configs=['dvtr_c2v_msvd'], states=states)
    assert all(one.agrees for one in tool['compared']([row], set()))
    for what, other in dict(frames=8, words=30, tau=0.05, batch=64, epochs=6, K=5).items():
        changed = dict(row, states=dict(states, **{what: other}))
        (told,) = [one for one in tool['compared']([changed], set()) if not one.agrees]
        assert (told.what, told.stated) == (what, other)
