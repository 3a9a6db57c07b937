"""The FastAPI app and its routes."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from bisect import bisect_left
from contextlib import asynccontextmanager
from importlib import import_module
from importlib.resources import files
from itertools import zip_longest
from typing import Annotated, Any, AsyncIterator, Iterable, Literal, Optional

try:
    from fastapi import Body as JsonBody
    from fastapi import Depends, FastAPI, Query, Request, Response
    from fastapi.responses import StreamingResponse
    from starlette.background import BackgroundTask
    from starlette.concurrency import run_in_threadpool
except ImportError:
    raise ImportError(
        "the service needs FastAPI: pip install -e 'projects/gallery[serve]'"
    ) from None

from mmvtr_gallery.serving.answers import Answer, NewItem
from mmvtr_gallery.serving.answers import Query as Asked
from mmvtr_gallery.serving.bodies import (
    BODY,
    MOST_HITS,
    UPLOAD,
    Add,
    Delete,
    Found,
    Hit,
    Judge,
    Quarantine,
    Refit,
    Search,
    SearchTexts,
    SearchVectors,
    Undo,
    When,
    sendable,
)
from mmvtr_gallery.serving.errors import RESPONSES, answer, handle_errors
from mmvtr_gallery.serving.gallery import Gallery
from mmvtr_gallery.serving.guards import Guard, Writers
from mmvtr_gallery.serving.item_routes import add_items
from mmvtr_gallery.serving.judgments import Judgment
from mmvtr_gallery.serving.kept_uploads import received
from mmvtr_gallery.serving.library import file_names
from mmvtr_gallery.serving.media import Strips, Unsatisfiable, byte_range, media_type, read_range
from mmvtr_gallery.serving.moment_search import Moment
from mmvtr_gallery.serving.observing import FORMAT, Observed, Observing, stage
from mmvtr_gallery.serving.receiving import check_all, receive, sent
from mmvtr_gallery.serving.sampling import Client
from mmvtr_gallery.serving.uploads import Uploads
from mmvtr_gallery.store.moments import MomentStore

#: Path -> file of the page, and its media type.
PAGE = {
    '/': ('index.html', 'text/html; charset=utf-8'),
    '/style.css': ('style.css', 'text/css; charset=utf-8'),
    '/docs': ('docs.html', 'text/html; charset=utf-8'),
    **{
        f'/{name}.js': (f'{name}.js', 'text/javascript; charset=utf-8')
        for name in ('app', 'api', 'cards', 'changes', 'filters', 'keys', 'player', 'docs')
    },
}

Id = Annotated[str, Query(min_length=1, max_length=1024, description='of an item')]


def create_app(
    gallery: Gallery,
    *,
    token: Optional[str] = None,
    hosts: Optional[Iterable[str]] = None,
    uploads: Optional[Uploads] = None,
    observed: Optional[Observed] = None,
) -> FastAPI:
    """Return the service of a gallery; the gallery is closed when the service ends.

    Args:
        gallery: the gallery to serve.
        token: token that allows to add, delete and refit; None: nobody may.
        hosts: accepted host names; None: any.
        uploads: limits on uploaded query videos; default those of
            :class:`~mmvtr_gallery.serving.uploads.Uploads`.
        observed: records all requests, and may publish figures at ``/metrics``.

    Raises:
        ImportError: a package is missing (says what to install).
    """

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        yield
        await run_in_threadpool(gallery.close)
        if observed is not None:
            observed.close()

    app = FastAPI(
        title='mmvtr gallery',
        version=import_module('mmvtr').__version__,  # the root package belongs to no layer
        description='Search a gallery of videos by text, by video or by vector.',
        docs_url=None,  # FastAPI's own pages load their scripts from a CDN
        redoc_url=None,
        lifespan=life,
        responses=RESPONSES,
    )
    app.add_middleware(
        Guard,
        hosts=hosts,
        body=BODY,
        uploads=dict.fromkeys(('/search/video', '/add/video'), UPLOAD),
    )
    if observed is not None:  # added last, it runs first, so it also sees what the guard refuses
        app.add_middleware(Observing, observed=observed)
        if observed.told:
            _add_metrics(app, gallery, observed)
    handle_errors(app, _private(gallery))
    _add_page(app)
    writers = Writers(token)
    _add_searches(app, gallery, writers)
    uploads = uploads or Uploads()
    _add_video_searches(app, gallery, uploads, writers)
    add_items(app, gallery)
    _add_media(app, gallery, Strips(gallery.files), writers)
    _add_changes(app, gallery, writers)
    _add_kept_videos(app, gallery, writers, uploads)
    return app


def _private(gallery: Gallery) -> list[str]:
    """Return the folders whose paths must not appear in error messages."""
    place = str(gallery.location)
    return [place, os.path.realpath(place), *map(str, gallery.library.names)]


def _add_page(app: FastAPI) -> None:
    folder = files('mmvtr_gallery.serving') / 'page'

    def route(path: str, name: str, kind: str) -> None:
        content = (folder / name).read_bytes()

        @app.get(path, include_in_schema=False)
        def page() -> Response:
            return Response(content, media_type=kind, headers={'Cache-Control': 'no-cache'})

    for path, (name, kind) in PAGE.items():
        route(path, name, kind)


def _add_metrics(app: FastAPI, gallery: Gallery, observed: Observed) -> None:
    @app.get('/metrics', include_in_schema=False)
    def metrics() -> Response:
        return Response(observed.figures(gallery.gauges()), media_type=FORMAT)


def _add_searches(app: FastAPI, gallery: Gallery, writers: Writers) -> None:
    async def encoded(texts: list[str], request: Request) -> list[Asked]:
        with stage(request.scope, 'encode'):
            waiting = [asyncio.wrap_future(gallery.thread.text(text)) for text in texts]
            return await asyncio.gather(*waiting)

    async def answers_of(
        queries: list[Asked], body: Any, request: Request, began: float, like: bool = False
    ) -> list[Found]:
        """Search and answer; a query ``like`` an item is not sampled, by default without biases."""
        asker = None
        if not like:
            address = request.client.host if request.client else None
            asker = Client(address, trusted=writers.knows(request))
        with stage(request.scope, 'search'):
            found = await run_in_threadpool(
                gallery.search,
                queries,
                body.k,
                filter=body.filter,
                transform=not like if body.transform is None else body.transform,
                compare=body.compare,
                calibrated=not like,
                min_precision=body.min_precision,
                unless_shifted=body.unless_shifted,
                by_moments=body.rank_by == 'moments',
                asker=asker,
            )
        return [_told(gallery, *one, began) for one in zip(found, queries)]

    @app.post('/search')
    async def search(body: Search, request: Request) -> Found:
        """Search the best items for a text, for a vector, or for an item of the gallery."""
        began = time.perf_counter()
        if body.text is not None:
            queries = await encoded([body.text], request)
        elif body.vector is not None:
            queries = [gallery.query(body.vector)]
        else:
            queries = [Asked((await run_in_threadpool(gallery.item, body.like)).vector)]
        return (await answers_of(queries, body, request, began, body.like is not None))[0]

    @app.post('/search/texts')
    async def search_texts(body: SearchTexts, request: Request) -> list[Found]:
        """Search the best items for each of several texts, in their order."""
        began = time.perf_counter()
        return await answers_of(await encoded(body.texts, request), body, request, began)

    @app.post('/search/vectors')
    async def search_vectors(body: SearchVectors, request: Request) -> list[Found]:
        """Search the best items for each of several vectors, in their order, in one pass."""
        began = time.perf_counter()
        queries = [gallery.query(vector) for vector in body.vectors]
        return await answers_of(queries, body, request, began)

    @app.get('/health')
    def health() -> dict[str, Any]:
        """Report what is served, and its state."""
        store, thread, moments = gallery.store, gallery.thread, gallery.moments
        about, refit = store.about, store.last_refit or {}
        return dict(
            status='ok',
            items=store.count(),
            quarantined=len(store.quarantined),
            dim=store.dim,
            engine=store.engine,
            model=gallery.fingerprint,
            encodes=gallery.encoder.kinds,
            transform=None if store.debiaser is None else refit.get('transform'),
            calibration=_calibration_told(store),
            columns=store.types,
            windows=None if moments is None else windows_told(moments),
            writable=store.writable,
            unfinished=store.unfinished,
            changes=writers.any,
            library=gallery.library.folder is not None,
            judges=writers.any and gallery.judgments.kept,
            texts=thread.texts,
            batches=thread.batches,
            largest_batch=thread.largest,
            note=sendable(about.get('note')),
            examples=sendable(about.get('examples', [])),
        )


def _add_video_searches(app: FastAPI, gallery: Gallery, uploads: Uploads, writers: Writers) -> None:
    @app.post('/search/video', openapi_extra=_binary())
    async def search_by_video(
        request: Request,
        k: Annotated[Optional[int], Query(ge=1, le=MOST_HITS)] = None,
        transform: bool = False,
        compare: bool = False,
        rank_by: Literal['items', 'moments'] = 'items',
    ) -> Found:
        """Search the best items for a video, whose file is the body; it is not stored."""
        began = time.perf_counter()
        with uploads.place(), tempfile.NamedTemporaryFile(prefix='mmvtr-query-') as file:
            await receive(request, file)
            reading = gallery.decoders(lambda: sent(gallery, uploads, file.name))
            with stage(request.scope, 'decode'):
                batch = await asyncio.wrap_future(reading)
        with stage(request.scope, 'encode'):
            vector, _ = await asyncio.wrap_future(gallery.encode(batch))
        query = Asked(vector)
        with stage(request.scope, 'search'):
            (found,) = await run_in_threadpool(
                gallery.search,
                [query],
                k,
                filter=None,
                transform=transform,
                compare=compare,
                by_moments=rank_by == 'moments',
            )
        return _told(gallery, found, query, began)

    @app.post('/moment')
    async def moment(body: When, request: Request) -> dict[str, Optional[float]]:
        """Find when in an item's file a text matches best, in seconds; null if unknown."""
        trusted = writers.knows(request)
        item = await run_in_threadpool(gallery.seen, body.id, trusted=trusted)
        frames = await asyncio.wrap_future(gallery.decoders(lambda: gallery.frames(item)))
        found = await asyncio.wrap_future(gallery.moment(body.text, frames))
        return dict.fromkeys(Moment._fields) if found is None else found._asdict()


