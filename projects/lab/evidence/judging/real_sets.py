"""Real scores as queries, galleries and banks: CLAP, Clotho, Flickr8k, CxC, TAU, and one's own."""

from __future__ import annotations

import csv
from collections import defaultdict
from pathlib import Path
from typing import Iterator, NamedTuple, Optional, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from study_parts.image_judgments import read_flickr8k_crowd
from torch import Tensor

from judging.corpora import crisscrossed, flickr8k
from judging.words import KINDS, Groups
from mmvtr.datasets.annotation_files import read_ids

CONDITIONS = dict(
    clean='original',
    highpass='highpass_1000Hz',
    lowpass='lowpass_4000Hz',
    noise='noisy_snr10dB',
    pitch='pitch_shift',
)
HALVINGS = 4
#: Of Clotho: each split and the one that is its bank.
BANK_OF = dict(evaluation='validation', validation='evaluation', development='evaluation')


class Side(NamedTuple):
    """Unit vectors of queries [Q, D] and of the items [N, D] that they ask for, or None."""

    queries: Tensor
    items: Optional[Tensor]


class Part(NamedTuple):
    """Q queries that ask a gallery of N items, and a bank of other pairs.

    Attributes:
        scores: float32 [Q, N].
        own: int64 [Q], column of the item that a query was written for.
        queries, items: int64 [Q], [N], their numbers in the whole set.
        bank: float32 [K, N], other queries with the gallery; None = there is none.
        bank_gallery: float32 [K, M], these with items of the bank.
        item_bank: float32 [M, N], these items with the gallery.
        grades: float64 [Q, N], NaN = not judged; None = nobody judged.
        at_least: the lowest grade that is right; None = grades are gains of nDCG.
        test, seen: the vectors, of the test and of the bank; None of a matrix.
    """

    scores: Tensor
    own: Tensor
    queries: Tensor
    items: Tensor
    bank: Optional[Tensor] = None
    bank_gallery: Optional[Tensor] = None
    item_bank: Optional[Tensor] = None
    grades: Optional[Tensor] = None
    at_least: Optional[float] = None
    test: Optional[Side] = None
    seen: Optional[Side] = None


class Case(NamedTuple):
    """A set in one direction; the numbers of its parts' queries and items count from 0."""

    name: str
    kind: str
    parts: Sequence[Part]


def part_of(test: Side, seen: Optional[Side], numbers: Optional[Tensor] = None, **known) -> Part:
    """From vectors; query i is of item i."""
    test = Side(*(F.normalize(x.float(), dim=1) for x in test))
    numbers = torch.arange(len(test.items)) if numbers is None else numbers
    found = Part(
        test.queries @ test.items.T,
        torch.arange(len(test.queries)),
        numbers[: len(test.queries)],
        numbers,
        test=test,
    )
    if seen is not None:
        seen = Side(*(None if x is None else F.normalize(x.float(), dim=1) for x in seen))
        found = found._replace(seen=seen, bank=seen.queries @ test.items.T)
        if seen.items is not None:
            found = found._replace(
                bank_gallery=seen.queries @ seen.items.T, item_bank=seen.items @ test.items.T
            )
    return found._replace(**known)


def halved(queries: Tensor, items: Tensor) -> list[Part]:
    """Pairs [N, D]: each half is asked once a halving, and the other half is its bank."""
    parts = []
    for seed in range(HALVINGS):
        order = np.random.default_rng(seed).permutation(len(queries))
        halves = [torch.from_numpy(np.sort(x)) for x in np.array_split(order, 2)]
        for own, other in (halves, halves[::-1]):
            test, seen = Side(queries[own], items[own]), Side(queries[other], items[other])
            parts.append(part_of(test, seen, own))
    return parts


def distinct(texts: Tensor, videos: Tensor) -> tuple[Tensor, Tensor]:
    """Pairs without those whose video, or text, has been there before."""
    for column in (videos, texts):
        _, first = np.unique(column.numpy(), axis=0, return_index=True)
        first = torch.from_numpy(np.sort(first))
        texts, videos = texts[first], videos[first]
    return texts, videos


def both(name: str, kind: str, texts: Tensor, videos: Tensor) -> Iterator[Case]:
    """A set of pairs, halved, in both directions."""
    yield Case(f'{name} t2v', kind, halved(texts, videos))
    yield Case(f'{name} v2t', kind, halved(videos, texts))


