"""What of a text is read, and that the rest is told."""

from __future__ import annotations

import pytest

from mmvtr.datasets.words.tokenizers import CLIPTokenize, WordTokenize
from mmvtr.serving.cut import cut_of

WORDS = ['a', 'red', 'star', 'spins', 'and', 'falls']


@pytest.fixture
def closed(tmp_path):
    (tmp_path / 'vocab.txt').write_text('\n'.join(WORDS))
    return lambda most: WordTokenize(str(tmp_path / 'vocab.txt'), most)


@pytest.mark.parametrize('count, most', [(6, 8), (6, 7), (7, 8), (30, 24), (1, 3), (500, 77)])
def test_words(closed, count, most):
    """Counted by hand: the words and a token at either end."""
    text = ' '.join(WORDS[i % 6] for i in range(count))
    expected = (most, count + 2) if count + 2 > most else None
    step = closed(most)
    assert cut_of([step], text) == expected
    assert step.context_length == most  # as it was


def test_byte_pairs():
    pytest.importorskip('open_clip')
    step = CLIPTokenize(12)
    assert cut_of([step], 'cat ' * 10) is None
    assert cut_of([step], 'cat ' * 11) == (12, 13)
    assert cut_of([step], '雪' * 900).of > 900


def test_what_says_no_limit(closed):
    assert cut_of([], 'a b') is None
    assert cut_of([object(), closed(4)], 'a red star') == (4, 5)
