"""Stores that somebody else has written: what they name lies in their folder."""

import json
import os

import numpy as np
import pytest

import mmvtr_gallery.remote  # noqa: F401 - registers it
from mmvtr.registry import MODELS
from mmvtr.storage.digests import ROOM, write_with_digest
from mmvtr_gallery.store import create_store, open_store

DIM = 6


def vectors(seed, count):
    return np.random.default_rng(seed).normal(size=(count, DIM)).astype(np.float32)


@pytest.fixture
def folder(tmp_path):
    """A store of 20 items with biases, and a file outside that is nobody's business."""
    pytest.importorskip('faiss')
    (tmp_path / 'mine').write_bytes(bytes(1000))
    with create_store(tmp_path / 'store', DIM, geometry='inner_product') as store:
        store.add([f'v{i}' for i in range(20)], vectors(1, 20), metadata=dict(k=[*range(20)]))
        store.refit(vectors(2, 30), temperature=0.5)
        store.persist()
    return tmp_path / 'store'


def rewrite(folder, **changes):
    """A manifest with a digest that holds, as a stranger can write it, too."""
    said = json.loads((folder / 'store.json').read_text())
    said = {'sha256': ROOM, **{key: x for key, x in said.items() if key != 'sha256'}, **changes}
    with open(folder / 'store.json', 'wb') as file:
        write_with_digest(json.dumps(said).encode(), file)


def refused(folder, write):
    with pytest.raises(RuntimeError) as raised:
        open_store(folder, write=write)
    message = str(raised.value)
    assert str(folder) in message and len(message) < 500 and len(message.splitlines()) == 1
    return message


@pytest.mark.parametrize(
    'changes',
    [
        dict(biases='/etc/passwd'),
        dict(biases='../mine'),
        dict(biases='biases-0.f32/../../mine'),
        dict(biases=None),
        dict(normaliser='../normaliser-1.safetensors'),
        dict(queue='/dev/full', online=dict(capacity=3, refit_every=None)),
        dict(config='../config-1.json'),
        dict(parts=[['../../items-1.safetensors', 20]]),
        dict(parts=[['items-1.safetensors', -1]]),
        dict(parts=[3]),
        dict(digests={'../mine': 'a' * 64}),
        dict(digests={'items/../../mine': 'a' * 64}),
        dict(digests=[]),
        dict(before=dict(normaliser='/etc/passwd', refit=None)),
        dict(before=3),
        dict(dim=0),
        dict(dim=2.5),
        dict(types={'a` = 1 --': 'str'}),
        dict(types={'k': 'object'}),
        dict(about=[]),
        dict(model=3),
        dict(index=dict(form=1, partitions=1, probes=1, candidates=1)),
        dict(online=dict(capacity='many', refit_every=None)),
        dict(refit=dict(transform='os.system', temperature=1)),
        dict(refit=dict(transform='sinkhorn', temperature=-1)),
    ],
)
def test_values_of_store_json(folder, changes):
    rewrite(folder, **changes)
    for write in (False, True):
        (key,) = list(changes)[:1]
        assert f'store.json is damaged: {key} is ' in refused(folder, write)
    assert (folder.parent / 'mine').read_bytes() == bytes(1000)


def test_keys_of_store_json(folder):
    rewrite(folder, more=1)
    assert "has ['more']" in refused(folder, False)
    said = json.loads((folder / 'store.json').read_text())
    del said['more'], said['biases']
    (folder / 'store.json').write_text(json.dumps(said))
    assert 'SHA-256' in refused(folder, False)
    for text in ('[]', '3', 'null', '[' * 100_000, '{"format": true}', '\x00', ''):
        (folder / 'store.json').write_text(text)
        refused(folder, False)


def test_links_are_refused(folder):
    """Else an add would write where they lead."""
    names = [path.name for path in folder.iterdir() if path.suffix in ('.f32', '.safetensors')]
    for name in names:
        os.rename(folder / name, folder.parent / name)
        (folder / name).symlink_to(folder.parent / name)
        assert f'{name} is a link' in refused(folder, True)
        (folder / name).unlink()
        os.rename(folder.parent / name, folder / name)
    assert open_store(folder, write=True).count() == 20


@pytest.mark.parametrize('version', [1, 2])
def test_stores_of_the_formats_before_are_read_and_go_on(folder, version):
    said = json.loads((folder / 'store.json').read_text())
    [(items, count)] = said.pop('parts')
    earlier = dict(items=items, count=count, next=count, highest=1.0, norms=[1.0, 2.0])
    earlier.update(engine='faiss', table='items.lance')
    for key in ('sha256', *(('queue', 'config', 'before', 'digests') * (version == 1))):
        del said[key]
    with open(folder / 'store.json', 'wb') as file:
        sealed = dict({'sha256': ROOM} if version == 2 else {}, **said)
        text = json.dumps({**sealed, **earlier, 'format': version}).encode()
        file.write(text) if version == 1 else write_with_digest(text, file)
    found = open_store(folder)
    assert found.count() == 20 and found.get(['v3'])[0].bias != 0
    with open_store(folder, write=True) as store:
        store.add(['late'], vectors(3, 1))
        store.persist()
    said = json.loads((folder / 'store.json').read_text())
    assert (
        said['format'] == 3
        and said['digests']
        and 'engine' not in said
        and open_store(folder).count() == 21
    )


def test_no_config_names_an_embedding_server():
    with pytest.raises(TypeError, match='url'):
        MODELS.build(dict(type='RemoteEncoder', model='m', url='http://elsewhere/v1'))
