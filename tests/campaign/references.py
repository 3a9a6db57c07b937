"""What each layout of :mod:`campaign.layouts` says, by the campaign's own reading of its files.

A reading is a function of the folder; it returns the videos and the texts in order, each a dict of
what the files say of it, texts with the ids of their ``videos``.
"""

from __future__ import annotations

import ast
import math
import os
import re
from collections import Counter
from pathlib import Path
from typing import Any, Callable, Iterable, NamedTuple, Optional

import h5py
import numpy as np

from campaign.plain import (
    Unreadable,
    json_file,
    json_lines,
    lines,
    pickled,
    require,
    rows_of,
    table,
    text,
)


class Content(NamedTuple):
    """What the files of a layout say."""

    videos: list[dict[str, Any]]
    texts: list[dict[str, Any]]


#: Of a text, or of a video.
Record = dict[str, Any]
Reading = Callable[[Path], Content]


def content_of(dataset: Any) -> Content:
    """What a dataset of the project says, in the same form."""
    ids = [video['video_id'] for video in dataset.videos]
    videos = []
    for v, record in enumerate(dataset.videos):
        own = {key: value for key, value in record.items() if key != 'path'}
        videos.append(dict(own, features=dataset.load_video(v)['frames'].numpy()))
    texts = []
    for record in dataset.texts:
        own = {key: value for key, value in record.items() if key != 'video_idx'}
        texts.append(dict(own, videos=[ids[v] for v in record['video_idx']]))
    return Content(videos, texts)


def difference(found: Any, right: Any, where: str = '') -> str:
    """The first place at which two contents differ, '' if there is none; numbers to 1e-9."""
    if isinstance(found, dict) and isinstance(right, dict):
        if set(found) != set(right):
            return f'{where}: {sorted(found)}, not {sorted(right)}'
        pairs = [(found[key], right[key], f'{where}.{key}') for key in right]
    elif isinstance(found, (list, tuple)) and isinstance(right, (list, tuple)):
        if len(found) != len(right):
            return f'{where}: {len(found)} of {len(right)}'
        pairs = [(a, b, f'{where}[{n}]') for n, (a, b) in enumerate(zip(found, right))]
    elif isinstance(found, np.ndarray):
        same = found.shape == right.shape and np.array_equal(found, right)
        return '' if same else f'{where}: other numbers'
    else:
        numbers = all(isinstance(x, (int, float)) for x in (found, right))
        same = math.isclose(found, right, abs_tol=1e-9) if numbers else found == right
        return '' if same else f'{where}: {found!r:.60}, not {right!r:.60}'
    return next(filter(None, (difference(*pair) for pair in pairs)), '')


# -- values --------------------------------------------------------------------------------------


def _str(value: Any) -> str:
    require(isinstance(value, str), f'no string: {value!r:.60}')
    return value


def _number(value: Any) -> float:
    """A time or a count, as a number or its digits."""
    if isinstance(value, str):
        require(re.fullmatch(r'[0-9.]+([eE][+-]?[0-9]+)?', value), f'no number: {value:.60}')
        try:
            value = float(value)
        except ValueError as error:
            raise Unreadable(str(error)) from error
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    require(number and 0 <= value < 1e15, f'no number: {value!r:.60}')
    return value


def _whole(value: Any) -> int:
    number = _number(value)
    require(number == int(number))
    return int(number)


def _list(value: Any) -> list:
    require(isinstance(value, list), f'no list: {value!r:.60}')
    return value


def _get(entry: Any, *keys: str) -> Any:
    """What an object has under keys, one value or a list of them."""
    require(isinstance(entry, dict), f'no object: {entry!r:.60}')
    require(all(key in entry for key in keys), f'lacks some of {keys}')
    values = [entry[key] for key in keys]
    return values[0] if len(keys) == 1 else values


def _items(value: Any) -> Iterable[tuple[str, Any]]:
    require(isinstance(value, dict), f'no object: {value!r:.60}')
    return [(_str(key), item) for key, item in value.items()]


def _paired(names: list[str], captions: dict[str, list[tuple[str, str]]]) -> Content:
    """Videos by name and their captions, which are (id, text)."""
    require(all(captions.get(name) for name in names), 'a video without captions')
    texts = [
        dict(text_id=i, text=t, videos=[name]) for name in names for i, t in captions[name]
    ]  # fmt: skip
    return Content([dict(video_id=name) for name in names], texts)


