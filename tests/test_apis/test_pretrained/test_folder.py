"""A retriever as a folder: what is written, that it comes back bit by bit, and what is refused."""

import json
import os
import shutil

import pytest
import safetensors.torch
import torch
from huggingface_hub import ModelCard
from mmengine import registry as roots
from mmengine.config import Config
from mmengine.registry import Registry

import toy
from children import ROOT
from mmvtr.apis import encode_texts, encode_videos, load_retriever
from mmvtr.apis.inferencer import VideoRetrievalInferencer
from mmvtr.apis.pretrained import from_pretrained, push_to_hub, read_saved, save_pretrained
from mmvtr.storage import read_tensors, write_tensors

TEXTS = ['red dog', 'a w1 w2', 'dog']


def write(path, content):
    path.write_text(content if isinstance(content, str) else json.dumps(content))


@pytest.fixture(scope='module')
def source(tmp_path_factory, write_video):
    """Two clips, and UATVR's config with a vocabulary."""
    folder = tmp_path_factory.mktemp('source')
    for name, greys in dict(a=[10, 90, 200], b=[220, 120, 30, 60]).items():
        write_video(folder / f'{name}.mp4', greys, size=(64, 64))
    words = ['red', 'dog', 'a', *(f'w{i}' for i in range(73))]
    write(folder / 'my vocab.txt', '\n'.join(words))
    cfg = Config.fromfile(ROOT / 'configs/uatvr_planted.py')
    cfg.test_dataloader.dataset.text_pipeline[0].vocab_file = str(folder / 'my vocab.txt')
    cfg.work_dir, cfg.load_from = '/somewhere/work', '/somewhere/else.pth'
    cfg.dump(folder / 'mine.py')
    return folder


@pytest.fixture(scope='module')
def built(source):
    model, _ = load_retriever(str(source / 'mine.py'), None, random_weights=True, device='cpu')
    with torch.no_grad():
        for parameter in model.parameters():  # as no seed makes them
            parameter.add_(0.01)
    return model, Config.fromfile(source / 'mine.py')


@pytest.fixture(scope='module')
def written(built, tmp_path_factory):
    results = {'retrieval/t2v_R1': 45.25, 'x/retrieval/t2v_R1': 50, 'x/transductive': 1.0}
    return save_pretrained(
        *built,
        tmp_path_factory.mktemp('saved') / 'mine',
        results=results,
        protocol='protocol: set MSRVTT | ties mean rank',
    )


@pytest.fixture
def saved(written, tmp_path):
    """A copy, to be spoiled."""
    return shutil.copytree(written, tmp_path / 'copy')


# -- there and back ----------------------------------------------------------------------------


def test_embeddings_come_back_bit_by_bit(built, saved, source):
    model, cfg = built
    again, read = from_pretrained(saved, device='cpu')
    assert not again.training
    for encode, items in (
        (encode_texts, TEXTS),
        (encode_videos, [source / 'a.mp4', source / 'b.mp4']),
    ):
        one, other = encode(model, cfg, items), encode(again, read, items)
        assert one.ids == other.ids and one.levels.keys() == other.levels.keys()
        for name, level in one.levels.items():
            for x, y in zip(level, other.levels[name]):
                assert (x is None) == (y is None) and (x is None or torch.equal(x, y))


def test_an_inferencer_there_and_back(built, saved, source, tmp_path):
    first = VideoRetrievalInferencer.from_pretrained(
        saved, device='cpu', gallery=source, show_progress=False
    )
    expected = first(TEXTS)['predictions']
    moved = first.save_pretrained(tmp_path / 'moved')
    shutil.rmtree(saved)  # its vocabulary was copied, too
    again = VideoRetrievalInferencer(str(moved), gallery=source, show_progress=False)
    assert again(TEXTS)['predictions'] == expected and len(expected[0]['hits']) == 2


def test_what_is_in_the_folder(saved):
    names = sorted(p.relative_to(saved).as_posix() for p in saved.rglob('*') if p.is_file())
    texts = ['README.md', 'config.json', 'files/my_vocab.txt', 'retriever.json']
    assert names == sorted([*texts, 'model.safetensors'])
    config = json.loads((saved / 'config.json').read_text())
    assert config['test_dataloader']['dataset']['text_pipeline'][0]['vocab_file'] == (
        'files/my_vocab.txt'
    )
    written = ' '.join((saved / name).read_text() for name in texts)
    assert 'somewhere' not in written and str(saved.parent) not in written
    assert b'pickle' not in (saved / 'model.safetensors').read_bytes()[:100_000]


