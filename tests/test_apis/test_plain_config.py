"""Configs of somebody else are data: whatever they hold, and in whatever shape, nothing of it runs.

:mod:`code_reached` finds the arguments by which components load code by reading sources; what the
components declare is not asked.
"""

import copy
import json
import pickle
from functools import cache
from importlib.util import find_spec
from types import SimpleNamespace

import code_reached
import pytest
import torch
from mmengine.config import Config
from mmengine.registry import TRANSFORMS as ROOT_TRANSFORMS

from children import ROOT
from mmvtr import __version__
from mmvtr.apis import TextEncoder, encode_videos, load_retriever
from mmvtr.apis.plain_config import OF_ROOT, _of_a_project, as_data, from_data
from mmvtr.apis.pretrained import from_pretrained, read_saved, save_pretrained
from mmvtr.apis.pretrained.transfer import load_saved
from mmvtr.datasets.sampling.collate import collate_of
from mmvtr.models.towers.transformers_weights import load_transformer
from mmvtr.registry import (
    FUNCTIONS,
    MODELS,
    TRANSFORMS,
    forget_pretrained,
    register_all_modules,
)

if find_spec('mmvtr_gallery'):
    import mmvtr_gallery.clips  # noqa: F401 - registers components, which are read here, too

register_all_modules(init_default_scope=False)
reached = cache(code_reached.reached)  # a scan of sources
#: Registries of which a config of somebody else is built.
BUILT = dict(models=MODELS, transforms=TRANSFORMS, functions=FUNCTIONS)
#: What the scan finds and no config of others reaches: see the tests that are named.
HELD = {
    ('OpenCLIPFrames', 'model'): 'test_weights_of_open_clip_are_forgotten',
    ('OpenCLIPFrames', 'pretrained'): 'test_weights_of_open_clip_are_forgotten',
    ('OpenCLIPText', 'model'): 'test_weights_of_open_clip_are_forgotten',
    ('OpenCLIPText', 'pretrained'): 'test_weights_of_open_clip_are_forgotten',
    ('OpenCLIPTokenize', 'model'): 'test_tokenizers_run_no_code_of_their_folder',
}


def config(part=None, kind='models', **more):
    """A config of a retriever with a part of a component of some kind."""
    dataset = dict(video_pipeline=[], text_pipeline=[])
    model = dict(type='VideoTextRetriever', encoder=dict(type='FeatureWords', in_dim=2))
    loader = dict(dataset=dataset)
    if part is not None and kind == 'transforms':
        dataset['text_pipeline'] = [part]
    elif part is not None and kind == 'functions':
        loader['collate_fn'] = part
    elif part is not None:
        model['losses'] = dict(deep=[dict(x=part)])
    return dict(model=model, test_dataloader=loader, **more)


# -- every key in every shape ------------------------------------------------------------------

#: Keys that a saved config lacks, and that mmengine, torch or transformers know somewhere.
LACKING = (
    '_base_', '_delete_', '_scope_', 'auto_map', 'batch_sampler', 'builder', 'checkpoint',
    'code_revision', 'collate_fn', 'constructor', 'custom_hooks', 'custom_imports',
    'data_preprocessor',
    'default_hooks', 'default_scope', 'env_cfg', 'func', 'generator', 'hooks', 'init_cfg',
    'launcher', 'lazy_init', 'load_from', 'metainfo', 'model_wrapper_cfg', 'module',
    'multiprocessing_context', 'pipeline', 'pretrained', 'registry', 'resize_type', 'runner_type',
    'sampler', 'serialize_data', 'strategy', 'test_pipeline', 'trust_remote_code', 'type',
    'use_kernels', 'visualizer', 'worker_init_fn',
)  # fmt: skip
#: Where they are put.
PLACES = (
    (),
    ('model',),
    ('model', 'encoder'),
    ('model', 'data_preprocessor'),
    ('test_dataloader',),
    ('test_dataloader', 'dataset'),
    ('test_dataloader', 'dataset', 'text_pipeline', 0),
    ('test_dataloader', 'dataset', 'video_pipeline', 0),
)


def shapes(payload):
    """One call of a function, as json could say it."""
    pairs = [[key, x] for key, x in payload.items()]
    deep = payload
    for _ in range(40):
        deep = dict(x=[deep])
    call = pickle.dumps((payload['type'], payload)).decode('latin-1')
    two_keys = [{key: 0, str(x): 0} for key, x in payload.items()]
    return {
        'a dict': payload,
        'pairs': pairs,
        'zipped lists': [list(payload), list(payload.values())],
        'a name': payload['type'],
        'nested lists': [[[pairs]], [payload]],
        'a partial': dict(_target_=payload['type'], func=payload['type'], keywords=payload),
        'bytes': call,
        'a number': 1e308,
        'very deep': deep,
        'very long': [payload] * 300,
        'keys as pairs': [dict(two_keys[0], type='collate_retrieval'), *two_keys[1:]],
        'a file of code': f'files/{payload["type"]}.py',
    }


