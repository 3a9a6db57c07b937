"""Trainings of InfoNCE that are kept: rows of their own, and teachers of students."""

from __future__ import annotations

from typing import Any, Sequence

import torch
from methods import METHODS
from reading import Whole, dataset, whole
from torch import Tensor, nn
from towers import KeptTable
from training import Trained, encode

from mmvtr.registry import MODELS
from mmvtr.storage import write_atomically

#: Seeds of the members of seed s: s, s + APART ...; a student's own is none of them.
APART, STUDENT = 1000, 9000


def seeds_of(count: int, seed: int) -> list[int]:
    """Seeds of so many members."""
    return [seed + APART * n for n in range(count)]


def member(place: Any, rate: float, seed: int) -> Trained:
    """A training of InfoNCE, made once and kept beside the data that it has read."""
    from run import fit

    path = place.folder / f'{_name(place, rate, seed)}.pth'
    config = place.config(METHODS['infonce'])
    if not path.exists():
        data = dataset(place.folder, 'train', place.text)
        trained = fit(place, 'infonce', config, data, rate, seed)
        kept = trained._replace(model=trained.model.state_dict())._asdict()
        write_atomically(path, lambda file: torch.save(kept, file))
    kept = torch.load(path, weights_only=True)
    model = MODELS.build(config)
    model.load_state_dict(kept['model'])
    return Trained(**{**kept, 'model': model})


def taught(place: Any, data: KeptTable, rate: float, seeds: Sequence[int]) -> KeptTable:
    """The dataset with each member's logits as vectors, ``member0`` and so on."""
    everything, found = whole(dataset(place.folder, 'train', place.text)), {}
    for n, seed in enumerate(seeds):
        trained = member(place, rate, seed)
        trained.model.load_state_dict(trained.best)
        found[f'member{n}'] = logits_of(trained.model, everything)
    return data.with_vectors(**found)


@torch.no_grad()
def logits_of(model: nn.Module, some: Whole) -> tuple[Tensor, Tensor]:
    """Vectors of texts and of videos whose inner products are a model's logits."""
    texts, videos = map(model.similarity.flat, encode(model, some.inputs))
    return texts / model.temperature(), videos


def _name(place: Any, rate: float, seed: int) -> str:
    """Name of a member: all that it depends on beside the data."""
    return f'member_{place.text}_{place.schedule.epochs}_{rate:g}_{seed}'
