"""The files of a planted corpus: what they hold, how they come about, and what spoils them."""

import json
import os
import shutil
import signal
import time

import av
import numpy as np
import pytest
from mmengine.config import Config

from children import MP, ROOT
from mmvtr.datasets import collate_retrieval
from mmvtr.datasets.planted_corpus import store
from mmvtr.datasets.planted_corpus.dataset import PlantedDataset
from mmvtr.datasets.planted_corpus.drawing import draw
from mmvtr.datasets.planted_corpus.grammar import caption_counts, draw_captions, judge, vocabulary
from mmvtr.datasets.planted_corpus.world import FPS, Knobs, draw_clip, stream
from mmvtr.datasets.records import keep
from mmvtr.datasets.videos.video_io import BrokenVideoError
from mmvtr.registry import DATASETS
from mmvtr.utils import register_all_modules

TINY = dict(num_train=6, num_val=2, num_test=4)


def dataset(root, split='test', **knobs):
    return PlantedDataset([], [], split=split, data_root=str(root), **{**TINY, **knobs})


@pytest.fixture(scope='module')
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp('planted')
    dataset(folder)
    return folder


@pytest.fixture
def copy(root, tmp_path):
    """A copy of the tiny corpus that a test may spoil: its root and its folder."""
    shutil.copytree(root, tmp_path / 'planted')
    return tmp_path / 'planted', tmp_path / 'planted' / Knobs(**TINY).key


def frames_of(path):
    with av.open(str(path)) as container:
        return np.stack([f.to_ndarray(format='rgb24') for f in container.decode(video=0)])


