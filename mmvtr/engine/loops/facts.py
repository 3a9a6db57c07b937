"""Facts of a training, stored in every checkpoint and repeated in every result.

Written into ``meta['training']`` by :func:`~mmvtr.engine.loops.facts_of_run.facts_of_run`, read by
:func:`trainings_of` alone.  Facts that a checkpoint lacks (a converted official one, an older one)
are None and called unknown: they are never taken from the present config.
"""

from __future__ import annotations

import itertools
from typing import Any, Mapping, NamedTuple, Optional, Sequence

#: Maximum characters of a fact from a file.
LONGEST = 300


class Training(NamedTuple):
    """Facts of one training; None = unknown.

    Attributes:
        set, ids, videos, texts: training set: name, hash of the ids, counts.
        epoch_unit: what an epoch visits once.
        environments: how items were assigned to members; '' = not at all.
        frames: source of the frames, and how many per video.
        batch: items of a joint batch, over all processes.
        processes: number of processes that shared it.
        accumulated: joint batches per optimizer step.
        optimizer: its class.
        rates: (learning rate, parameters) of its groups: the rates that a schedule scales, after
            ``--auto-scale-lr``.
        precision: 'fp32', 'bf16' or 'fp16'.
        schedule: learning-rate schedule, with its number of epochs or iterations.
        epochs: planned epochs; None also if only iterations are counted.
        steps: planned iterations, one joint batch each.
        done: epochs that the weights were trained.
        seed: seed of the run.
        start: name of the file of initial weights; '' = none.
        commit: commit of the folder in which it was started; '' = no repository.
        versions: versions of mmvtr, torch and mmengine.
        earlier: facts that differed before a resume: ``{'until epoch 2': {'batch': 4}}``.
        author: origin of converted weights.
    """

    set: Optional[str] = None
    ids: Optional[str] = None
    videos: Optional[int] = None
    texts: Optional[int] = None
    epoch_unit: Optional[str] = None
    environments: Optional[str] = None
    frames: Optional[str] = None
    batch: Optional[int] = None
    processes: Optional[int] = None
    accumulated: Optional[int] = None
    optimizer: Optional[str] = None
    rates: Optional[list] = None
    precision: Optional[str] = None
    schedule: Optional[str] = None
    epochs: Optional[int] = None
    steps: Optional[int] = None
    done: Optional[int] = None
    seed: Optional[int] = None
    start: Optional[str] = None
    commit: Optional[str] = None
    versions: Optional[dict] = None
    earlier: Optional[dict] = None
    author: Optional[str] = None

    def as_dict(self) -> dict[str, Any]:
        """Return the known facts in types that json and a plain checkpoint can hold."""
        return {name: value for name, value in self._asdict().items() if value is not None}

    def items(self) -> dict[str, str]:
        """Return name -> text for a protocol line or a card; the last item lists unknown facts."""
        values = {name: words(self) for name, words in _WORDS.items()}
        unknown = [name for name, value in values.items() if value is None]
        stated = {name: value for name, value in values.items() if value}
        if self.author:
            stated['weights of'] = self.author
        for when, facts in (self.earlier or {}).items():
            stated[when] = ', '.join(f'{name} {value}' for name, value in facts.items())
        if unknown:
            stated['unknown of the training:'] = ', '.join(unknown)
        return stated


def _set(t: Training) -> Optional[str]:
    if t.set is None and t.videos is None:
        return None
    counts = [f'{n:,} {kind}' for n, kind in ((t.videos, 'videos'), (t.texts, 'texts')) if n]
    inside = ', '.join([*([f'ids {t.ids}'] if t.ids else []), *counts])
    return f'{t.set or "a set"} ({inside})' if inside else t.set


def _batch(t: Training) -> Optional[str]:
    if t.batch is None:
        return None
    several = t.processes is not None and t.processes > 1
    shared = f' ({t.processes} x {t.batch // t.processes})' if several else ''
    more = t.accumulated is not None and t.accumulated > 1
    return f'{t.batch}{shared}' + (f', {t.accumulated} of them a step' if more else '')


def _optimizer(t: Training) -> Optional[str]:
    if t.optimizer is None and t.rates is None:
        return None
    rates = t.rates or []
    if len({rate for rate, _ in rates}) > 1:
        groups = ', '.join(
            f'{rate:g} ({count} parameter{"s" * (count > 1)})' for rate, count in rates
        )
    else:
        groups = ''.join(f'{rate:g}' for rate, _ in rates[:1])
    return (t.optimizer or 'an unknown optimizer') + (f', lr {groups}' if groups else '')


