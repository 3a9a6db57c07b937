"""Experts of a planted corpus: what each tells, who lacks one, and which stores are refused."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.optim import build_optim_wrapper

from children import ROOT
from mmvtr.datasets import collate_retrieval
from mmvtr.datasets.planted_corpus.dataset import PlantedDataset
from mmvtr.datasets.planted_corpus.experts import (
    WIDTHS,
    WORD_WIDTH,
    Experts,
    rows_of_clip,
    rows_of_words,
)
from mmvtr.datasets.planted_corpus.grammar import vocabulary
from mmvtr.datasets.planted_corpus.world import Knobs, draw_clip, num_frames
from mmvtr.registry import DATASETS, MODELS
from mmvtr.utils import register_all_modules

TINY = dict(num_train=6, num_val=2, num_test=4)
CONFIG = ROOT / 'projects/lab/configs/mmt_planted_experts.py'


def whole(**kwargs) -> Experts:
    """Experts that lack nothing."""
    return Experts('none', **{'lacking': {}, 'noise': 0.0, **kwargs})


def clips(count: int, **knobs):
    """Facts of training clips, and the rows that their experts have without noise."""
    made = Knobs(**knobs)
    for v in range(count):
        yield draw_clip(made, 'train', v), rows_of_clip(whole(), made, 'train', v)


def test_shapes():
    for moments, rows in clips(20, untrimmed=2):
        assert {name: x.shape[1] for name, x in rows.items()} == WIDTHS
        assert all(x.dtype == np.float32 for x in rows.values())
        assert len(rows['object']) == len(rows['scene']) == 1 and 3 <= len(rows['speech']) <= 6
        assert len(rows['audio']) == sum(frames // 4 for frames in num_frames(moments))
    words = rows_of_words('a red star moves left')
    assert words.shape == (5, WORD_WIDTH) and np.allclose(np.linalg.norm(words, axis=1), 1)
    assert len({tuple(rows_of_words(word)[0]) for word in vocabulary()}) == len(vocabulary())


#: Of each expert, the facts that it shows: no others change its rows.
SHOWN = dict(
    scene=lambda moments: [m['background'] for m in moments],
    object=lambda moments: sorted(
        (o['size'], o['colour'], o['shape']) for m in moments for o in m['objects']
    ),
    audio=lambda moments: (
        [o['action'] for m in moments for o in m['objects']],
        [frames // 4 for frames in num_frames(moments)],
    ),
)


@pytest.mark.parametrize('name', SHOWN)
def test_an_expert_tells_its_part_and_nothing_else(name):
    """Same part, same rows; another part, other rows."""
    seen: dict[str, np.ndarray] = {}
    agreed = 0
    for moments, rows in clips(400):
        key = json.dumps(SHOWN[name](moments))
        if key in seen:
            np.testing.assert_allclose(rows[name], seen[key], atol=1e-6)
            agreed += 1
        seen[key] = rows[name]
    assert agreed > (5 if name == 'scene' else 0)
    distinct = {np.round(x, 4).tobytes() for x in seen.values()}
    assert len(distinct) >= len(seen) * 0.9


def test_speech_is_in_the_words_of_captions():
    vectors = {rows_of_words(word)[0].tobytes(): word for word in vocabulary()}
    said = [vectors[row.tobytes()] for _, rows in clips(100) for row in rows['speech']]
    idle = sum(word in ('thing', 'something') for word in said) / len(said)
    assert 0.2 < idle < 0.4 and len(set(said)) > 30


def test_shares_of_clips_that_lack_an_expert():
    made, experts = Knobs(), Experts('none')
    found = [rows_of_clip(experts, made, 'train', v).keys() for v in range(1000)]
    shares = {name: np.mean([name not in own for own in found]) for name in WIDTHS}
    expected = dict(audio=0.3, object=0.1, scene=0.0, speech=0.5)
    assert shares == pytest.approx(expected, abs=0.05)
    nothing = Experts('none', lacking=dict.fromkeys(WIDTHS, 1.0))
    assert list(rows_of_clip(nothing, made, 'test', 3)) == ['scene']


def test_noise_has_its_length_and_draws_are_repeated():
    made = Knobs()
    one = rows_of_clip(whole(noise=0.5), made, 'val', 1)
    again, clean = (rows_of_clip(e, made, 'val', 1) for e in (whole(noise=0.5), whole()))
    assert all(np.array_equal(one[name], again[name]) for name in WIDTHS)
    gaps = [np.linalg.norm(one[name] - clean[name], axis=1) for name in ('audio', 'speech')]
    assert 0.3 < np.concatenate(gaps).mean() < 0.7
    other = rows_of_clip(whole(), Knobs(seed=1), 'val', 1)
    assert other['audio'].shape != clean['audio'].shape or (other['audio'] != clean['audio']).any()


@pytest.fixture(scope='module')
def root(tmp_path_factory):
    """A tiny corpus with its experts."""
    root = tmp_path_factory.mktemp('planted_experts')
    build(root)
    return root


def build(root, split='train', **kwargs) -> PlantedDataset:
    stores = dict(path=str(root / 'experts'), **kwargs.pop('choice', {}))
    return PlantedDataset(
        split=split,
        data_root=str(root / 'planted'),
        experts=stores,
        **{'video_pipeline': [], 'text_pipeline': [], **TINY, **kwargs},
    )


def test_stores_hold_what_is_drawn_and_are_made_once(root):
    folder, experts, knobs = root / 'experts', Experts(str(root / 'experts')), Knobs(**TINY)
    for split, count in (('train', 6), ('val', 2), ('test', 4)):
        for v in range(count):
            rows = rows_of_clip(experts, knobs, split, v)
            for name in WIDTHS:
                path = folder / name / f'{split}_{v:04d}.npy'
                assert path.is_file() == (name in rows)
                assert name not in rows or np.array_equal(np.load(path), rows[name])
    before = {path: path.stat().st_mtime_ns for path in folder.rglob('*')}
    texts = build(root, text_pipeline=[dict(type='LoadTextFeatures', path=str(folder / 'words'))])
    assert {path: path.stat().st_mtime_ns for path in folder.rglob('*')} == before
    for t, text in enumerate(texts.texts):
        assert np.array_equal(texts.load_text(t)['tokens'], rows_of_words(text['text']))
    assert sorted(path.name for path in root.iterdir()) == ['experts', 'planted']


def test_a_corpus_without_experts_is_what_it_was(root):
    plain = PlantedDataset([], [], split='train', data_root=str(root / 'planted'), **TINY)
    assert plain.experts is None and (plain.videos, plain.texts) == (
        (other := build(root)).videos,
        other.texts,
    )
    assert plain.protocol() == other.protocol()


@pytest.mark.parametrize(
    'kwargs', [dict(num_test=5), dict(choice=dict(noise=1.0)), dict(choice=dict(lacking={}))]
)
def test_stores_of_another_corpus_or_choice(root, kwargs):
    with pytest.raises(RuntimeError, match='experts.json is of other knobs .*choose another path'):
        build(root, **kwargs)


def test_a_folder_of_something_else(root, tmp_path):
    (tmp_path / 'experts').mkdir()
    (tmp_path / 'planted').symlink_to(root / 'planted')
    with pytest.raises(RuntimeError, match='experts.json is missing or not json'):
        build(tmp_path)


@pytest.mark.parametrize(
    'choice, message',
    [
        (dict(path=''), 'path must be a folder'),
        (dict(path='a', lacking=dict(smell=0.1)), r"lacking names \['smell'\], expected some of"),
        (
            dict(path='a', lacking=dict(audio=1.5)),
            r'lacking of audio must lie in \[0, 1\], got .1.5',
        ),
        (dict(path='a', lacking=dict(audio='x')), 'lacking of audio must lie in .*, got .x'),
        (dict(path='a', noise=-1), 'noise must lie in .*, got .-1'),
        (dict(path='a', noise=float('nan')), 'noise must lie in .*, got .nan'),
    ],
)
def test_bad_choices(choice, message):
    with pytest.raises(ValueError, match=f'planted experts: {message}'):
        Experts(**choice)


def test_mmt_learns_from_them(tmp_path, monkeypatch):
    """Pairs of a few clips, of whom some lack experts: after some steps each finds its own."""
    register_all_modules()
    monkeypatch.chdir(tmp_path)
    cfg = Config.fromfile(CONFIG)
    dataset = DATASETS.build(
        dict(cfg.train_dataloader.dataset, num_train=16, num_val=1, num_test=1)
    )
    assert Path('data/planted_experts/experts.json').is_file()
    torch.manual_seed(0)
    model = MODELS.build(cfg.model)
    batch = model.data_preprocessor(collate_retrieval([dataset[i] for i in range(16)]))
    optimizer = build_optim_wrapper(model, cfg.optim_wrapper).optimizer
    losses = []
    for _ in range(20):
        loss, _ = model.parse_losses(model(**batch, mode='loss'))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.3 * losses[0], losses
