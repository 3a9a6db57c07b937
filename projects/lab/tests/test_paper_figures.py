"""The papers' figures for small models on planted clips: they show what the models return."""

import re
import runpy
import sys

import numpy as np
import pytest
import torch
from PIL import Image

from children import ROOT
from mmvtr.apis import load_retriever
from mmvtr.datasets import PlantedDataset
from mmvtr.functional.metrics.hubness import normalisation_error
from mmvtr.functional.metrics.ranks import ranks
from mmvtr.structures import take
from mmvtr.utils import load_config
from paper_figures import FIGURES, FigureRequest, study
from paper_figures.dvtr import eta_of, push
from paper_figures.ncl import queue_and_transform

KNOBS = dict(num_train=12, num_val=2, num_test=8, captions=2, general=0.5)
HOOK = "custom_hooks = [dict(type='SinkhornHook', queries='test')]\n"


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    """Return configs of two small models on twelve clips, their initial weights, and two epochs."""
    place = tmp_path_factory.mktemp('figures')
    PlantedDataset([], [], split='train', data_root=str(place / 'data'), **KNOBS)
    base = (
        "_base_ = ['{root}/configs/{name}.py']\n"
        "corpus = dict({knobs}, data_root='{place}/data')\n"
        "words = [dict(type='WordTokenize', vocab_file='{place}/data/vocab.txt')]\n"
        'train_dataloader = dict(num_workers=0, dataset=dict(corpus, text_pipeline=words))\n'
        'test_dataloader = dict(num_workers=0, dataset=dict(corpus, text_pipeline=words))\n'
        "test_evaluator = [dict(type='mmvtr.RetrievalMetric')]\n"
        'val_dataloader = val_cfg = val_evaluator = None\n'
    )
    knobs = ', '.join(f'{k}={v}' for k, v in KNOBS.items())
    for name in ('dvtr_c2v_planted', 'c2v_planted', 'uatvr_planted'):
        text = base.format(root=ROOT, name=name, knobs=knobs, place=place)
        extra = HOOK if name.startswith('dvtr') else ''
        (place / f'{name}.py').write_text(text + extra)
        for epoch in (1, 2):
            options = {'randomness.seed': epoch}
            model, _ = load_retriever(
                load_config(str(place / f'{name}.py'), options), None, random_weights=True
            )
            facts = dict(batch=len(name), epochs=2)  # each its own, none equal to its config
            meta = dict(epoch=epoch, seed=0, training=facts)
            weights = dict(state_dict=model.state_dict(), meta=meta)
            torch.save(weights, place / f'{name}_{epoch}.pth')
    return place


@pytest.fixture
def asked(folder, tmp_path, monkeypatch):
    """``asked(name, epochs, against)`` tests models once a module, and asks for a figure."""
    monkeypatch.chdir(tmp_path)

    def make(name='dvtr_c2v_planted', epochs=(1,), against=None, **how):
        models = [_studied(folder, name, epoch) for epoch in epochs]
        other = None if against is None else _studied(folder, against, 1)._replace(name='before')
        given = dict(queries=2, top=None, seed=0, method='pca', out=tmp_path, notes=[])
        return FigureRequest(models, other, **{**given, **how})

    return make


_STUDIES = {}


def _studied(folder, name, epoch):
    if (name, epoch) not in _STUDIES:
        cfg = load_config(str(folder / f'{name}.py'), {}, str(folder / 'work'))
        _STUDIES[name, epoch] = study(cfg, str(folder / f'{name}_{epoch}.pth'))
    return _STUDIES[name, epoch]


def texts_of(figure):
    """Return all texts in a figure."""
    axes = figure.axes
    found = [text.get_text() for axis in axes for text in axis.texts]
    found += [text for axis in axes for text in (axis.get_title(), axis.get_xlabel())]
    return '\n'.join([figure.get_suptitle(), *found])


def test_matrices_before_and_after(asked):
    what = asked(against='c2v_planted')
    ((name, figure),) = FIGURES['dvtr3'].make(what)
    assert name == 'dvtr3' and 'before' in texts_of(figure)
    before, after = (axis.images[0].get_array() for axis in figure.axes[:2])
    assert before.shape == after.shape == (8, 8)  # all eight pairs, as ten are more
    for one, drawn in ((what.against, before), (what.model, after)):
        own = one.scores[one.evaluation.relation.positives]
        np.testing.assert_allclose(np.sort(np.diag(drawn)), np.sort(own), rtol=1e-6)
    marks = [patch for patch in figure.axes[1].patches if hasattr(patch, 'get_xy')]
    assert len(marks) == 16  # a frame per row and a triangle per column


