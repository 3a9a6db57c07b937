"""Embeddings of texts and videos in a few lines: load a retriever, encode, compare.

Whatever the config says of the test set holds here too: the same frames, the same tokens.
"""

from __future__ import annotations

import copy
import hashlib
import json
import logging
import os
from pathlib import Path
from typing import Any, Iterable, Optional, Sequence, Union

import torch
from mmengine.config import Config
from mmengine.device import get_device
from mmengine.dist import all_gather_object, is_main_process
from mmengine.logging import print_log
from mmengine.registry import init_default_scope
from torch import Tensor, nn
from torch.utils.data import Dataset

from mmvtr.datasets import VideoTextDataset, collate_retrieval
from mmvtr.datasets.files import visible
from mmvtr.datasets.videos.broken_list import OnBroken
from mmvtr.datasets.words.cut_texts import cut_tokens
from mmvtr.engine.checkpoint import check_weights, read_checkpoint
from mmvtr.engine.evaluation import Encoded, encode_batch
from mmvtr.engine.evaluation_loop import TwoPassLoader, gather
from mmvtr.engine.zero_shot import admit_random, refuse_random
from mmvtr.functional.uncertainty.gaussian import geometric_sigma
from mmvtr.plain_config import as_config
from mmvtr.progress import show_progress
from mmvtr.reasons import without_workers
from mmvtr.registry import MODELS
from mmvtr.store import GalleryStore
from mmvtr.structures import Levels
from mmvtr.utils import forget_pretrained, load_config


def load_retriever(
    config: Union[str, Path, Config],
    checkpoint: Optional[Union[str, Path]],
    *,
    random_weights: bool = False,
    device: Optional[Union[str, torch.device]] = None,
) -> tuple[nn.Module, Config]:
    """A trained retriever in eval mode, and its config.

    Args:
        config: a config file, or what was read from one.
        checkpoint: weights of the whole model; None: the pretrained ones that the config names.
        random_weights: without a checkpoint, what no pretrained weights fill may be random, of the
            config's seed.
        device: default a GPU where there is one.

    Raises:
        FileNotFoundError: no such config or checkpoint.
        RuntimeError: the checkpoint is damaged, or of another model (names what differs); weights
            that can be neither found nor downloaded.
        ValueError: without a checkpoint parts of the model would be random (names them).

    Example:
        ::

            >>> model, cfg = load_retriever('configs/c2v_planted.py', 'epoch_10.pth')
            >>> texts = encode_texts(model, cfg, ['a cyan cross bounces'])
            >>> videos = encode_videos(model, cfg, ['one.mp4', 'two.mp4'])
            >>> scores = vectors(model, texts.levels) @ vectors(model, videos.levels).t()
    """
    cfg = copy.deepcopy(config) if isinstance(config, Config) else Config.fromfile(config)
    if checkpoint is not None:
        if not os.path.isfile(checkpoint):  # before a model is built in vain
            raise FileNotFoundError(f'checkpoint {checkpoint} does not exist')
        forget_pretrained(cfg.model)
    elif random_weights:
        admit_random(cfg.model)
    init_default_scope(cfg.get('default_scope', 'mmvtr'))
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(cfg.get('randomness', {}).get('seed') or 0)
        model = MODELS.build(cfg.model)
    if checkpoint is not None:
        weights = read_checkpoint(checkpoint)['state_dict']
        model.load_state_dict(check_weights(model, weights, checkpoint))
    elif not random_weights:
        refuse_random(model, cfg)
    return model.to(device or get_device()).eval(), cfg


