"""Texts of configs whose sets are tiny: clips of the current folder, and a few planted ones."""

from typing import Any

import toy
from children import ROOT

VIDEOS = """
{part}_dataloader = dict(
    batch_size={batch},
    num_workers=0,
    dataset=dict(
        type='ToyVideos',
        names=list('{names}'),
        text_pipeline=[dict(type='ToySay')],
        video_pipeline=[dict(type='LoadVideo', {how})],
    ),
)
"""
PLANTED = """
_base_ = ['{root}/configs/{config}.py']
custom_imports = dict(imports=['toy'], allow_failed_imports=False)
corpus = dict(num_train={train}, num_val={val}, num_test={test})
train_dataloader = dict(batch_size={batch}, num_workers=0, dataset=corpus)
val_dataloader = dict(num_workers=0, dataset=corpus)
test_dataloader = dict(num_workers=0, dataset=corpus)
train_cfg = {train_cfg}
"""


def of_videos(test: str = 'a', train: str = '', *, frames: int = 2) -> str:
    """The toy retriever and its sets; a letter is a file: ``LETTER.mp4``, and its caption.

    Args:
        test, train: letters.
        frames: of a clip that is tested; of one that is trained on one is drawn.
    """
    how = f'num_frames={frames}'
    text = toy.RETRIEVER + VIDEOS.format(part='test', names=test, batch=2, how=how)
    if train:
        drawn = "num_frames=1, sampling='segment_random'"
        text += VIDEOS.format(part='train', names=train, batch=4, how=drawn)
        text += "train_dataloader.update(sampler=dict(type='EpochSampler'))\n"
    return text


def of_planted(
    config: str, clips: tuple[int, int, int] = (8, 4, 4), *, batch: int = 4, **train_cfg: Any
) -> str:
    """A config of the planted corpus, with so many clips to train, validate and test on."""
    sizes = dict(zip(('train', 'val', 'test'), clips))
    return PLANTED.format(root=ROOT, config=config, batch=batch, train_cfg=train_cfg, **sizes)
