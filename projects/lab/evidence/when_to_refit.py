"""When to refit: biases kept while items are added, beside those of a refit.

    python projects/lab/evidence/when_to_refit.py DATA [--seeds 3] > rows.json
    python projects/lab/evidence/when_to_refit.py --page rows.json

DATA has real_features/ and real_scores/.  A gallery is fitted to a bank of texts alone; then items
are added, of the same kind or of another one (those that lie furthest along the first principal
direction of all items, which the gallery lacked), until they are 1, 5, 20 or 50 % of it, or as many
of its items are removed.  Queries ask for all items that are there.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

import mmvtr
from mmvtr.functional.transforms.transform_table import OF_BANK, TRANSFORMS

PAGE = Path(__file__).resolve().parent / 'pages/when_to_refit.md'
SHARES = (0.01, 0.05, 0.2, 0.5)
NEEDED: dict[str, dict[str, float]] = dict(hedged_scaling=dict(first=-0.3, strength=0.6))
#: Items of a gallery after the change, and texts of a bank.
ITEMS, BANK = 500, 500


def sets(data: Path) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return items and a text of each, float32 [N, D]."""
    captions = np.load(data / 'real_features/flickr8k_captions_minilm.npz')['vec']
    captions = captions.astype('f4').reshape(8000, 5, -1)
    clap = data / 'real_scores/clap_audiocaps'
    texts, sounds = (
        np.load(clap / f'outputs_embeddings_{x}.npy').astype('f4')
        for x in ('text_embeddings', 'audio_emb_original')
    )
    many = np.load(data / 'real_features/msrvtt_captions_minilm.npz')
    names = np.array([str(x).split('#')[0] for x in many['key']])
    first = {x: i for i, x in reversed([*enumerate(names)])}
    last = {x: i for i, x in enumerate(names)}
    two = [x for x in first if last[x] > first[x]]
    vectors = many['vec'].astype('f4')
    return {
        'Flickr8k captions': (captions[:, 0], captions[:, 1]),
        'MSR-VTT captions': tuple(vectors[[one[x] for x in two]] for one in (first, last)),
        'CLAP': (sounds, texts),
    }


def row(
    items: np.ndarray, texts: np.ndarray, name: str, share: float, kind: str, seed: int
) -> dict[str, Any]:
    """Return R@1 raw, with kept biases and after a refit, and what ``stale_`` says."""
    random = np.random.default_rng(seed)
    order = random.permutation(len(items))
    bank, others = np.split(order, [min(BANK, len(order) // 2)])
    if kind == 'another kind':
        centred = items[others] - items[others].mean(0)
        along = centred @ np.linalg.svd(centred[:800], full_matrices=False)[2][0]
        others = others[along.argsort()]
        count = min(ITEMS, len(others))
        new = round(share * count)
        there = np.concatenate([random.permutation(others[: len(others) - new])[: count - new],
                                others[len(others) - new :]])  # fmt: skip
    else:
        there = others[:ITEMS]
        new = round(share * len(there))
    old = len(there) - new
    removed = kind == 'removed'
    fit = there if removed else there[:old]
    one = mmvtr.fit(items[fit], texts[bank] if not TRANSFORMS[name].reads_items else
                    (texts[bank], items[bank]), name, ids=fit, **NEEDED.get(name, {}))  # fmt: skip
    if removed:
        one.remove(there[old:])
    else:
        one.add(items[there[old:]], ids=there[old:])
    said, kept = one.stale_, one.biases_.clone()
    asked, own = texts[one.ids_], one.ids_

    def right() -> np.ndarray:
        return one.search(asked, 1).ids[:, 0] == own

    before = right()
    one.refit(one.bank_)
    after = right()
    moved = (one.biases_ - kept).double()
    moved = moved - moved.mean()
    raw = mmvtr.fit(items[own], ids=own).search(asked, 1).ids[:, 0] == own
    return dict(
        transform=name,
        share=share,
        kind=kind,
        seed=seed,
        raw=100 * raw.mean(),
        kept=100 * before.mean(),
        refit=100 * after.mean(),
        moved=(moved.std() / one.biases_.double().std().clamp_min(1e-12)).item(),
        added=said.added,
        removed=said.removed,
        drift=said.drift,
    )


def page(rows: list[dict[str, Any]]) -> str:
    """Return the page."""
    from collections import defaultdict

    cells = defaultdict(list)
    for x in rows:
        cells[x['transform'], x['kind'], x['share']].append(x)
    lines = [
        '# When to refit',
        '',
        'Biases kept while items come and go, beside those of a refit '
        '(`projects/lab/evidence/when_to_refit.py`): R@1 after the refit minus R@1 before it, in '
        'points, mean and, in brackets, the most that a refit gained in one run; '
        f'{len({(x["set"], x["seed"]) for x in rows})} runs a cell (three sets, '
        f'{len({x["seed"] for x in rows})} seeds, {ITEMS} items, {BANK} bank texts; CLAP has 249 '
        'and 248). One run has a standard error of 1 to 2 points. The last column: by how much '
        'biases of a refit differ from those kept at 50 %, as a share of their standard deviation.',
    ]
    kinds = dict.fromkeys(x['kind'] for x in rows)
    for kind in kinds:
        lines += ['', f'## {kind.capitalize()}', '']
        head = ['transform', *(f'{s:.0%}' for s in SHARES), 'gain over raw at 50 %', 'moved']
        lines += ['| ' + ' | '.join(head) + ' |', '|---' * len(head) + '|']
        for name in dict.fromkeys(x['transform'] for x in rows):
            found = [cells[name, kind, s] for s in SHARES]
            gains = [np.array([x['refit'] - x['kept'] for x in one]) for one in found]
            told = [f'{g.mean():+.1f} ({g.max():+.1f})' for g in gains]
            last = found[-1]
            over = np.mean([x['refit'] - x['raw'] for x in last])
            moved = np.mean([x['moved'] for x in last])
            lines.append(
                f'| `{name}` | ' + ' | '.join([*told, f'{over:+.1f}', f'{moved:.2f}']) + ' |'
            )
    lines += ['', '## Does `stale_.drift` tell?', '']
    some = [x for x in rows if x['kind'] != 'removed' and x['share'] >= 0.05]
    lines += ['| drift | runs | a refit gains | at most |', '|---|---|---|---|']
    edges = (0, 0.25, 0.5, 1, np.inf)
    for low, high in zip(edges, edges[1:]):
        gain = [x['refit'] - x['kept'] for x in some if low <= abs(x['drift']) < high]
        if gain:
            said = f'{low:g} to {high:g}' if high < np.inf else f'{low:g} or more'
            lines.append(f'| {said} | {len(gain)} | {np.mean(gain):+.2f} | {max(gain):+.1f} |')
    return '\n'.join(lines) + '\n'


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('data', type=Path, nargs='?')
    parser.add_argument('--seeds', type=int, default=3)
    parser.add_argument('--page', type=Path, help='rows, from which the page is written')
    args = parser.parse_args()
    if args.page:
        PAGE.write_text(page(json.loads(args.page.read_text())), encoding='utf-8')
        return
    torch.set_num_threads(1)
    rows = [
        dict(row(items, texts, name, share, kind, seed), set=which)
        for which, (items, texts) in sets(args.data).items()
        for seed in range(args.seeds)
        for name in OF_BANK
        for kind in ('the same kind', 'another kind', 'removed')
        for share in SHARES
    ]
    print(json.dumps(rows))


if __name__ == '__main__':
    main()