def test_pretrained_weights_are_not_asked_for_again(tmp_path):
    cfg = Config.fromfile(ROOT / 'configs/zeroshot_msrvtt.py')
    tiny = dict(
        embed_dim=8,
        vision_cfg=dict(layers=1, width=8, head_width=4, patch_size=16, image_size=32),
        text_cfg=dict(context_length=8, vocab_size=9, width=8, heads=2, layers=1),
    )
    cfg.model.data_preprocessor = dict(type='VideoTextDataPreprocessor')
    for tower in (cfg.model.encoder.frames, cfg.model.encoder.text):
        tower.model, tower.pretrained = tiny, None
    model, _ = load_retriever(cfg, None, random_weights=True, device='cpu')
    for tower in (cfg.model.encoder.frames, cfg.model.encoder.text):
        tower.pretrained = 'not/there.pt'
    again, read = from_pretrained(save_pretrained(model, cfg, tmp_path), device='cpu')
    assert read.model.encoder.frames.pretrained is None
    weights = again.state_dict()
    assert all(torch.equal(x, weights[name]) for name, x in model.state_dict().items())


def test_only_what_a_retriever_needs_is_written_and_read(saved):
    config = json.loads((saved / 'config.json').read_text())
    kept = {'default_scope', 'model', 'randomness', 'test_dataloader'}
    assert {*config} == kept and {*config['test_dataloader']['dataset']} == {
        'video_pipeline',
        'text_pipeline',
    }
    config.update(custom_imports=dict(imports=['this_is_code']), _base_='base.py', filename='x.py')
    write(saved / 'config.json', config)
    assert {*read_saved(saved).config} == kept


def test_a_config_of_another_project(saved, built):
    """Its components are found by the names that its own config gives them."""
    ours = type(built[0].encoder)
    theirs = type('Theirs', (ours,), {})
    own = Registry('model', parent=roots.MODELS, scope='theirs')
    own.register_module(ours.__name__, module=theirs)
    config = json.loads((saved / 'config.json').read_text())
    for scope, kind, found in (
        ('theirs', ours.__name__, theirs),
        ('mmvtr', f'theirs.{ours.__name__}', theirs),
        ('mmvtr', ours.__name__, ours),
        ('theirs', f'mmvtr.{ours.__name__}', ours),
    ):
        config['default_scope'], config['model']['encoder']['type'] = scope, kind
        write(saved / 'config.json', config)
        assert type(from_pretrained(saved, device='cpu')[0].encoder) is found
    del roots.MODELS.children['theirs']
    config.update(default_scope='mmvtr')
    config['model']['encoder']['type'] = f'theirs.{ours.__name__}'
    write(saved / 'config.json', config)
    with pytest.raises(ValueError, match='is registered when its module is imported'):
        read_saved(saved)


def test_tied_weights(tmp_path):
    x = torch.arange(6.0).view(2, 3)
    write_tensors(dict(a=x, b=x, c=x.t(), d=x[1]), tmp_path / 'x.safetensors')
    read = read_tensors(tmp_path / 'x.safetensors', kind='weights')
    assert torch.equal(read['a'], x) and torch.equal(read['b'], x)
    assert torch.equal(read['c'], x.t()) and torch.equal(read['d'], x[1])
    with pytest.raises(TypeError, match="tensors by name expected, 'a' is a int"):
        write_tensors(dict(a=1), tmp_path / 'y.safetensors')


def test_the_weights_are_a_checkpoint(saved, source, built):
    """Of every tool, by the ending of the file."""
    model, _ = load_retriever(str(source / 'mine.py'), saved / 'model.safetensors', device='cpu')
    weights = model.state_dict()
    assert all(torch.equal(x, weights[name]) for name, x in built[0].state_dict().items())


# -- the card ----------------------------------------------------------------------------------


