"""projects/lab/preflight.py on miniatures: what it reports missing, and what it counts."""

import argparse
import re
import runpy
import sys
from types import SimpleNamespace

import pytest
import torch
from mmengine.config import Config
from preflight import optimizer_in_words, selection

from children import ROOT
from miniatures import write_msrvtt
from mmvtr.cli.values import Written
from mmvtr.datasets import MSRVTTDataset
from mmvtr.datasets.formats.msrvtt import SPLITS
from mmvtr.registry import DATASETS
from mmvtr.utils import load_config, register_all_modules
from simulation import footprint

TINY = f"""
_base_ = ['{ROOT}/configs/c2v_msrvtt_full.py']
clip = dict(
    embed_dim=16,
    vision_cfg=dict(layers=1, width=16, head_width=8, patch_size=32, image_size=64),
    text_cfg=dict(context_length=32, vocab_size=49408, width=16, heads=2, layers=1),
)
model = dict(
    encoder=dict(
        frames=dict(_delete_=True, type='OpenCLIPFrames', model=clip),
        text=dict(_delete_=True, type='OpenCLIPText', model=clip),
    )
)
"""
HEADINGS = re.findall(
    r'^## (.+)', (ROOT / 'docs/reproduce/sources.md').read_text(), flags=re.MULTILINE
)


@pytest.fixture(scope='module')
def tool():
    register_all_modules()
    return runpy.run_path(str(ROOT / 'projects/lab/preflight.py'))


#: Videos and texts of the miniature, as if these had been published.
ONE_A_STEP = ['auto_scale_lr.base_batch_size=1', 'train_dataloader.dataset.epoch_unit=text']
SIZES = dict(full_train=(2, 6), full_val=(1, 3), full_test=(1, 3))


@pytest.fixture
def run(tool, tmp_path, monkeypatch, capsys):
    """Run the tool in a folder with all files of a small MSR-VTT, published at that size."""
    monkeypatch.chdir(tmp_path)
    small = {name: SPLITS[name]._replace(videos=v, texts=t) for name, (v, t) in SIZES.items()}
    monkeypatch.setattr(MSRVTTDataset, 'splits', {**SPLITS, **small})
    (tmp_path / 'tiny.py').write_text(TINY)
    root = tmp_path / 'data/msrvtt'
    (root / 'videos').mkdir(parents=True)
    write_msrvtt(root)
    for number in range(5):
        (root / 'videos' / f'video{number}.mp4').touch()

    def run(*given):
        monkeypatch.setattr(sys, 'argv', ['preflight.py', 'tiny.py', *given])
        with pytest.raises(SystemExit) as ended:
            tool['main']()
        return ended.value.code, capsys.readouterr().out

    return run


def one_line(printed):
    return re.sub(r'\s+', ' ', printed)


def test_nothing_is_missing(run):
    code, printed = run('--gpus', '2', '--memory', '80')
    assert code == 0 and 'nothing is missing' in printed and 'to do' not in printed
    lines = printed.splitlines()
    assert len(lines) <= 32 and max(map(len, lines)) <= 100
    rows = [line.split()[0] for line in lines[2:] if line[:1].strip() and line != lines[-1]]
    expected = 'train val test weights batch memory steps hours protocol paper'.split()
    assert rows == expected
    said = one_line(printed)
    assert 'train there: 2 videos, 6 texts' in said
    assert '128 a step = 2 x 64 (train_dataloader.batch_size=64)' in said
    assert 'best on val by retrieval/rsum; frames from video; AdamW, lr 0.0001' in said
    assert 'an estimate' in said and 'no number is known of this config' in said


def test_a_cut_list_is_incomplete(run, tmp_path, monkeypatch):
    """Exit status 1, the counts, the reader's own warning, and steps for the available data."""
    (tmp_path / 'data/msrvtt/MSRVTT_train.full.csv').write_text('video_id\nvideo1\n')
    code, printed = run('--cfg-options', 'train_dataloader.batch_size=1', *ONE_A_STEP)
    said = one_line(printed)
    assert code == 1 and 'nothing is missing' not in said
    assert 'train INCOMPLETE: 1 of 2 videos and 3 of 6 texts' in said
    assert 'has 1 videos and 3 texts here, published: 2 and 6: results cannot be compared' in said
    assert '1. train set of MSR-VTT: 1 of 2 videos' in said and 'sources.md#msr-vtt' in said
    assert re.search(r'steps about \d+: \d+ epochs of 3, by the data found', said)
    assert said.count('INCOMPLETE') == 1


