"""MSR-VTT: published counts from the published files, and every pitfall on a miniature."""

import json
import shutil

import numpy as np
import pytest

from miniatures import msrvtt_json, write_column, write_json, write_msrvtt
from mmvtr.datasets import MSRVTTDataset
from mmvtr.datasets.formats.msrvtt import SPLITS


def build(root, split, **kwargs) -> MSRVTTDataset:
    return MSRVTTDataset(split, ann_root=str(root), video_pipeline=[], text_pipeline=[], **kwargs)


@pytest.fixture
def mini(tmp_path):
    """Five videos of three captions."""
    write_msrvtt(tmp_path)
    return tmp_path


@pytest.mark.parametrize('split', SPLITS)
def test_published_counts(shared, split):
    dataset = build(shared / 'data/MSRVTT', split)
    assert (len(dataset.videos), len(dataset.texts)) == SPLITS[split][2:]
    captions = 1 if split == '1kA_test' else 20
    assert {len(texts) for texts in dataset.texts_of} == {captions}


def test_captions_are_those_of_the_files(shared):
    root = shared / 'data/MSRVTT'
    dataset = build(root, 'full_val')
    source = json.loads((root / 'train_val_videodatainfo.json').read_text())
    expected = {
        str(s['sen_id']): (s['video_id'], s['caption'])
        for s in source['sentences']
        if 6513 <= int(s['video_id'].removeprefix('video')) < 7010
    }
    found = {
        t['text_id']: (dataset.videos[t['video_idx'][0]]['video_id'], t['text'])
        for t in dataset.texts
    }
    assert found == expected


def test_csv_saved_by_a_spreadsheet_reads_the_same(shared, tmp_path):
    variant = shared / 'data/MSRVTT/variants/AIC_benchmark.MSRVTT_JSFUSION_test.csv'
    shutil.copy(variant, tmp_path / 'MSRVTT_JSFUSION_test.csv')
    official = build(shared / 'data/MSRVTT', '1kA_test')
    respelt = build(tmp_path, '1kA_test')
    assert [t['text'] for t in respelt.texts] == [t['text'] for t in official.texts]
    assert respelt.protocol() == official.protocol()


def test_training_split_of_the_miniature(mini):
    dataset = build(mini, '1kA_train9k')
    assert [v['video_id'] for v in dataset.videos] == ['video3', 'video0', 'video1', 'video2']
    assert [t['text_id'] for t in dataset.texts[:6]] == ['9', '11', '13', '0', '3', '6']
    assert dataset.texts[4]['text'] == 'caption 1 of video0'
    assert dataset.videos[0]['path'] == str(mini / 'videos/video3.mp4')
    assert 'start' not in dataset.videos[0], 'the times are those of the source on the web'
    np.testing.assert_array_equal(dataset.positives(), np.repeat(np.eye(4, dtype=bool), 3, axis=0))


def test_test_split_takes_the_sentence_of_the_csv(mini):
    (mini / 'train_val_videodatainfo.json').unlink()
    dataset = build(mini, '1kA_test', video_dir='clips', video_suffix='.webm')
    assert dataset.texts == [dict(text_id='ret0', text='a man, a dog and a cat', video_idx=[0])]
    assert dataset.videos[0]['path'] == str(mini / 'clips/video4.webm')


def test_full_splits_without_their_lists(mini):
    with_list = build(mini, 'full_train')
    assert [v['video_id'] for v in with_list.videos] == ['video1', 'video0']
    for part in ('train', 'val', 'test'):
        (mini / f'MSRVTT_{part}.full.csv').unlink()
    found = {s: [v['video_id'] for v in build(mini, s).videos] for s in SPLITS if 'full' in s}
    assert found == dict(
        full_train=['video0', 'video1'], full_val=['video2'], full_test=['video3', 'video4']
    )


def test_merged_json_will_do(mini):
    expected = build(mini, '1kA_train9k').texts
    parts = [mini / 'train_val_videodatainfo.json', mini / 'test_videodatainfo.json']
    train_val, test = (json.loads(part.read_text()) for part in parts)
    merged = {key: train_val[key] + test[key] for key in ('videos', 'sentences')}
    write_json(mini, 'MSRVTT_data.json', merged)
    for part in parts:
        part.unlink()
    assert build(mini, '1kA_train9k').texts == expected


def test_a_changed_json_is_read_again(mini):
    assert len(build(mini, 'full_val').texts) == 3
    changed = msrvtt_json(['video0', 'video1', 'video2'], 0)
    changed['sentences'].pop()
    write_json(mini, 'train_val_videodatainfo.json', changed)
    assert len(build(mini, 'full_val').texts) == 2


def test_wrong_split_name(mini):
    with pytest.raises(ValueError, match="no split '1ka'.*1kA_train9k.*full_test"):
        build(mini, '1ka')