def test_loss_against_eta(asked):
    what = asked()
    ((_, figure),) = FIGURES['dvtr4'].make(what)
    assert '7 negatives of the query' in texts_of(figure)
    points = figure.axes[0].collections
    assert sum(len(x.get_offsets()) for x in points if len(x.get_offsets())) >= 14
    share = float(re.search(r'([\d.]+) % above 0.9', texts_of(figure))[1])
    assert f'{share:.1f} % of the negatives of 8 texts above .9' in what.notes[0]
    # By hand: three negatives and a match, all weights 1, then one of them 0.
    logits, positives = torch.tensor([[1.0, 2.0, 0.0, 0.5]]), torch.tensor([[1, 0, 0, 0]]).bool()
    share = logits.double().softmax(1)
    torch.testing.assert_close(push(logits, positives, torch.ones(1, 4)), -torch.log1p(-share))
    weighed = push(logits, positives, torch.tensor([[0.3, 0.0, 1.0, 1.0]]))
    assert weighed[0, 1] < 1e-12 and weighed[0, 2] > -torch.log1p(-share)[0, 2]


@pytest.mark.parametrize('name', ['dvtr5', 'dvtr6'])
def test_hits_with_their_uncertainty(asked, name):
    what = asked()
    figures = dict(FIGURES[name].make(what))
    assert list(figures) == [f'{name}_0', f'{name}_1']
    eta = eta_of(what.model, range(8), range(8))
    shown = [
        (float(score), float(e))
        for figure in figures.values()
        for score, e in re.findall(r'score (-?[\d.]+), eta ([\d.]+)', texts_of(figure))
    ]
    assert len(shown) == 6  # three hits each
    rounded = {
        (round(float(s), 3), round(float(e), 2))
        for s, e in zip(what.model.scores.flatten(), eta.flatten())
    }  # noqa: E501
    assert {(s, e) for s, e in shown} <= rounded


def test_the_space_and_its_means(asked):
    what = asked(against='c2v_planted')
    ((_, figure),) = FIGURES['ncl7'].make(what)
    assert len(figure.axes) == 2
    points = [len(x.get_offsets()) for x in figure.axes[0].collections]
    assert points == [8, 8, 1, 1]
    ((_, figure),) = FIGURES['ncl7'].make(what._replace(method='tsne'))
    assert 't-SNE 1 (no unit)' in texts_of(figure)
    ((_, figure),) = FIGURES['ncl8'].make(what)
    heights = [bar.get_height() for bar in figure.axes[0].patches]
    assert len(heights) == 6 and 'modal means' in what.notes[-1]


def test_implicit_biases(asked):
    """The bias of video 0 and its relative mass in both models, computed from the scores."""
    what = asked(against='c2v_planted')
    ((name, figure),) = FIGURES['ncl_d'].make(what)
    assert name == 'ncl_d' and [axis.get_title() for axis in figure.axes] == ['videos', 'texts']
    assert len(what.notes) == 4
    for one, drawn in zip((what.against, what.model), figure.axes[0].collections):
        gamma = float(one.evaluation.matrices['temperature'])
        scores = one.scores.double()
        centred = (scores - scores.mean(1, keepdim=True)).mean(0) / gamma  # <mu_t, v_j - mu_v>
        share = (scores / gamma).softmax(1).sum(0)
        points = drawn.get_offsets()
        np.testing.assert_allclose(points[:, 0], centred, atol=1e-4)
        np.testing.assert_allclose(points[:, 1], share * len(share) / len(scores), rtol=1e-3)


def test_queue_sizes(folder, asked, tmp_path, monkeypatch):
    """For each size the result of a whole test with such a queue; the set is encoded once."""
    (tmp_path / 'q.py').write_text(
        f"_base_ = ['{folder}/c2v_planted.py']\n"
        "custom_hooks = [dict(type='QueryQueueHook', size=32),\n"
        "    dict(type='SinkhornHook', queries='test'),\n"
        "    dict(type='SinkhornHook', queries='train_queue')]\n"
    )
    plain = asked('c2v_planted').model
    weights = torch.load(folder / 'c2v_planted_1.pth', weights_only=False)
    generator = torch.Generator().manual_seed(0)
    names = plain.model.similarity.levels
    stored = {}
    for kind, side in (('text', plain.evaluation.texts), ('video', plain.evaluation.videos)):
        rows = torch.randint(0, 4, (32,), generator=generator)  # only some items are queries
        levels = {name: x._asdict() for name, x in take(side.levels, rows).items() if name in names}
        stored[kind] = dict(levels=levels, index=rows, video=rows)
    torch.save({**weights, 'query_queue': stored}, tmp_path / 'q.pth')
    expected = {}
    for size in (16, 32):
        cfg = load_config(str(tmp_path / 'q.py'), {'custom_hooks.0.size': size}, str(tmp_path))
        expected[size] = study(cfg, str(tmp_path / 'q.pth'))
    what = asked()._replace(models=[expected[32]])
    monkeypatch.setattr('mmvtr.engine.ToolRunner.test', None)  # no further test
    ((_, figure),) = FIGURES['ncl5'].make(what)
    for direction, axis in zip(('t2v', 'v2t'), figure.axes):
        line = axis.lines[0]
        wanted = [expected[n].numbers[f'sinkhorn/retrieval/{direction}_R1'] for n in (16, 32)]
        np.testing.assert_allclose(line.get_ydata(), wanted)
    assert queue_and_transform(expected[32])[1].name == 'sinkhorn'  # not the oracle before it


