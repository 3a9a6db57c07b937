"""Sets of real features: from what lies beside the project, or from a folder of one's own.

A folder (``run.py --set FOLDER``) holds

- ``features.npz``: ``feat`` float [n, D], ``item`` str [n]; rows of one item are its frames;
- ``captions.csv``: columns ``video`` (item), ``text``, ``text_id``, ``split`` (train, val, test);
  ``--text words`` reads their words, which spaces part in any script; RAN finds verbs and nouns
  by rules of English;
- optionally ``captions.npz``: ``vec`` float [m, E], ``key`` str [m] (a ``text_id``): a frozen
  encoder's vector of each caption;
- optionally ``words.npz``: ``vec`` float [w, E], ``key`` str [w], in order: of each word.

:func:`prepare` writes what the product reads (a table and hdf5 stores) to a folder of work.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
from collections import defaultdict
from pathlib import Path
from typing import Any, Callable, Mapping, NamedTuple, Sequence

import numpy as np
from judged import crowd_pairs
from study_parts.flickr8k import read_captions
from study_parts.known_words import KnownWords, write_words

from mmvtr.datasets.caption_similarity.caption_agreement import WORD
from mmvtr.storage.arrays import load_h5py

ROOT = Path(__file__).resolve().parents[4]
#: PCA of the features of a frame.
WIDTH = 384
SPLITS = ('train', 'val', 'test')


class Row(NamedTuple):
    """A text of an item: a line of the table."""

    video: str
    text: str
    text_id: str
    split: str


class Raw(NamedTuple):
    """A set before the product reads it.

    Attributes:
        features: float [F, D] by item.
        rows: texts, each of an item.
        sentences: float [E] by text id; empty: no frozen encoder.
        words: float [L, E] by text id; empty: none.
        extra: what else the work folder is to know.
    """

    features: Mapping[str, np.ndarray]
    rows: Sequence[Row]
    sentences: Mapping[str, np.ndarray]
    words: Mapping[str, np.ndarray]
    extra: Mapping[str, object] = {}


def shared() -> Path:
    """The folder of data beside the project, or ``$MMVTR_SHARED``.

    Raises:
        FileNotFoundError: neither has the real features.
    """
    for folder in (os.environ.get('MMVTR_SHARED'), ROOT.parent / 'shared'):
        if folder and (Path(folder) / 'data/real_features').is_dir():
            return Path(folder) / 'data'
    raise FileNotFoundError(
        'no data/real_features in ../shared: say where it is, MMVTR_SHARED=FOLDER'
    )


def in_a_sentence(step: Callable[[], Any], *also: type[Exception]) -> Any:
    """Return what a step does; a missing file, or ``also``, ends the script with one sentence."""
    try:
        return step()
    except (FileNotFoundError, *also) as error:
        raise SystemExit(f'error: {error}') from error


def flickr8k() -> Raw:
    """F: Flickr8k's images in the official splits, five captions each."""
    features, by_image, vectors = _flickr8k()
    splits = dict(train='train', val='dev', test='test')
    rows = [
        Row(name, text, key, split)
        for split, theirs in splits.items()
        for name in _images(theirs)
        for key, text in by_image[name]
    ]
    return _kept(features, rows, vectors)


def judged() -> Raw:
    """J: trained on the images and captions that people judged; val and test are of others."""
    features, by_image, vectors = _flickr8k()
    asked = {caption for caption, _ in crowd_pairs(shared())}
    parts = dict(train=_images('test'), val=_images('train')[:1000], test=_images('dev'))
    rows = [
        Row(name, text, key, split)
        for split, names in parts.items()
        for name in names
        for key, text in by_image[name]
        if split != 'train' or key in asked
    ]
    return _kept(features, rows, vectors)


def msrvtt() -> Raw:
    """M: frames of MSR-VTT's videos in the official splits, all captions (``encode_words.py``)."""
    return _msrvtt('msrvtt_more')


def msrvtt_few() -> Raw:
    """V: as M, with the captions that are stored: six a training video."""
    return _msrvtt()


def msrvtt_words() -> Raw:
    """T: as M, six captions a training video, with a vector of each word (``encode_words.py``)."""
    return _msrvtt()._replace(words=_stored(encoded('msrvtt_words')))