def _length(t: Training) -> Optional[str]:
    if t.done is None and t.epochs is None:
        return None if t.steps is None else f'{t.steps} iterations'
    planned = 'unknown' if t.epochs is None else t.epochs
    steps = '' if t.steps is None else f' ({t.steps} iterations)'
    return f'{planned} epochs{steps}' if t.done is None else f'{t.done} of {planned} epochs{steps}'


def _code(t: Training) -> Optional[str]:
    if t.versions is None:
        return None
    commit = f', commit {t.commit}' if t.commit else ''
    return ', '.join(f'{name} {version}' for name, version in t.versions.items()) + commit


#: Name in a protocol line -> its text; None = unknown, '' = not mentioned.
_WORDS = {
    'trained on': _set,
    'environments': lambda t: t.environments if t.set else '',
    'epoch': lambda t: t.epoch_unit and f'every {t.epoch_unit.replace("_", " ")}',
    'training frames': lambda t: t.frames,
    'batch': _batch,
    'optimizer': _optimizer,
    'trained in': lambda t: t.precision,
    'schedule': lambda t: t.schedule,
    'trained for': _length,
    'seed': lambda t: None if t.seed is None else str(t.seed),
    'started from': lambda t: t.start if t.set else '',
    'code': _code,
}


# -- reading -----------------------------------------------------------------------------------


def trainings_of(checkpoint: Mapping[str, Any], path: Any = 'checkpoint') -> list[Training]:
    """Return the trainings of a checkpoint's weights: one, or one per member of several.

    Args:
        checkpoint: result of :func:`~mmvtr.storage.weights.read_checkpoint`.
        path: path of the file, for the error.

    Raises:
        ValueError: malformed facts; names the file and the fact.
    """
    meta = checkpoint.get('meta')
    meta = meta if isinstance(meta, dict) else {}
    if 'members' in meta:
        return trainings_from(meta['members'], path)
    if 'training' in meta:
        facts = _read(meta['training'], path)
        done = meta.get('epoch')
        return [facts if done is None or facts.epochs is None else facts._replace(done=done)]
    return [_without_facts(meta)]


def trainings_from(stored: Any, path: Any) -> list[Training]:
    """Return the trainings of a list of facts, as a checkpoint or a result stores them.

    Raises:
        ValueError: no list, an empty one, or malformed facts; names the file.
    """
    if not isinstance(stored, (list, tuple)) or not stored:
        raise ValueError(f"{path}: meta['members']: a list of facts expected, got {stored!r:.80}")
    return [_read(facts, path) for facts in stored]


def _without_facts(meta: Mapping[str, Any]) -> Training:
    """Return what is known of a checkpoint without facts: a converted one, or mmengine's own."""
    fields: dict[str, Any] = dict(done=meta.get('epoch'), seed=meta.get('seed'))
    fields = {name: value for name, value in fields.items() if type(value) is int}
    if isinstance(meta.get('converted_from'), str):
        fields['author'] = f"{meta.get('method')}'s authors ({meta['converted_from'][:LONGEST]})"
    return Training(**fields)


_TYPES = {
    **dict.fromkeys(Training._fields, str),
    **dict.fromkeys(('videos', 'texts', 'batch', 'processes', 'accumulated', 'epochs'), int),
    **dict.fromkeys(('steps', 'done', 'seed'), int),
    **dict(rates=list, versions=dict, earlier=dict),
}


def _read(value: Any, path: Any) -> Training:
    """Return the facts of a file from an unknown source, checked."""
    if not isinstance(value, dict):
        raise ValueError(f"{path}: meta['training']: a dict of facts expected, got {value!r:.80}")
    fields = {name: fact for name, fact in value.items() if name in _TYPES and fact is not None}
    for name, fact in fields.items():
        if type(fact) is not _TYPES[name] or not _well_formed(name, fact):
            raise ValueError(
                f"{path}: meta['training'][{name!r}]: a {_TYPES[name].__name__} expected, got "
                f'{fact!r:.80}'
            )
    return Training(**fields)


