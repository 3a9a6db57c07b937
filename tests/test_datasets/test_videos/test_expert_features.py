"""Experts of a video: one below the other, numbered by name, missing ones counted and left out."""

import logging
import pickle

import h5py
import numpy as np
import pytest
import torch
from mmengine.logging import MMLogger

from mmvtr.datasets import BrokenVideoError, LoadExperts
from mmvtr.models import MMTEncoder
from mmvtr.models.data_preprocessor import pad
from mmvtr.registry import TRANSFORMS

#: Rows of each video by expert; nobody speaks in 'b', which has no sound at all.
ROWS = dict(motion=dict(a=3, b=5, c=1), speech=dict(a=2), audio=dict(a=4, c=1))
WIDTHS = dict(motion=4, speech=2, audio=3)
VIDEOS = [dict(video_id=name) for name in 'abc']


@pytest.fixture
def stores(tmp_path):
    """Motion in a hdf5 file, the others in folders; and what each of them holds."""
    random = np.random.default_rng(0)
    held = {
        expert: {v: random.standard_normal((n, WIDTHS[expert])) for v, n in videos.items()}
        for expert, videos in ROWS.items()
    }
    with h5py.File(tmp_path / 'motion.h5', 'w') as file:
        for name, features in held['motion'].items():
            file[name] = features
    for expert in ('speech', 'audio'):
        (tmp_path / expert).mkdir()
        for name, features in held[expert].items():
            np.save(tmp_path / expert / f'{name}.npy', features.astype(np.float16))
            held[expert][name] = features.astype(np.float16)
    return tmp_path, held


def experts(folder):
    return dict(
        speech=dict(path=str(folder / 'speech'), dim=2, seconds=None),
        motion=dict(path=str(folder / 'motion.h5'), dim=4),
        audio=dict(path=str(folder / 'audio'), dim=3, seconds=0.96),
    )


@pytest.fixture
def load(stores):
    config = dict(type='LoadExperts', experts=experts(stores[0]), max_tokens=4)
    transform = TRANSFORMS.build(config)
    transform.check(VIDEOS)
    return transform


def expected(held, video):
    """(expert, second, row of width 4) of a video: audio is 0, motion 1, speech 2."""
    kept = {5: [0, 1, 2, 4]}  # evenly from the first to the last, rounded down
    found = []
    for number, (name, seconds) in enumerate(dict(audio=0.96, motion=1, speech=None).items()):
        features = held[name].get(video, [])
        for i in kept.get(len(features), range(len(features))):
            row = [*map(float, features[i])] + [0.0] * (4 - WIDTHS[name])
            found.append((number, -1 if seconds is None else int(i * seconds), row))
    return found


@pytest.mark.parametrize('video', 'abc')
def test_rows_of_all_experts(stores, load, video):
    found = load(dict(video_id=video, text='kept'))
    rows = expected(stores[1], video)
    assert found['text'] == 'kept' and found['features'].dtype == np.float32
    np.testing.assert_allclose(found['features'], [row for _, _, row in rows], rtol=1e-6)
    for key, column in (('expert', 0), ('second', 1)):
        tags = found['video_extra'][key]
        assert tags.dtype == torch.int64 and tags.shape == (12,), 'one shape for all videos'
        assert tags[: len(rows)].tolist() == [row[column] for row in rows]
        assert (tags[len(rows) :] == -1).all()


def test_seconds_and_the_cap(load):
    seconds = {v: load(dict(video_id=v))['video_extra']['second'].tolist() for v in 'ab'}
    assert seconds['b'][:5] == [0, 1, 2, 4, -1], 'motion alone, four of five rows'
    assert seconds['a'][:10] == [0, 0, 1, 2, 0, 1, 2, -1, -1, -1], 'audio, motion, speech'


def test_limits_and_means_of_their_own(stores):
    folder, held = stores
    settings = experts(folder)
    settings['motion']['max_tokens'], settings['audio']['mean'] = 2, True
    for cut, kept in (('even', [0, 4]), ('first', [0, 1])):
        load = LoadExperts(settings, max_tokens=3, cut=cut)
        load.check(VIDEOS)
        b = load(dict(video_id='b'))
        np.testing.assert_allclose(b['features'], held['motion']['b'][kept], rtol=1e-6)
        assert b['video_extra']['second'].tolist() == [*kept, *[-1] * 4], '1 + 2 + 3 rows'
    a = load(dict(video_id='a'))
    mean = held['audio']['a'].astype(float).mean(0)
    np.testing.assert_allclose(a['features'][0], [*mean, 0], rtol=1e-6)
    assert a['video_extra']['expert'].tolist() == [0, 1, 1, 2, 2, -1]
    assert a['video_extra']['second'].tolist() == [-1, 0, 1, -1, -1, -1]


