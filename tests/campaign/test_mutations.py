"""A share of the mutations, on every run of the tests; and that sloppy readers do not pass."""

import json
import time
from pathlib import Path
from random import Random

import pytest

from campaign.content import Content, difference
from campaign.layouts import LAYOUTS, Layout, frames, words
from campaign.mutations import files_read, judge, run
from campaign.plain import Unreadable, json_file, table
from campaign.spoiled import BYTES, TEXT, TREE, spoil
from campaign.trial import BAD, count
from mmvtr.datasets import VideoTextDataset


def test_spoiled_annotations_are_refused_in_words_or_read_as_something_sound(tmp_path):
    trials = run(154, 20, tmp_path)
    assert [trial for trial in trials if trial.verdict in BAD] == []
    table = count(trials)
    assert list(table) == list(LAYOUTS) and len(trials) == 154
    refused, right = (sum(row[v] for row in table.values()) for v in ('refused', 'right'))
    assert refused > 60 and right > 20, 'some spoil what is read, some do not'
    assert list(tmp_path.iterdir()) == []


def test_a_mutation_can_be_repeated(tmp_path):
    one, other = run(6, 3, tmp_path / 'a'), run(4, 3, tmp_path / 'b')
    assert [t[:2] for t in one[:4]] == [t[:2] for t in other]
    assert run(6, 4, tmp_path / 'a') != one


class Sloppy(VideoTextDataset):
    """Reads a list of texts as none should."""

    def __init__(self, path: Path) -> None:
        self.path = path
        super().__init__([frames], [words])

    def load_annotations(self):
        texts = json.loads(self.path.read_text())
        videos = [dict(video_id=row['id'], start=row['start']) for row in texts]
        return videos, [
            dict(text_id=str(n), text=row['text'], video_idx=[n]) for n, row in enumerate(texts)
        ]


def plainly(root: Path) -> Content:
    """The same, as the campaign would read it."""
    rows = json_file(root / 'rows.json')
    videos = [dict(video_id=row['id'], start=row['start']) for row in rows]
    texts = [
        dict(text_id=str(n), text=row['text'], videos=[row['id']]) for n, row in enumerate(rows)
    ]
    return Content(videos, texts)


ROWS = [dict(id='a', text='a dog', start=1.0), dict(id='b', text='a cat', start=2.0)]


def sloppy() -> Layout:
    return Layout(
        lambda root: (root / 'rows.json').write_text(json.dumps(ROWS)),
        lambda root: Sloppy(root / 'rows.json'),
        plainly,
    )


def test_a_sloppy_reader_is_caught(tmp_path):
    trials = run(400, 0, tmp_path, {'sloppy': sloppy()})
    verdicts = count(trials)['sloppy']
    assert min(verdicts[bad] for bad in ('raw', 'silent', 'nameless')) > 3, verdicts


@pytest.mark.parametrize(
    'change, verdict, detail',
    [
        (dict(text=7), 'nameless', 'expected a string, found 7'),
        (dict(id='../x'), 'silent', "video id '../x'"),
        (dict(id='a\u200b'), 'silent', 'video id'),
        (dict(start=-1), 'silent', 'start -1'),
        (dict(start=True), 'nameless', 'found True'),
        (dict(start=float('nan')), 'nameless', 'found nan'),
        (dict(text='a dog runs'), 'right', '2 items'),
    ],
)
def test_what_is_judged(tmp_path, change, verdict, detail):
    path = tmp_path / 'rows.json'
    path.write_text(json.dumps([{**ROWS[0], **change}, ROWS[1]]))
    found = judge(sloppy(), tmp_path, path)
    assert found[0] == verdict and detail in found[1]


@pytest.mark.parametrize(
    'lose',
    [
        lambda texts: texts.pop(),
        lambda texts: texts[0].update(text='another dog'),
        lambda texts: texts[0].update(video_idx=[1]),
        lambda texts: texts.reverse(),
    ],
)
def test_what_looks_sound_and_is_not_what_the_file_says_is_seen(tmp_path, lose):
    class Losing(Sloppy):
        def load_annotations(self):
            videos, texts = super().load_annotations()
            lose(texts)
            return videos, texts

    (tmp_path / 'rows.json').write_text(json.dumps(ROWS))
    layout = sloppy()._replace(load=lambda root: Losing(root / 'rows.json'))
    assert judge(layout, tmp_path, tmp_path / 'rows.json')[0] == 'silent'