def test_dataset_reads_what_was_drawn(root):
    knobs = Knobs(**TINY)
    for split, videos, texts in (('train', 6, 12), ('val', 2, 2), ('test', 4, 4)):
        data = dataset(root, split)
        clips = [draw_clip(knobs, split, v) for v in range(videos)]
        captions = [
            caption
            for v, count in enumerate(caption_counts(knobs, split))
            for caption in draw_captions(knobs, split, v, clips[v], count)
        ]
        assert [video['moments'] for video in data.videos] == clips
        assert [text['text'] for text in data.texts] == [c['text'] for c in captions]
        assert [text['video_idx'][0] for text in data.texts] == sorted(
            [*range(videos)] * (texts // videos)
        )
        truth = judge(captions, clips)
        assert data.truth().shape == (texts, videos)
        assert (data.truth() == truth.holds).all()
        assert (data.relevance() == truth.relevance).all()
        assert (data.truth() | ~data.positives()).all()
        share = 100 * data.truth()[~data.positives()].mean()
        card = (data.folder / 'README.md').read_text()
        assert f'| {split} | {videos} | {texts} | {share:.3f} % |' in card
    assert data.vocab_file == root / 'vocab.txt'
    for path in (data.vocab_file, data.folder / 'vocab.txt'):
        assert path.read_text().split() == vocabulary()
    assert data.protocol()['corpus'] == data.folder.name


def test_graded_by_classes_is_what_verbs_and_nouns_of_captions_have_in_common(root):
    data = dataset(root, 'train', graded_by='classes')
    relevance = data.relevance()
    for t, text in enumerate(data.texts):
        for v, video in enumerate(data.videos):
            shares = []
            for kind in ('verb', 'noun'):
                a, b = ({*item['classes'][kind]} for item in (text, video))
                shares.append(len(a & b) / max(len(a | b), 1))
            assert relevance[t, v] == pytest.approx(np.mean(shares))
    assert (relevance != dataset(root, 'train').relevance()).any()
    with pytest.raises(ValueError, match='graded_by'):
        dataset(root, graded_by='verbs')


def say(results):
    return dict(results, token_ids=[0])


def show(results):
    if results['video_id'].endswith('1'):
        raise BrokenVideoError('cut short')
    return dict(results, features=np.zeros((1, 2)))


def test_an_oracle_tells_in_a_batch_which_videos_are_true(root):
    options = dict(split='train', data_root=str(root), **TINY)
    oracle = PlantedDataset([show], [say], oracle=True, on_broken='skip', **options)
    samples = collate_retrieval([oracle[i] for i in range(12)])['data_samples']
    assert len(samples['broken']) == 2
    truth = oracle.truth()
    for t, row in zip(samples['text_idx'].tolist(), samples['text_true_videos'].tolist()):
        true = [v for v in row if v >= 0]
        assert len(true) == len(set(true))
        assert [v in true for v in range(6)] == truth[t].tolist()
    assert (truth & ~oracle.positives()).any()
    broken = collate_retrieval([oracle[i] for i in range(12) if 'broken' in oracle[i]])
    assert broken['data_samples']['text_true_videos'].shape == (0, 0)
    plain = PlantedDataset([show], [say], on_broken='skip', **options)
    assert 'text_true_videos' not in collate_retrieval([plain[0]])['data_samples']
    assert not any('true_videos' in text for text in plain.texts)


def test_true_videos_are_positions_among_those_that_environments_leave(root):
    def some(videos, texts):
        return keep(videos, texts, [1, 3, 4, 5])

    options = dict(split='train', data_root=str(root), oracle=True, **TINY)
    whole, part = (
        PlantedDataset([], [], **options),
        PlantedDataset([], [], **options, records=dict(some=some)),
    )
    assert len(part.videos) == 4 and len(part.texts) == 8
    true = {text['text_id']: text['true_videos'] for text in whole.texts}
    for text in part.texts:
        ids = [part.videos[v]['video_id'] for v in text['true_videos']]
        left = [whole.videos[v]['video_id'] for v in true[text['text_id']] if v not in (0, 2)]
        assert ids == left


def test_clips_are_h264_files_of_the_drawn_images(root):
    data = dataset(root, 'train')
    for v, video in enumerate(data.videos[:2]):
        with av.open(video['path']) as container:
            info = container.streams.video[0]
            assert info.codec_context.name == 'h264'
            assert info.average_rate == FPS
            assert info.frames == video['num_frames']
        drawn_images = draw(video['moments'], stream(data.knobs, 'train', v, 2))
        assert np.abs(frames_of(video['path']).astype(int) - drawn_images).mean() < 6


def test_the_real_pipelines_read_it(root):
    vocab_file = str(root / 'vocab.txt')
    data = PlantedDataset(
        [dict(type='LoadVideo', num_frames=8, sampling='uniform')],
        [dict(type='WordTokenize', vocab_file=vocab_file)],
        split='train',
        data_root=str(root),
        **TINY,
    )
    item = data[3]
    assert item['video']['frames'].shape == (8, 3, 64, 64)
    words = [vocabulary()[i] for i in item['texts'][0]['tokens'][1:-1]]
    assert ' '.join(words) == data.texts[3]['text']


def test_several_captions_and_moments_reach_the_files(tmp_path):
    data = dataset(tmp_path, 'test', test_captions=3, untrimmed=2)
    assert len(data.texts) == 12 and data.truth().shape == (12, 4)
    assert frames_of(data.videos[0]['path']).shape[0] == data.videos[0]['num_frames'] >= 40


def test_two_makings_are_identical(root, tmp_path):
    dataset(tmp_path)
    key = Knobs(**TINY).key
    names = sorted(p.relative_to(root / key) for p in (root / key).rglob('*.*'))
    assert len(names) == 4 + 12
    for name in names:
        assert (root / key / name).read_bytes() == (tmp_path / key / name).read_bytes()


def test_of_two_makers_at_once_the_slower_throws_its_copy_away(tmp_path, monkeypatch):
    knobs = Knobs(**TINY)
    folder = tmp_path / knobs.key
    render = store._render

    def slow(jobs):
        monkeypatch.setattr(store, '_render', render)
        store.make_corpus(folder, knobs)
        (folder / 'first').touch()
        render(jobs)

    monkeypatch.setattr(store, '_render', slow)
    store.make_corpus(folder, knobs)
    assert [p.name for p in tmp_path.iterdir()] == [knobs.key]
    assert (folder / 'first').exists() and len(dataset(tmp_path).videos) == 4


def test_other_ranks_wait_and_make_nothing(tmp_path, monkeypatch):
    waited = []
    monkeypatch.setattr('mmvtr.datasets.planted_corpus.dataset.is_main_process', lambda: False)
    monkeypatch.setattr('mmvtr.datasets.planted_corpus.dataset.barrier', lambda: waited.append(1))
    with pytest.raises(FileNotFoundError, match=r'corpus\.json'):
        dataset(tmp_path)
    assert waited == [1] and list(tmp_path.iterdir()) == []


def test_a_failed_making_leaves_nothing(tmp_path, monkeypatch):
    def fail(jobs):
        raise KeyboardInterrupt

    monkeypatch.setattr(store, '_render', fail)
    with pytest.raises(KeyboardInterrupt):
        dataset(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize('name', ['corpus.json', 'truth.npz', 'vocab.txt', 'videos/test_0001.mp4'])
def test_a_missing_or_empty_file_is_named(copy, name):
    root, folder = copy
    (folder / name).write_bytes(b'')
    with pytest.raises(FileNotFoundError, match=name):
        dataset(root)
    (folder / name).unlink()
    with pytest.raises(FileNotFoundError, match=name):
        dataset(root)


def test_a_changed_file_is_named(copy):
    root, folder = copy
    (folder / 'vocab.txt').write_text('a\n')
    with pytest.raises(RuntimeError, match=r'vocab\.txt was changed'):
        dataset(root)


def test_a_broken_json_is_named(copy):
    root, folder = copy
    (folder / 'corpus.json').write_text('{"version": 1, ')
    with pytest.raises(RuntimeError, match=r'corpus\.json: not valid json'):
        dataset(root)


@pytest.mark.parametrize(('name', 'value'), [('version', 0), ('knobs', dict(seed=3))])
def test_another_version_or_corpus_is_named(copy, name, value):
    root, folder = copy
    corpus = json.loads((folder / 'corpus.json').read_text())
    (folder / 'corpus.json').write_text(json.dumps({**corpus, name: value}))
    with pytest.raises(RuntimeError, match=rf'corpus\.json: {name} is'):
        dataset(root)


def test_unknown_split_and_knob(tmp_path):
    with pytest.raises(ValueError, match="not 'dev'"):
        dataset(tmp_path, 'dev')
    with pytest.raises(TypeError, match='generality'):
        dataset(tmp_path, generality=1)
    assert list(tmp_path.iterdir()) == []


def test_missing_features_are_said_before_a_clip_is_rendered(tmp_path):
    stored = dict(type='mmvtr.LoadFeatures', path=str(tmp_path / 'clips'))
    pipelines = dict(video_pipeline=[stored], text_pipeline=[])
    with pytest.raises(FileNotFoundError, match=r'clips \(PlantedDataset train\)'):
        PlantedDataset(**pipelines, split='train', data_root=str(tmp_path / 'planted'), **TINY)
    assert list(tmp_path.iterdir()) == []


def test_the_untrimmed_base_config(tmp_path, monkeypatch):
    """Every moment is told of, and has at least 6 of the 24 frames that features are made of."""
    register_all_modules()
    cfg = Config.fromfile(ROOT / 'configs/_base_/planted_untrimmed_features.py')
    monkeypatch.chdir(tmp_path)
    features = tmp_path / 'data/planted_features/untrimmed'
    features.mkdir(parents=True)
    for part, count in dict(train=6, val=2, test=4).items():
        for v in range(count):
            np.save(features / f'{part}_{v:04d}.npy', np.ones((24, 3)))
        data = DATASETS.build({**cfg[f'{part}_dataloader'].dataset, **TINY})
        assert (len(data.videos), len(data.texts)) == (count, count * (6 if part == 'train' else 3))
        for video, texts in zip(data.videos, data.texts_of):
            assert {data.texts[t]['moment'] for t in texts} == {0, 1, 2}
            sampled = np.linspace(0, video['num_frames'] - 1, 24, dtype=int) / FPS
            for moment in video['moments']:
                assert ((moment['start'] <= sampled) & (sampled < moment['end'])).sum() >= 6
        assert 0.29 < data.moment_ratio().min() <= data.moment_ratio().max() < 0.38
    train = DATASETS.build({**cfg.train_dataloader.dataset, **TINY})
    assert len(train[0]['texts']) == 6 and train[0]['video']['frames'].shape == (24, 3)


def tell_handler(folder, knobs, split, v, video):
    """In place of drawing a clip: whether SIGTERM ends this process."""
    (folder / str(v)).write_text(str(signal.getsignal(signal.SIGTERM) is signal.SIG_DFL))


def test_the_end_of_drawing_ends_its_children(tmp_path, monkeypatch):
    """A tool's own handler would be heard at the next line of Python, which may never come."""
    monkeypatch.setattr(store, '_render_clip', tell_handler)
    former = signal.signal(signal.SIGTERM, lambda number, frame: None)
    try:
        store._render([(tmp_path, None, 'train', v, {}) for v in range(3)])
    finally:
        signal.signal(signal.SIGTERM, former)
    assert [path.read_text() for path in tmp_path.iterdir()] == ['True'] * 3


def draw_nothing():
    """A pool that ends while its children are still on their way to put the handler away."""
    os.setsid()
    end_at_sigterm = store._end_at_sigterm

    def late():
        time.sleep(0.5)
        end_at_sigterm()

    store._end_at_sigterm = late
    signal.signal(signal.SIGTERM, lambda number, frame: None)
    store._render([])


@pytest.mark.parametrize('clips', [1, 3, 40])
def test_progress_of_drawing(monkeypatch, capsys, clips):
    monkeypatch.setattr(store, '_render_clip', lambda *job: None)
    store._render([(None, None, 'train', v, {}) for v in range(clips)])
    assert f'clips rendered: {clips} of {clips} in ' in capsys.readouterr().out


def test_drawing_ends_however_soon():
    """A child that lost the signal that ends it would be waited for without end."""
    drawing = MP.Process(target=draw_nothing)
    drawing.start()
    drawing.join(60)
    try:
        assert drawing.exitcode == 0
    finally:
        if drawing.exitcode is None:
            os.killpg(drawing.pid, signal.SIGKILL)  # with the children that it waits for
