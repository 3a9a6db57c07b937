"""Loop for val and test: encodes each video and each text once, then scores all pairs.

Texts and videos are sliced over the processes without padding and gathered by index; rows of the
score matrix are sliced too. The metrics run on rank 0 and every rank returns their numbers.
"""

from __future__ import annotations

from typing import Any, Callable, Iterator, Mapping, Optional, Sequence, Union

import numpy as np
import torch
from mmengine.dist import all_gather_object, broadcast_object_list, gather_object, get_dist_info
from mmengine.runner import BaseLoop, Runner
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from mmvtr.datasets.records import LENGTHS
from mmvtr.datasets.sampling.collate import collate_of
from mmvtr.engine.loops.evaluation import (
    PRECISIONS,
    Encoded,
    Evaluation,
    bare,
    encode_batch,
    to_device,
)
from mmvtr.engine.loops.facts import Training, together
from mmvtr.engine.loops.facts_of_run import tested_of, trainings_in
from mmvtr.engine.loops.protocol import (
    Part,
    checkpoint_in_words,
    counted,
    embedder_protocol,
    frames_from,
    left_out_of,
    models_in_words,
    part_of,
    precision,
)
from mmvtr.engine.loops.sharded import whole_layers
from mmvtr.errors import UnknownKey
from mmvtr.evaluation import (
    Metric,
    Report,
    evaluate,
    protocol_line,
    results_table,
    transforms_table,
)
from mmvtr.evaluation.metric import metrics_of
from mmvtr.evaluation.queries import QueryValues, queries_of
from mmvtr.functional.uncertainty.gaussian import geometric_sigma
from mmvtr.registry import DATASETS, LOOPS
from mmvtr.structures import Directed, Relation, cat_levels, take


class TwoPassLoader:
    """Loader of this process' share of the videos, then of the texts, each item once.

    Args:
        cfg: like mmengine's dataloader configs: ``dataset``, ``batch_size``, ``num_workers``,
            ``collate_fn`` (default ``collate_retrieval``) and further arguments of DataLoader. No
            sampler: rank r of W takes items r, r + W, r + 2W ...
    """

    def __init__(self, cfg: dict[str, Any]) -> None:
        cfg = dict(cfg)
        unwanted = {'sampler', 'batch_sampler', 'shuffle', 'drop_last'} & cfg.keys()
        if unwanted:
            raise ValueError(
                'RetrievalLoop visits every item once by itself: take '
                f'{", ".join(sorted(unwanted))} out of the val and test dataloader'
            )
        dataset = cfg.pop('dataset')
        self.dataset = DATASETS.build(dataset) if isinstance(dataset, dict) else dataset
        cfg['collate_fn'] = collate_of(cfg)
        self.loaders = [self._loader(self.dataset.view(kind), cfg) for kind in ('video', 'text')]

    @staticmethod
    def _loader(items: Dataset, cfg: dict[str, Any]) -> DataLoader:
        rank, world = get_dist_info()
        return DataLoader(items, sampler=range(rank, len(items), world), **cfg)

    def __len__(self) -> int:
        return sum(len(loader) for loader in self.loaders)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for loader in self.loaders:
            yield from loader


