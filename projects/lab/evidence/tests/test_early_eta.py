"""The comparison at real shares: what a training records, and what the page says of records."""

import json

import early_eta
import early_eta_page
import numpy as np
import pytest


def record(method, seed, rsum, length='long', condition='.2 %', noise=0.35, **more):
    figures = dict(t2v_R1=rsum / 10, v2t_R1=rsum / 10, rsum=rsum)
    found = dict(best=figures, last=figures, share_train=0.2, share_test=0.2, **more)
    return dict(method=method, seed=seed, length=length, condition=condition, noise=noise, **found)


def records(**gains):
    """Of five seeds: InfoNCE, and rows whose gain over it has a mean and a deviation."""
    draw = np.random.default_rng(0)
    made = []
    for seed in range(5):
        base = 300 + 20 * draw.normal()
        made.append(record('InfoNCE', seed, base))
        for row, (mean, deviation) in gains.items():
            made.append(record(row, seed, base + mean + deviation * (seed - 2)))
    return made


def rows_of(page):
    return {line.split(' | ')[0].strip('| '): line for line in page.splitlines() if '|' in line}


def test_verdicts_are_those_of_the_plan():
    made = records(**{
        'DVTR': (0.1, 0.2),
        'DVTR, early': (9.0, 1.0),
        'DVTR, slow average': (-9.0, 1.0),
        'PCME': (9.0, 9.0),
        'NCL': (5.0, 1.2),  # p .004, five rows
    })  # fmt: skip
    rows = rows_of(early_eta_page.page(made, []))
    said = {row: [word for word in ('gains', 'loses', 'nothing', 'not resolved') if word in line]
            for row, line in rows.items()}  # fmt: skip
    assert said['DVTR'] == ['nothing'] and said['PCME'] == ['not resolved']
    assert said['DVTR, early'] == ['gains'] and said['DVTR, slow average'] == ['loses']
    assert said['NCL'] == ['gains']
    more = made + [record(f'x{n}', r['seed'], r['best']['rsum'] + 9 * (-1) ** r['seed'])
                   for n in range(20) for r in made if r['method'] == 'InfoNCE']  # fmt: skip
    assert 'not resolved' in rows_of(early_eta_page.page(more, []))['NCL']


def test_triplets_are_compared_with_triplets():
    made = records(triplet=(-50.0, 1.0), RAN=(-40.0, 1.0))
    line = rows_of(early_eta_page.page(made, []))['RAN (over triplet)']
    assert '+10.0' in line and '**gains**' in line


def test_early_eta_is_compared_with_dvtr_too():
    made = records(**{'DVTR': (2.0, 0.1), 'DVTR, early': (9.0, 1.0)})
    rows = rows_of(early_eta_page.page(made, []))
    assert '+9.0' in rows['DVTR, early'] and '+7.0' in rows['DVTR, early (over DVTR)']


def test_the_figure_shows_means_of_paired_differences():
    shares, gains = {'.2 %': 0.2, '1 %': 1.0}, {'.2 %': 9.0, '1 %': 20.0}
    made = [
        dict(r, condition=condition, length=length, share_train=shares[condition])
        for condition, gain in gains.items()
        for length in ('long', 'short')
        for r in records(**{'DVTR, early': (gain, 1.0)})
    ]
    axes = early_eta_page.figure(made).axes
    assert [axis.get_title() for axis in axes] == ['long training', 'short training']  # no noise
    (early,) = [c for c in axes[0].containers if c.get_label() == 'DVTR, early eta']
    assert early.lines[0].get_ydata().tolist() == pytest.approx([9.0, 20.0])


def test_few_seeds_are_not_shown():
    made = [r for r in records(DVTR=(9.0, 1.0)) if r['seed'] < 2]
    assert 'DVTR' not in rows_of(early_eta_page.page(made, []))
    assert 'Flickr8k' not in early_eta_page.page(made, [dict(r, set='F') for r in made])


@pytest.mark.parametrize('row', ['InfoNCE', 'DVTR, early, calibrated', 'RAN', 'CMGSD'])
def test_a_training_records_what_the_page_reads(row, monkeypatch):
    monkeypatch.setitem(early_eta.STEPS, 'long', 10)
    made = [*early_eta.run(row, '.2 %', 'long', 3, 0.35)]
    assert [r['method'] for r in made] == (
        [row] if row != 'InfoNCE' else [row, f'{row}, bank', 'limits']
    )
    assert {'rsum', 't2v_R1', 'v2t_R1'} <= made[0]['best'].keys() & made[0]['last'].keys()
    assert 0.1 < made[0]['share_train'] < 0.4  # percent, as on real sets
    if row == 'DVTR, early, calibrated':
        assert 0 <= made[0]['weight_false'] <= 1 and made[0]['spared_share'] > 0


def test_the_page_reads_seeds_of_the_real_study_that_nothing_was_chosen_on(tmp_path):
    figures = dict(t2v_R1=1.0, v2t_R1=2.0, rsum=3.0, hits={})
    facts = dict(set='J', rate=1e-3, epoch=10, best=figures, last=figures)
    lines = [
        dict(facts, method=method, seed=seed)
        for method in ('infonce', 'dvtr_crossed', 'pcme')
        for seed in (4, 5)
    ]
    (tmp_path / 'J_minilm.jsonl').write_text('\n'.join(map(json.dumps, lines)))
    found = [*early_eta.confirmed(tmp_path)]
    assert [(x['method'], x['seed']) for x in found] == [('InfoNCE', 5), ('DVTR, cross-fitted', 5)]
    assert found[0]['best'] == dict(t2v_R1=1.0, v2t_R1=2.0, rsum=3.0)


def test_the_table_of_dvtrs_page_has_the_verdicts_signs():
    made = records(
        **{'DVTR': (0.1, 0.2), 'DVTR, early': (9.0, 1.0), 'oracle, weight 0': (-9.0, 1.0)}
    )
    lines = [line.split(' | ') for line in early_eta_page.summary(made)]
    signs = {(cells[0].strip('| '), cells[1]): cells[3][-1] for cells in lines[2:]}
    assert signs == {
        ('planted, .2 %, trained long', 'oracle: weight 0 where the truth says match'): '▼',
        ('planted, .2 %, trained long', 'DVTR without `belief`'): '○',
        ('planted, .2 %, trained long', 'DVTR, early eta'): '▲',
    }
