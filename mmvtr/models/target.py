"""Training targets of a score matrix, and a process' own batch."""

from __future__ import annotations

from typing import Any, Callable, Mapping, NamedTuple, Optional, Sequence, Union

import torch
from torch import Tensor, nn

from mmvtr.functional.losses.contrastive import WAYS, ByDirection, Columns
from mmvtr.structures import Levels

#: Slot that few losses read -> the losses that read it.
READERS = dict(
    columns='ContrastiveLoss',
    counts='ContrastiveLoss',
    hinges='SeveralHingesLoss',
    hubness='NeighborRetrLoss',
    labels='SigmoidLoss',
    margins='RankingLoss',
    positives='ContrastiveLoss',
    teacher='DistillationLoss or KLDistillationLoss',
    weights='ContrastiveLoss, RankingLoss or SigmoidLoss',
)


class Hinge(NamedTuple):
    """One of several terms ``weight [margins + s_tn - s_tp]_+`` of a ranking loss.

    Attributes:
        weight: weight of the term.
        margins: float [T, V].
    """

    weight: float
    margins: Tensor


class Annotation(NamedTuple):
    """Facts from the dataset about the T x V pairs of a batch, beside the annotated matches.

    Attributes:
        relevance: float [T, V] in [0, 1] or None, overlap of the verbs and nouns of text and video;
            None if the dataset has no classes.
        overlap: bool [T, V] or None, whether they share a class of every kind (a verb and a noun).
        agreement: float [T, V] or None, how well the text agrees with the captions of the video, in
            standard deviations; None if the dataset does not provide it.
        truth: bool [T, V] or None, whether the text truly describes the video; for oracles on
            planted data only, never for a method.
    """

    relevance: Optional[Tensor] = None
    overlap: Optional[Tensor] = None
    agreement: Optional[Tensor] = None
    truth: Optional[Tensor] = None


class Target(NamedTuple):
    """Training target of a T x V score matrix.

    Attributes:
        positives: bool [T, V], the entries that count as a match, or float [T, V] in [0, 1],
            degrees of a match: soft positives, for losses with ``'positives'`` in their slots.
        weights: float [T, V] or None, weight of each negative; or weights by direction, ``'t2v'``
            and ``'v2t'``, for losses with ``'directions'`` in their slots.
        margins: float [T, V] or None, margin of each pair of a ranking loss.
        ambiguous: bool [T, V] or None, unannotated entries that are neither match nor negative
            (ARL); None before they are computed (warm-up).
        counts: float [T] >= 0 or None, weight of each text in the mean of a contrastive loss over
            texts (t2v), or by direction, ``{'t2v': [T], 'v2t': [V]}``; None: equal weights.
        columns: by direction, further entries in the denominators of a contrastive loss, or None.
        known: facts from the dataset about the pairs.
        extras: data from one supervision for one loss, by name: ``relevant`` (bool [T, V],
            unannotated entries that RAN found relevant), ``teacher`` (float [T, V], scores that the
            model's scores are to follow, or [K, T, V] of K teachers), ``hinges`` (several
            :class:`Hinge` of each pair, CMGSD), ``labels`` (float [T, V] in [0, 1], of mixed
            videos, for a pairwise loss), ``draws`` (float [T] and [V] in [0, 1), by which a loss
            chooses some items whatever their order in the batch, DL-DKD++), ``hubness`` (by
            direction, float [V] of videos and [T] of texts, NeighborRetr).
    """

    positives: Tensor
    weights: Optional[ByDirection] = None
    margins: Optional[Tensor] = None
    ambiguous: Optional[Tensor] = None
    counts: Optional[ByDirection] = None
    columns: Optional[Mapping[str, Sequence[Columns]]] = None
    known: Annotation = Annotation()
    extras: Mapping[str, Any] = {}

    def put(self, **extras: Any) -> Target:
        """Return the target with further entries in ``extras``."""
        return self._replace(extras={**self.extras, **extras})

    def weigh(self, weights: ByDirection) -> Target:
        """Return the target with its negatives also multiplied by these weights."""
        return self._replace(weights=each_way(torch.mul, self.weights, weights))


#: One target for all matrices, or one for each by name.
Targets = Union[Target, dict[str, Target]]
#: Result of a supervision: its target of the joint batch, and losses and figures by name.
Filled = tuple[Target, dict[str, Tensor]]
#: Score matrices [T, V] by name.
Matrices = dict[str, Tensor]
#: A number, or a 0-dim tensor such as the temperature.
Scalar = Union[float, Tensor]


class LocalBatch(NamedTuple):
    """This process' own items, for objectives that read more than the gathered vectors.

    Attributes:
        inputs: output of the data preprocessor: ``text`` int64 [T, L], ``text_mask`` ...
        texts, videos: levels of the T texts and V videos, with tokens.
        positives: bool [T, V], matches among them.
    """

    inputs: dict[str, Tensor]
    texts: Levels
    videos: Levels
    positives: Tensor


def is_soft(positives: Tensor) -> bool:
    """Return whether positives [T, V] are soft: degrees of a match, not bool."""
    return positives.is_floating_point()