def encoded(name: str) -> Path:
    """What ``encode_words.py`` has written.

    Raises:
        FileNotFoundError: it has not.
    """
    path = Path(f'work_dirs/real/{name}.npz')
    if not path.exists():
        raise FileNotFoundError(f'no {path}: run encode_words.py first')
    return path


def _msrvtt(*more: str) -> Raw:
    with np.load(shared() / 'real_features/msrvtt_frames_efflite0.npz') as stored:
        features = _by_name(stored['video'], stored['feat'])
    rows, vectors = [], {}
    split_of = _msrvtt_splits()
    known = shared() / 'real_features/msrvtt_captions_minilm.npz'
    for path in (known, *map(encoded, more)):
        with np.load(path) as stored:
            for key, text, vector in zip(stored['key'], stored['caption'], stored['vec']):
                name, _, number = str(key).partition('#')
                split = '1ka' if number == '1k' else split_of[name]
                rows.append(Row(name, str(text), str(key), split))
                vectors[str(key)] = vector
    return Raw(features, rows, vectors, {})


def msrvtt_lengths(seconds: float = 5.0, frames: tuple[int, int] = (2, 6)) -> Raw:
    """L: as M, six captions a training video, a frame for so many seconds of the annotation.

    Within ``frames``, and spread over the stored ones, which repeat where there are fewer.
    """
    raw = _msrvtt()
    facts = {
        video['video_id']: (video['end time'] - video['start time'], video['category'])
        for video in _msrvtt_videos()
    }
    features = {
        name: rows[_spread(len(rows), int(np.clip(round(facts[name][0] / seconds), *frames)))]
        for name, rows in raw.features.items()
    }
    return raw._replace(features=features, extra=dict(facts={x: facts[x] for x in features}))


def untrimmed(clips: int = 4) -> Raw:
    """U: videos of ``clips`` clips of M in a row, drawn within its splits; captions of a part."""
    whole = _msrvtt()
    of_clip = defaultdict(list)
    for row in whole.rows:
        if row.split in SPLITS:
            of_clip[row.split, row.video].append(row)
    features, rows = {}, []
    for number, split in enumerate(SPLITS):
        names = sorted(name for part, name in of_clip if part == split)
        order = np.random.default_rng(number).permutation(len(names))
        for first in range(0, len(names) - clips + 1, clips):
            own = [names[n] for n in order[first : first + clips]]
            joined = f'{split}_{first // clips}'
            features[joined] = np.concatenate([_at_most(whole.features[name]) for name in own])
            rows += [row._replace(video=joined) for name in own for row in of_clip[split, name][:2]]
    return _kept(features, rows, whole.sentences)


def _at_most(frames: np.ndarray, most: int = 12) -> np.ndarray:
    return frames[_spread(len(frames), min(most, len(frames)))]


def _spread(there: int, wanted: int) -> np.ndarray:
    """Int64 [wanted], places from the first of those that are there to the last."""
    return np.linspace(0, there - 1, wanted).round().astype(int)


def of_folder(folder: Path) -> Raw:
    """A set of one's own, as the head of this file says.

    Raises:
        FileNotFoundError: features.npz or captions.csv is missing.
        ValueError: an array or column is missing, a split is none or has no text, a text id comes
            twice, an item has no features, a text no vector.
    """
    features = _by_name(*_arrays(folder / 'features.npz', 'item', 'feat'))
    path = folder / 'captions.csv'
    if not path.exists():
        raise FileNotFoundError(f'no {path}, with the columns {", ".join(Row._fields)}')
    with open(path, newline='', encoding='utf8') as file:
        reader = csv.DictReader(file)
        missing = {*Row._fields} - {*(reader.fieldnames or ())}
        if missing:
            raise ValueError(f'{path}: no column {sorted(missing)[0]!r}')
        rows = [Row(*(line[name] for name in Row._fields)) for line in reader]
    seen: set[str] = set()
    for number, row in enumerate(rows, 2):
        where = f'{path}, line {number}'
        if row.split not in SPLITS:
            raise ValueError(f'{where}: split {row.split!r}, expected one of {SPLITS}')
        if row.video not in features:
            raise ValueError(f'{where}: features.npz has no item {row.video!r}')
        if row.text_id in seen:
            raise ValueError(f'{where}: text_id {row.text_id!r} is there already')
        seen.add(row.text_id)
    for split in SPLITS:
        if all(row.split != split for row in rows):
            raise ValueError(f'{path}: no text of split {split!r}')
    vectors = {}
    for name in ('captions', 'words'):
        vectors[name] = _stored(folder / f'{name}.npz')
        lacking = sorted(seen - vectors[name].keys())
        if vectors[name] and lacking:
            raise ValueError(f'{folder / name}.npz: no vector of text_id {lacking[0]!r}')
    sentences = {key: value[0] for key, value in vectors['captions'].items()}
    files = (path, *(folder / f'{name}.npz' for name in ('features', 'captions', 'words')))
    digest = hashlib.sha256(b''.join(x.read_bytes() for x in files if x.exists())).hexdigest()
    return Raw(features, rows, sentences, vectors['words'], dict(source=digest))


