"""A student that reads small features, taught by models that read a large encoder's.

    python projects/lab/evidence/real/large_teacher.py LARGE SMALL --seeds 0 1 2 3 4

LARGE and SMALL are folders of the same captions.csv with other features.npz, see sets.py.  Rows, a
line a training in ``cells/real/large_teacher``: InfoNCE on LARGE (the teacher) and on SMALL, and
students on SMALL of three models of its own, of one large model and of three.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Callable, Sequence

import reading
import run
from members import logits_of, member, taught
from methods import METHODS
from results import RESULTS, Results
from sets import in_a_sentence, of_folder, prepare
from towers import KeptTable

OUT = RESULTS / 'large_teacher'
RATE = 1e-3
#: Row: the method it is trained by.
LARGE_ROWS = dict(student_of_large='self_distilled', student_of_three_large='student')


def taught_by(large: run.Place) -> Callable[..., KeptTable]:
    """Gives a training set the logits of InfoNCE's models on the large features, by text and item.

    Raises:
        ValueError: the two sets have other texts or items, or another order of them.
    """

    def teach(place: run.Place, data: KeptTable, rate: float, seeds: Sequence[int]) -> KeptTable:
        theirs = reading.dataset(large.folder, 'train', large.text)
        if (theirs.texts, theirs.videos) != (data.texts, data.videos):
            raise ValueError(f'{large.folder} and {place.folder} are not of the same captions.csv')
        everything, found = reading.whole(theirs), {}
        for n, seed in enumerate(seeds):
            trained = member(large, rate, seed)
            trained.model.load_state_dict(trained.best)
            found[f'member{n}'] = logits_of(trained.model, everything)
        return data.with_vectors(**found)

    return teach


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('large', type=Path, metavar='LARGE')
    parser.add_argument('small', type=Path, metavar='SMALL')
    parser.add_argument('--seeds', nargs='+', type=int, default=[0, 1, 2, 3, 4])
    args = parser.parse_args()
    run.quiet()
    places = []
    for folder in (args.large, args.small):
        name = folder.resolve().name
        places.append(run.Place(name, prepare(name, of_folder(folder), run.WORK / name), 'minilm'))
        places[-1].transforms = ['unbalanced_sinkhorn']
    large, small = places
    METHODS.update({row: METHODS[method] for row, method in LARGE_ROWS.items()})
    OUT.mkdir(exist_ok=True)
    results = Results(OUT)
    rows = [(large, 'infonce', taught), (small, 'infonce', taught), (small, 'student', taught)]
    rows += [(small, row, taught_by(large)) for row in LARGE_ROWS]
    for place, name, teach in rows:
        for seed in args.seeds:
            if not results.find(set=place.name, text=place.text, method=name, seed=seed):
                results.add(run.one(place, name, seed, RATE, teach=teach))
                print(run.said(results.rows[-1]), flush=True)


if __name__ == '__main__':
    in_a_sentence(main)
