"""docs/own_data.md: each of its commands, on twenty clips and a csv, with a tiny CLIP."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import open_clip
import pytest
import torch

from children import ROOT, in_child, run_tool

PAGE = (ROOT / 'docs/own_data.md').read_text()
CLIP = dict(
    embed_dim=16,
    vision_cfg=dict(layers=1, width=8, head_width=4, patch_size=112, image_size=224),
    text_cfg=dict(context_length=32, vocab_size=49408, width=16, heads=2, layers=1),
)
#: The page's configs, with that CLIP, in a moment.
CONFIG = """
_base_ = ['{root}/configs/{name}.py']

clip = dict({clip}, _delete_=True)
tower = dict(model=clip, pretrained='tiny.pt')
model = dict(encoder=dict(frames={frames}, text=tower))
train_dataloader = dict(num_workers=0)
val_dataloader = dict(num_workers=0)
test_dataloader = dict(num_workers=0)
train_cfg = dict(max_epochs=2)
"""
#: What each command of the page prints, in the page's order.
SAID = [
    ('check_dataset.py', r'train: dataset TableDataset, split train, .*videos 14, texts 15'),
    ('test.py', r'set TableDataset all[\s\S]*zero-shot: weights as the config builds them'),
    ('train.py', r'Testing the weights of [\s\S]*splits drawn by video, seed 0'),
    ('test.py', r'checkpoint chosen on val'),
    ('rehearse.py', r'own_dvtr_c2v: 2 of 2 steps'),
    ('train.py', r'Testing the weights of .*own_dvtr_c2v'),
    ('export_index.py', r'index: 20 videos of the test set, raw scores'),
    ('search.py', r'a dog runs\n +1  (more/)?clip\d+  [-\d.]+  my_clips/'),
    ('search.py', r'index: 21 videos, 1 of them new'),
    ('find_moments.py', r'a dog runs\n +1  (more/)?clip\d+  [-\d.]+  \d\.\d-\d\.\d s  my_clips/'),
    ('export_bank.py', r'bank.pth: 15 texts and 14 videos of the train set'),
    ('export_index.py', r'debiased: 4 videos of the test set, sinkhorn with 15 texts'),
    ('extract_features.py', r'my_features: 20 videos to do'),
    ('train.py', r'Testing the weights of .*own_clip4clip_features'),
    ('check_dataset.py', r'0 of 20 videos are broken'),
    ('train.py', r'Testing the weights of '),
]


def commands() -> list[list[str]]:
    """Tool and arguments of each command of the page, in which $own stands for what it says."""
    lines = ''.join(re.findall(r'```bash\n(.*?)```', PAGE, flags=re.DOTALL)).splitlines()
    (own,) = [line for line in lines if not line.startswith('python tools/')]
    name, value = shlex.split(own)[0].split('=', 1)
    assert name == 'own'
    lines = [line.replace('$own', value) for line in lines if line != own]
    return [shlex.split(line.removeprefix('python tools/')) for line in lines]


@pytest.fixture(scope='module')
def folder(tmp_path_factory, write_video) -> Path:
    """Clips in a folder and one below, of two suffixes; a table; weights; the page's configs."""
    folder = tmp_path_factory.mktemp('own')
    (folder / 'my_clips/more').mkdir(parents=True)
    rows = ['video,text']
    for number in range(20):
        name = f'{"more/" * (number % 5 == 0)}clip{number}.{"mkv" if number % 2 else "mp4"}'
        write_video(folder / 'my_clips' / name, [10 * number + 4 * i for i in range(10)])
        rows.append(f'{name},a dog number {number}')
    (folder / 'captions.csv').write_text('\n'.join([*rows, 'more/clip0,"a car, and a dog"', '']))
    write_video(folder / 'new.mp4', range(0, 200, 20))
    torch.manual_seed(0)
    torch.save(open_clip.CustomTextCLIP(**CLIP).state_dict(), folder / 'tiny.pt')
    (folder / 'configs').mkdir()
    for path in (ROOT / 'configs').glob('own_*.py'):
        frames = 'dict(in_dim=16)' if 'features' in path.stem else 'tower'
        text = CONFIG.format(root=ROOT, name=path.stem, clip=f'**{CLIP}', frames=frames)
        (folder / 'configs' / path.name).write_text(text)
    return folder


