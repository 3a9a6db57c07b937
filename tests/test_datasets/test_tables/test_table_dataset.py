"""A table beside a folder: records, relation, splits, what is said, and what is refused."""

import json
import logging

import numpy as np
import pytest
from mmengine.logging import MMLogger

from mmvtr.datasets import BrokenVideoError, TableDataset, collate_retrieval
from mmvtr.registry import DATASETS

FRAMES = [dict(type='mmvtr.LoadVideo', num_frames=4)]
WORDS = [lambda text: dict(text, token_ids=[1, 2])]


@pytest.fixture
def folder(tmp_path, write_video, monkeypatch):
    """Clips a-d of 1 s, one of them deeper, and no table yet."""
    (tmp_path / 'clips/deep').mkdir(parents=True)
    for number, name in enumerate(('a.mp4', 'b.MKV', 'deep/c.webm', 'd.e.mp4')):
        codec = 'libvpx' if name.endswith('webm') else 'libx264'
        write_video(
            tmp_path / 'clips' / name, [40 * number + 4 * i for i in range(10)], codec=codec
        )
    (tmp_path / 'clips/notes.txt').write_text('x')
    (tmp_path / 'clips/.hidden.mp4').write_text('x')
    monkeypatch.chdir(tmp_path)
    return tmp_path


def build(folder, table, split='all', name='my.csv', **options):
    (folder / name).write_text(table)
    options = dict(video_pipeline=FRAMES, text_pipeline=WORDS) | options
    return TableDataset(split, table=name, videos=options.pop('videos', 'clips'), **options)


def ids(dataset):
    return [video['video_id'] for video in dataset.videos], [t['text_id'] for t in dataset.texts]


# -- records -----------------------------------------------------------------------------------


def test_names_with_and_without_suffix_in_folders_and_with_dots(folder):
    table = f'video,text\na,one\na.mp4,two\n./b.MKV,x\ndeep/c,y\n{folder}/clips/d.e.mp4,z\nb,w\n'
    dataset = build(folder, table)
    assert ids(dataset) == (['a', 'b', 'deep/c', 'd.e'], ['a#0', 'a#1', 'b#0', 'deep/c#0',
                                                         'd.e#0', 'b#1'])  # fmt: skip
    assert dataset.videos[2] == dict(video_id='deep/c', path='clips/deep/c.webm')
    assert [text['video_idx'] for text in dataset.texts] == [[0], [0], [1], [2], [3], [1]]
    assert dataset.texts[1]['text'] == 'two' and dataset.texts_of == [[0, 1], [2, 5], [3], [4]]
    batch = collate_retrieval([dataset[i] for i in range(len(dataset))])
    assert len(batch['inputs']['video']) == 6 and batch['inputs']['video'][0].shape[0] == 4


def test_further_columns_stand_by_video(folder):
    table = 'video,text,kind,writer\na,one,home,eve\na,two,home,bob\nb,x,,eve\n'
    rows = [dict(kind='home', writer='eve'), dict(kind='home', writer='bob')]
    assert build(folder, table).more == {'a': rows, 'b': [dict(kind='', writer='eve')]}


def test_further_values_of_json_lines(folder):
    rows = [
        dict(video=v, text='x', ok=ok, year=y) for v, ok, y in [('a', True, 3), ('b', False, 4)]
    ]
    dataset = build(folder, '\n'.join(map(json.dumps, rows)), name='my.jsonl')
    assert dataset.more == {'a': [dict(ok=True, year=3)], 'b': [dict(ok=False, year=4)]}


def test_registered_and_checked_as_the_others(folder):
    (folder / 'my.csv').write_text('filename,text\na,x\n')
    dataset = DATASETS.build(
        dict(
            type='TableDataset',
            split='all',
            table='my.csv',
            videos='clips',
            columns=dict(video='filename'),
            video_pipeline=FRAMES,
            text_pipeline=WORDS,
        )
    )
    assert dataset.protocol()['dataset'] == 'TableDataset' and dataset.metainfo['split'] == 'all'
    with pytest.raises(ValueError, match='epoch_unit'):
        build(folder, 'video,text\na,x\n', epoch_unit='clip')


