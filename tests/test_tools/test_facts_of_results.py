"""Every place that states a training states the one that ran, whatever config is at hand.

A checkpoint is trained one way, and each door is asked with a config that says another.
"""

import ast
import json
import re
from pathlib import Path

import pytest

from children import ROOT, run_tool
from mmvtr.apis import load_retriever
from mmvtr.apis.inferencer import VideoRetrievalInferencer
from mmvtr.engine.loops.facts import trainings_of
from mmvtr.storage.weights import read_checkpoint
from toy import RETRIEVAL

SCORES = "custom_hooks = [dict(type='ScoresFileHook')]\n"
HOW = """
_base_ = ['base.py']
optim_wrapper = dict(
    constructor='MatrixDecayConstructor', accumulative_counts=2,
    paramwise_cfg=dict(custom_keys={'encoder.text': dict(lr_mult=0.5)}))
auto_scale_lr = dict(base_batch_size=1)
default_hooks = dict(checkpoint=dict(max_keep_ckpts=-1))
param_scheduler = [dict(type='LinearLR', start_factor=0.5, by_epoch=False, end=3)]
"""
#: The same model as HOW trains, by a config that says something else of everything.
OTHER = """
_base_ = ['base.py']
optim_wrapper = dict(type='AmpOptimWrapper', optimizer=dict(type='Adam', lr=0.9))
param_scheduler = [dict(type='CosineAnnealingLR', T_max=7)]
train_dataloader = dict(batch_size=3, dataset=dict(names=['d'], epoch_unit='video'))
train_cfg = dict(max_epochs=77)
randomness = dict(seed=8)
"""
#: What is true of the training, in the words of a protocol line, and what the config at hand says.
TRUE = (
    *(
        'trained on ToyVideos (ids',
        '4 videos, 4 texts)',
        'epoch every text',
        'batch 2, 2 of them a',
    ),
    *(
        'lr 0.4',
        '0.2',
        'SGD',
        'trained in bf16',
        'LinearLR 0-3 iterations',
        '2 of 2 epochs',
        'seed 5',
    ),
    *('training frames video, 2 a video', 'code mmvtr ', 'torch '),
)
FALSE = ('Adam', '0.9', 'fp16', 'Cosine', 'batch 3', '77', 'seed 8', 'every video', '1 videos')


@pytest.fixture(scope='module')
def trained(tmp_path_factory, write_video):
    """A folder with a training, what it printed, and ``other.py``."""
    folder = tmp_path_factory.mktemp('facts')
    for number, name in enumerate('abcd'):
        write_video(folder / f'{name}.mp4', [60 * number] * 3)
    (folder / 'base.py').write_text(RETRIEVAL)
    (folder / 'how.py').write_text(HOW)
    (folder / 'other.py').write_text(OTHER + SCORES)
    command = ('how.py', '--work-dir', 'w', '--auto-scale-lr', '--amp', '--seed', 5)
    options = ('--no-validate', '--cfg-options', 'train_cfg.max_epochs=2')
    code, printed = run_tool(folder, 'train.py', *command, *options)
    assert code == 0, printed
    return folder, printed


def states_what_ran(text):
    text = re.sub(r'[\s|]+', ' ', text)
    assert not [words for words in TRUE if words not in text], text
    numbers = re.sub(r'\b[0-9a-f]{8}([0-9a-f]{4})?\b', '', text)  # hashes may have any digits
    assert not [words for words in FALSE if words in numbers], text


def line_of(printed):
    return re.findall(r'^protocol: .*(?:\n {10}.*)*', printed, flags=re.MULTILINE)[-1]


def of_a_training(folder, printed):
    """Its own last line, its console, and its curve."""
    states_what_ran(line_of(printed))
    rates = r'SGD for 1 parameters \((\S+)\): lr 0.4; 1 parameters \((\S+)\): lr 0.2'
    found = re.search(rates, printed.replace(', weight_decay 0', ''))
    assert {'encoder.frames', 'encoder.text'} == {*found.groups()}
    scalars = next(folder.glob('w/*/vis_data/scalars.json')).read_text().splitlines()
    rates = [json.loads(line) for line in scalars]
    assert [row['base_lr'] for row in rates if 'base_lr' in row][-1] == pytest.approx(0.4)


def of_its_results(folder, printed):
    (file,) = folder.glob('w/*/results.json')
    states_what_ran(json.loads(file.read_text())['protocol']['line'])


