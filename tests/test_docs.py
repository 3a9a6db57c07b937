"""What README.md and docs/ name exists: files, modules, classes; and the house's examples run."""

from __future__ import annotations

import ast
import importlib
import inspect
import itertools
import re
import sys
from functools import cache
from pathlib import Path

import pytest
import torch
from mmengine.config import Config

from children import ROOT
from mmvtr import registry
from mmvtr.__main__ import tools
from mmvtr.functional import contrastive, dataset_uncertainty, multi_instance, sinkhorn
from mmvtr.models.blocks import whole_needed
from mmvtr.utils import register_all_modules

PAGES = [
    *(ROOT / name for name in ('README.md', 'CONTRIBUTING.md')),
    *sorted((ROOT / 'docs').glob('*.md')),
    *sorted((ROOT / 'docs/tutorials').glob('*.md')),
    *sorted((ROOT / 'docs/reproduce').glob('*.md')),
    *sorted((ROOT / 'projects').rglob('*.md')),
    *sorted((ROOT / 'configs').rglob('*.md')),
]
#: Where a path of a page may start, and of which the project's own files do.
STARTS = (ROOT, *(ROOT / x for x in ('mmvtr', 'docs', 'projects/gallery', 'projects/lab')))
#: A user's data and results lie beside the project: git's ignored folders are not the project's.
IGNORED = {line.strip('/') for line in (ROOT / '.gitignore').read_text().split()}
OWN = {path.name for start in STARTS for path in start.iterdir() if path.is_dir()} - IGNORED
PATH = re.compile(r'(?<![\w/])((?:[\w./*-]|\{[^}`]*\})+\.(py|sh|md|png|json))\b(?:: ([\w, ]+)`)?')
FOLDER = re.compile(r'(?<![\w./{}<-])((?:[a-z]\w*/)+)(?![\w.*{<-])')
DOTTED = re.compile(r'\bmmvtr(?:\.\w+)+')
LINK = re.compile(r'\]\(([^)#:]+)(?:#[^)]*)?\)')

each_page = pytest.mark.parametrize(
    'page', PAGES, ids=lambda path: f'{path.parent.name}-{path.name}'
)


def spelt_out(pattern: str) -> list[str]:
    """``a_{b,c, ...}.py`` -> ``a_b.py``, ``a_c.py``."""
    parts = re.split(r'\{([^}]*)\}', pattern)
    choices = [
        [word.strip() for word in part.split(',') if '...' not in word] if i % 2 else [part]
        for i, part in enumerate(parts)
    ]
    return [''.join(chosen) for chosen in itertools.product(*choices)]


@cache
def files_of(pattern: str) -> list[Path]:
    """A path from the root or the package; a bare name is a file anywhere in them."""
    if '/' in pattern:
        return [path for start in STARTS for path in start.glob(pattern)]
    folders = ('configs', 'docs', 'mmvtr', 'projects', 'tests', 'tools')
    return [path for folder in folders for path in (ROOT / folder).rglob(pattern)]


def defined(path: Path) -> set[str]:
    """Names at the top of a module."""
    names = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names.update(target.id for target in node.targets if isinstance(target, ast.Name))
    return names


def unknown_paths(text: str) -> list[str]:
    """What the text names as a file of the project, or as a name in one, and is not there.

    Python files are all the project's own, but for those of examples; others are where their path
    starts with one of its folders.
    """
    written = set(re.findall(r'^# (\S+\.py)$', text, flags=re.MULTILINE))  # by the reader
    wrong = []
    for pattern, suffix, names in PATH.findall(text):
        own = pattern.split('/')[0] in OWN or (suffix == 'py' and '/' not in pattern)
        if not own or pattern in written:
            continue
        for path in spelt_out(pattern):
            found = files_of(path)
            if not found:
                wrong.append(path)
            elif names:
                missing = set(names.split(', ')) - defined(found[0])
                wrong += [f'{path}: {name}' for name in sorted(missing)]
    for folder in FOLDER.findall(text):
        if folder.split('/')[0] in OWN and not any((start / folder).is_dir() for start in STARTS):
            wrong.append(folder)
    return wrong


