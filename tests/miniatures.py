"""Published datasets in miniature: the layouts of their annotation files, with a few videos each.

The tests of the formats read them, and the campaign spoils them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Iterable

from mmvtr.datasets import ActivityNetMomentsDataset, TVRDataset
from mmvtr.datasets.formats import epic, vatex, youcook2

# -- MSR-VTT -----------------------------------------------------------------------------------

#: Train video0-1, validation video2, test video3-4; sentences are not grouped by video.
PART_OF = dict(video0='train', video1='train', video2='validate', video3='test', video4='test')


def msrvtt_json(names: list[str], first_id: int) -> dict[str, Any]:
    """What a json file says of videos of three captions each."""
    videos = [
        {'video_id': name, 'split': PART_OF[name], 'start time': 90.0, 'end time': 99.0}
        for name in names
    ]
    sentences = [
        dict(caption=f'caption {i} of {name}', video_id=name, sen_id=first_id + i * len(names) + j)
        for i in range(3)
        for j, name in enumerate(names)
    ]
    return dict(info={}, videos=videos, sentences=sentences)


def write_json(root: Path, name: str, value: Any) -> None:
    """``root/name``."""
    (root / name).write_text(json.dumps(value))


def write_column(root: Path, name: str, ids: Iterable[str]) -> None:
    """A csv list of videos."""
    (root / name).write_text('\n'.join(['video_id', *ids]) + '\n')


def write_msrvtt(root: Path) -> None:
    """The official layout with five videos of three captions."""
    write_json(root, 'train_val_videodatainfo.json', msrvtt_json(['video0', 'video1', 'video2'], 0))
    write_json(root, 'test_videodatainfo.json', msrvtt_json(['video3', 'video4'], 9))
    write_column(root, 'MSRVTT_train.9k.csv', ['video3', 'video0', 'video1', 'video2'])
    write_column(root, 'MSRVTT_train.7k.csv', ['video0', 'video1'])
    for part, ids in dict(train=['video1', 'video0'], val=['video2'], test=['video3']).items():
        write_column(root, f'MSRVTT_{part}.full.csv', ids)
    (root / 'MSRVTT_JSFUSION_test.csv').write_text(
        'key,vid_key,video_id,sentence\nret0,msr4,video4,"a man, a dog and a cat"\n'
    )


# -- MSVD --------------------------------------------------------------------------------------

MSVD_CAPTIONS = {
    'a_0_5': ['a cat runs', 'a cat is running', 'a cat runs'],
    'b_1_9': ['a man sings'],
    'c_2_7': ['two dogs', 'dogs play'],
    'd_3_4': ['a car'],
}
MSVD_LISTS = dict(train=['b_1_9', 'a_0_5'], val=['c_2_7'], test=['d_3_4'])


def write_msvd(root: Path) -> None:
    """The official layout with four clips; the lists end with and without a line end."""
    write_json(root, 'captions_msvd.json', MSVD_CAPTIONS)
    for split, ids in MSVD_LISTS.items():
        end = '\r\n' if split == 'train' else ''
        (root / f'{split}_list.txt').write_text('\n'.join(ids) + end)


# -- ActivityNet Captions, paragraphs ------------------------------------------------------------

ACTIVITYNET = dict(
    train={
        'v_b': dict(
            duration=9.0, timestamps=[[4, 9], [0, 4]], sentences=['It ends. ', ' It begins.']
        ),
        'v_a': dict(duration=5.0, timestamps=[[0, 5]], sentences=['A dog\nruns.']),
    },
    val_1={'v_c': dict(duration=5.0, timestamps=[[0, 5]], sentences=['A cat sleeps.'])},
    val_2={'v_c': dict(duration=5.0, timestamps=[[0, 5]], sentences=['The cat is tired.'])},
)


def write_activitynet(root: Path) -> None:
    """The official layout with two videos to train on and one to test on, described twice."""
    for name, content in ACTIVITYNET.items():
        write_json(root, f'{name}.json', content)


# -- VATEX -------------------------------------------------------------------------------------


def vatex_entry(name: str) -> dict[str, Any]:
    """A clip of ten captions."""
    return dict(videoID=name, enCap=[f'{name} caption {n}' for n in range(10)], chCap=['一个人'])


def write_vatex_captions(root: Path, file: str, names: Iterable[str]) -> None:
    """A json list of clips."""
    write_json(root, file, [vatex_entry(name) for name in names])


def write_vatex(root: Path) -> None:
    """The official layout; the second test list mixes val and test."""
    write_vatex_captions(root, vatex.TRAINING, ['a_000000_000010', 'b_000001_000011'])
    write_vatex_captions(root, vatex.VALIDATION, ['c', 'd', 'e', 'f'])
    lists = dict(val=['d', 'c'], test=['e', 'f'], test1k5_sec=['c', 'f'])
    for name, ids in lists.items():
        (root / f'{name}_list.txt').write_text('\n'.join(ids))


# -- DiDeMo ------------------------------------------------------------------------------------

#: Of two videos each, rows not grouped by video.
DIDEMO = {
    'train': [
        ('u@N0_1_a.mov', ' a man waves'),
        ('u@N0_2_b.', 'a dog'),
        ('u@N0_1_a.mov', 'he sits'),
    ],
    'val': [('u@N0_3_c.mp4', 'a cat')],
    'test': [('u@N0_4_d.mp4', 'a car.'), ('u@N0_5_e.3gp', 'rain')],
}


def write_didemo_rows(root: Path, split: str, pairs: Iterable[tuple[str, str]]) -> None:
    """The json of a split."""
    rows = [
        dict(num_segments=6, description=text, times=[[0, 0]], video=video, annotation_id=i)
        for i, (video, text) in enumerate(pairs)
    ]
    write_json(root, f'{split}_data.json', rows)


def write_didemo(root: Path) -> None:
    """The official json files, without lists."""
    for split, pairs in DIDEMO.items():
        write_didemo_rows(root, split, pairs)


# -- LSMDC -------------------------------------------------------------------------------------

_TIMES = '00.00.01.000\t00.00.02.000\t00.00.00.500\t00.00.02.500'
#: Lines of the training file, each with what is irregular about it.
LSMDC_TRAIN = [
    f'0001_A_Film_00.00.01.000-00.00.02.000\t{_TIMES}\tSOMEONE smiles.',
    f'"0001_A_Film_00.00.03.000-00.00.05.000\t{_TIMES}\t"Go," he says.',  # a stray quote
    f'1014_2012_00.01.21.399-00.01.23.997\t{_TIMES}\t',  # no sentence
    f'1014_2012_00.27.58.174-00.27.59.021\t{_TIMES}',  # no sentence, stripped
    f'3002_B_00.00.01.000-00.00.04.000  \t{_TIMES}\tRain falls.',  # blanks
    f'0001_A_Film_00.00.01.000-00.00.02.000\t{_TIMES}\tSOMEONE smiles.',  # said twice
    f'3002_B_00.00.05.000-00.00.06.000.avi\t{_TIMES}\tA car, "red", stops.',  # a suffix
    f'" 3002_B_00.00.01.000-00.00.04.000\t{_TIMES}\tIt rains.',  # three of these at once
    f'1012_Unbreakable_00.05.16.065-00.05.21.941\t{_TIMES}\tA door opens.',
]
LSMDC_FILES = {
    'LSMDC16_annos_training.csv': LSMDC_TRAIN,
    'LSMDC16_annos_val.csv': [
        f'1005_V_00.00.01.000-00.00.02.000\t{_TIMES}\tShe waits.',
        f'1005_V_00.00.01.000-00.00.02.000\t{_TIMES}\tShe stands still.',
    ],
    'LSMDC16_challenge_1000_publictect.csv': [
        f'1006_T_00.00.01.000-00.00.02.000\t{_TIMES}\ta dog',
        f'3011_U_00.00.01.000-00.00.02.000\t{_TIMES}\tA cat.',
    ],
}


def write_lsmdc(root: Path) -> None:
    """The official layout; the training file has every irregularity that loaders met."""
    for name, lines in LSMDC_FILES.items():
        (root / name).write_bytes('\r\n'.join([*lines, '']).encode())


# -- PRVR: TVR, ActivityNet Captions, Charades-STA ---------------------------------------------


def write_prvr(root: Path, cls: type, split: str = 'test', videos: str = 'ab') -> None:
    """Two videos of 10 s: moments 2-4 and 1-12 (too long) of the first, 5-5 of the second."""
    first, second = videos
    moments = [
        (first, 2, 4, ' A dog runs. '),
        (second, 5, 5, "It's a cat."),
        (first, 1.0, 12.0, 'A dog sits.'),
    ]
    source = root / cls.splits[split].source
    if cls is TVRDataset:
        keys = ('vid_name', 'duration', 'ts', 'desc', 'type', 'desc_id')
        rows = [(v, 10.0, [s, e], t, 'v', i) for i, (v, s, e, t) in enumerate(moments)]
        source.write_text(''.join(json.dumps(dict(zip(keys, row))) + '\n' for row in rows))
    elif cls is ActivityNetMomentsDataset:
        content: dict[str, Any] = {}
        for v, start, end, text in moments:
            entry = content.setdefault(v, dict(duration=10, timestamps=[], sentences=[]))
            entry['timestamps'].append([start, end])
            entry['sentences'].append(text)
        source.write_text(json.dumps(content))
    else:
        source.write_text(''.join(f'{v} {s} {e}##{t}\n' for v, s, e, t in moments))
        lengths = ''.join(f'{v},10\n' for v in videos)
        (root / f'Charades_v1_{split}.csv').write_text(f'id,length\n{lengths}')


def write_prvr_captions(root: Path, name: str, text: str) -> Path:
    """A text file of MS-SL's layout; its path."""
    path = root / 'TextData' / f'{name}.caption.txt'
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


