"""tools/test.py without a checkpoint: the pretrained model as the config builds it."""

import json
import re
import shutil

import numpy as np
import open_clip
import pytest
import torch
from mmengine.config import Config
from PIL import Image

from children import ROOT, config_file, run_tool
from mmvtr import registry
from mmvtr.apis import load_retriever
from mmvtr.datasets import read_frames
from mmvtr.engine.checks.zero_shot import pretrained_parts, untrained_parts
from mmvtr.storage import write_plain
from mmvtr.utils import load_config, register_all_modules

FILES = sorted((ROOT / 'configs').rglob('zeroshot_*.py'))
FILES = [path for path in FILES if path.parent.name != '_base_']
#: Those of an embedder as a whole are tested elsewhere (tests/test_models/test_embedders).
TOWERS = [path for path in FILES if not path.stem.endswith(('_st', '_remote'))]

CONFIG = f"""
_base_ = ['{ROOT}/configs/_base_/default_runtime.py', '{ROOT}/configs/_base_/zeroshot_towers.py']
shortcuts = _base_.zeroshot_shortcuts
custom_imports = dict(imports=['toy'], allow_failed_imports=False)
name = 'local-dir:clip'
model = dict(encoder=dict(frames=dict(model=name), text=dict(model=name)))
test_dataloader = dict(
    batch_size=2,
    num_workers=0,
    collate_fn=dict(type='mmvtr.collate_retrieval'),
    dataset=dict(
        type='ToyVideos',
        names=['a', 'b', 'c'],
        video_pipeline=[
            dict(type='LoadVideo', num_frames=2),
            dict(type='OpenCLIPResize', model=name),
        ],
        text_pipeline=[dict(type='OpenCLIPTokenize', model=name)],
    ),
)
test_cfg = dict(type='RetrievalLoop')
test_evaluator = [dict(type='RetrievalMetric')]
custom_hooks = [dict(type='ScoresFileHook')]
"""
#: A text tower that reads its padding, and frames that are squashed.
MODEL = dict(
    embed_dim=32,
    vision_cfg=dict(layers=2, width=32, head_width=16, patch_size=16, image_size=32),
    text_cfg=dict(context_length=9, width=32, heads=2, layers=2, no_causal_mask=True),
    custom_text=True,
)
PREPROCESSING = dict(
    mean=(0.5, 0.4, 0.3), std=(0.2, 0.3, 0.4), interpolation='bilinear', resize_mode='squash'
)


@pytest.fixture
def folder(tmp_path, write_video):
    """A folder with a config, its model's ``clip/``, weights ``clip.pt`` and three videos."""
    (tmp_path / 'r.py').write_text(CONFIG)
    (tmp_path / 'clip').mkdir()
    whole = dict(model_cfg=MODEL, preprocess_cfg=PREPROCESSING)
    (tmp_path / 'clip' / 'open_clip_config.json').write_text(json.dumps(whole))
    for number, name in enumerate('abc'):
        write_video(tmp_path / f'{name}.mp4', [70 * number, 250 - 90 * number])
    torch.manual_seed(5)
    clip = open_clip.create_model(f'local-dir:{tmp_path / "clip"}', load_weights=False)
    torch.save(clip.state_dict(), tmp_path / 'clip.pt')
    return tmp_path


def protocol(printed):
    found = re.search(r'^protocol: .*(?:\n {10}.*)*', printed, flags=re.MULTILINE)
    return re.sub(r'\n +', ' ', found[0])


WEIGHTS = ('--cfg-options', 'weights=clip.pt')


