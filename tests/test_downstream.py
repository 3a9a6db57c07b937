"""Another project of four files, with a scope of its own, trains with mmvtr's parts."""

import re
import subprocess
import sys

import pytest

from children import ROOT  # which puts mmvtr on the path of child processes

#: The recipe without a scope of its own.
PAGE = (ROOT / 'docs/downstream.md').read_text().split('## A scope of your own')[0]

REGISTRY = """
from mmengine.registry import DATASETS as MMENGINE_DATASETS
from mmengine.registry import MODELS as MMENGINE_MODELS
from mmengine.registry import TRANSFORMS as MMENGINE_TRANSFORMS
from mmengine.registry import Registry

MODELS = Registry('model', parent=MMENGINE_MODELS, locations=['downstream.parts'])
DATASETS = Registry('dataset', parent=MMENGINE_DATASETS, locations=['downstream.parts'])
TRANSFORMS = Registry('transform', parent=MMENGINE_TRANSFORMS, locations=['downstream.parts'])
"""

PARTS = """
import torch
from mmcv.transforms import BaseTransform
from torch import nn

from downstream.registry import DATASETS, MODELS, TRANSFORMS
from mmvtr.datasets import VideoTextDataset


@DATASETS.register_module()
class Numbers(VideoTextDataset):
    '''Video i shows the digits of i, text i says them.'''

    def load_annotations(self):
        videos = [dict(video_id=f'video{i}', path='', number=i) for i in range(20)]
        texts = [dict(text_id=str(i), text=f'{i:02d}', video_idx=[i]) for i in range(20)]
        return videos, texts


@TRANSFORMS.register_module()
class Show(BaseTransform):
    def transform(self, results):
        digits = torch.tensor([int(d) for d in f'{results["number"]:02d}'])
        return dict(results, features=nn.functional.one_hot(digits, 10).float().numpy())


@TRANSFORMS.register_module()
class Say(BaseTransform):
    def transform(self, results):
        return dict(results, token_ids=[int(d) for d in results['text']])


@MODELS.register_module()
class BagOfWords(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim
        self.words = nn.Embedding(10, dim)

    def forward(self, ids, mask):
        tokens = self.words(ids)
        return tokens, (tokens * torch.tensor([3.0, 1.0])[:, None]).sum(1)
"""

CONFIG = """
default_scope = 'downstream'
custom_imports = dict(imports=['mmvtr', 'downstream.parts'], allow_failed_imports=False)
model = dict(
    type='mmvtr.VideoTextRetriever',
    data_preprocessor=dict(type='mmvtr.VideoTextDataPreprocessor'),
    encoder=dict(
        type='mmvtr.CLIP4Clip',
        frames=dict(type='mmvtr.FeatureFrames', in_dim=10, dim=8),
        text=dict(type='BagOfWords', dim=8),
    ),
    similarity=dict(type='mmvtr.CosineSimilarity'),
    losses=dict(nce=dict(type='mmvtr.ContrastiveLoss')),
)
dataset = dict(type='Numbers', video_pipeline=[dict(type='Show')], text_pipeline=[dict(type='Say')])
train_dataloader = dict(
    batch_size=10,
    num_workers=0,
    dataset=dataset,
    sampler=dict(type='mmvtr.EpochSampler'),
    collate_fn=dict(type='mmvtr.collate_retrieval'),
)
val_dataloader = dict(batch_size=8, num_workers=0, dataset=dataset)
val_evaluator = [dict(type='mmvtr.RetrievalMetric', recall_at=(1, 5))]
train_cfg = dict(type='mmvtr.AlternatingTrainLoop', max_epochs=3, stages=('retrieval',))
val_cfg = dict(type='mmvtr.RetrievalLoop')
optim_wrapper = dict(
    type='mmvtr.AutocastOptimWrapper', optimizer=dict(type='mmvtr.BertAdam', lr=0.05)
)
default_hooks = dict(
    seed=dict(type='mmvtr.ExactSeedHook'),
    broken=dict(type='mmvtr.BrokenVideoHook'),
    checkpoint=dict(
        type='mmvtr.PlainCheckpointHook', save_best='retrieval/rsum', rule='greater'
    ),
)
randomness = dict(seed=1)
"""

RUN = """
from mmengine.config import Config
from mmengine.runner import Runner

cfg = Config.fromfile('config.py')
cfg.work_dir = 'work'
runner = Runner.from_cfg(cfg)
first = runner.val()
runner.train()
print('rsum', first['retrieval/rsum'], runner.val_loop.report.values['retrieval/rsum'])
print('best', runner.message_hub.get_info('best_ckpt'))
"""


def test_four_file_project(tmp_path):
    (tmp_path / 'downstream').mkdir()
    (tmp_path / 'downstream' / 'registry.py').write_text(REGISTRY)
    (tmp_path / 'downstream' / 'parts.py').write_text(PARTS)
    (tmp_path / 'config.py').write_text(CONFIG)
    (tmp_path / 'run.py').write_text(RUN)
    done = subprocess.run(
        [sys.executable, 'run.py'], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    before, after = map(float, done.stdout.split('rsum ')[-1].split()[:2])
    assert after > before + 50
    assert [path.name for path in (tmp_path / 'work').glob('best*')] == ['best.pth']


#: How warnings begin that mmengine's own code causes.
OF_MMENGINE = (
    'pkg_resources is deprecated',
    "'maxsplit' is passed as positional",
    "'pkgutil.find_loader' is deprecated",
)


@pytest.mark.nightly
def test_the_short_way_word_for_word_without_a_warning(tmp_path):
    for name, source in re.findall(r'```python\n# (\S+\.py)\n(.*?)```', PAGE, flags=re.DOTALL):
        (tmp_path / name).write_text(source)
    (line,) = re.findall(r'```bash\n(.*?)```', PAGE, flags=re.DOTALL)
    ours = '-W error ' + ' '.join(f'-W "ignore:{text}"' for text in OF_MMENGINE)
    done = subprocess.run(
        ['bash', '-c', line.replace('python ', f'{sys.executable} {ours} ')],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
    )
    printed = done.stdout + done.stderr
    assert done.returncode == 0, printed[-3000:]
    assert 'loss_squared' in printed and 'results on test' in printed
    assert not re.search('warning', printed, flags=re.IGNORECASE)
