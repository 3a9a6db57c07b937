"""model-index.yml and the metafiles: rows of configs, and where each number is from."""

from collections import Counter

import pytest
from mmengine.config import Config
from mmengine.fileio import load

from children import ROOT, config_file

INDEX = load(ROOT / 'model-index.yml')
FILES = {path: load(ROOT / path) for path in INDEX['Import']}
#: A table of a paper, or of what is beside its code, as in ``reported (DVTR, Table III)``.
PAPERS = ('DVTR', 'NCL', 'UATVR', 'ARL', 'frame-length paper', 'CE repository')


def test_each_row_has_its_config_once():
    found = Counter(model['Name'] for file in FILES.values() for model in file['Models'])
    assert max(found.values()) == 1
    for name in found:
        Config.fromfile(config_file(name))
    written = {str(path.relative_to(ROOT)) for path in (ROOT / 'configs').glob('*/metafile.yml')}
    assert written == set(FILES)


@pytest.mark.parametrize('path', FILES)
def test_collections(path):
    for collection in FILES[path]['Collections']:
        assert collection['Paper'].keys() == {'Title', 'URL'}
        assert collection['Paper']['URL'].startswith('https://')
        assert 2018 <= collection['Year'] <= 2030
        assert (ROOT / collection['README']).is_file()


@pytest.mark.parametrize('path', FILES)
def test_numbers_say_where_they_are_from(path):
    known = {collection['Name'] for collection in FILES[path]['Collections']}
    for model in FILES[path]['Models']:
        assert ROOT / model['Config'] == config_file(model['Name'])
        assert model['In Collection'] in known
        assert 'Weights' not in model  # we have none to give
        (result,) = model['Results']
        metrics = dict(result['Metrics'])
        assert result['Task'] and result['Dataset'] and metrics.pop('ours') == 'not measured'
        if metrics.pop('reported', None) is not None:
            assert not metrics
            continue
        assert metrics
        for source, numbers in metrics.items():
            paper, _, table = source.removeprefix('reported (').removesuffix(')').rpartition(', ')
            assert paper in PAPERS and table.startswith('Table ')
            assert all(isinstance(number, (int, float)) for number in numbers.values()) and numbers
            assert not any(number > 100 for name, number in numbers.items() if 'R@' in name)
