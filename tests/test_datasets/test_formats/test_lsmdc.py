"""LSMDC: every irregularity of its files is met, counted, and told row by row."""

import logging
import os
from collections import Counter

import numpy as np
import pytest
from mmengine.logging import MMLogger

from miniatures import LSMDC_TRAIN, write_lsmdc
from mmvtr.datasets import LSMDCDataset
from mmvtr.datasets.formats import lsmdc
from mmvtr.registry import DATASETS

TRAIN, VAL, TEST = (split.table for split in lsmdc.SPLITS.values())
SMILE = '0001_A_Film_00.00.01.000-00.00.02.000'
SAYS = '0001_A_Film_00.00.03.000-00.00.05.000'
RAIN = '3002_B_00.00.01.000-00.00.04.000'
CAR = '3002_B_00.00.05.000-00.00.06.000'
DOOR = '1012_Unbreakable_00.05.16.065-00.05.21.941'


def build(root, split='train', **kwargs) -> LSMDCDataset:
    steps = dict(video_pipeline=[], text_pipeline=[])
    return DATASETS.build(
        dict(type='mmvtr.LSMDCDataset', split=split, ann_root=str(root), **{**steps, **kwargs})
    )


@pytest.fixture
def mini(tmp_path):
    write_lsmdc(tmp_path)
    return tmp_path


@pytest.fixture
def log(caplog):
    logger = MMLogger.get_current_instance()
    logger.addHandler(caplog.handler)
    with caplog.at_level(logging.INFO):
        yield caplog
    logger.removeHandler(caplog.handler)


def test_clips_and_sentences(mini):
    dataset = build(mini)
    assert [video['video_id'] for video in dataset.videos] == [SMILE, SAYS, RAIN, CAR, DOOR]
    assert [(t['text_id'], t['text'], t['video_idx']) for t in dataset.texts] == [
        (f'{SMILE}#0', 'SOMEONE smiles.', [0]),
        (f'{SMILE}#1', 'SOMEONE smiles.', [0]),  # said twice, two rows
        (f'{SAYS}#0', '"Go," he says.', [1]),  # a quote of the sentence stays
        (f'{RAIN}#0', 'Rain falls.', [2]),
        (f'{RAIN}#1', 'It rains.', [2]),
        (f'{CAR}#0', 'A car, "red", stops.', [3]),
        (f'{DOOR}#0', 'A door opens.', [4]),
    ]
    assert dataset.positives()[:, 0].tolist() == [True, True] + 5 * [False]
    paths = [os.path.relpath(video['path'], mini) for video in dataset.videos]
    assert paths[0] == f'videos/0001_A_Film/{SMILE}.avi'
    assert paths[4] == f'videos/1012_Unbreakable/{DOOR}.avi'
    other = build(mini, 'test', video_dir='clips', video_suffix='.mp4')
    assert other.videos[0]['path'].endswith('clips/1006_T/1006_T_00.00.01.000-00.00.02.000.mp4')


def test_every_irregular_row_is_told(mini, log):
    dataset = build(mini)
    assert [tuple(one) for one in dataset.irregular] == [
        (TRAIN, 2, SAYS, lsmdc.QUOTED),
        (TRAIN, 3, '1014_2012_00.01.21.399-00.01.23.997', lsmdc.SILENT),
        (TRAIN, 4, '1014_2012_00.27.58.174-00.27.59.021', lsmdc.SILENT),
        (TRAIN, 5, RAIN, lsmdc.BLANKS),
        (TRAIN, 6, SMILE, lsmdc.AGAIN),
        (TRAIN, 7, CAR, lsmdc.SUFFIX),
        (TRAIN, 8, RAIN, lsmdc.QUOTED),
        (TRAIN, 8, RAIN, lsmdc.BLANKS),
        (TRAIN, 8, RAIN, lsmdc.AGAIN),
    ]
    reasons = {lsmdc.QUOTED: 2, lsmdc.SILENT: 2, lsmdc.BLANKS: 2, lsmdc.AGAIN: 2, lsmdc.SUFFIX: 1}
    assert dataset.counts == dict(rows=9, **reasons, clips=5, texts=7)
    assert Counter(one.reason for one in dataset.irregular) == reasons
    lost = dataset.counts[lsmdc.SILENT] + dataset.counts.get(lsmdc.SKIPPED, 0)
    assert dataset.counts['rows'] - lost == len(dataset.texts), 'no row is lost silently'
    told = next(message for message in log.messages if 'has 9 rows; ' in message)
    assert '2 x no sentence, dropped (lines 3, 4); ' in told and ' (line 7); ' in told
    assert told.endswith('5 clips and 7 texts are left.')
    (warning,) = [record for record in log.records if record.levelno == logging.WARNING]
    assert 'has 9 rows here (5 videos and 7 texts), published: 101079' in warning.getMessage()


def test_the_first_row_is_no_header_and_a_quote_joins_no_lines(mini):
    (mini / TRAIN).write_text('\n'.join(LSMDC_TRAIN[:3]), encoding='utf-8-sig')
    dataset = build(mini)
    assert [text['text'] for text in dataset.texts] == ['SOMEONE smiles.', '"Go," he says.']
    assert dataset.counts['rows'] == 3


def test_as_many_rows_as_published_are_not_worth_a_word(tmp_path, log):
    row = LSMDC_TRAIN[0].split('\t', 1)[1]
    lines = [f'1005_V_00.00.{n:04}\t{row}' for n in range(7408)]
    (tmp_path / VAL).write_text('\n'.join(lines))
    dataset = build(tmp_path, 'val')
    assert len(dataset.videos) == len(dataset.texts) == 7408 and not dataset.irregular
    assert not [record for record in log.records if record.levelno == logging.WARNING]


