"""Each file of a folder once, under the name that somebody types."""

import os
import unicodedata

import pytest

from mmvtr.datasets.folders import listed, one_spelling, spelt_as_there


def files(folder, *names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())


def nfd(name):
    return unicodedata.normalize('NFD', name)


def test_a_plain_folder(tmp_path):
    files(tmp_path, 'b/z.mp4', 'a.mp4', '.hidden', '.git/x.mp4', 'b/c/d.mp4')
    found = listed(tmp_path)
    assert found == ['a.mp4', 'b/c/d.mp4', 'b/z.mp4'] and found.again == set()


@pytest.mark.parametrize(
    'links',
    [
        {'latest': '.'},
        {'latest': '.', 'backup': '../v'},
        {'b/up': '..', 'b/again': '../b', 'up': '..'},
        {'a_link': 'b', 'z_link': 'b', 'b/c': '../a_link'},
    ],
)
def test_links_to_folders_are_entered_once(tmp_path, links):
    root = tmp_path / 'v'
    files(root, 'a.mp4', 'b/x.mp4')
    for name, target in links.items():
        (root / name).symlink_to(target)
    assert listed(root) == ['a.mp4', 'b/x.mp4']


def test_a_folder_elsewhere_keeps_the_name_of_its_link(tmp_path):
    files(tmp_path, 'disk/x.mp4', 'v/a.mp4')
    (tmp_path / 'v/more').symlink_to(tmp_path / 'disk')
    (tmp_path / 'v/twice').symlink_to(tmp_path / 'disk')
    assert listed(tmp_path / 'v') == ['a.mp4', 'more/x.mp4']
    (tmp_path / 'w').symlink_to(tmp_path / 'v')
    assert listed(tmp_path / 'w') == ['a.mp4', 'more/x.mp4']


def test_several_names_of_one_file(tmp_path):
    files(tmp_path, 'm.mp4', 'n/other.mp4')
    (tmp_path / 'a.mp4').symlink_to('m.mp4')
    os.link(tmp_path / 'm.mp4', tmp_path / 'n/hard.mp4')
    (tmp_path / 'o.mp4').symlink_to('n/other.mp4')
    found = listed(tmp_path)
    assert found == ['a.mp4', 'm.mp4', 'n/hard.mp4', 'n/other.mp4', 'o.mp4']
    assert found.again == {'a.mp4', 'n/hard.mp4', 'o.mp4'}


def test_links_that_lead_nowhere(tmp_path):
    files(tmp_path, 'a.mp4')
    (tmp_path / 'gone.mp4').symlink_to('never.mp4')
    (tmp_path / 'self.mp4').symlink_to('self.mp4')
    (tmp_path / 'one').symlink_to('other')
    (tmp_path / 'other').symlink_to('one')
    assert listed(tmp_path) == ['a.mp4']


@pytest.mark.parametrize('name', ['café.mp4', 'Åse Öl.mkv', 'が.webm'])
def test_either_spelling_finds_the_file(tmp_path, name):
    assert one_spelling(nfd(name)) == name != nfd(name)
    for typed, there in ((name, nfd(name)), (nfd(name), name), (name, name)):
        folder = tmp_path / str(len(os.listdir(tmp_path)))
        files(folder, there)
        assert spelt_as_there(str(folder / typed)) == str(folder / there)
    files(tmp_path, name, nfd(name))
    for typed in (name, nfd(name)):
        assert spelt_as_there(str(tmp_path / typed)) == str(tmp_path / typed)
    assert spelt_as_there('no/café.mp4') == 'no/café.mp4'
    files(tmp_path, f'{nfd("Öl")}/{nfd("ö")}/a.mp4')
    there = tmp_path / nfd('Öl') / nfd('ö') / 'a.mp4'
    assert spelt_as_there(str(tmp_path / 'Öl/ö/a.mp4')) == str(there)


def test_a_name_of_two_files_in_neither_spelling(tmp_path):
    mixed = 'é' + nfd('é')
    files(tmp_path, one_spelling(mixed), nfd(mixed))
    with pytest.raises(ValueError, match=r'fits 2 files whose names differ only in how their acc'):
        spelt_as_there(str(tmp_path / mixed))
