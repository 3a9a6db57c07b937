"""pages/comparison.md and its pictures from a folder of hand-made cells."""

import importlib
import json
import math
import re

import numpy as np
import pytest
from PIL import Image

QUERIES = 60
#: True v2t firsts and right texts of each method, of 60 queries.
HITS = dict(plain=(12, 40), soft=(30, 38), harmful=(3, 12), idle=(12, 40), costly=(12, 15))
ORACLE = dict(oracle=(48, 50))
#: Columns of the main table.
FURTHER = ('v2t P@1 over further controls', 'rsum over further controls')


@pytest.fixture
def tool():
    return importlib.import_module('comparison.page')


@pytest.fixture
def plan(tool, monkeypatch):
    """Methods and conditions; ``absent`` has no cells."""
    families = importlib.import_module('comparison.plan').FAMILIES
    kind = importlib.import_module('comparison.kinds').Family
    for name in ('clips', 'other clips'):
        monkeypatch.setitem(families, name, kind('general21', [{}, {}]))
    groups = dict(plain='baseline', soft='ours', oracle='oracle')
    methods = {
        name: tool.Method(f'the {name} one', f'configs/{name}.py', groups.get(name, 'paper'))
        for name in (*HITS, *ORACLE, 'absent')
    }
    methods['idle'] = methods['idle']._replace(transforms=('sinkhorn', 'sinkhorn_oracle'))
    condition = tool.Condition(
        'general captions',
        'Six captions of ten are general.',
        'clips',
        {},
        {},
        list(methods),
        'plain',
        'oracle',
        'semantic/v2t_P1',
    )
    other = condition._replace(label='nowhere')
    return methods, dict(general21=condition, clean=other)


def save(
    folder,
    method,
    seed,
    *,
    hits=None,
    recalls=None,
    t2v=None,
    condition='general21',
    role='own',
    **test,
):
    """A cell of 60 queries, the first ones right; the seed shifts which.  ``t2v``: recalls there,
    where they differ."""
    if hits is None:
        hits, recalls = {**HITS, **ORACLE}[method]
    t2v = recalls if t2v is None else t2v
    right = np.roll(np.arange(QUERIES) < hits, seed).tolist()
    reached, asked = (
        np.roll(3 * (np.arange(QUERIES) < those), seed).tolist() for those in (recalls, t2v)
    )
    test = {
        'retrieval/rsum': 300 * (recalls + t2v) / QUERIES,
        'semantic/v2t_P1': 100 * hits / QUERIES,
        'normalisation/t2v_error': 0.25,
        **test,
    }
    queries = dict(t2v_recalls=asked, v2t_recalls=reached, v2t_P1=list(map(float, right)))
    cell = dict(
        condition=condition,
        method=method,
        seed=seed,
        role=role,
        config=f'configs/{method}.py',
        config_sha=f'{method}{seed}',
        command='python tools/train.py',
        chosen={'optim_wrapper.optimizer.lr': 0.001},
        made=dict(date=f'2026-11-2{seed}', commit='abc1234', machine='2 x CPU', tower='a1'),
        cpu_seconds=36.0 if method == 'plain' else 48.0,
        val={'retrieval/rsum': 1.0},
        test=test,
        queries={'': queries},
    )
    put(folder, cell)