def paths(value, at=()):
    """Paths of all keys in a config."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, x in items:
        yield (*at, key)
        if isinstance(x, (dict, list)):
            yield from paths(x, (*at, key))


def at(value, path):
    for key in path:
        value = value[key]
    return value


@pytest.fixture(scope='module')
def folder(tmp_path_factory, write_video):
    """A saved retriever whose config.json holds its whole training, as it once was written."""
    home = tmp_path_factory.mktemp('of_somebody')
    write_video(home / 'clip.mp4', [10, 90, 200, 30], size=(64, 64))
    words = ['red', 'dog', *(f'w{i}' for i in range(74))]
    (home / 'words.txt').write_text('\n'.join(words))
    cfg = Config.fromfile(ROOT / 'configs/uatvr_planted.py')
    step = cfg.test_dataloader.dataset.text_pipeline[0]
    step.vocab_file = str(home / 'words.txt')
    model, cfg = load_retriever(cfg, None, random_weights=True, device='cpu')
    save_pretrained(model, cfg, home / 'model')
    step = cfg.test_dataloader.dataset.text_pipeline[0]
    step.vocab_file = 'files/words.txt'
    (home / 'model/config.json').write_text(json.dumps(cfg.to_dict()))
    return home / 'model'


@pytest.fixture
def ran(tmp_path, monkeypatch):
    """A file that is there if code of somebody else ran, and calls that would write it."""
    mark = tmp_path / 'ran'
    code = f'open({str(mark)!r}, "w")\ndef go(*args, **kwargs): pass\n'
    for name in ('evil_payload', 'Xavier'):  # an initialiser's name, which is none of a model
        (tmp_path / f'{name}.py').write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    return mark, (
        dict(type='evil_payload.go', path=str(mark)),
        dict(type='pydoc.pipepager', cmd=f'touch {mark}'),
        dict(type='Xavier'),
    )


@pytest.mark.parametrize('of', [60, pytest.param(1, marks=pytest.mark.nightly)])
def test_no_key_runs_code_in_any_shape(folder, ran, of):
    """All are read; of those that are accepted outer keys and one of so many others are used."""
    mark, payloads = ran
    whole = json.loads((folder / 'config.json').read_text())
    saved = read_saved(folder)
    known = {*paths(whole)}
    places = [*known, *((*place, key) for place in PLACES for key in LACKING)]
    refused = dropped = loaded = 0
    for n, path in enumerate(dict.fromkeys(places)):
        for k, shape in enumerate(shapes(payloads[0])):
            value = shapes(payloads[(n + k) % len(payloads)])[shape]
            try:
                cfg = from_data(with_value(whole, path, value), folder, name='config.json')
            except (ValueError, FileNotFoundError) as error:
                text, named = str(error), [key for key in path if isinstance(key, str)]
                assert text.startswith('config.json') and '\n' not in text, (path, shape)
                assert named[-1] in text or named[0] in text, (path, shape, text)
                refused += 1
            else:
                same = cfg._cfg_dict == saved.config._cfg_dict
                dropped += same
                loaded += not same
                if not same and (len(path) < 3 or loaded % of == 0):
                    use(saved._replace(config=cfg), folder.parent / 'clip.mp4')
            assert not mark.exists(), (path, shape)
    assert len(known) > 150 and min(refused, dropped, loaded) > 500, (refused, dropped, loaded)


def with_value(whole, path, value):
    """A copy of a config with one value changed, all of whose other parts are shared."""
    part = changed = copy.copy(whole)
    for key in path[:-1]:
        part[key] = copy.copy(part[key])
        part = part[key]
    part[path[-1]] = value
    return changed


def use(saved, clip):
    """Load a retriever and encode with it, which may fail in any way."""
    try:
        model, cfg = load_saved(saved, device='cpu')
        TextEncoder(model, cfg)(['red dog'])
        encode_videos(model, cfg, [clip])
    except Exception:
        pass


# -- two ways that pass a list of what is forbidden --------------------------------------------


def test_a_name_of_another_table_is_not_imported(folder, ran):
    """``Xavier`` is registered, as an initialiser: to MODELS it would be a module to import."""
    whole = json.loads((folder / 'config.json').read_text())
    whole['model']['similarity'] = dict(type='Xavier')
    with pytest.raises(ValueError, match="model.similarity.type is 'Xavier', which is not a regi"):
        from_data(whole, folder, name='config.json')
    assert not ran[0].exists()


def test_dicts_of_two_keys_are_no_pairs(folder, ran):
    """``dict([{'type': 0, 'evil.go': 0}])`` is ``{'type': 'evil.go'}``."""
    two = [{'type': 'collate_retrieval', 'evil_payload.go': 0}]
    whole = json.loads((folder / 'config.json').read_text())
    whole['test_dataloader']['collate_fn'] = two
    with pytest.raises(ValueError, match='collate_fn expected a dict with the type of a component'):
        from_data(whole, folder, name='config.json')
    with pytest.raises(TypeError, match='a dict with a type expected'):
        collate_of(dict(collate_fn=two))
    assert not ran[0].exists()


# -- the doors ---------------------------------------------------------------------------------


@pytest.fixture
def doors(tmp_path, monkeypatch):
    """All ways in which a config of somebody else is read, as functions of it."""
    (tmp_path / 'tower').mkdir()
    about = dict(format=1, version=__version__, weights=dict(file='w', sha256='0'), files=[])
    (tmp_path / 'retriever.json').write_text(json.dumps(about))
    path = tmp_path / 'config.json'
    store = SimpleNamespace(about=dict(checkpoint='w.pth'), config=None, model=None)
    of_gallery = SimpleNamespace(about=dict(checkpoint='w.pth'), config=path, model=None)
    monkeypatch.setattr('huggingface_hub.snapshot_download', lambda *_, **__: str(tmp_path))
    open_door = {
        'a model folder': lambda: from_pretrained(tmp_path),
        'a hub repository': lambda: from_pretrained('stranger/model'),
    }

    if find_spec('mmvtr_gallery'):
        from mmvtr_gallery.stored_model import load_stored_retriever

        open_door['a store'] = lambda: load_stored_retriever(tmp_path, store)
        open_door["a gallery's config"] = lambda: load_stored_retriever('elsewhere', of_gallery)

    def refused(data):
        path.write_text(json.dumps(data))
        said = []
        for name, read in open_door.items():
            with pytest.raises(ValueError) as raised:
                read()
            message = str(raised.value)
            assert 'config.json' in message and len(message.splitlines()) == 1, (name, message)
            said.append(message)
        return said

    return refused


@pytest.mark.parametrize('kind', BUILT)
def test_each_door_has_the_one_reader(doors, ran, kind):
    for payload in ran[1]:
        for shape in ('a dict', 'pairs', 'zipped lists', 'a name', 'nested lists', 'keys as pairs'):
            value = shapes(payload)[shape]
            if kind == 'models' and shape == 'a name':  # an argument that is a text
                continue
            doors(config(value, kind))
            assert not ran[0].exists()


# -- what components do with plain arguments ---------------------------------------------------


def components(registry):
    """Name and component of all that a config of others can choose."""
    for node in [registry.root, *registry.root.children.values()]:
        node.import_from_location()
        for name, x in [*node.module_dict.items()]:
            if node is not registry.root or name in OF_ROOT or _of_a_project(x):
                yield f'{node.scope}.{name}', x


def by_which_code_is_loaded(kinds=BUILT):
    return [
        (name.rpartition('.')[2], key, kind)
        for kind in kinds
        for name, component in components(BUILT[kind])
        for key in sorted(reached(component))
    ]


def undeclared(found):
    """Of (name, argument, kind) those that the reader lets in."""
    wrong = []
    for name, key, kind in found:
        data = config({'type': name, key: 'stranger.module'}, kind)
        try:
            from_data(data, None, name='config.json')
        except ValueError as error:
            if f'.{key} is' in str(error) and 'code' in str(error):
                continue
        wrong.append((name, key))
    return wrong


def test_arguments_that_load_code_are_declared():
    found = [x for x in by_which_code_is_loaded() if x[:2] not in HELD]
    assert {('SentenceTransformerEncoder', 'trust_remote_code'), ('FrozenTeachers', 'members')} == {
        x[:2] for x in found
    }
    assert undeclared(found) == []
    assert all(name in globals() for name in HELD.values())


def test_arguments_that_name_no_code_pass():
    fine = dict(type='SentenceTransformerEncoder', model='name/model', trust_remote_code=False)
    read = from_data(config(fine), None, name='config.json').model.losses.deep[0].x
    assert read == dict(type='mmvtr.SentenceTransformerEncoder', model='name/model')


def of_helper(path):
    return Config.fromfile(path)


class ByHelper(torch.nn.Module):
    def __init__(self, width, path):
        super().__init__()
        chosen = [path]
        self.read = of_helper(*chosen)
        self.cfg = of_helper(chosen[0])


class Later(torch.nn.Module):
    def __init__(self, width, where):
        super().__init__()
        self.where = where

    def forward(self, x):
        return torch.load(self.where)(x)


class PassesOn(torch.nn.Module):
    def __init__(self, width, **settings):
        super().__init__()
        from transformers import AutoModel

        self.net = AutoModel.from_pretrained('name', **settings)


class Inherits(ByHelper):
    def __init__(self, more, path):
        super().__init__(1, path)


class Harmless(torch.nn.Module):
    def __init__(self, width, model):
        super().__init__()
        from transformers import AutoModel

        self.net = AutoModel.from_pretrained(model, trust_remote_code=False)


@pytest.mark.parametrize(
    'planted, argument',
    [(ByHelper, 'path'), (Later, 'where'), (PassesOn, 'settings'), (Harmless, None)],
)
def test_a_new_argument_that_nobody_declares_is_found(planted, argument, monkeypatch):
    monkeypatch.setattr(MODELS, '_module_dict', {**MODELS._module_dict, planted.__name__: planted})
    found = [x for x in by_which_code_is_loaded(['models']) if x[0] == planted.__name__]
    assert [x[1] for x in found] == ([argument] if argument else [])
    assert undeclared(found) == [x[:2] for x in found]
    if argument:
        monkeypatch.setattr(planted, 'not_data', (argument,), raising=False)
        assert undeclared(found) == []


def test_a_declaration_holds_for_subclasses(monkeypatch):
    monkeypatch.setattr(ByHelper, 'not_data', ('path',), raising=False)
    monkeypatch.setattr(MODELS, '_module_dict', {**MODELS._module_dict, 'Inherits': Inherits})
    assert undeclared([('Inherits', 'path', 'models')]) == []


def test_transforms_of_mmcv_are_listed():
    """Two of them import a dotted name, and are left out; those that are listed do not."""
    known = {name.rpartition('.')[2] for name, _ in components(TRANSFORMS)}
    assert {*OF_ROOT} <= known and {*OF_ROOT} <= {*ROOT_TRANSFORMS.module_dict}
    for name in ('RandomResize', 'RandomChoiceResize'):
        assert reached(ROOT_TRANSFORMS.module_dict[name]) == {'resize_type'}
        for nested in (dict(type=name), dict(type='RandomApply', transforms=[dict(type=name)])):
            with pytest.raises(ValueError, match=f"is '{name}', which is not a registered"):
                from_data(config(nested, 'transforms'), None, name='config.json')


def write_evil(folder):
    """A folder of a model that leaves a file behind when its code is run."""
    folder.mkdir()
    (folder / 'evil.py').write_text(f'open({str(folder / "ran")!r}, "w")\nclass Evil: pass\n')
    auto = dict(AutoConfig='evil.Evil', AutoModel='evil.Evil', AutoTokenizer=['evil.Evil', None])
    (folder / 'config.json').write_text(json.dumps(dict(model_type='evil', auto_map=auto)))
    (folder / 'tokenizer_config.json').write_text(
        json.dumps(dict(tokenizer_class='Evil', auto_map=dict(AutoTokenizer=['evil.Evil', None])))
    )
    cfg = dict(embed_dim=4, vision_cfg=dict(layers=1, width=64, patch_size=16, image_size=16))
    cfg['text_cfg'] = dict(
        hf_model_name=str(folder),
        hf_tokenizer_name=str(folder),
        tokenizer_kwargs=dict(trust_remote_code=True),
    )
    (folder / 'open_clip_config.json').write_text(json.dumps(dict(model_cfg=cfg)))
    return cfg


@pytest.fixture
def answers_yes(monkeypatch):
    """Somebody who says yes to whatever a library asks."""
    asked = []
    monkeypatch.setattr('builtins.input', lambda question='': asked.append(question) or 'y')
    yield asked
    assert asked == []


def test_tokenizers_run_no_code_of_their_folder(tmp_path, answers_yes):
    """A folder's own config may ask for it: it is no part of the config that is looked at."""
    folder = tmp_path / 'evil'
    cfg = write_evil(folder)
    for part in (
        dict(type='OpenCLIPTokenize', model=f'local-dir:{folder}', context_length=8),
        dict(type='OpenCLIPTokenize', model=cfg, context_length=8),
        dict(type='HFTokenize', model=str(folder)),
    ):
        with pytest.raises(ValueError) as raised:
            TRANSFORMS.build(part)
        message = str(raised.value)
        assert 'without code that comes with it' in message and len(message.splitlines()) == 1
    assert not (folder / 'ran').exists()


