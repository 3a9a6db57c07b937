"""Probability that a text holds for a video, estimated from the captions of clips that have
several.

It never sees a frame, so its errors are not those of a model that looks at clips.
"""

from __future__ import annotations

import math
from typing import Any, Optional, Sequence

import numpy as np
import torch
from torch import Tensor

from mmvtr.datasets.caption_similarity.caption_agreement import (
    WORD,
    count_pairs,
    largest_directions,
    read_captions,
)
from mmvtr.datasets.records import Records
from mmvtr.functional.similarities.tiles import Tiles
from mmvtr.functional.values import check_range
from mmvtr.registry import TASK_UTILS


@TASK_UTILS.register_module()
class CaptionImplication:
    """Record transform that adds a vector ``agreement`` to each text and video, whose product is
    the log probability that the text holds for the video.

        q_wu = min(1, P(another caption says w | one says u) / P(another says w | one says w))
        p_wv = max of q_wu over words u of v's captions
        agreement_tv = sum of log max(p_wv, least) over words w of t

    A caption leaves out most of what is true, so a word that is not said may hold all the same.
    P(another says w | one says w), counted in clips of several captions, is how often a true word
    is said again: the label frequency of learning from positive and unlabelled examples, by which
    the rate of what is *said* is divided to get the rate of what *holds* ("hops" where another
    caption has "bounces": surely; where it has "star": as rarely as anywhere).  "a" and "there is"
    hold for everything and do not affect the result, without a list of stop words; each word that
    is not implied lowers a text's probability.

    A text without a known word is implied by every video that has captions.  For a video without
    captions each word has probability ``least``.

    Args:
        words: size of the vocabulary, the most frequent words.
        prior: weight, in captions, of the value expected without counts: the frequency of w in
            P(w | u), the mean over all words in P(w | w).
        least: smallest probability of a word, in (0, 1).
        dim: D, dimensions of the vectors; the number of words, the maximum, is exact.
        mean: average over the text's words instead of summing: no longer a probability, but long
            texts are not penalised for their length.

    Attributes:
        known: the vocabulary, once it has learnt.
        implied: float64 [U, W], q_wu, once it has learnt.

    Raises:
        ValueError: ``words`` or ``dim`` below 1, a prior that is not positive, ``least`` outside
            (0, 1); (called, or learning) no video has two captions.

    Source: ours; the division is Elkan and Noto, "Learning classifiers from only positive and
    unlabeled data", KDD 2008, Lemma 1.
    """

    of_what_stays = True

    def __init__(
        self,
        *,
        words: int = 2048,
        prior: float = 1.0,
        least: float = 1e-3,
        dim: int = 256,
        mean: bool = False,
    ) -> None:
        check_range('[1, inf]', words=words, dim=dim)
        check_range('(0, inf]', prior=prior)
        check_range('(0, 1)', least=least)
        self.words = words
        self.prior = prior
        self.least = least
        self.dim = dim
        self.mean = mean
        self.known: list[str] = []
        self.implied: Optional[np.ndarray] = None

    def __call__(self, videos: Records, texts: Records) -> tuple[Records, Records]:
        """Add ``agreement`` in place; each text's ``video_idx`` says which videos it describes."""
        bags, owners = self.learn(videos, texts)
        # Rows are videos: the directions of largest second moment carry most of the logs.
        logs = np.log(self._of_videos(self.implied, bags, owners))
        _, basis = largest_directions(logs.T @ logs, self.dim)
        for video, vector in zip(videos, (logs @ basis).astype(np.float32)):
            video['agreement'] = vector
        for text, bag in zip(texts, bags):
            count = max(len(bag), 1) if self.mean else 1
            text['agreement'] = (basis[bag].sum(0) / count).astype(np.float32)
        return videos, texts

    def learn(
        self, videos: Sequence[dict[str, Any]], texts: Sequence[dict[str, Any]]
    ) -> tuple[list[list[int]], list[list[int]]]:
        """Count words and store which imply which; the records stay unchanged.

        Returns:
            The words of each caption and the captions of each video, as indices.
        """
        self.known, _, bags, owners = read_captions(videos, texts, self.words)
        implied = implications(bags, owners, len(self.known), self.prior)
        self.implied = implied.clip(min=self.least)
        return bags, owners

    def among(
        self,
        captions: Sequence[str],
        others: Optional[Sequence[str]] = None,
        *,
        device: Optional[str | torch.device] = None,
    ) -> Tiles:
        """Return how surely captions imply each other, each taken as the only caption of a clip.

        A word outside the vocabulary is implied by itself, and by everything else with probability
        ``least``, so that an uncounted word does not pass for a function word.  The same holds for
        a caption without words.

        Args:
            captions: N of them.
            others: M of them; None = the same.
            device: device of the tiles; default the CPU.

        Returns:
            Tiles of float32 [N, M] in [0, 1]: entry (a, b) is how surely caption a implies caption
            b, as ``functional.expected_truth`` takes it.  The memory held is one number for each of
            the N captions and each known word.

        Raises:
            RuntimeError: it has not learnt yet.

        Example:
            ::

                >>> texts = [dict(text=said, video_idx=[0]) for said in ('a star hops', 'it moves')]
                >>> witness = CaptionImplication()
                >>> _ = witness.learn([{}], texts)
                >>> tiles = witness.among(['it hops', 'it moves'], ['it moves'])
                >>> [[round(sure, 2) for (sure,) in tile.tolist()] for _, tile in tiles.parts()]
                [[0.67, 1.0]]
        """
        if self.implied is None:
            raise RuntimeError('CaptionImplication: call learn(videos, texts) first')
        premises = self._bags(captions)
        conclusions = premises if others is None else self._bags(others)
        logs = np.full((len(premises), len(self.known)), np.log(self.least), dtype=np.float32)
        for row, (known, _) in zip(logs, premises):
            if known:
                row[:] = np.log(self.implied[known].max(0))
        log_implied, never = torch.from_numpy(logs).to(device), math.log(self.least)
        place: dict[str, int] = {}
        for _, unknown in premises:
            for word in unknown:
                place.setdefault(word, len(place))
        entries = [(n, place[word]) for n, (_, unknown) in enumerate(premises) for word in unknown]
        having = torch.sparse_coo_tensor(
            torch.tensor(entries, dtype=torch.long).reshape(-1, 2).t(),
            torch.ones(len(entries)),
            (len(premises), len(place)),
            device=log_implied.device,
            check_invariants=True,
        ).coalesce()

        def columns(part: slice) -> Tensor:
            some = conclusions[part]
            stated = torch.zeros(len(self.known), len(some))
            shared = torch.zeros(len(place), len(some))
            for column, (known, unknown) in enumerate(some):
                stated[known, column] = 1.0
                shared[[place[word] for word in unknown if word in place], column] = 1.0
            missed = torch.tensor([float(len(unknown)) for _, unknown in some]).to(log_implied)
            with torch.autocast(log_implied.device.type, enabled=False):
                if place:
                    missed = missed - torch.sparse.mm(having, shared.to(log_implied))
                log_truth = log_implied @ stated.to(log_implied) + never * missed
            return log_truth.clamp_(max=0).exp_()

        return Tiles.of((len(premises), len(conclusions)), columns, name='implied')

    def _bags(self, captions: Sequence[str]) -> list[tuple[list[int], list[str]]]:
        """Return each caption's known words as indices and its unknown words; a caption without
        words yields itself in parentheses, which no word can equal."""
        number = {word: n for n, word in enumerate(self.known)}
        bags = []
        for caption in captions:
            bag = sorted(set(WORD.findall(caption.lower()))) or [f'({caption})']
            known = [number[word] for word in bag if word in number]
            bags.append((known, [word for word in bag if word not in number]))
        return bags

    def _of_videos(
        self,
        implied: np.ndarray,
        bags: Sequence[Sequence[int]],
        owners: Sequence[Sequence[int]],
    ) -> np.ndarray:
        """Return p_wv, float64 [V, W], from ``implied``, [U, W]."""
        probabilities = np.full((len(owners), implied.shape[1]), self.least)
        for row, captions in zip(probabilities, owners):
            words = sorted({word for t in captions for word in bags[t]})
            if words:
                row[:] = implied[words].max(0)
        return probabilities