def each_way(
    rule: Callable[[Tensor, Tensor], Tensor],
    one: Optional[ByDirection],
    other: Optional[ByDirection],
) -> Optional[ByDirection]:
    """Return ``rule`` of two weights, by direction if either is; if one is None, the other.

    Weights by direction that lack a direction are 1 there, as in :func:`.contrastive`.
    """
    if one is None or other is None:
        return other if one is None else one
    if not (isinstance(one, Mapping) or isinstance(other, Mapping)):
        return rule(one, other)
    by_way = {}
    for way in WAYS:
        pair = [of_way(one, way), of_way(other, way)]
        some = [weights for weights in pair if weights is not None]
        if some:
            ones = torch.ones_like(some[0])
            by_way[way] = rule(*(ones if weights is None else weights for weights in pair))
    return by_way


def of_way(value: Optional[ByDirection], way: str) -> Optional[Tensor]:
    """Return the value of one direction; None if there is none."""
    return value.get(way) if isinstance(value, Mapping) else value


def slots_of(loss: nn.Module) -> Optional[tuple[str, ...]]:
    """Return the slots of a target that a loss's own class says it reads; None: maybe any."""
    return vars(type(loss)).get('slots')


def check_readable(target: Target, reader: nn.Module) -> None:
    """Raise ValueError if a loss cannot read soft positives or weights by direction.

    A loss whose own class does not set ``slots`` may read any; another object without ``slots``
    reads neither.

    Raises:
        ValueError: it cannot; names the ``reader``.
    """
    slots = slots_of(reader) if hasattr(reader, 'slots') else ()
    if slots is None:
        return
    if isinstance(target.weights, Mapping) and 'directions' not in slots:
        raise ValueError(
            f'{type(reader).__name__} takes one weight for both directions of a pair, but the '
            'supervision gives one for each: use a loss that takes both, such as ContrastiveLoss'
        )
    if is_soft(target.positives) and 'positives' not in slots:
        raise ValueError(
            f'{type(reader).__name__} takes positives that are true or false, but the supervision '
            'gives soft ones in [0, 1]: use a loss that takes these, such as ContrastiveLoss'
        )


def judges(target: Target, annotated: Target) -> bool:
    """Return whether a supervision's target weighs negatives.

    Args:
        target: target from the supervision.
        annotated: target from the annotation.
    """
    return (
        target.weights is not None
        or target.ambiguous is not None
        or is_soft(target.positives)
        or not torch.equal(target.positives, annotated.positives)
    )


def mean_weights(target: Target) -> Optional[Tensor]:
    """Return the weights of negatives, float [T, V], averaged over both directions, or None.

    A missing direction has weights of 1.
    """
    if not isinstance(target.weights, Mapping):
        return None if target.weights is None else target.weights.float()
    ways = [of_way(target.weights, way) for way in WAYS]
    weights = [x.float() for x in ways if x is not None]
    return sum(weights + [torch.ones_like(weights[0])] * (len(WAYS) - len(weights))) / len(WAYS)


def pushed(target: Target, annotated: Target, way: Optional[str] = None) -> Tensor:
    """Return the weight of each pair as a negative, float [T, V]; 0 for a match or ambiguous.

    Args:
        target: target from the supervision.
        annotated: target from the annotation.
        way: a direction, ``'t2v'`` or ``'v2t'``; None: weights by direction are averaged.
    """
    weights = mean_weights(target) if way is None else of_way(target.weights, way)
    if weights is None:
        weights = torch.ones(annotated.positives.shape, device=annotated.positives.device)
    matched = target.positives.float().masked_fill(annotated.positives, 0.0)
    weights = weights * (1 - matched)
    return weights if target.ambiguous is None else weights.masked_fill(target.ambiguous, 0.0)


def check_read(supervision: Optional[nn.Module], losses: Mapping[str, nn.Module]) -> None:
    """Raise ValueError if no loss reads the slot that a supervision names in ``fills``.

    A loss whose own class does not set ``slots`` may read any.  The parts of a combined supervision
    are checked one by one.

    Raises:
        ValueError: no loss reads it: the supervision would have no effect.
    """
    for part in getattr(supervision, 'parts', nn.ModuleDict()).values():
        check_read(part, losses)
    slot = getattr(supervision, 'fills', None)
    read = {name: slots_of(loss) for name, loss in losses.items()}
    if slot is None or not read or any(slots is None or slot in slots for slots in read.values()):
        return
    reader = READERS.get(slot, 'loss that does')
    raise ValueError(
        f'{type(supervision).__name__} fills target.{slot}, which no loss reads '
        f'({str([*read])[:80]}), so that it has no effect: add a {reader}'
    )


#: What a training set lacks if it does not tell a field of :class:`.Annotation`.
LACKING = dict(
    agreement='agreement: add records=dict(agreement=dict(type={maker!r}))',
    overlap='classes: its records need classes=dict(verb=[...], noun=[...]) or the like',
    relevance='classes: its records need classes=dict(verb=[...], noun=[...]) or the like',
    truth='truth: set train_dataloader.dataset.oracle=True (PlantedDataset)',
)


def known_of(
    target: Target, field: str, reader: nn.Module, *, maker: str = 'CaptionAgreement'
) -> Tensor:
    """Return a field of a target's annotation, [T, V], which its dataset must tell.

    Args:
        target: any target.
        field: name of a field of :class:`.Annotation`.
        reader: the loss or supervision, for the message.
        maker: what computes an ``agreement``, for the message.

    Raises:
        ValueError: it is None.
    """
    value = getattr(target.known, field)
    if value is None:
        lacking = LACKING[field].format(maker=maker)
        raise ValueError(
            f'{type(reader).__name__} reads target.known.{field}, but the training set has no '
            f'{lacking}'
        )
    return value