def test_a_clip_is_a_part_of_its_file(folder):
    table = 'video,text,start,end,duration\na,one,0,.5,1\na,two,0.0,0.5,\na,three,.5,,\na,all,,,\n'
    dataset = build(folder, table)
    assert dataset.videos == [
        dict(video_id='a_0_0.5', path='clips/a.mp4', start=0.0, end=0.5, duration=0.5),
        dict(video_id='a_0.5_end', path='clips/a.mp4', start=0.5, duration=0.5),
        dict(video_id='a', path='clips/a.mp4', duration=1.0),
    ]
    assert ids(dataset)[1] == ['a_0_0.5#0', 'a_0_0.5#1', 'a_0.5_end#0', 'a#0']
    greys = [dataset.load_video(v)['frames'].float().mean().item() for v in range(3)]
    assert greys[0] < greys[2] < greys[1]


def test_a_text_of_several_videos(folder):
    table = 'video,text,text_id\na,a dog,t\nb,a dog,t\nb,a cat,u\n'
    dataset = build(folder, table)
    assert ids(dataset) == (['a', 'b'], ['t', 'u'])
    assert dataset.positives().tolist() == [[True, True], [False, True]]


def test_durations_are_the_tables_or_the_files(folder):
    table = 'video,text,duration,start\na,x,8,\nb,y,,\ndeep/c,z,,0.25\n'
    told = build(folder, table)
    assert [video.get('duration') for video in told.videos] == [8, None, None]
    read = build(folder, table, read_durations=True)
    assert read.lengths('seconds') == pytest.approx([8, 1.0, 0.75], abs=0.05)


def test_times_are_those_of_a_player(folder, write_late):
    """The sound begins 2 s before the first picture; both end at 6 s."""
    write_late(folder / 'clips/late.mp4', late=2.0)
    table = 'video,text,start,end\nlate,x,,\nlate,y,3,4\nlate,z,1,5\n'
    videos = build(folder, table, read_durations=True).videos
    assert [video.get('begin') for video in videos] == [pytest.approx(2), None, pytest.approx(2)]
    assert [video['duration'] for video in videos] == pytest.approx([4, 1, 3], abs=0.01)
    with pytest.raises(ValueError, match='the clip ends before .late. shows its first picture'):
        build(folder, 'video,text,start,end\nlate,x,0,1\n', read_durations=True)
    with pytest.raises(ValueError, match='the clip begins after .late. has ended'):
        build(folder, 'video,text,start,end\nlate,x,6.5,7\n', read_durations=True)


def test_a_file_that_is_no_video_is_found_when_durations_are_read(folder):
    (folder / 'clips/broken.mp4').write_bytes(b'nothing')
    table = 'video,text\na,x\nbroken,y\n'
    with pytest.raises(BrokenVideoError, match='1 of 2 files are not videos: clips/broken.mp4'):
        build(folder, table, read_durations=True)
    dataset = build(folder, table, read_durations=True, on_broken='skip')
    assert ['duration' in video for video in dataset.videos] == [True, False]
    assert 'broken' in dataset.load_video(1)


# -- features ----------------------------------------------------------------------------------


@pytest.mark.parametrize('kind', ['npy', 'hdf5'])
def test_features_in_place_of_videos(folder, kind):
    names = dict(a=2, b=3) | {'deep/c': 4, 'a_0_0.5': 5}
    store = folder / ('feats' if kind == 'npy' else 'feats.h5')
    (folder / 'feats/deep').mkdir(parents=True)
    if kind == 'hdf5':
        h5py = pytest.importorskip('h5py')
        with h5py.File(store, 'w') as file:
            for name, rows in names.items():
                file[name] = np.ones((rows, 3), np.float32)
    else:
        for name, rows in names.items():
            np.save(store / f'{name}.npy', np.ones((rows, 3), np.float32))
    options = dict(videos=store.name, video_pipeline=[dict(type='LoadFeatures', path=str(store))])
    table = 'video,text,start,end\na.mp4,x,,\nb,y,,\ndeep/c.webm,z,,\na,w,0,.5\n'
    dataset = build(folder, table, **options)
    assert ids(dataset)[0] == ['a', 'b', 'deep/c', 'a_0_0.5']
    assert [len(dataset.load_video(v)['frames']) for v in range(4)] == [2, 3, 4, 5]
    assert 'path' not in dataset.videos[0] and dataset.videos[3]['duration'] == 0.5
    with pytest.raises(FileNotFoundError, match='1 of 2 videos are not in feats.*: b_1_2'):
        build(folder, 'video,text,start,end\na,x,,\nb,y,1,2\n', **options)


