"""Checks of a training's sets: their sizes, halves, banks."""

from __future__ import annotations

from typing import Any, Mapping

from mmengine.config import Config
from mmengine.dist import get_world_size
from mmengine.runner import Runner
from torch.utils.data import Dataset

from mmvtr.datasets.records import ids_hash
from mmvtr.engine.loops.evaluation import bare
from mmvtr.engine.loops.facts import trainings_of
from mmvtr.errors import UserError
from mmvtr.models.supervisions.cross_fitted import CrossFittedTeachers
from mmvtr.storage.weights import read_checkpoint

#: Number of videos (or texts, if fewer) of a validation set below which the choice of the best
#: epoch is called random: the standard error of a recall of 50 % is 7 points there.
SMALL = 50


def check_sizes(cfg: Config, datasets: Mapping[str, Dataset]) -> list[str]:
    """Raise unless there are enough pairs to learn from; needs the process group.

    Sets without ``videos`` and ``texts`` are not checked.

    Args:
        cfg: config of the training.
        datasets: datasets by the names of their loaders.

    Returns:
        Lines to log about what makes sense only in a trial: a batch of one pair, a small val set.

    Raises:
        UserError: fewer than two videos to train on.
    """
    sizes = {name: size_of(dataset) for name, dataset in datasets.items()}
    train, val = sizes.get('train_dataloader'), sizes.get('val_dataloader')
    if train is not None and train[0] < 2:
        raise UserError(
            f'train_dataloader.dataset of {cfg.filename} has {sizes_in_words(train)}: '
            'training needs at least two videos, as each is a negative of the other'
        )
    remarks = []
    if cfg.train_dataloader.get('batch_size') == 1 and get_world_size() == 1:
        remarks.append(
            'train_dataloader.batch_size=1: a step has no second pair to compare with, so a '
            'contrastive or ranking loss without a memory bank is 0'
        )
    hook = (cfg.get('default_hooks') or {}).get('checkpoint') or {}
    if val is None or min(val) >= SMALL or not hook.get('save_best'):
        return remarks
    what = ': not all directions have a wrong answer, so best.pth is hardly a choice'
    if min(val) > 1:
        what = (
            f', fewer than {SMALL}: one more right answer is {100 / min(val):.3g} points of R@1, '
            'so which epoch becomes best.pth is much a matter of chance'
        )
    advice = '--no-validate tests the last epoch instead'
    return [*remarks, f'val has {sizes_in_words(val)}{what}. {advice}']


def size_of(dataset: Any) -> tuple[int, int] | None:
    """Return the numbers of videos that have a text and of texts; None if they are unknown."""
    texts = getattr(dataset, 'texts', None)
    if texts is None:
        return None
    return len({video for text in texts for video in text['video_idx']}), len(texts)


def sizes_in_words(size: tuple[int, int]) -> str:
    """Return counts in words, '1 video and 5 texts'."""
    return ' and '.join(f'{n:,} {kind}{"s" * (n != 1)}' for n, kind in zip(size, ('video', 'text')))


def check_halves(runner: Runner) -> None:
    """Raise unless each model of CrossFittedTeachers was trained on its half of the training set.

    The hash of its training set's ids, from its checkpoint, must be that of this set's items of
    that half.  A checkpoint without it (from a custom loop, or converted) causes a warning.

    Raises:
        UserError: it was trained on other items, or the training set has no halves.
        FileNotFoundError, RuntimeError, ValueError: errors of a checkpoint, see
            :func:`~mmvtr.storage.weights.read_checkpoint` and :func:`.trainings_of`.
    """
    teacher = getattr(bare(runner.model), 'teacher', None)
    if not isinstance(teacher, CrossFittedTeachers):
        return
    dataset = runner.train_dataloader.dataset
    sides = [getattr(dataset, name, None) for name in ('videos', 'texts')]
    if None in sides or not all('half' in record for records in sides for record in records):
        raise UserError(
            'CrossFittedTeachers need the halves of the training set: '
            '--cfg-options train_dataloader.dataset.records.half.type=Halves'
        )
    halves = [[[r for r in records if r['half'] == k] for records in sides] for k in (0, 1)]
    hashes = [ids_hash(*half) for half in halves]
    for k, path in enumerate(teacher.halves):
        for training in trainings_of(read_checkpoint(path), path):
            if training.ids is None:
                runner.logger.warning(
                    f'{path} does not tell what it was trained on: that it is half {k} of the '
                    'training set is not checked'
                )
            elif training.ids != hashes[k]:
                ids = training.ids
                which = f', which is half {hashes.index(ids)}' if ids in hashes else ''
                raise UserError(
                    f'model.teacher.halves: {path} was trained on '
                    f'{training.items().get("trained on")}{which}, not on '
                    f'half {k} of the training set (ids {hashes[k]}, {len(halves[k][0]):,} '
                    'videos): train it with the same set and records.half.type=Halves '
                    f'records.half.keep={k} (and the same seed)'
                )


def check_banks(runner: Runner) -> None:
    """Raise if a memory bank is larger than an epoch of the training set.

    A larger one would hold several keys of one item, from encoders an epoch apart.

    Raises:
        UserError: it is; states both sizes, and what to set.
    """
    model = bare(runner.model)
    if not hasattr(model, 'banks'):
        return
    size = max(bank.size for bank in model.banks.values())
    count = len(runner.train_dataloader.dataset)
    if size > count:
        raise UserError(
            f'a memory bank of {size} keys is longer than an epoch of the training set, '
            f'{count} items: it would hold the same items twice. Set model.bank_size to at most '
            f'{count}, or better to half of it'
        )
