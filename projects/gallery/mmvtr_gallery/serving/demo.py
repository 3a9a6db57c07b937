"""A synthetic gallery with its own model, made in about two minutes, to try the page.

Clips of moving shapes are rendered and a tiny CLIP is trained on their captions from scratch.  The
files to search are made brighter, as if another camera had recorded them: some of their clips
become hubs.  They are cut at their three moments, which are the gallery's items.  What the model
finds by captions that it has never seen and by the example queries is measured and printed.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, Callable, Union

import numpy as np
import torch
from mmengine.config import Config
from mmengine.registry import init_default_scope
from torch import nn

import mmvtr
from mmvtr import apis
from mmvtr.datasets import collate_retrieval
from mmvtr.datasets.planted_corpus.dataset import PlantedDataset
from mmvtr.datasets.planted_corpus.grammar import judge
from mmvtr.datasets.planted_corpus.store import write_mp4
from mmvtr.datasets.planted_corpus.world import FPS
from mmvtr.datasets.videos.video_io import read_frames
from mmvtr.registry import DATASETS, MODELS
from mmvtr.storage import write_plain
from mmvtr.utils import load_config
from mmvtr_gallery.store.lifted import load_faiss
from mmvtr_gallery.store.replacing import replace_store

#: Training clips, captions of each, files of the gallery, and parts per file.
CLIPS, CAPTIONS, FILES, PARTS = 1200, 6, 100, 3
#: Settings of the training clips, with few general captions, and of the clips to search.
SETS = dict(
    train=dict(num_train=CLIPS, num_val=1, num_test=1, captions=CAPTIONS, general=0.1, medium=0.4),
    test=dict(seed=1, num_train=1, num_val=1, num_test=FILES, untrimmed=PARTS, test_captions=PARTS),
)
#: Passes over all captions, and what else the training takes.
EPOCHS, BATCH, RATE, FRAMES, SIZE = 6, 64, 3e-3, 4, 64
#: Exponent that brightens the files to search (values from 0 to 1).
GAMMA = 0.6
#: Example queries on the page, in the words of the planted captions, and what they say.
EXAMPLES: dict[str, dict[str, str]] = {
    'a red thing': dict(colour='red'),
    'a yellow thing': dict(colour='yellow'),
    'a purple thing': dict(colour='purple'),
    'a large white thing': dict(size='large', colour='white'),
    'something blinks': dict(action='blinks'),
}
#: First hits of an example that are looked at: as many as the page shows.
SHOWN = 12
NOTE = (
    'A demo: clips of moving shapes, found by a tiny model that was trained on {clips} others in '
    '{seconds:.0f} seconds. It knows {words} words: colours well, shapes and movements hardly. The '
    'clips here are brighter than those of the training, as if another camera had recorded them: '
    'some are hubs. Of the first {shown} for the examples {right_raw} show what is asked raw, '
    '{right_debiased} debiased; of {texts} new captions {raw} find their file among ten raw, '
    '{debiased} debiased.'
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
    load_faiss()  # before a minute of work
    cfg = _config(folder / 'planted')
    say(f'rendering {CLIPS} clips to train on, and {FILES} to search')
    train, gallery = (DATASETS.build(cfg[f'{part}_dataloader'].dataset) for part in SETS)
    say('training a tiny model')
    began = time.monotonic()
    model = _train(cfg, train, say)
    told = dict(clips=CLIPS, seconds=time.monotonic() - began)
    told['words'] = len(gallery.vocab_file.read_text().split())
    folder.mkdir(parents=True, exist_ok=True)
    write_plain(dict(state_dict=model.state_dict()), folder / 'model.pth')
    cfg.dump(folder / 'config.json')
    say('encoding the gallery')
    _keep(folder, told, model, cfg, train, gallery, say)


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
        loader.dataset.video_pipeline = [
            dict(type='LoadVideo', sampling='uniform', num_frames=FRAMES),
            dict(type='ResizeShortSide', size=SIZE),  # of a visitor's own clips
            dict(type='CenterCrop', size=SIZE),
        ]
        loader.dataset.text_pipeline[0].vocab_file = str(root / 'vocab.txt')
        loader.dataset.text_pipeline[0].context_length = 24
    for part, knobs in SETS.items():
        cfg[f'{part}_dataloader'].dataset.update(knobs)
    return cfg


def _train(cfg: Config, dataset: PlantedDataset, say: Callable[[str], None]) -> nn.Module:
    """Train a model from scratch; the clips are decoded once and stay in memory."""
    torch.manual_seed(0)
    model = MODELS.build(cfg.model)
    clips = [dataset.load_video(v) for v in range(len(dataset.videos))]
    texts = [dataset.load_text(t) for t in range(len(dataset.texts))]
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.05)
    steps = len(texts) // BATCH
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, EPOCHS * steps, pct_start=0.15)
    for epoch in range(1, EPOCHS + 1):
        total = 0.0
        for rows in torch.randperm(len(texts))[: steps * BATCH].split(BATCH):
            drawn = [texts[row] for row in rows.tolist()]
            items = [dict(video=clips[text['video_idx'][0]], texts=[text]) for text in drawn]
            batch = model.data_preprocessor(collate_retrieval(items), True)
            losses = model(**batch, mode='loss')
            loss = sum(value for name, value in losses.items() if 'loss' in name)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            total += loss.item()
        say(f'epoch {epoch} of {EPOCHS}: loss {total / steps:.2f}')
    return model.eval()


def _keep(
    folder: Path,
    told: dict[str, Any],
    model: nn.Module,
    cfg: Config,
    train: PlantedDataset,
    gallery: PlantedDataset,
    say: Callable[[str], None],
) -> None:
    """Brighten the files, cut them at their moments, encode them, fit biases to the captions."""
    ids, paths, spans, captions, moments = [], [], [], [], []
    said = {(text['video_idx'][0], text['moment']): text['text'] for text in gallery.texts}
    (folder / 'videos').mkdir(exist_ok=True)
    for number, video in enumerate(gallery.videos):
        file = folder / 'videos' / f'clip_{number + 1:03d}.mp4'
        _brighten(video['path'], file)
        for part, moment in enumerate(video['moments'], 1):
            ids.append(f'clip {number + 1:03d}, part {part}')
            paths.append(str(file))
            spans.append((moment['start'], moment['end']))
            captions.append(said[number, part - 1])
            moments.append([moment])
    starts, ends = zip(*spans)
    videos = apis.encode_videos(model, cfg, paths, ids=ids, spans=spans)
    bank, asked = ([text['text'] for text in part.texts] for part in (train, gallery))
    bank, asked, examples = (
        apis.vectors(model, apis.encode_texts(model, cfg, texts).levels)
        for texts in (bank, asked, list(EXAMPLES))
    )
    vectors = apis.vectors(model, videos.levels)
    own = np.array([text['video_idx'] for text in gallery.texts])
    holds = judge([dict(says=[says], background=None) for says in EXAMPLES.values()], moments).holds
    told['shown'] = len(EXAMPLES) * SHOWN
    for name, transform in dict(raw=None, debiased='auto').items():
        fitted = mmvtr.fit(vectors, bank, transform, geometry='inner_product')
        files = np.asarray(fitted.search(asked, 10).ids) // PARTS
        first, told[name] = ((files[:, :k] == own).any(1).sum() for k in (1, 10))
        hits = np.asarray(fitted.search(examples, SHOWN).ids)
        right = told[f'right_{name}'] = np.take_along_axis(holds, hits, 1).sum()
        say(
            f'{name}: {right} of the first {told["shown"]} for the examples are right; of '
            f'{len(own)} new captions {first} find their file first, {told[name]} in ten'
        )
    note = NOTE.format(texts=len(own), **told)
    about = dict(checkpoint=str(folder / 'model.pth'), note=note, examples=list(EXAMPLES))
    options = dict(model=apis.fingerprint(model), about=about)
    options['geometry'] = 'inner_product'  # the model's scores
    with replace_store(folder, vectors.shape[1], **options) as store:
        given = dict(paths=paths, starts=starts, ends=ends, metadata=dict(caption=captions))
        store.add(ids, vectors, **given)
        store.refit(bank, transform='auto', fewer=True)  # texts of few words, so many are alike
        store.persist()


def _brighten(path: Union[str, Path], file: Path) -> None:
    """Write a video as a camera of another gamma would have recorded it, whole or not at all."""
    brighter = np.uint8(255 * np.linspace(0, 1, 256) ** GAMMA)
    frames = read_frames(str(path), lambda times: np.arange(len(times)))
    part = file.with_name(f'part_{os.getpid()}_{file.name}')
    write_mp4(part, brighter[np.stack(frames)], FPS)
    os.replace(part, file)  # another demo may be served from here
