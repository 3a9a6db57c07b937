"""One picture a method on real data: captions whose rank moved most, hubs, eta, ambiguous pairs.

    python projects/lab/evidence/real/pictures.py     # from stored results: stronger.py, eta.py

Words alone: images and clips of the sets are not ours to show.  Writes ``docs/images/real_*.png``.
"""

from __future__ import annotations

import csv
from pathlib import Path
from textwrap import wrap
from typing import NamedTuple, Sequence

import matplotlib
import numpy as np
import run
from sets import ROOT, SPLITS, in_a_sentence, shared
from study_parts.flickr8k import read_captions

matplotlib.use('Agg')
from matplotlib import pyplot as plt  # noqa: E402

IMAGES = ROOT / 'docs/images'
STORED = run.RESULTS / 'stronger'
BETTER, WORSE, DARK = '#1b7837', '#b2182b', '#222222'
NAMES = dict(ncl='NCL with its bank', dvtr='DVTR as shipped', dvtr_early='DVTR, early eta')


class Moved(NamedTuple):
    """A text whose rank changed."""

    caption: str
    before: int
    after: int


def captions() -> tuple[list[str], np.ndarray]:
    """Test captions of set S in the order of its scores, and the video of each, int [T]."""
    with open(run.WORK / 'M/captions.csv', newline='', encoding='utf8') as file:
        rows = [row for row in csv.DictReader(file) if row['split'] == SPLITS[2]]
    names = list(dict.fromkeys(row['video'] for row in rows))
    place = {name: n for n, name in enumerate(names)}
    return [row['text'] for row in rows], np.array([place[row['video']] for row in rows])


def moved_most(
    before: np.ndarray, after: np.ndarray, texts: Sequence[str], count: int = 3
) -> list[Moved]:
    """The texts whose rank rose and fell by the largest factors, each caption once."""
    order = np.argsort(np.log(after / before), kind='stable')
    found: list[Moved] = []
    for some in (order, order[::-1]):
        part: dict[str, Moved] = {}
        for n in some:
            if len(part) == count:
                break
            part.setdefault(texts[n], Moved(texts[n], round(before[n]), round(after[n])))
        found += part.values()
    return found


def draw_moved(axis: plt.Axes, moved: Sequence[Moved]) -> None:
    """A line a text: old rank, new rank, caption."""
    axis.axis('off')
    for n, one in enumerate(moved):
        y = 1 - (n + 0.5) / len(moved)
        colour = BETTER if one.after < one.before else WORSE
        ranks = f'{one.before:,} → {one.after:,}'
        axis.text(0, y, ranks, color=colour, weight='bold', size=13, va='center')
        shown = wrap(one.caption, 52)
        text = '\n'.join(shown[:2]) + (' …' if len(shown) > 2 else '')
        axis.text(0.26, y, text, color=DARK, size=12, va='center', linespacing=1.05)


def draw_hubs(axis: plt.Axes, before: np.ndarray, after: np.ndarray, name: str) -> None:
    """For how many texts each video is first, most frequent first."""
    videos = 1 + max(before.max(), after.max())
    for first, label, colour in ((before, 'InfoNCE', '#888888'), (after, name, BETTER)):
        counts = np.sort(np.bincount(first, minlength=videos))[::-1]
        never = 100 * float((counts == 0).mean())
        axis.plot(1 + np.arange(videos), counts, color=colour, lw=3)
        axis.plot([], [], color=colour, lw=3, label=f'{label}: {never:.0f} % never first')
    axis.set_xscale('log')
    axis.set_xlabel('video, most found first', size=12)
    axis.set_ylabel('texts that find it first', size=12)
    axis.legend(frameon=False, fontsize=12)


def draw_eta(axis: plt.Axes, eta: np.ndarray, grade: np.ndarray) -> None:
    """Eta of unannotated pairs by the experts' mean grade, quartiles and median."""
    rounded = np.rint(grade)
    known = [(g, eta[rounded == g]) for g in (1, 2, 3, 4)]
    boxes = axis.boxplot([x for _, x in known], showfliers=False, widths=0.6, patch_artist=True)
    for box in boxes['boxes']:
        box.set(facecolor='#d9ead3')
    for line in boxes['medians']:
        line.set(color=DARK, lw=2.5)
    labels = [f'{g}\n{len(x):,} pairs' for g, x in known]
    axis.set_xticks(range(1, 5), labels, size=12)
    axis.set_xlabel('experts: 1 “not related” … 4 “describes it”', size=12)
    axis.set_ylabel('eta, weight as negative', size=12)