@torch.no_grad()
def encode_set(
    model: nn.Module,
    data: Union[Dataset, dict[str, Any]],
    *,
    kinds: Sequence[str] = ('text', 'video'),
    progress: bool = False,
) -> dict[str, Encoded]:
    """Encode every text and every video of a set, each once.

    Broken videos that the dataset skips are missing from the result, and a warning names them.
    Under a distributed launcher the processes share the work and all get the whole result.

    Args:
        model: a retriever in eval mode.
        data: a dataset, or the config of a dataloader that does not shuffle, such as
            ``cfg.test_dataloader``.
        kinds: what to encode.
        progress: show a bar.

    Returns:
        For each kind its :class:`~mmvtr.engine.evaluation.Encoded` items in the dataset's order.

    Raises:
        ValueError: a model in training mode, or nothing to encode.
        BrokenVideoError: a broken video, of a dataset with ``on_broken='raise'``.

    Example:
        ::

            >>> videos = encode_set(model, cfg.test_dataloader, kinds=['video'])['video']
            >>> dict(zip(videos.ids, videos.levels['global'].mean))  # id -> float32 [D]
    """
    if model.training:
        raise ValueError('the retriever is in training mode: call model.eval() first')
    loader = TwoPassLoader(data if isinstance(data, dict) else dict(dataset=data, batch_size=32))
    loaders = dict(zip(('video', 'text'), loader.loaders))
    parts: dict[str, list[Encoded]] = {kind: [] for kind in kinds}
    broken: list[tuple[str, str]] = []
    shown = progress and is_main_process()
    for kind in kinds:
        batches = loaders[kind]
        words = f'batches of {kind}s encoded'
        with show_progress(words, len(batches), shown=shown) as advance, without_workers():
            for batch in batches:
                broken += batch['data_samples']['broken']
                if kind in batch['inputs']:  # not all videos of the batch are broken
                    parts[kind].append(encode_batch(model, kind, batch, amp=False))
                advance()
    _report(sum(all_gather_object(broken), []))
    return {kind: gather(parts[kind], kind) for kind in kinds}


def encode_texts(
    model: nn.Module, cfg: Config, texts: Sequence[str], *, progress: bool = False
) -> Encoded:
    """Encode texts as those of the test set; a warning counts those that are cut.

    Args:
        model: a retriever in eval mode.
        cfg: its config.
        texts: T of them.
        progress: show a bar.

    Returns:
        T items in that order; their ids are '0', '1' ...

    Raises:
        ValueError: no texts, or an empty one.
        TypeError: one string instead of several.
        KeyError: a word that a closed vocabulary lacks.
    """
    _refuse_string(texts)
    dataset = _Loose(texts=texts, text_pipeline=cfg.test_dataloader.dataset.text_pipeline)
    keys = {'batch_size', 'collate_fn'} & cfg.test_dataloader.keys()  # workers cost more than texts
    loader = {key: cfg.test_dataloader[key] for key in keys}
    loader = dict(loader, dataset=dataset)
    return encode_set(model, loader, kinds=['text'], progress=progress)['text']


def encode_videos(
    model: nn.Module,
    cfg: Config,
    paths: Sequence[Union[str, Path]],
    *,
    ids: Optional[Sequence[str]] = None,
    spans: Optional[Sequence[tuple[Optional[float], Optional[float]]]] = None,
    on_broken: OnBroken = 'raise',
    progress: bool = False,
) -> Encoded:
    """Encode video files as those of the test set.

    Args:
        model: a retriever in eval mode.
        cfg: its config.
        paths: V files.
        ids: one each; default the file names without suffix.
        spans: start and end of each in its file, in seconds; None for the begin or end of it.
        on_broken: 'raise', or 'skip': videos that cannot be read are missing from the result, and a
            warning names them.
        progress: show a bar.

    Returns:
        V items in that order.

    Raises:
        ValueError: no paths, an id that occurs twice, not one id or span a path, or no readable
            video.
        TypeError: one string instead of several.
        FileNotFoundError: a file is missing.
        BrokenVideoError: a video cannot be read and ``on_broken='raise'``.
    """
    _refuse_string(paths)
    ids = [visible(Path(path).stem) for path in paths] if ids is None else list(ids)
    if len(ids) != len(paths):
        raise ValueError(f'one id a video expected: {len(paths)} paths, {len(ids)} ids')
    spans = [(None, None)] * len(paths) if spans is None else list(spans)
    if len(spans) != len(paths):
        raise ValueError(f'one span a video expected: {len(paths)} paths, {len(spans)} spans')
    pipeline = cfg.test_dataloader.dataset.video_pipeline
    videos = []
    for name, path, span in zip(ids, paths, spans):
        times = {key: x for key, x in zip(('start', 'end'), span) if x is not None}
        videos.append(dict(video_id=name, path=str(path), **times))
    dataset = _Loose(videos=videos, video_pipeline=pipeline, on_broken=on_broken)
    loader = dict(cfg.test_dataloader, dataset=dataset)
    return encode_set(model, loader, kinds=['video'], progress=progress)['video']


