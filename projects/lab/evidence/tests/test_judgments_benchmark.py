"""judgments.py: its measures, its rule of choice, and all of it on tiny files."""

import importlib
import json
import re
import sys

import numpy as np
import pytest
import torch

from children import ROOT
from mmvtr.datasets import PairValues
from mmvtr.evaluation import JudgedMetric, RetrievalMetric
from mmvtr.structures import Relation

WORDS = 'dog cat horse boat girl man red blue small old runs jumps sits swims sand snow'.split()


@pytest.fixture(scope='module')
def tool():
    """The modules by name."""
    names = 'judgments judging.measures judging.transforms judging.corpora judging.words'
    return {name: importlib.import_module(name) for name in names.split()}


@pytest.mark.parametrize('direction', ['t2v', 'v2t'])
def test_measures_are_those_of_the_metrics(tool, direction):
    draw = torch.Generator().manual_seed(0)
    scores = (torch.rand(40, 40, generator=draw) * 9).round() / 9 + 0.3 * torch.eye(40)
    grades = torch.rand(40, 40, generator=draw).double()
    grades[torch.rand(40, 40, generator=draw) < 0.8] = torch.nan
    grades[:, 0] = grades[0] = 0.9  # each query has a judged pair
    matrices = tool['judging.corpora'].Matrices(scores, scores, scores, grades, 0.5)
    known = tool['judging.measures'].known(matrices, direction)
    found = tool['judging.measures'].measure(scores if direction == 't2v' else scores.t(), known)
    ids = [str(i) for i in range(40)]
    relation = Relation(torch.eye(40).bool(), text_ids=ids, video_ids=ids)
    pairs = PairValues.of_matrix(grades.numpy(), ids, ids)
    judged = JudgedMetric(pairs, at_least=0.5, k=(1,)).by_query(scores, relation)
    torch.testing.assert_close(found.P1, judged[f'{direction}_P1'][direction])
    extra = judged[f'{direction}_extra_AP'][direction]
    torch.testing.assert_close(found.AP, extra, equal_nan=True, atol=1e-4, rtol=0)
    hits = RetrievalMetric(recall_at=(1,)).by_query(scores, relation)[f'{direction}_R1'][direction]
    torch.testing.assert_close(found.R1, hits)


def test_unjudged_items_do_not_count(tool):
    """Text 0: own, unjudged, right, wrong; the other texts have no right item but their own."""
    scores, grades = torch.eye(4), torch.full((4, 4), torch.nan).double()
    scores[0] = torch.tensor([0.9, 0.8, 0.7, 0.1])
    grades[0, 2], grades[0, 3] = 1, 0
    matrices = tool['judging.corpora'].Matrices(scores, scores, scores, grades, 0.5)
    known = tool['judging.measures'].known(matrices, 't2v')
    found = tool['judging.measures'].measure(scores, known)
    assert found.AP[0] == 100 and found.R1.tolist() == [100] * 4 and found.AP[1:].isnan().all()


def test_the_best_recall_of_what_is_cheap_is_chosen(tool):
    values, Setting = tool['judging.measures'].Values, tool['judging.transforms'].Setting

    def both(recall, precision):
        numbers = (recall, recall, precision)
        row = [torch.full((4,), float(x)).double() for x in numbers]
        return dict(t2v=values(*row), v2t=values(*row))

    points = {
        Setting('raw'): both(50, 40),
        Setting('csls', 0, 3): both(56, 39),
        Setting('csls', 0, 10): both(54, 39.6),
        Setting('csls', 0, 50): both(51, 41),
        Setting('sinkhorn', 0.1): both(60, 30),
        Setting('sinkhorn', 0.2): both(58, 32),
    }
    chosen = tool['judgments'].choose(points, np.ones(4, dtype=bool))
    assert chosen == dict(csls=Setting('csls', 0, 10), sinkhorn=Setting('sinkhorn', 0.2))


def test_words_learn_from_their_group_alone(tool):
    groups = dict(learn=[['a dog', 'the dog'], ['a cat']], texts=[['dog']], items=[['a', 'bird']])
    found = tool['judging.words'].tfidf(groups)
    idf = np.log(4 / np.array([3, 3, 2, 2])) + 1  # a, dog, the, cat: in 2, 2, 1 and 1 of 3
    assert found['texts'].sum() == 1 and found['items'].sum() == 1  # 'bird' is not known
    both = tool['judging.words'].tfidf({**groups, 'items': [['a dog dog']]})['items'][0]
    expected = np.array([idf[0], 2 * idf[1]]) / np.hypot(idf[0], 2 * idf[1])
    assert sorted(both[both > 0].tolist()) == pytest.approx(sorted(expected))


