"""Batches of one environment: pure, whole, equal over ranks, a function of (seed, epoch)."""

import json
import math
from collections import Counter

import numpy as np
import pytest
import torch.distributed as dist
import torch.multiprocessing as mp
from mmengine.runner import Runner
from torch.utils.data import DataLoader

from mmvtr.datasets import EnvironmentBatchSampler, EpochSampler, ItemKey
from mmvtr.datasets.sampling import samplers
from mmvtr.registry import DATA_SAMPLERS


class Videos:
    """The part of a dataset that the sampler reads; text t belongs to video t unless told."""

    def __init__(self, environments, epoch_unit='video', texts=None):
        self.environments = None if environments is None else np.array(environments)
        self.epoch_unit = epoch_unit
        count = len(environments or [0])
        owners = [[v] for v in range(count)] if texts is None else texts
        self.texts = [dict(text_id=f't{t}', video_idx=videos) for t, videos in enumerate(owners)]
        self.videos_with_text = sorted({v for videos in owners for v in videos})

    def __len__(self):
        return len(self.texts if self.epoch_unit == 'text' else self.videos_with_text)

    def __getitem__(self, key):
        return key


def make(dataset, batch_size=3, seed=0, epoch=0):
    sampler = EpochSampler(dataset, seed=seed)
    sampler.set_epoch(epoch)
    return EnvironmentBatchSampler(sampler, batch_size)


def batches(batch_sampler):
    return [[key.index for key in batch] for batch in batch_sampler]


ENVIRONMENTS = [0, 1, 0, 0, 2, 1, 0, 0, 0, 1, 0, 2, 0]  # 8, 3 and 2 videos


def test_batches_are_pure_and_cover_the_epoch_once():
    found = batches(make(Videos(ENVIRONMENTS), batch_size=3))
    assert sorted(index for batch in found for index in batch) == list(range(13))
    owners = [{ENVIRONMENTS[index] for index in batch} for batch in found]
    assert all(len(environments) == 1 for environments in owners)
    assert sorted(len(batch) for batch in found) == [2, 2, 3, 3, 3]
    assert len(make(Videos(ENVIRONMENTS), batch_size=3)) == 5


def test_keys_carry_seed_and_epoch():
    keys = [key for batch in make(Videos(ENVIRONMENTS), seed=4, epoch=2) for key in batch]
    assert all(isinstance(key, ItemKey) and key[:2] == (4, 2) for key in keys)


def test_order_is_a_function_of_seed_and_epoch():
    dataset = Videos([0, 1] * 30)
    found = {
        (seed, epoch): batches(make(dataset, seed=seed, epoch=epoch))
        for seed in (0, 1)
        for epoch in (0, 1)
    }
    assert len({str(batch) for batch in found.values()}) == 4
    resumed = make(dataset, seed=1)
    assert batches(resumed) == found[1, 0] == batches(resumed)
    resumed.sampler.set_epoch(1)
    assert batches(resumed) == found[1, 1]
    environments = [[batch[0] % 2 for batch in found[key]] for key in found]
    assert all(steps != sorted(steps) for steps in environments), 'environments take turns'
    assert len({tuple(steps) for steps in environments}) > 1


@pytest.mark.parametrize('world', [2, 3, 4])
@pytest.mark.parametrize('batch_size', [1, 2, 5])
def test_ranks_share_every_step_of_one_environment(monkeypatch, world, batch_size):
    dataset, ranks = Videos(ENVIRONMENTS), []
    for rank in range(world):
        monkeypatch.setattr(samplers, 'get_dist_info', lambda r=rank: (r, world))
        batch_sampler = make(dataset, batch_size)
        ranks.append(batches(batch_sampler))
        assert len(batch_sampler) == len(ranks[-1])
    for step in zip(*ranks, strict=True):
        assert len({ENVIRONMENTS[index] for batch in step for index in batch}) == 1
        assert len({len(batch) for batch in step}) == 1 and 1 <= len(step[0]) <= batch_size
    seen = Counter(index for batches in ranks for batch in batches for index in batch)
    assert set(seen) == set(range(13))
    repeated = {k: sum(seen[v] - 1 for v in range(13) if ENVIRONMENTS[v] == k) for k in range(3)}
    assert repeated == {k: -size % world for k, size in enumerate((8, 3, 2))}
    assert len(ranks[0]) == sum(math.ceil(math.ceil(n / world) / batch_size) for n in (8, 3, 2))


