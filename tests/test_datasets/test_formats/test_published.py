"""What the published datasets share: errors, the warning about counts, their base configs."""

import json
import logging
from pathlib import Path

import pytest
from mmengine.config import Config
from mmengine.logging import MMLogger

from miniatures import EPIC_HEADER, write_epic, write_lsmdc, write_msrvtt, write_msvd
from mmvtr.datasets import (
    ActivityNetDataset,
    ActivityNetMomentsDataset,
    CharadesSTADataset,
    DiDeMoDataset,
    EPICKitchensDataset,
    LSMDCDataset,
    MSRVTTDataset,
    MSVDDataset,
    TVRDataset,
    VATEXDataset,
    YouCook2Dataset,
)
from mmvtr.datasets.annotation_files import read_ids
from mmvtr.datasets.formats import epic
from mmvtr.registry import DATASETS
from mmvtr.utils import register_all_modules

BASES = Path(__file__).parents[3] / 'configs/_base_'
VATEX = [dict(videoID='a', enCap=['a dog']), dict(videoID='b', enCap=['a cat'])]
DIDEMO = [dict(video='a.mov', description='a dog'), dict(video='b.mov', description='a cat')]
#: Two videos in the files of every split; enough for all but the check of leaks.
FILES = {
    MSVDDataset: {
        'captions_msvd.json': dict(a=['a dog'], b=['a cat']),
        **{f'{split}_list.txt': 'a\nb' for split in ('train', 'val', 'test')},
    },
    ActivityNetDataset: {
        f'{name}.json': dict(a=dict(sentences=['a dog']), b=dict(sentences=['a cat']))
        for name in ('train', 'val_1', 'val_2')
    },
    VATEXDataset: {
        'vatex_training_v1.0.json': VATEX,
        'vatex_validation_v1.0.json': VATEX,
        'val_list.txt': 'a\nb',
        'test_list.txt': 'a\nb',
    },
    DiDeMoDataset: {f'{split}_data.json': DIDEMO for split in ('train', 'val', 'test')},
}
EVALUATED = [(cls, split) for cls in FILES for split in cls.splits if split in ('test', 'val1')]


def write(root: Path, cls: type) -> None:
    for name, content in FILES[cls].items():
        (root / name).write_text(content if isinstance(content, str) else json.dumps(content))


def build(cls: type, split: str, root: Path):
    return cls(split, ann_root=str(root), video_pipeline=[], text_pipeline=[])


@pytest.fixture
def warnings(caplog):
    logger = MMLogger.get_current_instance()
    logger.addHandler(caplog.handler)
    with caplog.at_level(logging.WARNING):
        yield caplog
    logger.removeHandler(caplog.handler)


@pytest.mark.parametrize('cls, split', EVALUATED)
def test_other_counts_than_published_are_told(tmp_path, warnings, cls, split):
    write(tmp_path, cls)
    assert len(build(cls, split, tmp_path).videos) == 2
    published = cls.splits[split]
    (message,) = warnings.messages
    assert f'{cls.title} {split} has 2 videos and 2 texts here' in message
    assert f'published: {published.videos} and {published.texts}' in message


def test_published_counts_are_not_worth_a_word(shared, warnings):
    build(ActivityNetDataset, 'val1', shared / 'data/ActivityNetCaptions')
    assert warnings.messages == []


@pytest.mark.parametrize('cls', FILES)
def test_wrong_split_name(tmp_path, cls):
    with pytest.raises(ValueError, match=f"{cls.title} has no split 'dev'; expected one of .'trai"):
        build(cls, 'dev', tmp_path)


@pytest.mark.parametrize('cls, split', EVALUATED)
def test_missing_file_names_itself_and_the_layout(tmp_path, cls, split):
    message = (
        f'{cls.title} split {split!r} needs {tmp_path}/.*. Expected in {tmp_path}: .*; videos/'
    )
    with pytest.raises(FileNotFoundError, match=message):
        build(cls, split, tmp_path)


@pytest.mark.parametrize('cls', FILES)
def test_training_videos_that_are_also_tested(tmp_path, cls):
    write(tmp_path, cls)
    with pytest.raises(
        ValueError, match=f"{cls.title} train: 2 videos of .*train.* are also in .*'a"
    ):
        build(cls, 'train', tmp_path)


