"""Text models by name, for galleries whose vectors were made elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Callable, Sequence, Union

import numpy as np
import torch

from mmvtr_gallery.remote import EmbeddingServer, batches

#: Texts -> their vectors, float32 [N, D].
Embed = Callable[[Sequence[str]], np.ndarray]
#: Texts in one forward pass or request.
BATCH = 32


def load_text_model(name: str) -> Embed:
    """Return the function that embeds texts as a named model does.

    Code that comes with a model is never run.

    Args:
        name: ``sentence-transformers:NAME`` (its ``encode_query``); ``open_clip:NAME@TAG`` or
            ``open_clip:local-dir:FOLDER`` (its ``encode_text``, at length 1); ``server:NAME``, a
            model on the server with OpenAI's ``/v1/embeddings`` that the environment names
            (:class:`~mmvtr_gallery.remote.EmbeddingServer`).

    Raises:
        ImportError: a package is missing (says what to install).
        ValueError: no such kind of model; a model without weights, or with code of its own; (of a
            server) :class:`~mmvtr_gallery.remote.ServerUnknown`.
        FileNotFoundError, OSError, RuntimeError: it is neither here nor can it be downloaded.
    """
    kind, _, rest = name.partition(':')
    if kind not in _KINDS or not rest:
        raise ValueError(
            f'{name[:80]!r} is no text model: {", ".join(f"{x}:NAME" for x in _KINDS)} expected'
        )
    return _KINDS[kind](rest)


def text_model_of(location: Union[str, Path], dim: int, name: str, *, own: bool) -> Embed:
    """Return the text model of a gallery whose vectors were made elsewhere.

    Args:
        location: of the gallery.
        dim: entries of its vectors.
        name: see :func:`load_text_model`.
        own: whether the gallery has a model of its own.

    Raises:
        ValueError: it has one; vectors of another width.
        ImportError, OSError, RuntimeError: see :func:`load_text_model`.
    """
    if own:
        raise ValueError(
            f'{location} has a model of its own: --text-model is for galleries whose vectors come '
            'from elsewhere'
        )
    embed = load_text_model(name)
    width = embed(['a']).shape[1]
    if width != dim:
        raise ValueError(
            f'{name[:80]} makes vectors of {width} entries, the gallery has {dim}: it is another '
            'model'
        )
    return embed


def _sentence_transformer(name: str) -> Embed:
    from mmvtr.models.embedders.sentence_transformer import load_embedder

    model = load_embedder(name).eval()

    def embed(texts: Sequence[str]) -> np.ndarray:
        options = dict(batch_size=BATCH, show_progress_bar=False, convert_to_numpy=True)
        return model.encode_query(list(texts), **options).astype(np.float32)

    return embed


def _open_clip(name: str) -> Embed:
    from mmvtr.datasets.words.tokenizers import OpenCLIPTokenize
    from mmvtr.models.towers.open_clip import OpenCLIPText

    model, _, tag = name.partition('@')
    if not tag and not model.startswith('local-dir:'):
        raise ValueError(f'open_clip:{name[:60]} names no weights: open_clip:NAME@TAG expected')
    tower = OpenCLIPText(model, tag or None, frozen=True).eval()
    tokenize = OpenCLIPTokenize(model)

    @torch.no_grad()
    def embed(texts: Sequence[str]) -> np.ndarray:
        return np.concatenate([_pooled(tower, tokenize, part) for part in batches(texts, BATCH)])

    return embed


def _pooled(tower: torch.nn.Module, tokenize: Callable, texts: Sequence[str]) -> np.ndarray:
    found = [tokenize.transform(dict(text=text)) for text in texts]
    rows = [torch.as_tensor(one['token_ids']) for one in found]
    lengths = [one.get('text_extra', {}).get('words', len(row)) for one, row in zip(found, rows)]
    ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    mask = torch.arange(ids.shape[1]) < torch.tensor(lengths)[:, None]
    return torch.nn.functional.normalize(tower(ids, mask)[1], dim=1).numpy()


def _server(name: str) -> Embed:
    server = EmbeddingServer(name)
    server.check()

    def embed(texts: Sequence[str]) -> np.ndarray:
        parts = batches(list(texts), BATCH)
        return np.concatenate([server.embed(dict(input=part), len(part)) for part in parts])

    return embed


_KINDS: dict[str, Callable[[str], Embed]] = {
    'sentence-transformers': _sentence_transformer,
    'open_clip': _open_clip,
    'server': _server,
}
