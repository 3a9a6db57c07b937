"""Several checkpoints of a config as one retriever: tools/test.py and model_converters/fuse.py."""

import json

import pytest
import torch

from children import run_tool
from mmvtr.apis import encode_set, load_retriever
from mmvtr.evaluation import RetrievalMetric, evaluate
from mmvtr.structures import Relation
from tiny_sets import of_videos

NAMES = 'abcdef'
TESTED = """
test_cfg = dict(type='RetrievalLoop')
test_evaluator = [dict(type='RetrievalMetric')]
"""
CONFIG = of_videos(NAMES) + TESTED


@pytest.fixture(scope='module')
def corpus(tmp_path_factory, write_video):
    """Six videos, a config, and two checkpoints whose words and frames differ."""
    folder = tmp_path_factory.mktemp('several')
    (folder / 'config.py').write_text(CONFIG)
    for number, name in enumerate(NAMES):
        write_video(folder / f'{name}.mp4', [40 + 35 * number, 60 + 20 * number])
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for seed in (3, 4):
            model, _ = load_retriever('config.py', None, random_weights=True, device='cpu')
            generator = torch.Generator().manual_seed(seed)
            weights = {
                name: torch.randn(value.shape, generator=generator)
                for name, value in model.state_dict().items()
            }
            torch.save(dict(state_dict=weights, meta=dict(seed=seed)), f'seed{seed}.pth')
    return folder


@pytest.fixture
def folder(corpus, monkeypatch):
    monkeypatch.chdir(corpus)
    return corpus


def matrices():
    """Scores [6, 6] of either checkpoint."""
    found = []
    for seed in (3, 4):
        model, cfg = load_retriever('config.py', f'seed{seed}.pth', device='cpu')
        items = encode_set(model, cfg.test_dataloader)
        found.append(model.score(items['text'].levels, items['video'].levels)['scores'].detach())
    return found


def numbers(scores):
    relation = Relation(torch.eye(6, dtype=torch.bool))
    return evaluate([RetrievalMetric()], {'scores': scores}, relation).values


@pytest.mark.parametrize(
    'options, weights', [([], (0.5, 0.5)), (['--fusion', '.9', '.1'], (0.9, 0.1))]
)
def test_the_table_of_two_checkpoints(folder, tmp_path, options, weights):
    out = tmp_path / 'metrics.json'
    arguments = ['config.py', 'seed3.pth', 'seed4.pth', '--out', out, '--work-dir', tmp_path]
    code, printed = run_tool(folder, 'test.py', *arguments, *options)
    assert code == 0, printed
    metrics = json.loads(out.read_text())
    alone = matrices()
    fused = numbers(weights[0] * alone[0] + weights[1] * alone[1])
    assert fused != numbers(alone[0]) != numbers(alone[1]) != fused
    assert {name: metrics[name] for name in fused} == pytest.approx(fused)
    for k, (scores, weight) in enumerate(zip(alone, weights)):
        expected = numbers(scores)
        assert {name: metrics[f'member_{k}/{name}'] for name in expected} == pytest.approx(expected)
        line = f'member_{k}: alone, weight {weight:g}; seed{3 + k}.pth (seed {3 + k})'
        assert line in printed
    assert 'raw member_0 member_1' in printed
    title = 'results on test of an ensemble of 2, scores added:\n  seed3.pth (seed 3)\n  seed4.pth'
    assert title in printed


def test_one_checkpoint_of_both_serves_all_tools(folder, tmp_path):
    pytest.importorskip('faiss')
    code, printed = run_tool(
        folder, 'model_converters/fuse.py', 'config.py', 'seed3.pth', 'seed4.pth',
        '--out', tmp_path, '--fusion', 7, 3,
    )  # fmt: skip
    assert code == 0 and f'{tmp_path}: 2 members, weights [0.7, 0.3]' in printed, printed
    one = tmp_path / 'config.json', tmp_path / 'model.pth'
    alone = matrices()
    expected = 0.7 * alone[0] + 0.3 * alone[1]

    out = tmp_path / 'metrics.json'
    arguments = ['--out', out, '--work-dir', tmp_path / 'log']
    code, printed = run_tool(folder, 'test.py', *one, *arguments)
    assert code == 0 and 'member_1: alone, weight 0.3; seed4.pth' in printed, printed
    metrics, fused = json.loads(out.read_text()), numbers(expected)
    assert {name: metrics[name] for name in fused} == pytest.approx(fused)

    code, printed = run_tool(folder, 'export_index.py', *one, '--out', tmp_path / 'index')
    assert code == 0, printed
    code, printed = run_tool(folder, 'search.py', tmp_path / 'index', *NAMES, '--k', 1)
    assert code == 0, printed
    found = [line.split()[1:3] for line in printed.splitlines() if line.startswith('     1')]
    best = expected.max(1)
    assert [name for name, _ in found] == [NAMES[i] for i in best.indices]
    assert [float(score) for _, score in found] == pytest.approx(best.values.tolist(), abs=6e-5)


# -- bad input ---------------------------------------------------------------------------------


def fails(folder, tool, *arguments):
    """Run a tool that must fail with a message instead of a traceback."""
    code, printed = run_tool(folder, tool, *arguments)
    assert code == 1 and 'Traceback' not in printed, printed
    return printed


@pytest.mark.parametrize(
    'arguments, message',
    [
        (['seed3.pth', '--fusion', '1'], '--fusion is for several checkpoints'),
        (['seed3.pth', 'gone.pth'], 'checkpoint gone.pth does not exist'),
        (['seed3.pth', 'seed4.pth', '--fusion', '1'], 'weight per member, 2 in all'),
        (['seed3.pth', 'seed4.pth', '--fusion', 'prior'], "'sum' or weights, not 'prior'"),
    ],
)
def test_what_test_refuses(folder, arguments, message):
    assert message in fails(folder, 'test.py', 'config.py', *arguments)


def test_a_checkpoint_of_another_model_is_named(folder, tmp_path):
    weights = torch.load('seed4.pth')['state_dict']
    weights['encoder.other'] = weights.pop('encoder.text.words.weight')
    torch.save(weights, tmp_path / 'other.pth')
    both = ['config.py', 'seed3.pth', tmp_path / 'other.pth']
    for tool, options in (
        ('test.py', ['--work-dir', tmp_path]),
        ('model_converters/fuse.py', ['--out', tmp_path / 'fused']),
    ):
        printed = fails(folder, tool, *both, *options)
        assert f'checkpoint {tmp_path}/other.pth does not fit this VideoTextRetriever' in printed
        assert 'missing (1): encoder.text.words.weight' in printed
    assert not (tmp_path / 'fused').exists()