def clap_pairs(folder: Path, condition: str) -> tuple[Tensor, Tensor]:
    """Captions and distinct sounds; which are distinct is said by the clean ones."""
    base = folder / 'clap_audiocaps'
    texts = np.load(base / 'outputs_embeddings_text_embeddings.npy')
    clean, sounds = (
        np.load(base / f'outputs_embeddings_audio_emb_{CONDITIONS[x]}.npy')
        for x in ('clean', condition)
    )
    first = np.sort(np.unique(clean, axis=0, return_index=True)[1])
    return torch.from_numpy(texts[first]).float(), torch.from_numpy(sounds[first]).float()


def clap(folder: Path) -> Iterator[Case]:
    for condition in CONDITIONS:
        yield from both(f'CLAP {condition}', 'CLAP', *clap_pairs(folder, condition))


def captions_of(path: Path) -> Tensor:
    """Vectors of five captions an item, float32 [N, 5, D]."""
    vectors = torch.from_numpy(np.load(path)).float()
    return vectors.reshape(-1, 5, vectors.shape[-1])


def roles(captions: Tensor, asks: int) -> Side:
    """The caption that asks, and the mean of the other four."""
    others = [n for n in range(5) if n != asks]
    return Side(captions[:, asks], captions[:, others].mean(1))


def swapped(side: Side) -> Side:
    return Side(side.items, side.queries)


def clotho(minilm: Path) -> Iterator[Case]:
    sides = {x: roles(captions_of(minilm / f'clotho_{x}.npy'), 0) for x in list(BANK_OF)[:2]}
    for split, test in sides.items():
        seen = sides[BANK_OF[split]]
        yield Case(f'Clotho {split} t2v', 'MiniLM', [part_of(test, seen)])
        parts = [part_of(swapped(test), swapped(seen))]
        yield Case(f'Clotho {split} v2t', 'MiniLM', parts)


def flickr8k_minilm(minilm: Path, crowd: Path) -> Iterator[Case]:
    images = read_ids(minilm / 'flickr8k_crowd_ids.txt')
    test = roles(captions_of(minilm / 'flickr8k_crowd.npy'), 2)
    seen = roles(captions_of(minilm / 'flickr8k_bank.npy'), 2)
    grades = read_flickr8k_crowd(crowd).matrix([f'{x}#2' for x in images], images)
    yield from judged('Flickr8k MiniLM', 'MiniLM', [(test, seen, torch.from_numpy(grades), 0.501)])


def judged(name: str, kind: str, blocks: Sequence) -> Iterator[Case]:
    """(test, seen, grades [N, N], least grade) of one or more galleries, in both directions."""
    for direction in ('t2v', 'v2t'):
        parts, first = [], 0
        for test, seen, grades, least in blocks:
            if direction == 'v2t':
                test, seen, grades = swapped(test), swapped(seen), grades.T
            numbers = first + torch.arange(len(grades))
            parts.append(part_of(test, seen, numbers, grades=grades, at_least=least))
            first += len(grades)
        yield Case(f'{name} {direction}', kind, parts)


class _Kept:
    """An encoder of groups of captions that keeps what it made last."""

    def __init__(self, encode) -> None:
        self.encode = encode

    def __call__(self, groups: Groups) -> dict[str, Tensor]:
        self.last = self.encode(groups)
        return self.last


def _block(last: dict[str, Tensor], grades: Tensor, least: float) -> tuple:
    test, seen = Side(last['texts'], last['items']), Side(last['texts_of_bank'], last['bank'])
    return test, seen, grades, least


def flickr8k_tfidf(folder: Path) -> Iterator[Case]:
    kept = _Kept(KINDS['tfidf'])
    matrices = flickr8k(folder, 'tfidf', kept)
    block = _block(kept.last, matrices.grades, matrices.at_least)
    yield from judged('Flickr8k TF-IDF', 'TF-IDF', [block])


def cxc(data: Path, name: str, kind: str, encode) -> Iterator[Case]:
    kept, blocks = _Kept(encode), []
    for matrices in crisscrossed(data / 'cxc', data / 'coco', kept):
        blocks.append(_block(kept.last, matrices.grades, matrices.at_least))
    yield from judged(name, kind, blocks)