def of_a_checkpoint(folder, printed):
    (facts,) = trainings_of(read_checkpoint(folder / 'w/epoch_2.pth'))
    assert (facts.batch, facts.accumulated, facts.processes) == (2, 2, 1)
    assert sorted(facts.rates) == [[0.2, 1], [0.4, 1]]
    (early,) = trainings_of(read_checkpoint(folder / 'w/epoch_1.pth'))
    assert early.done == 1 and early._replace(done=2) == facts


def of_the_test_tool(folder, printed):
    code, printed = run_tool(
        folder, 'test.py', 'other.py', 'w/epoch_2.pth', '--out', 'out.json', '--work-dir', 't'
    )
    assert code == 0, printed
    states_what_ran(line_of(printed))
    kept = json.loads((folder / 'out.json').read_text())
    states_what_ran(kept['protocol']['line'])
    assert kept['protocol']['tested']['texts'] == 2 and 'retrieval/rsum' in kept
    about = json.loads((folder / 't/scores_test.json').read_text())  # of ScoresFileHook
    assert about['training'] == kept['protocol']['training']


def of_a_published_model(folder, printed):
    """Its card, its weights, and a test of these."""
    publish = ('model_converters/publish.py', 'other.py', 'w/epoch_2.pth', '--out', 'saved')
    code, printed = run_tool(folder, *publish, '--results', 'out.json')
    assert code == 0 and 'warning' not in printed, printed
    card = (folder / 'saved/README.md').read_text()
    states_what_ran(card.partition('## Training')[2].partition('## Results')[0])
    states_what_ran(card.partition('## Results')[2])
    code, printed = run_tool(folder, 'test.py', 'other.py', 'saved/model.safetensors')
    assert code == 0, printed
    states_what_ran(line_of(printed))
    code, printed = run_tool(
        folder, *publish[:2], 'w/epoch_1.pth', '--out', 'no', '--results', 'out.json'
    )
    assert code and 'out.json does not belong to this checkpoint: trained for: 1 of 2' in printed


def of_a_model_in_python(folder, printed):
    model, _ = load_retriever('other.py', 'w/epoch_2.pth', device='cpu')
    states_what_ran(' '.join(f'{k} {v}' for k, v in model.trainings[0].items().items()))
    VideoRetrievalInferencer('other.py', 'w/epoch_2.pth', device='cpu').save_pretrained('again')
    card = Path('again/README.md').read_text()
    states_what_ran(card.partition('## Training')[2])


def of_several(folder, printed):
    """An ensemble in a test, and as a checkpoint of its own."""
    both = ('w/epoch_1.pth', 'w/epoch_2.pth')
    code, printed = run_tool(folder, 'test.py', 'other.py', *both)
    assert code == 0, printed
    told = line_of(printed)
    assert re.search(r'1 of 2 epochs \(\d+ iterations\) / 2 of 2 epochs', ' '.join(told.split()))
    states_what_ran(told)
    code, _ = run_tool(folder, 'model_converters/fuse.py', 'other.py', *both, '--out', 'fused')
    assert code == 0
    code, printed = run_tool(folder, 'test.py', 'fused/config.json', 'fused/model.pth')
    assert code == 0, printed
    states_what_ran(line_of(printed))


def of_a_figure(folder, printed):
    """What stands beside a figure of two models, and the epoch that a figure is of."""
    from mmvtr.utils import load_config
    from paper_figures import study

    made = study(load_config('other.py', {'custom_hooks': []}), 'w/epoch_1.pth')
    assert made.epoch == 1 and made.trainings[0].batch == 2


def of_a_comparison(folder, printed):
    """Of score files: trainings in the heading, other test sets refused."""
    code, printed = run_tool(
        folder, 'train.py', 'other.py', '--work-dir', 'u', '--no-validate', '--cfg-options',
        'train_cfg.max_epochs=1', 'optim_wrapper.type=OptimWrapper', 'custom_hooks=[]',
        'train_dataloader.dataset.names=[a,b,c]',
    )  # fmt: skip
    assert code == 0, printed
    for out, *options in (['v'], ['x', '--cfg-options', 'test_dataloader.dataset.names=[a,d]']):
        command = ('test.py', 'other.py', 'u/epoch_1.pth', '--work-dir', out)
        assert run_tool(folder, *command, *options)[0] == 0
    compare = ('analysis_tools/compare.py', 't/scores_test.npy')
    code, printed = run_tool(folder, *compare, 'v/scores_test.npy')
    assert code == 0, printed
    for words in ('differs in batch: 3 in v/', 'differs in optimizer: Adam, lr 0.9 in v/', 'seed'):
        assert words in printed
    assert 'SGD, lr 0.4' in printed or 'lr 0.2 (' in printed
    code, printed = run_tool(folder, *compare, 'x/scores_test.npy')
    assert code and 'different test sets are not compared (ids differs)' in printed


