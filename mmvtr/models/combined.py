"""A combination of several supervisions of one score matrix."""

from __future__ import annotations

from collections import Counter
from functools import partial, reduce
from typing import Any, Callable, Mapping

import torch
from torch import Tensor, nn

from mmvtr.functional.losses.contrastive import WAYS, ByDirection, Columns
from mmvtr.functional.values import check_one_of
from mmvtr.models.supervisions.arl import ARLSupervision
from mmvtr.models.supervisions.columns import weighted_columns
from mmvtr.models.target import Filled, Target, each_way, judges, pushed
from mmvtr.registry import MODELS, build
from mmvtr.structures import Levels, same_level

#: How the weights of several supervisions are combined: the smallest, the largest, the product.
RULES: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {
    'min': torch.minimum,
    'max': torch.maximum,
    'product': torch.mul,
}


@MODELS.register_module()
class CombinedSupervision(nn.Module):
    """Several supervisions, each of which sees the annotation only: their order does not matter.

    A target slot that one part fills is taken as it is.  If several parts fill it: ``weights``
    become their minimum, maximum or product (``combine``), by direction if one of them is;
    ``counts`` their product; ``columns`` are concatenated; ``positives``, ``ambiguous`` and
    ``relevant`` become what any part has found, or with ``'max'`` what all parts have found (the
    maximum, or the minimum, of soft positives).  The weights of the other parts also apply to what
    a part puts into ``columns``, by the pairs behind it (:func:`.weighted_columns`).  Losses and
    figures are named after their part (``dvtr_loss_match``), and so is an evaluation matrix that
    several parts give (``dvtr_eta``).

    The minimum and the maximum keep a lower bound on the weights; weights that may exceed 1, such
    as those by hardness (``exceeds_one``), are supported by the product only.

    Args:
        parts: two or more supervisions by name; not ARL, which fills one target per branch.
        combine: ``'min'``, ``'max'`` or ``'product'``.

    Raises:
        ValueError: fewer than two parts, or ARL among them; a name with 'loss' in it, by which
            mmengine recognises the terms to add up; an unknown rule, or a rule other than
            ``'product'`` with weights that may exceed 1; in training: several parts fill another
            slot (``margins``, ``teacher``, ``hinges``), or a part fills ``relevant``, whose entries
            are not negatives, with ``'max'``, which may make them negatives.

    Example:
        Exclude negatives that DVTR's uncertainty or the captions' words consider relevant. ::

            supervision=dict(
                type='CombinedSupervision',
                parts=dict(
                    dvtr=dict(type='DVTRSupervision', sharpness=2.0),
                    words=dict(type='ImplicationSupervision'),
                ),
            )
    """

    def __init__(
        self, *, parts: Mapping[str, dict[str, Any] | nn.Module], combine: str = 'min'
    ) -> None:
        super().__init__()
        if len(parts) < 2:
            raise ValueError(f'parts must be two supervisions or more, not {[*parts]}')
        wrong = [name for name in parts if 'loss' in name]
        if wrong:
            raise ValueError(f"no part may have 'loss' in its name, as {wrong[0]!r} has")
        check_one_of(RULES, combine=combine)
        self.parts = nn.ModuleDict({name: build(part) for name, part in parts.items()})
        self.combine = combine
        for name, part in self.parts.items():
            if isinstance(part, ARLSupervision):
                raise ValueError(
                    f'parts[{name!r}] is an ARLSupervision, which fills one target per branch: it '
                    'cannot be combined with others'
                )

        above = [name for name, part in self.parts.items() if getattr(part, 'exceeds_one', False)]
        if above and combine != 'product':
            raise ValueError(
                f'the weights of parts[{above[0]!r}] may exceed 1, and combine={combine!r} '
                "would lose that beside other weights: take combine='product'"
            )

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of the columns of all parts, in the order of the parts."""
        return tuple(kind for part in self.parts.values() for kind in getattr(part, 'kinds', ()))

    @property
    def exceeds_one(self) -> bool:
        """Whether the weights of a part may exceed 1."""
        return any(getattr(part, 'exceeds_one', False) for part in self.parts.values())

    def forward(self, texts: Levels, videos: Levels, target: Target) -> Filled:
        """Return one target of the joint batch, and all losses and figures."""
        targets, logs = {}, {}
        for name, part in self.parts.items():
            targets[name], figures = part(texts, videos, target)
            logs.update({f'{name}_{key}': value for key, value in figures.items()})
        return self._together(target, self._weighted(target, targets)), logs

    def init_weights(self) -> None:
        """Let each part read what it needs, before the first step."""
        for part in self.parts.values():
            if hasattr(part, 'init_weights'):
                part.init_weights()

    def sees(self, preprocessor: nn.Module) -> None:
        """Pass the data preprocessor to the parts that need it."""
        for part in self.parts.values():
            if hasattr(part, 'sees'):
                part.sees(preprocessor)

    @property
    def matrices(self) -> Callable[[Levels, Levels], dict[str, Tensor]]:
        """Function (texts, videos) -> the parts' evaluation matrices [T, V]; missing if none has
        any."""
        those = self._with('matrices')

        def matrices(texts: Levels, videos: Levels) -> dict[str, Tensor]:
            by_part = {name: part.matrices(texts, videos) for name, part in those.items()}
            times = Counter(key for of_part in by_part.values() for key in of_part)
            return {
                key if times[key] == 1 else f'{name}_{key}': value
                for name, of_part in by_part.items()
                for key, value in of_part.items()
            }

        return matrices

    @property
    def own_levels(self) -> Callable[..., tuple[Levels, Levels]]:
        """Function that returns the levels that parts read beside the encoder's, of this process'
        items; missing if no part reads any."""
        those = self._with('own_levels')

        def own_levels(*args: Any) -> tuple[Levels, Levels]:
            texts, videos = {}, {}
            for part in those.values():
                for levels, more in zip((texts, videos), part.own_levels(*args)):
                    for name, level in more.items():
                        if name in levels and not same_level(levels[name], level):
                            raise ValueError(
                                f'two parts read different {name!r}: give each a name= of its own'
                            )
                        levels[name] = level
            return texts, videos

        return own_levels

    def _with(self, method: str) -> dict[str, nn.Module]:
        """Return the parts that have an optional method.

        Raises:
            AttributeError: no part has it.
        """
        those = {name: part for name, part in self.parts.items() if hasattr(part, method)}
        if not those:
            raise AttributeError(f'none of the parts {[*self.parts]} has {method!r}')
        return those

    def _weighted(self, annotated: Target, targets: Mapping[str, Target]) -> dict[str, Target]:
        """Return the parts' targets, with the other parts' weights applied to their columns.

        Weights that may exceed 1 are left out: they concern the scores of their own part only.
        """
        if not self.kinds:
            return dict(targets)
        filled = {
            name: {w: pushed(x, annotated, w).masked_fill(annotated.positives, 1.0) for w in WAYS}
            for name, x in targets.items()
            if judges(x, annotated) and not getattr(self.parts[name], 'exceeds_one', False)
        }
        weighed = dict(targets)
        for name, target in targets.items():
            kinds = getattr(self.parts[name], 'kinds', ())
            others = [by_way for other, by_way in filled.items() if other != name]
            if not kinds or not others:
                continue
            rule = RULES[self.combine]
            columns = weighted_columns(
                target.columns,
                kinds,
                annotated.positives,
                {way: reduce(rule, [by_way[way] for by_way in others]) for way in WAYS},
                rule if name in filled else torch.mul,
            )
            weighed[name] = target._replace(columns=columns)
        return weighed

    def _together(self, target: Target, targets: Mapping[str, Target]) -> Target:
        """Merge the targets that the parts have made from ``target`` into one."""
        joined = torch.minimum if self.combine == 'max' else torch.maximum  # of bool: and, or
        rules = dict(
            weights=partial(each_way, RULES[self.combine]),
            counts=_counts_of_both,
            columns=_side_by_side,
            **dict.fromkeys(('positives', 'ambiguous', 'relevant'), joined),
        )
        filled: dict[str, Any] = {}
        before, after = _slots(target), {name: _slots(x) for name, x in targets.items()}
        for slot in dict.fromkeys(slot for slots in after.values() for slot in slots):
            values = {
                name: slots[slot]
                for name, slots in after.items()
                if slot in slots and slots[slot] is not before.get(slot)
            }
            if len(values) > 1 and slot not in rules:
                raise ValueError(
                    f'{" and ".join(map(repr, values))} both fill target.{slot}, and there is no '
                    'rule for two of these: leave one out'
                )
            if len(values) == 1:
                filled[slot] = next(iter(values.values()))
            elif values:
                filled[slot] = reduce(rules[slot], values.values())
        if 'relevant' in filled and self.combine == 'max':
            raise ValueError(
                "relevant entries must not be negatives, but combine='max' may make them so: "
                "take 'min', or leave the RelevanceSupervision out"
            )
        extras = {slot: filled.pop(slot) for slot in [*filled] if slot not in Target._fields}
        return target._replace(**filled).put(**extras)


def _counts_of_both(one: ByDirection, other: ByDirection) -> ByDirection:
    """Return the product of two counts; counts without a direction belong to texts."""
    if not (isinstance(one, Mapping) or isinstance(other, Mapping)):
        return one * other
    ways = [x if isinstance(x, Mapping) else dict(t2v=x) for x in (one, other)]
    return each_way(torch.mul, *ways)


def _side_by_side(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, list[Columns]]:
    return {way: [*one.get(way, ()), *other.get(way, ())] for way in {**one, **other}}


def _slots(target: Target) -> dict[str, Any]:
    """Return all slots that supervisions fill, including those in ``extras``, by name."""
    slots = target._asdict()
    return {**slots.pop('extras'), **slots}
