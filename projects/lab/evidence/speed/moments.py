"""Recall and time of a search for moments, against all windows of all videos, on planted ones.

    python projects/lab/evidence/speed/moments.py [--videos 2000] [--json FILE]

A video has frames of one second, cut into three moments, each of its own meaning; a window of four
frames begins at every second one, and its vector is their mean at length one.  Meanings are
directions of a latent space of 16 in 512 dimensions, frames are them with noise and what all frames
of the video have in common, and texts lie across a gap.  A text asks for one moment.  Exhaustive:
all scores by one product in numpy, the best window of each video, the ten best videos.  Times are
of one query at a time, one thread: the median of the clock and the mean of the processor's time.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any, Callable, NamedTuple, Optional

import faiss
import numpy as np

from mmvtr_gallery.store import create_store
from mmvtr_gallery.store.moments import MomentHit, MomentStore, Windows, sliding

DIM, LATENT, FRAMES, LENGTH, STEP, K, TEMPERATURE = 512, 16, 120, 4, 2, 10, 0.02


class Planted(NamedTuple):
    """V videos of W windows, Q texts and K others.

    Attributes:
        windows: float32 [V, W, D].
        spans: seconds of the W windows.
        queries: float32 [Q, D].
        video: int64 [Q], that a text asks for.
        moment: int64 [Q, 2], from and to which second.
        bank: float32 [K, D].
    """

    windows: np.ndarray
    spans: list[tuple[float, float]]
    queries: np.ndarray
    video: np.ndarray
    moment: np.ndarray
    bank: np.ndarray


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add('--videos', type=int, default=2000, help='default: 2000')
    add('--queries', type=int, default=200, help='texts that are searched for (default: 200)')
    add('--bank', type=int, default=4096, help='texts that give biases (default: 4096)')
    add('--seed', type=int, default=0, help='of the vectors (default: 0)')
    add('--forms', nargs='+', metavar='FORM', help='of the index of windows (default: all)')
    add('--json', type=Path, metavar='FILE', help='write all figures there')
    return parser.parse_args()


def unit(x: np.ndarray) -> np.ndarray:
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def planted(args: argparse.Namespace) -> Planted:
    rng = np.random.default_rng(args.seed)
    frame = np.linalg.qr(rng.normal(size=(DIM, LATENT + 2)))[0].T.astype(np.float32)
    spans = sliding(0, FRAMES, LENGTH, STEP)
    windows = np.empty((args.videos, len(spans), DIM), np.float32)
    cuts = np.sort(rng.integers(10, FRAMES - 20, size=(args.videos, 2)), axis=1) + [0, 10]
    meanings = unit(rng.normal(size=(args.videos, 3, LATENT))).astype(np.float32)
    for video in range(args.videos):
        which = np.searchsorted(cuts[video], np.arange(FRAMES), side='right')
        noise = rng.standard_normal((FRAMES, DIM), dtype=np.float32)
        common = unit(rng.standard_normal(DIM, dtype=np.float32))
        frames = meanings[video, which] @ frame[:LATENT] + 0.3 * unit(noise)
        frames += 0.3 * common + 0.8 * frame[LATENT]
        windows[video] = [frames[int(a) : int(b)].mean(0) for a, b in spans]
    asked = rng.integers(args.videos, size=args.queries + args.bank)
    part = rng.integers(3, size=len(asked))
    noise = unit(rng.standard_normal((len(asked), DIM), dtype=np.float32))
    texts = meanings[asked, part] @ frame[:LATENT] + 0.2 * noise + 0.8 * frame[LATENT + 1]
    edges = np.column_stack((np.zeros(args.videos, int), cuts, np.full(args.videos, FRAMES)))
    moment = np.stack((edges[asked, part], edges[asked, part + 1]), axis=1)
    texts, few = unit(texts), args.queries
    return Planted(unit(windows), spans, texts[:few], asked[:few], moment[:few], texts[few:])


def timed(search: Callable[[np.ndarray], Any], queries: np.ndarray) -> tuple[list, float, float]:
    """Answers one by one, median of the clock and mean of the processor's time in milliseconds."""
    for query in queries[:10]:
        search(query[None])
    found, clocks, before = [], [], time.process_time()
    for query in queries:
        start = time.perf_counter()
        found.append(search(query[None]))
        clocks.append(time.perf_counter() - start)
    spent = (time.process_time() - before) / len(queries)
    return found, 1e3 * float(np.median(clocks)), 1e3 * spent