#: Who states facts of a training -> by which test it is asked.  In the order in which they run.
DOORS = {
    'mmvtr/engine/loops/facts_of_run.py': of_a_checkpoint,
    'mmvtr/engine/hooks/checkpoint_hook.py': of_a_checkpoint,
    'mmvtr/engine/runner.py': of_a_training,
    'mmvtr/engine/training.py': of_a_training,
    'mmvtr/engine/loops/evaluation_loop.py': of_its_results,
    'mmvtr/engine/testing.py': of_the_test_tool,
    'mmvtr/apis/pretrained/card.py': of_a_published_model,
    'mmvtr/apis/loading.py': of_a_model_in_python,
    'mmvtr/apis/pretrained/folder.py': of_a_model_in_python,
    'tools/model_converters/fuse.py': of_several,
    'mmvtr/engine/hooks/tested_model.py': of_a_figure,
    'tools/analysis_tools/compare.py': of_a_comparison,
    # Tested in files of their own.
    'mmvtr/engine/against.py': 'test_tools/test_train_against.py',
    'mmvtr/studies/tables.py': 'test_studies/test_study.py',
    'mmvtr/engine/loops/resuming.py': 'test_engine/test_resuming.py',
    'mmvtr/engine/loops/facts.py': 'test_engine/test_facts.py',
    'mmvtr/engine/checks/set_checks.py': 'test_models/test_cross_fitted.py',
}
#: Who reads the plan of a training from its config: to check, build, simulate or estimate it.
PLANS = (
    'mmvtr/engine/before.py',  # trainings that come before one
    'mmvtr/studies/',  # trainings that are compared
    'mmvtr/engine/loops/resuming.py',  # builds the schedule that goes on
    *('mmvtr/engine/checks/', 'mmvtr/engine/training.py'),
    'tools/train.py',
    *('mmvtr/engine/training.py', 'mmvtr/engine/against.py'),
    *('tools/analysis_tools/papers.py', 'tools/benchmark/gpu_check/configs.py'),
    'mmvtr/engine/loops/protocol.py',
    *('mmvtr/engine/launching.py', 'mmvtr/engine/loops/facts_of_run.py', 'mmvtr/utils.py'),
)
FACTS = {'Training', 'facts_of_run', 'trainings_in', 'trainings_of', 'differing', 'together'}
OF_A_PLAN = {
    'optim_wrapper',
    'auto_scale_lr',
    'param_scheduler',
    'accumulative_counts',
    'train_cfg',
}


@pytest.mark.parametrize('door', dict.fromkeys(x for x in DOORS.values() if callable(x)))
def test_a_door(trained, door, monkeypatch):
    monkeypatch.chdir(trained[0])
    door(*trained)


def modules(words):
    """Name and tree of each module in which one of the words stands."""
    for folder in ('mmvtr', 'tools'):
        for path in sorted((ROOT / folder).rglob('*.py')):
            if '.mim' not in path.parts and any(
                word in (text := path.read_text()) for word in words
            ):
                yield path.relative_to(ROOT).as_posix(), ast.parse(text)


def test_all_who_state_facts_are_asked():
    found = {
        name
        for name, tree in modules(['mmvtr.engine.loops.f'])
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        and (node.module or '').startswith('mmvtr.engine.loops.f')
        if FACTS & {alias.name for alias in node.names}
    }
    assert found - DOORS.keys() == set(), 'ask them, and enter them in DOORS'
    for where in DOORS.values():
        assert callable(where) or (ROOT / 'tests' / where).is_file()


def test_nobody_else_reads_how_a_config_would_train():
    """A fact of a training is none of a config's: who reads one plans a training."""
    found = {
        name
        for name, tree in modules(OF_A_PLAN)
        for node in ast.walk(tree)
        if (isinstance(node, ast.Attribute) and node.attr in OF_A_PLAN and cfg_of(node.value))
        or (isinstance(node, ast.Constant) and node.value in OF_A_PLAN)
    }
    assert not [name for name in found if not name.startswith(PLANS)]


def cfg_of(value):
    """Whether an expression is a config: ``cfg``, ``runner.cfg``, ``self.config``."""
    return getattr(value, 'attr', getattr(value, 'id', '')) in ('cfg', 'config', 'plain', 'small')