def _arrays(path: Path, names: str, rows: str) -> tuple[np.ndarray, np.ndarray]:
    """Names str [n] and rows [n, D] of an npz file."""
    if not path.exists():
        raise FileNotFoundError(f'no {path}, with {rows} [n, D] and {names} [n]')
    with np.load(path) as stored:
        for name in (names, rows):
            if name not in stored:
                raise ValueError(f'{path}: no array {name!r}, it has {sorted(stored)}')
        found = stored[names], stored[rows]
    if found[1].ndim != 2 or len(found[0]) != len(found[1]):
        shapes = f'{names} {found[0].shape}, {rows} {found[1].shape}'
        raise ValueError(f'{path}: {shapes}, expected [n] and [n, D]')
    return found


SETS = dict(
    F=flickr8k, J=judged, M=msrvtt, V=msrvtt_few, L=msrvtt_lengths, T=msrvtt_words, U=untrimmed
)


def prepare(name: str, raw: Raw, folder: Path) -> Path:
    """Write table and stores of a set, once; returns their folder.

    Features: square root where none is negative, standardised, PCA to at most :data:`WIDTH`,
    fitted on items of the train split, unit mean square.  Word vectors: unit mean square.

    Raises:
        ValueError: the folder is there, made of other files.
    """
    if (folder / 'made.json').exists():
        about = json.loads((folder / 'made.json').read_text())
        if about.get('source') != raw.extra.get('source'):
            raise ValueError(
                f'{name} has changed since {folder} was made of it: remove that folder'
            )
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    train = list(dict.fromkeys(row.video for row in raw.rows if row.split == 'train'))
    change = whitening(np.concatenate([raw.features[name] for name in train]))
    width = write_store(
        folder / 'features.h5', {key: change(value) for key, value in raw.features.items()}
    )
    about = dict(name=name, width=width, frames=max(map(len, raw.features.values())))
    if raw.sentences:
        scaled = {key: value[None].astype('f4') for key, value in raw.sentences.items()}
        about['text_width'] = write_store(folder / 'sentences.h5', _unit_square(scaled))
        means = {
            item: np.mean([scaled[row.text_id][0] for row in own], 0)[None]
            for item, own in _of_items(raw.rows).items()
        }
        write_store(folder / 'means.h5', means)
    if raw.words:
        about['word_width'] = write_store(folder / 'words.h5', _unit_square(raw.words))
    about['vocabulary'] = _write_vocabulary(folder / 'vocabulary', raw.rows)
    known = [row for row in raw.rows if row.split == 'train']
    about['one_caption'] = len(known) == len(train)
    about['one_word'] = sum(len(WORD.findall(row.text)) < 2 for row in known) > len(known) / 2
    further = {row.split for row in raw.rows} - {*SPLITS}
    for table, splits in [('captions', {*SPLITS}), *((f'captions_{x}', {x}) for x in further)]:
        with open(folder / f'{table}.csv', 'w', newline='', encoding='utf8') as file:
            rows = [row for row in raw.rows if row.split in splits]
            csv.writer(file).writerows([Row._fields, *rows])
    (folder / 'made.json').write_text(json.dumps({**about, **raw.extra}, indent=1) + '\n')
    return folder


