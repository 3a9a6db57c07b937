"""The papers' ablations as sweeps: every option is read by something, and a small one runs."""

import json
import runpy
import sys

import pytest
import torch

from children import ROOT, run_tool
from mmvtr.evaluation.results import Results
from mmvtr.utils import load_config
from mmvtr.values import Written, read
from sweeps import (
    Run,
    check_study,
    checkpoint_name,
    heading,
    read_study,
    study_names,
    table,
)

TOOL = ROOT / 'tools/study.py'
SMALL = """
paper, table, section = 'nobody', 'Tab. 0', '1'
about = 'two temperatures on eight clips'
config = '{config}'
metrics = {{'retrieval/rsum': 'rsum', 'semantic/t2v_mAP': 't2v mAP'}}
runs = [
    dict(name='tau .05', options={{'model.temperature.init': 0.05}}, printed=[50.0, None]),
    dict(name='tau .07'),
    dict(name='both', of=['tau .05', 'tau .07']),
    dict(name='tau .07, Sinkhorn', of='tau .07', prefix='sinkhorn_oracle/'),
]
"""
CONFIG = """
_base_ = ['{root}/configs/c2v_planted.py']
corpus = dict(num_train=8, num_val=2, num_test=4)
train_dataloader = dict(batch_size=4, num_workers=0, dataset=corpus)
val_dataloader = val_cfg = val_evaluator = None
test_dataloader = dict(num_workers=0, dataset=corpus)
default_hooks = dict(checkpoint=dict(save_best=None))
custom_hooks = [dict(type='SinkhornHook', queries='test')]
train_cfg = dict(max_epochs=1)
"""


@pytest.mark.parametrize('name', study_names())
def test_options_are_read(name):
    sweep = read_study(name)
    assert len(sweep.runs) > 2 and sweep.table and sweep.section
    check_study(sweep)
    assert '|---' in table(sweep, {})