def test_a_test_set_that_was_left_out_in_part_is_incomplete(run, tmp_path):
    (tmp_path / 'data/msrvtt/videos/video0.mp4').unlink()
    option = 'train_dataloader.dataset.missing=skip'
    code, printed = run('--cfg-options', option, 'train_dataloader.batch_size=1', *ONE_A_STEP)
    said = one_line(printed)
    assert code == 1 and 'train INCOMPLETE: 1 of 2 clips and 3 of 6 texts are left out' in said
    assert 'are missing and left out (video0)' in said and 'epochs of 3, by the data' in said


def test_more_than_published_is_said_and_whole(run, monkeypatch):
    splits = {
        **MSRVTTDataset.splits,
        'full_train': SPLITS['full_train']._replace(videos=1, texts=3),
    }
    monkeypatch.setattr(MSRVTTDataset, 'splits', splits)
    code, printed = run()
    said = one_line(printed)
    assert code == 0 and 'train there: 2 videos' in said and 'results cannot be compared' in said


def test_texts_that_are_cut_are_said(run):
    keys = [
        f'{part}_dataloader.dataset.text_pipeline.0.context_length=4' for part in ('train', 'val')
    ]
    code, printed = run('--cfg-options', *keys)
    said = one_line(printed)
    assert code == 0 and said.count('are cut') == 2, said


def test_files_are_missing(run, tmp_path):
    (tmp_path / 'data/msrvtt/videos/video0.mp4').unlink()
    code, printed = run()
    said = one_line(printed)
    assert code == 1 and 'train MISSING' in said and 'test there' in said
    assert 'docs/reproduce/sources.md#msr-vtt' in said
    for path in (tmp_path / 'data/msrvtt').glob('*.json'):
        path.unlink()
    code, printed = run()
    assert code == 1 and one_line(printed).count('MISSING') == 3
    assert printed.count('sources.md#msr-vtt') == 1  # said once


def test_weights_are_missing(run, tmp_path):
    key = 'model.encoder.frames.pretrained'
    code, printed = run('--cfg-options', f'{key}=weights/none.pt')
    assert code == 1 and 'weights/none.pt MISSING' in printed and 'sources.md#weights' in printed
    (tmp_path / 'none.pt').touch()
    code, printed = run('--cfg-options', f'{key}=none.pt')
    assert code == 0 and 'none.pt there' in printed


@pytest.mark.parametrize(
    ('given', 'found', 'what'),
    [
        ([3], '126 items a step, 128', '--gpus 2 train_dataloader.batch_size=64'),
        ([7], '126 items a step, 128', '--gpus 4 train_dataloader.batch_size=32'),
        ([256], '256 items a step, 128', '--gpus 128 train_dataloader.batch_size=1'),
        ([4, 'train_dataloader.batch_size=16'], '64 items', ': train_dataloader.batch_size=32'),
        ([2, 'optim_wrapper.accumulative_counts=3'], '126', 'accumulative_counts=1'),
        (
            [3, 'optim_wrapper.accumulative_counts=4'],
            '120',
            '--gpus 2 train_dataloader.batch_size=16',
        ),
    ],
)
def test_a_batch_that_does_not_fit(tool, given, found, what):
    gpus, *options = given
    options = {key: Written(value) for key, value in (o.split('=') for o in options)}
    cfg = load_config(str(ROOT / 'configs/c2v_msrvtt_full.py'), options)
    args = argparse.Namespace(gpus=gpus, cfg_options=options)
    _, (said,) = tool['batch'](cfg, args, [])
    assert said.startswith(found) and said.endswith(what)


def test_a_batch_that_does_not_fit_ends_with_status_1(run):
    code, printed = run('--gpus', '3')
    assert code == 1 and '--gpus 2 train_dataloader.batch_size=64' in one_line(printed)


def test_a_card_that_is_here_is_measured(run, tool, monkeypatch):
    """With a fake GPU the row shows the measurement; a full GPU ends with status 1."""
    asked = []

    def measured(cfg, items, amp):
        asked.append((items, amp))
        return 7e9

    of_tool = tool['costs'].__globals__
    cuda = SimpleNamespace(is_available=lambda: True, device_count=lambda: 0)
    monkeypatch.setitem(of_tool, 'torch', SimpleNamespace(cuda=cuda))
    monkeypatch.setitem(of_tool, 'peak_of_towers', measured)
    code, printed = run('--memory', '80', '--gpus', '2', '--amp')
    said = one_line(printed)
    assert code == 0 and 'measured on the card' in said and asked == [(64, True)]
    assert 7 <= float(re.search(r'memory about ([\d.]+) of', said)[1]) < 8.5
    monkeypatch.setitem(of_tool, 'peak_of_towers', lambda *_: float('inf'))
    code, printed = run('--memory', '80')
    assert code == 1 and 'the towers of this batch do not fit into 80' in one_line(printed)


