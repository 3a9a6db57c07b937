"""projects/lab/token_attention.py: known partners, pictures of a small model, bad input."""

import re
import runpy
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

from children import ROOT
from mmvtr.apis import encode_texts, encode_videos, load_retriever
from mmvtr.datasets import PlantedDataset
from mmvtr.models import TokenSimilarity
from mmvtr.structures import Embedding
from mmvtr.utils import load_config
from paper_figures.token_strips import Token, strip

TOOL = 'token_attention.py'
CONFIG = ROOT / 'configs/uatvr_planted.py'
TEXTS = ('a red star spins', 'a small star')


@pytest.fixture(scope='module')
def tool():
    return runpy.run_path(str(ROOT / 'projects/lab' / TOOL))


@pytest.fixture(scope='module')
def corpus(tmp_path_factory):
    """Return the corpus' vocabulary and two of its clips."""
    folder = tmp_path_factory.mktemp('corpus')
    knobs = dict(num_train=1, num_val=1, num_test=2)
    dataset = PlantedDataset([], [], split='test', data_root=str(folder), **knobs)
    return str(folder / 'vocab.txt'), [video['path'] for video in dataset.videos]


@pytest.fixture
def run(tool, corpus, tmp_path, monkeypatch, capsys):
    """Return a function that runs the tool on a model with random weights."""

    def call(*arguments, config=CONFIG, options=()):
        options = {'test_dataloader.dataset.text_pipeline.0.vocab_file': corpus[0], **dict(options)}
        cfg = load_config(str(config), {**options, 'test_dataloader.num_workers': 0})
        model, cfg = load_retriever(cfg, None, random_weights=True, device='cpu')
        torch.save(dict(state_dict=model.state_dict()), tmp_path / 'weights.pth')
        written = [f'{key}={value}' for key, value in options.items()]
        argv = [TOOL, str(config), 'weights.pth', *map(str, arguments)]
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, 'argv', [*argv, '--out', 'out', '--cfg-options', *written])
        capsys.readouterr()
        tool['main']()
        return capsys.readouterr().out, model, cfg

    return call


def test_names_shares_and_partners(tool):
    """Words and frames are unit axes of a space, so the matches are known."""
    axes = torch.eye(4)
    words, frames = axes[[0, 2, 1, 3]], axes[[1, 2, 0]]
    levels = [
        {'global': Embedding(x.mean(0)[None], x[None], torch.ones(1, len(x), dtype=torch.bool))}
        for x in (words, frames)
    ]
    levels[0]['global'].mask[0, 0] = False  # like SOT
    model = SimpleNamespace(
        similarity=TokenSimilarity(),
        encoder=SimpleNamespace(frame_extra=SimpleNamespace(count=1)),
        data_preprocessor=SimpleNamespace(device='cpu'),
    )
    text = tool['name_tokens'](model, levels[0], ['[SOT]', 'cat', 'runs', 'home'], 'word_extra')
    video = tool['name_tokens'](model, levels[1], ['1', '2'], 'frame_extra')
    assert video.names == ['1', '2', '+1']
    pair = tool['compare'](model, 'cat runs home', text, video)
    sixth = pytest.approx(1 / 6)
    assert pair.words[:2] == [('cat', sixth, '2'), ('runs', sixth, '1')]
    assert pair.words[2][:2] == ('home', 0.0)
    assert pair.frames[:2] == [('1', sixth, 'runs'), ('2', sixth, 'cat')]
    assert pair.frames[2][:2] == ('+1', 0.0)
    assert pair.score == pytest.approx(4 / 6)
    assert tool['describe'](pair).startswith('  0.6667  cat runs home\n')


@pytest.mark.parametrize('share', [np.array([0.1, 0.4, 0.2]), np.array([0.2, 0.2, 0.2])])
def test_darker_is_more(share):
    from matplotlib.figure import Figure

    axis = Figure().subplots()
    strip(axis, [Token(str(i), x, 'a') for i, x in enumerate(share)], 3)
    light = np.array([sum(patch.get_facecolor()[:3]) for patch in axis.patches])
    assert (np.argsort(-light) == np.argsort(share)).all()
    assert [float(text.get_text().split()[-1]) for text in axis.texts] == share.tolist()


@pytest.mark.parametrize(
    'options',
    [
        dict(),
        {
            'model.encoder.extra': 'positions',
            'model.encoder.match_sot': True,
            'model.similarity.official_mask': True,
        },
    ],
    ids=['tokens', 'official'],
)
def test_scores_and_pictures(run, corpus, tmp_path, options):
    paths = corpus[1]
    printed, model, cfg = run('--video', *paths, '--text', *TEXTS, options=options)
    with torch.no_grad():
        texts = encode_texts(model, cfg, list(TEXTS)).levels
        videos = encode_videos(model, cfg, paths).levels
        scores = model.score(texts, videos)['scores'].t().flatten()
    shown = [float(x) for x in re.findall(r'^  (-?\d\.\d{4})  ', printed, re.M)]
    np.testing.assert_allclose(shown, scores, atol=6e-5)
    for path in paths:
        name = path.rsplit('/', 1)[-1].replace('.mp4', '.png')
        picture = np.asarray(Image.open(tmp_path / 'out' / name).convert('RGB'))
        assert picture.shape[1] > 900 and len(np.unique(picture.reshape(-1, 3), axis=0)) > 100
    names = set(re.findall(r'(\S+) <- ', printed))
    assert names <= {*' '.join(TEXTS).split(), '[SOT]', '[EOT]'} | set('123456') | {
        '+1',
        '+2',
        '+3',
    }


def test_bad_input(run, corpus, tmp_path):
    video = corpus[1][0]

    def refuse(*arguments, **kwargs):
        with pytest.raises(SystemExit) as exit_info:
            run(*arguments, **kwargs)
        return exit_info.value.code

    message = refuse('--video', video, '--text', 'a zebra')
    assert message.startswith('error: ') and "'zebra'" in message
    message = refuse('--video', 'none.mp4', '--text', TEXTS[0])
    assert message.startswith('error: 1 of 1 video files are missing: none.mp4')
    message = refuse('--video', video, '--text', 'a', config=ROOT / 'configs/c2v_planted.py')
    assert message.startswith('error: the scores of CosineSimilarity are not made of words')
    features = tmp_path / 'features'
    features.mkdir()
    np.save(features / f'{video.rsplit("/", 1)[-1][:-4]}.npy', np.zeros((2, 128), np.float32))
    message = refuse(
        *('--video', video, '--text', TEXTS[0]),
        config=ROOT / 'configs/uatvr_planted_features.py',
        options={'test_dataloader.dataset.video_pipeline.0.path': str(features)},
    )
    assert message.endswith(
        'uatvr_planted_features.py reads stored features: pictures need LoadVideo'
    )