def test_the_card(saved):
    card = ModelCard.load(saved / 'README.md')
    assert card.data.library_name == 'mmvtr' and card.data.pipeline_tag == 'feature-extraction'
    assert {'text-video-retrieval', 'UATVR'} <= {*card.data.tags}
    assert card.data.model_name == 'mine'
    numbers = {x.metric_type: x.metric_value for x in card.data.eval_results}
    assert numbers == {'retrieval/t2v_R1': 45.25, 'x/retrieval/t2v_R1': 50.0}
    assert card.data.eval_results[0].dataset_name == 'PlantedDataset test'
    assert '| `retrieval/t2v_R1` | 45.25 |' in card.text
    for row in ('trained on | unknown', 'tested on | PlantedDataset test'):
        assert f'| {row} |' in card.text
    assert (
        'It reads 6 frames of a video and the tokens that its pipeline takes of a text' in card.text
    )
    assert card.data.license is None and 'Licence of these weights: not stated.' in card.text
    assert 'x: has read all test queries at once (transductive).' in card.text
    assert '```\nprotocol: set MSRVTT | ties mean rank\n```' in card.text
    assert "VideoRetrievalInferencer.from_pretrained('path/of/this/folder'" in card.text


def test_a_card_with_a_licence(built, tmp_path):
    save_pretrained(*built, tmp_path / 'mine', license='apache-2.0')
    card = ModelCard.load(tmp_path / 'mine' / 'README.md')
    assert card.data.license == 'apache-2.0'
    assert '| tested on | no results were given |' in card.text


def test_a_card_without_results_or_protocol(built, tmp_path):
    write(tmp_path / 'r.json', {'retrieval/rsum': 300.5})
    text = (save_pretrained(*built, tmp_path / 'a', name='me/it') / 'README.md').read_text()
    assert 'None were given.' in text and 'model-index' not in text
    assert "from_pretrained('me/it'" in text
    folder = save_pretrained(*built, tmp_path / 'a', results=tmp_path / 'r.json')
    text = (folder / 'README.md').read_text()
    assert 'Protocol: not stated.' in text and '`retrieval/rsum` | 300.5' in text


@pytest.mark.parametrize(
    'results, message',
    [
        ({}, 'results: expected numbers by key, found {}'),
        ({'a': 'high'}, "expected a finite number for 'a', found 'high'"),
        ({'a': float('nan')}, "expected a finite number for 'a', found 'nan'"),
        ({'a': True}, "expected a finite number for 'a', found 'True'"),
        ([1], r'expected numbers by key, found \[1\]'),
        (None, 'a protocol was given, but not the results'),
    ],
)
def test_results_that_are_none(built, tmp_path, results, message):
    with pytest.raises(ValueError, match=message):
        save_pretrained(*built, tmp_path / 'new', results=results, protocol='protocol: x')
    assert not (tmp_path / 'new').exists()


def test_files_of_results_that_are_none(built, tmp_path):
    with pytest.raises(FileNotFoundError, match='gone.json do not exist'):
        save_pretrained(*built, tmp_path / 'new', results=tmp_path / 'gone.json')
    write(tmp_path / 'r.json', '{"a"')
    with pytest.raises(ValueError, match='r.json: not valid json'):
        save_pretrained(*built, tmp_path / 'new', results=tmp_path / 'r.json')


# -- what cannot be written --------------------------------------------------------------------


def refused_to_write(built, tmp_path, kind, message, **changes):
    model, cfg = built
    cfg = Config(cfg.to_dict())
    for key, value in changes.items():
        cfg[key] = value
    with pytest.raises(kind, match=message):
        save_pretrained(model, cfg, tmp_path / 'new')
    assert not (tmp_path / 'new').exists()


def test_configs_that_are_no_data(built, tmp_path):
    model = built[1].to_dict()['model']
    for extra, message in (
        ({'f': toy._point}, r'model.extra.f expected plain data .* found a function'),
        ({3: 1}, 'model.extra expected strings as keys, found a int'),
    ):
        changed = dict(model, extra=extra)
        refused_to_write(built, tmp_path, ValueError, message, model=changed)
    refused_to_write(built, tmp_path, ValueError, 'has no model', model=None)
    refused_to_write(built, tmp_path, ValueError, 'has no test_dataloader', test_dataloader=None)


def test_files_that_are_not_there_or_no_texts(built, tmp_path):
    loader = built[1].to_dict()['test_dataloader']
    step = loader['dataset']['text_pipeline'][0]
    step['vocab_file'] = str(tmp_path / 'gone.txt')
    message = r'text_pipeline\[0\].vocab_file names .*gone.txt, which is missing'
    refused_to_write(built, tmp_path, FileNotFoundError, message, test_dataloader=loader)
    step['vocab_file'] = str(tmp_path / 'words.pkl')
    (tmp_path / 'words.pkl').touch()
    refused_to_write(built, tmp_path, ValueError, 'a file of text expected', test_dataloader=loader)


