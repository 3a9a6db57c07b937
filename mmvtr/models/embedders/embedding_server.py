"""Client for servers with OpenAI's ``/v1/embeddings`` API: vLLM, infinity and others."""

from __future__ import annotations

import http.client
import json
import os
import time
import urllib.error
import urllib.request
from typing import Any, Optional, Sequence
from urllib.parse import urlsplit

import numpy as np

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


class ServerRefuses(RuntimeError):
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
                f'{self.model[:80]!r} runs on an embedding server: {URL}=http://HOST:PORT/v1 says '
                'where that is'
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
