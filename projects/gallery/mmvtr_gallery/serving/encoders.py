"""What turns the texts and videos of requests into vectors of the gallery."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Optional, Sequence, Union

import numpy as np
from mmengine.config import Config
from torch import nn

from mmvtr import apis
from mmvtr_gallery.remote import EmbeddingServer
from mmvtr_gallery.serving.answers import Cut, Query
from mmvtr_gallery.serving.moment_search import Frames, Moment, Moments
from mmvtr_gallery.store import Item
from mmvtr_gallery.text_models import Embed


class NoEncoder(ValueError):
    """A text or a video was given, and the service has no model that encodes it."""


class Encoder:
    """Encodes nothing: all vectors come from elsewhere.

    Attributes:
        kinds: what it encodes, of ``'text'`` and ``'video'``.
        fingerprint: of the model's weights; None: unknown.
        unit: whether all its vectors have length 1.
    """

    kinds: tuple[str, ...] = ()
    fingerprint: Optional[str] = None
    unit = False

    def texts(self, texts: Sequence[str]) -> list[Query]:
        """Encode texts as queries, in the model's thread.

        Raises:
            NoEncoder: it encodes no texts.
            KeyError: a word is not in a closed vocabulary.
        """
        raise NoEncoder(
            'the vectors of this gallery come from elsewhere and no text model was named: send a '
            'vector of the same model, or start the service with --text-model'
        )

    def read(
        self, path: Union[str, Path], start: Optional[float] = None, end: Optional[float] = None
    ) -> dict[str, Any]:
        """Read the frames of a video or a part of it; not to be called in the model's thread.

        Raises:
            NoEncoder: it encodes no videos.
            BrokenVideoError, FileNotFoundError: it cannot be read.
        """
        raise NoEncoder(
            'the vectors of this gallery come from elsewhere, so no video can be encoded: send a '
            'vector of the same model'
        )

    def video(self, batch: dict[str, Any]) -> tuple[np.ndarray, Optional[float]]:
        """Return vector, float32 [D], and sigma of a video that was read, in the model's thread."""
        raise NotImplementedError

    def frames(self, item: Item, path: Path) -> Optional[Frames]:
        """Return the frames of an item's file; None: it encodes no videos.

        Raises:
            BrokenVideoError, FileNotFoundError: it cannot be read.
        """
        return None

    def moment(self, text: str, frames: Frames) -> Optional[Moment]:
        """Return when a text matches in an item, in the model's thread; None: unknown."""
        return None


class TextEncoder(Encoder):
    """Encodes texts by a named model, beside vectors from elsewhere.

    Args:
        embed: the model, see :func:`~mmvtr_gallery.text_models.load_text_model`.
    """

    kinds = ('text',)

    def __init__(self, embed: Embed) -> None:
        self._embed = embed

    def texts(self, texts: Sequence[str]) -> list[Query]:
        return [Query(row, text=text) for row, text in zip(self._embed(texts), texts)]


class RetrieverEncoder(Encoder):
    """Encodes texts and videos by the retriever that made the gallery.

    Args:
        model: a retriever in eval mode whose scores are inner products.
        cfg: its config.

    Raises:
        ValueError: the scores are no inner products; the config reads stored words.
        ServerUnknown: the model runs on an embedding server whose URL is not set.
    """

    kinds = ('text', 'video')
    unit = True

    def __init__(self, model: nn.Module, cfg: Config) -> None:
        apis.refuse_without_vectors(model)
        for part in model.modules():
            server = getattr(part, 'server', None)
            if isinstance(server, EmbeddingServer):
                server.check()
        self.fingerprint = apis.fingerprint(model)
        self._model = model
        self._texts = apis.TextEncoder(model, cfg)
        self._videos = apis.VideoEncoder(model, cfg)
        self._moments = Moments(model, cfg)

    def texts(self, texts: Sequence[str]) -> list[Query]:
        found = self._texts(texts)
        vectors = apis.vectors(self._model, found.levels).cpu().numpy()
        sigmas = apis.sigmas(found.levels) or [None] * len(texts)
        cuts = [
            Cut(read, read + more) if more else None
            for read, more in zip(found.lengths.tolist(), self._texts.cut(texts))
        ]
        return [Query(*one) for one in zip(vectors, sigmas, texts, cuts)]

    def read(
        self, path: Union[str, Path], start: Optional[float] = None, end: Optional[float] = None
    ) -> dict[str, Any]:
        return self._videos.read(path, start=start, end=end)

    def video(self, batch: dict[str, Any]) -> tuple[np.ndarray, Optional[float]]:
        found = self._videos(batch).levels
        sigmas = apis.sigmas(found)
        vector = apis.vectors(self._model, found)[0].cpu().numpy()
        return vector, None if sigmas is None else sigmas[0]

    def frames(self, item: Item, path: Path) -> Optional[Frames]:
        return self._moments.read(item, path)

    def moment(self, text: str, frames: Frames) -> Optional[Moment]:
        return self._moments(text, frames)
