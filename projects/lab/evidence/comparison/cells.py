"""One training of the comparison: its config, its process, and the cell that is kept of it."""

from __future__ import annotations

import copy
import hashlib
import json
import math
import os
import platform
import re
import shutil
import subprocess
import threading
from collections import defaultdict
from dataclasses import fields
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any, Mapping, NamedTuple, Sequence

import numpy as np
import torch
from mmengine.config import Config
from planted_runs import FEATURES, ROOT, results

from comparison.files import OWN, load_json
from comparison.kinds import LIFTED, LOWERED, RELAXED, SURE, Condition
from comparison.plan import APART, METHODS, SUMS
from comparison.processes import run_tool
from comparison.records import key_of, packed, put_record, read_records
from first_names import without_scopes
from mmvtr.datasets.planted_corpus.world import Knobs
from mmvtr.engine.loops.evaluation import Encoded
from mmvtr.engine.loops.evaluation_loop import relation_of
from mmvtr.functional.metrics.ranks import caption_max, rank_counts
from mmvtr.functional.metrics.relevance import precision_at_1
from mmvtr.registry import DATASETS, METRICS, bare_name
from mmvtr.structures import Directed, Relation
from mmvtr.utils import load_config

QUEUE = 2048
HOOKS = {
    'sinkhorn': dict(type='SinkhornHook', queries='train_queue', temperature='model'),
    'inverted_softmax': dict(
        type='InvertedSoftmaxHook', queries='train_queue', temperature='model'
    ),
    'sinkhorn_oracle': dict(type='SinkhornHook', queries='test', temperature='model'),
    RELAXED: dict(
        type='UnbalancedSinkhornHook', queries='train_queue', temperature='model', name=RELAXED
    ),
    LIFTED: dict(type='LocalScalingHook', queries='train_queue', v2t=-0.15, name=LIFTED),
    LOWERED: dict(type='LocalScalingHook', queries='train_queue', v2t=0.15, name=LOWERED),
}
#: Of which it reads the captions of the training set.
SURE_FIRST = dict(type='SureFirstHook', temperature=0.02, sure=0.8, name=SURE)
#: Of a config's own hooks, those that training needs; the others measure or transform.
KEPT_HOOKS = ('AmbiguityHook',)
#: What no training reads, as it was when the cells were made: their hashes hold.
SHOWN = dict(
    log_level='INFO',
    log_processor=dict(by_epoch=True, window_size=20),
    visualizer=dict(type='Visualizer', vis_backends=[dict(type='LocalVisBackend')]),
)
WATCHING = dict(
    timer=dict(type='IterTimerHook'),
    logger=dict(type='LoggerHook', interval=20),
    progress=dict(type='ProgressHook'),
    eta=dict(type='EtaMonitorHook'),
)
#: A training may be wanted twice at a time, for itself and for a sum.
LOCKS: dict[Path, threading.Lock] = defaultdict(threading.Lock)


