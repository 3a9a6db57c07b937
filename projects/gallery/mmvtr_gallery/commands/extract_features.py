"""Write the frame features of a config's videos, to train on in place of the videos.

    mmvtr extract_features CONFIG [CHECKPOINT] --out DIR [--format npy|hdf5] [--texts]
    mmvtr extract_features CONFIG CHECKPOINT --out DIR --format parquet [--features]
        [--videos LIST.csv] [--engine ray]

The frame tower ``model.encoder.frames`` sees the frames of the test dataset's video pipeline, for
the videos of the train, val and test datasets alike. ``LoadFeatures`` reads the result: ``DIR``
(npy: ``VIDEO_ID.npy``, float32 [F, D]) or ``DIR/features.h5``. Features that are stored already are
not computed again. For a tower that takes windows (``TorchvisionClips``, with ``LoadClips``) a row
is one window.

With ``--texts`` the text tower ``model.encoder.text`` encodes their texts instead: ``TEXT_ID.npy``,
float32 [L, D], a row per word and special token, which ``LoadTextFeatures`` reads.

``--format parquet`` writes the whole model's output for a gallery, a row per video: id, the vector
that is searched, its log standard deviation if the model has one, with ``--features`` also the
frame features; a broken video is a row with an ``error``.  ``--videos``: a csv of id, path and, if
need be, start and end in seconds, in place of the config's datasets.

Under torchrun each process encodes its share (npy and parquet).  A killed run resumes where it
stopped.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import Any, Iterator, Sequence

from mmvtr.cli.start import tool

from mmengine.config import Config

from mmvtr.cli import Parser, count, output_folder
from mmvtr.utils import load_config


def parse_args() -> argparse.Namespace:
    parser = Parser(__doc__)
    add = parser.add_argument
    add('config', help='config file')
    add(
        'checkpoint',
        nargs='?',
        help="default: the tower's own (pretrained) weights",
    )
    add(
        '--random-weights', action='store_true', help='no checkpoint is needed: parts may be random'
    )
    add(
        '--out',
        required=True,
        metavar='DIR',
        type=output_folder,
        help='folder to write; files that are already there are kept',
    )
    add(
        '--format',
        choices=['npy', 'hdf5', 'parquet'],
        default='npy',
        help='a file for each item, one for all, or rows of the whole model (default: npy)',
    )
    add('--videos', metavar='CSV', help='which videos, with --format parquet (default: all)')
    add('--features', action='store_true', help='with --format parquet: frame features as well')
    add('--engine', choices=['here', 'ray'], default='here', help='what runs it (default: here)')
    add('--texts', action='store_true', help='word features of the texts, not of the videos')
    add(
        '--batch-size',
        type=count,
        default=8,
        metavar='ITEMS',
        help='items encoded at a time (default: 8)',
    )
    parser.add_cfg_options()
    return parser.parse_one_checkpoint()


#: Numbers of normalised frames encoded at a time: 256 MiB, 445 frames of 224 x 224.
AT_ONCE = 1 << 26


class NpyStore:
    """A folder with one ``VIDEO_ID.npy`` per video; a file that exists is complete."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __contains__(self, video_id: str) -> bool:
        return self._path(video_id).is_file()

    def write(self, video_id: str, features: Any) -> None:
        """Store float32 [F, D] of a video, or [L, D] of a text."""
        from mmvtr.storage.arrays import write_array

        write_array(self._path(video_id), features)

    def finish(self) -> None:
        """Do nothing: the files are complete."""

    def _path(self, video_id: str) -> Path:
        from mmvtr.datasets.folders import file_of

        return file_of(self.folder, video_id, '.npy')


class Hdf5Store:
    """``features.h5`` with one dataset per video, written at the end from a folder of npy files."""

    def __init__(self, folder: Path) -> None:
        from mmvtr.storage.arrays import load_h5py

        self.path = folder / 'features.h5'
        self.parts = NpyStore(folder / 'parts')
        self.complete: set[str] = set()
        h5py = load_h5py(self.path)
        if self.path.is_file():
            with h5py.File(self.path) as file:
                self.complete = set(file)

    def __contains__(self, video_id: str) -> bool:
        from mmvtr.storage.arrays import name_in_hdf5

        return name_in_hdf5(video_id, 'video') in self.complete or video_id in self.parts

    def write(self, video_id: str, features: Any) -> None:
        """Store float32 [F, D]."""
        self.parts.write(video_id, features)

    def finish(self) -> None:
        """Move the new features into the file."""
        import numpy as np

        from mmvtr.storage.arrays import new_hdf5

        new = sorted(self.parts.folder.glob('*.npy'))
        if not new:
            return
        with new_hdf5(self.path, keep=True) as file:
            for path in new:
                if path.stem not in file:  # a run was killed between this and the next step
                    file[path.stem] = np.load(path)
        shutil.rmtree(self.parts.folder)


