"""TVR, ActivityNet moments, Charades-STA: counts, ids and times as published; miniatures."""

import json

import h5py
import numpy as np
import pytest
from mmengine.config import Config
from mmengine.logging import MMLogger

from children import ROOT
from miniatures import write_prvr, write_prvr_captions
from mmvtr.datasets import (
    ActivityNetMomentsDataset,
    CharadesSTADataset,
    TVRDataset,
    collate_retrieval,
)
from mmvtr.datasets.formats.prvr import letters, read_captions
from mmvtr.models.data_preprocessor import VideoTextDataPreprocessor
from mmvtr.registry import DATASETS, METRICS
from mmvtr.utils import register_all_modules

FOLDERS = {
    TVRDataset: 'TVR',
    ActivityNetMomentsDataset: 'ActivityNetCaptions',
    CharadesSTADataset: 'Charades-STA',
}
#: The test files in MS-SL's layout: of what they list, the queries are in gt.jsonl.
LISTED = {
    TVRDataset: 'tvr/tvrdenseval_v',
    ActivityNetMomentsDataset: 'activitynet/activitynetdenseval',
    CharadesSTADataset: 'charades/charadesdenseval',
}
EVERY = pytest.mark.parametrize('cls', FOLDERS, ids=lambda cls: cls.collection)


def build(cls, root, split='test', **kwargs):
    kwargs = {**dict(video_pipeline=[], text_pipeline=[]), **kwargs}
    return cls(split, ann_root=str(root), **kwargs)


@pytest.fixture
def log(monkeypatch):
    """What a dataset writes to the log."""
    lines = []
    logger = MMLogger.get_current_instance()
    monkeypatch.setattr(logger, 'info', lines.append)
    monkeypatch.setattr(logger, 'warning', lines.append)
    return lines


# -- hand-made miniatures ----------------------------------------------------------------------


@EVERY
def test_official_annotations(tmp_path, cls, log):
    write_prvr(tmp_path, cls)
    dataset = build(cls, tmp_path)
    assert [(v['video_id'], v['duration']) for v in dataset.videos] == [('a', 10), ('b', 10)]
    assert dataset.videos[0]['path'] == str(tmp_path / 'videos/a.mp4')
    assert dataset.texts == [
        dict(text_id='a#enc#0', text='A dog runs.', video_idx=[0], start=2, end=4),
        dict(text_id='a#enc#1', text='A dog sits.', video_idx=[0], start=1, end=10),
        dict(text_id='b#enc#0', text="It's a cat.", video_idx=[1]),
    ]
    np.testing.assert_array_equal(dataset.moment_ratio(), [0.2, 0.9, np.nan])
    published = cls.splits['test'][2:]
    assert log == [
        f'{cls.title} test has 2 videos and 3 texts here, published: {published[0]} and '
        f'{published[1]}: results cannot be compared.',
        f'{cls.title} test: 1 of 3 moments end after their video and are cut there (e.g. a#enc#1)'
        '; 1 of 3 moments lie outside their video or have no length and go without times '
        '(e.g. b#enc#0).',
    ]


@EVERY
def test_text_file_chooses_and_the_official_file_says_when(tmp_path, cls, log):
    write_prvr(tmp_path, cls)
    write_prvr_captions(
        tmp_path,
        f'{cls.collection}test',
        'b#enc#0 it s  a cat\r\n\nc#enc#0 a bird\na#enc#1  A dog sits\na#enc#0 Two dogs run.\n',
    )
    dataset = build(cls, tmp_path)
    assert [video['video_id'] for video in dataset.videos] == ['b', 'c', 'a']
    assert [text['text_id'] for text in dataset.texts] == [
        'b#enc#0', 'c#enc#0', 'a#enc#1', 'a#enc#0'
    ]  # fmt: skip
    assert dataset.texts[2] == dict(
        text_id='a#enc#1', text='A dog sits', video_idx=[2], start=1, end=10
    )
    assert ['start' in text for text in dataset.texts] == [False, False, True, False]
    assert '2 of 4 moments are not in' in log[1] and '(e.g. c#enc#0)' in log[1]