def _well_formed(name: str, fact: Any) -> bool:
    if name == 'rates':
        return all(
            isinstance(pair, (list, tuple)) and [*map(type, pair)] == [float, int] for pair in fact
        )
    return len(repr(fact)) <= 8 * LONGEST and repr(fact).isprintable()


# -- side by side ------------------------------------------------------------------------------


def differences(training: Training, other: Training) -> dict[str, tuple[str, str]]:
    """Return the facts in which two trainings differ: the text of each, or 'unknown'.

    Ignored are the number of processes that shared a batch, the chosen epoch, and learning rates of
    parameters that the other one lacks.
    """
    differ = {}
    for name in _WORDS:
        mine, theirs = (_compared(name, x) for x in (training, other))
        if mine != theirs and not (name == 'optimizer' and _same_rates(training, other)):
            differ[name] = tuple('unknown' if x is None else x or 'none' for x in (mine, theirs))
    return differ


def _compared(name: str, t: Training) -> Optional[str]:
    if name == 'batch':
        t = t._replace(processes=None)
    if name == 'trained for':
        t = t._replace(done=None)
    return _WORDS[name](t)


def _same_rates(training: Training, other: Training) -> bool:
    if training.optimizer != other.optimizer or training.rates is None or other.rates is None:
        return False
    mine, theirs = ({rate for rate, _ in x.rates} for x in (training, other))
    return mine <= theirs or theirs <= mine


def differing(
    ours: Optional[Sequence[Mapping[str, Any]]],
    theirs: Optional[Sequence[Mapping[str, Any]]],
    names: Sequence[str],
) -> list[str]:
    """Return a line for each fact in which two results' trainings differ, for a heading.

    Args:
        ours, theirs: facts of their trainings, as stored in results and files of scores; None:
            unknown, []: weights as the config builds them.
        names: names of the two results.

    Raises:
        ValueError: malformed facts.
    """
    lacking = [
        f'how {name} was trained is unknown' if facts is None else f'{name} is not trained here'
        for name, facts in zip(names, (ours, theirs))
        if not facts
    ]
    if lacking:
        return lacking
    mine, other = trainings_from(ours, names[0]), trainings_from(theirs, names[1])
    pairs = zip(mine, other) if len(mine) == len(other) else itertools.product(mine, other)
    lines = [
        f'differs in {fact}: {first} in {names[0]}, {second} in {names[1]}'
        for pair in pairs
        for fact, (first, second) in differences(*pair).items()
    ]
    return [*dict.fromkeys(lines)]


def together(trainings: Sequence[Training]) -> dict[str, str]:
    """Return the items of several trainings: one value if all agree, else all values."""
    listed = [training.items() for training in trainings]
    names = dict.fromkeys(name for items in listed for name in items)
    merged = {}
    for name in names:
        values = [items.get(name, '-') for items in listed]
        merged[name] = ' / '.join(values if len(set(values)) > 1 else values[:1])
    return merged


def since_resumed(before: Training, now: Training) -> Training:
    """Return the facts of a resumed training, including earlier ones that differed."""
    lines = differences(now, before)
    changed = {name: theirs for name, (_, theirs) in lines.items() if theirs != 'unknown'}
    earlier = dict(before.earlier or {})
    if changed and before.done is not None:
        earlier[f'until epoch {before.done}'] = changed
    return now._replace(start=before.start, earlier=earlier or None)


# -- why a checkpoint was chosen -----------------------------------------------------------------


#: File name of the checkpoint that a training has chosen.
BEST = 'best.pth'


class Choice(NamedTuple):
    """Why a checkpoint was chosen; stored as ``meta['chosen']``.

    Attributes:
        by: key of the metric.
        value: value of that metric.
        on: 'val', or 'test' if that set was validated on.
        epoch, iter: epochs and iterations trained.
    """

    by: str
    value: float
    on: str
    epoch: int
    iter: int

    def in_words(self) -> str:
        """Return 'retrieval/rsum 213.04 on val, epoch 7 (step 448)'."""
        return f'{self.by} {self.value:.6g} on {self.on}, epoch {self.epoch} (step {self.iter})'


def choice_of(checkpoint: dict[str, Any]) -> Optional[Choice]:
    """Return why a checkpoint was chosen; None if it is not a best one."""
    meta = checkpoint.get('meta', {})
    return Choice(**meta['chosen']) if isinstance(meta.get('chosen'), dict) else None
