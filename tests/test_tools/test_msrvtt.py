"""The MSR-VTT config on a miniature: a few rendered clips under the official names."""

import csv
import json
import re

import pytest
import torch

from children import ROOT, config_file, run_tool

CONFIG = ROOT / 'configs' / 'dvtr_c2v_msrvtt.py'
TEST = ['video9770', 'video9771', 'video9772']
TINY = """
_base_ = ['{config}']
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
OPTIONS = [
    'train_cfg.max_epochs=1',
    'train_dataloader.batch_size=4',
    'auto_scale_lr.base_batch_size=4',
    'model.supervision.ramp=(0,1)',
]
for name in ('train', 'test'):
    loader = f'{name}_dataloader'
    OPTIONS += [
        f'{loader}.num_workers=0',
        f'{loader}.dataset.video_pipeline.0.num_frames=2',
        f'{loader}.dataset.video_pipeline.1.size=64',
        f'{loader}.dataset.video_pipeline.2.size=64',
    ]


def run(folder, *options, config=CONFIG):
    (folder / 'tiny.py').write_text(TINY.format(config=config))
    return run_tool(folder, 'train.py', 'tiny.py', '--cfg-options', *OPTIONS, *options)


def write(folder, videos, sentences, train, pairs, write_video):
    data = folder / 'data' / 'msrvtt'
    (data / 'videos').mkdir(parents=True)
    annotations = dict(info={}, videos=videos, sentences=sentences)
    (data / 'MSRVTT_data.json').write_text(json.dumps(annotations))
    (data / 'MSRVTT_train.9k.csv').write_text('\n'.join(['video_id', *train]) + '\n')
    with open(data / 'MSRVTT_JSFUSION_test.csv', 'w', newline='') as file:
        writer = csv.DictWriter(file, ['key', 'vid_key', 'video_id', 'sentence'])
        writer.writeheader()
        writer.writerows(pairs)
    for number, video in enumerate(videos):
        path = data / 'videos' / f'{video["video_id"]}.mp4'
        write_video(path, [10 * number, 20 + 10 * number] * 10, size=(72, 96))


def assert_trains_and_tests(code, printed, folder):
    assert code == 0, printed
    assert 'results on test' in printed and 'rsum' in printed and 'protocol: set' in printed
    assert 'Testing the weights' not in printed  # 1k-A has no val: the last epoch is tested
    assert (folder / 'work_dirs' / 'tiny' / 'epoch_1.pth').is_file()
    work_dir = folder / 'work_dirs' / 'tiny'
    code, again = run_tool(
        folder, 'test.py', 'tiny.py', work_dir / 'epoch_1.pth', '--cfg-options', *OPTIONS
    )
    assert code == 0, again
    assert table(again) == table(printed)


def table(printed):
    return printed[printed.index('results on test') :].split('protocol')[0]


def test_handmade_miniature(tmp_path, write_video):
    train = [f'video{i}' for i in range(4)]
    videos = [dict(video_id=v, split='train') for v in train] + [
        dict(video_id=v, split='test') for v in TEST
    ]
    sentences = [
        dict(caption=f'a {word} {thing}', video_id=v['video_id'], sen_id=2 * i + j)
        for j, word in enumerate(('dark', 'bright'))
        for i, (v, thing) in enumerate(zip(videos, 'abcdefg'))
    ]
    pairs = [
        dict(key=f'ret{i}', vid_key=f'msr{v[5:]}', video_id=v, sentence=f'scene {i}')
        for i, v in enumerate(TEST)
    ]
    write(tmp_path, videos, sentences, train, pairs, write_video)
    assert_trains_and_tests(*run(tmp_path), tmp_path)


def test_from_stored_frames(tmp_path, write_video):
    """One extraction and one switch: the videos may go."""
    train = [f'video{i}' for i in range(4)]
    videos = [dict(video_id=v, split='train') for v in (*train, *TEST)]
    sentences = [
        dict(caption=f'a {i}', video_id=v['video_id'], sen_id=i) for i, v in enumerate(videos)
    ]
    pairs = [
        dict(key=f'ret{i}', vid_key='m', video_id=v, sentence=f'b {i}') for i, v in enumerate(TEST)
    ]
    write(tmp_path, videos, sentences, train, pairs, write_video)
    options = [*OPTIONS, 'train_dataloader.batch_size=2', 'auto_scale_lr.base_batch_size=2']
    (tmp_path / 'tiny.py').write_text(TINY.format(config=CONFIG))
    code, printed = run_tool(
        tmp_path, 'extract_frames.py', 'tiny.py', '--out', 'frames', '--cfg-options', *options
    )
    assert code == 0 and 'sampling per_second: 1 frames a second' in printed, printed
    for path in (tmp_path / 'data' / 'msrvtt' / 'videos').iterdir():
        path.unlink()  # nothing reads them any more
    for name in ('train', 'test'):
        step = f'{name}_dataloader.dataset.video_pipeline.0'
        options += [f'{step}.type=LoadFrames', f'{step}.path=frames']
    code, printed = run_tool(tmp_path, 'train.py', 'tiny.py', '--cfg-options', *options)
    assert code == 0 and 'results on test' in printed, printed


@pytest.mark.parametrize(
    ('asked', 'kind', 'values'),
    [
        ('adam', 'Adam', dict(betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0)),
        ('bert_adam', 'BertAdam', dict(betas=(0.9, 0.98), eps=1e-6, max_grad_norm=1.0)),
    ],
)
def test_twenty_steps_with_another_optimizer(tmp_path, write_video, asked, kind, values):
    """The checkpoint holds what has trained, and the protocol line names it."""
    train = [f'video{i}' for i in range(4)]
    videos = [dict(video_id=v, split='train') for v in (*train, *TEST)]
    sentences = [
        dict(caption=f'a {i}', video_id=v['video_id'], sen_id=i) for i, v in enumerate(videos)
    ]
    pairs = [
        dict(key=f'ret{i}', vid_key='m', video_id=v, sentence=f'b {i}') for i, v in enumerate(TEST)
    ]
    write(tmp_path, videos, sentences, train, pairs, write_video)
    batch = ['train_dataloader.batch_size=2', 'auto_scale_lr.base_batch_size=2']
    code, printed = run(
        tmp_path, *batch, 'train_cfg.max_epochs=10', 'train_cfg.val_interval=10',
        config=config_file(f'dvtr_c2v_msrvtt_{asked}'),
    )  # fmt: skip
    said = ' '.join(printed.split())
    assert code == 0 and re.search(rf'optimizer {kind}, lr .*\b0\.0001 \(\d+ parameters', said), (
        printed
    )
    saved = torch.load(tmp_path / 'work_dirs/tiny/epoch_10.pth', weights_only=False)
    groups = saved['optimizer']['param_groups']
    assert saved['meta']['iter'] == 20
    for key, value in values.items():
        assert {group[key] for group in groups} == {value}
    decayed = {group['weight_decay'] for group in groups}
    assert decayed == ({0.0} if asked == 'adam' else {0.0, 0.2})


def test_official_files_cut_down(tmp_path, shared, write_video):
    source = shared / 'data' / 'MSRVTT'
    annotations = json.loads((source / 'train_val_videodatainfo.json').read_text())
    test_part = json.loads((source / 'test_videodatainfo.json').read_text())
    train = ['video0', 'video1', 'video2', 'video3']
    keep = {*train, *TEST}
    videos = [v for v in annotations['videos'] + test_part['videos'] if v['video_id'] in keep]
    sentences = [
        s for s in annotations['sentences'] + test_part['sentences'] if s['video_id'] in keep
    ]
    with open(source / 'MSRVTT_JSFUSION_test.csv', newline='') as file:
        pairs = [row for row in csv.DictReader(file) if row['video_id'] in TEST]
    assert (len(videos), len(sentences), len(pairs)) == (7, 140, 3)
    write(tmp_path, videos, sentences, train, pairs, write_video)
    assert_trains_and_tests(*run(tmp_path), tmp_path)


def test_without_data_it_says_what_is_missing(tmp_path):
    code, printed = run_tool(tmp_path, 'train.py', CONFIG)
    assert code != 0
    assert 'data/msrvtt' in printed and 'Traceback' not in printed
    assert len(printed.splitlines()) < 30  # one screen


@pytest.mark.parametrize(
    ('option', 'message'),
    [
        ('train_dataloader.dataset.split=1k', "no split '1k'"),
        ('model.supervision.num_samples=0', 'num_samples must be at least 1, not 0'),
    ],
)
def test_wrong_value_is_named(tmp_path, write_video, option, message):
    videos = [dict(video_id=v, split='train') for v in ('video0', 'video1', *TEST)]
    sentences = [dict(caption='a', video_id=v['video_id'], sen_id=i) for i, v in enumerate(videos)]
    pairs = [dict(key='ret0', vid_key='msr', video_id=TEST[0], sentence='b')]
    write(tmp_path, videos, sentences, ['video0', 'video1'], pairs, write_video)
    code, printed = run(tmp_path, option)
    assert code != 0 and message in printed