def test_normalisation(asked):
    what = asked()
    ((_, figure),) = FIGURES['ncl2'].make(what)
    raw, after = ([bar.get_height() for bar in group] for group in figure.axes[0].containers)
    temperature = what.model.evaluation.matrices['temperature']
    expected = [
        normalisation_error(what.model.scores, temperature=temperature, dim=d) for d in (1, 0)
    ]
    np.testing.assert_allclose(raw, expected, rtol=1e-5)
    assert max(after) < min(raw)  # normalised on these very queries
    ((_, figure),) = FIGURES['ncl3'].make(what)
    assert [axis.get_title() for axis in figure.axes] == ['text to video', 'video to text']
    # Texts that only normalised scores get right, compared with raw scores, if there are any.
    known = what.model.evaluation.relation.positives
    first = [ranks(x, known) for x in (what.model.scores, what.model.best_scores().t2v)]
    fixed = int(((first[0] > 1) & (first[1] == 1)).sum())
    if fixed:
        assert len(dict(FIGURES['ncl6'].make(what))) == min(2, fixed)
    else:
        with pytest.raises(ValueError, match='no text that only'):
            dict(FIGURES['ncl6'].make(what))


def test_strips_of_relevance(asked):
    what = asked(against='c2v_planted', top=5)
    for name, better in (('causal5', True), ('causal11', False)):
        ((_, figure),) = FIGURES[name].make(what)
        strips = [axis.images[0].get_array() for axis in figure.axes if axis.images][:4]
        assert {x.shape for x in strips} == {(2, 5)}
        labels = [axis.get_yticklabels() for axis in figure.axes[:1]][0]
        old, new = (float(re.search(r'nDCG (\d+)', x.get_text())[1]) for x in labels)
        assert (new >= old) == better or new == old
    assert len(what.notes) == 2  # both figures say the same of all queries


def test_failures_that_remain(folder, asked, tmp_path):
    """Appendix B on clips whose lengths are a confounder: a list that is narrowed three times."""
    knobs = dict(num_train=30, num_val=2, num_test=40, captions=2, general=0.0, length_confound=0.9)
    written = ', '.join(f'{k}={v}' for k, v in knobs.items())
    (tmp_path / 'c.py').write_text(
        f"_base_ = ['{folder}/c2v_planted.py']\n"
        f"corpus = dict({written}, data_root='{folder}/data')\n"
        'train_dataloader = dict(dataset=corpus)\n'
        'test_dataloader = dict(dataset=corpus)\n'
        "test_evaluator = [dict(type='mmvtr.LengthBiasMetric', min_gap=2, top=5,\n"
        "    train=dict(type='PlantedDataset', split='train', **corpus))]\n"
    )
    cfg = load_config('c.py', {}, str(tmp_path))
    models = [study(cfg, str(folder / f'c2v_planted_{epoch}.pth')) for epoch in (1, 2)]
    what = asked()._replace(models=models[1:], against=models[0]._replace(name='before'))
    ((_, figure),) = FIGURES['causal_b'].make(what)
    counts = [int(line.rpartition(' ')[2]) for line in what.notes[:4]]
    assert counts == sorted(counts, reverse=True) and counts[-1] > 0
    known = what.model.evaluation.relation.positives
    first = [ranks(one.scores, known) for one in (what.against, what.model)]
    assert counts[0] == int((first[0] > 10).sum())
    points = [x.get_offsets() for x in figure.axes[0].collections]
    drawn = {(round(float(x)), round(float(y))) for offsets in points for x, y in offsets}
    assert sum(map(len, points)) == counts[-1]
    assert drawn <= {(round(float(a)), round(float(b))) for a, b in zip(*first)}


