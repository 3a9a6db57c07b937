"""docs/own_data.md: each of its commands, on twenty clips and a csv; nightly from the wheel."""

from __future__ import annotations

import json
import re
import shlex
from importlib.metadata import entry_points
from pathlib import Path

import open_clip
import pytest
import serve_tools
import torch

from children import MP, ROOT, in_child
from installation import with_gallery

PAGE = (ROOT / 'docs/own_data.md').read_text()
CLIP = dict(
    embed_dim=16,
    vision_cfg=dict(layers=1, width=8, head_width=4, patch_size=112, image_size=224),
    text_cfg=dict(context_length=32, vocab_size=49408, width=16, heads=2, layers=1),
)
#: What the page's commands get beside what it says: that CLIP, in a moment.
QUICK = {f'{part}_dataloader.num_workers': 0 for part in ('train', 'val', 'test')}
QUICK |= {'train_cfg.max_epochs': 2, 'pretrained': 'tiny.pt'}
QUICK |= {'model.encoder.text.model': 'local-dir:tiny'}
FEATURES = QUICK | {'model.encoder.frames.in_dim': 16}
QUICK |= {'model.encoder.frames.model': 'local-dir:tiny'}
STEPS = ('video_pipeline.1', 'text_pipeline.0')
ZEROSHOT = {f'test_dataloader.dataset.{step}.model': 'local-dir:tiny' for step in STEPS}
ZEROSHOT |= {f'model.encoder.{tower}.model': 'local-dir:tiny' for tower in ('frames', 'text')}
ZEROSHOT |= {'weights': 'tiny.pt', 'test_dataloader.num_workers': 0}
#: What each command of the page prints, in the page's order.
SAID = [
    ('check_dataset', r'train: dataset TableDataset, split train, .*videos 14, texts 15'),
    ('test', r'set TableDataset all[\s\S]*weights as the config builds them'),
    ('test', r'set TableDataset all[\s\S]*weights as the config builds them'),
    ('train', r'Testing the weights of [\s\S]*splits drawn by video, seed 0'),
    ('test', r'checkpoint chosen on val'),
    ('train', r'Testing the weights of .*own_dvtr_c2v'),
    ('export_index', r'index: 20 videos of the whole set, raw scores'),
    ('search', r'a dog runs\n +1  (more/)?clip\d+  [-\d.]+  my_clips/'),
    ('search', r'index: 21 videos, 1 of them new'),
    ('search', r'index: 21 videos.*1 removed'),
    ('find_moments', r'a dog runs\n +1  (more/)?clip\d+  [-\d.]+  \d\.\d-\d\.\d s  my_clips/'),
    ('export_bank', r'bank.pth: 15 texts and 14 videos of the train set'),
    ('export_index', r'debiased: 4 videos of the test set, sinkhorn with 15 texts'),
    ('draw', r'3 pictures in .* s: sheet_0, sheet_1, sheet_2'),
    ('extract_features', r'my_features: 20 videos to do'),
    ('train', r'Testing the weights of .*own_clip4clip_features'),
    ('check_dataset', r'0 of 20 videos are broken'),
    ('train', r'Testing the weights of '),
]


def words(options: dict) -> str:
    return ' '.join(f'{key}={value}' for key, value in options.items())


def commands() -> list[list[str]]:
    """Tool and arguments of each command of the page, in which $own stands for what it says."""
    lines = ''.join(re.findall(r'```bash\n(.*?)```', PAGE, flags=re.DOTALL)).splitlines()
    (own,) = [line for line in lines if not line.startswith('python -m mmvtr ')]
    name, value = shlex.split(own)[0].split('=', 1)
    assert name == 'own'
    lines = [line.removeprefix('python -m mmvtr ') for line in lines if line != own]
    lines = [line.partition('  #')[0].replace('$own', value) for line in lines]
    return [shlex.split(f'{line} {quick(line)}') for line in lines]


def quick(line: str) -> str:
    """What is added to a command that reads a config."""
    if ' --cfg-options ' not in line:
        return ''
    if 'zeroshot_' in line:
        return words(ZEROSHOT)
    return words(FEATURES if 'own_clip4clip_features ' in line else QUICK)