def _told(gallery: Gallery, found: Answer, query: Asked, began: float) -> Found:
    """Return an answer in the form that is sent."""
    known, sigma = gallery.store.about.get('text_sigma'), query.sigma
    share = bisect_left(known, sigma) / len(known) if known and sigma is not None else None
    names = file_names([item.path for _, _, item in found.hits], gallery.library)
    judged = {} if query.text is None else gallery.judgments.of(query.text)
    hits = [
        Hit(
            rank=rank,
            id=item.id,
            score=score,
            raw=raw,
            bias=item.bias,
            moment=None if window is None else window._asdict(),
            p_match=None if found.p_match is None else found.p_match[rank - 1],
            judged=judged.get(item.id),
            sigma=item.sigma,
            start=item.start,
            end=item.end,
            file=name,
            metadata=item.metadata,
            moved=None if found.moved is None else found.moved[rank - 1],
        )
        for rank, ((score, raw, item), name, window) in enumerate(
            zip_longest(found.hits, names, found.windows), 1
        )
    ]
    return Found(
        hits=hits,
        transform=found.transform,
        cut=None if query.cut is None else query.cut._asdict(),
        scaled=query.scaled,
        sigma=sigma,
        wider_than=share,
        threshold=found.threshold,
        threshold_p_match=found.threshold_p_match,
        note=found.note,
        count=found.count,
        ms=round(1000 * (time.perf_counter() - began), 2),
    )