def test_the_same_splits_for_videos_and_their_features(folder):
    (folder / 'feats').mkdir()
    for name in 'pqrst':
        (folder / f'clips/{name}.mp4').symlink_to(folder / 'clips/a.mp4')
        np.save(folder / f'feats/{name}.npy', np.ones((2, 3), np.float32))
    table = 'video,text\n' + ''.join(f'{name}.mp4,x\n' for name in 'pqrst')
    features = dict(videos='feats', video_pipeline=[dict(type='LoadFeatures', path='feats')])
    for split, count in dict(train=3, val=1, test=1).items():
        own = ids(build(folder, table, split))
        assert len(own[0]) == count and own == ids(build(folder, table, split, **features))


# -- splits ------------------------------------------------------------------------------------


def test_splits_by_the_column(folder):
    table = 'video,text,split\na,x,train\nb,y,test\na,z,train\n'
    assert ids(build(folder, table, 'train')) == (['a'], ['a#0', 'a#1'])
    assert ids(build(folder, table, 'test')) == (['b'], ['b#0'])
    assert build(folder, table, 'test').protocol()['splits'] is None
    with pytest.raises(ValueError, match=r"split 'val'; by its column 'split' it has train 2 rows"):
        build(folder, table, 'val')


def test_splits_by_lot(folder, caplog):
    table = 'video,text,start\na,x,\na,y,.5\nb,z,\nb,w,.5\ndeep/c,u,\n'
    parts = {split: build(folder, table, split) for split in ('train', 'val', 'test', 'all')}
    files = [{video['path'] for video in part.videos} for part in parts.values()]
    assert [len(own) for own in files] == [1, 1, 1, 3] and set.union(*files[:3]) == files[3]
    texts = [text for name in parts if name != 'all' for text in ids(parts[name])[1]]
    assert sorted(texts) == sorted(ids(parts['all'])[1])
    assert parts['val'].protocol()['splits'] == 'drawn by video, seed 0'
    with pytest.raises(ValueError, match=r"no row of split 'dev'; drawn at random it has"):
        build(folder, table, 'dev')
    with pytest.raises(ValueError, match='fractions: '):
        build(folder, table, fractions=dict(train=2))


def test_a_video_of_two_splits(folder):
    table = 'video,text,split\na,x,train\nb,y,test\na.mp4,z,test\n'
    with pytest.raises(
        ValueError, match=r"line 4: 'a.mp4' is of two splits; .*'train' as in line 2"
    ):
        build(folder, table, 'test')


# -- what is said ------------------------------------------------------------------------------


@pytest.fixture
def said():
    """What the log says."""
    lines = []

    class Keep(logging.Handler):
        def emit(self, record):
            lines.append((record.levelname, record.getMessage()))

    handler = Keep()
    MMLogger.get_current_instance().addHandler(handler)
    yield lines
    MMLogger.get_current_instance().removeHandler(handler)


def test_what_it_made_of_the_table(folder, said):
    build(folder, 'video,text,text_id\na,x,1\na,y,2\nb,x,1\n')
    (level, line) = next(one for one in said if one[1].startswith('my.csv'))
    assert level == 'INFO' and line == (
        'my.csv, all: 2 videos, 2 texts, 3 pairs, captions a video 1 to 2; 2 files of clips that '
        'no row names: d.e.mp4, deep/c.webm.'
    )


def test_missing_files_are_an_error_or_are_left_out_and_said(folder, said):
    table = 'video,text\na,x\nz.mp4,y\nz.mp4,w\na.avi,v\ny,u\nx,t\n'
    with pytest.raises(FileNotFoundError) as error:
        build(folder, table)
    assert str(error.value) == (
        'my.csv: 4 of 5 videos are not in clips: z.mp4 in line 3; a.avi in line 5 (there is a.mp4)'
        "; y in line 6; ...; missing='skip' leaves out the rows of missing videos"
    )
    with pytest.raises(FileNotFoundError, match=r'there is a.mp4\); missing='):
        build(folder, 'video,text\na,x\nb.mp4,x\n'.replace('b.mp4', 'my_clips/a.mp4'))
    dataset = build(folder, table, missing='skip')
    assert ids(dataset) == (['a'], ['a#0'])
    assert dataset.protocol()['left_out'] == '4 of 5 clips and 5 of 6 texts'
    assert (
        'WARNING',
        'TableDataset all by my.csv: 4 of 5 clips and 5 of 6 texts are missing and left out '
        '(z.mp4, a.avi, y, ...). Results without them are not those of the whole set.',
    ) in said
    with pytest.raises(ValueError, match="no row of split 'all' is left"):
        build(folder, 'video,text\nz,x\n', missing='skip')
    with pytest.raises(ValueError, match="missing must be 'raise' or 'skip', not 'no'"):
        build(folder, table, missing='no')


