"""Access control: accepted host names, sizes of bodies, and the token of writers."""

from __future__ import annotations

import hmac
from typing import Any, Callable, Iterable, Optional

from fastapi import Request
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException

from mmvtr_gallery.serving.errors import answer

#: Response headers: the page loads nothing from other sites, and cannot be framed by them.
HEADERS = {
    'Content-Security-Policy': (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
        "media-src 'self' blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    'X-Content-Type-Options': 'nosniff',
    'Referrer-Policy': 'no-referrer',
    'Cross-Origin-Resource-Policy': 'same-origin',
}


class Guard:
    """ASGI middleware that refuses other host names, cross-site requests and large bodies.

    It also adds security headers.  A page of another site can point its own name at this machine
    (DNS rebinding); the Host header then has that name.  It can also make a visitor's browser send
    a request, which then carries the site's ``Origin``; clients that are no browsers send none.
    HEAD is answered like GET, without the body.

    Args:
        hosts: accepted host names; None: any.
        body: maximal bytes of a body, except on the paths in ``uploads``.
        uploads: path -> maximal bytes of a body.
    """

    def __init__(
        self, app: Callable, *, hosts: Optional[Iterable[str]], body: int, uploads: dict[str, int]
    ) -> None:
        self._app, self._body, self._uploads = app, body, uploads
        self._hosts = None if hosts is None else set(hosts)

    async def __call__(self, scope: dict, receive: Callable, send: Callable) -> None:
        if scope['type'] != 'http':
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        name = _without_port(headers.get('host', ''))
        if self._hosts is not None and name not in self._hosts:
            refusal = answer(
                421,
                f'this service does not answer under the name {name[:80]!r}; mmvtr serve --name '
                'allows further names',
            )
            await refusal(scope, receive, send)
            return
        if scope['method'] not in ('GET', 'HEAD') and not _same_site(headers):
            refusal = answer(403, 'requests from the pages of other sites are refused')
            await refusal(scope, receive, send)
            return
        most = self._uploads.get(scope['path'], self._body)
        stated = headers.get('content-length', '0')
        if not (stated.isascii() and stated.isdigit()) or int(stated) > most:
            refusal = answer(413, _largest(most), Connection='close')
            await refusal(scope, receive, send)
            return
        seen = 0

        async def counted() -> Any:
            nonlocal seen
            message = await receive()
            seen += len(message.get('body', b''))
            if seen > most:
                raise HTTPException(413, _largest(most))
            return message

        head = scope['method'] == 'HEAD'

        async def with_headers(message: dict) -> None:
            if message['type'] == 'http.response.body' and head:
                message = dict(message, body=b'')
            if message['type'] == 'http.response.start':
                known = {name.lower() for name, _ in message['headers']}
                for name, value in HEADERS.items():
                    if name.lower().encode() not in known:
                        message['headers'].append((name.lower().encode(), value.encode()))
            await send(message)

        await self._app(dict(scope, method='GET') if head else scope, counted, with_headers)


def _largest(most: int) -> str:
    return f'a request may have at most {most / 2**20:g} MiB here'


def _same_site(headers: Headers) -> bool:
    """Return whether a request comes from a page of this service, or from no page at all."""
    site, origin = headers.get('sec-fetch-site'), headers.get('origin')
    if site is not None and site not in ('same-origin', 'none'):
        return False
    return origin is None or origin.partition('://')[2] == headers.get('host')


def _without_port(host: str) -> str:
    """Strip the port: '[::1]:80' -> '::1', 'localhost:80' -> 'localhost'."""
    if host.startswith('['):
        return host[1:].partition(']')[0]
    return host.partition(':')[0].lower()


class Writers:
    """A FastAPI dependency that admits only requests with the token.

    Args:
        token: None: nobody may write.
    """

    def __init__(self, token: Optional[str]) -> None:
        self._token = token

    @property
    def any(self) -> bool:
        """Return whether anybody may write."""
        return self._token is not None

    def __call__(self, request: Request) -> None:
        """Raise unless the request has the token; a dependency of the routes that change something.

        Raises:
            HTTPException: 403 without a token of the service, 401 without the right one.
        """
        if self._token is None:
            raise HTTPException(403, 'this service was started without a token: it only reads')
        if not self.knows(request):
            raise HTTPException(
                401,
                'a change needs the header "Authorization: Bearer TOKEN" with the right token',
                {'WWW-Authenticate': 'Bearer'},
            )

    def knows(self, request: Request) -> bool:
        """Return whether the service has a token and the request brings it."""
        if self._token is None:
            return False
        scheme, _, given = request.headers.get('authorization', '').partition(' ')
        right = hmac.compare_digest(given.strip().encode(), self._token.encode())
        return scheme.lower() == 'bearer' and right
