"""What is tested where a part of the clips is gone: which texts stay, and that it is said."""

import logging

import numpy as np
import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from mmengine.logging import MMLogger

import children  # noqa: F401 - the server that forks the processes has imported all
from miniatures import write_epic, write_json, write_msrvtt, write_prvr, write_vatex
from mmvtr.datasets import (
    CharadesSTADataset,
    EPICKitchensDataset,
    MSRVTTDataset,
    TableDataset,
    TVRDataset,
    VATEXDataset,
)
from mmvtr.datasets.videos.missing import refuse_other_lists
from mmvtr.evaluation import RetrievalMetric
from mmvtr.structures import Relation

WORDS = [lambda text: dict(text, token_ids=[1, 2])]


@pytest.fixture
def said(caplog):
    logger = MMLogger.get_current_instance()
    logger.addHandler(caplog.handler)
    with caplog.at_level(logging.WARNING):
        yield caplog
    logger.removeHandler(caplog.handler)


def build(cls, split, root, names, missing='skip', **options):
    """The set, with features of these videos alone."""
    (root / 'feats').mkdir(exist_ok=True)
    for name in names:
        np.save(root / f'feats/{name}.npy', np.ones((2, 3), np.float32))
    pipeline = [dict(type='mmvtr.LoadFeatures', path=str(root / 'feats'))]
    options = dict(video_pipeline=pipeline, text_pipeline=WORDS, missing=missing) | options
    return cls(split, ann_root=str(root), **options)


def ids(dataset):
    return [video['video_id'] for video in dataset.videos], [t['text_id'] for t in dataset.texts]


#: Set, split, its writer, the clips that are there, and the texts that then have one.
SETS = {
    'msrvtt': (
        MSRVTTDataset,
        'full_train',
        write_msrvtt,
        ['video0'],
        ['0', '3', '6'],
        '1 of 2 clips and 3 of 6 texts',
    ),
    'tvr': (
        TVRDataset,
        'test',
        lambda root: write_prvr(root, TVRDataset),
        ['b'],
        ['b#enc#0'],
        '1 of 2 clips and 2 of 3 texts',
    ),
    'charades': (
        CharadesSTADataset,
        'test',
        lambda root: write_prvr(root, CharadesSTADataset),
        ['a'],
        ['a#enc#0', 'a#enc#1'],
        '1 of 2 clips and 1 of 3 texts',
    ),
    'vatex': (
        VATEXDataset,
        'test_1k5',
        write_vatex,
        ['f'],
        [f'f#{n}' for n in range(10)],
        '1 of 2 clips and 10 of 20 texts',
    ),
    # Sentences 0 and 3 mean the same: 0 stays with the clip of 3, those of clips 1 and 2 go.
    'epic': (
        EPICKitchensDataset,
        'test',
        write_epic,
        ['P32_102_8'],
        ['P31_01_0'],
        '3 of 4 clips and 2 of 3 texts',
    ),
}


@pytest.mark.parametrize('name', SETS)
def test_what_is_there_is_a_set_of_its_own(tmp_path, said, name):
    cls, split, write, here, texts, lost = SETS[name]
    write(tmp_path)
    whole = build(cls, split, tmp_path, here, video_pipeline=[])
    assert whole.left_out is None and whole.protocol()['left_out'] is None
    with pytest.raises(KeyError, match=r"no features of .*; missing='skip' leaves them out"):
        build(cls, split, tmp_path, here, missing='raise')
    dataset = build(cls, split, tmp_path, here)
    assert ids(dataset) == (here, texts)
    assert all(text['video_idx'] == [0] for text in dataset.texts)
    assert str(dataset.left_out) == dataset.protocol()['left_out'] == lost
    assert set(dataset.left_out.names) == set(ids(whole)[0]) - set(here)
    assert dataset.protocol()['ids_sha'] != whole.protocol()['ids_sha']
    assert f'{dataset.origin()}: {lost} are missing and left out (' in said.text
    assert dataset.load_video(0)['frames'].shape == (2, 3) and dataset.texts_of == [
        list(range(len(texts)))
    ]


def test_masks_speak_of_the_whole_set_and_other_transforms_see_what_stays(tmp_path):
    write_msrvtt(tmp_path)
    whole = build(MSRVTTDataset, 'full_train', tmp_path, ['video0'], video_pipeline=[])
    drawn = {text['text_id']: text['text_id'] != '3' for text in whole.texts}
    write_json(tmp_path, 'masks.json', drawn)
    seen = []
    records = dict(
        counts=lambda videos, texts: seen.extend(t['text_id'] for t in texts) or (videos, texts),
        denoising=dict(type='DrawableCaptions', path=str(tmp_path / 'masks.json')),
    )
    dataset = build(MSRVTTDataset, 'full_train', tmp_path, ['video0'], records=records)
    assert seen == ids(dataset)[1] == ['0', '6']
    assert dataset.protocol()['records.denoising'] == '5 of 6 texts may be drawn'


