"""Simulated tower outputs with known ground truth, used in rehearsals instead of pixels and words.

A video has moments; a moment has facts (a verb, a noun, a scene) and a unique name.  A general text
states only verb and noun, so it is true of many videos, one of which is annotated; a specific text
also states the name.  Facts are vectors that frames and words share.  The space also has known
properties of CLIP's: a gap between the modalities, and hubs, videos with little content that are
close to every text.

Everything is a function of (seed, number of the item): nothing is stored, and any size is possible.
"""

from __future__ import annotations

from typing import NamedTuple, Sequence

import numpy as np
import torch
from torch import Tensor

#: Word ids: padding, start and end of a text, then words without content, then the facts.
PAD, SOT, EOT = 0, 1, 2
FILLERS = 8
VERBS, NOUNS, SCENES = 8, 10, 10
#: Number of name words; a name consists of two.
NAME_WORDS = 1024
FIRST_VERB = EOT + 1 + FILLERS
FIRST_NOUN = FIRST_VERB + VERBS
FIRST_SCENE = FIRST_NOUN + NOUNS
FIRST_NAME = FIRST_SCENE + SCENES
VOCABULARY = FIRST_NAME + NAME_WORDS

#: Shares of general texts and of hubs.
GENERAL, HUBS = 0.3, 0.03
#: Content of a moment: weights of verb, noun, scene and of each word of its name.
WEIGHTS = (0.45, 0.45, 0.3, 0.5, 0.5)
#: Lengths of the parts of a unit item: common to both modalities, content, modality gap, and noise
#: of the item and of each token. Cosines are then about .25 for pairs and .1 for others.
COMMON, CONTENT, GAP, ITEM_NOISE, TOKEN_NOISE = 0.28, 0.4, 0.6, 0.45, 0.8
#: Factors of a hub's content and common part, and of a general text's common part.
HUB_CONTENT, HUB_COMMON, GENERAL_COMMON = 0.5, 1.7, 1.2
#: Maximal width of the tables; wider spaces embed them.
BASE = 256
#: Number of different noise vectors.
NOISES = 4096


class Facts(NamedTuple):
    """Verb, noun and scene, int64 [N, 3], and name words, int64 [N, 2], of N moments."""

    kinds: np.ndarray
    names: np.ndarray


class Texts(NamedTuple):
    """Facts that N texts state: int64 [N] each, -1 if unstated.

    ``moment`` is the number of the described moment, ``named`` whether the text states the name.
    """

    moment: np.ndarray
    verb: np.ndarray
    noun: np.ndarray
    scene: np.ndarray
    named: np.ndarray


