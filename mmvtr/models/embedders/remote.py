"""An encoder whose embedder runs on a server; frames are sampled locally."""

from __future__ import annotations

import base64
import hashlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, Optional, Sequence

import cv2
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from mmvtr.models.embedders.embedding_server import EmbeddingServer, batches
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
            :meth:`~mmvtr.models.embedders.embedding_server.EmbeddingServer.embed`.
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
            raise ValueError('RemoteEncoder: batch, connections, timeout, attempts are 1 or more')
        if style == 'images' and video_prompt is not None:
            raise ValueError("RemoteEncoder: an image has no prompt, see style='messages'")
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
