"""effects.py: its plan, its configs, and a tiny run of it, restarted."""

import importlib
import json
import os
import shutil
import subprocess
import sys

import pytest
from mmengine.config import Config

from children import ROOT
from mmvtr.registry import bare_name

LR = 'optim_wrapper.optimizer.lr'


@pytest.fixture
def tool():
    return importlib.import_module('effects')


@pytest.fixture
def plan_of(tool, monkeypatch):
    def make(*arguments):
        monkeypatch.setattr(sys, 'argv', ['effects.py', *arguments])
        return tool.make_plan(tool.parse_args())

    return make


def run(folder, *arguments):
    """The tool in a project of its own, a copy of this one."""
    for name in ('mmvtr', 'tools', 'configs', 'projects'):
        left_out = shutil.ignore_patterns('cells', 'pages', 'tests')
        shutil.copytree(ROOT / name, folder / name, ignore=left_out, dirs_exist_ok=True)
    command = [sys.executable, folder / 'projects/lab/evidence/effects.py', '--smoke']
    done = subprocess.run(
        [*command, '--conditions', 'hubs', '--methods', 'ncl', *arguments],
        cwd=folder,
        env={**os.environ, 'PYTHONPATH': str(folder)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.nightly
def test_runs_restarts_and_does_not_depend_on_jobs(tmp_path):
    first, second = tmp_path / 'a', tmp_path / 'b'
    first.mkdir()
    second.mkdir()
    work = 'work_dirs/benchmark/effects_smoke'
    printed = run(first)
    assert 'cells 2/2' in printed
    made = cells_of(first / work)
    assert sorted(made) == ['infonce', 'ncl']
    page = (first / work / 'pages/comparison_tables.md').read_text()
    assert '## Hubs\n' in page

    # Cells are kept even where their trainings are gone; one that is lost is made again.
    path = first / work / 'cells/effects/cells.jsonl'
    path.write_text(path.read_text().splitlines()[0] + '\n')
    folder = next((first / work / 'hubs').glob('infonce_*'))
    (folder / 'done').unlink()
    before = (folder / 'output.log').stat().st_size
    run(first)
    assert (folder / 'output.log').stat().st_size == before
    assert cells_of(first / work) == made

    (second / 'data').symlink_to(first / 'data')
    run(second, '--jobs', '1')
    other = cells_of(second / work)
    for name, cell in made.items():
        assert cell['test'] == other[name]['test']
        assert cell['queries'] == other[name]['queries']


def cells_of(work):
    """By method; the cells of a run."""
    lines = (work / 'cells/effects/cells.jsonl').read_text().splitlines()
    return {cell['method']: cell for cell in map(json.loads, lines)}


def test_what_no_training_reads_makes_no_other_cell(plan_of, monkeypatch):
    cells = importlib.import_module('comparison.cells')
    plan = plan_of()
    name, methods = next(iter(plan.wanted.items()))
    training = plan.training(name, methods[0], 3, {'optim_wrapper.optimizer.lr': 0.002})
    sha, config_of = training.sha, cells.config_of

    def changed(training, **values):
        cfg = config_of(training)
        cfg.merge_from_dict(values)
        return cfg

    shown = {
        'default_hooks.logger.interval': 7,
        'log_processor.window_size': 5,
        'log_level': 'ERROR',
        'visualizer': dict(type='another.Visualizer'),
    }
    for key, value in shown.items():
        monkeypatch.setattr(cells, 'config_of', lambda t, k=key, v=value: changed(t, **{k: v}))
        assert training.sha == sha, key
    monkeypatch.setattr(cells, 'config_of', lambda t: changed(t, **{'train_cfg.max_epochs': 77}))
    assert training.sha != sha


def test_every_training_has_a_config(tool, plan_of):
    cells = importlib.import_module('comparison.cells')
    plan = plan_of()
    point = {'optim_wrapper.optimizer.lr': 0.002}
    shas = set()
    for name, methods in plan.wanted.items():
        for method in methods:
            training = plan.training(name, method, 3, point)
            shas.add(training.sha)
            if method in tool.SUMS:
                assert [part.seed for part in training.parts] == [3, 103]
                continue
            cfg = cells.config_of(training)
            corpus = plan.conditions[name].corpus
            for kind in ('train', 'val', 'test'):
                dataset = cfg[f'{kind}_dataloader'].dataset
                assert {key: dataset[key] for key in corpus} == corpus
                assert not dataset.get('oracle') or kind == 'train'
            assert cfg.optim_wrapper.optimizer.lr == 0.002
            assert cfg.randomness.seed == 3
            kinds = [bare_name(hook) for hook in cfg.custom_hooks]
            assert ('AmbiguityHook' in kinds) == method.startswith('arl')
            transforms = tool.METHODS[method].transforms
            assert kinds.count('SinkhornHook') == sum('sinkhorn' in name for name in transforms)
            assert cfg.default_hooks.checkpoint.save_best is None  # the last epoch is tested
            meant = {'ncl': 'sinkhorn'}.get(method.split('_')[-1], '')
            meant = 'relaxed' if method == 'implied_ncl_relaxed' else meant
            assert tool.METHODS[method].meant == meant
    assert len(shas) == sum(map(len, plan.wanted.values()))


def test_the_baseline_comes_with_every_method(plan_of):
    plan = plan_of('--conditions', 'ladder_dvtr', 'moments', '--methods', 'dvtr', 'arl_pairs')
    assert plan.wanted == {
        'ladder_dvtr': ['infonce', 'dvtr'],
        'moments': ['maxframe', 'arl_pairs'],
    }
    assert plan.methods('DVTR ladder') == ['infonce', 'dvtr']


def test_a_sum_needs_what_is_summed(plan_of):
    plan = plan_of('--conditions', 'lengths', '--methods', 'two_seeds')
    assert plan.wanted == {'lengths': ['infonce', 'two_seeds']}
    assert plan.methods('lengths') == ['infonce']


def test_names_of_the_plan_exist(tool):
    matters = importlib.import_module('comparison.verdicts').MATTERS
    for condition in tool.CONDITIONS.values():
        assert condition.aim in matters and condition.without in {'', *tool.CONDITIONS}
        names = {*condition.methods, condition.baseline, condition.oracle} - {None}
        for name, _, transform in (row.partition('/') for row in names):
            assert transform in {'', *tool.METHODS[name].transforms}
        assert tool.FAMILIES[condition.family].tuned_on in tool.CONDITIONS
    for method in tool.METHODS.values():
        assert (ROOT / method.config).is_file()
        for name, _, transform in (row.partition('/') for row in method.controls):
            assert transform in {'', *tool.METHODS[name].transforms}


def test_features_are_of_the_clips_that_captions_tell_of(tool):
    """Knobs that change clips, or how many there are, must be those of the features, too."""
    of_captions = {'captions', 'test_captions', 'uneven', 'general', 'imbalance', 'graded_by'}
    for condition in tool.CONDITIONS.values():
        clips = {name: x for name, x in condition.corpus.items() if name not in of_captions}
        made = {name: x for name, x in condition.features.items() if name not in of_captions}
        made = {name: x for name, x in made.items() if name not in ('folder', 'frames')}
        assert made == clips, condition.label


def test_uncertainty_is_measured_also_of_a_part(tool, plan_of):
    """A row that hears DVTR together with others has the columns of DVTR."""
    cells = importlib.import_module('comparison.cells')
    plan = plan_of('--conditions', 'combinations')
    for method, reads in (('implied_or_dvtr', ('eta', 'scores')), ('implied_biased', ('scores',))):
        cfg = cells.config_of(plan.training('combinations', method, 0, {}))
        (metric,) = (m for m in cfg.test_evaluator if bare_name(m) == 'SoftPositiveMetric')
        assert tuple(metric.reads) == reads


def test_a_config_that_changed_throws_its_training_away(tool, plan_of, tmp_path, monkeypatch):
    cells = importlib.import_module('comparison.cells')
    monkeypatch.setattr(cells, 'ROOT', tmp_path)
    (tmp_path / 'configs').symlink_to(ROOT / 'configs')
    training = plan_of().training('lengths50', 'infonce', 0, {'optim_wrapper.optimizer.lr': 0.002})
    path = cells.write_config(training)
    (path.parent / 'done').touch()
    cells.write_config(training)
    assert (path.parent / 'done').exists()
    options = {**training.condition.options, 'train_cfg.max_epochs': 5}
    changed = training._replace(condition=training.condition._replace(options=options))
    assert cells.write_config(changed) == path
    assert not (path.parent / 'done').exists()


def test_the_written_config_is_the_whole_config(tool, plan_of, tmp_path, monkeypatch):
    cells = importlib.import_module('comparison.cells')
    monkeypatch.setattr(cells, 'ROOT', tmp_path)
    (tmp_path / 'configs').symlink_to(ROOT / 'configs')
    training = plan_of().training('moments', 'arl_pairs', 1, {'optim_wrapper.optimizer.lr': 0.002})
    written = Config.fromfile(cells.write_config(training))
    assert written.to_dict() == cells.config_of(training).to_dict()


def test_a_known_choice_is_kept_while_its_configs_are_the_same(
    tool, plan_of, monkeypatch, tmp_path
):
    plan = plan_of('--conditions', 'hubs', '--methods', 'ncl', '--out', str(tmp_path / 'e'))
    trained = []

    def tuned(training):
        trained.append(training)
        value = 1.0 / training.point[LR]
        return dict(sha=training.sha, val=value, recall=-value, cpu_seconds=1.0)

    monkeypatch.setattr(tool, 'tuned', tuned)
    monkeypatch.setattr(tool, 'features', lambda trainings, jobs: None)
    clock = tool.Clock(tool.time.monotonic(), None)
    assert tool.tune(plan, 2, clock)
    assert len(trained) == 12
    points = dict(own={LR: 0.000125}, recall={LR: 0.004}, matched={LR: 0.000125})  # of 1 / rate
    assert tool.known_choices(plan) == {('hubs', method): points for method in ('infonce', 'ncl')}
    assert tool.tune(plan, 2, clock) and len(trained) == 12
    options = {'train_cfg.max_epochs': 5}
    changed = plan.conditions['hubs']._replace(options=options)
    changed = plan._replace(conditions={**plan.conditions, 'hubs': changed})
    late = clock._replace(minutes=-1.0)
    assert not tool.tune(changed, 2, late) and len(trained) == 12
    tool.tune(changed, 2, clock)
    assert len(trained) == 24


@pytest.mark.parametrize(
    'vals, recalls, chosen, by_recall',
    [
        ([40.0, 46.0, 51.0], [90.0, 80.0, 70.0], 2, 0),  # 5 is what matters of P@1
        ([40.0, 46.1, 51.0], [90.0, 80.0, 70.0], 1, 0),
        ([40.0, 46.1, 51.0], [90.0, 70.0, 80.0], 2, 0),
        ([51.0, 51.0, 20.0], [70.0, 71.0, 99.0], 1, 2),
    ],
)
def test_paired_recall_decides_where_the_aim_differs_little(tool, vals, recalls, chosen, by_recall):
    grid = [
        dict(point={LR: k}, val=val, recall=recall)
        for k, (val, recall) in enumerate(zip(vals, recalls))
    ]
    found = tool.choice(grid, 'semantic/v2t_P1')
    assert found == dict(chosen={LR: chosen}, by_recall={LR: by_recall})


def test_a_family_is_trained_at_three_settings(tool, plan_of, monkeypatch, tmp_path):
    names = ('general21', 'general24')
    plan = plan_of('--conditions', *names, '--methods', 'implied_lifted', '--seeds', '4')
    plan = plan._replace(out=tmp_path / 'e')
    _, low, middle, high, _ = (point[LR] for point in plan.grid('general captions'))

    def tuned(training):
        rate, method = 1e5 * training.point[LR], training.method  # 25 to 400: far apart
        aim = dict(infonce=-abs(rate - 1e5 * low), implied_lifted=-abs(rate - 1e5 * high))[method]
        recall = dict(infonce=-abs(rate - 1e5 * low), implied_lifted=-abs(rate - 1e5 * middle))[
            method
        ]
        return dict(sha=training.sha, val=aim, recall=recall, cpu_seconds=1.0)

    monkeypatch.setattr(tool, 'tuned', tuned)
    monkeypatch.setattr(tool, 'features', lambda trainings, jobs: None)
    assert tool.tune(plan, 1, tool.Clock(tool.time.monotonic(), None))
    choices = tool.known_choices(plan)
    family = 'general captions'
    assert choices[family, 'infonce'] == dict.fromkeys(('own', 'recall', 'matched'), {LR: low})
    points = dict(own=high, recall=middle, matched=low)  # of the last, its control's best
    assert choices[family, 'implied_lifted'] == {role: {LR: rate} for role, rate in points.items()}

    trainings = tool.cells(plan, choices)
    found = [(t.name, t.method, t.seed, t.role, t.point[LR]) for t in trainings]
    for name, first in zip(names, (210, 240)):
        for seed in range(first, first + 4):
            assert (name, 'infonce', seed, 'own', low) in found
            assert (name, 'implied_lifted', seed, 'own', high) in found
    others = [one for one in found if one[3] != 'own']
    assert others == found[-10:]  # own settings first
    # Where the family was tuned, three seeds, and none for what is the same; where a condition asks
    # for the settings of its control, all seeds of these.
    assert others == [
        *(('general21', 'implied_lifted', seed, 'recall', middle) for seed in (210, 211, 212)),
        *(
            (name, 'implied_lifted', first + seed, 'matched', low)
            for seed in range(3)
            for name, first in (('general21', 210), ('general24', 240))
        ),
        ('general24', 'implied_lifted', 243, 'matched', low),
    ]
    assert len({t.key for t in trainings}) == len(found) == 26
    cfg = importlib.import_module('comparison.cells').config_of(trainings[0])
    assert cfg.default_hooks.checkpoint.save_best is None
    assert cfg.train_cfg.val_interval == cfg.train_cfg.max_epochs  # and the last epoch is tested
    assert 'SemanticMetric' in [bare_name(metric) for metric in cfg.val_evaluator]