class World:
    """A simulated world: facts, texts and vectors.

    Args:
        seed: seed of the world.
        moments: number of moments of each video.
    """

    def __init__(self, *, seed: int = 0, moments: int = 1) -> None:
        self.seed = seed
        self.moments = moments

    # -- facts -------------------------------------------------------------------------------

    def facts(self, moments: np.ndarray) -> Facts:
        """Return facts of moments, int64 [N], numbered ``video * self.moments + place``."""
        draws = uniform(self.seed, 1, moments, 3)
        kinds = np.stack(
            [np.searchsorted(zipf(n), draws[:, k]) for k, n in enumerate((VERBS, NOUNS, SCENES))],
            1,
        )
        # All moments of a video share its scene.
        kinds[:, 2] = np.searchsorted(
            zipf(SCENES), uniform(self.seed, 2, moments // self.moments, 1)[:, 0]
        )
        return Facts(kinds, (uniform(self.seed, 3, moments, 2) * NAME_WORDS).astype(np.int64))

    def is_hub(self, videos: np.ndarray) -> np.ndarray:
        """Return whether videos are hubs, bool [N]."""
        return uniform(self.seed, 4, videos, 1)[:, 0] < HUBS

    def is_general(self, texts: np.ndarray) -> np.ndarray:
        """Return whether texts are general, bool [N]."""
        return uniform(self.seed, 5, texts, 1)[:, 0] < GENERAL

    def texts_of(self, texts: np.ndarray, moments: np.ndarray) -> Texts:
        """Return what texts, int64 [N], state of their moments, int64 [N]."""
        kinds = self.facts(moments).kinds
        general = self.is_general(texts)
        scene = ~general & (uniform(self.seed, 6, texts, 1)[:, 0] < 0.5)
        return Texts(moments, kinds[:, 0], kinds[:, 1], np.where(scene, kinds[:, 2], -1), ~general)

    def holds(self, texts: Texts, videos: np.ndarray) -> np.ndarray:
        """Return whether each text is true of some moment of each video, bool [T, V]."""
        numbers = (videos[:, None] * self.moments + np.arange(self.moments)).ravel()
        kinds = self.facts(numbers).kinds.reshape(len(videos), self.moments, 3)
        right = texts.moment[:, None, None] == numbers.reshape(len(videos), -1)
        meaning = np.stack([texts.verb, texts.noun, texts.scene], 1)[:, None, None]
        fits = ((meaning == kinds) | (meaning < 0)).all(-1)
        return (right | fits & ~texts.named[:, None, None]).any(-1)

    def words(self, texts: np.ndarray, meaning: Texts) -> list[np.ndarray]:
        """Return ids, int64 [L], of each of N texts: start, content among fillers, end."""
        names = FIRST_NAME + self.facts(meaning.moment).names
        fillers = EOT + 1 + (uniform(self.seed, 7, texts, 6) * FILLERS).astype(np.int64)
        counts = 2 + (uniform(self.seed, 8, texts, 1)[:, 0] * 5).astype(np.int64)
        sentences = []
        for row in range(len(texts)):
            content = [
                fillers[row, 0],
                FIRST_VERB + meaning.verb[row],
                FIRST_NOUN + meaning.noun[row],
            ]
            if meaning.scene[row] >= 0:
                content.append(FIRST_SCENE + meaning.scene[row])
            if meaning.named[row]:
                content += names[row].tolist()
            content += fillers[row, 1 : counts[row]].tolist()
            sentences.append(np.array([SOT, *content, EOT]))
        return sentences

    # -- vectors -----------------------------------------------------------------------------

    def frames(self, videos: np.ndarray, count: int, width: int) -> Tensor:
        """Return frames of N videos spread evenly over their moments, float32 [N, F, D]."""
        basis = Basis.of(self.seed, width)
        place = np.arange(count) * self.moments // count
        numbers = videos[:, None] * self.moments + np.arange(self.moments)
        content = basis.content(self.facts(numbers.ravel())).reshape(len(videos), self.moments, -1)
        hub = torch.from_numpy(self.is_hub(videos)).float()[:, None]
        item = basis.noise(self.seed, 9, videos, 'frames') * ITEM_NOISE
        item = (
            item + (COMMON * (1 + (HUB_COMMON - 1) * hub)) * basis.common + GAP * basis.gap_frames
        )
        token = torch.from_numpy((uniform(self.seed, 10, videos, count) * NOISES).astype(np.int64))
        shares = CONTENT * (1 + (HUB_CONTENT - 1) * hub)[:, :, None]
        frames = item[:, None] + shares * content[:, place]
        return frames + TOKEN_NOISE * basis.noises['frames'][token]


class Basis:
    """The vectors of a space of D dimensions.

    There are two spaces per width: ``'shared'``, of frames and of words aligned with them, and
    ``'words'``.

    Attributes:
        words: float32 [VOCABULARY, D], unit vectors of facts; 0 for words without content.
        common, gap_frames, gap_words: float32 [D], unit.
        noises: float32 [NOISES, D] by side, of length 1 on average; those of frames and of words
            are in separate subspaces.
    """

    _made: dict[tuple[int, int, str], 'Basis'] = {}

    def __init__(self, seed: int, width: int, space: str) -> None:
        base = min(width, BASE)
        generator = torch.Generator().manual_seed(1_000_003 * seed + 31 * width + len(space))
        axes = torch.linalg.qr(torch.randn(width, base, generator=generator))[0].t()
        half, quarter = base // 2, base // 4
        shared, own = axes[: half - 1], axes[half + 2 :]
        self.common, self.gap_frames, self.gap_words = axes[half - 1 : half + 2]
        self.words = torch.zeros(VOCABULARY, width)
        draws = torch.randn(VOCABULARY - FIRST_VERB, len(shared), generator=generator)
        self.words[FIRST_VERB:] = torch.nn.functional.normalize(draws, dim=-1) @ shared
        self.noises = {}
        for side, part in (('frames', own[:quarter]), ('words', own[quarter:])):
            draws = torch.randn(NOISES, len(part), generator=generator) * len(part) ** -0.5
            self.noises[side] = draws @ part

    @classmethod
    def of(cls, seed: int, width: int, space: str = 'shared') -> 'Basis':
        """Return the vectors, made once per process."""
        if width < 16:
            raise ValueError(f'simulated tokens need a width of at least 16, not {width}')
        key = seed, width, space
        if key not in cls._made:
            cls._made[key] = cls(*key)
        return cls._made[key]

    def content(self, facts: Facts) -> Tensor:
        """Return the unit content of moments, float32 [N, D]."""
        ids = np.concatenate(
            [facts.kinds + (FIRST_VERB, FIRST_NOUN, FIRST_SCENE), facts.names + FIRST_NAME], 1
        )
        vectors = self.words[torch.from_numpy(ids)]
        return (vectors * torch.tensor(WEIGHTS)[:, None]).sum(1) / sum(
            weight**2 for weight in WEIGHTS
        ) ** 0.5

    def noise(self, seed: int, stream: int, items: np.ndarray, side: str) -> Tensor:
        """Return noise vectors of items, float32 [N, D]."""
        rows = (uniform(seed, stream, items, 1)[:, 0] * NOISES).astype(np.int64)
        return self.noises[side][torch.from_numpy(rows)]


def zipf(count: int) -> np.ndarray:
    """Return cumulative shares that decay as 1 / (rank + 1), float64 [count]."""
    shares = 1 / (np.arange(count) + 2.0)
    return np.cumsum(shares) / shares.sum()


def uniform(seed: int, stream: int, items: Sequence[int] | np.ndarray, count: int) -> np.ndarray:
    """Return numbers in [0, 1), float64 [N, count], that depend on (seed, stream, item, place).

    The generator is splitmix64's finaliser on a counter, vectorised over items.
    """
    with np.errstate(over='ignore'):
        x = np.asarray(items, dtype=np.uint64)[:, None] * np.uint64(0x9E3779B97F4A7C15)
        x = x + np.arange(count, dtype=np.uint64) * np.uint64(0xD1B54A32D192ED03)
        x = x + np.uint64((seed * 0x2545F4914F6CDD1D + stream * 0x9E6C63D0876A9A47) % 2**64)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
            x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
    return (x >> np.uint64(11)).astype(np.float64) * 2.0**-53
