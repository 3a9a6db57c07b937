"""Judgments of people are kept, told with the hits, and fit P(match)."""

from __future__ import annotations

import json
import threading

import numpy as np
import pytest
import torch

from gallery_service import taken
from mmvtr import apis
from mmvtr.errors import UserError
from mmvtr.functional import fit_calibration
from mmvtr_gallery.serving.judgments import Judgment, Judgments
from mmvtr_gallery.store import open_store
from services import NAMES


@pytest.fixture
def client(place):
    with taken(place) as client:
        yield client


def judged(client, text):
    hits = client.search(text=text, k=len(NAMES))['hits']
    return {hit['id']: hit['judged'] for hit in hits if hit['judged'] is not None}


def test_the_last_judgment_counts_and_stays(client, place):
    assert client('GET', '/health')[2]['judges'] is True
    judge = lambda *said: client.change('/judge', **dict(zip(('text', 'id', 'right'), said)))  # noqa: E731
    assert judge('hello', 'a', True)[2] == dict(judgments=1)
    assert judge('hello', 'b', False)[2] == dict(judgments=2)
    assert judge('xx', 'b', True)[2] == dict(judgments=3)
    assert judge('hello', 'a', False)[2] == dict(judgments=3)
    assert judged(client, 'hello') == dict(a=False, b=False)
    assert judge('hello', 'b', None)[2] == dict(judgments=2)
    assert judged(client, 'hello') == dict(a=False) and judged(client, 'xx') == dict(b=True)
    assert Judgments(place).pairs() == [Judgment('hello', 'a', False), Judgment('xx', 'b', True)]
    assert len((place / 'judgments.jsonl').read_text().splitlines()) == 5
    vector = client.search(vector=[1.0, 0.0], k=7)['hits']
    assert all(hit['judged'] is None for hit in vector)
    for body, status in [
        (('hello', 'nobody', True), 404), (('', 'a', True), 422), (('hello', 'a', 'maybe'), 422),
        (('hello', 'a'), 422),
    ]:  # fmt: skip
        assert judge(*body)[0] == status
    assert len(Judgments(place).pairs()) == 2


def test_p_match_is_fitted_to_them(client, place, folder):
    """The calibration is that of the pairs' own scores, found here by another way."""
    status, said = client.change('/calibrate')[::2]
    assert status == 422 and 'nothing is judged' in said['error']
    texts = [f'{"abc"[i % 3] * (1 + i % 4)} {i}' for i in range(20)]
    rows, scores, right = [], [], []
    model, cfg = apis.load_retriever(str(folder / 'config.py'), str(folder / 'config.pth'))
    queries = apis.vectors(model, apis.encode_texts(model, cfg, texts).levels).cpu().numpy()
    items = open_store(place).get(list(NAMES))
    table = queries @ np.stack([x.vector for x in items]).T + [x.bias for x in items]
    generator = np.random.default_rng(0)
    for row, text in enumerate(texts):
        for name, score in zip(NAMES, table[row]):
            yes = bool(score + generator.normal() * table.std() > np.median(table))
            assert client.change('/judge', text=text, id=name, right=yes)[0] == 200
            if name != 'g':
                rows, scores, right = [*rows, row], [*scores, score], [*right, yes]
    assert client.change('/delete', ids=['g'])[0] == 200
    status, _, said = client.change('/calibrate')
    assert (status, said) == (200, dict(pairs=120, right=sum(right)))
    expected = fit_calibration(
        torch.tensor(scores), torch.tensor(right), queries=torch.tensor(rows), debiased=True
    )
    found = open_store(place).calibration
    assert found.debiased and found.method == 'platt'
    torch.testing.assert_close(found.fitted, expected.fitted, rtol=1e-3, atol=1e-3)
    hit = client.search(text=texts[0], k=1)['hits'][0]
    p = expected.probabilities(torch.tensor([hit['score']])).item()
    assert hit['p_match'] == pytest.approx(p, abs=1e-3)
    assert client.change('/refit', texts=texts)[0] == 200  # of other biases: it is gone
    assert client.search(text=texts[0], k=1)['hits'][0]['p_match'] is None
    assert client.change('/calibrate')[2] == dict(pairs=120, right=sum(right))


def test_one_kind_of_judgment_fits_nothing(client):
    client.change('/judge', text='hello', id='a', right=True)
    status, _, said = client.change('/calibrate')
    assert status == 422 and 'both' in said['error']
    assert client('GET', '/health')[2]['calibration'] is None


def test_who_reads_sees_what_another_process_adds(tmp_path):
    reader, writer = Judgments(tmp_path), Judgments(tmp_path)
    writer.add(Judgment('é "x"\n', 'a', True))
    assert reader.of('é "x"\n') == dict(a=True) and reader.of('y') == {}
    names = [str(i) for i in range(40)]
    threads = [
        threading.Thread(target=writer.add, args=(Judgment('y', name, False),)) for name in names
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(reader.of('y')) == sorted(names)


def test_half_a_line_is_left_out_and_replaced(tmp_path):
    Judgments(tmp_path).add(Judgment('x', 'a', True))
    path = tmp_path / 'judgments.jsonl'
    path.write_bytes(path.read_bytes() + b'{"text": "x", "id')
    again = Judgments(tmp_path)
    assert again.pairs() == [Judgment('x', 'a', True)]
    again.add(Judgment('x', 'b', False))
    assert [json.loads(line)['id'] for line in path.read_text().splitlines()] == ['a', 'b']


@pytest.mark.parametrize(
    'line', ['no json', '[]', '{"text": "x"}', '{"text": 1, "id": "a", "right": true}']
)
def test_a_line_that_is_no_judgment_is_named(tmp_path, line):
    Judgments(tmp_path).add(Judgment('x', 'a', True))
    path = tmp_path / 'judgments.jsonl'
    path.write_text(path.read_text() + line + '\n')
    with pytest.raises(UserError, match='judgments.jsonl, line 2: text, id and right expected'):
        Judgments(tmp_path)


def test_a_link_is_refused(tmp_path):
    (tmp_path / 'store').mkdir()
    (tmp_path / 'elsewhere').write_text('')
    (tmp_path / 'store/judgments.jsonl').symlink_to(tmp_path / 'elsewhere')
    with pytest.raises(UserError, match='is a link'):
        Judgments(tmp_path / 'store')


def test_a_server_has_no_folder_for_them():
    there = Judgments('http://127.0.0.1:1/name')
    assert not there.kept and there.of('x') == {}
    with pytest.raises(ValueError, match='on a server'):
        there.add(Judgment('x', 'a', True))