def test_the_towers_step_on_a_fake_card(tmp_path, monkeypatch):
    """Both towers train at the whole batch; peaks and Adam's two moments are added."""
    (tmp_path / 'tiny.py').write_text(TINY)
    cfg, calls = load_config(str(tmp_path / 'tiny.py')), []
    monkeypatch.setattr(torch.cuda, 'reset_peak_memory_stats', lambda: None)
    monkeypatch.setattr(torch.cuda, 'empty_cache', lambda: None)
    monkeypatch.setattr(torch.cuda, 'max_memory_allocated', lambda: calls.append(1) or 1000)
    found = footprint.peak_of_towers(cfg, 2, False, device='cpu')
    assert len(calls) == 2 and found > 2000 and (found - 2000) % 8 == 0

    def full(*_):
        raise torch.cuda.OutOfMemoryError

    monkeypatch.setattr(footprint, '_one_pass', full)
    assert footprint.peak_of_towers(cfg, 2, False, device='cpu') == float('inf')


def test_a_card_that_is_too_small(run):
    more = ['--cfg-options', 'auto_scale_lr.base_batch_size=65536']
    code, printed = run('--memory', '1', *more)
    assert code == 1 and 'do not fit into 1' in one_line(printed)
    code, printed = run('--memory', '100000', *more)
    assert code == 0


@pytest.mark.parametrize(
    'config',
    [
        'c2v_msvd',
        'dvtr_c2v_vatex',
        'uatvr_vitb16_didemo',
        'c2v_lsmdc',
        'arl_tvr_clip_paper',
        'arl_activitynet_i3d',
        'arl_charades_clip',
        'causal_hgr_epic',
        'hgr_youcook2',
    ],
)
def test_other_sets_say_where_their_files_are_from(tool, config, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows, cfg = [], load_config(config)
    _, to_do = tool['files'](cfg, rows, [])
    assert to_do and all(said.startswith('MISSING') for part, said in rows if part)
    layout = DATASETS.get(cfg.train_dataloader.dataset.type).layout
    assert all(layout in said for part, said in rows if part)  # every file, without dots
    anchors = {heading.lower().replace(' ', '-') for heading in HEADINGS}
    assert all(re.search(r'sources\.md#([\w-]+)', what).group(1) in anchors for what in to_do)


def test_all_files_are_named(tool, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = []
    tool['files'](load_config(str(ROOT / 'configs/arl/arl_tvr_clip_paper.py')), rows, [])
    train = ' '.join(said for _, said in rows[:2])
    for name in (
        'TextData/tvr{train,test}.caption.txt',
        'tvr_val_release.jsonl',
        'data/tvr/FeatureData/tvr_clip_L14.h5',
    ):
        assert name in train
    assert len(rows) == 4


def test_numbers_of_papers(tool):
    paper = tool['paper']
    assert paper('dvtr_c2v_msrvtt').startswith('reported (DVTR, Table III): t2v R@1 52, ')
    assert paper('causal_hgr_epic').endswith('mAP avg 41.58')
    assert paper('dvtr_c2v_msrvtt_bert') == 'reported: no number found'
    assert paper('mine') == 'no number is known of this config'


def test_weights_that_configs_name(tool):
    cfg = load_config(str(ROOT / 'configs/dvtr_hit_msrvtt.py'))
    assert ['bert-base-uncased'] == [name for name, _ in tool['started_from'](cfg.model)]
    cfg = load_config(str(ROOT / 'configs/uatvr_vitb16_msrvtt.py'))
    names = {name for name, _ in tool['started_from'](cfg.model)}
    assert names == {'ViT-B-16-quickgelu openai'}
    cfg = load_config(str(ROOT / 'configs/causal_hgr_epic.py'))
    assert 'data/epic/word_vectors.npy' in dict(tool['started_from'](cfg.model))


def test_nothing_to_train(run, tmp_path):
    (tmp_path / 'tiny.py').write_text("model = dict(type='mmvtr.Retriever')\n")
    code, _ = run()
    assert 'has no train_dataloader' in code


@pytest.mark.parametrize(
    ('wrapper', 'expected'),
    [
        (None, None),
        (dict(optimizer=dict(type='AdamW')), 'AdamW'),
        (dict(optimizer=dict(type='SGD', lr=0.1)), 'SGD, lr 0.1'),
        (dict(a=dict(optimizer=dict(type='SGD'))), None),  # several
    ],
)
def test_the_optimizer(wrapper, expected):
    assert optimizer_in_words(dict(optim_wrapper=wrapper)) == expected


def test_what_a_training_will_choose():
    hooks = dict(checkpoint=dict(save_best='retrieval/rsum'))
    cfg = Config(dict(default_hooks=hooks))
    assert selection(cfg) == 'the last epoch'
    cfg.val_dataloader = dict(batch_size=2)
    assert selection(cfg) == 'best on val by retrieval/rsum'
    cfg.default_hooks.checkpoint.save_best = None
    assert selection(cfg) == 'the last epoch'