class TextEncoder:
    """:func:`encode_texts` for who answers many queries: the text pipeline is built once.

    One thread at a time.

    Args:
        model: a retriever in eval mode.
        cfg: its config.

    Raises:
        ValueError: the config reads stored word features, which free texts do not have.
    """

    def __init__(self, model: nn.Module, cfg: Config) -> None:
        refuse_stored_words(cfg)
        self.model = model
        nothing = [dict(video_id='', path='')]
        steps = cfg.test_dataloader.dataset.text_pipeline
        self._dataset = _Loose(videos=nothing, text_pipeline=steps)

    def cut(self, texts: Sequence[str]) -> list[int]:
        """How many tokens at the end of each of T texts are not read; 0 = all is read."""
        steps = self._dataset.text_pipeline.transforms
        return [cut_tokens(steps, record) for record in _records(texts)]

    @torch.no_grad()
    def __call__(self, texts: Sequence[str]) -> Encoded:
        """T texts -> T items in that order.

        Raises:
            KeyError: a word that a closed vocabulary lacks.
        """
        self._dataset.texts = records = _records(texts)
        for step in self._dataset.text_pipeline.transforms:
            if hasattr(step, 'check'):
                step.check(records)
        items = self._dataset.view('text')
        batch = collate_retrieval([items[i] for i in range(len(records))])
        return encode_batch(self.model, 'text', batch, amp=False)


class VideoEncoder:
    """:func:`encode_videos` for who answers many users: a file is read by one thread, and encoded
    by the thread that has the model.

    Args:
        model: a retriever in eval mode.
        cfg: its config.

    Example:
        ::

            >>> encode = VideoEncoder(model, cfg)
            >>> levels = encode(encode.read('one.mp4', start=3.0)).levels
    """

    def __init__(self, model: nn.Module, cfg: Config) -> None:
        self.model, self._cfg = model, cfg

    def read(
        self,
        path: Union[str, Path],
        *,
        start: Optional[float] = None,
        end: Optional[float] = None,
    ) -> dict[str, Any]:
        """A batch of one video, or of a part of it in seconds; any thread, several at a time.

        Raises:
            BrokenVideoError: the video cannot be read.
            FileNotFoundError: the file is missing.
        """
        times = {key: x for key, x in (('start', start), ('end', end)) if x is not None}
        dataset = _Loose(
            videos=[dict(video_id='video', path=str(path), **times)],
            video_pipeline=self._cfg.test_dataloader.dataset.video_pipeline,
        )
        collate = {'collate_fn'} & self._cfg.test_dataloader.keys()
        loader = {key: self._cfg.test_dataloader[key] for key in collate}
        return next(iter(TwoPassLoader(dict(loader, dataset=dataset)).loaders[0]))

    @torch.no_grad()
    def __call__(self, batch: dict[str, Any]) -> Encoded:
        """What was read -> one item; one thread at a time."""
        return encode_batch(self.model, 'video', batch, amp=False)


