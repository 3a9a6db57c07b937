"""A listed file is looked at again whenever it is served, and is called by a name of its own."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from gallery_service import Gallery, served, taken
from mmvtr_gallery.serving.library import Library, ListedFiles, Outside, file_names
from mmvtr_gallery.store import Item, open_store

ASKED = (
    ('GET', '/video?id=new', None, {}),
    ('GET', '/video?id=new', None, dict(Range='bytes=0-9')),
    ('GET', '/video?id=new', None, dict(Range='bytes=-5')),
    ('HEAD', '/video?id=new', None, {}),
    ('GET', '/thumb?id=new&frames=5', None, {}),
    ('POST', '/moment', dict(id='new', text='hello'), {}),
)


@pytest.fixture
def library(folder, tmp_path):
    """A library of one video in a folder of a folder, and a secret one beside it."""
    library = tmp_path / 'library'
    (library / 'more' / 'inner').mkdir(parents=True)
    shutil.copy(folder / 'b.mp4', library / 'more' / 'inner' / 'new.mp4')
    secret = tmp_path / 'secret' / 'inner'
    secret.mkdir(parents=True)
    shutil.copy(folder / 'c.mp4', secret / 'new.mp4')
    return library


def by_link(library, secret):
    (library / 'more/inner/new.mp4').unlink()
    (library / 'more/inner/new.mp4').symlink_to(secret / 'inner/new.mp4')


def by_link_within(library, secret):
    shutil.copy(secret / 'inner/new.mp4', library / 'other.mp4')
    by_link(library, library.parent / 'secret')
    (library / 'more/inner/new.mp4').unlink()
    (library / 'more/inner/new.mp4').symlink_to('../../other.mp4')


def by_linked_folder(library, secret):
    shutil.rmtree(library / 'more/inner')
    (library / 'more/inner').symlink_to(secret / 'inner')


def by_linked_folder_above(library, secret):
    shutil.rmtree(library / 'more')
    (library / 'more').symlink_to(secret)


def by_pipe(library, secret):
    (library / 'more/inner/new.mp4').unlink()
    os.mkfifo(library / 'more/inner/new.mp4')


def by_folder(library, secret):
    (library / 'more/inner/new.mp4').unlink()
    (library / 'more/inner/new.mp4').mkdir()


def by_file_above(library, secret):
    shutil.rmtree(library / 'more/inner')
    shutil.copy(secret / 'inner/new.mp4', library / 'more/inner')


@pytest.mark.parametrize(
    'replace, status',
    [
        (by_link, 403),
        (by_link_within, 403),
        (by_linked_folder, 403),
        (by_linked_folder_above, 403),
        (by_pipe, 404),
        (by_folder, 404),
        (by_file_above, 404),
    ],
)
def test_what_has_taken_the_place_of_a_file_is_not_served(library, place, replace, status):
    with taken(place, library=library) as client:
        new = dict(id='new', file='more/inner/new.mp4')
        assert client.change('/add', items=[new])[0] == 200
        whole = (library / 'more/inner/new.mp4').read_bytes()
        assert client('GET', '/video?id=new')[2] == whole
        replace(library, library.parent / 'secret')
        for method, path, body, headers in ASKED:
            found, _, said = client(method, path, body, **headers)
            assert found == status, (path, said)
            assert method == 'HEAD' or list(said) == ['error']
            assert str(library.parent) not in str(said)


def test_links_are_followed_where_that_is_allowed_only(library, place, tmp_path):
    """Of a store that lists links, which no library has: what links to the allowed folder."""
    secret = tmp_path / 'secret'
    (tmp_path / 'links').mkdir()
    link = tmp_path / 'links/one.mp4'
    link.symlink_to(secret / 'inner/new.mp4')
    item = Item('new', str(link), None, None, None, 0.0, 0.0, {})
    content = (secret / 'inner/new.mp4').read_bytes()
    for links in ((), (library,)):
        with pytest.raises(Outside, match="the file of 'new' is a link"):
            ListedFiles(Library(None), links).open(item)
    for links in ((secret,), (library, secret / 'inner'), (tmp_path,)):
        with ListedFiles(Library(None), links).open(item) as file:
            assert file.read() == content
    link.unlink()
    link.symlink_to('/etc/hostname')
    with pytest.raises(Outside):
        ListedFiles(Library(None), (secret,)).open(item)
    link.unlink()
    link.symlink_to(link.name)  # a circle
    with pytest.raises(FileNotFoundError, match="the file of 'new' is gone"):
        ListedFiles(Library(None), (secret,)).open(item)
    with pytest.raises(NotADirectoryError, match='is not a folder that links could lead into'):
        ListedFiles(Library(None), [tmp_path / 'nothing'])


def test_a_folder_above_may_be_a_link(library, tmp_path):
    """What an owner has linked before is no replacement: the library itself, or where it is."""
    (tmp_path / 'alias').symlink_to(library)
    for path in (library, tmp_path / 'alias'):
        item = Item('x', str(path / 'more/inner/new.mp4'), None, None, None, 0.0, 0.0, {})
        for shelf in (None, library, tmp_path / 'alias'):
            ListedFiles(Library(shelf)).open(item).close()


@pytest.mark.parametrize('name', ['x' * 300, 'a/' * 500 + 'x', f'{"é" * 200}.mp4', 'circle.mp4'])
def test_a_name_that_no_file_can_have_is_not_there(library, name):
    (library / 'circle.mp4').symlink_to('circle.mp4')
    with pytest.raises(FileNotFoundError, match='the library has no file') as error:
        Library(library).file(name)
    assert str(library) not in str(error.value)


def test_names_of_files_tell_them_apart(tmp_path):
    shelf = Library(tmp_path)
    inside = [str(tmp_path / x) for x in ('a/blue box.mp4', 'b/blue box.mp4', 'blue box.mp4')]
    assert file_names([*inside, None], shelf) == [
        'a/blue box.mp4', 'b/blue box.mp4', 'blue box.mp4', None,
    ]  # fmt: skip
    none = Library(None)
    paths = ['/s/a/x/one.mp4', '/s/b/x/one.mp4', '/s/b/x/one.mp4', '/s/c/two.mp4', 'x/one.mp4']
    assert file_names(paths, none) == [
        'a/x/one.mp4', 'b/x/one.mp4', 'b/x/one.mp4', 'two.mp4', 'x/one.mp4',
    ]  # fmt: skip
    assert file_names(['one.mp4', '/one.mp4'], none) == ['one.mp4', 'one.mp4']
    assert file_names(['/far/away.mp4'], shelf) == ['away.mp4']


def test_answers_tell_two_files_of_one_name_apart(folder, place, tmp_path):
    for name in ('one', 'two'):
        (tmp_path / 'videos' / name).mkdir(parents=True)
        shutil.copy(folder / 'a.mp4', tmp_path / 'videos' / name / 'blue box.mp4')
    with open_store(place, write=True) as store:
        paths = [str(tmp_path / 'videos' / x / 'blue box.mp4') for x in ('one', 'two')]
        store.add(['1', '2'], store.get(['a', 'b'])[0].vector[None].repeat(2, 0), paths=paths)
        store.persist()
    for library in (None, tmp_path / 'videos'):
        with served(Gallery.open(place, library=library)) as client:
            said = client.search(text='hello', k=9)
            found = {hit['id']: hit['file'] for hit in said['hits']}
        assert (found['1'], found['2']) == ('one/blue box.mp4', 'two/blue box.mp4')
        assert str(tmp_path) not in str(said) and Path(found['1']).name == 'blue box.mp4'
