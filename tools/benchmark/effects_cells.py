"""One training of the comparison: its config, its process, and the cell that is kept of it."""

from __future__ import annotations

import hashlib
import json
import math
import multiprocessing
import os
import platform
import re
import runpy
import shutil
import subprocess
import sys
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any, Mapping, NamedTuple, Optional, Sequence

import numpy as np
import torch
from effects_plan import METHODS, SUMS, Condition
from mmengine.config import Config
from planted_runs import FEATURES, ROOT, call, results

from mmvtr.datasets.planted_corpus.knobs import Knobs
from mmvtr.engine.evaluation import Encoded
from mmvtr.engine.evaluation_loop import relation_of
from mmvtr.functional.ranks import caption_max, rank_counts
from mmvtr.functional.relevance import precision_at_1
from mmvtr.registry import DATASETS, METRICS
from mmvtr.structures import Directed, Relation
from mmvtr.utils import load_config

CHOSEN_BY = 'retrieval/rsum'
QUEUE = 2048
HOOKS = {
    'sinkhorn': dict(type='SinkhornHook', queries='train_queue'),
    'inverted_softmax': dict(type='InvertedSoftmaxHook', queries='train_queue'),
    'sinkhorn_oracle': dict(type='SinkhornHook', queries='test'),
}
#: Of a config's own hooks, those that training needs; the others measure or transform.
KEPT_HOOKS = ('AmbiguityHook',)
#: What every child needs; loaded once, in the process that they are forked from.
PRELOAD = ['__main__', 'mmengine.runner', 'mmvtr.engine.launch', 'mmvtr.models', 'mmvtr.evaluation']


class Training(NamedTuple):
    """A method on a condition, with a seed and a point of the grid.

    Attributes:
        name: of the condition.
        condition: itself.
        method: name.
        seed: of the training, never of the corpus.
        point: of the grid.
        work: folder of all trainings.
    """

    name: str
    condition: Condition
    method: str
    seed: int
    point: Mapping[str, float]
    work: Path

    @property
    def folder(self) -> Path:
        """Work dir, relative to the project."""
        values = [f'{value:g}' for value in self.point.values()]
        return self.work / self.name / '_'.join([self.method, *values, str(self.seed)])


def write_config(training: Training) -> Path:
    """Write the config of a training, complete, as tools/train.py runs it.

    A training of another config that lies in its place is thrown away.
    """
    method, condition = METHODS[training.method], training.condition
    options = {**method.options, **condition.options, **training.point}
    cfg = load_config(str(ROOT / method.config), options, str(training.folder))
    knobs = {**asdict(Knobs()), **condition.corpus}
    _everywhere(cfg._cfg_dict, 'PlantedDataset', knobs)
    path = str(FEATURES / condition.features['folder'])
    _everywhere(cfg._cfg_dict, 'LoadFeatures', dict(path=path))
    cfg.default_hooks.checkpoint.save_best = CHOSEN_BY
    cfg.val_evaluator = [dict(type='RetrievalMetric')]
    cfg.test_evaluator = evaluators(condition, cfg)
    hooks = [hook for hook in cfg.get('custom_hooks', []) if hook['type'] in KEPT_HOOKS]
    if method.transforms:
        hooks.append(dict(type='QueryQueueHook', size=QUEUE))
        hooks += [HOOKS[name] for name in method.transforms]
    cfg.custom_hooks = [*hooks, dict(type='ScoresFileHook')]
    cfg.randomness = dict(seed=training.seed)
    text = cfg.pretty_text
    out = ROOT / training.folder / 'config.py'
    if out.exists() and out.read_text() != text:  # what lies there is of another config
        shutil.rmtree(out.parent)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(text)
    return out


def evaluators(condition: Condition, cfg: Config) -> list[dict]:
    """The metrics of all columns."""
    supervision = cfg.model.get('supervision') or {}
    eta = 'DVTR' in supervision.get('type', '') or 'PCME' in supervision.get('type', '')
    metrics = [
        dict(type='RetrievalMetric'),
        dict(type='SemanticMetric'),
        dict(type='NormalisationMetric'),
        dict(type='SoftPositiveMetric', reads=('eta', 'scores') if eta else ('scores',)),
    ]
    if 'length_confound' in condition.corpus:
        train = {**cfg.test_dataloader.dataset, 'split': 'train'}
        train = dict(train, video_pipeline=[], text_pipeline=[])
        metrics.append(dict(type='LengthBiasMetric', min_gap=8, train=train))
    return metrics


