"""A retriever as an MTEB model, for MTEB's video tasks (extra ``[mteb]``).

For retrieval tasks MTEB calls ``index`` and ``search``, so the ranking is the model's own, with
token-wise scores, moments and test-time transforms.  All other tasks call ``encode`` for one vector
per item, which works only for models whose scores are inner products.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, Iterable, Iterator, Mapping, Optional, Sequence

import torch
from torch import Tensor

from mmvtr.apis import encode_texts, encode_videos, refuse_without_vectors, vectors
from mmvtr.apis.inferencer import VideoRetrievalInferencer
from mmvtr.arrays import Debiaser
from mmvtr.engine.loops.evaluation import Encoded
from mmvtr.structures import cat_levels

#: Number of videos written to disk at a time: a dataset's table may hold them as bytes.
VIDEOS = 256


class MTEBRetriever:
    """A retriever of this library for ``mteb.evaluate(model, tasks)``.

    Videos are read by the config's own pipeline, with its number of frames and size, from the files
    or bytes of a task's table; MTEB's decoder is not used.  A task's instructions and prompts are
    not given to the text tower, as none of these models was trained with any.

    Args:
        model, weights, device: see :class:`~mmvtr.apis.inferencer.VideoRetrievalInferencer`.
        name: name for MTEB's result files, ``organisation/name``.
        revision: revision of these weights for MTEB's result files.
        **options: test-time transform for retrieval tasks: ``transform``, ``bank`` and its options,
            see :meth:`~mmvtr.apis.inferencer.VideoRetrievalInferencer.set_gallery`.

    Raises:
        ImportError: MTEB is not installed.
        ValueError: an unknown transform or option, and the inferencer's errors.

    Example:
        ::

            >>> model = MTEBRetriever('zeroshot_msrvtt')
            >>> mteb.evaluate(model, mteb.get_tasks(tasks=['MSRVTTT2V']))
    """

    def __init__(
        self,
        model: Any,
        weights: Any = None,
        *,
        device: Any = None,
        name: str = 'mmvtr/retriever',
        revision: str = 'local',
        **options: Any,
    ) -> None:
        try:
            from mteb.models import ModelMeta
        except ImportError as error:
            raise ImportError(
                "MTEB is not installed: pip install -e 'projects/gallery[mteb]' (Python 3.11+)"
            ) from error

        how = {name: x for name, x in options.items() if name not in ('transform', 'bank')}
        Debiaser(options.get('transform'), **how)  # refuses unknown options
        if name.count('/') != 1:
            raise ValueError(f'name: organisation/name expected, found {name[:80]!r}')
        self.find = VideoRetrievalInferencer(model, weights, device, show_progress=False)
        self.options = options
        self.mteb_model_meta = ModelMeta.create_empty(
            dict(name=name, revision=revision, modalities=['text', 'video'], framework=['PyTorch'])
        )
        self._ids: list[str] = []

    # -- tasks that ask for vectors --------------------------------------------------------

    def encode(self, inputs: Any, **told: Any) -> Tensor:
        """Return one vector per item.

        Args:
            inputs: MTEB's DataLoader of N texts or N videos.
            **told: MTEB's other arguments, ignored.

        Returns:
            float32 [N, D], whose inner products are the scores.

        Raises:
            ValueError: the model's similarity is no inner product, items are neither texts nor
                videos, or a file is not a video.
        """
        refuse_without_vectors(self.find.model)
        table = inputs.dataset
        if 'video' in getattr(table, 'column_names', ()):
            encoded = self._encode(table, 'video', [str(n) for n in range(len(table))])
        else:
            texts = [text for batch in inputs for text in _texts_of(batch)]
            encoded = encode_texts(self.find.model, self.find.cfg, texts)
        return vectors(self.find.model, encoded.levels)

    def similarity(self, one: Any, other: Any) -> Tensor:
        """Return the scores of two sets of vectors, [N, D] and [M, D] -> float32 [N, M]."""
        return torch.as_tensor(one).float() @ torch.as_tensor(other).float().T

    def similarity_pairwise(self, one: Any, other: Any) -> Tensor:
        """Return the scores of N pairs of vectors, both [N, D] -> float32 [N]."""
        return (torch.as_tensor(one).float() * torch.as_tensor(other).float()).sum(-1)

    # -- tasks of retrieval ----------------------------------------------------------------

    def index(self, corpus: Any, **told: Any) -> None:
        """Encode the corpus to search.

        Args:
            corpus: MTEB's table of N texts or videos, with their ids.
            **told: MTEB's other arguments, ignored.

        Raises:
            ValueError: a table of both or neither, a file that is not a video; a transform without
                its bank.
        """
        kind = _kind_of(corpus)
        self._ids = [str(name) for name in corpus['id']]
        self.find.set_gallery(self._encode(corpus, kind, self._ids), kind=kind, **self.options)

    def search(
        self,
        queries: Any,
        *,
        top_k: int,
        top_ranked: Optional[Mapping[str, Sequence[str]]] = None,
        **told: Any,
    ) -> dict[str, dict[str, float]]:
        """Return the top items of the corpus for each query.

        Args:
            queries: MTEB's table of Q texts or videos, with their ids.
            top_k: number of items per query.
            top_ranked: for a reranking task: query id -> ids of its candidates.
            **told: MTEB's other arguments, ignored.

        Returns:
            Query id -> item id -> score.

        Raises:
            ValueError: nothing was indexed, queries of the same kind as the corpus, or of several
                kinds.
        """
        if self.find.gallery is None:
            raise ValueError('there is no corpus to search: call index(...) first')
        kind = _kind_of(queries)
        if kind == self.find.gallery.given.kind:
            raise ValueError(
                f'this task asks {kind}s for {kind}s: only texts and videos are compared here'
            )
        encoded = self._encode(queries, kind, [str(name) for name in queries['id']])
        count = top_k if top_ranked is None else len(self._ids)
        predictions = self.find(vectors=encoded, topk=count)['predictions']
        found: dict[str, dict[str, float]] = {}
        for prediction in predictions:
            name = prediction['query_id']
            scores = {hit['id']: hit['score'] for hit in prediction['hits']}
            if top_ranked is not None:
                scores = {item: scores[item] for item in top_ranked[name]}
            found[name] = dict(sorted(scores.items(), key=lambda hit: -hit[1])[:top_k])
        return found

    def _encode(self, table: Any, kind: str, ids: Sequence[str]) -> Encoded:
        model, cfg = self.find.model, self.find.cfg
        if kind == 'text':
            texts = [text for batch in table.iter(512) for text in _texts_of(batch)]
            return encode_texts(model, cfg, texts)._replace(ids=list(ids))
        parts = [
            encode_videos(model, cfg, files, ids=names) for names, files in _on_disk(table, ids)
        ]
        levels = cat_levels([part.levels for part in parts])
        lengths = torch.cat([part.lengths for part in parts])
        return Encoded(torch.arange(len(ids)), list(ids), levels, lengths)


def _kind_of(table: Any) -> str:
    """Return the kind of items in an MTEB table, 'text' or 'video'."""
    columns = {'text', 'image', 'audio', 'video'} & set(table.column_names)
    if len(columns) != 1 or not columns <= {'text', 'video'}:
        raise ValueError(
            f'a table of texts or of videos expected, found the columns {sorted(columns)}: tasks '
            'with sound, images or several at once are not for these models'
        )
    return columns.pop()


def _texts_of(batch: Mapping[str, Any]) -> Iterator[str]:
    """Yield the texts of a batch, each after its title if the corpus has titles."""
    for title, text in zip(batch.get('title') or [''] * len(batch['text']), batch['text']):
        if not isinstance(text, str):
            raise ValueError(
                f'a text expected, found a {type(text).__name__}: conversations are not read'
            )
        yield f'{title} {text}'.strip()


def _on_disk(table: Any, ids: Sequence[str]) -> Iterable[tuple[list[str], list[str]]]:
    """Yield ids and files of a table's videos in chunks; bytes become temporary files."""
    from datasets import Video  # installed with MTEB

    table = table.cast_column('video', Video(decode=False))
    for start in range(0, len(table), VIDEOS):
        names = list(ids[start : start + VIDEOS])
        with tempfile.TemporaryDirectory() as folder:
            stored = table[start : start + VIDEOS]['video']
            yield (
                names,
                [
                    _file_of(video, name, Path(folder, f'{n}.mp4'))
                    for n, (video, name) in enumerate(zip(stored, names))
                ],
            )


def _file_of(video: Optional[Mapping[str, Any]], name: str, spare: Path) -> str:
    """Return the path of a video; if it is given as bytes, these are written to ``spare``."""
    video = video or {}
    if video.get('bytes') is not None:
        spare.write_bytes(video['bytes'])
        return str(spare)
    if not video.get('path') or not Path(video['path']).is_file():
        raise ValueError(f'item {name!r} has neither the bytes of a video nor a file on this disk')
    return video['path']
