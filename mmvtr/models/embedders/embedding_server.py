"""A client of servers that speak OpenAI's ``/v1/embeddings``: vLLM, infinity and others."""

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

#: Where the server is, ``http://HOST:PORT/v1``, and what it wants to be told, if anything.
URL, TOKEN = 'MMVTR_EMBEDDINGS_URL', 'MMVTR_EMBEDDINGS_TOKEN'
#: Answers after which it is asked again.
AGAIN = (408, 429, 500, 502, 503, 504)
#: Seconds before it is asked again, at first; each further time twice as long, up to the last.
WAIT, LONGEST = 0.5, 30.0


class _Stays(urllib.request.HTTPRedirectHandler):
    """No redirect is followed: the token is for the server that the environment names."""

    def redirect_request(self, *args: Any) -> None:
        return None


_OPENER = urllib.request.build_opener(_Stays)


class ServerUnknown(ValueError):
    """Nobody has said where the embedding server is."""


class ServerAway(ConnectionError):
    """The embedding server does not answer, or has given up."""


class ServerRefuses(RuntimeError):
    """The embedding server refuses a request, or answers it with something else than vectors."""


class EmbeddingServer:
    """Asks a server for vectors, again after a while where it is busy or away.

    Where it is and its token are read from the environment alone: so no config, and no gallery of
    somebody else, can send what is searched for to a place of its own.

    Args:
        model: what the server calls the model.
        timeout: seconds that one request may take.
        attempts: requests before it is given up, 1 or more.
    """

    def __init__(self, model: str, *, timeout: float = 60.0, attempts: int = 4) -> None:
        self.model, self.timeout, self.attempts = model, timeout, attempts

    @property
    def url(self) -> str:
        """Where the server is.

        Raises:
            ServerUnknown: the environment does not say it.
        """
        said = os.environ.get(URL, '').rstrip('/')
        parts = urlsplit(said)
        if parts.scheme not in ('http', 'https') or not parts.hostname:
            raise ServerUnknown(
                f'{self.model[:80]!r} runs on an embedding server: {URL}=http://HOST:PORT/v1 says '
                'where that is'
            )
        return said

    def check(self) -> None:
        """Raise ServerUnknown where the environment does not say where the server is."""
        _ = self.url

    def embed(self, content: dict[str, Any], count: int) -> np.ndarray:
        """Vectors float32 [count, D], in the order of what was sent.

        Args:
            content: of the request beside the model: ``input``, or ``messages``.
            count: vectors that are expected.

        Raises:
            ServerUnknown: no URL of a server in the environment.
            ServerAway: no answer after all attempts, or an answer that promises none.
            ServerRefuses: the server refuses the request (tells why), or answers something else.
        """
        body = dict(model=self.model, encoding_format='float', **content)
        answer = self._asked(json.dumps(body).encode())
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

    def _asked(self, body: bytes) -> bytes:
        request, reason, wait = self._request(body), '', WAIT
        for attempt in range(self.attempts):
            if attempt:
                time.sleep(wait)
                wait = min(2 * wait, LONGEST)
            try:
                with _OPENER.open(request, timeout=self.timeout) as answer:
                    return answer.read()
            except urllib.error.HTTPError as error:
                reason = f'{error.code}: {_said(error)}'
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


def _said(error: urllib.error.HTTPError) -> str:
    """What a server says of an error, in one line."""
    try:
        return ' '.join(error.read(2000).decode(errors='replace').split())[:200] or error.reason
    except (OSError, http.client.HTTPException):
        return str(error.reason)


def _retry_after(error: urllib.error.HTTPError) -> Optional[float]:
    """Seconds that a server asks to wait, bounded."""
    said = error.headers.get('Retry-After', '')
    return min(float(said), LONGEST) if said.isdecimal() else None


def batches(items: Sequence[Any], size: int) -> list[Sequence[Any]]:
    """Items in parts of at most ``size``."""
    return [items[start : start + size] for start in range(0, len(items), size)]