@torch.no_grad()
def test_scores_are_open_clips(folder):
    code, printed = run_tool(folder, 'test.py', 'r.py', '--work-dir', 'w', *WEIGHTS)
    assert code == 0, printed
    assert 'zero-shot: weights as the config builds them' in protocol(printed)
    assert 'random in' not in protocol(printed)
    model, _, preprocess = open_clip.create_model_and_transforms(
        f'local-dir:{folder / "clip"}', load_weights=False
    )
    model.load_state_dict(torch.load(folder / 'clip.pt'))
    model.eval()
    texts = model.encode_text(open_clip.get_tokenizer(f'local-dir:{folder / "clip"}')([*'abc']))
    videos = []
    for name in 'abc':
        images = read_frames(str(folder / f'{name}.mp4'), lambda times: np.arange(2))
        frames = torch.stack([preprocess(Image.fromarray(image)) for image in images])
        unit = torch.nn.functional.normalize(model.encode_image(frames), dim=-1)
        videos.append(unit.mean(0))
    expected = torch.cosine_similarity(texts[:, None], torch.stack(videos)[None], dim=-1)
    scores = np.load(folder / 'w' / 'scores_test.npy')
    np.testing.assert_allclose(scores, expected.numpy(), atol=1e-4)


def test_a_transform_by_one_option(folder):
    options = ('transform=SinkhornHook', 'queries=test')
    code, printed = run_tool(folder, 'test.py', 'r.py', '--out', 'm.json', *WEIGHTS, *options)
    assert code == 0, printed
    assert 'sinkhorn_oracle/retrieval/t2v_R1' in json.loads((folder / 'm.json').read_text())


QUEUES = """
_base_ = ['r.py']
custom_hooks = [dict(type='QueryQueueHook', size=8), {hooks}]
"""


@pytest.mark.parametrize(
    ('hooks', 'left_out', 'kept'),
    [
        (
            "dict(type='SinkhornHook', queries='train_queue'), "
            "dict(type='InvertedSoftmaxHook', queries='train_queue'), "
            "dict(type='SinkhornHook', queries='test')",
            'sinkhorn, inverted_softmax are left out',
            {'sinkhorn_oracle'},
        ),
        ("dict(type='QBNormHook', queries='train_queue', name='q')", 'q is left out', set()),
        ("dict(type='DualSoftmaxHook', queries='test')", '', {'dual_softmax_oracle'}),
    ],
)
def test_no_training_has_filled_the_queue(folder, hooks, left_out, kept):
    (folder / 'q.py').write_text(QUEUES.format(hooks=hooks))
    code, printed = run_tool(folder, 'test.py', 'q.py', '--out', 'm.json', *WEIGHTS)
    assert code == 0, printed
    said = [line for line in printed.splitlines() if 'left out' in line]
    assert len(said) == bool(left_out) and left_out in ''.join(said)
    found = {key.partition('/')[0] for key in json.loads((folder / 'm.json').read_text())}
    assert found - {'retrieval', 'protocol'} == kept


def test_a_checkpoint_without_a_queue_is_refused_before_encoding(folder, monkeypatch):
    monkeypatch.chdir(folder)
    hooks = "dict(type='CSLSHook', queries='train_queue')"
    (folder / 'q.py').write_text(QUEUES.format(hooks=hooks))
    model = load_config('r.py').model
    registry.forget_pretrained(model)  # the folder has none
    weights = registry.MODELS.build(model).state_dict()
    torch.save(dict(state_dict=weights, meta={}), folder / 'whole.pth')
    code, printed = run_tool(folder, 'test.py', 'q.py', 'whole.pth')
    assert code == 1 and 'Traceback' not in printed
    assert 'csls: the train queue of text and video queries was never filled' in printed
    assert 'Epoch(test)' not in printed


def test_a_random_model_is_refused(folder):
    code, printed = run_tool(folder, 'test.py', 'r.py')
    assert code == 1 and 'Traceback' not in printed
    assert 'clip has a config and no weights' in printed
    code, printed = run_tool(folder, 'test.py', 'r.py', '--random-weights')
    assert code == 0, printed
    assert 'random in encoder.frames, encoder.text' in protocol(printed)
    code, printed = run_tool(folder, 'test.py', 'r.py', 'clip.pt', '--random-weights')
    assert code == 1 and '--random-weights is for a test without a checkpoint' in printed