def put(folder, *cells, without=()):
    """Add cells in place of those of their key, or leave some out."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / 'cells.jsonl'
    known = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    places = {
        (
            cell['condition'],
            cell['method'],
            cell['seed'],
            *[cell['role']] * (cell['role'] != 'own'),
        ): cell
        for cell in (*known, *cells)
    }
    for place in without:
        del places[place]
    path.write_text(''.join(json.dumps(cell) + '\n' for cell in places.values()))
    return places


@pytest.fixture
def folder(tmp_path):
    """Three seeds of all methods, bounds and tuning."""
    folder = tmp_path / 'cells/effects'
    for method in (*HITS, *ORACLE):
        for seed in range(3):
            extra = {}
            if method == 'idle':
                extra = {'sinkhorn/retrieval/rsum': 410.0 + 10 * seed}
            if method == 'soft':
                extra = {'soft_positive/eta_auc': 84.0 + seed}
            save(folder, method, seed, **extra)
    bounds = dict(chance={'retrieval/rsum': 8.0}, ceiling={'retrieval/rsum': 301.9})
    (folder / 'conditions.json').write_text(json.dumps(dict(general21=bounds)))
    grid = [dict(point={'optim_wrapper.optimizer.lr': lr}, val=lr * 1e4) for lr in (0.001, 0.002)]
    choice = dict(condition='general21', seed=0, grid=grid, chosen=grid[1]['point'])
    (folder / 'tuning.json').write_text(json.dumps(dict(clips=dict(soft=choice))))
    return folder


@pytest.fixture
def write(tool, plan, folder, monkeypatch):
    """Writes the page, without pictures; returns it."""
    monkeypatch.setattr(tool, 'write_pictures', lambda folder, views: ['trade'])
    return writer(tool, plan, folder)


@pytest.fixture
def draw(tool, plan, folder):
    """Writes the page with its pictures; returns it."""
    return writer(tool, plan, folder)


def writer(tool, plan, folder):
    def run(*shas):
        page = folder.parents[1] / 'pages/comparison.md'
        tool.write_page(folder, page, *plan, *shas)
        return page.read_text() + tool.tables_of(page).read_text()

    return run


def lines_of(text, title):
    """The table below a title: cells by the first of each line."""
    part = text[text.index(title) :]
    part = part[part.index('\n|') + 1 :].split('\n\n')[0]
    lines = [[cell.strip() for cell in line.split('|')[1:-1]] for line in part.splitlines()]
    assert len({len(line) for line in lines}) == 1
    assert set(lines.pop(1)) == {'---'}
    return {line[0]: line[1:] for line in lines}


def test_verdicts_are_said_plainly(write):
    text = write()
    said = {name: cells[0] for name, cells in lines_of(text, '## Does it help?').items()}
    assert said['row'] == 'general captions (`general21`): v2t P@1, cost rsum'
    assert said['the plain one'] == 'baseline'
    assert said['the soft one'] == '**helps** +30.0'
    assert said['the harmful one'] == '**harms** -15.0, rsum -280.0'
    assert said['the idle one'] == 'nothing +0.0'
    assert said['the costly one'] == '**harms**: rsum -250.0, aim nothing (+0.0)'
    assert said['*the oracle one*'] == '**helps** +60.0, rsum +100.0'
    assert said['the idle one, Sinkhorn, train queue'] == 'not measured'
    assert '- **Helps**: the soft one (`general21`).' in text
    harmful = 'the harmful one (`general21`); the costly one (`general21`)'
    assert f'- **Harms**: {harmful}.' in text
    assert '- *Nothing*: the idle one (`general21`).' in text
    assert '- *Not resolved*: none.' in text
    assert 'at most 10 rsum, by the means: none.' in text  # soft loses 20 rsum


def test_what_a_row_pays_is_said(folder, write):
    for seed in range(3):
        # Half of the queries of one seed, none of another: far from resolved.
        save(folder, 'idle', seed, hits=(12, 30, 6)[seed], recalls=40)
        save(folder, 'costly', seed, hits=(12, 30, 6)[seed], recalls=15)
        save(folder, 'soft', seed, hits=30, recalls=25)
    text = write()
    said = {name: cells[0] for name, cells in lines_of(text, '## Does it help?').items()}
    assert said['the soft one'] == '**helps** +30.0 for rsum -150.0'
    assert said['the idle one'] == 'not resolved +6.7'
    assert said['the costly one'] == '**costs** rsum -250.0, aim not resolved (+6.7)'
    assert '- **Costs** paired recall, aim not resolved: the costly one (`general21`).' in text
    assert '- *Not resolved*: the idle one (`general21`).' in text
    assert '**Seeds apart** by more than 15 in v2t P@1: the idle one 20.0, 50.0, 10.0;' in text


def test_the_cost_is_that_of_the_condition(plan, folder, write):
    plan[1]['general21'] = plan[1]['general21']._replace(cost='retrieval/t2v_rsum')
    for seed in range(3):
        for method, (hits, t2v) in {**HITS, **ORACLE}.items():
            metrics = {f'retrieval/t2v_R{k}': 100 * t2v / QUERIES for k in (1, 5, 10)}
            v2t = 0 if method == 'oracle' else t2v  # which nobody asks for
            save(folder, method, seed, hits=hits, recalls=v2t, t2v=t2v, **metrics)
    said = lines_of(write(), '## Does it help?')
    assert said['row'] == ['general captions (`general21`): v2t P@1, cost t2v R@1+5+10']
    assert said['*the oracle one*'] == ['**helps** +60.0, t2v R@1+5+10 +50.0']
    assert said['the costly one'] == ['**harms**: t2v R@1+5+10 -125.0, aim nothing (+0.0)']


def test_a_collapsed_training_gets_no_verdict(plan, folder, write):
    path = folder / 'conditions.json'
    known = json.loads(path.read_text())
    chance = {f'retrieval/t2v_R{k}': 100 * k / QUERIES for k in (1, 5, 10)}
    known['general21']['chance'].update(chance)
    path.write_text(json.dumps(known))
    recalls = dict(plain=(40, 40, 40), soft=(38, 5, 38), harmful=(1, 2, 3), costly=(15, 15, 15))
    for method, those in recalls.items():
        for seed, reached in enumerate(those):
            t2v = {f'retrieval/t2v_R{k}': 100 * reached / QUERIES for k in (1, 5, 10)}
            save(folder, method, seed, hits=HITS[method][0], recalls=reached, **t2v)
    plan[0]['costly'] = plan[0]['costly']._replace(controls=('harmful',))
    text = write()
    said = {name: cells[0] for name, cells in lines_of(text, '## Does it help?').items()}
    assert said['the harmful one'] == '*collapsed* (3 of 3 seeds)'
    others = 'the others v2t P@1 +30.0, rsum -20.0'
    assert said['the soft one'] == f'*collapsed* (1 of 3 seeds; {others})'
    assert said['the costly one'] == 'no verdict, as its control collapsed, over harmful'
    assert '- **Helps**: none.' in text and '- **Harms**: none.' in text
    collapsed = 'the soft one (`general21`); the harmful one (`general21`); the costly one ('
    assert f'- *Collapsed*: {collapsed}' in text
    # 5 and 15 of 60 queries in each of three recalls: 25 and 75, chance 26.7.
    assert '(25.0 is the most of those that have, 75.0 the least of all others)' in text


def test_other_baselines_get_no_verdict(plan, write):
    plan[0]['harmful'] = plan[0]['harmful']._replace(group='baseline')
    plan[0]['idle'] = plan[0]['idle']._replace(group='baseline', transforms=())
    text = write()
    said = {name: cells[0] for name, cells in lines_of(text, '## Does it help?').items()}
    assert said['the harmful one'] == 'a baseline of others (v2t P@1 -15.0, rsum -280.0)'
    assert said['the idle one'] == 'a baseline of others'
    assert '- **Harms**: the costly one (`general21`).' in text
    assert '- *Nothing*: none.' in text


def test_further_controls_and_what_they_took(plan, folder, write):
    plan[0]['soft'] = plan[0]['soft']._replace(controls=('idle', 'plain', 'costly'), note='Beware.')
    for seed in range(3):
        cell = put(folder)['general21', 'costly', seed]
        put(folder, {**cell, 'cpu_seconds': 96.0})
    text = write()
    said = lines_of(text, '## Does it help?')['the soft one \u2020'][0].split('; ')
    assert said == [
        '**helps** +30.0 over idle',
        '**helps** +30.0 over plain',
        '**helps** +30.0, rsum +230.0 over costly (which trains 2.0 times as long)',
    ]
    assert '- **Helps**: the soft one \u2020 (' in text and '- **the soft one**: Beware.' in text
    for seed in range(3):  # of another day, which may be another machine
        cell = put(folder)['general21', 'costly', seed]
        put(folder, {**cell, 'made': {**cell['made'], 'date': '2026-12-24'}})
    assert 'rsum +230.0 over costly' in write() and 'times as long' not in write()
    main = lines_of(text, '### Paired retrieval')
    over, aim, cost = (main['row'].index(name) for name in ('over', *FURTHER))
    assert main['the soft one'][over] == 'idle'
    for column, by in ((aim, '+30.0'), (cost, '+230.0')):
        both = main['the soft one'][column].split('; ')
        assert both[0].endswith(' over plain') and both[1].endswith(' over costly')
        assert both[1].startswith(f'{by} [')


def test_what_is_meant_with_a_transform_comes_first(plan, folder, write):
    plan[0]['idle'] = plan[0]['idle']._replace(meant='sinkhorn')
    rows = [line for line in lines_of(write(), '## Does it help?') if 'idle' in line]
    assert rows == ['the idle one', 'the idle one, biases left out at test']


def test_what_is_to_be_won(folder, plan, write):
    text = write()
    assert 'The possible gain: the oracle gains v2t P@1 +60.0 [' in text
    lines = lines_of(text, '### What there is to win')
    assert lines['measure'] == ['chance', 'baseline', 'oracle', 'difference']
    assert lines['v2t P@1'][1:3] == ['20.0 +- 0.0', '80.0 +- 0.0']
    for seed in range(3):
        save(folder, 'oracle', seed, hits=12, recalls=50)
    text = write()
    assert 'no bias to undo here**: not even the oracle gains measurably (v2t P@1 +0.0' in text


def test_what_the_bias_costs_the_baseline(plan, folder, write):
    plan[1]['general21'] = plan[1]['general21']._replace(
        aim='retrieval/rsum', oracle=None, without='clean'
    )
    for seed in range(3):
        save(folder, 'plain', seed, condition='clean', hits=12, recalls=44)
    text = write()
    assert 'costs the baseline about 40. Its rsum is 400.0 here, and 440.0 without' in text
    assert '(`clean`).' in text
    clean = plan[1]['clean']
    plan[1]['clean'] = clean._replace(family='other clips')
    assert '(`clean`; other frames and epochs, so the two compare roughly only).' in write()
    plan[1]['clean'] = clean
    for seed in range(3):
        save(folder, 'plain', seed, condition='clean', hits=12, recalls=40)
    assert 'costs the baseline nothing. Its rsum is 400.0 here, and 400.0 without' in write()


def test_main_table(write):
    lines = lines_of(write(), '### Paired retrieval')
    assert lines['row'] == [
        'rsum',
        'v2t P@1',
        'difference in v2t P@1',
        'difference in rsum',
        'over',
        'closed',
    ]
    assert lines['chance'] == ['8.0', '', '', '', '', '']
    assert lines['ceiling'][0] == '301.9'
    assert lines['the plain one'] == ['400.0 +- 0.0', '20.0 +- 0.0', '', '', '', '']
    rsum, precision, gained, lost, over, closed = lines['the soft one']
    assert over == 'plain'
    assert (rsum, precision, closed) == ('380.0 +- 0.0', '50.0 +- 0.0', '50 %')
    mean, low, high = map(float, re.fullmatch(r'(\S+) \[(\S+), (\S+)\]', gained).groups())
    assert mean == 30 and 10 < low < 30 < high < 50 and lost.startswith('-20.0 [')
    nothing = '+0.0 [+0.0, +0.0]'
    assert lines['the idle one'][2:] == [nothing, nothing, 'plain', '0 %']
    assert lines['*the oracle one*'][5] == '100 %'
    sinkhorn = lines['the idle one, Sinkhorn, train queue']
    assert sinkhorn == ['420.0 +- 10.0', '', '', '+20.0 [-4.8, +44.8] s', 'plain', '']
    assert not any('test queries' in name for name in lines)


def test_other_tables_and_their_sources(write):
    text = write()
    assert lines_of(text, '### Detection of soft') == {
        'row': ['AUC, 1 - p'],
        'the soft one': ['85.0 +- 1.0'],
    }
    scores = lines_of(text, '### Normalisation')
    assert scores['row'] == ['t2v normalisation error', 'time'] and 'chance' not in scores
    assert scores['the plain one'] == ['0.250 +- 0.000', '1.00']
    assert scores['the soft one'] == ['0.250 +- 0.000', '1.33']
    assert lines_of(text, '## Tuning')['the soft one'] == ['10.0', '**20.0**']
    assert lines_of(text, '## Files')['the soft one'][:2] == ['`soft`', '`configs/soft.py`']
    source = 'From `general21` of `../cells/effects/cells.jsonl`'
    assert text.count(source) == 6
    assert '18 trainings (0 of them for tuning only), 0.2 hours of CPU time, 2026-11-20' in text
    assert ' to 2026-11-22; commit abc1234' in text
    assert '**No cells yet**: nowhere.' in text and text.count('nowhere') == 1
    assert text.count('absent') == 1  # among what is missing


def test_links_lead_to_files(draw, folder):
    text = draw()
    links = {link.split('#')[0] for link in re.findall(r'\]\(([^\s)]+)\)', text)} - {''}
    assert '\n## Files\n' in text and '(#files)' in text
    assert {'../cells/effects/trade.png', '../cells/effects/effects.png'} <= links
    assert all((folder.parents[1] / 'pages' / link).exists() for link in links)
    assert '../cells/effects/length.png' not in links and not (folder / 'length.png').exists()


def test_same_cells_same_bytes(draw, folder):
    first = draw(), *(path.read_bytes() for path in sorted(folder.glob('*.png')))
    assert first == (draw(), *(path.read_bytes() for path in sorted(folder.glob('*.png'))))


def test_missing_seeds_and_strangers_are_named(write, folder):
    put(folder, without=[('general21', 'soft', 1)])
    save(folder, 'plain', 0, condition='elsewhere')
    text = write()
    assert '**Missing**: the soft one: seed 1; the absent one: no cells.' in text
    assert 'Cells of no row of the plan, not shown: `elsewhere/plain`.' in text
    put(folder, without=[('elsewhere', 'plain', 0)])
    assert 'of no row' not in write()


def test_verdicts_are_taken_against_the_control(tool, plan, folder, write):
    methods, _ = plan
    methods['costly'] = methods['costly']._replace(controls=('harmful',))
    methods['harmful'] = methods['harmful']._replace(controls=('absent',))
    methods['soft'] = methods['soft']._replace(controls=('idle',), transforms=('sinkhorn',))
    for seed in range(3):
        extra = {'sinkhorn/retrieval/rsum': 390.0, 'sinkhorn/semantic/v2t_P1': 60.0 + seed}
        save(folder, 'soft', seed, **extra)
        extra = {'sinkhorn/retrieval/rsum': 390.0, 'sinkhorn/semantic/v2t_P1': 50.0 + 2 * seed}
        save(folder, 'idle', seed, **extra)
    text = write()
    said = {name: cells[0] for name, cells in lines_of(text, '## Does it help?').items()}
    assert said['the costly one'] == '**helps** +15.0, rsum +30.0 over harmful'
    assert said['the harmful one'] == '**harms** -15.0, rsum -280.0'  # no cells of its control
    assert said['the soft one'] == '**helps** +30.0 over idle'
    assert said['the soft one, Sinkhorn, train queue'] == '**helps** +9.0 over idle/sinkhorn'
    assert 'over' not in said['the idle one, Sinkhorn, train queue']
    assert '- **Helps**: the soft one (`general21`)' in text and '; the costly one (' in text
    main = lines_of(text, '### Paired retrieval')
    gain, over = (main['row'].index(name) for name in ('difference in v2t P@1', 'over'))
    assert main['the costly one'][gain].startswith('+15.0 [')
    assert main['the costly one'][over] == 'harmful'
    sinkhorn = main['the soft one, Sinkhorn, train queue']
    assert (sinkhorn[gain], sinkhorn[over]) == ('+9.0 [+6.5, +11.5] s', 'idle/sinkhorn')
    assert main['the harmful one'][over] == 'plain' and main['the plain one'][over] == ''
    closed = main['row'].index('closed')
    assert main['the harmful one'][closed] and not main['the soft one'][closed]
    assert lines_of(text, '## Files')['the costly one'][-2:] == ['paper', '`harmful`']


def test_what_the_control_costs_is_no_harm(plan, folder, write):
    plan[0]['costly'] = plan[0]['costly']._replace(controls=('harmful',))
    for seed in range(3):
        save(folder, 'harmful', seed, hits=12, recalls=15)
    said = lines_of(write(), '## Does it help?')
    assert said['the costly one'] == ['nothing +0.0 over harmful']
    assert said['the harmful one'] == ['**harms**: rsum -250.0, aim nothing (+0.0)']


def test_headline_states_both_numbers(tool, plan, folder, write):
    for seed in range(3):
        save(folder, 'soft', seed, hits=30, recalls=39)
    plan[1]['general24'] = plan[1]['clean']._replace(label='unused seeds')
    hits = dict(plain=(12, 40), soft=(30, 40), idle=(22, 36), oracle=(48, 50), costly=(20, 40))
    for method, (right, recalls) in hits.items():
        for seed in (10, 11):
            save(folder, method, seed, hits=right, recalls=recalls, condition='general24')
            save(folder, method, seed, hits=right, recalls=recalls, condition='clean')
    text = write()
    line = next(line for line in text.splitlines() if line.startswith('**general captions**'))
    assert 'general captions** (learning rates were chosen on its val): at least 45 % of' in line
    assert re.search(r'means: the soft one \(50 %, rsum -10.0 \[-\d+.\d, \+\d+.\d\]\)\.$', line)
    line = next(line for line in text.splitlines() if line.startswith('**unused seeds**'))
    assert line.startswith('**unused seeds** (no setting of a row was chosen here): at least')
    assert line.endswith('by the means: the soft one (50 %, rsum +0.0 [+0.0, +0.0]).')
    assert not any(line.startswith('**nowhere**') for line in text.splitlines())


def test_an_oracle_that_gains_nothing_has_no_headline(tool, folder, plan, write):
    for seed in range(3):
        save(folder, 'oracle', seed, hits=2, recalls=50)
    text = write()
    assert 'of the gain of the oracle in v2t P@1' not in text
    assert 'closed' not in lines_of(text, '### Paired retrieval')['row']
    pictures = importlib.import_module('comparison.pictures')
    assert pictures._corner(tool.make_views(folder, *plan).views[0]) is None
    for seed in range(3):
        save(folder, 'oracle', seed)
    corner = pictures._corner(tool.make_views(folder, *plan).views[0])
    assert corner == pytest.approx((390, 20 + 0.45 * 60))


def test_one_seed_gives_no_verdict(write, folder):
    put(folder, without=[key for key in put(folder) if key[2] in (1, 2)])
    text = write()
    assert lines_of(text, '## Does it help?')['the soft one'] == ['one seed, no verdict']
    lines = lines_of(text, '### Paired retrieval')
    assert lines['the soft one'] == ['380.0', '50.0', '+30.0', '-20.0', 'plain']
    assert 'The possible gain' not in text
    assert 'of the gain of the oracle in v2t P@1' not in text


def test_verdicts_are_corrected_and_other_settings_shown(plan, folder, write):
    # Weakly resolved alone: p of one row in twenty, which other comparisons make ordinary.
    plan[0]['soft'] = plan[0]['soft']._replace(controls=('plain', 'harmful'))
    for seed, hits in enumerate((17, 15, 16)):
        save(folder, 'idle', seed, hits=hits, recalls=40)
        save(folder, 'costly', seed, hits=hits - 4, recalls=15)
    for seed in range(3):
        save(folder, 'soft', seed, hits=24, recalls=40, role='matched')
        save(folder, 'soft', seed, hits=33, recalls=40, role='recall')
        save(folder, 'plain', seed, hits=15, recalls=40, role='recall')
    # By tuning.json the idle row has the settings of its control, and by recall those of the aim.
    one, other = dict(lr=1), dict(lr=2)
    tuning = dict(
        plain=dict(chosen=one, by_recall=other),
        soft=dict(chosen=other, by_recall=one),
        idle=dict(chosen=one, by_recall=one),
        harmful=dict(chosen=other, by_recall=one),
    )
    tuning = {name: dict(about, grid=[], condition='', seed=0) for name, about in tuning.items()}
    (folder / 'tuning.json').write_text(json.dumps(dict(clips=tuning)))
    text = write()
    view = importlib.import_module('comparison.views').make_views(folder, *plan).views[0]
    rows = ('soft', 'harmful', 'idle', 'costly')
    ps = {name: view.edge(view.rows[name], 'semantic/v2t_P1').p for name in rows}
    corrected = {name: view.corrected[name, 'plain'] for name in rows}
    assert view.corrected.keys() == {*((name, 'plain') for name in rows), ('soft', 'harmful')}
    assert corrected['soft'] == pytest.approx(4 * ps['soft'])
    assert corrected['idle'] > 0.05 > ps['idle']
    assert view.verdict(view.rows['idle']) == 'not resolved'
    lines = lines_of(text, '### At other settings')
    own, matched, paid, recall = (cell.split(' ')[0] for cell in lines['the soft one'][:4])
    assert (own, matched, paid, recall) == ('+30.0', '+20.0', '+0.0', '+30.0')  # last: 33 to 15
    assert lines['the soft one'][4:] == [f'{corrected["soft"]:.3f}', '3', '2']
    assert lines['the idle one'][1] == lines['the idle one'][0]  # its control's are its own
    assert lines['the idle one'][3].startswith('+1.7 [')  # 16 to 15, by the mean
    assert lines['the harmful one'][1:4] == ['', '', '']  # other settings, not trained yet
    assert 'Protocol: each row, its control and the oracle were trained' in text


def test_corpora_on_which_nothing_was_chosen_are_taken_together(plan, folder, write, monkeypatch):
    found = importlib.import_module('comparison.together')
    assert '**Over the unused corpora together.**' not in write()
    for number, name in enumerate(('general21', 'clean'), 7):
        plan[1][name] = plan[1][name]._replace(corpus=dict(seed=number))
    monkeypatch.setattr(found, 'UNUSED_NAMES', ('general21', 'clean'))
    families = importlib.import_module('comparison.plan').FAMILIES
    kind = importlib.import_module('comparison.kinds').Family
    monkeypatch.setitem(families, 'clips', kind('elsewhere', []))
    for seed in range(2):  # the third seed of the first corpus has no partner here, and counts
        save(folder, 'plain', seed, condition='clean')
        save(folder, 'oracle', seed, condition='clean')
        save(folder, 'soft', seed, hits=21, recalls=40, condition='clean')
        save(folder, 'soft', seed, hits=24, recalls=40, condition='clean', role='matched')
        save(folder, 'soft', seed, hits=24, recalls=40, role='matched')
    text = write()
    text = text[text.index('**Over the unused corpora together.**') :]
    rows = [line for line in text.splitlines() if line.startswith('| the soft one')][:2]
    own, matched = ([cell.strip() for cell in row.split('|')[3:-1]] for row in rows)
    # P@1: 30 and 15 points of the oracle's 60 over 12 of 60; rsum: -20 three times, and 0.
    # Of a corpus its mean counts once: (30 + 15) / 2, of a t with one degree of freedom.
    assert own[:2] == ['own best', '5'] and own[2].startswith('+22.5 [-72.8, ')
    assert own[3].startswith('-10.0 [') and own[4].startswith('+37.5 [')
    assert own[5:8] == ['', '', '7: 50 %, 8: 25 %']  # no mAP was measured
    # t = 22.5 / 7.5 of one degree of freedom; the other of the two lines, 0, comes first in Holm's.
    # And both are for two looks.
    assert own[8] == f'{2 * (1 - 2 / math.pi * math.atan(3)):.3f}' and matched[8] == '0.000'
    assert matched[:3] == ["its control's best", '4', '+20.0 [+20.0, +20.0]']
    assert matched[7] == '7: 33 %, 8: 33 %'


def test_the_first_page_takes_unused_corpora_together(plan, folder, monkeypatch):
    front = importlib.import_module('comparison.front')
    together = importlib.import_module('comparison.together')
    monkeypatch.setattr(together, 'UNUSED_NAMES', ('general21', 'clean'))
    for seed in range(2):
        save(folder, 'plain', seed, condition='clean')
        save(folder, 'oracle', seed, condition='clean')
        save(folder, 'soft', seed, hits=24, recalls=40, condition='clean')
    views = importlib.import_module('comparison.views').make_views(folder, *plan).views
    views = {view.name: view for view in views}
    found = front.verdict_lines([('unused', 'soft'), ('unused', 'idle')], views, plan[0])
    lines = front.verdict_table(found).splitlines()[2:]
    # 30 and 20 points, of which two corpora are told little; the idle row has one corpus alone.
    assert len(lines) == 1 and lines[0].startswith(
        '| the soft one (ours) | general captions, 2 unused corpora | the plain one | '
        'v2t P@1 +25.0 [-38.5, +88.5] |  |  |  |  | 5 | not resolved |'
    )
    picture = importlib.import_module('comparison.front_picture')
    assert picture.write_front(folder / 'front.png', {'x': found, 'none': []})
    assert Image.open(folder / 'front.png').size[0] == 1330
    assert not picture.write_front(folder / 'none.png', {'none': []})


@pytest.mark.parametrize('p, word', [(0.049, 'helps'), (0.051, 'costs')])
def test_a_verdict_over_corpora_is_corrected(plan, folder, monkeypatch, p, word):
    front, together = (importlib.import_module(f'comparison.{name}') for name in FRONT)
    monkeypatch.setattr(together, 'UNUSED_NAMES', ('general21',))
    gains = together.Gains(9, [30.0, 31.0, 32.0], [-9.0, -10.0, -11.0], [50.0] * 3, [1, 2, 3])
    monkeypatch.setattr(front, 'pooled', lambda views: [together.Pooled('soft', 'own', gains, p)])
    views = importlib.import_module('comparison.views').make_views(folder, *plan).views
    places = [('unused', 'soft'), ('unused', 'idle'), ('unused', 'soft', 'matched')]
    (line,) = front.verdict_lines(places, {view.name: view for view in views}, plan[0])
    assert line.aim.sign == 1 and line.word == word and line.trainings == 9


FRONT = ('front', 'together')
#: Differences in mAP to the plain one, t2v and v2t.
SHIFTS = dict(soft=(-3, 2), harmful=(-3, -3), idle=(3, 3), costly=(2, -3))


def ways(folder, shifts=SHIFTS):
    """Cells with mAP in both directions and recalls of each, three seeds."""
    for method in HITS:
        t2v, v2t = shifts.get(method, (0, 0))
        for seed in range(3):
            save(
                folder,
                method,
                seed,
                **{'semantic/t2v_mAP': 40.0 + t2v + seed, 'semantic/v2t_mAP': 20.0 + v2t + seed},
                **{
                    f'retrieval/{way}_R{k}': 100 * HITS[method][1] / QUERIES
                    for way in WAYS
                    for k in KS
                },
            )


WAYS, KS = ('t2v', 'v2t'), (1, 5, 10)


def test_a_row_shows_truth_and_recall_of_both_directions(plan, folder, write):
    ways(folder)
    front = importlib.import_module('comparison.front')
    views = importlib.import_module('comparison.views').make_views(folder, *plan).views
    views = {view.name: view for view in views}
    lines = front.verdict_lines([('general21', name) for name in SHIFTS], views, plan[0])
    table = front.verdict_table(lines).splitlines()
    assert [cell.strip() for cell in table[0].split('|')[5:9]] == [*front.DIRECTIONS]
    soft = [cell.strip() for cell in table[2].split('|')[4:-1]]
    assert soft[1:3] == ['-3.0 [-3.0, -3.0] s', '+2.0 [+2.0, +2.0] s']
    assert soft[3].startswith('-10.0 [') and soft[4].startswith('-10.0 [')
    assert soft[-1] == '**trade**'
    # Truth that is lost in both directions is no trade, nor what is gained in both; and what is
    # gained in t2v is not given back in v2t.
    assert [line.word for line in lines] == ['trade', 'harms', 'nothing', 'trade']
    said = {name: cells[0] for name, cells in lines_of(write(), '## Does it help?').items()}
    assert said['the soft one'] == '**trade** +30.0; t2v mAP -3.0; v2t mAP +2.0'
    assert '- **Trades** truth of one direction for that of the other: the soft one (' in write()


def test_a_second_look_doubles_every_p(plan, folder):
    make_views = importlib.import_module('comparison.views').make_views
    one = make_views(folder, *plan).views[0]
    plan[1]['general21'] = plan[1]['general21']._replace(looks=2)
    two = make_views(folder, *plan).views[0]
    assert one.corrected.keys() == two.corrected.keys()
    for pair, p in one.corrected.items():
        assert two.corrected[pair] == pytest.approx(min(1.0, 2 * p))


def test_rows_of_the_first_table_are_corrected_for_their_number(plan, folder, monkeypatch):
    front = importlib.import_module('comparison.front')
    for seed, hits in enumerate((17, 15, 16)):
        save(folder, 'idle', seed, hits=hits, recalls=40)
    views = importlib.import_module('comparison.views').make_views(folder, *plan).views
    views = {view.name: view for view in views}
    rows = [('general21', name) for name in ('soft', 'harmful', 'idle')]
    paper = importlib.import_module('comparison.papers').Paper('x', 'y', 'z', rows, (), 'w')
    monkeypatch.setattr(front, 'PAPERS', (paper,))
    alone = {
        name: views['general21'].edge(views['general21'].rows[name], 'semantic/v2t_P1').p
        for _, name in rows
    }
    across = front.front_ps(views)
    assert across['general21', 'soft', 'plain'] == pytest.approx(3 * alone['soft'])
    assert across['general21', 'idle', 'plain'] == pytest.approx(alone['idle'])
    twice = views['general21']._replace(condition=plan[1]['general21']._replace(looks=2))
    assert front.front_ps({'general21': twice})['general21', 'idle', 'plain'] == pytest.approx(
        2 * alone['idle']
    )
    # The larger of the two corrections counts.
    few = {pair: 0.5 * p for pair, p in views['general21'].corrected.items()}
    one = {'general21': views['general21']._replace(corrected=few)}
    found = front.corrected_views(one)['general21'].corrected
    for (row, control), p in found.items():
        own = few[row, control]
        assert p == max(own, across.get(('general21', row, control), 0.0))
    assert found['soft', 'plain'] == across['general21', 'soft', 'plain'] > few['soft', 'plain']


def test_the_first_page_names_a_choice_at_an_end_of_the_grid(plan, folder, monkeypatch):
    front = importlib.import_module('comparison.front')
    kind = importlib.import_module('comparison.kinds').Family
    grid = [dict(lr=rate) for rate in (1e-3, 2e-3, 4e-3)]
    monkeypatch.setitem(front.FAMILIES, 'clips', kind('general21', grid))
    views = importlib.import_module('comparison.views').make_views(folder, *plan).views
    views = {view.name: view for view in views}
    rows = [('general21', name) for name in ('soft', 'idle')]
    paper = importlib.import_module('comparison.papers').Paper('x', 'y', 'z', rows, (), 'w')
    chosen = dict(soft=grid[2], idle=grid[1], plain=grid[0])
    tuning = dict(clips={name: dict(chosen=point) for name, point in chosen.items()})
    said = front.edges(paper, views, plan[0], tuning)
    assert 'the soft one (clips: 0.004, the highest)' in said
    assert 'the plain one (clips: 0.001, the lowest)' in said and 'idle' not in said
    assert front.edges(paper, views, plan[0], {}) == ''


def test_the_first_page_says_what_a_verdict_would_take(plan, folder, monkeypatch):
    front = importlib.import_module('comparison.front')
    kind = importlib.import_module('comparison.kinds').Family
    for seed, hits in enumerate((12, 15, 15)):  # 0, 5 and 5 points: a deviation of 2.9
        save(folder, 'idle', seed, hits=hits, recalls=40)
    for seed, hits in enumerate((12, 48, 12)):
        save(folder, 'costly', seed, hits=hits, recalls=15)
    views = importlib.import_module('comparison.views').make_views(folder, *plan).views
    views = {view.name: view for view in views}
    rows = [('general21', name) for name in ('soft', 'idle', 'costly')]
    monkeypatch.setitem(front.FAMILIES, 'clips', kind('general21', [{}]))
    lines = front.verdict_lines(rows, views, plan[0])
    assert front.what_it_takes(lines) == ''  # a ladder, at one rate
    monkeypatch.setitem(front.FAMILIES, 'clips', kind('general21', [{}, {}]))
    words = [line.word for line in lines]
    assert words == ['helps', 'not resolved', 'costs']
    said = front.what_it_takes(lines)
    # t(.975) + t(.8) standard errors: 3.72 x 2.9 / sqrt(5) = 4.8 of five trainings, 6.0 of four.
    assert 'trainings of the idle one over the plain one (general captions) about 5;' in said
    assert said.endswith('the costly one over the plain one (general captions) over 99.\n')
    assert 'soft' not in said


def test_what_people_judged_is_a_section(write, folder):
    assert '## On captions judged by people' not in write()
    gains = dict(both_R1=[4.0, 2.0, 6.0], both_P1=[3.0, 1.0, 5.0], both_AP=[-0.25, -1.0, 0.5])
    base = dict(method='InfoNCE', batch=1024, seeds=[0, 1, 2])
    rows = [
        base,
        dict(base, method='one training', seeds=[0], minus_infonce=gains),
        dict(base, method='another batch', batch=128, minus_infonce=gains),
        dict(base, method='biases', minus_infonce=gains),
    ]
    content = dict(rows=rows, confirmation=[dict(rows[-1], seeds=[3, 4, 5, 6])])
    (folder.parent / 'judged_training.json').write_text(json.dumps(content))
    lines = lines_of(write(), '## On captions judged by people')
    told = ['+3.0 [+1.0, +5.0]', '-0.2 [-1.0, +0.5]', '+4.0 [+2.0, +6.0]']
    assert lines.pop('method') == ['judged P@1', 'AP of what nobody annotated', 'R@1', 'trainings']
    assert lines == {'biases': [*told, '3'], 'biases, **confirmed**': [*told, '4']}


def test_texts_of_a_video_go_together(folder, write):
    for method in HITS:
        for seed in range(3):
            save(folder, method, seed)
    alone = lines_of(write(), '### Paired retrieval')['the harmful one'][2]
    path = folder / 'conditions.json'
    known = json.loads(path.read_text())
    known['general21']['text_videos'] = list(range(60))
    path.write_text(json.dumps(known))
    assert lines_of(write(), '### Paired retrieval')['the harmful one'][2] == alone
    known['general21']['text_videos'] = [k // 3 for k in range(60)]
    path.write_text(json.dumps(known))
    for cell in put(folder).values():  # 60 texts of 20 videos
        queries = cell['queries']['']
        queries = dict(t2v_recalls=queries['t2v_recalls'], v2t_recalls=queries['t2v_recalls'][::3])
        rsum = 100 * sum(map(np.mean, queries.values()))
        cell['test'] = {'retrieval/rsum': rsum}
        put(folder, {**cell, 'queries': {'': queries}})
    together = lines_of(write(), '### Paired retrieval')['the harmful one'][1]
    widths = [
        float(high) - float(low)
        for low, high in (re.search(r'\[(\S+), (\S+)\]', x).groups() for x in (alone, together))
    ]
    assert widths[1] > 1.3 * widths[0]


def test_older_cells_are_left_out_and_named(write, folder):
    shas = {
        ('general21', method, seed, 'own'): f'{method}{seed}'
        for method in HITS
        for seed in range(3)
    }
    shas['general21', 'soft', 1, 'own'] = 'newer'
    del shas['general21', 'idle', 2, 'own']
    text = write(shas)
    assert 'Older cells, not shown: `general21/soft_1`. The plan' in text
    assert '**Missing**: the soft one: seed 1; the absent' in text
    assert '17 trainings' in text and 'Older' not in write()
    with pytest.raises(ValueError, match='a method of the plan; 18 are of older configs'):
        every = [(m, seed) for m in (*HITS, *ORACLE) for seed in range(3)]
        write({('general21', *those, 'own'): 'x' for those in every})


def test_tuning_is_counted_once(plan, folder, write):
    path = folder / 'tuning.json'
    tuning = json.loads(path.read_text())
    grid = tuning['clips']['soft']['grid']
    grid[0].update(sha='tried', cpu_seconds=3600.0)
    grid[1].update(sha='soft0', cpu_seconds=48.0)  # the cell of seed 0
    tuning['clips']['idle'] = tuning['clips']['soft']  # the same trainings
    path.write_text(json.dumps(tuning))
    plan[0]['idle'] = plan[0]['idle']._replace(meant='sinkhorn')
    text = write()
    assert '19 trainings (1 of them for tuning only), 1.2 hours of CPU time' in text
    assert 'The grid is the learning rate and nothing else' in text
    assert 'trained with NCL (the idle one) are judged by rsum after Sinkhorn' in text
    assert '[Files](#files), and what is built on them) were chosen' in text


def test_the_tuning_says_how_little_decided(plan, folder, write):
    path = folder / 'tuning.json'
    tuning = json.loads(path.read_text())
    assert '**Confounded**' not in write()  # the baseline is not in it
    soft = tuning['clips']['soft']
    tuning['clips']['plain'] = {**soft, 'chosen': soft['grid'][0]['point']}
    path.write_text(json.dumps(tuning))
    text = write()
    assert '**Confounded**: the plain one (10.0 at lr 0.001, 20.0 at lr 0.002) stands at' in text
    assert 'lr 0.001; at another point stand the soft one. What decided is one training' in text
    assert 'judged on 150 clips of val (a query is 0.67 points of each R@K or P@1)' in text
    tuning['clips']['plain'] = soft
    path.write_text(json.dumps(tuning))
    assert '**Confounded**' not in write()


def test_without_the_baseline_there_are_no_differences(draw, folder):
    put(folder, without=[('general21', 'plain', seed) for seed in range(3)])
    text = draw()
    assert 'Baseline: plain, which has no cells.' in text
    assert lines_of(text, '### Paired retrieval')['row'] == ['rsum', 'v2t P@1']
    assert lines_of(text, '## Does it help?')['the soft one'] == ['not measured']
    assert 'effects.png' not in text and 'trade.png' in text


def test_a_damaged_cell_stops_the_page(write, folder):
    path = folder / 'cells.jsonl'
    path.write_text(path.read_text() + '{"condition": \n')
    with pytest.raises(ValueError, match='cells.jsonl, line 19: no JSON .*; remove it'):
        write()
    assert not (folder.parents[1] / 'pages').exists()


def test_nothing_of_the_plan(tool, folder, plan, tmp_path):
    with pytest.raises(ValueError, match='no cell belongs to a condition and a method of the plan'):
        tool.write_page(folder, tmp_path / 'page.md', {}, plan[1])


@pytest.mark.parametrize('meant', ['', 'sinkhorn'])
def test_the_trade_shows_a_method_as_it_is_meant(draw, folder, plan, monkeypatch, meant):
    plan[0]['idle'] = plan[0]['idle']._replace(meant=meant)
    pictures, shown = importlib.import_module('comparison.pictures'), {}
    for seed in range(3):
        points = {'sinkhorn/retrieval/rsum': 400.0, 'sinkhorn/semantic/v2t_P1': 20.0}
        save(folder, 'idle', seed, **points)

    def scatter(axes, view, points, real=pictures._scatter):
        shown.setdefault(view.name, [point.name for point in points])
        return real(axes, view, points)

    monkeypatch.setattr(pictures, '_scatter', scatter)
    draw()
    transformed = [name for name in shown['general21'] if name not in plan[0]]
    assert ('idle' in shown['general21']) == (meant == '')
    assert len(transformed) == (meant != '')
    assert {'plain', 'soft', 'oracle'} <= {*shown['general21']}


def test_pictures_are_small_and_keep_their_colours(draw, folder):
    for seed in range(3):
        save(folder, 'soft', seed, **{'length_bias/t2v_train_correlation': 5.0 + seed})
        save(folder, 'plain', seed, **{'length_bias/t2v_train_correlation': 9.0 + seed})
    assert '../cells/effects/length.png' in draw()
    for name in ('trade', 'effects', 'length'):
        path = folder / f'{name}.png'
        assert path.stat().st_size < 60_000
        colors = dict((color, n) for n, color in Image.open(path).convert('RGB').getcolors())
        assert max(colors, key=colors.get) == (255, 255, 255)
        assert colors[0xD5, 0x5E, 0] > 20  # ours


def test_labels_of_a_crowd_do_not_cover_each_other(tool):
    place = importlib.import_module('comparison.pictures').best_place
    point, size, frame = np.array([60.0, 250.0]), np.array([90.0, 11.0]), np.array([0, 0, 800, 500])
    placed = [np.concatenate((point - 6, point + 6))]
    for _ in range(12):
        far, box = place(point, size, placed, frame)
        assert box[2:] - box[:2] == pytest.approx(size) and box[0] >= 0
        for other in placed:
            sides = np.minimum(box[2:], other[2:]) - np.maximum(box[:2], other[:2])
            assert sides.min() < 1
        placed.append(box)
    assert far > place(point, size, placed[:1], frame)[0]
