"""Files and folders of open_clip: all of their weights are loaded, or what differs is named."""

import json

import open_clip
import pytest
import torch
from safetensors.torch import save_file

from mmvtr.models import OpenCLIPFrames, OpenCLIPText

MODEL = dict(
    embed_dim=16,
    vision_cfg=dict(layers=1, width=16, head_width=8, patch_size=16, image_size=32),
    text_cfg=dict(context_length=9, vocab_size=49408, width=16, heads=2, layers=1),
)


@pytest.fixture
def folder(tmp_path):
    """A folder with a config, without weights."""
    config = dict(model_cfg=MODEL, preprocess_cfg=dict(mean=[0.5] * 3, std=[0.25] * 3))
    (tmp_path / 'clip').mkdir()
    (tmp_path / 'clip' / 'open_clip_config.json').write_text(json.dumps(config))
    return tmp_path / 'clip'


def weights(seed=0):
    torch.manual_seed(seed)
    return {name: x.clone() for name, x in open_clip.CLIP(**MODEL).state_dict().items()}


def write(path, state):
    if path.suffix == '.safetensors':
        save_file(state, path)
    else:
        torch.save(state, path)
    return str(path)


def behind(start, state):
    return {start + name: x for name, x in state.items()}


@pytest.mark.parametrize(
    'names',
    [
        ['open_clip_model.safetensors'],
        ['open_clip_pytorch_model.bin', 'model.safetensors'],
        ['model.pth', 'a.safetensors'],
        ['epoch_3.pth'],
        ['mine.safetensors'],
    ],
)
def test_the_weights_of_a_folder_are_those_that_open_clip_takes(folder, names):
    for seed, name in enumerate(names):
        write(folder / name, weights(seed))
    model = f'local-dir:{folder}'
    theirs = open_clip.create_model(model)
    frames, text = OpenCLIPFrames(model), OpenCLIPText(model)
    assert torch.equal(frames.visual.proj, theirs.visual.proj)
    assert torch.equal(text.token_embedding.weight, theirs.token_embedding.weight)
    assert frames.image_mean == (0.5, 0.5, 0.5)


def test_what_comes_before_the_weights_of_a_folder(folder, tmp_path):
    write(folder / 'open_clip_model.safetensors', weights(1))
    model, other = f'local-dir:{folder}', weights(2)
    named = OpenCLIPFrames(model, write(tmp_path / 'other.pt', other))
    assert torch.equal(named.visual.proj, other['visual.proj'])
    random = OpenCLIPText(model, pretrained=False)
    assert not torch.equal(random.text_projection, weights(1)['text_projection'])


@pytest.mark.parametrize('tower', [OpenCLIPFrames, OpenCLIPText])
@pytest.mark.parametrize('left', [(), ('weights.pt', 'config.json'), ('a.bin.part',)])
def test_a_folder_without_weights(folder, tower, left):
    for name in left:
        (folder / name).write_text('{}')
    with pytest.raises(FileNotFoundError, match='a config and no weights.*pretrained=False'):
        tower(f'local-dir:{folder}')
    tower(f'local-dir:{folder}', pretrained=False)


def test_a_folder_of_several_weights_of_strange_names(folder):
    for name in ('epoch_1.pth', 'epoch_2.pth'):
        write(folder / name, weights())
    with pytest.raises(ValueError, match='several files of weights, epoch_1.pth, epoch_2.pth'):
        OpenCLIPFrames(f'local-dir:{folder}')


@pytest.mark.parametrize(
    'key', ['visual.proj', 'text_projection', 'transformer.resblocks.0.ln_1.bias']
)
def test_what_lacks_or_is_odd_is_named(tmp_path, key):
    """Also what the other tower would read: a file is that of a whole model."""
    state = weights()
    changes = {
        'missing (1)': {name: x for name, x in state.items() if name != key},
        'unexpected (1)': state | {f'{key}.more': torch.zeros(2)},
        'of another shape (1)': state | {key: torch.zeros(3, 5)},
    }
    for kind, state in changes.items():
        with pytest.raises(ValueError, match='a.pt does not hold weights of the given') as error:
            OpenCLIPFrames(MODEL, write(tmp_path / 'a.pt', state))
        assert f'{kind}: ' in str(error.value) and key in str(error.value)


@pytest.mark.parametrize(
    'wrap',
    [
        lambda w: behind('module.', w),
        lambda w: dict(state_dict=behind('module._orig_mod.', w), epoch=3),
        lambda w: dict(model=behind('_orig_mod.', w), optimizer={}),
        lambda w: behind('model.', w),
    ],
)
def test_names_behind_wrappers(tmp_path, wrap):
    state = weights()
    text = OpenCLIPText(MODEL, write(tmp_path / 'a.pt', wrap(state)))
    assert torch.equal(text.ln_final.weight, state['ln_final.weight'])
    assert torch.equal(text.token_embedding.weight, state['token_embedding.weight'])


def test_two_copies_are_refused(tmp_path):
    state = weights(1) | behind('module.', weights(2))
    with pytest.raises(ValueError, match='behind different wrappers'):
        OpenCLIPFrames(MODEL, write(tmp_path / 'a.pt', state))


@pytest.mark.parametrize('value', [float('nan'), float('-inf')])
@pytest.mark.parametrize('keys', [['visual.proj'], ['ln_final.bias'], None])
def test_numbers_that_are_none(tmp_path, keys, value):
    state = weights()
    for key in keys or state:
        state[key] = torch.full_like(state[key], value)
    count = len(keys or state)
    with pytest.raises(ValueError, match=f'{count} of its .* are not finite') as error:
        OpenCLIPFrames(MODEL, write(tmp_path / 'a.safetensors', state))
    assert (keys or ['text.ln_final.bias'])[0] in str(error.value)


def test_what_no_tower_reads_may_be_missing(tmp_path):
    state = weights()
    del state['logit_scale']
    frames = OpenCLIPFrames(MODEL, write(tmp_path / 'a.pt', state))
    assert torch.equal(frames.visual.proj, state['visual.proj'])


def test_positions_of_another_size_are_said(tmp_path, monkeypatch):
    said = []
    monkeypatch.setattr(
        'mmvtr.models.towers.open_clip_weights.print_log', lambda text, *_: said.append(text)
    )
    path = write(tmp_path / 'a.pt', weights())
    OpenCLIPFrames(MODEL, path)
    assert not said
    larger = {**MODEL, 'vision_cfg': {**MODEL['vision_cfg'], 'image_size': 64}}
    assert OpenCLIPFrames(larger, path).image_size == (64, 64)
    assert len(said) == 1 and '(5, 16) is interpolated to (17, 16)' in said[0]
