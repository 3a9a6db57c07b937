"""The epoch sampler: permutations, ranks, epochs, and mmengine's dataloader."""

import pytest
from mmengine.runner import Runner

from mmvtr.datasets import EpochSampler, ItemKey
from mmvtr.datasets.sampling import samplers
from mmvtr.registry import DATA_SAMPLERS


def indices(sampler: EpochSampler) -> list[int]:
    return [key.index for key in sampler]


def test_an_epoch_is_a_permutation_and_carries_its_key():
    sampler = EpochSampler(range(20), seed=5)
    sampler.set_epoch(3)
    keys = list(sampler)
    assert sorted(key.index for key in keys) == list(range(20))
    assert {(key.seed, key.epoch) for key in keys} == {(5, 3)}
    assert all(isinstance(key, ItemKey) for key in keys)


def test_order_is_a_function_of_seed_and_epoch():
    orders = {}
    for seed in (0, 1):
        for epoch in (0, 1):
            sampler = EpochSampler(range(50), seed=seed)
            sampler.set_epoch(epoch)
            orders[seed, epoch] = tuple(indices(sampler))
            assert indices(sampler) == list(orders[seed, epoch])
    assert len(set(orders.values())) == 4


def test_unshuffled_keeps_the_order():
    assert indices(EpochSampler(range(7), seed=0, shuffle=False)) == list(range(7))


@pytest.mark.parametrize('length', [1, 7, 8, 9, 30])
@pytest.mark.parametrize('round_up', [True, False])
def test_ranks_share_the_epoch(monkeypatch, length, round_up):
    world = 4
    parts = []
    for rank in range(world):
        monkeypatch.setattr(samplers, 'get_dist_info', lambda r=rank: (r, world))
        sampler = EpochSampler(range(length), seed=2, round_up=round_up)
        parts.append(indices(sampler))
        assert len(sampler) == len(parts[-1])
    everything = [index for part in parts for index in part]
    assert set(everything) == set(range(length))
    if round_up:
        assert len({len(part) for part in parts}) == 1
    else:
        assert len(everything) == length


def test_no_seed_draws_one():
    assert EpochSampler(range(3)).seed >= 0


def test_built_by_the_runner_with_dataset_and_seed():
    loader = Runner.build_dataloader(
        dict(
            dataset=list(range(10)),
            sampler=dict(type='mmvtr.EpochSampler', shuffle=False),
            batch_size=5,
            collate_fn=dict(type='mmvtr.collate_retrieval'),
        ),
        seed=11,
    )
    assert loader.sampler.seed == 11
    assert loader.collate_fn.func.__name__ == 'collate_retrieval'
    assert DATA_SAMPLERS.get('EpochSampler') is EpochSampler
