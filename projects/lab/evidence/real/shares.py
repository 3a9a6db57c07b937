"""How many unannotated pairs of the sets are true: what people say, and what captions show.

    python projects/lab/evidence/real/shares.py      # writes cells/real/shares.json

F: pairs that the crowd calls a match, of all pairs of the judged captions with the 1,000 images (a
lower bound: 5 % were asked), and the same extrapolated by the cosine of captions (MiniLM).  M: a
text and a video of which another caption is identical, or nearly so (cosine .9 and more): a lower
bound.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict

import numpy as np
from judged import crowd_pairs
from run import RESULTS
from sets import Raw, flickr8k, in_a_sentence, msrvtt, shared

#: Quantiles of the cosine between which the share of yes is taken as one.
QUANTILES = (0, 0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.9995, 1)
NEAR = 0.9


def main() -> None:
    rows = [*of_people(flickr8k()), *of_captions(msrvtt(), 'MSR-VTT, test')]
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / 'shares.json').write_text(json.dumps(rows, indent=1) + '\n')


def of_people(raw: Raw) -> list[dict]:
    """What the crowd said of Flickr8k's test images, as it is and extrapolated."""
    items, own, vectors = _test(raw)
    pairs = crowd_pairs(shared())
    place = {name: n for n, name in enumerate(items)}
    texts = sorted({text for text, _ in pairs if text in own and own[text] in place})
    row = {text: n for n, text in enumerate(texts)}
    asked = [(row[t], place[v], x > 0.5) for (t, v), x in pairs.items() if t in row and v in place]
    rows, columns, yes = map(np.array, zip(*asked))
    cosines = np.stack([raw.sentences[text] for text in texts]).astype('f4') @ vectors.T
    others = np.ones(cosines.shape, bool)
    others[np.arange(len(texts)), [place[own[text]] for text in texts]] = False
    edges = np.quantile(cosines[others], QUANTILES)
    edges[0], edges[-1] = -2, 2
    found = 0.0
    for low, high in zip(edges, edges[1:]):
        inside = (cosines[rows, columns] > low) & (cosines[rows, columns] <= high)
        here = ((cosines > low) & (cosines <= high) & others).sum()
        found += here * (yes[inside].mean() if inside.any() else 0.0)
    total = int(others.sum())
    return [
        dict(
            set='Flickr8k, of which the judged images are a part',
            how='the crowd says so, lower bound',
            share=yes.sum() / total,
        ),
        dict(
            set='Flickr8k, of which the judged images are a part',
            how='extrapolated by MiniLM',
            share=found / total,
        ),
    ]


def of_captions(raw: Raw, name: str) -> list[dict]:
    """Identical and near-identical captions of other videos of the test split."""
    items, _, _ = _test(raw)
    rows = [row for row in raw.rows if row.split == 'test']
    place = {item: n for n, item in enumerate(items)}
    own = np.array([place[row.video] for row in rows])
    said = defaultdict(set)
    plain = [re.sub(r'\W+', ' ', row.text.lower()).strip() for row in rows]
    for text, video in zip(plain, own):
        said[text].add(video)
    identical = sum(len(said[text]) - 1 for text in plain)
    vectors = np.stack([raw.sentences[row.text_id] for row in rows]).astype('f4')
    near = 0
    for first in range(0, len(rows), 512):
        texts, columns = np.nonzero(vectors[first : first + 512] @ vectors.T >= NEAR)
        pairs = {(t, own[c]) for t, c in zip((texts + first).tolist(), columns.tolist())}
        near += sum(own[t] != v for t, v in pairs)
    total = len(rows) * (len(items) - 1)
    return [
        dict(set=name, how='identical captions, lower bound', share=identical / total),
        dict(
            set=name,
            how=f'captions of a cosine of {NEAR:g} and more, lower bound',
            share=near / total,
        ),
    ]


def _test(raw: Raw):
    """Items of the test split, the item of each of its texts, and the mean vectors of items."""
    own = {row.text_id: row.video for row in raw.rows if row.split == 'test'}
    items = list(dict.fromkeys(own.values()))
    of = defaultdict(list)
    for text, video in own.items():
        of[video].append(raw.sentences[text].astype('f4'))
    means = np.stack([np.mean(of[item], 0) for item in items])
    return items, own, means / np.linalg.norm(means, axis=1, keepdims=True)


if __name__ == '__main__':
    in_a_sentence(main)
