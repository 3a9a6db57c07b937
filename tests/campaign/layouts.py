"""The layouts of annotations that the project reads: tiny files of each, and how it is loaded."""

from __future__ import annotations

import json
import pickle
from functools import partial
from pathlib import Path
from typing import Any, Callable, NamedTuple

import h5py
import numpy as np

from campaign import references
from campaign.references import Reading
from miniatures import (
    MSVD_CAPTIONS,
    write_activitynet,
    write_didemo,
    write_epic,
    write_json,
    write_lsmdc,
    write_msrvtt,
    write_msvd,
    write_prvr,
    write_prvr_captions,
    write_vatex,
    write_youcook2,
    youcook2_database,
)
from mmvtr.datasets import (
    ActivityNetDataset,
    ActivityNetMomentsDataset,
    CharadesSTADataset,
    DiDeMoDataset,
    EPICKitchensDataset,
    LSMDCDataset,
    MSRVTTDataset,
    MSVDDataset,
    TableDataset,
    TVRDataset,
    VATEXDataset,
    VideoTextDataset,
    YouCook2Dataset,
)


class Layout(NamedTuple):
    """What is spoiled and read.

    Attributes:
        write: puts the files into a folder.
        load: builds a dataset of the folder.
        reading: what the files of a folder say, see :mod:`campaign.references`.
    """

    write: Callable[[Path], None]
    load: Callable[[Path], VideoTextDataset]
    reading: Reading


def words(record: dict[str, Any]) -> dict[str, Any]:
    """A text pipeline that needs no file."""
    return dict(record, token_ids=np.array([len(word) for word in record['text'].split()]))


#: What stands for the features of a video whose files have none.
MADE_UP = np.ones((2, 3), np.float32)


def frames(record: dict[str, Any]) -> dict[str, Any]:
    """A video pipeline that needs none."""
    return dict(record, features=MADE_UP)


def build(cls: type, split: str, root: Path, **kwargs: Any) -> VideoTextDataset:
    """A split of the files in a folder, whose items need no other files."""
    steps = dict(video_pipeline=[frames], text_pipeline=[words])
    return cls(split, ann_root=str(root), **{**steps, **kwargs})


def _msrvtt_merged(root: Path) -> None:
    write_msrvtt(root)
    parts = [root / f'{part}_videodatainfo.json' for part in ('train_val', 'test')]
    one, other = (json.loads(part.read_text()) for part in parts)
    write_json(root, 'MSRVTT_data.json', {k: one[k] + other[k] for k in ('videos', 'sentences')})
    for path in (*parts, *root.glob('*.full.csv')):
        path.unlink()


def _msvd_pickle(root: Path) -> None:
    write_msvd(root)
    (root / 'captions_msvd.json').unlink()
    content = {name: [text.split() for text in texts] for name, texts in MSVD_CAPTIONS.items()}
    (root / 'raw-captions.pkl').write_bytes(pickle.dumps(content))


def _activitynet_lists(root: Path) -> None:
    write_activitynet(root)
    (root / 'collaborative-experts').mkdir()
    (root / 'collaborative-experts/train_list.txt').write_text('v_a\nv_b\n')


def _didemo_lists(root: Path) -> None:
    write_didemo(root)
    (root / 'collaborative-experts').mkdir()
    (root / 'collaborative-experts/train_list.txt').write_text('u@N0_1_a.mov\nu@N0_2_b.\n')


def _prvr(cls: type, root: Path) -> None:
    write_prvr(root, cls, 'train', 'cd')
    write_prvr(root, cls, 'test', 'ab')


def _prvr_captions(cls: type, root: Path) -> None:
    write_prvr(root, cls, 'test', 'ab')
    lines = 'b#enc#0 it s  a cat\na#enc#1  A dog sits\na#enc#0 Two dogs run.\n'
    write_prvr_captions(root, f'{cls.collection}test', lines)


def _youcook2(root: Path) -> None:
    write_youcook2(root, youcook2_database())
    (root / 'yc2_duration_frame.csv').write_text('a_-b,100.0,2997\nd,10,4\nc,9,90\nz,1,1\n')


def _vatex_classes(root: Path) -> None:
    write_vatex(root)
    ids = [f'{clip}#{n}' for clip in 'cdef' for n in range(10)]
    write_json(root, 'classes.json', {i: dict(verb=[1, n], noun=[2]) for n, i in enumerate(ids)})


def _load_classes(root: Path) -> VideoTextDataset:
    parser = dict(type='CaptionClasses', parser=str(root / 'classes.json'))
    return build(VATEXDataset, 'val', root, records=dict(classes=parser))


def _features(name: str) -> np.ndarray:
    """Numbers that no other video has."""
    return np.random.default_rng([*name.encode()]).random((2, 3)).astype('<f4')


def _msvd_npy(root: Path) -> None:
    write_msvd(root)
    (root / 'npy').mkdir()
    for name in MSVD_CAPTIONS:
        np.save(root / f'npy/{name}.npy', _features(name))


def _msvd_hdf5(root: Path) -> None:
    write_msvd(root)
    with h5py.File(root / 'store.h5', 'w') as file:
        for name in MSVD_CAPTIONS:
            file[name] = _features(name)


