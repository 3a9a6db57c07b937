"""Biases beside what vector engines do: BM25, int8, shorter vectors.  On real sets.

    python projects/lab/evidence/vector_engines.py DATA     # needs bm25s and faiss-cpu
    python projects/lab/evidence/vector_engines.py --page

Sets and halves are those of auto_rule.py: one half of the pairs is the bank, the other asks.
Writes cells/vector_engines.json, which pages/vector_engines.md shows.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any, Iterator

import numpy as np
import torch
from auto_rule import mapped, sets
from torch import Tensor

import mmvtr
from mmvtr.functional import ranks

HERE = Path(__file__).resolve().parent
WANTED = ('clap original', 'clap noisy_snr10dB', 'minilm flickr8k_crowd', 'clip flickr8k')
DEFAULT = dict(transform='unbalanced_sinkhorn', temperature='11%')
Halves = Iterator[tuple[Tensor, Tensor]]


def halves(count: int) -> Halves:
    """(test, bank) rows, each half once."""
    order = torch.from_numpy(np.random.default_rng(0).permutation(count))
    first, second = order[: count // 2], order[count // 2 :]
    yield from ((first, second), (second, first))


def r1(scores: Any) -> float:
    return 100 * (ranks(torch.as_tensor(np.asarray(scores))) <= 1).double().mean().item()


def fitted(texts: Tensor, items: Tensor, test: Tensor, bank: Tensor) -> mmvtr.Debiaser:
    return mmvtr.fit(items[test], texts[bank], **DEFAULT)


# -- int8 and shorter vectors --------------------------------------------------------------------


def faiss_scores(gallery: np.ndarray, asked: np.ndarray, kind: str) -> np.ndarray:
    """All scores by an index of faiss that holds 8 bits an entry."""
    import faiss

    kinds = dict(
        by_column=faiss.ScalarQuantizer.QT_8bit, uniform=faiss.ScalarQuantizer.QT_8bit_uniform
    )
    index = faiss.IndexScalarQuantizer(gallery.shape[1], kinds[kind], faiss.METRIC_INNER_PRODUCT)
    index.train(gallery)
    index.add(gallery)
    found, places = index.search(asked, len(gallery))
    scores = np.empty_like(found)
    np.put_along_axis(scores, places, found, axis=1)
    return scores


def clipped(gallery: np.ndarray, quantile: float = 0.99) -> np.ndarray:
    """8 bits for the range that holds a share of all entries, as Qdrant's scalar quantization."""
    low, high = np.quantile(gallery, [(1 - quantile) / 2, (1 + quantile) / 2])
    step = (high - low) / 255
    return (np.round((np.clip(gallery, low, high) - low) / step) * step + low).astype('f4')


