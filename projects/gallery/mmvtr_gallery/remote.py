"""An encoder whose embedder runs on a server (vLLM, infinity); frames are sampled locally."""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import os
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, Optional, Sequence
from urllib.parse import urlsplit

import cv2
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from mmvtr.errors import UserError
from mmvtr.models.embedders.raw_items import RawItemsEncoder
from mmvtr.registry import MODELS
from mmvtr.structures import Embedding, Levels

#: JPEG quality of the frames sent.
QUALITY = 95
Style = Literal['messages', 'images']


@MODELS.register_module()
class RemoteEncoder(RawItemsEncoder):
    """A model on a server with OpenAI's ``/v1/embeddings``: vectors of unit length, no gradients.

    The environment variable ``MMVTR_EMBEDDINGS_URL`` is the server's URL (``http://HOST:PORT/v1``)
    and ``MMVTR_EMBEDDINGS_TOKEN`` its token, if it needs one.  For the format of items see
    :class:`~mmvtr.models.embedders.raw_items.RawItemsEncoder`; frames are sent as JPEG files.

    The fingerprint of the model, which a gallery keeps, covers its name, style and prompts, but not
    the weights: a change of them on the server goes unnoticed.

    Args:
        model: name of the model on the server.
        style: ``'messages'`` (vLLM's extension): a text or a whole video is one message, a video of
            all its frames; ``'images'`` (infinity's): texts in batches, and each frame is an image,
            whose unit vectors are averaged per video.
        text_prompt: system message for texts; in the style ``'images'`` a prefix of each text.
        video_prompt: system message for videos.
        batch: texts or frames per request, in the style ``'images'``.
        connections: concurrent requests, in the style ``'messages'``.
        timeout: timeout of one request, in seconds.
        attempts: maximal number of requests.

    Attributes:
        dim: D, known from the first vectors; reading it earlier requests one vector.

    Raises:
        ValueError: an unknown style, numbers below 1, a video prompt with images; (when encoding)
            no URL in the environment.
        ServerAway, ServerRefuses: (when encoding) see
            :meth:`~mmvtr_gallery.remote.EmbeddingServer.embed`.
    """

    def __init__(
        self,
        model: str,
        *,
        style: Style = 'messages',
        text_prompt: Optional[str] = None,
        video_prompt: Optional[str] = None,
        batch: int = 32,
        connections: int = 4,
        timeout: float = 60.0,
        attempts: int = 4,
    ) -> None:
        super().__init__()
        if style not in ('messages', 'images'):
            raise ValueError(f"RemoteEncoder: style must be 'messages' or 'images', not {style!r}")
        if min(batch, connections, attempts) < 1 or not timeout > 0:
            raise ValueError(
                'RemoteEncoder: batch, connections, timeout and attempts must be 1 or more'
            )
        if style == 'images' and video_prompt is not None:
            raise ValueError(
                "RemoteEncoder: style='images' takes no video_prompt: set style='messages'"
            )
        self.server = EmbeddingServer(model, timeout=timeout, attempts=attempts)
        self.style, self.batch, self.connections = style, batch, connections
        self.prompts = dict(text=text_prompt, video=video_prompt)
        self._dim: Optional[int] = None
        # Distinguishes galleries of different models, since there are no weights.
        identity = repr((model, style, text_prompt, video_prompt)).encode()
        digest = np.frombuffer(hashlib.sha256(identity).digest(), np.uint8)
        self.register_buffer('identity', torch.from_numpy(digest.copy()))

    @property
    def dim(self) -> int:
        if self._dim is None:
            self._embed(['a'], 'text')
        return self._dim

    def protocol(self) -> dict[str, str]:
        """Return the settings that a result must state."""
        return dict(remote=f'{self.server.model} ({self.style})', **super().protocol())

    @torch.no_grad()
    def _embed(self, items: list[Any], kind: str) -> Levels:
        if self.style == 'messages':
            vectors = self._by_messages(items, kind)
        elif kind == 'text':
            vectors = self._inputs([(self.prompts['text'] or '') + text for text in items])
        else:
            vectors = self._by_frames(items)
        self._dim = vectors.shape[1]
        vectors = torch.from_numpy(vectors).to(self.identity.device)
        return {'global': Embedding(F.normalize(vectors, p=2, dim=1))}

    def _nothing(self, mask: Tensor) -> Levels:
        return {'global': Embedding(torch.zeros(0, self.dim, device=self.identity.device))}

    def _by_messages(self, items: Sequence[Any], kind: str) -> np.ndarray:
        def one(item: Any) -> np.ndarray:
            return self.server.embed(dict(messages=self._messages(item, kind)), 1)

        with ThreadPoolExecutor(min(self.connections, len(items))) as pool:
            return np.concatenate([*pool.map(one, items)])

    def _messages(self, item: Any, kind: str) -> list[dict[str, Any]]:
        if kind == 'text':
            content = dict(type='text', text=item)
        else:
            frames = ','.join(map(_jpeg, item))
            content = dict(type='video_url', video_url=dict(url=f'data:video/jpeg;base64,{frames}'))
        messages, prompt = [dict(role='user', content=[content])], self.prompts[kind]
        if prompt:
            messages.insert(0, dict(role='system', content=[dict(type='text', text=prompt)]))
        return messages

    def _by_frames(self, videos: Sequence[np.ndarray]) -> np.ndarray:
        urls = [f'data:image/jpeg;base64,{_jpeg(frame)}' for video in videos for frame in video]
        frames = F.normalize(torch.from_numpy(self._inputs(urls, modality='image')), dim=1)
        parts = frames.split([len(video) for video in videos])
        return torch.stack([part.mean(0) for part in parts]).numpy()

    def _inputs(self, inputs: list[str], **more: str) -> np.ndarray:
        parts = batches(inputs, self.batch)
        return np.concatenate(
            [self.server.embed(dict(input=part, **more), len(part)) for part in parts]
        )