def _calibration_told(store: Any) -> Optional[dict[str, Any]]:
    """Return what ``/health`` reports about P(match); None: no calibration."""
    probabilities = store.topk_probabilities
    if probabilities is not None:
        return dict(method='lists', debiased=True, items=probabilities.items or None)
    fit = store.calibration
    return None if fit is None else dict(method=fit.method, debiased=fit.debiased)


def windows_told(moments: MomentStore) -> dict[str, Any]:
    """Return what ``/health`` reports about a gallery's windows."""
    windows, windowing = moments.windows, moments.windowing
    refit = windows.last_refit or {}
    return dict(
        count=windows.count(),
        transform=None if windows.debiaser is None else refit.get('transform'),
        length=None if windowing is None else windowing.length,
        step=None if windowing is None else windowing.step,
        alike=moments.alike,
    )


def _binary() -> dict[str, Any]:
    """Describe for the API reference that the body is a file."""
    content = {'video/*': dict(schema=dict(type='string', format='binary'))}
    return dict(requestBody=dict(required=True, content=content))


def _add_media(app: FastAPI, gallery: Gallery, strips: Strips, writers: Writers) -> None:
    @app.get('/thumb', response_class=Response)
    def thumb(request: Request, id: Id, frames: Annotated[int, Query(ge=1, le=16)] = 6) -> Response:
        """Send frames of an item side by side, as JPEG; a quarantined item needs the token."""
        picture = strips(gallery.seen(id, trusted=writers.knows(request)), frames)
        return Response(
            picture, media_type='image/jpeg', headers={'Cache-Control': 'private, max-age=300'}
        )

    @app.get('/video', response_class=Response)
    def video(request: Request, id: Id) -> Response:
        """Send an item's file, or the requested range; a quarantined item needs the token."""
        item = gallery.seen(id, trusted=writers.knows(request))
        file = gallery.files.open(item)
        size = os.fstat(file.fileno()).st_size
        headers = {'Accept-Ranges': 'bytes', 'Cache-Control': 'private, max-age=300'}
        try:
            part = byte_range(request.headers.get('range'), size)
        except Unsatisfiable as error:
            file.close()
            return answer(416, str(error), **{'Content-Range': f'bytes */{size}'})
        status, length = 200, size
        if part is not None:
            status, length = 206, part.last - part.first + 1
            headers['Content-Range'] = f'bytes {part.first}-{part.last}/{size}'
        headers['Content-Length'] = str(length)
        kind = media_type(item.path)
        if not length:
            file.close()
            return Response(status_code=status, headers=headers, media_type=kind)
        first = 0 if part is None else part.first
        content = read_range(file, first, length)
        return StreamingResponse(
            content, status, headers, media_type=kind, background=BackgroundTask(file.close)
        )


