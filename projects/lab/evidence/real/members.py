"""Trainings of InfoNCE that are kept: rows of their own, and teachers of students."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Sequence

import torch
from methods import METHODS, model_of
from reading import dataset, whole
from sets import write_store
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

    method = METHODS['infonce']
    path = place.folder / f'{_name(place, rate, seed)}.pth'
    config = model_of(method, place.about, place.text)
    if not path.exists():
        data = dataset(place.folder, 'train', place.text)
        trained = fit(place, 'infonce', config, data, rate, seed)
        kept = trained._replace(model=trained.model.state_dict())._asdict()
        write_atomically(path, lambda file: torch.save(kept, file))
    kept = torch.load(path, weights_only=True)
    model = MODELS.build(config)
    model.load_state_dict(kept['model'])
    return Trained(**{**kept, 'model': model})


def teachers(place: Any, rate: float, seeds: Sequence[int]) -> tuple[str, ...]:
    """Store each member's logits as vectors; returns the names by which a dataset reads them."""
    names = []
    for seed in seeds:
        name = _name(place, rate, seed)
        paths = [place.folder / f'{name}_{side}.h5' for side in ('text', 'video')]
        names.append(name)
        if all(path.exists() for path in paths):
            continue
        trained = member(place, rate, seed)
        model = trained.model
        model.load_state_dict(trained.best)
        everything = whole(dataset(place.folder, 'train', place.text))
        levels = encode(model, everything.inputs)
        for path, side, ids in zip(paths, levels, (everything.texts, everything.videos)):
            by = model.temperature().detach() if path == paths[0] else 1.0
            vectors = (model.similarity.flat(side) / by).numpy()
            _whole(path, dict(zip(ids, vectors[:, None])))
    return tuple(names)


def _name(place: Any, rate: float, seed: int) -> str:
    """Name of a member: all that it depends on beside the data."""
    return f'member_{place.text}_{place.schedule.epochs}_{rate:g}_{seed}'


def _whole(path: Path, arrays: dict[str, Any]) -> None:
    """Write a store under its name only when it is complete."""
    part = path.with_suffix(f'.{os.getpid()}.part')  # jobs may store the same
    write_store(part, arrays)
    part.rename(path)
