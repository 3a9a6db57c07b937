"""Check before a start that a config's metrics can be computed and report ``save_best``.

The keys of a metric are found by computing it on a small synthetic set where everything is known.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Iterator, Optional, Sequence, Union

import torch
from mmengine.config import Config
from mmengine.hooks import CheckpointHook, Hook
from mmengine.runner import Runner
from torch.utils.data import Dataset

from mmvtr.cli.hints import nearest
from mmvtr.datasets.records import LENGTHS
from mmvtr.engine.loops.checkpoint import random_states, set_random_states
from mmvtr.engine.loops.evaluation import bare, encode_batch, to_device
from mmvtr.engine.loops.evaluation_loop import RetrievalLoop
from mmvtr.errors import UserError
from mmvtr.evaluation import Metric
from mmvtr.evaluation.metric import metrics_of, reads_scores_alone
from mmvtr.registry import HOOKS
from mmvtr.structures import Relation

#: Optional fields of a relation, and their values for "not known".
FIELDS = dict(truth=None, relevance=None, moment_ratio=None, video_lengths=None, text_actions=())

#: Matrices with one number per item, present if the model has heads.
SIGMAS = {'text_sigma', 'video_sigma'}


def check_metrics(runner: Runner) -> None:
    """Raise unless val and test can be measured and ``save_best`` is among val's numbers.

    Evaluations by another loop than RetrievalLoop are not checked.  Two videos and two texts of
    each set are passed through the model; random states are restored.

    Raises:
        UserError: a metric or hook reads what neither dataset nor model provides, or nothing
            reports ``save_best``.
    """
    for split, loop in (('val', runner.val_loop), ('test', runner.test_loop)):
        if isinstance(loop, RetrievalLoop):
            fixed = [m for m in loop.evaluator if metric_keys(m) != {f'{m.prefix}/'}]
            faults = [*_unknown(loop), *_unread(runner, loop, fixed)]
            if split == 'val':
                faults += _choice(runner, loop)
            if faults:
                shown = '\nerror: '.join(f'{split}_evaluator: {fault}' for fault in faults[:5])
                raise UserError(shown)


def _choice(runner: Runner, loop: RetrievalLoop) -> Iterator[str]:
    """Yield a fault if the checkpoint hook's ``save_best`` is not reported."""
    for hook in runner.hooks:
        if not isinstance(hook, CheckpointHook) or not getattr(hook, 'save_best', None):
            continue
        keys = reported(runner, loop)
        if keys is not None:
            (key,) = hook.save_best
            if not is_reported(key, keys):
                yield (
                    f'default_hooks.checkpoint.save_best={key!r} is not among its numbers'
                    f'{nearest(key, keys, otherwise=keys)}'
                )


def reported(runner: Runner, loop: RetrievalLoop) -> Optional[set[str]]:
    """Return the keys of all numbers of an evaluation; ``'prefix/'`` stands for any key below it.

    None if a hook may add others: one with ``after_scoring`` but without a method ``reported(keys,
    runner) -> keys``, where ``keys`` are those of metrics that read scores alone.
    """
    return _reported(loop.evaluator, runner.hooks, runner)


def reported_by_config(cfg: Config, split: str = 'test') -> Optional[set[str]]:
    """Return the keys of a config's evaluation of a split without building model and data."""
    metrics = metrics_of(cfg[f'{split}_evaluator'])
    hooks = [HOOKS.build(hook) for hook in cfg.get('custom_hooks') or []]
    members = cfg.model.get('copies') or len(cfg.model.get('members', ()))
    # What hooks read of a runner to state what they report.
    runner = SimpleNamespace(model=SimpleNamespace(members=(None,) * members))
    return _reported(metrics, hooks, runner)


def _reported(
    metrics: Sequence[Metric], hooks: Sequence[Hook], runner: Union[Runner, SimpleNamespace]
) -> Optional[set[str]]:
    keys: set[str] = set()
    of_scores: set[str] = set()
    for metric in metrics:
        keys_of_metric = metric_keys(metric)
        keys |= keys_of_metric
        if reads_scores_alone(metric):
            of_scores |= keys_of_metric
    for hook in hooks:
        if hasattr(hook, 'reported'):
            keys |= hook.reported(of_scores, runner)
        elif hasattr(hook, 'after_scoring') and not type(hook).__module__.startswith('mmvtr.'):
            return None
    return keys


def is_reported(key: str, keys: set[str]) -> bool:
    """Return whether a key is reported, or lies below a reported one that ends in '/'."""
    return key in keys or any(key.startswith(prefix) for prefix in keys if prefix.endswith('/'))


