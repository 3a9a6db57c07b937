"""Rules for config values that differ when a training is resumed."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any, Iterator, Mapping, NamedTuple

from mmvtr.cli.hints import short
from mmvtr.registry import bare_name

RESCALED = 'rescaled and logged'
APPLIED = 'applied and logged'
CONTINUED = 'continued and logged'
REFUSED = 'refused'
SILENT = 'applied'
#: Placeholder for a value that is not set.
UNSET = type('Unset', (), {'__repr__': lambda self: 'not set'})()


class Rule(NamedTuple):
    """A rule for some config values on resume.

    Attributes:
        what: description of the values.
        keys: patterns of their dotted keys; the first rule with a matching one applies.
        action: one of those above.
        happens: effect, as the end of a line or of an error.
    """

    what: str
    keys: tuple[str, ...]
    action: str
    happens: str


class Change(NamedTuple):
    """A config value that differs from the checkpoint's."""

    key: str
    before: Any
    now: Any
    rule: Rule

    def __str__(self) -> str:
        before, now = short(self.before, 60), short(self.now, 60)
        return f'{self.key} was {before}, is {now}: {self.rule.happens}'


CHOICE = Rule(
    'how the best epoch is chosen',
    (
        'default_hooks.checkpoint.save_best',
        'default_hooks.checkpoint.rule',
        'val_dataloader',
        'val_dataloader.dataset*',
        'val_evaluator*',
    ),
    REFUSED,
    'the score of the best epoch so far is of the other choice (no validation at all is taken)',
)

#: The first rule with a matching key applies; ``docs/training.md`` shows them.
RULES = (
    Rule(
        'epochs, iterations',
        ('train_cfg.max_epochs', 'train_cfg.max_iters'),
        RESCALED,
        'schedule and ramps are those of the new length, at the step that is reached; a '
        'length that has been passed is refused',
    ),
    Rule(
        'schedule',
        ('param_scheduler*', 'fit_warmup'),
        RESCALED,
        'the new schedule, at the step that is reached',
    ),
    Rule(
        'learning rates',
        ('optim_wrapper.optimizer.lr', 'optim_wrapper.paramwise_cfg*', 'auto_scale_lr*'),
        RESCALED,
        'the rates of the config, times the schedule at the step that is reached; other '
        'groups of parameters are refused',
    ),
    Rule(
        "the optimizer's other numbers",
        (
            'optim_wrapper.optimizer.weight_decay',
            'optim_wrapper.optimizer.betas',
            'optim_wrapper.optimizer.eps',
            'optim_wrapper.optimizer.momentum',
            'optim_wrapper.optimizer.dampening',
            'optim_wrapper.optimizer.nesterov',
            'optim_wrapper.optimizer.max_grad_norm',
            'optim_wrapper.optimizer.alpha',
            'optim_wrapper.optimizer.k',
        ),
        RESCALED,
        'the number of the config, with the moments of the checkpoint',
    ),
    Rule(
        'accumulation',
        ('optim_wrapper.accumulative_counts',),
        REFUSED,
        'steps would count otherwise',
    ),
    Rule(
        'clipping of gradients',
        ('optim_wrapper.clip_grad*',),
        APPLIED,
        'from the next step on',
    ),
    Rule(
        'precision',
        ('optim_wrapper.type', 'optim_wrapper.dtype'),
        APPLIED,
        'from the next step on; weights and moments are in fp32 either way',
    ),
    Rule(
        'scale of the loss in fp16',
        ('optim_wrapper.loss_scale*',),
        CONTINUED,
        'the checkpoint holds the scale that was reached, which stands',
    ),
    Rule(
        'optimizer, and all else of it',
        ('optim_wrapper*',),
        REFUSED,
        'the state of the optimizer is of the other one',
    ),
    Rule(
        'batch size',
        ('train_dataloader.batch_size',),
        APPLIED,
        'the joint batch over all processes is the same; another one is refused',
    ),
    Rule(
        'last batch of an epoch',
        ('train_dataloader.drop_last',),
        REFUSED,
        'an epoch would have another number of steps',
    ),
    Rule(
        'data workers',
        (
            'train_dataloader.num_workers',
            'train_dataloader.persistent_workers',
            'train_dataloader.pin_memory',
            'train_dataloader.prefetch_factor',
        ),
        SILENT,
        'batches are the same',
    ),
    Rule(
        'order of the data',
        ('train_dataloader.sampler*', 'train_dataloader.batch_sampler*'),
        APPLIED,
        'from the next epoch on; another number of steps an epoch is refused',
    ),
    Rule(
        'training data',
        ('train_dataloader*',),
        APPLIED,
        'from the next epoch on; another number of items is refused',
    ),
    Rule(
        'when it validates',
        ('train_cfg.val_interval', 'train_cfg.val_begin', 'train_cfg.dynamic_intervals'),
        APPLIED,
        'from the next epoch on',
    ),
    Rule(
        'training loop',
        ('train_cfg*',),
        REFUSED,
        'an epoch would be another one',
    ),
    Rule(
        'seed',
        ('randomness.seed',),
        CONTINUED,
        'the seed of the checkpoint stands; another one on the command line is refused',
    ),
    Rule(
        'weights that a model starts from',
        ('model*pretrained', 'model*init_cfg*'),
        CONTINUED,
        'weights are those of the checkpoint',
    ),
    Rule(
        'model and losses',
        ('model*',),
        APPLIED,
        'from the next step on; where it is the start of a weight, which the checkpoint '
        'holds, it is refused',
    ),
    CHOICE,
    Rule(
        'tests, logs, pictures, folders',
        (
            'test_*',
            'val_dataloader*',
            'val_cfg*',
            'log_*',
            'vis*',
            'default_hooks.logger*',
            'work_dir',
            'load_from*',
            'resume',
            'launcher',
            'env_cfg*',
            'custom_imports*',
            'default_scope',
            'custom_keys*',
            '_*',
        ),
        SILENT,
        'no step reads it',
    ),
    Rule(
        'hooks',
        ('default_hooks*', 'custom_hooks*'),
        APPLIED,
        'from here on; averaged weights (EMAHook) that are not averaged any more are refused',
    ),
    Rule(
        'any other key',
        ('*',),
        APPLIED,
        'from here on',
    ),
)


def changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[Change]:
    """Return the values in which two configs differ, each with its rule, without silent ones."""
    shown = []
    for key, old, new in _different(before, now, ''):
        rule = next(rule for rule in RULES if any(fnmatchcase(key, p) for p in rule.keys))
        if rule.action != SILENT:
            shown.append(Change(key, old, new, rule))
    return shown


def _different(before: Any, now: Any, key: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        for name in dict.fromkeys([*before, *now]):
            place = f'{key}.{name}' if key else str(name)
            yield from _different(before.get(name, UNSET), now.get(name, UNSET), place)
    elif _listed(before) and _listed(now) and len(before) == len(now):
        for number, pair in enumerate(zip(before, now)):
            yield from _different(*pair, f'{key}.{number}')
    elif not _same(before, now, key):
        yield key, before, now


def _listed(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and any(isinstance(item, Mapping) for item in value)


def _same(before: Any, now: Any, key: str) -> bool:
    if all(value is None or value is UNSET for value in (before, now)):
        return True
    if key.rpartition('.')[2] == 'type' and isinstance(before, str) and isinstance(now, str):
        return bare_name(dict(type=before)) == bare_name(dict(type=now))
    return before == now or (before != before and now != now)  # NaN


def values_of(value: Any) -> Any:
    """Return a config's values in types of a plain checkpoint, else their ``repr``."""
    if isinstance(value, Mapping):
        return {str(name): values_of(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [values_of(item) for item in value]
    return value if value is None or type(value) in (bool, int, float, str) else repr(value)
