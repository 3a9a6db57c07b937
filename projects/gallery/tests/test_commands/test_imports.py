"""A search of a gallery imports no large library that it does not use."""

import os
import subprocess
import sys
from pathlib import Path

import mmvtr
import mmvtr_gallery
from tiny_sets import of_videos

#: What only some models, some optimizers or processes in a group use.
LARGE = [
    *('open_clip', 'transformers', 'timm', 'torchvision', 'sympy', 'matplotlib', 'scipy'),
    *('torch._dynamo', 'torch._inductor', 'torch.distributed.fsdp', 'torch.distributed.optim'),
]
CODE = """
import runpy, sys
from mmvtr.apis import load_retriever
from mmvtr.storage import write_plain


def command(name, *arguments):
    sys.argv = [name, *arguments]
    runpy.run_module(f'mmvtr_gallery.commands.{name}', run_name='__main__')


model, _ = load_retriever('config.py', None, random_weights=True, device='cpu')
write_plain(dict(state_dict=model.state_dict()), 'bare.pth')
command('export_index', 'config.py', 'bare.pth', '--out', 'gallery', '--engine', 'faiss')
command('search', 'gallery', 'a cat', '--config', 'config.py')
import mmvtr_gallery.serving.app
print('large:', *(x for x in LARGE if x in sys.modules))
"""


def test_an_export_a_search_and_a_service(tmp_path, write_video):
    (tmp_path / 'config.py').write_text(of_videos('gh'))
    for grey, name in enumerate('gh'):
        write_video(tmp_path / f'{name}.mp4', [100 * grey, 9])
    root = Path(mmvtr.__file__).parents[1]
    folders = (root, Path(mmvtr_gallery.__file__).parents[1], root / 'tests')
    done = subprocess.run(
        [sys.executable, '-c', f'LARGE = {LARGE}\n{CODE}'],
        cwd=tmp_path,
        env={**os.environ, 'PYTHONPATH': os.pathsep.join(map(str, folders))},
        capture_output=True,
        text=True,
    )
    assert not done.returncode, done.stderr
    assert done.stdout.splitlines()[-1] == 'large:'