@LOOPS.register_module()
class RetrievalLoop(BaseLoop):
    """Loop that evaluates a retriever, for both ``val_cfg`` and ``test_cfg``.

    Between scoring and measuring, hooks with a method ``after_scoring(runner, evaluation)`` get the
    :class:`.Evaluation` on rank 0 and may add transformed scores, whose numbers are reported beside
    the raw ones as ``<name>/retrieval/t2v_R1``.

    Broken videos that the dataset skips are left out of the gallery, and missing ones are not in
    the set. In these cases the table, the log and the protocol line state how many and which; there
    are also the numbers ``set/videos``, ``set/videos_broken``, ``set/videos_missing``,
    ``set/texts`` (those with a video here) and ``set/texts_without_video``, which a complete set
    does not have. The table and the protocol line go to the log, the numbers to the hooks.

    Args:
        runner: the runner.
        dataloader: config, see :class:`TwoPassLoader`.
        evaluator: metrics, or their configs; mmengine's ``BaseMetric`` is also supported
            (:mod:`mmvtr.evaluation.metric`).
        amp: encode under autocast in ``'bf16'`` (or True) or ``'fp16'``; scores are float32 in any
            case.
        tile_rows: texts scored at a time; bounds the memory that a similarity needs.

    Attributes:
        report: :class:`~mmvtr.evaluation.Report` of the last run, on rank 0.
        queries: values of single queries of the last test, on rank 0; None: a validation, or a
            similarity that ranks a shortlist.
        protocol: protocol of the last run, on rank 0, in the form of
            :mod:`mmvtr.evaluation.results`.
    """

    def __init__(
        self,
        runner: Runner,
        dataloader: dict[str, Any],
        evaluator: Union[Metric, dict, Sequence[Union[Metric, dict]]],
        *,
        amp: Union[bool, str] = False,
        tile_rows: int = 512,
    ) -> None:
        super().__init__(runner, TwoPassLoader(dataloader))
        self.evaluator = metrics_of(evaluator, self.dataloader.dataset)
        for metric in self.evaluator:
            metric.prepare()
        if not isinstance(amp, bool) and amp not in PRECISIONS:
            raise ValueError(f'RetrievalLoop: amp must be one of {[*PRECISIONS]}, not {amp!r:.40}')
        self.amp = amp
        self.tile_rows = tile_rows
        self.report: Optional[Report] = None
        self.queries: Optional[QueryValues] = None
        self.protocol: Optional[dict[str, Any]] = None

    @property
    def mode(self) -> str:
        """Return 'test' if this is the runner's test loop, else 'val'."""
        return 'test' if self.runner._test_loop is self else 'val'

    @torch.no_grad()
    def run(self) -> dict[str, float]:
        """Evaluate; return the same numbers on every rank, by keys like ``retrieval/t2v_R1``."""
        with whole_layers(self.runner.model):
            return self._run(self.mode)

    def _run(self, mode: str) -> dict[str, float]:
        self.runner.call_hook(f'before_{mode}')
        self.runner.call_hook(f'before_{mode}_epoch')
        self.runner.model.eval()
        texts, videos, broken = self._encode()
        matrices = self._score(texts, videos)
        metrics = on_rank_0(lambda: self._measure(matrices, texts, videos, broken))
        self.runner.call_hook(f'after_{mode}_epoch', metrics=metrics)
        self.runner.call_hook(f'after_{mode}')
        return metrics

    @property
    def _model(self) -> nn.Module:
        return bare(self.runner.model)

    @property
    def _device(self) -> torch.device:
        return torch.device(self._model.data_preprocessor.device)

    def _encode(self) -> tuple[Encoded, Encoded, list[tuple[str, str]]]:
        """Return all texts, all readable videos, and (video id, reason) of the broken ones."""
        parts: dict[str, list[Encoded]] = dict(text=[], video=[])
        broken: list[tuple[str, str]] = []
        for i, batch in enumerate(self.dataloader):
            self.runner.call_hook(f'before_{self.mode}_iter', batch_idx=i, data_batch=batch)
            broken += batch['data_samples']['broken']
            # One of the two kinds, or none if all its videos are broken; others are extra inputs.
            for kind in parts.keys() & batch['inputs'].keys():
                parts[kind].append(encode_batch(self._model, kind, batch, amp=self.amp))
            self.runner.call_hook(f'after_{self.mode}_iter', batch_idx=i, data_batch=batch)
        broken = sum(all_gather_object(broken), [])
        return gather(parts['text'], 'text'), gather(parts['video'], 'video'), broken

    def _score(self, texts: Encoded, videos: Encoded) -> Optional[dict[str, Tensor]]:
        """Return the metrics' matrices, float32 [T, V] on the CPU of rank 0, else None.

        Tile borders do not depend on the number of processes, each of which scores a range of
        tiles: so neither does the matrix.
        """
        tiles = own_tiles(len(texts.ids), self.tile_rows)
        readers = [*self.evaluator, *self.runner.hooks]
        names = sorted({'scores'}.union(*(getattr(reader, 'reads', ()) for reader in readers)))
        count = sum(tile.stop - tile.start for tile in tiles)
        block = {name: torch.empty(count, len(videos.ids)) for name in names}
        gallery = to_device(videos.levels, self._device)
        for tile in tiles:
            some = to_device(take(texts.levels, tile), self._device)
            matrices = self._model.score(some, gallery, names)
            missing = sorted(set(names) - matrices.keys())
            if missing:
                raise UnknownKey(
                    f'metrics and hooks read {missing}, the model gives {sorted(matrices)}'
                )
            rows = slice(tile.start - tiles[0].start, tile.stop - tiles[0].start)
            for name in names:
                block[name][rows] = matrices[name]
            self.runner.call_hook('after_scored_tile', done=rows.stop, total=count)
        blocks = gather_object(block)
        if blocks is None or len(blocks) == 1:
            return blocks and blocks[0]
        return {name: torch.cat([block[name] for block in blocks]) for name in names}

    def _measure(
        self,
        matrices: dict[str, Tensor],
        texts: Encoded,
        videos: Encoded,
        broken: Sequence[tuple[str, str]],
    ) -> dict[str, float]:
        dataset, trainings = self.dataloader.dataset, trainings_in(self.runner)
        info, relation = dataset.protocol(), relation_of(dataset, texts, videos)
        matrices = {**matrices, 'temperature': self._model.temperature().cpu()}
        for kind, items in (('text', texts), ('video', videos)):
            if 'gaussian' in items.levels:
                matrices[f'{kind}_sigma'] = geometric_sigma(items.levels['gaussian'].log_std)
        evaluation = Evaluation(
            self._model,
            self._device,
            texts,
            videos,
            matrices,
            relation,
            exact=getattr(self._model.similarity, 'exact', True),
            mode=self.mode,
            dataset=dataset,
            about=dict(
                tested=tested_of(info, len(relation.text_ids), len(relation.video_ids)),
                training=[training.as_dict() for training in trainings],
            ),
        )
        self.runner.call_hook('after_scoring', evaluation=evaluation)
        transformed = evaluation.transformed
        report = evaluate(self.evaluator, matrices, relation, transformed)
        if self.mode == 'test' and evaluation.exact:
            self.queries = queries_of(self.evaluator, matrices['scores'], relation, transformed)
        if not evaluation.exact:
            report = text_queries_only(report)
            self.runner.logger.warning(
                'The similarity ranks a shortlist for each text: results of other directions mean '
                'nothing and are left out.'
            )
        self.report = report._replace(values={**report.values, **evaluation.numbers})
        part = part_of(dataset, relation, broken)
        if broken:
            names = ''.join(f'\n  {video_id}: {reason}' for video_id, reason in broken)
            self.runner.logger.warning(
                f'{len(broken)} broken videos are left out of the gallery: these results are not '
                f'those of the whole set, and cannot be compared with them.{names}'
            )
        tables = [results_table(self.report, part and part.in_words())]
        if evaluation.transformed:
            notes = '\n'.join(f'{name}: {note}' for name, note in evaluation.notes.items())
            tables += [transforms_table(self.report), notes]
        protocol = self._protocol(info, trainings, relation, texts, videos, broken, part)
        line = protocol_line(protocol)
        self.protocol = dict(line=' '.join(line.split()), **evaluation.about)
        tables.append(line)
        shown = '\n\n'.join(tables)
        self.runner.logger.info(f'results on {self.mode}{self._ensemble()}\n\n{shown}\n')
        return {**self._numbers(evaluation), **(part.numbers() if part else {})}

    def _ensemble(self) -> str:
        """Return, for the table's title, the number of models whose scores were summed."""
        members = self.runner.message_hub.get_info('ensemble')
        if not members:
            return ''
        return '\n  '.join([f' of an ensemble of {len(members)}, scores added:', *members])

    def _numbers(self, evaluation: Evaluation) -> dict[str, float]:
        """Return all results by key; those of a transform have its name as prefix."""
        numbers = dict(self.report.values)
        for name, values in self.report.transformed.items():
            numbers.update({f'{name}/{key}': value for key, value in values.items()})
            numbers[f'{name}/transductive'] = float(name in evaluation.transductive)
        return numbers

    def _protocol(
        self,
        info: Mapping[str, Any],
        trainings: Sequence[Training],
        relation: Relation,
        texts: Encoded,
        videos: Encoded,
        broken: Sequence[tuple[str, str]],
        part: Optional[Part],
    ) -> dict[str, Any]:
        facts = together(trainings)
        seed = facts.pop('seed', None) if trainings else self.runner.seed
        dataset = self.dataloader.dataset
        left_out, chosen_not = left_out_of(dataset), getattr(dataset, 'not_chosen', ())
        missing = [name for name in left_out.names if name not in chosen_not] if left_out else ()
        return {
            'set': ' '.join(filter(None, (info['dataset'], info['split']))),
            'ids': info['ids_sha'],
            'splits': info.get('splits'),
            'texts': len(relation.text_ids),
            'videos': len(relation.video_ids),
            'captions a video': span(relation.positives.sum(0)),
            'tested on': part and part.in_words(),
            'indices': info.get('indices'),
            'broken and left out': counted([video_id for video_id, _ in broken]),
            'missing and left out': counted(missing),
            'words a text': span(texts.lengths),
            'frames a video': span(videos.lengths),
            'frames from': frames_from(self.runner.cfg.get(f'{self.mode}_dataloader')),
            **embedder_protocol(self._model, self.runner.cfg.get(f'{self.mode}_dataloader')),
            'precision': precision(self.amp, facts.pop('trained in', None)),
            'ties': 'mean rank',
            **facts,
            'model': models_in_words(self._model, self.runner.message_hub.get_info('ensemble')),
            'checkpoint': checkpoint_in_words(self.runner) if self.mode == 'test' else None,
            'zero-shot:': self.runner.message_hub.get_info('zero_shot'),
            'seed': seed,
        }


