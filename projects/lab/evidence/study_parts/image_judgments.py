"""Published human judgments of pairs of captions and images, as :class:`PairValues`.

An image stands where a video does, with its id.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Iterator, Union

from mmvtr.datasets.annotation_files import read_json, read_table
from mmvtr.datasets.annotation_values import Place, listing, number, wrong
from mmvtr.datasets.pair_values import PairValues, Query, check_query, collect, fields_of, finite
from mmvtr.registry import TASK_UTILS

Row = tuple[Place, str, str, float]


@TASK_UTILS.register_module()
def read_flickr8k_crowd(path: Union[str, Path]) -> PairValues:
    """Read Flickr8k's ``CrowdFlowerAnnotations.txt``: the share of 'yes' of several people.

    Hodosh, Young and Hockenmaier (JAIR 2013). Lines of image, caption id, share of yes, number of
    yes, number of no.

    Raises:
        FileNotFoundError: no such file.
        ValueError: a line of another form, counts of which the share is not that share, a pair
            twice.
    """

    def rows() -> Iterator[Row]:
        for place, (image, caption, share, *votes) in fields_of(
            Path(path), 'image caption share yes no', '\t'
        ):
            value = finite(share, 'share', place)
            yes, no = (number(vote, place) for vote in votes)
            if yes + no == 0 or abs(value - yes / (yes + no)) > 1e-6:
                raise wrong(place, 'a share of yes that is yes / (yes + no)', [share, *votes])
            yield place, caption, image, yes / (yes + no)

    return collect(rows(), path)


@TASK_UTILS.register_module()
def read_flickr8k_expert(path: Union[str, Path]) -> PairValues:
    """Read Flickr8k's ``ExpertAnnotations.txt``: the mean of three ratings, 1 to 4.

    Raises:
        FileNotFoundError: no such file.
        ValueError: a line of another form, a rating out of range, a pair twice.
    """

    def rows() -> Iterator[Row]:
        for place, (image, caption, *ratings) in fields_of(
            Path(path), 'image caption rating rating rating', '\t'
        ):
            values = [number(rating, place) for rating in ratings]
            if not all(1 <= value <= 4 for value in values):
                raise wrong(place, 'three ratings of 1 to 4', ratings)
            yield place, caption, image, sum(values) / 3

    return collect(rows(), path)


@TASK_UTILS.register_module()
def read_crisscrossed(path: Union[str, Path]) -> PairValues:
    """Read ``sits_*.csv`` of Crisscrossed Captions: mean ratings of pairs, 0 to 5.

    Parekh et al. (EACL 2021). Ids are COCO's numbers, as in ECCV Caption: '732091' of
    ``COCO_val2014:sentid:732091``, '365325' of ``COCO_val2014_000000365325.jpg``.

    Raises:
        FileNotFoundError: no such file.
        ValueError: no such columns, an id of another form, a rating out of range, a pair twice.
    """

    def rows() -> Iterator[Row]:
        for place, row in read_table(Path(path), ('caption', 'image', 'agg_score')):
            rating = finite(row['agg_score'], 'agg_score', place)
            if not 0 <= rating <= 5:
                raise wrong(place, 'a rating of 0 to 5', row['agg_score'])
            caption = _coco(r'COCO_\w+:sentid:(\d+)', row['caption'], place)
            yield place, caption, _coco(r'COCO_\w+_(\d+)\.jpg', row['image'], place), rating

    return collect(rows(), path)


@TASK_UTILS.register_module()
def read_eccv_caption(path: Union[str, Path], *, query: Query = 'text') -> PairValues:
    """Read a json file of ECCV Caption: the positives of each query, all of grade 1.

    Chun et al. (ECCV 2022). The file says nothing of other pairs: its measures, mAP@R and
    R-precision, count them as wrong. Files of the same form, as COCO's own pairs, are read alike.

    Args:
        path: of the file of caption queries, or of image queries.
        query: which of the two: 'text' or 'video' (the image).

    Raises:
        FileNotFoundError: no such file.
        ValueError: another form, a query without a positive, a pair twice.
    """
    check_query(query)

    def rows() -> Iterator[Row]:
        for name, items in read_json(Path(path), ()).items():
            place = Place(path).key(name)
            if not listing(items, place):
                raise wrong(place, 'a list of ids that is not empty', items)
            for item in items:
                pair = (name, str(number(item, place)))
                yield (place, *(pair if query == 'text' else pair[::-1]), 1.0)

    return collect(rows(), path)


def _coco(pattern: str, name: str, place: Place) -> str:
    """Return the number in a COCO id, without leading zeros."""
    found = re.fullmatch(pattern, name)
    if found is None:
        raise wrong(place, f'an id {pattern}', name)
    return str(int(found[1]))
