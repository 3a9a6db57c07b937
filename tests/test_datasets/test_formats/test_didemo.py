"""DiDeMo: published counts, paragraphs of the files, the first 30 seconds, a miniature."""

import collections
import json

import pytest

from miniatures import DIDEMO, write_didemo, write_didemo_rows
from mmvtr.datasets import DiDeMoDataset
from mmvtr.datasets.formats.didemo import SPLITS


def build(root, split, video_pipeline=(), **kwargs) -> DiDeMoDataset:
    return DiDeMoDataset(
        split, ann_root=str(root), video_pipeline=video_pipeline, text_pipeline=[], **kwargs
    )


def write_list(root, split: str, names: list[str]) -> None:
    (root / 'collaborative-experts').mkdir(exist_ok=True)
    (root / f'collaborative-experts/{split}_list.txt').write_text('\n'.join(names))


@pytest.fixture
def mini(tmp_path):
    """The official json files, without lists."""
    write_didemo(tmp_path)
    return tmp_path


@pytest.mark.parametrize('split', ['val', 'test'])
def test_published_counts(shared, split):
    root = shared / 'data/DiDeMo'
    dataset = build(root, split)
    assert (len(dataset.videos), len(dataset.texts)) == SPLITS[split][2:]
    sentences = collections.defaultdict(list)
    for row in json.loads((root / f'{split}_data.json').read_text()):
        sentences[row['video']].append(row['description'].strip())
    for video, text in zip(dataset.videos, dataset.texts):
        assert text['text'] == ' '.join(sentences[video['video_id']])


def test_counts_of_training(shared, tmp_path):
    """The real list and json files to test on; the training json is made up, as none is at hand."""
    root = shared / 'data/DiDeMo'
    (tmp_path / 'collaborative-experts').symlink_to(root / 'collaborative-experts')
    for split in ('val', 'test'):
        (tmp_path / f'{split}_data.json').symlink_to(root / f'{split}_data.json')
    names = (root / 'collaborative-experts/train_list.txt').read_text().split()
    write_didemo_rows(tmp_path, 'train', [(name, 'a dog') for name in names])
    dataset = build(tmp_path, 'train')
    assert (len(dataset.videos), len(dataset.texts)) == SPLITS['train'][2:]


def test_without_a_list_all_videos_of_the_json(shared, tmp_path):
    (tmp_path / 'test_data.json').symlink_to(shared / 'data/DiDeMo/test_data.json')
    assert len(build(tmp_path, 'test').videos) == 1037


def test_the_miniature(mini):
    dataset = build(mini, 'train')
    assert dataset.texts == [
        dict(text_id='u@N0_1_a.mov', text='a man waves he sits', video_idx=[0]),
        dict(text_id='u@N0_2_b.', text='a dog', video_idx=[1]),
    ]
    assert dataset.videos == [
        dict(video_id=name, path=str(mini / 'videos' / name), end=30.0)
        for name in ('u@N0_1_a.mov', 'u@N0_2_b.')
    ]
    write_list(mini, 'train', ['u@N0_2_b.'])
    assert [video['video_id'] for video in build(mini, 'train').videos] == ['u@N0_2_b.']


def test_converted_files_have_one_suffix(mini):
    found = [video['path'] for video in build(mini, 'train', video_suffix='.mp4').videos]
    assert found == [str(mini / f'videos/u@N0_{name}.mp4') for name in ('1_a', '2_b')]


def test_frames_are_of_the_first_30_seconds(mini, write_video):
    (mini / 'videos').mkdir()
    greys = [5 * second for second in range(45)]
    write_video(mini / 'videos/u@N0_3_c.mp4', greys, times=range(45))
    load = dict(type='LoadVideo', sampling='per_second', num_frames=64)
    frames = build(mini, 'val', [load]).load_video(0)['frames']
    means = frames.float().mean((1, 2, 3)).numpy()
    assert means == pytest.approx(greys[:30], abs=3)


def test_training_videos_among_the_tested(mini):
    write_didemo_rows(mini, 'test', [*DIDEMO['test'], DIDEMO['train'][1]])
    with pytest.raises(
        ValueError, match=r"1 videos of train_data.json are also in test_data.json.*'u@N0_2_b.'"
    ):
        build(mini, 'train')


def test_list_with_a_video_of_another_split(mini):
    write_list(mini, 'test', ['u@N0_4_d.mp4', 'u@N0_3_c.mp4'])
    with pytest.raises(
        ValueError,
        match=r"1 of 2 videos in .*test_list.txt have no captions in test.*'u@N0_3_c.mp4'",
    ):
        build(mini, 'test')


def test_row_without_a_description(mini):
    (mini / 'val_data.json').write_text(json.dumps([dict(video='x', description=None)]))
    with pytest.raises(ValueError, match="val_data.json: entry 0, 'description': expected a str"):
        build(mini, 'val')


def test_missing_json(mini):
    (mini / 'train_data.json').unlink()
    with pytest.raises(FileNotFoundError, match='needs .*train_data.json. Expected in .*fa.mov'):
        build(mini, 'train')