def whitening(rows: np.ndarray):
    """The change of features that is fitted on training rows [n, D]; float [F, D] -> [F, d]."""
    root = bool((rows >= 0).all())
    first = np.sqrt(rows.astype('f4')) if root else rows.astype('f4')
    mean, spread = first.mean(0), first.std(0) + 1e-6
    first = (first - mean) / spread
    _, vectors = np.linalg.eigh(first.T @ first / len(first))
    basis = vectors[:, ::-1][:, : min(WIDTH, len(rows) - 1)]
    scale = np.sqrt(((first @ basis) ** 2).mean())

    def change(x: np.ndarray) -> np.ndarray:
        x = np.sqrt(np.maximum(x.astype('f4'), 0)) if root else x.astype('f4')
        return (x - mean) / spread @ basis / scale

    return change


def write_store(path: Path, arrays: Mapping[str, np.ndarray]) -> int:
    """One hdf5 file with a dataset each, float32; the width of all."""
    with load_h5py(path).File(path, 'w') as file:
        for name, array in arrays.items():
            file[name] = np.asarray(array, dtype='f4')
    return int(np.shape(array)[1])


def _unit_square(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    some = np.concatenate([x for x, _ in zip(arrays.values(), range(2000))]).astype('f4')
    scale = np.sqrt((some**2).mean())
    return {name: x.astype('f4') / scale for name, x in arrays.items()}


def _of_items(rows: Sequence[Row]) -> dict[str, list[Row]]:
    own = defaultdict(list)
    for row in rows:
        own[row.video].append(row)
    return own


def _write_vocabulary(folder: Path, rows: Sequence[Row]) -> int:
    """Words that occur twice and more in training captions, most frequent first; their number."""
    counts: dict[str, int] = defaultdict(int)
    for row in rows:
        if row.split == 'train':
            for word in WORD.findall(row.text.lower()):
                counts[word] += 1
    known = sorted((w for w in counts if counts[w] > 1), key=lambda w: (-counts[w], w))
    vectors = np.zeros((len(known) + 1, 1), 'f4')  # trained from nothing
    folder.mkdir(exist_ok=True)
    write_words(folder, KnownWords({word: n for n, word in enumerate(known)}, vectors))
    return len(known) + 1


def _kept(features, rows, vectors) -> Raw:
    """What the rows name, of more."""
    items, keys = {row.video for row in rows}, {row.text_id for row in rows}
    return Raw(
        {name: x for name, x in features.items() if name in items},
        rows,
        {key: x for key, x in vectors.items() if key in keys},
        {},
    )


def _by_name(names: np.ndarray, rows: np.ndarray) -> dict[str, np.ndarray]:
    """Rows [n, D] of one name together, in their order."""
    names = names.astype(str)
    order = np.argsort(names, kind='stable')
    first = np.flatnonzero(np.r_[True, names[order][1:] != names[order][:-1]])
    parts = np.split(rows[order], first[1:])
    return dict(zip(names[order][first], parts))


def _stored(path: Path) -> dict[str, np.ndarray]:
    """``vec`` by ``key`` of an npz file; nothing of none."""
    return _by_name(*_arrays(path, 'key', 'vec')) if path.exists() else {}


def _flickr8k():
    """Features by image, (text id, caption) by image, vectors by text id; images without suffix."""
    with np.load(shared() / 'real_features/flickr8k_images_efflite0.npz') as stored:
        names = [Path(str(name)).stem for name in stored['image_file']]
        features = {name: x[None] for name, x in zip(names, stored['feat'])}
    captions = read_captions(shared() / 'human_judgments/flickr8k/Flickr8k.token.txt')
    by_image = {Path(image).stem: own for image, own in captions.items()}
    with np.load(shared() / 'real_features/flickr8k_captions_minilm.npz') as stored:
        vectors = dict(zip(stored['key'].astype(str).tolist(), stored['vec']))
    return features, by_image, vectors


def _images(part: str) -> list[str]:
    path = shared() / f'human_judgments/flickr8k/Flickr_8k.{part}Images.txt'
    return [Path(line).stem for line in path.read_text().split()]


def _msrvtt_splits() -> dict[str, str]:
    ours = dict(train='train', validate='val', test='test')
    return {video['video_id']: ours[video['split']] for video in _msrvtt_videos()}


def _msrvtt_videos() -> list[dict]:
    """What the annotation says of each video."""
    files = [shared() / f'MSRVTT/{name}_videodatainfo.json' for name in ('train_val', 'test')]
    return [video for file in files for video in json.loads(file.read_text())['videos']]