@pytest.fixture(scope='module')
def tools():
    """``tools(folder, 'train', ...)`` as ``python -m mmvtr train ...``, of the checkout."""

    def run(folder, *arguments):
        log = folder / 'printed.txt'
        log.unlink(missing_ok=True)
        child = MP.Process(target=serve_tools.run, args=(folder, [*map(str, arguments)], log))
        child.start()
        child.join()
        return child.exitcode, log.read_text()

    return run


@pytest.fixture(scope='module')
def wheels(installed, tmp_path_factory):
    """The same of the wheels, where no checkout is in sight."""
    whole = with_gallery(installed, tmp_path_factory.mktemp('gallery'))
    with whole.tools(tmp_path_factory.mktemp('server')) as run:
        yield run


@pytest.fixture(scope='module')
def folder(tmp_path_factory, write_video) -> Path:
    """Clips in a folder and one below, of two suffixes; a table; a tiny CLIP."""
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
    (folder / 'tiny').mkdir()
    whole = json.dumps(dict(model_cfg=CLIP, preprocess_cfg={}))
    (folder / 'tiny/open_clip_config.json').write_text(whole)
    return folder


def spelt_out(folder: Path, arguments: list[str]) -> list[str]:
    """Files in place of patterns, as a shell has it."""
    found = []
    for argument in arguments:
        files = sorted(folder.glob(argument)) if '*' in argument else []
        assert len(files) == ('*' in argument), argument
        found += [str(path.relative_to(folder)) for path in files] or [argument]
    return found


@pytest.mark.parametrize(
    ('by', 'count'), [('tools', 4), pytest.param('wheels', len(SAID), marks=pytest.mark.nightly)]
)
def test_the_commands_of_the_page_in_their_order(request, folder, by, count):
    pytest.importorskip('faiss')
    run, todo = request.getfixturevalue(by), commands()
    assert [tool for tool, *_ in todo] == [tool for tool, _ in SAID]
    for (tool, *arguments), (_, said) in zip(todo[:count], SAID):
        code, printed = run(folder, tool, *spelt_out(folder, arguments))
        assert code == 0, printed
        assert re.search(said, printed), printed
    assert list((folder / 'pictures').glob('sheet_*.png')) or count < len(SAID)


def _run(source: str) -> None:
    exec(compile(source, 'own_data.md', 'exec'), {})


def test_the_lines_of_python(folder, monkeypatch):
    monkeypatch.chdir(folder)
    (source,) = re.findall(r'```python\n(.*?)```', PAGE, flags=re.DOTALL)
    assert source.count("'my_clips'}") == 1
    source = source.replace("'my_clips'}", f"'my_clips', **{QUICK}}}")
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
            r'20 of 20 videos are not in my_clips/more: .*missing=skip leaves out the rows',
        ),
    ],
)
def test_what_a_training_refuses_before_it_starts(tools, folder, options, said):
    code, printed = tools(folder, 'train', *own(*options))
    assert code == 1 and 'Traceback' not in printed
    assert re.search(said, printed), printed


def own(*options: str, config: str = 'own_clip4clip') -> list[str]:
    return [config, '--cfg-options', *shlex.split(words(QUICK)), *options]


def test_missing_files_are_stated_with_a_result(tools, folder):
    options = ['videos=my_clips/more', 'missing=skip', 'test_dataloader.dataset.split=all']
    code, printed = tools(folder, 'test', *own('table=captions.csv', *options))
    assert code == 1 and "no row of split 'all' is left" in printed  # more/clip0 is clip0 there
    table = (folder / 'captions.csv').read_text().replace('more/', '')
    (folder / 'flat.csv').write_text(table)
    code, printed = tools(folder, 'test', *own('table=flat.csv', *options))
    assert code == 0, printed
    assert printed.count('flat.csv, all: ') == 1  # the set is built to check it, and to test
    printed = ' '.join(printed.split())
    assert ' on 4 of 20 clips and 5 of 21 texts ' in printed
    assert 'missing and left out 16 videos (' in printed


