"""tools/analysis_tools/length_bias.py on a small planted corpus: table, pictures, bad input."""

import runpy
import sys

import numpy as np
import pytest

from children import ROOT, run_tool
from mmvtr.datasets import PlantedDataset
from mmvtr.datasets.sampling.splits import class_means
from mmvtr.evaluation import LengthBiasMetric
from mmvtr.evaluation.length_bias import common_actions

TOOL = 'analysis_tools/length_bias.py'
KNOBS = dict(num_train=12, num_val=1, num_test=12, captions=3, length_confound=0.9)
KNOBS.update(test_captions=2, general=0.0)

CONFIG = """
corpus = dict(type='PlantedDataset', data_root='{root}', **{knobs})
pipelines = dict(
    video_pipeline=[dict(type='LoadFeatures', path='nowhere.h5', num_frames=4)],
    text_pipeline=[dict(type='WordTokenize', vocab_file='nowhere.txt')],
)
train_dataloader = dict(batch_size=2, dataset=dict(**corpus, **pipelines, split='train'))
test_dataloader = dict(batch_size=2, dataset=dict(**corpus, **pipelines, split='test'))
"""


@pytest.fixture(scope='module')
def root(tmp_path_factory):
    return tmp_path_factory.mktemp('corpora')


@pytest.fixture(scope='module')
def sets(root):
    """Train and test set; the corpus is made here, once."""
    return [
        PlantedDataset([], [], split=s, data_root=str(root), **KNOBS) for s in ('train', 'test')
    ]


@pytest.fixture
def folder(tmp_path, root, sets):
    (tmp_path / 'config.py').write_text(CONFIG.format(root=root, knobs=KNOBS))
    return tmp_path


@pytest.fixture(scope='module')
def main():
    return runpy.run_path(str(ROOT / 'tools' / TOOL))['main']


@pytest.fixture
def run(folder, main, monkeypatch, capsys):
    """What the tool prints for these arguments."""

    def call(*arguments):
        monkeypatch.chdir(folder)
        monkeypatch.setattr(sys, 'argv', [TOOL, 'config.py', *map(str, arguments)])
        capsys.readouterr()
        main()
        return capsys.readouterr().out

    return call


@pytest.fixture
def refuse(run):
    """The one line that the tool ends with."""

    def call(*arguments):
        with pytest.raises(SystemExit) as exit_info:
            run(*arguments)
        message = exit_info.value.code
        assert message.startswith('error: ') and len(message.splitlines()) == 1
        return message

    return call


def means_of(sets, key, *, shares=False):
    """Common actions with their mean lengths, from the records."""
    means = []
    for dataset in sets:
        actions = [video['actions'] for video in dataset.videos]
        lengths = [v[key] / (len(v['actions']) or 1 if shares else 1) for v in dataset.videos]
        means.append(class_means(np.array(lengths), actions))
    return common_actions(*means)


def row(printed, name):
    """The numbers of a line of the table."""
    line = next(x for x in printed.splitlines() if x.strip().startswith(name))
    return line.strip().removeprefix(name).split()


def assert_table(printed, common):
    assert row(printed, 'actions of both sets') == [str(len(common.actions))]
    assert row(printed, 'longer in test than in train')[0] == str((common.gaps > 0).sum())
    gaps = np.abs(common.gaps)
    expected = [f'{gaps.mean():.1f}', f'{gaps.max():.1f}']
    assert row(printed, 'mean and largest difference') == expected


def test_the_table(run, sets):
    train, test = sets
    printed = run('--gaps', 4, 10)
    assert 'config.py: lengths in frames' in printed
    assert row(printed, 'videos') == ['12', '12'] and row(printed, 'texts') == ['36', '24']
    lengths = [[video['num_frames'] for video in x.videos] for x in sets]
    assert row(printed, 'mean length') == [f'{np.mean(x):.2f}' for x in lengths]
    assert row(printed, 'median length') == [f'{np.median(x):.2f}' for x in lengths]
    common = means_of(sets, 'num_frames')
    assert len(common.actions) >= 3
    assert_table(printed, common)
    many, most = (np.abs(common.gaps) > 4).sum(), (np.abs(common.gaps) >= 10).sum()
    share = 100 / len(common.actions)
    assert row(printed, 'mean lengths differ by more than 4') == [
        str(many),
        f'{share * many:.1f}',
        '%',
    ]
    assert row(printed, 'mean lengths differ by at least 10')[0] == str(most)
    assert row(run(), 'mean lengths differ by more than 60') == ['0', '0.0', '%']


