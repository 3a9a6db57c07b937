"""Flickr8k and Crisscrossed Captions as score matrices that people have judged."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Callable, Iterator, NamedTuple, Optional

import numpy as np
import torch
from study_parts.image_judgments import read_crisscrossed, read_flickr8k_crowd
from torch import Tensor

from judging.words import KINDS, Groups

#: Images of training whose captions are the bank of Flickr8k, drawn once.
BANK = 3000


class Matrices(NamedTuple):
    """N captions x N items, caption i of item i, and what is known of pairs.

    Attributes:
        scores: float32 [N, N].
        bank_t2v: float32 [K, N], other captions x the items.
        bank_v2t: float32 [N, K], the captions x other items.
        grades: float64 [N, N], NaN = not judged.
        at_least: the lowest grade that is right.
    """

    scores: Tensor
    bank_t2v: Tensor
    bank_v2t: Tensor
    grades: Tensor
    at_least: float


def flickr8k(
    folder: Path, kind: str, encode: Optional[Callable[[Groups], dict[str, Tensor]]] = None
) -> Matrices:
    """Caption #2 of 1,000 images, the judged ones, for the items of captions #0, #1, #3 and #4.

    Words are learnt from the captions of the train images; the bank is of train images, in the same
    two roles.

    Args:
        folder: of Flickr8k.token.txt, Flickr_8k.trainImages.txt, CrowdFlowerAnnotations.txt.
        kind: of the scores, see :data:`judging.words.KINDS`.
        encode: in place of that kind's.
    """
    captions: dict[str, list[str]] = defaultdict(list)
    for line in (folder / 'Flickr8k.token.txt').read_text(encoding='utf-8').splitlines():
        name, caption = line.split('\t')
        captions[name.partition('#')[0]].append(caption)
    crowd = read_flickr8k_crowd(folder / 'CrowdFlowerAnnotations.txt')
    images = sorted({*crowd.videos})
    train = (folder / 'Flickr_8k.trainImages.txt').read_text().split()
    train = sorted({*train} - {*images})
    bank = np.random.default_rng(0).choice(train, min(BANK, len(train)), replace=False)
    seen = [[c for k, c in enumerate(captions[image]) if k != 2] for image in images]
    vectors = (encode or KINDS[kind])(
        dict(
            learn=[captions[image] for image in train] + (seen if kind == 'agreement' else []),
            texts=[captions[image][2:3] for image in images],
            items=seen,
            texts_of_bank=[captions[image][2:3] for image in bank],
            bank=[[c for k, c in enumerate(captions[image]) if k != 2] for image in bank],
        )
    )
    grades = crowd.matrix([f'{image}#2' for image in images], images)
    return _matrices(vectors, grades, 0.5 + 1e-6)


def crisscrossed(
    cxc: Path, coco: Path, encode: Callable[[Groups], dict[str, Tensor]]
) -> Iterator[Matrices]:
    """Two halves of COCO's 5,000 test images; each is the other's bank.

    Of each image the caption with the most judged other images asks (the first one of a tie), and
    the other four are its item.  Words are learnt from the items of all 5,000.

    Args:
        cxc: folder of sits_test.csv.
        coco: folder of testall_caps.txt, coco_test_ids.npy, original_caption_to_image.json.
        encode: from captions to vectors, one of :data:`judging.words.KINDS` or a trained model's.
    """
    text, owner = coco_captions(coco)
    of_image: dict[str, list[str]] = defaultdict(list)
    for name in text:
        of_image[owner[name]].append(name)
    rated = read_crisscrossed(cxc / 'sits_test.csv')
    others = Counter(t for t, v in zip(rated.texts, rated.videos) if owner[t] != v)
    asks = {image: max(own, key=lambda name: others[name]) for image, own in of_image.items()}
    items = {image: [text[n] for n in own if n != asks[image]] for image, own in of_image.items()}
    images = sorted(of_image)
    halves = np.array_split(np.random.default_rng(0).permutation(images), 2)
    for own, other in (halves, halves[::-1]):
        vectors = encode(
            dict(
                learn=[items[image] for image in images],
                texts=[[text[asks[image]]] for image in own],
                items=[items[image] for image in own],
                texts_of_bank=[[text[asks[image]]] for image in other],
                bank=[items[image] for image in other],
            )
        )
        grades = rated.matrix([asks[image] for image in own], [*own], others='left_out')
        yield _matrices(vectors, grades, 3.0)


def for_choosing(images: int) -> np.ndarray:
    """Bool [images], the half that settings are chosen on, in the order of names."""
    chosen = np.zeros(images, dtype=bool)
    chosen[np.random.default_rng(0).permutation(images)[: images // 2]] = True
    return chosen


def coco_captions(folder: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Of COCO's 5,000 test images, by caption id: the caption, and the id of its image."""
    names = [str(x) for x in np.load(folder / 'coco_test_ids.npy').tolist()]
    lines = (folder / 'testall_caps.txt').read_text(encoding='utf-8').splitlines()
    images = json.loads((folder / 'original_caption_to_image.json').read_text())
    return dict(zip(names, lines)), {name: str(own[0]) for name, own in images.items()}


def _matrices(vectors: dict[str, Tensor], grades: np.ndarray, at_least: float) -> Matrices:
    items = vectors['items'].t().contiguous()
    return Matrices(
        vectors['texts'] @ items,
        vectors['texts_of_bank'] @ items,
        vectors['texts'] @ vectors['bank'].t(),
        torch.from_numpy(grades),
        at_least,
    )
