"""Predictions in json types."""

from __future__ import annotations

from typing import Any, Optional

from mmvtr.apis.inferencer.ranking import RankingSample
from mmvtr.datasets.videos.film_strip import NO_FRAMES, FilmStrip
from mmvtr.datasets.videos.video_files import pictures_span
from mmvtr.visualization import SheetItem, retrieval_sheet


def as_prediction(sample: RankingSample, seconds: dict[str, tuple[float, float]]) -> dict[str, Any]:
    """Return a prediction; ``seconds``: begin and end of the files' pictures, if known."""
    fields = dict(score='scores', raw_score='raw_scores', bias='biases', holds='truths')
    fields.update(sigma='item_sigma', p_match='probabilities')
    columns = {name: sample.get(key).tolist() for name, key in fields.items() if key in sample}
    hits: list[dict[str, Any]] = []
    for k, (name, item) in enumerate(zip(sample.ids, sample.sources)):
        hit = dict(rank=k + 1, id=name, item=item)
        hits.append(hit | {key: values[k] for key, values in columns.items()})
    for hit, span in zip(hits, sample.moments.tolist() if 'moments' in sample else ()):
        path = sample.query if sample.kind == 'video' else hit['item']
        if path is not None and path not in seconds:
            seconds[path] = pictures_span(path)
        begin, end = (0.0, 1.0) if path is None else seconds[path]
        hit['moment'] = tuple(begin + x * (end - begin) for x in span)
        hit['moment_unit'] = 'share' if path is None else 'seconds'
        if path is not None:
            hit['duration'] = end
    prediction = dict(query_id=sample.query_id, query=sample.query, kind=sample.kind, hits=hits)
    return prediction | (dict(sigma=sample.sigma.item()) if 'sigma' in sample else {})


def draw_sheet(prediction: dict[str, Any], strips: dict[str, FilmStrip]) -> Any:
    """Return a matplotlib figure of one query and its results.

    Args:
        prediction: a prediction of the inferencer.
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
    """Return the video files of a sheet; None for unknown files."""
    if prediction['kind'] == 'video':
        return [prediction['query']]
    return [hit['item'] for hit in prediction['hits']]
