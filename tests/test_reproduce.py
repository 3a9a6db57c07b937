"""docs/reproduce/: links of its pages.  Their commands: test_promises.py."""

import re

from children import ROOT

PAGES = {path.stem: path.read_text() for path in sorted((ROOT / 'docs/reproduce').glob('*.md'))}


def test_links_lead_to_headings():
    slugs = {
        heading.lower().replace(' ', '-')
        for heading in re.findall(r'^## (.+)', PAGES['sources'], flags=re.MULTILINE)
    }
    named = {link for page in PAGES.values() for link in re.findall(r'sources\.md#([\w-]+)', page)}
    assert named and named <= slugs
