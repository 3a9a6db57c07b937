"""That models trained on halves of a set were trained on those halves.  Said before a training."""

from __future__ import annotations

from mmengine.runner import Runner

from mmvtr.datasets.records import ids_hash
from mmvtr.engine.loop.evaluation import bare
from mmvtr.engine.loop.facts import trainings_of
from mmvtr.models.supervisions.cross_fitted import CrossFittedBelief
from mmvtr.storage.weights import read_checkpoint


def check_halves(runner: Runner) -> None:
    """Raise unless each model of a CrossFittedBelief was trained on its half of the training set.

    The ids of its training set, as its checkpoint tells them, are those of this set's items of that
    half.  A checkpoint that tells none (of a loop of one's own, or converted) is warned about.

    Raises:
        SystemExit: it was trained on other items, the training set has no halves.
        FileNotFoundError, RuntimeError, ValueError: of a checkpoint, see
            :func:`~mmvtr.storage.weights.read_checkpoint` and :func:`.trainings_of`.
    """
    belief = getattr(bare(runner.model), 'belief', None)
    if not isinstance(belief, CrossFittedBelief):
        return
    dataset = runner.train_dataloader.dataset
    sides = [getattr(dataset, name, None) for name in ('videos', 'texts')]
    if None in sides or not all('half' in record for records in sides for record in records):
        raise SystemExit(
            'error: a CrossFittedBelief needs the halves of the training set: '
            '--cfg-options train_dataloader.dataset.records.half.type=Halves'
        )
    halves = [[[r for r in records if r['half'] == k] for records in sides] for k in (0, 1)]
    hashes = [ids_hash(*half) for half in halves]
    for k, path in enumerate(belief.halves):
        for training in trainings_of(read_checkpoint(path), path):
            if training.ids is None:
                runner.logger.warning(
                    f'{path} does not tell what it was trained on: that it is half {k} of the '
                    'training set is not checked'
                )
            elif training.ids != hashes[k]:
                raise SystemExit(
                    f'error: model.belief.halves: {path} was trained on '
                    f'{training.items().get("trained on")}{_other(training.ids, hashes)}, not on '
                    f'half {k} of the training set (ids {hashes[k]}, {len(halves[k][0]):,} '
                    'videos): train it with the same set and records.half.type=Halves '
                    f'records.half.keep={k} (and the same seed)'
                )


def _other(ids: str, hashes: list[str]) -> str:
    return f', which is half {hashes.index(ids)}' if ids in hashes else ''
