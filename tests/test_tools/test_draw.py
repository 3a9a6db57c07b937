"""Pictures of a training in TensorBoard by two options, and tools/analysis_tools/draw.py."""

import io
import runpy
import sys

import numpy as np
import pytest
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from children import ROOT, run_tool
from mmvtr.datasets import PlantedDataset
from tiny_sets import of_planted

PLANTED = of_planted('dvtr_c2v_planted', max_epochs=2, val_interval=1)
NAMES = ('score_matrix', 'sheet_0', 'sheet_1', 'hubs', 'eta', 'sigma')
TOOL = 'analysis_tools/draw.py'


@pytest.fixture(scope='module')
def trained(tmp_path_factory):
    """A folder with a training whose pictures went to TensorBoard, and what it printed."""
    folder = tmp_path_factory.mktemp('drawn')
    (folder / 'p.py').write_text(PLANTED)
    code, printed = run_tool(
        folder, 'train.py', 'p.py', '--cfg-options',
        'default_hooks.pictures.type=PicturesHook', 'default_hooks.pictures.queries=2',
        "visualizer.vis_backends=[{'type': 'LocalVisBackend'}, {'type': 'TensorboardVisBackend'}]",
    )  # fmt: skip
    assert code == 0, printed
    return folder, printed


def test_tensorboard(trained):
    folder, printed = trained
    (events,) = {path.parent for path in folder.rglob('events.out.*')}
    found = EventAccumulator(str(events), size_guidance=dict(images=0))
    found.Reload()
    assert [*folder.rglob('scalars.json')]  # beside it
    images = {tag: found.Images(tag) for tag in found.Tags()['images']}
    assert images.keys() == {f'{mode}_{name}' for mode in ('val', 'test') for name in NAMES}
    assert all([x.step for x in images[f'val_{name}']] == [1, 2] for name in NAMES)
    for shown, *_ in images.values():
        picture = np.asarray(Image.open(io.BytesIO(shown.encoded_image_string)))
        assert picture.shape == (shown.height, 900, 3) and len(np.unique(picture)) > 20
    # Two epochs on eight clips move the weights, and so what is drawn.
    first, second = (x.encoded_image_string for x in images['val_eta'])
    assert first != second
    assert printed.count('pictures left out: moment (needs a BestFrameSimilarity)') == 1
    assert printed.count('6 pictures in ') == 3


@pytest.fixture(scope='module')
def dataset(trained):
    """The test set."""
    root = str(trained[0] / 'data/planted')
    return PlantedDataset([], [], split='test', data_root=root, num_train=8, num_val=4, num_test=4)


def names_in(folder):
    return {path.stem for path in folder.glob('*.png')}


def test_a_model(trained, dataset):
    folder, _ = trained
    best = folder / 'work_dirs/p/best.pth'
    hooks = "custom_hooks = [dict(type='SinkhornHook', queries='test')]\n"
    (folder / 'q.py').write_text(PLANTED + hooks)
    query = dataset.texts[2]['text_id']
    code, printed = run_tool(folder, TOOL, 'q.py', best, '--out', 'all', '--queries', query)
    assert code == 0, printed
    assert names_in(folder / 'all') == {'score_matrix', 'sheet_0', 'hubs', 'eta', 'sigma'}
    assert 'after sinkhorn' not in printed and 'sinkhorn_oracle' in printed
    with Image.open(folder / 'all' / 'sheet_0.png') as sheet:
        strips = np.asarray(sheet.convert('RGB'))[:, 300:]
    assert (np.ptp(strips, axis=-1) > 100).sum() > 500  # coloured shapes, no words


def test_without_a_checkpoint(trained):
    folder, _ = trained
    code, printed = run_tool(folder, TOOL, 'p.py', '--out', 'none')
    assert code == 1 and 'names no pretrained weights' in printed and 'Traceback' not in printed
    options = ('--pictures', 'hubs', 'sheet', '--top', 2, '--random-weights')
    code, printed = run_tool(folder, TOOL, 'p.py', '--out', 'random', *options)
    assert code == 0, printed
    assert names_in(folder / 'random') == {'hubs', 'sheet_0', 'sheet_1', 'sheet_2'}


def test_what_only_a_training_needs_is_not_asked_of_a_drawing(trained):
    folder, _ = trained
    options = ('--pictures', 'hubs', '--random-weights', '--cfg-options')
    options += ('optim_wrapper.type=AmpOptimWrapper',)  # of which a training needs a GPU
    code, printed = run_tool(folder, TOOL, 'p.py', '--out', 'amp', *options)
    assert code == 0, printed
    assert names_in(folder / 'amp') == {'hubs'}


# -- of scores alone, in this process ------------------------------------------------------------


@pytest.fixture
def main(trained, tmp_path, monkeypatch):
    """``main(*arguments)`` in the folder; what it raises as its last word."""
    tool = runpy.run_path(str(ROOT / 'tools' / TOOL))
    monkeypatch.chdir(trained[0])
    np.save(tmp_path / 's.npy', np.random.default_rng(0).normal(size=(4, 4)))

    def call(*arguments, scores=tmp_path / 's.npy', checkpoint=()):
        given = ['draw.py', 'p.py', *checkpoint, '--out', tmp_path / 'out', '--scores', scores]
        monkeypatch.setattr(sys, 'argv', [*map(str, [*given, *arguments])])
        tool['main']()
        return names_in(tmp_path / 'out')

    return call


def test_scores(main):
    assert main() == {'score_matrix', 'sheet_0', 'sheet_1', 'sheet_2', 'hubs'}


def test_bad_input(main, tmp_path):
    def refused(*arguments, **options):
        with pytest.raises(SystemExit) as raised:
            main(*arguments, **options)
        message = str(raised.value.code)
        assert message.startswith('error: ') and len(message) < 500
        return message

    assert "sheet, hubs, eta, sigma, moment expected, got 'hub'" in refused('--pictures', 'hub')
    assert 'eta, sigma: a model is needed' in refused('--pictures', 'eta', 'hubs', 'sigma')
    assert "no text has the id 'x'; the 4 known ones" in refused('--queries', 'x')
    assert 'none.npy does not exist' in refused(scores=tmp_path / 'none.npy')
    (tmp_path / 'text.npy').write_text('no array')
    assert 'text.npy is not a .npy file of numbers' in refused(scores=tmp_path / 'text.npy')
    np.save(tmp_path / 'wide.npy', np.zeros((4, 5)))
    message = refused(scores=tmp_path / 'wide.npy')
    assert 'numbers [4, 4] expected' in message and 'got float64 [4, 5]' in message
    np.savez(tmp_path / 'two.npz', a=np.zeros((4, 4)))
    assert 'two.npz is an archive of several' in refused(scores=tmp_path / 'two.npz')
    np.save(tmp_path / 'nan.npy', np.diag([0, np.nan, 0, 0]))
    assert 'nan.npy: nan in row 1, column 1' in refused(scores=tmp_path / 'nan.npy')
    assert 'leave out the CHECKPOINT' in refused(checkpoint=['weights.pth'])
    assert 'top must be 1 to 20, not 0' in refused('--top', 0)
    assert not names_in(tmp_path / 'out')
