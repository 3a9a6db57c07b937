"""What goes wrong becomes one sentence of JSON, never a traceback."""

from __future__ import annotations

import errno
import logging
import re
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from mmvtr.datasets.videos.video_io import BrokenVideoError
from mmvtr.serving.batching import Busy
from mmvtr.serving.gallery import Empty
from mmvtr.serving.library import Outside
from mmvtr.serving.media import Unsatisfiable
from mmvtr.storage.lock import FolderInUse
from mmvtr.store.items import KnownIds, UnknownIds

#: The longest sentence.
LONGEST = 400

#: The first that fits counts.
STATUS: list[tuple[type[Exception], int]] = [
    (UnknownIds, 404),
    (KnownIds, 409),
    (Empty, 409),
    (FolderInUse, 409),
    (Busy, 503),
    (Unsatisfiable, 416),
    (BrokenVideoError, 422),
    (Outside, 403),
    (FileNotFoundError, 404),
    (ConnectionError, 502),
    (TimeoutError, 504),
    (ValueError, 422),
    (KeyError, 422),
    (OSError, 500),
    (RuntimeError, 500),
]
_FULL = (errno.ENOSPC, errno.EDQUOT)

#: Of what an error says, for the reference.
RESPONSES: dict[int | str, dict[str, Any]] = {
    '4XX': dict(description='A request that cannot be answered: `{"error": "one sentence"}`'),
    '5XX': dict(description='A failure of the service: `{"error": "one sentence"}`'),
}


def answer(status: int, sentence: str, **headers: str) -> JSONResponse:
    """An error as JSON."""
    words = ' '.join(str(sentence).split())
    words = words if len(words) <= LONGEST else f'{words[: LONGEST - 3]}...'
    return JSONResponse(dict(error=words), status, headers=headers)


def handle_errors(app: FastAPI) -> None:
    """Give an app one handler for each kind of error."""
    for kind, status in STATUS:
        app.add_exception_handler(kind, _of_status(status))
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _of_http)
    app.add_exception_handler(Exception, _unforeseen)


def _of_status(status: int) -> Any:
    async def handler(request: Request, error: Exception) -> JSONResponse:
        if isinstance(error, OSError) and (error.errno in _FULL or 'No space left' in str(error)):
            return answer(507, 'the disk of the gallery is full: nothing was changed')
        return answer(status, sentence_of(error))

    return handler


def sentence_of(error: Exception) -> str:
    """What an error says to who is far away: the words, and no path of this machine's code."""
    if isinstance(error, KeyError):
        words = str(error.args[0]) if error.args else 'unknown'
        unknown = re.search(r'words \[(.*?)\] are not in', words)
        if unknown:
            return f"this model's closed vocabulary lacks {unknown[1]}"
        return words
    return str(error) or type(error).__name__


async def _invalid(request: Request, error: RequestValidationError) -> JSONResponse:
    first = error.errors()[0]
    place = '.'.join(str(part) for part in first['loc'] if part not in ('body', 'query'))
    reason = first['msg'].removeprefix('Value error, ')
    return answer(422, f'{place[:80]}: {reason}' if place else reason)


async def _of_http(request: Request, error: HTTPException) -> JSONResponse:
    return answer(error.status_code, error.detail, **(error.headers or {}))


async def _unforeseen(request: Request, error: Exception) -> JSONResponse:
    logging.getLogger('mmvtr.serving').error('%s %s', request.method, request.url.path)
    return answer(500, f'an unforeseen {type(error).__name__}; the log of the service says more')