def _everywhere(node: Any, kind: str, changes: Mapping[str, Any]) -> None:
    """Change every dict of a type, however deep it lies."""
    if isinstance(node, dict):
        if node.get('type') == kind:
            node.update(changes)
        node = list(node.values())
    if isinstance(node, (list, tuple)):
        for part in node:
            _everywhere(part, kind, changes)


def train(training: Training) -> dict[str, dict]:
    """Metrics of the chosen epoch on ``val``, and on ``test``; trains what is not trained yet."""
    config = write_config(training)
    if not (ROOT / training.folder / 'done').exists():
        arguments = [config, '--work-dir', ROOT / training.folder, '--resume']
        context = multiprocessing.get_context('forkserver')
        context.set_forkserver_preload(PRELOAD)
        child = context.Process(target=_run_tool, args=(list(map(str, arguments)),))
        child.start()
        child.join()
        if child.exitcode:
            log = (ROOT / training.folder / 'output.log').read_text()
            raise SystemExit(f'{training.folder} failed:\n{log[-3000:]}')
        (ROOT / training.folder / 'done').touch()
    return results(training.folder, CHOSEN_BY)


def _run_tool(arguments: Sequence[str]) -> None:
    """tools/train.py in this process, which is new; its CPU time goes to a file."""
    os.chdir(ROOT)
    folder = Path(arguments[2])
    with open(folder / 'output.log', 'a') as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    torch.set_num_threads(1)
    sys.argv = ['tools/train.py', *arguments]
    try:
        runpy.run_path(sys.argv[0], run_name='__main__')
    finally:
        with open(folder / 'cpu_seconds', 'a') as file:
            print(sum(os.times()[:2]), file=file)


def summed(training: Training, other: Training) -> dict[str, dict]:
    """The scores of two trainings added."""
    first, second = (next((ROOT / t.folder).glob('best_*.pth')) for t in (training, other))
    folder = training.folder.with_name(f'sum_{training.seed}')
    out = ROOT / folder / 'test.json'
    if not out.exists():
        cfg = Config.fromfile(ROOT / training.folder / 'config.py')
        cfg.custom_hooks = [dict(type='ScoresFileHook')]  # a sum has no queue of its own
        config = out.with_name('config.py')
        config.parent.mkdir(parents=True, exist_ok=True)
        config.write_text(cfg.pretty_text)
        call('tools/test.py', config, first, second, '--work-dir', folder, '--out', out)
    return dict(val={}, test=json.loads(out.read_text()))