# -- formats -------------------------------------------------------------------------------------


def msrvtt(root: Path, split: str) -> Content:
    """Read 1k-A's test sentences, or a list and the captions of the json files."""
    merged = root / 'MSRVTT_data.json'
    parts = [root / f'{part}_videodatainfo.json' for part in ('train_val', 'test')]
    files = [merged] if merged.is_file() else [part for part in parts if part.is_file()]
    captions: dict[str, list[tuple[str, str]]] = {}
    lengths: dict[str, float] = {}
    for content in map(json_file, files):
        for video in _list(_get(content, 'videos')):
            name = _str(_get(video, 'video_id'))
            require(name not in captions, 'a video twice')
            captions[name] = []
            if 'start time' in video or 'end time' in video:
                start, end = map(_number, _get(video, 'start time', 'end time'))
                lengths[name] = round(end - start, 3)
        for sentence in _list(_get(content, 'sentences')):
            number, name, caption = _get(sentence, 'sen_id', 'video_id', 'caption')
            number = number if isinstance(number, str) else str(_whole(number))
            require(name in captions, 'a sentence of an unknown video')
            captions[name].append((number, _str(caption)))
    if split == '1kA_test':
        rows = table(root / 'MSRVTT_JSFUSION_test.csv', ('key', 'video_id', 'sentence'))
        names = [row['video_id'] for row in rows]
        captions = {row['video_id']: [(row['key'], row['sentence'])] for row in rows}
    else:
        name = {'1kA_train9k': 'MSRVTT_train.9k.csv', 'full_train': 'MSRVTT_train.full.csv'}[split]
        source = root / name
        if source.is_file():
            names = [row['video_id'] for row in table(source, ('video_id',))]
        else:
            entries = [video for file in files for video in json_file(file)['videos']]
            names = [v['video_id'] for v in entries if _get(v, 'split') == 'train']
    content = _paired(names, captions)
    for video in content.videos:
        if video['video_id'] in lengths:
            video['duration'] = lengths[video['video_id']]
    return content


def msvd(root: Path) -> Content:
    """Captions by clip, and a list of clips."""
    path = root / 'captions_msvd.json'
    content = json_file(path) if path.is_file() else pickled(root / 'raw-captions.pkl')
    captions = {}
    for name, texts in _items(content):
        words = [t if isinstance(t, str) else ' '.join(map(_str, _list(t))) for t in _list(texts)]
        captions[name] = [(f'{name}#{n}', words) for n, words in enumerate(words)]
    return _paired(lines(root / 'train_list.txt'), captions)


def _listed(path: Path, captions: dict[str, list[tuple[str, str]]]) -> Content:
    return _paired(lines(path) if path.is_file() else [*captions], captions)


def activitynet(root: Path) -> Content:
    """The sentences of a video are one text."""
    captions = {}
    for name, entry in _items(json_file(root / 'train.json')):
        sentences = [_str(sentence).strip() for sentence in _list(_get(entry, 'sentences'))]
        captions[name] = [(name, ' '.join(sentences))]
    return _listed(root / 'collaborative-experts/train_list.txt', captions)


def vatex(root: Path, split: str) -> Content:
    """A list of clips, each with its captions."""
    captions: dict[str, list[tuple[str, str]]] = {}
    for entry in _list(json_file(root / 'vatex_validation_v1.0.json')):
        name, texts = _get(entry, 'videoID', 'enCap')
        require(_str(name) not in captions, 'a clip twice')
        captions[name] = [(f'{name}#{n}', _str(text)) for n, text in enumerate(_list(texts))]
    return _listed(root / f'{split}_list.txt', captions)


def vatex_classes(root: Path) -> Content:
    """Classes of each caption; a clip has those of at least a quarter of its captions."""
    content, classes = vatex(root, 'val'), json_file(root / 'classes.json')
    for record in content.texts:
        verb, noun = _get(_get(classes, record['text_id']), 'verb', 'noun')
        for numbers in (_list(verb), _list(noun)):
            require(all(type(n) is int and n >= 0 for n in numbers), 'classes that are no numbers')
        kinds = dict(verb=[*dict.fromkeys(verb)], noun=[*dict.fromkeys(noun)])
        pairs = [(v, kinds['noun'][0]) for v in kinds['verb'] if kinds['noun']]
        record.update(classes=kinds, actions=pairs)
    for video in content.videos:
        own = [record for record in content.texts if record['videos'] == [video['video_id']]]
        common = {
            kind: [c for c, n in Counter(
                c for record in own for c in record['classes'][kind]
            ).items() if 4 * n >= len(own)]
            for kind in ('verb', 'noun')
        }  # fmt: skip
        pairs = dict.fromkeys(pair for record in own for pair in record['actions'])
        kept = [(v, n) for v, n in pairs if v in common['verb'] and n in common['noun']]
        video.update(classes=common, actions=kept)
    return content