def vectors(model: nn.Module, levels: Levels) -> Tensor:
    """The one vector an item whose inner products are the model's scores, for any vector store.

    Args:
        model: a retriever.
        levels: of N encoded texts or videos.

    Returns:
        float32 [N, D'].

    Raises:
        ValueError: the similarity has no such vectors, or the items lack a level that it reads.
    """
    refuse_without_vectors(model)
    missing = [name for name in model.similarity.levels if name not in levels]
    if missing:
        raise ValueError(
            f'the items have the levels {sorted(levels)}, but {type(model.similarity).__name__} '
            f'reads {missing}: they are of another model'
        )
    return model.similarity.flat(levels).float()


def sigmas(levels: Levels) -> Optional[list[float]]:
    """How uncertain a probabilistic model is of each of N items (UATVR Fig. 3); None of others."""
    if 'gaussian' not in levels:
        return None
    return geometric_sigma(levels['gaussian'].log_std).tolist()


def refuse_without_vectors(model: nn.Module) -> None:
    """Raise ValueError where scores are no inner products: they compare tokens, or in stages."""
    similarity = model.similarity
    if not hasattr(similarity, 'flat') or not getattr(similarity, 'exact', True):
        offer = ''
        if hasattr(similarity, 'shortlist'):
            offer = (
                '; a large gallery it ranks in two stages: model.similarity.shortlist=100 scores '
                "each text's 100 best videos of the cheap first stage (tools/test.py)"
            )
        raise ValueError(
            f'the scores of {type(similarity).__name__} are no inner products of one vector an '
            f'item, which an index of nearest neighbours needs{offer}'
        )


def refuse_stored_words(cfg: Config) -> None:
    """Raise ValueError where a text is looked up by its id: a free text has none."""
    steps = cfg.test_dataloader.dataset.text_pipeline if cfg.get('test_dataloader') else []
    if any('LoadTextFeatures' in str(step['type']) for step in steps):
        raise ValueError(
            f'{cfg.filename} reads stored word features, which free texts do not have: take a '
            'config with a text tower'
        )


def as_tested(cfg: Config, split: str) -> dict[str, Any]:
    """A dataloader config for a split's items, read as the test set's: nothing is random.

    Args:
        cfg: of a retriever.
        split: 'train', 'val' or 'test'.

    Raises:
        ValueError: the config has no dataloader of that split, or none of the test set.
    """
    for name in (f'{split}_dataloader', 'test_dataloader'):
        if cfg.get(name) is None:
            raise ValueError(f'{cfg.filename} has no {name}')
    loader = copy.deepcopy(cfg.test_dataloader)
    pipelines = {key: loader.dataset[key] for key in ('video_pipeline', 'text_pipeline')}
    loader.dataset = copy.deepcopy(cfg[f'{split}_dataloader'].dataset)
    loader.dataset.update(pipelines)
    return loader


def fingerprint(module: nn.Module) -> str:
    """16 hexadecimal digits of a module's weights and their names, wherever they are stored."""
    weights = hashlib.sha256()
    for name, value in module.state_dict().items():
        weights.update(name.encode())
        weights.update(value.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy())
    return weights.hexdigest()[:16]


def origin_of(module: nn.Module) -> str:
    """What is written beside vectors and features: of which class and weights they are."""
    return f'{type(module).__name__}, weights {fingerprint(module)}'


