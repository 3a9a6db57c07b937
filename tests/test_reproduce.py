"""docs/reproduce/: a page a paper, its numbers the metafiles'.  Commands: test_promises.py."""

import re

import pytest
import yaml

from children import ROOT
from mmvtr.utils import is_config_file

PAGES = {path.stem: path.read_text() for path in sorted((ROOT / 'docs/reproduce').glob('*.md'))}
PAPERS = ('dvtr', 'ncl', 'uatvr', 'arl', 'causal')
ROW = re.compile(r'^\| `([\w+]+)\.py` \| (.+?) \| (.+?) \|$', flags=re.MULTILINE)


REPORTED = {
    model['Name']: [m for m in model['Results'][0]['Metrics'].values() if isinstance(m, dict)]
    for path in sorted((ROOT / 'configs/metafiles').glob('*.yml'))
    for model in yaml.safe_load(path.read_text())['Models']
}


@pytest.mark.parametrize('name', PAPERS)
def test_numbers_are_the_metafiles(name):
    rows = ROW.findall(PAGES[name])
    assert len(rows) >= 6
    for config, reported, hours in rows:
        assert is_config_file(ROOT / f'configs/{config}.py')
        pairs = [part.rpartition(' ')[::2] for part in reported.split(', ')]
        stated = {key: float(value) for key, value in pairs}
        assert any(stated.items() <= known.items() for known in REPORTED[config]), config
        assert 0 < float(hours.removeprefix('under ')) < 1000


def test_links_lead_to_headings():
    slugs = {
        heading.lower().replace(' ', '-')
        for heading in re.findall(r'^## (.+)', PAGES['sources'], flags=re.MULTILINE)
    }
    named = {link for page in PAGES.values() for link in re.findall(r'sources\.md#([\w-]+)', page)}
    assert named and named <= slugs