def _add_changes(app: FastAPI, gallery: Gallery, writers: Writers) -> None:
    options: dict[str, Any] = dict(dependencies=[Depends(writers)])

    @app.post('/add', **options)
    def add(body: Add) -> dict[str, Any]:
        """Add items, and in a gallery with windows also those of their files; needs the token."""
        return gallery.add([NewItem(**item.model_dump()) for item in body.items])

    @app.post('/delete', **options)
    def delete(body: Delete) -> dict[str, int]:
        """Remove items; needs the token."""
        return dict(items=gallery.delete(body.ids))

    @app.post('/quarantine', **options)
    def quarantine(body: Quarantine) -> dict[str, int]:
        """Exclude items from all searches, or release them; needs the token."""
        return dict(quarantined=gallery.quarantine(body.ids, body.release))

    @app.post('/refit', **options)
    def refit(body: Annotated[Refit, JsonBody()] = Refit()) -> dict[str, Any]:
        """Compute new biases of all items; needs the token."""
        return gallery.refit(**body.model_dump())

    @app.post('/judge', **options)
    def judge(body: Judge) -> dict[str, int]:
        """Store whether an item is right for a text, for `/calibrate`; needs the token."""
        return dict(judgments=gallery.judge(Judgment(**body.model_dump())))

    @app.post('/calibrate', **options)
    def calibrate() -> dict[str, int]:
        """Fit P(match) to all judgments; needs the token."""
        return gallery.calibrate()

    @app.get('/drift', **options)
    def drift() -> dict[str, Any]:
        """Report whether the served queries call for a refit, and are like those of the
        calibration; nulls if unknown; needs the token."""
        found, shift = gallery.drift(), gallery.shift()
        said = dict(now=None, then=None, queries=None, refit=None, sentence=None)
        if found is not None:
            said = dict(found._asdict(), refit=found.refit, sentence=str(found))
        if shift is None:
            return dict(said, shifted=None, shift=None)
        return dict(said, shifted=shift.noticed, shift=str(shift))

    @app.post('/undo', **options)
    def undo(body: Annotated[Undo, JsonBody()] = Undo()) -> dict[str, Any]:
        """Undo the last change; a second call redoes it; needs the token."""
        return gallery.undo(body.kind)


def _add_kept_videos(app: FastAPI, gallery: Gallery, writers: Writers, uploads: Uploads) -> None:
    @app.post('/add/video', dependencies=[Depends(writers)], openapi_extra=_binary())
    async def add_video(
        request: Request,
        file: Annotated[str, Query(min_length=1, max_length=200, description='in the library')],
        id: Annotated[Optional[str], Query(min_length=1, max_length=1024)] = None,
    ) -> dict[str, Any]:
        """Store the video in the body as a file of the library, and add it; needs the token.

        Without an id it is named after its file.
        """
        with uploads.place():
            with received(gallery.library, file) as path:
                with open(path, 'wb') as part:
                    await receive(request, part)
                await asyncio.wrap_future(gallery.decoders(lambda: check_all(uploads, str(path))))

            def add() -> dict[str, Any]:
                try:
                    return gallery.add([NewItem(id or file, file)])
                except BaseException:
                    gallery.library.file(file).unlink(missing_ok=True)
                    raise

            # In a thread, so that a cancelled request does not remove the file of an added item.
            return await run_in_threadpool(add)