def draw_pairs(axis: plt.Axes, rows: Sequence[tuple[str, str, str]]) -> None:
    """Ambiguous pairs: a query, what the other item is called, and a remark."""
    axis.axis('off')
    for n, (query, other, remark) in enumerate(rows):
        y = 1 - (n + 0.5) / len(rows)
        axis.text(0, y, remark, color=BETTER, weight='bold', size=12, va='center')
        text = f'“{_short(query)}”\n{_short(other)}'
        axis.text(0.26, y, text, color=DARK, size=12, va='center', linespacing=1.15)


def _short(text: str, width: int = 54) -> str:
    text = text.strip().rstrip(' .')
    return text if len(text) <= width else text[: width - 1].rsplit(' ', 1)[0] + ' …'


def sheet(name: str, lower: str, heights: tuple[float, float]) -> tuple[plt.Figure, list[plt.Axes]]:
    """A card with two panels and their headings."""
    figure, axes = plt.subplots(2, 1, figsize=(7.2, 7.6), height_ratios=heights)
    figure.suptitle(f'{NAMES[name]} against InfoNCE', size=17, weight='bold', x=0.04, ha='left')
    upper = 'MSR-VTT: rank of the own clip among 1,432, before → after'
    for axis, text in zip(axes, (upper, lower)):
        axis.set_title(text, size=13, loc='left', color='#555555')
        axis.tick_params(labelsize=12)
        axis.spines[['top', 'right']].set_visible(False)
    return figure, list(axes)


def save(figure: plt.Figure, name: str) -> Path:
    """Write a card."""
    path = IMAGES / f'real_{name}.png'
    figure.tight_layout(rect=(0, 0, 1, 0.98))
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return path


def pairs_of_flickr(eta: np.ndarray, stored: dict[str, np.ndarray], count: int = 5):
    """Graded unannotated pairs of lowest eta, each image once, whatever their grade."""
    known = read_captions(shared() / 'human_judgments/flickr8k/Flickr8k.token.txt')
    told = {Path(image).stem: own[0][1] for image, own in known.items()}
    by_text = {key: text for own in known.values() for key, text in own}
    rows: dict[str, tuple[str, str, str]] = {}
    for n in np.argsort(eta, kind='stable'):
        image, grade = str(stored['image'][n]), float(stored['expert'][n])
        if len(rows) < count and np.isfinite(grade) and image not in rows:
            remark = f'eta {eta[n]:.2f}\ngrade {grade:.1f}'
            rows[image] = (by_text[str(stored['text'][n])], told[image], remark)
    return list(rows.values())


def main() -> None:
    texts, _ = captions()
    base = np.load(STORED / 'infonce_ranks.npz')
    eta = dict(np.load(STORED / 'eta.npz'))
    for name in NAMES:
        own = np.load(STORED / f'{name}_ranks.npz')
        lower = dict(
            ncl='Hubs: for how many of the 5,728 texts each clip is first',
            dvtr_early='Flickr8k: eta of pairs that nobody annotated, by people’s grade',
            dvtr='Flickr8k, early eta: unannotated pairs it spares most, with people’s grade',
        )[name]
        figure, axes = sheet(name, lower, (1.25, 1) if name != 'dvtr' else (1.1, 1))
        draw_moved(axes[0], moved_most(base['t2v'], own['t2v'], texts))
        if name == 'ncl':
            draw_hubs(axes[1], base['first'], own['first'], NAMES[name])
        elif name == 'dvtr_early':
            known = np.isfinite(eta['expert'])
            draw_eta(axes[1], eta['eta'][known], eta['expert'][known])
        else:
            draw_pairs(axes[1], pairs_of_flickr(eta['eta'], eta))
        print(save(figure, name))


if __name__ == '__main__':
    in_a_sentence(main)