class CocoVectors:
    """Groups of COCO's captions as sums of stored unit vectors.

    Args:
        coco: folder of testall_caps.txt.
        vectors: float [25000, D], in its order.
    """

    def __init__(self, coco: Path, vectors: Path) -> None:
        lines = (coco / 'testall_caps.txt').read_text(encoding='utf-8').splitlines()
        self.place = {line: n for n, line in enumerate(lines)}
        self.vectors = torch.from_numpy(np.load(vectors)).float()

    def __call__(self, groups: Groups) -> dict[str, Tensor]:
        return {
            name: torch.stack(
                [self.vectors[[self.place[c] for c in item]].mean(0) for item in items]
            )
            for name, items in groups.items()
            if name != 'learn'
        }


def tau(folder: Path, vectors: dict[str, Path]) -> Iterator[Case]:
    """Graded captions for 17 clips each; no graded caption is in the vector of a clip."""
    for split in [x for x in BANK_OF if x in vectors]:
        rows = [*csv.DictReader((folder / f'{split}_text.csv').open(encoding='utf-8'))]
        captions = captions_of(vectors[split])
        clips = [row['fid'] for row in rows[::5]]
        place = {clip: n for n, clip in enumerate(clips)}
        at = {row['tid']: divmod(n, 5) for n, row in enumerate(rows)}
        grades = defaultdict(dict)
        for row in csv.DictReader((folder / f'{split}_relevances.csv').open(encoding='utf-8')):
            grades[row['tid']][place[row['fid']]] = float(row['rating'])
        spoken = torch.ones(captions.shape[:2])
        for tid in grades:
            spoken[at[tid]] = 0
        items = (captions * spoken[..., None]).sum(1)
        table = torch.full((len(grades), len(clips)), torch.nan, dtype=torch.float64)
        for n, own in enumerate(grades.values()):
            table[n, [*own]] = torch.tensor([*own.values()], dtype=torch.float64)
        asks = torch.stack([captions[at[tid]] for tid in grades])
        part = part_of(
            Side(asks, items),
            roles(captions_of(vectors[BANK_OF[split]]), 0),
            torch.arange(len(clips)),
            own=torch.tensor([at[tid][0] for tid in grades]),
            grades=table,
        )
        yield Case(f'TAU {split} t2v', 'MiniLM', [part])


def own_arrays(name: str, paths: Sequence[Path]) -> Iterator[Case]:
    """texts.npy videos.npy [bank_texts.npy [bank_videos.npy]], rows are pairs; or matrix.npz."""
    if paths[0].suffix == '.npz':
        yield from own_matrix(name, dict(np.load(paths[0])))
        return
    texts, videos, *bank = (torch.from_numpy(np.load(x)).float() for x in paths)
    if not bank:
        yield from both(name, 'own', *distinct(texts, videos))
        return
    seen = Side(bank[0], bank[1] if len(bank) > 1 else None)
    yield Case(f'{name} t2v', 'own', [part_of(Side(texts, videos), seen)])
    if seen.items is None:
        yield Case(f'{name} v2t', 'own', halved(videos, texts))
    else:
        yield Case(f'{name} v2t', 'own', [part_of(Side(videos, texts), swapped(seen))])


def own_matrix(name: str, arrays: dict[str, np.ndarray]) -> Iterator[Case]:
    """``scores`` [N, N], texts by videos, pair i at (i, i).

    With banks: ``bank_t2v`` [K, N], ``bank_v2t`` [N, K]; else the matrix is halved.
    """
    scores = torch.from_numpy(arrays['scores']).float()
    if scores.dim() != 2 or scores.shape[0] != scores.shape[1]:
        raise ValueError(f'scores {list(scores.shape)} must be [N, N]: pair i at (i, i)')
    for direction in ('t2v', 'v2t'):
        known = scores if direction == 't2v' else scores.T.contiguous()
        bank = arrays.get(f'bank_{direction}')
        if bank is not None:
            bank = torch.from_numpy(bank).float()
            bank = bank if direction == 't2v' else bank.T.contiguous()
            numbers = torch.arange(len(known))
            parts = [Part(known, numbers, numbers, numbers, bank)]
        else:
            parts = list(_matrix_halves(known))
        yield Case(f'{name} {direction}', 'own', parts)


def _matrix_halves(scores: Tensor) -> Iterator[Part]:
    for seed in range(HALVINGS):
        order = np.random.default_rng(seed).permutation(len(scores))
        halves = [torch.from_numpy(np.sort(x)) for x in np.array_split(order, 2)]
        for own, other in (halves, halves[::-1]):
            yield Part(
                scores[own][:, own],
                torch.arange(len(own)),
                own,
                own,
                bank=scores[other][:, own],
                bank_gallery=scores[other][:, other],
            )