@EVERY
def test_text_file_alone(tmp_path, cls, log):
    write_prvr_captions(tmp_path, f'{cls.collection}val', 'a#enc#0 A dog runs.\n')
    dataset = build(cls, tmp_path)
    assert dataset.texts == [dict(text_id='a#enc#0', text='A dog runs.', video_idx=[0])]
    assert dataset.moment_ratio() is None and 'duration' not in dataset.videos[0]
    assert f'there is no {cls.splits["test"].source} in {tmp_path}' in log[1]
    write_prvr_captions(tmp_path, f'{cls.collection}test', 'b#enc#0 A cat sits.\n')
    assert build(cls, tmp_path).videos[0]['video_id'] == 'b', 'test goes before val'


@EVERY
def test_neither_file(tmp_path, cls):
    source = cls.splits['train'].source
    with pytest.raises(FileNotFoundError, match=rf"split 'train' needs .*{source}. .*TextData/"):
        build(cls, tmp_path, 'train')
    with pytest.raises(
        ValueError, match=r"has no split 'val'; expected one of \['train', 'test'\]"
    ):
        build(cls, tmp_path, 'val')


@EVERY
def test_training_videos_that_are_also_tested(tmp_path, cls):
    write_prvr(tmp_path, cls, 'train', videos='ac')
    write_prvr(tmp_path, cls, 'test', videos='ab')
    source = cls.splits['test'].source
    with pytest.raises(ValueError, match=rf"1 videos of .* are also in {source}, e.g. \['a'\]"):
        build(cls, tmp_path, 'train')
    write_prvr_captions(tmp_path, f'{cls.collection}test', 'c#enc#0 A cat sits.\n')
    with pytest.raises(ValueError, match=r"also in .*test.caption.txt, e.g. \['c'\]"):
        build(cls, tmp_path, 'train')
    write_prvr_captions(tmp_path, f'{cls.collection}test', 'd#enc#0 A cat sits.\n')
    assert len(build(cls, tmp_path, 'train').videos) == 2


@pytest.mark.parametrize(
    'text, message',
    [
        ('a#enc#0 A dog.\na#enc#1\n', r"line 2: expected 'VIDEO#enc#N caption', found 'a#enc#1'"),
        ('a A dog.\n', "line 1: expected 'VIDEO#enc#N caption', found 'a A dog.'"),
        ('#enc#0 A dog.\n', 'line 1: expected'),
        ('\n \n', 'has no captions'),
        (
            'a#enc#0 A dog.\na#enc#0 A cat.\n',
            r"line 2: a second text 'a#enc#0', the first is",
        ),
    ],
)
def test_malformed_text_file(tmp_path, text, message):
    write_prvr_captions(tmp_path, 'tvrtest', text)
    with pytest.raises(ValueError, match=message):
        build(TVRDataset, tmp_path)


GOOD = dict(vid_name='a', duration=9, ts=[1, 2], desc='A dog.', desc_id=7)


@pytest.mark.parametrize(
    'change, message',
    [
        (dict(ts=[1]), r'line 2: expected start and end, found \[1\]'),
        (dict(ts=[-1, 2]), 'line 2: expected a time in seconds, found -1'),
        (dict(ts=[1, 'soon']), "line 2: expected a time in seconds, found 'soon'"),
        (dict(ts=[1, float('nan')]), 'line 2: expected a time in seconds, found nan'),
        (dict(duration=5), "line 2: 'a' lasts 5 s here, and 9 s before"),
        (dict(duration=9.5), "line 2: 'a' lasts 9.5 s here, and 9 s before"),
        (dict(duration=None), "line 2, 'duration': expected a time in seconds, found None"),
        (dict(vid_name=None), "line 2, 'vid_name': expected an id, a visible string .* found None"),
        (dict(desc=' '), "line 2: expected a caption, which is not empty, found ' '"),
    ],
)
def test_malformed_tvr(tmp_path, change, message):
    lines = [json.dumps(row) for row in (GOOD, {**GOOD, **change})]
    (tmp_path / 'tvr_val_release.jsonl').write_text('\n'.join(lines))
    with pytest.raises(ValueError, match=message):
        build(TVRDataset, tmp_path)