# -- what is not read --------------------------------------------------------------------------


def spoil(saved, change):
    """The config, changed."""
    config = json.loads((saved / 'config.json').read_text())
    change(config)
    write(saved / 'config.json', config)


@pytest.mark.parametrize('where', ['model', 'encoder', 'pipeline', 'collate'])
@pytest.mark.parametrize('name', ['os.system', 'mmengine.os.system', 'subprocess.run', 7])
def test_a_config_that_asks_for_code(saved, where, name):
    def change(config):
        loader = config['test_dataloader']
        part = dict(
            model=config['model'],
            encoder=config['model']['encoder'],
            pipeline=loader['dataset']['video_pipeline'][0],
            collate=loader['collate_fn'],
        )[where]
        part.update(type=name, command=f'touch {saved}/ran')

    spoil(saved, change)
    with pytest.raises(ValueError, match=rf'type is .{name}.*not a registered component|type is 7'):
        from_pretrained(saved)
    assert not (saved / 'ran').exists()


@pytest.mark.parametrize('place', ['', 'model'])
def test_a_config_that_asks_for_a_scope(saved, place, monkeypatch):
    (saved / 'evil').mkdir()
    write(saved / 'evil/__init__.py', '')
    write(saved / 'evil/registry.py', f"open({str(saved / 'ran')!r}, 'w')")
    monkeypatch.syspath_prepend(str(saved))

    def change(config):
        part = config[place] if place else config
        part['_scope_' if place else 'default_scope'] = 'evil'

    spoil(saved, change)
    with pytest.raises(
        ValueError, match=r"scope_? expected a scope that is known here, found .*'evil'"
    ):
        from_pretrained(saved)
    assert not (saved / 'ran').exists()


def test_a_config_that_inherits(saved):
    write(saved / 'base.py', f"open({str(saved / 'ran')!r}, 'w')")
    spoil(saved, lambda config: config.update(_base_='base.py'))
    from_pretrained(saved)
    assert not (saved / 'ran').exists()


def test_files_outside_the_folder(saved):
    def names(file):
        def change(config):
            step = config['test_dataloader']['dataset']['text_pipeline'][0]
            step['vocab_file'] = file

        return change

    for file in ('../secret.txt', '/etc/passwd'):
        spoil(saved, names(file))
        with pytest.raises(ValueError, match='expected a file of the folder, found'):
            read_saved(saved)
    spoil(saved, names('files/gone.txt'))
    with pytest.raises(FileNotFoundError, match='names .*files/gone.txt, which is missing'):
        read_saved(saved)


def test_configs_that_are_none(saved):
    whole = json.loads((saved / 'config.json').read_text())
    for content, message in (
        ('{"a": ', r'config.json: not valid json'),
        ([1], 'config.json: expected an object of keys and values'),
        ({'model': 1}, 'has no model'),
        ({'model': {'type': 'X'}}, 'has no test_dataloader'),
        ('[' * 900 + ']' * 900, 'expected an object of keys and values|nested too deeply'),
        ('{"a":' + '[' * 900 + ']' * 900 + '}', 'has no model|too many brackets|nested too deeply'),
        (dict(whole, default_scope=['mmvtr']), r'default_scope expected a scope .* a list'),
        (dict(whole, model=dict(whole['model'], type=[])), 'not a registered component'),
    ):
        write(saved / 'config.json', content)
        with pytest.raises(ValueError, match=message):
            from_pretrained(saved)
    (saved / 'config.json').unlink()
    with pytest.raises(FileNotFoundError, match='config.json is missing: fetch or save'):
        from_pretrained(saved)


def test_an_argument_that_this_version_does_not_know(saved):
    spoil(saved, lambda config: config['model'].update(new_option=1))
    with pytest.raises(RuntimeError, match=r'cannot be built by mmvtr [\d.]+: .*new_option'):
        from_pretrained(saved)