def exhaustive(data: Planted, biases: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Videos and their windows, int64 [K, 2], best first."""
    flat = data.windows.reshape(-1, DIM)

    def search(query: np.ndarray) -> np.ndarray:
        scores = (flat @ query[0] + biases).reshape(data.windows.shape[:2])
        best = scores.max(1)
        first = np.argpartition(-best, K)[:K]
        first = first[np.argsort(-best[first])]
        return np.column_stack((first, scores[first].argmax(1)))

    return search


def places(hits: list[MomentHit], data: Planted) -> np.ndarray:
    """As :func:`exhaustive` says them."""
    at = {start: number for number, (start, _) in enumerate(data.spans)}
    return np.array([(int(hit.item.id), at[hit.start]) for hit in hits])


def figures(found: list[np.ndarray], expected: list[np.ndarray], data: Planted) -> dict[str, float]:
    videos = [len(set(a[:, 0]) & set(b[:, 0])) / K for a, b in zip(found, expected)]
    both = [len(set(map(tuple, a)) & set(map(tuple, b))) / K for a, b in zip(found, expected)]
    first = np.array([one[0] for one in found])
    right = first[:, 0] == data.video
    spans = np.array(data.spans)[first[:, 1]].mean(1)
    inside = (data.moment[:, 0] <= spans) & (spans <= data.moment[:, 1])
    return dict(
        recall=round(float(np.mean(videos)), 4),
        with_moment=round(float(np.mean(both)), 4),
        planted_video=round(float(right.mean()), 3),
        planted_moment=round(float((right & inside).mean()), 3),
    )


def main() -> None:
    args = parse_args()
    faiss.omp_set_num_threads(1)
    data, rows = planted(args), []
    flat = data.windows.reshape(-1, DIM)
    print(
        '| engine | form | recall@10 | with moment | planted video | and moment '
        '| ms | CPU ms | ratio |'
    )
    print('|---|---|---|---|---|---|---|---|---|')

    def tell(engine: str, form: str, found: tuple, expected: list, whole: float) -> None:
        answers, clock, spent = found
        row = dict(engine=engine, form=form, **figures(answers, expected, data))
        rows.append(
            dict(row, clock=round(clock, 2), cpu=round(spent, 2), ratio=round(spent / whole, 3))
        )
        print('| ' + ' | '.join(map(str, rows[-1].values())) + ' |', flush=True)

    with tempfile.TemporaryDirectory() as folder:
        store = create_store(folder, DIM)
        moments = MomentStore.create(store, folder)
        with store, moments:
            store.add([str(i) for i in range(args.videos)], unit(data.windows.mean(1)))
            starts, ends = zip(*data.spans)
            for first in range(0, args.videos, 500):
                some = range(first, min(first + 500, args.videos))
                moments.put({str(i): Windows(starts, ends, data.windows[i]) for i in some})
            moments.windows.refit(data.bank, temperature=TEMPERATURE, sample=20_000, fewer=True)
            # What is expected has the biases of the store, which draws a sample by itself.
            biases = moments.windows.debiaser.biases_of(flat).numpy()
            expected = timed(exhaustive(data, biases), data.queries)
            raw = timed(exhaustive(data, np.zeros_like(biases)), data.queries)
            whole = expected[2]
            tell('numpy', 'exhaustive, raw', raw, expected[0], whole)
            tell('numpy', 'exhaustive', expected, expected[0], whole)
            for form, probes in _forms(len(flat), args.forms):
                if form != 'exact':
                    moments.windows.index(form, probes=max(probes, 1), candidates=1000)
                found = timed(_first(moments), data.queries)
                answers = [places(hits, data) for hits in found[0]]
                name = f'{form}, {probes}' if probes else form
                tell('faiss', name, (answers, *found[1:]), expected[0], whole)
    said = {key: getattr(args, key) for key in ('videos', 'queries', 'bank', 'seed')}
    if args.json:
        content = dict(options=said, windows=len(flat), rows=rows)
        args.json.write_text(json.dumps(content, indent=1) + '\n')


def _first(moments: MomentStore) -> Callable[[np.ndarray], list[MomentHit]]:
    return lambda query: moments.search(query, K)[0]


def _forms(count: int, asked: Optional[list[str]]) -> list[tuple[str, int]]:
    """Forms of the index of windows, and lists that each visits; 'exact' is without an index."""
    forms = [('exact', 0), ('l2', round(count**0.5) // 20), ('scan', 0)]
    return [one for one in forms if asked is None or one[0] in asked]


if __name__ == '__main__':
    main()