@pytest.mark.parametrize(
    'part',
    [
        dict(type='TransformersText', dim=4),
        dict(type='TransformersFrames'),
        dict(type='TransformersDualText'),
        dict(type='XCLIPEncoder'),
    ],
)
def test_towers_run_no_code_of_their_folder(tmp_path, answers_yes, part):
    folder = tmp_path / 'evil'
    write_evil(folder)
    with pytest.raises((ValueError, RuntimeError)) as raised:
        MODELS.build(dict(part, model=str(folder)))
    assert 'code that comes with it' in str(raised.value)
    assert not (folder / 'ran').exists()


def test_text_towers_of_open_clip_run_no_code_of_their_folder(tmp_path, answers_yes):
    folder = tmp_path / 'evil'
    cfg = write_evil(folder)
    for model in (cfg, f'local-dir:{folder}'):
        with pytest.raises(ValueError, match='without code that comes with it'):
            MODELS.build(dict(type='OpenCLIPText', model=model, pretrained=False))
    assert not (folder / 'ran').exists()


def test_a_sentence_transformer_runs_no_code_of_its_folder(tmp_path, answers_yes):
    pytest.importorskip('sentence_transformers')
    folder = tmp_path / 'evil'
    write_evil(folder)
    modules = [dict(idx=0, name='0', path='', type='evil.Evil')]
    (folder / 'modules.json').write_text(json.dumps(modules))
    (folder / 'config_sentence_transformers.json').write_text('{}')
    with pytest.raises(ValueError, match='without code that comes with it'):
        MODELS.build(dict(type='SentenceTransformerEncoder', model=str(folder)))
    assert not (folder / 'ran').exists()