def exists(dotted: str) -> bool:
    """A module, something in one, or a registered name in the scope ``mmvtr``."""
    parts = dotted.split('.')
    for cut in range(len(parts), 0, -1):
        try:
            found = importlib.import_module('.'.join(parts[:cut]))
        except ModuleNotFoundError as error:
            if not error.name.startswith('mmvtr'):  # of an extra that is not installed
                path = ROOT.joinpath(*parts[:cut]).with_suffix('.py')
                return cut == len(parts) or parts[cut] in defined(path)
            continue
        for part in parts[cut:]:
            found = getattr(found, part, None)
        return found is not None or (len(parts) == 2 and is_registered(parts[1]))
    return False


def is_registered(name: str) -> bool:
    register_all_modules(init_default_scope=False)
    children = [r for r in vars(registry).values() if getattr(r, 'scope', None) == 'mmvtr']
    return any(name in child.module_dict for child in children)


@each_page
def test_paths(page):
    assert not unknown_paths(page.read_text())


@each_page
def test_dotted_names(page):
    text = page.read_text()
    own = {f'mmvtr.{name}' for name in re.findall(r'^class (\w+)', text, flags=re.MULTILINE)}
    own |= {f'mmvtr.{label}Hook' for label in re.findall(r"label='(\w+)'", text)}
    own |= {*re.findall(r"entry-points\.'(mmvtr\.\w+)'", text)}
    assert not [name for name in DOTTED.findall(text) if name not in own and not exists(name)]


def numbers_in(cell: str) -> set[int]:
    """'1, 2', '6-11, Fig. 4' -> the numbers of equations."""
    found = set()
    for part in cell.split(','):
        ends = re.fullmatch(r'\s*(\d+)(?:-(\d+))?\s*', part)
        if ends:
            found |= set(range(int(ends[1]), int(ends[2] or ends[1]) + 1))
    return found


@pytest.mark.parametrize(
    'page, number, function',
    [
        ('dvtr.md', 13, contrastive),
        ('ncl.md', 10, sinkhorn),
        ('arl.md', 4, dataset_uncertainty),
        ('uatvr.md', 11, multi_instance),
    ],
)
def test_an_equation_is_two_clicks_from_the_readme(page, number, function):
    """README -> page of the paper -> file, in the row of the equation, and the function by name."""
    assert f'](docs/{page})' in (ROOT / 'README.md').read_text()
    rows = [
        line.split('|')
        for line in (ROOT / 'docs' / page).read_text().splitlines()
        if line.startswith('|')
    ]
    (row,) = [row for row in rows if number in numbers_in(row[1]) and '](../mmvtr/' in row[-2]]
    found = re.findall(r'\[`[\w/.]+: (\w+)`\]\((\S+)\)', row[-2])
    name, link = next(pair for pair in found if pair[0] == function.__name__)
    file = (ROOT / 'docs' / link).resolve()
    assert (
        file == Path(inspect.getfile(inspect.unwrap(function)))
        and f'\ndef {name}(' in file.read_text()
    )


@each_page
def test_tools_by_name(page):
    """Each `mmvtr TOOL` of a page is one of this package or of the gallery."""
    named = re.findall(r'(?:python -m |`|^)mmvtr ([a-z_]+)', page.read_text(), flags=re.MULTILINE)
    gallery = {p.stem for p in (ROOT / 'projects/gallery/mmvtr_gallery/commands').glob('*.py')}
    assert not set(named) - tools().keys() - gallery


@each_page
def test_links(page):
    text = re.sub(r'^```python\n.*?^```$', '', page.read_text(), flags=re.DOTALL | re.MULTILINE)
    broken = [link for link in LINK.findall(text) if not (page.parent / link).exists()]
    assert not broken