def own_tiles(rows: int, tile: int) -> list[slice]:
    """Return this process' range of tiles of at most ``tile`` rows."""
    rank, world = get_dist_info()
    starts = np.array_split(np.arange(0, rows, tile), world)[rank].tolist()
    return [slice(start, min(start + tile, rows)) for start in starts]


def gather(parts: Sequence[Encoded], kind: str) -> Encoded:
    """Return all ranks' batches as one, in the order of the dataset.

    Raises:
        ValueError: there are no batches.
    """
    parts = sum(all_gather_object(list(parts)), [])
    if not parts:
        raise ValueError(f'the set has no readable {kind}: nothing to evaluate')
    items = joined(parts)
    return items.rows(items.index.argsort())


def joined(parts: Sequence[Encoded]) -> Encoded:
    """Return one or more batches as one, in order."""
    return Encoded(
        index=torch.cat([part.index for part in parts]),
        ids=[item_id for part in parts for item_id in part.ids],
        levels=cat_levels([part.levels for part in parts]),
        lengths=torch.cat([part.lengths for part in parts]),
    )


def relation_of(dataset: Dataset, texts: Encoded, videos: Encoded) -> Relation:
    """Return the dataset's annotations of the encoded texts and videos."""

    def known(matrix: Optional[np.ndarray]) -> Optional[Tensor]:
        if matrix is None:
            return None
        matrix = torch.as_tensor(matrix)
        complete = matrix.shape == (len(texts.ids), len(videos.ids))
        return matrix if complete else matrix[texts.index][:, videos.index]

    ratio, judgments = dataset.moment_ratio(), dataset.judgments()
    return Relation(
        positives=known(dataset.positives()),
        truth=known(dataset.truth()),
        relevance=known(dataset.relevance()),
        text_ids=texts.ids,
        video_ids=videos.ids,
        moment_ratio=None if ratio is None else torch.as_tensor(ratio)[texts.index],
        **lengths(dataset, videos),
        text_actions=actions(dataset.texts, texts),
        video_actions=actions(dataset.videos, videos),
        judgments=judgments and Directed(*map(known, judgments)),
    )


