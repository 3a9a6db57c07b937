"""Batches of clips and their neighbours: who may join whom, and that an epoch is one."""

from collections import Counter

import numpy as np
import pytest
from mmengine.runner import Runner

from mmvtr.datasets import EPICKitchensDataset, EpochSampler, ItemKey, SceneBatchSampler
from mmvtr.datasets.sampling import samplers
from mmvtr.registry import DATA_SAMPLERS

#: File and start of each clip: a kitchen of four clips, one of two, and a clip that is alone.
CLIPS = [('a', 0), ('b', 5), ('a', 59), ('a', 119), ('c', 7), ('b', 30), ('a', 59.5)]
NEAR = [{2, 6}, {5}, {0, 6}, {6}, set(), {1}, {0, 2, 3}]  # less than 60 s


class Clips:
    """The part of a dataset that the sampler reads; text t belongs to video t unless told."""

    def __init__(self, clips=CLIPS, epoch_unit='video', texts=None):
        self.videos = [
            dict(video_id=str(v), path=path, start=start) for v, (path, start) in enumerate(clips)
        ]
        self.epoch_unit = epoch_unit
        owners = [[v] for v in range(len(clips))] if texts is None else texts
        self.texts = [dict(text_id=f't{t}', video_idx=videos) for t, videos in enumerate(owners)]
        self.videos_with_text = sorted({v for videos in owners for v in videos})

    def __len__(self):
        return len(self.texts if self.epoch_unit == 'text' else self.videos_with_text)

    def __getitem__(self, key):
        return key


def make(dataset, batch_size=4, seed=0, epoch=0, **kwargs):
    sampler = EpochSampler(dataset, seed=seed)
    sampler.set_epoch(epoch)
    return SceneBatchSampler(sampler, batch_size, **kwargs)


def pairs(sampler):
    """Each anchor with its neighbour, or None, in the order of an epoch."""
    anchors = [key.index for key in sampler.sampler]
    found, left = [], [key.index for batch in sampler for key in batch]
    for anchor in anchors:
        assert left.pop(0) == anchor
        joined = bool(len(sampler.neighbours(anchor)))
        found.append((anchor, left.pop(0) if joined else None))
    assert not left
    return found


def test_neighbours_are_clips_of_the_same_file_close_in_time():
    sampler = make(Clips())
    assert [set(sampler.neighbours(item).tolist()) for item in range(7)] == NEAR
    wide = make(Clips(), window=1000)
    assert set(wide.neighbours(0).tolist()) == {2, 3, 6} and len(wide.neighbours(4)) == 0


def test_an_epoch_visits_every_clip_once_beside_the_neighbours():
    sampler = make(Clips())
    batches = list(sampler)
    assert len(batches) == len(sampler) == 4  # two anchors a batch
    assert all(len(batch) <= 4 for batch in batches)
    keys = [key for batch in batches for key in batch]
    assert all(isinstance(key, ItemKey) and key[:2] == (0, 0) for key in keys)
    found = pairs(sampler)
    assert sorted(anchor for anchor, _ in found) == list(range(7))
    for anchor, neighbour in found:
        assert neighbour in NEAR[anchor] if NEAR[anchor] else neighbour is None


def test_every_neighbour_is_drawn_about_equally_often():
    counts = Counter()
    for epoch in range(600):
        counts.update(
            neighbour for anchor, neighbour in pairs(make(Clips(), epoch=epoch)) if anchor == 6
        )
    assert set(counts) == NEAR[6] and all(150 < count < 250 for count in counts.values())


def test_a_function_of_seed_and_epoch():
    found = {
        (seed, epoch): pairs(make(Clips(), seed=seed, epoch=epoch))
        for seed in (0, 1)
        for epoch in (0, 1)
    }
    assert len({str(order) for order in found.values()}) == 4
    assert pairs(make(Clips(), seed=1, epoch=1)) == found[1, 1]


def test_ranks_share_an_epoch(monkeypatch):
    """Who joins whom depends neither on the rank nor on the number of them."""
    alone, ranks = dict(pairs(make(Clips()))), []
    for rank in range(2):
        monkeypatch.setattr(samplers, 'get_dist_info', lambda r=rank: (r, 2))
        ranks.append(make(Clips(), batch_size=2))
        assert len(list(ranks[-1])) == len(ranks[-1]) == 4
    together = [pair for sampler in ranks for pair in pairs(sampler)]
    assert dict(together) == alone and len(together) == 8  # one is repeated


def test_texts_and_clips_without_text():
    """A second caption of the same clip is no neighbour; a clip without text is nobody's."""
    by_text = make(Clips(epoch_unit='text', texts=[[0], [0], [2], [4]]))
    assert [by_text.neighbours(t).tolist() for t in range(4)] == [[2], [2], [0, 1], []]
    by_video = make(Clips(texts=[[0], [2], [3]]))  # items are the videos 0, 2 and 3
    assert [by_video.neighbours(v).tolist() for v in range(3)] == [[1], [0], []]


def test_built_by_the_runner():
    assert DATA_SAMPLERS.get('SceneBatchSampler') is SceneBatchSampler
    loader = Runner.build_dataloader(
        dict(
            dataset=Clips(),
            sampler=dict(type='mmvtr.EpochSampler'),
            batch_sampler=dict(type='mmvtr.SceneBatchSampler', window=30),
            batch_size=6,
            collate_fn=dict(type='default_collate'),
        ),
        seed=3,
    )
    loader.batch_sampler.sampler.set_epoch(2)
    expected = [
        [key.index for key in batch]
        for batch in make(Clips(), batch_size=6, seed=3, epoch=2, window=30)
    ]
    assert [index.tolist() for _, _, index in loader] == expected


def test_bad_arguments():
    for odd in (0, 1, 3):
        with pytest.raises(ValueError, match=f'batch_size must be even, got {odd}'):
            make(Clips(), batch_size=odd)
    with pytest.raises(ValueError, match='window must be positive, not 0'):
        make(Clips(), window=0)
    for other in (range(2), EpochSampler(Clips(), round_up=False)):
        with pytest.raises(ValueError, match='needs an EpochSampler with round_up'):
            SceneBatchSampler(other, 2)
    clips = Clips()
    del clips.videos[3]['start'], clips.videos[5]['path']
    with pytest.raises(ValueError, match=r"2 of 7 videos of Clips have no path.*\['3', '5'\]"):
        make(clips)
    with pytest.raises(ValueError, match="text 't1' has 2 videos.*epoch_unit='video'"):
        make(Clips(epoch_unit='text', texts=[[0], [1, 2]]))


def test_most_clips_of_epic_have_a_neighbour(shared):
    """On the test clips, whose csv is complete."""
    root = shared / 'data/EPIC100'
    dataset = EPICKitchensDataset(
        'test', ann_root=root, video_pipeline=[], text_pipeline=[], epoch_unit='video'
    )
    sampler = make(dataset, batch_size=128)
    near = np.array([len(sampler.neighbours(item)) for item in range(len(dataset))])
    assert len(near) == 9668 and (near > 0).mean() > 0.99
    item = int(near.argmax())
    own = dataset.videos[item]
    for other in (dataset.videos[v] for v in sampler.neighbours(item)):
        assert other['path'] == own['path'] and abs(other['start'] - own['start']) < 60
