"""What a plan of effects.py is made of: methods (rows), conditions (tables) and their families."""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple, Optional, Sequence


class Method(NamedTuple):
    """A way to train.

    Attributes:
        label: of its rows.
        config: file that tools/train.py runs.
        group: 'baseline', 'paper', 'partial' (a paper's method without a part), 'literal' (a paper
            as printed, where that is ill posed), 'control', 'ours' (an idea or a setting of
            ours), 'combination' or 'oracle' (knows what no method may know).
        options: changes to the config, as for --cfg-options.
        transforms: test-time transforms of its scores that have rows of their own.
        controls: rows that it is compared with, see ``files.controls_of``: first the one that
            differs by its idea alone and costs no more, which decides; () = the baseline.
        meant: the transform that it is meant to be tested with, and that its settings are chosen
            with; '' = none.
        note: what one must know to read its rows, where the label does not say it.
    """

    label: str
    config: str
    group: str
    options: Mapping[str, Any] = {}
    transforms: Sequence[str] = ()
    controls: Sequence[str] = ()
    meant: str = ''
    note: str = ''


class Condition(NamedTuple):
    """A corpus, and who is compared on it.

    Attributes:
        label: of its table.
        about: one sentence on what is planted.
        family: name; see :class:`Family`.
        corpus: knobs of the corpus, for all three splits.
        features: arguments of ``make_features``.
        methods: names.
        baseline: the method that all are compared with.
        oracle: the method whose gain over the baseline is 100 %; None = no oracle.
        aim: key of the measure that the bias of this condition spoils, in a direction that the
            field reports, and which no method is trained on.
        cost: key of paired recall as the field counts it.
        chosen_by: key of the measure that chose the learning rates; '' = the aim.
        looks: how often results were looked at before the number of trainings was settled.
        why: why this aim and this cost, where others would be expected.
        without: the condition that lacks the bias; '' = none is as good as that.
        options: changes to the configs of all its methods.
        first_seed: of the trainings.
        seeds: trainings of each row.
        metrics: configs of further metrics, for val and test.
        matched: methods that are trained with the settings of their control as well; where a family
            is tuned, all are.
    """

    label: str
    about: str
    family: str
    corpus: Mapping[str, Any]
    features: Mapping[str, Any]
    methods: Sequence[str]
    baseline: str
    oracle: Optional[str]
    aim: str
    cost: str = 'retrieval/rsum'
    why: str = ''
    without: str = ''
    options: Mapping[str, Any] = {}
    first_seed: int = 0
    seeds: int = 3
    metrics: Sequence[Mapping[str, Any]] = ()
    matched: Sequence[str] = ()
    chosen_by: str = ''
    looks: int = 1

    @property
    def choice(self) -> str:
        """Key of the measure that chose the learning rates."""
        return self.chosen_by or self.aim


def redrawn(condition: Condition, seed: int) -> Condition:
    """Its clips and captions drawn anew, and trainings with seeds that none there has had.

    Args:
        condition: whose knobs are kept.
        seed: of the corpus; ten times that is the first of its trainings.
    """
    folder = f'{condition.features["folder"]}{seed}'
    return condition._replace(
        corpus={**condition.corpus, 'seed': seed},
        features={**condition.features, 'seed': seed, 'folder': folder},
        first_seed=10 * seed,
    )


class Family(NamedTuple):
    """Conditions that share the choices of the grid.

    The last epoch is tested.  The point is chosen on val by the measure of the condition's
    ``choice``, among points where that differs by less than what would matter by paired recall.
    Trainings with the point that paired recall alone would choose, and with that of the control,
    stand beside.

    Attributes:
        tuned_on: name of the condition whose val chooses for all of them.
        grid: points that each method, its control and its oracle are trained with once, seed 0.
    """

    tuned_on: str
    grid: Sequence[Mapping[str, float]]


#: Test-time transforms: NCL's with the train queue, its control, and one that knows the queries.
SINKHORN, CONTROL, TEST_QUERIES = 'sinkhorn', 'inverted_softmax', 'sinkhorn_oracle'
#: Sinkhorn whose items need not be found evenly.
RELAXED = 'relaxed'
#: In v2t, texts that many clips of the train queue are near to are found earlier, or later.
LIFTED, LOWERED = 'lifted', 'lowered'
#: In v2t, the first text is the best-scored one that surely holds.
SURE = 'sure'
TRANSFORMS = {
    SINKHORN: 'Sinkhorn, train queue',
    CONTROL: 'inverted softmax, train queue',
    TEST_QUERIES: 'Sinkhorn, test queries (oracle)',
    RELAXED: 'relaxed Sinkhorn, train queue',
    LIFTED: 'texts lifted',
    LOWERED: 'texts lowered',
    SURE: 'sure first',
}
#: The learning rates that are tried, for each row and its control.
GRID = [{'optim_wrapper.optimizer.lr': lr} for lr in (5e-4, 1e-3, 2e-3)]
#: The same with one more at either end.
WIDE_GRID = [{'optim_wrapper.optimizer.lr': lr} for lr in (2.5e-4, 5e-4, 1e-3, 2e-3, 4e-3)]
