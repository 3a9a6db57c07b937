"""A retriever as a model of MTEB, so that its video tasks judge it (extra ``[mteb]``).

MTEB's retrieval tasks ask a model that can ``index`` and ``search`` for its own ranking, so that
token-wise scores, moments and test-time transforms count as they are; all other tasks ask
``encode`` for one vector an item, which a model has whose scores are inner products.
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
from mmvtr.engine.loop.evaluation import Encoded
from mmvtr.structures import cat_levels

#: Videos whose files lie on disk at a time: a set's table may hold them as bytes.
VIDEOS = 256


class MTEBRetriever:
    """What ``mteb.evaluate(model, tasks)`` takes, of a config of ours.

    Videos are read by the config's own pipeline, at its frames and size, from the files or the
    bytes of a task's table; MTEB's decoder is not asked.  Instructions and prompts of a task are
    not given to the text tower, as none of ours was trained with any.

    Args:
        model, weights, device: as of :class:`~mmvtr.apis.inferencer.VideoRetrievalInferencer`.
        name: under which MTEB keeps results, ``organisation/name``.
        revision: of these weights, for the same.
        **options: a test-time transform of retrieval tasks: ``transform``, ``bank`` and its options
            as of :meth:`~mmvtr.apis.inferencer.VideoRetrievalInferencer.set_gallery`.

    Raises:
        ImportError: MTEB is not installed.
        ValueError: an unknown transform or option; and others, as of the inferencer.

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
        Debiaser(options.get('transform'), **how)  # refuses what is unknown
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
        """One vector an item.

        Args:
            inputs: MTEB's DataLoader of N texts or N videos.
            **told: what else MTEB says; nothing of it is read.

        Returns:
            float32 [N, D], whose inner products are the scores.

        Raises:
            ValueError: a similarity without such vectors, items that are neither texts nor
                videos, or a video that is none.
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
        """Scores of two sets of vectors [N, D] and [M, D]: float32 [N, M]."""
        return torch.as_tensor(one).float() @ torch.as_tensor(other).float().T

    def similarity_pairwise(self, one: Any, other: Any) -> Tensor:
        """Scores of N pairs of vectors, both [N, D]: float32 [N]."""
        return (torch.as_tensor(one).float() * torch.as_tensor(other).float()).sum(-1)

    # -- tasks of retrieval ----------------------------------------------------------------

    def index(self, corpus: Any, **told: Any) -> None:
        """Encode what is searched.

        Args:
            corpus: MTEB's table of N texts or videos, with their ids.
            **told: what else MTEB says; nothing of it is read.

        Raises:
            ValueError: a table of both or of neither, a video that is none; a transform without
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
        """The best of the corpus for each query.

        Args:
            queries: MTEB's table of Q texts or videos, with their ids.
            top_k: how many of each.
            top_ranked: of a reranking task: the only items that count for each query.
            **told: what else MTEB says; nothing of it is read.

        Returns:
            Query id -> item id -> score.

        Raises:
            ValueError: nothing was indexed, queries of the corpus' own kind, or of several.
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
    """'text' or 'video', what a table of MTEB holds."""
    columns = {'text', 'image', 'audio', 'video'} & set(table.column_names)
    if len(columns) != 1 or not columns <= {'text', 'video'}:
        raise ValueError(
            f'a table of texts or of videos expected, found the columns {sorted(columns)}: tasks '
            'with sound, images or several at once are not for these models'
        )
    return columns.pop()


def _texts_of(batch: Mapping[str, Any]) -> Iterator[str]:
    """Texts of a batch, each after its title, where a corpus has titles."""
    for title, text in zip(batch.get('title') or [''] * len(batch['text']), batch['text']):
        if not isinstance(text, str):
            raise ValueError(f'a text expected, found a {type(text).__name__}: no conversations')
        yield f'{title} {text}'.strip()


def _on_disk(table: Any, ids: Sequence[str]) -> Iterable[tuple[list[str], list[str]]]:
    """Ids and files of a table's videos, some at a time; bytes become files for that time."""
    from datasets import Video  # MTEB brings it

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
    """Where a video lies; its bytes are written to ``spare``."""
    video = video or {}
    if video.get('bytes') is not None:
        spare.write_bytes(video['bytes'])
        return str(spare)
    if not video.get('path') or not Path(video['path']).is_file():
        raise ValueError(f'item {name!r} has neither the bytes of a video nor a file on this disk')
    return video['path']
