"""A synthetic gallery with its own model, made in about a minute, to try the page.

Clips of moving shapes are rendered and a tiny CLIP is trained on their captions from scratch; then
other clips, of three moments each, are cut into three parts, which are the gallery's items.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Callable, Union

import torch
from mmengine.config import Config
from mmengine.registry import init_default_scope
from torch import nn

from mmvtr import apis
from mmvtr.datasets import ItemKey, collate_retrieval
from mmvtr.datasets.planted_corpus.dataset import PlantedDataset
from mmvtr.registry import DATASETS, MODELS
from mmvtr.storage import write_plain
from mmvtr.utils import load_config
from mmvtr_gallery.store.replacing import replace_store

#: Training clips, files of the gallery, and parts per file.
CLIPS, FILES, PARTS = 600, 100, 3
#: Settings of the training clips, and of the other clips that are searched.
SETS = dict(
    train=dict(num_train=CLIPS, num_val=1, num_test=1, captions=4),
    test=dict(seed=1, num_train=1, num_val=1, num_test=FILES, untrimmed=PARTS, test_captions=PARTS),
)
EPOCHS, BATCH, RATE = 16, 64, 3e-3
#: Example queries on the page, in the words of the planted captions.
EXAMPLES = (
    'a red star spins', 'a small yellow heart moves', 'a blue square grows', 'something blinks',
    'a cyan crescent',
)  # fmt: skip
NOTE = (
    'A demo: clips of moving shapes, found by a tiny model that was trained on {clips} of them in '
    '{seconds:.0f} seconds. It often errs, and knows {words} words.'
)


def make_demo(folder: Union[str, Path], *, say: Callable[[str], None] = print) -> None:
    """Make the clips, the model and the store in a folder, unless the store exists.

    Args:
        folder: created if missing.
        say: called with a line about each step.

    Raises:
        FolderInUse, ImportError, OSError: see :func:`mmvtr_gallery.store.create_store`.
    """
    folder = Path(folder).resolve()
    if (folder / 'store.json').is_file():
        return
    cfg = _config(folder / 'planted')
    say(f'rendering {CLIPS} clips to train on, and {FILES} to search')
    train, gallery = (DATASETS.build(cfg[f'{part}_dataloader'].dataset) for part in SETS)
    say('training a tiny model')
    began = time.monotonic()
    model = _train(cfg, train)
    words = len(gallery.vocab_file.read_text().split())
    note = NOTE.format(clips=CLIPS, seconds=time.monotonic() - began, words=words)
    folder.mkdir(parents=True, exist_ok=True)
    write_plain(dict(state_dict=model.state_dict()), folder / 'model.pth')
    cfg.dump(folder / 'config.json')
    say('encoding the gallery')
    _keep(folder, note, model, cfg, train, gallery)


def _config(root: Path) -> Config:
    """Return the config of CLIP4Clip on a CLIP of a few layers, with its datasets."""
    cfg = load_config('clip4clip_planted')
    init_default_scope(cfg.get('default_scope', 'mmvtr'))
    for tower in (cfg.model.encoder.frames.model, cfg.model.encoder.text.model):
        tower.embed_dim = tower.text_cfg.width = 64
        tower.text_cfg.update(context_length=24, layers=1)
        tower.vision_cfg.patch_size = 16
    for loader in (cfg.train_dataloader, cfg.val_dataloader, cfg.test_dataloader):
        loader.update(num_workers=0, persistent_workers=False)
        loader.dataset.data_root = str(root)
        loader.dataset.video_pipeline = [dict(type='LoadVideo', sampling='uniform', num_frames=3)]
        loader.dataset.text_pipeline[0].vocab_file = str(root / 'vocab.txt')
        loader.dataset.text_pipeline[0].context_length = 24
    for part, knobs in SETS.items():
        cfg[f'{part}_dataloader'].dataset.update(knobs)
    return cfg


def _train(cfg: Config, dataset: PlantedDataset) -> nn.Module:
    """Train a model from scratch; the clips are decoded once and stay in memory."""
    torch.manual_seed(0)
    model = MODELS.build(cfg.model)
    clips = [dataset[ItemKey(0, 0, i)] for i in range(len(dataset))]
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.05)
    steps = EPOCHS * (len(clips) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, steps, pct_start=0.15)
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(clips))[: steps // EPOCHS * BATCH].split(BATCH):
            items = [clips[row] for row in rows.tolist()]
            batch = model.data_preprocessor(collate_retrieval(items), True)
            losses = model(**batch, mode='loss')
            optimizer.zero_grad()
            sum(value for name, value in losses.items() if 'loss' in name).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
    return model.eval()


def _keep(
    folder: Path,
    note: str,
    model: nn.Module,
    cfg: Config,
    train: PlantedDataset,
    gallery: PlantedDataset,
) -> None:
    """Cut the files into parts, encode them, and fit biases to the training captions."""
    ids, paths, spans = [], [], []
    for number, video in enumerate(gallery.videos, 1):
        length = video['duration'] / PARTS
        for part in range(PARTS):
            ids.append(f'clip {number:03d}, part {part + 1}')
            paths.append(str(video['path']))
            spans.append((part * length, (part + 1) * length))
    starts, ends = zip(*spans)
    videos = apis.encode_videos(model, cfg, paths, ids=ids, spans=spans)
    bank = apis.encode_texts(model, cfg, [text['text'] for text in train.texts])
    vectors = apis.vectors(model, videos.levels)
    about = dict(checkpoint=str(folder / 'model.pth'), note=note, examples=list(EXAMPLES))
    options = dict(model=apis.fingerprint(model), about=about)
    options['geometry'] = 'inner_product'  # the model's scores
    with replace_store(folder, vectors.shape[1], **options) as store:
        store.add(ids, vectors, paths=paths, starts=starts, ends=ends)
        texts = apis.vectors(model, bank.levels)  # texts of few words, so many are alike
        store.refit(texts, temperature=float(model.temperature()), fewer=True)
        store.persist()
