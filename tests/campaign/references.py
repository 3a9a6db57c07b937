"""What each layout of :mod:`campaign.layouts` says, by the campaign's own reading of its files.

A reading is a function of the folder; it returns the videos and the texts in order, each a dict of
what the files say of it, texts with the ids of their ``videos``.
"""

from __future__ import annotations

import ast
import os
import re
from collections import Counter
from pathlib import Path
from typing import Any, Callable, Optional

import h5py
import numpy as np

from campaign.content import Content
from campaign.plain import (
    Unreadable,
    get,
    items_of,
    json_file,
    json_lines,
    lines,
    listing,
    number_of,
    pickled,
    require,
    rows_of,
    string,
    table,
    text,
    whole_of,
)

#: Of a text, or of a video.
Record = dict[str, Any]
Reading = Callable[[Path], Content]


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
        for video in listing(get(content, 'videos')):
            name = string(get(video, 'video_id'))
            require(name not in captions, 'a video twice')
            captions[name] = []
            if 'start time' in video or 'end time' in video:
                start, end = map(number_of, get(video, 'start time', 'end time'))
                lengths[name] = round(end - start, 3)
        for sentence in listing(get(content, 'sentences')):
            number, name, caption = get(sentence, 'sen_id', 'video_id', 'caption')
            number = number if isinstance(number, str) else str(whole_of(number))
            require(name in captions, 'a sentence of an unknown video')
            captions[name].append((number, string(caption)))
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
            names = [v['video_id'] for v in entries if get(v, 'split') == 'train']
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
    for name, texts in items_of(content):
        words = [
            t if isinstance(t, str) else ' '.join(map(string, listing(t))) for t in listing(texts)
        ]
        captions[name] = [(f'{name}#{n}', words) for n, words in enumerate(words)]
    return _paired(lines(root / 'train_list.txt'), captions)


def _listed(path: Path, captions: dict[str, list[tuple[str, str]]]) -> Content:
    return _paired(lines(path) if path.is_file() else [*captions], captions)


def activitynet(root: Path) -> Content:
    """The sentences of a video are one text."""
    captions = {}
    for name, entry in items_of(json_file(root / 'train.json')):
        sentences = [string(sentence).strip() for sentence in listing(get(entry, 'sentences'))]
        captions[name] = [(name, ' '.join(sentences))]
    return _listed(root / 'collaborative-experts/train_list.txt', captions)


def vatex(root: Path, split: str) -> Content:
    """A list of clips, each with its captions."""
    captions: dict[str, list[tuple[str, str]]] = {}
    for entry in listing(json_file(root / 'vatex_validation_v1.0.json')):
        name, texts = get(entry, 'videoID', 'enCap')
        require(string(name) not in captions, 'a clip twice')
        captions[name] = [(f'{name}#{n}', string(text)) for n, text in enumerate(listing(texts))]
    return _listed(root / f'{split}_list.txt', captions)


def vatex_classes(root: Path) -> Content:
    """Classes of each caption; a clip has those of at least a quarter of its captions."""
    content, classes = vatex(root, 'val'), json_file(root / 'classes.json')
    for record in content.texts:
        verb, noun = get(get(classes, record['text_id']), 'verb', 'noun')
        for numbers in (listing(verb), listing(noun)):
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
    for row in listing(json_file(root / 'train_data.json')):
        name, sentence = map(string, get(row, 'video', 'description'))
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
        name, length, times, caption = get(row, 'vid_name', 'duration', 'ts', 'desc')
        require(len(listing(times)) == 2)
        length, start, end = map(number_of, (length, *times))
        video = found.setdefault(string(name), (length, []))
        require(video[0] == length, 'two lengths of a video')
        video[1].append((string(caption).strip(), start, end))
    return found


def activitynet_moments(path: Path) -> Moments:
    """By video."""
    found: Moments = {}
    for name, entry in items_of(json_file(path)):
        length, times, sentences = get(entry, 'duration', 'timestamps', 'sentences')
        require(len(listing(times)) == len(listing(sentences)))
        require(all(len(listing(pair)) == 2 for pair in times))
        moments = [
            (string(s).strip(), number_of(pair[0]), number_of(pair[1]))
            for s, pair in zip(sentences, times)
        ]
        found[name] = (number_of(length), moments)
    return found


def charades_moments(path: Path) -> Moments:
    """Lines ``VIDEO start end##caption``, and a table of lengths."""
    rows = table(path.with_name(f'Charades_v1_{path.stem.split("_")[-1]}.csv'), ('id', 'length'))
    lengths = {row['id']: number_of(row['length']) for row in rows}
    require(len(lengths) == len(rows), 'a video twice')
    found: Moments = {}
    for line in lines(path):
        head, mark, caption = line.partition('##')
        require(mark and len(head.split(' ')) == 3)
        name, start, end = head.split(' ')
        require(name in lengths, 'a video without length')
        moment = (caption.strip(), number_of(start), number_of(end))
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
    verb = whole_of(row['verb_class'])
    return dict(
        narration_id=row['narration_id'],
        narration=row['narration'],
        verb=row['verb'],
        nouns=nouns,
        start=start,
        end=end,
        duration=end - start,
        num_frames=whole_of(row['stop_frame']) - whole_of(row['start_frame']),
        classes=dict(verb=[verb], noun=list(dict.fromkeys(numbers))),
        actions=[(verb, whole_of(row['noun_class']))],
    )


def _clock(value: str) -> float:
    parts = value.split(':')
    require(len(parts) == 3)
    return sum(number_of(part) * unit for part, unit in zip(parts, (3600, 60, 1)))


def _literal(value: str) -> list:
    try:
        return listing(ast.literal_eval(value))
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
        require(name not in rates and number_of(length) > 0)
        rates[name] = number_of(frames) / number_of(length)
    videos, texts = [], []
    whole = json_file(root / 'youcookii_annotations_trainval.json')
    for name, entry in items_of(get(whole, 'database')):
        subset, annotations = get(entry, 'subset', 'annotations')
        if subset != 'training':
            continue
        for annotation in listing(annotations):
            number, segment, sentence = get(annotation, 'id', 'segment', 'sentence')
            require(len(listing(segment)) == 2 and name in rates)
            start, end = map(number_of, segment)
            clip, length = f'{name}_{whole_of(number)}', end - start
            frames = max(1, round(length * rates[name]))
            times = dict(start=start, end=end, duration=length, num_frames=frames)
            videos.append(dict(video_id=clip, **times))
            texts.append(dict(text_id=clip, text=string(sentence).strip(), videos=[clip]))
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
        said, caption = get(row, 'video', 'text')
        said = str(said) if type(said) is int else string(said).strip()
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
            text = dict(text_id=f'{video_id}#{number}', text=string(one).strip())
            texts.append(dict(text, videos=[video_id]))
    return Content([*videos.values()], texts)


def _empty_or_number(value: Any) -> Optional[float]:
    empty = value is None or value != value or isinstance(value, str) and not value.strip()
    return None if empty else float(number_of(value))


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
    count, width = map(whole_of, text(folder / 'shape.txt').split())
    rows = np.fromfile(folder / 'feature.bin', '<f4').reshape(count, width)
    ids = text(folder / 'id.txt').split()
    frames = get(_tried(lambda: ast.literal_eval(text(folder / 'video2frames.txt'))), name)
    require(len(ids) == count and set(listing(frames)) <= set(ids))
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