def make_cell(training: Training, out: Path, other: Optional[Training] = None) -> dict[str, Any]:
    """Train where that is still to be done, and write the cell.

    Args:
        training: of the cell; with ``other`` the method whose scores are those of both added.
        out: folder of the cells.
        other: see above.

    Returns:
        The cell, with ``'fresh'``: whether it was made now.
    """
    method = (
        training.method if other is None else next(m for m in SUMS if SUMS[m] == training.method)
    )
    path = out / training.name / f'{method}_{training.seed}.json'
    text = write_config(training).read_text()
    sha = hashlib.sha256(text.encode()).hexdigest()[:12]
    if path.exists():
        cell = json.loads(path.read_text())
        if cell['config_sha'] == sha:
            return dict(cell, fresh=False)
        print(f'{path}: its config has changed, so it is made anew', flush=True)
    metrics = train(training) if other is None else summed(training, other)
    folder = training.folder if other is None else training.folder.with_name(f'sum_{training.seed}')
    cell = dict(
        condition=training.name,
        method=method,
        seed=training.seed,
        config=METHODS[method].config,
        config_sha=sha,
        command=f'python tools/train.py {training.folder / "config.py"}',
        chosen=dict(training.point),
        made=made(),
        cpu_seconds=cpu_seconds(training.folder) if other is None else None,
        val={key: value for key, value in metrics['val'].items() if '/' in key},
        test={key: value for key, value in metrics['test'].items() if math.isfinite(value)},
        queries=per_query(training, folder, METHODS[method].transforms, metrics['test']),
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix('.part')
    part.write_text(json.dumps(rounded(cell), indent=None, separators=(',', ':')) + '\n')
    part.replace(path)
    return dict(cell, fresh=True)


def per_query(
    training: Training, folder: Path, transforms: Sequence[str], metrics: Mapping[str, float]
) -> dict[str, dict[str, list]]:
    """What each test query reaches, raw (``''``) and after each transform, for the bootstrap.

    Raises:
        RuntimeError: it does not add up to the rsum that the test has found.
    """
    relation = test_relation(training.condition)
    raw = newest(folder)
    scores = {'': Directed(*[torch.from_numpy(np.load(raw))] * 2)}
    for name in transforms:
        loaded = np.load(raw.with_name(f'scores_test_{name}.npz'))
        scores[name] = Directed(*(torch.from_numpy(loaded[key]) for key in ('t2v', 'v2t')))
    queries = {name: outcomes(both, relation) for name, both in scores.items()}
    for name, found in queries.items():
        rsum = sum(100 * float(np.mean(found[f'{d}_recalls'])) for d in ('t2v', 'v2t'))
        expected = metrics[f'{name}/retrieval/rsum' if name else 'retrieval/rsum']
        if abs(rsum - expected) > 1e-3:
            raise RuntimeError(f'{raw}: rsum {rsum} of the scores, {expected} of the test')
    return queries


def outcomes(scores: Directed, relation: Relation) -> dict[str, list]:
    """By query: how many of R@1, R@5, R@10 it reaches, and whether its first item is true."""
    positives, truth = relation.positives, relation.truth
    own = torch.diag(positives.any(0))
    ranks = dict(
        t2v=rank_counts(scores.t2v, positives).mean_ranks(),
        v2t=rank_counts(caption_max(scores.v2t, positives), own, dim=0).mean_ranks(),
    )
    found: dict[str, list] = {}
    for dim, (direction, rank) in zip((1, 0), ranks.items()):
        found[f'{direction}_recalls'] = sum((rank <= k).int() for k in (1, 5, 10)).tolist()
        hits = precision_at_1(getattr(scores, direction), truth, dim=dim)
        found[f'{direction}_P1'] = [None if x != x else x for x in hits.tolist()]
    return found


def test_relation(condition: Condition) -> Relation:
    """Texts and videos of the test split, without their contents."""
    knobs = {**asdict(Knobs()), **condition.corpus}
    config = dict(type='PlantedDataset', split='test', video_pipeline=[], text_pipeline=[])
    dataset = DATASETS.build(dict(config, data_root=str(ROOT / 'data/planted'), **knobs))
    return relation_of(dataset, *(_items(dataset, kind) for kind in ('text', 'video')))


def _items(dataset: Any, kind: str) -> Encoded:
    ids = [record[f'{kind}_id'] for record in getattr(dataset, f'{kind}s')]
    count = torch.arange(len(ids))
    return Encoded(index=count, ids=ids, levels={}, lengths=count)


def describe(conditions: Mapping[str, Condition], path: Path) -> None:
    """Add chance, ceiling and protocol of the conditions to the file."""
    known = json.loads(path.read_text()) if path.exists() else {}
    for name, condition in conditions.items():
        cfg = load_config(str(ROOT / METHODS[condition.baseline].config))
        knobs = {**asdict(Knobs()), **condition.corpus}
        _everywhere(cfg._cfg_dict, 'PlantedDataset', knobs)
        relation = test_relation(condition)
        metrics = [METRICS.build(metric) for metric in evaluators(condition, cfg)]
        report = {}
        for level in ('chance', 'ceiling'):
            report[level] = {
                f'{metric.prefix}/{key}': value
                for metric in metrics
                for key, value in getattr(metric, level)(relation).items()
            }
        known[name] = dict(**report, texts=len(relation.text_ids), videos=len(relation.video_ids))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(rounded(known), indent=1) + '\n')


def newest(folder: Path) -> Path:
    """The scores of the last test in a work dir."""
    found = (ROOT / folder).glob('**/scores_test.npy')
    return max(found, key=lambda path: path.stat().st_mtime)


def cpu_seconds(folder: Path) -> float:
    """Of all starts of a training together."""
    return sum(map(float, (ROOT / folder / 'cpu_seconds').read_text().split()))


def made() -> dict[str, str]:
    """When, by which code, on what."""
    git = ['git', '-C', str(ROOT), 'rev-parse', '--short', 'HEAD']
    commit = subprocess.run(git, capture_output=True, text=True).stdout.strip() or 'unknown'
    lines = Path('/proc/cpuinfo').read_text() if Path('/proc/cpuinfo').exists() else ''
    cpu = re.search(r'model name\s*: (.*)', lines)
    name = cpu[1] if cpu else platform.machine()
    machine = f'{os.cpu_count()} x {name}, torch {torch.__version__}'
    return dict(date=date.today().isoformat(), commit=commit, machine=machine)


def rounded(node: Any) -> Any:
    """Floats with six digits, as a file needs no more."""
    if isinstance(node, dict):
        return {key: rounded(value) for key, value in node.items()}
    if isinstance(node, (list, tuple)):
        return [rounded(value) for value in node]
    return float(f'{node:.6g}') if isinstance(node, float) else node
