"""Error handlers: every error becomes one sentence of JSON, without traceback or server paths."""

from __future__ import annotations

import errno
import logging
import os
import re
from difflib import get_close_matches
from typing import Any, Callable, Sequence

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from mmvtr.datasets.videos.video_files import BrokenVideoError
from mmvtr.datasets.words.tokenizers import UnknownWords
from mmvtr.storage.lock import FolderInUse
from mmvtr_gallery.remote import ServerAway, ServerRefuses, ServerUnknown
from mmvtr_gallery.serving.answers import Empty, InQuarantine
from mmvtr_gallery.serving.batching import Busy
from mmvtr_gallery.serving.bodies import sendable
from mmvtr_gallery.serving.kept_uploads import NameTaken
from mmvtr_gallery.serving.library import Outside
from mmvtr_gallery.serving.media import Unsatisfiable
from mmvtr_gallery.serving.uploads import TooMuchToDecode
from mmvtr_gallery.store.items import KnownIds, UnknownIds

#: Maximal length of a sentence.
LONGEST = 400

#: Exception types and their status codes; the first type that matches counts.
STATUS: list[tuple[type[Exception], int]] = [
    (UnknownIds, 404),
    (InQuarantine, 404),
    (ServerUnknown, 503),
    (KnownIds, 409),
    (Empty, 409),
    (FolderInUse, 409),
    (NameTaken, 409),
    (Busy, 503),
    (Unsatisfiable, 416),
    (TooMuchToDecode, 413),
    (BrokenVideoError, 422),
    (Outside, 403),
    (FileNotFoundError, 404),
    (ConnectionError, 502),
    (TimeoutError, 504),
    (ValueError, 422),
    (KeyError, 422),
    (OverflowError, 422),
    (RecursionError, 422),
    (OSError, 500),
    (RuntimeError, 500),
]
_FULL = (errno.ENOSPC, errno.EDQUOT)
#: Errors whose messages quote the request: a path in them comes from the client.
_OWN = (UnknownIds, KnownIds, InQuarantine, Outside, NameTaken)

#: An absolute path: within quotes all of it, elsewhere up to a space.
_QUOTED = re.compile(r"""(['"])/[^'"]*?([^/'"]*)\1""")
_BARE = re.compile(r"""(?<![\w.:/'"])/(?:[^\s/'",;:]+/)+([^\s/'",;:]*)""")

#: Error responses in the API reference.
RESPONSES: dict[int | str, dict[str, Any]] = {
    '4XX': dict(description='A request that cannot be answered: `{"error": "one sentence"}`'),
    '5XX': dict(description='A failure of the service: `{"error": "one sentence"}`'),
}

#: pydantic's error type -> sentence, with placeholders from the error's context.
_SENTENCES = {
    'missing': 'is missing',
    'extra_forbidden': 'is not known here: see /docs for what a request may say',
    'string_too_short': 'must have at least {min_length} characters',
    'string_too_long': 'must have at most {max_length} characters',
    'too_short': 'must have at least {min_length} entries',
    'too_long': 'must have at most {max_length} entries',
    'greater_than': 'must be greater than {gt}',
    'greater_than_equal': 'must be greater than or equal to {ge}',
    'less_than': 'must be less than {lt}',
    'less_than_equal': 'must be less than or equal to {le}',
    'literal_error': 'must be {expected}',
    'finite_number': 'must be a finite number',
    'string_type': 'must be a text',
    'string_unicode': 'must be a text of whole Unicode characters',
    'list_type': 'must be a list',
    'dict_type': 'must be an object of names and values',
    'model_type': 'must be an object of names and values',
    'model_attributes_type': 'must be an object of names and values',
}
#: Prefixes of further error types -> sentence; they include types that are parsed from texts.
_KINDS = {
    'int': 'must be a whole number',
    'float': 'must be a valid number',
    'bool': 'must be true or false',
}


def answer(status: int, sentence: str, **headers: str) -> JSONResponse:
    """Return an error as a JSON response."""
    words = sendable(' '.join(str(sentence).split()))
    words = words if len(words) <= LONGEST else f'{words[: LONGEST - 3]}...'
    return JSONResponse(dict(error=words), status, headers=headers)


