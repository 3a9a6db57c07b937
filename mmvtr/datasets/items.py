"""Construction of an item: its random seeds, and the tensors from its pipelines' results."""

from __future__ import annotations

import random
from contextlib import contextmanager
from typing import Any, Callable, Iterator, NamedTuple, Union

import numpy as np
import torch

#: Keys of a record that its item carries in addition to the pipeline's inputs.
KNOWN = ('classes', 'agreement', 'environment', 'half')
Pipeline = Callable[[dict[str, Any]], dict[str, Any]]


class ItemKey(NamedTuple):
    """Key that determines all random choices of an item: seed, epoch, index.

    Attributes:
        seed: non-negative seed of the run, the same on all ranks.
        epoch: epoch number from 0.
        index: position in the dataset.
    """

    seed: int
    epoch: int
    index: int


def item_key(key: Union[ItemKey, int]) -> ItemKey:
    """Return an item key; a bare index means seed 0, epoch 0."""
    return key if isinstance(key, ItemKey) else ItemKey(0, 0, int(key))


#: Reusable numpy generators for :func:`seeded`; creating one takes longer than seeding one.
_IDLE: list[np.random.BitGenerator] = []


@contextmanager
def seeded(key: ItemKey) -> Iterator[None]:
    """Seed python's, numpy's and torch's CPU generator from ``key``; restore them at the end.

    Transforms of any library draw from these three.  numpy's is replaced, because copying its state
    takes longer than everything else about an item of cached features (np.random.randn's cached
    second Gaussian is not restored).  torch.manual_seed is avoided: it would also reseed the GPU
    generators, which are not restored here.
    """
    state = random.getstate(), np.random.get_bit_generator(), torch.get_rng_state()
    seeds = np.random.SeedSequence(key).generate_state(3).tolist()
    generator = _IDLE.pop() if _IDLE else np.random.MT19937(0)
    random.seed(seeds[0])
    np.random.set_bit_generator(generator)
    np.random.seed(seeds[1])
    torch.default_generator.manual_seed(seeds[2])
    try:
        yield
    finally:
        random.setstate(state[0])
        np.random.set_bit_generator(state[1])
        torch.set_rng_state(state[2])
        _IDLE.append(generator)


def frames_of(results: dict[str, Any]) -> torch.Tensor:
    """Return ``imgs`` as uint8 [F, 3, H, W], ``clips``, or ``features`` as float32 [F, D]."""
    if 'clips' in results:
        return results['clips']
    if 'features' in results:
        return torch.as_tensor(results['features'], dtype=torch.float32)
    sizes = {img.shape for img in results['imgs']}
    if len(sizes) != 1:
        name = results['video_id']
        raise ValueError(f'video {name!r}: frames of one size expected, got {sizes}')
    return torch.from_numpy(np.stack(results['imgs'])).permute(0, 3, 1, 2).contiguous()


def tokens_of(results: dict[str, Any]) -> torch.Tensor:
    """Return ``token_features`` as float32 [L, D], or ``token_ids`` as int64 [L]."""
    if 'token_features' in results:
        return torch.as_tensor(results['token_features'], dtype=torch.float32)
    return torch.as_tensor(results['token_ids'], dtype=torch.int64)


def extra_of(results: dict[str, Any], side: str) -> dict[str, Any]:
    """Return the pipeline's further tensors by name."""
    key = f'{side}_extra'
    if key not in results:
        return {}
    if 'mask' in results[key]:
        raise ValueError(f"{key}: 'mask' is taken, choose another name")
    return dict(extra={name: torch.as_tensor(x) for name, x in results[key].items()})


def vectors_of(results: dict[str, Any], side: str) -> dict[str, Any]:
    """Return vectors for a supervision: ``vectors`` of the item, float32 [E, D] by name, and
    ``frame_vectors`` of each frame of a video, [F, D]."""
    return {
        kind: {name: torch.as_tensor(x) for name, x in results[f'{side}_{kind}'].items()}
        for kind in ('vectors', 'frame_vectors')
        if results.get(f'{side}_{kind}')
    }


def kept_keys(record: dict[str, Any]) -> dict[str, Any]:
    """Return the keys of a record that an item carries in addition to the pipeline's inputs."""
    return {key: record[key] for key in KNOWN if key in record}


def video_item(v: int, record: dict[str, Any], pipeline: Pipeline) -> dict[str, Any]:
    """Return a video as an item of a batch: video_idx, video_id, frames, and other known keys.

    Args and random draws: see :func:`text_item`.
    """
    results = pipeline(dict(record))
    return dict(
        video_idx=v,
        video_id=record['video_id'],
        frames=frames_of(results),
        **kept_keys(record),
        **extra_of(results, 'video'),
        **vectors_of(results, 'video'),
    )


def text_item(t: int, record: dict[str, Any], pipeline: Pipeline) -> dict[str, Any]:
    """Return a text as an item: text_idx, text_id, tokens, video_idx, caption, other known keys.

    Args:
        t: position of the text.
        record: record of the text.
        pipeline: transforms of a record; they draw from the generators in their present state.
    """
    results = pipeline(dict(record))
    return dict(
        text_idx=t,
        text_id=record['text_id'],
        tokens=tokens_of(results),
        video_idx=list(record['video_idx']),
        caption=record['text'],
        **kept_keys(record),
        **true_videos_of(record),
        **extra_of(results, 'text'),
        **vectors_of(results, 'text'),
    )


def true_videos_of(record: dict[str, Any]) -> dict[str, Any]:
    """Return all videos that a text holds for, if the dataset knows them."""
    return dict(true_videos=record['true_videos']) if 'true_videos' in record else {}