def test_times_and_classes_are_of_what_stays(tmp_path):
    write_prvr(tmp_path, TVRDataset)
    assert build(TVRDataset, 'test', tmp_path, 'a').moment_ratio().tolist() == [0.2, 0.9]
    write_epic(tmp_path)
    clips = ['P31_01_1', 'P32_102_8']
    relevance = build(EPICKitchensDataset, 'test', tmp_path, clips).relevance()
    whole = build(EPICKitchensDataset, 'test', tmp_path, clips, video_pipeline=[]).relevance()
    np.testing.assert_array_equal(relevance, whole[:2][:, [1, 3]])


def test_chance_is_of_what_is_there(tmp_path):
    write_vatex(tmp_path)
    dataset = build(VATEXDataset, 'val', tmp_path, ['c'])
    chance = RetrievalMetric(recall_at=(1,)).chance(Relation(torch.tensor(dataset.positives())))
    assert chance['t2v_R1'] == 100, 'one clip is left'


def test_files_of_videos_and_those_that_are_listed_as_broken(tmp_path, said):
    """A listed video is not looked for: each that is gone is counted once."""
    write_msrvtt(tmp_path)
    (tmp_path / 'videos').mkdir()
    (tmp_path / 'videos/video0.mp4').write_bytes(b'nothing')
    (tmp_path / 'broken.txt').write_text('video1\tcut short\nvideo3\n')
    options = dict(
        video_pipeline=[dict(type='mmvtr.LoadVideo')],
        on_broken=dict(skip=str(tmp_path / 'broken.txt')),
    )
    dataset = build(MSRVTTDataset, '1kA_train9k', tmp_path, [], **options)
    assert ids(dataset)[0] == ['video3', 'video0', 'video1']
    assert dataset.left_out.names == ('video2',) and [*dataset.known_broken] == ['video3', 'video1']
    with pytest.raises(FileNotFoundError, match='1 of 2 video files .*video2.mp4.*; missing='):
        build(MSRVTTDataset, '1kA_train9k', tmp_path, [], **options, missing='raise')


def test_an_empty_rest_is_refused(tmp_path):
    write_msrvtt(tmp_path)
    with pytest.raises(ValueError, match='MSR-VTT full_train .*2 of 2 clips .* nothing is left'):
        build(MSRVTTDataset, 'full_train', tmp_path, [])
    with pytest.raises(KeyError) as error:  # and the option is not recommended
        build(MSRVTTDataset, 'full_train', tmp_path, [], missing='raise')
    assert 'skip' not in str(error.value)
    with pytest.raises(FileNotFoundError, match='no such feature file or folder'):
        nowhere = [dict(type='mmvtr.LoadFeatures', path=str(tmp_path / 'nowhere'))]
        build(MSRVTTDataset, 'full_train', tmp_path, [], video_pipeline=nowhere)
    with pytest.raises(ValueError, match="missing must be 'raise' or 'skip', not 'ignore'"):
        build(MSRVTTDataset, 'full_train', tmp_path, [], missing='ignore')


def test_a_text_of_a_table_goes_with_its_last_clip(tmp_path):
    (tmp_path / 'feats').mkdir()
    np.save(tmp_path / 'feats/a.npy', np.ones((2, 3), np.float32))
    (tmp_path / 'my.csv').write_text('video,text,text_id\na,x,1\nz,x,1\nz,y,2\n')
    dataset = TableDataset(
        'all',
        table=str(tmp_path / 'my.csv'),
        videos=str(tmp_path / 'feats'),
        video_pipeline=[dict(type='mmvtr.LoadFeatures', path=str(tmp_path / 'feats'))],
        text_pipeline=WORDS,
        missing='skip',
    )
    assert ids(dataset) == (['a'], ['1'])
    assert dataset.protocol()['left_out'] == '1 of 2 clips and 1 of 2 texts'


def _compare(rank, folder, lists):
    dist.init_process_group('gloo', f'file://{folder}/store', rank=rank, world_size=2)
    try:
        refuse_other_lists(lists[rank], 'VATEX test')
        said = 'agree'
    except ValueError as error:
        said = str(error)
    (folder / f'{rank}.txt').write_text(said)
    dist.destroy_process_group()


@pytest.mark.parametrize('lists', [('ab', 'ba'), ('ab', 'a')])
def test_processes_must_miss_the_same(tmp_path, lists):
    mp.start_processes(_compare, (tmp_path, lists), nprocs=2, start_method='forkserver')
    said = [(tmp_path / f'{rank}.txt').read_text() for rank in (0, 1)]
    if lists[1] == 'ba':
        assert said == ['agree', 'agree']
    else:
        assert said[0] == said[1] == (
            "VATEX test, missing='skip': process 1 lacks 1 videos and process 0 lacks 2; the two "
            "differ in 1, e.g. ['b']: all machines must have the same files"
        )  # fmt: skip
