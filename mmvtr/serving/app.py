"""The routes."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from bisect import bisect_left
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Annotated, Any, AsyncIterator, Iterable, Optional

try:
    from fastapi import Body as JsonBody
    from fastapi import Depends, FastAPI, Query, Request, Response
    from fastapi.responses import StreamingResponse
    from starlette.concurrency import run_in_threadpool
except ImportError:
    raise ImportError('the service needs FastAPI: pip install -e ".[serve]"') from None

from mmvtr.serving import gallery as answering
from mmvtr.serving.bodies import (
    BODY,
    MOST_HITS,
    UPLOAD,
    Add,
    Delete,
    Found,
    Hit,
    Refit,
    Search,
    When,
)
from mmvtr.serving.errors import RESPONSES, answer, handle_errors
from mmvtr.serving.gallery import Answer, Gallery, NewItem
from mmvtr.serving.guards import Guard, Writers
from mmvtr.serving.media import Strips, Unsatisfiable, byte_range, file_of, media_type, read_range
from mmvtr.serving.moments import Moment

#: Path -> file of the page, and what it is.
PAGE = {
    '/': ('index.html', 'text/html; charset=utf-8'),
    '/app.js': ('app.js', 'text/javascript; charset=utf-8'),
    '/style.css': ('style.css', 'text/css; charset=utf-8'),
    '/docs': ('docs.html', 'text/html; charset=utf-8'),
    '/docs.js': ('docs.js', 'text/javascript; charset=utf-8'),
}

Id = Annotated[str, Query(min_length=1, max_length=1024, description='of an item')]


def create_app(
    gallery: Gallery, *, token: Optional[str] = None, hosts: Optional[Iterable[str]] = None
) -> FastAPI:
    """The service of a gallery, which is closed when the service ends.

    Args:
        gallery: what is served.
        token: who knows it may add, delete and refit; None: nobody may.
        hosts: names that the service is called by; None: any.

    Raises:
        ImportError: says what to install.
    """

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        yield
        await run_in_threadpool(gallery.close)

    app = FastAPI(
        title='mmvtr gallery',
        description='Search a gallery of videos by text, by video or by vector.',
        docs_url=None,  # FastAPI's own pages load their scripts from elsewhere
        redoc_url=None,
        lifespan=life,
        responses=RESPONSES,
    )
    app.add_middleware(Guard, hosts=hosts, body=BODY, uploads={'/search/video': UPLOAD})
    handle_errors(app)
    _add_page(app)
    _add_searches(app, gallery)
    _add_media(app, gallery, Strips())
    _add_changes(app, gallery, Writers(token))
    return app


def _add_page(app: FastAPI) -> None:
    folder = files('mmvtr.serving') / 'page'

    def route(path: str, name: str, kind: str) -> None:
        content = (folder / name).read_bytes()

        @app.get(path, include_in_schema=False)
        def page() -> Response:
            return Response(content, media_type=kind, headers={'Cache-Control': 'no-cache'})

    for path, (name, kind) in PAGE.items():
        route(path, name, kind)


def _add_searches(app: FastAPI, gallery: Gallery) -> None:
    @app.post('/search')
    async def search(body: Search) -> Found:
        """The best items for a text, for a vector, or for an item of the gallery."""
        began = time.perf_counter()
        transform = body.like is None if body.transform is None else body.transform
        if body.text is not None:
            query = await asyncio.wrap_future(gallery.thread.text(body.text))
        elif body.vector is not None:
            query = answering.Query(body.vector)
        else:
            item = await run_in_threadpool(gallery.item, body.like)
            query = answering.Query(item.vector)
        found = await run_in_threadpool(
            gallery.search,
            query,
            body.k,
            filter=body.filter,
            transform=transform,
            compare=body.compare,
            record=body.like is None,
        )
        return _told(gallery, found, query.sigma, transform, began)

    @app.post('/search/video', openapi_extra=_binary())
    async def search_by_video(
        request: Request,
        k: Annotated[int, Query(ge=1, le=MOST_HITS)] = 12,
        transform: bool = False,
        compare: bool = False,
    ) -> Found:
        """The best items for a video, whose file is the body; it is not kept."""
        began = time.perf_counter()
        with tempfile.NamedTemporaryFile(prefix='mmvtr-query-') as file:
            async for part in request.stream():
                await run_in_threadpool(file.write, part)
            await run_in_threadpool(file.flush)
            vector = await asyncio.wrap_future(gallery.thread.job(lambda: _encoded(gallery, file)))
        query = answering.Query(vector)
        found = await run_in_threadpool(
            gallery.search,
            query,
            k,
            filter=None,
            transform=transform,
            compare=compare,
            record=False,
        )
        return _told(gallery, found, None, transform, began)

    @app.post('/moment')
    async def moment(body: When) -> dict[str, Optional[float]]:
        """When in an item's file a text matches best, in seconds; null where nothing can say."""
        item = await run_in_threadpool(gallery.item, body.id)
        file_of(item)
        found = await asyncio.wrap_future(
            gallery.thread.job(lambda: gallery.moment(body.text, item))
        )
        return dict.fromkeys(Moment._fields) if found is None else found._asdict()

    @app.get('/health')
    def health() -> dict[str, Any]:
        """What is served, and how it is."""
        store, thread = gallery.store, gallery.thread
        about, refit = store.about, store.last_refit or {}
        return dict(
            status='ok',
            items=store.count(),
            dim=store.dim,
            engine=store.engine,
            model=gallery.fingerprint,
            transform=None if store.normaliser is None else refit.get('transform'),
            columns=store.types,
            writable=store.writable,
            texts=thread.texts,
            batches=thread.batches,
            largest_batch=thread.largest,
            note=about.get('note'),
            examples=about.get('examples', []),
        )