def _jpeg(frame: np.ndarray) -> str:
    """Encode uint8 [3, H, W] as a JPEG file in base64."""
    bgr = np.ascontiguousarray(frame[::-1].transpose(1, 2, 0))
    file = cv2.imencode('.jpg', bgr, [cv2.IMWRITE_JPEG_QUALITY, QUALITY])[1]
    return base64.b64encode(file.tobytes()).decode()


#: Environment variables of the server's URL, ``http://HOST:PORT/v1``, and its token, if any.
URL, TOKEN = 'MMVTR_EMBEDDINGS_URL', 'MMVTR_EMBEDDINGS_TOKEN'
#: HTTP status codes after which a request is retried.
AGAIN = (408, 429, 500, 502, 503, 504)
#: Seconds before the first retry, doubled for each further retry, and their maximum.
WAIT, LONGEST = 0.5, 30.0


class _Stays(urllib.request.HTTPRedirectHandler):
    """Handler that follows no redirect: the token is only for the server in the environment."""

    def redirect_request(self, *args: Any) -> None:
        return None


_OPENER = urllib.request.build_opener(_Stays)


class ServerUnknown(ValueError):
    """The URL of the embedding server is not set."""


class ServerAway(ConnectionError):
    """The embedding server does not answer after all attempts."""


class ServerRefuses(UserError):
    """The embedding server refuses a request, or its answer is not the expected vectors."""


class EmbeddingServer:
    """Client that requests vectors from a server, and retries if it is busy or unreachable.

    URL and token are read from the environment only, so that no config and no third-party gallery
    can redirect queries to another server.

    Args:
        model: name of the model on the server.
        timeout: timeout of one request, in seconds.
        attempts: maximal number of requests, 1 or more.
    """

    def __init__(self, model: str, *, timeout: float = 60.0, attempts: int = 4) -> None:
        self.model, self.timeout, self.attempts = model, timeout, attempts

    @property
    def url(self) -> str:
        """URL of the server.

        Raises:
            ServerUnknown: the environment does not set it.
        """
        url = os.environ.get(URL, '').rstrip('/')
        parts = urlsplit(url)
        if parts.scheme not in ('http', 'https') or not parts.hostname:
            raise ServerUnknown(
                f'{self.model[:80]!r} runs on an embedding server: set {URL}=http://HOST:PORT/v1'
            )
        return url

    def check(self) -> None:
        """Raise ServerUnknown unless the environment sets the server's URL."""
        _ = self.url

    def embed(self, content: dict[str, Any], count: int) -> np.ndarray:
        """Return vectors float32 [count, D], in the order of the items sent.

        Args:
            content: fields of the request beside the model: ``input``, or ``messages``.
            count: expected number of vectors.

        Raises:
            ServerUnknown: the environment sets no URL.
            ServerAway: no usable answer after all attempts.
            ServerRefuses: the server refuses the request (with its reason), or its answer is not
                ``count`` finite vectors.
        """
        body = dict(model=self.model, encoding_format='float', **content)
        answer = self._post(json.dumps(body).encode())
        try:
            rows = sorted(json.loads(answer)['data'], key=lambda row: row['index'])
            places = [row['index'] for row in rows]
            vectors = np.array([row['embedding'] for row in rows], np.float32)
        except (KeyError, TypeError, ValueError) as error:
            raise ServerRefuses(f'{self.url} answers, but with no list of embeddings') from error
        if places != list(range(count)) or vectors.ndim != 2 or not np.isfinite(vectors).all():
            raise ServerRefuses(
                f'{self.url} was asked for {count} vectors and gave an array {list(vectors.shape)}'
            )
        return vectors

    def _post(self, body: bytes) -> bytes:
        request, reason, wait = self._request(body), '', WAIT
        for attempt in range(self.attempts):
            if attempt:
                time.sleep(wait)
                wait = min(2 * wait, LONGEST)
            try:
                with _OPENER.open(request, timeout=self.timeout) as answer:
                    return answer.read()
            except urllib.error.HTTPError as error:
                reason = f'{error.code}: {_reason_of(error)}'
                if error.code not in AGAIN:
                    raise ServerRefuses(f'{self.url} refuses the request, {reason}') from error
                wait = _retry_after(error) or wait
            except (OSError, http.client.HTTPException) as error:
                reason = str(getattr(error, 'reason', None) or error or type(error).__name__)
        raise ServerAway(
            f'the embedding server {self.url} does not answer ({self.attempts} attempts): '
            f'{reason[:200]}'
        )

    def _request(self, body: bytes) -> urllib.request.Request:
        headers = {'Content-Type': 'application/json'}
        if os.environ.get(TOKEN):
            headers['Authorization'] = f'Bearer {os.environ[TOKEN]}'
        return urllib.request.Request(f'{self.url}/embeddings', body, headers)


def _reason_of(error: urllib.error.HTTPError) -> str:
    """Return the server's error message, in one line."""
    try:
        return ' '.join(error.read(2000).decode(errors='replace').split())[:200] or error.reason
    except (OSError, http.client.HTTPException):
        return str(error.reason)


def _retry_after(error: urllib.error.HTTPError) -> Optional[float]:
    """Return the seconds that a server asks to wait, bounded; None if it does not."""
    delay = error.headers.get('Retry-After', '')
    return min(float(delay), LONGEST) if delay.isdecimal() else None


def batches(items: Sequence[Any], size: int) -> list[Sequence[Any]]:
    """Split items into parts of at most ``size``."""
    return [items[start : start + size] for start in range(0, len(items), size)]