# -- what is refused ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    'rows, said',
    [
        ('../a,x', "line 2: this video is not in clips; expected a path in that folder, found '"),
        ('/etc/a.mp4,x', 'line 2: this video is not in clips'),
        ('deep/../../b,x', 'line 2: this video is not in clips'),
        (
            'notes.txt,x',
            "line 2: 'notes.txt' is of another kind; expected a video file, found '.txt'",
        ),
    ],
)
def test_names_that_are_no_video_of_the_folder(folder, rows, said):
    with pytest.raises(ValueError, match=said):
        build(folder, f'video,text\n{rows}\n', missing='skip')


def test_a_name_of_two_files(folder):
    (folder / 'clips/a.webm').write_bytes((folder / 'clips/deep/c.webm').read_bytes())
    with pytest.raises(ValueError, match=r"line 2: 'a' fits 2 files; .*\['a.mp4', 'a.webm'\]"):
        build(folder, 'video,text\na,x\n')
    assert ids(build(folder, 'video,text\na.mp4,x\na.webm,y\n'))[0] == ['a.mp4', 'a.webm']


@pytest.mark.parametrize(
    'rows, said',
    [
        (
            'a,x,1,\nb,y,1,',
            r"line 3: text_id '1' has two texts; expected 'x' as in line 2, found 'y'",
        ),
        ('a,x,1,\na.mp4,x,1,', "line 3: text_id '1' stands twice for 'a.mp4'"),
        ('a,x,1,5\na,y,2,6', r"line 3: 'a' has two durations; expected 5 as in line 2, found 6"),
    ],
)
def test_rows_that_contradict_each_other(folder, rows, said):
    with pytest.raises(ValueError, match=said):
        build(folder, f'video,text,text_id,duration\n{rows}\n')


def test_a_clip_behind_the_end_of_its_file(folder):
    with pytest.raises(ValueError, match="line 2: the clip begins after 'a' has ended"):
        build(folder, 'video,text,start\na,x,7\n', read_durations=True)


def test_folders_of_no_kind_or_of_two(folder):
    table = 'video,text\na,x\n'
    (folder / 'none').mkdir()
    for videos, said in (
        ('none', 'none: holds no video and no features; .* found nothing'),
        ('my.csv', 'my.csv: expected a folder of videos or features, or a .h5 file'),
    ):
        with pytest.raises(ValueError, match=said):
            build(folder, table, videos=videos)
    with pytest.raises(FileNotFoundError, match='no such folder of videos, .*: gone'):
        build(folder, table, videos='gone')
    np.save(folder / 'none/a.npy', np.ones((2, 3), np.float32))
    with pytest.raises(
        ValueError, match='none: holds features, but the video pipeline begins with'
    ):
        build(folder, table, videos='none')
    features = [dict(type='LoadFeatures', path='clips')]
    with pytest.raises(ValueError, match='clips: holds videos, but the video pipeline begins with'):
        build(folder, table, video_pipeline=features)
    np.save(folder / 'clips/a.npy', np.ones((2, 3), np.float32))
    with pytest.raises(ValueError, match=r'clips: holds 4 videos \(a.mp4, ...\) and 1 features'):
        build(folder, table)


def test_a_table_of_bad_values_is_refused_with_its_row(folder):
    with pytest.raises(ValueError, match="my.csv: line 3, 'text': expected a caption"):
        build(folder, 'video,text\na,x\nb, \n')


# -- all of it in one round --------------------------------------------------------------------


