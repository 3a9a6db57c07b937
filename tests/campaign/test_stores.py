"""A share of the galleries that are killed or whose commands fail, and what the judge sees."""

from __future__ import annotations

import signal

import pytest

from campaign import stores
from campaign.trial import BAD
from campaign.watching import changes, die_before
from children import in_child

pytest.importorskip('mmvtr_gallery', reason='pip install -e projects/gallery')

from mmvtr_gallery.store import create_store  # noqa: E402

pytest.importorskip('faiss')


def test_what_was_there_stays(tmp_path):
    trials = stores.run(3, 1, tmp_path)
    assert len(trials) == 3
    assert [trial for trial in trials if trial.verdict in BAD] == []


def fill(place, generations):
    with create_store(place, stores.DIM, geometry='inner_product') as store:
        for names, vectors in generations:
            store.add(names, vectors)
        store.persist()


def test_a_part_or_a_mixture_is_no_gallery(tmp_path):
    zero, one = ((stores.names(n), stores.vectors(n)) for n in (0, 1))
    part = zero[0][1:], zero[1][1:]
    other = zero[0], one[1]
    cases = dict(zero=[zero], one=[one], both=[zero, one], part=[part], other=[other])
    found = {}
    for name, generations in cases.items():
        fill(tmp_path / name, generations)
        found[name] = stores.held(tmp_path / name).gallery
    assert found == dict(zero=0, one=1, both=None, part=None, other=None)


def work(folder, step):
    die_before(step, folder)
    (folder / 'a').write_text('a')
    (folder / 'a').rename(folder / 'b')
    (folder.parent / 'outside').write_text('x')
    (folder / 'b').unlink()


@pytest.mark.parametrize(
    'step, left', [(0, []), (1, ['a']), (2, ['b']), (3, [])]
)  # fmt: skip
def test_a_process_dies_before_a_change(tmp_path, step, left):
    folder = tmp_path / 'folder'
    folder.mkdir()
    code = in_child(tmp_path / 'log.txt', work, folder, step)
    assert code == (0 if step == 3 else -signal.SIGKILL)
    assert sorted(path.name for path in folder.iterdir()) == left


def test_changes_are_seen_from_outside(tmp_path):
    seen = changes(tmp_path / 'folder', lambda name: name != 'log')
    assert next(seen) == 0
    (tmp_path / 'folder').mkdir()
    (tmp_path / 'folder/log').touch()
    assert next(seen) == 0
    (tmp_path / 'folder/a').touch()
    assert [next(seen), next(seen)] == [1, 1]
    (tmp_path / 'folder/a').write_text('more')
    assert next(seen) == 2
    (tmp_path / 'folder/a').rename(tmp_path / 'folder/b')
    assert next(seen) == 3
