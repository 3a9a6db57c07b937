"""A retriever, a dataset and a metric that train in a moment, and a hook that kills the process.

For tests of the engine and of the tools: the model draws random numbers in training and the metric
in evaluation, and the metric goes up and down from epoch to epoch.
"""

import os
import random
import signal
import time
from pathlib import Path

import numpy as np
import torch
from mmcv.transforms import BaseTransform
from mmengine.evaluator import BaseMetric
from mmengine.hooks import Hook
from mmengine.model import BaseModel
from mmengine.registry import DATASETS, FUNCTIONS, HOOKS, METRICS, MODELS, TRANSFORMS
from torch import nn

from mmvtr.datasets import VideoTextDataset

ROOT = Path(__file__).resolve().parents[1]

#: The start of a config: a real retriever with towers of a few numbers.
RETRIEVER = """
default_scope = 'mmvtr'
custom_imports = dict(imports=['toy'], allow_failed_imports=False)
model = dict(
    type='VideoTextRetriever',
    data_preprocessor=dict(type='VideoTextDataPreprocessor'),
    encoder=dict(type='CLIP4Clip', frames=dict(type='ToyFrames'), text=dict(type='ToyWords')),
    similarity=dict(type='CosineSimilarity'),
    losses=dict(nce=dict(type='ContrastiveLoss')),
)
"""

#: A config that trains, validates and tests it on videos a.mp4 to d.mp4 of the current folder.
RETRIEVAL = f"_base_ = ['{ROOT}/configs/_base_/default_runtime.py']" + RETRIEVER + """
pipelines = dict(
    video_pipeline=[dict(type='LoadVideo', num_frames=2)], text_pipeline=[dict(type='ToySay')]
)
loader = dict(batch_size=2, num_workers=0, collate_fn=dict(type='mmvtr.collate_retrieval'))
train_dataloader = dict(
    **loader, sampler=dict(type='EpochSampler'),
    dataset=dict(type='ToyVideos', names=['a', 'b', 'c', 'd'], **pipelines))
val_dataloader = dict(**loader, dataset=dict(type='ToyVideos', names=['a', 'b'], **pipelines))
test_dataloader = dict(**loader, dataset=dict(type='ToyVideos', names=['b', 'c'], **pipelines))
val_cfg = test_cfg = dict(type='RetrievalLoop')
val_evaluator = test_evaluator = [dict(type='RetrievalMetric')]
train_cfg = dict(type='EpochBasedTrainLoop', max_epochs=3, val_interval=3)
optim_wrapper = dict(type='OptimWrapper', optimizer=dict(type='SGD', lr=0.1))
"""  # fmt: skip

CONFIG = """
_base_ = ['{root}/configs/_base_/default_runtime.py']
custom_imports = dict(imports=['toy'], allow_failed_imports=False)
model = dict(type='ToyRetriever', width=4)
train_dataloader = dict(
    batch_size=4,
    num_workers=0,
    dataset=dict(type='ToyDataset', length=12),
    sampler=dict(type='EpochSampler'),
    collate_fn=dict(type='toy_collate'),
)
val_dataloader = dict(
    batch_size=4,
    num_workers=0,
    dataset=dict(type='ToyDataset', length=8),
    sampler=dict(type='EpochSampler', shuffle=False, round_up=False),
    collate_fn=dict(type='toy_collate'),
)
test_dataloader = val_dataloader
val_evaluator = dict(type='ToyMetric')
test_evaluator = val_evaluator
train_cfg = dict(by_epoch=True, max_epochs=4, val_interval=1)
val_cfg = dict()
test_cfg = dict()
optim_wrapper = dict(type='OptimWrapper', optimizer=dict(type='BertAdam', lr=0.1))
param_scheduler = dict(type='WarmupCosineLR', warmup=0.2, by_epoch=False)
find_unused_parameters = True
"""


@MODELS.register_module()
class ToyRetriever(BaseModel):
    """Two linear maps; ``stage`` chooses which one the loss reads."""

    def __init__(self, width: int = 4, data_preprocessor=None):
        super().__init__(data_preprocessor)
        torch.manual_seed(7)
        self.encoder = nn.Linear(3, width)
        self.heads = nn.Linear(3, width)
        self.stage = None
        self.stages_seen = []

    def forward(self, inputs, data_samples=None, mode='tensor'):
        if mode == 'predict':
            return [sum(p.sum() for p in self.parameters())] * len(inputs)
        self.stages_seen.append(self.stage)
        x = nn.functional.dropout(inputs + 0.1 * np.random.randn() + 0.1 * random.random(), 0.2)
        losses = {}
        if self.stage != 'uncertainty':
            losses['loss_retrieval'] = (self.encoder(x) - 1).square().mean()
        if self.stage != 'retrieval':
            losses['loss_uncertainty'] = (self.heads(x) + 1).square().mean()
        return losses