@pytest.mark.parametrize('times', [[10, 12], [9, 12], [5, 3], [4, 4]])
def test_a_moment_outside_its_video_goes_without_times(tmp_path, log, times):
    """Of 9 s: after its end, from its end on, and nothing at all."""
    lines = [json.dumps({**GOOD, **change}) for change in ({}, dict(ts=times, desc='A cat.'))]
    (tmp_path / 'tvr_val_release.jsonl').write_text('\n'.join(lines))
    dataset = build(TVRDataset, tmp_path)
    assert ['start' in text or 'end' in text for text in dataset.texts] == [True, False]
    np.testing.assert_array_equal(np.isnan(dataset.moment_ratio()), [False, True])
    assert '1 of 2 moments lie outside their video or have no length' in log[1]


def test_tvr_that_is_no_json(tmp_path):
    (tmp_path / 'tvr_val_release.jsonl').write_text(f'\n{json.dumps(GOOD)}\n{{"vid_name": \n')
    with pytest.raises(ValueError, match='tvr_val_release.jsonl: line 3: not valid json'):
        build(TVRDataset, tmp_path)


@pytest.mark.parametrize(
    'entry, message',
    [
        ([], r"'x': expected an object of keys and values, found \["),
        (dict(duration=5, sentences='A dog.'), "'x', 'sentences': expected a list, found 'A dog.'"),
        (
            dict(duration=5, sentences=['A.'], timestamps=[]),
            "'x': expected 1 'timestamps', one a",
        ),
        (dict(sentences=['A.'], timestamps=[[0, 1]]), "'x': expected a key 'duration', found"),
        (
            dict(duration=5, sentences=['A.'], timestamps=[3]),
            "'x', moment 0: expected start and end",
        ),
    ],
)
def test_malformed_activitynet(tmp_path, entry, message):
    (tmp_path / 'val_1.json').write_text(json.dumps({'x': entry}))
    with pytest.raises(ValueError, match=f'val_1.json: {message}'):
        build(ActivityNetMomentsDataset, tmp_path)


@pytest.mark.parametrize(
    'line, message',
    [
        ('a 1.0 2.0 A dog.', "line 2: expected 'VIDEO start end##caption', found 'a 1.0 2.0 A"),
        ('a 1.0 x##A dog.', "line 2: expected a time in seconds, found 'x'"),
        ('z 1.0 2.0##A dog.', "line 2: Charades_v1_test.csv has no video 'z'"),
        ('a 1.0 2.0##', "line 2: expected a caption, which is not empty, found ''"),
    ],
)
def test_malformed_charades(tmp_path, line, message):
    write_prvr(tmp_path, CharadesSTADataset)
    path = tmp_path / 'charades_sta_test.txt'
    first, *others = path.read_text().splitlines()
    path.write_text('\n'.join([first, line, *others]))
    with pytest.raises(ValueError, match=message):
        build(CharadesSTADataset, tmp_path)


def test_charades_without_lengths(tmp_path):
    write_prvr(tmp_path, CharadesSTADataset)
    (tmp_path / 'Charades_v1_test.csv').unlink()
    with pytest.raises(FileNotFoundError, match=r'needs .*Charades_v1_test.csv'):
        build(CharadesSTADataset, tmp_path)


# -- the base configs --------------------------------------------------------------------------


