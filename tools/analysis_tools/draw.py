"""Draw pictures of a model's test: top results, uncertainty, hubs (docs/pictures.md).

    python tools/analysis_tools/draw.py CONFIG CHECKPOINT --out DIR
    python tools/analysis_tools/draw.py CONFIG CHECKPOINT --out DIR --pictures sheet --queries ret7
    python tools/analysis_tools/draw.py CONFIG --out DIR               # zero-shot, as tools/test.py
    python tools/analysis_tools/draw.py CONFIG --scores SCORES.npy --out DIR          # of any model

Writes the pictures that PicturesHook makes in a training, as DIR/hubs.png, DIR/sheet_0.png ...
With --scores, float [T, V] in the order of the config's test set, only those that need no model.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from mmvtr.cli.start import tool

from mmengine.config import Config

from mmvtr.cli import Parser, output_folder
from mmvtr.utils import load_config


def parse_args() -> argparse.Namespace:
    parser = Parser(__doc__)
    add = parser.add_argument
    add('config', help='config file')
    add('checkpoint', nargs='?', help='weights of the whole model; none: as the config builds it')
    add(
        '--out',
        type=output_folder,
        required=True,
        metavar='DIR',
        help='folder for the pictures, made if need be',
    )
    add(
        '--pictures',
        nargs='+',
        metavar='NAME',
        help='which pictures to draw; default: all that the model can give',
    )
    add('--queries', nargs='+', metavar='ID', help='texts whose hits are drawn (default: 3 drawn)')
    add('--top', type=int, default=5, help='hits of a query (default: 5)')
    add('--seed', type=int, default=0, help='seed of the draws (default: 0)')
    add(
        '--scores', metavar='FILE', help='.npy of ScoresFileHook or of another model: no model runs'
    )
    add(
        '--random-weights', action='store_true', help='no checkpoint is needed: parts may be random'
    )
    add('--work-dir', help='folder for the log; default work_dirs/<config name>')
    parser.add_cfg_options()
    args = parser.parse_one_checkpoint()
    if args.scores and args.checkpoint:
        raise SystemExit('error: --scores are drawn without a model: leave out the CHECKPOINT')
    return args


@tool
def main() -> None:
    args = parse_args()
    cfg = load_config(args.config, args.cfg_options, args.work_dir)
    if cfg.get('test_dataloader') is None:
        raise SystemExit(f'error: {args.config} has no test_dataloader')
    if args.scores:
        draw_scores(cfg, args)
    else:
        draw_model(cfg, args)


def draw_model(cfg: Config, args: argparse.Namespace) -> None:
    """Test the model like tools/test.py, with a hook that draws."""
    # Import here what takes seconds.
    from mmvtr.engine.checks.config_checks import check_config
    from mmvtr.engine.testing import checkpoints_of, runner_of_test

    check_config(cfg, args.cfg_options, training=False)
    weights = checkpoints_of(cfg, [args.checkpoint] if args.checkpoint else [])
    runner = runner_of_test(cfg, weights, random=args.random_weights)
    runner.register_hook(make_hook(args))
    runner.test()


def make_hook(args: argparse.Namespace):
    """Return a PicturesHook from the command's arguments."""
    from mmvtr.engine import PicturesHook

    chosen = {name: getattr(args, name) for name in ('pictures', 'queries') if getattr(args, name)}
    return PicturesHook(**chosen, top=args.top, seed=args.seed, out=str(args.out))


def draw_scores(cfg: Config, args: argparse.Namespace) -> None:
    """Draw the pictures that need only scores.

    Raises:
        ValueError: the file is not float [T, V] of the test set, or unknown queries.
    """
    import torch

    from mmvtr.engine import Evaluation
    from mmvtr.engine import launching as launch
    from mmvtr.engine.hooks.pictures import lacking
    from mmvtr.engine.hooks.pictures_hook import figures, request_for
    from mmvtr.engine.hooks.tested_model import TestedModel, refuse_unknown_ids
    from mmvtr.engine.loops.evaluation import Encoded
    from mmvtr.engine.loops.evaluation_loop import relation_of
    from mmvtr.visualization import save

    hook = make_hook(args)
    dataset = launch.check_datasets(cfg, ['test_dataloader'])['test_dataloader']
    texts, videos = (
        Encoded(torch.arange(len(items)), [item[key] for item in items], {}, torch.zeros(0))
        for items, key in ((dataset.texts, 'text_id'), (dataset.videos, 'video_id'))
    )
    scores = read_scores(args.scores, (len(texts.ids), len(videos.ids)))
    relation = relation_of(dataset, texts, videos)
    matrices, device = dict(scores=scores), torch.device('cpu')
    evaluation = Evaluation(None, device, texts, videos, matrices, relation, dataset=dataset)
    if not isinstance(hook.queries, int):
        refuse_unknown_ids(hook.queries, texts.ids)
    request = request_for(TestedModel(evaluation), hook.queries, top=hook.top, seed=hook.seed)
    without = [name for name in hook.pictures if name in lacking(None)]
    if args.pictures and without:
        raise ValueError(f'{", ".join(without)}: a model is needed, not scores alone')
    for name, figure in figures(request, hook.pictures, print):
        save(figure, args.out / f'{name}.png')
        print(args.out / f'{name}.png')


def read_scores(path: str, shape: tuple[int, int]):
    """Return float32 [T, V] from a .npy file.

    Raises:
        ValueError: the file is missing or holds another array.
    """
    import numpy as np
    import torch

    from score_files.reading import read_array

    try:
        scores = read_array(Path(path))
    except FileNotFoundError as error:
        raise ValueError(error) from error
    if scores.shape != shape or scores.dtype.kind not in 'iuf':
        raise ValueError(
            f'{path}: numbers {list(shape)} expected, a row for each text and a column for each '
            f'video of the test set, got {scores.dtype} {list(scores.shape)}'
        )
    scores = torch.from_numpy(scores.astype(np.float32))
    if not scores.isfinite().all():
        row, column = (~scores.isfinite()).nonzero()[0].tolist()
        raise ValueError(f'{path}: {scores[row, column]} in row {row}, column {column}')
    return scores


if __name__ == '__main__':
    main()