def test_score_gap(tool):
    scores = torch.tensor([[1.0, 0, 0, 0], [3, 1, 0, 0]])
    assert tool['judging.transforms'].score_gap(scores) == pytest.approx((0.75 + 2) / 2)
    setting = tool['judging.transforms'].Setting('raw')
    assert torch.equal(setting.apply(scores, scores), scores)


def sentences(count, draw):
    """Two words that a clip's captions share, and two of their own."""
    own = draw.choice(WORDS, 2, replace=False)
    return [' '.join([*own, *draw.choice(WORDS, 2)]) for _ in range(count)]


@pytest.fixture(scope='module')
def data(tmp_path_factory):
    """Files of 30 judged and 30 other images each."""
    folder, draw = tmp_path_factory.mktemp('data'), np.random.default_rng(0)
    for name in ('flickr8k', 'cxc', 'coco'):
        (folder / name).mkdir()
    images = [f'{i:02}.jpg' for i in range(60)]
    lines = [f'{x}#{k}\t{c}\n' for x in images for k, c in enumerate(sentences(5, draw))]
    (folder / 'flickr8k/Flickr8k.token.txt').write_text(''.join(lines))
    (folder / 'flickr8k/Flickr_8k.trainImages.txt').write_text('\n'.join(images[30:]))
    pairs = [(a, b) for a in images[:30] for b in images[:30] if a == b or draw.random() < 0.3]
    votes = [f'{a}\t{b}#2\t{y}\t{y}\t{1 - y}\n' for a, b in pairs for y in [int(draw.integers(2))]]
    (folder / 'flickr8k/CrowdFlowerAnnotations.txt').write_text(''.join(votes))
    names = np.arange(300) + 1000
    np.save(folder / 'coco/coco_test_ids.npy', names)
    captions = [c for _ in range(60) for c in sentences(5, draw)]
    (folder / 'coco/testall_caps.txt').write_text('\n'.join(captions) + '\n')
    owner = {str(name): [i // 5 + 1] for i, name in enumerate(names)}
    (folder / 'coco/original_caption_to_image.json').write_text(json.dumps(owner))
    rows = [
        f'COCO_val2014:sentid:{name},COCO_val2014_{image:012}.jpg,{draw.integers(6)}'
        for name in names
        for image in range(1, 61)
        if owner[str(name)] == [image] or draw.random() < 0.1
    ]
    (folder / 'cxc/sits_test.csv').write_text('\n'.join(['caption,image,agg_score', *rows]) + '\n')
    return folder


@pytest.mark.parametrize('kind', ['tfidf', 'agreement'])
def test_all_of_it_tiny(tool, data, kind, tmp_path, monkeypatch, capsys):
    arguments = ['judgments.py', str(data), '--kinds', kind, '--out', str(tmp_path)]
    monkeypatch.setattr(sys, 'argv', arguments)
    tool['judgments'].main()
    found = json.loads((tmp_path / 'judgments.json').read_text())['kinds'][kind]
    settings = [*tool['judging.transforms'].settings()]
    for source in ('test', 'bank'):
        assert len(found['all'][source]) == len(settings)
        raw, *_ = found['all'][source]
        assert raw['transform'] == 'raw' and raw['t2v_R1'] == [0, 0]
        for corpus in ('flickr8k', 'crisscrossed'):
            row = found[corpus][source]['unbalanced_sinkhorn']['raw']['both_R1']
            assert row[1] <= row[0] <= row[2]
    assert set(found['raw']) == {'all', 'chosen', 'other', 'crisscrossed'}
    tables = (tmp_path / 'judgments_tables.md').read_text()
    assert '## Confirmed on crisscrossed, bank, against csls' in tables
    assert (tmp_path / f'judgments_{kind}.png').stat().st_size > 10000


def test_the_page_says_what_the_tables_say():
    """Every difference with its error or interval on the pages is a cell of the tables."""
    pages = 'docs/judgments.md', 'projects/lab/evidence/pages/judgments.md'
    page = ''.join((ROOT / name).read_text() for name in pages)
    tables = (ROOT / 'projects/lab/evidence/cells/judgments_tables.md').read_text()
    cells = re.findall(r'[+-]\d+\.\d (?:\+- \d+\.\d|\[[^\]]+\])', page)
    assert len(cells) > 150 and not [cell for cell in cells if cell not in tables]


def test_the_tables_are_of_the_json(tool):
    folder = ROOT / 'projects/lab/evidence/cells'
    kinds = json.loads((folder / 'judgments.json').read_text())['kinds']
    tables = importlib.import_module('judging.tables').tables(kinds)
    assert tables == (folder / 'judgments_tables.md').read_text()