def didemo(root: Path) -> Content:
    """All descriptions of a video are one text; nobody saw more than 30 s."""
    sentences: dict[str, list[str]] = {}
    for row in _list(json_file(root / 'train_data.json')):
        name, sentence = map(_str, _get(row, 'video', 'description'))
        sentences.setdefault(name, []).append(sentence.strip())
    captions = {name: [(name, ' '.join(own))] for name, own in sentences.items()}
    content = _listed(root / 'collaborative-experts/train_list.txt', captions)
    for video in content.videos:
        video['end'] = 30.0
    return content


Moments = dict[str, tuple[float, list[tuple[str, float, float]]]]


def tvr_moments(path: Path) -> Moments:
    """A moment a line."""
    found: Moments = {}
    for row in json_lines(path):
        name, length, times, caption = _get(row, 'vid_name', 'duration', 'ts', 'desc')
        require(len(_list(times)) == 2)
        length, start, end = map(_number, (length, *times))
        video = found.setdefault(_str(name), (length, []))
        require(video[0] == length, 'two lengths of a video')
        video[1].append((_str(caption).strip(), start, end))
    return found


def activitynet_moments(path: Path) -> Moments:
    """By video."""
    found: Moments = {}
    for name, entry in _items(json_file(path)):
        length, times, sentences = _get(entry, 'duration', 'timestamps', 'sentences')
        require(len(_list(times)) == len(_list(sentences)))
        require(all(len(_list(pair)) == 2 for pair in times))
        moments = [
            (_str(s).strip(), _number(pair[0]), _number(pair[1]))
            for s, pair in zip(sentences, times)
        ]
        found[name] = (_number(length), moments)
    return found


def charades_moments(path: Path) -> Moments:
    """Lines ``VIDEO start end##caption``, and a table of lengths."""
    rows = table(path.with_name(f'Charades_v1_{path.stem.split("_")[-1]}.csv'), ('id', 'length'))
    lengths = {row['id']: _number(row['length']) for row in rows}
    require(len(lengths) == len(rows), 'a video twice')
    found: Moments = {}
    for line in lines(path):
        head, mark, caption = line.partition('##')
        require(mark and len(head.split(' ')) == 3)
        name, start, end = head.split(' ')
        require(name in lengths, 'a video without length')
        moment = (caption.strip(), _number(start), _number(end))
        found.setdefault(name, (lengths[name], []))[1].append(moment)
    return found


def prvr(read: Callable[[Path], Moments], official: str, captions: str, root: Path) -> Content:
    """Moments of videos, or the captions of a text file with the times of the moments."""
    moments, listed = read(root / official), root / 'TextData' / captions
    told = {
        f'{name}#enc#{n}': (caption, name)
        for name, (_, own) in moments.items()
        for n, (caption, *_) in enumerate(own)
    }
    if listed.is_file():
        told, grouped = {}, {}
        for line in lines(listed):
            text_id, space, caption = line.partition(' ')
            require(space and '#' in text_id and text_id not in told)
            told[text_id] = (caption.strip(), text_id.partition('#')[0])
            grouped.setdefault(text_id.partition('#')[0], []).append(text_id)
        told = {text_id: told[text_id] for own in grouped.values() for text_id in own}
    names = [*moments] if not listed.is_file() else [*dict.fromkeys(n for _, n in told.values())]
    videos = [
        dict(video_id=name, **(dict(duration=moments[name][0]) if name in moments else {}))
        for name in names
    ]
    return Content(videos, [_moment(i, *told[i], moments) for i in told])