def load_stored_retriever(
    location: Union[str, Path],
    store: GalleryStore,
    *,
    config: Optional[Union[str, Path]] = None,
    checkpoint: Optional[Union[str, Path]] = None,
) -> tuple[nn.Module, Config]:
    """The retriever that made the vectors of a store, and its config.

    Anybody may have written a store's folder: its config is read as plain data, and runs no code.
    What it encodes is decoded in this process (:func:`decode_here`).

    Args:
        location: of the store.
        store: as it was opened.
        config: a config of your own, which is run as every config is; default that of the store, or
            ``config.json`` in its folder.
        checkpoint: default the one that the store names.

    Raises:
        FileNotFoundError: there is no such config or checkpoint.
        RuntimeError: the checkpoint has other weights than when the vectors were made, or no model
            can be built of the config.
        ValueError: the store's config is none, or asks for code.
    """
    cfg = load_config(str(config)) if config else _stored_config(location, store)
    checkpoint = checkpoint or store.about.get('checkpoint')
    if checkpoint is None:
        raise FileNotFoundError(f'{location} does not say which checkpoint its vectors are of')
    if not isinstance(checkpoint, (str, Path)):
        raise ValueError(f'{location}: its checkpoint is {str(checkpoint)[:80]!r}, no file')
    try:
        model, cfg = load_retriever(cfg, checkpoint)
    except (AssertionError, AttributeError, KeyError, TypeError) as error:
        # An argument, or a value of one, that this version does not know.
        raise RuntimeError(
            f'{location}: its model cannot be built of {cfg.filename or "its config"}: '
            f'{str(error)[:200]}'
        ) from error
    decode_here(cfg)
    if store.model is not None and fingerprint(model) != store.model:
        raise RuntimeError(f'{checkpoint} has other weights than those that {location} is made of')
    return model, cfg


def decode_here(cfg: Config) -> None:
    """Let the test set be decoded in this process, as LanceDB's threads do not survive a fork.

    Args:
        cfg: is changed.
    """
    loader = cfg.get('test_dataloader') or {}
    for key in ('num_workers', 'persistent_workers', 'prefetch_factor', 'multiprocessing_context'):
        loader.pop(key, None)


def _stored_config(location: Union[str, Path], store: GalleryStore) -> Config:
    """The config that lies beside a store's vectors."""
    path = Path(store.config or Path(location, 'config.json'))
    if not path.is_file():
        raise FileNotFoundError(
            f'the config of {location} is missing: {path}; --config FILE (config=) names another'
        )
    try:
        data = json.loads(path.read_bytes())
        if not isinstance(data, dict):
            raise ValueError(f'expected a config, found a {type(data).__name__}')
    except (ValueError, RecursionError) as error:
        raise ValueError(f'{path} is damaged: {str(error)[:80]}; export again') from error
    try:
        return as_config(data, str(path))
    except ValueError as error:
        raise ValueError(
            f'{error}; --config FILE (config=) names a config of yours, which is trusted'
        ) from error


class _Loose(VideoTextDataset):
    """Texts alone, or records of videos alone, as a dataset whose ``view`` gives them."""

    def __init__(
        self,
        *,
        texts: Iterable[str] = (),
        videos: Iterable[dict[str, Any]] = (),
        text_pipeline: Sequence[Any] = (),
        video_pipeline: Sequence[Any] = (),
        on_broken: OnBroken = 'raise',
    ) -> None:
        self._given = list(texts), list(videos)
        if not any(self._given):
            raise ValueError('nothing to encode: no text and no video')
        super().__init__(video_pipeline, text_pipeline, on_broken=on_broken)

    def load_annotations(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        texts, videos = self._given
        return videos or [dict(video_id='', path='')], _records(texts)

    def origin(self) -> str:
        return 'the given texts' if self._given[0] else 'the given videos'


def _records(texts: Sequence[str]) -> list[dict[str, Any]]:
    """A text belongs to some video: these to one that is never read."""
    return [dict(text_id=str(i), text=text, video_idx=[0]) for i, text in enumerate(texts)]


def _refuse_string(items: Any) -> None:
    if isinstance(items, str):
        raise TypeError(f'a list of strings expected, not the string {items!r}')


def _report(broken: Sequence[tuple[str, str]]) -> None:
    if broken:
        names = ''.join(f'\n  {video_id}: {reason}' for video_id, reason in broken)
        print_log(f'{len(broken)} broken videos are left out:{names}', 'current', logging.WARNING)
