"""tools/analysis_tools/soft_positives.py: pairs of hand-made batches, a small corpus, bad input."""

import json
import re
import runpy
import sys

import pytest
import torch
from sklearn.metrics import roc_auc_score
from torch import nn

import toy
from children import ROOT
from mmvtr.apis import load_retriever
from mmvtr.datasets import PlantedDataset
from mmvtr.models.target import Target, pushed

TOOL = 'analysis_tools/soft_positives.py'
KNOBS = dict(num_train=12, num_val=1, num_test=2, captions=2, test_captions=1, general=0.6)

CONFIG = (
    toy.RETRIEVER
    + """
model.update(supervision={supervision})
train_dataloader = dict(
    batch_size=24,
    sampler=dict(type='EpochSampler'),
    collate_fn=dict(type='mmvtr.collate_retrieval'),
    dataset=dict(
        type='PlantedDataset', data_root='{root}', split='train', **{knobs},
        video_pipeline=[dict(type='LoadVideo', num_frames=1)],
        text_pipeline=[dict(type='ToySay')],
    ),
)
"""
)


@pytest.fixture(scope='module')
def tool():
    return runpy.run_path(str(ROOT / 'tools' / TOOL))


@pytest.fixture(scope='module')
def root(tmp_path_factory):
    """The corpus is made here, once."""
    folder = tmp_path_factory.mktemp('corpora')
    PlantedDataset([], [], split='train', data_root=str(folder), **KNOBS)
    return folder


@pytest.fixture
def run(tool, root, tmp_path, monkeypatch, capsys):
    """What the tool prints for a supervision."""

    def call(supervision, *arguments):
        monkeypatch.chdir(tmp_path)
        content = CONFIG.format(root=root, knobs=KNOBS, supervision=supervision)
        (tmp_path / 'config.py').write_text(content)
        model, _ = load_retriever('config.py', None, random_weights=True, device='cpu')
        torch.save(dict(state_dict=model.state_dict()), 'weights.pth')
        arguments = ('config.py', 'weights.pth', *arguments)
        monkeypatch.setattr(sys, 'argv', [TOOL, *arguments])
        capsys.readouterr()
        tool['main']()
        return capsys.readouterr().out

    return call


def refused(run, *arguments):
    with pytest.raises(SystemExit) as exit_info:
        run(*arguments)
    return exit_info.value.code


def figure(printed, name):
    return float(re.search(rf'{name} +([\d.]+)', printed)[1])


class Judge(nn.Module):
    """Weights that the batch itself brings."""

    def forward(self, texts, videos, target):
        return target._replace(weights=texts), {}


class Stub(nn.Module):
    """A model whose levels are the matrices that it is given."""

    def __init__(self):
        super().__init__()
        self.supervision = Judge()

    def data_preprocessor(self, batch, training):
        assert not training
        return batch

    def forward(self, inputs, data_samples, mode):
        return inputs['weights'], inputs['scores']

    def similarity(self, texts, videos):
        return {'scores': videos}


def batch_of(size):
    """A batch of texts that each belong to one video and hold for the next one, too."""
    own = torch.arange(size)[:, None]
    return dict(
        inputs=dict(weights=torch.rand(size, size), scores=torch.rand(size, size)),
        data_samples=dict(
            text_videos=own,
            text_true_videos=torch.cat([own, (own + 1) % size], 1),
            video_idx=own[:, 0],
        ),
    )