def test_the_page_can_be_followed_with_broken_files_in_the_folder(tools, folder):
    """A quarter of the files, more than BrokenVideoHook allows of what nobody has named."""
    (folder / 'worn').mkdir()
    for number, path in enumerate(sorted((folder / 'my_clips').rglob('clip*'))):
        raw = path.read_bytes()
        (folder / 'worn' / path.name).write_bytes(raw[:-200] if number % 4 == 0 else raw)
    table = (folder / 'captions.csv').read_text().replace('more/', '')
    (folder / 'worn.csv').write_text(table)
    data = 'table=worn.csv', 'videos=worn'
    listed = '--decode', '--report', 'worn.txt'
    code, printed = tools(folder, 'check_dataset', *own(*data, 'on_broken=skip'), *listed)
    assert code == 1 and '5 of 20 videos are broken' in printed, printed
    assert 'to do without them: on_broken.skip=worn.txt.' in printed
    code, printed = tools(folder, 'train', *own(*data, 'on_broken.skip=worn.txt'))
    assert code == 0, printed
    assert re.search(r'epoch 1: 0 of \d+ items skipped, 0 broken videos, beside \d+ items', printed)


def test_a_model_without_pretrained_weights_needs_a_checkpoint(tools, folder):
    options = own('table=captions.csv', 'videos=my_clips', 'pretrained=False')
    code, printed = tools(folder, 'test', *options)
    assert code == 1 and 'own_clip4clip.py names no pretrained weights' in printed


def test_what_is_random_is_refused_or_said(tools, folder):
    options = own('table=captions.csv', 'videos=my_clips', config='own_dvtr_c2v')
    code, printed = tools(folder, 'test', *options)
    assert code == 1 and 'names no pretrained weights for encoder.difference' in printed
    code, printed = tools(folder, 'test', '--random-weights', *options)
    assert code == 0, printed
    assert 'No pretrained weights for encoder.difference' in ' '.join(printed.split())


def test_real_videos_of_which_some_are_broken(tools, folder, shared):
    """Files that other projects test their decoders with; two have no video stream."""
    videos = shared / 'data/videos'
    if not videos.is_dir():
        pytest.skip(f'no videos at {videos}')
    paths = sorted(videos.iterdir())
    broken = {'tiny_Mpeg4', 'tiny_mp4-with-audio'}
    (folder / 'real.csv').write_text(
        '\n'.join(['video,text', *(f'{path.name},a clip by {path.stem}' for path in paths), ''])
    )
    data = 'table=real.csv', f'videos={videos}', 'test_dataloader.dataset.split=all'
    code, printed = tools(folder, 'check_dataset', *own(*data, 'on_broken=skip'), '--decode')
    assert code == 1 and f'2 of {len(paths)} videos are broken' in printed, printed
    listed = (folder / 'broken_videos.txt').read_text()
    assert {name for name in broken if name in listed} == broken
    code, printed = tools(folder, 'test', *own(*data, 'on_broken.skip=broken_videos.txt'))
    assert code == 0, printed
    printed = ' '.join(printed.split())
    left = len(paths) - 2
    assert f'on {left} of {len(paths)} clips and {left} of {len(paths)} texts ' in printed
    assert f'broken and left out 2 videos ({", ".join(sorted(broken))})' in printed


@pytest.mark.parametrize(
    'command, said',
    [
        (['trian'], r"^error: mmvtr has no tool 'trian'; near it: train$"),
        (['xxxxx'], r"^error: mmvtr has no tool 'xxxxx'; mmvtr alone lists those installed here$"),
        (['test', 'own_clip'], r'^error: config own_clip does not exist; .*near it: own_clip4clip'),
        (
            ['test', 'configs/own_dvtr_c2v.py'],
            '^error: config .* does not exist; mmvtr has one of its own by the name own_dvtr_c2v$',
        ),
    ],
)
def test_names_that_there_are_not(tools, folder, command, said):
    code, printed = tools(folder, *command)
    assert code == 1 and len(printed.splitlines()) == 1
    assert re.search(said, printed), printed


def test_the_list_of_tools(tools, folder):
    code, printed = tools(folder)
    assert code == 0
    listed = dict(re.findall(r'^  (\w+) +(\S.*)$', printed, flags=re.MULTILINE))
    folder = ROOT / 'tools'  # what lies deeper is imported by tools
    files = [
        file
        for file in (*folder.glob('*.py'), *folder.glob('*/*.py'))
        if 'benchmark' not in file.parts
    ]
    added = {entry.name for entry in entry_points(group='mmvtr.commands')}
    assert listed.keys() - added == {path.stem for path in files}
    assert len(files) == len(listed.keys() - added)  # no two of one name
    assert listed['train'] == 'Train a retriever, then test the checkpoint that was best on val.'
