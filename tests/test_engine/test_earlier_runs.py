"""A training leaves what others have written in its folder, and knows its own best checkpoint."""

from pathlib import Path

import pytest

from mmvtr.engine.loops.checkpoint import latest_checkpoint
from mmvtr.engine.loops.earlier_runs import Past, best_in, make_room, set_aside, steps_in
from mmvtr.engine.loops.facts import Choice, choice_of
from mmvtr.storage import write_plain
from mmvtr.storage.weights import read_checkpoint

TEMPLATE = 'epoch_{}.pth'


def write(path: Path, **choice) -> Path:
    """A checkpoint, with what it was chosen by."""
    path.parent.mkdir(parents=True, exist_ok=True)
    full = dict(by='retrieval/rsum', value=1.0, on='val', epoch=1, iter=10)
    meta = dict(chosen={**full, **choice}) if choice else {}
    write_plain(dict(state_dict={}, meta=meta), path)
    return path


def run_of(folder: Path, *epochs: int, best: tuple[int, float]) -> Path:
    """A folder as a training leaves it."""
    for epoch in epochs:
        write(folder / f'epoch_{epoch}.pth')
    write(folder / 'best.pth', epoch=best[0], value=best[1])
    (folder / 'last_checkpoint').write_text(str(folder / f'epoch_{epochs[-1]}.pth'))
    return folder


def room(folder: Path, past=None):
    return make_room(folder, folder / 'last_checkpoint', TEMPLATE, past)


def past_of(path: Path, step: int, *, best=None, score=None, newest=True) -> Past:
    return Past(path, step, newest, best, score)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def score(path: Path) -> float:
    return choice_of(read_checkpoint(path)).value


def test_a_new_training_keeps_the_checkpoints_of_others(tmp_path):
    for number in (1, 2):
        run_of(tmp_path, 3, best=(2, 5.0))
        (tmp_path / 'log.txt').touch()
        has_best, said = room(tmp_path)
        aside = tmp_path / f'earlier_{number}'
        assert not has_best and names(aside) == {'epoch_3.pth', 'best.pth', 'last_checkpoint'}
        assert len(said) == 1 and said[0].endswith(f': now in {aside}')
        assert '(epoch_3.pth, best.pth)' in said[0]
        assert latest_checkpoint(aside) == str(aside / 'epoch_3.pth')
    assert names(tmp_path) == {'earlier_1', 'earlier_2', 'log.txt'}


@pytest.mark.parametrize(
    'left',
    [
        [],
        ['epoch_1.pth'],  # killed before anything points to it
        ['weights.pth', 'best_of_all.txt', 'epoch_x.pth', 'notes/best.pth'],  # the user's own
    ],
)
def test_nothing_to_keep(tmp_path, left):
    for name in left:
        write(tmp_path / name)
    before = names(tmp_path)
    assert room(tmp_path) == (False, []) and names(tmp_path) == before


@pytest.mark.parametrize('name', ['best.pth', 'best_retrieval_rsum_epoch_7.pth'])
def test_a_best_one_alone_is_kept_too(tmp_path, name):
    write(tmp_path / name)
    room(tmp_path)
    assert names(tmp_path / 'earlier_1') == {name}


def test_going_on_from_the_newest_keeps_all(tmp_path):
    run_of(tmp_path, 1, 2, 3, best=(2, 5.0))
    before = names(tmp_path)
    past = past_of(tmp_path / 'epoch_3.pth', 3, best=tmp_path / 'best.pth', score=5.0)
    assert room(tmp_path, past) == (True, []) and names(tmp_path) == before


def test_killed_between_the_best_and_the_last(tmp_path):
    """The file is newer than what the last checkpoint knows, and will be written again."""
    run_of(tmp_path, 3, best=(3, 6.0))
    for known in (dict(best=tmp_path / 'best.pth', score=5.0), {}):
        assert room(tmp_path, past_of(tmp_path / 'epoch_3.pth', 3, **known)) == (True, [])
    assert score(tmp_path / 'best.pth') == 6.0


