"""``mmvtr serve --demo`` with a few clips: what it prints is what its store answers."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from mmvtr import apis
from mmvtr.datasets.videos.video_io import read_frames
from mmvtr_gallery.serving import demo
from mmvtr_gallery.store import open_store

FILES, PARTS = 8, 3
#: Which object of a clip an example asks for, read by a person.
ASKED = {
    'a red thing': lambda thing: thing['colour'] == 'red',
    'a yellow thing': lambda thing: thing['colour'] == 'yellow',
    'a purple thing': lambda thing: thing['colour'] == 'purple',
    'a large white thing': lambda thing: thing['size'] == 'large' and thing['colour'] == 'white',
    'something blinks': lambda thing: thing['action'] == 'blink',
}


@pytest.fixture(scope='module')
def made(tmp_path_factory):
    """The folder of a small demo, and what it has said."""
    folder, said = tmp_path_factory.mktemp('demo') / 'made', []
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(demo.SETS['train'], 'num_train', 24)
        patch.setitem(demo.SETS['test'], 'num_test', FILES)
        patch.setattr(demo, 'EPOCHS', 1)
        demo.make_demo(folder, say=said.append)
        demo.make_demo(folder, say=lambda line: pytest.fail(f'made again: {line}'))
    return folder, said


def planted(folder):
    """The facts of the files to search, and their captions by file and moment."""
    for path in (folder / 'planted').glob('*/corpus.json'):
        split = json.loads(path.read_text())['splits']['test']
        if len(split['videos']) == FILES:
            texts = {
                (text['video_idx'][0], text['moment']): text['text'] for text in split['texts']
            }
            return path.parent, split['videos'], texts


def test_its_figures_are_those_of_the_store(made):
    folder, said = made
    _, videos, texts = planted(folder)
    things = {
        f'clip {number:03d}, part {part}': moment['objects']
        for number, video in enumerate(videos, 1)
        for part, moment in enumerate(video['moments'], 1)
    }
    model, cfg = apis.load_retriever(folder / 'config.json', folder / 'model.pth', device='cpu')
    with open_store(folder) as store:
        assert store.count() == FILES * PARTS == len(things)
        note = store.about['note']

        def hits(words, k, transform):
            vectors = apis.vectors(model, apis.encode_texts(model, cfg, words).levels)
            lists = store.search(np.asarray(vectors), k, transform=transform)
            return [[hit.item.id for hit in row] for row in lists]

        for name, transform in dict(raw=False, debiased=True).items():
            found = zip(ASKED.values(), hits([*ASKED], 12, transform))
            right = sum(any(map(asks, things[one])) for asks, row in found for one in row)
            rows = zip(texts, hits([*texts.values()], 10, transform))
            own = [[one.startswith(f'clip {v + 1:03d},') for one in row] for (v, _), row in rows]
            line = next(line for line in said if line.startswith(f'{name}: '))
            counts = right, 60, len(texts), sum(row[0] for row in own), sum(map(any, own))
            assert tuple(map(int, re.findall(r'\d+', line))) == counts
            assert f'{right} ' in note and f' {sum(map(any, own))} ' in note
    assert tuple(demo.EXAMPLES) == tuple(ASKED)


def test_as_many_hits_are_counted_as_the_page_shows():
    script = Path(demo.__file__).with_name('page') / 'app.js'
    assert int(re.search(r'\bHITS = (\d+)', script.read_text())[1]) == demo.SHOWN


def test_the_files_to_search_are_brighter_than_those_of_the_training(made):
    folder, _ = made
    corpus, videos, _ = planted(folder)
    for number, video in enumerate(videos, 1):
        brighter, as_planted = (
            np.stack(read_frames(str(path), lambda times: np.arange(len(times)))) / 255
            for path in (folder / f'videos/clip_{number:03d}.mp4', corpus / video['path'])
        )
        assert brighter.shape == as_planted.shape
        assert abs(brighter - as_planted**0.6).mean() < 0.03 < (brighter - as_planted).mean()
