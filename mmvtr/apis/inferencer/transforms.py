"""What changes the order of a gallery: biases of its items, or sure first."""

from __future__ import annotations

import logging
from typing import Any, Optional

import torch
from mmengine.logging import print_log
from torch import Tensor, nn

from mmvtr.apis.inferencer.inputs import Inputs
from mmvtr.apis.inferencer.ranking import QUERIES, Items, Surely, check_items, flat_of
from mmvtr.datasets import CaptionImplication
from mmvtr.engine.transforms.stored_queries import (
    OTHER,
    captions_of,
    read_bank,
    read_training_set,
    tiles_read,
)
from mmvtr.functional.metrics.first_places import check_sure
from mmvtr.functional.transforms.item_biases import fit_biases
from mmvtr.functional.transforms.transform_table import ADDED, transform_named
from mmvtr.functional.uncertainty.calibration import Calibration
from mmvtr.plain_config import refuse_unregistered

#: What puts the surest text first; of the others those count that add a bias to each item.
SURE_FIRST = 'sure_first'
#: Implications that are kept from query to query: 256 MiB of float32.  More are made anew.
HELD = 2**26


def check_transform(
    transform: Optional[str],
    kind: str,
    *,
    bank: Optional[str],
    temperature: Optional[float],
    captions: Any,
    sure: float,
) -> None:
    """See that what was given for a gallery goes together, before it is encoded.

    Raises:
        ValueError: an unknown transform; one without what it needs, or without one what it would
            need; what is implied, of videos; a temperature that is not positive; ``sure`` outside
            [0, 1]; captions whose config asks for what is not registered.
    """
    if transform is not None:
        transform_named(transform, (*ADDED, SURE_FIRST))
    if temperature is not None and not temperature > 0:
        raise ValueError(f'temperature must be positive, not {temperature}')
    if transform == SURE_FIRST:
        check_sure(sure)
        if kind != 'text':
            raise ValueError(f"transform={SURE_FIRST!r} is of a gallery of texts: kind='text'")
        if captions is None:
            raise ValueError(
                f'transform={SURE_FIRST!r} needs captions=, the training set (or its config) whose '
                'captions say what texts imply'
            )
        if isinstance(captions, dict):  # that of a model of the hub, too
            refuse_unregistered(captions, 'captions')
        return
    if captions is not None:
        raise ValueError(f'captions belong to transform={SURE_FIRST!r}; got {transform!r}')
    if (transform is None) != (bank is None):
        raise ValueError(
            f'a transform and its bank belong together: got transform={transform!r}, '
            f'bank={None if bank is None else bank[:80]!r}'
        )


def check_calibration(calibration: Any, transform: Optional[str]) -> None:
    """See that a calibration is one, of scores that the gallery has.

    Raises:
        TypeError: it is none.
        ValueError: fitted on debiased scores, of a gallery without biases.
    """
    if not isinstance(calibration, Calibration):
        raise TypeError(f'calibration must be a Calibration, not {type(calibration).__name__}')
    if calibration.debiased and transform in (None, SURE_FIRST):
        raise ValueError('the calibration is of debiased scores, but the gallery has no biases')


@torch.no_grad()
def surely_of(
    model: nn.Module,
    given: Inputs,
    gallery: Items,
    *,
    captions: Any,
    bank: Optional[str],
    temperature: Optional[float],
    sure: float,
) -> Surely:
    """What says how surely texts hold of a video (docs/agreement.md).

    Args:
        model: a retriever.
        given: the N texts of the gallery.
        gallery: the same, encoded.
        captions: the training set, or its config; its annotations alone are read.
        bank: a file of tools/export_bank.py, of that set: of its captions one could have been
            written for a video.  None: one of the gallery's texts.
        temperature: None = a share of what each video reaches
            (:func:`~mmvtr.functional.expected_truth`).
        sure: in [0, 1], how surely a first text has to hold.

    Raises:
        FileNotFoundError, RuntimeError: no such bank, or none.
        ValueError: texts that nobody knows, captions of which no video has two, a bank of another
            model or of another training set.
    """
    if None in given.sources:
        raise ValueError(
            f'transform={SURE_FIRST!r} reads the texts of the gallery: give texts, no vectors'
        )
    data = read_training_set(captions)
    witness = CaptionImplication()
    witness.learn(data.videos, data.texts)
    written, own = None, given.sources
    if bank is not None:
        queries = read_bank(bank)['text'].newest()
        own = captions_of(queries, data, name=bank)
        check_items(model, queries.levels, bank, gallery)
        flat = flat_of(model, queries.levels)
        written = queries.levels if flat is None else flat
    device = torch.device(model.data_preprocessor.device)
    implied = witness.among(own, given.sources, device=device)
    if implied.shape[0] * implied.shape[1] <= HELD:
        implied = torch.cat([tile for _, tile in implied.parts()], dim=1)
    else:
        print_log(
            f'What {implied.shape[0]} texts imply of {implied.shape[1]} is too much to keep: it is '
            f'found anew for each {QUERIES} videos, which takes a minute or so without a GPU',
            'current',
            logging.WARNING,
        )
    return Surely(implied, written, temperature, sure)


@torch.no_grad()
def bank_biases(
    model: nn.Module,
    kind: str,
    gallery: Items,
    *,
    bank: str,
    transform: str,
    temperature: Optional[float],
    **options: Optional[float],
) -> Tensor:
    """What a test-time transform adds to the score of each gallery item.

    Args:
        model: a retriever.
        kind: of the gallery.
        gallery: N encoded items.
        bank: a file of tools/export_bank.py, whose queries are of the other kind.
        transform: one of :data:`.ADDED`: the same order as that of the hook of that name with this
            bank, and the same differences of scores.
        temperature: positive; None = the model's.
        **options: further ones of the transform; None = its default.

    Returns:
        float32 [N] on the CPU.

    Raises:
        FileNotFoundError, RuntimeError: no such bank, or none.
        ValueError: another transform, a temperature that is not positive, negative iterations, a
            bank of another model.
    """
    function = transform_named(transform, ADDED)
    if isinstance(gallery, Tensor):
        raise ValueError('a transform needs Encoded items as its gallery, not flat vectors')
    device = torch.device(model.data_preprocessor.device)
    stored = {one: queries.different() for one, queries in read_bank(bank).items()}
    read = tiles_read(function.reads, model, device, OTHER[kind], stored, gallery)
    temperature = model.temperature().item() if temperature is None else temperature
    options.update(temperature=temperature, k=None, neighbours=options.get('k'))
    taken = {name: x for name, x in options.items() if name in function.options}
    return fit_biases(transform, read.pop('bank'), beside=read, **taken).items.cpu()