def test_a_best_one_of_another_training_is_not_taken_for_the_own(tmp_path):
    run_of(tmp_path, 3, best=(1, 9.0))
    past = past_of(tmp_path / 'epoch_3.pth', 3, best=tmp_path / 'best.pth', score=5.0)
    has_best, said = room(tmp_path, past)
    assert not has_best and '(5) is gone' in said[0]
    assert score(tmp_path / 'earlier_1' / 'best.pth') == 9.0
    assert 'epoch_3.pth' in names(tmp_path)


def test_going_on_from_an_older_one_keeps_the_later(tmp_path):
    run_of(tmp_path, 1, 2, 3, best=(3, 9.0))
    past = past_of(tmp_path / 'epoch_2.pth', 2, best=tmp_path / 'best.pth', score=5.0, newest=False)
    has_best, _ = room(tmp_path, past)
    assert not has_best and names(tmp_path) == {'epoch_1.pth', 'epoch_2.pth', 'earlier_1'}
    assert names(tmp_path / 'earlier_1') == {'epoch_3.pth', 'best.pth', 'last_checkpoint'}


def test_going_on_elsewhere_brings_the_best_along(tmp_path):
    ours, theirs = tmp_path / 'ours', run_of(tmp_path / 'theirs', 4, best=(4, 7.0))
    run_of(ours, 3, best=(2, 5.0))
    past = past_of(ours / 'epoch_3.pth', 3, best=ours / 'best.pth', score=5.0, newest=False)
    has_best, _ = room(theirs, past)
    assert has_best and score(theirs / 'best.pth') == score(ours / 'best.pth') == 5.0
    assert names(theirs / 'earlier_1') == {'epoch_4.pth', 'best.pth', 'last_checkpoint'}


def test_going_on_with_what_was_put_aside(tmp_path):
    run_of(tmp_path, 3, best=(2, 5.0))
    room(tmp_path)
    run_of(tmp_path, 1, best=(1, 7.0))
    path = tmp_path / 'earlier_1' / 'epoch_3.pth'
    past = past_of(path, 3, best=tmp_path / 'best.pth', score=5.0, newest=False)
    has_best, _ = room(tmp_path, past)
    assert has_best and score(tmp_path / 'best.pth') == 5.0
    assert score(tmp_path / 'earlier_2' / 'best.pth') == 7.0


def test_a_moved_folder_of_an_older_version(tmp_path):
    name = 'best_retrieval_rsum_epoch_2.pth'
    write(tmp_path / name)
    write(tmp_path / 'epoch_3.pth')
    past = past_of(tmp_path / 'epoch_3.pth', 3, best=Path('/gone') / name, score=5.0)
    assert room(tmp_path, past) == (True, [])
    assert names(tmp_path) == {'best.pth', 'epoch_3.pth'}


def test_a_damaged_best_one_is_told_and_kept(tmp_path):
    run_of(tmp_path, 3, best=(2, 5.0))
    whole = (tmp_path / 'best.pth').read_bytes()
    (tmp_path / 'best.pth').write_bytes(whole[: len(whole) // 2])
    past = past_of(tmp_path / 'epoch_3.pth', 3, best=tmp_path / 'best.pth', score=5.0)
    has_best, said = room(tmp_path, past)
    assert not has_best and 'best.pth cannot be read' in said[0]
    assert names(tmp_path / 'earlier_1') == {'best.pth'}


def test_names(tmp_path):
    for name in ('epoch_10.pth', 'epoch_2.pth', 'iter_5.pth', 'epoch_2.pth.part', 'best.pth'):
        write(tmp_path / name)
    assert {p.name: n for p, n in steps_in(tmp_path, TEMPLATE).items()} == {
        'epoch_10.pth': 10,
        'epoch_2.pth': 2,
    }
    assert [*steps_in(tmp_path, 'iter_{}.pth').values()] == [5]
    assert [path.name for path in best_in(tmp_path)] == ['best.pth']
    assert set_aside([tmp_path / 'none.pth'], tmp_path) is None


def test_choices_in_words(tmp_path):
    choice = Choice('retrieval/rsum', 213.0444, 'val', 7, 448)
    assert choice.in_words() == 'retrieval/rsum 213.044 on val, epoch 7 (step 448)'
    assert choice_of(dict(meta=dict(epoch=2))) is None and choice_of({}) is None