def lengths(dataset: Dataset, videos: Encoded) -> dict[str, Any]:
    """Return ``video_lengths`` and ``length_unit``: frames if known of all videos, else seconds."""
    for unit, key in LENGTHS.items():
        if all(key in video for video in dataset.videos):
            values = torch.as_tensor(dataset.lengths(unit))
            return dict(video_lengths=values[videos.index], length_unit=unit)
    return {}


def actions(records: Sequence[dict], items: Encoded) -> Sequence[tuple[tuple[int, int], ...]]:
    """Return the (verb, noun) classes of each item, if the dataset has them."""
    chosen = [records[i] for i in items.index.tolist()]
    if not all('actions' in record for record in chosen):
        return ()
    return [tuple(record['actions']) for record in chosen]


def text_queries_only(report: Report) -> Report:
    """Return a report without numbers of metrics that read a score matrix by columns."""

    def rows(numbers: dict[str, float]) -> dict[str, float]:
        return {k: v for k, v in numbers.items() if k.partition('/')[2].startswith('t2v_')}

    limits = dict(chance=rows(report.chance), ceiling=rows(report.ceiling))
    return Report(rows(report.values), **limits, alike=rows(report.alike))


def on_rank_0(function: Callable[[], Any]) -> Any:
    """Call ``function`` on rank 0; return its result, or raise its error, on every rank."""
    box = [None, None]
    if get_dist_info()[0] == 0:
        try:
            box[0] = function()
        except Exception as error:  # noqa: BLE001 - raised below, after all ranks have got it
            box[1] = error
    broadcast_object_list(box)
    if box[1] is not None:
        raise box[1]
    return box[0]


def span(counts: Tensor) -> str:
    """Return a count or range in words, '12', or '1-81 (mean 41.4)'."""
    low, high = int(counts.min()), int(counts.max())
    return str(low) if low == high else f'{low}-{high} (mean {counts.double().mean():.1f})'