@tool
def main() -> None:
    args = parse_args()
    if args.format == 'parquet':
        extract_rows(args)
        return
    wanting = [f'--{n}' for n in ('videos', 'features') if getattr(args, n)]
    if wanting or args.engine != 'here':
        raise SystemExit(f'error: {", ".join(wanting) or "--engine"} needs --format parquet')
    from mmvtr_gallery.extraction.share import Share

    share = Share.of_environment()
    if share.world > 1 and args.format == 'hdf5':
        raise SystemExit('error: hdf5 is one file: several processes want --format npy or parquet')
    cfg = load_config(args.config, args.cfg_options)
    kind = 'text' if args.texts else 'video'

    from mmvtr.cli.progress import show_progress

    model = build_model(cfg, args, share.device)
    datasets = build_datasets(cfg, kind)
    args.out.mkdir(parents=True, exist_ok=True)
    tower = model.encoder.text if args.texts else model.encoder.frames
    check_origin(args.out / 'origin.txt', tower, cfg.test_dataloader.dataset[f'{kind}_pipeline'])
    store = NpyStore(args.out) if args.format == 'npy' else Hdf5Store(args.out)
    todo = missing(datasets, store, kind, share)
    count = sum(len(indices) for _, indices in todo)
    print(
        f'{args.out}: {count} {kind}s to do, {num_items(datasets, kind, share) - count} are there'
    )
    broken = []
    loader = cfg.get('train_dataloader') or cfg.test_dataloader
    with show_progress(f'{kind}s encoded', count) as advance:
        for dataset, indices in todo:
            for batch in batches(dataset.view(kind), indices, args.batch_size, loader):
                broken += batch['data_samples']['broken']
                for name, features in encode(model, batch, kind):
                    store.write(name, features)
                    advance()
    store.finish()
    print(f'{args.out}: done, {len(broken)} broken videos left out')
    for video_id, reason in broken:
        print(f'  {video_id}: {reason}')


def extract_rows(args: argparse.Namespace) -> None:
    """Write the Parquet rows of ``--format parquet``."""
    if args.texts:
        raise SystemExit('error: --format parquet has rows of videos: --texts needs npy or hdf5')
    cfg = load_config(args.config, args.cfg_options)
    from mmvtr.cli.progress import show_progress
    from mmvtr_gallery.extraction.engines import run_here, run_on_ray
    from mmvtr_gallery.extraction.extractor import Extractor
    from mmvtr_gallery.extraction.parts import Parts
    from mmvtr_gallery.extraction.rows import listed_videos
    from mmvtr_gallery.extraction.share import Share

    share = Share.of_environment()
    if args.engine == 'ray' and share.world > 1:
        raise SystemExit('error: --engine ray has processes of its own: start it without torchrun')
    records = listed_videos(Path(args.videos)) if args.videos else videos_of(cfg)
    model = dict(features=args.features, random_weights=args.random_weights)
    extractor = Extractor(cfg, args.checkpoint, **model, device=share.device)
    pipeline = [*cfg.test_dataloader.dataset.video_pipeline, f'features: {args.features}']
    args.out.mkdir(parents=True, exist_ok=True)
    check_origin(args.out / 'origin.txt', extractor.model, pipeline)
    parts = Parts(args.out)
    there = parts.ids()
    mine = [records[i] for i in share.places(record['id'] for record in records)]
    todo = [record for record in mine if record['id'] not in there]
    print(f'{args.out}: {len(todo)} videos to do, {len(mine) - len(todo)} are there')
    if not todo:
        return
    loader = cfg.get('train_dataloader') or cfg.test_dataloader
    with show_progress('videos encoded', len(todo)) as advance:
        options = dict(batch_size=args.batch_size, advance=advance)
        if args.engine == 'ray':
            del extractor  # Ray's actors build their own
            broken = run_on_ray(cfg, args.checkpoint, todo, parts, **model, **options)
        else:
            workers = loader.get('num_workers', 0)
            broken = run_here(extractor, todo, parts, num_workers=workers, **options)
    print(f'{args.out}: done, {broken} broken videos, whose rows say why')


def videos_of(cfg: Config) -> list[dict[str, Any]]:
    """Return id, path, start and end of the videos of all datasets, without duplicates."""
    records = {
        video['video_id']: dict(
            id=video['video_id'], **{k: video.get(k) for k in ('path', 'start', 'end')}
        )
        for dataset in build_datasets(cfg, 'video')
        for video in dataset.videos
    }
    return list(records.values())


def build_model(cfg: Config, args: argparse.Namespace, device: str) -> Any:
    """Return the config's model; refuse a random requested tower without --random-weights."""
    from mmvtr.apis import load_retriever
    from mmvtr.engine.checks.zero_shot import admit_random, refuse_random

    if args.random_weights:
        admit_random(cfg.model)
    model, _ = load_retriever(cfg, args.checkpoint, random_weights=True, device=device)
    if args.checkpoint is None and not args.random_weights:
        refuse_random(model, cfg, within=f'encoder.{"text" if args.texts else "frames"}')
    return model