def test_whoever_accepts_what_cannot_be_read_is_seen(tmp_path):
    (tmp_path / 'rows.json').write_text(json.dumps(ROWS)[:-1] + ', {"id": "a", "id": "b"}]')
    with pytest.raises(Unreadable, match='a key twice'):
        plainly(tmp_path)
    whole = Layout(lambda root: None, sloppy().load, plainly)
    (tmp_path / 'rows.json').write_text(json.dumps(ROWS).replace('{"id"', '{"id": "c", "id"'))
    verdict, detail = judge(whole, tmp_path, tmp_path / 'rows.json')
    assert verdict == 'silent' and 'a key twice' in detail


@pytest.mark.parametrize('content', ['a,b\n1,2,3\n', 'a,a,b\n1,2,3\n', 'a,b\n"1,2\n', 'c\n1\n'])
def test_tables_that_say_nothing_certain(tmp_path, content):
    (tmp_path / 'x.csv').write_text(content)
    with pytest.raises(Unreadable):
        table(tmp_path / 'x.csv', ('a', 'b'))


def test_the_first_difference_is_told():
    one = dict(texts=[dict(text='a', start=1.0), dict(text='b', start=2.0)])
    assert difference(one, dict(texts=[dict(text='a', start=1.0), dict(text='b', start=2)])) == ''
    other = dict(texts=[dict(text='a', start=1.0), dict(text='b', start=2.5)])
    assert difference(one, other) == '.texts[1].start: 2.0, not 2.5'
    assert difference(one, dict(texts=[])) == '.texts: 2 of 0'
    assert 'start' in difference(one, dict(texts=[dict(text='a'), dict(text='b')]))


def raising(error: BaseException) -> Layout:
    def load(root: Path) -> VideoTextDataset:
        raise error

    return Layout(lambda root: None, load, plainly)


@pytest.mark.parametrize(
    'error, verdict',
    [
        (ValueError('rows.json: line 1'), 'refused'),
        (KeyError('rows.json lacks 1'), 'refused'),
        (ValueError('line 1'), 'nameless'),
        (ValueError(f'rows.json: {"x" * 750}'), 'long'),
        (TypeError('rows.json'), 'raw'),
        (UnicodeDecodeError('utf-8', b'rows.json', 0, 1, 'rows.json'), 'raw'),
        (RecursionError('rows.json'), 'raw'),
        (SystemExit('rows.json'), 'raw'),
    ],
)
def test_errors_are_judged(tmp_path, error, verdict):
    assert judge(raising(error), tmp_path, tmp_path / 'rows.json')[0] == verdict


def test_a_hang_ends(tmp_path, monkeypatch):
    monkeypatch.setattr('campaign.mutations.SECONDS', 0.2)
    slow = Layout(lambda root: None, lambda root: time.sleep(60), plainly)
    begin = time.perf_counter()
    assert judge(slow, tmp_path, tmp_path)[0] == 'hang'
    assert time.perf_counter() - begin < 30


def test_files_that_are_read(tmp_path):
    assert files_read(LAYOUTS['MSVD json'], tmp_path) == [
        'captions_msvd.json', 'test_list.txt', 'train_list.txt', 'val_list.txt'
    ]  # fmt: skip
    broken = sloppy()._replace(write=lambda root: (root / 'rows.json').write_text('{}'))
    assert files_read(broken, tmp_path) == []
    assert {trial.verdict for trial in run(3, 0, tmp_path, {'broken': broken})} == {'lost'}


@pytest.mark.nightly
def test_every_way_of_spoiling_comes_and_changes(tmp_path):
    path, ways = tmp_path / 'rows.json', set()
    for seed in range(600):
        path.write_text(json.dumps(ROWS))
        ways.add(spoil(Random(seed), path))
    assert ways == {way.__name__.strip('_') for way in (*BYTES, *TEXT, *TREE)}