def metric_keys(metric: Metric) -> set[str]:
    """Return the keys of a metric; ``{'prefix/'}`` if they depend on the data."""
    try:
        if not metric.keys_vary:
            return {f'{metric.prefix}/{key}' for key in metric(*made(metric))}
    except Exception:  # noqa: BLE001 - another package's metric may need any other data
        pass
    return {f'{metric.prefix}/'}


def _unknown(loop: RetrievalLoop) -> Iterator[str]:
    """Yield metrics that need fields which the dataset does not have."""
    dataset = loop.dataloader.dataset
    for metric in loop.evaluator:
        for field in metric.needs:
            if not knows(dataset, field):
                yield f'{type(metric).__name__} needs {field}, {dataset.origin()} has none'


def knows(dataset: Dataset, field: str) -> bool:
    """Return whether a dataset provides a field of :class:`~mmvtr.structures.Relation`."""
    if field == 'video_lengths':
        return any(all(key in video for video in dataset.videos) for key in LENGTHS.values())
    if field == 'text_actions':
        return all('actions' in record for record in (*dataset.texts, *dataset.videos))
    return getattr(dataset, field)() is not None


def _unread(runner: Runner, loop: RetrievalLoop, fixed: Sequence[Metric]) -> Iterator[str]:
    """Yield metrics and hooks that read what neither the model nor the dataset provides.

    ``fixed``: metrics whose keys do not depend on the data; each is computed on a synthetic set
    that lacks exactly the missing fields.
    """
    names, dataset = given_matrices(runner, loop), loop.dataloader.dataset
    for reader in (*loop.evaluator, *runner.hooks):
        missing = sorted(set(getattr(reader, 'reads', ())) - names)
        if missing:
            yield f'{type(reader).__name__} reads {missing}, the model gives {sorted(names)}'
    lacking = {field: x for field, x in FIELDS.items() if not knows(dataset, field)}
    for metric in fixed:
        matrices, relation = made(metric)
        for name in SIGMAS - names:
            del matrices[name]
        try:
            metric(matrices, relation._replace(**lacking))
        except Exception as error:  # noqa: BLE001 - on a complete set it has worked
            yield f'{type(metric).__name__}: {" ".join(map(str, error.args))[:300]}'


@torch.no_grad()
def given_matrices(runner: Runner, loop: RetrievalLoop) -> set[str]:
    """Return the names of the matrices that the model produces for two texts and two videos."""
    model = bare(runner.model)
    before, training = random_states(), model.training
    model.eval()
    device, levels = torch.device(model.data_preprocessor.device), {}
    try:
        for kind, loader in zip(('video', 'text'), loop.dataloader.loaders):
            items = loader.dataset
            batch = loader.collate_fn([items[i] for i in range(min(2, len(items)))])
            if kind not in batch['inputs']:  # broken and left out: assume all names
                return {name for reader in loop.evaluator for name in reader.reads} | SIGMAS
            levels[kind] = to_device(encode_batch(model, kind, batch, amp=False).levels, device)
        names = set(model.score(levels['text'], levels['video'])) | {'temperature'}
        return names | {f'{kind}_sigma' for kind in levels if 'gaussian' in levels[kind]}
    finally:
        model.train(training)
        set_random_states(before)


def made(metric: Metric, size: int = 128) -> tuple[dict[str, torch.Tensor], Relation]:
    """Return a fully known synthetic set of ``size`` texts and videos, and a metric's matrices.

    Text i belongs to video i; text 0 is general and holds for many; text 1 also holds for video 2.
    """
    generator = torch.Generator().manual_seed(0)
    positives = torch.eye(size, dtype=torch.bool)
    truth = positives.clone()
    truth[0, : size // 8] = truth[1, 2] = True
    actions = [((i % 8, i % 4),) for i in range(size)]
    names = [str(i) for i in range(size)]
    relation = Relation(
        positives=positives,
        truth=truth,
        relevance=torch.where(positives, 1.0, truth / 2),
        text_ids=names,
        video_ids=names,
        moment_ratio=torch.linspace(0.01, 1, size, dtype=torch.float64),
        video_lengths=torch.linspace(1, 100, size, dtype=torch.float64),
        length_unit='frames',
        text_actions=actions,
        video_actions=actions,
    )
    matrices = {
        name: torch.rand(size, size, generator=generator) for name in {'scores', *metric.reads}
    }
    sigmas = {f'{kind}_sigma': torch.rand(size, generator=generator) for kind in ('text', 'video')}
    return {**matrices, **sigmas, 'temperature': torch.tensor(0.05)}, relation
