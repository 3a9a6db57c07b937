"""Simulated tokens look like CLIP's, and their ground truth is correct."""

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize

from simulation.towers import SimulatedText
from simulation.world import SCENES, VOCABULARY, World, uniform


def encoded(width: int, count: int = 800):
    """Return the world, meanings, cosines of mean words with mean frames, and the truth."""
    world, items = World(), np.arange(count)
    meaning = world.texts_of(items, items)
    sentences = world.words(items, meaning)
    length = max(map(len, sentences))
    ids, mask = torch.zeros(count, length, dtype=torch.long), torch.zeros(count, length).bool()
    for row, sentence in enumerate(sentences):
        ids[row, : len(sentence)] = torch.from_numpy(sentence)
        mask[row, : len(sentence)] = True
    words, _ = SimulatedText(width, trained=False)(ids, mask)
    means = (words * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
    videos = world.frames(items, 12, width).mean(1)
    truth = torch.from_numpy(world.holds(meaning, items))
    return world, meaning, normalize(means, dim=-1) @ normalize(videos, dim=-1).t(), truth


@pytest.mark.parametrize('width', [64, 512])
def test_mean_pooled_tokens_have_the_cosines_of_clip(width):
    """Pairs have about .25, others about .1, one in a hundred above .2 (more at width 64)."""
    world, meaning, cosines, truth = encoded(width)
    own = torch.eye(len(cosines)).bool()
    assert 0.22 < cosines[own].mean() < 0.29
    assert 0.08 < cosines[~truth].mean() < 0.12
    above = (cosines[~own] > 0.2).float().mean()
    assert 0.003 < above < (0.015 if width == 512 else 0.04)
    assert cosines[~truth].mean() < cosines[truth & ~own].mean() < cosines[own].mean()
    # General texts and hub clips stand out in the means of rows and columns.
    items = np.arange(len(cosines))
    general, hubs = world.is_general(items), world.is_hub(items)
    rows, columns = cosines.mean(1), cosines.mean(0)
    assert rows[general].mean() > rows[~general].mean() + 0.01
    assert columns[hubs].mean() > columns[~hubs].mean() + 0.03
    assert not meaning.named[general].any() and meaning.named[~general].all()


def test_truth_is_that_of_a_loop_over_facts():
    world = World(seed=3, moments=3)
    texts, videos = np.arange(40), np.arange(30)
    meaning = world.texts_of(texts, texts % 30 * 3 + texts % 3)
    got = world.holds(meaning, videos)
    for t in texts:
        for v in videos:
            expected = False
            for moment in range(3 * v, 3 * v + 3):
                verb, noun, scene = world.facts(np.array([moment])).kinds[0]
                fits = (meaning.verb[t], meaning.noun[t]) == (verb, noun)
                fits &= meaning.scene[t] in (-1, scene)
                expected |= meaning.moment[t] == moment or (fits and not meaning.named[t])
            assert got[t, v] == expected, (t, v)
    assert got.sum() > len(texts)  # there are soft positives


def test_everything_is_a_function_of_the_numbers_of_items():
    world = World(seed=1)
    some = world.frames(np.array([5, 2]), 4, 32)
    torch.testing.assert_close(some, world.frames(np.arange(10), 4, 32)[[5, 2]])
    assert not torch.equal(some, World(seed=2).frames(np.array([5, 2]), 4, 32))
    scenes = World(moments=4).facts(np.arange(8)).kinds[:, 2]
    assert len(set(scenes[:4])) == 1 and scenes.max() < SCENES
    draws = uniform(0, 1, np.arange(20_000), 2)
    assert abs(draws.mean() - 0.5) < 0.01 and 0 <= draws.min() < draws.max() < 1
    assert abs(np.corrcoef(draws.T)[0, 1]) < 0.03


def test_words_are_in_the_vocabulary_and_bad_widths_are_refused():
    items = np.arange(50)
    sentences = World().words(items, World().texts_of(items, items))
    assert all(s[0] == 1 and s[-1] == 2 and s.max() < VOCABULARY for s in sentences)
    with pytest.raises(ValueError, match='at least 16'):
        World().frames(items, 2, 8)
