r"""Convert pickled features of Collaborative Experts, MMT and TeachText to hdf5 files.

    python tools/dataset_converters/expert_pickles.py videos data/msrvtt/features/ocr.h5 ocr.pickle
    python tools/dataset_converters/expert_pickles.py texts data/msvd/features/gpt.h5 gpt.pkl
    python tools/dataset_converters/expert_pickles.py texts data/msrvtt/features/gpt.h5 gpt.pkl \
        --captions raw-captions.pkl --config configs/mmt_msrvtt.py

*videos*: pickles of {video id: array [D] or [F, D], or NaN if the expert is missing}.  The file
holds [F, D] by video id, for ``LoadExperts`` and ``LoadFeatures``; videos for which the expert is
missing (NaN, no rows, or only NaN) are left out and counted.

*texts*: pickles of {video id: list of arrays [L, D], one per caption}.  The file holds them by text
id, for ``LoadTextFeatures``: as VIDEO#N, the ids of MSVD, VATEX and LSMDC in this library; or, with
--captions and --config, by the ids of the config's datasets, whose captions are matched by their
words (only letters and digits) with the captions of their video.  A caption without any word vector
gets one row of zeros, and is counted.

As pickles can run code, they are read by an unpickler that builds only containers, strings, numbers
and arrays of numbers.  Each pickle is loaded into memory as a whole, one at a time.
"""

from __future__ import annotations

import argparse
import math
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any, Callable, Iterator, NamedTuple, Optional, Sequence

from mmvtr.cli.start import tool

import h5py
import numpy as np
from mmengine.registry import init_default_scope

from mmvtr.cli import Parser
from mmvtr.datasets.annotation_values import (
    Place,
    caption,
    identifier,
    listing,
    problem,
    shown,
    wrong,
)
from mmvtr.datasets.formats.prvr import letters
from mmvtr.datasets.pickles import read_pickle, text_of
from mmvtr.datasets.record_transforms import read_annotations
from mmvtr.storage.arrays import new_hdf5
from mmvtr.utils import load_config

PARTS = ('train', 'val', 'test')

#: A name in the file, and its features [F, D]; None = there are none.
Item = tuple[str, Optional[np.ndarray]]
#: Ids of the texts that need the features of a caption, by video id and the caption's letters.
Wanted = dict[tuple[str, str], list[str]]


def parse_args() -> argparse.Namespace:
    parser = Parser(__doc__)
    add = parser.add_argument
    add('kind', choices=('videos', 'texts'), help='what the pickles have features of')
    add('out', type=Path, help='hdf5 file to write')
    add('pickles', type=Path, nargs='+', help='pickles of one expert, each of other videos')
    add(
        '--captions',
        type=Path,
        metavar='PKL',
        help='texts: {video id: captions}, as many as features',
    )
    add('--config', help='texts: config whose datasets say the ids of the texts')
    parser.add_cfg_options()
    args = parser.parse_args()
    if (args.captions is None) != (args.config is None):
        parser.error('give --captions and --config together')
    if args.kind == 'videos' and args.captions:
        parser.error('--captions is for KIND texts')
    return args


def read_features(path: Path) -> Iterator[tuple[str, Any, Place]]:
    """Yield id, features and location in the file of each video of a pickle.

    Raises:
        FileNotFoundError: no such pickle.
        ValueError: it does not hold such features, has a video twice, or no video.
    """
    content, file = read_pickle(path, 'features', arrays=True), Place(path)
    if not isinstance(content, dict) or not content:
        raise wrong(file, 'features by video id', content)
    names = [identifier(text_of(key, file), file) for key in content]
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:  # the same id as a string and as bytes
        raise problem(file, f'a second video {shown(twice[0])}')
    for name, value in zip(names, content.values()):
        yield name, value, file.key(name)


def videos(path: Path) -> Iterator[Item]:
    """Yield the features of the videos of a pickle."""
    for name, value, place in read_features(path):
        yield name, rows_of(value, place)


def texts(path: Path) -> Iterator[Item]:
    """Yield the features of the captions of a pickle, numbered within their video."""
    for name, value, place in read_features(path):
        for n, vector in enumerate(_list(value, place)):
            yield f'{name}#{n}', rows_of(vector, place.at(f'caption {n}'))


class TextsByWords:
    """Yields features of captions by the ids of the dataset's texts with the same words.

    Args:
        captions: pickle of the captions, {video id: captions}, in the order of the features.
        wanted: the dataset's texts.

    Attributes:
        lacking: ids of the texts that have not been found yet.
    """

    def __init__(self, captions: Path, wanted: Wanted) -> None:
        self.captions, self.said = captions, _read_captions(captions)
        self.wanted = wanted
        self.lacking = dict.fromkeys(text for texts in wanted.values() for text in texts)

    def __call__(self, path: Path) -> Iterator[Item]:
        """Yield the features of a pickle; captions that match no text are left out."""
        for name, value, place in read_features(path):
            vectors = _list(value, place)
            sentences = self.said.get(name, [])
            if len(vectors) != len(sentences):
                what = f'{self.captions.name} has {len(sentences)}'
                raise problem(place, f'has features of {len(vectors)} captions, but {what}')
            for n, (words, vector) in enumerate(zip(sentences, vectors)):
                for text_id in self.wanted.get((name, words), ()):
                    if text_id in self.lacking:
                        del self.lacking[text_id]
                        yield text_id, rows_of(vector, place.at(f'caption {n}'))