def test_weights_of_open_clip_are_forgotten():
    """A TorchScript file is a program: no checkpoint of somebody else lets one be read."""
    for name in ('OpenCLIPFrames', 'OpenCLIPText'):
        for model, pretrained in (('local-dir:x', None), ('local-dir:x', 'a'), ('ViT', 'a.pt')):
            model = dict(type='X', parts=[dict(type=name, model=model, pretrained=pretrained)])
            forget_pretrained(model)
            assert not model['parts'][0]['pretrained']
            told = str(model['parts'][0]['model']).startswith('local-dir:')
            assert model['parts'][0]['pretrained'] is (False if told else None)


@pytest.mark.parametrize('asked', ['stranger/kernels', {'vision_config': 'stranger/kernels'}])
def test_attention_of_a_repository_is_not_fetched(tmp_path, asked):
    """transformers takes a repository's name for an implementation, and would run its code."""
    given = dict(model_type='clip', attn_implementation=asked)
    (tmp_path / 'config.json').write_text(json.dumps(given))
    for model in (given, str(tmp_path)):
        with pytest.raises((ValueError, RuntimeError), match="attention 'stranger/kernels', which"):
            load_transformer(model)


@pytest.mark.parametrize('joined', [True, False])
def test_a_test_set_without_pipelines_of_its_own(joined):
    """Nobody could read with what would be written."""
    cfg = Config.fromfile(ROOT / 'configs/c2v_msrvtt.py')
    one = cfg.test_dataloader.dataset.to_dict()
    several = dict(type='ConcatDataset', datasets=[one, one])
    cfg.test_dataloader = dict(dataset=several if joined else dict(type='MSRVTTDataset'))
    with pytest.raises(ValueError, match='has no video_pipeline or text_pipeline'):
        as_data(cfg)


def test_counts_of_words_are_in_the_folder(tmp_path):
    """The training set, which nobody else has, is not needed."""
    (tmp_path / 'counts.json').write_text('{"captions": 1, "counts": {"oil": 1}}')
    cfg = Config.fromfile(ROOT / 'configs/taco_msrvtt.py')
    step = cfg.test_dataloader.dataset.text_pipeline[1]
    step.counted, step['counted_file'] = None, str(tmp_path / 'counts.json')
    data, files = as_data(cfg)
    (tmp_path / 'files').mkdir()
    for place, source in files.items():
        (tmp_path / place).write_text(source.read_text())
    read = from_data(data, tmp_path, name='the folder').test_dataloader.dataset.text_pipeline[1]
    assert read.counted_file == str(tmp_path / 'files/counts.json')
    assert TRANSFORMS.build(read).table.counts == dict(oil=1)
