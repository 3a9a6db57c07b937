"""Fronts of a bias at test time, from hand-made results."""

import importlib
import json
import statistics

import pytest
from PIL import Image

from children import ROOT


@pytest.fixture
def tool():
    return importlib.import_module('fronts')


def results(tool, precision, rsum):
    """Of one training, for which each .1 of strength takes 4 of P@1 and gives 2 of rsum; P@1 is of
    the first place."""
    return {
        bias.name: {
            'v2t P@1': precision
            - 40 * (bias.rest if bias.first is None else bias.first)
            + 30 * (bias.sure or 0),
            'rsum': rsum + 20 * bias.rest,
            't2v rsum': 60.0,
            'v2t mAP': 50.0,
        }
        for bias in tool.BIASES[tool.BASELINE]
    }


def test_differences_are_to_the_same_corpus_and_seed(tool, tmp_path):
    known = {
        'general24/infonce_lifted/240': results(tool, 20, 140),
        'general25/infonce_lifted/250': results(tool, 40, 150),
        'general24/implied_lifted/240': results(tool, 60, 130),
        'general25/implied_lifted/250': results(tool, 70, 140),
        'general25/implied_lifted/251': results(tool, 0, 0),  # without its partner
        'general27/infonce_lifted/270': results(tool, 0, 0),  # of another set
    }
    points = {(point.method, str(point.bias)): point for point in tool.front(known, (24, 25))}
    both = len(tool.STRENGTHS) + len(tool.FIRST) + len(tool.SURE)
    assert len(points) == 2 * both + len(tool.QUEUED) + len(tool.FLAT)
    base = points['infonce_lifted', '0']
    assert base.gains == {name: [0, 0] for name in (*tool.KEYS, 'share')}
    hedged = points['implied_lifted', '-0.2, then +0.4']
    assert hedged.gains['v2t P@1'] == pytest.approx([48, 38])
    assert hedged.gains['rsum'] == pytest.approx([-2, -2])  # 130 + 8 - 140
    sure = points['infonce_lifted', 'first what holds with 0.5']
    assert sure.gains['v2t P@1'] == pytest.approx([15, 15]) and sure.gains['rsum'] == [0, 0]
    ours = points['implied_lifted', '-0.2']
    assert ours.gains['v2t P@1'] == pytest.approx([48, 38])  # 68 - 20, 78 - 40
    assert ours.gains['share'] == pytest.approx([100 * 48 / 80, 100 * 38 / 60])
    assert ours.gains['rsum'] == pytest.approx([-14, -14])  # not to InfoNCE with the same bias
    assert ours.told('rsum') == '-14.0 [-14.0, -14.0]'
    lines = tool.front_table(list(points.values())).splitlines()
    assert '| implied texts, floor .07 | -0.2 | +43.0 [' in '\n'.join(lines)
    # A bias hardly moves it: its ends, and one list of two strengths.
    assert [line.split('|')[2].strip() for line in lines if line.startswith('| InfoNCE |')] == [
        '-0.4',
        '+0.3',
        '-0.3, then +0.4',
        *(f'first what holds with {sure:g}' for sure in tool.SURE),
        'first what holds with 0.8, temperature 0.03',
        'first what holds with 0.95, temperature 0.03',
        *(
            f'first what holds with {sure}, by training captions, temperature 0.03'
            for sure in (0.5, 0.8, 0.9)
        ),
    ]
    tool.draw(
        {'some': tool.front(known, (24,)), 'others': tool.front(known, (25,))}, tmp_path / 'f.png'
    )
    assert Image.open(tmp_path / 'f.png').size == (1300, 460)
    assert tool.front(known, (29,)) == []
    del known['general24/implied_lifted/240'][tool.HEDGED[0].name]  # a test of before
    assert not tool.is_tested(known['general24/implied_lifted/240'], tool.OURS)
    assert len(tool.front(known, (24,))) == len(tool.BIASES[tool.BASELINE])  # that one alone


def test_a_bias_has_a_hook_of_its_own(tool):
    names = [bias.name for bias in tool.BIASES[tool.BASELINE]]
    assert set(tool.BIASES[tool.OURS]) < set(tool.BIASES[tool.BASELINE])
    assert len(set(names)) == len(names) and names.count('') == 1
    assert tool.Bias(-0.2).hook({}) == dict(
        type='LocalScalingHook', queries='train_queue', v2t=-0.2, name='scaled-0.2'
    )
    assert tool.Bias(0.4, -0.3).hook({}) == dict(
        type='HedgedScalingHook',
        queries='train_queue',
        first=-0.3,
        rest=0.4,
        name='first-0.3rest+0.4',
    )
    captions = dict(type='PlantedDataset')
    common = dict(type='SureFirstHook', captions=captions, sure=0.8)
    assert tool.Bias(0.0, sure=0.8).hook(captions) == dict(
        common, temperature=0.02, name='sure0.8', written='gallery'
    )
    assert tool.QUEUED[1].hook(captions) == dict(
        common, temperature=0.03, name='sure0.8at0.03queue', written='train_queue'
    )
    assert str(tool.Bias(0.4, 0.0)) == '0, then +0.4' and str(tool.Bias(0.0)) == '0'