def small(name: str, texts: Tensor, items: Tensor) -> Iterator[dict[str, Any]]:
    for test, bank in halves(len(texts)):
        one, raw = fitted(texts, items, test, bank), mmvtr.fit(items[test])
        plain, wide = raw.as_vectors(), one.as_vectors()
        ask, asked = raw.query(texts[test]), one.query(texts[test])
        found = {'raw': ask @ plain.T, 'biases': asked @ wide.T}
        for kind in ('by_column', 'uniform'):
            found[f'raw, int8 {kind}'] = faiss_scores(
                plain[:, :-1].copy(), ask[:, :-1].copy(), kind
            )
            found[f'biases, int8 {kind}'] = faiss_scores(wide, asked, kind)
        found['raw, int8 clipped'] = ask @ clipped(plain).T
        found['biases, int8 clipped'] = asked @ clipped(wide).T
        held = clipped(plain[:, :-1])
        known = mmvtr.fit(held, texts[bank], **DEFAULT, geometry='inner_product')
        found['biases of the clipped vectors, int8'] = known.scores(texts[test])
        width = texts.shape[1]
        for part in (2, 4, 8):
            short = texts[:, : width // part], items[:, : width // part]
            short = tuple(torch.nn.functional.normalize(x, dim=1) for x in short)
            scores = short[0][test] @ short[1][test].T
            found[f'raw, 1/{part}'] = scores
            found[f'biases of all entries, 1/{part}'] = scores + one.biases_
            found[f'biases fitted, 1/{part}'] = fitted(*short, test, bank).scores(short[0][test])
        yield dict(set=name, r1={key: r1(x) for key, x in found.items()})


# -- fusion with BM25 ----------------------------------------------------------------------------


def captions(data: Path) -> list[list[str]]:
    """Five captions of each of the 600 images of :func:`mapped`."""
    folder = data / 'human_judgments/flickr8k'
    by_image: dict[str, list[str]] = defaultdict(list)
    for line in (folder / 'Flickr8k.token.txt').read_text().splitlines():
        key, text = line.split('\t')
        by_image[key.split('#')[0]].append(text)
    names = (data / 'real_scores/minilm/flickr8k_bank_ids.txt').read_text().split()
    return [by_image[name.split('#')[0]] for name in names[:1000]][400:]


def bm25(documents: list[str], queries: list[str]) -> np.ndarray:
    """Scores [Q, N]."""
    import bm25s

    index = bm25s.BM25()
    index.index(bm25s.tokenize(documents, show_progress=False), show_progress=False)
    asked = bm25s.tokenize(queries, show_progress=False, return_ids=False)
    return np.stack(
        [index.get_scores(words) if words else np.zeros(len(documents)) for words in asked]
    )


def standard(scores: np.ndarray) -> np.ndarray:
    """Each query's scores at mean 0 and deviation 1."""
    spread = scores.std(1, keepdims=True)
    return (scores - scores.mean(1, keepdims=True)) / np.where(spread > 0, spread, 1)


def reciprocal(scores: np.ndarray) -> np.ndarray:
    """1 / (60 + rank), what reciprocal rank fusion sums."""
    return 1 / (60 + 1 + (-scores).argsort(1, kind='stable').argsort(1, kind='stable'))


def fusion(data: Path) -> Iterator[dict[str, Any]]:
    texts, items = mapped(data)
    said = captions(data)
    for test, bank in halves(len(texts)):
        one = fitted(texts, items, test, bank)
        raw = (texts[test] @ items[test].T).numpy()
        dense = np.asarray(one.scores(texts[test].numpy()))
        document = [said[i][1] for i in test.tolist()]
        words = bm25(document, [said[i][0] for i in test.tolist()])
        # the same of the bank's captions, to debias what is fused already
        known = bm25(document, [said[i][0] for i in bank.tolist()])
        bank_raw = (texts[bank] @ items[test].T).numpy()
        found = dict(raw=raw, biases=dense, bm25=words)
        for how in (standard, reciprocal):
            label = dict(standard='standard scores', reciprocal='reciprocal ranks')[how.__name__]
            found[f'raw + bm25, {label}'] = how(raw) + how(words)
            found[f'biases + bm25, {label}'] = how(dense) + how(words)
            late = how(raw) + how(words)
            after = mmvtr.functional.unbalanced_sinkhorn(
                torch.tensor(late),
                torch.tensor(how(bank_raw) + how(known)),
                temperature=tenth(how(bank_raw) + how(known)),
            )
            found[f'fused, then biases, {label}'] = after
        yield dict(set='clip flickr8k', r1={key: r1(x) for key, x in found.items()})


def tenth(bank: np.ndarray) -> float:
    """11 % of the reach, as of the vectors."""
    return 0.11 * float((bank.max(1) - bank.mean(1)).mean())


def table(rows: list[dict[str, Any]], first: str) -> str:
    """Markdown: a row for each way, a column for each set, means of both halves."""
    names = list(dict.fromkeys(row['set'] for row in rows))
    lines = [f'| {first} | ' + ' | '.join(names) + ' |', '|---' * (len(names) + 1) + '|']
    for way in rows[0]['r1']:
        values = [np.mean([x['r1'][way] for x in rows if x['set'] == name]) for name in names]
        lines.append(f'| {way} | ' + ' | '.join(f'{x:.1f}' for x in values) + ' |')
    return '\n'.join(lines)


def write_page(cells: Path, page: Path) -> None:
    report, text = json.loads(cells.read_text()), page.read_text()
    for key in ('small', 'fusion'):
        mark = rf'(<!-- {key} -->\n\n).*?(\n\n<!-- /{key} -->)'
        made = table(report[key], 'R@1, captions ask')
        text = re.sub(mark, lambda m, made=made: m[1] + made + m[2], text, flags=re.S)
    page.write_text(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('data', type=Path, nargs='?')
    parser.add_argument('--page', action='store_true', help='the tables from the cells')
    args = parser.parse_args()
    cells = HERE / 'cells/vector_engines.json'
    if args.page:
        return write_page(cells, HERE / 'pages/vector_engines.md')
    if args.data is None:
        parser.error('name DATA')
    torch.set_num_threads(1)
    report = dict(
        small=[
            row for name, *two in sets(args.data) if name in WANTED for row in small(name, *two)
        ],
        fusion=list(fusion(args.data)),
    )
    cells.write_text(json.dumps(report, indent=1) + '\n')
    for key, rows in report.items():
        print(table(rows, key))


if __name__ == '__main__':
    main()