def test_what_is_not_there_is_found():
    text = """`models/losses/matrix.py: MatrixLoss, ContrastiveLoss`,
    `functional/losses/ranking.py`, tools/train.py, `hgr_epic_{long,short, ...}.py`,
    configs/arl_tvr_*.py, models/encoders/,
    docs/arl.md, `data/x.json`, a.json"""
    assert unknown_paths(text) == []
    text = """`models/losses.py`, `models/losses/matrix.py: MatrixLoss, Matrix`, tools/x.sh,
    `hgr_epic_{long,tall}.py`, configs/arl_none_*.py, `models/nothing/`, docs/nothing.md"""
    assert unknown_paths(text) == [
        'models/losses.py',
        'models/losses/matrix.py: Matrix',
        'tools/x.sh',
        'hgr_epic_tall.py',
        'configs/arl_none_*.py',
        'docs/nothing.md',
        'models/nothing/',
    ]
    assert exists('mmvtr.functional.losses.contrastive.contrastive') and exists(
        'mmvtr.ContrastiveLoss'
    )
    assert not exists('mmvtr.functional.nothing') and not exists('mmvtr.NothingLoss')


def test_the_examples_of_the_house_train(tmp_path, monkeypatch):
    """Parts of add_a_part.md and architecture.md, from the config of the latter."""
    register_all_modules()
    monkeypatch.setattr(registry.MODELS, '_module_dict', dict(registry.MODELS.module_dict))
    monkeypatch.syspath_prepend(str(tmp_path))
    page = (ROOT / 'docs/architecture.md').read_text()
    tutorial = (ROOT / 'docs/tutorials/add_a_part.md').read_text()
    block = re.compile(r'```python\n# (\S+\.py)\n(.*?)```', flags=re.DOTALL)
    assert len(block.findall(page)) == page.count('```python') == 3
    blocks = dict(block.findall(tutorial) + block.findall(page))
    for name, source in blocks.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(source.replace("_base_ = ['", f"_base_ = ['{ROOT}/configs/"))
    cfg = Config.fromfile(tmp_path / 'configs/mine_planted_features.py')
    torch.manual_seed(0)
    model = registry.MODELS.build(cfg.model)
    inputs = dict(
        video=torch.randn(3, 2, 128),
        frame_mask=torch.ones(3, 2, dtype=torch.bool),
        text=torch.randint(1, 40, (3, 5)),
        text_mask=torch.ones(3, 5, dtype=torch.bool),
    )
    samples = dict(
        text_ids=['0', '1', '2'],
        video_ids=['a', 'b', 'c'],
        text_videos=torch.arange(3)[:, None],
        video_idx=torch.arange(3),
    )
    losses = model(inputs, samples, mode='loss')
    assert {'loss_squared', 'weight'} < losses.keys() and 0 < losses['weight'] < 1
    losses['loss_squared'].backward()
    assert any(p.grad is not None and p.grad.any() for p in model.parameters())
    assert whole_needed(model).startswith('SpareAlike makes the whole matrix: it has no blocks')
    importlib.import_module('my_project.in_blocks')
    cfg.model.update(supervision=dict(type='SpareAlikeInBlocks'), block_rows=2)
    cfg.model.losses = dict(nce=dict(type='ContrastiveLoss'))
    found = {}
    for kind in ('SpareAlikeInBlocks', 'SpareAlike'):
        cfg.model.supervision.type = kind
        torch.manual_seed(0)
        made = registry.MODELS.build(cfg.model).eval()
        assert bool(whole_needed(made)) == (kind == 'SpareAlike')
        found[kind] = made(inputs, samples, mode='loss')
    torch.testing.assert_close(*found.values())
    for name in [name for name in sys.modules if name.split('.')[0] == 'my_project']:
        del sys.modules[name]
