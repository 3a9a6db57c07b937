"""No config that somebody else made names or loads code, by whichever component and argument.

:mod:`code_reached` finds the arguments by reading sources; what components declare is not asked.
"""

import json
from functools import cache
from importlib.util import find_spec
from types import SimpleNamespace

import code_reached
import mmengine.registry
import pytest
import torch
from mmengine.config import Config
from mmengine.registry import Registry

from mmvtr import __version__, plain_config
from mmvtr.apis.pretrained import from_pretrained
from mmvtr.names_code import names_code
from mmvtr.plain_config import refuse_unregistered
from mmvtr.registry import (
    DATASETS,
    FUNCTIONS,
    METRICS,
    MODELS,
    TASK_UTILS,
    TRANSFORMS,
    forget_pretrained,
    register_all_modules,
)

if find_spec('mmvtr_gallery'):
    import mmvtr_gallery.clips  # noqa: F401 - registers components, which are read here, too

register_all_modules(init_default_scope=False)
reached = cache(code_reached.reached)  # a scan of sources
#: Registries of which a config of somebody else is built.
BUILT = dict(
    models=(MODELS, mmengine.registry.WEIGHT_INITIALIZERS),
    transforms=(TRANSFORMS,),
    functions=(FUNCTIONS,),
    captions=(DATASETS, TASK_UTILS, METRICS),
)
#: What the scan finds and no config of others reaches: see the tests that are named.
HELD = {
    ('OpenCLIPFrames', 'model'): 'test_weights_of_open_clip_are_forgotten',
    ('OpenCLIPFrames', 'pretrained'): 'test_weights_of_open_clip_are_forgotten',
    ('OpenCLIPText', 'model'): 'test_weights_of_open_clip_are_forgotten',
    ('OpenCLIPText', 'pretrained'): 'test_weights_of_open_clip_are_forgotten',
    ('OpenCLIPTokenize', 'model'): 'test_tokenizers_run_no_code_of_their_folder',
}


def nodes(registry):
    node = registry.root
    return [node, *node.children.values()]


def components(registries):
    for registry in registries:
        for node in nodes(registry):
            node.import_from_location()
            yield from [*node.module_dict.items()]


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


def undeclared(found, refused_by):
    """Of (name, argument, kind) those that a door lets in."""
    return [(name, key) for name, key, kind in found if not refused_by(name, key, kind)]


def refused_as_data(name, key, kind):
    part = {'type': name, key: 'stranger.module'}
    try:
        if kind == 'captions':
            refuse_unregistered(part, 'captions')
        else:
            plain_config.refuse_code(config(part, kind), 'config.json')
    except ValueError as error:
        return key in str(error)
    return False


def by_which_code_is_loaded(kinds=BUILT):
    return [
        (name, key, kind)
        for kind, registries in BUILT.items()
        if kind in kinds
        for name, component in components(registries)
        for key in sorted(reached(component))
    ]


def test_each_argument_that_loads_code_is_refused_at_each_door(doors):
    found = [x for x in by_which_code_is_loaded() if x[:2] not in HELD]
    assert {('SentenceTransformerEncoder', 'trust_remote_code'), ('FrozenTeachers', 'members')} <= {
        x[:2] for x in found
    }
    assert undeclared(found, refused_as_data) == []
    assert all(name in globals() for name in HELD.values())
    for name, key, kind in found:
        if kind != 'captions':
            for message in doors(config({'type': name, key: 'stranger.module'}, kind)):
                assert f'.{key} is' in message and 'code' in message


@pytest.mark.nightly
def test_components_that_no_such_config_is_built_of_are_refused_by_name():
    built = {id(r.root) for registries in BUILT.values() for r in registries}
    others = [
        registry
        for registry in vars(mmengine.registry).values()
        if isinstance(registry, Registry) and id(registry.root) not in built
    ]
    found = {name for name, x in components(others) if reached(x)}
    assert {'EMAHook', 'Runner'} <= found
    for name in found:
        with pytest.raises(ValueError, match='not a registered component'):
            plain_config.refuse_code(config(dict(type=name)), 'config.json')


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
    assert undeclared(found, refused_as_data) == [x[:2] for x in found]
    if argument:
        names_code(argument)(planted)
        assert undeclared(found, refused_as_data) == []


def test_a_declaration_is_of_an_argument_and_holds_for_subclasses(monkeypatch):
    with pytest.raises(TypeError, match="no argument 'file'"):
        names_code('file')(ByHelper)
    names_code('path')(ByHelper)
    monkeypatch.setattr(MODELS, '_module_dict', {**MODELS._module_dict, 'Inherits': Inherits})
    assert refused_as_data('Inherits', 'path', 'models')


@pytest.mark.parametrize(
    'key, value',
    [
        ('trust_remote_code', True),
        ('trust_remote_code', 'no'),
        ('TRUST_REMOTE_CODE', 1),
        ('code_revision', 'main'),
        ('auto_map', dict(AutoModel='evil.Evil')),
        ('allow_pickle', True),
        ('weights_only', False),
        ('allow_all_kernels', True),
        ('_attn_implementation', 'stranger/kernels'),
        ('anything', 'tower/evil.py'),
        ('anything', ['a', 'tower/Evil.PY ']),
        ('library', 'tower/ops.so'),
    ],
)
@pytest.mark.parametrize('kind', ['models', 'transforms', 'functions'])
def test_keys_and_files_at_any_depth(doors, key, value, kind):
    known = dict(models='CosineSimilarity', transforms='OpenCLIPTokenize')
    part = dict(type=known.get(kind, 'collate_retrieval'), x=dict(kwargs=[dict(y={key: value})]))
    for message in doors(config(part, kind)):
        assert f'x.kwargs[0].y.{key} is' in message and 'a config of your own' in message
    with pytest.raises(ValueError, match=rf'captions.*{key} is'):
        refuse_unregistered(dict(type='TableDataset', x=({key: value},)), 'captions')


def test_values_that_run_nothing_pass():
    fine = dict(type='SentenceTransformerEncoder', model='name/model', trust_remote_code=False)
    more = dict(_attn_implementation='sdpa', weights_only=True, auto_map=None, split='a.pyramid')
    plain_config.refuse_code(config(dict(fine, x=more)), 'config.json')
    resize = dict(type='RandomResize', scale=[8, 8], resize_type='Resize')
    plain_config.refuse_code(config(resize, 'transforms'), 'config.json')


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


def test_a_resize_of_mmcv_imports_nothing(doors, tmp_path, monkeypatch):
    """Its ``resize_type`` is a dotted name that mmengine would import."""
    (tmp_path / 'evil_module.py').write_text('raise SystemExit("ran")')
    monkeypatch.syspath_prepend(tmp_path)
    for name in ('RandomResize', 'RandomChoiceResize'):
        part = dict(type=name, resize_type='evil_module.Evil')
        part['scale' if name == 'RandomResize' else 'scales'] = [8, 8]
        with pytest.raises(SystemExit, match='ran'):  # so it is, where nobody looks
            TRANSFORMS.build(part)
        for nested in (part, dict(type='RandomApply', transforms=[part])):
            assert all('resize_type is' in m for m in doors(config(nested, 'transforms')))