def test_trainings_are_those_of_the_comparison(tool):
    found = tool.trainings()
    assert len({tool.key_of(one) for one in found}) == len(found) == 2 * (6 * 3 + 6 + 3 * 8)
    rates = {tuple(one.point.values()) for one in found}
    assert len(rates) == 1  # the baseline's
    assert {one.name for one in found} == {
        f'general{seed}' for seed in (*range(24, 36), *range(37, 40))
    }
    first = found[0]
    assert first.seed == first.condition.first_seed == 240


def test_the_page_quotes_the_file(tool):
    known = json.loads((ROOT / 'projects/lab/evidence/cells/fronts.json').read_text())
    page = (ROOT / 'projects/lab/evidence/pages/agreement.md').read_text()
    for seeds in tool.TABLES.values():
        for line in tool.front_table(tool.front(known, seeds)).splitlines()[2:]:
            assert line in page


def test_the_findings_quote_the_file(tool):
    known = json.loads((ROOT / 'projects/lab/evidence/cells/fronts.json').read_text())
    ours, first, last = (
        {p.bias: p for p in tool.front(known, corpora) if p.method == tool.OURS}
        for corpora in ((*tool.FRESH, *tool.LATER), tool.FRESH, tool.LAST)
    )
    single = {strength: ours[tool.Bias(strength)] for strength in tool.STRENGTHS}
    share = {x: f'{point.mean("share"):.0f} %' for x, point in single.items()}
    paid = {x: -point.mean('rsum') for x, point in single.items()}
    findings, page = (
        ' '.join((ROOT / f'projects/lab/evidence/pages/{name}.md').read_text().split())
        for name in ('findings', 'agreement')
    )
    at = single[0.1]
    assert f'v2t P@1 {at.told("v2t P@1")} for rsum {at.told("rsum")}, {share[0.1]} of' in findings
    assert (
        f'Without the bias it is {share[0.0]} for {paid[0.0]:.1f}, turned the other way '
        f'{share[-0.2]} for {paid[-0.2]:.0f}.'
    ) in findings
    assert f'(.1): {at.told("share").replace("+", "")} % for {paid[0.1]:.1f} [' in page
    assert f'gives {share[0.0]} for {paid[0.0]:.1f}, and a share of 60 % costs' in page
    # What was written down before they were made: 45 % for at most 10, by the means.
    short = tool.AIM_SHARE - at.mean('share')
    assert f'is missed by {short:.1f}** at the strength'.replace('0.', '.') in page
    assert paid[0.1] <= tool.AIM_COST and tool.student(at.gains['share'])[0] >= 38
    before = first[tool.Bias(0.1)]
    alone = f'{before.told("share").replace("+", "")} % for {-before.mean("rsum"):.1f}'
    assert f'it was met by the means, {alone},' in page
    # On corpora made after it was written down, and on those before: one list of two strengths, and
    # sure first.
    theirs, later = (
        {p.bias: p for p in tool.front(known, corpora) if p.method == tool.BASELINE}
        for corpora in ((*tool.FRESH, *tool.LATER), tool.LAST)
    )
    hedged, sure = tool.Bias(tool.REST, -0.3), tool.Bias(0.0, sure=0.8)
    for text in (page, findings):
        assert f'{_told(tool, theirs[sure])} points of' in text and _told(tool, later[sure]) in text
        assert _told(tool, ours[hedged]) in text
        assert f'v2t mAP {ours[hedged].mean("v2t mAP"):+.1f}' in text
    assert _told(tool, last[hedged]) in page
    assert f'v2t mAP {theirs[sure].mean("v2t mAP"):+.1f}.' in findings
    short = ' '.join((ROOT / 'docs/benchmark.md').read_text().split())
    share, paid = theirs[sure].mean('share'), -theirs[sure].mean('rsum')
    said = f'{share:.0f} % of the possible gain in v2t P@1 and lowers rsum by {paid:.0f}'
    assert said in short
    # Training captions in the softmax: the price that was written down is missed, and the
    # gallery's own do as well.
    queued, flat = tool.QUEUED[1], tool.FLAT[1]
    for points in (theirs, later):
        assert _told(tool, points[queued]) in page
        assert points[queued].mean('share') > 75 and -points[queued].mean('rsum') > tool.AIM_COST
    more = [
        [a - b for a, b in zip(points[queued].gains['share'], points[flat].gains['share'])]
        for points in (theirs, later)
    ]
    said = [
        f'{statistics.mean(x):+.1f} [{{:+.1f}}, {{:+.1f}}]'.format(*tool.student(x)) for x in more
    ]
    assert f'the difference in share is {said[0]} and {said[1]}.' in page
    # What was written down before.
    assert later[sure].mean('share') >= 60 and -later[sure].mean('rsum') <= tool.AIM_COST
    assert tool.student(later[sure].gains['share'])[0] >= 45


def _told(tool, point):
    """'63.3 [55.8, 70.8] % of the possible gain, for 6.1 [5.5, 6.6]', short or long."""
    low, high = tool.student(point.gains['rsum'])
    price = f'{-point.mean("rsum"):.1f} [{-high:.1f}, {-low:.1f}]'
    return f'{point.told("share").replace("+", "")} % for {price}'