def test_an_expert_that_no_video_has_is_warned_of(stores, caplog):
    logger = MMLogger.get_current_instance()
    logger.addHandler(caplog.handler)
    try:
        LoadExperts(experts(stores[0])).check(VIDEOS[1:])
        LoadExperts(experts(stores[0])).check(VIDEOS[1:2])
    finally:
        logger.removeHandler(caplog.handler)
    warned = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert len(warned) == 1
    assert warned[0].startswith("none of 2 videos has expert 'speech': are ")


def test_other_extras_stay(load):
    known = torch.ones(2)
    found = load(dict(video_id='c', video_extra=dict(other=known)))['video_extra']
    assert set(found) == {'other', 'expert', 'second'} and found['other'] is known


def test_missing_experts_are_counted(stores, caplog):
    transform = LoadExperts(experts(stores[0]))
    logger = MMLogger.get_current_instance()
    logger.addHandler(caplog.handler)
    try:
        with caplog.at_level(logging.INFO, logger=logger.name):
            transform.check(VIDEOS)
    finally:
        logger.removeHandler(caplog.handler)
    assert 'experts of 3 videos: audio 2, motion 3, speech 1.' in caplog.text


def test_one_transform_may_check_several_sets(stores):
    transform = LoadExperts(experts(stores[0]))
    for video in VIDEOS:
        transform.check([video])
    lengths = {v['video_id']: len(transform(dict(v))['features']) for v in VIDEOS}
    assert lengths == dict(a=9, b=5, c=2)


def test_a_copy_in_another_process_knows_who_is_missing(load):
    copy = pickle.loads(pickle.dumps(load))
    for video in VIDEOS:
        found, mine = copy(dict(video)), load(dict(video))
        np.testing.assert_array_equal(found['features'], mine['features'])
        assert torch.equal(found['video_extra']['expert'], mine['video_extra']['expert'])


def test_the_encoder_reads_them(load):
    """Numbers, widths and seconds are those of the encoder."""
    torch.manual_seed(0)
    model = MMTEncoder(
        dict(type='FeatureWords', in_dim=3),
        experts=WIDTHS,
        dim=8,
        heads=2,
        layers=1,
        feedforward=8,
        max_seconds=5,
    ).eval()
    loaded = [load(dict(video)) for video in VIDEOS]
    video, mask = pad([torch.from_numpy(x['features']) for x in loaded])
    tags = {k: torch.stack([x['video_extra'][k] for x in loaded]) for k in ('expert', 'second')}
    found = model.encode_video(video, mask, **tags)['global']
    assert list(model.experts) == list(load.experts) == ['audio', 'motion', 'speech']
    assert found.mask.tolist() == [[True] * 3, [False, True, False], [True, True, False]]


# -- bad input ---------------------------------------------------------------------------------


def test_a_video_that_no_expert_knows(stores):
    transform = LoadExperts(experts(stores[0]))
    message = (
        r"none of the experts .'audio', 'motion', 'speech'. has features of 1 of 4 videos.*'z'"
    )
    with pytest.raises(KeyError, match=message):
        transform.check([*VIDEOS, dict(video_id='z')])


def test_a_store_that_is_not_there(stores):
    settings = experts(stores[0])
    settings['speech']['path'] += '_typo'
    with pytest.raises(FileNotFoundError, match='no such feature file or folder: .*speech_typo'):
        LoadExperts(settings).check(VIDEOS)


def test_features_of_another_width(stores):
    settings = experts(stores[0])
    settings['audio']['dim'] = 5
    transform = LoadExperts(settings)
    transform.check(VIDEOS)
    with pytest.raises(ValueError, match=r"'audio': .*features of 'a' are 3 wide, but dim is 5"):
        transform(dict(video_id='a'))


def test_features_that_cannot_be_read(stores, load):
    (stores[0] / 'speech/a.npy').write_bytes(b'junk')
    with pytest.raises(BrokenVideoError, match="expert 'speech': .*features of 'a'"):
        load(dict(video_id='a'))
    np.save(stores[0] / 'audio/c.npy', np.zeros((0, 3)))
    with pytest.raises(BrokenVideoError, match=r"'audio': .*'c': expected .F, D. .* found \(0, 3"):
        load(dict(video_id='c'))


def test_settings_that_are_refused(stores):
    with pytest.raises(ValueError, match=r'needs an expert and .* at least 1, got \[\] and 30'):
        LoadExperts({})
    with pytest.raises(ValueError, match=r"got \['audio', 'motion', 'speech'\] and 0"):
        LoadExperts(experts(stores[0]), max_tokens=0)
    with pytest.raises(ValueError, match="cut must be one of .'even', 'first'., not 'last'"):
        LoadExperts(experts(stores[0]), cut='last')
    for setting in (dict(max_tokens=0), dict(max_tokens=3, mean=True)):
        settings = experts(stores[0])
        settings['audio'].update(setting)
        with pytest.raises(ValueError, match="max_tokens of 'audio' must be at least 1, and"):
            LoadExperts(settings)
