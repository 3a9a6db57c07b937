"""General captions under the fair protocol: who spares right answers that nobody annotated.

Three corpora on which no setting was chosen.  The first one's val chooses the learning rates.
"""

from __future__ import annotations

from comparison.kinds import FAIR_GRID, Condition, Family

#: What is compared there; our own method's settings were written down before.
ROWS = ('infonce', 'dvtr_floor0', 'dvtr_v2t', 'agreement', 'oracle')
FAMILY = 'general captions'


def _corpus(number: int, seed: int, first_seed: int) -> Condition:
    knobs = dict(seed=seed, num_val=1000)
    return Condition(
        label=f'general captions {number}',
        about='Six captions of ten are general ("something spins"). Other clips, captions and '
        'training seeds than those that any setting was chosen on.',
        family=FAMILY,
        corpus=dict(**knobs, general=0.6),
        features=dict(folder=f'general{seed}', **knobs),
        methods=ROWS,
        baseline='infonce',
        oracle='oracle',
        aim='semantic/v2t_P1',
        first_seed=first_seed,
    )


CONDITIONS = {
    f'general{seed}': _corpus(number, seed, 10 * seed)
    for number, seed in enumerate((21, 22, 23), 1)
}
FAMILIES = {FAMILY: Family('general21', FAIR_GRID, fair=True)}