def rows_of(value: Any, place: Place) -> Optional[np.ndarray]:
    """Return float [F, D] with F > 0, or None if there are no features.

    Raises:
        ValueError: neither an array [D] or [F, D] nor NaN; some of its numbers are not finite.
    """
    if isinstance(value, float) and math.isnan(value):
        return None
    if not isinstance(value, np.ndarray) or value.ndim not in (0, 1, 2):
        shape = value.shape if isinstance(value, np.ndarray) else value
        raise wrong(place, 'an array [D] or [F, D], or NaN', shape)
    if value.ndim == 0 and not np.isnan(value):
        raise wrong(place, 'an array [D] or [F, D], or NaN', value.item())
    rows = np.atleast_2d(np.asarray(value))
    if not rows.size or np.isnan(rows).all():
        return None
    with np.errstate(over='ignore'):
        rows = rows.astype(np.float16 if rows.dtype.str[1:] == 'f2' else np.float32)
    if not np.isfinite(rows).all():
        raise problem(
            place, f'{np.count_nonzero(~np.isfinite(rows))} numbers are not finite float32'
        )
    return rows


def ids_of_texts(config: str, changes: dict[str, Any]) -> Wanted:
    """Return the texts of a config's datasets.

    Raises:
        ValueError: two texts have the same id.
    """
    cfg = load_config(config, changes)
    init_default_scope('mmvtr')
    captions_of: Wanted = defaultdict(list)
    firsts: dict[str, tuple[str, str]] = {}
    for part in PARTS:
        dataset_cfg = (cfg.get(f'{part}_dataloader') or {}).get('dataset')
        if dataset_cfg is None:
            continue
        all_videos = {**dataset_cfg, 'missing': 'raise'}
        dataset = read_annotations(all_videos, 'environments', 'classes', 'agreement')
        for text in dataset.texts:
            for v in text['video_idx']:
                key = dataset.videos[v]['video_id'], letters(text['text'])
                if firsts.setdefault(text['text_id'], key) != key:
                    what = f'text {shown(text["text_id"])} of {part} is another one elsewhere'
                    raise problem(Place(config), what)
                if text['text_id'] not in captions_of[key]:
                    captions_of[key].append(text['text_id'])
    return dict(captions_of)


def _read_captions(path: Path) -> dict[str, list[str]]:
    """Return the letters of the captions of each video."""
    content, file = read_pickle(path, 'captions', arrays=True), Place(path)
    if not isinstance(content, dict):
        raise wrong(file, 'captions by video id', content)
    sentences = {}
    for key, listed in content.items():
        name = text_of(key, file)
        place = file.key(name)
        sentences[name] = [letters(_sentence(caption, place)) for caption in _list(listed, place)]
    return sentences


def _sentence(value: Any, place: Place) -> str:
    """Return a caption given as a string or as a list of words."""
    words = value if isinstance(value, (list, tuple)) else [value]
    return caption(' '.join(text_of(word, place) for word in words), place)


def _list(value: Any, place: Place) -> list[Any]:
    """Return one array per caption; a single array [captions, L, D] counts as a list of them."""
    if isinstance(value, np.ndarray) and value.ndim == 3:
        return list(value)
    return listing(list(value) if isinstance(value, tuple) else value, place)


class Written(NamedTuple):
    """Result of writing a store: names with features, names without, and the width of rows."""

    there: set[str]
    lacking: set[str]
    width: int


def convert(args: argparse.Namespace) -> Written:
    """Write features of all pickles; the file appears when it is complete.

    Raises:
        FileExistsError: ``args.out`` exists.
        FileNotFoundError: no such pickle.
        ValueError: a malformed pickle, a repeated item, features of several widths or no features,
            or a text of the config without features.
    """
    if args.out.exists():
        raise FileExistsError(f'{args.out} is there already')
    items: Callable[[Path], Iterator[Item]] = dict(videos=videos, texts=texts)[args.kind]
    if args.captions is not None:
        items = TextsByWords(args.captions, ids_of_texts(args.config, args.cfg_options))
    with new_hdf5(args.out) as file:
        written = _write(file, args.pickles, items)
        if args.kind == 'texts':
            for name in written.lacking:
                file[name] = np.zeros((1, written.width), np.float32)
        if isinstance(items, TextsByWords) and items.lacking:
            what = (
                f'{len(items.lacking)} texts have no features, e.g. {shown([*items.lacking][:5])}'
            )
            raise problem(Place(args.config), what)
    return written


def _write(
    file: h5py.File, pickles: Sequence[Path], items: Callable[[Path], Iterator[Item]]
) -> Written:
    there: set[str] = set()
    lacking: set[str] = set()
    width = 0
    for path in pickles:
        for name, rows in items(path):
            if name in there or name in lacking:
                raise problem(Place(path), f'features of {shown(name)} are in another pickle too')
            if rows is None:
                lacking.add(name)
                continue
            width = width or rows.shape[1]
            if rows.shape[1] != width:
                what = f'features of {shown(name)} are {rows.shape[1]} wide, the first {width}'
                raise problem(Place(path), what)
            there.add(name)
            file[name] = rows
    if not there:
        raise problem(Place(pickles[0]), 'has no features')
    return Written(there, lacking, width)


@tool
def main() -> None:
    args = parse_args()
    written = convert(args)
    what = dict(videos='without features, not in it', texts='of unknown words, a row of zeros')
    print(
        f'{args.out}: {len(written.there)} {args.kind}, rows of {written.width} numbers; '
        f'{len(written.lacking)} more {what[args.kind]}'
    )


if __name__ == '__main__':
    main()