def test_seconds_and_equal_shares(run, sets):
    printed = run('--unit', 'seconds')
    assert (
        'lengths in seconds' in printed and 'more than 1 ' in printed and 'least 3.333' in printed
    )
    assert_table(printed, means_of(sets, 'duration'))
    assert_table(run('--equal-shares'), means_of(sets, 'num_frames', shares=True))


def test_the_pictures(folder, sets):
    verb, noun = means_of(sets, 'num_frames').actions[0]
    code, printed = run_tool(folder, TOOL, 'config.py', '--out', 'a/b', '--action', verb, noun)
    assert code == 0, printed
    names = ['discrepancy', 'mean_lengths', 'absolute_discrepancy', f'action_{verb}_{noun}']
    assert sorted(path.stem for path in (folder / 'a/b').iterdir()) == sorted(names)
    for name in names:
        assert f'{name}.png' in printed
        picture = (folder / f'a/b/{name}.png').read_bytes()
        assert picture.startswith(b'\x89PNG') and len(picture) > 10_000
    lengths = [v['num_frames'] for v in sets[0].videos if (verb, noun) in v['actions']]
    said = f'{len(lengths)} train videos of mean length {np.mean(lengths):.2f}'
    assert f'action ({verb}, {noun}): {said}' in printed


@pytest.mark.parametrize('suffix', ['npz', 'npy'])
def test_scores_of_a_model(run, folder, sets, suffix):
    scores = np.random.default_rng(0).random((24, 12)).astype(np.float32)
    if suffix == 'npz':
        np.savez(folder / 'scores.npz', scores=scores)
    else:
        np.save(folder / 'scores.npy', scores)
    printed = run('--scores', f'scores.{suffix}', '--gaps', 2, 8, '--top', 3)
    gaps = np.abs(means_of(sets, 'num_frames').gaps)
    assert row(printed, 'gap') == [f'{gaps.mean():.1f}']
    assert LengthBiasMetric.prefix in printed
    chance = float(row(printed, 'length_bias  train_correlation')[1])
    assert chance == 0 and 0 < float(row(printed, 'train_items')[1]) < 100


def test_scores_where_no_length_differs_enough(run, folder):
    np.save(folder / 'scores.npy', np.random.rand(24, 12))
    printed = run('--scores', 'scores.npy', '--out', 'pictures')
    assert 'scores.npy: no bias is measured: no text has an action whose mean lengths' in printed
    assert 'pictures in pictures' in printed


@pytest.mark.parametrize(
    'arguments, message',
    [
        (['--action', '99', '0'], 'action (99, 0) (verb, noun) has no video in train'),
        (['--scores', 'none.npz'], 'none.npz does not exist'),
        (
            ['--scores', 'other.npz'],
            "other.npz is not a .npz file of numbers or strings: it has no array 'scores'",
        ),
        (
            ['--scores', 'wide.npy'],
            'holds float64 [24, 13], expected scores of the test set, [24, 12]',
        ),
        (['--cfg-options', 'test_dataloader=None'], 'has no test_dataloader.dataset'),
        (['--cfg-options', 'train_dataloader.dataset.split=all'], 'split must be one of'),
    ],
)
def test_bad_input(refuse, folder, arguments, message):
    np.savez(folder / 'other.npz', numbers=np.eye(2))
    np.save(folder / 'wide.npy', np.random.rand(24, 13))
    assert message in refuse(*arguments)


def test_sets_without_actions(refuse, sets, monkeypatch):
    original = PlantedDataset.load_annotations

    def without(self):
        videos, texts = original(self)
        for video in videos:
            video.pop('actions')
        return videos, texts

    monkeypatch.setattr(PlantedDataset, 'load_annotations', without)
    assert "PlantedDataset: video 'train" in refuse()