def test_an_epoch_of_texts():
    dataset = Videos([0, 1, 0], 'text', texts=[[1], [0], [0, 2], [2], [1]])
    found = batches(make(dataset, batch_size=8))
    assert sorted(map(sorted, found)) == [[0, 4], [1, 2, 3]]


@pytest.mark.parametrize('epoch_unit', ['video', 'video_with_all_texts'])
def test_an_epoch_of_videos_counts_those_with_texts(epoch_unit):
    dataset = Videos([0, 1, 1, 0], epoch_unit, texts=[[1, 3], [3], [2]])
    assert sorted(map(sorted, batches(make(dataset, batch_size=8)))) == [[0, 1], [2]]


def test_environments_need_not_be_numbered_through():
    assert sorted(map(sorted, batches(make(Videos([5, 1, 5]))))) == [[0, 2], [1]]


@pytest.mark.parametrize(
    'dataset, message',
    [
        (Videos(None), r"Videos has no environments; .*type='LengthSplit'"),
        ([1, 2], 'list has no environments'),
        (
            Videos([0, 1, 1], 'text', texts=[[0], [1, 0]]),
            r"text 't1' has videos in environments \[0, 1\].*epoch_unit='video'",
        ),
    ],
)
def test_datasets_without_clear_environments(dataset, message):
    with pytest.raises(ValueError, match=message):
        make(dataset)


def test_samplers_that_order_otherwise_are_refused():
    dataset = Videos([0, 1])
    for sampler in (
        EpochSampler(dataset, seed=0, shuffle=False),
        EpochSampler(dataset, seed=0, round_up=False),
        range(2),
    ):
        with pytest.raises(ValueError, match='needs an EpochSampler with shuffle and round_up'):
            EnvironmentBatchSampler(sampler, 2)
    with pytest.raises(ValueError, match='batch_size must be at least 1, not 0'):
        make(dataset, batch_size=0)


def test_built_by_the_runner_and_told_the_epoch():
    loader = Runner.build_dataloader(
        dict(
            dataset=Videos([0, 1] * 10),
            sampler=dict(type='mmvtr.EpochSampler'),
            batch_sampler=dict(type='mmvtr.EnvironmentBatchSampler'),
            batch_size=4,
            collate_fn=dict(type='default_collate'),
        ),
        seed=11,
    )
    assert DATA_SAMPLERS.get('EnvironmentBatchSampler') is EnvironmentBatchSampler
    assert type(loader) is DataLoader and len(loader) == 6
    loader.batch_sampler.sampler.set_epoch(3)
    expected = batches(make(Videos([0, 1] * 10), batch_size=4, seed=11, epoch=3))
    assert [index.tolist() for _, _, index in loader] == expected


def worker(rank, folder):
    dist.init_process_group('gloo', init_method=f'file://{folder}/store', rank=rank, world_size=2)
    batch_sampler = EnvironmentBatchSampler(EpochSampler(Videos(ENVIRONMENTS)), 2)
    epochs = []
    for epoch in range(2):
        batch_sampler.sampler.set_epoch(epoch)
        epochs.append(batches(batch_sampler))
    (folder / f'rank{rank}.json').write_text(json.dumps(epochs))
    dist.barrier()
    dist.destroy_process_group()


def test_two_processes_agree(tmp_path):
    mp.start_processes(worker, (tmp_path,), nprocs=2, start_method='forkserver')
    ranks = [json.loads((tmp_path / f'rank{rank}.json').read_text()) for rank in range(2)]
    for epochs in zip(*ranks, strict=True):
        joint = [first + second for first, second in zip(*epochs, strict=True)]
        assert all(len({ENVIRONMENTS[index] for index in step}) == 1 for step in joint)
        assert all(len(first) == len(second) for first, second in zip(*epochs))
        seen = Counter(index for step in joint for index in step)
        assert set(seen) == set(range(13)) and sum(seen.values()) == 8 + 4 + 2
    assert ranks[0][0] != ranks[0][1], 'epochs differ'
