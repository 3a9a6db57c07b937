"""Sets and batches that are too small to learn from or to choose by.  Said before a training."""

from __future__ import annotations

from typing import Any, Iterator, Mapping

from mmengine.config import Config
from mmengine.dist import get_world_size
from torch.utils.data import Dataset

#: Videos, or texts if these are fewer, of a validation set below which a best epoch is told as one
#: of chance: the standard error of a recall of 50 % is 7 points there.
SMALL = 50


def check_sizes(cfg: Config, datasets: Mapping[str, Dataset]) -> list[str]:
    """Raise unless there are pairs to learn from; needs the process group.

    Sets without ``videos`` and ``texts`` are let through.

    Args:
        cfg: of the training.
        datasets: by the names of their loaders.

    Returns:
        Lines to log of what makes sense only in a trial: a batch of one pair, a small val set.

    Raises:
        SystemExit: fewer than two videos to train on.
    """
    sizes = {name: size_of(dataset) for name, dataset in datasets.items()}
    train, val = sizes.get('train_dataloader'), sizes.get('val_dataloader')
    if train is not None and train[0] < 2:
        raise SystemExit(
            f'error: train_dataloader.dataset of {cfg.filename} has {in_words(train)}: there is no '
            'other video to tell it from, and nothing would be learnt. Two videos are needed'
        )
    return [*_batch(cfg), *(_choice(cfg, val) if val is not None else ())]


def size_of(dataset: Any) -> tuple[int, int] | None:
    """Return the videos that have a text, and the texts; None if the dataset does not tell."""
    texts = getattr(dataset, 'texts', None)
    if texts is None:
        return None
    return len({video for text in texts for video in text['video_idx']}), len(texts)


def in_words(size: tuple[int, int]) -> str:
    """Return counts in words, '1 video and 5 texts'."""
    return ' and '.join(f'{n:,} {kind}{"s" * (n != 1)}' for n, kind in zip(size, ('video', 'text')))


def _batch(cfg: Config) -> Iterator[str]:
    if cfg.train_dataloader.get('batch_size') == 1 and get_world_size() == 1:
        yield (
            'train_dataloader.batch_size=1: a step has no second pair to compare with, so a '
            'contrastive or ranking loss without a memory bank is 0'
        )


def _choice(cfg: Config, val: tuple[int, int]) -> Iterator[str]:
    hook = (cfg.get('default_hooks') or {}).get('checkpoint') or {}
    few = min(val)
    if not hook.get('save_best') or few >= SMALL:
        return
    if few == 1:
        yield (
            f'val has {in_words(val)}: not all directions have a wrong answer, so best.pth is '
            'hardly a choice. --no-validate tests the last epoch instead'
        )
    else:
        yield (
            f'val has {in_words(val)}, fewer than {SMALL}: one more right answer is '
            f'{100 / few:.3g} points of R@1, so which epoch becomes best.pth is much a matter of '
            'chance. --no-validate tests the last epoch instead'
        )