def test_a_folder_of_another_version(saved):
    about = json.loads((saved / 'retriever.json').read_text())
    for content, kind, message in (
        (dict(about, format=2, version='9.1'), RuntimeError, 'by mmvtr 9.1 in format 2; this is'),
        (dict(about, format='x'), ValueError, "expected an object with 'format', found"),
        ([], ValueError, 'retriever.json: expected an object of keys and values, found'),
        (dict(about, weights=None), ValueError, "expected 'weights' with a 'sha256'"),
        (dict(about, files=['../x']), ValueError, "and texts in files/, found '../x'"),
    ):
        write(saved / 'retriever.json', content)
        with pytest.raises(kind, match=message):
            from_pretrained(saved)
    (saved / 'retriever.json').unlink()
    with pytest.raises(FileNotFoundError, match=r'retriever.json is missing, which .*README.md'):
        from_pretrained(saved)
    with pytest.raises(FileNotFoundError, match='neither a folder nor the id of a repository'):
        from_pretrained(saved / 'nothing')


def test_weights_that_are_damaged_or_anothers(saved, source):
    path = saved / 'model.safetensors'
    whole = path.read_bytes()
    flipped = bytearray(whole)
    flipped[-9] ^= 1
    other = safetensors.torch.save(dict(weight=torch.ones(2)))
    for content in (bytes(flipped), whole[:-100], other, b''):
        path.write_bytes(content)
        with pytest.raises(RuntimeError, match='is damaged, or of another model: its SHA-256'):
            from_pretrained(saved)
    path.unlink()
    with pytest.raises(FileNotFoundError, match='model.safetensors is missing'):
        from_pretrained(saved)


def test_loose_weights_that_are_damaged_or_anothers(saved, source):
    """Of a safetensors file by itself nothing but its own header tells."""
    path = source / 'loose.safetensors'
    whole = (saved / 'model.safetensors').read_bytes()
    for content in (whole[:-100], whole[:50], b'PK\x03\x04', b''):
        path.write_bytes(content)
        with pytest.raises(RuntimeError, match='loose.safetensors cannot be read: it is damaged'):
            VideoRetrievalInferencer(source / 'mine.py', path)
    weights = safetensors.torch.load(whole)
    name = next(name for name, x in weights.items() if x.dim() == 2)
    weights[name] = torch.ones(3, 4)
    path.write_bytes(safetensors.torch.save(weights))
    with pytest.raises(RuntimeError, match=r'of another shape \(1\): .* \(3, 4\) instead of'):
        VideoRetrievalInferencer(source / 'mine.py', path)


# -- the hub -----------------------------------------------------------------------------------


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """What would be uploaded: files by name, and the calls."""
    calls = dict(files={})

    def create_repo(repo_id, **options):
        calls['created'] = (repo_id, options)
        return f'hub:{repo_id}'

    def upload_folder(*, repo_id, folder_path, allow_patterns, commit_message):
        from huggingface_hub.utils import filter_repo_objects

        paths = [p for p in sorted(folder_path.rglob('*')) if p.is_file()]
        names = [p.relative_to(folder_path).as_posix() for p in paths]
        for name in filter_repo_objects(names, allow_patterns=allow_patterns):
            calls['files'][name] = (folder_path / name).read_bytes()
        calls['uploaded'] = (repo_id, commit_message)

    monkeypatch.setattr('huggingface_hub.create_repo', create_repo)
    monkeypatch.setattr('huggingface_hub.upload_folder', upload_folder)
    return calls


OURS = sorted(
    ['README.md', 'config.json', 'files/my_vocab.txt', 'retriever.json', 'model.safetensors']
)


def test_a_folder_is_uploaded_without_strangers(saved, hub):
    for name in ('secret.pth', 'notes.txt', 'files/other.txt'):
        (saved / name).write_text('not ours')
    assert push_to_hub(saved, 'me/mine', private=True) == 'hub:me/mine'
    assert hub['created'] == ('me/mine', dict(private=True, exist_ok=True))
    assert hub['uploaded'][0] == 'me/mine' and sorted(hub['files']) == OURS
    for name in OURS:
        assert hub['files'][name] == (saved / name).read_bytes()