def implications(
    bags: Sequence[Sequence[int]], owners: Sequence[Sequence[int]], words: int, prior: float
) -> np.ndarray:
    """Return the probability that a word holds for a video of which another word is said.

    Args:
        bags: the distinct words of each caption, as numbers below ``words``.
        owners: the captions of each video.
        words: W.
        prior: see :class:`CaptionImplication`.

    Returns:
        float64 [U, W] in [0, 1], entry (u, w) that of w given u; 1 for equal words.

    Raises:
        ValueError: no video has two captions.

    Example:
        Of three captions with word 0 two have another caption with it beside them, so two thirds of
        what is true are said; beside word 1 it is said half as often. ::

            >>> bags, owners = [[0], [0], [1], [1], [0], [1]], [[0, 1], [2, 3], [4, 5]]
            >>> implications(bags, owners, 2, 1e-9).round(2)
            array([[1. , 0.5],
                   [0.5, 1. ]])
    """
    pairs = count_pairs(bags, owners, words)
    frequency = pairs.alone / pairs.captions
    stated = (pairs.together + prior * frequency) / (pairs.alone + prior)[:, None]
    again = np.diag(pairs.together)
    mean = again.sum() / max(pairs.alone.sum(), 1.0)
    label = (again + prior * mean) / (pairs.alone + prior)
    implied = np.minimum(stated / np.where(label > 0, label, 1.0), 1.0)
    np.fill_diagonal(implied, 1.0)
    return implied


@TASK_UTILS.register_module()
class SummedCaptionSimilarity:
    """Record transform whose ``agreement`` product is a weighted sum of those of several caption
    similarities; the vectors are concatenated, those of texts times the weights.

    :class:`CaptionAgreement` plus the mean of :class:`CaptionImplication` at twice the weight
    agrees with human judgments better than either alone
    (projects/lab/evidence/pages/judged_training.md).

    Args:
        parts: configs of the caption similarities.
        weights: one per part; None: all 1.

    Raises:
        ValueError: no parts, or another number of weights.
    """

    of_what_stays = True

    def __init__(
        self, *, parts: Sequence[dict[str, Any]], weights: Optional[Sequence[float]] = None
    ) -> None:
        if not parts:
            raise ValueError('SummedCaptionSimilarity: expected at least one part')
        self.parts = [TASK_UTILS.build(part) for part in parts]
        self.weights = [1.0] * len(parts) if weights is None else list(weights)
        if len(self.weights) != len(self.parts):
            raise ValueError(
                f'SummedCaptionSimilarity: {len(self.weights)} weights for {len(self.parts)} parts'
            )

    def __call__(self, videos: Records, texts: Records) -> tuple[Records, Records]:
        """Add ``agreement`` in place; each text's ``video_idx`` says which videos it describes."""
        vectors: dict[int, list[np.ndarray]] = {id(record): [] for record in (*videos, *texts)}
        for part, weight in zip(self.parts, self.weights):
            part(videos, texts)
            for record in videos:
                vectors[id(record)].append(record['agreement'])
            for record in texts:
                vectors[id(record)].append(np.float32(weight) * record['agreement'])
        for record in (*videos, *texts):
            record['agreement'] = np.concatenate(vectors[id(record)])
        return videos, texts