@MODELS.register_module()
class ToySloped(ToyRetriever):
    """``slope`` is where a weight starts, ``rate`` is read at each step."""

    def __init__(self, slope: float = 1.0, rate: float = 1.0, **kwargs):
        super().__init__(**kwargs)
        self.slope = nn.Parameter(torch.tensor([slope]))
        self.rate = rate

    def forward(self, inputs, data_samples=None, mode='tensor'):
        losses = super().forward(inputs, data_samples, mode)
        if mode != 'predict':
            losses['loss_slope'] = self.rate * (self.slope - 1).square().mean()
        return losses


@DATASETS.register_module()
class ToyDataset(torch.utils.data.Dataset):
    """Items are a function of their key; every ``broken``-th item cannot be read."""

    def __init__(self, length: int, broken: int = 0, file: str = ''):
        if file and not os.path.exists(file):
            raise FileNotFoundError(f'{file} is missing')
        self.length = length
        self.broken = broken

    def __len__(self):
        return self.length

    def __getitem__(self, key):
        if self.broken and key.index % self.broken == 0:
            return dict(broken=(f'video{key.index}', 'no frames'))
        return dict(x=torch.randn(3, generator=torch.Generator().manual_seed(hash(key) % 2**31)))


@FUNCTIONS.register_module()
def toy_collate(items):
    whole = [item['x'] for item in items if 'x' in item]
    broken = [item['broken'] for item in items if 'broken' in item]
    samples = dict(broken=broken, text_idx=torch.arange(len(whole)))
    return dict(inputs=torch.stack(whole), data_samples=samples)


@METRICS.register_module()
class ToyMetric(BaseMetric):
    default_prefix = 'retrieval'

    def process(self, data_batch, data_samples):
        self.results += [float(sample) + np.random.rand() for sample in data_samples]

    def compute_metrics(self, results):
        return dict(rsum=1e4 * sum(results) % 100)


@HOOKS.register_module()
class KillHook(Hook):
    """Kills its process at the ``at``-th event of a run.

    Events are all hook points of the runner, and each fsync, rename and removal of a file by the
    checkpoint code, before and after it. The hook's ``log`` lists those that have passed.
    """

    priority = 'LOWEST'

    def __init__(self, at: int):
        self.at = at
        self.log = []
        self._patch(os, 'fsync')
        self._patch(os, 'replace')
        self._patch(os, 'remove')

    def event(self, name):
        self.log.append(name)
        if len(self.log) == self.at + 1:
            os.kill(os.getpid(), signal.SIGKILL)

    def _patch(self, module, name):
        original = getattr(module, name)

        def patched(*args, **kwargs):
            self.event(f'before {name}')
            result = original(*args, **kwargs)
            self.event(f'after {name}')
            return result

        setattr(module, name, patched)


@HOOKS.register_module()
class SlowHook(Hook):
    """Waits at the end of each step once ``epoch`` epochs are over, and says so by a file."""

    def __init__(self, epoch: int):
        self.epoch = epoch

    def after_train_iter(self, runner, batch_idx, data_batch=None, outputs=None):
        if runner.epoch >= self.epoch:
            Path(runner.work_dir, 'waiting').touch()
            time.sleep(1000)


@HOOKS.register_module()
class MarkHook(Hook):
    """A file ``validating`` in the work dir while the model is validated."""

    def before_val_epoch(self, runner):
        Path(runner.work_dir, 'validating').touch()

    def after_val_epoch(self, runner, metrics=None):
        Path(runner.work_dir, 'validating').unlink(missing_ok=True)


def _point(name):
    return lambda self, *args, **kwargs: self.event(name)


for _name in Hook.stages:
    setattr(KillHook, _name, _point(_name))


def write_config(folder: Path, extra: str = '') -> Path:
    """The toy's config file in ``folder``."""
    path = Path(folder) / 'toy_config.py'
    path.write_text(CONFIG.format(root=ROOT) + extra)
    return path


# -- real videos through mmvtr's own parts -----------------------------------------------------


@DATASETS.register_module()
class ToyVideos(VideoTextDataset):
    """One caption for each file ``NAME.mp4`` of the current folder."""

    def __init__(self, *args, names=('a',), **kwargs):
        self.names = names
        super().__init__(*args, **kwargs)

    def load_annotations(self):
        videos = [dict(video_id=name, path=f'{name}.mp4') for name in self.names]
        texts = [dict(text_id=name, text=name, video_idx=[i]) for i, name in enumerate(self.names)]
        return videos, texts


@TRANSFORMS.register_module()
class ToySay(BaseTransform):
    def transform(self, results):
        return dict(results, token_ids=[ord(letter) % 8 for letter in results['text']])


@MODELS.register_module()
class ToyFrames(nn.Module):
    """Mean grey level and its square."""

    dim = 2

    def __init__(self, scale=1.0):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([scale]))

    def forward(self, x):
        grey = x.flatten(1).mean(1) * self.weight
        return torch.stack([grey, grey**2], 1)


@MODELS.register_module()
class ToyWords(nn.Module):
    dim = 2

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(8, 2)

    def forward(self, ids, mask):
        tokens = self.words(ids)
        return tokens, tokens.sum(1)