def write_features(root, name, kind):
    """Features of the miniature in the layout of the base config: BigFile and hdf5, or hdf5."""
    data = root / 'data' / name
    (data / 'TextData').mkdir(parents=True)
    (data / 'FeatureData').mkdir()
    rng = np.random.default_rng(0)
    words = 'TextData/{}_clip_L14.h5' if kind == 'clip' else 'TextData/roberta_{}_query_feat.hdf5'
    with h5py.File(data / words.format(name), 'w') as file:
        for text_id, length in {'a#enc#0': 3, 'a#enc#1': 90, 'b#enc#0': 5}.items():
            file[text_id] = rng.standard_normal((length, 4))
    frames = {'a': rng.standard_normal((130, 6)), 'b': rng.standard_normal((2, 6))}
    if kind == 'clip':
        with h5py.File(data / f'FeatureData/{name}_clip_L14.h5', 'w') as file:
            file.update(frames)
        return
    kinds = dict(tvr='i3d_resnet', activitynet='i3d', charades='i3d_rgb_lgi')
    folder = data / 'FeatureData' / kinds[name]
    folder.mkdir()
    ids = {video: [f'{video}_{i}' for i in range(len(rows))] for video, rows in frames.items()}
    (folder / 'shape.txt').write_text('132 6')
    (folder / 'id.txt').write_text(' '.join(ids['a'] + ids['b']))
    (folder / 'video2frames.txt').write_text(repr(ids))
    np.concatenate(list(frames.values())).astype('<f4').tofile(folder / 'feature.bin')


@pytest.mark.parametrize('kind', ['i3d', 'clip'])
@EVERY
def test_base_config(tmp_path, monkeypatch, cls, kind):
    register_all_modules()
    name = cls.collection
    write_features(tmp_path, name, kind)
    write_prvr(tmp_path / 'data' / name, cls)
    write_prvr_captions(tmp_path / 'data' / name, f'{name}train', 'c#enc#0 A bird.\n')
    monkeypatch.chdir(tmp_path)
    suffix = '_clip' if kind == 'clip' else ''
    cfg = Config.fromfile(ROOT / f'configs/_base_/prvr_{name}{suffix}.py')
    train, test = cfg.train_dataloader, cfg.test_dataloader
    assert (train.batch_size, train.dataset.split) == (128, 'train')
    assert train.dataset.epoch_unit == 'video_with_all_texts'
    for key in ('video_pipeline', 'text_pipeline'):
        assert train.dataset[key] == test.dataset[key]
    dataset = DATASETS.build({**test.dataset, 'epoch_unit': 'video_with_all_texts'})
    assert type(dataset) is cls
    with pytest.raises(KeyError, match=r"no features of 1 of 1 videos, e.g. \['c'\]"):
        DATASETS.build(train.dataset)
    batch = VideoTextDataPreprocessor()(collate_retrieval([dataset[0], dataset[1]]))
    inputs = batch['inputs']
    assert inputs['video'].shape == (2, 128, 6)
    assert inputs['frame_mask'].sum(1).tolist() == [128, 2]
    longest = 77 if kind == 'clip' else 30
    assert inputs['text'].shape == (3, longest, 4)
    assert inputs['text_mask'].sum(1).tolist() == [3, longest, 5]
    for x, mask in ((inputs['video'], 'frame_mask'), (inputs['text'], 'text_mask')):
        lengths = x[inputs[mask]].norm(dim=1).numpy()
        np.testing.assert_allclose(lengths, 1, atol=1e-3)
    cfg = Config.fromfile(ROOT / 'configs/_base_/prvr.py')
    retrieval, ratio = (METRICS.build(metric) for metric in cfg.test_evaluator)
    assert retrieval.recall_at == (1, 5, 10, 100) and ratio.edges == (0, 0.2, 0.4, 1)


# -- the published files -----------------------------------------------------------------------


