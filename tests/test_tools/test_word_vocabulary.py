"""Numbering the words of training captions, and GloVe's vectors of them."""

import json
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

TOOL = Path(__file__).parents[2] / 'tools/dataset_converters/word_vocabulary.py'
CONFIG = """
train_dataloader = dict(
    dataset=dict(
        type='ActivityNetMomentsDataset',
        split='train',
        ann_root='{root}',
        video_pipeline=[dict(type='LoadFeatures', path='{root}/none')],
        text_pipeline=[{step}],
    )
)
"""
STEP = "dict(type='PartOfSpeechGraph', method='rules', vocab_file='{root}/words/word2int.json')"


@pytest.fixture
def root(tmp_path):
    entry = dict(
        duration=9, timestamps=[[0, 4], [3, 8]], sentences=['A cat runs.', 'The cat, runs']
    )
    (tmp_path / 'train.json').write_text(json.dumps({'v_a': entry}))
    return tmp_path


def run(monkeypatch, root, *options, step=STEP):
    text = CONFIG.replace('{step}', step).replace('{root}', str(root))
    (root / 'config.py').write_text(text)
    monkeypatch.setattr(sys, 'argv', ['tool', *map(str, (root / 'config.py', *options))])
    runpy.run_path(str(TOOL), run_name='__main__')


def test_ids_and_vectors(root, monkeypatch, capsys):
    lines = ['runs 1 2 3', 'dog 0 0 0', 'cat 4 5 6', 'cat . 9 9 9', '<unk> 7 7 7']
    (root / 'glove.txt').write_text('\n'.join(lines))
    run(monkeypatch, root, '--glove', root / 'glove.txt')
    ids = json.loads((root / 'words/word2int.json').read_text())
    assert ids == {'<bos>': 0, '<eos>': 1, '<unk>': 2, 'cat': 3, 'runs': 4}
    vectors = np.load(root / 'words/word_vectors.npy')
    assert vectors.dtype == np.float32 and vectors.shape == (5, 3)
    assert vectors[2:].tolist() == [[7, 7, 7], [4, 5, 6], [1, 2, 3]]
    assert vectors[:2].any() and np.isfinite(vectors).all()
    out = capsys.readouterr().out
    assert 'word2int.json: 5 ids; WordVectors needs words=5 or more' in out
    assert 'word_vectors.npy: 3 words of' in out
    with pytest.raises(SystemExit, match='word2int.json is there already'):
        run(monkeypatch, root)


def test_unknown_words_are_as_far_out_as_the_known(root, monkeypatch):
    (root / 'glove.txt').write_text(f'runs {"1000 " * 50}\ncat {"-1000 " * 50}')
    run(monkeypatch, root, '--glove', root / 'glove.txt')
    unknown = np.load(root / 'words/word_vectors.npy')[:3]  # <bos>, <eos>, <unk>
    assert 800 < unknown.std() < 1200


def test_rare_words(root, monkeypatch):
    run(monkeypatch, root, '--min-count', '1')
    ids = json.loads((root / 'words/word2int.json').read_text())
    assert list(ids)[3:] == ['cat', 'runs', 'a', 'the']
    assert not (root / 'words/word_vectors.npy').exists()


def test_bad_input(root, monkeypatch):
    with pytest.raises(SystemExit, match="error: the text pipeline .'CLIPTokenize'. makes no role"):
        run(monkeypatch, root, step="dict(type='CLIPTokenize')")
    (root / 'glove.txt').write_text('dog 1 2\ncat 1\n')
    with pytest.raises(SystemExit, match='glove.txt, line 2: 1 numbers, expected 2'):
        run(monkeypatch, root, '--glove', root / 'glove.txt')
    (root / 'glove.txt').write_text('dog 1 2\n')
    with pytest.raises(SystemExit, match='glove.txt has none of the 5 words'):
        run(monkeypatch, root, '--glove', root / 'glove.txt')
    assert not (root / 'words').exists()