class Training(NamedTuple):
    """A method on a condition, with a seed and a point of the grid.

    Attributes:
        name: of the condition.
        condition: itself.
        method: name.
        seed: of the training, never of the corpus.
        point: of the grid.
        work: folder of all trainings.
        role: of the point, see ``files.ROLES``.
    """

    name: str
    condition: Condition
    method: str
    seed: int
    point: Mapping[str, float]
    work: Path
    role: str = OWN

    @property
    def key(self) -> tuple[str, str, int, str]:
        """Of its cell."""
        return self.name, self.method, self.seed, self.role

    @property
    def folder(self) -> Path:
        """Work dir, relative to the project."""
        values = [f'{value:g}' for value in self.point.values()]
        return self.work / self.name / '_'.join([self.method, *values, str(self.seed)])

    @property
    def parts(self) -> list['Training']:
        """What is trained: itself, or two trainings whose scores are summed."""
        if self.method not in SUMS:
            return [self]
        seeds = (self.seed, self.seed + APART)
        return [self._replace(method=SUMS[self.method], seed=seed) for seed in seeds]

    @property
    def sha(self) -> str:
        """Of all configs that its cell depends on."""
        configs = [config_of(part).to_dict() for part in self.parts]
        for config in configs:
            config.pop('fit_warmup', None)  # read where a training has one or two epochs
            config.pop('custom_imports', None)  # where components are, not what they do
            config.update(SHOWN)
            config['default_hooks'].update(WATCHING)
        parts = [METHODS[self.method].transforms, without_scopes(configs)]
        text = json.dumps(parts, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


def config_of(training: Training) -> Config:
    """The config of a training, complete, as tools/train.py runs it."""
    method, condition = METHODS[training.method], training.condition
    cfg = copy.deepcopy(_read_config(method.config))
    cfg.merge_from_dict({**method.options, **condition.options, **training.point})
    cfg.work_dir = str(training.folder)
    _everywhere(cfg._cfg_dict, 'PlantedDataset', knobs_of(condition))
    path = str(FEATURES / condition.features['folder'])
    _everywhere(cfg._cfg_dict, 'LoadFeatures', dict(path=path))
    # To go on from after a kill: it takes as long to write one as to train a few steps.
    cfg.default_hooks.checkpoint.interval = cfg.train_cfg.val_interval
    cfg.default_hooks.checkpoint.save_best = None  # the last epoch is tested
    cfg.train_cfg.val_interval = cfg.train_cfg.max_epochs
    measured = ('RetrievalMetric', 'SemanticMetric')
    cfg.val_evaluator = [*(dict(type=kind) for kind in measured), *map(dict, condition.metrics)]
    cfg.test_evaluator = evaluators(condition, cfg)
    hooks = [hook for hook in cfg.get('custom_hooks', []) if bare_name(hook) in KEPT_HOOKS]
    if any(name in HOOKS for name in method.transforms):
        hooks.append(dict(type='QueryQueueHook', size=QUEUE))
    hooks += [HOOKS[name] for name in method.transforms if name in HOOKS]
    if SURE in method.transforms:
        hooks.append(dict(SURE_FIRST, captions=cfg.train_dataloader.dataset.to_dict()))
    cfg.custom_hooks = [*hooks, dict(type='ScoresFileHook')]
    cfg.randomness = dict(seed=training.seed)
    return cfg


@cache
def _read_config(path: str) -> Config:
    return load_config(str(ROOT / path))


def write_config(training: Training) -> Path:
    """Write its config; a training of another config that lies in its place is thrown away."""
    folder, sha = ROOT / training.folder, training.sha
    known = folder / 'config_sha'
    if folder.exists() and not (known.exists() and known.read_text() == sha):
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    config_of(training).dump(folder / 'config.py')
    known.write_text(sha)
    return folder / 'config.py'


def knobs_of(condition: Condition) -> dict[str, Any]:
    """All that its corpus is told by, and further arguments of the dataset."""
    names = {field.name for field in fields(Knobs)}
    knobs = Knobs(**{name: v for name, v in condition.corpus.items() if name in names})
    return {**knobs.identity, **condition.corpus}


def evaluators(condition: Condition, cfg: Config) -> list[dict]:
    """The metrics of all columns."""
    supervision = cfg.model.get('supervision') or {}
    kinds = [one.get('type', '') for one in (supervision, *supervision.get('parts', {}).values())]
    eta = any(name in kind for kind in kinds for name in ('DVTR', 'PCME'))
    metrics = [
        dict(type='RetrievalMetric'),
        dict(type='SemanticMetric'),
        dict(type='NormalisationMetric'),
        dict(type='SoftPositiveMetric', reads=('eta', 'scores') if eta else ('scores',)),
        *map(dict, condition.metrics),
    ]
    if 'length_confound' in condition.corpus:
        train = {**cfg.test_dataloader.dataset, 'split': 'train'}
        train = dict(train, video_pipeline=[], text_pipeline=[])
        metrics.append(dict(type='LengthBiasMetric', min_gap=8, train=train))
    return metrics


def _everywhere(node: Any, kind: str, changes: Mapping[str, Any]) -> None:
    """Change every dict of a type, however deep it lies."""
    if isinstance(node, dict):
        if bare_name(node) == kind:
            node.update(changes)
        node = list(node.values())
    if isinstance(node, (list, tuple)):
        for part in node:
            _everywhere(part, kind, changes)


def train(training: Training) -> dict[str, dict]:
    """Metrics of the last epoch on ``val`` and ``test``; trains what is not trained yet."""
    folder = ROOT / training.folder
    with LOCKS[folder]:
        config = write_config(training)
        if not (folder / 'done').exists():
            if not (folder / 'made.json').exists():
                write_json(folder / 'made.json', made(training.condition))
            run_tool('tools/train.py', config, '--work-dir', folder, '--resume', log=folder)
            (folder / 'done').touch()
    return results(training.folder, None)


def summed(parts: Sequence[Training], folder: Path) -> dict[str, dict]:
    """Test of the summed scores of several trainings."""
    checkpoints = [tested_checkpoint(ROOT / part.folder) for part in parts]
    cfg = config_of(parts[0])
    cfg.custom_hooks = [dict(type='ScoresFileHook')]  # a sum has no queue of its own
    folder.mkdir(parents=True, exist_ok=True)
    cfg.dump(folder / 'config.py')
    out = folder / 'test.json'
    where = ('--work-dir', folder, '--out', out)
    run_tool('tools/test.py', folder / 'config.py', *checkpoints, *where, log=folder)
    return dict(val={}, test=load_json(out))


def tested_checkpoint(folder: Path) -> Path:
    """Of a finished training: the last."""
    return Path((folder / 'last_checkpoint').read_text().strip())


def make_cell(training: Training, out: Path) -> dict[str, Any]:
    """Train, and put the cell into the file of all.

    Args:
        training: of the cell.
        out: folder of the file.

    Returns:
        The cell.
    """
    metrics = [train(part) for part in training.parts]
    folder = ROOT / training.folder
    metrics = metrics[0] if len(metrics) == 1 else summed(training.parts, folder)
    method = METHODS[training.method]
    cell = dict(
        condition=training.name,
        method=training.method,
        seed=training.seed,
        role=training.role,
        config=method.config,
        config_sha=training.sha,
        command=command(training),
        chosen=dict(training.point),
        made=load_json(ROOT / training.parts[0].folder / 'made.json'),
        cpu_seconds=sum(cpu_seconds(part.folder) for part in training.parts),
        val=numbers(metrics['val']),
        test=numbers(metrics['test']),
        queries=per_query(training.condition, newest(folder), method.transforms, metrics['test']),
    )
    put_record(out, rounded(cell))
    return cell


def numbers(metrics: Mapping[str, Any]) -> dict[str, float]:
    """The finite metrics, without times and steps."""
    named = {key: value for key, value in metrics.items() if '/' in key}
    return {key: value for key, value in named.items() if math.isfinite(value)}


def known_shas(out: Path) -> dict[tuple[str, str, int, str], str]:
    """Of the cells that the file holds, by their key: what their configs were."""
    return {key_of(record): record['config_sha'] for _, record in read_records(out)}


def command(training: Training) -> str:
    """What trains it alone, or tests it, once effects.py has written its config."""
    configs = [f'python tools/train.py {part.folder}/config.py' for part in training.parts]
    if len(configs) == 1:
        return configs[0]
    last = config_of(training.parts[0]).train_cfg.max_epochs
    those = ' '.join(f'{part.folder}/epoch_{last}.pth' for part in training.parts)
    return ' && '.join([*configs, f'python tools/test.py {training.folder}/config.py {those}'])


def per_query(
    condition: Condition, raw: Path, transforms: Sequence[str], metrics: Mapping[str, float]
) -> dict[str, dict[str, list]]:
    """What each test query reaches, raw (``''``) and after each transform, for the bootstrap.

    Raises:
        RuntimeError: it does not add up to the rsum that the test has found.
    """
    relation = test_relation(condition)
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
    return {
        name: {field: packed(values) for field, values in found.items()}
        for name, found in queries.items()
    }


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
    knobs = knobs_of(condition)
    config = dict(type='PlantedDataset', split='test', video_pipeline=[], text_pipeline=[])
    dataset = DATASETS.build(dict(config, data_root=str(ROOT / 'data/planted'), **knobs))
    return relation_of(dataset, *(_items(dataset, kind) for kind in ('text', 'video')))


def _items(dataset: Any, kind: str) -> Encoded:
    ids = [record[f'{kind}_id'] for record in getattr(dataset, f'{kind}s')]
    count = torch.arange(len(ids))
    return Encoded(index=count, ids=ids, levels={}, lengths=count)


def describe(conditions: Mapping[str, Condition], path: Path) -> None:
    """Add chance, ceiling and protocol of the conditions to the file."""
    known = load_json(path) if path.exists() else {}
    for name, condition in conditions.items():
        cfg = load_config(str(ROOT / METHODS[condition.baseline].config))
        _everywhere(cfg._cfg_dict, 'PlantedDataset', knobs_of(condition))
        relation = test_relation(condition)
        metrics = [METRICS.build(metric) for metric in evaluators(condition, cfg)]
        report = {}
        for level in ('chance', 'ceiling'):
            report[level] = {
                f'{metric.prefix}/{key}': value
                for metric in metrics
                for key, value in getattr(metric, level)(relation).items()
            }
        owners = relation.positives.int().argmax(1).tolist()
        known[name] = dict(**report, videos=len(relation.video_ids), text_videos=owners)
    write_json(path, known, lines=True)


def newest(folder: Path) -> Path:
    """The scores of the last test in a work dir."""
    found = folder.glob('**/scores_test.npy')
    return max(found, key=lambda path: path.stat().st_mtime)


def cpu_seconds(folder: Path) -> float:
    """Of all starts of a training that came to an end, together."""
    return sum(map(float, (ROOT / folder / 'cpu_seconds').read_text().split()))


def made(condition: Condition) -> dict[str, str]:
    """When, by which code, on what, from features of which frame tower."""
    git = ['git', '-C', str(ROOT), 'rev-parse', '--short', 'HEAD']
    commit = subprocess.run(git, capture_output=True, text=True).stdout.strip() or 'unknown'
    changed = ['git', '-C', str(ROOT), 'status', '--porcelain', '--untracked-files=no']
    changed += ['--', 'mmvtr', 'tools', 'configs']  # what this tool writes lies elsewhere
    if subprocess.run(changed, capture_output=True, text=True).stdout.strip():
        commit += '-dirty'
    lines = Path('/proc/cpuinfo').read_text() if Path('/proc/cpuinfo').exists() else ''
    cpu = re.search(r'model name\s*: (.*)', lines)
    name = cpu[1] if cpu else platform.machine()
    machine = f'{os.cpu_count()} x {name}, torch {torch.__version__}'
    origin = ROOT / FEATURES / condition.features['folder'] / 'origin.txt'
    tower = origin.read_text().split('\n')[0].split()[-1]
    return dict(date=date.today().isoformat(), commit=commit, machine=machine, tower=tower)


def write_json(path: Path, content: Mapping[str, Any], *, lines: bool = False) -> None:
    """Write a file, whole or not at all; ``lines``: one for each key, where lists are long."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part, content = path.with_suffix('.part'), rounded(content)
    text = json.dumps(content, indent=1)
    if lines:
        entries = (f'{json.dumps(key)}: {json.dumps(value)}' for key, value in content.items())
        text = '{\n' + ',\n'.join(entries) + '\n}'
    part.write_text(f'{text}\n')
    part.replace(path)


def rounded(node: Any) -> Any:
    """Floats with six digits, as a file needs no more."""
    if isinstance(node, dict):
        return {key: rounded(value) for key, value in node.items()}
    if isinstance(node, (list, tuple)):
        return [rounded(value) for value in node]
    return float(f'{node:.6g}') if isinstance(node, float) else node