# -- EPIC-KITCHENS-100 -------------------------------------------------------------------------

EPIC_HEADER = (
    'narration_id,participant_id,video_id,narration_timestamp,start_timestamp,stop_timestamp,'
    'start_frame,stop_frame,narration,verb,verb_class,noun,noun_class,all_nouns,all_noun_classes'
)
#: Clips 0 and 3 are of the same verb and nouns, these in another order; 1 and 2 share a noun.
EPIC_CLIPS = [
    'P01_01_0,P01,P01_01,00:00:01.089,00:00:00.14,00:00:03.37,8,202,take plate and cup,take,0,'
    'plate,2,"[\'plate\', \'cup\']","[2, 13]"',
    'P01_01_1,P01,P01_01,,00:01:00.00,01:00:02.50,3600,180150,put down cup,put-down,1,'
    "cup,13,['cup'],[13]",
    'P02_101_7,P02,P02_101,,00:00:01.00,00:00:02.00,50,100,wash cup,wash,2,'
    "cup,13,['cup'],[13]",
    'P02_101_8,P02,P02_101,,00:00:03.00,00:00:04.00,150,200,grab cups and plates,grab,0,'
    'cup,13,"[\'cup\', \'plate\', \'cup:coffee\']","[13, 2, 13]"',
]  # fmt: skip
EPIC_SENTENCES = ['P01_01_0,take plate and cup', 'P01_01_1,put down cup', 'P02_101_7,put down cup']


