"""What an item that was made to be found does to a gallery, who finds it, and what transforms do.

    python projects/lab/evidence/adversarial_hubs.py VECTORS

VECTORS has the folders clap_audiocaps/ (LAION-CLAP's vectors of AudioCaps, clean and disturbed) and
minilm/ (all-MiniLM-L6-v2's of Clotho and Flickr8k); a planted world needs none.  Three parts that
share no pair: the gallery with the queries that ask it, the operator's bank, the attacker's own.
One item is added: the mean of the attacker's queries, a centroid of five clusters of them, halfway
there from a vector of the gallery, or what gradients find from the mean.  `mmvtr.arrays.hubs`
judges by the bank alone.  Its bound (.1 of 8 clusters) was chosen with MiniLM and CLAP's clean
sounds in view, splits 0 to 4; here are splits 5 to 14 (of disturbed sounds 5 to 7, of MiniLM 5 and
6).  A minute.  Writes adversarial_hubs.json.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from pathlib import Path
from typing import Any, Callable, Iterator, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from mmvtr.arrays.hubs import BREADTH, SHARE, list_length, query_clusters
from mmvtr.functional import as_tiles, column_biases, dual_softmax, hub_breadth, reach, sinkhorn
from mmvtr.functional.transforms.item_biases import fit_biases
from mmvtr.functional.transforms.transform_table import FITTED
from mmvtr.storage import write_atomically

CELLS = Path(__file__).resolve().parent / 'cells'
SPLITS = range(5, 15)
#: Of each set the figures by `'attack / transform'`.
Cells = dict[str, dict[str, dict[str, Any]]]
#: What transforms take beside a temperature at their default share of the reach.
OPTIONS = dict(local_scaling=dict(strength=0.75))
TRANSFORMS = ('raw', *(one for one in FITTED if one != 'dual_softmax'), 'dual_softmax')
#: Of an item that is optimised.
STEPS = 150
DISTURBED = ('highpass_1000Hz', 'lowpass_4000Hz', 'noisy_snr10dB', 'pitch_shift')


class Part(NamedTuple):
    """Unit vectors, float [n, D] each; query i belongs to item i."""

    queries: Tensor
    items: Tensor


class Split(NamedTuple):
    """Who asks and is asked, what the operator knows, and what the attacker knows."""

    test: Part
    bank: Part
    attacker: Tensor


# -- sets --------------------------------------------------------------------------------------


def thirds(queries: Tensor, items: Tensor, seed: int) -> Split:
    """Pairs in three parts."""
    order = torch.from_numpy(np.random.default_rng(seed).permutation(len(queries)))
    test, bank, attacker = order.chunk(3)
    return Split(
        Part(queries[test], items[test]), Part(queries[bank], items[bank]), queries[attacker]
    )


def planted(seed: int, count: int = 900, topics: int = 16, dim: int = 32) -> Split:
    """Topics, and a gap between the modalities as encoders have it."""
    random = torch.Generator().manual_seed(seed)
    centre = torch.randn(topics, dim, generator=random)
    content = centre[torch.arange(count) % topics] + torch.randn(count, dim, generator=random)
    queries, items = content + 0.7 * torch.randn(2, count, dim, generator=random)
    queries[:, 0], items[:, 0] = 6, -2
    return thirds(normalize(queries, dim=1), normalize(items, dim=1), seed)


def clap(folder: Path, condition: str) -> tuple[Tensor, Tensor]:
    """Texts and sounds of the different clips."""
    name = 'outputs_embeddings_{}.npy'
    texts, clean, sounds = (
        np.load(folder / name.format(one))
        for one in ('text_embeddings', 'audio_emb_original', f'audio_emb_{condition}')
    )
    first = np.sort(np.unique(clean, axis=0, return_index=True)[1])
    return tuple(normalize(torch.from_numpy(x[first]).float(), dim=1) for x in (texts, sounds))


def captions(folder: Path, gallery: str, others: str, seed: int, most: int = 600) -> Split:
    """One caption of a clip asks for another of its captions."""
    read = (np.load(folder / f'{name}.npy').astype('f4') for name in (gallery, others))
    asked, known = (torch.from_numpy(x).reshape(-1, 5, x.shape[-1])[:, :2] for x in read)
    order = torch.from_numpy(np.random.default_rng(seed).permutation(len(known)))
    bank, attacker = (known[part[:most]] for part in order.chunk(2))
    return Split(Part(*asked.unbind(1)), Part(*bank.unbind(1)), attacker[:, 0])


def sets(folder: Path) -> Iterator[tuple[str, Split]]:
    """All splits by the name of their set."""
    for seed in SPLITS:
        yield 'planted', planted(seed)
    for condition in ('original', *DISTURBED):
        texts, sounds = clap(folder / 'clap_audiocaps', condition)
        kind = 'clean' if condition == 'original' else 'disturbed'
        for seed in list(SPLITS)[: 10 if kind == 'clean' else 3]:
            yield f'CLAP {kind}, text to sound', thirds(texts, sounds, seed)
            yield f'CLAP {kind}, sound to text', thirds(sounds, texts, seed)
    for seed in list(SPLITS)[:2]:
        of_clotho = captions(folder / 'minilm', 'clotho_evaluation', 'clotho_validation', seed)
        yield 'MiniLM, Clotho', of_clotho
        yield (
            'MiniLM, Flickr8k',
            captions(folder / 'minilm', 'flickr8k_crowd', 'flickr8k_bank', seed),
        )


# -- attacks -----------------------------------------------------------------------------------


def attacks(split: Split, seed: int) -> Iterator[tuple[str, Tensor]]:
    """Vectors [D] to be added, by the name of their kind."""
    queries = split.attacker
    cluster = query_clusters(queries, seed, clusters=5)
    targets = [('mean', queries.mean(0))]
    targets += [('centroid', queries[cluster == one].mean(0)) for one in cluster.unique()]
    start = split.test.items[seed % len(split.test.items)]
    for name, target in targets:
        target = normalize(target, dim=0)
        yield name, target
        yield f'{name}, halfway', normalize(start + target, dim=0)
    for name, debiased in (('optimised', False), ('adaptive', True)):
        yield name, optimised(queries, split.test.items, debiased=debiased)


def optimised(queries: Tensor, gallery: Tensor, *, debiased: bool) -> Tensor:
    """The vector [D] that most of the queries find, by gradient from their mean.

    The attacker knows the gallery.  Half of his queries ask; by the other half, his bank, all items
    and his own get biases of Sinkhorn if he reckons with it.  What grows is the mean sigmoid of how
    far his item lies above the second best of the gallery.
    """
    asked, bank = queries[0::2], queries[1::2]
    known = bank @ gallery.T
    temperature = SHARE * reach(as_tiles(known))
    scores, rows = asked @ gallery.T, bank.new_zeros(len(bank))
    if debiased:
        rows = sinkhorn(known, temperature=temperature).rows
        scores = scores + column_biases(known, rows, temperature=temperature)
    second = scores.topk(2, dim=1).values[:, 1]
    vector = queries.mean(0).clone().requires_grad_()
    optimizer = torch.optim.Adam([vector], lr=0.01)
    for _ in range(STEPS):
        unit = normalize(vector, dim=0)
        own = asked @ unit
        if debiased:
            own = own + column_biases((bank @ unit)[:, None], rows, temperature=temperature)
        optimizer.zero_grad()
        (-((own - second) / (temperature / 2)).sigmoid().mean()).backward()
        optimizer.step()
    return normalize(vector.detach(), dim=0)


# -- results -----------------------------------------------------------------------------------


def transformed(name: str, split: Split, gallery: Tensor) -> Callable[[Tensor], Tensor]:
    """Queries [Q, D] -> scores [Q, N] with a transform by the bank."""
    if name == 'raw':
        return lambda queries: queries @ gallery.T
    bank = split.bank.queries @ gallery.T
    if name == 'dual_softmax':
        temperature = SHARE * reach(as_tiles(bank))
        return lambda queries: dual_softmax(queries @ gallery.T, bank, temperature=temperature)
    beside = {}
    if name == 'dbsn':
        beside['bank_gallery'] = as_tiles(split.bank.queries @ split.bank.items.T)
    if name == 'db_norm':
        beside['item_bank'] = as_tiles(split.bank.items @ gallery.T)
    added = fit_biases(name, as_tiles(bank), beside=beside, **OPTIONS.get(name, {}))

    return lambda queries: added.changed(queries @ gallery.T)


def breadths(scores: Tensor, clusters: Tensor) -> Tensor:
    """Of each item by the bank's scores [K, N], float64 [N]; as `mmvtr.hub_report` does."""
    lists = scores.topk(list_length(scores.shape[1]), dim=1).indices
    return hub_breadth(lists, clusters, items=scores.shape[1])


