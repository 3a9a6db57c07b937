"""The environments that are tried: what is found, what the page says, and a job that can fail."""

import sys
from argparse import Namespace

import pytest

from children import ROOT
from environments import job, run, whole


@pytest.mark.nightly
def test_this_python_is_found():
    found = run.pythons((3, 10))
    assert sys.version_info[:2] in found and list(found) == sorted(found)
    assert not run.pythons((3, 99))


def test_every_direct_dependency_has_a_lowest_release():
    lines = run.option('install_requires').split('\n')
    assert len(run.dependencies()) == len(lines) >= 12
    assert all('>=' in line for line in lines)


def test_page_has_a_column_an_environment():
    releases = dict.fromkeys(run.dependencies(), '1.0')
    tried = [
        run.Tried('3.10.1', 'lowest', releases, None),
        run.Tried('3.13.0', 'newest', dict(av='19.0'), 'ImportError: no'),
    ]
    page = run.page(tried).split('\n')
    assert '| **result** | passes | fails |' in page
    assert '| av | 1.0 | 19.0 |' in page and '| torch | 1.0 | - |' in page


def test_the_page_names_releases_that_were_tried():
    """At both ends, of what setup.cfg asks for today, and all passed."""
    page = (ROOT / 'docs' / 'compatibility.md').read_text()
    rows = {
        row.split('|')[1].strip(): [cell.strip() for cell in row.split('|')[2:-1]]
        for row in page.split('\n')
        if row.startswith('|')
    }
    assert set(rows['**result**']) == {'passes'}
    assert {'lowest', 'newest'} == {cell.split()[-1] for cell in rows['']}
    for line in run.option('install_requires').split('\n'):
        name, _, floor = line.partition('>=')
        if '<' in line:  # setuptools, of which mmengine needs pkg_resources: any that has it
            continue
        lowest = [cell for cell, of in zip(rows[name], rows['']) if 'lowest' in of]
        assert any(cell.startswith(floor.split(',')[0]) for cell in lowest), line


def test_the_job_reads_the_last_table():
    assert job.rsum('a rsum  213.0 8.0\n rsum   17.2 8.0 452.1') == 17.2


def test_the_job_fails_where_there_are_no_clips(tmp_path):
    with pytest.raises(AssertionError, match='0 clips'):
        job.read_videos(tmp_path)


@pytest.mark.nightly
def test_lowest_dependencies_on_this_python():
    tried = run.attempt(sys.executable, 'lowest')
    assert tried.failure is None


def test_which_pythons_test_the_whole():
    known = {(3, 9): 'a', sys.version_info[:2]: 'this', (3, 99): 'c'}
    for options, expected in (
        ({'newest', 'this'}, ['c', 'this']),
        ({'lowest'}, ['a']),
        ({'all', 'newest'}, list(known.values())),
    ):
        names = ('all', 'newest', 'this', 'lowest')
        args = Namespace(**{name: name in options for name in names})
        assert whole.chosen(known, args) == expected


def test_the_ending_of_the_tests_is_read():
    line = '= 3 failed, 11029 passed, 15 skipped in 1025.11s (0:17:05) ='
    assert whole.ENDING.search(line)[0] == '3 failed, 11029 passed, 15 skipped in 1025.11s'
    assert whole.ENDING.search('7 passed in 0.1s') and not whole.ENDING.search('....  [ 71%]')