def test_epochs(asked):
    ((_, figure),) = FIGURES['uatvr3'].make(asked('uatvr_planted', (2, 1)))
    left, right = figure.axes[:2]
    assert left.lines[0].get_xdata().tolist() == [1, 2]
    with pytest.raises(ValueError, match='needs checkpoints of two epochs or more'):
        dict(FIGURES['uatvr3'].make(asked('uatvr_planted')))


def test_tokens(asked):
    what = asked('uatvr_planted', queries=1)
    ((name, figure),) = FIGURES['uatvr4'].make(what)
    assert name == 'uatvr4_0' and len(figure.axes[0].images) == 6  # frames
    said = texts_of(figure)
    assert (
        '+1\n' in said and '+3\n' in said and '"   score ' in figure.axes[1].get_title(loc='left')
    )
    shares = [text.get_text() for axis in figure.axes[1:] for text in axis.texts]
    assert all(share.split('\n')[0] for share in shares)  # each token has a name
    row = what.model.evaluation.relation.positives.any(1).nonzero()[0]
    assert row.numel()
    scores = {round(float(x), 3) for x in what.model.scores.flatten()}
    titles = [axis.get_title(loc='left') for axis in figure.axes[1:]]
    shown = {float(t.rpartition(' ')[2]) for t in titles if t}
    assert all(min(abs(x - y) for y in scores) < 0.002 for x in shown)


def test_figures_that_the_model_cannot_give(asked):
    baseline = asked('c2v_planted')
    for name, said in (
        ('dvtr4', 'gives negatives no weights'),
        ('dvtr5', 'no uncertainty of pairs'),
        ('ncl5', 'needs a QueryQueueHook'),
        ('ncl6', 'nothing to compare'),
        ('causal5', 'nothing to compare'),
        ('causal_b', 'nothing to compare'),
        ('uatvr4', 'are not made of words and frames'),
    ):
        with pytest.raises(ValueError, match=said):
            dict(FIGURES[name].make(baseline))
    with pytest.raises(ValueError, match="no text has the id 'x'; the 8 known ones"):
        dict(FIGURES['dvtr5'].make(asked(queries=['x'])))
    with pytest.raises(ValueError, match='has no probabilistic heads'):
        dict(FIGURES['uatvr3'].make(asked('c2v_planted', (1, 2))))


# -- the tool ----------------------------------------------------------------------------------


@pytest.fixture
def main(folder, tmp_path, monkeypatch, capsys):
    """``main(*arguments)``: what it prints."""
    tool = runpy.run_path(str(ROOT / 'projects/lab/figures.py'))

    def call(*arguments):
        monkeypatch.chdir(folder)
        given = [*map(str, arguments), '--out', str(tmp_path / 'out')]
        monkeypatch.setattr(sys, 'argv', ['figures.py', *given])
        capsys.readouterr()
        tool['main']()
        return capsys.readouterr()

    return call


def test_two_models_and_what_their_trainings_differ_in(main):
    printed = main('dvtr_c2v_planted.py', 'dvtr_c2v_planted_1.pth', '--figure', 'ncl2',
                   '--against', 'c2v_planted.py', 'c2v_planted_2.pth')  # fmt: skip
    lines = [line for line in printed.out.splitlines() if line.startswith('differs in')]
    assert lines == ['differs in batch: 16 in dvtr_c2v_planted, 11 in c2v_planted']


def test_the_tool(main, tmp_path):
    printed = main('dvtr_c2v_planted.py', 'dvtr_c2v_planted_1.pth', '--figure', 'dvtr3', 'uatvr4',
                   '--against', 'c2v_planted.py', 'as-built', '--random-weights')  # fmt: skip
    assert 'uatvr4 (UATVR Fig. 4) is left out: the scores of' in printed.err
    printed = main('c2v_planted.py', 'c2v_planted_1.pth', '--figure', 'arl4', 'ncl2')
    assert re.search(
        r'arl4 .* is left out: .*model.supervision must be an ARLSupervision', printed.err
    )
    assert (tmp_path / 'out/ncl2.png').is_file()
    with Image.open(tmp_path / 'out/dvtr3.png') as picture:
        assert picture.width == 900
    assert 'frame length, Appendix B' in main('--list').out


def test_bad_input(main):
    def refused(*arguments):
        with pytest.raises(SystemExit) as raised:
            main(*arguments)
        return str(raised.value.code)

    config = ('c2v_planted.py', 'c2v_planted_1.pth', '--figure')
    assert "no figure 'dvtr9'; some of: dvtr3, dvtr4" in refused(*config, 'dvtr9')
    assert 'queries must be 1 to 50, not 0' in refused(*config, 'dvtr5', '--queries', '0')
    assert refused(*config, 'dvtr5') == 'error: nothing was drawn'
    assert refused(*config, 'dvtr5', '--top', '-1') == '2'
