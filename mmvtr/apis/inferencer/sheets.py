"""Pictures for a retrieval sheet: the query, and frames of each hit."""

from __future__ import annotations

from typing import Any, Optional

from mmvtr.engine.hooks.film_strip import NO_FRAMES, FilmStrip
from mmvtr.visualization import SheetItem, retrieval_sheet


def draw_sheet(prediction: dict[str, Any], strips: dict[str, FilmStrip]) -> Any:
    """Return a matplotlib figure of one query and its results.

    Args:
        prediction: as the inferencer gives it.
        strips: frames by file.
    """
    of_texts = prediction['kind'] == 'text'
    hits = []
    for hit in prediction['hits']:
        item = SheetItem(
            title=hit['id'] if of_texts else hit['item'] or hit['id'],
            frames=NO_FRAMES,
            score=hit.get('raw_score', hit['score']),
            bias=hit.get('bias'),
            sigma=hit.get('sigma'),
            moment=hit.get('moment'),
            duration=hit.get('duration'),
        )
        hits.append(item._replace(**strips[hit['item']]._asdict()) if of_texts else item)
    query = prediction['query'] if of_texts else strips[prediction['query']].frames
    return retrieval_sheet(query, hits, sigma=prediction.get('sigma'))


def files_of(prediction: dict[str, Any]) -> list[Optional[str]]:
    """Return the videos of a sheet; None for those without a known file."""
    if prediction['kind'] == 'video':
        return [prediction['query']]
    return [hit['item'] for hit in prediction['hits']]
