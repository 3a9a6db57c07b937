"""projects/gallery/docs/security.md names tests that are there."""

import re

from children import ROOT


def test_each_test_of_the_page_is_there():
    page = (ROOT / 'projects/gallery/docs/security.md').read_text()
    named = re.findall(r'`((?:test_\w+/)?test_\w+\.py)::(test_\w+)`', page)
    assert len(named) >= 12
    for file, test in named:
        folder = ROOT / ('projects/gallery/tests' if '/' in file else 'tests')
        assert f'def {test}(' in (folder / file).read_text(), (file, test)
    rows = [line for line in page.splitlines() if line.startswith('| ') and '---' not in line][1:]
    assert all('::test_' in row for row in rows)  # no promise without a test
