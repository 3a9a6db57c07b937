"""Routes that list the gallery: ``/items``, page by page, and ``/stats``."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Optional

from fastapi import Body as JsonBody
from fastapi import FastAPI
from pydantic import BaseModel, BeforeValidator, Field

from mmvtr_gallery.serving.bodies import Items, Sent, sendable
from mmvtr_gallery.serving.gallery import Gallery
from mmvtr_gallery.serving.library import file_names


class ListedItem(BaseModel):
    """An item of the gallery."""

    id: Sent
    file: Optional[Sent] = Field(description='as of a hit')
    start: Optional[float]
    end: Optional[float]
    sigma: Optional[float]
    added: float = Field(description='seconds since 1970')
    bias: float
    metadata: Annotated[dict[str, Any], BeforeValidator(sendable)]
    quarantined: bool = Field(description='whether searches leave it out')
    found: Optional[int] = Field(
        description='known queries that have it among their best; null: no query is known'
    )
    found_raw: Optional[int] = Field(description='those that would without biases')
    mark: Optional[Literal['hub', 'never_found']]
    why: Optional[str] = Field(description='a sentence of the mark')


class Page(BaseModel):
    """Items ``offset`` to ``offset`` + ``limit`` of those that match."""

    items: list[ListedItem]
    total: int = Field(description='items that fit')


class LastChange(BaseModel):
    """The change that `/undo` reverts."""

    kind: Literal['add', 'delete', 'replace', 'refit', 'quarantine', 'release']
    items: Optional[int] = Field(description='of the change; null of a refit')
    undone: bool = Field(description='it is itself an undo: `/undo` redoes what it has undone')


class HowFound(BaseModel):
    """How evenly the items are distributed over the top results of the known queries."""

    source: Literal['bank', 'served'] = Field(
        description='the texts of the last refit, or the sample of served queries'
    )
    queries: int
    k: int = Field(description='hits of a query that count')
    expected: float = Field(description='queries that would find each item if all were alike')
    hubs: int = Field(description='items found more often than the mean + 2 standard deviations')
    never_found: int
    skewness_raw: float = Field(description='of the counts without biases; 0: even')
    skewness: float


class Stats(BaseModel):
    """The state of the gallery."""

    items: int
    version: int = Field(description='larger after every change')
    columns: Annotated[dict[str, Any], BeforeValidator(sendable)] = Field(
        description='type, number of items without a value, and min and max, or the number of '
        'distinct values and the most frequent ones with their counts'
    )
    refit: Optional[dict[str, Any]]
    last_change: Optional[LastChange]
    sample: Optional[dict[str, int]] = Field(description='of served queries')
    found: Optional[HowFound]


def add_items(app: FastAPI, gallery: Gallery) -> None:
    """Add the routes to an app."""

    @app.post('/items')
    def items(body: Annotated[Items, JsonBody()] = Items()) -> Page:
        """List a page of the gallery, with which items are hubs or never found, and why."""
        page = gallery.overview.page(**body.model_dump())
        names = file_names([item.path for item in page.items], gallery.library)
        held = set(gallery.store.quarantined)
        listed = [
            ListedItem(
                id=item.id,
                file=name,
                start=item.start,
                end=item.end,
                sigma=item.sigma,
                added=item.added,
                bias=item.bias,
                metadata=item.metadata,
                quarantined=item.id in held,
                found=None if mark is None else mark.found,
                found_raw=None if mark is None else mark.raw,
                mark=None if mark is None else mark.kind,
                why=None if mark is None else mark.why,
            )
            for item, mark, name in zip(page.items, page.marks, names)
        ]
        return Page(items=listed, total=page.total)

    @app.get('/stats')
    def stats() -> Stats:
        """Report columns and their values, the last change, and how evenly items are found."""
        return Stats(**gallery.overview.stats())