def spelt_out(folder: Path, arguments: list[str]) -> list[str]:
    """Files in place of patterns, as a shell has it."""
    found = []
    for argument in arguments:
        files = sorted(folder.glob(argument)) if '*' in argument else []
        assert len(files) == ('*' in argument), argument
        found += [str(path.relative_to(folder)) for path in files] or [argument]
    return found


def test_every_command_of_the_page_in_its_order(folder):
    pytest.importorskip('faiss')
    todo = commands()
    assert [Path(tool).name for tool, *_ in todo] == [tool for tool, _ in SAID]
    for (tool, *arguments), (_, said) in zip(todo, SAID):
        code, printed = run_tool(folder, tool, *spelt_out(folder, arguments))
        # Two steps of a rehearsal meet nothing, which its status says.
        assert code == (1 if tool == 'rehearse.py' else 0), printed
        assert re.search(said, printed), printed


def _run(source: str) -> None:
    exec(compile(source, 'own_data.md', 'exec'), {})


def test_the_lines_of_python(folder, monkeypatch):
    monkeypatch.chdir(folder)
    (source,) = re.findall(r'```python\n(.*?)```', PAGE, flags=re.DOTALL)
    log = folder / 'python.txt'
    assert in_child(log, _run, source) == 0, log.read_text()
    assert 'captions.csv, train: 14 videos' in log.read_text()


@pytest.mark.parametrize(
    'options, said',
    [
        (['table=gone.csv', 'videos=my_clips'], 'no such table: gone.csv'),
        (['table=captions.csv', 'videos=gone'], 'no such folder of videos, .*: gone'),
        (
            ['table=captions.csv', 'videos=my_clips', 'columns.text=txt'],
            r"no column 'txt' for 'text'; the table has \['video', 'text'\]; `columns.text=text`",
        ),
        (
            ['table=captions.csv', 'videos=my_clips/more'],
            r"14 of 14 videos are not in my_clips/more: .*missing='skip' leaves them out",
        ),
    ],
)
def test_what_a_training_refuses_before_it_starts(folder, options, said):
    code, printed = run_tool(
        folder, 'train.py', 'configs/own_clip4clip.py', '--cfg-options', *options
    )
    assert code == 1 and 'Traceback' not in printed
    assert re.search(said, printed), printed


def test_missing_files_are_stated_with_a_result(folder):
    options = ['table=captions.csv', 'videos=my_clips/more', 'missing=skip']
    options += ['test_dataloader.dataset.split=all']
    arguments = 'configs/own_clip4clip.py', '--cfg-options', *options
    code, printed = run_tool(folder, 'test.py', *arguments)
    assert code == 1 and "of split 'all' no row is left" in printed  # more/clip0 is clip0 there
    table = (folder / 'captions.csv').read_text().replace('more/', '')
    (folder / 'flat.csv').write_text(table)
    options[0] = 'table=flat.csv'
    code, printed = run_tool(folder, 'test.py', arguments[0], '--cfg-options', *options)
    assert code == 0, printed
    printed = ' '.join(printed.split())
    assert ' on 4 of 20 clips and 5 of 21 texts ' in printed
    assert 'missing and left out 16 videos (' in printed


def test_a_model_without_pretrained_weights_needs_a_checkpoint(folder):
    options = ['table=captions.csv', 'videos=my_clips', 'pretrained=None']
    code, printed = run_tool(
        folder, 'test.py', 'configs/own_clip4clip.py', '--cfg-options', *options
    )
    assert code == 1 and 'own_clip4clip.py names no pretrained weights' in printed


def test_what_is_random_is_said(folder):
    options = ['table=captions.csv', 'videos=my_clips']
    code, printed = run_tool(
        folder, 'test.py', 'configs/own_dvtr_c2v.py', '--cfg-options', *options
    )
    assert code == 0, printed
    assert 'Nothing pretrained fills encoder.difference' in ' '.join(printed.split())
