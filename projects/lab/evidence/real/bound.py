"""What limits set S: videos to learn from, frames of a video, or the captions?  No look at test.

    python projects/lab/evidence/real/bound.py      # after stronger.py, half a minute

The linear level of S (closed form) is fitted on a share of the training videos.  It searches among
1,432 others, as many as test has: the validation videos and training videos that it has not
seen, with four captions each.  Writes ``cells/real/stronger/bound.json``.
"""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Optional, Sequence

import numpy as np
import run
import torch
from sets import SETS, in_a_sentence
from stronger import FOLDER, linear_maps

from mmvtr.storage.arrays import load_h5py

OUT = run.RESULTS / 'stronger/bound.json'
GALLERY, CAPTIONS = 1432, 4
#: Numbers of stored frames of a video, from and to.
FRAMES = ((2, 2), (4, 6), (8, 99))


def main() -> None:
    raw, own = SETS['M'](), defaultdict(list)
    for row in raw.rows:
        if row.split in ('train', 'val'):
            own[row.split, row.video].append(raw.sentences[row.text_id].astype('f4'))
    train = sorted(video for split, video in own if split == 'train')
    val = sorted(video for split, video in own if split == 'val')
    texts = {video: np.stack(rows) for (_, video), rows in own.items()}
    with load_h5py(FOLDER / 'features.h5').File(FOLDER / 'features.h5') as file:
        features = {video: file[video][0] for video in [*train, *val]}
    draw = np.random.default_rng(0)
    order = [train[n] for n in draw.permutation(len(train))]
    gallery = [*val, *order[-(GALLERY - len(val)) :]]
    owner = np.repeat(np.arange(GALLERY), CAPTIONS)
    asked = [draw.permutation(len(texts[video]))[:CAPTIONS] for video in gallery]
    queries = np.concatenate([texts[v][rows] for v, rows in zip(gallery, asked)])
    found = dict(gallery=GALLERY, curve=[])
    for part in (8, 4, 2):
        chosen = order[: len(train) // part]
        maps = linear_maps(
            {video: features[video] for video in chosen},
            [video for video in chosen for _ in texts[video]],
            np.concatenate([texts[video] for video in chosen]),
        )
        seen = np.stack([features[video] for video in gallery]) @ maps['video']
        ranks = ranks_of((queries - maps['mean']) @ maps['text'], seen, owner)
        found['curve'].append(dict(videos=len(chosen), **recalls(ranks)))
    frames = np.array([len(raw.features[video]) for video in gallery])[owner]
    found['frames'] = [
        dict(least=a, most=b, **recalls(ranks[(frames >= a) & (frames <= b)])) for a, b in FRAMES
    ]
    others = [np.delete(texts[v], rows, 0).mean(0) for v, rows in zip(gallery, asked)]
    kept = np.array([len(texts[v]) > 2 * CAPTIONS for v in gallery])
    ranks = ranks_of(queries, np.stack(others), owner)
    found['captions'] = recalls(ranks[kept[owner]])
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps(found, indent=1) + '\n')
    print(OUT.read_text())


def ranks_of(texts: np.ndarray, videos: np.ndarray, owner: np.ndarray) -> np.ndarray:
    """Ranks from 1 of the own videos, int [T], by cosine."""
    units = [torch.nn.functional.normalize(torch.from_numpy(x), dim=1) for x in (texts, videos)]
    scores = units[0] @ units[1].t()
    own = scores[torch.arange(len(owner)), torch.from_numpy(owner)]
    return (1 + (scores > own[:, None]).sum(1)).numpy()


def recalls(ranks: np.ndarray, places: Sequence[int] = (1, 5, 10)) -> dict[str, Optional[float]]:
    """R@k in percent, None without a query, and the number of queries."""
    found: dict[str, Optional[float]] = dict(queries=len(ranks))
    for k in places:
        found[f'R{k}'] = round(100 * float((ranks <= k).mean()), 2) if len(ranks) else None
    return found


if __name__ == '__main__':
    torch.set_num_threads(1)
    in_a_sentence(main)
