"""A contributor's afternoon, in a copy of the tree: no test outside of what was touched fails."""

import re
import shutil
import subprocess
import sys

import pytest
from test_functional.test_new_transform import CLASS

from children import ROOT

LOSS = '''"""A mean of all scores."""

from torch import Tensor

from mmvtr.models.losses.matrix import MatrixLoss
from mmvtr.models.target import Target
from mmvtr.registry import MODELS


@MODELS.register_module()
class MeanScoreLoss(MatrixLoss):
    """The mean of a matrix."""

    slots = ()

    def compute(self, scores: Tensor, target: Target, temperature: Tensor | float) -> Tensor:
        return scores.mean()
'''
#: Of the page docs/ncl.md, as the test of a new transform says it.
ROW = '| `mean_scaling` | a test | items near to all fall | bank | yes |\n'
#: What the front door and the page of equations have of each function.
SAID = 'mean bank score, raised to a power.'
EXAMPLE = """

    Example:
        ::

            >>> bank = torch.tensor([[0.9, 0.1], [0.7, 0.1]])
            >>> mean_scaling(torch.ones(1, 2), bank, neighbours=1, alpha=0.0).shape
            torch.Size([1, 2])
    """
EQUATION = """### mean_scaling

A test. {py:func}`mmvtr.functional.mean_scaling`

$$
s - \\\\alpha r
$$

"""
#: What a test does that reads what it does not name: files of the project, registered parts.
WALKS = r'(ROOT|PACKAGE|parents\[\d\]|ALL|CONFIGS)[^\n]*glob\(|module_dict'


@pytest.fixture(scope='module')
def copy(tmp_path_factory):
    """A copy of the tracked files, with the changes of an afternoon."""
    folder = tmp_path_factory.mktemp('afternoon') / 'mmvtr'
    listed = subprocess.run(
        ['git', 'ls-files', '-z'], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in filter(None, listed.stdout.split('\0')):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
    subprocess.run(['git', 'init', '-q'], cwd=folder, check=True)

    def change(name, old, new):
        text = (folder / name).read_text()
        assert re.search(old, text, flags=re.DOTALL), f'{name}: no {old}'
        (folder / name).write_text(re.sub(old, new, text, count=1, flags=re.DOTALL))

    for page in ('README.md', 'docs/troubleshooting.md', 'docs/dvtr.md'):
        change(page, r'\Z', '\nOne more sentence, which somebody missed here.\n')
    change('configs/_base_/default_runtime.py', r'interval=\d+', 'interval=33')
    (folder / 'configs/dvtr_faster.py').write_text(
        "_base_ = ['dvtr_c2v_msrvtt.py']\n\noptim_wrapper = dict(optimizer=dict(lr=3e-4))\n"
    )
    change('configs/README.md', '`own_dvtr_c2v`', '`own_dvtr_c2v`, `dvtr_faster`')
    (folder / 'mmvtr/models/losses/mean_score.py').write_text(LOSS)
    change(
        'mmvtr/models/__init__.py',
        r'\nfrom mmvtr\.models\.losses',
        r'\nfrom mmvtr.models.losses.mean_score import MeanScoreLoss\nfrom mmvtr.models.losses',
    )
    transforms = 'mmvtr/functional/transforms/score_transforms.py'
    change(transforms, r'\Z', CLASS.partition('\n\n__all__')[0].replace(SAID, SAID + EXAMPLE))
    change(transforms, r"(?=    'nnn',\n)", "    'mean_scaling',\n")
    change('docs/equations.md', r'(?=### nnn\n)', EQUATION)
    change('docs/ncl.md', r'(?=\| `csls`)', ROW)
    (folder / 'mmvtr/ideas').mkdir()
    (folder / 'mmvtr/ideas/__init__.py').write_text('"""Ideas."""\n')
    (folder / 'mmvtr/ideas/first.py').write_text('"""The first."""\n\nSIZE = 3\n')
    return folder


def walkers():
    """Tests that read the tree: they see what they do not know of."""
    files = sorted((ROOT / 'tests').rglob('test_*.py'))
    return [
        str(path.relative_to(ROOT))
        for path in files
        if re.search(WALKS, path.read_text()) and path.name != 'test_contributing.py'
    ]


@pytest.mark.nightly
def test_no_other_test_fails(copy):
    command = [sys.executable, '-m', 'pytest', '-q', '-p', 'no:cacheprovider', *walkers()]
    done = subprocess.run(command, cwd=copy, capture_output=True, text=True)
    failed = re.findall(r'^(?:FAILED|ERROR) (.*)', done.stdout, flags=re.MULTILINE)
    assert done.returncode == 0 and not failed, '\n'.join(failed) or done.stdout[-2000:]


@pytest.mark.nightly
@pytest.mark.parametrize(
    'name, old, new, test, said',
    [
        (
            'docs/architecture.md',
            '## Floors',
            '## Rooms',
            'tests/test_architecture.py',
            'architecture.md has no heading "## Floors" above its list of rooms: add it',
        ),
        (
            'configs/README.md',
            ', `dvtr_faster`',
            '',
            'tests/test_config_files.py',
            'add dvtr_faster to configs/README.md',
        ),
        (
            'docs/ncl.md',
            ROW,
            '',
            'tests/test_functional/test_transform_table.py',
            f'add to docs/ncl.md: {ROW.strip()}',
        ),
    ],
)
def test_what_is_missing_is_said(copy, name, old, new, test, said):
    path = copy / name
    whole = path.read_text()
    assert old in whole
    path.write_text(whole.replace(old, new))
    command = [sys.executable, '-m', 'pytest', '-q', '-p', 'no:cacheprovider', test]
    done = subprocess.run(command, cwd=copy, capture_output=True, text=True)
    path.write_text(whole)
    assert done.returncode == 1 and said in done.stdout, done.stdout[-2000:]
