"""projects/gallery/docs/security.md names tests that are there."""

import re

from children import ROOT


def test_each_test_of_the_page_is_there():
    page = (ROOT / 'projects/gallery/docs/security.md').read_text()
    named = re.findall(r'`((?:test_\w+/)?test_\w+\.py)::(test_\w+)`', page)
    assert len(named) >= 12
    for file, test in named:
        places = [ROOT / folder / file for folder in ('projects/gallery/tests', 'tests')]
        found = [place for place in places if place.is_file()]
        assert len(found) == 1 and f'def {test}(' in found[0].read_text(), (file, test)
    rows = [line for line in page.splitlines() if line.startswith('| ') and '---' not in line][1:]
    assert all('::test_' in row for row in rows)  # no promise without a test