def build_datasets(cfg: Config, kind: str) -> list[Any]:
    """Return all dataloaders' datasets; items of one kind use the test dataset's pipeline.

    Items of the other kind are not loaded: extracting texts needs no video files.
    """
    from mmvtr.engine.launching import LOADERS, check_datasets

    pipelines = {'video_pipeline': [], 'text_pipeline': []}
    own = f'{kind}_pipeline'
    pipelines[own] = cfg.test_dataloader.dataset[own]
    for loader in filter(cfg.get, LOADERS):
        cfg[loader].dataset.update(pipelines)
    return [*check_datasets(cfg).values()]


def check_origin(path: Path, tower: Any, pipeline: list[Any]) -> None:
    """Stop if the folder's features come from another tower or another input pipeline.

    Raises:
        SystemExit: they do.
    """
    from mmvtr.apis import origin_of
    from mmvtr.storage import write_text

    steps = '\n'.join(map(str, pipeline))
    origin = f'{origin_of(tower)}\n{steps}\n'
    if not path.is_file():
        write_text(path, origin)
    elif path.read_text() != origin:
        raise SystemExit(
            f'error: {path.parent} holds features of another origin:\n{path.read_text()}'
            f'These would be of:\n{origin}Choose another --out.'
        )


def missing(datasets: list[Any], store: Any, kind: str, share: Any) -> list[tuple[Any, list[int]]]:
    """Return the indices of this process's items to compute, for each dataset, without duplicates.

    Raises:
        SystemExit: an id that is no file name, as the file would be written outside the folder.
    """
    seen: set[str] = set()
    todo = []
    for dataset in datasets:
        names = ids(dataset, kind)
        mine = ((i, names[i]) for i in share.places(names))
        new = [i for i, n in mine if n not in seen and n not in store]
        todo.append((dataset, new))
        seen.update(names)
    return todo


def num_items(datasets: list[Any], kind: str, share: Any) -> int:
    """Return the number of different videos, or texts, that this process encodes."""
    return len(share.places({name for dataset in datasets for name in ids(dataset, kind)}))


def ids(dataset: Any, kind: str) -> list[str]:
    """Return the ids of all videos, or texts, of a dataset."""
    return [record[f'{kind}_id'] for record in getattr(dataset, f'{kind}s')]


def batches(
    items: Any, indices: list[int], batch_size: int, loader: Config
) -> Iterator[dict[str, Any]]:
    """Return collated batches of the videos or texts at ``indices`` of a dataset."""
    from torch.utils.data import DataLoader

    from mmvtr.datasets import collate_retrieval

    return iter(
        DataLoader(
            items,
            sampler=indices,
            batch_size=batch_size,
            num_workers=loader.get('num_workers', 0),
            collate_fn=collate_retrieval,
        )
    )


def encode(model: Any, batch: dict[str, Any], kind: str) -> Iterator[tuple[str, Any]]:
    """Yield ids and features, float32 [F, D] for each video of a batch or [L, D] for each text."""
    import torch

    if kind not in batch['inputs']:  # all are broken
        return
    names = batch['data_samples'][f'{kind}_ids']
    with torch.no_grad():
        if kind == 'video':
            videos = batch['inputs']['video']
            rows = encode_videos(model, videos).split([len(frames) for frames in videos])
        else:
            inputs = model.data_preprocessor(batch, False)['inputs']
            mask = inputs['text_mask']
            features = model.encoder.text(inputs['text'], mask)[0][mask]
            rows = features.float().cpu().split(mask.sum(1).tolist())
    yield from ((name, row.numpy()) for name, row in zip(names, rows))


def encode_videos(model: Any, videos: Sequence[Any]) -> Any:
    """Encode the frames [F, 3, H, W] (or windows of them) of each video -> float32 [sum of F, D].

    Frames are encoded in chunks, as all windows of a long video may not fit into memory.

    Raises:
        ValueError: frames of different sizes.
    """
    import torch

    sizes = {tuple(frames.shape[1:]) for frames in videos}
    if len(sizes) > 1:
        raise ValueError(f'frames of one batch are of different shapes: {sorted(sizes)}')
    frames, parts = torch.cat([*videos]), []
    for some in frames.split(max(1, AT_ONCE // frames[0].numel())):
        data = dict(inputs=dict(video=[some]), data_samples={})
        inputs = model.data_preprocessor(data, False)['inputs']
        features = model.encoder.frames(inputs['video'][inputs['frame_mask']])
        parts.append(features.float().cpu())
    return torch.cat(parts)


if __name__ == '__main__':
    main()