def test_a_retriever_is_uploaded_and_fetched(built, hub, tmp_path, monkeypatch, source):
    push_to_hub(built[0], 'me/mine', cfg=built[1], results={'retrieval/rsum': 1})
    assert sorted(hub['files']) == OURS
    assert b"from_pretrained('me/mine'" in hub['files']['README.md']

    def snapshot_download(repo_id, *, revision, allow_patterns):
        assert (repo_id, revision) == ('me/mine', 'v1') and 'model.safetensors' in allow_patterns
        for name, content in hub['files'].items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_bytes(content)
        return str(tmp_path)

    monkeypatch.setattr('huggingface_hub.snapshot_download', snapshot_download)
    model, _ = from_pretrained('me/mine', device='cpu', revision='v1')
    weights = model.state_dict()
    assert all(torch.equal(x, weights[name]) for name, x in built[0].state_dict().items())
    monkeypatch.setattr('huggingface_hub.snapshot_download', lambda *args, **kwargs: str(tmp_path))
    find = VideoRetrievalInferencer('me/mine', device='cpu', gallery=source, show_progress=False)
    assert find.push_to_hub('you/yours') == 'hub:you/yours'
    assert hub['uploaded'][0] == 'you/yours' and sorted(hub['files']) == OURS
    assert b"from_pretrained('you/yours'" in hub['files']['README.md']


def test_without_network(monkeypatch, saved, hub):
    def fail(*args, **kwargs):
        raise ConnectionError('no route\nto host')

    monkeypatch.setattr('huggingface_hub.snapshot_download', fail)
    for load in (from_pretrained, VideoRetrievalInferencer):
        with pytest.raises(
            OSError, match='me/mine is not a folder here, and cannot .* route'
        ) as told:
            load('me/mine')
        assert '`hf download me/mine`' in str(told.value) and len(str(told.value)) < 500
    monkeypatch.setattr('huggingface_hub.upload_folder', fail)
    with pytest.raises(OSError, match='me/mine: the hub did not take it: no route .* by hand'):
        push_to_hub(saved, 'me/mine')


def test_uploads_that_are_refused(saved, built, hub):
    for source, name, options, message in (
        (saved, 'mine', {}, "a repository 'NAME/MODEL' expected, found 'mine'"),
        (built[0], 'me/mine', {}, 'needs the cfg of a retriever'),
        (
            saved,
            'me/mine',
            dict(results={'a': 1}),
            'results can be given for a retriever, but .* is a folder',
        ),
        (saved, 'me/mine', dict(cfg=built[1]), 'cfg can be given for a retriever, but'),
    ):
        with pytest.raises(ValueError, match=message):
            push_to_hub(source, name, **options)
    (saved / 'model.safetensors').write_bytes(b'')
    with pytest.raises(RuntimeError, match='is damaged'):
        push_to_hub(saved, 'me/mine')
    assert hub == dict(files={})


# -- links ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    'name', ['model.safetensors', 'config.json', 'README.md', 'files/my_vocab.txt', 'files']
)
def test_links_out_of_the_folder(saved, tmp_path, name):
    elsewhere = tmp_path / 'elsewhere'
    shutil.move(saved / name, elsewhere)
    (saved / name).symlink_to(elsewhere)
    with pytest.raises(ValueError, match=rf'copy/{name} is a link to a file outside of the folder'):
        read_saved(saved)


def test_links_of_the_hubs_cache(saved, tmp_path):
    """snapshots/REVISION/NAME -> ../../blobs/HASH; blobs that are a link themselves are not it."""
    repository = tmp_path / 'models--me--it'
    (repository / 'blobs').mkdir(parents=True)
    snapshot = repository / 'snapshots' / 'abc'
    for number, path in enumerate(p for p in saved.rglob('*') if p.is_file()):
        blob = repository / 'blobs' / str(number)
        shutil.copyfile(path, blob)
        link = snapshot / path.relative_to(saved)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath(blob, link.parent))
    (tmp_path / 'link').symlink_to(snapshot)
    for folder in (snapshot, tmp_path / 'link'):
        assert read_saved(folder).weights.name == 'model.safetensors'
    shutil.move(repository / 'blobs', tmp_path / 'others')
    (repository / 'blobs').symlink_to(tmp_path / 'others')
    with pytest.raises(ValueError, match='is a link to a file outside of the folder'):
        read_saved(snapshot)


def test_a_link_within_the_folder(saved):
    shutil.move(saved / 'files' / 'my_vocab.txt', saved / 'files' / 'words.txt')
    (saved / 'files' / 'my_vocab.txt').symlink_to('words.txt')
    assert 'files/my_vocab.txt' in read_saved(saved).files