def write_epic_csv(root: Path, name: str, *lines: str) -> None:
    """A csv file of these lines."""
    (root / epic.FOLDER).mkdir(exist_ok=True)
    (root / name).write_text('\n'.join(lines) + '\n')


def write_epic(root: Path) -> None:
    """The official layout; clips to test on that are not those to train on."""
    write_epic_csv(root, epic.TRAIN, EPIC_HEADER, *EPIC_CLIPS)
    write_epic_csv(root, epic.TRAIN_SENTENCES, 'narration_id,narration', EPIC_SENTENCES[1])
    test = [clip.replace('P0', 'P3').replace('_101', '_102') for clip in EPIC_CLIPS]
    write_epic_csv(root, epic.TEST, EPIC_HEADER, *test)
    sentences = [row.replace('P0', 'P3').replace('_101', '_102') for row in EPIC_SENTENCES]
    write_epic_csv(root, epic.TEST_SENTENCES, 'narration_id,narration', *sentences)


# -- YouCook2 ----------------------------------------------------------------------------------


def youcook2_entry(subset: str, *segments: tuple[int, int]) -> dict[str, Any]:
    """A video and its segments."""
    annotations = [
        dict(segment=list(segment), id=n, sentence=f' step {n} \n')
        for n, segment in enumerate(segments)
    ]
    return dict(duration=99.5, subset=subset, recipe_type='113', annotations=annotations)


def youcook2_database() -> dict[str, Any]:
    """Two videos to train on, one to validate on."""
    return {
        'a_-b': youcook2_entry('training', (3, 13), (20, 24)),
        'c': youcook2_entry('validation', (0, 2)),
        'd': youcook2_entry('training', (5, 6)),
    }


def write_youcook2(root: Path, database: dict[str, Any]) -> None:
    """The official layout."""
    write_json(root, youcook2.ANNOTATIONS, dict(database=database))


def _flickr8k_captions(name: str, n: int) -> list[str]:
    animal, act = ('dog', 'hound', 'runs') if n % 2 else ('cat', 'kitten', 'sits'), n % 3
    place = ('on grass', 'in snow', 'by a lake')[act]
    return [
        f'A {animal[0]} {animal[2]} {place} .',
        f'The {animal[1]} is {place} .',
        f'One {animal[0]} {place} .',
        f'A {animal[1]} {animal[2]} .',
        f'{animal[0]} and {name[0]} {place}',
    ]


#: Images by split, and their five captions.
FLICKR8K_IMAGES = {
    split: {f'{split[0]}{n}.jpg': _flickr8k_captions(split, n) for n in range(count)}
    for split, count in (('train', 2), ('dev', 1), ('test', 2))
}
FLICKR8K_IMAGES['train'] = {
    f'n{n}.jpg': captions for n, captions in enumerate(FLICKR8K_IMAGES['train'].values())
}


def write_flickr8k(root: Path) -> None:
    """The lists of images and all captions."""
    lines = []
    for split, images in FLICKR8K_IMAGES.items():
        (root / f'Flickr_8k.{split}Images.txt').write_text('\n'.join(images) + '\n')
        for name, captions in images.items():
            lines += [f'{name}#{n}\t{caption}' for n, caption in enumerate(captions)]
    (root / 'Flickr8k.token.txt').write_text('\n'.join(lines) + '\n')
