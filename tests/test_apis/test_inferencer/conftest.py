"""Clips, and an inferencer of each of three models that are small."""

import pytest
from asked_clips import NAMES
from mmengine.config import Config

from children import ROOT
from mmvtr.apis import load_retriever
from mmvtr.apis.inferencer import VideoRetrievalInferencer
from mmvtr.storage import write_plain
from tiny_sets import of_videos

TOY = of_videos(frames=4)


@pytest.fixture(scope='module')
def corpus(tmp_path_factory, write_video):
    """Clips, a vocabulary, and of each kind of model a config and weights."""
    folder = tmp_path_factory.mktemp('corpus')
    (folder / 'clips/more').mkdir(parents=True)
    for n, name in enumerate(NAMES):
        greys = [(37 * n + 61 * i) % 250 for i in range(4 + n)]
        write_video(folder / f'clips/{name}.mp4', greys, size=(64, 64), codec='ffv1')
    words = ['red', 'dog', 'a', 'cyanish', *(f'w{i}' for i in range(72))]
    (folder / 'vocab.txt').write_text('\n'.join(words))
    (folder / 'toy.py').write_text(TOY)
    for name in ('uatvr_planted', 'arl_planted'):
        cfg = Config.fromfile(ROOT / f'configs/{name}.py')
        cfg.test_dataloader.dataset.text_pipeline[0].vocab_file = str(folder / 'vocab.txt')
        cfg.dump(folder / f'{name}.py')
    for name in ('toy', 'uatvr_planted', 'arl_planted'):
        model, _ = load_retriever(
            str(folder / f'{name}.py'), None, random_weights=True, device='cpu'
        )
        write_plain(dict(state_dict=model.state_dict()), folder / f'{name}.pth')
    return folder


@pytest.fixture
def folder(corpus, monkeypatch):
    monkeypatch.chdir(corpus)
    return corpus


@pytest.fixture
def make(folder):
    """``make('toy', ...)``: an inferencer of that model."""

    def build(name='toy', **kwargs):
        kwargs.setdefault('show_progress', False)
        return VideoRetrievalInferencer(f'{name}.py', f'{name}.pth', 'cpu', **kwargs)

    return build