@pytest.mark.parametrize(
    'part, options',
    [
        ('position', ('weights=clip.pt', 'model.encoder.aggregator=transformer')),
        (
            'text',
            ('model.encoder.frames.pretrained=clip.pt', 'model.encoder.text.pretrained=False'),
        ),
        (
            'frames',
            ('model.encoder.text.pretrained=clip.pt', 'model.encoder.frames.pretrained=False'),
        ),
    ],
)
def test_what_is_random_beside_pretrained_towers_is_refused(folder, part, options):
    code, printed = run_tool(folder, 'test.py', 'r.py', '--cfg-options', *options)
    printed = ' '.join(printed.split())
    assert code == 1 and 'Traceback' not in printed
    assert f'names no pretrained weights for encoder.{part}' in printed
    assert '--cfg-options weights=FILE' in printed and '--random-weights' in printed


def test_what_is_random_beside_pretrained_towers_is_said(folder):
    code, printed = run_tool(
        folder, 'test.py', 'r.py', '--random-weights', *WEIGHTS,
        'model.encoder.aggregator=transformer', 'model.encoder.temporal_layers=1',
    )  # fmt: skip
    assert code == 0, printed
    expected = 'config builds them, random in encoder.position, encoder.temporal'
    assert expected in protocol(printed)


def test_a_file_that_is_not_there(folder):
    code, printed = run_tool(folder, 'test.py', 'r.py', '--cfg-options', 'weights=gone/clip.pt')
    assert code == 1 and 'Traceback' not in printed
    assert "pretrained='gone/clip.pt': there is no such file" in printed


def test_a_tag_without_a_network_is_one_sentence(folder, monkeypatch):
    monkeypatch.setenv('HF_ENDPOINT', 'http://127.0.0.1:9')
    monkeypatch.setenv('HF_HUB_CACHE', str(folder / 'cache'))
    code, printed = run_tool(
        folder, 'test.py', 'r.py', '--cfg-options', 'weights=openai',
        'model.encoder.frames.model=ViT-B-32-quickgelu',
    )  # fmt: skip
    assert code == 1 and 'Traceback' not in printed
    (said,) = [line for line in printed.splitlines() if line.startswith('error: ')]
    assert "the weights 'openai' of 'ViT-B-32-quickgelu'" in said and 'downloaded' in said
    assert '(here: --cfg-options weights=FILE)' in said and printed.rstrip().endswith(said)


def test_the_weights_of_the_folder(folder):
    """As open_clip's create_model takes them; those that are named come before them."""
    shutil.copyfile(folder / 'clip.pt', folder / 'clip' / 'open_clip_pytorch_model.bin')
    code, printed = run_tool(folder, 'test.py', 'r.py', '--work-dir', 'own')
    assert code == 0, printed
    assert 'random in' not in protocol(printed)
    code, printed = run_tool(folder, 'test.py', 'r.py', '--work-dir', 'named', *WEIGHTS)
    assert code == 0, printed
    own, named = (np.load(folder / name / 'scores_test.npy') for name in ('own', 'named'))
    np.testing.assert_array_equal(own, named)


def test_a_checkpoint_needs_no_weights_of_the_folder(folder, monkeypatch):
    monkeypatch.chdir(folder)
    cfg = load_config('r.py')
    with pytest.raises(FileNotFoundError, match='clip has a config and no weights'):
        load_retriever(cfg, None, device='cpu')
    model, _ = load_retriever(cfg, None, random_weights=True, device='cpu')
    weights = {f'module._orig_mod.{name}': x for name, x in model.state_dict().items()}
    write_plain(dict(state_dict=weights), 'mine.pth')
    code, printed = run_tool(folder, 'test.py', 'r.py', 'mine.pth')
    assert code == 0 and "its names begin with 'module._orig_mod.'" in printed, printed
    next(iter(weights.values())).fill_(torch.nan)
    write_plain(dict(state_dict=weights), 'mine.pth')
    code, printed = run_tool(folder, 'test.py', 'r.py', 'mine.pth')
    assert code == 1 and 'mine.pth: 1 of its ' in printed and 'Traceback' not in printed
    cfg.model.encoder.frames.pretrained = False
    cfg.model.encoder.text.pretrained = 'clip.pt'
    with pytest.raises(ValueError, match='no pretrained weights for encoder.frames, so that'):
        load_retriever(cfg, None, device='cpu')


