"""Transforms that change a gallery's order: by a bank of queries, or sure first."""

from __future__ import annotations

import logging
from typing import Any, Mapping, Optional

import torch
from mmengine.logging import print_log
from torch import Tensor, nn

from mmvtr.apis.inferencer.inputs import Inputs
from mmvtr.apis.inferencer.ranking import QUERIES, Items, Surely, check_items, flat_of
from mmvtr.arrays import Debiaser
from mmvtr.datasets import CaptionImplication
from mmvtr.engine.hooks.query_queue import Queries
from mmvtr.engine.hooks.stored_queries import (
    OTHER,
    captions_of,
    pairs_known,
    read_bank,
    read_training_set,
    tiles_read,
)
from mmvtr.functional.transforms.transform_table import TRANSFORMS, with_model
from mmvtr.functional.uncertainty.calibration import Calibration
from mmvtr.functional.values import check_range

#: Name of the transform that ranks the surest text first; the others read a bank.
SURE_FIRST = 'sure_first'
#: Maximum implications kept between queries: 256 MiB of float32.  More are recomputed.
HELD = 2**26


def check_transform(
    transform: Optional[str],
    kind: str,
    *,
    bank: Optional[str],
    captions: Any,
    options: Mapping[str, Any],
) -> None:
    """Raise if a gallery's options are inconsistent, before it is encoded.

    Args:
        transform: a name of the table of transforms; None = raw scores.
        kind: kind of the gallery.
        bank: a file.
        captions: a training set, or its config.
        options: options of the transform.

    Raises:
        ValueError: an unknown transform or option, or one out of range; a transform without its
            inputs, or inputs without a transform; ``'sure_first'`` for videos.
    """
    if transform != SURE_FIRST:
        Debiaser(transform, **with_model(options))  # rejects unknown options
    if transform == SURE_FIRST:
        sure_options(options)
        if kind != 'text':
            raise ValueError(f"transform={SURE_FIRST!r} needs a gallery of texts: set kind='text'")
        if captions is None:
            raise ValueError(
                f'transform={SURE_FIRST!r} needs captions=, the training set (or its config) whose '
                'captions say what texts imply'
            )
        return
    if captions is not None:
        raise ValueError(f'captions= belongs to transform={SURE_FIRST!r}, got {transform!r}')
    if (transform is None) != (bank is None):
        raise ValueError(
            f'a transform and its bank belong together: got transform={transform!r}, '
            f'bank={None if bank is None else bank[:80]!r}'
        )


