"""mmengine inferencer: a retriever with a gallery, queried by texts, videos or vectors."""

from __future__ import annotations

import fnmatch
import json
import logging
import os
from functools import cached_property
from pathlib import Path
from typing import Any, Callable, Literal, Mapping, Optional, Union

import torch
from mmengine.config import Config
from mmengine.infer import BaseInferencer
from mmengine.logging import print_log
from torch import nn

from mmvtr.apis import TextEncoder, encode_videos, load_retriever, refuse_stored_words
from mmvtr.apis.inferencer.inputs import (
    Inputs,
    Texts,
    Vectors,
    Videos,
    check_counts,
    reading_config,
    refuse_paths,
    text_inputs,
    vector_inputs,
    video_inputs,
)
from mmvtr.apis.inferencer.named_models import named_model
from mmvtr.apis.inferencer.predictions import as_prediction, draw_sheet, files_of
from mmvtr.apis.inferencer.ranking import (
    Gallery,
    Items,
    RankingSample,
    check_items,
    flat_of,
    items_of,
    rank,
)
from mmvtr.apis.inferencer.transforms import (
    SURE_FIRST,
    check_calibration,
    check_transform,
    fitted_to_bank,
    sure_options,
    surely_of,
)
from mmvtr.apis.pretrained import load_saved, local_folder, push_to_hub, save_pretrained
from mmvtr.datasets.videos.film_strip import film_strip
from mmvtr.engine.hooks.stored_queries import OTHER
from mmvtr.engine.loops.evaluation import Encoded
from mmvtr.functional.uncertainty.calibration import Calibration
from mmvtr.storage import write_text
from mmvtr.utils import config_names
from mmvtr.visualization import save

Kind = Literal['text', 'video']