def _moment(text_id: str, caption: str, name: str, moments: Moments) -> Record:
    """A caption, and when its moment is, where it is one of the video's."""
    record: Record = dict(text_id=text_id, text=caption, videos=[name])
    length, own = moments.get(name, (0.0, []))
    number = re.fullmatch(re.escape(name) + r'#enc#([0-9]+)', text_id)
    if number is None or str(int(number[1])) != number[1] or int(number[1]) >= len(own):
        return record
    said, start, end = own[int(number[1])]
    letters = [re.sub(r'[\W_]+', '', some).lower() for some in (said, caption)]
    if letters[0] == letters[1] and start < min(end, length):
        record.update(start=start, end=min(end, length))
    return record


def epic(root: Path, split: str) -> Content:
    """Clips and their narrations, or the sentences that are of all clips of the same meaning."""
    name = f'retrieval_annotations/EPIC_100_retrieval_{split}'
    columns = (
        *('narration_id', 'start_timestamp', 'stop_timestamp', 'start_frame', 'stop_frame'),
        *('narration', 'verb', 'verb_class', 'noun_class', 'all_nouns', 'all_noun_classes'),
    )
    rows = table(root / f'{name}.csv', columns)
    clips = {row['narration_id']: _clip(row) for row in rows}
    require(len(clips) == len(rows), 'a clip twice')
    if split == 'train':
        texts = [_narration(clip, clip['narration'], [i]) for i, clip in clips.items()]
    else:
        texts = []
        for row in table(root / f'{name}_sentence.csv', ('narration_id', 'narration')):
            require(row['narration_id'] in clips, 'a sentence of no clip')
            clip = clips[row['narration_id']]
            same = [i for i, other in clips.items() if _means(other) == _means(clip)]
            texts.append(_narration(clip, row['narration'], same))
    kept = ('start', 'end', 'duration', 'num_frames', 'classes', 'actions')
    videos = [dict(video_id=i, **{key: clip[key] for key in kept}) for i, clip in clips.items()]
    return Content(videos, texts)


def _clip(row: dict[str, str]) -> Record:
    start, end = (_clock(row[f'{edge}_timestamp']) for edge in ('start', 'stop'))
    nouns, numbers = (_literal(row[column]) for column in ('all_nouns', 'all_noun_classes'))
    require(all(isinstance(noun, str) for noun in nouns))
    require(all(type(number) is int for number in numbers))
    verb = _whole(row['verb_class'])
    return dict(
        narration_id=row['narration_id'],
        narration=row['narration'],
        verb=row['verb'],
        nouns=nouns,
        start=start,
        end=end,
        duration=end - start,
        num_frames=_whole(row['stop_frame']) - _whole(row['start_frame']),
        classes=dict(verb=[verb], noun=list(dict.fromkeys(numbers))),
        actions=[(verb, _whole(row['noun_class']))],
    )


def _clock(value: str) -> float:
    parts = value.split(':')
    require(len(parts) == 3)
    return sum(_number(part) * unit for part, unit in zip(parts, (3600, 60, 1)))


def _literal(value: str) -> list:
    try:
        return _list(ast.literal_eval(value))
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError) as error:
        raise Unreadable(str(error)) from error


def _means(clip: Record) -> tuple:
    return tuple(clip['classes']['verb']), frozenset(clip['classes']['noun'])


def _narration(clip: Record, caption: str, videos: list[str]) -> Record:
    kept = {key: clip[key] for key in ('verb', 'nouns', 'classes', 'actions')}
    return dict(text_id=clip['narration_id'], text=caption, videos=videos, **kept)


def lsmdc(root: Path) -> Content:
    """Tabs, no header, no quoting; irregular as the published files are."""
    captions: dict[str, list[tuple[str, str]]] = {}
    for line in re.split('\r\n|\r|\n', text(root / 'LSMDC16_annos_training.csv')):
        if not line.strip():
            continue
        name, *fields = line.split('\t')
        silent = len(fields) == 4 or len(fields) == 5 and not fields[-1].strip()
        require(len(fields) == 5 or silent, 'not six fields')
        if name.lstrip().startswith('"'):
            name = name.replace('"', '', 1)
        name = re.sub(r'(?i)\.(avi|mp4|mkv|mov|webm)$', '', name.strip())
        if not silent:
            own = captions.setdefault(name, [])
            own.append((f'{name}#{len(own)}', fields[-1].strip()))
    return _paired([*captions], captions)


