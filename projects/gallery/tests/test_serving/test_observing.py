"""The access log and the figures for Prometheus: right numbers, and nothing of what was asked."""

import json
import re

import numpy as np
import pytest

from gallery_service import Gallery, served, try_to_take
from mmvtr_gallery.serving.observing import BUCKETS, Observed

SAMPLE = re.compile(r'(\w+)(?:\{(.*)\})? (\S+)')


def parsed(text):
    """Figures by name and labels, as Prometheus' text format says; each has a type before it."""
    found, kinds = {}, {}
    assert text.endswith('\n')
    for line in text.splitlines():
        if line.startswith('#'):
            _, what, name, rest = line.split(' ', 3)
            if what == 'TYPE':
                assert name not in kinds and rest in ('counter', 'gauge', 'histogram')
                kinds[name] = rest
            continue
        name, labels, value = SAMPLE.fullmatch(line).groups()
        family = name if name in kinds else re.sub('_(bucket|sum|count)$', '', name)
        assert kinds[family] == 'histogram' or family == name
        pairs = re.findall(r'(\w+)="([^"]*)"', labels or '')
        assert (name, *pairs) not in found
        found[(name, *pairs)] = float(value)
    return found


def test_figures_and_lines_are_of_the_requests(place, tmp_path):
    log = tmp_path / 'access.jsonl'
    with served(Gallery.open(place), observed=Observed(log)) as client:
        for text in ('x', 'yy', 'zxy'):
            client.search(text=text, k=2)
        client.search(like='a', k=2)
        client.error('POST', '/search', dict(k=2))
        client.error('POST', '/search', dict(text='secret words', filter=dict(secret=1)))
        client.error('GET', '/no/such"page?text=secret')
        client.error('GET', '/health', Host='elsewhere.example')
        client.error('GET', '/video?id=secret')
        client.error('POST', '/delete', dict(ids=['secret']))
        status, headers, text = client('GET', '/metrics')
        assert status == 200 and headers['content-type'].startswith('text/plain; version=0.0.4')
        figures = parsed(text.decode())
    requests = {k[1:]: v for k, v in figures.items() if k[0] == 'mmvtr_requests_total'}
    assert requests == {
        (('route', '/search'), ('status', '200')): 4,
        (('route', '/search'), ('status', '422')): 2,
        (('route', 'other'), ('status', '404')): 1,
        (('route', 'other'), ('status', '421')): 1,
        (('route', '/video'), ('status', '404')): 1,
        (('route', '/delete'), ('status', '401')): 1,
    }
    assert figures['mmvtr_stage_seconds_count', ('stage', 'encode')] == 4
    assert figures['mmvtr_stage_seconds_count', ('stage', 'search')] == 5
    assert figures['mmvtr_request_seconds_count', ('route', '/search')] == 6
    assert figures[('mmvtr_items',)] == 7 and figures[('mmvtr_encoded_texts',)] == 4
    assert ('mmvtr_drift_ratio',) not in figures
    assert ('mmvtr_queries_not_like_bank',) not in figures
    rising = [
        figures['mmvtr_request_seconds_bucket', ('route', '/search'), ('le', str(end))]
        for end in (*BUCKETS, '+Inf')
    ]
    assert rising == sorted(rising) and rising[-1] == 6
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line['status'] for line in lines] == [200] * 4 + [422, 422, 404, 421, 404, 401, 200]
    assert lines[0]['stages'].keys() == {'encode', 'search'} and lines[0]['route'] == '/search'
    assert sum(lines[0]['stages'].values()) <= lines[0]['ms']
    assert lines[0].keys() == {'time', 'method', 'route', 'status', 'ms', 'stages'}
    assert 'secret' not in log.read_text() and 'secret' not in text.decode()


