"""training_bank.py: whose texts a bank has, and that its raw figures are those of run.py."""

import importlib
import json

import pytest

from children import ROOT

PAGE = ROOT / 'projects/lab/evidence/pages/training_bank.md'


def test_banks_and_raw_figures(real, folder):
    tool, sets = importlib.import_module('training_bank'), real['sets']
    ready = sets.prepare('own', sets.of_folder(folder), folder.parent / 'ready')
    place = real['run'].Place('own', ready, 'minilm')
    place.schedule = place.schedule._replace(epochs=4)
    for split, count, wanted in (('val', None, 9), ('train', 9, 9), ('train', None, 18)):
        bank = tool.drawn(ready, split, 'minilm', count, 3)
        data = real['reading'].dataset(ready, split, 'minilm')
        owners = {x['text_id']: data.videos[x['video_idx'][0]]['video_id'] for x in data.texts}
        assert len(bank.texts) == len({*bank.videos}) == wanted
        assert [owners[x] for x in bank.texts] == bank.videos
    found = tool.of_place(place, [0, 1])
    assert found['banks'] == dict(zip(tool.BANKS, (9, 9, 18))) and found['queries'] == 18
    expected = dict(last=[], best=[])
    evaluator = real['run'].Evaluator(place, real['methods'].METHODS['infonce'])
    for seed in (0, 1):
        trained = tool.member(place, tool.rates_of('own', 'minilm', 'ensemble')[0], seed)
        expected['last'].append(evaluator.test(trained.model)['t2v_R1'])
        trained.model.load_state_dict(trained.best)
        expected['best'].append(evaluator.test(trained.model)['t2v_R1'])
    for when, values in expected.items():
        assert found[when]['raw'] == pytest.approx(sum(values) / 2)
        for row in found[when]['ways'].values():
            low, high = row['interval']
            assert row['apart'] == pytest.approx(row['train'] - row['val'])
            assert low <= row['apart'] <= high
        assert tool.table(dict(own=found), when).count('\n') == 1 + len(tool.WAYS)


def test_the_page_has_the_tables_of_the_cells(real):
    tool, page = importlib.import_module('training_bank'), PAGE.read_text()
    found = json.loads(tool.OUT.read_text())
    for when in ('best', 'last'):
        assert tool.table(found, when) in page