@pytest.mark.parametrize(
    'absent, split',
    [
        ('MSRVTT_train.9k.csv', '1kA_train9k'),
        ('MSRVTT_JSFUSION_test.csv', '1kA_test'),
        ('train_val_videodatainfo.json', 'full_train'),
    ],
)
def test_missing_file_names_itself_and_the_layout(mini, absent, split):
    (mini / absent).unlink()
    if 'json' in absent:
        (mini / 'test_videodatainfo.json').unlink()
    with pytest.raises(FileNotFoundError, match=f'needs .*{absent}.*Expected in .*video0.mp4'):
        build(mini, split)


def test_list_with_videos_of_a_missing_json(mini):
    (mini / 'test_videodatainfo.json').unlink()
    with pytest.raises(
        ValueError, match=r"1 of 4 videos in .*9k.csv have no captions in .*'video3'"
    ):
        build(mini, '1kA_train9k')


def test_csv_without_a_column(mini):
    (mini / 'MSRVTT_JSFUSION_test.csv').write_text('key,video,sentence\nret0,video4,a man\n')
    with pytest.raises(
        ValueError, match=r"JSFUSION_test.csv: line 1: expected .*'video_id'.*'video', 's"
    ):
        build(mini, '1kA_test')


def test_row_that_does_not_fit_its_header(mini):
    (mini / 'MSRVTT_JSFUSION_test.csv').write_text(
        'key,vid_key,video_id,sentence\nret0,msr4,video4,a man, a dog and a cat\n'
    )
    with pytest.raises(ValueError, match='JSFUSION_test.csv: line 2: expected 4 fields'):
        build(mini, '1kA_test')


def test_caption_of_an_unknown_video(mini):
    changed = msrvtt_json(['video3', 'video4'], 9)
    changed['sentences'][1]['video_id'] = 'video77'
    write_json(mini, 'test_videodatainfo.json', changed)
    with pytest.raises(ValueError, match=r"sentences\[1\]: sen_id 10 .* unknown video 'video77"):
        build(mini, 'full_test')


def test_entry_without_a_key(mini):
    changed = msrvtt_json(['video3', 'video4'], 9)
    changed['sentences'][2]['caption'] = None
    write_json(mini, 'test_videodatainfo.json', changed)
    with pytest.raises(
        ValueError, match=r"test_videodatainfo.json: sentences\[2\], 'caption': expected a string"
    ):
        build(mini, 'full_test')


def test_duplicate_rows(mini):
    write_column(mini, 'MSRVTT_train.7k.csv', ['video0', 'video1', 'video0'])
    with pytest.raises(ValueError, match=r"7k.csv: line 4: a second video 'video0', the fi"):
        build(mini, '1kA_train7k')


def test_empty_caption(mini):
    changed = msrvtt_json(['video3', 'video4'], 9)
    changed['sentences'][2]['caption'] = ' '
    write_json(mini, 'test_videodatainfo.json', changed)
    with pytest.raises(ValueError, match=r"json: sentences\[2\], 'caption': expected a caption"):
        build(mini, 'full_test')


def test_training_videos_in_the_test_list(mini):
    write_column(mini, 'MSRVTT_train.7k.csv', ['video0', 'video4'])
    with pytest.raises(ValueError, match=r"1 videos of MSRVTT_train.7k.csv are also .*'video4'"):
        build(mini, '1kA_train7k')


def test_json_that_is_none(mini):
    (mini / 'test_videodatainfo.json').write_text('{"videos": [')
    with pytest.raises(ValueError, match='test_videodatainfo.json: not valid json'):
        build(mini, 'full_test')
    (mini / 'test_videodatainfo.json').write_text('{"videos": []}')
    with pytest.raises(ValueError, match=r"json: expected a key 'sentences', found"):
        build(mini, 'full_test')


def test_lengths(mini):
    """Seconds by the json, whose times are those of another video; without it, none."""
    for split in ('1kA_test', '1kA_train7k'):
        assert all(v['duration'] == 9 and 'start' not in v for v in build(mini, split).videos)
    broken = msrvtt_json(['video3', 'video4'], 9)
    broken['videos'][1]['end time'] = 90
    write_json(mini, 'test_videodatainfo.json', broken)
    with pytest.raises(
        ValueError, match=r'videos\[1\]: the clip ends before it begins: 90.0 to 90'
    ):
        build(mini, '1kA_test')
    for name in ('train_val', 'test'):
        (mini / f'{name}_videodatainfo.json').unlink()
    assert 'duration' not in build(mini, '1kA_test').videos[0]


@pytest.mark.nightly
def test_published_lengths(shared):
    """The frame-length paper's first split, 5,950 clips: those below the mean of test, 5,952."""
    train, test = (
        np.array([video['duration'] for video in build(shared / 'data/MSRVTT', split).videos])
        for split in ('1kA_train9k', '1kA_test')
    )
    assert test.mean() == pytest.approx(15.2157, abs=1e-4) and (train < test.mean()).sum() == 5952