def test_lists(tmp_path):
    path = tmp_path / 'list.txt'
    path.write_bytes(b'\xef\xbb\xbfa b \r\n\r\n\tc\n')
    assert read_ids(path) == ['a b', 'c']
    path.write_text(' \n')
    with pytest.raises(ValueError, match='list.txt: lists no video'):
        read_ids(path)


@pytest.mark.parametrize('name', ['msvd', 'activitynet', 'vatex', 'didemo', 'lsmdc'])
def test_base_config(tmp_path, name):
    register_all_modules()
    cfg = Config.fromfile(BASES / f'{name}.py')
    cls = DATASETS.get(cfg.test_dataloader.dataset.type)
    write_lsmdc(tmp_path) if cls is LSMDCDataset else write(tmp_path, cls)
    sets = {}
    for part in ('val', 'test'):
        if f'{part}_dataloader' in cfg:
            dataset = cfg[f'{part}_dataloader'].dataset
            dataset.video_pipeline.pop(0)  # there are no files
            sets[part] = DATASETS.build(dict(**dataset, ann_root=str(tmp_path)))
    assert sets['test'].load_text(0)['tokens'].tolist() == [49406, 320, 1929, 49407]
    assert ('val' in sets) == (name != 'activitynet'), 'val1 is the test set, nothing validates'
    train = cfg.train_dataloader
    assert train.batch_size == 128 and train.dataset.split == 'train'
    long = 64 if name in ('activitynet', 'didemo') else None
    assert train.dataset.video_pipeline[0].num_frames == (long or 12)
    assert train.dataset.text_pipeline[0].context_length == (long or 32)


EMPTY = [
    (MSRVTTDataset, 'full_val', 'MSRVTT_val.full.csv', 'video_id\n', 'val.full.csv: has no rows'),
    (MSRVTTDataset, '1kA_test', 'MSRVTT_JSFUSION_test.csv', 'key,video_id,sentence\n', 'JSFUSION'),
    (
        MSRVTTDataset,
        'full_test',
        'MSRVTT_data.json',
        '{"videos": [], "sentences": []}',
        'data.json',
    ),
    (MSVDDataset, 'val', 'val_list.txt', '\n', 'val_list.txt: lists no video'),
    (MSVDDataset, 'val', 'captions_msvd.json', '{}', 'captions_msvd.json'),
    (ActivityNetDataset, 'val1', 'val_1.json', '{}', 'val_1.json'),
    (ActivityNetDataset, 'val1', 'val_1.json', '{"a": {"sentences": []}}', 'val_1.json'),
    (VATEXDataset, 'train', 'vatex_training_v1.0.json', '[]', 'vatex_training_v1.0.json'),
    (DiDeMoDataset, 'test', 'test_data.json', '[]', 'test_data.json'),
    (TVRDataset, 'test', 'tvr_val_release.jsonl', '', 'tvr_val_release.jsonl'),
    (ActivityNetMomentsDataset, 'test', 'val_1.json', '{}', 'val_1.json'),
    (CharadesSTADataset, 'test', 'charades_sta_test.txt', '', 'charades_sta_test.txt'),
    (
        YouCook2Dataset,
        'val',
        'youcookii_annotations_trainval.json',
        '{"database": {}}',
        'youcookii',
    ),
    (EPICKitchensDataset, 'train', epic.TRAIN, f'{EPIC_HEADER}\n', 'retrieval_train.csv'),
    (EPICKitchensDataset, 'test', epic.TEST_SENTENCES, 'narration_id,narration\n', 'sentence.csv'),
]


@pytest.mark.parametrize('cls, split, name, content, message', EMPTY)
def test_empty_sets_are_errors(tmp_path, cls, split, name, content, message):
    """By split and file; the rest of the layout is whole."""
    wholes = {
        MSRVTTDataset: write_msrvtt, MSVDDataset: write_msvd, EPICKitchensDataset: write_epic
    }  # fmt: skip
    wholes.get(cls, lambda root: None)(tmp_path)
    (tmp_path / name).write_text(content)
    for part in tmp_path.glob('MSRVTT_test.full.csv'):
        part.unlink()
    if cls is CharadesSTADataset:
        (tmp_path / 'Charades_v1_test.csv').write_text('id,length\na,9\n')
    with pytest.raises(ValueError, match=message) as caught:
        build(cls, split, tmp_path)
    text = str(caught.value)
    assert len(text) <= 500 and (text.startswith((f'{cls.title} {split}', str(tmp_path))))