def figures(split: Split, seed: int) -> dict[str, dict[str, list[float]]]:
    """Of each attack ('none' among them) and transform ``'attack / transform'``: its figures."""
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    own = torch.arange(len(split.test.items))
    clusters = query_clusters(split.bank.queries)
    for attack, vector in (('none', None), *attacks(split, seed)):
        gallery = split.test.items
        if vector is not None:
            gallery = torch.cat([gallery, vector[None]])
        for name in TRANSFORMS:
            function, cell = transformed(name, split, gallery), found[f'{attack} / {name}']
            scores = function(split.test.queries)
            cell['r1'].append((scores.argmax(1) == own).double().mean().item())
            breadth = breadths(function(split.bank.queries), clusters)
            cell['alarms'].append((breadth[own] >= BREADTH).double().mean().item())
            if vector is not None:
                lists = scores.topk(list_length(len(gallery)), dim=1).indices
                cell['found'].append((lists == len(own)).any(1).double().mean().item())
                cell['first'].append((lists[:, 0] == len(own)).double().mean().item())
                cell['detected'].append(float(breadth[-1] >= BREADTH))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('vectors', type=Path, metavar='VECTORS', help='folder of the vectors')
    parser.add_argument('--out', type=Path, default=CELLS, help='folder to write')
    args = parser.parse_args()
    all_of_it: dict[str, dict[str, dict[str, list[float]]]] = {}
    for number, (name, split) in enumerate(sets(args.vectors)):
        cells = all_of_it.setdefault(name, {})
        for key, values in figures(split, number).items():
            cell = cells.setdefault(key, {})
            for figure, numbers in values.items():
                cell.setdefault(figure, []).extend(numbers)
        print(number, name, flush=True)
    found = {name: means(cells) for name, cells in all_of_it.items()}
    print('\n'.join([*rows_of_sets(found), '', *rows_of_transforms(found)]))
    text = json.dumps(found, indent=1) + '\n'
    write_atomically(args.out / 'adversarial_hubs.json', lambda file: file.write(text.encode()))