def handle_errors(app: FastAPI, private: Sequence[str] = ()) -> None:
    """Register one handler for each kind of error.

    Args:
        private: paths of this machine that are shortened in every sentence.
    """
    for kind, status in STATUS:
        app.add_exception_handler(kind, _of_status(status, private))
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _of_http)
    app.add_exception_handler(ClientDisconnect, _gone)
    app.add_exception_handler(Exception, _unforeseen)


def _of_status(status: int, private: Sequence[str]) -> Any:
    async def handler(request: Request, error: Exception) -> JSONResponse:
        if isinstance(error, OSError) and (error.errno in _FULL or 'No space left' in str(error)):
            return answer(507, 'the disk of the gallery is full: nothing was changed')
        ours = status >= 500 and not isinstance(error, Busy)
        if ours or getattr(error, 'strerror', None):
            logging.getLogger('mmvtr_gallery.serving').error(
                '%s %s: %s', request.method, request.url.path, error
            )
        return answer(status, sentence_of(error, private))

    return handler


def sentence_of(error: Exception, private: Sequence[str] = ()) -> str:
    """Return an error's message for a client, without paths and addresses of this machine."""
    if isinstance(error, _OWN):
        return str(error)
    if isinstance(error, OverflowError):
        return 'a number of the request is too large'
    if isinstance(error, RecursionError):
        return 'the request is nested too deeply'
    if isinstance(error, UnknownWords):
        return f'this model does not know {", ".join(map(_with_near(error), error.words[:5]))}'
    if isinstance(error, KeyError):
        words = str(error.args[0]) if error.args else 'unknown'
        return without_paths(words, private)
    if isinstance(error, (ServerAway, ServerRefuses)):
        return 'the embedding server gives no vectors; the log of the service says more'
    if isinstance(error, (ConnectionError, TimeoutError)):
        return 'the engine of the gallery does not answer; the log of the service says more'
    if isinstance(error, OSError) and error.strerror:
        return f'{error.strerror}; the log of the service says more'
    return without_paths(str(error), private) or type(error).__name__


def _with_near(error: UnknownWords) -> Callable[[str], str]:
    """Return a function that quotes a word, with known words of the same beginning near it."""

    def told(word: str) -> str:
        alike = [known for known in error.vocabulary if known[0] == word[0]]
        near = get_close_matches(word[:40], alike)
        return repr(word[:40]) + (f' (near it: {", ".join(near)})' if near else '')

    return told


def without_paths(words: str, private: Sequence[str] = ()) -> str:
    """Replace each absolute path in a message by its last component.

    Args:
        private: paths to replace even if they contain spaces.
    """
    words = _QUOTED.sub(r'\1\2\1', words)
    for path in sorted(private, key=len, reverse=True):
        words = words.replace(path, os.path.basename(path.rstrip('/')))
    return _BARE.sub(r'\1', words)


def said_of(error: dict[str, Any]) -> str:
    """Return one of pydantic's errors as a sentence.

    Args:
        error: an entry of ``ValidationError.errors()``.
    """
    kind, context = error['type'], error.get('ctx', {})
    parts = [part for part in error['loc'] if part not in ('body', 'query')]
    place = '.'.join(map(str, parts))[:80]
    if kind == 'json_invalid':
        return f'the body is not JSON: {context.get("error", "it cannot be read")}'
    if not place and kind in ('model_type', 'model_attributes_type', 'dict_type', 'missing'):
        return 'the body must be a JSON object, sent with the header Content-Type: application/json'
    words = _SENTENCES.get(kind) or _KINDS.get(kind.partition('_')[0])
    if words is None:  # of a check in bodies.py
        words = error['msg'].removeprefix('Value error, ')
        return f'{place}: {words}' if place else words
    return f'{place or "the body"} {words.format(**context)}'


async def _invalid(request: Request, error: RequestValidationError) -> JSONResponse:
    return answer(422, said_of(error.errors()[0]))


async def _of_http(request: Request, error: HTTPException) -> JSONResponse:
    return answer(error.status_code, error.detail, **(error.headers or {}))


async def _gone(request: Request, error: ClientDisconnect) -> Response:
    """Answer 400 to a disconnected client, which is no fault of the service."""
    return Response(status_code=400)


async def _unforeseen(request: Request, error: Exception) -> JSONResponse:
    logging.getLogger('mmvtr_gallery.serving').error('%s %s', request.method, request.url.path)
    return answer(500, 'the service failed; its log says why')