def sure_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return temperature and ``sure`` of sure first, with defaults for missing ones.

    Raises:
        ValueError: another option, or one out of range.
    """
    options = dict(temperature=None, sure=TRANSFORMS[SURE_FIRST].options['sure'])
    if unknown := sorted({*given} - {*options}):
        raise ValueError(f'{SURE_FIRST} takes {sorted(options)}, not {unknown[0]!r}')
    options.update(given)
    check_range('[0, 1]', sure=options['sure'])
    if options['temperature'] is not None and not options['temperature'] > 0:
        raise ValueError(f'temperature must be positive, not {options["temperature"]}')
    return options


def check_calibration(calibration: Any, transform: Optional[str]) -> None:
    """Raise unless a calibration fits the scores that rank the gallery.

    Raises:
        TypeError: it is not a calibration.
        ValueError: it was fitted on debiased scores, but the gallery has no biases; or on raw ones,
            but a bank ranks the gallery.
    """
    if not isinstance(calibration, Calibration):
        raise TypeError(f'calibration must be a Calibration, not {type(calibration).__name__}')
    ranked = transform not in (None, SURE_FIRST)
    if calibration.debiased and not ranked:
        raise ValueError('the calibration is for debiased scores, but the gallery has no biases')
    if ranked and not calibration.debiased:
        raise ValueError(
            f'the calibration is for raw scores, but {transform} ranks the gallery: fit one to '
            'scores with this transform (debiased=True)'
        )


@torch.no_grad()
def surely_of(
    model: nn.Module,
    inputs: Inputs,
    gallery: Items,
    *,
    captions: Any,
    bank: Optional[str],
    temperature: Optional[float],
    sure: float,
) -> Surely:
    """Return the implications with which a gallery's texts are ranked for a video
    (docs/agreement.md).

    Args:
        model: a retriever.
        inputs: the N texts of the gallery.
        gallery: the same, encoded.
        captions: the training set, or its config; only its annotations are read.
        bank: a file of tools/export_bank.py of that set, one of whose captions could have been
            written for a video. None: one of the gallery's texts.
        temperature: in score units; None = a share of how far each video's best score lies above
            its mean (:func:`~mmvtr.functional.expected_truth`).
        sure: in [0, 1], minimum certainty of a first text.

    Raises:
        FileNotFoundError, RuntimeError: no such bank, or not a bank.
        ValueError: unknown texts, captions of which no video has two, a bank of another model or of
            another training set.
    """
    if None in inputs.sources:
        raise ValueError(
            f'transform={SURE_FIRST!r} reads the texts of the gallery: give texts, no vectors'
        )
    data = read_training_set(captions)
    witness = CaptionImplication()
    witness.learn(data.videos, data.texts)
    written, captions_written = None, inputs.sources
    if bank is not None:
        queries = read_bank(bank)['text'].one_per_item()
        captions_written = captions_of(queries, data, name=bank)
        check_items(model, queries.levels, bank, gallery)
        flat = flat_of(model, queries.levels)
        written = queries.levels if flat is None else flat
    device = torch.device(model.data_preprocessor.device)
    implied = witness.among(captions_written, inputs.sources, device=device)
    if implied.shape[0] * implied.shape[1] <= HELD:
        implied = torch.cat([tile for _, tile in implied.parts()], dim=1)
    else:
        print_log(
            f'What {implied.shape[0]} texts imply about {implied.shape[1]} is too large to keep: '
            f'it is computed again for each {QUERIES} videos, which takes about a minute without '
            'a GPU',
            'current',
            logging.WARNING,
        )
    return Surely(implied, written, temperature, sure)


@torch.no_grad()
def fitted_to_bank(
    model: nn.Module,
    kind: str,
    gallery: Items,
    *,
    bank: str,
    transform: str,
    options: Mapping[str, Any],
) -> tuple[Debiaser, Queries]:
    """Return a test-time transform fitted to a bank's scores with a gallery, and its queries.

    Args:
        model: a retriever.
        kind: kind of the gallery.
        gallery: N encoded items.
        bank: a file of tools/export_bank.py, whose queries are of the other kind.
        transform: ``'auto'`` or a name of the table: the same scores as those of the hook of that
            name with this bank.
        options: options of the transform; ``temperature='model'`` is the model's own.

    Raises:
        FileNotFoundError, RuntimeError: no such bank, or not a bank.
        ValueError: options that do not fit, a bank of another model.
    """
    if isinstance(gallery, Tensor):
        raise ValueError('a transform needs Encoded items as its gallery, not flat vectors')
    device, asking = torch.device(model.data_preprocessor.device), OTHER[kind]
    stored = {side: queries.unique() for side, queries in read_bank(bank).items()}
    reads = () if transform == 'auto' else TRANSFORMS[transform].reads
    extra = tiles_read(reads, model, device, asking, stored, gallery)
    bank_scores = extra.pop('bank')
    resolved = with_model(options, model.temperature().item())
    pairs = pairs_known(model, device, asking, stored)
    debiaser = Debiaser(transform, **resolved)
    debiaser.fit_scores(bank_scores, extra_inputs=extra, pairs=pairs)
    if debiaser.transform_ is None:
        print_log(debiaser.why_, 'current', logging.WARNING)
    return debiaser, stored[OTHER[kind]]