def rows_of_sets(found: Cells) -> list[str]:
    """Rows of the page: what an item does to raw scores, and how often it is detected."""
    rows = []
    for name, cells in found.items():
        none, mean, *rest = (
            cells[f'{one} / raw'] for one in ('none', 'mean', 'centroid', 'centroid, halfway')
        )
        figures = [100 * x for x in (none['r1'], mean['r1'], mean['found'])]
        detected = [f'{100 * one["detected"]:.0f}' for one in (mean, *rest)]
        row = [name, *(f'{x:.1f}' for x in figures), *detected, f'{1000 * none["alarms"]:.1f}']
        rows.append(f'| {" | ".join(row)} |')
    return rows


def rows_of_transforms(found: Cells) -> list[str]:
    """Rows of the page: of each transform on CLAP's clean sounds, both directions' means."""
    both = [cells for name, cells in found.items() if name.startswith('CLAP clean')]
    wanted = [('none', 'r1'), ('mean', 'r1'), ('mean', 'found'), ('mean', 'detected')]
    rows = []
    for name in TRANSFORMS:
        row = [f'`{name}`' if name != 'raw' else name]
        for attack, figure in wanted:
            value = np.mean([cells[f'{attack} / {name}'][figure] for cells in both])
            row.append(f'{100 * value:.0f}' if figure == 'detected' else f'{100 * value:.1f}')
        rows.append(f'| {" | ".join(row)} |')
    return rows


def means(cells: dict[str, dict[str, list[float]]]) -> dict[str, dict[str, Any]]:
    """Mean of each figure, and of how many attacks or splits."""
    return {
        key: dict({x: round(float(np.mean(v)), 4) for x, v in cell.items()}, n=len(cell['r1']))
        for key, cell in cells.items()
    }


if __name__ == '__main__':
    main()