def _msvd_bigfile(root: Path) -> None:
    write_msvd(root)
    (root / 'big').mkdir()
    rows = {name: [f'{name}_{i}' for i in range(2)] for name in MSVD_CAPTIONS}
    (root / 'big/shape.txt').write_text('8 3\n')
    (root / 'big/id.txt').write_text(' '.join(row for own in rows.values() for row in own))
    (root / 'big/video2frames.txt').write_text(repr(rows))
    np.concatenate([*map(_features, rows)]).tofile(root / 'big/feature.bin')


def _load_features(store: str, root: Path) -> VideoTextDataset:
    steps = [dict(type='LoadFeatures', path=str(root / store))]
    return build(MSVDDataset, 'train', root, video_pipeline=steps)


OWN_CSV = (
    'video,text,start,end,note\na.mp4,a dog,,,x\nb,"a cat, asleep",1.5,4,y\nb,it wakes,1.5,4,z\n'
)
OWN_LINES = [
    dict(video='a', text=['a dog', 'it barks']),
    dict(video='sub/c.mp4', text='rain', start=2, end=9.5),
    dict(video='a.mp4', text='a tree', start=3),
]


def _own(table: str, root: Path) -> None:
    for name in ('a', 'b', 'sub/c'):
        (root / 'videos' / name).parent.mkdir(parents=True, exist_ok=True)
        (root / f'videos/{name}.mp4').touch()
    text = OWN_CSV if table == 'own.csv' else '\n'.join(map(json.dumps, OWN_LINES))
    (root / table).write_text(text)


def _load_own(table: str, root: Path) -> VideoTextDataset:
    return TableDataset(
        'all',
        table=str(root / table),
        videos=str(root / 'videos'),
        video_pipeline=[frames],
        text_pipeline=[words],
    )


def _layout(write: Callable[[Path], None], cls: type, split: str, reading: Reading) -> Layout:
    return Layout(write, partial(build, cls, split), reading)


def _moments(cls: type, moments: Callable, official: dict[str, str]) -> dict[str, Layout]:
    """With and without the text file of captions."""
    readings = {
        split: partial(
            references.prvr, moments, official[split], f'{cls.collection}{split}.caption.txt'
        )
        for split in ('train', 'test')
    }
    return {
        cls.title: _layout(partial(_prvr, cls), cls, 'train', readings['train']),
        f'{cls.title}, captions': _layout(
            partial(_prvr_captions, cls), cls, 'test', readings['test']
        ),
    }


#: By the name of the table's row.
LAYOUTS = {
    'MSR-VTT 1k-A train': _layout(
        write_msrvtt, MSRVTTDataset, '1kA_train9k', partial(references.msrvtt, split='1kA_train9k')
    ),
    'MSR-VTT 1k-A test': _layout(
        write_msrvtt, MSRVTTDataset, '1kA_test', partial(references.msrvtt, split='1kA_test')
    ),
    'MSR-VTT full, merged': _layout(
        _msrvtt_merged, MSRVTTDataset, 'full_train', partial(references.msrvtt, split='full_train')
    ),
    'MSVD json': _layout(write_msvd, MSVDDataset, 'train', references.msvd),
    'MSVD pickle': _layout(_msvd_pickle, MSVDDataset, 'train', references.msvd),
    'ActivityNet': _layout(_activitynet_lists, ActivityNetDataset, 'train', references.activitynet),
    'VATEX': _layout(write_vatex, VATEXDataset, 'test', partial(references.vatex, split='test')),
    'VATEX with classes': Layout(_vatex_classes, _load_classes, references.vatex_classes),
    'DiDeMo': _layout(write_didemo, DiDeMoDataset, 'train', references.didemo),
    'DiDeMo with lists': _layout(_didemo_lists, DiDeMoDataset, 'train', references.didemo),
    **_moments(
        TVRDataset,
        references.tvr_moments,
        dict(train='tvr_train_release.jsonl', test='tvr_val_release.jsonl'),
    ),
    **_moments(
        ActivityNetMomentsDataset,
        references.activitynet_moments,
        dict(train='train.json', test='val_1.json'),
    ),
    **_moments(
        CharadesSTADataset,
        references.charades_moments,
        dict(train='charades_sta_train.txt', test='charades_sta_test.txt'),
    ),
    'EPIC train': _layout(
        write_epic, EPICKitchensDataset, 'train', partial(references.epic, split='train')
    ),
    'EPIC test': _layout(
        write_epic, EPICKitchensDataset, 'test', partial(references.epic, split='test')
    ),
    'LSMDC': _layout(write_lsmdc, LSMDCDataset, 'train', references.lsmdc),
    'YouCook2': _layout(_youcook2, YouCook2Dataset, 'train', references.youcook2),
    **{
        f'own {table[4:]}': Layout(
            partial(_own, table), partial(_load_own, table), partial(references.own, table)
        )
        for table in ('own.csv', 'own.jsonl')
    },
    'npy features': Layout(
        _msvd_npy,
        partial(_load_features, 'npy'),
        partial(references.with_features, references.npy),
    ),
    'hdf5 features': Layout(
        _msvd_hdf5,
        partial(_load_features, 'store.h5'),
        partial(references.with_features, references.hdf5),
    ),
    'BigFile features': Layout(
        _msvd_bigfile,
        partial(_load_features, 'big'),
        partial(references.with_features, references.bigfile),
    ),
}