@pytest.mark.parametrize('as_file', [True, False])
def test_a_skip_list(mini, log, as_file):
    skip = [DOOR, f'{RAIN}.avi', '9999_Elsewhere_00.00.00.000-00.00.01.000']
    if as_file:
        (mini / 'skip.txt').write_text('\n'.join(skip))
        skip = str(mini / 'skip.txt')
    dataset = build(mini, skip=skip)
    assert [video['video_id'] for video in dataset.videos] == [SMILE, SAYS, CAR]
    assert dataset.counts[lsmdc.SKIPPED] == 3 and dataset.counts['texts'] == 4
    lines = [one.line for one in dataset.irregular if one.reason == lsmdc.SKIPPED]
    assert lines == [5, 8, 9]
    assert str(dataset.left_out) == '2 of 5 clips and 3 of 7 texts'
    assert dataset.protocol()['left_out'] == str(dataset.left_out)
    assert any('as skip lists them' in message and RAIN in message for message in log.messages)


def test_missing_clips_are_counted_with_the_skipped(mini):
    frames = [dict(type='mmvtr.LoadVideo', num_frames=2)]
    with pytest.raises(FileNotFoundError, match='5 of 5'):
        build(mini, video_pipeline=frames)
    for clip in (SMILE, CAR):
        path = mini / 'videos' / clip.rpartition('_')[0] / f'{clip}.avi'
        path.parent.mkdir(parents=True)
        path.write_bytes(b'a clip')
    dataset = build(mini, video_pipeline=frames, missing='skip', skip=(DOOR,))
    assert [video['video_id'] for video in dataset.videos] == [SMILE, CAR]
    assert dataset.left_out.names == (DOOR, SAYS, RAIN)
    assert str(dataset.left_out) == '3 of 5 clips and 4 of 7 texts'
    np.testing.assert_array_equal(dataset.positives(), [[1, 0], [1, 0], [0, 1]])


def test_files_of_later_releases(mini):
    for name in (TRAIN, VAL, TEST):
        (mini / name).rename(mini / name.replace('.csv', '_someone.csv'))
    dataset = build(mini)
    assert len(dataset.texts) == 7 and dataset.irregular[0].file.endswith('training_someone.csv')
    assert 'LSMDC16_annos_training_someone.csv' in dataset.origin()
    with pytest.raises(FileNotFoundError, match=f'needs .*{TEST}. Expected in .*_someone.csv'):
        (mini / TEST.replace('.csv', '_someone.csv')).unlink()
        build(mini, 'test')


def test_tested_clips_are_not_trained_on(mini):
    with open(mini / TEST, 'a') as file:
        file.write(LSMDC_TRAIN[0] + '\n')
    with pytest.raises(ValueError, match=f'LSMDC train: 1 videos of {TRAIN} are also in {TEST}'):
        build(mini)


TIMES = LSMDC_TRAIN[0].split('\t', 1)[1].rpartition('\t')[0]


@pytest.mark.parametrize(
    'line, message',
    [
        ('1_A_0\tto be', r'line 10: expected 6 fields .*, found 2: .1_A_0\\tto be'),
        (f'1_A_0\t{TIMES}\ta dog\ta paraphrase', 'line 10: .* found 7: '),
        ('1_A_0\t0.1\t0.2\t0.3\tA dog barks.', 'line 10: .* found 5: '),
        (f'NoUnderscore\t{TIMES}\ta dog', "line 10: expected an id MOVIE_TIMES, found 'NoUnder"),
        (f'../../x_1\t{TIMES}\ta dog', 'line 10: expected an id, a visible string'),
        (f'{"a" * 120}_{"b" * 130}\t{TIMES}\ta dog', 'line 10: expected an id, a visible'),
        (f'1_A_0\t{TIMES}\ta \0dog', 'line 10: expected text without null characters'),
        (f'1_A_0\t{TIMES}\t\u200b', 'line 10: expected a caption, which is not empty'),
    ],
)
def test_bad_rows(mini, line, message):
    with open(mini / TRAIN, 'a', encoding='utf-8') as file:
        file.write(line + '\n')
    with pytest.raises(ValueError, match=f'training.csv: {message}') as caught:
        build(mini)
    assert len(str(caught.value)) < 500


def test_a_sentence_may_hold_other_breaks_than_line_ends(mini):
    with open(mini / TRAIN, 'a', encoding='utf-8') as file:
        file.write(f'1_A_0\t{TIMES}\tA dog\u2028and a cat.\n')
    assert build(mini).texts[-1]['text'] == 'A dog\u2028and a cat.'


@pytest.mark.parametrize(
    'skip, error, message',
    [
        ('nowhere.txt', FileNotFoundError, 'no list of clips to skip at nowhere.txt'),
        (7, ValueError, 'skip: expected ids of clips or the path of a file of them, found 7'),
        ([7], ValueError, 'skip: expected an id, which is a string, found 7'),
        ([DOOR, DOOR], ValueError, 'skip: a second clip .1012_Unbreakable'),
        (['what'], ValueError, "skip: expected an id MOVIE_TIMES, found 'what'"),
    ],
)
def test_bad_skip_lists(mini, skip, error, message):
    with pytest.raises(error, match=message):
        build(mini, skip=skip)


def test_a_set_of_which_nothing_is_left(mini):
    everything = [line.split('\t')[0] for line in (mini / TEST).read_text().splitlines()]
    with pytest.raises(ValueError, match='LSMDC test by .* has 0 videos and 0 texts'):
        build(mini, 'test', skip=everything)