def test_all_kinds_of_problems_of_all_splits_come_together(folder):
    (folder / 'clips/broken.mp4').write_bytes(b'nothing')
    rows = [
        'a,x,train,,', 'a,x,train,,', 'b,,train,,', 'notes.txt,x,train,,', 'gone,x,train,,',
        '../a,y,val,,', 'd.e,x,val,3,2', 'lost,x,test,,', 'broken,x,test,,', 'deep/c,x,test,7,',
        'b,y,train', 'deep/c,x,train,soon,', 'lost,z,test,,',
    ]  # fmt: skip
    table = 'video,text,split,start,end\n' + '\n'.join(rows)
    for split in ('train', 'val', 'test'):
        with pytest.raises(ValueError) as error:
            build(folder, table, split, read_durations=True)
        lines = [line.strip() for line in str(error.value).splitlines()]
        assert lines[0] == 'my.csv has 9 kinds of problems:'
        for said in (
            r'row of another width (1): line 12: expected 5 fields',
            r'invalid time (2): line 8: the clip ends before it begins; expected',
            r"empty or unfit caption (1): line 4, 'text': ",
            r"name that fits no video of the folder (2): line 5: 'notes.txt' is of another kind; ",
            "1 rows repeat a video and its text: line 3 as line 2: 'a', 'x'",
            r"video of two splits (1): line 13: 'deep/c' is of two splits; expected",
            r"clip without pictures of its file (1): line 11: the clip begins after 'deep/c' has",
            r'2 of 8 videos are not in clips: gone in line 6; lost in line 9',
            r'1 of 5 files are not videos: clips/broken.mp4: ',
            r"missing='skip' leaves out the rows of missing videos",
            r"on_broken=dict(skip='broken_videos.txt') leaves out what is listed there",
        ):
            assert sum(line.startswith(said) for line in lines) == 1, said
        assert len(lines) == 12
    assert [video['video_id'] for video in error.value.videos][:2] == ['a', 'b']


@pytest.mark.parametrize(
    'rows, count, first',
    [
        ('a,x\na,y\na.mp4,x', 1, "line 4 as line 2: 'a.mp4', 'x'"),
        ('a,x\n./a, x ', 1, "line 3 as line 2: './a', 'x'"),
        ('b,x\na,x\na,x\na,x\na,x\na,x', 4, "line 4 as line 3: 'a', 'x'; line 5 as line 3: 'a'"),
    ],
)
def test_rows_that_stand_twice(folder, said, rows, count, first):
    """Two people may say the same: alone it is a warning, beside problems one more of them."""
    total = len(rows.split('\n'))
    build(folder, f'video,text\n{rows}\n')
    (line,) = [line for level, line in said if level == 'WARNING' and ' repeat ' in line]
    begin = f'TableDataset all by my.csv: {count} of {total} rows repeat a video and its text, and'
    assert line.startswith(f'{begin} count twice: {first}')
    assert line.endswith('; ...') == (count > 3)
    with pytest.raises(ValueError, match=f'\n  {count} rows repeat a video and its text: {first}'):
        build(folder, f'video,text\n{rows}\na,\n')
    with pytest.raises(FileNotFoundError, match=f'\n  {count} rows repeat a video and its text'):
        build(folder, f'video,text\n{rows}\ngone,x\n')


def test_missing_files_of_other_splits_do_not_matter(folder):
    table = 'video,text,split\na,x,test\ngone,y,train\nlost,z,val\n'
    assert ids(build(folder, table, 'test'))[0] == ['a']
    for split in ('train', 'val'):
        with pytest.raises(
            FileNotFoundError, match='2 of 3 .* in clips: (gone in line 3|lost in line 4);'
        ):
            build(folder, table, split)


@pytest.mark.parametrize('name', ['broken', 'broken.mp4', 'brökèn.mp4', 'bro\u0308ke\u0300n'])
def test_what_on_broken_lists_is_left_out(folder, name):
    """By its id, or by the name of its file, whatever the spelling of its accents."""
    stem = 'broken' if name.isascii() else 'brökèn'
    (folder / f'clips/{stem}.mp4').write_bytes(b'nothing')
    (folder / 'list.txt').write_text(f'{name}\nnobody\tno reason\n', encoding='utf-8')
    table = f'video,text\na,x\n{stem},y\n'
    skip = dict(on_broken=dict(skip='list.txt'), read_durations=True)
    assert [*build(folder, table, **skip).known_broken] == [stem]
    (folder / f'clips/{stem}.mp4').unlink()
    assert ids(build(folder, table, **skip))[0] == ['a']  # nobody needs the file
