"""A gallery of toys."""

import pytest

from mmvtr import apis
from mmvtr.storage import write_plain
from services import CONFIG, HEADS, NAMES, kept


@pytest.fixture(scope='session')
def folder(tmp_path_factory, write_video):
    """Videos, a config, its weights, and a file beside the library."""
    folder = tmp_path_factory.mktemp('service')
    (folder / 'more').mkdir()
    for number, name in enumerate((*NAMES, 'more/new')):
        write_video(folder / f'{name}.mp4', [40 + 15 * number] * 2 + [60 + 10 * number] * 2)
    (folder / 'broken.mp4').write_bytes(b'no video')
    for name, text in (('config', CONFIG), ('heads', CONFIG + HEADS)):
        (folder / f'{name}.py').write_text(text)
        model, _ = apis.load_retriever(
            str(folder / f'{name}.py'), None, random_weights=True, device='cpu'
        )
        write_plain(dict(state_dict=model.state_dict()), folder / f'{name}.pth')
    return folder


@pytest.fixture
def place(folder, tmp_path):
    """A store of the first seven of these videos."""
    return kept(folder, tmp_path / 'store')
