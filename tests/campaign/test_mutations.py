"""A share of the mutations, on every run of the tests; and that sloppy readers do not pass."""

import json
import time
from pathlib import Path
from random import Random

import pytest

from campaign.layouts import LAYOUTS, Layout, frames, words
from campaign.mutations import files_read, judge, run
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


ROWS = [dict(id='a', text='a dog', start=1.0), dict(id='b', text='a cat', start=2.0)]


def sloppy() -> Layout:
    return Layout(
        lambda root: (root / 'rows.json').write_text(json.dumps(ROWS)),
        lambda root: Sloppy(root / 'rows.json'),
    )


def test_a_sloppy_reader_is_caught(tmp_path):
    trials = run(120, 0, tmp_path, {'sloppy': sloppy()})
    verdicts = count(trials)['sloppy']
    assert min(verdicts[bad] for bad in ('raw', 'silent', 'nameless')) > 3, verdicts


@pytest.mark.parametrize(
    'change, verdict, detail',
    [
        (dict(text=7), 'nameless', 'expected a string, found 7'),
        (dict(id='../x'), 'silent', "video id '../x'"),
        (dict(id='a\u200b'), 'silent', 'video id'),
        (dict(start=-1), 'silent', 'start -1'),
        (dict(start=True), 'silent', 'start True'),
        (dict(start=float('nan')), 'silent', 'start nan'),
        (dict(text='a dog runs'), 'right', '2 items'),
    ],
)
def test_what_is_judged(tmp_path, change, verdict, detail):
    path = tmp_path / 'rows.json'
    path.write_text(json.dumps([{**ROWS[0], **change}, ROWS[1]]))
    found = judge(sloppy(), tmp_path, path)
    assert found[0] == verdict and detail in found[1]


def raising(error: BaseException) -> Layout:
    def load(root: Path) -> VideoTextDataset:
        raise error

    return Layout(lambda root: None, load)


@pytest.mark.parametrize(
    'error, verdict',
    [
        (ValueError('rows.json: line 1'), 'refused'),
        (KeyError('rows.json lacks 1'), 'refused'),
        (ValueError('line 1'), 'nameless'),
        (ValueError(f'rows.json: {"x" * 500}'), 'long'),
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
    slow = Layout(lambda root: None, lambda root: time.sleep(60))
    begin = time.perf_counter()
    assert judge(slow, tmp_path, tmp_path)[0] == 'hang'
    assert time.perf_counter() - begin < 30


def test_files_that_are_read(tmp_path):
    assert files_read(LAYOUTS['MSVD json'], tmp_path) == [
        'captions_msvd.json', 'test_list.txt', 'train_list.txt', 'val_list.txt'
    ]  # fmt: skip
    broken = Layout(lambda root: (root / 'rows.json').write_text('{}'), sloppy().load)
    with pytest.raises(ValueError, match='not right as it is written'):
        files_read(broken, tmp_path)


def test_every_way_of_spoiling_comes_and_changes(tmp_path):
    path, ways = tmp_path / 'rows.json', set()
    for seed in range(600):
        path.write_text(json.dumps(ROWS))
        ways.add(spoil(Random(seed), path))
    assert ways == {way.__name__.strip('_') for way in (*BYTES, *TEXT, *TREE)}