def test_a_run_reads_the_files_of_another(main, folder):
    """Of the same seed; a row that is asked for brings those along that it reads."""
    runs = """runs = [
        dict(name='half', options={'model.temperature.init': 0.06}),
        dict(name='other'),
        dict(name='whole', options={'load_from': '{half}/epoch_1.pth'}),
        dict(name='last', options={'custom_keys': ['{whole}/a', '{half}/b']}),
    ]"""
    text = SMALL.format(config='c.py')
    (folder / 's.py').write_text(text[: text.index('runs = ')] + runs)
    printed, _ = main('--dry', '--only', 'last', '--seeds', '3')
    half, whole, last = printed.splitlines()
    assert 'w/half_3' in half and whole.endswith('load_from=w/half_3/epoch_1.pth')
    assert '[w/whole_3/a,w/half_3/b]' in last
    (folder / 's.py').write_text(text[: text.index('runs = ')] + runs.replace('{whole}', '{last}'))
    with pytest.raises(SystemExit, match='no run before it has the name of {last}'):
        main('--dry')


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Write a sweep of a small config, and make its folder the current one."""
    (tmp_path / 'c.py').write_text(CONFIG.format(root=ROOT))
    (tmp_path / 's.py').write_text(SMALL.format(config='c.py'))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def main(folder, monkeypatch, capsys):
    """``main(*arguments)``: what the tool prints; its commands run in forked children."""
    tool = runpy.run_path(str(TOOL))
    commands = []

    def call(command, log):
        commands.append(command)
        code, printed = run_tool(folder, command[1].rpartition('/tools/')[2], *command[2:])
        log.write_text(printed)
        return code

    monkeypatch.setitem(tool['carry_out'].__globals__, 'call', call)

    def run(*arguments):
        monkeypatch.setattr(sys, 'argv', ['study.py', 's.py', '--work', 'w', *arguments])
        capsys.readouterr()
        commands.clear()
        tool['main']()
        return capsys.readouterr().out, list(commands)

    return run


def test_a_small_sweep(main, folder):
    printed, commands = main()
    assert [c[1].rpartition('/')[2] for c in commands] == ['train.py', 'train.py', 'test.py']
    rows = json.loads((folder / 'w/results.json').read_text())['rows']
    assert rows.keys() == {'tau .05', 'tau .07', 'both', 'tau .07, Sinkhorn'}
    assert all(len(found) == 1 and 'retrieval/rsum' in found[0] for found in rows.values())
    lines = printed.splitlines()
    assert not [line for line in lines if 'differs' in line and 'both' not in line]
    assert '| run | rsum | rsum, printed | t2v mAP | t2v mAP, printed |' in lines
    (line,) = [line for line in lines if line.startswith('| tau .05 |')]
    assert f'| {rows["tau .05"][0]["retrieval/rsum"]:.4g} | 50 |' in line
    # The two really had different temperatures.
    for name, tau in (('tau_.05_0', 0.05), ('tau_.07_0', 0.07)):
        weights = torch.load(folder / 'w' / name / 'epoch_1.pth', weights_only=True)['state_dict']
        (value,) = [v for k, v in weights.items() if k.startswith('temperature')]
        assert 0.9 * tau < float((-value).exp()) < 1.1 * tau  # stored as log(1 / tau)
    # Finished runs are skipped, another protocol is refused, and missing runs are made.
    assert main()[1] == []
    with pytest.raises(SystemExit, match='tau_.05_0 was made with best_on_test = False, not True'):
        main('--best-on-test')
    with pytest.raises(SystemExit, match="made with amp = None, not 'bf16'.*--work DIR"):
        main('--amp')
    (folder / 'w/tau_.05_0/results.json').unlink()
    assert '| tau .05 |  | 50 |' in main('--table')[0]


def test_the_heading_says_in_what_runs_differ():
    tested = dict(set='Set test', ids='ab', texts=4, videos=4)

    def result(tested=tested, **facts):
        return Results({}, dict(line='', tested=tested, training=[dict(batch=8, seed=0, **facts)]))

    runs = dict(
        a=result(), b=result(optimizer='SGD'), c=result({**tested, 'ids': 'cd'}), d=result()
    )
    differs, other = heading(runs)
    assert differs == 'differs in optimizer: SGD in b, unknown in a'
    assert other.startswith(
        'results on different test sets stand in one table (ids differs): c: Set'
    )
    sweep = read_study(study_names()[0])
    assert f'\n- {differs}\n\n| run |' in table(sweep, {}, [differs])
    assert heading({}) == heading(dict(a=result())) == []


def test_dry(main):
    printed, commands = main('--dry', '--only', 'both', '--seeds', '3')
    assert commands == [] and printed.count('train.py') == 2 and printed.count('test.py') == 1
    assert '--seed 3 --resume --cfg-options model.temperature.init=0.05' in printed
    assert 'c.py w/tau_.05_3/epoch_1.pth w/tau_.07_3/epoch_1.pth' in printed  # there is no val
    flags = ('--best-on-test', '--amp', 'fp16', '--gpus', '2')
    printed, _ = main('--dry', '--only', 'both', *flags)
    first, _, last = printed.splitlines()
    assert 'dist_train.sh c.py 2 ' in first and '--resume --best-on-test --amp fp16' in first
    assert first.endswith('model.temperature.init=0.05 train_dataloader.batch_size=2')
    assert 'c.py w/tau_.05_0/best.pth w/tau_.07_0/best.pth' in last and '--amp fp16' in last
    assert '--best-on-test' not in last
    own = ('--cfg-options', 'train_dataloader.batch_size=3')
    assert main('--dry', '--gpus', '2', *own)[0].count('batch_size=') == 3
    with pytest.raises(SystemExit, match='the 4 items a step of .* cannot be shared out to 3 proc'):
        main('--dry', '--gpus', '3')


@pytest.mark.parametrize(
    ('config', 'kept'),
    [
        ('hgr_epic', 'epoch_100.pth'),
        ('clip4clip_msvd', 'best.pth'),
        ('uatvr_vitb16_msrvtt', 'epoch_5.pth'),
        ('c2v_planted_features', 'best.pth'),
    ],
)
def test_the_checkpoint_that_a_training_leaves(config, kept):
    assert checkpoint_name(Run('x', config, {})) == kept
    assert checkpoint_name(Run('x', config, {}), best_on_test=True) == 'best.pth'


@pytest.mark.parametrize('gpus', [2, 4, 8])
@pytest.mark.parametrize('name', ['uatvr_tab3', 'ncl_tab5', 'dvtr_tab13', 'causal_tab10_epic'])
def test_gpus_share_the_batch(name, gpus):
    tool = runpy.run_path(str(TOOL))
    run = read_study(name).runs[-1]
    (option,) = tool['share_of_batch'](run, gpus)
    cfg = load_config(run.config, run.options)
    assert int(option.split('=')[1]) * gpus == cfg.auto_scale_lr.base_batch_size


@pytest.mark.parametrize(
    ('name', 'key', 'wrong', 'near'),
    [
        ('causal_tab4_youcook2', 'relevance/avg_nDCG', 'relevance/avg_nDCG50', 'avg_nDCG'),
        ('ncl_tab5', 'retrieval/t2v_R1', 'retrieval/t2v_R01', 'mean retrieval/t2v_R1?'),
        ('arl_tab6', 'retrieval/t2v_SumR', 'retrieval/rsum', 't2v_SumR'),
        ('causal_tab10_epic', 'relevance/avg_nDCG', 'relevance/nDCG', '_nDCG?'),
    ],
)
def test_metrics_that_no_run_reports(name, key, wrong, near):
    """The error comes before any training."""
    sweep = read_study(name)
    heading = sweep.metrics[key]
    runs = [run for run in sweep.runs if run.prefix] or sweep.runs
    kept = {run.name for run in runs} | {one for run in runs for one in run.of}
    few = tuple(run for run in sweep.runs if run.name in kept)
    check_study(sweep._replace(metrics={key: heading}, runs=few))
    with pytest.raises(SystemExit) as raised:
        check_study(sweep._replace(metrics={wrong: heading}, runs=few))
    assert f'{wrong}' in str(raised.value) and near in str(raised.value)
    assert len(str(raised.value)) < 900


def test_an_option_that_one_run_has_no_place_for():
    sweep = read_study('arl_tab5', options={'model.supervision.warmup_epochs': 3})
    with pytest.raises(SystemExit, match='a: none'):
        check_study(sweep)


def test_the_papers_rule_is_the_default():
    for number in (5, 6):
        paper, ours = read_study(f'arl_tab{number}'), read_study(f'arl_tab{number}_ours')
        assert [run.printed for run in paper.runs] == [run.printed for run in ours.runs]
        rules = []
        for sweep in (paper, ours):
            cfgs = [load_config(run.config, run.options).model.supervision for run in sweep.runs]
            rules.append({(one.get('rule'), one.cap) for one in cfgs if one})
        assert rules == [{('mean', None)}, {(None, 1)}]


def test_bad_input(folder):
    def refused(old, new, error=ValueError):
        (folder / 's.py').write_text(SMALL.format(config='c.py').replace(old, new))
        with pytest.raises(error) as raised:
            check_study(read_study('s.py'))
        message = str(raised.value)
        assert len(message) < 600
        return message

    assert "no sweep 'none'; there are arl_tab5" in str(
        pytest.raises(ValueError, read_study, 'none').value
    )  # noqa: E501
    assert 'no about; expected paper' in refused('about =', '_about =')
    assert "run 0: unknown key 'option'" in refused('options=', 'option=')
    assert "of='tau .08': no run before it has that name" in refused("of='tau .07'", "of='tau .08'")
    assert 'a second run by the name' in refused("name='both'", "name='tau .07'")
    assert '1 printed numbers for 2 metrics' in refused('[50.0, None]', '[50.0]')
    typo = refused('temperature.init', 'temperature.innit', SystemExit)
    assert 'model.temperature.innit' in typo and 'init' in typo
    typo = refused('model.temperature', 'model.temperatur', SystemExit)
    assert "sweep run 'tau .05'" in typo or 'model.temperatur' in typo


@pytest.mark.parametrize('name', study_names())
def test_options_mean_the_same_on_a_command_line(name):
    for run in read_study(name).runs:
        typed = dict(word.split('=', 1) for word in run.written())
        given = load_config(run.config, run.options).to_dict()
        written = {key: Written(value) for key, value in typed.items()}
        assert load_config(run.config, written).to_dict() == given


def test_odd_options_on_a_command_line():
    words = ['My Clips', 'a,b', r'C:\new', '[x]', '2024']
    run = Run('odd', 'own_clip4clip', {'videos': 'a, b', 'test_dataloader.dataset.names': words})
    typed = dict(word.split('=', 1) for word in run.written())
    cfg = load_config(run.config, {key: Written(value) for key, value in typed.items()})
    assert cfg.test_dataloader.dataset.videos == 'a, b'
    assert read(typed['test_dataloader.dataset.names'], list[str]) == words