def test_times_are_in_their_buckets():
    observed = Observed()
    for seconds in (0.0005, 0.001, 0.002, 99.0):
        observed.saw('GET', '/health', 200, seconds, {})
    found = parsed(observed.figures({'items': ('Items.', 3), 'none': ('None.', None)}))
    bucket = {k[2][1]: v for k, v in found.items() if k[0] == 'mmvtr_request_seconds_bucket'}
    assert (bucket['0.001'], bucket['0.0025'], bucket['10.0'], bucket['+Inf']) == (2, 3, 3, 4)
    assert found['mmvtr_request_seconds_sum', ('route', '/health')] == pytest.approx(99.0035)
    assert found[('mmvtr_items',)] == 3 and not any('none' in key[0] for key in found)


def test_without_the_flag_there_are_no_figures(place, tmp_path):
    for observed in (None, Observed(tmp_path / 'log', told=False)):
        with served(Gallery.open(place), observed=observed) as client:
            assert client.error('GET', '/metrics')[0] == 404
    assert len((tmp_path / 'log').read_text().splitlines()) == 1


def test_drift_is_for_who_has_the_token(place):
    with served(Gallery.open(place)) as client:
        assert client.error('GET', '/drift')[0] == 401
        status, _, said = client('GET', '/drift', Authorization='Bearer a token of the tests')
        assert status == 200 and set(said.values()) == {None}  # seven items, and no sample


def pairs(random, count, turned=0.0):
    """Unit vectors on a half of the circle, and others beside them."""
    angle = random.uniform(0, np.pi, count)
    angle = np.stack([turned + angle, angle + 0.3 * random.normal(size=count)])
    return np.stack([np.cos(angle), np.sin(angle)], 2).astype(np.float32)


def test_a_shift_is_told_and_p_withheld_if_asked(place):
    """Items and bank on a half of the circle, queries on the other; /drift notices, and then
    searches say so."""
    random = np.random.default_rng(0)
    gallery = Gallery.open(place)
    with served(gallery, observed=Observed()) as client:
        assert try_to_take(gallery) is None
        store = gallery.store
        (texts, items), (bank, own) = pairs(random, 200), pairs(random, 200)
        store.add([f'x{i}' for i in range(200)], items)
        store.refit(bank, items=own, paired=True, probabilities=True, temperature=0.1, fewer=True)
        store.keep_queries(dict(capacity=150, memory=150))
        store.search(texts[:150], 1)
        asked = dict(vector=items[0].tolist(), k=2)
        token = dict(Authorization='Bearer a token of the tests')
        said = client('GET', '/drift', **token)[2]
        assert said['shifted'] is False and client.search(**asked)['note'] is None
        store.search(pairs(random, 1000, np.pi)[0], 1)
        assert client.search(**asked)['note'] is None  # nobody has asked /drift
        said = client('GET', '/drift', **token)[2]
        assert said['shifted'] is True and "not like the bank's" in said['shift']
        found = client.search(**asked)
        assert found['note'] == said['shift'] and found['hits'][0]['p_match'] is not None
        found = client.search(**asked, unless_shifted=True, min_precision=0.001)
        assert found['note'] == said['shift'] and found['threshold_p_match'] is None
        assert {hit['p_match'] for hit in found['hits']} == {None}
        figures = parsed(client('GET', '/metrics')[2].decode())
        assert figures[('mmvtr_queries_not_like_bank',)] == 1


def test_a_precision_that_nothing_reaches_says_what_it_needs(place):
    random = np.random.default_rng(0)
    gallery = Gallery.open(place)
    with served(gallery) as client:
        assert try_to_take(gallery) is None
        store, (texts, items) = gallery.store, pairs(random, 60)
        store.add([f'x{i}' for i in range(60)], items)
        store.refit(
            texts, items=items, paired=True, probabilities=True, temperature=0.1, fewer=True
        )
        said = client.search(vector=items[0].tolist(), k=2, min_precision=0.99)
        assert said['threshold_p_match'] is None
        assert said['note'].startswith('no query can be answered at precision 0.99')