def _encoded(gallery: Gallery, file: Any) -> Any:
    try:
        return gallery.encode_file(file.name)[0]
    except RuntimeError as error:  # its name says nothing to who has sent it
        raise ValueError('the body cannot be read as a video') from error


def _told(
    gallery: Gallery, found: Answer, sigma: Optional[float], transform: bool, began: float
) -> Found:
    """An answer as it is sent."""
    known = gallery.store.about.get('text_sigma')
    share = bisect_left(known, sigma) / len(known) if known and sigma is not None else None
    hits = [
        Hit(
            rank=rank,
            id=item.id,
            score=score,
            raw=raw,
            bias=item.bias,
            sigma=item.sigma,
            start=item.start,
            end=item.end,
            file=item.path and os.path.basename(item.path),
            metadata=item.metadata,
            moved=None if found.moved is None else found.moved[rank - 1],
        )
        for rank, (score, raw, item) in enumerate(found.hits, 1)
    ]
    return Found(
        hits=hits,
        transform=transform,
        sigma=sigma,
        wider_than=share,
        count=found.count,
        ms=round(1000 * (time.perf_counter() - began), 2),
    )


def _binary() -> dict[str, Any]:
    """For the reference: the body is a file."""
    content = {'video/*': dict(schema=dict(type='string', format='binary'))}
    return dict(requestBody=dict(required=True, content=content))


def _add_media(app: FastAPI, gallery: Gallery, strips: Strips) -> None:
    @app.get('/thumb', response_class=Response)
    def thumb(id: Id, frames: Annotated[int, Query(ge=1, le=16)] = 6) -> Response:
        """Frames of an item side by side, as JPEG."""
        picture = strips(gallery.item(id), frames)
        return Response(
            picture, media_type='image/jpeg', headers={'Cache-Control': 'private, max-age=300'}
        )

    @app.head('/video', include_in_schema=False)
    @app.get('/video', response_class=Response)
    def video(request: Request, id: Id) -> Response:
        """The file of an item, or the part of it that a Range header asks for."""
        path = file_of(gallery.item(id))
        size = path.stat().st_size
        headers = {'Accept-Ranges': 'bytes', 'Cache-Control': 'private, max-age=300'}
        try:
            part = byte_range(request.headers.get('range'), size)
        except Unsatisfiable as error:
            return answer(416, str(error), **{'Content-Range': f'bytes */{size}'})
        status, length = 200, size
        if part is not None:
            status, length = 206, part.last - part.first + 1
            headers['Content-Range'] = f'bytes {part.first}-{part.last}/{size}'
        headers['Content-Length'] = str(length)
        kind = media_type(path)
        if request.method == 'HEAD' or not length:
            return Response(status_code=status, headers=headers, media_type=kind)
        first = 0 if part is None else part.first
        content = read_range(path, first, length)
        return StreamingResponse(content, status, headers, media_type=kind)


def _add_changes(app: FastAPI, gallery: Gallery, writers: Writers) -> None:
    options: dict[str, Any] = dict(dependencies=[Depends(writers)])

    @app.post('/add', **options)
    def add(body: Add) -> dict[str, int]:
        """Add items; needs the token."""
        return dict(items=gallery.add([NewItem(**item.model_dump()) for item in body.items]))

    @app.post('/delete', **options)
    def delete(body: Delete) -> dict[str, int]:
        """Remove items; needs the token."""
        return dict(items=gallery.delete(body.ids))

    @app.post('/refit', **options)
    def refit(body: Annotated[Refit, JsonBody()] = Refit()) -> dict[str, Any]:
        """Find new biases of all items; needs the token."""
        given = body.model_dump(exclude={'texts'})
        return gallery.refit(body.texts, **given)

    @app.post('/undo', **options)
    def undo() -> dict[str, Any]:
        """Take the last refit back, once more: it is there again; needs the token."""
        return gallery.undo()
