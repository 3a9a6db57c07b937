"""again.py: rows of the page on another corpus."""

import importlib
import re

import pytest

AIM, COST = 'semantic/v2t_P1', 'retrieval/rsum'


@pytest.fixture
def tool():
    return importlib.import_module('again')


def test_only_corpus_and_seeds_are_other_ones(tool):
    """The settings are the page's, and what is trained is what would have been on that corpus."""
    cells = importlib.import_module('comparison.cells')
    args = tool.parse_args(['77', '--conditions', 'general24', '--methods', 'dvtr_floor0'])
    plan = tool.make_plan(args)
    assert plan.wanted == {'general24': ['infonce', 'dvtr_floor0']}
    assert plan.count('general24') == 3 and plan.conditions['general24'].first_seed == 770
    page = importlib.import_module('effects').make_plan(tool.effects_args(args))
    for method in plan.wanted['general24']:
        here, there = (p.training('general24', method, 770, {}) for p in (plan, page))
        configs = [cells.config_of(training) for training in (here, there)]
        for kind in ('train', 'val', 'test'):
            one, other = (cfg[f'{kind}_dataloader'].dataset for cfg in configs)
            assert (one.pop('seed'), other.pop('seed')) == (77, 24)
            paths = [data.video_pipeline[0].pop('path') for data in (one, other)]
            assert [path.rsplit('/', 1)[1] for path in paths] == ['general2477', 'general24']
        one, other = (cfg.to_dict() for cfg in configs)
        assert 'effects_corpus77' in one.pop('work_dir') and other.pop('work_dir')
        for made_of in ('corpus', 'pipelines'):  # datasets, compared above
            del one[made_of], other[made_of]
        assert one == other


def test_no_corpus_of_the_plan_can_be_named(tool):
    conditions = importlib.import_module('comparison.plan').CONDITIONS.values()
    assert {condition.corpus.get('seed', 0) for condition in conditions} <= tool.USED


@pytest.mark.parametrize(
    'arguments, said',
    [
        (['24'], 'seed 24: something was tried'),
        (['1000'], 'seed 1000: something was tried'),
        (['77', '--conditions', 'hubs', '--methods', 'causal'], "hubs has none of .'causal'.; it"),
    ],
)
def test_what_cannot_be_asked(tool, capsys, arguments, said):
    with pytest.raises(SystemExit):
        tool.parse_args(arguments)
    printed = ' '.join(capsys.readouterr().err.split())
    assert re.search(said, printed)


def test_intervals_are_those_of_both_corpora(tool):
    """One corpus of the page in the place of the new one: its figures are known."""
    page = tool.page_views()
    here = page['general25']._replace(name='general24')
    lines = tool.compared(page, here, 'dvtr_floor0')
    # Over InfoNCE, each beside general24 and beside all unused corpora.
    measures = ('v2t P@1', 'rsum', *(f'{way} {name}' for name in BESIDE for way in ('t2v', 'v2t')))
    assert [(line.measure, 'corpora' in line.where) for line in lines] == [
        (name, together) for name in measures for together in (False, True)
    ]
    rows = {name: views.rows['dvtr_floor0'] for name, views in page.items() if name in PAIR}
    for line, key in zip(lines[::2], (AIM, COST, *TRUTH)):
        one, other = (page[name].edge(rows[name], key) for name in PAIR)
        assert line.page.startswith(f'{one.mean:+.1f} [') and line.here.startswith(
            f'{other.mean:+.1f} ['
        )
        assert line.overlap == (one.low <= other.high and other.low <= one.high)
    text = tool.report(lines, 77)
    assert '| corpus 77 |' in text and text.endswith('12 of 12 intervals overlap.')


PAIR = ('general24', 'general25')
#: In both directions.
BESIDE, TRUTH = ('mAP', 'R@1+5+10'), ('semantic/t2v_mAP', 'semantic/v2t_mAP')


@pytest.mark.parametrize(
    'one, other, expected',
    [
        ((0, 2), (1, 3), True),
        ((0, 1), (1, 3), True),
        ((0, 1), (2, 3), False),
        ((4, 5), (1, 3), False),
    ],
)
def test_intervals_that_overlap(tool, one, other, expected):
    kind = importlib.import_module('comparison.statistics').Difference
    ends = [kind(sum(pair) / 2, *pair, (), True, 0.5, ()) for pair in (one, other)]
    assert tool.overlap(*ends) == expected
