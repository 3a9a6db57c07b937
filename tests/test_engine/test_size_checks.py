"""What is too small to learn from is refused, what is too small to choose by is said."""

import pytest
from mmengine.config import Config

from mmvtr.engine.checks.set_checks import SMALL, check_sizes
from mmvtr.errors import UserError


class Set:
    def __init__(self, *captions):
        """A number of captions for each video."""
        self.texts = [dict(video_idx=[v]) for v, count in enumerate(captions) for _ in range(count)]
        self.videos = [{}] * len(captions)


ENOUGH = Set(*[1] * SMALL)


def said(train=ENOUGH, val=ENOUGH, batch=4, save_best='retrieval/rsum'):
    cfg = Config(
        dict(
            train_dataloader=dict(batch_size=batch),
            default_hooks=dict(checkpoint=dict(save_best=save_best)),
        ),
        filename=None,
    )
    return check_sizes(cfg, dict(train_dataloader=train, val_dataloader=val))


@pytest.mark.parametrize(
    'train, words', [(Set(1), '1 video and 1 text'), (Set(5), '1 video and 5 texts')]
)
def test_one_video_is_refused(train, words):
    with pytest.raises(UserError, match=f'^train_dataloader.dataset of .* has {words}: '):
        said(train=train)
    assert said(train=Set(1, 1)) == []


@pytest.mark.parametrize(
    'val, words',
    [
        (Set(1, 1), 'val has 2 videos and 2 texts, fewer than 50: one more right answer is 50 '),
        (
            Set(3, 2, 3),
            'val has 3 videos and 8 texts, fewer than 50: one more right answer is 33.3 ',
        ),
        (Set(*[1] * 49), 'is 2.04 points of R@1'),
        (Set(9), 'val has 1 video and 9 texts: not all directions have a wrong answer'),
        (Set(1), 'val has 1 video and 1 text: '),
    ],
)
def test_a_small_val_set_is_told(val, words):
    (line,) = said(val=val)
    assert words in line and '--no-validate' in line
    assert said(val=val, save_best=None) == []  # nothing is chosen


def test_nothing_is_said_where_all_is_well():
    assert said() == []
    assert check_sizes(Config(dict(train_dataloader=dict(batch_size=4))), {}) == []
    assert said(train=[1], val=[1]) == []  # datasets that do not tell


def test_a_batch_of_one_is_told():
    (line,) = said(batch=1)
    assert line.startswith('train_dataloader.batch_size=1: ')