def test_all_pairs_of_all_batches(tool):
    torch.manual_seed(0)
    batches = [batch_of(3), batch_of(4)]
    soft, spared, scores = [], [], []
    for batch in batches:
        samples, inputs = batch['data_samples'], batch['inputs']
        for t, true in enumerate(samples['text_true_videos'].tolist()):
            for v in range(len(inputs['weights'])):
                if v != t:
                    soft.append(v in true)
                    spared.append(1 - float(inputs['weights'][t, v]))
                    scores.append(float(inputs['scores'][t, v]))
    judged = tool['judge'](Stub(), batches)
    assert list(judged) == ['supervision']
    matrices, relation = judged['supervision']
    assert int((~relation.positives).sum()) == len(soft) == 3 * 2 + 4 * 3
    numbers = tool['SoftPositiveMetric'](reads=('eta', 'scores'))(matrices, relation)
    assert numbers['eta_auc'] == pytest.approx(100 * roc_auc_score(soft, spared))
    assert numbers['scores_auc'] == pytest.approx(100 * roc_auc_score(soft, scores))
    found = [s for s, x in zip(soft, spared) if x > 0.5]
    assert numbers['eta_recall'] == pytest.approx(100 * sum(found) / sum(soft))
    assert numbers['eta_precision'] == pytest.approx(100 * sum(found) / len(found))


def test_further_matches_and_ambiguous_pairs_are_not_pushed():
    known = Target(torch.eye(3).bool())
    assert (pushed(known, known) == 1).all()
    more = known.positives.clone()
    more[0, 1] = True
    ambiguous = torch.zeros(3, 3, dtype=torch.bool)
    ambiguous[2, 0] = True
    judged = known._replace(positives=more, weights=torch.full((3, 3), 0.3), ambiguous=ambiguous)
    expected = torch.tensor([[0.3, 0.0, 0.3], [0.3, 0.3, 0.3], [0.0, 0.3, 0.3]])
    torch.testing.assert_close(pushed(judged, known), expected)


class Branches(nn.Module):
    """Ambiguous pairs in one branch, none looked for in the other."""

    def forward(self, texts, videos, target):
        return {'a': target._replace(ambiguous=~target.positives), 'scores': target}, {}


class Margins(nn.Module):
    def forward(self, texts, videos, target):
        return target._replace(margins=texts), {}


def test_each_branch_has_figures_of_its_own(tool):
    model = Stub()
    model.supervision = Branches()
    judged = tool['judge'](model, [batch_of(3)])
    assert list(judged) == ['a']
    matrices, relation = judged['a']
    assert torch.equal(matrices['eta'] == 1, relation.positives)


def test_margins_alone_are_no_judgement(tool):
    model = Stub()
    model.supervision = Margins()
    with pytest.raises(ValueError, match='Margins gives no weights, no further matches'):
        tool['judge'](model, [batch_of(3), batch_of(2)])


@pytest.mark.parametrize('treat', ['ignore', 'positive'])
def test_an_oracle_is_always_right(run, treat):
    printed = run(dict(type='OracleSupervision', treat=treat))
    assert 'supervision: 528 pairs' in printed  # 24 texts, each with its video, which comes twice
    for name in ('eta_recall', 'eta_precision', 'eta_auc', 'eta_breakeven'):
        assert figure(printed, name) == 100
    assert figure(printed, 'scores_auc') < 100


def test_numbers_in_a_file(run, tmp_path):
    printed = run(dict(type='RelativeScoreSupervision'), '--out', 'numbers.json')
    numbers = json.loads((tmp_path / 'numbers.json').read_text())['supervision']
    for name in ('eta_auc', 'scores_auc', 'eta_recall'):
        assert numbers[f'soft_positive/{name}'] == pytest.approx(figure(printed, name), abs=0.051)


def test_same_twice(run):
    how = dict(type='RelativeScoreSupervision', slack=0.05)
    assert run(how) == run(how)


def test_no_supervision(run):
    assert 'config.py has no model.supervision' in refused(run, None)


def test_another_dataset(run):
    options = ('--cfg-options', 'train_dataloader.dataset.type=ToyVideos')
    message = refused(run, dict(type='OracleSupervision'), *options)
    assert 'must be a PlantedDataset' in message and 'it is ToyVideos' in message


def test_checkpoint_of_another_model(tool, run, monkeypatch):
    run(dict(type='OracleSupervision'))
    torch.save(dict(state_dict=dict(strange=torch.zeros(1))), 'other.pth')
    monkeypatch.setattr(sys, 'argv', [TOOL, 'config.py', 'other.pth'])
    message = refused(tool['main'])
    assert 'other.pth' in message and 'strange' in message