class VideoRetrievalInferencer(BaseInferencer):
    """Inferencer that finds videos for texts, or texts for videos, in a gallery.

    Texts and videos are read as those of the config's test set.

    Args:
        model: the name of a config of the package (:meth:`list_models`), a config or its file, a
            folder that :meth:`save_pretrained` wrote, or the id of such a folder on the hub.
        weights: a checkpoint or a safetensors file; default: those of the folder, or the pretrained
            ones that the config names.
        device: default a GPU if available.
        gallery: what is searched, see :meth:`set_gallery`; it can also be set later.
        show_progress: show bars while items are encoded.
        **options: options of :meth:`set_gallery`.

    Raises:
        FileNotFoundError: no such file or folder.
        OSError: a file on the hub cannot be fetched (suggests alternatives).
        RuntimeError: weights that are damaged or of another model.
        TypeError: a model, or items of a gallery, of another type.
        ValueError: an unknown name (lists the nearest ones), a config without a test set, a model
            that would be random in whole or in part without weights; see :meth:`set_gallery`.

    Example:
        ::

            >>> find = VideoRetrievalInferencer('own_clip4clip', 'best.pth', gallery='my_clips')
            >>> find('a dog runs', topk=3)['predictions'][0]['hits'][0]
            {'rank': 1, 'id': 'dog', 'item': 'my_clips/dog.mp4', 'score': 0.31}
    """

    def __init__(
        self,
        model: Union[str, Path, Config],
        weights: Optional[Union[str, Path]] = None,
        device: Optional[Union[str, torch.device]] = None,
        *,
        gallery: Optional[Union[Texts, Videos, Vectors]] = None,
        show_progress: bool = True,
        **options: Any,
    ) -> None:
        if gallery is None and options:
            raise ValueError(
                f'{", ".join(sorted(options))} belong to a gallery, but none was given'
            )
        cfg, self._saved = named_model(model)
        if weights is not None and not os.path.isfile(weights):
            raise FileNotFoundError(f'weights {str(weights)[-200:]} do not exist')
        if weights is None and self._saved is not None:
            weights = self._saved.weights
        weights = None if weights is None else str(weights)
        super().__init__(cfg, weights, device, 'mmvtr', show_progress)
        self.gallery: Optional[Gallery] = None
        if gallery is not None:
            self.set_gallery(gallery, **options)

    @classmethod
    def from_pretrained(
        cls, source: Union[str, Path], *, revision: Optional[str] = None, **kwargs: Any
    ) -> VideoRetrievalInferencer:
        """Return an inferencer from a folder of :meth:`save_pretrained` or a repository of the hub.

        Args:
            source: the folder, or the id of the repository.
            revision: revision of the repository.
            **kwargs: arguments of the inferencer.

        Raises:
            FileNotFoundError, OSError, RuntimeError, ValueError: see
                :func:`mmvtr.apis.pretrained.from_pretrained` and the inferencer.
        """
        return cls(local_folder(source, revision=revision), **kwargs)

    def save_pretrained(
        self,
        folder: Union[str, Path],
        *,
        results: Optional[Union[str, Path, Mapping[str, float]]] = None,
        protocol: Optional[str] = None,
        name: Optional[str] = None,
        license: Optional[str] = None,
    ) -> Path:
        """Write the model for others, see :func:`mmvtr.apis.pretrained.save_pretrained`."""
        card = dict(results=results, protocol=protocol, name=name, license=license)
        return save_pretrained(self.model, self.cfg, folder, **card)

    def push_to_hub(self, repo_id: str, **options: Any) -> str:
        """Upload the model, see :func:`mmvtr.apis.pretrained.push_to_hub`; return its address."""
        return push_to_hub(self.model, repo_id, cfg=self.cfg, **options)

    @staticmethod
    def list_models(pattern: Optional[str] = None) -> list[str]:
        """Return the names for ``model`` that match a pattern such as ``'dvtr_*msrvtt*'``."""
        names = config_names()
        return names if pattern is None else fnmatch.filter(names, pattern)

    # -- the gallery ----------------------------------------------------------------------

    def set_gallery(
        self,
        gallery: Union[Texts, Videos, Vectors],
        *,
        kind: Kind = 'video',
        batch_size: Optional[int] = None,
        on_broken: Literal['raise', 'skip'] = 'raise',
        show_progress: Optional[bool] = None,
        transform: Optional[str] = None,
        bank: Optional[Union[str, Path]] = None,
        captions: Any = None,
        calibration: Optional[Calibration] = None,
        **options: Any,
    ) -> None:
        """Encode the items to search from now on.

        Args:
            gallery: videos: a folder of any depth, a list of files, or a dict id -> file (for a
                config that reads features, a folder of npy files or a list of ids). Texts: a list,
                or a dict id -> text. Or encoded items:
                :class:`~mmvtr.engine.loops.evaluation.Encoded`, or flat vectors, float [N, D'].
            kind: kind of the items, 'video' or 'text'.
            batch_size: items encoded at a time; default the config's.
            on_broken: for videos that cannot be read: 'raise', or 'skip' with a warning.
            show_progress: show bars while items are encoded; default that of the inferencer.
            transform: ``'auto'``, or a name of the table of transforms that reads a bank
                (docs/arrays.md), such as ``'sinkhorn'``: it adjusts the scores by ``bank``, so that
                no item is retrieved for every query (hubness). Or, for texts, ``'sure_first'``: the
                best text that surely holds comes first.
            bank: a file of tools/export_bank.py: training queries, never the test queries. It is
                optional for ``'sure_first'``: its captions are candidates of what could have been
                written for a video, for galleries that are not such a list.
            captions: for ``'sure_first'``: the training set or its config
                (``cfg.train_dataloader.dataset``), from whose captions implications are learnt.
            calibration: gives each hit P(match) (docs/arrays.md); fitted on the scores that rank:
                raw scores of this model, or those with this transform and bank.
            **options: options of the transform, as in the table; ``temperature='model'`` is the
                model's own. Of ``'sure_first'``: ``temperature``, in score units, by default a
                share of how far each video's best score lies above its mean, and ``sure``, in
                [0, 1], the minimum certainty of a first text.

        Raises:
            BrokenVideoError: a video cannot be read and ``on_broken='raise'``.
            FileNotFoundError: a file is missing.
            RuntimeError: a bank that is damaged or not a bank.
            TypeError, ValueError: items of another form, none at all, or of another model; a
                transform without its inputs, or inputs without a transform.
        """
        if kind not in OTHER:
            raise ValueError(f"kind must be 'video' or 'text', not {str(kind)[:80]!r}")
        if calibration is not None and transform != 'auto':
            check_calibration(calibration, transform)
        bank = None if bank is None else str(bank)
        check_transform(transform, kind, bank=bank, captions=captions, options=options)
        inputs = self._inputs(gallery, kind)
        inputs, items = self._encode(inputs, batch_size, on_broken, show_progress)
        check_items(self.model, items, 'the gallery')
        changed: dict[str, Any] = dict(calibration=calibration)
        if transform == SURE_FIRST:
            common = dict(captions=captions, bank=bank, **sure_options(options))
            changed['surely'] = surely_of(self.model, inputs, items, **common)
        elif transform is not None:
            how = dict(bank=bank, transform=transform, options=options)
            fitted = fitted_to_bank(self.model, kind, items, **how)
            changed['debiaser'], changed['bank'] = fitted
            if calibration is not None and transform == 'auto':  # depends on the chosen transform
                check_calibration(calibration, fitted[0].transform_)
        self.gallery = Gallery(inputs, items, flat_of(self.model, items), **changed)

    # -- asking ---------------------------------------------------------------------------

    def __call__(
        self,
        texts: Optional[Texts] = None,
        return_datasamples: bool = False,
        batch_size: Optional[int] = None,
        *,
        videos: Optional[Videos] = None,
        vectors: Optional[Vectors] = None,
        topk: int = 10,
        visualize: bool = False,
        num_frames: int = 6,
        out_dir: Optional[Union[str, Path]] = None,
        show_progress: Optional[bool] = None,
    ) -> dict[str, Any]:
        """Return the best gallery items for each query; all queries are of one kind.

        Args:
            texts: a text, a list of them, or a dict id -> text; for a gallery of videos.
            return_datasamples: return predictions as
                :class:`~mmvtr.apis.inferencer.ranking.RankingSample`.
            batch_size: queries encoded at a time; default the config's.
            videos: as for :meth:`set_gallery`; for a gallery of texts.
            vectors: encoded queries, of the other kind than the gallery.
            topk: number of hits, or all if there are fewer.
            visualize: draw a sheet for each query (needs matplotlib), with frames of
                the videos.
            num_frames: frames of each video on a sheet.
            out_dir: write ``predictions.json`` and ``vis/N.png`` there.
            show_progress: show bars while the queries are encoded; default that of the inferencer.

        Returns:
            ``predictions``: for each query a dict of ``query_id``, ``query`` (text or file),
            ``kind``, ``hits``, and with a probabilistic model ``sigma``. A hit has ``rank``,
            ``id``, ``item`` (file or text), ``score``; with a transform also ``raw_score``, and
            ``bias`` if the transform adds a number per item, or ``holds``, how surely the text is
            true; with a calibration ``p_match``; with a probabilistic model ``sigma``; with a model
            that matches at a moment ``moment``, its begin and end, and ``moment_unit``: 'seconds'
            with the ``duration`` of the video, or 'share' if its file is unknown.
            ``visualization``: a matplotlib figure for each, or None.

        Raises:
            BrokenVideoError, FileNotFoundError: a video cannot be read, or is missing.
            KeyError: a word that a closed vocabulary lacks.
            TypeError, ValueError: no queries or queries of several kinds, no gallery, queries of
                the gallery's kind or of another model, a ``topk`` below 1; a sheet of videos whose
                files are unknown.
        """
        check_counts(topk=topk, num_frames=num_frames)
        inputs = self._queries(texts, videos, vectors)
        queries = self.preprocess(inputs, batch_size, show_progress)
        if note := self.gallery.asked_before(self.model, queries):
            print_log(note, 'current', logging.WARNING)
        samples = self.forward((inputs, queries), topk=topk)
        predictions = self._as_predictions(samples)
        visualization = self.visualize(
            inputs.sources, predictions, visualize=visualize, num_frames=num_frames
        )
        return self.postprocess(
            samples if return_datasamples else predictions,
            visualization,
            return_datasamples,
            out_dir=out_dir,
        )

    def preprocess(
        self,
        inputs: Inputs,
        batch_size: Optional[int] = None,
        show_progress: Optional[bool] = None,
    ) -> Items:
        """Yield batches of queries, encoded like those of the test set."""
        _, items = self.pipeline(inputs, batch_size, show_progress=show_progress)
        check_items(self.model, items, 'the queries', self.gallery.items)
        return items

    def forward(self, inputs: tuple[Inputs, Items], topk: int = 10) -> list[RankingSample]:
        """Return the best gallery items for each encoded query."""
        return list(rank(self.model, *inputs, self.gallery, topk))

    def visualize(
        self,
        inputs: list[Optional[str]],
        preds: list[dict[str, Any]],
        show: bool = False,
        visualize: bool = False,
        num_frames: int = 6,
    ) -> Optional[list[Any]]:
        """Return a figure for each query (see ``__call__``); ``show`` opens them in windows."""
        if not (visualize or show):
            return None
        files = [file for prediction in preds for file in files_of(prediction)]
        if None in files:
            raise ValueError(
                'a sheet shows frames, but the files of some videos are not known: give them as '
                'files, not as vectors or features'
            )
        strips = {
            file: film_strip(dict(path=file), (), num_frames=num_frames)
            for file in dict.fromkeys(files)
        }
        figures = [draw_sheet(prediction, strips) for prediction in preds]
        if show:
            for figure in figures:
                figure.show()
        return figures

    def postprocess(
        self,
        preds: list,
        visualization: Optional[list[Any]],
        return_datasamples: bool = False,
        out_dir: Optional[Union[str, Path]] = None,
    ) -> dict[str, Any]:
        """Return results as a dict, and write them to ``out_dir`` if given."""
        if out_dir is not None:
            predictions = self._as_predictions(preds) if return_datasamples else preds
            text = json.dumps(predictions, indent=1, ensure_ascii=False) + '\n'
            path = Path(out_dir, 'predictions.json')
            # Bytes of a file's name that are not UTF-8 become json escapes.
            write_text(path, text, errors='backslashreplace')
            for number, figure in enumerate(visualization or []):
                save(figure, Path(out_dir, 'vis', f'{number}.png'))
        return dict(predictions=preds, visualization=visualization)

    # -- what mmengine's inferencer asks for ----------------------------------------------

    def _init_model(self, cfg: Config, weights: Optional[str], device: Any = 'cpu') -> nn.Module:
        if self._saved is not None and weights == str(self._saved.weights):
            return load_saved(self._saved, device=device)[0]
        return load_retriever(cfg, weights, device=device)[0]

    def _init_pipeline(self, cfg: Config) -> Callable[..., tuple[Inputs, Items]]:
        return self._encode

    def _init_collate(self, cfg: Config) -> None:
        """Return no collate function, since encoding collates by itself."""

    def _init_visualizer(self, cfg: Config) -> None:
        """Return None: sheets need no mmengine Visualizer, which would write to a work dir."""

    # -- its own --------------------------------------------------------------------------

    def _queries(
        self, texts: Optional[Texts], videos: Optional[Videos], vectors: Optional[Vectors]
    ) -> Inputs:
        stated = dict(texts=texts, videos=videos, vectors=vectors)
        stated = {name: items for name, items in stated.items() if items is not None}
        if len(stated) != 1:
            raise ValueError(
                f'one of texts, videos and vectors expected, got {" and ".join(stated) or "none"}'
            )
        if self.gallery is None:
            raise ValueError(
                'there is no gallery to search: VideoRetrievalInferencer(..., gallery=...), or '
                'set_gallery(...)'
            )
        kind = OTHER[self.gallery.given.kind]
        if vectors is None and f'{kind}s' not in stated:
            raise ValueError(
                f'the gallery is one of {OTHER[kind]}s, which {kind}s ask: got {next(iter(stated))}'
            )
        if vectors is not None:
            return vector_inputs(vectors, kind)
        return self._inputs(texts if videos is None else videos, kind)

    def _inputs(self, items: Any, kind: str) -> Inputs:
        if isinstance(items, (Encoded, torch.Tensor)):
            return vector_inputs(items, kind)
        if kind == 'video':
            return video_inputs(items, self.cfg)
        inputs = text_inputs(items)
        refuse_paths(inputs)
        refuse_stored_words(self.cfg)
        return inputs

    def _encode(
        self,
        inputs: Inputs,
        batch_size: Optional[int] = None,
        on_broken: str = 'raise',
        show_progress: Optional[bool] = None,
    ) -> tuple[Inputs, Items]:
        """Return the encoded inputs and their levels or vectors, without skipped broken videos."""
        if inputs.vectors is not None:
            return inputs, items_of(inputs, None)
        if batch_size is not None:
            check_counts(batch_size=batch_size)
        progress = self.show_progress if show_progress is None else show_progress
        if inputs.kind == 'text':
            options = dict(batch_size=batch_size, progress=progress, warn=True)
            encoded = self._encode_texts(inputs.sources, **options)
        else:
            cfg = reading_config(self.cfg, inputs, batch_size)
            paths = [path or name for name, path in zip(inputs.ids, inputs.sources)]
            encoded = encode_videos(
                self.model,
                cfg,
                paths,
                ids=inputs.ids,
                on_broken=on_broken,
                progress=progress,
            )
            inputs = inputs.keep(encoded.ids)
        return inputs, items_of(inputs, encoded)

    @cached_property
    def _encode_texts(self) -> TextEncoder:
        """The text encoder, built on first use: some inferencers have no text pipeline."""
        return TextEncoder(self.model, self.cfg)

    def _as_predictions(self, samples: list[RankingSample]) -> list[dict[str, Any]]:
        """Return predictions in types that json can write."""
        seconds: dict[str, tuple[float, float]] = {}
        return [as_prediction(sample, seconds) for sample in samples]