@pytest.mark.parametrize(
    'cls, split, cut, outside',
    [
        (TVRDataset, 'test', 0, 0),
        (ActivityNetMomentsDataset, 'train', 261, 4),
        (ActivityNetMomentsDataset, 'test', 134, 0),
        (CharadesSTADataset, 'train', 1802, 4),  # 3 of the 1,805 begin after their video
        (CharadesSTADataset, 'test', 562, 0),
    ],
)
def test_published_annotations(shared, cls, split, cut, outside, log):
    dataset = build(cls, shared / 'data' / FOLDERS[cls], split)
    found = len(dataset.videos), len(dataset.texts)
    whole = dict(train=(10009, 37421), test=(4917, 17505))  # more than MS-SL lists
    activitynet = cls is ActivityNetMomentsDataset
    assert found == (whole[split] if activitynet else cls.splits[split][2:])
    assert len(log) == (cut + outside > 0) + activitynet
    notes = log[-1] if log else ''
    assert (f'{cut} of {found[1]} moments end after' in notes) == (cut > 0)
    assert (f'{outside} of {found[1]} moments lie outside' in notes) == (outside > 0)
    ratio = dataset.moment_ratio()
    assert np.isnan(ratio).sum() == outside
    assert np.nanmin(ratio) > 0 and np.nanmax(ratio) <= 1


@EVERY
def test_ms_sls_ids_number_the_official_captions(shared, tmp_path, cls, log):
    """Its queries are those of the official file, in its order: so hdf5 keys fit both."""
    listed = shared / 'data/PRVR_MSSL_format' / LISTED[cls]
    queries = [json.loads(line) for line in open(f'{listed}.gt.jsonl', encoding='utf-8')]
    queries = {query['query_id'] for query in queries}
    root = shared / 'data' / FOLDERS[cls]
    source = cls.splits['test'].source
    for name in (source, 'Charades_v1_test.csv'):
        if (root / name).is_file():
            (tmp_path / name).symlink_to(root / name)
    lines = open(f'{listed}.caption.txt', encoding='utf-8').read().splitlines()
    kept = [line for line in lines if line.split(' ')[0] in queries]
    write_prvr_captions(tmp_path, f'{cls.collection}test', '\n'.join(kept))
    dataset, official = build(cls, tmp_path), build(cls, root)
    videos, texts = cls.splits['test'][2:]
    assert len(dataset.videos) == videos
    assert len(dataset.texts) == (8097 if cls is TVRDataset else texts)  # 'v' only
    by_id = {text['text_id']: text for text in official.texts}
    for text in dataset.texts:
        other = by_id[text['text_id']]
        assert letters(text['text']) == letters(other['text'])
        assert (text['start'], text['end']) == (other['start'], other['end'])
    assert not any('are not in' in line for line in log)


def counts(ratio):
    """Texts in (0, .2], (.2, .4], (.4, 1]."""
    return [
        ((low < ratio) & (ratio <= high)).sum() for low, high in ((0, 0.2), (0.2, 0.4), (0.4, 1))
    ]


def test_moment_ratios_of_published_files(shared):
    """TVR's are those of its rows."""
    with open(shared / 'data/TVR/tvr_val_release.jsonl') as file:
        rows = [json.loads(line) for line in file]
    expected = sorted((row['ts'][1] - row['ts'][0]) / row['duration'] for row in rows)
    found = build(TVRDataset, shared / 'data/TVR').moment_ratio()
    np.testing.assert_allclose(np.sort(found), expected, atol=1e-9)
    assert counts(found) == [9298, 1000, 597]
    charades = build(CharadesSTADataset, shared / 'data/Charades-STA').moment_ratio()
    assert counts(charades) == [1077, 2113, 530]


def test_extra_ids_of_a_text_file(shared, log):
    """A file may list more than the queries: it is read as it is, and the log says so."""
    path = shared / 'data/PRVR_MSSL_format/charades/charadesdenseval.caption.txt'
    captions = read_captions(path)
    assert len(captions) == 1334 and sum(map(len, captions.values())) == 7959