def test_pretrained_parts_and_the_rest():
    tower = dict(type='OpenCLIPFrames', model=MODEL)
    named = dict(
        encoder=dict(frames=dict(tower, pretrained='openai'), text=tower),
        objectives=[dict(a=dict(pretrained=None)), dict(type='TransformersText', model='bert')],
    )
    assert [*pretrained_parts(named)] == ['encoder.frames', 'objectives.1']
    for members in (dict(member=named), dict(members=[named, named])):
        assert set(pretrained_parts(members)) == {'encoder.frames', 'objectives.1'}
    projected = dict(encoder=dict(text=dict(type='TransformersText', model='bert', dim=8)))
    assert [*pretrained_parts(projected)] == ['encoder.text.transformer']
    register_all_modules()
    random = dict(
        type='VideoTextRetriever',
        encoder=dict(type='CLIP4Clip', frames=tower, text=dict(type='OpenCLIPText', model=MODEL)),
        similarity=dict(type='CosineSimilarity'),
        temperature=dict(type='Temperature', learnable=True),
        losses={},
    )
    several = registry.MODELS.build(dict(type='BackdoorRetriever', member=random))
    assert untrained_parts(several, {'encoder.frames'}) == ['encoder.text']
    assert untrained_parts(several, {'encoder.frames', 'encoder.text'}) == []
    assert untrained_parts(several, set()) == ['encoder.frames', 'encoder.text']
    part = {'encoder.frames', 'encoder.text.transformer', 'encoder.text.token_embedding'}
    left = ['ln_final', 'positional_embedding', 'text_projection']
    assert sorted(untrained_parts(several, part)) == [f'encoder.text.{name}' for name in left]


@pytest.mark.parametrize('path', TOWERS, ids=lambda path: path.stem)
def test_config(path):
    """One model everywhere; it can be built, and its parts are registered."""
    register_all_modules()
    options = dict(weights='/w.pt', transform='SinkhornHook', queries='test')
    cfg = load_config(str(path), options)
    encoder, dataset = cfg.model.encoder, cfg.test_dataloader.dataset
    assert encoder.frames.pretrained == encoder.text.pretrained == '/w.pt'
    load, resize = dataset.video_pipeline
    (tokenize,) = dataset.text_pipeline
    names = {encoder.frames.model, encoder.text.model, resize.model, tokenize.model}
    assert len(names) == 1 and (load.num_frames, load.sampling) == (12, 'per_second')
    (name,) = names
    tag = Config.fromfile(path).model.encoder.frames.pretrained
    assert tag in open_clip.list_pretrained_tags_by_model(name)
    assert registry.TRANSFORMS.build(resize).size
    for part in ('train', 'val'):
        assert cfg.get(f'{part}_dataloader') is None
    assert set(pretrained_parts(cfg.model)) == {'encoder.frames', 'encoder.text'}
    for hook in cfg.default_hooks.values():
        registry.HOOKS.build(hook)
    encoder.frames.pretrained = encoder.text.pretrained = None
    with torch.device('meta'):
        model = registry.MODELS.build(cfg.model)
    assert model.encoder.frames.image_size == registry.TRANSFORMS.build(resize).size


def test_configs_of_three_sets():
    sets = {path.stem.split('_')[1] for path in FILES}
    assert sets >= {'msrvtt', 'msvd', 'vatex', 'lsmdc', 'own'}


OWN = [config_file(f'zeroshot_own{variant}') for variant in ('', '_pe', '_st', '_remote')]


@pytest.mark.parametrize('path', OWN, ids=lambda path: path.stem)
def test_all_of_your_own_table(path):
    """The shortcuts of own.py reach the one set that there is; none names a set that is gone."""
    if path.stem.endswith('remote'):
        pytest.importorskip('mmvtr_gallery')
    cfg = Config.fromfile(path)
    options = dict.fromkeys(('table', 'videos', 'missing', 'on_broken', 'split_seed'), 'x')
    assert options.keys() < cfg.shortcuts.keys() and 'batch' not in cfg.shortcuts
    dataset = load_config(str(path), options | {'columns.text': 'txt'}).test_dataloader.dataset
    assert dataset.split == 'all' and dataset.columns == dict(video='video', text='txt')
    assert all(dataset[key] == 'x' for key in ('table', 'videos', 'missing', 'on_broken', 'seed'))