def youcook2(root: Path) -> Content:
    """Segments of videos to train on, and how many frames they have."""
    rows = [row for row in rows_of(text(root / 'yc2_duration_frame.csv')) if row]
    require(all(len(row) == 3 for row in rows), 'a row of another width')
    rates = {}
    for name, length, frames in rows:
        require(name not in rates and _number(length) > 0)
        rates[name] = _number(frames) / _number(length)
    videos, texts = [], []
    whole = json_file(root / 'youcookii_annotations_trainval.json')
    for name, entry in _items(_get(whole, 'database')):
        subset, annotations = _get(entry, 'subset', 'annotations')
        if subset != 'training':
            continue
        for annotation in _list(annotations):
            number, segment, sentence = _get(annotation, 'id', 'segment', 'sentence')
            require(len(_list(segment)) == 2 and name in rates)
            start, end = map(_number, segment)
            clip, length = f'{name}_{_whole(number)}', end - start
            frames = max(1, round(length * rates[name]))
            times = dict(start=start, end=end, duration=length, num_frames=frames)
            videos.append(dict(video_id=clip, **times))
            texts.append(dict(text_id=clip, text=_str(sentence).strip(), videos=[clip]))
    return Content(videos, texts)


def own(name: str, root: Path) -> Content:
    """A table of one's own beside a folder of videos."""
    rows = (
        table(root / name, ('video', 'text'), ('start', 'end'))
        if name.endswith('.csv')
        else json_lines(root / name)
    )
    videos: dict[str, Record] = {}
    texts: list[Record] = []
    for row in rows:
        said, caption = _get(row, 'video', 'text')
        said = str(said) if type(said) is int else _str(said).strip()
        start, end = (_empty_or_number(row.get(edge)) for edge in ('start', 'end'))
        video_id = os.path.splitext(_inside(said, root / 'videos'))[0]
        if start is not None or end is not None:
            until = 'end' if end is None else f'{end:.12g}'
            video_id = f'{video_id}_{start or 0:.12g}_{until}'
        length = None if end is None else end - (start or 0)
        record = dict(video_id=video_id, start=start, end=end, duration=length)
        videos.setdefault(video_id, {k: v for k, v in record.items() if v is not None})
        for one in caption if isinstance(caption, list) else [caption]:
            number = sum(text['videos'] == [video_id] for text in texts)
            text = dict(text_id=f'{video_id}#{number}', text=_str(one).strip())
            texts.append(dict(text, videos=[video_id]))
    return Content([*videos.values()], texts)


def _empty_or_number(value: Any) -> Optional[float]:
    empty = value is None or value != value or isinstance(value, str) and not value.strip()
    return None if empty else float(_number(value))


def _inside(name: str, folder: Path) -> str:
    """The file that is meant, as a path in the folder."""
    found = os.path.normpath(name)
    files = [file for file in (found, f'{found}.mp4') if (folder / file).is_file()]
    require(files and not found.startswith(('..', '/')), f'no such video: {name:.60}')
    return files[0]


# -- features ------------------------------------------------------------------------------------


def npy(root: Path, name: str) -> np.ndarray:
    """A file for each video."""
    with open(root / f'npy/{name}.npy', 'rb') as file:
        return _tried(lambda: np.lib.format.read_array(file, allow_pickle=False))


def hdf5(root: Path, name: str) -> np.ndarray:
    """A dataset for each video."""
    with _tried(lambda: h5py.File(root / 'store.h5')) as file:
        return _tried(lambda: np.asarray(file[name]))


def bigfile(root: Path, name: str) -> np.ndarray:
    """Rows of one file, by name."""
    folder = root / 'big'
    count, width = map(_whole, text(folder / 'shape.txt').split())
    rows = np.fromfile(folder / 'feature.bin', '<f4').reshape(count, width)
    ids = text(folder / 'id.txt').split()
    frames = _get(_tried(lambda: ast.literal_eval(text(folder / 'video2frames.txt'))), name)
    require(len(ids) == count and set(_list(frames)) <= set(ids))
    return np.stack([rows[max(i for i, own in enumerate(ids) if own == row)] for row in frames])


def _tried(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except Exception as error:  # whatever a damaged file makes of it
        raise Unreadable(repr(error)) from error


def with_features(read: Callable[[Path, str], np.ndarray], root: Path) -> Content:
    """MSVD, whose videos have features."""
    content = msvd(root)
    for video in content.videos:
        features = read(root, video['video_id'])
        require(features.ndim == 2 and np.isfinite(features).all(), 'no finite rows')
        video['features'] = features.astype(np.float32)
    return content
